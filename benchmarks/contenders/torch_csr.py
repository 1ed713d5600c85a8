"""Layers that are one product with a matrix that no input changes, on `torch.sparse` CSR tensors.

Attention has weights that depend on features, and EdgeConv a maximum over sums of both ends: a CSR
tensor does not say them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from contenders import Runner, converted, direct
from graphs import EdgeList
from layers import Workload


def matrix(graph: EdgeList, values: Tensor) -> Tensor:
    """(rows, N) in CSR from the value of each edge, (E,)."""
    order = torch.argsort(graph.dst, stable=True)
    offsets = torch.zeros(graph.num_rows + 1, dtype=torch.int64)
    offsets[1:] = torch.bincount(graph.dst, minlength=graph.num_rows).cumsum(0)
    size = (graph.num_rows, graph.num_nodes)
    return torch.sparse_csr_tensor(offsets, graph.src[order], values[order], size)


def normalised(graph: EdgeList) -> Tensor:
    """GCN's matrix, norms included."""
    norm = torch.bincount(graph.dst, minlength=graph.num_rows).float().rsqrt()
    return matrix(graph, norm[graph.src] * norm[graph.dst])


def averaging(graph: EdgeList) -> Tensor:
    """The matrix that takes the mean over in-edges."""
    share = torch.bincount(graph.dst, minlength=graph.num_rows).float().reciprocal()
    return matrix(graph, share[graph.dst])


def gcn(work: Workload) -> Runner:
    """One product with the normalised matrix."""
    adjacency, seconds = converted(normalised, work.graph)
    assert adjacency.layout == torch.sparse_csr
    return direct(work, [lambda: adjacency @ (work.x @ work.weights["weight"])], convert_s=seconds)


def sage(work: Workload) -> Runner:
    """The matrices are made in each call."""
    weights = work.weights

    def run(blocks: tuple[EdgeList, ...], x: Tensor) -> Tensor:
        for i, block in enumerate(blocks):
            x = functional.relu(x) if i else x
            mean = averaging(block) @ x
            x = x[: block.num_rows] @ weights[f"own{i}"] + mean @ weights[f"others{i}"]
        return x

    runs = [
        lambda blocks=blocks, x=x: run(blocks, x)
        for blocks, x in zip(work.graph.blocks, work.batch_inputs(), strict=True)
    ]
    return direct(work, runs)


BUILDERS = {"gcn": gcn, "sage": sage}
