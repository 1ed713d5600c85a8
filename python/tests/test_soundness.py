"""No value is baked in: whatever captured code can reach may change between calls.

Each test is silently wrong under a naive capture. Inputs are float64, so a stale value shows.
"""

from __future__ import annotations

import functools

import numpy as np
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
    mail_sum,
    make_graph,
    once,
    signed,
)

SCALE = 2.0
TABLE = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)


def test_a_float_attribute_halved_before_each_call():
    def halve(model, number):
        model.scale /= 2

    report = assert_twins(Model(), H, calls=50, change=halve, fallback="error")
    assert len(report.compilations) <= 2


class KeepsAttention(nn.Module):
    """Functions inside of forward, which writes what they read, and what it found."""

    def __init__(self):
        super().__init__()
        self.scale, self.attention, self.number = 1.0, None, 0
        self.linear = nn.Linear(3, 3).double()

    def forward(self, g, h):
        self.number += 1
        self.scale = 0.5 * self.number
        with g.local_scope():
            g.ndata["h"] = h
            g.apply_edges(lambda edges: {"a": self.linear(edges.src["h"]) * self.scale})
            self.attention = g.edata["a"]
            g.update_all(
                lambda edges: {"m": edges.data["a"] * edges.dst["h"] + self.number},
                lambda nodes: {"o": nodes.mailbox["m"].sum(1)},
            )
            return g.ndata["o"], self.attention


def test_attributes_that_forward_writes_around_functions_inside_of_it():
    report = assert_twins(KeepsAttention(), H, calls=5, fallback="error")
    assert report.mode == "region"


def test_an_int_attribute_used_as_an_exponent():
    class Power(Model):
        def message(self, edges):
            return {"m": edges.src["h"] ** self.power}

    def count(model, number):
        model.power = number + 1

    assert_twins(Power(), H, calls=4, change=count)


def test_a_tensor_attribute_replaced():
    def replace(model, number):
        model.shift = torch.full((3,), float(number), dtype=torch.float64)

    assert_twins(Model(), H, calls=4, change=replace, fallback="error")


def test_a_tensor_attribute_changed_in_place():
    assert_twins(Model(), H, change=lambda model, number: model.shift.mul_(-3), fallback="error")


def test_a_tensor_attribute_replaced_by_a_number():
    def replace(model, number):
        model.shift = float(number)

    assert_twins(Model(), H, change=replace, fallback="error")


def test_parameters_updated_between_calls():
    class Weighted(Model):
        def message(self, edges):
            return {"m": self.linear(edges.src["h"])}

    def step(model, number):
        with torch.no_grad():
            model.linear.weight.add_(0.25)

    assert_twins(Weighted(), H, change=step, fallback="error")


def test_a_submodule_replaced():
    class Weighted(Model):
        def message(self, edges):
            return {"m": self.linear(edges.src["h"])}

    def replace(model, number):
        model.linear = nn.Linear(3, 3, bias=number % 2 == 0)
        nn.init.constant_(model.linear.weight, number + 1)
        if model.linear.bias is not None:
            nn.init.constant_(model.linear.bias, number)
        model.double()

    assert_twins(Weighted(), H, change=replace, fallback="error")


def test_a_closure_variable_rebound():
    factor = 1.0

    def message(edges):
        return {"m": edges.src["h"] * factor}

    def rebind(model, number):
        nonlocal factor
        factor = -2.0 - number

    assert_twins(once(message, mail_sum), H, calls=5, change=rebind, fallback="error")


def test_a_closure_tensor_rebound():
    bias = TABLE

    def message(edges):
        return {"m": edges.src["h"] + bias}

    def rebind(model, number):
        nonlocal bias
        bias = TABLE * number

    assert_twins(once(message, mail_sum), H, change=rebind, fallback="error")


def test_a_global_rebound(monkeypatch):
    def message(edges):
        return {"m": edges.src["h"] * SCALE}

    def rebind(model, number):
        monkeypatch.setitem(globals(), "SCALE", 0.5 * number + 1)

    assert_twins(once(message, mail_sum), H, calls=5, change=rebind, fallback="error")


def test_a_global_tensor_rebound(monkeypatch):
    def message(edges):
        return {"m": edges.src["h"] * TABLE}

    def rebind(model, number):
        monkeypatch.setitem(globals(), "TABLE", torch.arange(3.0, dtype=torch.float64) + number)

    assert_twins(once(message, mail_sum), H, change=rebind, fallback="error")


def _helper(rows):
    return rows * SCALE


def _other_helper(rows):
    return rows - 1


def test_a_global_helper_replaced_and_its_globals_rebound(monkeypatch):
    def message(edges):
        return {"m": _helper(edges.src["h"])}

    def rebind(model, number):
        monkeypatch.setitem(globals(), "SCALE", number + 0.25)
        if number == 2:
            monkeypatch.setitem(globals(), "_helper", _other_helper)

    assert_twins(once(message, mail_sum), H, calls=4, change=rebind, fallback="error")


