"""What a symbolic trace keeps of a model: parameters, effects, random numbers, its state."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import fx, nn

import gossamer as gs
from gossamer.fx import Function
from programs.traced import (
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


# --- what cannot be traced stays as it is ---------------------------------------------------------


def test_decisions_on_sizes_and_degrees_are_not_burned_in():
    model = SizesLayer()
    gm = gs.symbolic_trace(model)
    assert all(isinstance(function, Function) for function in udf_modules(gm))
    assert_same(model, gm, features())


def test_a_kept_function_leaves_parameters_their_names():
    model = SizesLayer()
    gm = gs.symbolic_trace(model)
    assert set(gm.state_dict()) == set(model.state_dict())
    gm.load_state_dict(model.state_dict())
    gm.linear.weight.data.mul_(2)
    assert_same(model, gm, features())


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
    kept, traced = udf_modules(gm)
    assert isinstance(kept, Function)
    assert isinstance(traced, fx.GraphModule)
    for seed in range(2):
        assert_same(model, gm, features(seed=seed))


def test_effects_of_functions_happen_in_every_call():
    calls = []

    def message(edges):
        calls.append(1)
        return {"m": edges.src["h"]}

    def layer(g, x):
        g.ndata["h"] = x
        g.update_all(message, summed)
        return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    assert calls == []
    for count in (1, 2):
        gm(make_graph(), features())
        assert len(calls) == count


def test_tensors_of_closures_are_read_at_run_time():
    """Also where they are computed with before they meet a row."""
    scale = torch.tensor([1.0, 2.0, 3.0])

    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(
                lambda edges: {"m": edges.src["h"] * (1 - torch.exp(scale * 2).real)}, summed
            )
            return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    assert isinstance(udf_modules(gm)[0], fx.GraphModule)
    assert not gm.state_dict()
    assert_same(layer, gm, features())
    scale.mul_(3)
    assert_same(layer, gm, features())


def test_a_value_of_a_tensor_is_not_burned_in():
    scale = torch.tensor(2.0)

    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(lambda edges: {"m": edges.src["h"] * scale.item()}, summed)
            return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    scale.fill_(3.0)
    assert_same(layer, gm, features())


def test_buffers_are_read_at_run_time():
    class Model(Layer):
        def message(self, edges):
            return {"m": edges.src["h"] * (self.shift * 2)}

        def forward(self, g, x):
            return super().forward(g, x * (self.shift + 1))

    model = Model()
    gm = gs.symbolic_trace(model)
    model.shift.add_(1)
    assert_same(model, gm, features())


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
    assert torch.equal(gm(make_graph(), features()), gm(make_graph(), features()))
    gm.train()
    assert not torch.equal(gm(make_graph(), features()), gm(make_graph(), features()))


def test_random_numbers_are_drawn_in_every_call():
    def layer(g, x):
        g.ndata["h"] = x * torch.rand(3)
        g.update_all(lambda edges: {"m": edges.src["h"] * torch.rand(3)}, summed)
        return g.ndata["h"]

    gm = gs.symbolic_trace(layer)
    assert not torch.equal(gm(make_graph(), features()), gm(make_graph(), features()))


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
    assert_same(model, gm, features())
    foreign.weight.data.mul_(2)
    assert_same(model, gm, features())


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
    assert_same(model, gm, features())


def test_a_function_that_writes_to_the_graph_is_an_error():
    def layer(g, x):
        def reduce(nodes):
            g.ndata["z"] = x
            return {"h": nodes.mailbox["m"].sum(1)}

        g.ndata["h"] = x
        g.update_all(copied, reduce)
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
    gm(make_graph(), features()).square().sum().backward()
    actual = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    model(make_graph(), features()).square().sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(actual[name], parameter.grad)


@pytest.mark.parametrize("make", [Layer, SizesLayer])
def test_copies_are_independent_and_pickles_run(make):
    model = make()
    gm = gs.symbolic_trace(model)
    twin = copy.deepcopy(gm)
    loaded = pickle.loads(pickle.dumps(gm))
    expected = gm(make_graph(), features())
    gm.linear.weight.data.zero_()
    for other in (twin, loaded):
        torch.testing.assert_close(other(make_graph(), features()), expected)
        assert set(other.state_dict()) == set(gm.state_dict())
