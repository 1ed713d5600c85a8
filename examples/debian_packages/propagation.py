"""The layer that the demo compiles, written as any DGL user would write it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Neighborhood(nn.Module):
    """What a node's neighbours have in common, and how far they differ from it; no parameters.

    Each hop replaces a node's features by the mean over its neighbours and also gives the mean
    distance of the neighbours from that mean. No built-in of DGL computes the second.
    """

    def __init__(self, hops: int):
        """`hops`: how many times; hop k sees what is k edges away."""
        super().__init__()
        self.hops = hops

    def message(self, edges) -> dict[str, Tensor]:
        """Each neighbour sends its features, (E, F)."""
        return {"m": edges.src["h"]}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """Mean and mean absolute deviation over the mailbox (N, D, F): both (N, F)."""
        received = nodes.mailbox["m"]
        mean = received.sum(1) * nodes.data["norm"]
        spread = (received - mean.unsqueeze(1)).abs().sum(1) * nodes.data["norm"]
        return {"h": mean, "spread": spread}

    def forward(self, graph, features: Tensor) -> Tensor:
        """Features (N, F) to (N, F * (1 + 2 * hops)): own, then mean and spread of each hop."""
        columns = [features]
        with graph.local_scope():
            degrees = graph.in_degrees().clamp(min=1)
            graph.ndata["norm"] = (1 / degrees).to(features.dtype).unsqueeze(1)
            graph.ndata["h"] = features
            for _ in range(self.hops):
                graph.update_all(self.message, self.reduce)
                columns += [graph.ndata["h"], graph.ndata["spread"]]
        return torch.cat(columns, dim=1)
