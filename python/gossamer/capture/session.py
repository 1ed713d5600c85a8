"""What one compiled module has learnt: captures by key, programs, and what runs eagerly.

A capture is found by the snapshot of the user's functions and the schemas of the fields that they
can see.  Python floats are not part of that key: a function is first captured with the floats it
has, and a float that is seen to vary becomes a run-time scalar of the next capture.
"""

from __future__ import annotations

import functools
import math
import struct
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.capture import autocast
from gossamer.capture.call import CapturedCall, ColumnSpec
from gossamer.capture.errors import UntraceableError
from gossamer.capture.func_transforms import transform_at_work
from gossamer.capture.refusal import CannotSnapshot
from gossamer.capture.snapshot import Snapshot, snapshot
from gossamer.capture.stored import CALLS
from gossamer.capture.user_place import is_library, user_place
from gossamer.capture.witness import Witness, witnessed
from gossamer.errors import FallbackWarning, RandomNumbersWarning, UnsupportedError
from gossamer.report import Compilation, Fallback

if TYPE_CHECKING:
    from gossamer.capture.whole import Whole

#: Captures of one function that differ in the values of floats only; then it runs eagerly.
MAX_VARIANTS = 8

_OUTSIDE_OF_TRANSFORMS = "take gradients with backward or torch.autograd.grad"

_CHOICES = {
    "fallback": ("eager", "error"),
    "backend": ("native", "torch"),
    "numerics": ("fast", "strict"),
    "target": ("host", "generic"),
    "rng": ("compiled", "eager"),
    "tune": (False, True),
}


@dataclass(frozen=True)
class Options:
    """How to compile: the keyword arguments of ``gossamer.compile``.

    ``without`` is for those who work on the compiler: optional passes to leave out, by the names
    in ``gossamer/passes/Pipeline.h``. ``CompiledModule(model, Options(without=...))`` takes it.
    """

    fallback: str = "eager"
    backend: str = "native"
    numerics: str = "fast"
    target: str = "host"
    rng: str = "compiled"
    keep_fields: bool = False
    tune: bool = False
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(
                    f"{name} is one of {', '.join(map(repr, choices))}, but found {value!r}"
                )


@dataclass(frozen=True)
class Site:
    """A graph call of the user's program, ready to be captured."""

    kind: str
    functions: tuple[Callable | None, Callable | None, Callable | None]
    src: dict[str, ColumnSpec]
    dst: dict[str, ColumnSpec]
    edge: dict[str, ColumnSpec]
    homogeneous: bool
    idtype: torch.dtype
    canonical_etype: tuple[str, str, str]
    device: str
    softmax_end: str = "dst"
    initializers: tuple[tuple[str, float], ...] = ()

    def schema(self) -> Hashable:
        """Everything but the functions, for the cache key."""
        frames = tuple(tuple(frame.items()) for frame in (self.src, self.dst, self.edge))
        names = (self.canonical_etype, self.device, self.softmax_end, self.initializers)
        return (self.kind, frames, self.homogeneous, self.idtype, *names)


@dataclass(frozen=True)
class Reached:
    """What the functions of a site reach: a key, tensors, and floats by function and path.

    With ``inspects`` no float may become a run-time scalar: see ``CodeFacts``.
    """

    key: Hashable
    tensors: list[Tensor]
    floats: dict[tuple[int, Hashable], float]
    inspects: bool = False


@dataclass(frozen=True)
class Captured:
    """A captured call with the tensors and scalars of this call."""

    call: CapturedCall
    lifted: list[Tensor]
    scalars: list[float]


@dataclass
class _Variant:
    """One capture: the floats it was specialised on, and those that are run-time scalars."""

    fixed: dict[tuple[int, Hashable], float]
    scalars: tuple[tuple[int, Hashable], ...]
    call: CapturedCall

    def accepts(self, floats: dict[tuple[int, Hashable], float]) -> bool:
        return all(_same(floats[path], value) for path, value in self.fixed.items())


