"""PyG's own GCNConv and GATConv, with the weights of the workload."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import GATConv, GCNConv

from layers import HEADS, Workload


def gcn(work: Workload) -> Callable[[], Tensor]:
    """The norm of each edge is computed beforehand, as GCNConv's cache would."""
    edge_index = torch.stack([work.graph.src, work.graph.dst])
    norm = torch.bincount(work.graph.dst, minlength=work.graph.num_nodes).float().rsqrt()
    edge_norm = norm[work.graph.src] * norm[work.graph.dst]
    width = work.x.shape[1]
    conv = GCNConv(width, width, normalize=False, bias=False)
    conv.lin.weight.data = work.weights["weight"].t().contiguous()
    return lambda: conv(work.x, edge_index, edge_norm)


def gat(work: Workload) -> Callable[[], Tensor]:
    """The graph has its self loops already."""
    edge_index = torch.stack([work.graph.src, work.graph.dst])
    width = work.x.shape[1]
    conv = GATConv(width, width // HEADS, heads=HEADS, add_self_loops=False, bias=False)
    conv.lin.weight.data = work.weights["weight"].t().contiguous()
    conv.att_src.data = work.weights["src"].unsqueeze(0)
    conv.att_dst.data = work.weights["dst"].unsqueeze(0)
    return lambda: conv(work.x, edge_index)


BUILDERS = {"gcn": gcn, "gat": gat}
