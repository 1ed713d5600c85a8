"""GINE, a graph isomorphism network that sees bonds, as user-defined functions.

Hu et al., "Strategies for Pre-training Graph Neural Networks", 2020, after Xu et al., "How Powerful
are Graph Neural Networks?", 2019.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import gossamer.dgl as dgl


class GINELayer(nn.Module):
    """h_v = MLP((1 + eps) h_v + sum over neighbours u of relu(h_u + W bond_uv))."""

    def __init__(self, width: int, bond_width: int):
        super().__init__()
        self.bond = nn.Linear(bond_width, width)
        self.eps = nn.Parameter(torch.zeros(()))
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def message(self, edges) -> dict[str, Tensor]:
        """What a neighbour and the bond to it say."""
        return {"m": torch.relu(edges.src["h"] + self.bond(edges.data["bond"]))}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """All of it."""
        return {"all": nodes.mailbox["m"].sum(1)}

    def update(self, nodes) -> dict[str, Tensor]:
        """The new atom; one without bonds got a sum of 0."""
        return {"h": self.mlp((1 + self.eps) * nodes.data["h"] + nodes.data["all"])}

    def forward(self, graph, h: Tensor) -> Tensor:
        """(N, width) to (N, width); edge field "bond" is read."""
        with graph.local_scope():
            graph.ndata["h"] = h
            graph.update_all(self.message, self.reduce, self.update)
            return graph.ndata["h"]


class Solubility(nn.Module):
    """A number for each molecule of a batch, from the sum and the maximum over its atoms."""

    def __init__(self, atom_width: int, bond_width: int, width: int = 64, layers: int = 3):
        super().__init__()
        self.embed = nn.Linear(atom_width, width)
        self.layers = nn.ModuleList(GINELayer(width, bond_width) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, graph, atoms: Tensor) -> Tensor:
        """Atoms (N, atom_width) to (batch size, 1)."""
        h = self.embed(atoms)
        for layer in self.layers:
            h = h + torch.relu(layer(graph, h))
        with graph.local_scope():
            graph.ndata["h"] = h
            summary = [dgl.mean_nodes(graph, "h"), dgl.max_nodes(graph, "h")]
        return self.head(torch.cat(summary, dim=1))
