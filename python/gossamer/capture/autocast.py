"""What `torch.autocast` does to functions that are recorded as they are written.

Autocast casts where torch dispatches operators, and the recorder sees those casts. A function that
is recorded whole (`composite.py`) never gets there: its operands are cast here, as torch's list of
operators for the CPU says. A cast of a parameter is recorded like any other, so torch's cache of
casts, which is for leaves that need gradients, never holds a tensor without data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor


def state() -> Hashable:
    """What autocast does now: its dtype, or None when it is off."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def adapt(function: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
    """The arguments with which a function is recorded whole; None to leave it to torch's dispatch.

    Products take the autocast dtype. What autocast does to the parts of other functions is
    torch's business, but for those that make or cut tensors.
    """
    dtype = state()
    if dtype is None or function in _UNCHANGED:
        return args, kwargs
    if function in _PRODUCTS or (function is torch.einsum and _contracts(*args)):
        kwargs = {name: _cast(arg, dtype) for name, arg in kwargs.items()}
        return tuple(_cast(arg, dtype) for arg in args), kwargs
    return None


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Floating point tensors, but float64, in another dtype."""
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return value if value.dtype == torch.float64 else value.to(dtype)


def _contracts(equation: object, *operands: Any) -> bool:
    """Whether an einsum is one product of matrices: without a sum it is none."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or "->" not in equation or len(operands) != 2:
        return False
    inputs, output = equation.replace(" ", "").split("->")
    return any(label not in output for label in inputs if label.isalpha())


_PRODUCTS = {
    torch.nn.functional.linear,
    torch.matmul,
    Tensor.matmul,
    Tensor.__matmul__,
    Tensor.__rmatmul__,
}
_UNCHANGED = {torch.tensor, Tensor.__getitem__}
