"""Whole mode: one program for a whole forward, only after proof that nothing else comes of it.

A compiled model runs in region mode first; from the second call with the same kind of arguments on
it is whole, or the report says why not.
"""

from __future__ import annotations

import copy
import random
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import gossamer as gs
import gossamer.dgl.function as fn
from gossamer.capture import whole, whole_trace
from gossamer.dgl.ops import copy_u_min
from programs import MODELS, PAIRS, gcn, pair_id
from programs.gat import GAT, HeadsGAT
from programs.harness import fields_left, named_outputs, reference, run
from programs.library import dgl_is_installed, dgl_library, gossamer_library
from programs.measure import assert_outputs
from programs.twins import (
    BY_NAME,
    H,
    Model,
    call,
    copy_h,
    mail_sum,
    make_graph,
    once,
    parameters,
    signed,
)
from programs.watch import functions_called

CALLS = 4
#: A tensor with as many rows as there are nodes and edges could be either.
AMBIGUOUS = {("hetero-Relations", "hetero_empty_relation"), ("hetero-Builtin", "hetero_sparse")}


def compiled(model, **options):
    return gs.compile(model, backend="torch", fallback="error", **options)


def modes(fast, arguments, calls=CALLS):
    """The mode of each of several calls."""
    found = []
    for _ in range(calls):
        fast(*arguments())
        found.append(gs.explain(fast).mode)
    return found


def assert_region(model, *inputs, why, calls=3, case=BY_NAME["power_law"], **options):
    """Call by call as eager, never whole, and `why` is in the reason."""
    twin = copy.deepcopy(model) if isinstance(model, nn.Module) else model
    fast = gs.compile(twin, backend="torch", **options)
    for _ in range(calls):
        expected = call(model, make_graph(case), *inputs)
        assert_outputs(call(fast, make_graph(case), *inputs), expected)
        report = gs.explain(fast)
        assert report.mode == "region"
    assert why in report.mode_reason, report.mode_reason
    assert why in str(report)
    return twin


# --- equal to region mode and to eager -----------------------------------------------------------


_SMALL = [(p, c) for p, c in PAIRS if p in MODELS and c.name not in ("no_nodes", "all_into_one")]


@pytest.mark.parametrize(("program", "case"), _SMALL, ids=pair_id)
def test_models_of_the_documentation(program, case):
    """Outputs and fields left of calls 1 to 4; the first is region mode, the rest whole."""
    library = gossamer_library()
    fast = compiled(program.build(library, program.feat, torch.float64))
    expected = reference(program, case, program.feat, torch.float64)
    found = []
    for _ in range(CALLS):
        actual = run(program, case, library, model=fast)
        assert_outputs(actual, expected)
        report = gs.explain(fast)
        found.append(report.mode)
    if "may belong to nodes or to edges" not in report.mode_reason:
        assert found == ["region", "whole", "whole", "whole"], report.mode_reason
        assert report.fallbacks == []


def test_sizes_change_between_calls():
    """One plan for all graphs; sizes that happen to be equal don't matter."""
    model = gcn.GCN(gossamer_library(), 3).double().eval()
    fast = compiled(model)
    names = ("power_law", "zero_in_degree", "multi_edges", "regular4", "no_edges", "chain")
    for name in names * 2:
        case = BY_NAME[name]
        x, norm = signed(case.num_src, 3), signed(case.num_src, 1, seed=1)
        expected = call(model, make_graph(case), x, norm, norm)
        assert_outputs(call(fast, make_graph(case), x, norm, norm), expected)
    report = gs.explain(fast)
    assert report.mode == "whole"
    assert sum("forward" in each.calls for each in report.programs) == 1


def test_a_built_in_maximum_without_any_edge():
    """As in DGL, apply sees infinities at isolated nodes, but zeros when there is no edge."""

    class Shifted(nn.Module):
        def forward(self, g, x):
            with g.local_scope():
                g.ndata["x"] = x
                apply = lambda nodes: {"y": nodes.data["y"] + 1, "z": 2 * nodes.data["y"]}  # noqa: E731
                g.update_all(fn.copy_u("x", "m"), fn.max("m", "y"), apply)
                return g.ndata["y"], g.ndata["z"], copy_u_min(g, x)

    fast = compiled(Shifted())
    for name in ("zero_in_degree", "no_edges", "no_edges", "zero_in_degree", "chain", "no_edges"):
        case = BY_NAME[name]
        x = signed(case.num_src, 3)
        for found, right in zip(
            fast(make_graph(case), x), Shifted()(make_graph(case), x), strict=True
        ):
            assert torch.equal(found, right)
    assert gs.explain(fast).mode == "whole"


