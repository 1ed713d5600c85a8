"""Torch functions that compile as what they consist of: cells, norms of weights, padding, `//`."""

from __future__ import annotations

import logging
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import gossamer as gs
from programs.measure import assert_outputs
from programs.twins import BY_NAME, H, assert_twins, call, copy_h, mail_sum, make_graph, once
from programs.twins import parameters as numbered


class Layer(nn.Module):
    """`part` acts on the messages (E, 3), or on the sums of nodes (N, 3) with `on_nodes`."""

    def __init__(self, part, on_nodes=False):
        super().__init__()
        self.part, self.on_nodes = part, on_nodes

    def message(self, edges):
        h = edges.src["h"]
        return {"m": h if self.on_nodes else self.part(h, edges.dst["h"])}

    def forward(self, g, h):
        total = once(self.message, mail_sum)(g, h)
        return self.part(total, h) if self.on_nodes else total


class Cell(nn.Module):
    def __init__(self, kind, bias):
        super().__init__()
        self.cell = numbered({"gru": nn.GRUCell, "lstm": nn.LSTMCell}[kind](3, 3, bias=bias))
        self.pair = kind == "lstm"

    def forward(self, x, state):
        if not self.pair:
            return self.cell(x, state)
        return torch.cat(self.cell(x, (state, state * 0.5)), dim=1)


class Normed(nn.Module):
    def __init__(self, norm, **named):
        super().__init__()
        self.linear = norm(numbered(nn.Linear(3, 4)), **named).double()

    def forward(self, x, _):
        return self.linear(x)


class Padded(nn.Module):
    def forward(self, x, y):
        thick = torch.stack([x, y], dim=1)
        return F.pad(F.pad(thick, (1, 0, 0, 2), value=0.5).flatten(1), [0, 1])


def assert_compiled(model):
    """Outputs and gradients of eager, in region and in whole mode, nothing falls back."""
    report = assert_twins(model, H, fallback="error")
    assert report.mode == "whole", report.mode_reason
    fast = gs.compile(model, backend="torch", fallback="error")
    for case in (BY_NAME["multi_edges"], BY_NAME["one_node_loop"], BY_NAME["power_law"]):
        found = []
        for each in (model, fast):
            x = torch.linspace(-1, 1, 3 * case.num_src, dtype=torch.float64).view(-1, 3)
            x.requires_grad_()
            out = each(make_graph(case), x)
            wanted = [x, *model.parameters()]
            found.append([out, *torch.autograd.grad((out**3).sum(), wanted, allow_unused=True)])
        for expected, actual in zip(*found, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_recurrent_cells(kind, bias):
    assert_compiled(Layer(Cell(kind, bias), on_nodes=bias))


@pytest.mark.parametrize("dim", [0, 1, None], ids=str)
def test_weight_norm(dim):
    assert_compiled(Layer(Normed(parametrizations.weight_norm, dim=dim)))


def test_spectral_norm():
    """In eval; in training each call changes buffers, so it runs eagerly."""
    torch.manual_seed(0)
    model = Layer(Normed(parametrizations.spectral_norm)).eval()
    assert_compiled(model)
    report = assert_twins(model.train(), H)
    assert report.mode == "region"
    assert any("in place" in fallback.reason for fallback in report.fallbacks)


def test_padding():
    assert_compiled(Layer(Padded()))


PARTS = {
    "glu": lambda x, y: F.glu(torch.cat([x, y], 1), 1),
    "logaddexp": lambda x, y: torch.logaddexp(x, 2 * y) + x.logaddexp(x),
    "logaddexp_broadcast": lambda x, y: torch.logaddexp(x, y[:, :1]) * y,
    "lerp": lambda x, y: torch.lerp(x, y[:, 1:2], 0.3) + x[:, :1].lerp(y, 0.8),
    "lerp_tensor": lambda x, y: torch.lerp(x, y, 2 * torch.sigmoid(x[:, :1]) - 0.5),
    "attention": lambda x, y: F.scaled_dot_product_attention(
        torch.stack([x, y], 1), torch.stack([y, x * y], 1), x.unsqueeze(1).expand(-1, 2, 3)
    ).flatten(1),
    "mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "huber_loss": lambda x, y: F.huber_loss(3 * x, y, reduction="none", delta=0.7),
    "smooth_l1_loss": lambda x, y: F.smooth_l1_loss(3 * x, y, reduction="none", beta=0.7),
    "nan_to_num": lambda x, y: torch.nan_to_num(torch.where(x > y, math.nan, x), 0.5, 2.0, -2.0),
    "infinities": lambda x, y: torch.where(x > y, math.inf * y.sign(), x).nan_to_num(
        0.0, 2.0, -3.0
    ),
    "linspace": lambda x, y: x - torch.linspace(-1, 2.5, 3, dtype=torch.float64) * y,
    "var_mean": lambda x, y: torch.cat(torch.var_mean(x * y, 1, keepdim=True), 1),
    "std_mean": lambda x, y: torch.stack(torch.std_mean(x * y + x, -1, correction=0), 1),
}


class Named(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.part = PARTS[name]

    def forward(self, x, y):
        return self.part(x + 0.3, y - 0.2)


@pytest.mark.parametrize("name", PARTS)
def test_functions(name):
    assert_compiled(Layer(Named(name)))


def test_mailbox_meets_nodes():
    """Torch functions that ask for sizes where rows of nodes meet messages."""

    def reduce(nodes):
        m, h = nodes.mailbox["m"], nodes.data["h"].unsqueeze(1)
        way = torch.lerp(m, h, 0.25) + torch.lerp(m, h, torch.sigmoid(h)) + torch.logaddexp(h, m)
        attended = F.scaled_dot_product_attention(h, m, way, scale=0.3)
        return {"o": attended.squeeze(1) + way.mean(1)}

    class Attended(nn.Module):
        forward = staticmethod(once(copy_h, reduce))

    assert_compiled(Attended())


@pytest.mark.parametrize("weight", [1.0, torch.tensor(1.0, dtype=torch.float64)], ids=["n", "t"])
def test_the_end_of_lerp_is_exact(weight):
    """input + 1 (end - input) would lose a small end beside a large input."""
    layer = once(lambda edges: {"m": torch.lerp(1e20 * edges.src["h"], H[0], weight)}, mail_sum)
    assert_twins(layer, H, fallback="error")


@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss], ids=["huber", "smooth_l1"])
def test_gradient_of_a_loss_at_infinity(loss):
    """The slope beyond the threshold; the square of an infinity is not seen."""

    def message(edges):
        h = edges.src["h"]
        return {"m": loss(h, torch.zeros_like(h), reduction="none")}

    layer = once(message, mail_sum)
    grads = []
    for each in (layer, gs.compile(layer, fallback="error")):
        x = H.clone()
        x[0, 0], x[1, 0] = math.inf, -math.inf
        x.requires_grad_()
        each(make_graph(), x).clamp(-1e3, 1e3).sum().backward()
        each(make_graph(), x).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[1], grads[0])


