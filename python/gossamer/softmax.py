"""Softmax over each node's edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError, RowCountError
from gossamer.ids import ALL, edge_ids_of, is_all
from gossamer.segments import segment_softmax
from gossamer.symbolic import is_symbolic

if TYPE_CHECKING:
    from gossamer.graph import Graph


def edge_softmax(
    graph: Graph,
    logits: Tensor | Mapping[tuple[str, str, str], Tensor],
    eids: object = ALL,
    norm_by: str = "dst",
) -> Tensor | dict[tuple[str, str, str], Tensor]:
    """Softmax of edge values over the in-edges (or out-edges) of each node.

    Args:
        graph: the graph.
        logits: (E, ...), or a dict by canonical edge type: the softmax then ranges over all
            relations that enter (leave) a node.
        eids: only these edges; `logits` then has one row for each.
        norm_by: "dst" or "src".

    Returns:
        The same shape, dtype and kind as `logits`.

    Raises:
        GraphError: unknown `norm_by` or edge type. RowCountError: wrong number of rows.
    """
    if norm_by not in ("src", "dst"):
        raise GraphError(f"norm_by must be 'src' or 'dst', not {norm_by!r}")
    if is_symbolic(graph):
        return graph.edge_softmax(logits, eids, norm_by)
    if isinstance(logits, Mapping):
        return _over_relations(graph, logits, norm_by)
    if len(graph._structures) > 1:
        raise GraphError("the graph has several edge types: give a dict from edge type to logits")
    if not is_all(eids):
        return _over_some(graph, logits, eids, norm_by)
    _check_rows(logits, graph.num_edges())
    return graph._engine.edge_softmax(graph, 0, logits, norm_by)


def _over_some(graph: Graph, logits: Tensor, eids: object, norm_by: str) -> Tensor:
    structure = graph.structure()
    edges = edge_ids_of(graph, eids, None, "eids").long()
    _check_rows(logits, edges.shape[0])
    if norm_by == "src":
        return segment_softmax(logits, structure.src[edges], structure.num_src)
    return segment_softmax(logits, structure.dst[edges], structure.num_dst)


def _over_relations(graph: Graph, logits: Mapping, norm_by: str) -> dict:
    """Relations that share a node type are normalised together."""
    groups: dict[int, list[tuple[tuple[str, str, str], Tensor]]] = {}
    for etype, values in logits.items():
        index = graph.get_etype_id(etype)
        ends = graph._schema.relations[index]
        _check_rows(values, graph._structures[index].num_edges)
        groups.setdefault(getattr(ends, norm_by), []).append((etype, values))
    results = {}
    for ntype, members in groups.items():
        segments = torch.cat([getattr(graph.structure(etype), norm_by) for etype, _ in members])
        joined = torch.cat([values for _, values in members])
        scores = segment_softmax(joined, segments, graph._node_frames[ntype].num_rows)
        parts = scores.split([values.shape[0] for _, values in members])
        results.update(zip((etype for etype, _ in members), parts, strict=True))
    return {etype: results[etype] for etype in logits}


def _check_rows(logits: Tensor, count: int) -> None:
    if logits.dim() == 0 or logits.shape[0] != count:
        raise RowCountError(f"logits have shape {tuple(logits.shape)}; expected {count} rows")
