"""Which code a walk reaches, and the names in it: those decide which attributes are followed."""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.capture.code_names import CodeFacts


class Scope:
    """Code that a walk reaches, and the names in it.

    Attributes:
        codes: the code objects.
        escapes: some method lets go of its `self` other than by reading attributes.
        names: all names that occur in `codes`.
        inspects: some of `codes` may ask for the type or the text of a number.
    """

    __slots__ = ("codes", "escapes", "inspects", "names")

    def __init__(self, codes: Iterable[CodeFacts] = (), escapes: bool = False) -> None:
        """The scope of a walk that reached `codes`."""
        self.codes = frozenset(codes)
        self.escapes = escapes
        self.names = frozenset().union(*[facts.names for facts in self.codes])
        self.inspects = any(facts.inspects for facts in self.codes)


class EveryName:
    """The set of all names."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY_NAME = EveryName()
