"""Gradients of weights that multiply rows of edges: right on odd graphs, and no row is stored."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gossamer as gs
from edge_weight_models import MODELS
from programs.threads import threads

GRAPHS = {
    "empty": ([], [], 0),
    "no-edges": ([], [], 5),
    "one-node": ([0, 0], [0, 0], 1),
    "star": (list(range(1, 70)), [0] * 69, 70),
    "multi-edges": ([0, 1, 1, 1, 3, 3, 4], [2, 2, 2, 2, 0, 0, 4], 6),
}
WIDTH = 5


def _graph(name):
    src, dst, nodes = GRAPHS[name]
    return gs.graph((torch.tensor(src).long(), torch.tensor(dst).long()), num_nodes=nodes)


def _random_graph(nodes, edges):
    random = torch.Generator().manual_seed(5)
    ends = torch.randint(nodes, (2, edges), generator=random)
    return gs.graph((ends[0], ends[1]), num_nodes=nodes)


def _features(g, dtype, width=WIDTH):
    random = torch.Generator().manual_seed(3)
    return [
        torch.randn(count, width, generator=random, dtype=torch.float64).to(dtype)
        for count in (g.num_nodes(), g.num_edges())
    ]


def _gradients(model, g, features):
    """Of a weighted sum of the outputs, for features and parameters; zeros where none."""
    leaves = [x.clone().requires_grad_() for x in features]
    out = model(g, *leaves)
    leaves += model.parameters()
    random = torch.Generator().manual_seed(4)
    weights = torch.randn(out.shape, generator=random, dtype=torch.float64).to(out.dtype)
    if not out.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad((out * weights).sum(), leaves, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, found, strict=True)
    ]


def _make(name, dtype, width=WIDTH):
    torch.manual_seed(0)
    return MODELS[name](width).to(dtype)


@pytest.mark.parametrize("name", MODELS)
def test_odd_graphs(name):
    model = _make(name, torch.float64)
    fast = gs.compile(model, fallback="error")
    for graph in GRAPHS:
        g = _graph(graph)
        features = _features(g, torch.float64)
        expected = _gradients(model, g, features)
        for mine, right in zip(_gradients(fast, g, features), expected, strict=True):
            scale = right.abs().max().item() if right.numel() else 0.0
            torch.testing.assert_close(mine, right, rtol=0, atol=1e-10 * max(scale, 1))


@pytest.mark.parametrize("name", MODELS)
def test_nothing_per_edge_is_stored_and_threads_do_not_matter(name):
    g = _random_graph(3000, 20000)
    features = _features(g, torch.float32)
    fast = gs.compile(_make(name, torch.float32), fallback="error")
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(_gradients(fast, g, features))
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    buffers = gs.explain(fast).buffers
    assert "backward" in {b.entry for b in buffers}
    assert [b for b in buffers if b.rows == "edges" and b.lifetime != "output"] == []


@pytest.mark.parametrize("name", ["edge_mlp", "gatv2_product"])
def test_gradcheck(name):
    g = _graph("multi-edges")
    model = _make(name, torch.float64, width=2)
    fast = gs.compile(model, fallback="error")
    features = [x.requires_grad_() for x in _features(g, torch.float64, width=2)]
    parameters = dict(model.named_parameters())

    def call(nodes, edges, *values):
        replaced = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(fast, replaced, (g, nodes, edges))

    values = [p.detach().clone().requires_grad_() for p in parameters.values()]
    assert torch.autograd.gradcheck(call, (*features, *values))


@pytest.mark.parametrize("name", ["edge_mlp", "gatv2_product", "gatv2_linear"])
def test_error_of_sums_over_a_million_edges(name):
    """The error measure of every compiled result, for sums with a million terms."""
    g = _random_graph(2000, 1_000_000)
    model = _make(name, torch.float32, width=2)
    features = [x.abs() for x in _features(g, torch.float32, width=2)]
    mine = _gradients(gs.compile(model, fallback="error"), g, features)
    eager = _gradients(model, g, features)
    exact = _gradients(copy.deepcopy(model).double(), g, [x.double() for x in features])
    for compiled, single, right in zip(mine, eager, exact, strict=True):
        scale = right.abs().max().item() or 1.0
        error = (compiled - right).abs().max().item() / scale
        own = (single - right).abs().max().item() / scale
        assert error <= max(1e-5, 4 * own + 1e-6)


@pytest.mark.parametrize("name", ["edge_mlp", "gatv2_product", "gatv2_linear"])
def test_resident_memory_of_a_backward(name):
    """A step takes less memory than one table of 32 floats for each of 2 million edges."""
    script = Path(__file__).with_name("edge_weight_models.py")
    done = subprocess.run(
        [sys.executable, str(script), name], capture_output=True, text=True, check=True
    )
    grown, of_one_table = map(int, done.stdout.split())
    assert grown < of_one_table, f"{grown} bytes, and a table of edges has {of_one_table}"
