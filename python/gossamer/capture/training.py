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

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Training:
    """The programs of a plan for gradients of the arguments ``wrt``.

    forward: results, then saved rows. backward: arguments, saved rows and gradients of the floating
    point results ``floats`` in, of which those of the results ``unused`` are not read; gradients of
    ``wrt`` out. It is for a loss of the results whose flag is set in ``given``. No gradient flows
    through the results that are ``fixed``.

    ``reads`` are the arguments that the backward reads. The ``others`` are needed when other
    gradients are asked for than these: saved rows are computed again from them. No gradient depends
    on those that are ``free``.

    ``inputs``: where the inputs of the backward stand in what was kept, followed by the gradients.
    ``ends``: for each argument, the place of its gradient in None followed by what comes out.
    """

    forward: Program
    backward: Program
    wrt: Numbers
    unused: Numbers
    floats: Numbers
    given: tuple[bool, ...]
    fixed: Numbers
    reads: Numbers
    others: Numbers
    free: Numbers
    inputs: Numbers
    ends: Numbers

    @classmethod
    def of(
        cls, plan: Plan, forward: Program, backward: Program, wrt: Numbers, unused: Numbers
    ) -> Training:
        """The pair of a plan's function."""
        types = plan.emitted.types
        floats = tuple(number for number, type in enumerate(types) if type.is_float)
        fixed = plan.without_gradient(wrt)
        given = tuple(number not in (*unused, *fixed) for number in range(len(types)))
        arguments = backward.reads[: len(forward.reads)]
        num_saved = len(backward.reads) - len(arguments) - len(floats)
        reads = tuple(number for number, read in enumerate(arguments) if read)
        rest = tuple(number for number, read in enumerate(arguments) if not read)
        # Without saved rows the gradients are a function of what the backward reads.
        others, free = (rest, ()) if num_saved > 0 or len(floats) > 1 else ((), rest)
        # Gradients stand last, and are counted from the end. What a program does not read is not
        # looked at: any tensor may stand there.
        unread = given.index(True) - len(types) if True in given else 0
        inputs = (
            *(reads.index(n) if read else unread for n, read in enumerate(arguments)),
            *range(len(reads), len(reads) + num_saved),
            *(number - len(types) if given[number] else unread for number in floats),
        )
        flows = plan.arguments_of(given)
        ends = tuple(
            1 + wrt.index(number) if number in wrt and number in flows else 0
            for number in range(len(arguments))
        )
        return cls(
            forward, backward, wrt, unused, floats, given, fixed, reads, others, free, inputs, ends
        )


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


