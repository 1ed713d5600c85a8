"""The graph operators `torch.ops.gossamer.*` against loops over nodes."""

import pytest
import torch

from gossamer.capture import ops
from support_capture import GRAPHS, structure

GRAPH = torch.ops.gossamer


def rows_of(edges, dst, node):
    return edges[dst == node]


LOOPS = {
    "sum": lambda rows: rows.sum(0),
    "mean": lambda rows: rows.mean(0),
    "max": lambda rows: rows.max(0)[0],
    "min": lambda rows: rows.min(0)[0],
    "prod": lambda rows: rows.prod(0),
}


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", LOOPS)
def test_reduce_and_its_gradient(kind, name, idtype):
    graph = structure(name, idtype)
    edges = torch.randn(len(graph.src), 2, 3, dtype=torch.float64, requires_grad=True)
    ours = GRAPH.reduce(edges, graph.dst, graph.num_dst, kind)
    parts = [rows_of(edges, graph.dst, node) for node in range(graph.num_dst)]
    zero = edges.new_zeros(2, 3)
    expected = torch.stack([LOOPS[kind](part) if len(part) else zero for part in parts])
    torch.testing.assert_close(ours, expected)
    if len(graph.src):
        weight = torch.randn_like(ours)
        (mine,) = torch.autograd.grad((ours * weight).sum(), edges)
        (theirs,) = torch.autograd.grad((expected * weight).sum(), edges)
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_wins_and_ties_go_to_the_first_edge(kind):
    dst = torch.tensor([0, 0, 0, 1, 1])
    edges = torch.tensor([2.0, 2.0, 2.0, 1.0, float("nan")], requires_grad=True)
    result = GRAPH.reduce(edges, dst, 2, kind)
    assert result[1].isnan()
    (grad,) = torch.autograd.grad(result[0], edges)
    assert grad.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_integers_are_reduced_as_integers():
    edges, dst = torch.tensor([3, -2, 5]), torch.tensor([1, 1, 2])
    assert GRAPH.reduce(edges, dst, 4, "max").tolist() == [0, 3, 5, 0]
    assert GRAPH.reduce(edges, dst, 4, "sum").tolist() == [0, 1, 5, 0]


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="median"):
        ops.reduce(torch.ones(1), torch.tensor([0]), 1, "median")


@pytest.mark.parametrize("name", GRAPHS)
def test_softmax_sums_to_one(name):
    graph = structure(name)
    edges = torch.randn(len(graph.src), 2, dtype=torch.float64) * 300
    ours = GRAPH.softmax(edges, graph.dst, graph.num_dst)
    for node in range(graph.num_dst):
        mine, own = rows_of(ours, graph.dst, node), rows_of(edges, graph.dst, node)
        torch.testing.assert_close(mine, own.softmax(0))


def test_mailbox_is_ordered_by_edge_id():
    src, dst = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 0, 1, 0])
    box = GRAPH.mailbox(GRAPH.gather_src(torch.arange(4.0).unsqueeze(1), src), dst, 2)
    assert box.squeeze(-1).tolist() == [[1.0, 3.0], [0.0, 2.0]]


def test_mailbox_of_several_degrees_is_refused():
    with pytest.raises(ValueError, match="degrees from 1 to 2"):
        GRAPH.mailbox(torch.ones(3, 1), torch.tensor([0, 0, 1]), 2)


def test_isolated_rows_are_filled():
    graph = structure()
    filled = GRAPH.fill_isolated(torch.ones(7, 2), graph.dst, 7, -1.0)
    isolated = GRAPH.degree(graph.dst, 7) == 0
    assert isolated.any()
    assert torch.equal(filled[:, 0] == -1.0, isolated)


def test_operators_work_in_symbolic_traces():
    def model(x, src, dst):
        messages = torch.ops.gossamer.gather_src(x, src)
        return torch.ops.gossamer.reduce(messages, dst, x.shape[0], "sum")

    traced = torch.fx.symbolic_trace(model)
    graph = structure()
    x = torch.randn(7, 3)
    assert torch.equal(traced(x, graph.src, graph.dst), model(x, graph.src, graph.dst))
