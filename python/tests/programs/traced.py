"""What tests of symbolic traces share: a graph, its features, a layer, and a comparison."""

from __future__ import annotations

import torch
from torch import nn

import gossamer as gs

SRC, DST = [0, 1, 2, 3, 4, 0, 1], [1, 2, 3, 4, 4, 4, 1]


def make_graph():
    return gs.graph((SRC, DST), num_nodes=6)


def features(count=6, feat=3, seed=0):
    return torch.randn(count, feat, generator=torch.Generator().manual_seed(seed))


def copied(edges):
    return {"m": edges.src["h"]}


def summed(nodes):
    return {"h": nodes.mailbox["m"].sum(1)}


def assert_same(model, gm, *inputs, make=make_graph):
    """Equal outputs and equal fields left, on fresh graphs."""
    mine, theirs = make(), make()
    expected, actual = model(mine, *inputs), gm(theirs, *inputs)
    torch.testing.assert_close(actual, expected)
    for left, right in ((mine.ndata, theirs.ndata), (mine.edata, theirs.edata)):
        assert set(left) == set(right)
        for field in left:
            torch.testing.assert_close(right[field], left[field])
    return actual


def udf_modules(gm):
    """The modules that stand for user-defined functions."""
    return [module for name, module in gm.named_children() if name.startswith("udf_")]


class Layer(nn.Module):
    """Sums of messages through `message` and `reduce`, which tests override."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.full((3,), 0.5))
        self.register_buffer("shift", torch.arange(3.0))

    def message(self, edges):
        return {"m": self.linear(edges.src["h"])}

    def reduce(self, nodes):
        return {"h": nodes.mailbox["m"].sum(1)}

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(self.message, self.reduce)
            return g.ndata["h"]


class SizesLayer(Layer):
    """Asks for sizes, which no trace knows."""

    def message(self, edges):
        rows, width = edges.src["h"].view(len(edges), -1).size()
        return {"m": self.linear(edges.src["h"].view(rows, width)) * self.scale}

    def reduce(self, nodes):
        degree = nodes.mailbox["m"].shape[1]
        if degree == 1:
            return {"h": nodes.mailbox["m"][:, 0] + self.shift}
        return {"h": nodes.mailbox["m"].sum(1)}
