"""The graphs that are measured, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class EdgeList:
    """Endpoints, int64, (E,), of a graph with `num_nodes` nodes; each node has a self loop."""

    src: Tensor
    dst: Tensor
    num_nodes: int

    @property
    def num_edges(self) -> int:
        """The number of edges, E, self loops included."""
        return len(self.src)


def power_law(num_nodes: int, num_edges: int) -> EdgeList:
    """Random edges whose sources and destinations follow power laws, then the self loops.

    The ids of popular nodes are scattered, so that nothing is gained by their order.
    """
    generator = torch.Generator().manual_seed(1)

    def ends(exponent: float) -> Tensor:
        uniform = torch.rand(num_edges, generator=generator, dtype=torch.float64)
        return ((uniform**exponent) * num_nodes).long().clamp(max=num_nodes - 1)

    sources = torch.randperm(num_nodes, generator=generator)
    destinations = torch.randperm(num_nodes, generator=generator)
    loops = torch.arange(num_nodes)
    src = torch.cat([sources[ends(2.0)], loops])
    dst = torch.cat([destinations[ends(1.6)], loops])
    return EdgeList(src, dst, num_nodes)


GRAPHS: dict[str, Callable[[], EdgeList]] = {
    # As many nodes and edges as ogbn-arxiv.
    "power-law": lambda: power_law(169_343, 1_166_243),
    "power-law-small": lambda: power_law(20_000, 140_000),
    "tiny": lambda: power_law(64, 256),
}
