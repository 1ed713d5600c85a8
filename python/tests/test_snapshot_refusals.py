"""What no key can hold is refused, with its line and what to write instead."""

import functools
import os
import random
import sys
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

from gossamer.capture.snapshot import snapshot
from programs.snapshots import Layer, edges, line_of, refusal, same, scaled, state

pytestmark = pytest.mark.stored

LOG = []
TABLE = {"k": 1}


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
        functools.lru_cache(bad_print),
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