def test_a_default_argument_replaced():
    def message(edges, by=1.0):
        return {"m": edges.src["h"] * by}

    def replace(model, number):
        message.__defaults__ = (3.0 - number,)

    assert_twins(once(message, mail_sum), H, calls=4, change=replace, fallback="error")


def test_partial_arguments_differ_from_call_to_call():
    def message(edges, by):
        return {"m": edges.src["h"] * by}

    def layer(g, h, by):
        return once(functools.partial(message, by=by), mail_sum)(g, h)

    fast = gs.compile(layer, fallback="error")
    for by in (1.5, -2.0, 0.0, torch.tensor(0.25, dtype=torch.float64)):
        expected = call(layer, make_graph(), H, by)["out"]
        torch.testing.assert_close(call(fast, make_graph(), H, by)["out"], expected)


def test_a_loop_variable_in_fresh_lambdas():
    def layer(g, h):
        with g.local_scope():
            g.ndata["h"] = h
            for i in range(4):
                g.update_all(
                    lambda edges: {"m": edges.src["h"] * (i + 1)},  # noqa: B023
                    lambda nodes: {"h": nodes.mailbox["m"].mean(1) - i},  # noqa: B023
                )
            return g.ndata["h"]

    assert_twins(layer, H, fallback="error")


def test_a_list_and_a_dict_changed_in_place():
    weights, names = [1.0, 2.0], {"field": "h"}

    def message(edges):
        return {"m": edges.src[names["field"]] * weights[0] - weights[-1]}

    def layer(g, h):
        with g.local_scope():
            g.ndata["h"], g.ndata["k"] = h, -h
            g.update_all(message, mail_sum)
            return g.ndata["o"]

    def change(model, number):
        weights.append(number + 0.5)
        names["field"] = "hk"[number % 2]

    assert_twins(layer, H, calls=4, change=change, fallback="error")


def test_a_numpy_value_changed_in_place():
    factor = np.ones(1)

    def message(edges):
        return {"m": edges.src["h"] * float(factor[0])}

    def change(model, number):
        factor[0] = number - 1.5

    assert_twins(once(message, mail_sum), H, calls=4, change=change)


def test_training_mode_selects_the_branch():
    class Moded(Model):
        def message(self, edges):
            return {"m": edges.src["h"] * (2 if self.training else -1)}

    def flip(model, number):
        model.train(number % 2 == 0)

    assert_twins(Moded(), H, calls=4, change=flip, fallback="error")


def test_a_field_that_is_there_on_some_calls():
    def message(edges):
        m = edges.src["h"]
        return {"m": m * edges.data["w"] if "w" in edges.data else m}

    def layer(g, h, w):
        with g.local_scope():
            if w is not None:
                g.edata["w"] = w
            return once(message, mail_sum)(g, h)

    fast, w = gs.compile(layer, fallback="error"), signed(BY_NAME["power_law"].num_edges, 1)
    for weight in (None, w, None, w):
        expected = call(layer, make_graph(), H, weight)["out"]
        torch.testing.assert_close(call(fast, make_graph(), H, weight)["out"], expected)


def test_shapes_and_dtypes_that_change():
    layer = once(lambda edges: {"m": edges.src["h"] * 0.5}, mail_sum)
    fast = gs.compile(layer, fallback="error")
    for shape in ((3,), (5,), (2, 3), (), (1,)):
        for dtype in (torch.float64, torch.float32):
            h = signed(NODES, *shape, dtype=dtype)
            expected, actual = call(layer, make_graph(), h), call(fast, make_graph(), h)
            assert actual["out"].dtype == expected["out"].dtype
            torch.testing.assert_close(actual["out"], expected["out"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "look",
    [
        lambda k: k if isinstance(k, float) else 0.0,
        lambda k: {float: 2.0, int: 3.0}[type(k)] * k,
        lambda k: len(str(k)) * k,
        lambda k: len(f"{k}") * k,
        lambda k: len("%s" % k) * k,  # noqa: UP031
    ],
    ids=["isinstance", "type", "str", "f-string", "percent"],
)
def test_a_varying_float_whose_type_or_text_is_asked_for(look):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 4.0

        def forward(self, g, h):
            with g.local_scope():
                g.ndata["h"] = h
                factor = self.scale
                g.update_all(lambda edges: {"m": edges.src["h"] * look(factor)}, mail_sum)
                return g.ndata["o"]

    def halve(model, _):
        model.scale /= 2

    assert_twins(Scaled(), H, calls=5, change=halve)


def test_a_namespace_in_a_closure():
    import types

    space = types.SimpleNamespace(scale=3.0)
    layer = once(lambda edges: {"m": edges.src["h"] * space.scale}, mail_sum)
    fast = gs.compile(layer, fallback="error")
    torch.testing.assert_close(fast(make_graph(), H), layer(make_graph(), H))
