"""Summaries of each graph in a batch, over its nodes or its edges.

A batch is one more relation: each node (or edge) leads to its graph. On that relation a readout is
message passing, a softmax is a softmax of edges, and broadcasting reads the destination, so the
graph's engine runs or compiles all three like any graph call.

Every function here exists for nodes and for edges; `kind` chooses. Graphs without rows give 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gossamer.errors import GraphError, RowCountError
from gossamer.frame import Frame
from gossamer.function import REDUCE_NAMES, BuiltinFunction, Reduce, finite_reduce
from gossamer.schema import RelationEnds, Schema
from gossamer.symbolic import traceable

if TYPE_CHECKING:
    from gossamer.graph import Graph
    from gossamer.udf import EdgeBatch, NodeBatch

_SCHEMA = Schema(("row", "graph"), (RelationEnds(0, "in", 1),), (0,), (1,))


@dataclass(frozen=True)
class Readout(BuiltinFunction):
    """One readout, as functions of the relation of rows to graphs, whose edges are the rows.

    Args:
        feat, weight: fields of the rows; their product is reduced.
        op: "sum", "mean", "max" or "min".
    """

    feat: str
    weight: str | None
    op: str

    MESSAGE: ClassVar[str] = "value"
    RESULT: ClassVar[str] = "result"

    def message(self, rows: EdgeBatch) -> dict[str, Tensor]:
        """The values to be reduced, (R, ...)."""
        value = rows.data[self.feat]
        if self.weight is not None:
            value = value * rows.data[self.weight]
        if not value.is_floating_point():
            raise GraphError(
                f"a readout takes floating point fields, but {self.feat!r} gives {value.dtype}; "
                "convert the field"
            )
        return {self.MESSAGE: value}

    def reduce(self, graphs: NodeBatch) -> dict[str, Tensor]:
        """The rows of each graph, (B, D, ...), reduced."""
        reduce = Reduce(self.op, self.MESSAGE, self.RESULT)
        return (
            finite_reduce(reduce, graphs) if self.op in ("max", "min") else reduce.as_reduce(graphs)
        )


def _members(graph: Graph, kind: str, typed: object, fields: bool = True) -> Graph:
    """The relation of the rows of a type to the graphs of the batch.

    Its edges are the rows, in order; with `fields` they have the rows' own.

    Raises:
        GraphError: the sizes that the batch notes do not add up to the number of rows.
    """
    from gossamer.graph import Graph

    if kind == "nodes":
        index = graph.get_ntype_id(typed)
        rows, structure = graph._node_frames[index], graph._node_members(index).structure
    else:
        index = graph.get_etype_id(typed)
        rows, structure = graph._edge_frames[index], graph._edge_members(index).structure
    if structure.num_edges != rows.num_rows:
        raise GraphError(
            f"the graphs of the batch have {structure.num_edges} {kind} together, but there are "
            f"{rows.num_rows}; say how many each has with set_batch_num_{kind}"
        )
    if not fields:
        rows = Frame(rows.num_rows, kind, rows.device)
    ends = Frame(structure.num_src, kind), Frame(structure.num_dst, "graphs", rows.device)
    return Graph(_SCHEMA, [structure], ends, [rows], graph._engine)


def _readout(
    graph: Graph, feat: str, weight: str | None, op: str, kind: str, typed: object
) -> Tensor:
    if op not in REDUCE_NAMES:
        raise GraphError(f"op must be one of {', '.join(map(repr, REDUCE_NAMES))}, not {op!r}")
    members = _members(graph, kind, typed)
    return members._engine.readout(members, Readout(feat, weight, op))


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
    members = _members(graph, kind, typed)
    logits = members.relation(0).edges[feat]
    return members._engine.edge_softmax(members, 0, logits, "dst")


@traceable
def broadcast_nodes(graph: Graph, graph_feat: Tensor, *, ntype: str | None = None) -> Tensor:
    """(N, ...): each node's row of `graph_feat` (batch_size, ...)."""
    return _broadcast(graph, graph_feat, "nodes", ntype)


@traceable
def broadcast_edges(graph: Graph, graph_feat: Tensor, *, etype: object = None) -> Tensor:
    """(E, ...): each edge's row of `graph_feat` (batch_size, ...)."""
    return _broadcast(graph, graph_feat, "edges", etype)


def _broadcast(graph: Graph, graph_feat: Tensor, kind: str, typed: object) -> Tensor:
    members = _members(graph, kind, typed, fields=False)
    relation = members.relation(0)
    count = relation.structure.num_dst
    if graph_feat.shape[0] != count and count == 1:
        graph_feat = graph_feat.unsqueeze(0)  # DGL takes a row for a single graph
    if graph_feat.shape[0] != count:
        raise RowCountError(f"{graph_feat.shape[0]} rows for a batch of {count} graphs")
    relation.dst["row"] = graph_feat
    members._engine.apply_edges(members, 0, _row_of_graph)
    return relation.edges["row"]


def _row_of_graph(rows: EdgeBatch) -> dict[str, Tensor]:
    return {"row": rows.dst["row"]}


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
    relation = _members(graph, kind, typed).relation(0)
    values = relation.edges[feat]
    sizes = relation.structure.in_degrees().tolist()
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
