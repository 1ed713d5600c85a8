"""Compiled gradients equal eager ones, for every program that compiles, on every small graph."""

from __future__ import annotations

import copy

import pytest
import torch

import gossamer as gs
from programs import ALL, PAIRS, pair_id
from programs.harness import COMPILES, compiled, named_outputs
from programs.library import gossamer_library
from programs.threads import threads
from programs.training import AttentionLayer

pytest_plugins = ["programs.plugin"]
DTYPE = torch.float64
COMPILED = [program for program in ALL if program.expect == COMPILES]


def _leaves(model, inputs):
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    return [x for x in inputs if x.requires_grad] + parameters


def _gradients(model, program, case):
    """Gradients of a weighted sum of all outputs, for inputs and parameters; zeros where none."""
    inputs = [
        x.clone().requires_grad_(x.is_floating_point())
        for x in program.inputs(case, program.feat, DTYPE)
    ]
    out = named_outputs(model(*case.build(gossamer_library()), *inputs))
    total = torch.zeros((), dtype=DTYPE)
    for name, value in sorted(out.items()):
        weights = torch.Generator().manual_seed(len(name))
        if value.is_floating_point() and value.requires_grad:
            total = total + (value * torch.randn(value.shape, generator=weights, dtype=DTYPE)).sum()
    leaves = _leaves(model, inputs)
    if not total.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, found, strict=True)
    ]


def _assert_close(actual, expected):
    finite = torch.isfinite(expected)
    assert torch.equal(torch.isfinite(actual), finite)
    scale = expected[finite].abs().max().item() if finite.any() else 0.0
    torch.testing.assert_close(actual[finite], expected[finite], rtol=0, atol=1e-10 * max(scale, 1))


@pytest.mark.parametrize("program", COMPILED, ids=pair_id)
def test_every_program(program):
    fast = compiled(program, gossamer_library(), program.feat, DTYPE)
    for case in (case for owner, case in PAIRS if owner is program):
        actual = _gradients(fast, program, case)
        expected = _gradients(fast.__wrapped__, program, case)
        for mine, right in zip(actual, expected, strict=True):
            _assert_close(mine, right)


def test_the_compiler_makes_the_gradients():
    """Of the models, forward and backward are programs; no fallback is reported."""
    for name in ("gcn-GCN", "gat-GAT", "gat-HeadsGAT", "census-edgeconv"):
        program = next(p for p in ALL if p.name == name)
        case = next(case for owner, case in PAIRS if owner is program)
        fast = compiled(program, gossamer_library(), program.feat, DTYPE)
        _gradients(fast, program, case)
        report = gs.explain(fast)
        assert report.fallbacks == []
        assert "backward" in {item.entry for item in report.programs}
        edges = [b for b in report.buffers if b.rows == "edges" and b.lifetime != "output"]
        assert edges == []


# --- autograd's ways ------------------------------------------------------------------------------


def _graph(nodes=12, edges=40, seed=0):
    random = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes, (2, edges), generator=random)
    return gs.graph((ends[0], ends[1]), num_nodes=nodes)


def _pair(width=3):
    torch.manual_seed(0)
    model = AttentionLayer(width).to(DTYPE)
    return model, gs.compile(copy.deepcopy(model), fallback="error")


def _rows(width=3, nodes=12):
    return torch.randn(nodes, width, dtype=DTYPE, generator=torch.Generator().manual_seed(1))


def test_gradcheck_and_gradgradcheck():
    _, fast = _pair()
    g, x = _graph(), _rows().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: fast(g, x), (x,))
    assert torch.autograd.gradgradcheck(lambda x: fast(g, x), (x,))


def _batched(out, leaves, given, twice):
    return torch.autograd.grad(out, leaves, given, is_grads_batched=True, create_graph=twice)


def _inside_vmap(out, leaves, given, twice):
    def one(weights):
        return torch.autograd.grad(out, leaves, weights, retain_graph=True, create_graph=twice)

    return torch.func.vmap(one)(given)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("grad", [_batched, _inside_vmap])
def test_batches_of_gradients(grad, twice):
    """As `torch.autograd.functional.jacobian(vectorize=True)` asks for them."""
    model, fast = _pair()
    given = torch.randn(5, 12, 3, dtype=DTYPE, generator=torch.Generator().manual_seed(4))
    for _ in range(3):  # in region mode and as a whole
        found = []
        for layer in (model, fast):
            x = _rows().requires_grad_()
            leaves = [x, *layer.parameters()]
            out = layer(_graph(), x)
            grads = grad(out, leaves, given, twice)
            if twice:
                grads += torch.autograd.grad(sum(g.square().sum() for g in grads), leaves)
            found.append(grads)
        for mine, right in zip(found[1], found[0], strict=True):
            assert mine.shape == right.shape
            _assert_close(mine, right)


