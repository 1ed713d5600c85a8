"""Facts about how models are written: forms, several outputs, relations, sizes, in-place edits."""

from __future__ import annotations

import functools
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gossamer as gs
import gossamer.dgl.function as fn
from programs.graphs import sampled_block
from programs.twins import copy_h, mail_sum, make_graph, once, signed


class _Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, edges):
        return {"m": self.by * edges.src["h"] + edges.dst["d"]}


class _Mixed(nn.Module):
    """Callable object, bound method, partial of a lambda and a built-in, on a block."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4, dtype=torch.float64)

    def reduce(self, nodes):
        return {"o": self.linear(nodes.mailbox["m"].sum(1))}

    def forward(self, g, h):
        own = h[: g.number_of_dst_nodes()]
        g.srcdata["h"], g.dstdata["d"] = h, own
        g.update_all(_Scaled(2.0), self.reduce)
        first = g.dstdata["o"]
        tripled = functools.partial(lambda by, edges: {"m": edges.src["h"] * by}, 3.0)
        g.update_all(tripled, fn.mean("m", "q"))
        return F.relu(first) + g.dstdata["q"] + own


def forms_on_blocks(compile):
    """G1: functions as people write them, several in a model, on blocks of different sizes."""
    model = _Mixed()
    fast = compile(model)
    for seed in range(4):
        case = sampled_block(f"forms{seed}", 20 + seed, 8 + seed, 50)
        h = signed(case.num_src, 4, seed=seed)
        out = fast(make_graph(case), h)
        assert out.shape == (case.num_dst, 4)
        torch.testing.assert_close(out, model(make_graph(case), h))


def layers_in_a_row(compile):
    """A4: many small layers on a tiny graph."""
    g, h = gs.graph(([0, 1, 2, 3], [1, 2, 3, 0])), signed(4, 8)

    def layers(g, h):
        for _ in range(3):
            h = torch.tanh(
                once(lambda edges: {"m": edges.src["h"] - edges.dst["h"]}, mail_sum)(g, h)
            )
        return h

    expected = h
    for _ in range(3):
        expected = torch.tanh(expected[[3, 0, 1, 2]] - expected)
    torch.testing.assert_close(compile(layers)(g, h), expected)


def weighted_sum(compile):
    """B1: source times edge weight."""
    g, h, w = make_graph(), signed(40, 6), signed(200, 1)

    def layer(g, h, w):
        with g.local_scope():
            g.ndata["h"], g.edata["w"] = h, w
            g.update_all(lambda edges: {"m": edges.src["h"] * edges.data["w"]}, mail_sum)
            return g.ndata["o"]

    u, v = g.edges()
    expected = torch.zeros(40, 6, dtype=h.dtype).index_add(0, v, h[u] * w)
    torch.testing.assert_close(compile(layer)(g, h, w), expected)


def weights_by_type(compile):
    """B3: a weight matrix for each edge by its type, one type unused."""
    g, h, weight = make_graph(), signed(40, 4), signed(5, 4, 4, seed=1)
    types = torch.arange(200) % 4

    def message(edges):
        row = edges.src["h"].unsqueeze(1)
        return {"m": torch.bmm(row, weight[edges.data["t"]]).squeeze(1)}

    def layer(g, h, types):
        with g.local_scope():
            g.ndata["h"], g.edata["t"] = h, types
            g.update_all(message, mail_sum)
            return g.ndata["o"]

    u, v = g.edges()
    rows = torch.stack([h @ matrix for matrix in weight])[types, u]
    expected = torch.zeros(40, 4, dtype=h.dtype).index_add(0, v, rows)
    torch.testing.assert_close(compile(layer)(g, h, types), expected)


def minimum_across_types(compile):
    """C2: outputs with different names, and 0 where a type sends nothing."""
    relations = {("a", "ab", "b"): ([0, 1], [0, 0]), ("c", "cb", "b"): ([0, 1], [1, 1])}
    g = gs.heterograph(relations, num_nodes_dict={"a": 2, "c": 2, "b": 3})

    def least(name):
        return lambda nodes: {name: nodes.mailbox["m"].min(1)[0]}

    def layer(g, a, c):
        with g.local_scope():
            g.nodes["a"].data["h"], g.nodes["c"].data["h"] = a, c
            g.multi_update_all({"ab": (copy_h, least("p")), "cb": (copy_h, least("q"))}, "min")
            return g.nodes["b"].data["p"], g.nodes["b"].data["q"]

    p, q = compile(layer)(g, torch.tensor([[3.0], [4.0]]), torch.tensor([[-5.0], [6.0]]))
    assert p.flatten().tolist() == [3, 0, 0]
    assert q.flatten().tolist() == [0, -5, 0]


def mean_across_types(compile):
    """C3: the divisor counts every type, also one that sent a node nothing."""
    g = gs.heterograph({("u", "a", "v"): ([0], [0]), ("w", "b", "v"): ([0, 0], [0, 1])})

    def layer(g, u, w):
        with g.local_scope():
            g.nodes["u"].data["h"], g.nodes["w"].data["h"] = u, w
            g.multi_update_all({"a": (copy_h, mail_sum), "b": (copy_h, mail_sum)}, "mean")
            return g.nodes["v"].data["o"]

    out = compile(layer)(g, torch.full((1, 1), 4.0), torch.full((1, 1), 2.0))
    assert out.flatten().tolist() == [3, 1]


def many_relations(compile):
    """C7: one function over twenty relations, each with its own weight."""
    count, nodes = 20, 50
    generator = torch.Generator().manual_seed(1)
    ends = {f"r{i}": torch.randint(nodes, (2, 60), generator=generator) for i in range(count)}
    g = gs.heterograph(
        {("n", name, "n"): (pair[0], pair[1]) for name, pair in ends.items()},
        num_nodes_dict={"n": nodes},
    )
    weights = {name: signed(8, 8, seed=name) for name in ends}

    def layer(g, h):
        with g.local_scope():
            g.ndata["h"] = h
            g.multi_update_all(
                {
                    name: (lambda edges, name=name: {"m": edges.src["h"] @ weights[name]}, mail_sum)
                    for name in ends
                },
                "sum",
            )
            return g.ndata["o"]

    h = signed(nodes, 8)
    expected = torch.zeros_like(h)
    for name, (u, v) in ends.items():
        expected.index_add_(0, v, (h @ weights[name])[u])
    torch.testing.assert_close(compile(layer)(g, h), expected)


def mixed_precision(compile):
    """D2: under autocast the message's dtype follows torch's promotion."""
    linear, g = nn.Linear(8, 8), make_graph()
    h, w = signed(40, 8, dtype=torch.float32), signed(200, 1, dtype=torch.float32)

    def mixed(g, h, w):
        with g.local_scope():
            g.ndata["h"], g.edata["w"] = h, w
            g.update_all(lambda edges: {"m": linear(edges.src["h"]) * edges.data["w"]}, mail_sum)
            return g.ndata["o"]

    pure = compile(once(lambda edges: {"m": linear(edges.src["h"])}, mail_sum))
    mixed = compile(mixed)
    with torch.no_grad():
        full = mixed(g, h, w)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = mixed(g, h, w)
            assert half.dtype == torch.float32
            assert pure(g, h).dtype == torch.bfloat16
        assert pure(g, h).dtype == torch.float32
    torch.testing.assert_close(half, full, rtol=5e-2, atol=5e-2)


def sizes_of_the_batch(compile):
    """G4: creation, len, batch_size and shapes from sizes; a branch on a python flag."""
    flag = True

    def message(edges):
        h = edges.src["h"]
        zeros = torch.zeros(h.shape[0], 2, dtype=h.dtype)
        ones = h.new_ones(len(edges), 1)
        steps = torch.arange(edges.batch_size(), dtype=h.dtype).unsqueeze(1) * 0
        return {"m": torch.cat([h, zeros, ones + steps], 1) if flag else h}

    def reduce(nodes):
        m = nodes.mailbox["m"]
        rows, degree, width = m.shape
        extra = torch.ones(nodes.batch_size(), 1, dtype=m.dtype) * degree
        total = m.reshape(rows * degree, width).view(rows, degree, width).sum(1)
        return {"o": torch.cat([total, extra], 1)}

    g, h = make_graph(), signed(40, 4)
    out, degree = compile(once(message, reduce))(g, h), g.in_degrees().to(h.dtype)
    u, v = g.edges()
    expected = torch.zeros(40, 4, dtype=h.dtype).index_add(0, v, h[u])
    torch.testing.assert_close(out[:, :4], expected)
    torch.testing.assert_close(out[:, 6], degree)
    torch.testing.assert_close(out[:, 7], degree)


def checks_are_not_frozen(compile):
    """G8: a check of the graph at hand is made on every call, and its error raised."""

    def layer(g, h):
        if (g.in_degrees() == 0).any():
            raise ValueError("isolated node")
        norm = g.in_degrees().clamp(min=1).to(h.dtype).pow(-0.5).unsqueeze(1)
        return once(copy_h, mail_sum)(g, h * norm) * norm

    layer, h = compile(layer), torch.ones(3, 2)
    torch.testing.assert_close(layer(gs.graph(([0, 1, 2], [1, 2, 0])), h), h)
    with pytest.raises(ValueError, match="isolated node"):
        layer(gs.graph(([0, 1], [1, 2])), h)
    full = gs.graph(([0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1]))
    torch.testing.assert_close(layer(full, h), h)


def several_outputs(compile):
    """N3: several messages and reductions of different widths and dtypes in one call."""

    def message(edges):
        u, v = edges.src["h"], edges.dst["h"]
        return {"a": u * edges.data["w"], "b": (u - v).square(), "unused": u.exp()}

    def reduce(nodes):
        a, b = nodes.mailbox["a"], nodes.mailbox["b"]
        return {
            "sum": a.sum(1),
            "top": b.max(1)[0],
            "both": (a.sum(1) * b.mean(1)).sum(-1, keepdim=True),
            "degree": torch.full((len(nodes),), a.shape[1]),
        }

    def layer(g, h, w):
        with g.local_scope():
            g.ndata["h"], g.edata["w"] = h, w
            g.update_all(message, reduce)
            return [g.ndata[name] for name in ("sum", "top", "both", "degree")]

    g, h, w = make_graph(), signed(40, 6), signed(200, 1)
    total, top, both, degree = compile(layer)(g, h, w)
    (u, v), count = g.edges(), g.in_degrees().clamp(min=1).unsqueeze(1)
    squares = (h[u] - h[v]).square()
    torch.testing.assert_close(total, torch.zeros_like(h).index_add(0, v, h[u] * w))
    rows = v.unsqueeze(1).expand_as(squares)
    torch.testing.assert_close(top, torch.zeros_like(h).scatter_reduce(0, rows, squares, "amax"))
    mean = torch.zeros_like(h).index_add(0, v, squares) / count
    torch.testing.assert_close(both, (total * mean).sum(-1, keepdim=True))
    assert torch.equal(degree, g.in_degrees())


def edits_stay_local(compile):
    """N5: in-place edits of gathered rows and of mailboxes never reach the features."""

    def message(edges):
        m = edges.src["h"]
        m += 1
        m.mul_(edges.data["w"])
        return {"m": m, "same": m}

    def reduce(nodes):
        m = nodes.mailbox["m"]
        m[:, 0] = 0
        nodes.data["h"].fill_(7.0)
        return {"o": m.sum(1) + nodes.mailbox["same"].sum(1)}

    def layer(g):
        g.update_all(message, reduce)
        return g.ndata["o"]

    g, h, w = gs.graph(([0, 1, 2], [3, 3, 3])), torch.ones(4, 2), torch.full((3, 1), 2.0)
    g.ndata["h"], g.edata["w"] = h, w
    layer = compile(layer)
    first, second = layer(g), layer(g)
    assert torch.equal(h, torch.ones(4, 2))
    assert torch.equal(g.ndata["h"], h)
    assert torch.equal(w, torch.full((3, 1), 2.0))
    assert torch.equal(first, second)
    assert first[3].tolist() == [20, 20]


WITHOUT_DGL = """
import sys
sys.modules["dgl"] = None
import torch, gossamer as gs
from programs.twins import mail_sum, once
layer = once(lambda edges: {"m": edges.src["h"] + edges.dst["h"]}, mail_sum)
compiled = COMPILED
g, h = gs.graph(([0, 1, 2], [1, 2, 2]), num_nodes=4), torch.eye(4)
want = torch.tensor([[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 3, 0], [0, 0, 0, 0.]])
assert torch.equal(compiled(g, h), want)
"""


def without_dgl(compile):
    """M1: our own graphs do where DGL can't be imported."""
    text = 'gs.compile(layer, fallback="error")' if compile is gs.compile else "layer"
    paths = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}\n"
    code = paths + WITHOUT_DGL.replace("COMPILED", text)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
