"""Numbers of nodes and edges as numbers, and sums and means of all nodes, in compiled code."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gossamer as gs
from programs.twins import (
    BY_NAME,
    H,
    assert_twins,
    call,
    copy_h,
    mail_sum,
    make_graph,
    once,
    parameters,
    signed,
)

CASES = ("power_law", "small_star", "multi_edges", "chain")


class Layer(nn.Module):
    """Message passing, then `finish` of the graph and the sums of nodes (N, 6)."""

    def __init__(self, finish):
        super().__init__()
        self.finish = finish
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        parameters(self)

    def forward(self, g, x):
        return self.finish(self, g, once(copy_h, mail_sum)(g, self.first(x)))


FINISHES = {
    "nodes": lambda m, g, h: h / g.num_nodes() ** 0.5,
    "edges": lambda m, g, h: h * g.num_edges() - (1 + len(h)),
    "whole_number": lambda m, g, h: h * torch.tensor(h.shape[0]),
    "sum": lambda m, g, h: m.last(h.sum(0)),
    "mean": lambda m, g, h: torch.relu(m.last(h.mean(dim=0, keepdim=True))),
    "of_everything": lambda m, g, h: h * h.mean() + h.view(-1, 2, 3).sum((0, 2)).sum(),
    "pair_norm": lambda m, g, h: (h - h.mean(0)) / (1e-3 + h.square().sum(1).mean()).sqrt(),
    "batch_norm": lambda m, g, h: F.linear(
        (h - h.mean(0)) / ((h - h.mean(0)).square().mean(0) + 1e-3).sqrt(), m.last.weight
    ),
    "gate": lambda m, g, h: h * torch.sigmoid(m.last(h.mean(0))),
}


@pytest.mark.parametrize("finish", FINISHES)
def test_outputs_and_gradients(finish):
    """One whole program for all sizes."""
    model = Layer(FINISHES[finish])
    twin = copy.deepcopy(model)
    fast = gs.compile(twin, fallback="error")
    for name in CASES:
        found = []
        for run, own in ((model, model), (fast, twin)):
            x = signed(BY_NAME[name].num_src, 6).requires_grad_()
            out = run(make_graph(BY_NAME[name]), x)
            wanted = [x, *own.parameters()]
            found.append([out, *torch.autograd.grad((out**3).sum(), wanted, allow_unused=True)])
        for expected, actual in zip(*found, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    report = gs.explain(fast)
    assert report.mode == "whole", report.mode_reason


def test_the_torch_backend_does_the_same():
    model = Layer(FINISHES["batch_norm"])
    for name in ("power_law", "no_edges"):
        case = BY_NAME[name]
        x = signed(case.num_src, 6)
        assert assert_twins(model, x, case=case, backend="torch", fallback="error").mode == "whole"


def test_a_message_knows_the_number_of_edges():
    """Eager code runs it once for all edges, and what apply_nodes gets once for all nodes."""

    def layer(g, h):
        g.ndata["h"] = h
        g.apply_edges(lambda edges: {"e": edges.src["h"] / len(edges)})
        g.update_all(lambda edges: {"m": edges.data["e"] - edges.batch_size()}, mail_sum)
        g.apply_nodes(lambda nodes: {"o": nodes.data["o"] / len(nodes)})
        return g.ndata["o"]

    for name in ("power_law", "chain", "one_node_loop"):
        case = BY_NAME[name]
        assert_twins(layer, signed(case.num_src, 3), case=case, fallback="error")


def _over_bucket(nodes):
    return {"o": nodes.mailbox["m"].sum(1) / len(nodes)}


def _minus_mean_of_bucket(nodes):
    total = nodes.mailbox["m"].sum(1)
    return {"o": total - total.mean(0)}


@pytest.mark.parametrize(
    ("reduce", "why"),
    [(_over_bucket, "with one in-degree"), (_minus_mean_of_bucket, "rows of different nodes")],
)
def test_a_reducer_sees_the_nodes_of_one_degree(reduce, why):
    report = assert_twins(once(copy_h, reduce), H)
    assert report.mode == "region"
    assert why in report.fallbacks[0].reason


@pytest.mark.parametrize(
    ("finish", "why"),
    [
        (lambda g, h: h - h.max(0)[0], "rows of different nodes or edges are combined"),
        (lambda g, h: h.cumsum(0), "aten.cumsum.default is not compiled"),
        (lambda g, h: h * g.edata["w"].mean(), "rows of different edges are combined"),
        (lambda g, h: h * (g.num_nodes() // 2), "computed in a way that is not compiled"),
    ],
)
def test_what_stays_in_region_mode(finish, why):
    def layer(g, h, w):
        g.edata["w"] = w
        return finish(g, once(copy_h, mail_sum)(g, h))

    w = torch.linspace(-1, 1, make_graph().num_edges(), dtype=H.dtype)
    fast = gs.compile(layer)
    for _ in range(3):
        actual, expected = (call(each, make_graph(), H, w) for each in (fast, layer))
        torch.testing.assert_close(actual["out"], expected["out"])
    report = gs.explain(fast)
    assert report.mode == "region"
    assert why in report.mode_reason, report.mode_reason