def test_one_model_on_two_graphs_in_turn():
    model = parameters(GAT(gossamer_library(), 3))
    fast = compiled(model)
    left, right = make_graph(BY_NAME["power_law"]), make_graph(BY_NAME["small_star"])
    for _ in range(3):
        for g in (left, right):
            x = signed(g.num_nodes(), 3)
            twin = g.local_var()
            assert_outputs(call(fast, g, x, x), call(model, twin, x, x))
    assert gs.explain(fast).mode == "whole"


def test_gradients_are_those_of_eager():
    model, twin = (parameters(HeadsGAT(gossamer_library(), 3)) for _ in range(2))
    fast = compiled(twin)
    for _ in range(3):
        for each in (model, fast):
            each.zero_grad()
            x = H.clone().requires_grad_()
            (each(make_graph(), x, x) ** 2).sum().backward()
            each.seen = x.grad
        torch.testing.assert_close(twin.seen, model.seen, rtol=1e-10, atol=1e-10)
        for expected, actual in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(actual.grad, expected.grad, rtol=1e-10, atol=1e-10)
    assert gs.explain(fast).mode == "whole"


def test_results_without_gradient_stay_so():
    linear = parameters(nn.Linear(3, 3))

    def layer(g, h):
        with g.local_scope():
            g.ndata["h"] = linear(h)
            g.update_all(copy_h, mail_sum)
            free = g.in_degrees().to(h.dtype)
            return {"o": g.ndata["o"], "d": free, "cut": g.ndata["o"].detach() * 2}

    fast = compiled(layer)
    for _ in range(3):
        out = fast(make_graph(), H)
        assert [t.requires_grad for t in out.values()] == [True, False, False]
    assert gs.explain(fast).mode == "whole"


def test_results_that_are_inputs_are_the_same_objects():
    weight = parameters(nn.Linear(3, 3)).weight

    def layer(g, h, extra):
        g.ndata["h"] = h
        g.ndata["k"] = g.ndata["old"]
        g.update_all(copy_h, mail_sum)
        g.ndata["o"] = g.ndata["o"] * weight.sum()
        return [g.ndata["o"], (h, g), {"w": weight, "n": 3, "s": "x", "none": None}]

    fast = compiled(layer)
    for _ in range(3):
        g = make_graph()
        g.ndata["old"] = H + 1
        out = fast(g, H, extra=(1, 2.0))
        assert out[0] is g.ndata["o"]
        assert out[1][0] is H
        assert out[1][1] is g
        assert out[2] == {"w": weight, "n": 3, "s": "x", "none": None}
        assert g.ndata["h"] is H
        assert g.ndata["k"] is g.ndata["old"]
        assert list(g.ndata) == ["old", "h", "k", "o"]
    assert gs.explain(fast).mode == "whole"


def test_fields_are_removed_and_reordered_as_in_eager():
    def layer(g, h):
        g.ndata["h"] = h
        old = g.ndata.pop("a")
        del g.ndata["b"]
        g.update_all(copy_h, mail_sum)
        g.ndata["a"] = old * 2
        return g.ndata.pop("o")

    fast = compiled(layer)
    for _ in range(3):
        graphs = make_graph(), make_graph()
        for g in graphs:
            g.ndata["a"], g.ndata["b"], g.ndata["c"] = H, H, H
        assert_outputs({"o": fast(graphs[0], H)}, {"o": layer(graphs[1], H)})
        assert list(graphs[0].ndata) == list(graphs[1].ndata) == ["c", "h", "a"]
        assert_outputs(fields_left(graphs[0]), fields_left(graphs[1]))
    assert gs.explain(fast).mode == "whole"


