"""Products recorded as one operator each, with their shape rules: linear, matmul, einsum.

A rule returns None when it does not apply (other shapes, dtypes, arguments); torch then decomposes the
call, or raises its own error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .recorder import Recorder

Size = int | torch.SymInt


def constant(literal: list | float | int | bool, dtype: torch.dtype) -> Tensor:
    """A small constant tensor that a function makes with torch.tensor."""
    return torch.tensor(literal, dtype=dtype)


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
    if not isinstance(equation, str) or "." in equation or len({t.dtype for t in operands}) != 1:
        return None
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "->" not in equation:
        joined = "".join(terms)
        output = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    sizes = _label_sizes(terms, operands)
    if sizes is None or any(label not in sizes for label in output):
        return None
    result = recorder.empty([sizes[label] for label in output], operands[0].dtype)
    full = ",".join(terms) + "->" + output
    return recorder.emit(torch.ops.aten.einsum.default, (full, list(operands)), {}, result)


def _label_sizes(terms: list[str], operands: tuple) -> dict[str, Size] | None:
    if len(terms) != len(operands):
        return None
    sizes: dict[str, Size] = {}
    for term, operand in zip(terms, operands, strict=True):
        if len(term) != operand.dim() or len(set(term)) != len(term):
            return None
        for label, size in zip(term, operand.shape, strict=True):
            if not same_size(sizes.setdefault(label, size), size):
                return None
    return sizes


#: torch function -> rule
TABLE = {
    torch.nn.functional.linear: _linear,
    torch.matmul: _matmul,
    Tensor.matmul: _matmul,
    Tensor.__matmul__: _matmul,
    Tensor.__rmatmul__: _rmatmul,
    torch.einsum: _einsum,
}
