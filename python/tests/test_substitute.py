"""Values put into a copy of what a UDF reaches; the own objects of the user stay as they are."""

import functools
import types

import pytest
import torch
from torch import nn

from gossamer.capture.snapshot import CannotSnapshot, format_path, snapshot
from gossamer.capture.substitute import substitute
from programs.snapshots import Config, Edges, Layer, edges, scaled

pytestmark = pytest.mark.stored

BETA = 0.5
config = types.ModuleType("config")
config.BETA = 0.25


def path_of(udf, value):
    snap = snapshot(udf)
    for path, tensor in snap.tensors:
        if tensor is value:
            return path
    return next(path for path, number in snap.floats if number == value)


def attribute_udf(value):
    layer = types.SimpleNamespace(k=value)
    del layer

    class Holder:
        def __init__(self):
            self.k = value

        def message(self, edges):
            return edges.src["h"] * self.k

    return Holder().message


def module_global(value):
    module = types.ModuleType("a_user_module")
    exec("def udf(edges):\n    return edges.src['h'] * K", vars(module))
    module.K = value
    return module.udf


def module_attribute(value):
    module = types.ModuleType("a_user_module")
    module.K = value
    return lambda edges: edges.src["h"] * module.K


def two_functions(value):
    def inner(x):
        return x * value / value

    return lambda edges: inner(edges.src["h"]) * value


def parameter_or_float(value):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Module()
            self.inner.k = nn.Parameter(value) if isinstance(value, torch.Tensor) else value

        def message(self, edges):
            return edges.src["h"] * self.inner.k

    return Holder().message


PLACES = {
    "closure": lambda value: lambda edges: edges.src["h"] * value,
    "default": lambda value: lambda edges, k=value: edges.src["h"] * k,
    "kwdefault": lambda value: lambda edges, *, k=value: edges.src["h"] * k,
    "partial argument": lambda value: functools.partial(lambda k, edges: edges.src["h"] * k, value),
    "partial keyword": lambda value: functools.partial(
        lambda edges, k: edges.src["h"] * k, k=value
    ),
    "attribute": attribute_udf,
    "list": lambda value: (lambda box: lambda edges: edges.src["h"] * box[0])([value]),
    "nested": lambda value: (lambda box: lambda edges: edges.src["h"] * box["a"][1][0])(
        {"a": (0, [value])}
    ),
    "global": module_global,
    "user module": module_attribute,
    "two functions": two_functions,
    "submodule": parameter_or_float,
    "frozen dataclass": lambda value: (lambda c: lambda edges: edges.src["h"] * c.slope)(
        Config(slope=value)
    ),
    "hook": lambda value: hooked(value),
}


def hooked(value):
    layer = nn.Identity()
    layer.register_forward_hook(lambda m, i, o: o * value)
    return lambda edges: layer(edges.src["h"])


@pytest.mark.parametrize("new", [5.0, torch.full((3,), 5.0)], ids=["float", "tensor"])
@pytest.mark.parametrize("place", PLACES)
def test_substitute(place, new):
    old = 2.0 if isinstance(new, float) else torch.full((3,), 2.0)
    udf = PLACES[place](old)
    h = edges().src["h"]
    before = snapshot(udf)
    if isinstance(old, float):
        [(path, found)] = before.floats
    else:
        [(path, found)] = before.tensors
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(old))
    assert format_path(path)
    copy = substitute(udf, {path: new})
    assert torch.equal(copy(edges()), h * 5)
    assert torch.equal(udf(edges()), h * 2)
    assert before.unchanged(udf)
    after = snapshot(copy)
    assert after.key == before.key or isinstance(udf, types.MethodType)
    assert torch.equal(substitute(udf, {})(edges()), h * 2)


def test_substitute_keeps_mutation_away_from_the_user():
    seen = []

    def sneaky(edges):
        for log in (seen,):
            log += [1]

    copy = substitute(sneaky, {})
    before = snapshot(copy)
    copy(edges())
    assert seen == []
    assert not before.unchanged(copy)


def test_substitute_in_a_layer_with_tied_weights():
    class Tied(Layer):
        def message(self, edges):
            return self.other(self.fc(edges.src["h"]))

    layer = Tied()
    layer.other.weight = layer.fc.weight
    new = torch.eye(3)
    copy = substitute(layer.message, {path_of(layer.message, layer.fc.weight): new})
    owner = copy.__self__
    assert owner.fc.weight is new
    assert owner.other.weight is new
    assert layer.fc.weight is not new
    assert owner.fc.bias is layer.fc.bias
    assert type(owner) is Tied


def test_substitute_recursion_and_cycles():
    def recursive(edges, depth=2):
        return recursive(edges, depth - 1) * factor if depth else edges.src["h"]

    factor = 2.0
    copy = substitute(recursive, {path_of(recursive, 2.0): 3.0})
    assert torch.equal(copy(edges()), edges().src["h"] * 9)
    assert torch.equal(recursive(edges()), edges().src["h"] * 4)


def test_substitute_with_fake_tensors_is_watched():
    from torch._subclasses.fake_tensor import FakeTensorMode

    layer = Layer()
    with FakeTensorMode() as mode:
        fakes = {
            lifted.path: mode.from_tensor(lifted.tensor)
            for lifted in snapshot(layer.message).tensors
        }
        copy = substitute(layer.message, fakes)
        watched = snapshot(copy, traced=True)
        copy(Edges(h=torch.empty(2, 3)))
        assert watched.unchanged(copy)
        copy.__self__.shift = list(fakes.values())[-1]
        assert not watched.unchanged(copy)
    with pytest.raises(CannotSnapshot):
        snapshot(copy)


def test_float_that_a_class_reaches_too_is_kept_by_value(monkeypatch):
    class Both:
        def outer(self, edges):
            return edges.src["h"] * BETA * self.inner()

        def inner(self):
            return BETA

    both = Both()
    before = snapshot(both.outer)
    assert before.floats == []
    monkeypatch.setitem(globals(), "BETA", 0.75)
    assert snapshot(both.outer).key != before.key


def test_unknown_path():
    with pytest.raises(KeyError):
        substitute(scaled(1.0), {((), "cell", "nothing"): 1.0})
