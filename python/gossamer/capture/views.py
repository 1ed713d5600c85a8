"""Other shapes of tensors whose rows are unknown: `view`, `reshape` and `flatten`.

Torch asks about sizes on the way: whether there is any row, and whether -1 stands for a whole
number. Neither matters where the symbols cancel: (N, 6) as (N, 2, -1) is (N, 2, 3) for every N.
Torch calls that -1 ambiguous when N is 0, although one size only is right for every other N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .composite import Size, same_size

if TYPE_CHECKING:
    from .recorder import Recorder


def _view(recorder: Recorder, input: Tensor, *size: Any, **_: Any) -> Tensor | None:
    sizes = _resolved(input.shape, _sizes(size))
    return None if sizes is None else Tensor.view(input, sizes)


def _reshape(recorder: Recorder, input: Tensor, *size: Any, **named: Any) -> Tensor | None:
    """A view where torch makes one, else a copy: what shares memory must be known."""
    sizes = _resolved(input.shape, _sizes(size or (named.get("shape"),)))
    if sizes is None:
        return None
    strided = _is_view(recorder, input, sizes)
    if strided is None:
        return None
    if strided:
        return Tensor.view(input, sizes)
    result = recorder.empty(sizes, input.dtype)
    return recorder.emit(torch.ops.aten.reshape.default, (input, sizes), {}, result)


def _flatten(
    recorder: Recorder, input: Tensor, start_dim: Any = 0, end_dim: Any = -1
) -> Tensor | None:
    rank = input.dim()
    if not all(type(dim) is int and -rank <= dim < rank for dim in (start_dim, end_dim)):
        return None
    first, last = start_dim % rank, end_dim % rank
    if first >= last:
        return None
    merged = math.prod(input.shape[first : last + 1])
    return _reshape(recorder, input, (*input.shape[:first], merged, *input.shape[last + 1 :]))


def _sizes(given: tuple) -> tuple[Size, ...] | None:
    """The sizes among the arguments of `view`, one by one or in one sequence."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    plain = all(isinstance(size, (int, torch.SymInt)) for size in given)
    return given if given and plain else None


def _resolved(shape: Sequence[Size], sizes: tuple[Size, ...] | None) -> tuple[Size, ...] | None:
    """Sizes without -1, or None when torch is to say what they mean."""
    if sizes is None or not any(isinstance(size, torch.SymInt) for size in shape):
        return None
    open_axes = [axis for axis, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    total = math.prod(map(_expression, shape))
    known = math.prod(_expression(s) for axis, s in enumerate(sizes) if axis not in open_axes)
    if len(open_axes) > 1 or known == 0:
        return None
    quotient = sympy.cancel(total / known)
    if not open_axes:
        return sizes if quotient == 1 else None
    missing = _size_of(quotient, shape)
    return (
        None if missing is None else (*sizes[: open_axes[0]], missing, *sizes[open_axes[0] + 1 :])
    )


def _expression(size: Size) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _size_of(quotient: sympy.Expr, shape: Sequence[Size]) -> Size | None:
    """A quotient as a size: a number, or one of the sizes in a shape."""
    if quotient.is_Integer:
        return int(quotient)
    return next((size for size in shape if _expression(size) == quotient), None)


def _is_view(recorder: Recorder, input: Tensor, sizes: Sequence[Size]) -> bool | None:
    """Whether `reshape` shows the same memory; None when that is not known for every graph.

    Axes of rows that stay in front have a stride of their own; the others decide.
    """
    lead = 0
    while isinstance(input.shape[lead], torch.SymInt) and same_size(input.shape[lead], sizes[lead]):
        lead += 1
        if lead in (input.dim(), len(sizes)):
            break
    rest = (*input.shape[lead:], *input.stride()[lead:], *sizes[lead:])
    if not all(isinstance(number, int) for number in rest):
        return None
    with recorder.unrecorded(), unset_fake_temporarily():
        one = torch.empty_strided(input.shape[lead:], input.stride()[lead:], device="meta")
        try:
            one.view(sizes[lead:])
        except RuntimeError:
            return False
    return True


#: torch function -> rule
TABLE = {
    Tensor.view: _view,
    Tensor.reshape: _reshape,
    torch.reshape: _reshape,
    Tensor.flatten: _flatten,
    torch.flatten: _flatten,
}
