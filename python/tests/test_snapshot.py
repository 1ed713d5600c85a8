"""The key of a UDF changes whenever its behaviour could, and only then."""

import argparse
import builtins
import dataclasses
import enum
import functools
import gc
import math
import os
import random
import sys
import threading
import time
import types
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gossamer.capture.snapshot import CannotSnapshot, format_path, snapshot
from gossamer.capture.stable_key import stable_name
from gossamer.capture.substitute import substitute

pytestmark = pytest.mark.stored

ALPHA = 2
BETA = 0.5
WEIGHT = torch.randn(3)
LOG = []
TABLE = {"k": 1}
config = types.ModuleType("config")
config.ALPHA = 3
config.BETA = 0.25
nowhere = types.ModuleType("nowhere")


class Edges:
    """Stands for an edge batch: a plain holder of rows."""

    def __init__(self, **src):
        self.src = src
        self.data = {}


def edges():
    return Edges(h=torch.arange(6.0).reshape(2, 3))


def state(udf):
    snap = snapshot(udf)
    return snap.key, snap.float_bits


def tensors(udf):
    return [lifted.tensor for lifted in snapshot(udf).tensors]


def same(a, b):
    """Whether two states are equal; then and only then they have one name on the disk, if any."""
    hash(a[0])
    name, other = stable_name(*a), stable_name(*b)
    assert None in (name, other) or (name == other) == (a == b)
    return a == b


def refusal(udf):
    with pytest.raises(CannotSnapshot) as caught:
        snapshot(udf)
    error = caught.value
    assert error.file == __file__
    assert error.line > 0
    assert error.remedy
    return error


def line_of(udf, offset):
    return udf.__code__.co_firstlineno + offset


# --- what changes a key ---------------------------------------------------------------------------


def scaled(value):
    return lambda edges: {"m": edges.src["h"] * value}


DISTINCT = [
    1,
    True,
    1.0,
    "1",
    b"1",
    None,
    1 + 0j,
    0.0,
    -0.0,
    0,
    False,
    complex(0.0, -0.0),
    complex(0.0, 0.0),
    float("inf"),
    math.nan,
    (1,),
    [1],
    {1},
    frozenset((1,)),
    {1: 1},
    {True: 1},
    (True,),
    (1, 2),
    ((1,), 2),
    (1, (2,)),
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    slice(1, 2),
    slice(1.0, 2),
    range(3),
    range(0, 3, 2),
    range(0, 4, 2),
    torch.float32,
    torch.device("cpu"),
    torch.Size((1,)),
    Ellipsis,
    np.float32(1),
    np.float64(1),
    np.int64(1),
    np.array([1]),
    np.array([1.0]),
    np.array([[1]]),
    np.dtype("f4"),
    torch.relu,
    torch.sigmoid,
    F.relu,
    math.sqrt,
    np.log,
    len,
    int,
    float,
    torch.randn(3),
    torch.randn(4),
    torch.randn(3, dtype=torch.float64),
    torch.randn(3, requires_grad=True),
    nn.Parameter(torch.randn(3)),
    torch.randn(3, 2),
    torch.randn(2, 3).t(),
    nn.ReLU(),
    nn.LeakyReLU(0.1),
    nn.LeakyReLU(0.2),
    nn.Linear(2, 3),
    nn.Linear(2, 3, bias=False),
    types.MappingProxyType({1: 1}),
    bytearray(b"1"),
    functools.partial(torch.add, 1),
    functools.partial(torch.add, 2),
    functools.partial(torch.add, other=1),
]


def test_values_of_a_closure_are_told_apart():
    states = [state(scaled(value)) for value in DISTINCT]
    for i, a in enumerate(states):
        hash(a[0])
        for j, b in enumerate(states):
            assert (a == b) == (i == j), (DISTINCT[i], DISTINCT[j])


@pytest.mark.parametrize("value", DISTINCT, ids=lambda value: type(value).__name__)
def test_a_fresh_lambda_over_the_same_value_is_the_same(value):
    assert same(state(scaled(value)), state(scaled(value)))


