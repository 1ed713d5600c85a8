"""Transforms that go through torch's operators one by one: those of ``torch.func``, and duals.

A program is one operator with a backward of its own, which batching and derivatives in forward mode
do not go through: under them calls run eagerly.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transform_at_work() -> str | None:
    """The transform under which code runs now, or None."""
    interpreter = torch._C._functorch.peek_interpreter_stack()
    if interpreter is not None:
        kind = interpreter.key()
        if kind != torch._C._functorch.TransformType.Functionalize:
            return f"a transform of torch.func ({kind.name.lower()}) is at work"
    if forward_ad._current_level >= 0:
        return "a derivative in forward mode (dual numbers) is at work"
    return None


def is_batch(tensor: Tensor | None) -> bool:
    """Whether a gradient stands for many: ``is_grads_batched``, or a backward inside ``vmap``."""
    functorch = torch._C._functorch
    return tensor is not None and (
        functorch.is_legacy_batchedtensor(tensor) or functorch.is_batchedtensor(tensor)
    )