@dataclass
class _Entry:
    """All captures of one site; `refusal` when it runs eagerly."""

    variants: list[_Variant] = field(default_factory=list)
    refusal: Fallback | None = None


@dataclass
class ProgramRecord:
    """A program as one compiled module uses it."""

    program: object
    compilation: Compilation
    lines: frozenset[tuple[str, int]]
    path: str

    @property
    def identity(self) -> Hashable:
        """Equal for two records of one program."""
        return self.text("captured"), self.program.options

    @property
    def buffers(self) -> list[dict]:
        """Every array that the program makes."""
        options = self.program.options
        backward = options is not None and options.differentiate == "backward"
        entry = "backward" if backward else "forward"
        return [
            {**buffer, "entry": entry, "bytes": self._bytes(buffer)}
            for buffer in self.program.buffers
        ]

    def _bytes(self, buffer: dict) -> int | None:
        rows = self.program.rows(buffer["rows"], buffer["graph"])
        item = getattr(torch, buffer["dtype"]).itemsize
        return None if rows is None else rows * math.prod(buffer["shape"]) * item

    @property
    def remarks(self) -> list[dict]:
        """What the passes said."""
        return self.program.remarks

    def text(self, stage: str) -> str:
        """The IR at one stage."""
        return self.program.text(stage)


class Session:
    """The memory of one compiled module or function. May be used by several threads."""

    def __init__(self, options: Options, name: str) -> None:
        self.options = options
        self.name = name
        self.plans: dict[Hashable, object] = {}
        self.programs: list[ProgramRecord] = []
        self.fallbacks: dict[tuple[str, int, str], Fallback] = {}
        self.lock = threading.RLock()
        #: How many graph calls fell back so far, counting repetitions.
        self.refused = 0
        self._entries: dict[Hashable, _Entry] = {}
        self._draws = False

    def capture(self, site: Site) -> Captured | Fallback:
        """The captured form of a graph call, or why it runs eagerly."""
        transform = transform_at_work()
        if transform is not None:
            return _refusal(site, UntraceableError(transform, remedy=_OUTSIDE_OF_TRANSFORMS))
        try:
            reached = _reach(site.functions)
        except CannotSnapshot as error:
            return _refusal(site, error)
        key = (reached.key, site.schema(), _ambient())
        with self.lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry()
            if entry.refusal is not None:
                return entry.refusal
            variant = next((v for v in entry.variants if v.accepts(reached.floats)), None)
            if variant is None:
                variant = self._specialise(entry, site, reached, key)
            if isinstance(variant, Fallback):
                return variant
        scalars = [reached.floats[path] for path in variant.scalars]
        return Captured(variant.call, reached.tensors, scalars)

    @functools.cached_property
    def whole(self) -> Whole:
        """The whole plans."""
        from gossamer.capture.whole import Whole

        return Whole(self)

    def reach(self, function: Callable) -> Reached:
        """What a function reaches.

        Raises:
            CannotSnapshot: something that no key can hold.
        """
        return _reach((function,))

    def reach_witnessed(self, function: Callable) -> tuple[Reached, Witness | None]:
        """As `reach`, and what tells cheaply that the function still reaches that."""
        snap, witness = witnessed(function)
        return _combined((snap,)), witness

    def note_draws(self, call: CapturedCall) -> None:
        """Warn, once, that random numbers of a call are not torch's bits."""
        if call.draws_at and not self._draws:
            self._draws = True
            warnings.warn(RandomNumbersWarning(*call.draws_at), stacklevel=2)

    def refuse(self, fallback: Fallback) -> None:
        """Report a call that runs eagerly: once per place; an error when asked for."""
        self.refused += 1
        if self.options.fallback == "error":
            raise UnsupportedError(fallback)
        with self.lock:
            place = (fallback.file, fallback.line, fallback.reason)
            if place in self.fallbacks:
                return
            self.fallbacks[place] = fallback
        warnings.warn(FallbackWarning(fallback), stacklevel=2)

    def _specialise(
        self, entry: _Entry, site: Site, reached: Reached, key: Hashable
    ) -> _Variant | Fallback:
        varying = () if reached.inspects else _varying(entry.variants, reached.floats)
        attempts = [varying, ()] if varying else [()]
        for scalars in attempts:
            if len(entry.variants) >= MAX_VARIANTS:
                break
            try:
                call = self._captured(site, reached, scalars, key)
            except (UntraceableError, CannotSnapshot) as error:
                refusal = _refusal(site, error)
                continue
            fixed = {p: v for p, v in reached.floats.items() if p not in set(scalars)}
            variant = _Variant(fixed, scalars, call)
            entry.variants.append(variant)
            self.note_draws(call)
            return variant
        if len(entry.variants) >= MAX_VARIANTS:
            refusal = _too_many(site)
        if not entry.variants or len(entry.variants) >= MAX_VARIANTS:
            entry.refusal = refusal
        return refusal

    def _captured(
        self, site: Site, reached: Reached, scalars: tuple, key: Hashable
    ) -> CapturedCall:
        """The capture of a call, from the disk when it is there."""
        floats = [None if p in scalars else v for p, v in reached.floats.items()]
        name = CALLS.name(self.options, key, floats)
        call = CALLS.get(name)
        if call is None:
            from gossamer.capture.trace_unchanged import trace_unchanged

            call = trace_unchanged(site, reached, scalars, self.options.rng)
            CALLS.put(name, call)
        return call


