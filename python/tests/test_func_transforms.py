"""Under torch.func's transforms and dual numbers a compiled model gives what it gives eagerly."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

import gossamer as gs
from programs.training import DTYPE, NODES, WIDTH, assert_close, network, random_graph, rows

G, X = random_graph(), rows()
DIRECTION = torch.randn(NODES, WIDTH, dtype=DTYPE, generator=torch.Generator().manual_seed(5))


def _dual(model):
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(model(G, forward_ad.make_dual(X, DIRECTION)))
        return out.primal, out.tangent


def _frozen_dual(model):
    """Where nothing asks for a gradient, a tangent must not be lost either."""
    return _dual(model.requires_grad_(False))


def _loss(model):
    return lambda x: model(G, x).square().sum()


TRANSFORMS = {
    "dual": _dual,
    "frozen dual": _frozen_dual,
    "jvp": lambda m: torch.func.jvp(lambda x: m(G, x), (X,), (DIRECTION,)),
    "grad": lambda m: torch.func.grad(_loss(m))(X),
    "vmap": lambda m: torch.func.vmap(lambda x: m(G, x))(torch.stack([X, DIRECTION])),
    "hessian": lambda m: torch.func.hessian(_loss(m))(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_goes_through_and_is_reported(name):
    model, fast = network(), gs.compile(network())
    for _ in range(3):  # a later call could be one program
        assert_close(fast(G, X), model(G, X))
    right = TRANSFORMS[name](model)
    with pytest.warns(gs.errors.FallbackWarning, match="is at work"):
        found = TRANSFORMS[name](fast)
    pairs = zip(found, right, strict=True) if isinstance(right, tuple) else [(found, right)]
    for actual, expected in pairs:
        assert_close(actual, expected)
    assert len(gs.explain(fast).fallbacks) == 1


def test_it_is_refused_where_nothing_may_run_eagerly():
    fast = gs.compile(network(), fallback="error")
    with pytest.raises(gs.errors.UnsupportedError, match=r"torch\.func \(vmap\) is at work"):
        TRANSFORMS["vmap"](fast)


def test_parameters_given_to_a_call():
    model = network()
    given = {name: 2 * p.detach() for name, p in model.named_parameters()}
    expected = torch.func.functional_call(model, given, (G, X))
    fast = gs.compile(model, fallback="error")
    for _ in range(3):
        assert_close(torch.func.functional_call(fast, given, (G, X)), expected)
        assert_close(fast(G, X), model(G, X))