def test_edge_fields_are_computed_when_read():
    def layer(g, h):
        g.ndata["h"] = h * 1
        g.apply_edges(lambda edges: {"e": edges.src["h"] * edges.dst["h"]})
        g.update_all(lambda edges: {"m": edges.data["e"]}, mail_sum)
        return g.ndata["o"]

    fast = compiled(layer)
    for _ in range(3):
        g, twin, h = make_graph(), make_graph(), H.clone()
        fast(g, h)
        layer(twin, h)
        torch.testing.assert_close(g.edata["e"], twin.edata["e"])
    assert gs.explain(fast).mode == "whole"
    g, h = make_graph(), H.clone()
    fast(g, h)
    h.add_(1)
    with pytest.raises(gs.errors.StaleFieldError, match=Path(__file__).name):
        g.edata["e"]
    kept = compiled(layer, keep_fields=True)
    for _ in range(3):
        g, h = make_graph(), H.clone()
        kept(g, h)
        h.add_(1)
        torch.testing.assert_close(g.edata["e"], twin.edata["e"])


def test_fields_that_are_read_are_part_of_the_plan():
    """A field that appears, goes, or has another shape leads to another plan."""

    def layer(g, h):
        with g.local_scope():
            g.ndata["h"] = h * g.ndata["w"] if "w" in g.ndata else h
            g.update_all(copy_h, mail_sum)
            return g.ndata["o"]

    fast = compiled(layer)
    for width in (None, 1, 3, None, 1, 3, None, 1, 3):
        g = make_graph()
        if width is not None:
            g.ndata["w"] = signed(g.num_nodes(), width, seed=width)
        assert_outputs({"o": fast(g, H)}, {"o": layer(g, H)})
    assert gs.explain(fast).mode == "whole"


def test_no_frame_of_the_user_runs_in_a_warm_call():
    here = Path(__file__).parent
    for program in (p for p in MODELS if p.name in ("gcn-LambdaGCN", "gat-ModuleGAT")):
        library, case = gossamer_library(), BY_NAME["power_law"]
        fast = compiled(program.build(library, 3, torch.float64))
        graphs, inputs = case.build(library), program.inputs(case, 3, torch.float64)
        for _ in range(2):
            fast(*graphs, *inputs)
        with functions_called() as seen:
            fast(*graphs, *inputs)
        assert gs.explain(fast).mode == "whole"
        assert seen
        theirs = {c.co_qualname for c in seen if Path(c.co_filename).is_relative_to(here)}
        assert not {name for name in theirs if "functions_called" not in name}


def test_values_are_not_baked_in():
    """Parameters, tensors and numbers on self, and graph fields, are those of each call."""

    class Changing(Model):
        def forward(self, g, h):
            return super().forward(g, self.linear(h)) * g.ndata["w"]

    model = Changing()
    fast = compiled(model)
    for number in range(6):
        g = make_graph()
        g.ndata["w"] = signed(g.num_nodes(), 1, seed=number)
        with torch.no_grad():
            model.linear.weight.add_(number)
        model.shift = model.shift * 2 + number
        model.scale = 1.0 if number < 3 else -0.5
        assert_outputs({"o": fast(g, H)}, {"o": model(g, H)})
    assert gs.explain(fast).mode == "whole"


def test_training_mode_and_gradient_mode_have_plans_of_their_own():
    class Dropping(Model):
        def forward(self, g, h):
            return F.dropout(super().forward(g, h), 0.5, self.training)

    model = Dropping().eval()
    fast = compiled(model)
    assert modes(fast, lambda: (make_graph(), H), 3)[-1] == "whole"
    model.train()
    torch.manual_seed(0)
    expected = [model(make_graph(), H) for _ in range(3)]
    torch.manual_seed(0)
    for each in expected:
        torch.testing.assert_close(fast(make_graph(), H), each)
        assert gs.explain(fast).mode == "region"
    model.eval()
    fast(make_graph(), H)
    assert gs.explain(fast).mode == "whole"


# --- reasons against it --------------------------------------------------------------------------


class Counting(Model):
    calls = 0

    def forward(self, g, h):
        self.calls += 1
        return super().forward(g, h) * self.calls


def test_a_counter_on_self():
    twin = assert_region(Counting(), H, why="writes the attribute `calls`")
    assert twin.calls == 3


