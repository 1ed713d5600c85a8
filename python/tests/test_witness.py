"""A witness holds exactly while the object that each place of a walk holds is the same one."""

import gc
import types

import pytest
import torch
from torch import nn

from gossamer.capture.snapshot import snapshot
from gossamer.capture.witness import witnessed

SCALE = 2.0


def helper(rows):
    return torch.relu(rows) * SCALE


class Layer(nn.Module):
    factor = 3

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.sizes = [1, 2]
        self.names = {"h": "m"}
        self.extra = nn.ModuleList([nn.Linear(3, 3)])

    def forward(self, rows):
        rows = self.fc(rows) - self.mean
        for layer in self.extra:
            rows = helper(layer(rows))
        return rows * self.factor + len(self.sizes) + len(self.names["h"])


def other_forward(self, rows):
    return self.fc(rows)


def _parameter(layer):
    layer.fc.weight = nn.Parameter(torch.ones(3, 3))


def _shape(layer):
    layer.mean.data = torch.zeros(1)


def _frozen(layer):
    layer.fc.bias.requires_grad_(False)


def _double(layer):
    layer.double()


def _transposed(layer):
    layer.fc.weight.data = layer.fc.weight.data.t()


def _item(layer):
    layer.sizes.append(3)


def _replaced_item(layer):
    layer.names["h"] = "other"


def _attribute(layer):
    layer.factor = 4


def _hook(layer):
    layer.fc.register_forward_hook(lambda module, args, result: result + 1)


def _global_hook(layer):
    return nn.modules.module.register_module_forward_hook(lambda module, args, result: None).remove


def _submodule(layer):
    layer.extra.append(nn.Linear(3, 3))


def _own_method(layer):
    layer.forward = types.MethodType(other_forward, layer)


def _eval(layer):
    layer.eval()


def _state(layer):
    layer.__dict__ = dict(layer.__dict__)


def _class(layer):
    class Other(Layer):
        def forward(self, rows):
            return rows

    layer.__class__ = Other


def _class_member(layer):
    old = Layer.factor
    Layer.factor = 5
    return lambda: setattr(Layer, "factor", old)


def _method(layer):
    old = Layer.forward
    Layer.forward = other_forward
    return lambda: setattr(Layer, "forward", old)


def _code(layer):
    old = helper.__code__
    helper.__code__ = (lambda rows: rows).__code__
    return lambda: setattr(helper, "__code__", old)


def _global(layer):
    global SCALE
    old = SCALE
    SCALE = 2.5

    def undo():
        global SCALE
        SCALE = old

    return undo


def _library(layer):
    old = torch.relu
    torch.relu = torch.sigmoid
    return lambda: setattr(torch, "relu", old)


def _library_method(layer):
    old = nn.Linear.forward
    nn.Linear.forward = lambda self, rows: rows
    return lambda: setattr(nn.Linear, "forward", old)


CHANGES = [
    _parameter, _shape, _frozen, _double, _transposed, _item, _replaced_item, _attribute, _hook,
    _global_hook, _submodule, _own_method, _eval, _state, _class, _class_member, _method, _code,
    _global, _library, _library_method,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_ends_it(change):
    layer = Layer()
    _, witness = witnessed(layer)
    assert witness.holds()
    undo = change(layer)
    try:
        assert not witness.holds()
    finally:
        if undo is not None:
            undo()


def test_values_may_change():
    layer = Layer()
    before, witness = witnessed(layer)
    with torch.no_grad():
        layer.fc.weight.mul_(2)
    layer(torch.ones(2, 3)).sum().backward()
    assert witness.holds()
    assert snapshot(layer).key == before.key


def test_closures_defaults_and_keywords():
    cell, table = [1.0], {"k": 2}

    def function(rows, default=table, *, keyword=cell):
        return rows * cell[0] + default["k"] + keyword[0]  # noqa: F821

    _, witness = witnessed(function)
    assert witness.holds()
    table["k"] = 3
    assert not witness.holds()
    _, witness = witnessed(function)
    function.__kwdefaults__["keyword"] = [1.0]
    assert not witness.holds()
    _, witness = witnessed(function)
    function.__defaults__ = ({"k": 3},)
    assert not witness.holds()
    _, witness = witnessed(function)
    cell = [1.0]
    assert not witness.holds()
    _, witness = witnessed(function)
    del cell
    assert not witness.holds()


class Slots:
    __slots__ = ("size",)

    def __init__(self):
        self.size = 1


@pytest.mark.parametrize("value", [{1, 2}, bytearray(b"a"), Slots(), torch.ones(2, 3).t()])
def test_values_without_identity_have_none(value):
    def function(rows):
        return rows, value, getattr(value, "size", 0)

    _, witness = witnessed(function)
    assert witness is None


def test_same_snapshot_as_without():
    layer = Layer()
    with_witness, _ = witnessed(layer)
    plain = snapshot(layer)
    assert with_witness.key == plain.key
    assert [id(a.tensor) for a in with_witness.tensors] == [id(a.tensor) for a in plain.tensors]
    gc.collect()
