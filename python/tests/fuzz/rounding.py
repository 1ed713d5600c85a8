"""How far rounding alone may move the results of a program: Monte Carlo arithmetic.

Every number that a torch operator computes is moved by a random part of one rounding error: of the
number itself, or, where numbers were added, of their absolute sum. Any order of the same arithmetic
lies within that noise. Where noise moves a result far, no two implementations need agree: the
program cancels, or decides by the sign of a rounding error.

Parker, "Monte Carlo Arithmetic", UCLA CSD-970002 (1997).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten

_COPIES = {
    aten.index_select,
    aten.index,
    aten.cat,
    aten.stack,
    aten.clone,
    aten._to_copy,
    aten.gather,
    aten.where,
    aten.masked_fill,
    aten.neg,
    aten.abs,
    aten.max,
    aten.min,
    aten.amax,
    aten.amin,
    aten.maximum,
    aten.minimum,
    aten.relu,
    aten.clamp,
    aten.threshold_backward,
    aten.slice_backward,
    aten.select_backward,
}
"""Operators whose results are numbers that were there before."""

_SUMS = {
    aten.add,
    aten.sum,
    aten.mean,
    aten.mm,
    aten.bmm,
    aten.mv,
    aten.dot,
    aten.addmm,
    aten.baddbmm,
    aten.index_add,
    aten.cumsum,
}
"""Operators whose rounding errors are of the size of the same operator on absolute values."""


class RoundingNoise(TorchDispatchMode):
    """Runs float64 operators with errors of `unit` (2 ** -53 for float64, 2 ** -24 for float32)."""

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self._unit = unit
        self._random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func.overloadpacket
        computes = bool(args) and not any(r.alias_info for r in func._schema.returns)
        if not computes or packet in _COPIES:
            return out
        if packet in _SUMS:
            return self._moved(out, func(*tree_map(_absolute, args), **kwargs))
        if packet is aten.sub:
            return self._moved(out, aten.add(*tree_map(_absolute, args), **kwargs))
        return tree_map(lambda value: self._moved(value, value), out)

    def _moved(self, value: Any, scale: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        noise = torch.rand(value.shape, generator=self._random, dtype=value.dtype)
        return value + self._unit * (2 * noise - 1) * scale


def _absolute(value: Any) -> Any:
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.abs() if floats else value