def test_floats_are_beside_the_key():
    a, b = snapshot(scaled(1.5)), snapshot(scaled(2.5))
    assert a.key == b.key
    assert [value for _, value in a.floats] == [1.5]
    assert a.float_bits != b.float_bits
    assert snapshot(scaled(0.0)).float_bits != snapshot(scaled(-0.0)).float_bits
    assert snapshot(scaled(math.nan)).float_bits == snapshot(scaled(math.nan)).float_bits


def test_loop_variable_of_fresh_lambdas():
    keys = [state(lambda edges: {"m": edges.src["h"] * i}) for i in range(3)]  # noqa: B023
    assert len(set(keys)) == 3


def test_loop_variable_as_default():
    keys = {state(lambda edges, i=i: {"m": edges.src["h"] * i}) for i in (0, 1, True, 0)}
    assert len(keys) == 3


def test_keyword_default():
    def make(k):
        def udf(edges, *, k=k):
            return {"m": edges.src["h"] * k}

        return udf

    assert not same(state(make(1)), state(make(2)))
    assert same(state(make(1)), state(make(1)))


def test_closure_variable_rebound():
    k = 1

    def udf(edges):
        return {"m": edges.src["h"] * k}

    before = state(udf)
    k = 2
    assert not same(state(udf), before)
    k = 1
    assert same(state(udf), before)


def test_empty_cell_differs_from_a_filled_one():
    def udf(edges):
        return later

    before = state(udf)
    later = 1
    assert not same(state(udf), before)


def uses_global(edges):
    return {"m": edges.src["h"] * ALPHA * BETA + WEIGHT}


def test_global_rebound(monkeypatch):
    before = state(uses_global)
    monkeypatch.setitem(globals(), "ALPHA", 3)
    assert not same(state(uses_global), before)
    monkeypatch.setitem(globals(), "ALPHA", 2)
    assert same(state(uses_global), before)
    monkeypatch.setitem(globals(), "BETA", 0.75)
    assert snapshot(uses_global).key == before[0]
    assert snapshot(uses_global).float_bits != before[1]


def test_global_tensor_is_lifted_afresh(monkeypatch):
    assert tensors(uses_global) == [WEIGHT] or tensors(uses_global)[0] is WEIGHT
    other = torch.randn(3)
    before = state(uses_global)
    monkeypatch.setitem(globals(), "WEIGHT", other)
    assert tensors(uses_global)[0] is other
    assert same(state(uses_global), before)


def test_global_that_is_not_there_and_then_is(monkeypatch):
    udf = eval("lambda edges: surprise", globals())
    before = state(udf)
    monkeypatch.setitem(globals(), "surprise", 1)
    assert not same(state(udf), before)


def test_builtin_shadowed_by_a_global(monkeypatch):
    udf = lambda edges: {"m": abs(edges.src["h"])}  # noqa: E731
    before = state(udf)
    monkeypatch.setitem(globals(), "abs", lambda x: x)
    assert not same(state(udf), before)


def test_builtin_replaced(monkeypatch):
    udf = lambda edges: {"m": abs(edges.src["h"])}  # noqa: E731
    before = state(udf)
    monkeypatch.setattr(builtins, "abs", lambda x: x)
    after = snapshot(udf)
    monkeypatch.undo()
    assert after.key != before[0]


def helper(x):
    return x * ALPHA


def test_global_of_a_nested_helper(monkeypatch):
    udf = lambda edges: {"m": helper(edges.src["h"])}  # noqa: E731
    before = state(udf)
    monkeypatch.setitem(globals(), "ALPHA", 3)
    assert not same(state(udf), before)


def test_helper_redefined(monkeypatch):
    udf = lambda edges: {"m": helper(edges.src["h"])}  # noqa: E731
    before = state(udf)
    monkeypatch.setitem(globals(), "helper", lambda x: x + ALPHA)
    assert not same(state(udf), before)


