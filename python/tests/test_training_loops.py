"""What training loops do with a model, done with a compiled one: all ends as with the eager one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

import gossamer as gs
from programs.training import (
    WIDTH,
    AttentionLayer,
    Network,
    assert_close,
    assert_trains_alike,
    compiled_copy,
    network,
    random_graph,
    rows,
)
from programs.watch import resident_bytes

G, X = random_graph(), rows()
TARGET = torch.sin(3 * X)


def loss_of(model, g=G, x=X):
    return (model(g, x) - TARGET).square().mean()


# --- losses and gradients ------------------------------------------------------------------------


def test_gradients_accumulate():
    def body(model):
        for scale in (1.0, -2.0, 0.5):
            (scale * loss_of(model, x=scale * X)).backward()

    assert_trains_alike(body)


def test_several_losses_of_one_forward():
    def body(model):
        out = model(G, X)
        out[:5].square().sum().backward(retain_graph=True)
        out[5:].sin().sum().backward(retain_graph=True)
        return torch.autograd.grad(out.sum(), list(model.parameters()))

    assert_trains_alike(body)


class SumAndNorm(nn.Module):
    """Two results of one reducer; the slope of the norm is infinite at zero."""

    def forward(self, g, x):
        def reduce(nodes):
            messages = nodes.mailbox["m"]
            return {"sum": messages.sum(1), "norm": messages.square().sum(1).sqrt()}

        with g.local_scope():
            g.ndata["x"] = x
            g.update_all(lambda edges: {"m": edges.src["x"]}, reduce)
            return g.ndata["sum"], g.ndata["norm"]


def test_a_result_without_a_gradient_does_not_spoil_others():
    """It has no gradient in eager code, either: not one of zeros, which times infinity are NaN."""
    x = X.clone().requires_grad_()
    with torch.no_grad():
        x[:, 0] = 0.0  # norms of 0
    fast = gs.compile(SumAndNorm(), fallback="error")
    g = gs.graph(([0, 1, 1, 2, 3], [1, 0, 2, 1, 3]), num_nodes=len(x))

    def gradient(model, wanted):
        results = model(g, x)
        (grad,) = torch.autograd.grad(sum(results[number].sum() for number in wanted), x)
        return grad

    found = {}
    for step, wanted in enumerate([(0,), (0,), (0, 1), (1,), (0,), (0, 1)]):
        grad, expected = gradient(fast, wanted), gradient(SumAndNorm(), wanted)
        assert torch.equal(grad.isfinite(), expected.isfinite())
        assert_close(grad.nan_to_num(7.0, 7.0, 7.0), expected.nan_to_num(7.0, 7.0, 7.0))
        if step > 0:  # a whole program by now; the same bits, whatever the step before saved
            assert torch.equal(found.setdefault(wanted, grad).isfinite(), grad.isfinite())
            assert torch.equal(found[wanted].nan_to_num(7.0), grad.nan_to_num(7.0))
    assert found[0,].isfinite().all()
    assert not found[0, 1].isfinite().all()


def test_one_layer_twice_and_shared_parameters():
    def tied(model):
        loss_of(model).backward()

    def twice(layer):
        layer(G, torch.tanh(layer(G, X))).square().sum().backward()

    assert_trains_alike(tied, network(shared=True))
    assert_trains_alike(twice, AttentionLayer(WIDTH).double())
    shared = network()
    shared.second.linear.weight = shared.first.linear.weight
    assert_trains_alike(tied, shared)


def test_compiled_layers_inside_a_plain_model():
    def body(model):
        loss_of(model).backward()

    model = network()
    mixed = copy.deepcopy(model)
    mixed.second = gs.compile(mixed.second, fallback="error")
    for layer in (model, mixed):
        body(layer)
    for mine, right in zip(mixed.parameters(), model.parameters(), strict=True):
        assert_close(mine.grad, right.grad)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    def body(model):
        x = X.clone().requires_grad_()
        for _ in range(3):
            checkpoint(model, G, x, use_reentrant=reentrant).square().sum().backward()
        return x.grad

    assert_trains_alike(body)


def test_checkpoint_of_one_layer_many_times_with_a_result_unused():
    """The forwards that checkpointing repeats save what they saved, whatever came between."""
    g, x = gs.graph(([0, 1, 1, 2, 3], [1, 0, 2, 1, 3])), X[:4].clone().requires_grad_()

    def gradients(model):
        for _ in range(3):
            h = x
            for _ in range(3):
                h, _ = checkpoint(model, g, h, use_reentrant=False)
            yield torch.autograd.grad(h.sum(), x)[0]

    fast = gs.compile(SumAndNorm(), fallback="error")
    for found, expected in zip(gradients(fast), gradients(SumAndNorm()), strict=True):
        assert_close(found, expected)


def test_anomaly_mode():
    def body(model):
        with torch.autograd.detect_anomaly(check_nan=True):
            loss_of(model).backward()

    with pytest.warns(UserWarning, match="Anomaly Detection"):
        assert_trains_alike(body)


# --- what is computed ----------------------------------------------------------------------------


def programs_of(fast):
    return {item.entry for item in gs.explain(fast).programs}


def ran(run):
    """How many calls of programs `run` makes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return sum(item.count for item in profile.key_averages() if item.key == "gossamer::run")


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_without_gradients_no_training_program_is_made(off):
    fast = compiled_copy(network())
    with off():
        for _ in range(3):
            assert not fast(G, X).requires_grad
    assert programs_of(fast) == {"forward"}