def _reach(functions: tuple[Callable | None, ...]) -> Reached:
    return _combined([None if each is None else snapshot(each) for each in functions])


def _combined(snapshots: Sequence[Snapshot | None]) -> Reached:
    keys: list[Hashable] = []
    tensors: dict[int, Tensor] = {}
    floats: dict[tuple[int, Hashable], float] = {}
    for index, snap in enumerate(snapshots):
        if snap is None:
            keys.append(None)
            continue
        keys.append(snap.key)
        for lifted in snap.tensors:
            tensors.setdefault(id(lifted.tensor), lifted.tensor)
        positions = {identity: i for i, identity in enumerate(tensors)}
        keys.append(tuple(positions[id(lifted.tensor)] for lifted in snap.tensors))
        floats.update({(index, path): value for path, value in snap.floats})
    inspects = any(snap.inspects for snap in snapshots if snap is not None)
    return Reached(tuple(keys), list(tensors.values()), floats, inspects)


def _varying(variants: list[_Variant], floats: dict) -> tuple:
    """Paths of floats that are not as in every earlier capture, in a fixed order."""
    paths = set()
    for variant in variants:
        paths.update(variant.scalars)
        paths.update(p for p, value in variant.fixed.items() if not _same(floats[p], value))
    return tuple(path for path in floats if path in paths)


def _same(left: float, right: float) -> bool:
    """Bitwise equality: tells 0.0 from -0.0 and finds a NaN equal to itself."""
    return struct.pack("d", left) == struct.pack("d", right)


def _ambient() -> Hashable:
    """State of the process that changes what torch code does."""
    return (torch.get_default_dtype(), autocast.state(), torch.is_grad_enabled())


def _refusal(site: Site, error: CannotSnapshot | UntraceableError) -> Fallback:
    file, line = error.file, error.line
    if not file:
        file, line = definition(site)
    return Fallback(file, int(line), error.reason, error.remedy or "", site.kind)


def _too_many(site: Site) -> Fallback:
    file, line = definition(site)
    reason = f"a number used here had {MAX_VARIANTS} values and decides more than arithmetic"
    return Fallback(file, line, reason, "pass it as a tensor", site.kind)


def definition(site: Site) -> tuple[str, int]:
    """Where the first user function of the call is defined, or else where the graph is called, for
    refusals without a better place.
    """
    for function in site.functions:
        code = _code(function)
        if code is not None and not is_library(code.co_filename):
            return code.co_filename, code.co_firstlineno
    file, line = user_place()
    return file or "<unknown>", line


def _code(function: object) -> object | None:
    while hasattr(function, "func"):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None and callable(function):
        method = getattr(type(function), "forward", None) or type(function).__call__
        code = getattr(method, "__code__", None)
    return code
