"""Which gradients there are: None where eager code has None."""

from __future__ import annotations

import torch
from torch import nn

import gossamer as gs
from programs.training import WIDTH, assert_close, assert_trains_alike, random_graph, rows

G, X = random_graph(), rows()


class Parts(nn.Module):
    """A layer of several parameters, each of which reaches the result in its own way."""

    def __init__(self, reduce) -> None:
        super().__init__()
        for name in ("a", "b", "c"):
            self.add_module(name, nn.Linear(WIDTH, WIDTH).double())
        self.functions = reduce

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(*self.functions(self))
            return g.ndata["o"]


def through_comparisons(layer):
    """`b` decides, and `c` is rounded to whole numbers: neither has a slope."""

    def message(edges):
        wins = layer.b(edges.src["h"]) > layer.b(edges.dst["h"])
        whole = layer.c(edges.src["h"]).long().double()
        return {"m": torch.where(wins, layer.a(edges.src["h"]), whole)}

    return message, lambda nodes: {"o": nodes.mailbox["m"].sum(1)}


def through_no_slope(layer):
    """`b` has a slope, of 0 everywhere: its gradient is zeros, not None. `c` is detached."""

    def message(edges):
        steps = torch.floor(layer.b(edges.src["h"]))
        return {"m": layer.a(edges.src["h"]) * steps + layer.c(edges.dst["h"]).detach()}

    return message, lambda nodes: {"o": nodes.mailbox["m"].sum(1)}


def test_parameters_that_a_result_does_not_depend_on():
    """Optimizers with momentum or decay change what has a gradient of zeros, not what has none."""

    def body(model):
        optimizer = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(G, X).square().sum().backward()
            optimizer.step()

    for functions in (through_comparisons, through_no_slope):
        assert_trains_alike(body, Parts(functions))


def test_allow_unused():
    def gradients(layer):
        loss = layer(G, X).square().sum()
        return torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True)

    for functions in (through_comparisons, through_no_slope):
        model = Parts(functions)
        fast = gs.compile(model, fallback="error")
        for _ in range(3):
            for mine, right in zip(gradients(fast), gradients(model), strict=True):
                assert_close(mine, right)


def test_values_that_are_read_twice_in_a_chain():
    """Each square reads the one before twice: 40 of them would be 2^40 visits in a tree."""

    def squares(g, x):
        def message(edges):
            m = edges.src["x"] + edges.dst["x"]
            for _ in range(40):
                m = torch.cos(m) * m
            return {"m": m}

        with g.local_scope():
            g.ndata["x"] = x
            g.update_all(message, lambda nodes: {"y": nodes.mailbox["m"].sum(1)})
            return g.ndata["y"]

    found = []
    for run in (squares, gs.compile(squares, fallback="error")):
        x = X.clone().requires_grad_()
        found.append(torch.autograd.grad(run(G, x).sum(), x)[0])
    assert found[0].any()
    assert_close(found[1], found[0])
