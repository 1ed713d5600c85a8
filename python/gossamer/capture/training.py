"""Training: a plan's forward and backward as two programs, one node of the autograd graph.

The compiler derives the backward; the forward program has rows that the backward needs as further
results. Where it cannot (a gradient that is a sum over edges of products per edge), and for
gradients of gradients or whole batches of gradients, the captured calls run as torch operators from
the saved inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.capture.func_transforms import is_batch
from gossamer.emit.ir import DETACH, Function
from gossamer.structure import Structure

if TYPE_CHECKING:
    from gossamer.capture.plan import Plan
    from gossamer.program import Program


@dataclass(frozen=True)
class Training:
    """The programs of a plan for gradients of the arguments ``wrt``.

    forward: results, then saved rows. backward: arguments, saved rows and gradients of the floating
    point results in, of which those of the results ``unused`` are not read; gradients of ``wrt``
    out.
    """

    forward: Program
    backward: Program
    wrt: tuple[int, ...]
    unused: tuple[int, ...]


def dependencies(function: Function) -> list[frozenset[int]]:
    """For each result, the numbers of the arguments through which a gradient can flow to it."""
    reached: dict[int, frozenset[int]] = {
        id(argument): frozenset([number]) for number, argument in enumerate(function.arguments)
    }
    for op in function.ops:
        found = frozenset().union(*(reached[id(operand)] for operand in op.operands))
        reached[id(op.result)] = frozenset() if op.name == DETACH else found
    return [reached[id(result)] for result in function.results]


class PlanFunction(torch.autograd.Function):
    """A plan as one node of the autograd graph."""

    @staticmethod
    def forward(ctx, plan: Plan, structures: Sequence[Structure], *tensors: Tensor):
        """Run the forward program and keep what the backward needs."""
        wrt = plan.needing(ctx.needs_input_grad[2:])
        training = plan.expected_training(wrt, structures)
        saved: list[Tensor] = []
        if training is None:
            outputs = plan.execute(structures, tensors)
        else:
            results = training.forward.run(structures, tensors)
            count = len(plan.emitted.outputs)
            outputs, saved = results[:count], results[count:]
        ctx.plan, ctx.structures, ctx.training = plan, structures, training
        ctx.count = len(tensors)
        ctx.save_for_backward(*tensors, *saved)
        fixed = plan.without_gradient(wrt)
        if fixed:
            ctx.mark_non_differentiable(*(outputs[number] for number in fixed))
        # One result has a gradient whenever there is a backward.
        ctx.shapes = [(o.shape, o.dtype) for o in outputs] if len(outputs) > 1 else None
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads: Tensor | None):
        """Gradients of the tensors that need one."""
        plan, needed = ctx.plan, ctx.needs_input_grad[2:]
        flows = plan.arguments_of(tuple([grad is not None for grad in grads]))
        kept = _kept(ctx)
        tensors, saved = kept[: ctx.count], kept[ctx.count :]
        if all(grad is None for grad in grads):
            found = iter([None] * sum(needed))
        elif ctx.training is None or torch.is_grad_enabled() or any(map(is_batch, grads)):
            found = _interpreted(ctx, tensors, grads)
        else:
            found = _compiled(ctx, tensors, saved, grads)
        result: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        for number, grad in zip(plan.needing(needed), found, strict=True):
            if number in flows:
                result[2 + number] = grad
        return tuple(result)


def _compiled(ctx, tensors: Sequence[Tensor], saved: Sequence[Tensor], grads):
    """Gradients by the backward program of those results that have one.

    The forward saved for the results that had a gradient the last time. Where these are others,
    the forward program of the right pair runs again, so that the bits are the same either way.
    """
    plan, training = ctx.plan, ctx.training
    fixed = plan.without_gradient(training.wrt)
    unused = tuple(n for n, grad in enumerate(grads) if grad is None and n not in fixed)
    if unused != training.unused:
        training = plan.training(training.wrt, unused, ctx.structures)
        if training is None:
            return _interpreted(ctx, tensors, grads)
        saved = training.forward.run(ctx.structures, tensors)[len(grads) :]
        plan.expect(training)
    given = grads if ctx.shapes is None else _given(ctx, grads)
    return iter(training.backward.run(ctx.structures, [*tensors, *saved, *given]))


def _given(ctx, grads: Sequence[Tensor | None]) -> list[Tensor]:
    """Gradients of the floating point results; anything for those that are not used."""
    return [
        torch.empty(shape, dtype=dtype) if grad is None else grad
        for grad, (shape, dtype) in zip(grads, ctx.shapes, strict=True)
        if dtype.is_floating_point
    ]


def _kept(ctx) -> Sequence[Tensor]:
    """The saved tensors. Asked for once: checkpointing computes them again at each access."""
    try:
        return ctx.saved_tensors
    except RuntimeError as error:
        places = [place for step in ctx.plan.dag.steps for place in step.call.places]
        if places and "inplace operation" in str(error):
            file, line = places[0]
            error.add_note(
                f"{file}:{line}: the compiled graph call keeps every tensor that it reads for its "
                "backward; one was changed in place afterwards. Write h = h + y instead of h += y"
            )
        raise


def _interpreted(ctx, tensors: Sequence[Tensor], grads: Sequence[Tensor | None]):
    """Gradients by torch's autograd, through the captured calls as torch operators."""
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases, because one argument may be computed from another (scores of the features): the
        # gradient of the features has to end at them, not to come in again through the scores.
        tensors = [tensor.view_as(tensor) for tensor in tensors]
        outputs = ctx.plan.interpret(ctx.structures, tensors)
    needed = ctx.needs_input_grad[2:]
    wanted = [tensor for tensor, need in zip(tensors, needed, strict=True) if need]
    used = [
        (output, grad)
        for output, grad in zip(outputs, grads, strict=True)
        if grad is not None and output.requires_grad
    ]
    if not used:
        return iter([None] * len(wanted))
    return iter(
        torch.autograd.grad(
            [output for output, _ in used],
            wanted,
            [grad for _, grad in used],
            create_graph=twice,
            allow_unused=True,
        )
    )
