"""Summaries of each graph in a batch, over its nodes or its edges.

Every function here exists for nodes and for edges; `kind` chooses. Graphs without rows give 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError, RowCountError
from gossamer.function import replace_infinity
from gossamer.symbolic import traceable

if TYPE_CHECKING:
    from gossamer.graph import Graph

_IDENTITY = {"max": -float("inf"), "min": float("inf")}


def _rows(graph: Graph, kind: str, typed: object) -> tuple[object, Tensor]:
    """(fields, graph number of each row) for nodes or edges of a type."""
    if kind == "nodes":
        counts = graph.batch_num_nodes(typed)
        data = graph.nodes[typed].data if typed is not None else graph.ndata
    else:
        counts = graph.batch_num_edges(typed)
        data = graph.edges[typed].data
    numbers = torch.arange(counts.shape[0], device=counts.device)
    return data, torch.repeat_interleave(numbers, counts)


def segment_reduce(values: Tensor, segments: Tensor, count: int, op: str) -> Tensor:
    """Reduce rows of (R, ...) by segment number into (count, ...); "sum", "mean", "max" or "min".

    Raises:
        GraphError: unknown `op`.
    """
    shape = (count, *values.shape[1:])
    if op in ("sum", "mean"):
        total = values.new_zeros(shape).index_add(0, segments, values)
        if op == "sum":
            return total
        sizes = torch.bincount(segments, minlength=count).clamp(min=1).to(values.dtype)
        return total / sizes.reshape(-1, *[1] * (values.dim() - 1))
    if op not in _IDENTITY:
        raise GraphError(f"op must be 'sum', 'mean', 'max' or 'min', not {op!r}")
    spread = segments.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    start = values.new_full(shape, _IDENTITY[op])
    return replace_infinity(start.scatter_reduce(0, spread, values, f"a{op}"))


def _readout(
    graph: Graph, feat: str, weight: str | None, op: str, kind: str, typed: object
) -> Tensor:
    data, segments = _rows(graph, kind, typed)
    values = data[feat]
    if weight is not None:
        values = values * data[weight]
    return segment_reduce(values, segments, graph.batch_size, op)


@traceable
def readout_nodes(
    graph: Graph, feat: str, weight: str | None = None, *, op: str = "sum", ntype: str | None = None
) -> Tensor:
    """(batch_size, ...): `op` over the nodes of each graph of field `feat` (times field
    `weight`).
    """
    return _readout(graph, feat, weight, op, "nodes", ntype)


@traceable
def readout_edges(
    graph: Graph, feat: str, weight: str | None = None, *, op: str = "sum", etype: object = None
) -> Tensor:
    """(batch_size, ...): `op` over the edges of each graph of field `feat` (times field
    `weight`).
    """
    return _readout(graph, feat, weight, op, "edges", etype)


def sum_nodes(graph: Graph, feat: str, weight: str | None = None, *, ntype: str | None = None):
    """(batch_size, ...): sum over the nodes of each graph."""
    return readout_nodes(graph, feat, weight, ntype=ntype)


def sum_edges(graph: Graph, feat: str, weight: str | None = None, *, etype: object = None):
    """(batch_size, ...): sum over the edges of each graph."""
    return readout_edges(graph, feat, weight, etype=etype)


def mean_nodes(graph: Graph, feat: str, weight: str | None = None, *, ntype: str | None = None):
    """(batch_size, ...): mean over the nodes of each graph."""
    return readout_nodes(graph, feat, weight, op="mean", ntype=ntype)


def mean_edges(graph: Graph, feat: str, weight: str | None = None, *, etype: object = None):
    """(batch_size, ...): mean over the edges of each graph."""
    return readout_edges(graph, feat, weight, op="mean", etype=etype)


def max_nodes(graph: Graph, feat: str, weight: str | None = None, *, ntype: str | None = None):
    """(batch_size, ...): maximum over the nodes of each graph."""
    return readout_nodes(graph, feat, weight, op="max", ntype=ntype)


def max_edges(graph: Graph, feat: str, weight: str | None = None, *, etype: object = None):
    """(batch_size, ...): maximum over the edges of each graph."""
    return readout_edges(graph, feat, weight, op="max", etype=etype)


@traceable
def softmax_nodes(graph: Graph, feat: str, *, ntype: str | None = None) -> Tensor:
    """(N, ...): softmax of a node field over the nodes of each graph."""
    return _softmax(graph, feat, "nodes", ntype)


@traceable
def softmax_edges(graph: Graph, feat: str, *, etype: object = None) -> Tensor:
    """(E, ...): softmax of an edge field over the edges of each graph."""
    return _softmax(graph, feat, "edges", etype)


def _softmax(graph: Graph, feat: str, kind: str, typed: object) -> Tensor:
    from gossamer.eager import segment_softmax

    data, segments = _rows(graph, kind, typed)
    return segment_softmax(data[feat], segments, graph.batch_size)


@traceable
def broadcast_nodes(graph: Graph, graph_feat: Tensor, *, ntype: str | None = None) -> Tensor:
    """(N, ...): each node's row of `graph_feat` (batch_size, ...)."""
    return _broadcast(graph, graph_feat, "nodes", ntype)


@traceable
def broadcast_edges(graph: Graph, graph_feat: Tensor, *, etype: object = None) -> Tensor:
    """(E, ...): each edge's row of `graph_feat` (batch_size, ...)."""
    return _broadcast(graph, graph_feat, "edges", etype)


def _broadcast(graph: Graph, graph_feat: Tensor, kind: str, typed: object) -> Tensor:
    count = graph.batch_size
    if graph_feat.shape[0] != count and count == 1:
        graph_feat = graph_feat.unsqueeze(0)  # DGL takes a row for a single graph
    if graph_feat.shape[0] != count:
        raise RowCountError(f"{graph_feat.shape[0]} rows for a batch of {count} graphs")
    return graph_feat.index_select(0, _rows(graph, kind, typed)[1])


@traceable
def topk_nodes(graph: Graph, feat: str, k: int, *, descending=True, sortby=None, ntype=None):
    """The k largest nodes of each graph: values (batch_size, k, F) padded with 0, and their
    positions.
    """
    return _topk(graph, feat, k, descending, sortby, "nodes", ntype)


@traceable
def topk_edges(graph: Graph, feat: str, k: int, *, descending=True, sortby=None, etype=None):
    """The k largest edges of each graph: values (batch_size, k, F) padded with 0, and their
    positions.
    """
    return _topk(graph, feat, k, descending, sortby, "edges", etype)


def _topk(graph, feat, k, descending, sortby, kind, typed) -> tuple[Tensor, Tensor]:
    data, segments = _rows(graph, kind, typed)
    values = data[feat]
    sizes = torch.bincount(segments, minlength=graph.batch_size).tolist()
    picked = [_topk_of(part, k, descending, sortby) for part in values.split(sizes)]
    columns = zip(*picked, strict=True)
    return tuple(torch.stack(list(column)) for column in columns)


def _topk_of(values: Tensor, k: int, descending: bool, sortby: int | None) -> tuple[Tensor, Tensor]:
    pad = max(k - values.shape[0], 0)
    if sortby is None:
        found, order = values.sort(0, descending=descending)
        found, order = found[:k], order[:k]
    else:
        order = values[:, sortby].argsort(descending=descending)[:k]
        found = values[order]
    zeros = values.new_zeros((pad, *values.shape[1:]))
    return torch.cat([found, zeros]), torch.cat([order, order.new_zeros((pad, *order.shape[1:]))])