@pytest.mark.parametrize(
    "udf",
    [
        lambda edges: {"m": edges.src["h"] * config.ALPHA},
        lambda edges: {"m": edges.src["h"] * (lambda c: c.ALPHA)(config)},
        lambda edges: {"m": [x * config.ALPHA for x in edges.src["h"]]},
    ],
    ids=["attribute", "alias", "comprehension"],
)
def test_attribute_of_a_user_module(udf, monkeypatch):
    before = state(udf)
    monkeypatch.setattr(config, "ALPHA", 4)
    assert not same(state(udf), before)
    monkeypatch.setattr(config, "ALPHA", True)
    assert not same(state(udf), before)


def test_unrelated_attribute_of_a_user_module(monkeypatch):
    udf = lambda edges: {"m": edges.src["h"] * config.ALPHA}  # noqa: E731
    before = state(udf)
    monkeypatch.setattr(config, "GAMMA", 4, raising=False)
    assert same(state(udf), before)


def test_library_function_patched(monkeypatch):
    udf = lambda edges: {"m": F.relu(edges.src["h"])}  # noqa: E731
    before = state(udf)
    monkeypatch.setattr(F, "relu", lambda x: x * 2)
    assert not same(state(udf), before)


def test_functions_in_containers():
    table = {"act": lambda x: x + 1, "list": [torch.relu]}
    udf = lambda edges: {"m": table["act"](edges.src["h"])}  # noqa: E731
    before = state(udf)
    table["act"] = lambda x: x + 2
    assert not same(state(udf), before)
    table["list"][0] = torch.sigmoid
    assert not same(state(udf), before)


def test_partial():
    def base(edges, k, w=None):
        return {"m": edges.src["h"] * k}

    make = functools.partial
    assert same(state(make(base, k=1)), state(make(base, k=1)))
    assert not same(state(make(base, k=1)), state(make(base, k=2)))
    assert not same(state(make(base, k=1)), state(make(base, w=1)))
    assert snapshot(make(make(base, k=1.5), w=WEIGHT)).floats[0][1] == 1.5
    assert tensors(make(base, w=WEIGHT))[0] is WEIGHT


def test_wrapped_function():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    assert not same(state(twice(lambda edges: 1)), state(twice(lambda edges: 2)))
    assert same(state(twice(uses_global)), state(twice(uses_global)))


def test_wrapper_in_the_name_of_a_library(monkeypatch):
    @functools.wraps(F.relu)
    def udf(edges):
        return edges.src["h"] * ALPHA

    before = state(udf)
    monkeypatch.setitem(globals(), "ALPHA", 7)
    assert not same(state(udf), before)


def test_wrapper_made_by_a_library():
    def make(k):
        @torch.no_grad()
        def udf(edges):
            return edges.src["h"] * k

        return udf

    assert not same(state(make(1)), state(make(2)))
    assert same(state(make(1)), state(make(1)))


def test_nested_functions_and_scopes(monkeypatch):
    def udf(edges):
        def inner(x):
            return [config.ALPHA * y for y in (lambda z: [z * ALPHA])(x)]

        return {"m": inner(edges.src["h"])}

    before = state(udf)
    monkeypatch.setitem(globals(), "ALPHA", 9)
    assert not same(state(udf), before)
    monkeypatch.undo()
    monkeypatch.setattr(config, "ALPHA", 9)
    assert not same(state(udf), before)


# --- objects --------------------------------------------------------------------------------------


class Layer(nn.Module):
    scale = 3

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)
        self.slope = 0.2
        self.k = 1
        self.act = torch.relu
        self.history = []
        self.unused = threading.Lock()
        self.register_buffer("shift", torch.zeros(3))

    def message(self, edges):
        return {"m": self.helper(self.fc(edges.src["h"])) * self.k + self.shift}

    def helper(self, x):
        return F.leaky_relu(self.act(x), self.slope) * self.scale * ALPHA

    def forward(self, graph, x):
        self.history.append(time.time())
        return graph.update_all(self.message, x)


