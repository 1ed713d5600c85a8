"""What forward does besides message passing keeps its meaning on calls 1, 2 and 3."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import gossamer as gs
from programs.twins import (
    BY_NAME,
    NODES,
    H,
    Model,
    assert_twins,
    call,
    copy_h,
    mail_sum,
    make_graph,
    once,
    parameters,
    signed,
)


def test_a_forward_hook_with_a_side_effect():
    seen = {"eager": [], "fast": []}

    def watched(key):
        model = Model()
        model.linear.register_forward_hook(lambda m, i, out: seen[key].append(out.sum().item()))
        model.register_forward_hook(lambda m, i, out: out * len(seen[key]))
        inner = model.forward
        model.forward = lambda g, h: inner(g, model.linear(h))
        return model

    model, fast = watched("eager"), gs.compile(watched("fast"))
    for number in range(3):
        expected = call(model, make_graph(), H * (number + 1))["out"]
        torch.testing.assert_close(call(fast, make_graph(), H * (number + 1))["out"], expected)
    assert seen["fast"] == seen["eager"]
    assert len(seen["fast"]) == 3


def test_a_hook_on_a_module_inside_a_user_function():
    seen = []

    class Hooked(Model):
        def message(self, edges):
            return {"m": self.linear(edges.src["h"])}

    model = Hooked()
    model.linear.register_forward_hook(lambda m, i, out: seen.append(1))
    eager = call(model, make_graph(), H)
    fast = gs.compile(model)
    for number in range(1, 4):
        torch.testing.assert_close(call(fast, make_graph(), H)["out"], eager["out"])
        assert len(seen) == 1 + number


def test_a_hook_added_between_calls():
    class Hooked(Model):
        def message(self, edges):
            return {"m": self.linear(edges.src["h"])}

    def hook(model, number):
        if number == 1:
            model.linear.register_forward_hook(lambda m, i, out: out * 2)

    assert_twins(Hooked(), H, change=hook)


def test_a_counter_and_a_tensor_stored_on_self():
    class Stateful(Model):
        calls = 0

        def forward(self, g, h):
            self.calls += 1
            out = super().forward(g, h * self.calls)
            self.last = out + 1
            return out

    model, twin = Stateful(), Stateful()
    fast = gs.compile(twin)
    for number in range(1, 4):
        expected = call(model, make_graph(), H)["out"]
        torch.testing.assert_close(call(fast, make_graph(), H)["out"], expected)
        assert twin.calls == fast.calls == number
        assert type(twin.last) is torch.Tensor
        torch.testing.assert_close(twin.last, model.last)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("where", ["forward", "message", "reduce"])
def test_batch_norm_buffers(where, training):
    class Normed(Model):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.where = where
            parameters(self)

        def message(self, edges):
            rows = edges.src["h"] * edges.dst["h"]
            return {"m": self.norm(rows) if self.where == "message" else rows}

        def reduce(self, nodes):
            total = nodes.mailbox["m"].sum(1)
            return {"o": self.norm(total) if self.where == "reduce" else total}

        def forward(self, g, h):
            out = super().forward(g, h)
            return self.norm(out) if self.where == "forward" else out

    model, twin = Normed().train(training), Normed().train(training)
    case = BY_NAME["regular4"]
    fast, h = gs.compile(twin), signed(case.num_src, 3)
    for number in range(3):
        expected = call(model, make_graph(case), h + number)["out"]
        actual = call(fast, make_graph(case), h + number)["out"]
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
        for name, value in model.state_dict().items():
            torch.testing.assert_close(twin.state_dict()[name], value, msg=name)


def test_a_data_dependent_branch_in_forward():
    def layer(g, h):
        out = once(copy_h, mail_sum)(g, h)
        if out.sum() > 0:
            return out * 2
        return once(lambda edges: {"m": -edges.src["h"]}, mail_sum)(g, out)

    fast = gs.compile(layer, fallback="error")
    for sign in (1, -1, 1):
        expected = call(layer, make_graph(), sign * H)["out"]
        torch.testing.assert_close(call(fast, make_graph(), sign * H)["out"], expected)


def test_an_early_return_and_an_iteration_count_in_forward():
    def layer(g, h, steps):
        for _ in range(steps):
            h = once(copy_h, lambda nodes: {"o": nodes.mailbox["m"].mean(1)})(g, h)
            if h.abs().max() < 0.3:
                return h
        return h * 2

    fast = gs.compile(layer, fallback="error")
    for steps in (1, 4, 0, 2):
        expected = call(layer, make_graph(), H, steps)["out"]
        torch.testing.assert_close(call(fast, make_graph(), H, steps)["out"], expected)


def test_autocast_follows_eager():
    h, w = signed(NODES, 3, dtype=torch.float32), signed(200, 1, dtype=torch.float32)

    def with_linear(linear):
        def layer(g, h, w):
            with g.local_scope():
                g.ndata["h"], g.edata["w"] = h, w
                g.update_all(
                    lambda edges: {"m": linear(edges.src["h"]) * edges.data["w"]}, mail_sum
                )
                return g.ndata["o"]

        return layer

    linear = parameters(nn.Linear(3, 3)).float()
    doubled, positive = copy.deepcopy(linear).double(), copy.deepcopy(linear).double()
    for parameter in positive.parameters():
        parameter.data.abs_()
    exact = call(with_linear(doubled), make_graph(), h.double(), w.double())["out"]
    size = call(with_linear(positive), make_graph(), h.abs().double(), w.abs().double())["out"]
    fast = gs.compile(with_linear(linear))
    # Rows, weight and product have 8 bits each: relative errors of 2**-8 at most.
    for enabled, error in ((False, 1e-5), (True, 3 * 2**-8), (False, 1e-5)):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            expected = call(with_linear(linear), make_graph(), h, w)["out"]
            actual = call(fast, make_graph(), h, w)["out"]
        assert actual.dtype == expected.dtype
        for found in (actual, expected):
            assert ((found - exact).abs() <= 1.01 * error * size + 1e-6).all()


def test_exceptions_in_user_functions_reach_the_caller():
    def message(edges):
        raise KeyError("user's own")

    layer = once(message, mail_sum)
    with pytest.raises(KeyError, match="user's own"):
        gs.compile(layer)(make_graph(), H)


def _in_part(call_of_edges, call_of_nodes):
    """A layer that runs on the edges into three nodes, which keep their ids as fields."""

    def layer(g, h):
        part = g.in_subgraph([0, 1, 2])
        assert "_ID" in part.edata
        part.ndata["h"] = h
        part.update_all(call_of_edges, call_of_nodes)
        return part.ndata["o"]

    return layer


def test_a_graph_cut_out_of_another_is_compiled():
    layer = _in_part(copy_h, mail_sum)
    fast = gs.compile(layer, fallback="error")
    for _ in range(3):
        torch.testing.assert_close(fast(make_graph(), H), layer(make_graph(), H))
    assert set(gs.explain(fast).code_paths.values()) == {"kernel"}


def test_original_ids_are_asked_for():
    def message(edges):
        return {"m": edges.src["h"] * edges.edges()[2].unsqueeze(1)}

    layer = _in_part(message, mail_sum)
    fast = gs.compile(layer)
    with pytest.warns(gs.errors.FallbackWarning, match="ids are asked for"):
        torch.testing.assert_close(fast(make_graph(), H), layer(make_graph(), H))