def test_a_list_on_self():
    class Remembering(Model):
        def __init__(self):
            super().__init__()
            self.seen = []

        def forward(self, g, h):
            self.seen.append(len(self.seen))
            return super().forward(g, h)

    twin = assert_region(Remembering(), H, why="first call with this code")
    assert twin.seen == [0, 1, 2]


def test_a_tensor_in_a_dict_on_self():
    class Remembering(Model):
        def __init__(self):
            super().__init__()
            self.last = {}

        def forward(self, g, h):
            self.last["out"] = super().forward(g, h)
            return self.last["out"] * 2

    twin = assert_region(Remembering(), H, calls=4, why="outlives the call")
    assert type(twin.last["out"]) is torch.Tensor


def test_numbers_that_change_from_call_to_call():
    model = Model()
    fast = gs.compile(model, backend="torch", fallback="error")
    for number in range(20):
        model.scale = number / 7
        assert_outputs(call(fast, make_graph(), H), call(model, make_graph(), H))
    assert "changes from call to call" in gs.explain(fast).mode_reason


@pytest.mark.skipif(not dgl_is_installed(), reason="DGL is not installed")
def test_graphs_of_dgl():
    library = dgl_library()
    for model in (gcn.LeavesFieldsGCN(library, 3), gcn.BuiltinGCN(library, 3)):
        parameters(model).eval()
        fast, norm = compiled(model), signed(H.shape[0], 1)
        for _ in range(3):
            mine, theirs = (BY_NAME["power_law"].build(library)[0] for _ in range(2))
            expected = call(model, theirs, H, norm, norm)
            assert_outputs(call(fast, mine, H, norm, norm), expected)
        assert gs.explain(fast).mode == "whole"


def test_a_hook_with_state():
    seen = []
    model = Model()
    model.register_forward_hook(lambda m, i, out: seen.append(1))
    assert_region(model, H, why="`seen`, which outlives the call")
    assert len(seen) == 6


def test_a_pure_hook_is_part_of_the_program():
    model = Model()
    fast = compiled(model)
    call(fast, make_graph(), H)
    for number in range(6):
        if number == 3:
            model.register_forward_hook(lambda m, i, out: out * 3)
        assert_outputs(call(fast, make_graph(), H), call(model, make_graph(), H))
    assert gs.explain(fast).mode == "whole"


def test_printing(capsys):
    class Chatty(Model):
        def forward(self, g, h):
            print("forward")
            return super().forward(g, h)

    assert_region(Chatty(), H, why="calls `print`")
    assert capsys.readouterr().out == "forward\n" * 6


@pytest.mark.parametrize("library", ["torch", "random"])
def test_random_numbers(library):
    def layer(g, h):
        by = torch.rand(1, dtype=h.dtype) if library == "torch" else random.random()
        return once(copy_h, mail_sum)(g, h) * by

    fast = gs.compile(layer, backend="torch")
    for _ in range(3):
        results = []
        for each in (layer, fast):
            torch.manual_seed(1)
            random.seed(1)
            results.append(each(make_graph(), H))
        torch.testing.assert_close(*results)
    report = gs.explain(fast)
    assert report.mode == "region"
    assert "random" in report.mode_reason


def test_a_decision_on_values():
    def layer(g, h):
        out = once(copy_h, mail_sum)(g, h)
        return out * 2 if out.sum() > 0 else out

    assert_region(layer, H, why="Python")
    assert_region(layer, -H, why="Python")


def test_a_decision_on_the_structure():
    def layer(g, h):
        return once(copy_h, mail_sum)(g, -h if (g.in_degrees() == 0).any() else h)

    assert_region(layer, H, why="Python")


def test_batch_norm_in_training():
    class Normed(Model):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            parameters(self)

        def forward(self, g, h):
            return self.norm(super().forward(g, h))

    model = Normed().train()
    twin = assert_region(model, H, why="")
    torch.testing.assert_close(twin.norm.running_mean, model.norm.running_mean)
    assert twin.norm.num_batches_tracked == model.norm.num_batches_tracked == 3
    fast = compiled(model.eval())
    assert modes(fast, lambda: (make_graph(), H))[-1] == "whole"