def test_gradients_of_gradients_where_one_field_is_computed_from_another():
    """The gradient of the features ends at them; it does not come again through their scores."""

    def scored(g, x):
        with g.local_scope():
            g.ndata["h"], g.ndata["s"] = x, x.sum(1, keepdim=True)
            g.update_all(
                lambda edges: {"h": edges.src["h"], "s": edges.src["s"] * edges.dst["s"]},
                lambda nodes: {"o": (nodes.mailbox["s"].softmax(1) * nodes.mailbox["h"]).sum(1)},
            )
            return g.ndata["o"]

    found = []
    fast = gs.compile(scored, fallback="error")
    for layer in (scored, fast, fast):
        x = _rows().requires_grad_()
        out = layer(_graph(), x).square().sum()
        (force,) = torch.autograd.grad(out, x, create_graph=True)
        found.append((force, *torch.autograd.grad(force.square().sum(), x)))
    for mine in found[1:]:
        for actual, right in zip(mine, found[0], strict=True):
            _assert_close(actual, right)


def test_only_what_requires_a_gradient_is_computed():
    _, fast = _pair()
    for parameter in fast.parameters():
        parameter.requires_grad_(False)
    x = _rows().requires_grad_()
    fast(_graph(), x).sum().backward()
    assert x.grad is not None
    assert all(parameter.grad is None for parameter in fast.parameters())
    with torch.no_grad():
        assert not fast(_graph(), x).requires_grad
    with torch.inference_mode():
        assert not fast(_graph(), _rows()).requires_grad


def test_two_forwards_before_one_backward_and_retain_graph():
    model, fast = _pair()
    g, h = _graph(), _graph(seed=3)
    for layer in (model, fast):
        a, b = layer(g, _rows()), layer(h, 2 * _rows())
        loss = (a * b).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    for mine, right in zip(fast.parameters(), model.parameters(), strict=True):
        _assert_close(mine.grad, right.grad)


def test_a_saved_tensor_changed_in_place_is_torchs_error():
    _, fast = _pair()
    g = _graph()
    loss = fast(g, _rows()).sum()
    with torch.no_grad():
        fast.score.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
        loss.backward()
    (note,) = raised.value.__notes__
    assert AttentionLayer.message.__code__.co_filename in note
    assert "h = h + y" in note


def test_gradients_have_the_same_bits_for_any_number_of_threads():
    _, fast = _pair(width=16)
    g, x = _graph(2000, 30_000), _rows(16, 2000)
    found = []
    for count in (1, 2, 1):
        h = x.clone().requires_grad_()
        weights = [fast.score.weight]
        g.ndata["h"] = h

        def layer(g):
            g.update_all(fast.__wrapped__.message, fast.__wrapped__.reduce)
            return g.ndata["o"]

        with threads(count):
            out = gs.compile(layer, fallback="error")(g)
            found.append(torch.autograd.grad(out.square().sum(), [h, *weights]))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_a_training_loop_follows_the_eager_one():
    model, fast = _pair(width=4)
    g, x = _graph(60, 300), _rows(4, 60)
    target = torch.sin(3 * x)
    losses = []
    for layer in (model, fast):
        optimizer = torch.optim.Adam(layer.parameters(), 0.05)
        curve = []
        for _ in range(40):
            optimizer.zero_grad()
            loss = (layer(g, x) - target).square().mean()
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
        losses.append(torch.tensor(curve))
    assert losses[0][-1] < 0.8 * losses[0][0]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-6, atol=0)