def changes(change, make=Layer, udf=lambda layer: layer.message):
    layer = make()
    before = state(udf(layer))
    assert same(state(udf(layer)), before)
    change(layer)
    return not same(state(udf(layer)), before)


def test_bound_method_finds_what_it_names():
    layer = Layer()
    snap = snapshot(layer.message)
    assert [t for t in snap.tensors if t.tensor is layer.fc.weight]
    assert [t for t in snap.tensors if t.tensor is layer.shift]
    assert not [t for t in snap.tensors if t.tensor is layer.other.weight]
    assert [value for _, value in snap.floats] == [0.2]


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer, "slope", 0.3),
        lambda layer: setattr(layer, "slope", 1),
        lambda layer: setattr(layer, "k", 2),
        lambda layer: setattr(layer, "k", True),
        lambda layer: setattr(layer, "act", torch.sigmoid),
        lambda layer: setattr(layer, "act", nn.ReLU()),
        lambda layer: setattr(layer, "scale", 3),
        lambda layer: setattr(layer, "helper", lambda x: x),
        lambda layer: setattr(layer, "fc", nn.Linear(3, 3, bias=False)),
        lambda layer: setattr(layer, "fc", nn.Linear(3, 4)),
        lambda layer: setattr(layer.fc, "forward", lambda x: x),
        lambda layer: setattr(layer, "shift", torch.zeros(1)),
        lambda layer: layer.fc.weight.requires_grad_(False),
        lambda layer: layer.double(),
        lambda layer: layer.eval(),
        lambda layer: layer.fc.register_forward_hook(lambda m, i, o: o * 2),
        lambda layer: layer.fc.register_forward_pre_hook(lambda m, i: None),
    ],
    ids=range(17),
)
def test_a_change_of_a_layer_changes_the_key(change):
    assert changes(change)


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer, "fc", nn.Linear(3, 3)),
        lambda layer: setattr(layer.fc, "weight", nn.Parameter(torch.randn(3, 3))),
        lambda layer: layer.history.append(1),
        lambda layer: setattr(layer, "other", None),
        lambda layer: layer.fc.weight.data.zero_(),
    ],
    ids=range(5),
)
def test_other_changes_keep_the_key(change):
    assert not changes(change)


def test_replaced_tensor_is_found():
    layer = Layer()
    snapshot(layer.message)
    layer.fc.weight = nn.Parameter(torch.randn(3, 3))
    layer.shift = torch.ones(3)
    found = tensors(layer.message)
    assert any(t is layer.fc.weight for t in found)
    assert any(t is layer.shift for t in found)


def test_method_patched_on_the_class(monkeypatch):
    assert changes(lambda _: monkeypatch.setattr(Layer, "helper", lambda self, x: x))
    monkeypatch.undo()
    assert changes(lambda _: monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x))


def test_class_attribute_is_part_of_the_key(monkeypatch):
    assert changes(lambda _: monkeypatch.setattr(Layer, "scale", 4))
    layer = Layer()
    monkeypatch.setattr(Layer, "scale", 1.5)
    one = snapshot(layer.message).key
    monkeypatch.setattr(Layer, "scale", 2.5)
    assert snapshot(layer.message).key != one


def test_global_of_a_helper_method(monkeypatch):
    assert changes(lambda _: monkeypatch.setitem(globals(), "ALPHA", 12))


def test_tied_parameters_are_one_input():
    class Tied(Layer):
        def message(self, edges):
            return {"m": self.other(self.fc(edges.src["h"]))}

    apart, tied = Tied(), Tied()
    tied.other.weight = tied.fc.weight
    assert len(tensors(apart.message)) == 4
    assert len(tensors(tied.message)) == 3
    assert snapshot(apart.message).key != snapshot(tied.message).key


def test_shared_list_differs_from_equal_lists():
    one = [1]
    assert state(scaled([one, one])) != state(scaled([[1], [1]]))


