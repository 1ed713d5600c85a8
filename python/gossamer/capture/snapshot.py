"""The key under which a traced UDF is found again, and what must be passed to it on each call.

A UDF is traced once; the next call with an equal key uses the trace. So the key must tell apart any
two calls that could behave differently:

    snap = snapshot(udf)
    traced = cache.get((snap.key, snap.float_bits))
    ... traced.run([lifted.tensor for lifted in snap.tensors])

The key holds code objects and the values of everything that code can reach: closure cells,
defaults, partial arguments, globals, attributes, hooks (`reach.py`). Tensors are *lifted*: the key
has their schema only, and their values are inputs. Floats are listed apart, so that one that
changes from call to call can become an input as well. Whatever has no such form (files, clocks,
random numbers, locks, writes to outer state) raises `CannotSnapshot`. Not in the key, since they
are not reached by names: grad mode, autocast, torch's default dtype and device.
"""

from __future__ import annotations

import functools
import struct
import types
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch

from gossamer.capture import values  # noqa: F401  (fills the table of handlers)
from gossamer.capture.code_names import facts_of
from gossamer.capture.purity import is_torch_file
from gossamer.capture.reach import Walk
from gossamer.capture.refusal import CannotSnapshot
from gossamer.capture.scope import Scope
from gossamer.capture.tokens import ROOT, Place
from gossamer.capture.weak_identity import WeakIdentityCache

Path = Place
_REMEMBERED = 4


def format_path(path: Path | None) -> str:
    """`path` as text, from the function inwards: ``udf.self.fc.weight``."""
    if path is None:
        return "a class"
    words: list[str] = []
    while path:
        path, kind, name = path
        indexed = kind in ("item", "argument", "default")
        words.append(f"[{name!r}]" if indexed else f".{name or kind}")
    return "".join(reversed(words)).removeprefix(".")


class Lifted(NamedTuple):
    """A tensor that is an input of the traced UDF.

    `path` is None for a tensor that is reached only through a class or a library (a class
    attribute, a global of a class's method): `substitute` can't replace it, and the tracer must
    know it by identity.
    """

    path: Path | None
    tensor: torch.Tensor


class Snapshot:
    """What a UDF depends on at one moment.

    Attributes:
        key: equal keys and equal `float_bits` mean the same behaviour, up to values of `tensors`.
        tensors: every tensor that the code can reach, once each, in the order of the walk.
        floats: ``(path, value)`` of the floats that `substitute` can replace.
        inspects: the code may ask for the type or the text of a float, so none can be a symbol.
    """

    __slots__ = ("_scope", "_traced", "floats", "inspects", "key", "tensors")

    def __init__(self, walk: Walk) -> None:
        """What `walk` found."""
        self.key: Hashable = tuple(walk.out)
        self.tensors = [Lifted(place, tensor) for place, tensor in walk.tensors]
        self.floats = walk.floats
        self.inspects = walk.scope.inspects
        self._scope = walk.scope
        self._traced = walk.traced

    @property
    def float_bits(self) -> bytes:
        """The exact values of `floats`: tells 0.0 from -0.0, and nan equals itself."""
        return struct.pack(f"{len(self.floats)}d", *[value for _, value in self.floats])

    def unchanged(self, udf: Any) -> bool:
        """True when everything that `udf` reaches is as it was: no attribute, item or tensor moved.

        In-place changes of a tensor's values are not seen here; they are operations of the trace.
        """
        try:
            now = _snapshot(udf, self._scope, self._traced)
        except CannotSnapshot:
            return False
        return (
            now.key == self.key
            and now.float_bits == self.float_bits
            and len(now.tensors) == len(self.tensors)
            and all(a.tensor is b.tensor for a, b in zip(now.tensors, self.tensors, strict=True))
        )


def snapshot(udf: Any, traced: bool = False) -> Snapshot:
    """What `udf` (function, bound method, partial, callable object, module) depends on now.

    With `traced`, fake tensors and symbolic numbers are accepted as values: for the copy that
    `substitute` made for the tracer, to ask afterwards whether the trace left it `unchanged`.

    Raises:
        CannotSnapshot: the behaviour depends on something else, named with file and line.
    """
    return _snapshot(udf, None, traced)


def _snapshot(udf: Any, scope: Scope | None, traced: bool) -> Snapshot:
    return Snapshot(walk_all(udf, scope, traced))


def walk_all(
    udf: Any, scope: Scope | None = None, traced: bool = False, make: type[Walk] = Walk
) -> Walk:
    """The walk over `udf` whose scope it fits; `scope` is tried before any other."""
    if not callable(udf):
        raise TypeError(f"a user-defined function must be callable, not {type(udf).__name__}")
    scopes = _scopes(udf) if scope is None else [scope]
    for known in scopes:
        try:
            walk = _walk(udf, known, traced, make)
        except CannotSnapshot:
            continue  # of names that this object doesn't use; the walk below decides
        if walk.fits():
            return walk
    walk = _walk_from_nothing(udf, traced, make)
    if scope is None:
        scopes[:] = [walk.scope, *scopes[: _REMEMBERED - 1]]
    return walk


def _walk_from_nothing(udf: Any, traced: bool, make: type[Walk]) -> Walk:
    """The walk with the least scope that it fits."""
    walk = _walk(udf, Scope(), traced, make)
    while not walk.fits():
        walk = _walk(udf, Scope(walk.reached, walk.escapes), traced, make)
    return walk


def _walk(udf: Any, scope: Scope, traced: bool, make: type[Walk]) -> Walk:
    """A walk with these names, repeated until it is known what can't be substituted."""
    pinned: frozenset[int | tuple] = frozenset()
    earlier = []  # keeps temporary objects alive, so that their ids stay theirs
    while True:
        walk = make(scope, pinned, traced)
        try:
            walk.value(udf, ROOT, "udf", "")
        except CannotSnapshot as refusal:
            _place(refusal, walk, udf)
            raise
        except RecursionError:
            refusal = CannotSnapshot(
                "reaches values that are nested too deeply", "keep them in a flat list"
            )
            _place(refusal, walk, udf)
            raise refusal from None
        if not walk.newly_pinned:
            return walk
        earlier.append(walk)
        pinned |= walk.newly_pinned


_class_scopes = WeakIdentityCache(lambda cls: [])


def _scopes(udf: Any) -> list[Scope]:
    """The scopes of the last walks over callables like `udf`, the latest first."""
    root = _root(udf)
    if type(root) is types.FunctionType:
        return facts_of(root.__code__).scopes
    return _class_scopes(type(root))


def _root(udf: Any) -> Any:
    """The function inside of partials and bound methods, or the callable object itself."""
    while type(udf) is functools.partial:
        udf = udf.func
    return udf.__func__ if type(udf) is types.MethodType else udf


def _place(refusal: CannotSnapshot, walk: Walk, udf: Any) -> None:
    """Gives `refusal` the place in reached code that names what was found."""
    if refusal.file is not None:
        return
    # Torch may have wrapped a function of its own: then the user's name of it counts.
    called = refusal.reason.rpartition("`")[0].rpartition(".")[2]
    for name in (*refusal.names, called):
        for facts in reversed(walk.reached.keys()):
            if name in facts.lines and not is_torch_file(facts.file):
                refusal.file, refusal.line = facts.file, facts.lines[name]
                return
    root = _root(udf)
    if type(root) is types.FunctionType:
        facts = facts_of(root.__code__)
        refusal.file, refusal.line = facts.file, facts.line
    else:
        refusal.file, refusal.line = f"<{type(root).__qualname__}>", 0
