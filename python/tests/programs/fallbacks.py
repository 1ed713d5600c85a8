"""User-defined functions that must run eagerly, alone, and be reported with file, line and reason.

The offending line of each ends with the comment "# here"; `offending_line` finds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from programs.data import src
from programs.harness import FALLS_BACK, Program
from programs.layer import Layer, layer, udf
from programs.small_udfs import U, V, copy, mail_sum

LOG: list[int] = []


def branch_on_value(nodes):
    m = nodes.mailbox["m"]
    if m.mean() > 0:  # here
        return {"o": m.sum(1)}
    return {"o": m.max(1)[0]}


def item(nodes):
    m = nodes.mailbox["m"]
    largest = m.abs().max().item()  # here
    return {"o": m.sum(1) / (1 + largest)}


def prints(nodes):
    m = nodes.mailbox["m"]
    print("bucket", tuple(m.shape[2:]))  # here
    return {"o": m.sum(1)}


def counts(nodes):
    m = nodes.mailbox["m"]
    LOG.append(len(m))  # here
    return {"o": m.sum(1)}


def permutes(nodes):
    m = nodes.mailbox["m"]
    order = torch.randperm(m.shape[1])  # here
    return {"o": m[:, order].sum(1)}


def numpy_round_trip(nodes):
    m = nodes.mailbox["m"]
    rows = torch.from_numpy(m.numpy().cumsum(axis=1))  # here
    return {"o": rows[:, -1]}


def python_loop(nodes):
    m = nodes.mailbox["m"]
    state = torch.zeros_like(m[:, 0])
    for step in range(m.shape[1]):  # here
        state = torch.tanh(m[:, step] + 0.5 * state)
    return {"o": state}


def asserts_on_shape(nodes):
    m = nodes.mailbox["m"]
    assert m.shape[0] * m.shape[1] > 0  # here
    return {"o": m.sum(1)}


def branch_on_degree(nodes):
    m = nodes.mailbox["m"]
    if m.shape[1] == 1:  # here
        return {"o": m[:, 0]}
    return {"o": m.std(1)}


def branch_in_message(edges):
    if edges.src["u"].sum() > 0:  # here
        return {"m": edges.src["u"]}
    return {"m": -edges.src["u"]}


class KeepsState(Layer):
    """Writes to the module from inside the reducer."""

    rows = (U,)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.seen = 0
        self.linear = nn.Linear(feat, feat)

    def message(self, edges):
        return {"m": self.linear(edges.src["u"])}

    def reduce(self, nodes):
        self.seen += 1  # here
        return {"o": nodes.mailbox["m"].sum(1)}


class NestedCall(Layer):
    """Calls the graph from inside a message function."""

    rows = U, V

    def forward(self, g, *inputs):
        def message(edges):
            g.ndata["late"] = torch.ones(g.num_nodes())  # here
            return {"m": edges.src["u"]}

        with g.local_scope():
            g.srcdata["u"], g.dstdata["v"] = inputs
            g.update_all(message, mail_sum)
            return g.dstdata["o"]


@dataclass(frozen=True)
class Site:
    """A program and the function whose "# here" line must be reported."""

    program: Program
    function: Callable[..., object]

    @property
    def file(self) -> str:
        return inspect.getsourcefile(self.function)

    @property
    def line(self) -> int:
        lines, start = inspect.getsourcelines(self.function)
        return start + next(i for i, text in enumerate(lines) if text.rstrip().endswith("# here"))


def _reducer(function: Callable[..., object]) -> Site:
    program = udf(f"fallback-{function.__name__}", copy, function, U, expect=FALLS_BACK)
    return Site(program, function)


SITES = (
    *map(
        _reducer,
        (
            branch_on_value,
            item,
            prints,
            counts,
            permutes,
            numpy_round_trip,
            python_loop,
            asserts_on_shape,
            branch_on_degree,
        ),
    ),
    Site(
        udf(
            "fallback-branch_in_message",
            branch_in_message,
            mail_sum,
            src("u", "F"),
            expect=FALLS_BACK,
        ),
        branch_in_message,
    ),
    Site(layer("fallback-keeps_state", KeepsState, FALLS_BACK), KeepsState.reduce),
    Site(
        layer("fallback-nested_call", NestedCall, FALLS_BACK, kinds=frozenset({"homo"})),
        NestedCall.forward,
    ),
)

PROGRAMS = tuple(site.program for site in SITES)
