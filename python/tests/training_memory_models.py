"""Models whose training must keep nothing of the size of edges times features.

As a program: trains each on two graphs with the same nodes, of which the second has more edges.
Prints as JSON, by model and for each graph: the number of edges, the bytes by which the peak
resident memory grows in one step, and the shapes with a number per edge or more that autograd
saves and that torch's operators make.
"""

from __future__ import annotations

import json

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gossamer as gs
from programs.watch import reset_peak, resident_bytes

WIDTH = 64
HEADS = 4
#: Fewer numbers on nodes than there are edges, so that a size tells which of both a tensor is of.
NODES = 500
EDGES = (40_000, 160_000)


class _Layer(nn.Module):
    """Two linear layers around one update_all with the UDFs `message` and `reduce`."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.before(x)
            g.update_all(self.message, self.reduce)
            return self.after(g.ndata["o"].flatten(1)) + x

    def message(self, edges):
        return {"m": edges.src["h"]}

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].sum(1)}


class GCN(_Layer):
    """Messages scaled by both degrees (Kipf and Welling 2017)."""

    def forward(self, g, x):
        scale = g.in_degrees().clamp(min=1).float().rsqrt()[:, None]
        return super().forward(g, x * scale) * scale


class SAGEMean(_Layer):
    """The mean of the neighbours (Hamilton et al. 2017)."""

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].mean(1)}


class SAGEPool(_Layer):
    """The maximum of a linear layer of the neighbours (Hamilton et al. 2017)."""

    def __init__(self):
        super().__init__()
        self.pool = nn.Linear(WIDTH, WIDTH)

    def message(self, edges):
        return {"m": torch.relu(self.pool(edges.src["h"]))}

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].max(1)[0]}


class GIN(_Layer):
    """(1 + eps) x plus the sum of the neighbours (Xu et al. 2019)."""

    def __init__(self):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))

    def reduce(self, nodes):
        return {"o": (1 + self.eps) * nodes.data["h"] + nodes.mailbox["m"].sum(1)}


class GATv2(_Layer):
    """A score a . leaky_relu(x_u + x_v) per head (Brody et al. 2022)."""

    def __init__(self):
        super().__init__()
        self.attention = nn.Parameter(torch.randn(HEADS, WIDTH // HEADS))

    def message(self, edges):
        heads = edges.src["h"].unflatten(1, (HEADS, -1))
        return {"m": heads, "s": self.score(heads, edges.dst["h"].unflatten(1, (HEADS, -1)))}

    def score(self, here, there):
        return (F.leaky_relu(here + there, 0.2) * self.attention).sum(-1, keepdim=True)

    def reduce(self, nodes):
        return {"o": (nodes.mailbox["s"].softmax(1) * nodes.mailbox["m"]).sum(1)}


class GAT(GATv2):
    """A score leaky_relu(a . x_u + a' . x_v) per head (Velickovic et al. 2018)."""

    def score(self, here, there):
        ends = (here * self.attention).sum(-1, keepdim=True), (there * self.attention).mean(-1)
        return F.leaky_relu(ends[0] + ends[1][..., None], 0.2)


class EdgeConv(_Layer):
    """The maximum of theta (x_v - x_u) + phi x_u (Wang et al. 2019)."""

    def __init__(self):
        super().__init__()
        self.theta, self.phi = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def message(self, edges):
        here, there = edges.src["h"], edges.dst["h"]
        return {"m": self.theta(there - here) + self.phi(here)}

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].max(1)[0]}


MODELS = {model.__name__: model for model in (GCN, SAGEMean, SAGEPool, GIN, GAT, GATv2, EdgeConv)}


def _per_edge(tensor, edges):
    return tensor.is_floating_point() and tensor.numel() >= edges


class _Made(TorchDispatchMode):
    """The shapes of what operators return with a number per edge."""

    def __init__(self, edges):
        super().__init__()
        self.edges, self.shapes = edges, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for part in tree_leaves(result):
            if isinstance(part, torch.Tensor) and _per_edge(part, self.edges):
                self.shapes.append((func.name(), list(part.shape)))
        return result


def _shapes(step, edges):
    """What autograd saves, and what operators make, in one step each."""
    saved = []

    def pack(tensor):
        if _per_edge(tensor, edges):
            saved.append(list(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    with _Made(edges) as made:
        step()
    return saved, made.shapes


def _peak(step):
    gs.release_memory()
    reset_peak()
    before = resident_bytes()
    step()
    return resident_bytes("VmHWM") - before


def _measure(model, edges):
    ends = torch.randint(NODES, (2, edges))
    g = gs.graph((ends[0], ends[1]), num_nodes=NODES)
    x = torch.randn(NODES, WIDTH, requires_grad=True)
    parameters = list(model.parameters())

    def step():
        torch.autograd.grad(model(g, x).square().sum(), [x, *parameters])

    step()
    step()
    saved, made = _shapes(step, edges)
    return {"edges": edges, "grown": _peak(step), "saved": saved, "made": made}


def _train(make):
    torch.manual_seed(0)
    fast = gs.compile(make(), fallback="error")
    return [_measure(fast, edges) for edges in EDGES]


if __name__ == "__main__":
    print(json.dumps({name: _train(make) for name, make in MODELS.items()}))
