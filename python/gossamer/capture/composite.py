"""Torch functions recorded as one operator each, with their shape rules.

Products decompose into views that merge rows with features; as one node they stay readable. The
other functions here ask about sizes on their way, although their result does not depend on the
answer.

A rule returns None when it does not apply (other shapes, dtypes, arguments); torch then decomposes
the call, or raises its own error.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .recorder import Recorder

Size = int | torch.SymInt


def constant(literal: list | float | int | bool, dtype: torch.dtype) -> Tensor:
    """A small constant tensor that a function makes with torch.tensor."""
    return torch.tensor(literal, dtype=dtype)


def prefix(rows: Tensor, count: int) -> Tensor:
    """The first rows of a tensor, as rows of another set."""
    return rows[:count]


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for every graph."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, int) or isinstance(b, int):
        return False
    return a.node.expr == b.node.expr


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes are equal for every graph."""
    return len(a) == len(b) and all(map(same_size, a, b))


def broadcast_shape(a: Sequence[Size], b: Sequence[Size]) -> tuple[Size, ...] | None:
    """The shape torch broadcasts to, or None when that is not known for every graph."""
    rank = max(len(a), len(b))
    sizes = []
    for x, y in zip(
        (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True
    ):
        if same_size(x, y) or (isinstance(y, int) and y == 1):
            sizes.append(x)
        elif isinstance(x, int) and x == 1:
            sizes.append(y)
        else:
            return None
    return tuple(sizes)


def _linear(recorder: Recorder, input: Tensor, weight: Tensor, bias: Tensor | None = None):
    tensors = (input, weight) if bias is None else (input, weight, bias)
    if len({t.dtype for t in tensors}) > 1 or weight.dim() != 2 or input.dim() < 1:
        return None
    if not same_size(input.shape[-1], weight.shape[1]):
        return None
    if bias is not None and not same_shape(bias.shape, weight.shape[:1]):
        return None
    result = recorder.empty((*input.shape[:-1], weight.shape[0]), input.dtype)
    return recorder.emit(torch.ops.aten.linear.default, tensors, {}, result)


def _matmul(recorder: Recorder, a: Tensor, b: Tensor):
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.dtype != b.dtype:
        return None
    if a.dim() == 0 or b.dim() == 0:
        return None
    left = a.shape if a.dim() > 1 else (1, *a.shape)
    right = b.shape if b.dim() > 1 else (*b.shape, 1)
    batch = broadcast_shape(left[:-2], right[:-2])
    if batch is None or not same_size(left[-1], right[-2]):
        return None
    shape = batch
    shape += (left[-2],) if a.dim() > 1 else ()
    shape += (right[-1],) if b.dim() > 1 else ()
    result = recorder.empty(shape, a.dtype)
    return recorder.emit(torch.ops.aten.matmul.default, (a, b), {}, result)


def _rmatmul(recorder: Recorder, b: Tensor, a: Tensor):
    return _matmul(recorder, a, b)


def _einsum(recorder: Recorder, equation: str, *operands):
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or len({t.dtype for t in operands}) != 1:
        return None
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "->" not in equation:
        joined = "".join(terms).replace("...", "")
        output = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
        output = "..." + output if "..." in inputs else output
    *terms, output = _without_ellipsis(terms, output, operands)
    sizes = _label_sizes(terms, operands)
    if sizes is None or any(label not in sizes for label in output):
        return None
    result = recorder.empty([sizes[label] for label in output], operands[0].dtype)
    full = ",".join(terms) + "->" + output
    return recorder.emit(torch.ops.aten.einsum.default, (full, list(operands)), {}, result)


def _without_ellipsis(terms: list[str], output: str, operands: tuple) -> list[str]:
    """The terms and the output with a letter for each axis that "..." stands for.

    The last axes have the last letters, as torch broadcasts them. What it does not stand for in
    both is left, and is an unknown label later.
    """
    if len(terms) != len(operands) or ("..." in output) != any("..." in term for term in terms):
        return [*terms, output]
    free = [c for c in string.ascii_letters if c not in "".join(terms)]
    most = 0
    expanded = []
    for term, operand in zip(terms, operands, strict=True):
        count = operand.dim() - len(term.replace("...", "")) if "..." in term else 0
        most = max(most, count)
        if count < 0 or most > len(free):
            return [*terms, output]
        letters = "".join(reversed(free[:count]))
        expanded.append(term.replace("...", letters))
    return [*expanded, output.replace("...", "".join(reversed(free[:most])))]


def _label_sizes(terms: list[str], operands: tuple) -> dict[str, Size] | None:
    if len(terms) != len(operands):
        return None
    sizes: dict[str, Size] = {}
    for term, operand in zip(terms, operands, strict=True):
        if "." in term or len(term) != operand.dim() or len(set(term)) != len(term):
            return None
        for label, size in zip(term, operand.shape, strict=True):
            if not same_size(sizes.setdefault(label, size), size):
                return None
    return sizes


def _cosine(recorder: Recorder, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8):
    shape = broadcast_shape(x1.shape, x2.shape)
    if shape is None or x1.dtype != x2.dtype:
        return None
    dim = dim + len(shape) if dim < 0 else dim
    result = recorder.empty(shape[:dim] + shape[dim + 1 :], x1.dtype)
    return recorder.emit(torch.ops.aten.cosine_similarity.default, (x1, x2, dim, eps), {}, result)


def _beside_each_other(target) -> Callable:
    """The rule of addcmul and addcdiv: three tensors that broadcast, and a factor."""

    def rule(recorder: Recorder, input: Tensor, a: Tensor, b: Tensor, *, value=1, **rest):
        inner = broadcast_shape(a.shape, b.shape)
        shape = inner and broadcast_shape(input.shape, inner)
        if rest or shape is None or len({t.dtype for t in (input, a, b)}) != 1:
            return None
        result = recorder.empty(shape, input.dtype)
        return recorder.emit(target, (input, a, b), {"value": value}, result)

    return rule


_addcmul = _beside_each_other(torch.ops.aten.addcmul.default)
_addcdiv = _beside_each_other(torch.ops.aten.addcdiv.default)


def _logsumexp(recorder: Recorder, input: Tensor, dim: int | Sequence[int], keepdim: bool = False):
    dims = [d + input.dim() if d < 0 else d for d in ([dim] if isinstance(dim, int) else dim)]
    if not input.is_floating_point() or not all(0 <= d < input.dim() for d in dims):
        return None
    sizes = [1 if axis in dims else size for axis, size in enumerate(input.shape)]
    shape = [size for axis, size in enumerate(sizes) if keepdim or axis not in dims]
    result = recorder.empty(shape, input.dtype)
    return recorder.emit(torch.ops.aten.logsumexp.default, (input, dims, keepdim), {}, result)


def _functional_batch_norm(
    recorder,
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    *rest,
    **named,
):
    momentum, eps = (*rest, *(0.1, 1e-5)[len(rest) :])
    eps = named.get("eps", eps)
    args = (input, weight, bias, running_mean, running_var, training, momentum, eps)
    return _batch_norm(recorder, *args)


def _batch_norm(recorder, input, weight, bias, mean, var, training, momentum, eps, *_):
    if training or mean is None or var is None:
        raise recorder.refuse("BatchNorm in training combines rows", "call eval() on the module")
    if input.dtype != mean.dtype or input.dim() < 2 or not same_size(input.shape[1], mean.shape[0]):
        return None
    outputs = (
        recorder.empty(input.shape, input.dtype),
        recorder.empty((0,), input.dtype),
        recorder.empty((0,), input.dtype),
    )
    target = torch.ops.aten._native_batch_norm_legit_no_training.default
    return recorder.emit(target, (input, weight, bias, mean, var, momentum, eps), {}, outputs)[0]


def _tensor(recorder: Recorder, data, *, dtype=None, device=None, requires_grad=False, **_):
    """torch.tensor of plain numbers, or of one number known at run time only."""
    if isinstance(data, (torch.SymInt, torch.SymFloat)):
        whole = isinstance(data, torch.SymInt)
        dtype = dtype or (torch.int64 if whole else torch.get_default_dtype())
        args = ([], data), {"dtype": dtype}
        return recorder.emit(torch.ops.aten.full.default, *args, recorder.empty((), dtype))
    if requires_grad or not _is_plain(data):
        return None
    return recorder.constant(data, dtype)


def _getitem(recorder: Recorder, input: Tensor, index):
    """x[:n] with n a number of rows: the first rows of x are rows of another set."""
    if not isinstance(index, slice) or not isinstance(index.stop, torch.SymInt) or not input.dim():
        return None
    rows = input.shape[0]
    if index.start not in (None, 0) or index.step not in (None, 1):
        return None
    if not isinstance(rows, torch.SymInt) or not recorder.allows_prefix(index.stop, rows):
        return None
    if same_size(index.stop, rows):
        return input[:]
    result = recorder.empty((index.stop, *input.shape[1:]), input.dtype)
    recorder.protect(result)  # torch's result shares memory with its input
    return recorder.emit(prefix, (input, index.stop), {}, result)


def _is_plain(data) -> bool:
    if isinstance(data, (list, tuple)):
        return all(map(_is_plain, data))
    return isinstance(data, (bool, int, float))


#: torch function -> rule
TABLE = {
    torch.nn.functional.linear: _linear,
    torch.matmul: _matmul,
    Tensor.matmul: _matmul,
    Tensor.__matmul__: _matmul,
    Tensor.__rmatmul__: _rmatmul,
    torch.einsum: _einsum,
    torch.cosine_similarity: _cosine,
    torch.addcmul: _addcmul,
    Tensor.addcmul: _addcmul,
    torch.addcdiv: _addcdiv,
    Tensor.addcdiv: _addcdiv,
    torch.logsumexp: _logsumexp,
    Tensor.logsumexp: _logsumexp,
    torch.nn.functional.batch_norm: _functional_batch_norm,
    torch.batch_norm: _batch_norm,
    torch.tensor: _tensor,
    Tensor.__getitem__: _getitem,
}
