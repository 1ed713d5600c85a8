"""Compiled layers inside torch.compile: no graph break, equal results, no compilation per graph."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import gossamer as gs
from gossamer.errors import RowCountError
from test_on_tensors import Network, odd_graphs, random_graph

pytestmark = pytest.mark.skipif(
    not hasattr(torch._dynamo, "nonstrict_trace"), reason="this torch has no nonstrict_trace"
)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model, backend: str = "aot_eager"):
    counter = CompileCounterWithBackend(backend)
    return torch.compile(model, fullgraph=True, dynamic=True, backend=counter), counter


def reasons(error: BaseException | None) -> str:
    """The texts of an error and of those that it came from: torch puts its own on top."""
    return "" if error is None else f"{error}\n{reasons(error.__cause__ or error.__context__)}"


def networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    plain, fast = Network(), Network(gs.compile)
    fast.load_state_dict(plain.state_dict())
    return plain, fast


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_outputs_and_gradients_on_graphs_of_all_sizes_from_one_compilation(backend):
    plain, fast = networks()
    run, counter = compiled(fast, backend)
    for graph in [random_graph(7, 20), *odd_graphs()]:
        x = torch.randn(graph.num_nodes(), 8)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        outputs = [model(graph, each) for model, each in zip((run, plain), inputs, strict=True)]
        torch.testing.assert_close(*outputs)
        wanted = [[each, *m.parameters()] for each, m in zip(inputs, (fast, plain), strict=True)]
        found = [
            torch.autograd.grad(out.square().sum(), params)
            for out, params in zip(outputs, wanted, strict=True)
        ]
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1


def test_training_follows_the_plain_model():
    plain, fast = networks()
    run, counter = compiled(fast)
    graph, x = random_graph(9, 40), torch.randn(9, 8)
    losses = []
    for model, call in ((plain, plain), (fast, run)):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = (call(graph, x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    # Once for a graph without compressed forms, which the first call leaves with it, once with.
    assert counter.frame_count <= 2


def test_known_and_new_graphs_share_two_compilations():
    _, fast = networks()
    run, counter = compiled(fast)
    for seed in range(4):
        graph = random_graph(10 + seed, 30 + seed, seed)
        for _ in range(2):
            with torch.no_grad():
                run(graph, torch.randn(graph.num_nodes(), 8))
    assert counter.frame_count == 2


def test_fields_on_the_graph_are_read_and_written():
    def forward(graph, weight):
        graph.edata["w"] = graph.edata["w"] * 2
        graph.ndata["x"] = graph.ndata["x"] @ weight
        graph.update_all(
            lambda edges: {"m": edges.src["x"] * edges.data["w"]},
            lambda nodes: {"y": nodes.mailbox["m"].sum(1)},
        )
        return graph.ndata["y"] + 1

    graphs = [random_graph(6, 15), random_graph(6, 15)]
    x, w, weight = torch.randn(6, 4), torch.randn(15, 1), torch.randn(4, 3)
    for graph in graphs:
        graph.ndata["x"], graph.edata["w"] = x, w
    run, _ = compiled(gs.compile(forward))
    torch.testing.assert_close(run(graphs[0], weight), forward(graphs[1], weight))
    for name in ("x", "y"):
        torch.testing.assert_close(graphs[0].ndata[name], graphs[1].ndata[name])
    torch.testing.assert_close(graphs[0].edata["w"], graphs[1].edata["w"])


class Scaled(nn.Module):
    """Its functions read a float and the mode."""

    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def message(self, edges):
        return {"m": edges.src["x"] * (self.scale if self.training else 1.0)}

    def reduce(self, nodes):
        return {"y": nodes.mailbox["m"].sum(1)}

    def forward(self, graph, x):
        with graph.local_scope():
            graph.ndata["x"] = x
            graph.update_all(self.message, self.reduce)
            return graph.ndata["y"]


def test_what_functions_reach_is_guarded():
    model = Scaled()
    run, counter = compiled(gs.compile(model))
    graph, x = random_graph(6, 15), torch.randn(6, 4)
    graph.structure().in_csr(), graph.structure().out_csr()
    for change in (lambda: None, lambda: setattr(model, "scale", 3.0), model.eval):
        change()
        torch.testing.assert_close(run(graph, x), model(graph, x))
    assert counter.frame_count == 3


def test_wrong_features_and_graphs_are_errors():
    _, fast = networks()
    run, _ = compiled(fast)
    graph = random_graph(7, 20)
    run(graph, torch.randn(7, 8))
    with pytest.raises(RuntimeError) as wrong:
        run(graph, torch.randn(7, 9))
    assert "reduction dim" in reasons(wrong.value)
    with pytest.raises(RowCountError, match="number of features to match number of nodes"):
        run(graph, torch.randn(6, 8))
    narrow = graph.int()
    torch.testing.assert_close(run(narrow, torch.ones(7, 8)), run(graph, torch.ones(7, 8)))


def test_what_cannot_be_traced_is_an_error_with_its_place():
    def branch(nodes):
        return {"y": nodes.mailbox["m"].sum(1) if nodes.mailbox["m"].sum() > 0 else None}

    def forward(graph, x):
        graph.ndata["x"] = x
        graph.update_all(lambda edges: {"m": edges.src["x"]}, branch)
        return graph.ndata["y"]

    run, _ = compiled(gs.compile(forward))
    with pytest.raises(Exception) as wrong:  # noqa: PT011  torch wraps it
        run(random_graph(7, 20), torch.randn(7, 8))
    assert re.search(r"test_in_dynamo.py:\d+: update_all", reasons(wrong.value))


def test_a_tensor_that_torch_would_fix_is_refused():
    scale = torch.ones(8)

    def forward(graph, x):
        with graph.local_scope():
            graph.ndata["x"] = x * scale
            graph.update_all(
                lambda edges: {"m": edges.src["x"]}, lambda nodes: {"y": nodes.mailbox["m"].sum(1)}
            )
            return graph.ndata["y"]

    run, _ = compiled(gs.compile(forward))
    with pytest.raises(Exception) as wrong:  # noqa: PT011  torch wraps it
        run(random_graph(7, 20), torch.randn(7, 8))
    assert "neither an argument nor a parameter" in reasons(wrong.value)


def test_blocks_in_a_list():
    class Blocks(nn.Module):
        def __init__(self, wrap):
            super().__init__()
            self.layers = nn.ModuleList([wrap(Mean()), wrap(Mean())])

        def forward(self, blocks, x):
            for block, layer in zip(blocks, self.layers, strict=True):
                x = layer(block, x)
            return x

    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, block, x):
            with block.local_scope():
                block.srcdata["x"] = self.fc(x)
                block.update_all(
                    lambda edges: {"m": edges.src["x"]},
                    lambda nodes: {"y": nodes.mailbox["m"].mean(1)},
                )
                return block.dstdata["y"]

    def blocks(first, second, third, edges):
        def block(sources, targets):
            ends = torch.randint(0, sources, (edges,)), torch.randint(0, targets, (edges,))
            return gs.create_block(ends, num_src_nodes=sources, num_dst_nodes=targets)

        return [block(first, second), block(second, third)]

    torch.manual_seed(0)
    plain, fast = Blocks(lambda layer: layer), Blocks(gs.compile)
    fast.load_state_dict(plain.state_dict())
    run, counter = compiled(fast)
    for sizes in ((9, 6, 3, 20), (12, 7, 4, 33)):
        args = blocks(*sizes), torch.randn(sizes[0], 8)
        torch.testing.assert_close(run(*args), plain(*args))
    assert counter.frame_count == 1
