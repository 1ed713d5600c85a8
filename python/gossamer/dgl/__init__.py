"""Gossamer's graphs under DGL's names, for programs written as `import dgl`.

Change the import to `import gossamer.dgl as dgl`; DGL need not be installed. What is not here
raises AttributeError naming the nearest name that is. Differences: docs/differences-from-dgl.md.
"""

from __future__ import annotations

import difflib

import torch

from gossamer.batching import batch, unbatch
from gossamer.borrow import from_dgl
from gossamer.convert import (
    create_block,
    from_edge_index,
    from_networkx,
    from_scipy,
    graph,
    heterograph,
)
from gossamer.dgl import function, nn, ops
from gossamer.dgl.random import rand_bipartite, rand_graph
from gossamer.errors import GraphError as DGLError
from gossamer.graph import Graph
from gossamer.graph import Graph as DGLGraph
from gossamer.ids import ALL, EID, ETYPE, NID, NTYPE
from gossamer.readout import (
    broadcast_edges,
    broadcast_nodes,
    max_edges,
    max_nodes,
    mean_edges,
    mean_nodes,
    readout_edges,
    readout_nodes,
    softmax_edges,
    softmax_nodes,
    sum_edges,
    sum_nodes,
    topk_edges,
    topk_nodes,
)
from gossamer.transforms import (
    add_edges,
    add_nodes,
    add_reverse_edges,
    add_self_loop,
    edge_subgraph,
    in_subgraph,
    node_subgraph,
    out_subgraph,
    remove_edges,
    remove_nodes,
    remove_self_loop,
    reverse,
    to_bidirected,
    to_block,
    to_simple,
)
from gossamer.traversal import (
    bfs_edges_generator,
    bfs_nodes_generator,
    dfs_edges_generator,
    topological_nodes_generator,
)

DGLHeteroGraph = DGLGraph


def prop_nodes(graph: Graph, nodes_generator, message_func, reduce_func, apply_node_func=None):
    """`graph.pull` for each group of nodes."""
    graph.prop_nodes(nodes_generator, message_func, reduce_func, apply_node_func)


def prop_edges(graph: Graph, edges_generator, message_func, reduce_func, apply_node_func=None):
    """`graph.send_and_recv` for each group of edges."""
    graph.prop_edges(edges_generator, message_func, reduce_func, apply_node_func)


def prop_nodes_bfs(
    graph: Graph, source, message_func, reduce_func, reverse=False, apply_node_func=None
):
    """`graph.pull` for each frontier of a breadth-first search."""
    frontiers = bfs_nodes_generator(graph, source, reverse)
    graph.prop_nodes(frontiers, message_func, reduce_func, apply_node_func)


def prop_nodes_topo(graph: Graph, message_func, reduce_func, reverse=False, apply_node_func=None):
    """`graph.pull` for each generation in topological order."""
    graph.prop_nodes_topo(message_func, reduce_func, reverse, apply_node_func)


def prop_edges_dfs(
    graph: Graph, source, message_func, reduce_func, reverse=False, apply_node_func=None
):
    """`graph.send_and_recv` for each edge of depth-first searches."""
    frontiers = dfs_edges_generator(graph, source, reverse)
    graph.prop_edges(frontiers, message_func, reduce_func, apply_node_func)


def seed(value: int) -> None:
    """Seed the generator of `rand_graph` and `rand_bipartite`, which is torch's."""
    torch.manual_seed(value)


__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "NID",
    "NTYPE",
    "DGLError",
    "DGLGraph",
    "DGLHeteroGraph",
    "add_edges",
    "add_nodes",
    "add_reverse_edges",
    "add_self_loop",
    "batch",
    "bfs_edges_generator",
    "bfs_nodes_generator",
    "broadcast_edges",
    "broadcast_nodes",
    "create_block",
    "dfs_edges_generator",
    "edge_subgraph",
    "from_dgl",
    "from_edge_index",
    "from_networkx",
    "from_scipy",
    "function",
    "graph",
    "heterograph",
    "in_subgraph",
    "max_edges",
    "max_nodes",
    "mean_edges",
    "mean_nodes",
    "nn",
    "node_subgraph",
    "ops",
    "out_subgraph",
    "prop_edges",
    "prop_edges_dfs",
    "prop_nodes",
    "prop_nodes_bfs",
    "prop_nodes_topo",
    "rand_bipartite",
    "rand_graph",
    "readout_edges",
    "readout_nodes",
    "remove_edges",
    "remove_nodes",
    "remove_self_loop",
    "reverse",
    "seed",
    "softmax_edges",
    "softmax_nodes",
    "sum_edges",
    "sum_nodes",
    "to_bidirected",
    "to_block",
    "to_simple",
    "topk_edges",
    "topk_nodes",
    "topological_nodes_generator",
    "unbatch",
]


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __all__, n=1, cutoff=0.0)
    raise AttributeError(f"gossamer.dgl has no {name!r}; the nearest name it has is {near[0]!r}")
