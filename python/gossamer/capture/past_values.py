"""Parameters as they were when forward ran, for edge fields that are computed when first read.

An optimizer changes parameters in place between a forward and the reading of what it left on a
graph. So small parameters are copied when forward ends; rows of nodes and edges are not.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: A larger parameter is not copied: a field that needs its past value can't be computed.
MOST_BYTES = 1 << 20


class PastValues:
    """Copies of the parameters that the fields of one forward are computed from."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}

    def keep(self, tensor: Tensor) -> None:
        """Copy a tensor without rows, if it is a parameter that may be trained, and small."""
        trained = tensor.is_leaf and tensor.requires_grad
        if trained and tensor.nbytes <= MOST_BYTES and id(tensor) not in self._copies:
            self._copies[id(tensor)] = tensor, tensor.detach().clone()

    def of(self, tensor: Tensor) -> Tensor | None:
        """The past value of a parameter, whose gradient is the parameter's; None without a copy."""
        if id(tensor) not in self._copies:
            return None
        return _InThePast.apply(*self._copies[id(tensor)])


class _InThePast(torch.autograd.Function):
    """A copy in place of the parameter it was made from."""

    @staticmethod
    def forward(ctx, parameter: Tensor, copy: Tensor) -> Tensor:
        return copy.view_as(copy)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None
