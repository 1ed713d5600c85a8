"""Compiled models as programs of tensors: export, jit.trace, and the operator that both record."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gossamer as gs
from gossamer import native
from gossamer.errors import GraphError, UnsupportedError
from gossamer.traced_graph import arrays_of


class Attention(nn.Module):
    """Multi-head attention in user-defined functions."""

    def __init__(self, width: int, heads: int, out: int):
        super().__init__()
        self.fc = nn.Linear(width, heads * out)
        self.attn = nn.Parameter(torch.randn(heads, 2 * out) * 0.3)
        self.heads, self.out = heads, out

    def message(self, edges):
        pair = torch.cat([edges.src["z"], edges.dst["z"]], -1)
        return {"z": edges.src["z"], "s": (pair * self.attn).sum(-1, keepdim=True).tanh()}

    def reduce(self, nodes):
        return {"h": (nodes.mailbox["s"].softmax(1) * nodes.mailbox["z"]).sum(1)}

    def forward(self, graph, x):
        with graph.local_scope():
            graph.ndata["z"] = self.fc(x).view(-1, self.heads, self.out)
            graph.update_all(self.message, self.reduce)
            return graph.ndata["h"].flatten(1)


class Network(nn.Module):
    """Two layers, each compiled when asked for."""

    def __init__(self, wrap=lambda layer: layer):
        super().__init__()
        self.layers = nn.ModuleList([wrap(Attention(8, 2, 4)), wrap(Attention(8, 1, 3))])

    def forward(self, graph, x):
        return self.layers[1](graph, self.layers[0](graph, x).relu())


def random_graph(nodes: int, edges: int, seed: int = 0) -> gs.Graph:
    ids = torch.randint(0, nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
    # Copies: torch.compile tells views of another tensor from tensors of their own.
    return gs.graph((ids[0].clone(), ids[1].clone()), num_nodes=nodes)


def odd_graphs() -> list[gs.Graph]:
    """Nodes without edges, parallel edges, a star; other sizes than the example's."""
    star = gs.graph((torch.arange(1, 30), torch.zeros(29, dtype=torch.int64)))
    return [
        random_graph(11, 50, 1),
        gs.graph(([0, 0, 0, 2, 2], [1, 1, 1, 1, 0]), num_nodes=6),
        star,
    ]


@pytest.fixture(scope="module")
def networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    plain, fast = Network(), Network(gs.compile)
    fast.load_state_dict(plain.state_dict())
    return plain, fast


EXAMPLE = (random_graph(7, 20), torch.randn(7, 8))


@pytest.mark.parametrize("way", ["export", "trace"])
def test_program_of_tensors_equals_the_model_on_other_graphs(networks, way):
    plain, fast = networks
    flat = gs.OnTensors(fast, EXAMPLE)
    program = flat.export(EXAMPLE).module() if way == "export" else flat.trace(EXAMPLE)
    for graph in odd_graphs():
        x = torch.randn(graph.num_nodes(), 8)
        torch.testing.assert_close(program(*flat.tensors((graph, x))), plain(graph, x))


def test_fields_blocks_and_types_become_tensors():
    def forward(blocks, rest):
        block = blocks[0]
        block.srcdata["h"] = rest["x"]
        block.update_all(
            lambda edges: {"m": edges.src["h"] * edges.data["w"]},
            lambda nodes: {"y": nodes.mailbox["m"].sum(1)},
        )
        return block.dstdata["y"] * rest["scale"]

    def block(sources, targets, edges):
        ends = torch.randint(0, sources, (edges,)), torch.randint(0, targets, (edges,))
        made = gs.create_block(ends, num_src_nodes=sources, num_dst_nodes=targets)
        made.edata["w"] = torch.randn(edges, 1)
        return [made], {"x": torch.randn(sources, 4), "scale": 3}

    class Model(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, *args):
            return self.function(*args)

    args = block(7, 3, 12)
    flat = gs.OnTensors(Model(gs.compile(forward)), args)
    assert flat.names[-2:] == ["0.0.edata._E.w", "1.x"]
    program = flat.export(args).module()
    other = block(9, 5, 31)
    torch.testing.assert_close(program(*flat.tensors(other)), forward(*other))


