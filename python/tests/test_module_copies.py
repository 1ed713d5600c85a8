"""Copies of compiled modules: deepcopy, pickle, torch.save, other processes, and checkpoints."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle

import pytest
import torch

import gossamer as gs
from programs.training import (
    AttentionLayer,
    assert_close,
    assert_same_state,
    compiled_copy,
    network,
    random_graph,
    rows,
)

G, X = random_graph(), rows()


def saved_and_loaded(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "save": saved_and_loaded,
}


def step(module):
    module.zero_grad()
    loss = module(G, X).square().sum()
    loss.backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.01 * parameter.grad
    return loss.detach()


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("trained", [0, 3])
def test_a_copy_is_another_model(kind, trained):
    """Before any call, and when programs and gradients exist."""
    model = network()
    fast = compiled_copy(model)
    for _ in range(trained):
        step(fast), step(model)
    twin = COPIES[kind](fast)
    assert type(twin) is type(fast)
    assert isinstance(twin, torch.nn.Module)
    before = [parameter.detach().clone() for parameter in fast.parameters()]
    assert_close(step(twin), step(model))
    assert_same_state(twin, model)
    assert all(map(torch.equal, fast.parameters(), before))
    twin.register_forward_pre_hook(lambda module, args: 1 / 0)
    assert fast(G, X).shape == X.shape
    with pytest.raises(ZeroDivisionError):
        twin(G, X)


class Branches(AttentionLayer):
    """The reducer looks at values, which cannot be compiled."""

    def reduce(self, nodes):
        found = super().reduce(nodes)["o"]
        return {"o": found if float(found.detach().sum()) > 0 else -2 * found}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_keeps_the_options(kind):
    fast = gs.compile(Branches(X.shape[1]).double(), fallback="error")
    with pytest.raises(gs.errors.UnsupportedError):
        COPIES[kind](fast)(G, X)


def test_checkpoints_load_both_ways():
    model = network()
    fast = gs.compile(network(), fallback="error")
    step(fast)
    assert list(model.state_dict()) == list(fast.state_dict())
    model.load_state_dict(fast.state_dict())
    assert_close(model(G, X), fast(G, X))
    step(model)
    assert fast.load_state_dict(model.state_dict()) is not None
    assert_close(fast(G, X), model(G, X))


def _child(module, state, connection):
    torch.set_num_threads(1)
    module.load_state_dict(state)
    loss = step(module)
    connection.send((loss.item(), [parameter.grad.tolist() for parameter in module.parameters()]))


def test_a_spawned_process_trains_a_pickled_module():
    model = network()
    fast = compiled_copy(model)
    step(fast), step(model)
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(fast, fast.state_dict(), send))
    process.start()
    assert receive.poll(60)
    loss, grads = receive.recv()
    process.join()
    assert process.exitcode == 0
    assert_close(torch.tensor(loss, dtype=X.dtype), step(model))
    for mine, parameter in zip(grads, model.parameters(), strict=True):
        assert_close(torch.tensor(mine, dtype=X.dtype), parameter.grad)