FLOORS = {
    "number": lambda x: x // 0.3,
    "tensor": lambda x: torch.floor_divide(x, x.abs() + 0.3),
}


@pytest.mark.parametrize("name", FLOORS)
def test_floor_division_has_no_derivative(name):
    """Torch raises in the backward, and so does compiled code; without gradients it compiles."""
    floor = FLOORS[name]
    layer = once(lambda edges: {"m": floor(edges.src["h"]) + edges.src["h"]}, mail_sum)
    assert_twins(layer, H, fallback="error")
    fast = gs.compile(layer)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.FallbackWarning)
            out = fast(make_graph(), H.clone().requires_grad_())
        with pytest.raises(RuntimeError, match="floor_divide is not implemented"):
            out.sum().backward()
    assert "no derivative" in gs.explain(fast).fallbacks[0].reason


def test_floor_division_without_gradient():
    layer = once(lambda edges: {"m": edges.src["h"].detach() // 0.3 * edges.src["h"]}, mail_sum)
    fast = gs.compile(layer, fallback="error")
    grads = []
    for each in (layer, fast, fast):
        x = H.clone().requires_grad_()
        each(make_graph(), x).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[1], grads[0])
    torch.testing.assert_close(grads[2], grads[0])


def test_nothing_is_printed_of_what_does_not_compile(capfd, caplog):
    """Torch logs failing shapes with a traceback; the report says it with the user's line."""

    def layer(g, h):
        first = once(copy_h, mail_sum)(g, h)
        return F.pad(first, (0, 0, 0, 1))[:-1] + F.pad(first, (1, 1), mode="circular")[:, 1:-1]

    def mismatched(nodes):
        return {"o": torch.cat([nodes.mailbox["m"].sum(1), torch.ones(7, 2)], 1)}

    assert_outputs(call(gs.compile(layer), make_graph(), H), call(layer, make_graph(), H))
    fast = gs.compile(layer)
    for _ in range(3):
        call(fast, make_graph(), H)
    assert gs.explain(fast).mode == "region"
    with pytest.raises(RuntimeError):
        call(gs.compile(once(copy_h, mismatched)), make_graph(), H)
    assert capfd.readouterr() == ("", "")
    assert not [each for each in caplog.records if each.levelno > logging.DEBUG]
