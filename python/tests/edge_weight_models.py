"""Models whose weights multiply rows that exist on edges only.

As a program, with the name of a model: prints by how many bytes the peak resident memory grows
in one training step on a graph of two million edges, and the bytes of 32 floats for each edge.
"""

from __future__ import annotations

import resource
import sys

import torch
from torch import nn

import gossamer as gs

HEADS = 2


class _OnEdges(nn.Module):
    """Sends the rows `h` of nodes and `w` of edges through the UDFs `message` and `reduce`."""

    def reduce(self, nodes):
        return {"out": nodes.mailbox["m"].sum(1)}

    def forward(self, g, h, w):
        with g.local_scope():
            g.ndata["h"] = self.project(h)
            g.edata["w"] = w
            g.update_all(self.message, self.reduce)
            return g.ndata["out"]

    def project(self, h):
        return h


class EdgeMLP(_OnEdges):
    """Two layers with biases on rows of both ends and of the edge; the maximum keeps the second
    layer on edges.
    """

    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(3 * width, 2 * width)
        self.second = nn.Linear(2 * width, width + 1)

    def message(self, edges):
        row = torch.cat([edges.src["h"], edges.dst["h"], edges.data["w"]], 1)
        return {"m": self.second(torch.tanh(self.first(row)))}

    def reduce(self, nodes):
        return {"out": nodes.mailbox["m"].max(1)[0]}


class WeightedMLP(EdgeMLP):
    """The same with a factor per edge, and three products on edges; mean of the messages."""

    def __init__(self, width):
        super().__init__(width)
        self.third = nn.Linear(width + 1, 3, bias=False)

    def message(self, edges):
        row = torch.sigmoid(super().message(edges)["m"])
        return {"m": torch.tanh(self.third(row)) * edges.data["w"][:, :1]}

    def reduce(self, nodes):
        return {"out": nodes.mailbox["m"].mean(1)}


class EdgeConv(_OnEdges):
    """max over neighbours of an MLP of [x_v, x_u - x_v] (Wang et al. 2019, "Dynamic Graph CNN")."""

    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * width, 7), nn.ReLU(), nn.Linear(7, 3))

    def message(self, edges):
        here = edges.dst["h"]
        return {"m": self.mlp(torch.cat([here, edges.src["h"] - here], 1))}

    def reduce(self, nodes):
        return {"out": nodes.mailbox["m"].max(1)[0]}


class GATv2(_OnEdges):
    """Attention with a score a . leaky_relu(W x_u + W' x_v) per head (Brody et al. 2022)."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.left = nn.Linear(width, HEADS * width)
        self.right = nn.Linear(width, HEADS * width)

    def message(self, edges):
        left = self.left(edges.src["h"]).view(-1, HEADS, self.width)
        right = self.right(edges.dst["h"]).view(-1, HEADS, self.width)
        return {"s": self.score(nn.functional.leaky_relu(left + right, 0.2)), "m": left}

    def reduce(self, nodes):
        weights = torch.softmax(nodes.mailbox["s"], 1)
        return {"out": (weights * nodes.mailbox["m"]).sum(1)}


class GATv2Product(GATv2):
    """A vector per head, multiplied and summed."""

    def __init__(self, width):
        super().__init__(width)
        self.attention = nn.Parameter(torch.randn(1, HEADS, width))

    def score(self, rows):
        return (rows * self.attention).sum(-1, keepdim=True)


class GATv2Linear(GATv2):
    """One vector for all heads, as a product with one column."""

    def __init__(self, width):
        super().__init__(width)
        self.attention = nn.Linear(width, 1, bias=False)

    def score(self, rows):
        return self.attention(rows)


MODELS = {
    "edge_mlp": EdgeMLP,
    "weighted_mlp": WeightedMLP,
    "edge_conv": EdgeConv,
    "gatv2_product": GATv2Product,
    "gatv2_linear": GATv2Linear,
}


def _step(model, g, width):
    h = torch.randn(g.num_nodes(), width)
    w = torch.randn(g.num_edges(), width)
    model(g, h, w).sum().backward()


def _measure(name):
    nodes, edges, width = 1000, 2_000_000, 16
    fast = gs.compile(MODELS[name](width), fallback="error")
    small = gs.graph((torch.arange(9), torch.arange(9)), num_nodes=nodes)
    _step(fast, small, width)  # compiles
    ends = torch.randint(nodes, (2, edges))
    g = gs.graph((ends[0], ends[1]), num_nodes=nodes)
    g.in_degrees(), g.out_degrees()
    w = torch.randn(edges, width)
    h = torch.randn(nodes, width)
    with torch.no_grad():
        fast(g, h, w)  # builds the arrays of the graph
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fast(g, h, w).sum().backward()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) * 1024, edges * 2 * width * 4)


if __name__ == "__main__":
    _measure(sys.argv[1])
