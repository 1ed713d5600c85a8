"""Whole mode: a whole forward as one program, with none of the user's Python in a call.

The first call with new arguments looks for a capture on the disk (`stored.py`); without one it runs
in region mode. When it fell back nowhere, the second one captures forward: it runs once, on a copy
of the model, with graphs and tensors without data. The capture is used only when it is proved that
nothing else than the results and the fields left on the graphs came of it:

- the snapshot refuses code that writes attributes or globals, prints, or reads clocks and files;
- the recorder refuses random numbers outside of user-defined functions, decisions on values or
  sizes, and writes to what outlives the call (parameters, buffers, arguments, fields);
- afterwards the copy and the arguments' containers must be as they were.

What the capture relied on is the plan's key (code and values that it reaches, schemas, modes), or
is checked by `WholePlan.fits`.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gossamer.errors import CompileError
from gossamer.frame import Frame

from . import autocast
from .argument_form import ArgumentForm
from .errors import UntraceableError
from .func_transforms import transform_at_work
from .refusal import CannotSnapshot
from .stored import FORWARDS
from .whole_arguments import Arguments, Unsuited
from .whole_plan import WholePlan
from .whole_record import Trace

if TYPE_CHECKING:
    from .session import Reached, Session
    from .witness import Witness

#: Captures of one compiled module that fail, and that succeed, before it stays in region mode.
MAX_REFUSALS = 4
MAX_PLANS = 16
#: Calls that fell back before a kind of arguments is no longer looked at.
_MAX_FALLBACKS = 3
#: Kinds of arguments that are remembered.
_MAX_SITES = 128
#: Keys with which a call went through in region mode; more means that they hardly come again.
_MAX_SEEN = 16

_FIRST = "the first call with this code and these arguments"
_FELL_BACK = "a graph call fell back to eager"

#: Objects that change with each call are not worth a look before the walk.
_MAX_RENEWALS = 16


@dataclass
class _Site:
    """What is known of one kind of arguments. The owner is kept, so that its id stays its own.

    `last` is what the function reached in the last whole call; `renewals` counts how often that
    was found to have changed, `forms` how often arguments of this kind were taken apart.
    """

    owner: object
    seen: set[Hashable] = field(default_factory=set)
    plans: dict[Hashable, list[WholePlan]] = field(default_factory=dict)
    fell_back: int = 0
    refusal: str | None = None
    last: _Last | None = None
    renewals: int = 0
    forms: int = 0

    def renew(self, witness: Witness | None, reached: Reached, plans: list[WholePlan]) -> None:
        """Remember what a walk found."""
        self.renewals += 1
        self.last = None if witness is None else _Last(witness, reached, plans)


@dataclass(frozen=True)
class _Last:
    """What a whole call reached, and the plans for that."""

    witness: Witness
    reached: Reached
    plans: list[WholePlan]


@dataclass(frozen=True)
class Candidate:
    """A call in region mode that, if it falls back nowhere, makes the next one whole."""

    site: _Site
    key: Hashable
    refused: int


class Ready(NamedTuple):
    """A call that runs as one program."""

    plan: WholePlan
    arguments: Arguments
    reached: Reached

    def run(self) -> Any:
        """What the call returns; fields are written to the graphs."""
        return self.plan.run(self.arguments, self.reached)


class Whole:
    """The whole plans of one compiled module, and how its calls ran.

    Attributes:
        mode: "whole" or "region", of the last call; `reason` says why.
    """

    def __init__(self, session: Session) -> None:
        self.mode = "region"
        self.reason = "not called yet"
        self._calls: dict[tuple[str, str], int] = {}
        self._counting = threading.Lock()
        self._session = session
        self._sites: dict[Hashable, _Site] = {}
        self._forms: dict[Hashable, tuple[ArgumentForm, _Site]] = {}
        self._refusals = 0
        self._plans = 0
        self._lock = threading.RLock()

    def find(self, function: Callable, args: tuple, kwargs: dict) -> Ready | Candidate | None:
        """How to run a call: as one program, or in region mode."""
        if self._refusals >= MAX_REFUSALS:
            return self._region(self.reason)
        reason = _unusual_state()
        if reason is not None:
            return self._region(reason)
        state = _state(function)
        form, site = self._forms.get(state, (None, None))
        arguments = None if form is None else form.arguments(args, kwargs)
        try:
            if arguments is None:
                arguments = Arguments(args, kwargs)
                site = self._site(function, state, arguments)
                self._remember(state, arguments, site)
            if site.refusal is not None:
                return self._region(site.refusal)
            return self._find(site, function, arguments)
        except Unsuited as error:
            return self._region(error.reason)

    def _remember(self, state: Hashable, arguments: Arguments, site: _Site) -> None:
        """Try the form of these arguments first from now on, unless forms change all the time."""
        site.forms += 1
        if site.forms <= _MAX_RENEWALS:
            form = ArgumentForm.of(arguments)
            self._forms[state] = (form, site)

    def calls(self) -> dict[tuple[str, str], int]:
        """How many calls ran in a mode for a reason."""
        with self._counting:
            return dict(self._calls)

    def note(self, candidate: Candidate) -> None:
        """A call went through in region mode; remember it when nothing fell back."""
        site = candidate.site
        if candidate.refused != self._session.refused:
            self._region(_FELL_BACK)
            site.fell_back += 1
            if site.fell_back >= _MAX_FALLBACKS and not site.plans:
                site.refusal = self.reason
            return
        self._region(_FIRST)
        site.seen.add(candidate.key)
        if len(site.seen) >= _MAX_SEEN and not site.plans:
            site.refusal = "what forward depends on changes from call to call"

    def _region(self, reason: str) -> None:
        self._note_mode("region", reason)

    def _note_mode(self, mode: str, reason: str) -> None:
        self.mode, self.reason = mode, reason
        kind = mode, reason
        with self._counting:
            self._calls[kind] = self._calls.get(kind, 0) + 1

    def _site(self, function: Callable, state: Hashable, arguments: Arguments) -> _Site:
        key = (state, arguments.key)
        site = self._sites.get(key)
        if site is None:
            with self._lock:
                while len(self._sites) >= _MAX_SITES:
                    del self._sites[next(iter(self._sites))]
                    self._forms.clear()
                site = self._sites.setdefault(key, _Site(_parts(function)))
        return site

    def _find(
        self, site: _Site, function: Callable, arguments: Arguments
    ) -> Ready | Candidate | None:
        last = site.last
        if last is not None and last.witness.holds():
            for plan in last.plans:
                if plan.fits(arguments):
                    return self._ready(plan, arguments, last.reached)
        try:
            reached, witness = self._reach(site, function)
        except CannotSnapshot as error:
            return self._refuse(site, f"{error.file}:{error.line}: {error.reason}")
        key = (reached.key, tuple(value.hex() for value in reached.floats.values()))
        plans = site.plans.get(key, ())
        for plan in plans:
            if plan.fits(arguments):
                site.renew(witness, reached, plans)
                return self._ready(plan, arguments, reached)
        if self._plans >= MAX_PLANS:
            return self._region(f"there are {MAX_PLANS} whole programs already")
        name = self._entry(key, function, arguments)
        trace = FORWARDS.get(name)
        if trace is None and key not in site.seen:
            return Candidate(site, key, self._session.refused)
        return self._capture(site, key, function, arguments, reached, name, trace)

    def _entry(self, key: Hashable, function: Callable, arguments: Arguments) -> str | None:
        """The name under which the disk has the trace of a call."""
        training = getattr(_parts(function)[0], "training", None)
        fields = [_fields(frame) for frame in arguments.frames]
        keys = (key, training, arguments.key, fields, _ambient())
        return FORWARDS.name(self._session.options, *keys)

    def _capture(
        self,
        site: _Site,
        key: Hashable,
        function: Callable,
        arguments: Arguments,
        reached: Reached,
        name: str | None,
        trace: Trace | None,
    ) -> Ready | None:
        """A call with a plan made for it, from the trace that the disk has or from a new one."""
        with self._lock:
            try:
                stored = trace is not None
                if trace is None:
                    from .whole_trace import trace_forward

                    trace = trace_forward(function, arguments, reached, self._session.options.rng)
                plan = WholePlan(trace, self._session, arguments, reached)
            except (UntraceableError, CannotSnapshot, CompileError) as error:
                place = f"{error.file}:{error.line}: " if error.file else ""
                return self._refuse(site, place + error.reason)
            if not stored:
                FORWARDS.put(name, trace)
            self._session.note_draws(trace.call)
            site.plans.setdefault(key, []).append(plan)
            self._plans += 1
        return self._ready(plan, arguments, reached)

    def _reach(self, site: _Site, function: Callable) -> tuple[Reached, Witness | None]:
        """What a function reaches, with a witness unless that changes all the time."""
        if site.renewals < _MAX_RENEWALS:
            return self._session.reach_witnessed(function)
        return self._session.reach(function), None

    def _ready(self, plan: WholePlan, arguments: Arguments, reached: Reached) -> Ready:
        self._note_mode("whole", "forward makes results and fields, nothing else")
        return Ready(plan, arguments, reached)

    def _refuse(self, site: _Site, reason: str) -> None:
        self._refusals += 1
        site.refusal = reason
        self._region(reason)


def _parts(function: Callable) -> tuple[object, object]:
    """The object that a method is bound to, and its function; twice a function itself."""
    if type(function) is types.MethodType:
        return function.__self__, function.__func__
    return function, function


def _state(function: Callable) -> Hashable:
    """What of a call is known without a look at its arguments."""
    owner, code = _parts(function)
    return id(owner), id(code), getattr(owner, "training", None), _ambient()


def _ambient() -> Hashable:
    """State of the process that decides what torch code does."""
    return (
        torch.get_default_dtype(),
        autocast.state(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def _fields(frame: Frame) -> list[Hashable]:
    """What can be known of the fields of a frame without computing one."""
    columns = [(name, frame.peek(name)) for name in frame]
    return [(name, tuple(column.shape[1:]), column.dtype) for name, column in columns]


def _unusual_state() -> str | None:
    """Why torch code does not do what it usually does, or None."""
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        return "a torch mode sees every operator"
    # Checkpointing runs a forward twice and compares what both save: one mode for both.
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return "hooks see the tensors that are saved, as with torch.utils.checkpoint"
    if torch._C._is_tracing() or torch.compiler.is_compiling():
        return "torch is tracing"
    return transform_at_work()


__all__ = ["Candidate", "Ready", "Whole"]
