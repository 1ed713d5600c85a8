"""What a symbolic trace keeps of a model: parameters, effects, order of writes."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import fx, nn

import gossamer as gs
import gossamer.dgl as gdgl
import gossamer.dgl.function as fn
from gossamer.fx import Function
from programs.library import dgl_is_installed

pytestmark = pytest.mark.usefixtures("one_thread")
pytest_plugins = ["programs.plugin"]

SRC, DST = [0, 1, 2, 3, 4, 0, 1], [1, 2, 3, 4, 4, 4, 1]


def _graph():
    return gs.graph((SRC, DST), num_nodes=6)


def _rows(count=6, feat=3, seed=0):
    return torch.randn(count, feat, generator=torch.Generator().manual_seed(seed))


def _copied(edges):
    return {"m": edges.src["h"]}


def _summed(nodes):
    return {"h": nodes.mailbox["m"].sum(1)}


def _same(model, gm, *inputs, make=_graph):
    """Equal outputs and equal fields left, on fresh graphs."""
    mine, theirs = make(), make()
    expected, actual = model(mine, *inputs), gm(theirs, *inputs)
    torch.testing.assert_close(actual, expected)
    for left, right in ((mine.ndata, theirs.ndata), (mine.edata, theirs.edata)):
        assert set(left) == set(right)
        for field in left:
            torch.testing.assert_close(right[field], left[field])
    return actual


def _functions(gm):
    """The modules that stand for user-defined functions."""
    return [module for name, module in gm.named_children() if name.startswith("udf_")]


class Layer(nn.Module):
    """Sums of messages through `message` and `reduce`, which tests override."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.full((3,), 0.5))
        self.register_buffer("shift", torch.arange(3.0))

    def message(self, edges):
        return {"m": self.linear(edges.src["h"])}

    def reduce(self, nodes):
        return {"h": nodes.mailbox["m"].sum(1)}

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(self.message, self.reduce)
            return g.ndata["h"]


# --- what cannot be traced stays as it is ---------------------------------------------------------


class SizesLayer(Layer):
    """Asks for sizes, which no trace knows."""

    def message(self, edges):
        rows, width = edges.src["h"].view(len(edges), -1).size()
        return {"m": self.linear(edges.src["h"].view(rows, width)) * self.scale}

    def reduce(self, nodes):
        degree = nodes.mailbox["m"].shape[1]
        if degree == 1:
            return {"h": nodes.mailbox["m"][:, 0] + self.shift}
        return {"h": nodes.mailbox["m"].sum(1)}


def test_decisions_on_sizes_and_degrees_are_not_burned_in():
    model = SizesLayer()
    gm = gs.symbolic_trace(model)
    assert all(isinstance(function, Function) for function in _functions(gm))
    _same(model, gm, _rows())


def test_a_kept_function_leaves_parameters_their_names():
    model = SizesLayer()
    gm = gs.symbolic_trace(model)
    assert set(gm.state_dict()) == set(model.state_dict())
    gm.load_state_dict(model.state_dict())
    gm.linear.weight.data.mul_(2)
    _same(model, gm, _rows())


def test_a_kept_function_gets_values_of_the_trace():
    class Model(Layer):
        def forward(self, g, x):
            weights, gate = [self.scale * 2, {"bias": x.mean(0)}], torch.sigmoid(x[0])

            def message(edges, gate=gate):
                rows = edges.src["h"].view(len(edges), -1)
                return {"m": rows * weights[0] * gate + weights[1]["bias"]}

            with g.local_scope():
                g.ndata["h"] = x
                g.update_all(message, self.reduce)
                return g.ndata["h"]

    model = Model()
    gm = gs.symbolic_trace(model)
    kept, traced = _functions(gm)
    assert isinstance(kept, Function)
    assert isinstance(traced, fx.GraphModule)
    for seed in range(2):
        _same(model, gm, _rows(seed=seed))


def test_effects_of_functions_happen_in_every_call():
    calls = []

    def message(edges):
        calls.append(1)
        return {"m": edges.src["h"]}

    def layer(g, x):
        g.ndata["h"] = x
        g.update_all(message, _summed)
        return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    assert calls == []
    for count in (1, 2):
        gm(_graph(), _rows())
        assert len(calls) == count


