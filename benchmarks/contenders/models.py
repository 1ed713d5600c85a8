"""The layers as user-defined functions: the same modules run in DGL and, compiled, in ours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers import Workload


class GCN(nn.Module):
    """`layers.gcn`; the norm of the source is a message field, that of the destination is not."""

    def __init__(self, weight: Tensor):
        """Takes the weight, (F, F), as it is."""
        super().__init__()
        self.weight = nn.Parameter(weight)

    def message(self, edges) -> dict[str, Tensor]:
        """Sends features and norm."""
        return {"m": edges.src["h"], "c": edges.src["c"]}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """Sums what came in, weighted by both norms."""
        total = (nodes.mailbox["m"] * nodes.mailbox["c"]).sum(1)
        return {"y": total * nodes.data["c"]}

    def forward(self, graph, x: Tensor) -> Tensor:
        """(N, F) to (N, F)."""
        with graph.local_scope():
            graph.ndata["h"] = x @ self.weight
            graph.ndata["c"] = graph.in_degrees().to(x.dtype).rsqrt().unsqueeze(1)
            graph.update_all(self.message, self.reduce)
            return graph.ndata["y"]


class GAT(nn.Module):
    """`layers.gat`; scores from the concatenation of both ends, softmax over the mailbox."""

    def __init__(self, weight: Tensor, src: Tensor, dst: Tensor):
        """Takes the weights, (F, F) and twice (H, F / H), as they are."""
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.attention = nn.Parameter(torch.cat([src, dst], dim=1))

    def score(self, edges) -> dict[str, Tensor]:
        """One score per edge and head, (E, H, 1)."""
        ends = torch.cat([edges.src["z"], edges.dst["z"]], dim=-1)
        return {"e": functional.leaky_relu((ends * self.attention).sum(-1, keepdim=True), 0.2)}

    def message(self, edges) -> dict[str, Tensor]:
        """Sends features and score."""
        return {"z": edges.src["z"], "e": edges.data["e"]}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """The mean of the mailbox, weighted by the softmax of the scores."""
        weights = functional.softmax(nodes.mailbox["e"], dim=1)
        return {"y": (weights * nodes.mailbox["z"]).sum(1)}

    def forward(self, graph, x: Tensor) -> Tensor:
        """(N, F) to (N, F)."""
        with graph.local_scope():
            heads = self.attention.shape[0]
            graph.ndata["z"] = (x @ self.weight).view(x.shape[0], heads, -1)
            graph.apply_edges(self.score)
            graph.update_all(self.message, self.reduce)
            return graph.ndata["y"].flatten(1)


MODELS = {"gcn": GCN, "gat": GAT}


def model_of(work: Workload) -> nn.Module:
    """The layer of a workload, with its weights."""
    return MODELS[work.layer](**work.weights)
