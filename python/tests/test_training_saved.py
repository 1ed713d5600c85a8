"""What training keeps from the forward for the backward: what the backward reads, and no more."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gossamer as gs
from programs.training import (
    WIDTH,
    AttentionLayer,
    assert_close,
    assert_trains_alike,
    random_graph,
    rows,
)

G, X = random_graph(), rows()


class Layer(nn.Module):
    """A reducer after a message of one field, with a linear layer before, outside."""

    def __init__(self, message, reduce) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH).double()
        self.message, self.reduce = message, reduce

    def aggregate(self, g, h):
        with g.local_scope():
            g.ndata["h"] = h
            g.update_all(self.message, self.reduce)
            return g.ndata["o"]

    def forward(self, g, x):
        return self.aggregate(g, self.linear(x))


def copies(edges):
    return {"m": edges.src["h"]}


def total(nodes):
    return {"o": nodes.mailbox["m"].sum(1)}


def squares(nodes):
    sums = nodes.mailbox["m"].sum(1)
    return {"o": sums * sums}


def two(nodes):
    messages = nodes.mailbox["m"]
    return {"o": messages.sum(1), "p": messages.square().sum(1)}


def sums():
    return Layer(copies, total)


# --- changes in place that eager code allows ------------------------------------------------------


class ChangesItsInput(Layer):
    def forward(self, g, x):
        h = self.linear(x)
        out = self.aggregate(g, h)
        h += 1
        return out * h.detach()


class AddsToTheInput(Layer):
    """A skip connection, in place."""

    def forward(self, g, x):
        h = self.linear(x)
        h += self.aggregate(g, h)
        return h


class AddsToTheResult(Layer):
    def forward(self, g, x):
        h = self.linear(x)
        out = self.aggregate(g, h)
        out += h
        out *= 2
        return out


@pytest.mark.parametrize("kind", [ChangesItsInput, AddsToTheInput, AddsToTheResult])
@pytest.mark.parametrize("reduce", [total, squares])
def test_what_the_backward_does_not_read_may_change(kind, reduce):
    """The square reads the sums, which are its own, and not the rows that were added."""

    def body(model):
        for _ in range(3):
            model(G, X).square().sum().backward()

    assert_trains_alike(body, kind(copies, reduce))


def test_a_field_that_is_only_added_may_change():
    """Region mode, with the field changed by the caller between two calls."""

    def body(model):
        weight = torch.ones(WIDTH, dtype=X.dtype, requires_grad=True)
        g = random_graph()
        for _ in range(3):
            g.ndata["field"] = (rows(seed=5) * weight).clone()
            out = model(g, X)
            g.ndata["field"] += 3
            out.square().sum().backward()
        return weight.grad

    class Residual(Layer):
        def forward(self, g, x):
            g.ndata["h"] = self.linear(x)
            g.update_all(
                lambda edges: {"m": torch.tanh(edges.src["h"])},
                lambda nodes: {"o": nodes.mailbox["m"].sum(1) + nodes.data["field"]},
            )
            return g.ndata["o"]

    assert_trains_alike(body, Residual(None, None))


def test_a_bias_that_the_backward_does_not_read_may_be_stepped_before_it():
    """A whole forward: the optimizer of another loss changes the bias in between."""

    def body(model):
        for _ in range(3):
            loss = model(G, X).sum()
            with torch.no_grad():
                model.linear.bias.add_(1)
            loss.backward()

    assert_trains_alike(body, sums())


# --- changes in place that eager code refuses -----------------------------------------------------


def test_what_the_backward_reads_may_not_change():
    class Attends(AttentionLayer):
        def forward(self, g, x):
            with g.local_scope():
                h = self.linear(x)
                g.ndata["h"] = h
                g.update_all(self.message, self.reduce)
                h += 1
                return g.ndata["o"]

    fast = gs.compile(Attends(WIDTH).double())
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
        fast(G, X).sum().backward()
    assert "h = h + y" in raised.value.__notes__[0]


def test_gradients_of_gradients_refuse_what_changed():
    """The gradient itself does not read the rows: the sums are saved. Its own gradient does."""
    layer = gs.compile(Layer(copies, squares))
    for _ in range(2):
        h = rows().requires_grad_()
        shifted = h * 2
        out = layer.aggregate(G, shifted).sum()
        shifted += 1
        (plain,) = torch.autograd.grad(out, h, retain_graph=True)
        assert plain.isfinite().all()
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
            torch.autograd.grad(out, h, create_graph=True)
        assert "h = h + y" in raised.value.__notes__[0]


# --- gradients of gradients, other losses, checkpoints --------------------------------------------


@pytest.mark.parametrize("reduce", [total, squares])
@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_of_gradients_without_saved_inputs(reduce, frozen):
    def body(model):
        found = []
        model.linear.requires_grad_(not frozen)
        for _ in range(3):
            x = X.clone().requires_grad_()
            factor = torch.ones_like(X).requires_grad_()
            out = (model(G, x) * factor).square().sum()
            wanted = [x, factor, *(p for p in model.parameters() if p.requires_grad)]
            first = torch.autograd.grad(out, wanted, create_graph=True)
            out = sum(grad.square().sum() for grad in first)
            found += [*first, *torch.autograd.grad(out, wanted, allow_unused=True)]
        model.linear.requires_grad_(True)
        model(G, X).sum().backward()
        return found

    def without_none(model):
        return [torch.zeros(()) if grad is None else grad for grad in body(model)]

    assert_trains_alike(without_none, Layer(copies, reduce))


class SumAndSquare(Layer):
    """Two results of one reducer."""

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.linear(x)
            g.update_all(self.message, self.reduce)
            return g.ndata["o"], g.ndata["p"]


def test_losses_of_other_results_than_the_last():
    """The rows that another backward reads are at hand although this one does not read them."""

    def body(model):
        found = []
        for wanted in [(0, 1), (0,), (1,), (0,), (0, 1), (1,)]:
            x = X.clone().requires_grad_()
            results = model(G, x)
            loss = sum(results[number].square().sum() for number in wanted)
            loss.backward()
            found.append(x.grad)
        return found

    assert_trains_alike(body, SumAndSquare(copies, two))


@pytest.mark.parametrize("kind", [ChangesItsInput, AddsToTheInput])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(kind, reentrant):
    def body(model):
        x = X.clone().requires_grad_()
        for _ in range(3):
            checkpoint(model, G, x, use_reentrant=reentrant).square().sum().backward()
        return x.grad

    assert_trains_alike(body, kind(copies, squares))


@pytest.mark.parametrize("reduce", [total, squares])
def test_saved_tensors_on_the_disk(reduce):
    """Hooks see the saved tensors, and give copies back, also for gradients of gradients."""
    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor.detach().clone()

    def body(model):
        found = []
        for _ in range(3):
            x = X.clone().requires_grad_()
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.clone()):
                out = model(G, x).square().sum()
            (grad,) = torch.autograd.grad(out, x, create_graph=True)
            (grad.square().sum() + out).backward()
            found.append(x.grad)
        return found

    assert_trains_alike(body, Layer(copies, reduce))
    assert packed


# --- what is held ---------------------------------------------------------------------------------


def held_after(layer, h):
    """Whether a result holds the rows it was computed from."""
    shifted = h * 2
    reference = weakref.ref(shifted)
    out = layer.aggregate(G, shifted)
    del shifted
    gc.collect()
    assert out.requires_grad
    return reference() is not None


def test_rows_that_no_gradient_depends_on_are_not_held():
    layer = gs.compile(sums(), fallback="error")
    for _ in range(3):
        assert not held_after(layer, rows().requires_grad_())


def test_rows_for_gradients_of_gradients_are_held_as_long_as_the_graph():
    layer = gs.compile(Layer(copies, squares), fallback="error")
    for _ in range(3):
        shifted = rows().requires_grad_() * 2
        reference = weakref.ref(shifted)
        out = layer.aggregate(G, shifted)
        del shifted
        assert reference() is not None
        out.sum().backward()
        gc.collect()
        assert reference() is None
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            out.sum().backward()


def test_inference_tensors_may_be_inputs_that_the_backward_does_not_read():
    """torch cannot save them; it does not have to."""
    with torch.inference_mode():
        field = rows(seed=5)

    def layer(g, h):
        with g.local_scope():
            g.ndata["h"], g.ndata["field"] = h, field
            g.update_all(
                copies, lambda nodes: {"o": nodes.mailbox["m"].sum(1) + nodes.data["field"]}
            )
            return g.ndata["o"]

    def gradient(model):
        h = rows().requires_grad_()
        (grad,) = torch.autograd.grad(model(G, h).square().sum(), h)
        return grad

    fast = gs.compile(layer, fallback="error")
    for _ in range(3):
        assert_close(gradient(fast), gradient(layer))