def test_tensors_of_closures_are_read_at_run_time():
    """Also where they are computed with before they meet a row."""
    scale = torch.tensor([1.0, 2.0, 3.0])

    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(
                lambda edges: {"m": edges.src["h"] * (1 - torch.exp(scale * 2).real)}, _summed
            )
            return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    assert isinstance(_functions(gm)[0], fx.GraphModule)
    assert not gm.state_dict()
    _same(layer, gm, _rows())
    scale.mul_(3)
    _same(layer, gm, _rows())


def test_a_value_of_a_tensor_is_not_burned_in():
    scale = torch.tensor(2.0)

    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(lambda edges: {"m": edges.src["h"] * scale.item()}, _summed)
            return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    scale.fill_(3.0)
    _same(layer, gm, _rows())


def test_buffers_are_read_at_run_time():
    class Model(Layer):
        def message(self, edges):
            return {"m": edges.src["h"] * (self.shift * 2)}

        def forward(self, g, x):
            return super().forward(g, x * (self.shift + 1))

    model = Model()
    gm = gs.symbolic_trace(model)
    model.shift.add_(1)
    _same(model, gm, _rows())


def test_dropout_in_a_function_follows_the_mode():
    class Model(Layer):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def message(self, edges):
            return {"m": self.drop(edges.src["h"])}

    model = Model()
    gm = gs.symbolic_trace(model).eval()
    assert not model.drop.training
    assert torch.equal(gm(_graph(), _rows()), gm(_graph(), _rows()))
    gm.train()
    assert not torch.equal(gm(_graph(), _rows()), gm(_graph(), _rows()))


def test_random_numbers_are_drawn_in_every_call():
    def layer(g, x):
        g.ndata["h"] = x * torch.rand(3)
        g.update_all(lambda edges: {"m": edges.src["h"] * torch.rand(3)}, _summed)
        return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    assert not torch.equal(gm(_graph(), _rows()), gm(_graph(), _rows()))


def test_a_module_outside_of_the_model_adds_no_parameters():
    foreign = nn.Linear(3, 3)

    class Model(Layer):
        def forward(self, g, x):
            with g.local_scope():
                g.ndata["h"] = x
                g.update_all(lambda edges: {"m": foreign(edges.src["h"])}, self.reduce)
                return g.ndata["h"]

    model = Model()
    gm = gs.symbolic_trace(model)
    assert gm.state_dict().keys() <= model.state_dict().keys()
    _same(model, gm, _rows())
    foreign.weight.data.mul_(2)
    _same(model, gm, _rows())