def run_node(
    plan: Plan, structures: Sequence[Structure], wrt: Numbers, tensors: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """A plan's results as those of one node, for gradients of the arguments ``wrt``.

    `PlanFunction.apply`, without what torch asks at each call of every function class.
    """
    if torch._C._are_functorch_transforms_active():
        return PlanFunction.apply(plan, structures, wrt, *tensors)
    unwrapped = map(torch._C._functorch.unwrap_if_dead, tensors)
    return super(torch.autograd.Function, PlanFunction).apply(plan, structures, wrt, *unwrapped)


class PlanFunction(torch.autograd.Function):
    """A plan as one node of the autograd graph."""

    @staticmethod
    def forward(
        ctx, plan: Plan, structures: Sequence[Structure], wrt: Numbers, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """Run the forward program and keep what the backward needs."""
        training = plan.expected_training(wrt, structures)
        ctx.plan, ctx.structures, ctx.wrt, ctx.training = plan, structures, wrt, training
        ctx.set_materialize_grads(False)
        if training is None:
            outputs = plan.execute(structures, tensors)
            ctx.save_for_backward(*tensors)
            fixed = plan.without_gradient(wrt)
        else:
            results = training.forward.run(structures, tensors)
            count = len(training.given)
            outputs = results[:count]
            _keep(ctx, tensors, results[count:])
            fixed = training.fixed
        if fixed:
            ctx.mark_non_differentiable(*[outputs[number] for number in fixed])
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the tensors that need one."""
        try:
            return (None, None, None, *_gradients(ctx, grads))
        except RuntimeError as error:
            _explain(ctx.plan, error)
            raise


def _gradients(ctx, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """For each argument its gradient, or None."""
    kept = ctx.saved_tensors  # asked for once: checkpointing computes them again at each access
    training = ctx.training
    given = tuple([grad is not None for grad in grads])
    if True not in given:
        return [None] * len(ctx.plan.emitted.inputs)
    if training is None:
        return _interpreted(ctx, kept, grads, given)
    if torch.is_grad_enabled() or any(map(is_batch, grads)):
        return _interpreted(ctx, _arguments(ctx, kept), grads, given)
    if given != training.given:
        return _run_again(ctx, _arguments(ctx, kept), grads, given)
    return _compiled(training, ctx.structures, (*kept, *grads))


def _compiled(
    training: Training, structures: Sequence[Structure], found: Sequence[Tensor | None]
) -> Sequence[Tensor | None]:
    """Gradients by the backward program, from what was kept and the gradients of the results."""
    tensors = [found[place] for place in training.inputs]
    results = (None, *training.backward.run(structures, tensors))
    return [results[place] for place in training.ends]


def _run_again(
    ctx, tensors: Sequence[Tensor], grads: Sequence[Tensor | None], given: tuple[bool, ...]
) -> Sequence[Tensor | None]:
    """Gradients where other results have one than in the last backward.

    The forward saved for those. So the forward program of the right pair runs again: the bits are
    the same either way.
    """
    plan, wrt, structures = ctx.plan, ctx.wrt, ctx.structures
    fixed = ctx.training.fixed
    unused = tuple(n for n, has in enumerate(given) if not has and n not in fixed)
    training = plan.training(wrt, unused, structures)
    if training is None:
        return _interpreted(ctx, tensors, grads, given)
    saved = training.forward.run(structures, tensors)[len(grads) :]
    plan.expect(training)
    read = [tensors[number] for number in training.reads]
    return _compiled(training, structures, (*read, *saved, *grads))


# --- what is kept from the forward to the backward ------------------------------------------------


def _keep(ctx, tensors: Sequence[Tensor], saved: Sequence[Tensor]) -> None:
    """Keep the arguments that the backward reads, the saved rows, and the other arguments apart."""
    training = ctx.training
    kept = [*[tensors[number] for number in training.reads], *saved]
    if training.others:
        kept.append(_Apart.keep([tensors[number] for number in training.others]))
    ctx.forms = [(tensors[number].shape, tensors[number].dtype) for number in training.free]
    ctx.save_for_backward(*kept)


def _arguments(ctx, kept: Sequence[Tensor]) -> list[Tensor]:
    """All arguments of the forward. Those on which no gradient depends hold zeros."""
    training = ctx.training
    found = dict(zip(training.reads, kept, strict=False))
    if training.others:
        found.update(zip(training.others, _Apart.kept_by(kept[-1]), strict=True))
    for number, (shape, dtype) in zip(training.free, ctx.forms, strict=True):
        zeros = torch.zeros((), dtype=dtype).expand(shape)
        found[number] = zeros.requires_grad_(number in training.wrt)
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


def _interpreted(
    ctx, tensors: Sequence[Tensor], grads: Sequence[Tensor | None], given: tuple[bool, ...]
) -> Sequence[Tensor | None]:
    """Gradients by torch's autograd, through the captured calls as torch operators."""
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases, because one argument may be computed from another (scores of the features): the
        # gradient of the features has to end at them, not to come in again through the scores.
        tensors = [tensor.view_as(tensor) for tensor in tensors]
        outputs = ctx.plan.interpret(ctx.structures, tensors)
    result: list[Tensor | None] = [None] * len(tensors)
    used = [
        (output, grad)
        for output, grad in zip(outputs, grads, strict=True)
        if grad is not None and output.requires_grad
    ]
    if not used:
        return result
    found = torch.autograd.grad(
        [output for output, _ in used],
        [tensors[number] for number in ctx.wrt],
        [grad for _, grad in used],
        create_graph=twice,
        allow_unused=True,
    )
    flows = ctx.plan.arguments_of(given)
    for number, grad in zip(ctx.wrt, found, strict=True):
        if number in flows:
            result[number] = grad
    return result
