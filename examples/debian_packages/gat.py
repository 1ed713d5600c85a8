"""The model that the demo compiles, written as any DGL user would write it.

Source: Velickovic et al., Graph Attention Networks, 2018, with a linear skip connection.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class GATLayer(nn.Module):
    """Attention over the neighbours, per head, plus a linear function of the node itself."""

    def __init__(self, width: int, heads: int, head_width: int):
        """From rows (N, width) to rows (N, heads, head_width)."""
        super().__init__()
        self.shape = (heads, head_width)
        self.project = nn.Linear(width, heads * head_width, bias=False)
        self.skip = nn.Linear(width, heads * head_width)
        self.from_src = nn.Parameter(torch.randn(heads, head_width) / head_width**0.5)
        self.from_dst = nn.Parameter(torch.randn(heads, head_width) / head_width**0.5)

    def score(self, edges) -> dict[str, Tensor]:
        """How much a node listens to a neighbour, before softmax: (E, heads, 1)."""
        both = edges.src["z"] * self.from_src + edges.dst["z"] * self.from_dst
        return {"e": functional.leaky_relu(both.sum(-1, keepdim=True), 0.2)}

    def message(self, edges) -> dict[str, Tensor]:
        """Each neighbour sends its row and its score."""
        return {"z": edges.src["z"], "e": edges.data["e"]}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """The mean of the received rows, weighted by the softmax of their scores."""
        weights = nodes.mailbox["e"].softmax(dim=1)
        return {"h": (weights * nodes.mailbox["z"]).sum(dim=1)}

    def attend(self, graph, z: Tensor) -> Tensor:
        """Rows (N, heads, head_width) to the weighted mean over each node's neighbours."""
        with graph.local_scope():
            graph.ndata["z"] = z
            graph.apply_edges(self.score)
            graph.update_all(self.message, self.reduce)
            return graph.ndata["h"]

    def forward(self, graph, x: Tensor) -> Tensor:
        """Rows (N, width) to rows (N, heads, head_width)."""
        z, own = self.project(x), self.skip(x)
        return self.attend(graph, z.view(-1, *self.shape)) + own.view(-1, *self.shape)


class GAT(nn.Module):
    """Two layers: heads are concatenated after the first, averaged after the second."""

    heads = (4, 2)
    head_width = 16

    def __init__(self, width: int, classes: int, dropout: float, layer: type[GATLayer] = GATLayer):
        """From rows (N, width) to scores of classes (N, classes)."""
        super().__init__()
        self.dropout = dropout
        self.first = layer(width, self.heads[0], self.head_width)
        self.second = layer(self.heads[0] * self.head_width, self.heads[1], classes)

    def forward(self, graph, x: Tensor) -> Tensor:
        """Scores before softmax, (N, classes)."""
        x = functional.dropout(x, self.dropout, self.training)
        x = functional.elu(self.first(graph, x).flatten(1))
        x = functional.dropout(x, self.dropout, self.training)
        return self.second(graph, x).mean(dim=1)


def multilayer_perceptron(width: int, classes: int, dropout: float) -> nn.Module:
    """The same without a graph: sees each node's own features only; wider than the `GAT`."""
    return nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(width, 256),
        nn.ELU(),
        nn.Dropout(dropout),
        nn.Linear(256, classes),
    )
