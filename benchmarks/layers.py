"""The layers that are measured, by name: their inputs, and what they compute.

Every contender computes the same function of the same tensors; `contenders/` holds how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphs import EdgeList

HEADS = 4


@dataclass(frozen=True)
class Workload:
    """One layer on one graph.

    Attributes:
        layer: name of the layer in `LAYERS`.
        graph: where it runs.
        x: node features, float32, (N, F).
        weights: by name; the layer's function below says which.
    """

    layer: str
    graph: EdgeList
    x: Tensor
    weights: dict[str, Tensor]


def gcn(graph: EdgeList, features: int) -> Workload:
    """y_v = c_v sum_u c_u x_u W with c = in-degree^-1/2; W: (F, F) as `weight`.

    Source: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks.
    """
    x, random = inputs(graph, features)
    return Workload("gcn", graph, x, {"weight": random(features, features)})


def gat(graph: EdgeList, features: int) -> Workload:
    """y_v = sum_u softmax_u(leaky_relu(a_src . z_u + a_dst . z_v)) z_u, z = x W, per head.

    W: (F, F) as `weight`; z has `HEADS` heads of F / HEADS; `src` and `dst`: (HEADS, F / HEADS).
    Source: Velickovic et al., Graph Attention Networks.
    """
    x, random = inputs(graph, features)
    width = features // HEADS
    weights = {"weight": random(features, features)}
    weights |= {"src": random(HEADS, width), "dst": random(HEADS, width)}
    return Workload("gat", graph, x, weights)


def inputs(graph: EdgeList, features: int) -> tuple[Tensor, Callable[..., Tensor]]:
    """Node features, and a source of weights of about unit gain; the same in every process."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(graph.num_nodes, features, generator=generator)
    return x, lambda *shape: torch.randn(*shape, generator=generator) / shape[-1] ** 0.5


LAYERS: dict[str, Callable[[EdgeList, int], Workload]] = {"gcn": gcn, "gat": gat}
