"""Plans: a sequence of captured calls, compiled, and how it runs."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from gossamer import program as programs
from gossamer import torch_backend
from gossamer.capture.call import Dag
from gossamer.capture.session import ProgramRecord, Session
from gossamer.capture.training import Numbers, Training, dependencies, run_node
from gossamer.emit import emit
from gossamer.emit.ir import Function, detached, empty_table, text
from gossamer.errors import CompileError
from gossamer.report import Compilation, Fallback
from gossamer.structure import Structure


class Plan:
    """A sequence of captured calls with its program; made once, run on any graph.

    Args:
        dag: the calls, how they are wired, and the wanted fields.
        session: where the program and a refusal of the compiler are reported.
        required: a refusal of the compiler is raised as CompileError instead.
        left: numbers of results that stay on graphs; the first backward is expected to have no
            gradients of them.
    """

    def __init__(
        self,
        dag: Dag,
        session: Session,
        structures: Sequence[Structure],
        required: bool = False,
        left: Numbers = (),
    ) -> None:
        self._mode = "whole" if required else "region"
        self._left = left
        self._session = session
        self._trainings: dict[tuple[Numbers, Numbers], Training | None] = {}
        self._unused: dict[Numbers, Numbers] = {}
        self._needing: dict[tuple[bool, ...], Numbers] = {}
        self._without_gradient: dict[Numbers, Numbers] = {}
        self._arguments_of: dict[tuple[bool, ...], frozenset[int]] = {}
        self.dag = dag
        self.emitted = emit(dag)
        self.program = None
        if session.options.backend == "native":
            self.program = self._compile(structures, required=required)
        if self.program is None:
            self._record(None, "torch")

    @functools.cached_property
    def dependencies(self) -> list[frozenset[int]]:
        """For each result, the arguments through which a gradient can flow to it."""
        return dependencies(self.emitted.function)

    def without_gradient(self, wrt: Numbers) -> Numbers:
        """The results through which no gradient of the arguments ``wrt`` flows."""
        if wrt not in self._without_gradient:
            self._without_gradient[wrt] = tuple(
                number
                for number, arguments in enumerate(self.dependencies)
                if not self.emitted.types[number].is_float or arguments.isdisjoint(wrt)
            )
        return self._without_gradient[wrt]

    def needing(self, needs: tuple[bool, ...]) -> Numbers:
        """The arguments whose flag is set."""
        if needs not in self._needing:
            self._needing[needs] = tuple(number for number, flag in enumerate(needs) if flag)
        return self._needing[needs]

    def arguments_of(self, given: tuple[bool, ...]) -> frozenset[int]:
        """The arguments to which a gradient can flow from those results whose flag is set."""
        if given not in self._arguments_of:
            self._arguments_of[given] = frozenset().union(
                *(a for a, flag in zip(self.dependencies, given, strict=True) if flag)
            )
        return self._arguments_of[given]

    def expected_training(self, wrt: Numbers, structures: Sequence[Structure]) -> Training | None:
        """`training` for the results that the last backward had gradients of.

        Under hooks on saved tensors it is for all: checkpointing runs the forward again, between
        other backwards, and must find as many saved tensors.
        """
        hooked = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
        return self.training(wrt, () if hooked else self.expected_unused(wrt), structures)

    def expected_unused(self, wrt: Numbers) -> Numbers:
        """The results that had no gradient in the last backward; at first those left on graphs."""
        if wrt not in self._unused:
            fixed = self.without_gradient(wrt)
            self._unused[wrt] = tuple(number for number in self._left if number not in fixed)
        return self._unused[wrt]

    def expect(self, training: Training) -> None:
        """Have the next forward save what this backward needs."""
        self._unused[training.wrt] = training.unused

    def training(
        self,
        wrt: Numbers,
        unused: Numbers,
        structures: Sequence[Structure],
        required: bool = False,
    ) -> Training | None:
        """The programs for gradients of the arguments ``wrt``; None when torch takes them.

        The results ``unused`` have no gradient. That is not a gradient of zeros: the slope of what
        nobody uses may be infinite, and 0 times it is no 0.

        Raises:
            CompileError: the compiler refuses them, and they are ``required``.
        """
        if self.program is None:
            return None
        key = (wrt, unused)
        if key not in self._trainings:
            forward = self._compile(structures, "forward", wrt, unused, required)
            backward = forward and self._compile(structures, "backward", wrt, unused, required)
            self._trainings[key] = backward and Training.of(self, forward, backward, wrt, unused)
        return self._trainings[key]

    def _compile(
        self,
        structures: Sequence[Structure],
        differentiate: str = "",
        wrt: Numbers = (),
        unused: Numbers = (),
        required: bool = False,
    ) -> programs.Program | None:
        chosen = self._session.options
        options = programs.CompileOptions(
            chosen.numerics, chosen.target, differentiate, wrt, chosen.without
        )
        wide = any(structure.wide_index for structure in structures)
        code = text(detached(self.emitted.function, unused)) if unused else self.emitted.text
        try:
            _refuse_empty(self.emitted.function)
            program = programs.program_for(code, options, wide)
        except CompileError as error:
            if required:
                raise
            kinds = ", ".join(step.call.kind for step in self.dag.steps)
            kinds = f"gradients of {kinds}" if differentiate else kinds
            place = (error.file or "<unknown>", error.line or 0)
            remedy = "nothing: torch operators do it, more slowly"
            self._session.refuse(Fallback(*place, error.reason, remedy, kinds))
            return None
        if chosen.tune:
            program.tune = True
        self._record(program, "kernel", unused)
        return program

    def _record(self, program: programs.Program | None, path: str, unused: Numbers = ()) -> None:
        session = self._session
        calls = tuple(step.call.kind for step in self.dag.steps)
        reason = "first program" if not session.programs else "another function or feature shape"
        if unused:
            reason = "gradients of some results only"
        differentiate = program.options.differentiate if program is not None else ""
        entry = {"": "forward", "forward": "training forward"}.get(differentiate, "backward")
        seconds = program.seconds if program is not None else 0.0
        cached = program.cached if program is not None else False
        compilation = Compilation(reason, calls, seconds, cached, entry, self._mode)
        lines = frozenset(place for step in self.dag.steps for place in step.call.places)
        record = ProgramRecord(
            program or _TorchProgram(self.emitted.text), compilation, lines, path
        )
        with session.lock:
            if all(known.identity != record.identity for known in session.programs):
                session.programs.append(record)

    def inputs(self, values: Mapping[Hashable, Tensor]) -> list[Tensor]:
        """The tensors in the order of the emitted function's arguments."""
        return [values[key] for key in self.emitted.inputs]

    def execute(self, structures: Sequence[Structure], tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run without autograd."""
        if self.program is None or any(tensor.device.type != "cpu" for tensor in tensors):
            return self.interpret(structures, tensors)
        return self.program.run(structures, tensors)

    def interpret(self, structures: Sequence[Structure], tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the captured calls as torch operators, differentiably."""
        return torch_backend.run_captured(self.emitted, tensors, structures)


class _TorchProgram:
    """What stands for a program when captured calls run as torch operators."""

    buffers: tuple = ()
    remarks: tuple = ()
    schedules: tuple = ()
    variant: None = None
    options: None = None

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self, stage: str) -> str:
        return self._text if stage in ("captured", "optimized") else ""


def run_plan(
    plan: Plan, structures: Sequence[Structure], values: Mapping[Hashable, Tensor]
) -> list[Tensor]:
    """Run a plan; its outputs take part in autograd when an input does."""
    return run_tensors(plan, structures, plan.inputs(values))


def run_tensors(
    plan: Plan, structures: Sequence[Structure], tensors: Sequence[Tensor]
) -> list[Tensor]:
    """As `run_plan`, for inputs in order."""
    needs = tuple([tensor.requires_grad for tensor in tensors])
    if True in needs and torch.is_grad_enabled():
        if plan.program is None:
            return plan.interpret(structures, tensors)
        if torch.compiler.is_exporting():  # an exported program computes results only
            return plan.execute(structures, tensors)
        return list(run_node(plan, structures, plan.needing(needs), tensors))
    return plan.execute(structures, tensors)


def _refuse_empty(function: Function) -> None:
    """Kernels compute numbers: tables without any are left to torch."""
    found = empty_table(function)
    if found is not None:
        table, place = found
        raise CompileError(f"rows of shape {table.features} hold no numbers", *place)
