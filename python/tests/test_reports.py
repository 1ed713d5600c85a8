"""The facts of public reports hold eagerly and compiled."""

from __future__ import annotations

import inspect

import pytest
import torch

import gossamer as gs
from programs.twins import copy_h, mail_sum, make_graph, once, signed
from reports import values, writing


def _facts(module):
    return [
        fact
        for name, fact in vars(module).items()
        if inspect.isfunction(fact) and fact.__module__ == module.__name__ and name[0] != "_"
    ]


FACTS = _facts(values) + _facts(writing)


@pytest.mark.filterwarnings("ignore::gossamer.errors.FallbackWarning")
@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_eager(fact):
    with torch.no_grad():
        fact(lambda model: model)


@pytest.mark.filterwarnings("ignore::gossamer.errors.FallbackWarning")
@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_compiled(fact):
    with torch.no_grad():
        fact(gs.compile)


@pytest.mark.parametrize(
    "reduce",
    [
        mail_sum,
        lambda nodes: {"o": nodes.mailbox["m"].max(1)[0]},
        lambda nodes: {"o": nodes.mailbox["m"].mean(1)},
    ],
    ids=["sum", "max", "mean"],
)
def test_code_for_this_machine_and_for_any(reduce):
    """L4: the same numbers within rounding at every instruction level."""
    h, layer = signed(40, 37, dtype=torch.float32), once(copy_h, reduce)
    expected = layer(make_graph(), h)
    for target in ("host", "generic"):
        fast = gs.compile(layer, target=target, fallback="error")
        torch.testing.assert_close(fast(make_graph(), h), expected, rtol=1e-5, atol=1e-5)