def test_writes_in_place():
    def argument(g, h):
        h.mul_(1.5)
        return once(copy_h, mail_sum)(g, h)

    def given_field(g, h):
        g.ndata["f"].add_(1)
        return once(copy_h, mail_sum)(g, h + g.ndata["f"])

    def container(g, h, names):
        names.append(len(names))
        return once(copy_h, mail_sum)(g, h)

    for layer, extra in ((argument, ()), (given_field, ()), (container, (["a"],))):
        fast = gs.compile(layer, backend="torch")
        mine, theirs = (copy.deepcopy((make_graph(), H, *extra)) for _ in range(2))
        for g, *_ in (mine, theirs):
            g.ndata["f"] = H.clone()
        for _ in range(3):
            torch.testing.assert_close(fast(*mine), layer(*theirs))
            torch.testing.assert_close(mine[1], theirs[1])
            torch.testing.assert_close(mine[0].ndata["f"], theirs[0].ndata["f"])
            assert mine[2:] == theirs[2:]
        assert gs.explain(fast).mode == "region"


def test_local_writes_in_place_are_values():
    def layer(g, h):
        h = h * 2
        h += 1
        with g.local_scope():
            g.ndata["h"] = h
            h.mul_(0.5)
            g.update_all(copy_h, mail_sum)
            g.ndata["o"] -= h
            return g.ndata["o"]

    fast = compiled(layer)
    for _ in range(3):
        assert_outputs(call(fast, make_graph(), H), call(layer, make_graph(), H))
    assert gs.explain(fast).mode == "whole"


def test_questions_about_tensors_that_a_capture_cannot_answer():
    def layer(g, h, k):
        by = 2 if h is k else 3
        by *= 5 if h.is_contiguous() else 7
        return once(copy_h, mail_sum)(g, h * by * getattr(k, "factor", 1))

    fast = compiled(layer)
    marked = H.clone()
    marked.factor = 11
    for pair in ((H, H), (H, H + 1), (H.t().contiguous().t(), H), (H, marked)) * 3:
        torch.testing.assert_close(fast(make_graph(), *pair), layer(make_graph(), *pair))


def test_gradients_switched_on_inside():
    linear = parameters(nn.Linear(3, 3))

    @torch.no_grad()
    def layer(g, h):
        with torch.enable_grad():
            return linear(once(copy_h, mail_sum)(g, h))

    fast = gs.compile(layer, backend="torch")
    for _ in range(3):
        with torch.no_grad():
            assert fast(make_graph(), H).requires_grad == layer(make_graph(), H).requires_grad


def test_results_that_share_memory():
    def view(g, h):
        once(copy_h, mail_sum)(g, h)
        return h[:, :2]

    def two(g, h):
        out = once(copy_h, mail_sum)(g, h)
        return out, out.view(-1)

    assert_region(view, H, why="view of one of its inputs")
    assert_region(two, H, why="")


def test_rows_that_mix():
    def below_largest(g, h):
        return once(copy_h, mail_sum)(g, h) - h.max(0)[0]

    assert_region(below_largest, H, why="rows of different nodes")


def test_arguments_that_no_key_can_hold():
    def layer(g, h, function):
        return once(copy_h, mail_sum)(g, function(h))

    fast = gs.compile(layer, backend="torch")
    for number in range(3):
        out = fast(make_graph(), H, lambda h, n=number: h * n)
        torch.testing.assert_close(out, layer(make_graph(), H, lambda h, n=number: h * n))
    assert "an argument is a function" in gs.explain(fast).mode_reason


def test_an_initializer_of_the_graph():
    layer, case = once(copy_h, mail_sum), BY_NAME["zero_in_degree"]
    fast, h = gs.compile(layer, backend="torch"), signed(case.num_src, 3)
    for number in range(6):
        g = make_graph(case)
        if number >= 3:
            g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.ones(shape, dtype=dtype), "o")
        assert_outputs(call(fast, g, h), call(layer, g, h))
    assert "initializer" in gs.explain(fast).mode_reason


def test_modes_of_torch_see_every_operator():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen += func is torch.ops.aten.relu.default
            return func(*args, **(kwargs or {}))

    model = gcn.GCN(gossamer_library(), 3).double().eval()
    fast, norm = compiled(model), signed(H.shape[0], 1)
    assert modes(fast, lambda: (make_graph(), H, norm, norm))[-1] == "whole"
    with Counter() as counter:
        fast(make_graph(), H, norm, norm)
    assert counter.seen == 1
    assert "torch mode" in gs.explain(fast).mode_reason


