"""When torch must compile a call of a compiled module anew.

`torch.compile` keeps what a call traced to, and asks before each use whether its guards still hold.
Ours is what capture goes by as well: the snapshot of everything that the code reaches.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn

from gossamer.capture.refusal import CannotSnapshot
from gossamer.capture.session import Options, Session
from gossamer.errors import UnsupportedError
from gossamer.report import Fallback

try:
    from torch._library.opaque_object import MemberType, register_opaque_type
    from torch._opaque_base import OpaqueBase
except ImportError:  # torch without guards of other libraries
    OpaqueBase = object
    register_opaque_type = None

_guards: weakref.WeakValueDictionary[int, TraceGuard] = weakref.WeakValueDictionary()


class TraceGuard(OpaqueBase):
    """What a session's module or function reaches, for torch to compare before each use.

    Attributes:
        session, root: whose calls it guards.
    """

    def __init__(self, session: Session, root: Callable) -> None:
        self.session = session
        self.root = root
        self._number = id(self)
        _guards[self._number] = self

    def number(self) -> int:
        """Which guard this is."""
        return self._number

    def state(self) -> _State:
        """Equal states: the same code, reaching the same values up to its tensors' contents.

        Raises:
            UnsupportedError: something is reached that nobody can compare, or a tensor that is
                neither parameter nor buffer, which torch would keep as a constant.
        """
        try:
            reached = self.session.reach(self.root)
        except CannotSnapshot as error:
            place = error.file, error.line
            raise self._unsupported(error.reason, error.remedy or "", *place) from error
        known: set[int] = set()
        if isinstance(self.root, nn.Module):
            known = {id(tensor) for tensor in (*self.root.parameters(), *self.root.buffers())}
        for tensor in reached.tensors:
            if id(tensor) not in known:
                raise self._unsupported(
                    f"reaches a tensor of shape {tuple(tensor.shape)} that is neither an argument "
                    "nor a parameter or buffer of the compiled module",
                    "register it, or pass it",
                )
        floats = tuple(value.hex() for value in reached.floats.values())
        return _State((self._number, reached.key, floats, torch.get_default_dtype()))

    def _unsupported(self, reason: str, remedy: str, file: Any = None, line: int = 0) -> Exception:
        if not file:
            file, line = type(self.root).__qualname__, 0
        return UnsupportedError(Fallback(file, line, reason, remedy, "torch.compile"))


class _State:
    """A key that is its own copy: torch copies what it guards on."""

    __slots__ = ("_key",)

    def __init__(self, key: Hashable) -> None:
        self._key = key

    def __eq__(self, other: object) -> bool:
        return type(other) is _State and self._key == other._key

    __hash__ = None

    def __deepcopy__(self, memo: dict) -> _State:
        return self


if register_opaque_type is not None:
    register_opaque_type(
        TraceGuard,
        typ="reference",
        guard_fn=lambda guard: [guard.state()],
        members={"number": MemberType.USE_REAL},
    )


class GuardedSession(Session):
    """The session of one module or function.

    Attributes:
        guard: what torch asks before it uses a trace of a call.
    """

    def __init__(self, options: Options, root: Callable) -> None:
        super().__init__(options, getattr(root, "__qualname__", type(root).__qualname__))
        self.guard = TraceGuard(self, root)


def guard_number(session: GuardedSession) -> int:
    """The number of a session's guard; under dynamo this installs it."""
    if register_opaque_type is None:
        raise RuntimeError(
            "torch.compile of a compiled module needs torch 2.13 or later; with this torch, call "
            "the compiled module outside"
        )
    return session.guard.number()


def guarded(number: int) -> TraceGuard:
    """The guard with this number."""
    return _guards[number]
