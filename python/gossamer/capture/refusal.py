"""Why a callable cannot be snapshot, told with the user's file and line."""

from __future__ import annotations

from gossamer.errors import GossamerError


class CannotSnapshot(GossamerError):
    """The behaviour of a UDF depends on something that a cache key cannot hold.

    Cause: the code reaches a value or an effect outside of tensors and plain Python values: a
    file, a clock, a random number generator, a write to outer state. Such a call runs eagerly.

    Failing: ``lambda edges: {"m": edges.src["h"] * random.random()}``

    Working: draw the number outside of the UDF and capture it: ``lambda edges, s=s: {...  * s}``

    Attributes: ``reason`` (what was found), ``file`` and ``line`` (where the user's code reaches
    it), ``remedy`` (what to write instead).
    """

    def __init__(
        self,
        reason: str,
        remedy: str,
        names: tuple[str, ...] = (),
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        """`names` are those by which the value was reached; they lead to the line later."""
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.names = names
        self.file = file
        self.line = line

    def __str__(self) -> str:
        """Place, reason and remedy in one line."""
        return f"{self.file}:{self.line}: {self.reason}; {self.remedy}"
