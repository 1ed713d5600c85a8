"""Orders in which to visit nodes: each generator gives frontiers, tensors of node or edge ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError
from gossamer.ids import graph_ids

if TYPE_CHECKING:
    from gossamer.graph import Graph
    from gossamer.structure import Structure


def topological_nodes_generator(graph: Graph, reverse: bool = False) -> Iterator[Tensor]:
    """Frontiers of nodes whose predecessors (successors, when reversed) all came before.

    Raises:
        GraphError: the graph has a cycle.
    """
    structure = _oriented(graph, reverse)
    waiting = structure.in_degrees().long().clone()
    left = waiting.shape[0]
    frontier = (waiting == 0).nonzero().squeeze(1)
    while frontier.numel():
        left -= frontier.numel()
        yield frontier.to(graph.idtype)
        targets = structure.dst[_out_edges(structure, frontier)].long()
        waiting.sub_(torch.bincount(targets, minlength=waiting.shape[0]))
        candidates = torch.unique(targets)
        frontier = candidates[waiting[candidates] == 0]
    if left:
        raise GraphError(
            f"{left} nodes are on cycles or behind them: there is no topological order"
        )


def bfs_nodes_generator(graph: Graph, source: object, reverse: bool = False) -> Iterator[Tensor]:
    """Frontiers of nodes at distance 0, 1, ... from `source`."""
    for nodes, _ in _breadth_first(graph, source, reverse):
        yield nodes


def bfs_edges_generator(graph: Graph, source: object, reverse: bool = False) -> Iterator[Tensor]:
    """Frontiers of the edges by which a breadth-first search first reaches each node."""
    for _, edges in _breadth_first(graph, source, reverse):
        if edges.numel():
            yield edges


def dfs_edges_generator(graph: Graph, source: object, reverse: bool = False) -> Iterator[Tensor]:
    """Tree edges of depth-first searches from each source in turn, one edge per frontier."""
    structure = _oriented(graph, reverse)
    offsets, neighbors, edge_ids = (part.tolist() for part in structure.out_csr())
    seen: set[int] = set()
    for root in graph_ids(graph, source, "source").tolist():
        if root in seen:
            continue
        seen.add(root)
        stack = [(offsets[root], offsets[root + 1])]
        while stack:
            position, end = stack.pop()
            if position == end:
                continue
            stack.append((position + 1, end))
            node = neighbors[position]
            if node not in seen:
                seen.add(node)
                stack.append((offsets[node], offsets[node + 1]))
                yield torch.tensor([edge_ids[position]], dtype=graph.idtype)


def _breadth_first(graph: Graph, source: object, reverse: bool) -> Iterator[tuple[Tensor, Tensor]]:
    structure = _oriented(graph, reverse)
    seen = torch.zeros(structure.num_src, dtype=torch.bool)
    nodes = torch.unique(graph_ids(graph, source, "source").long())
    edges = nodes.new_zeros(0)
    while nodes.numel():
        seen[nodes] = True
        yield nodes.to(graph.idtype), edges.to(graph.idtype)
        candidates = _out_edges(structure, nodes)
        candidates = candidates[~seen[structure.dst[candidates].long()]]
        targets, first = _first_of_each(structure.dst[candidates].long())
        nodes, edges = targets, candidates[first]


def _first_of_each(values: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct values, ascending, and the position of the first of each."""
    ordered, order = torch.sort(values, stable=True)
    distinct, counts = torch.unique_consecutive(ordered, return_counts=True)
    return distinct, order[counts.cumsum(0) - counts]


def _oriented(graph: Graph, reverse: bool) -> Structure:
    structure = graph.structure()
    if not structure.homogeneous:
        raise GraphError("a traversal needs a graph with one node type")
    return structure.reversed() if reverse else structure


def _out_edges(structure: Structure, nodes: Tensor) -> Tensor:
    from gossamer.queries import row_edges

    return row_edges(structure.out_csr(), nodes, torch.int64)
