"""PyG's layers on `EdgeIndex`: edges sorted by destination, caches filled."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GCNConv

from contenders.pyg import builders, plain
from graphs import EdgeList


def edge_index_of(graph: EdgeList) -> EdgeIndex:
    """(2, E), sorted by destination, with the pointers of both directions."""
    order = torch.argsort(graph.dst, stable=True)
    ends = torch.stack([graph.src[order], graph.dst[order]])
    size = (graph.num_nodes, graph.num_rows)
    return EdgeIndex(ends, sparse_size=size, sort_order="col").fill_cache_()


def check(conv: nn.Module, edge_index: Tensor) -> None:
    """Sorted, caches filled, and what GCNConv keeps is an `EdgeIndex` still."""
    kept = conv._cached_edge_index[0] if isinstance(conv, GCNConv) else edge_index
    assert isinstance(kept, EdgeIndex)
    assert kept.is_sorted_by_col
    assert kept._indptr is not None
    assert kept._T_perm is not None


BUILDERS = builders(edge_index_of, plain, check)
