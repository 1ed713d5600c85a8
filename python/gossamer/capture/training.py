"""Training: a plan's forward and backward as two programs, one node of the autograd graph.

The compiler derives the backward; the forward program has rows that the backward needs as further
results. What the backward reads is kept for it, and nothing else it could stumble over. Where the
compiler cannot, for gradients of gradients and for batches of gradients, the captured calls run as
torch operators from the inputs.
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
    point results ``floats`` in, of which those of the results ``unused`` are not read; gradients of
    ``wrt`` out. It is for a loss of the results whose flag is set in ``given``. ``reads`` are the
    arguments that the backward reads. The ``others`` are needed when other gradients are asked for
    than these: saved rows are computed again from them. No gradient depends on those that are
    ``free``.
    """

    forward: Program
    backward: Program
    wrt: tuple[int, ...]
    unused: tuple[int, ...]
    floats: tuple[int, ...]
    given: tuple[bool, ...]
    reads: tuple[int, ...]
    others: tuple[int, ...]
    free: tuple[int, ...]

    @classmethod
    def of(
        cls,
        forward: Program,
        backward: Program,
        wrt: tuple[int, ...],
        unused: tuple[int, ...],
        floats: tuple[int, ...],
        given: tuple[bool, ...],
    ) -> Training:
        """The pair of a function with these floating point results."""
        count = len(forward.reads)
        arguments = backward.reads[:count]
        num_saved = len(backward.reads) - count - len(floats)
        reads = tuple(number for number, read in enumerate(arguments) if read)
        rest = tuple(number for number, read in enumerate(arguments) if not read)
        # Without saved rows the gradients are a function of what the backward reads.
        others, free = (rest, ()) if num_saved > 0 or len(floats) > 1 else ((), rest)
        return cls(forward, backward, wrt, unused, floats, given, reads, others, free)


def dependencies(function: Function) -> list[frozenset[int]]:
    """For each result, the numbers of the arguments through which a gradient can flow to it."""
    reached: dict[int, frozenset[int]] = {
        id(argument): frozenset([number]) for number, argument in enumerate(function.arguments)
    }
    for op in function.ops:
        smooth = op.name != DETACH and op.result.type.is_float
        operands = op.operands if smooth else ()
        reached[id(op.result)] = frozenset().union(*(reached[id(operand)] for operand in operands))
    return [reached[id(result)] for result in function.results]


class PlanFunction(torch.autograd.Function):
    """A plan as one node of the autograd graph."""

    @staticmethod
    def forward(ctx, plan: Plan, structures: Sequence[Structure], *tensors: Tensor):
        """Run the forward program and keep what the backward needs."""
        wrt = plan.needing(ctx.needs_input_grad[2:])
        training = plan.expected_training(wrt, structures)
        ctx.plan, ctx.structures, ctx.training = plan, structures, training
        if training is None:
            outputs = plan.execute(structures, tensors)
            ctx.save_for_backward(*tensors)
        else:
            results = training.forward.run(structures, tensors)
            count = len(plan.emitted.outputs)
            outputs = results[:count]
            _keep(ctx, tensors, results[count:])
        fixed = plan.without_gradient(wrt)
        if fixed:
            ctx.mark_non_differentiable(*(outputs[number] for number in fixed))
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads: Tensor | None):
        """Gradients of the tensors that need one."""
        plan, needed = ctx.plan, ctx.needs_input_grad[2:]
        given = tuple([grad is not None for grad in grads])
        flows = plan.arguments_of(given)
        try:
            found = iter(_gradients(ctx, grads, given))
        except RuntimeError as error:
            _explain(plan, error)
            raise
        result: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        for number, grad in zip(plan.needing(needed), found, strict=True):
            if number in flows:
                result[2 + number] = grad
        return tuple(result)


def _gradients(
    ctx, grads: Sequence[Tensor | None], given: tuple[bool, ...]
) -> Sequence[Tensor | None]:
    kept = ctx.saved_tensors  # asked for once: checkpointing computes them again at each access
    if True not in given:
        return [None] * sum(ctx.needs_input_grad[2:])
    if ctx.training is None:
        return _interpreted(ctx, kept, grads)
    if torch.is_grad_enabled() or any(map(is_batch, grads)):
        return _interpreted(ctx, _arguments(ctx, kept), grads)
    return _compiled(ctx, kept, grads, given)


