"""Plans: a sequence of captured calls, compiled, and how it runs under autograd.

The gradient of a plan is taken by running the same captured calls as plain torch operators, from
the saved inputs, when backward is called.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from gossamer import program as programs
from gossamer import torch_backend
from gossamer.capture.call import Dag
from gossamer.capture.session import ProgramRecord, Session
from gossamer.emit import emit
from gossamer.errors import CompileError
from gossamer.report import Compilation, Fallback
from gossamer.structure import Structure


class Plan:
    """A sequence of captured calls with its program; made once, run on any graph.

    Args:
        dag: the calls, how they are wired, and the wanted fields.
        session: where the program and a refusal of the compiler are reported.
        required: a refusal of the compiler is raised as CompileError instead.
    """

    def __init__(
        self,
        dag: Dag,
        session: Session,
        structures: Sequence[Structure],
        required: bool = False,
    ) -> None:
        self._required = required
        self.dag = dag
        self.emitted = emit(dag)
        self.program = None
        if session.options.backend == "native":
            self.program = self._compile(session, structures)
        if self.program is None:
            self._record(session, None, "torch")

    def _compile(self, session: Session, structures: Sequence[Structure]) -> object | None:
        options = programs.CompileOptions(session.options.numerics, session.options.target)
        wide = any(programs.wide_index(structure) for structure in structures)
        try:
            program = programs.program_for(self.emitted.text, options, wide)
        except CompileError as error:
            if self._required:
                raise
            kinds = ", ".join(step.call.kind for step in self.dag.steps)
            session.refuse(
                Fallback(error.file or "<unknown>", error.line or 0, error.reason, "", kinds)
            )
            return None
        self._record(session, program, "kernel")
        return program

    def _record(self, session: Session, program: object | None, path: str) -> None:
        calls = tuple(step.call.kind for step in self.dag.steps)
        reason = "first program" if not session.programs else "another function or feature shape"
        seconds = program.seconds if program is not None else 0.0
        cached = program.cached if program is not None else False
        compilation = Compilation(reason, calls, seconds, cached)
        lines = frozenset(
            node.meta["loc"]
            for step in self.dag.steps
            for node in step.call.graph.nodes
            if node.meta.get("loc")
        )
        text = self.emitted.text
        record = ProgramRecord(program or _TorchProgram(text), compilation, lines, path)
        with session.lock:
            if all(known.text("captured") != text for known in session.programs):
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
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        if plan.program is None:
            return plan.interpret(structures, tensors)
        return list(_PlanFunction.apply(plan, structures, *tensors))
    return plan.execute(structures, tensors)


class _PlanFunction(torch.autograd.Function):
    """A plan as one node of the autograd graph."""

    @staticmethod
    def forward(ctx, plan: Plan, structures: Sequence[Structure], *tensors: Tensor):
        ctx.plan = plan
        ctx.structures = structures
        ctx.save_for_backward(*tensors)
        outputs = plan.execute(structures, tensors)
        ctx.mark_non_differentiable(*(o for o in outputs if not o.is_floating_point()))
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads: Tensor | None):
        twice = torch.is_grad_enabled()
        tensors = ctx.saved_tensors
        if not twice:
            tensors = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
        with torch.enable_grad():
            outputs = ctx.plan.interpret(ctx.structures, tensors)
        wanted = [t for t, need in zip(tensors, ctx.needs_input_grad[2:], strict=True) if need]
        used = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None]
        if not used:
            return (None, None, *(None for _ in ctx.needs_input_grad[2:]))
        found = iter(
            torch.autograd.grad(
                [output for output, _ in used],
                wanted,
                [grad for _, grad in used],
                create_graph=twice,
                allow_unused=True,
            )
        )
        return (None, None, *(next(found) if need else None for need in ctx.needs_input_grad[2:]))