def test_frozen_parameters_and_inputs_without_gradient():
    model = network()
    model.requires_grad_(False)
    fast = compiled_copy(model)
    for _ in range(3):
        assert not fast(G, X).requires_grad
    assert programs_of(fast) == {"forward"}
    # Only the last layer is trained: the first runs forward only, and has no backward.
    fast.second.requires_grad_(True)
    model.second.requires_grad_(True)
    out = None
    for _ in range(3):
        out = loss_of(fast)
    forward = ran(lambda: loss_of(fast))
    backward = ran(lambda: out.backward())
    assert 1 <= backward <= forward
    loss_of(model).backward()
    for mine, right in zip(fast.parameters(), model.parameters(), strict=True):
        assert_close(mine.grad, right.grad)
    assert fast.first.linear.weight.grad is None


def test_the_backward_program_gives_wanted_gradients_only():
    """With a frozen score, that of the node rows, and none of the score's weight."""

    def results(layer):
        fast = compiled_copy(layer)
        loss_of(fast).backward()
        buffers = gs.explain(fast).buffers
        return sorted(b.rows for b in buffers if b.entry == "backward" and b.lifetime == "output")

    layer = AttentionLayer(WIDTH).double()
    assert results(layer) == ["dst", "none"]
    layer.score.requires_grad_(False)
    assert results(layer) == ["dst"]


# --- optimizers ----------------------------------------------------------------------------------

OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, 0.02),
    "adamw": lambda p: torch.optim.AdamW(p, 0.02, weight_decay=0.1),
    "foreach": lambda p: torch.optim.Adam(p, 0.02, weight_decay=0.1, foreach=True),
    "momentum": lambda p: torch.optim.SGD(p, 0.02, momentum=0.9, nesterov=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    def body(model):
        optimizer = OPTIMIZERS[name](model.parameters())
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            losses.append(loss.detach())
        assert losses[-1] < losses[0]
        return losses

    # Adam divides by the root of the mean square, which makes rounding larger where it is small.
    assert_trains_alike(body, tolerance=1e-7)


def test_a_closure_that_runs_the_model_many_times():
    def body(model):
        optimizer = torch.optim.LBFGS(
            model.parameters(), max_iter=10, line_search_fn="strong_wolfe"
        )

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        before = loss_of(model).detach()
        for _ in range(2):
            optimizer.step(closure)
        after = loss_of(model).detach()
        assert after < before
        return after

    assert_trains_alike(body, tolerance=1e-6)


def test_averaged_models():
    def body(model):
        plain = model.__wrapped__ if hasattr(model, "__wrapped__") else model
        averaged = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
        )
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            averaged.update_parameters(model)
        assert not torch.equal(next(averaged.parameters()), next(plain.parameters()))
        return averaged(G, X)

    assert_trains_alike(body)