def test_module_as_udf():
    class Message(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.drop = nn.Dropout(0.5)

        def forward(self, edges):
            return {"m": self.drop(self.fc(edges.src["h"]))}

    def itself(udf):
        return udf

    assert changes(lambda m: m.eval(), Message, itself)
    assert changes(lambda m: m.drop.eval(), Message, itself)
    assert changes(lambda m: setattr(m.drop, "p", 0.25), Message, itself)
    assert changes(lambda m: m.register_forward_hook(lambda *a: None), Message, itself)
    assert changes(lambda m: setattr(m, "forward", lambda edges: {}), Message, itself)


def test_global_module_hook():
    layer = Layer()
    before = state(layer.message)
    handle = nn.modules.module.register_module_forward_hook(lambda m, i, o: o)
    after = state(layer.message)
    handle.remove()
    assert after != before
    assert state(layer.message) == before


def test_hook_that_reads_a_global(monkeypatch):
    layer = Layer()
    layer.fc.register_forward_hook(lambda m, i, o: o * config.ALPHA)
    before = state(layer.message)
    monkeypatch.setattr(config, "ALPHA", 17)
    assert state(layer.message) != before


def test_containers_of_modules():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(
                [nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 3))]
            )

        def message(self, edges):
            h = edges.src["h"]
            for layer in self.layers:
                h = layer(h)
            return {"m": h}

    assert len(tensors(Stack().message)) == 4
    assert changes(lambda s: s.layers.append(nn.ReLU()), Stack)
    assert changes(lambda s: s.layers[1].__setitem__(0, nn.Tanh()), Stack)


