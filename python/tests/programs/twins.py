"""A model beside its compiled twin: both must do the same on every one of several calls."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import gossamer as gs
from programs import graphs
from programs.data import Rows, generator
from programs.harness import fields_left, named_outputs
from programs.library import gossamer_library
from programs.measure import assert_outputs

Change = Callable[[Any, int], None]

BY_NAME = {case.name: case for case in graphs.ODD}
NODES = graphs.ODD[0].num_src


def make_graph(case: graphs.GraphCase = graphs.ODD[0]) -> Any:
    """A fresh `gs.Graph`; by default power-law, with isolated nodes and nodes of one in-edge."""
    return case.build(gossamer_library())[0]


def signed(*shape: int, seed: object = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return Rows("x", "src", shape[1:]).draw(shape[0], 0, dtype, "twins", seed)


def parameters(model: nn.Module) -> nn.Module:
    """Float64 parameters that differ from each other and are the same on every machine."""
    model.double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = generator("twins", name).integers(-512, 512, tuple(parameter.shape)) / 512
            parameter.copy_(torch.as_tensor(values))
    return model


def call(model: Any, g: Any, *inputs: Any) -> dict[str, torch.Tensor]:
    """Outputs and fields left of a call without grad; a fallback may warn."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.FallbackWarning)
        out = model(g, *inputs)
    return {**named_outputs(out), **fields_left(g)}


def assert_twins(
    model: Any,
    *inputs: Any,
    calls: int = 3,
    change: Change | None = None,
    case: graphs.GraphCase = graphs.ODD[0],
    **options: Any,
) -> Any:
    """Calls both `calls` times, `change(model, call)` before each; returns the compiled report."""
    twin = copy.deepcopy(model) if isinstance(model, nn.Module) else model
    fast = gs.compile(twin, **options)
    for number in range(calls):
        for owner in (model, twin) if twin is not model else (model,):
            if change is not None:
                change(owner, number)
        assert_outputs(
            call(fast, make_graph(case), *inputs), call(model, make_graph(case), *inputs)
        )
    return gs.explain(fast)


def copy_h(edges):
    return {"m": edges.src["h"]}


def mail_sum(nodes):
    return {"o": nodes.mailbox["m"].sum(1)}


def once(message: Callable[..., Any], reduce: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """A function of (graph, rows) that makes one `update_all` in a local scope."""

    def layer(g, h):
        with g.local_scope():
            g.ndata["h"] = h
            g.update_all(message, reduce)
            return g.ndata["o"]

    return layer


class Model(nn.Module):
    """Float, tensor and parameters on self; subclasses override what they test."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.shift = torch.tensor([0.5, -0.5, 1.0], dtype=torch.float64)
        self.linear = nn.Linear(3, 3)
        parameters(self)

    def message(self, edges):
        return {"m": edges.src["h"] * self.scale + self.shift}

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].sum(1)}

    def forward(self, g, h):
        with g.local_scope():
            g.ndata["h"] = h
            g.update_all(self.message, self.reduce)
            return g.ndata["o"]


H = signed(NODES, 3)
