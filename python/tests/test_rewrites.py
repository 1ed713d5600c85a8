"""Rewrites that move work from edges to nodes keep results and gradients: float64, odd graphs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import gossamer as gs

FEATURES = 6


def score_of_parts(edges):
    """The dot product of both ends and the edge with one vector, split per end."""
    ends = torch.cat([edges.src["a"], edges.data["w"], edges.dst["b"]], dim=-1)
    return {"m": (ends * 0.5 * edges.dst["p"]).sum(-1, keepdim=True) * edges.src["b"]}


def sums_of_one_end(edges):
    """Two rows of the source, added before those of the destination join."""
    return {"m": torch.tanh(edges.dst["b"] - (edges.src["a"] - edges.dst["a"]) - edges.src["b"])}


def relu_of_sum(edges):
    """A maximum of the source's rows is enough."""
    return {"m": functional.relu(edges.dst["b"] - edges.src["a"] * 2.0)}


def leaky_exp(edges):
    """Slopes on both sides, exp, and two signs."""
    return {"m": -(functional.leaky_relu(edges.src["a"] - edges.dst["b"], 0.1) / 4.0).exp()}


def clamped(edges):
    """A maximum with a constant, which hides what is below."""
    return {"m": edges.src["a"].clamp(min=-0.25) + edges.dst["b"]}


def turned(edges):
    """A factor of the destination may turn the order around: the maximum stays on edges."""
    return {"m": edges.src["a"] * edges.dst["b"]}


REDUCERS = {
    "sum": lambda nodes: {"y": nodes.mailbox["m"].sum(1)},
    "max": lambda nodes: {"y": nodes.mailbox["m"].max(1)[0]},
    "min": lambda nodes: {"y": nodes.mailbox["m"].min(1).values},
    "amax": lambda nodes: {"y": nodes.mailbox["m"].amax(1) * nodes.data["b"]},
}

GRAPHS = {
    "odd": ([0, 0, 1, 2, 2, 2, 4, 4], [1, 1, 2, 0, 0, 1, 4, 1], 6),
    "star": ([1, 2, 3, 4, 0], [0, 0, 0, 0, 0], 5),
    "one_node": ([0, 0], [0, 0], 1),
    "no_edges": ([], [], 3),
}

CASES = [
    (score_of_parts, "sum"),
    (sums_of_one_end, "sum"),
    (relu_of_sum, "max"),
    (relu_of_sum, "amax"),
    (leaky_exp, "max"),
    (leaky_exp, "min"),
    (clamped, "max"),
    (turned, "max"),
]


class Layer(nn.Module):
    """A message and a reducer, on products of the features and of the edges' own."""

    def __init__(self, message, reducer):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        for name in ("first", "second"):
            weight = torch.randn(FEATURES, FEATURES, generator=generator, dtype=torch.float64)
            self.register_parameter(name, nn.Parameter(weight))
        self.scale = nn.Parameter(torch.randn(3 * FEATURES, generator=generator).double())
        self.message, self.reducer = message, reducer

    def forward(self, graph, x, w):
        with graph.local_scope():
            graph.ndata["a"], graph.ndata["b"] = x @ self.first, x @ self.second
            graph.ndata["p"] = torch.cat([x, x, x], dim=1) * self.scale
            graph.edata["w"] = w
            graph.update_all(self.message, REDUCERS[self.reducer])
            return graph.ndata["y"]


def results(model, graph, seed: int) -> list[torch.Tensor]:
    """Output and gradients of everything, on signed data."""
    generator = torch.Generator().manual_seed(seed)

    def random(rows: int) -> torch.Tensor:
        return torch.randn(rows, FEATURES, generator=generator, dtype=torch.float64)

    x, w = random(graph.num_nodes()).requires_grad_(), random(graph.num_edges()).requires_grad_()
    y = model(graph, x, w)
    leaves = [x, w, *model.parameters()]
    if not y.requires_grad:  # eager results of graphs without edges
        return [y, *(torch.zeros_like(leaf) for leaf in leaves)]
    found = torch.autograd.grad((y * random(y.shape[0])).sum(), leaves, allow_unused=True)
    zeros = (torch.zeros_like(leaf) for leaf in leaves)
    return [y, *(z if g is None else g for g, z in zip(found, zeros, strict=True))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def test_results_and_gradients(case):
    model = Layer(*case)
    fast = gs.compile(model, fallback="error")
    for number, (src, dst, num_nodes) in enumerate(GRAPHS.values()):
        ends = torch.tensor(src, dtype=torch.int64), torch.tensor(dst, dtype=torch.int64)
        graph = gs.graph(ends, num_nodes=num_nodes)
        expected = results(model, graph, number)
        for _ in range(2):  # a region, then the whole forward
            for actual, right in zip(results(fast, graph, number), expected, strict=True):
                torch.testing.assert_close(actual, right, rtol=1e-10, atol=1e-12)
