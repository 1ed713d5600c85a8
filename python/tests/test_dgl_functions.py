"""DGL's own functions of graphs, called inside compiled models, do what they do eagerly."""

from __future__ import annotations

import warnings

import pytest
import torch

import gossamer as gs
from programs.training import assert_close

dgl = pytest.importorskip("dgl")
pytestmark = pytest.mark.dgl_live


def _tanh(edges):
    return {"m": torch.tanh(edges.src["h"])}


def _sum(nodes):
    return {"h": nodes.mailbox["m"].sum(1)}


def _passed(g, x):
    with g.local_scope():
        g.ndata["h"] = x
        g.update_all(_tanh, _sum)
        return g.ndata["h"]


def _propagated(propagate, *first):
    def forward(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            propagate(g, *first, _tanh, _sum)
            return g.ndata["h"]

    return forward


def _batched(g, x):
    batch = dgl.batch([g, g])
    batch.ndata["h"] = _passed(batch, torch.cat([x, 2 * x]))
    parts = [part.ndata["h"] for part in dgl.unbatch(batch)]
    return torch.cat([dgl.sum_nodes(batch, "h"), *parts])


def _subgraphs(g, x):
    inner = _passed(dgl.node_subgraph(g, [0, 1, 2]), x[:3])
    wide = [
        dgl.in_subgraph(g, [4]),
        dgl.out_subgraph(g, [0]),
        dgl.edge_subgraph(g, [0, 1], relabel_nodes=False),
    ]
    return torch.cat([inner, *(_passed(part, x) for part in wide)])


def _transforms(g, x):
    changes = (dgl.to_bidirected, dgl.add_reverse_edges, dgl.to_simple, dgl.reverse)
    return torch.cat([_passed(change(g), x) for change in changes])


def _block(g, x):
    block = dgl.to_block(g, torch.arange(6))
    block.srcdata["h"] = x
    block.update_all(_tanh, _sum)
    return block.dstdata["h"]


FORWARDS = {
    "batch": _batched,
    "subgraphs": _subgraphs,
    "transforms": _transforms,
    "to_block": _block,
    "prop_nodes_bfs": _propagated(dgl.prop_nodes_bfs, [0]),
    "prop_nodes_topo": _propagated(dgl.prop_nodes_topo),
    "prop_edges_dfs": _propagated(dgl.prop_edges_dfs, [0]),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_inside_a_compiled_model(name):
    forward = FORWARDS[name]
    g = dgl.graph(([0, 1, 2, 3, 0], [2, 2, 4, 4, 4]), num_nodes=6)
    values = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = []
    for layer in (forward, gs.compile(forward)):
        x = values.clone().requires_grad_()
        out = layer(g, x)
        found.append((out, *torch.autograd.grad(out.square().sum(), x)))
    for actual, right in zip(found[1], found[0], strict=True):
        assert_close(actual, right)


@pytest.mark.parametrize("regularizer", [None, "basis"])
@pytest.mark.parametrize("width", [4, 16], ids=["gathered", "sorted"])  # two ways of DGL
def test_a_linear_layer_for_each_type(regularizer, width):
    """dgl.nn.RelGraphConv and its TypedLinear: results and gradients, compiled."""
    torch.manual_seed(0)
    g = dgl.rand_graph(20, 60)
    layer = dgl.nn.RelGraphConv(width, width, 3, regularizer, 2 if regularizer else None).double()
    x = torch.randn(20, width, dtype=torch.float64, requires_grad=True)
    types, norm = torch.randint(3, (60,)), torch.rand(60, 1, dtype=torch.float64)
    fast = gs.compile(layer, fallback="error")
    found = []
    for model in (layer, fast, fast):
        out = model(g, x, types, norm)
        leaves = (x, *layer.parameters())
        found.append((out, *torch.autograd.grad(out.square().sum(), leaves)))
    for mine in found[1:]:
        for actual, right in zip(mine, found[0], strict=True):
            assert_close(actual, right)


def test_graphs_given_by_name():
    """Also where warnings are errors."""

    def forward(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(_tanh, _sum)
            return dgl.sum_nodes(graph=g, feat="h")

    g, x = dgl.graph(([0, 1, 2], [1, 2, 2])), torch.linspace(-1, 1, 9).view(3, 3)
    fast = gs.compile(forward, fallback="error")
    expected = forward(g, x)
    fast(g, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for _ in range(2):
            torch.testing.assert_close(fast(g, x), expected)
            torch.testing.assert_close(forward(g, x), expected)