# --- hooks, parametrizations, functional calls ---------------------------------------------------


def test_hooks_run_as_in_eager():
    def body(model):
        log = []
        model.register_forward_pre_hook(lambda m, args: (args[0], args[1] * 2))
        model.register_forward_hook(lambda m, args, out: out * 3)
        model.register_full_backward_hook(lambda m, gi, go: log.append(go[0].clone()))
        model.second.register_full_backward_hook(
            lambda m, gi, go: log.extend([gi[1].clone(), go[0].clone()])
        )
        model.first.linear.weight.register_hook(lambda grad: grad * 5)
        out = model(G, X)
        out.register_hook(lambda grad: grad + 1)
        out.square().sum().backward()
        model(G, -X).sum().backward()
        assert len(log) == 6
        return log

    assert_trains_alike(body)


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "own"])
def test_parametrized_weights(kind):
    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * torch.tanh(weight)

    wrap = {
        "weight_norm": parametrizations.weight_norm,
        "spectral_norm": parametrizations.spectral_norm,
        "own": lambda module: parametrize.register_parametrization(module, "weight", Twice()),
    }[kind]
    model = network()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        wrap(model.first.linear)
        wrap(model.second.score)

    def body(layer):
        for _ in range(3):
            loss_of(layer).backward()

    fast = gs.compile(copy.deepcopy(model))
    for layer in (model, fast):
        body(layer)
    for mine, right in zip(fast.parameters(), model.parameters(), strict=True):
        assert_close(mine.grad, right.grad)
    for mine, right in zip(fast.buffers(), model.buffers(), strict=True):
        assert_close(mine, right)


def test_functional_call():
    def body(model):
        weights = {k: (p.detach() * 1.5).requires_grad_() for k, p in model.named_parameters()}
        loss_of(model).backward()
        for _ in range(3):
            out = torch.func.functional_call(model, weights, (G, X))
        return torch.autograd.grad(out.square().sum(), list(weights.values()))

    assert_trains_alike(body)


# --- numbers -------------------------------------------------------------------------------------


def test_autocast():
    """Forward and backward under bfloat16 autocast; 3 % is a few roundings to 8 bits."""
    model = network(dtype=torch.float32)
    fast = gs.compile(copy.deepcopy(model))
    x, target = X.float(), TARGET.float()
    for layer in (model, fast):
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = (layer(G, x) - target).square().mean()
            layer.zero_grad()
            loss.backward()
    for mine, right in zip(fast.parameters(), model.parameters(), strict=True):
        assert mine.grad.dtype == right.grad.dtype
        assert_close(mine.grad, right.grad, 0.03 * float(right.grad.abs().max()))
    assert gs.explain(fast).fallbacks == []


class TwoHeads(nn.Module):
    """Multi-head attention, two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 16)
        self.network = Network(16)
        self.out = nn.Linear(16, 8)

    def forward(self, g, x):
        return self.out(self.network(g, self.linear(x)))


def test_two_hundred_steps_follow_eager_with_flat_memory():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TwoHeads()
    fast = compiled_copy(model)
    g, x = random_graph(100, 500), rows(100, 8, dtype=torch.float32)
    target = torch.sin(3 * x)
    curves = []
    for layer in (model, fast):
        optimizer = torch.optim.Adam(layer.parameters(), 1e-3)
        curve, sizes = [], []
        for _ in range(200):
            optimizer.zero_grad()
            loss = (layer(g, x) - target).square().mean()
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
            sizes.append(resident_bytes())
        curves.append(torch.tensor(curve))
    # Of the compiled run, from the tenth step on; an edge table of a step has 500 * 16 * 4 bytes.
    assert max(sizes[10:]) - sizes[10] <= 100 * 500 * 16 * 4
    assert curves[0][-1] < 0.9 * curves[0][0]
    torch.testing.assert_close(curves[1], curves[0], rtol=1e-3, atol=0)
