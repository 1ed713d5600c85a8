"""What to write instead of operators that are not compiled."""

from __future__ import annotations

from typing import Any

import torch

from gossamer.capture.errors import UntraceableError
from gossamer.capture.recorder import NO_SUCH_FUNCTION

aten = torch.ops.aten

_PLACES = (
    "positions are not compiled: for the extreme itself write max(...).values or amax(...); for "
    "what belongs to it, take x == x.amax(dim, keepdim=True) as a mask"
)
_ORDER = "numbers are not ordered: write sum, mean, max, min or softmax over the axis"
_MOVES = "nothing moves along an axis: write slices of a feature axis with torch.cat"
_COLUMNS = "write a slice of the features, or a product with a matrix of zeros and ones"

_REMEDIES = {
    aten.argmax: _PLACES,
    aten.argmin: _PLACES,
    **dict.fromkeys(
        (aten.sort, aten.topk, aten.median, aten.nanmedian, aten.kthvalue, aten.mode, aten.cumsum),
        _ORDER,
    ),
    aten.flip: _MOVES,
    aten.roll: _MOVES,
    aten.index_put: "write torch.where(condition, value, x)",
    aten.scatter: "write torch.where(condition, value, x)",
    aten.triu: _COLUMNS,
    aten.tril: _COLUMNS,
    aten.diagonal: _COLUMNS,
}


def missing(target: Any) -> UntraceableError:
    """The error for an operator that has no line in the table."""
    packet = getattr(target, "overloadpacket", None)
    return UntraceableError(
        f"{target} is not compiled", remedy=_REMEDIES.get(packet, NO_SUCH_FUNCTION)
    )


def missing_result(target: Any, index: int) -> UntraceableError:
    """The error for one of several results, such as the positions of maxima."""
    packet = getattr(target, "overloadpacket", None)
    remedy = _PLACES if packet in (aten.max, aten.min) else "take its other results"
    return UntraceableError(f"result {index} of {target} is not compiled", remedy=remedy)
