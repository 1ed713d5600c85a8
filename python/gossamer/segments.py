"""Reductions of rows by segment number, in plain torch: what readouts and softmax are, eagerly."""

from __future__ import annotations

import torch
from torch import Tensor

from gossamer.errors import GraphError
from gossamer.function import replace_infinity

_IDENTITY = {"max": -float("inf"), "min": float("inf")}


def segment_reduce(values: Tensor, segments: Tensor, count: int, op: str) -> Tensor:
    """Reduce rows of (R, ...) by segment number into (count, ...); "sum", "mean", "max" or "min".

    Segments without rows give 0. Maximum and minimum ignore NaN, give 0 in place of infinities, and
    pass their gradient to the first row that attains them, as `dgl.segment_reduce` does.

    Raises:
        GraphError: unknown `op`.
    """
    if op not in ("sum", "mean", *_IDENTITY):
        raise GraphError(f"op must be 'sum', 'mean', 'max' or 'min', not {op!r}")
    if op in _IDENTITY and values.shape[0]:
        return replace_infinity(_extreme(values, segments, count, op))
    total = values.new_zeros((count, *values.shape[1:])).index_add(0, segments, values)
    if op != "mean":
        return total
    sizes = torch.bincount(segments, minlength=count).clamp(min=1).to(values.dtype)
    return total / _beside(sizes, values)


def segment_softmax(logits: Tensor, segments: Tensor, count: int) -> Tensor:
    """Softmax over the rows of each segment: same shape as `logits` (R, ...)."""
    if not logits.shape[0]:
        return logits.clone()
    index = segments.long()
    shape = (count, *logits.shape[1:])
    with torch.no_grad():
        spread = _beside(index, logits).expand_as(logits)
        largest = logits.new_full(shape, -float("inf")).scatter_reduce(0, spread, logits, "amax")
    scores = torch.exp(logits - largest.index_select(0, index))
    totals = scores.new_zeros(shape).index_add(0, index, scores)
    return scores / totals.index_select(0, index)


def _extreme(values: Tensor, segments: Tensor, count: int, op: str) -> Tensor:
    """Maximum or minimum, infinite for segments without a number."""
    number = values.shape[0]
    shape = (count, *values.shape[1:])
    spread = _beside(segments.long(), values).expand_as(values)
    identity = _IDENTITY[op]
    with torch.no_grad():
        known = values.masked_fill(values.isnan(), identity)
        best = known.new_full(shape, identity).scatter_reduce(0, spread, known, f"a{op}")
        attained = known == best.gather(0, spread)
        rows = _beside(torch.arange(number, device=values.device), values).expand_as(values)
        candidates = rows.masked_fill(~attained, number)
        first = rows.new_full(shape, number).scatter_reduce(0, spread, candidates, "amin")
    found = values.gather(0, first.clamp(max=number - 1))
    return torch.where((first == number) | found.isnan(), identity, found)


def _beside(rows: Tensor, values: Tensor) -> Tensor:
    """(R,) as (R, 1, ...), to broadcast with `values` (R, ...)."""
    return rows.reshape(-1, *[1] * (values.dim() - 1))
