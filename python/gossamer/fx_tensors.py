"""Computations with tensors that a symbolic trace would do once, while tracing, are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode

from gossamer.capture.purity import words

if TYPE_CHECKING:
    from gossamer.fx import GraphTracer

_RANDOM = frozenset((torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal))
_FACTS = words("dim size numel stride is_floating_point is_complex element_size ndimension __len__")
_FACT_ATTRIBUTES = words("shape dtype device ndim layout requires_grad is_leaf is_cuda is_sparse")
_VALUES = words("item tolist numpy __bool__ __float__ __int__ __index__ __complex__ equal allclose")


class RecordTensors(TorchFunctionMode):
    """Records what would otherwise be computed once, while tracing.

    Random numbers everywhere; in user-defined functions all that is computed from tensors.
    """

    def __init__(self, tracer: GraphTracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs=None) -> Any:
        """Called by torch for each of its functions."""
        kwargs = kwargs or {}
        leaves = _leaves((args, kwargs))
        if any(isinstance(leaf, fx.Proxy) for leaf in leaves):
            return func(*args, **kwargs)
        if func in _RANDOM:
            return self._tracer.create_proxy("call_function", func, args, kwargs)
        tensors = any(isinstance(leaf, Tensor) for leaf in leaves)
        if not self._tracer.in_function or not tensors or _is_fact(func):
            return func(*args, **kwargs)
        if func.__name__ in _VALUES:
            raise fx.proxy.TraceError(f"`{func.__name__}` of a tensor decides what is traced")
        if func.__name__ == "__get__":
            args = (args[0], func.__self__.__name__)
            return self._tracer.create_proxy("call_function", getattr, args, {})
        method = torch.overrides.is_tensor_method_or_property(func)
        kind, target = ("call_method", func.__name__) if method else ("call_function", func)
        return self._tracer.create_proxy(kind, target, args, kwargs)


def _is_fact(func: Callable) -> bool:
    """Whether a function asks a tensor for what doesn't change with its values."""
    if func.__name__ == "__get__":
        return getattr(func.__self__, "__name__", "") in _FACT_ATTRIBUTES
    return func.__name__ in _FACTS


def _leaves(values: Any) -> list:
    leaves: list = []
    fx.node.map_aggregate(values, lambda leaf: leaves.append(leaf))
    return leaves
