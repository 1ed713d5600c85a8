"""Of objects, modules and classes a key holds what reached code names, and nothing else."""

import argparse
import enum
import sys
import threading
import types
from typing import NamedTuple

import pytest
import torch
from torch import nn

from gossamer.capture.refusal import CannotSnapshot
from gossamer.capture.snapshot import snapshot
from programs import snapshots
from programs.snapshots import (
    Config,
    Layer,
    changes,
    refusal,
    same,
    scaled,
    state,
    tensors,
)

pytestmark = pytest.mark.stored

ALPHA = 2
config = types.ModuleType("config")
config.ALPHA = 3


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
    assert changes(lambda _: monkeypatch.setattr(snapshots, "ALPHA", 12))


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


class Enclosing(nn.Module):
    """Functions written inside of a method read the layer through a closure."""

    def __init__(self):
        super().__init__()
        self.k, self.found, self.holder = 1, None, [self]

    def forward(self, x):
        self.found = x
        return x * self.k

    @property
    def me(self):
        return self

    def itself(self):
        return self

    def reads(self):
        return lambda edges: {"m": edges.src["h"] * self.k}

    def calls(self):
        return lambda edges: {"m": self(edges.src["h"])}

    def hands_on(self):
        return lambda edges: {"m": [self.k, self][1](edges.src["h"])}

    def by_method(self):
        return lambda edges: {"m": self.itself()(edges.src["h"])}

    def by_property(self):
        return lambda edges: {"m": self.me(edges.src["h"])}

    def by_attribute(self):
        return lambda edges: {"m": edges.src["h"] * self.k + self.holder[0](edges.src["h"])}

    def unrelated(self):
        return lambda edges: {"m": edges.src["h"] + self.training}


def test_a_closure_that_reads_attributes_of_self():
    """What forward writes does not matter to a function that forward is not reached from."""
    assert changes(lambda layer: setattr(layer, "k", 2), Enclosing, Enclosing.reads)
    assert changes(lambda layer: layer.eval(), Enclosing, Enclosing.unrelated)
    layer = Enclosing()
    before = snapshot(layer.reads()).key
    layer.found = torch.ones(2)
    layer.register_forward_hook(lambda *a: None)
    assert snapshot(layer.reads()).key == before


@pytest.mark.parametrize("name", ["calls", "hands_on", "by_method", "by_property", "by_attribute"])
def test_a_closure_that_lets_go_of_self_reaches_forward(name):
    with pytest.raises(CannotSnapshot, match="writes the attribute `found`"):
        snapshot(getattr(Enclosing(), name)())


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


def test_dataclass():
    def udf(c):
        return lambda edges: {c.names[0]: edges.src["h"] * c.heads * c.slope}

    assert same(state(udf(Config())), state(udf(Config())))
    assert not same(state(udf(Config())), state(udf(Config(heads=3))))
    assert snapshot(udf(Config())).key == snapshot(udf(Config(slope=0.3))).key
    assert not same(state(udf(Config())), state(udf(Config(names=("c",)))))


class Pair(NamedTuple):
    heads: int
    width: int


class Swapped(NamedTuple):
    width: int
    heads: int


def test_named_tuples():
    def udf(pair):
        return lambda edges: edges.src["h"] * pair.heads

    assert same(state(udf(Pair(2, 3))), state(udf(Pair(2, 3))))
    assert not same(state(udf(Pair(2, 3))), state(udf(Pair(3, 3))))
    assert not same(state(udf(Pair(2, 3))), state(udf(Swapped(2, 3))))


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