def _compiled(
    ctx, kept: Sequence[Tensor], grads: Sequence[Tensor | None], given: tuple[bool, ...]
) -> Sequence[Tensor]:
    """Gradients by the backward program of those results that have one.

    The forward saved for the results that had a gradient the last time. Where these are others,
    the forward program of the right pair runs again, so that the bits are the same either way.
    """
    plan, training = ctx.plan, ctx.training
    # What a program does not read is not looked at: any tensor may stand there.
    unread = grads[given.index(True)]
    if given == training.given:
        tensors = [unread] * len(training.forward.reads)
        for number, tensor in zip(training.reads, kept, strict=False):
            tensors[number] = tensor
        saved = kept[len(training.reads) : len(kept) - bool(training.others)]
    else:
        tensors = _arguments(ctx, kept)
        fixed = plan.without_gradient(training.wrt)
        unused = tuple(n for n, has in enumerate(given) if not has and n not in fixed)
        training = plan.training(training.wrt, unused, ctx.structures)
        if training is None:
            return _interpreted(ctx, tensors, grads)
        saved = training.forward.run(ctx.structures, tensors)[len(grads) :]
        plan.expect(training)
    gradients = [grads[number] if given[number] else unread for number in training.floats]
    return training.backward.run(ctx.structures, [*tensors, *saved, *gradients])


# --- what is kept from the forward to the backward ------------------------------------------------


def _keep(ctx, tensors: Sequence[Tensor], saved: Sequence[Tensor]) -> None:
    """Keep the arguments that the backward reads, the saved rows, and the other arguments apart."""
    training = ctx.training
    kept = [*[tensors[number] for number in training.reads], *saved]
    if training.others:
        kept.append(_Apart.keep([tensors[number] for number in training.others]))
    free = [tensors[number] for number in training.free]
    ctx.forms = [(tensor.shape, tensor.dtype, tensor.requires_grad) for tensor in free]
    ctx.save_for_backward(*kept)


def _arguments(ctx, kept: Sequence[Tensor]) -> list[Tensor]:
    """All arguments of the forward. Those on which no gradient depends hold zeros."""
    training = ctx.training
    found = dict(zip(training.reads, kept, strict=False))
    if training.others:
        found.update(zip(training.others, _Apart.kept_by(kept[-1]), strict=True))
    for number, (shape, dtype, requires_grad) in zip(training.free, ctx.forms, strict=True):
        zeros = torch.zeros((), dtype=dtype).expand(shape)
        found[number] = zeros.requires_grad_(requires_grad)
    return [found[number] for number in range(len(found))]


class _Apart(torch.autograd.Function):
    """A node that keeps tensors and computes nothing.

    A node's saved tensors can only be asked for together, and torch then refuses if one of them was
    changed in place. What most backwards don't read is therefore kept by a node of its own; the
    reader keeps an empty tensor that leads to it, which torch frees with all it saved.
    """

    @staticmethod
    def keep(tensors: Sequence[Tensor]) -> Tensor:
        """The empty tensor that leads to them."""
        with torch.enable_grad():
            return _Apart.apply(torch.empty(0, requires_grad=True), *tensors)

    @staticmethod
    def kept_by(leads: Tensor) -> Sequence[Tensor]:
        """The tensors."""
        return leads.grad_fn.saved_tensors

    @staticmethod
    def forward(ctx, empty: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return empty.clone()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[None, ...]:
        return (None,) * len(ctx.needs_input_grad)


def _explain(plan: Plan, error: RuntimeError) -> None:
    """Say where the graph call is when a tensor that its backward reads was changed in place."""
    places = [place for step in plan.dag.steps for place in step.call.places]
    if places and "inplace operation" in str(error):
        file, line = places[0]
        error.add_note(
            f"{file}:{line}: the backward of the compiled graph call reads one of its inputs, "
            "which was changed in place afterwards. Write h = h + y instead of h += y"
        )


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
        return [None] * len(wanted)
    return torch.autograd.grad(
        [output for output, _ in used],
        wanted,
        [grad for _, grad in used],
        create_graph=twice,
        allow_unused=True,
    )
