"""The key of a UDF changes whenever its behaviour could, and only then."""

import builtins
import functools
import gc
import math
import types
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gossamer.capture.snapshot import snapshot
from programs.snapshots import (
    Layer,
    same,
    scaled,
    state,
    tensors,
)

pytestmark = pytest.mark.stored

ALPHA = 2
BETA = 0.5
WEIGHT = torch.randn(3)
config = types.ModuleType("config")
config.ALPHA = 3
config.BETA = 0.25


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