class Mlp(Layer):
    """Containers of modules and parameters, and a hook."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])
        self.mlp[0].register_forward_hook(lambda module, inputs, output: output * 2)

    def message(self, edges):
        return {"m": self.mlp(edges.src["h"]) * self.weights[0] + self.weights[1]}


class Recurrent(Layer):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 3, batch_first=True)

    def reduce(self, nodes):
        return {"h": self.rnn(nodes.mailbox["m"])[1][0]}


class AsksForFields(Layer):
    def message(self, edges):
        return {"m": edges.data["w"] if "w" in edges.data else self.linear(edges.src["h"])}


class WritesInPlace(Layer):
    def message(self, edges):
        rows = edges.src["h"].clone()
        rows[:, 0] = 0
        return {"m": self.linear(rows)}


class AsksForIds(Layer):
    def message(self, edges):
        return {"m": edges.src["h"] * edges.edges()[2].unsqueeze(1)}

    def reduce(self, nodes):
        return {"h": nodes.mailbox["m"].sum(1) + nodes.nodes().unsqueeze(1)}


class UsesTheGraph(Layer):
    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(
                self.message,
                lambda nodes: {"h": nodes.mailbox["m"].sum(1) / (1 + g.in_degrees().sum())},
            )
            return g.ndata["h"] / g.ndata["h"].shape[0]


@pytest.mark.parametrize(
    "make", [Mlp, Recurrent, AsksForFields, WritesInPlace, AsksForIds, UsesTheGraph]
)
def test_functions_of_many_kinds(make):
    model = make()
    gm = gs.symbolic_trace(model)
    assert gm.state_dict().keys() <= model.state_dict().keys()
    _same(model, gm, _rows())


def test_a_function_that_writes_to_the_graph_is_an_error():
    def layer(g, x):
        def reduce(nodes):
            g.ndata["z"] = x
            return {"h": nodes.mailbox["m"].sum(1)}

        g.ndata["h"] = x
        g.update_all(_copied, reduce)
        return g.ndata["h"]

    with pytest.raises(fx.proxy.TraceError, match="writes fields of a graph itself"):
        gs.symbolic_trace(layer)


# --- the model and its state ----------------------------------------------------------------------


def test_tracing_leaves_the_model_untouched():
    model = nn.Sequential()
    model.layer = Layer()

    def attributes():
        return [(dict(vars(m)), dict(m._modules)) for m in model.modules()]

    before = attributes()
    gs.symbolic_trace(model.layer)
    assert attributes() == before


class Counting(Layer):
    """Counts its calls and remembers the last result."""

    def __init__(self):
        super().__init__()
        self.calls, self.history = 0, []

    def forward(self, g, x):
        self.calls += 1
        self.history.append(1)
        self.last = super().forward(g, x)
        return self.last


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Counting()

    def forward(self, g, x):
        return self.inner(g, x)


@pytest.mark.parametrize(("make", "name"), [(Counting, "self."), (Around, "self.inner.")])
def test_writes_to_attributes_are_refused_and_undone(make, name):
    model = make()
    with pytest.raises(
        fx.proxy.TraceError, match=f"{name}calls.*{name}last|{name}last.*{name}calls"
    ):
        gs.symbolic_trace(model)
    inner = model if isinstance(model, Counting) else model.inner
    assert inner.calls == 0
    assert inner.history == []
    assert not hasattr(inner, "last")


def test_gradients_are_the_models():
    model = Layer()
    gm = gs.symbolic_trace(model)
    gm(_graph(), _rows()).square().sum().backward()
    actual = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    model(_graph(), _rows()).square().sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(actual[name], parameter.grad)


@pytest.mark.parametrize("make", [Layer, SizesLayer])
def test_copies_are_independent_and_pickles_run(make):
    model = make()
    gm = gs.symbolic_trace(model)
    twin = copy.deepcopy(gm)
    loaded = pickle.loads(pickle.dumps(gm))
    expected = gm(_graph(), _rows())
    gm.linear.weight.data.zero_()
    for other in (twin, loaded):
        torch.testing.assert_close(other(_graph(), _rows()), expected)
        assert set(other.state_dict()) == set(gm.state_dict())


# --- graphs ---------------------------------------------------------------------------------------


def test_deleted_fields_are_gone():
    def layer(g, x):
        g.ndata["h"], g.ndata["k"], g.ndata["p"] = x, x, x
        g.update_all(_copied, _summed)
        del g.ndata["k"]
        return g.ndata["h"] + g.ndata.pop("p")

    _same(layer, gs.symbolic_trace(layer), _rows())
    broken = gs.symbolic_trace(lambda g, x: (g.ndata.__delitem__("x"), g.ndata["x"])[1])
    with pytest.raises(gs.errors.MissingFieldError):
        broken(_graph(), _rows())


def test_items_of_a_list_are_one_graph_each():
    def layer(blocks, x):
        blocks[0].ndata["h"] = x
        blocks[0].update_all(_copied, _summed)
        blocks[1].ndata["h"] = blocks[0].ndata["h"]
        blocks[1].update_all(_copied, _summed)
        return blocks[1].ndata.pop("h")

    gm = gs.symbolic_trace(layer)
    torch.testing.assert_close(
        gm([_graph(), _graph()], _rows()), layer([_graph(), _graph()], _rows())
    )


def test_zip_stops_with_the_shorter_list():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(2))

        def forward(self, blocks, x):
            for block, layer in zip(blocks, self.layers, strict=False):
                x = layer(block, x)
            return x

    model = Model()
    gm = gs.symbolic_trace(model)
    graphs = [_graph(), _graph()]
    torch.testing.assert_close(gm(graphs, _rows()), model(graphs, _rows()))


def test_iterating_a_list_of_unknown_length_is_an_error():
    def layer(blocks, x):
        for block in blocks:
            x = x + block.in_degrees().unsqueeze(1)
        return x

    with pytest.raises(fx.proxy.TraceError, match=r"test_fx_semantics.py:\d+: iterating blocks"):
        gs.symbolic_trace(layer)


def test_other_methods_read_and_write_the_fields_of_the_trace():
    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.pull([4, 1], _copied, _summed)
            g.send_and_recv(([0, 1], [1, 2]), fn.copy_u("h", "m"), fn.sum("m", "h"))
            g.apply_nodes(lambda nodes: {"h": nodes.data["h"] * 2}, v=[0, 3])
            chosen = g.filter_nodes(lambda nodes: nodes.data["h"][:, 0] > 0)
            g.apply_edges(lambda edges: {"e": edges.src["h"] - edges.dst["h"]}, edges=[0, 2])
            return g.ndata["h"], chosen, g.edata["e"]

    _same(layer, gs.symbolic_trace(layer), _rows())


def test_changes_of_the_structure_are_refused():
    def layer(g, x):
        g.add_edges([0], [1])
        return x

    with pytest.raises(fx.proxy.TraceError, match="add_edges"):
        gs.symbolic_trace(layer)


def test_functions_of_graphs_see_the_fields_of_the_trace():
    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(_copied, _summed)
            total = gdgl.sum_nodes(g, "h")
            back = gdgl.reverse(g)
            back.update_all(_copied, _summed)
            weights = gdgl.ops.edge_softmax(g, gdgl.ops.u_dot_v(g, x, x))
            return total, back.ndata["h"], weights

    _same(layer, gs.symbolic_trace(layer), _rows())


def test_softmax_over_some_edges():
    def layer(g, x):
        return gs.edge_softmax(g, x[:3], eids=torch.tensor([0, 2, 6]))

    _same(layer, gs.symbolic_trace(layer), _rows())


class Writes(nn.Module):
    """A layer that leaves fields behind."""

    def forward(self, g, x):
        g.ndata["h"] = g.ndata["h"] + x
        g.ndata["new"] = x * 2
        del g.ndata["old"]
        return x + 1


def test_a_leaf_that_is_given_a_graph_reads_and_writes_in_order():
    class LeafTracer(gs.fx.GraphTracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, Writes) or super().is_leaf_module(module, name)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.writes = Writes()

        def forward(self, g, x):
            g.ndata["h"], g.ndata["old"] = x, x
            y = self.writes(g, x)
            g.update_all(_copied, _summed)
            g.ndata["new"] = g.ndata["new"] + y
            return g.ndata["h"]

    model, tracer = Model(), LeafTracer()
    graph = tracer.trace(model)
    gm = fx.GraphModule(tracer.root, graph)
    assert any(node.op == "call_module" and node.target == "writes" for node in graph.nodes)
    _same(model, gm, _rows())


def test_a_tracer_that_keeps_functions():
    class Keeping(gs.fx.GraphTracer):
        def trace_function(self, function):
            return Function(function)

    tracer, model = Keeping(), Layer()
    graph = tracer.trace(model)
    gm = fx.GraphModule(tracer.root, graph)
    assert all(isinstance(function, Function) for function in _functions(gm))
    assert set(gm.state_dict()) == set(model.state_dict())
    _same(model, gm, _rows())


# --- torch.fx -------------------------------------------------------------------------------------


def test_the_trace_is_valid_and_readable():
    gm = gs.symbolic_trace(Layer())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.graph.lint()
    text = str(gm.graph)
    assert "gossamer" in text
    assert "update_all" in gm.print_readable(print_output=False)
    operators = {str(n.target) for n in gm.graph.nodes if n.op == "call_function"}
    assert "gossamer::update_all" in operators


def test_fields_left_on_a_graph_are_not_dead_code():
    def layer(g, x):
        g.ndata["h"] = x
        g.update_all(_copied, _summed)
        return x

    gm = gs.symbolic_trace(layer)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    _same(layer, gm, _rows())


def test_functions_are_traces_that_passes_work_on():
    model = Layer()
    gm = gs.symbolic_trace(model)
    gm.udf_1 = fx.Transformer(gm.udf_1).transform()
    _same(model, gm, _rows())
    (total,) = [node for node in gm.udf_1.graph.nodes if node.target == "sum"]
    total.target = "mean"
    gm.udf_1.recompile()
    model.reduce = lambda nodes: {"h": nodes.mailbox["m"].mean(1)}
    _same(model, gm, _rows())


def test_traced_code_is_traceable():
    model = Layer()
    gm = gs.symbolic_trace(model)
    _same(model, fx.symbolic_trace(gm), _rows())
    _same(model, gs.symbolic_trace(gm), _rows())


def test_a_compiled_module_is_traced_as_the_model():
    model = Layer()
    _same(model, gs.symbolic_trace(gs.compile(model, backend="torch")), _rows())


def test_an_error_says_where():
    def layer(g, x):
        g.ndata["h"] = x
        return x if x.sum() > 0 else -x

    with pytest.raises(fx.proxy.TraceError, match=r"test_fx_semantics.py:\d+: .*control flow"):
        gs.symbolic_trace(layer)


def test_a_relation_by_its_whole_name():
    def layer(g, x):
        g["u", "a", "v"].srcdata["h"] = x
        g["u", "a", "v"].update_all(_copied, _summed)
        return g.nodes["v"].data["h"]

    def make():
        return gs.heterograph(
            {("u", "a", "v"): ([0, 1, 2], [0, 1, 1]), ("v", "b", "u"): ([0], [2])}
        )

    gm, x = gs.symbolic_trace(layer), _rows(3)
    mine, theirs = make(), make()
    torch.testing.assert_close(gm(theirs, x), layer(mine, x))
    assert set(theirs.nodes["u"].data) == set(mine.nodes["u"].data) == {"h"}


def test_a_trace_runs_in_whole_mode():
    model = Layer()
    fast = gs.compile(gs.symbolic_trace(model), backend="torch", fallback="error")
    for seed in range(3):
        with torch.no_grad():
            _same(model, fast, _rows(seed=seed))
    assert fast._session.whole.mode == "whole"


# --- compilation ----------------------------------------------------------------------------------


class Attention(Layer):
    """An edge field that only the next call reads."""

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.apply_edges(lambda edges: {"w": (edges.src["h"] * edges.dst["h"]).sum(-1, True)})
            g.update_all(lambda edges: {"m": edges.src["h"] * edges.data["w"]}, self.reduce)
            return g.ndata["h"]


def _transformed(model, **options):
    trace = gs.symbolic_trace(model)
    return gs.fx.CompileMessagePassing(trace, backend="torch", **options).transform()


def test_edge_fields_stay_inside_of_the_program_that_reads_them():
    model = Attention()
    gm = _transformed(model, fallback="error")
    _same(model, gm, _rows())
    assert {c.calls for c in gs.explain(gm).compilations} == {("apply_edges", "update_all")}


def test_options_reach_the_session():
    model = SizesLayer()
    gm = _transformed(model, fallback="error")
    with pytest.raises(gs.errors.UnsupportedError):
        gm(_graph(), _rows())
    with pytest.raises(ValueError, match="fallback"):
        _transformed(model, fallback="never")
    gm = _transformed(model)
    with pytest.warns(gs.FallbackWarning, match="test_fx_semantics.py"):
        _same(model, gm, _rows())
    assert gs.explain(gm).fallbacks


def test_transforming_leaves_the_trace_as_it_was():
    trace = gs.symbolic_trace(Attention())
    names, code = set(dict(trace.named_modules())), trace.code
    gs.fx.CompileMessagePassing(trace).transform()
    assert set(dict(trace.named_modules())) == names
    assert trace.code == code


def test_compiled_traces_copy_and_pickle():
    model = Attention()
    gm = _transformed(model, fallback="error")
    for other in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        _same(model, other, _rows())
        assert len(gs.explain(other).compilations) == 1
    assert gs.explain(gm).compilations == []


def test_fields_left_by_a_compiled_trace():
    def layer(g, x):
        g.ndata["h"] = x
        g.apply_edges(lambda edges: {"w": edges.src["h"] * edges.dst["h"]})
        g.update_all(lambda edges: {"m": edges.data["w"]}, _summed)
        return x

    _same(layer, _transformed(layer, fallback="error"), _rows())


# --- DGL ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not dgl_is_installed(), reason="dgl is not installed")
@pytest.mark.parametrize("how", ["traced", "compiled", "transformed"])
def test_dgl_graphs_and_functions(how):
    """DGL's edge_softmax, built-ins, reverse and readouts, symbolic and on DGL graphs."""
    import dgl
    import dgl.function as dgl_fn
    from dgl.nn.functional import edge_softmax

    def layer(g, x):
        g.ndata["h"] = x
        g.apply_edges(dgl_fn.u_dot_v("h", "h", "e"))
        g.edata["a"] = edge_softmax(g, g.edata["e"])
        g.update_all(lambda edges: {"m": edges.src["h"] * edges.data["a"]}, _summed)
        back = dgl.reverse(g)
        back.update_all(dgl_fn.copy_u("h", "m"), dgl_fn.max("m", "k"))
        return g.ndata["h"], dgl.sum_nodes(g, "h"), back.ndata["k"], g.in_degrees()

    gm = gs.symbolic_trace(layer)
    if how == "compiled":
        gm = gs.compile(gm, backend="torch")
    elif how == "transformed":
        gm = gs.fx.CompileMessagePassing(gm, backend="torch").transform()

    def make():
        return dgl.graph((torch.tensor(SRC), torch.tensor(DST)), num_nodes=6)

    _same(layer, gm, _rows(), make=make)