def test_computed_attribute_names_reach_everything():
    class Dynamic(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc_a, self.mode = nn.Linear(2, 2), 1

        def message(self, edges):
            return {"m": getattr(self, f"fc_{'a'}")(edges.src["h"])}

    assert len(tensors(Dynamic().message)) == 2
    assert changes(lambda layer: setattr(layer, "fc_b", 1), Dynamic)


def test_constant_getattr_reaches_that_attribute():
    class Optional(Layer):
        def message(self, edges):
            return {"m": edges.src["h"] * getattr(self, "gain", 1) if hasattr(self, "gain") else 0}

    assert changes(lambda layer: setattr(layer, "gain", 2), Optional)
    assert not changes(lambda layer: setattr(layer, "k", 2), Optional)


def test_subclass_of_a_library_layer():
    class Scaled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * self.gain

    def make():
        layer = Scaled(3, 3)
        layer.gain = 2
        return layer

    def udf(layer):
        return lambda edges: {"m": layer(edges.src["h"])}

    assert len(tensors(udf(make()))) == 2
    assert changes(lambda layer: setattr(layer, "gain", 3), make, udf)


def test_super_method(monkeypatch):
    class Child(Layer):
        def message(self, edges):
            return super().message(edges)

    assert changes(lambda layer: setattr(layer, "k", 5), Child)
    assert changes(lambda _: monkeypatch.setattr(Layer, "message", lambda self, e: {}), Child)


def test_property():
    class WithProperty:
        def __init__(self):
            self._k = 1

        @property
        def k(self):
            return self._k * ALPHA

        def message(self, edges):
            return {"m": edges.src["h"] * self.k}

    assert changes(lambda layer: setattr(layer, "_k", 2), WithProperty)


def test_callable_object_and_slots():
    class Call:
        __slots__ = ("k",)

        def __init__(self):
            self.k = 1

        def __call__(self, edges):
            return {"m": edges.src["h"] * self.k}

    assert changes(lambda call: setattr(call, "k", 2), Call, lambda call: call)


def test_self_that_is_called_reaches_forward():
    class Recursive(nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 1

        def forward(self, x):
            return x * self.k

        def message(self, edges):
            return {"m": self(edges.src["h"])}

    assert changes(lambda layer: setattr(layer, "k", 2), Recursive)
    assert changes(lambda layer: layer.register_forward_hook(lambda *a: None), Recursive)


def test_operators_of_a_user_class():
    class Scale:
        def __init__(self):
            self.k = 1

        def __mul__(self, other):
            return other * self.k

    def udf(scale):
        return lambda edges: {"m": scale * edges.src["h"]}

    assert changes(lambda scale: setattr(scale, "k", 2), Scale, udf)


@pytest.mark.parametrize("make", [argparse.Namespace, types.SimpleNamespace])
def test_namespaces_count_by_the_names_used(make):
    def udf(args):
        return lambda edges: {"m": edges.src["h"] * args.heads}

    args = make(heads=1, log=sys.stdout)
    assert changes(lambda args: setattr(args, "heads", 2), lambda: args, udf)
    assert not changes(lambda args: setattr(args, "log", None), lambda: args, udf)


def test_attributes_of_tensors_and_computed_attributes(monkeypatch):
    class Lookup:
        def __init__(self):
            self.weight = torch.ones(3)
            self.weight.gain = 2

        def __getattr__(self, name):
            return ALPHA

        def message(self, edges):
            return edges.src["h"] * self.weight.gain * self.missing

    assert changes(lambda lookup: setattr(lookup.weight, "gain", 3), Lookup)
    assert changes(lambda lookup: setattr(lookup, "missing", 3), Lookup)
    assert changes(lambda _: monkeypatch.setitem(globals(), "ALPHA", 33), Lookup)


def test_nesting_without_end():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert "nested" in refusal(scaled(deep)).reason

    variables = {}
    variables["self"] = types.MappingProxyType(variables)
    assert same(state(scaled(variables)), state(scaled(variables)))


def test_names_of_one_udf_do_not_reach_into_another():
    class Plain:
        def __init__(self):
            self.log = sys.stdout

    class Curious(Plain):
        def __call__(self, x):
            return getattr(self, f"{x}")

    before = state(scaled(Plain()))
    refusal(scaled(Curious()))
    assert same(state(scaled(Plain())), before)


def test_threads():
    layer, keys = Layer(), set()

    def work():
        for _ in range(100):
            keys.add(snapshot(layer.message).key)
            keys.add(snapshot(scaled(1)).key)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 2


def test_identity_of_sentinels():
    first, second = object(), object()

    def udf(mode):
        return lambda edges: edges.src["h"] if mode is first else edges.src["h"] * 2

    assert same(state(udf(first)), state(udf(first)))
    assert not same(state(udf(first)), state(udf(second)))


def test_static_and_class_methods(monkeypatch):
    class Static:
        k = 1

        @staticmethod
        def double(x):
            return x * ALPHA

        @classmethod
        def shift(cls, x):
            return x + cls.k

        def message(self, edges):
            return {"m": self.double(self.shift(edges.src["h"]))}

    assert changes(lambda _: monkeypatch.setitem(globals(), "ALPHA", 8), Static)
    assert changes(lambda _: setattr(Static, "k", 2), Static)
    assert not same(state(Static.shift), state(Static.double))


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


class Fast(enum.IntEnum):
    YES = 1


def test_enums():
    def udf(mode):
        return lambda edges: edges.src["h"].sum(1) if mode is Mode.SUM else edges.src["h"].mean(1)

    assert same(state(udf(Mode.SUM)), state(udf(Mode.SUM)))
    assert not same(state(udf(Mode.SUM)), state(udf(Mode.MEAN)))
    assert not same(state(udf(Fast.YES)), state(udf(1)))


@dataclasses.dataclass(frozen=True)
class Config:
    heads: int = 2
    slope: float = 0.1
    names: tuple = ("a", "b")


def test_dataclass():
    def udf(c):
        return lambda edges: {c.names[0]: edges.src["h"] * c.heads * c.slope}

    assert same(state(udf(Config())), state(udf(Config())))
    assert not same(state(udf(Config())), state(udf(Config(heads=3))))
    assert snapshot(udf(Config())).key == snapshot(udf(Config(slope=0.3))).key
    assert not same(state(udf(Config())), state(udf(Config(names=("c",)))))


def test_subclasses_of_plain_types():
    class Size(int):
        pass

    class Options(dict):
        pass

    size, options = Size(3), Options(a=1)
    assert not same(state(scaled(size)), state(scaled(3)))
    assert not same(state(scaled(size)), state(scaled(Size(4))))
    assert same(state(scaled(size)), state(scaled(Size(3))))
    assert not same(state(scaled(options)), state(scaled(Options(a=2))))
    size.extra = 1
    assert same(state(scaled(size)), state(scaled(Size(3))))


def test_cycles_end():
    layer = Layer()
    layer.k = [1]
    layer.k.append(layer.k)
    layer.act = layer.helper
    assert same(state(layer.message), state(layer.message))

    def recursive(edges, depth=2):
        return recursive(edges, depth - 1) if depth else {}

    assert same(state(recursive), state(recursive))


def test_lstm_weights_are_lifted_once():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 3)

        def reduce(self, nodes):
            return {"h": self.lstm(nodes.mailbox["m"])[0]}

    assert len(tensors(Reader().reduce)) == 4


# --- what is refused ------------------------------------------------------------------------------


def bad_print(edges):
    print(edges)
    return {}


def bad_random(edges):
    return {"m": edges.src["h"] * random.random()}


def bad_time(edges):
    return {"m": edges.src["h"] * time.time()}


def bad_numpy(edges):
    return {"m": edges.src["h"] * np.random.rand()}


def bad_environment(edges):
    return {"m": edges.src["h"] * int(os.environ["K"])}


def bad_seed(edges):
    torch.manual_seed(3)


def bad_global(edges):
    global ALPHA
    ALPHA = 3


def bad_append(edges):
    LOG.append(1)


def bad_item(edges):
    TABLE["k"] = 2


def bad_open(edges):
    return open("x").read()


def bad_import(edges):
    import random

    return random.random()


def bad_hook(edges):
    edges.src["h"].register_hook(torch.relu)


def bad_setattr(edges):
    setattr(edges, "x", 1)  # noqa: B010


@pytest.mark.parametrize(
    ("udf", "offset", "words"),
    [
        (bad_print, 1, "print"),
        (bad_random, 1, "random"),
        (bad_time, 1, "time"),
        (bad_numpy, 1, "random"),
        (bad_environment, 1, "os"),
        (bad_seed, 1, "manual_seed"),
        (bad_global, 2, "ALPHA"),
        (bad_append, 1, "LOG"),
        (bad_item, 1, "TABLE"),
        (bad_open, 1, "open"),
        (bad_import, 1, "random"),
        (bad_hook, 1, "register_hook"),
        (bad_setattr, 1, "setattr"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_effects_are_refused_with_their_line(udf, offset, words):
    for reached in (udf, lambda edges: udf(edges), functools.partial(udf)):
        error = refusal(reached)
        assert words in error.reason
        assert error.line == line_of(udf, offset)
        assert f"{__file__}:{error.line}" in str(error)


def test_outer_variable_written():
    count = 0

    def udf(edges):
        nonlocal count
        count += 1

    assert refusal(udf).line == line_of(udf, 2)


def test_own_variables_may_be_written():
    def udf(edges):
        total = 0
        out = {}

        def add(x):
            nonlocal total
            total += x

        add(edges.src["h"])
        out["m"] = total
        edges.data["k"] = total
        return out

    assert snapshot(udf).tensors == []


def test_writes_to_self():
    class Counter(Layer):
        def count(self, edges):
            self.k += 1

        def keep(self, edges):
            self.history.append(edges)

        def nested(self, edges):
            return [self.count(edge) for edge in edges]

    counter = Counter()
    assert "`k`" in refusal(counter.count).reason
    assert "history" in refusal(counter.keep).reason
    assert "`k`" in refusal(counter.nested).reason


@pytest.mark.parametrize(
    "value",
    [
        threading.Lock(),
        iter([1]),
        (x for x in ()),
        sys.stdout,
        random.Random(1),
        np.random.default_rng(1),
        torch.Generator(),
        torch.eye(2).to_sparse(),
        np.zeros(2000),
        np.array([object()]),
        [].append,
        nn.UninitializedParameter(),
        memoryview(b"1"),
        functools.lru_cache(helper),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_without_a_key_are_refused(value):
    if getattr(value, "__name__", "") == "append":
        assert same(state(scaled(value)), state(scaled([].append)))
        return
    assert refusal(scaled(value)).line == scaled.__code__.co_firstlineno + 1


def test_tensor_subclass_is_refused():
    class Wrapped(torch.Tensor):
        pass

    refusal(scaled(torch.zeros(2).as_subclass(Wrapped)))


def test_graph_is_refused():
    dgl = pytest.importorskip("dgl")
    g = dgl.graph(([0], [0]))
    assert "graph" in refusal(lambda edges: {"m": g.ndata["h"]}).reason


def test_backward_hooks_are_refused():
    layer = Layer()
    layer.fc.register_full_backward_hook(lambda m, a, b: None)
    refusal(layer.message)


def test_hand_written_derivative_is_refused():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    refusal(lambda edges: {"m": Double.apply(edges.src["h"])})


def test_not_callable():
    with pytest.raises(TypeError):
        snapshot(3)


# --- unchanged ------------------------------------------------------------------------------------


def test_unchanged_sees_hidden_mutation():
    seen, layer = [], Layer()

    def sneaky(edges):
        for log in (seen,):
            log += [1]
        return {}

    def harmless(edges):
        edges.data["k"] = 1
        return {"m": edges.src["h"]}

    before = snapshot(sneaky)
    assert before.unchanged(sneaky)
    sneaky(edges())
    assert not before.unchanged(sneaky)

    before = snapshot(harmless)
    harmless(edges())
    assert before.unchanged(harmless)

    before = snapshot(layer.message)
    layer.shift = layer.shift.clone()
    assert snapshot(layer.message).key == before.key
    assert not before.unchanged(layer.message)


# --- substitute -----------------------------------------------------------------------------------


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


# --- memory and determinism -----------------------------------------------------------------------


def test_keys_do_not_keep_lambdas_or_layers_alive():
    layer = Layer()
    udf = scaled(layer.fc)
    snap_key = snapshot(udf).key, snapshot(layer.message).key
    refs = [weakref.ref(udf), weakref.ref(layer), weakref.ref(layer.fc.weight)]
    del udf, layer
    gc.collect()
    assert snap_key
    assert [ref() for ref in refs] == [None, None, None]


def test_ten_thousand_fresh_lambdas():
    cache = {snapshot(scaled(float(i))).key for i in range(100)}
    gc.collect()
    before = len(gc.get_objects())
    for i in range(10_000):
        cache.add(snapshot(scaled(float(i))).key)
    gc.collect()
    assert len(cache) == 1
    assert len(gc.get_objects()) - before < 100


def test_new_code_at_an_old_address_has_another_key():
    keys = set()
    for i in range(200):
        keys.add(snapshot(eval(f"lambda edges: {i} + edges", {})).key)
        gc.collect() if i % 50 == 0 else None
    assert len(keys) == 200


def test_code_facts_die_with_the_code():
    from gossamer.capture.code_names import facts_of

    gc.collect()
    before = len(facts_of)
    for i in range(100):
        snapshot(eval(f"lambda edges: {i} + edges", {}))
    gc.collect()
    assert len(facts_of) - before < 5


def test_order_of_tensors_is_the_order_of_the_code():
    layer = Layer()
    first = [lifted.path for lifted in snapshot(layer.message).tensors]
    assert first == [lifted.path for lifted in snapshot(Layer().message).tensors]
    assert len(set(first)) == len(first)
