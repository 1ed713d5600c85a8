"""The layers as user-defined functions: the same modules run in DGL and, compiled, in ours."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from contenders import Runner, of_module
from layers import LAYERS, Workload


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


class EdgeConv(nn.Module):
    """`layers.edgeconv`, products on the edges as the paper writes them."""

    def __init__(self, theta: Tensor, phi: Tensor):
        """Takes the weights, (F, F), as they are."""
        super().__init__()
        self.theta, self.phi = nn.Parameter(theta), nn.Parameter(phi)

    def message(self, edges) -> dict[str, Tensor]:
        """Sends the transformed difference of both ends and the transformed source."""
        change = (edges.dst["x"] - edges.src["x"]) @ self.theta
        return {"m": functional.relu(change + edges.src["x"] @ self.phi)}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """The largest of each feature."""
        return {"y": nodes.mailbox["m"].max(1)[0]}

    def forward(self, graph, x: Tensor) -> Tensor:
        """(N, F) to (N, F)."""
        with graph.local_scope():
            graph.ndata["x"] = x
            graph.update_all(self.message, self.reduce)
            return graph.ndata["y"]


class GATv2(nn.Module):
    """`layers.gatv2`; scores on the edges, softmax over the mailbox."""

    def __init__(self, src: Tensor, dst: Tensor, attention: Tensor):
        """Takes the weights, twice (F, F) and (H, F / H), as they are."""
        super().__init__()
        self.src, self.dst = nn.Parameter(src), nn.Parameter(dst)
        self.attention = nn.Parameter(attention)

    def message(self, edges) -> dict[str, Tensor]:
        """Sends the source's features and one score per head."""
        ends = functional.leaky_relu(edges.src["l"] + edges.dst["r"], 0.2)
        return {"l": edges.src["l"], "e": (ends * self.attention).sum(-1, keepdim=True)}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """The mean of the mailbox, weighted by the softmax of the scores."""
        weights = functional.softmax(nodes.mailbox["e"], dim=1)
        return {"y": (weights * nodes.mailbox["l"]).sum(1)}

    def forward(self, graph, x: Tensor) -> Tensor:
        """(N, F) to (N, F)."""
        with graph.local_scope():
            heads = self.attention.shape[0]
            graph.ndata["l"] = (x @ self.src).view(x.shape[0], heads, -1)
            graph.ndata["r"] = (x @ self.dst).view(x.shape[0], heads, -1)
            graph.update_all(self.message, self.reduce)
            return graph.ndata["y"].flatten(1)


class RGCN(nn.Module):
    """`layers.rgcn`; each edge takes the matrix of its relation."""

    def __init__(self, weight: Tensor):
        """Takes the weight, (RELATIONS, F, F), as it is."""
        super().__init__()
        self.weight = nn.Parameter(weight)

    def message(self, edges) -> dict[str, Tensor]:
        """Sends the source's features times the matrix, and times the edge's share of the mean."""
        matrix = self.weight[edges.data["type"]]
        product = torch.bmm(edges.src["x"].unsqueeze(1), matrix).squeeze(1)
        return {"m": product * edges.data["share"]}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """Sums what came in."""
        return {"y": nodes.mailbox["m"].sum(1)}

    def forward(self, graph, x: Tensor) -> Tensor:
        """(N, F) to (N, F)."""
        with graph.local_scope():
            graph.ndata["x"] = x
            graph.update_all(self.message, self.reduce)
            return graph.ndata["y"]


class SAGE(nn.Module):
    """`layers.sage`: as many layers as there are blocks, relu between them."""

    def __init__(self, **weights: Tensor):
        """Takes the weights `own0`, `others0`, `own1`, ..., (F, F), as they are."""
        super().__init__()
        for name, weight in weights.items():
            self.register_parameter(name, nn.Parameter(weight))

    def message(self, edges) -> dict[str, Tensor]:
        """Sends the features."""
        return {"m": edges.src["x"]}

    def reduce(self, nodes) -> dict[str, Tensor]:
        """Their mean."""
        return {"y": nodes.mailbox["m"].mean(1)}

    def forward(self, blocks, x: Tensor) -> Tensor:
        """Inputs of the first block (N_src, F) to outputs of the last (N_dst, F)."""
        for i, block in enumerate(blocks):
            x = functional.relu(x) if i else x
            with block.local_scope():
                block.srcdata["x"] = x
                block.update_all(self.message, self.reduce)
                own = x[: block.num_dst_nodes()] @ getattr(self, f"own{i}")
                x = own + block.dstdata["y"] @ getattr(self, f"others{i}")
        return x


MODELS = {"gcn": GCN, "gat": GAT, "edgeconv": EdgeConv, "gatv2": GATv2, "rgcn": RGCN, "sage": SAGE}


def model_of(work: Workload) -> nn.Module:
    """The layer of a workload, with its weights."""
    return MODELS[work.layer](**{name: w.detach().clone() for name, w in work.weights.items()})


def model_runner(
    work: Workload,
    model: nn.Module,
    call: Callable[..., Tensor],
    graphs: list[Callable[[], object]],
    **rest: object,
) -> Runner:
    """Runs `call`, which is `model` in some form, on each of `graphs`, which are made by calls."""
    parameters = {name: (value, value) for name, value in model.named_parameters()}

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        if work.layer != "gat":
            return dict(found)
        source, destination = found["attention"].chunk(2, dim=1)
        return {"weight": found["weight"], "src": source, "dst": destination}

    inputs = work.batch_inputs() if LAYERS[work.layer].on_blocks else [work.x]
    runs = [
        lambda graph=graph, x=x: call(graph(), x) for graph, x in zip(graphs, inputs, strict=True)
    ]
    return of_module(work, parameters, gradients, runs, **rest)
