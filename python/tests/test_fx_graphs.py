"""A symbolic trace on graphs: order of fields, lists of graphs, tools of torch.fx, compilation."""

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
from programs.traced import (
    DST,
    SRC,
    Layer,
    SizesLayer,
    assert_same,
    copied,
    features,
    make_graph,
    summed,
    udf_modules,
)

pytestmark = pytest.mark.usefixtures("one_thread")
pytest_plugins = ["programs.plugin"]


# --- graphs ---------------------------------------------------------------------------------------


def test_deleted_fields_are_gone():
    def layer(g, x):
        g.ndata["h"], g.ndata["k"], g.ndata["p"] = x, x, x
        g.update_all(copied, summed)
        del g.ndata["k"]
        return g.ndata["h"] + g.ndata.pop("p")

    assert_same(layer, gs.symbolic_trace(layer), features())
    broken = gs.symbolic_trace(lambda g, x: (g.ndata.__delitem__("x"), g.ndata["x"])[1])
    with pytest.raises(gs.errors.MissingFieldError):
        broken(make_graph(), features())


def test_items_of_a_list_are_one_graph_each():
    def layer(blocks, x):
        blocks[0].ndata["h"] = x
        blocks[0].update_all(copied, summed)
        blocks[1].ndata["h"] = blocks[0].ndata["h"]
        blocks[1].update_all(copied, summed)
        return blocks[1].ndata.pop("h")

    gm = gs.symbolic_trace(layer)
    torch.testing.assert_close(
        gm([make_graph(), make_graph()], features()),
        layer([make_graph(), make_graph()], features()),
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
    graphs = [make_graph(), make_graph()]
    torch.testing.assert_close(gm(graphs, features()), model(graphs, features()))


def test_iterating_a_list_of_unknown_length_is_an_error():
    def layer(blocks, x):
        for block in blocks:
            x = x + block.in_degrees().unsqueeze(1)
        return x

    with pytest.raises(fx.proxy.TraceError, match=r"test_fx_graphs.py:\d+: iterating blocks"):
        gs.symbolic_trace(layer)


def test_other_methods_read_and_write_the_fields_of_the_trace():
    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.pull([4, 1], copied, summed)
            g.send_and_recv(([0, 1], [1, 2]), fn.copy_u("h", "m"), fn.sum("m", "h"))
            g.apply_nodes(lambda nodes: {"h": nodes.data["h"] * 2}, v=[0, 3])
            chosen = g.filter_nodes(lambda nodes: nodes.data["h"][:, 0] > 0)
            g.apply_edges(lambda edges: {"e": edges.src["h"] - edges.dst["h"]}, edges=[0, 2])
            return g.ndata["h"], chosen, g.edata["e"]

    assert_same(layer, gs.symbolic_trace(layer), features())


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
            g.update_all(copied, summed)
            total = gdgl.sum_nodes(g, "h")
            back = gdgl.reverse(g)
            back.update_all(copied, summed)
            weights = gdgl.ops.edge_softmax(g, gdgl.ops.u_dot_v(g, x, x))
            return total, back.ndata["h"], weights

    assert_same(layer, gs.symbolic_trace(layer), features())


def test_softmax_over_some_edges():
    def layer(g, x):
        return gs.edge_softmax(g, x[:3], eids=torch.tensor([0, 2, 6]))

    assert_same(layer, gs.symbolic_trace(layer), features())


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
            g.update_all(copied, summed)
            g.ndata["new"] = g.ndata["new"] + y
            return g.ndata["h"]

    model, tracer = Model(), LeafTracer()
    graph = tracer.trace(model)
    gm = fx.GraphModule(tracer.root, graph)
    assert any(node.op == "call_module" and node.target == "writes" for node in graph.nodes)
    assert_same(model, gm, features())


def test_a_tracer_that_keeps_functions():
    class Keeping(gs.fx.GraphTracer):
        def trace_function(self, function):
            return Function(function)

    tracer, model = Keeping(), Layer()
    graph = tracer.trace(model)
    gm = fx.GraphModule(tracer.root, graph)
    assert all(isinstance(function, Function) for function in udf_modules(gm))
    assert set(gm.state_dict()) == set(model.state_dict())
    assert_same(model, gm, features())


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
        g.update_all(copied, summed)
        return x

    gm = gs.symbolic_trace(layer)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    assert_same(layer, gm, features())


def test_functions_are_traces_that_passes_work_on():
    model = Layer()
    gm = gs.symbolic_trace(model)
    gm.udf_1 = fx.Transformer(gm.udf_1).transform()
    assert_same(model, gm, features())
    (total,) = [node for node in gm.udf_1.graph.nodes if node.target == "sum"]
    total.target = "mean"
    gm.udf_1.recompile()
    model.reduce = lambda nodes: {"h": nodes.mailbox["m"].mean(1)}
    assert_same(model, gm, features())


def test_traced_code_is_traceable():
    model = Layer()
    gm = gs.symbolic_trace(model)
    assert_same(model, fx.symbolic_trace(gm), features())
    assert_same(model, gs.symbolic_trace(gm), features())


def test_a_compiled_module_is_traced_as_the_model():
    model = Layer()
    assert_same(model, gs.symbolic_trace(gs.compile(model, backend="torch")), features())


def test_an_error_says_where():
    def layer(g, x):
        g.ndata["h"] = x
        return x if x.sum() > 0 else -x

    with pytest.raises(fx.proxy.TraceError, match=r"test_fx_graphs.py:\d+: .*control flow"):
        gs.symbolic_trace(layer)


def test_a_relation_by_its_whole_name():
    def layer(g, x):
        g["u", "a", "v"].srcdata["h"] = x
        g["u", "a", "v"].update_all(copied, summed)
        return g.nodes["v"].data["h"]

    def make():
        return gs.heterograph(
            {("u", "a", "v"): ([0, 1, 2], [0, 1, 1]), ("v", "b", "u"): ([0], [2])}
        )

    gm, x = gs.symbolic_trace(layer), features(3)
    mine, theirs = make(), make()
    torch.testing.assert_close(gm(theirs, x), layer(mine, x))
    assert set(theirs.nodes["u"].data) == set(mine.nodes["u"].data) == {"h"}


def test_a_trace_runs_in_whole_mode():
    model = Layer()
    fast = gs.compile(gs.symbolic_trace(model), backend="torch", fallback="error")
    for seed in range(3):
        with torch.no_grad():
            assert_same(model, fast, features(seed=seed))
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
    assert_same(model, gm, features())
    assert {c.calls for c in gs.explain(gm).compilations} == {("apply_edges", "update_all")}


def test_options_reach_the_session():
    model = SizesLayer()
    gm = _transformed(model, fallback="error")
    with pytest.raises(gs.errors.UnsupportedError):
        gm(make_graph(), features())
    with pytest.raises(ValueError, match="fallback"):
        _transformed(model, fallback="never")
    gm = _transformed(model)
    with pytest.warns(gs.FallbackWarning, match="programs.traced.py"):
        assert_same(model, gm, features())
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
        assert_same(model, other, features())
        assert len(gs.explain(other).compilations) == 1
    assert gs.explain(gm).compilations == []


def test_fields_left_by_a_compiled_trace():
    def layer(g, x):
        g.ndata["h"] = x
        g.apply_edges(lambda edges: {"w": edges.src["h"] * edges.dst["h"]})
        g.update_all(lambda edges: {"m": edges.data["w"]}, summed)
        return x

    assert_same(layer, _transformed(layer, fallback="error"), features())


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
        g.update_all(lambda edges: {"m": edges.src["h"] * edges.data["a"]}, summed)
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

    assert_same(layer, gm, features(), make=make)
