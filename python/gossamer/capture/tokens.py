"""The words of which keys are made, and the table of how each kind of value is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.capture.reach import Walk

Place = tuple  # (Place | None, kind: str, name)
ROOT: Place = ()


class Token:
    """A word of the token sequence that no user value equals."""

    __slots__ = ("word",)

    def __init__(self, word: str) -> None:
        """A token that prints as `word`."""
        self.word = word

    def __repr__(self) -> str:
        """The word."""
        return f"<{self.word}>"


AGAIN, END, MISSING = Token("again"), Token("end"), Token("missing")
FUNCTION, METHOD, LIBRARY = Token("function"), Token("method"), Token("library")
MODULE, CLASS = Token("module"), Token("class")
METHOD_NAMES = frozenset(("forward", "_call_impl", "_wrapped_call_impl"))

Handler = Callable[["Walk", Any, Any, str, Any], None]
HANDLERS: dict[type, Handler] = {}
KINDS: dict[str, Handler] = {}


def handles(*types_: type, kind: str | None = None) -> Callable[[Handler], Handler]:
    """Registers how values of exactly these types, or of one kind of class, are written."""

    def register(handler: Handler) -> Handler:
        for each in types_:
            HANDLERS[each] = handler
        if kind is not None:
            KINDS[kind] = handler
        return handler

    return register
