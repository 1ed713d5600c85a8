"""`dgl.ops`: message passing as functions of tensors, for graphs with one relation.

`copy_u_sum(g, x)`, `u_mul_e_max(g, x, w)`, ... reduce to destination nodes; `u_dot_v(g, x, y)`,
`copy_u(g, x)`, ... give edge values. Operands broadcast as in `gossamer.function`. They run on the
graph's engine, as built-in functions do. The maximum and minimum at nodes without in-edges are -inf
and inf, as DGL's are.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
from torch import Tensor

from gossamer import function, segments
from gossamer.errors import GraphError
from gossamer.frame import Frame
from gossamer.function import BinaryMessage, BuiltinFunction, CopyMessage, Reduce
from gossamer.graph import Graph
from gossamer.softmax import edge_softmax
from gossamer.symbolic import traceable

_COPIES = {"copy_lhs": "u", "copy_rhs": "e"}
_SPMM_OPS = ("add", "sub", "mul", "div", "dot")


@traceable
def gspmm(
    g: Graph, op: str, reduce_op: str, lhs_data: Tensor | None, rhs_data: Tensor | None
) -> Tensor:
    """(num_dst, ...): `reduce_op` over in-edges of (source row `op` edge row).

    Args:
        op: "add", "sub", "mul", "div", "dot", "copy_lhs" (source rows) or "copy_rhs" (edge rows).
        reduce_op: "sum", "mean", "max" or "min".
        lhs_data: (num_src, ...); rhs_data: (E, ...).
    """
    if reduce_op not in function.REDUCE_NAMES:
        raise GraphError(f"reduce_op must be one of {function.REDUCE_NAMES}, not {reduce_op!r}")
    operands = {"u": lhs_data, "e": rhs_data}
    reduce = Reduce(reduce_op, "m", "o", keeps_infinity=True)
    view = _view(g, operands)
    view._engine.update_all(view, 0, _message(op, "u", "e"), reduce, None)
    return view.relation(0).dst["o"]


@traceable
def gsddmm(
    g: Graph,
    op: str,
    lhs_data: Tensor | None,
    rhs_data: Tensor | None,
    lhs_target: str = "u",
    rhs_target: str = "v",
) -> Tensor:
    """(E, ...): row of one end `op` row of another, per edge.

    Args:
        op: "add", "sub", "mul", "div", "dot", "copy_lhs" or "copy_rhs".
        lhs_target, rhs_target: "u", "v" or "e": whose rows the operands are.
    """
    if op == "copy_rhs":
        op, lhs_target, lhs_data, rhs_data = "copy_lhs", rhs_target, rhs_data, None
    operands = (
        {lhs_target: lhs_data} if rhs_data is None else {lhs_target: lhs_data, rhs_target: rhs_data}
    )
    message = CopyMessage(lhs_target, lhs_target, "m")
    if op != "copy_lhs":
        message = _message(op, lhs_target, rhs_target)
    view = _view(g, operands)
    view._engine.apply_edges(view, 0, message)
    return view.relation(0).edges["m"]


def segment_reduce(seglen: Tensor, value: Tensor, reducer: str = "sum") -> Tensor:
    """(len(seglen), ...): reduce consecutive runs of rows; `seglen` are their lengths."""
    numbers = seglen.new_tensor(range(seglen.shape[0])).long()
    return segments.segment_reduce(
        value, numbers.repeat_interleave(seglen), seglen.shape[0], reducer
    )


def segment_softmax(seglen: Tensor, value: Tensor) -> Tensor:
    """Softmax over consecutive runs of rows; `seglen` are their lengths."""
    numbers = seglen.new_tensor(range(seglen.shape[0])).long()
    return segments.segment_softmax(value, numbers.repeat_interleave(seglen), seglen.shape[0])


def gather_mm(a: Tensor, b: Tensor, *, idx_b: Tensor) -> Tensor:
    """(N, D2): row i of ``a`` (N, D1) times the matrix ``b[idx_b[i]]``.

    Args:
        b: (R, D1, D2), a matrix for each type.
        idx_b: (N,) integers; negative ones count from the end.

    Raises:
        IndexError: a number of no matrix.
    """
    return torch.bmm(a.unsqueeze(1), b[idx_b]).squeeze(1)


def _message(op: str, lhs: str, rhs: str) -> BuiltinFunction:
    """A built-in whose fields are named after their targets."""
    if op in _COPIES:
        return CopyMessage(_COPIES[op], _COPIES[op], "m")
    if op not in _SPMM_OPS:
        raise GraphError(f"op must be one of {(*_SPMM_OPS, *_COPIES)}, not {op!r}")
    return BinaryMessage(op, lhs, rhs, lhs, rhs, "m")


def _view(g: Graph, operands: dict[str, Tensor | None]) -> Graph:
    """The graph with the operands as its only fields: "u" on sources, "v" on destinations, "e" on
    edges.
    """
    if len(g._structures) != 1:
        raise GraphError("dgl.ops takes graphs with one relation; use g[etype]")
    view = g._like(*([_empty(f) for f in frames] for frames in (g._node_frames, g._edge_frames)))
    relation = view.relation(0)
    frames = {"u": relation.src, "v": relation.dst, "e": relation.edges}
    for target, value in operands.items():
        if value is None:
            continue
        if target not in frames:
            raise GraphError(f"a target must be 'u', 'v' or 'e', not {target!r}")
        frames[target][target] = value
    return view


def _empty(frame: Frame) -> Frame:
    return Frame(frame.num_rows, frame.kind, frame.device)


def _binary(lhs: str, op: str, rhs: str) -> Callable[[Graph, Tensor, Tensor], Tensor]:
    def operator(g: Graph, x: Tensor, y: Tensor) -> Tensor:
        return gsddmm(g, op, x, y, lhs, rhs)

    operator.__doc__ = f"(E, ...): {lhs} rows {op} {rhs} rows, per edge."
    return operator


def _reduced(op: str, reduce_op: str) -> Callable[[Graph, Tensor, Tensor], Tensor]:
    def operator(g: Graph, x: Tensor, y: Tensor) -> Tensor:
        return gspmm(g, op, reduce_op, x, y)

    operator.__doc__ = f"(num_dst, ...): {reduce_op} over in-edges of source rows {op} edge rows."
    return operator


def _copy(target: str) -> Callable[[Graph, Tensor], Tensor]:
    def operator(g: Graph, x: Tensor) -> Tensor:
        return gsddmm(g, "copy_lhs", x, None, target)

    operator.__doc__ = f"(E, ...): {target} rows, per edge."
    return operator


def _copy_reduced(target: str, reduce_op: str) -> Callable[[Graph, Tensor], Tensor]:
    def operator(g: Graph, x: Tensor) -> Tensor:
        if target == "u":
            return gspmm(g, "copy_lhs", reduce_op, x, None)
        return gspmm(g, "copy_rhs", reduce_op, None, x)

    operator.__doc__ = f"(num_dst, ...): {reduce_op} over in-edges of {target} rows."
    return operator


_TABLE: dict[str, Callable] = {
    **{name: _binary(*name.split("_")) for name in function.BINARY_NAMES},
    **{f"copy_{target}": _copy(target) for target in "uve"},
    **{
        f"u_{op}_e_{reduce_op}": _reduced(op, reduce_op)
        for op in _SPMM_OPS
        for reduce_op in function.REDUCE_NAMES
    },
    **{
        f"copy_{target}_{reduce_op}": _copy_reduced(target, reduce_op)
        for target in "ue"
        for reduce_op in function.REDUCE_NAMES
    },
}
for _name, _operator in _TABLE.items():
    _operator.__name__ = _operator.__qualname__ = _name
globals().update(_TABLE)
del _name, _operator

__all__ = [
    "edge_softmax",
    "gather_mm",
    "gsddmm",
    "gspmm",
    "segment_reduce",
    "segment_softmax",
    *_TABLE,
]


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __all__, n=1, cutoff=0.0)
    raise AttributeError(
        f"gossamer.dgl.ops has no {name!r}; the nearest name it has is {near[0]!r}"
    )