def test_a_fallback_in_a_call():
    def sorted_rows(nodes):
        return {"o": nodes.mailbox["m"].sum(1).cumsum(0)}

    assert_region(once(copy_h, sorted_rows), H, why="fell back")


def test_attempts_are_bounded(monkeypatch):
    captures = []
    original = whole_trace.trace_forward
    monkeypatch.setattr(whole_trace, "trace_forward", lambda *a: captures.append(1) or original(*a))

    def layer(g, h, number):
        return once(copy_h, mail_sum)(g, h) * (number if h.sum() > 0 else -number)

    fast = gs.compile(layer, backend="torch")
    for number in range(10):
        for _ in range(3):
            expected = layer(make_graph(), H, number)
            torch.testing.assert_close(fast(make_graph(), H, number), expected)
    assert len(captures) == whole.MAX_REFUSALS


def test_errors_of_the_user_reach_the_caller():
    def layer(g, h, fail):
        out = once(copy_h, mail_sum)(g, h)
        if fail:
            raise KeyError("user's own")
        return out + g.ndata["missing"] if h.shape[1] == 2 else out

    fast = gs.compile(layer, backend="torch")
    for _ in range(3):
        fast(make_graph(), H, False)
        with pytest.raises(KeyError, match="user's own"):
            fast(make_graph(), H, True)
        with pytest.raises(gs.errors.GossamerError, match="missing"):
            fast(make_graph(), H[:, :2], False)


def test_several_blocks_keep_their_relation():
    """Blocks whose sizes fit only by rows of the same number: each call checks them."""
    program = next(p for p in MODELS if p.name == "blocks-GCN")
    library = gossamer_library()
    fast = compiled(program.build(library, 3, torch.float64))
    cases = [case for owner, case in PAIRS if owner is program]
    for case in cases * 3:
        expected = reference(program, case, 3, torch.float64)
        assert_outputs(run(program, case, library, model=fast), expected)
    assert gs.explain(fast).mode == "whole"


def test_the_report_says_how_the_last_call_ran():
    fast = compiled(once(copy_h, mail_sum))
    assert gs.explain(fast).mode_reason == "not called yet"
    assert modes(fast, lambda: (make_graph(), H)) == ["region", "whole", "whole", "whole"]
    report = gs.explain(fast)
    assert str(report).splitlines()[1] == f"calls in whole mode: 3 ({report.mode_reason})"
    assert report.to_dict()["mode"] == "whole"
    assert sys.modules["gossamer"] is gs
    assert named_outputs(fast(make_graph(), H))


def test_the_report_counts_calls_by_mode():
    """Five steps and then a call without gradients, which is a first call again."""
    fast, x = compiled(once(copy_h, mail_sum)), H.clone().requires_grad_()
    for _ in range(5):
        fast(make_graph(), x).sum().backward()
    with torch.no_grad():
        fast(make_graph(), x)
    report = gs.explain(fast)
    assert [(c.mode, c.count) for c in report.calls] == [("whole", 4), ("region", 2)]
    assert report.mode == "region"
    assert report.calls[1].reason == report.mode_reason
    assert report.to_dict()["calls"][0]["count"] == 4
    assert "calls in region mode: 2 (the first call with this code" in str(report)


def test_every_call_is_counted_once():
    """Also calls that fall back, that torch watches, and those after too many refusals."""

    def layer(graph, x):
        with graph.local_scope():
            graph.ndata["h"] = x
            graph.update_all(copy_h, lambda nodes: {"y": nodes.mailbox["m"].sort(1)[0].sum(1)})
            return graph.ndata["y"]

    fast = gs.compile(layer, backend="torch")
    with pytest.warns(gs.errors.FallbackWarning):
        fast(make_graph(), H)
    for _ in range(5):
        fast(make_graph(), H)
    checkpoint(fast, make_graph(), H, use_reentrant=False)
    calls = gs.explain(fast).calls
    assert sum(c.count for c in calls) == 7
    assert {c.mode for c in calls} == {"region"}
    assert any("torch.utils.checkpoint" in c.reason for c in calls)
