"""Whole mode of layers that write shapes out: numbers of rows as sizes, and -1 beside them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gossamer as gs
from programs.measure import assert_outputs
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

HEADS, FEAT = 2, 3
CASES = ("power_law", "multi_edges", "small_star", "no_edges", "chain")


class Attention(nn.Module):
    """Heads of attention; `split` makes (N, H, D) of (N, H * D), `join` the result of (N, H, D)."""

    def __init__(self, split, join):
        super().__init__()
        self.heads, self.feat = HEADS, FEAT
        self.split, self.join = split, join
        self.fc = nn.Linear(HEADS * FEAT, HEADS * FEAT)
        self.left = nn.Parameter(torch.zeros(1, HEADS, FEAT))
        self.right = nn.Parameter(torch.zeros(1, HEADS, FEAT))
        self.bias = nn.Parameter(torch.zeros(HEADS * FEAT))
        parameters(self)

    def scores(self, edges):
        return {"s": F.leaky_relu(edges.src["l"] + edges.dst["r"], 0.2)}

    def message(self, edges):
        return {"s": edges.data["s"], "z": edges.src["z"]}

    def reduce(self, nodes):
        weights = nodes.mailbox["s"].softmax(1).unsqueeze(-1)
        return {"o": (weights * nodes.mailbox["z"]).sum(1)}

    def forward(self, g, x):
        with g.local_scope():
            z = self.split(self, g, x, self.fc(x))
            g.ndata["z"] = z
            g.ndata["l"], g.ndata["r"] = (z * self.left).sum(-1), (z * self.right).sum(-1)
            g.apply_edges(self.scores)
            g.update_all(self.message, self.reduce)
            return self.join(self, g, x, g.ndata["o"])


def assert_whole(model, width=HEADS * FEAT, cases=CASES):
    """Equal to eager on graphs of every size, in one program from the second call on."""
    fast = gs.compile(copy.deepcopy(model), backend="torch", fallback="error")
    for number, name in enumerate(cases):
        x = signed(BY_NAME[name].num_src, width)
        expected = call(model, make_graph(BY_NAME[name]), x)
        assert_outputs(call(fast, make_graph(BY_NAME[name]), x), expected)
        report = gs.explain(fast)
        assert report.mode == ("whole" if number else "region"), report.mode_reason
    assert sum("forward" in each.calls for each in report.programs) == 1


SPLITS = {
    "shape": lambda m, g, x, z: z.view(x.shape[0], m.heads, -1),
    "size": lambda m, g, x, z: z.view((x.size(0), -1, m.feat)),
    "len": lambda m, g, x, z: z.view(len(x), m.heads, -1),
    "num_nodes": lambda m, g, x, z: z.reshape(g.num_nodes(), m.heads, -1),
    "open_rows": lambda m, g, x, z: torch.reshape(z, (-1, m.heads, m.feat)),
    "prefix": lambda m, g, x, z: z.view(*x.shape[:-1], m.heads, -1),
    "unflatten": lambda m, g, x, z: z.unflatten(1, (m.heads, -1)),
    "permuted": lambda m, g, x, z: (
        z.reshape(len(z), m.feat, -1).permute(0, 2, 1).reshape(len(x), -1).view(len(x), m.heads, -1)
    ),
}
JOINS = {
    "flatten": lambda m, g, x, o: o.flatten(1),
    "view": lambda m, g, x, o: o.view(o.shape[0], -1) + m.bias.expand(x.shape[0], -1),
    "permuted": lambda m, g, x, o: o.permute(0, 2, 1).flatten(start_dim=-2),
    "contiguous": lambda m, g, x, o: o.transpose(1, 2).contiguous().view(len(o), -1),
    "expanded": lambda m, g, x, o: o.mean(1, True).expand(-1, m.heads, -1).reshape(len(x), -1),
    "sliced": lambda m, g, x, o: torch.cat([o[:, :, :2].reshape(len(o), -1), x[:, 2:]], dim=1),
    "repeated": lambda m, g, x, o: o.flatten(1) + m.bias.unsqueeze(0).repeat(g.num_nodes(), 1),
    "zeros": lambda m, g, x, o: torch.cat([x.new_zeros(g.num_nodes(), 1), o.flatten(1)], -1),
    "written": lambda m, g, x, o: x.new_empty(len(x), m.heads * m.feat).copy_(o.flatten(1)),
}


@pytest.mark.parametrize("split", SPLITS)
def test_heads_from_features(split):
    assert_whole(Attention(SPLITS[split], JOINS["flatten"]))


@pytest.mark.parametrize("join", JOINS)
def test_features_from_heads(join):
    assert_whole(Attention(SPLITS["shape"], JOINS[join]))


def test_gradients_are_those_of_eager():
    model = Attention(SPLITS["len"], JOINS["permuted"])
    twin = copy.deepcopy(model)
    fast = gs.compile(twin, fallback="error")
    for _ in range(2):
        seen = []
        for each in (model, fast):
            each.zero_grad()
            x = signed(len(H), HEADS * FEAT).requires_grad_()
            (each(make_graph(), x) ** 2).sum().backward()
            seen.append(x.grad)
        torch.testing.assert_close(seen[1], seen[0], rtol=1e-10, atol=1e-10)
        for expected, actual in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(actual.grad, expected.grad, rtol=1e-10, atol=1e-10)
    assert gs.explain(fast).mode == "whole"


def test_sizes_in_functions():
    """The degree cancels as rows do; a batch has a length."""

    def message(edges):
        return {"m": edges.src["h"].view(len(edges), 3, -1)}

    def reduce(nodes):
        mail = nodes.mailbox["m"]
        flat = mail.reshape(mail.shape[0], mail.shape[1], -1)
        return {"o": flat.sum(1).view(len(nodes), -1, 2).flatten(1)}

    report = assert_twins(once(message, reduce), signed(len(H), 6), fallback="error")
    assert report.mode == "whole", report.mode_reason


def test_a_view_shows_the_same_memory():
    """A write to a view would be seen in its base; the copy of a permuted tensor is its own."""

    def view(g, h):
        o = once(copy_h, mail_sum)(g, h)
        flat = o.reshape(len(o), 2, -1)
        flat.mul_(2)
        return o

    def own(g, h):
        o = once(copy_h, mail_sum)(g, h)
        flat = o.reshape(len(o), 2, -1).permute(0, 2, 1).reshape(len(o), -1)
        flat.mul_(2)
        return o + flat

    x = signed(len(H), 6)
    assert assert_twins(own, x).mode == "whole"
    report = assert_twins(view, x)
    assert report.mode == "region"
    assert "changes memory that another tensor also shows" in report.mode_reason


REFUSED = {
    "two_sets": (
        lambda g, h: h.new_zeros(g.num_edges(), 3).view(g.num_nodes(), -1)[:1],
        "needs two sizes to be equal",
    ),
    "merged": (lambda g, h: (2 * h).view(-1) + 1, "merges rows or messages with features"),
    "rows_to_features": (lambda g, h: h.view(3, -1) + 1, "a view merges features with rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_row_numbers_that_do_not_cancel(name):
    """Region mode, where sizes are numbers, and the reason with the user's line."""
    mix, why = REFUSED[name]

    def layer(g, h):
        o = once(copy_h, mail_sum)(g, h)
        return o, mix(g, h)

    case = BY_NAME["regular4"]
    report = assert_twins(layer, signed(case.num_src, 3), case=case)
    assert report.mode == "region"
    assert why in report.mode_reason, report.mode_reason
    assert "test_whole_shapes.py" in report.mode_reason