def test_arguments_of_another_form_are_refused(networks):
    flat = gs.OnTensors(networks[1], EXAMPLE)
    graph, x = EXAMPLE
    with pytest.raises(GraphError, match=r"another form"):
        flat.tensors((graph.int(), x))
    with pytest.raises(GraphError, match=r"expected a graph, got Tensor"):
        flat.tensors((x, x))
    with pytest.raises(GraphError, match=r"expected 2 arguments, got 1"):
        flat.tensors((graph,))
    with pytest.raises(GraphError, match=r"expected a tensor of 2 axes, got 1 axes"):
        flat.tensors((graph, x[0]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrong_tensors_are_errors_not_crashes(networks):
    flat = gs.OnTensors(networks[1], EXAMPLE)
    program = flat.trace(EXAMPLE)
    tensors = list(flat.tensors(EXAMPLE))
    with pytest.raises(RuntimeError, match=r"in-offsets are int64.*expected contiguous int32"):
        program(*[t.long() if i < 6 else t for i, t in enumerate(tensors)])
    with pytest.raises(RuntimeError, match=r"shape|mat1"):
        program(*tensors[:6], torch.randn(7, 9))
    with pytest.raises(RuntimeError, match=r"expected contiguous int32\[19\]"):
        program(tensors[0], tensors[1][:-1], *tensors[2:])
    with pytest.raises(RuntimeError, match=r"expected"):
        program(*tensors[:6], torch.randn(6, 8))


def test_what_is_not_compiled_is_refused_with_its_line():
    class Branch(nn.Module):
        def forward(self, graph, x):
            graph.ndata["x"] = x
            graph.update_all(lambda edges: {"m": edges.src["x"]}, self.reduce)
            return graph.ndata["y"]

        def reduce(self, nodes):
            return {"y": nodes.mailbox["m"].sum(1) if nodes.mailbox["m"].sum() > 0 else None}

    flat = gs.OnTensors(gs.compile(Branch()), EXAMPLE)
    with pytest.raises(UnsupportedError, match=r"test_on_tensors.py:\d+: update_all"):
        flat.export(EXAMPLE)


def test_sizes_that_a_trace_would_fix_are_refused():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = gs.compile(Attention(8, 2, 4))

        def forward(self, graph, x):
            return self.layer(graph, x) + torch.zeros(x.shape[0], 8)

    flat = gs.OnTensors(Padded(), EXAMPLE)
    with pytest.raises(GraphError, match=r"number of rows in aten.zeros"):
        flat.trace(EXAMPLE)
    graph = odd_graphs()[0]
    other = graph, torch.randn(graph.num_nodes(), 8)
    program = flat.export(EXAMPLE).module()
    torch.testing.assert_close(program(*flat.tensors(other)), flat.model(*other))


def _operator_arguments() -> tuple:
    graph, x = EXAMPLE
    layer = gs.compile(Attention(8, 2, 4))
    layer(graph, x)
    program = layer._session.programs[0].program
    inputs = [torch.randn(7, 2, 4), torch.randn(2, 8)]
    if tuple(program.results[:2]) != (0, 3):
        raise AssertionError(f"a program of float node rows, got {program.results}")
    return program.code, program.results, arrays_of(graph.structure()), inputs


def test_the_recorded_operator_obeys_torchs_rules():
    torch.library.opcheck(native.ops().run_traced.default, _operator_arguments())


def test_the_recorded_operator_refuses_gradients_and_wrong_results():
    code, results, arrays, inputs = _operator_arguments()
    inputs[0].requires_grad_(True)
    (output,) = native.ops().run_traced(code, results, arrays, inputs)
    with pytest.raises(RuntimeError, match=r"run_traced has no gradient"):
        output.sum().backward()
    with pytest.raises(ValueError, match=r"results are not those of the program"):
        native.ops().run_traced(code, [*results[:-1], 5], arrays, inputs)
    with pytest.raises(ValueError, match=r"offsets are empty"):
        native.ops().run_traced(code, results, [arrays[1][:0], *arrays[1:]], inputs)
    with pytest.raises(ValueError, match=r"program takes 1 graphs"):
        native.ops().run_traced(code, results, arrays[:5], inputs)
