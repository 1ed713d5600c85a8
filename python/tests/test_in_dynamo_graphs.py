"""Batches, and graphs that share DGL's fields, inside torch.compile and torch.export."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gossamer as gs
from gossamer import dgl
from graph_libs import WITHOUT_DGL
from test_in_dynamo import compiled, fresh_dynamo, pytestmark, reasons  # noqa: F401


class Readouts(nn.Module):
    """Every readout that compiles; fields stay inside."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(
                lambda edges: {"m": edges.src["h"]}, lambda nodes: {"o": nodes.mailbox["m"].sum(1)}
            )
            g.ndata["w"] = g.ndata["o"].sum(1, keepdim=True)
            g.ndata["w"] = dgl.softmax_nodes(g, "w")
            total = dgl.sum_nodes(g, "o", "w")
            g.ndata["c"] = g.ndata["o"] - dgl.broadcast_nodes(g, total)
            g.apply_edges(lambda edges: {"p": edges.src["c"] * edges.dst["o"]})
            parts = dgl.mean_nodes(g, "c"), dgl.max_nodes(g, "c"), dgl.mean_edges(g, "p")
            return torch.cat([total, *parts], 1) / g.batch_size


class Centred(nn.Module):
    """Rows without the mean of their graph."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.ndata["c"] = g.ndata["h"] - dgl.broadcast_nodes(g, dgl.mean_nodes(g, "h"))
            return g.ndata["c"]


def random_batch(number: int, library=gs):
    """Small graphs, some without edges; they have several edges between two nodes."""
    generator = torch.Generator().manual_seed(number)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator)

    graphs = []
    for _ in range(number):
        nodes, edges = int(draw(1, 6)), int(draw(0, 9))
        ends = draw(0, nodes, edges), draw(0, nodes, edges)
        graphs.append(library.graph(ends, num_nodes=nodes))
    return library.batch(graphs)


def model(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().double()


def assert_equal(run, plain, graph):
    """Outputs and gradients."""
    x = torch.randn(graph.num_nodes(), 4, dtype=torch.float64)
    outputs = [each(graph, x) for each in (run, plain)]
    torch.testing.assert_close(*outputs)
    found = [torch.autograd.grad((out**2).sum(), plain.parameters()) for out in outputs]
    torch.testing.assert_close(*found)


def test_batches_of_all_sizes_share_a_compilation():
    plain = model(Readouts)
    run, counter = compiled(gs.compile(plain))
    for number in (4, 7, 3, 5):
        assert_equal(run, plain, random_batch(number))
    # Once for a graph without compressed forms, once with.
    assert counter.frame_count <= 2


@torch.no_grad()
def test_a_batch_of_one_and_of_empty_graphs_and_a_graph_that_is_none():
    plain = model(Centred)
    run, _ = compiled(gs.compile(plain))
    none = torch.empty(0, dtype=torch.int64)
    empty = gs.batch([gs.graph((none, none), num_nodes=0)] * 2)
    single = gs.graph((torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2, 0, 1])), num_nodes=4)
    for graph in (random_batch(1), single, random_batch(3), empty):
        x = torch.randn(graph.num_nodes(), 4, dtype=torch.float64)
        torch.testing.assert_close(run(graph, x), plain(graph, x))


def test_a_batch_is_exported():
    plain = model(Readouts)
    first = random_batch(4)
    fast = gs.OnTensors(gs.compile(plain), (first, torch.randn(first.num_nodes(), 4).double()))
    assert fast.names[-3:] == ["0.batch_num_nodes", "0.batch_num_edges", "1"]
    program = fast.export((first, torch.randn(first.num_nodes(), 4).double())).module()
    for number in (7, 4, 3):
        graph = random_batch(number)
        x = torch.randn(graph.num_nodes(), 4, dtype=torch.float64)
        torch.testing.assert_close(program(*fast.tensors((graph, x))), plain(graph, x))
    single = gs.graph((torch.tensor([0]), torch.tensor([0])))
    with pytest.raises(gs.errors.GraphError, match="a graph of another form"):
        fast.tensors((single, torch.randn(1, 4)))


class Fields(nn.Module):
    """Reads fields of the graph and leaves one there."""

    def forward(self, g, x):
        g.ndata["h"] = x * g.ndata["n"]
        g.update_all(
            lambda edges: {"m": edges.src["h"] * edges.data["w"]},
            lambda nodes: {"o": nodes.mailbox["m"].sum(1)},
        )
        return g.ndata["o"] + 1


@WITHOUT_DGL
def test_graphs_of_dgl_are_converted_once():
    import dgl as real

    plain = model(Centred)
    run, counter = compiled(gs.compile(plain))
    for number in (4, 7, 3):
        assert_equal(run, plain, gs.from_dgl(random_batch(number, real)))
    assert counter.frame_count <= 2
    with pytest.raises(Exception) as wrong:  # noqa: PT011  torch wraps it
        run(random_batch(4, real), torch.randn(4, 4))
    assert "gs.from_dgl(graph)" in reasons(wrong.value)


@WITHOUT_DGL
def test_fields_of_a_dgl_graph_are_read_and_written():
    import dgl as real

    run, _ = compiled(gs.compile(Fields()))
    for nodes in (5, 8):
        ends = torch.randint(0, nodes, (9,)), torch.randint(0, nodes, (9,))
        graphs = [real.graph(ends, num_nodes=nodes) for _ in range(2)]
        x, n, w = torch.randn(nodes, 3), torch.randn(nodes, 1), torch.randn(9, 1)
        for graph in graphs:
            graph.ndata["n"], graph.edata["w"] = n, w
        torch.testing.assert_close(run(gs.from_dgl(graphs[0]), x), Fields()(graphs[1], x))
        assert list(graphs[0].ndata) == list(graphs[1].ndata)
        for name in graphs[0].ndata:
            torch.testing.assert_close(graphs[0].ndata[name], graphs[1].ndata[name])
