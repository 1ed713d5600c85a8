"""Symbolic traces: ordinary GraphModules that need no input and run on any graph."""

from __future__ import annotations

import pytest
import torch
from torch import fx

import gossamer as gs
from programs import MODELS, PAIRS, pair_id
from programs.harness import fields_left, named_outputs, reference
from programs.library import gossamer_library
from programs.measure import assert_outputs

pytestmark = pytest.mark.usefixtures("one_thread")
pytest_plugins = ["programs.plugin"]

DTYPE = torch.float64


def _two_cases(program):
    cases = [case for owner, case in PAIRS if owner is program and case.num_edges]
    return cases[0], cases[-1]


def _model(program):
    return program.build(gossamer_library(), program.feat, DTYPE)


def _check(program, call):
    """`call(*graphs, *inputs)` on two graphs, against the eager model and the fields it leaves."""
    for case in _two_cases(program):
        graphs = case.build(gossamer_library())
        with torch.no_grad():
            out = call(*graphs, *program.inputs(case, program.feat, DTYPE))
        actual = {**named_outputs(out), **fields_left(graphs)}
        assert_outputs(actual, reference(program, case, program.feat, DTYPE))


@pytest.mark.parametrize("program", MODELS, ids=pair_id)
def test_a_trace_runs_on_two_graphs(program):
    gm = gs.symbolic_trace(_model(program))
    assert isinstance(gm, fx.GraphModule)
    targets = {str(node.target) for node in gm.graph.nodes if node.op == "call_function"}
    assert any("gossamer" in target for target in targets)
    _check(program, gm)


@pytest.mark.parametrize("program", MODELS, ids=pair_id)
def test_an_identity_transformer_changes_nothing(program):
    gm = fx.Transformer(gs.symbolic_trace(_model(program))).transform()
    _check(program, gm)


@pytest.mark.parametrize("program", MODELS, ids=pair_id)
def test_an_interpreter_gives_the_same(program):
    _check(program, fx.Interpreter(gs.symbolic_trace(_model(program))).run)


@pytest.mark.parametrize("program", MODELS, ids=pair_id)
def test_compiling_the_trace_equals_compiling_the_model(program):
    fast = gs.compile(gs.symbolic_trace(_model(program)), fallback="error")
    _check(program, fast)
    assert gs.explain(fast).fallbacks == []


@pytest.mark.parametrize("program", MODELS, ids=pair_id)
def test_compile_message_passing_is_a_transformer(program):
    transformer = gs.fx.CompileMessagePassing(gs.symbolic_trace(_model(program)))
    assert isinstance(transformer, fx.Transformer)
    gm = transformer.transform()
    assert isinstance(gm, fx.GraphModule)
    _check(program, gm)


@pytest.mark.parametrize("program", MODELS, ids=pair_id)
def test_a_trace_keeps_the_parameters(program):
    model = _model(program)
    gm = gs.symbolic_trace(model)
    used = dict(gm.named_parameters())
    assert used.keys() <= dict(model.named_parameters()).keys()
    assert all(value is dict(model.named_parameters())[name] for name, value in used.items())


def test_a_users_subclass_of_the_tracer():
    """It keeps one layer as a leaf and counts what it sees."""
    from programs.gat import GAT

    program = next(program for program in MODELS if program.name == "gcn-ModuleGCN")

    class CountingTracer(gs.fx.GraphTracer):
        def __init__(self):
            super().__init__()
            self.leaves = []

        def is_leaf_module(self, module, name):
            leaf = isinstance(module, GAT) or super().is_leaf_module(module, name)
            if leaf:
                self.leaves.append(name)
            return leaf

    tracer, model = CountingTracer(), _model(program)
    assert isinstance(tracer, fx.Tracer)
    graph = tracer.trace(model)
    gm = fx.GraphModule(tracer.root, graph)
    assert "linear" in tracer.leaves
    _check(program, gm)


def test_a_pass_of_someone_else_edits_the_trace():
    """Replacing relu by its negation in the graph is what the module then computes."""
    program = next(program for program in MODELS if program.name == "gcn-GCN")
    gm = gs.symbolic_trace(_model(program))
    (relu,) = [node for node in gm.graph.nodes if node.target is torch.relu]
    with gm.graph.inserting_after(relu):
        minus = gm.graph.call_function(torch.neg, (relu,))
    relu.replace_all_uses_with(minus, delete_user_cb=lambda user: user is not minus)
    gm.recompile()
    for case in _two_cases(program):
        with torch.no_grad():
            out = gm(*case.build(gossamer_library()), *program.inputs(case, 3, DTYPE))
        expected = reference(program, case, 3, DTYPE)["out"]
        assert_outputs({"out": out}, {"out": -expected})


def test_a_trace_can_be_copied_and_its_code_read():
    import copy

    program = next(program for program in MODELS if program.name == "gat-ScopedGAT")
    gm = gs.symbolic_trace(_model(program))
    assert "gossamer" in gm.code
    _check(program, copy.deepcopy(gm))


def test_a_branch_on_data_cannot_be_traced():
    def layer(g, h):
        g.ndata["h"] = h
        if h.sum() > 0:
            return h
        return -h

    with pytest.raises((gs.errors.GossamerError, fx.proxy.TraceError)):
        gs.symbolic_trace(layer)
