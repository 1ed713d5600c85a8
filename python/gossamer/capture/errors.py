"""Why a user-defined function cannot be captured; the call then runs eagerly."""

from __future__ import annotations

from gossamer.errors import GossamerError


class UntraceableError(GossamerError):
    """A user-defined function does something that one program for all rows cannot express.

    Cause: capture runs the function once, on tensors without data whose row counts and mailbox
    degree are unknown. A decision on a value, on a row count or on the degree cannot be taken
    then.

    >>> def message(edges):
    ...     m = edges.src["h"]
    ...     return {"m": m if m.sum() > 0 else -m}                      # fails: a branch on data
    >>> def message(edges):
    ...     m = edges.src["h"]
    ...     return {"m": torch.where(m.sum(1, keepdim=True) > 0, m, -m)}  # works: a choice per row

    Attributes:
        reason: what was found.
        file, line: where in the user's code; None and 0 when no user code is on the stack.
        remedy: what to write instead, or "".
    """

    def __init__(self, reason: str, file: str | None = None, line: int = 0, remedy: str = ""):
        place = f"{file}:{line}: " if file else ""
        super().__init__(place + reason + (f"; {remedy}" if remedy else ""))
        self.reason = reason
        self.file = file
        self.line = line
        self.remedy = remedy

    def at(self, file: str | None, line: int) -> UntraceableError:
        """The same error at a place, unless it has one already."""
        if self.file is not None or file is None:
            return self
        return UntraceableError(self.reason, file, line, self.remedy)
