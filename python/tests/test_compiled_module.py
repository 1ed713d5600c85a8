"""A compiled module is the model: same state, attributes and methods, and graphs in containers."""

from __future__ import annotations

import math

import torch
from torch import nn

import gossamer as gs
from programs.twins import BY_NAME, H, Model, call, copy_h, mail_sum, make_graph, once, signed

LAYER = once(copy_h, mail_sum)


class Inference(Model):
    """A model with another method, a buffer and a list."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.layers = nn.ModuleList([nn.Linear(3, 3)])
        self.names = ["h"]

    def inference(self, g, h):
        with torch.no_grad():
            return self.forward(g, h) * 2


def test_state_attributes_and_methods_are_the_models():
    model = Inference()
    fast = gs.compile(model, fallback="error")
    assert isinstance(fast, nn.Module)
    assert list(fast.state_dict()) == list(model.state_dict())
    assert fast.layers is model.layers
    assert fast.linear.weight is model.linear.weight
    assert fast.names == ["h"]
    assert list(fast.named_parameters()) == list(model.named_parameters())
    fast.eval()
    assert not model.training
    assert not model.layers.training
    fast.train()
    assert model.training
    fast.extra = 3
    assert model.extra == 3
    fast.load_state_dict({key: value + 1 for key, value in model.state_dict().items()})
    assert model.count.item() == 1


def test_other_methods_are_compiled():
    model = Inference()
    fast = gs.compile(model, fallback="error")
    torch.testing.assert_close(fast.inference(make_graph(), H), model.inference(make_graph(), H))
    assert len(gs.explain(fast).compilations) == 1


def test_to_acts_on_both():
    model = Model().float()
    model.shift = model.shift.float()
    fast = gs.compile(model, fallback="error").double()
    assert model.linear.weight.dtype == torch.float64
    model.shift = model.shift.double()
    torch.testing.assert_close(
        call(fast, make_graph(), H)["out"], call(model, make_graph(), H)["out"]
    )


def test_compile_as_a_decorator():
    @gs.compile
    def layer(g, h):
        return once(copy_h, mail_sum)(g, h)

    assert layer.__name__ == "layer"
    torch.testing.assert_close(layer(make_graph(), H), once(copy_h, mail_sum)(make_graph(), H))
    assert gs.explain(layer).fallbacks == []


def test_containers_of_graphs():
    """Graphs inside lists, tuples and dicts, by position and by name."""

    def layer(parts, *, rest):
        return [LAYER(g, h) for g, h in [*parts, (rest["g"], rest["h"])]]

    fast = gs.compile(layer, fallback="error")
    arguments = [(make_graph(), H), (make_graph(BY_NAME["chain"]), signed(7, 3))]
    rest = {"g": make_graph(BY_NAME["regular4"]), "h": signed(20, 3)}
    for actual, expected in zip(
        fast(arguments, rest=rest), layer(arguments, rest=rest), strict=True
    ):
        torch.testing.assert_close(actual, expected)


def test_the_model_itself_is_untouched():
    model = Model()
    before = dict(vars(model))
    fast = gs.compile(model, fallback="error")
    call(fast, make_graph(), H)
    assert dict(vars(model)).keys() == before.keys()
    assert type(model) is Model


def test_the_report_gives_the_size_of_every_array():
    model = Model()
    fast = gs.compile(model, fallback="error")
    g = make_graph()
    call(fast, g, H)
    found = gs.explain(fast).buffers
    assert found
    for buffer in found:
        rows = {"dst": g.num_dst_nodes(), "edges": g.num_edges(), "none": 1}[buffer.rows]
        item = getattr(torch, buffer.dtype).itemsize
        assert buffer.bytes == rows * math.prod(buffer.shape) * item
