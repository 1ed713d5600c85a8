"""Merging what several relations give one node type (`multi_update_all`)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gossamer.errors import GraphError

CROSS_REDUCERS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda stacked: stacked.sum(0),
    "mean": lambda stacked: stacked.mean(0),
    "max": lambda stacked: stacked.max(0)[0],
    "min": lambda stacked: stacked.min(0)[0],
}


def merge_results(
    parts: list[tuple[int, dict[str, Tensor]]], reducer: str | Callable[[list[Tensor]], Tensor]
) -> dict[str, Tensor]:
    """One result per field from (relation index, fields) in the order of the call.

    A field is merged over the relations that have it. A single part is returned as it is, unless
    the reducer is "stack"; "stack" orders by relation index, a function gets the order of the call.

    Raises:
        GraphError: unknown reducer.
    """
    if isinstance(reducer, str) and reducer != "stack" and reducer not in CROSS_REDUCERS:
        raise GraphError(
            f"Invalid cross type reducer {reducer!r}. Must be one of "
            '"sum", "max", "min", "mean" or "stack", or a function of a list of tensors.'
        )
    if len(parts) == 1 and reducer != "stack":
        return parts[0][1]
    if reducer == "stack":
        parts = sorted(parts, key=lambda part: part[0])
    keys = dict.fromkeys(key for _, fields in parts for key in fields)
    lists = {key: [fields[key] for _, fields in parts if key in fields] for key in keys}
    return {key: _merge(values, reducer) for key, values in lists.items()}


def _merge(values: list[Tensor], reducer: str | Callable[[list[Tensor]], Tensor]) -> Tensor:
    if callable(reducer):
        return reducer(values)
    if reducer == "stack":
        return torch.stack(values, 1)
    return CROSS_REDUCERS[reducer](torch.stack(values)) if len(values) > 1 else values[0]