class Steep(torch.nn.Module):
    """Reducers whose slope is infinite, or whose value is not a number, without messages."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(2)
        self.linear = torch.nn.Linear(3, 3, dtype=DTYPE)
        self.kind = kind

    def reduce(self, nodes):
        m = nodes.mailbox["m"]
        rows = {
            "root": lambda: m.square().sum(1).sqrt(),
            "mean": lambda: m.sum(1) / m.shape[1],
            "log": lambda: m.square().sum(1).log() * nodes.data["h"],
        }[self.kind]()
        return {"o": self.linear(rows)}

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(lambda edges: {"m": edges.src["h"]}, self.reduce)
            return g.ndata["o"]


@pytest.mark.parametrize("kind", ["root", "mean", "log"])
def test_isolated_nodes_do_not_spoil_gradients(kind):
    model = Steep(kind)
    fast = gs.compile(copy.deepcopy(model), fallback="error")
    g = gs.graph((torch.tensor([0, 1, 1]), torch.tensor([2, 2, 0])), num_nodes=5)
    for _ in range(2):  # in region mode and as a whole
        found = []
        for layer in (model, fast):
            x = _rows(3, 5).requires_grad_()
            found.append(torch.autograd.grad(layer(g, x).sum(), [x, *layer.parameters()]))
        for right, mine in zip(*found, strict=True):
            assert torch.isfinite(right).all()
            _assert_close(mine, right)


def test_outputs_carry_gradients_as_in_eager():
    """Detached outputs have none, and what only an unused output needs gets None."""

    def reduce(nodes):
        m = nodes.mailbox["m"]
        return {"a": m.sum(1).detach(), "b": m.mean(1), "c": nodes.mailbox["w"].sum(1)}

    def layer(g, x, w):
        with g.local_scope():
            g.ndata["h"], g.edata["w"] = x, w
            g.update_all(lambda edges: {"m": edges.src["h"], "w": edges.data["w"]}, reduce)
            return g.ndata["a"], g.ndata["b"], g.ndata["c"]

    fast, g = gs.compile(layer, fallback="error"), _graph()
    for _ in range(2):
        x, w = _rows().requires_grad_(), torch.randn(40, 2, dtype=DTYPE).requires_grad_()
        out = fast(g, x, w)
        assert [o.requires_grad for o in out] == [False, True, True]
        dx, dw = torch.autograd.grad(out[2].sum(), [x, w], allow_unused=True)
        assert dx is None
        assert dw is not None


def test_nodes_without_edges_of_another_relation_keep_their_gradients():
    """Two relations end at the items: an item may be isolated in one of them alone."""

    def layer(g, users, items):
        with g.local_scope():
            g.nodes["user"].data["h"], g.nodes["item"].data["h"] = users, items
            g.update_all(
                lambda edges: {"m": edges.src["h"]},
                lambda nodes: {"a": nodes.mailbox["m"].sum(1)},
                etype="buys",
            )
            g.update_all(
                lambda edges: {"m": edges.dst["h"]},
                lambda nodes: {"b": nodes.mailbox["m"].sum(1)},
                etype="rates",
            )
            return g.nodes["item"].data["a"], g.nodes["item"].data["b"]

    relations = {("user", "buys", "item"): ([0], [2]), ("user", "rates", "item"): ([1, 3], [1, 0])}
    g = gs.heterograph(relations, num_nodes_dict={"user": 4, "item": 3})
    fast = gs.compile(layer, fallback="error")
    for _ in range(2):  # in region mode and as a whole
        found = []
        for function in (layer, fast):
            leaves = [_rows(3, 4).requires_grad_(), _rows(3, 3).requires_grad_()]
            a, b = function(g, *leaves)
            found.append(torch.autograd.grad(a.sum() + b.square().sum(), leaves))
        for right, mine in zip(*found, strict=True):
            _assert_close(mine, right)


def test_no_slope_of_a_function_of_edges_at_nodes_that_no_edge_reads():
    """The root is taken per node; at 0, which the isolated node has, its slope is infinite."""

    def roots(graph, x):
        graph.ndata["x"] = x
        graph.update_all(
            lambda edges: {"m": edges.src["x"].sqrt()},
            lambda nodes: {"y": nodes.mailbox["m"].sum(1)},
        )
        return graph.ndata["y"]

    graph = gs.graph(([0, 1], [1, 0]), num_nodes=3)
    x = torch.tensor([[4.0], [1.0], [0.0]], dtype=torch.float64, requires_grad=True)
    gs.compile(roots, fallback="error")(graph, x).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[0.25], [0.5], [0.0]], dtype=torch.float64))


def _root_of_messages(graph, p):
    graph.update_all(
        lambda edges: {"m": edges.src["x"]},
        lambda nodes: {"y": (nodes.mailbox["m"].sum(1) * p).sqrt()},
    )


def _on_a_block(block, x, p):
    with block.local_scope():
        block.srcdata["x"] = x
        _root_of_messages(block, p)
        return block.dstdata["y"]


def _on_two_relations(graph, x, p):
    with graph.local_scope():
        graph.nodes["user"].data["x"] = x
        for name in ("buys", "rates"):
            _root_of_messages(graph[name], p)
        return graph.nodes["item"].data["y"]


_RELATIONS = {("user", "buys", "item"): ([0], [1]), ("user", "rates", "item"): ([1, 2], [2, 0])}


@pytest.mark.parametrize(
    ("model", "graph"),
    [
        (_on_a_block, gs.create_block(([0, 1], [1, 0]), num_src_nodes=3, num_dst_nodes=3)),
        (_on_two_relations, gs.heterograph(_RELATIONS, num_nodes_dict={"user": 3, "item": 4})),
    ],
)
def test_no_slope_at_hidden_nodes_that_have_another_name(model, graph):
    """A whole forward has one name for a set of nodes; fill_isolated has that of its relation."""
    fast = gs.compile(model, fallback="error")
    for _ in range(2):
        found = []
        for function in (model, fast):
            leaves = [_rows(5, 3).abs().requires_grad_(), _rows(5, 1)[0].abs().requires_grad_()]
            found.append(torch.autograd.grad(function(graph, *leaves).sum(), leaves))
        assert all(torch.isfinite(grad).all() for grad in found[0])
        for right, mine in zip(*found, strict=True):
            _assert_close(mine, right)
    assert gs.explain(fast).mode == "whole"
