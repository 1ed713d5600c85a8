"""Who is measured, by name, in the order of the table.

A contender has a file here with a table `BUILDERS` from layer name to a function of a `Workload`
that returns a `Runner`; a layer that is missing there can't be said with its means.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gossamer.compiler import OPTIONAL_PASSES
from graphs import EdgeList
from layers import LAYERS, Workload, cotangents


@dataclass(frozen=True)
class Runner:
    """A layer, set up.

    Attributes:
        runs: what computes the output; one for each mini-batch.
        leaves: the tensors that get gradients.
        gradients: reads them, by the workload's names and in its shapes.
        check: raises when the last call did not take the path that the contender stands for.
        convert_s: seconds that making the graph's format takes; 0 where each call does it.
        elsewhere: the same module on another workload, to make its first calls there.
        report: what Gossamer did in the last calls; None for others.
    """

    runs: Sequence[Callable[[], Tensor]]
    leaves: Sequence[Tensor]
    gradients: Callable[[], dict[str, Tensor]]
    check: Callable[[], None] = field(default=lambda: None)
    convert_s: float = 0.0
    elsewhere: Callable[[Workload], Runner] | None = None
    report: Callable[[], Any] | None = None


Builder = Callable[[Workload], Runner]
# How often a graph's format is made, to know what that takes.
CONVERSIONS = 3


@dataclass(frozen=True)
class Contender:
    """A way to run layers.

    Attributes:
        title: its name in the table.
        module: the file of this folder.
        requires: the package that must be installed.
        table: the name of its table of builders.
        by_size: it compiles for one size, so only a call of that size warms it up.
        without: an optional pass of Gossamer's compiler that is left out.
        only: the one layer that it is another way for; empty for any.
    """

    title: str
    module: str
    requires: str
    table: str = "BUILDERS"
    by_size: bool = False
    without: str = ""
    only: str = ""

    @property
    def compiles(self) -> bool:
        """Whether its first calls compile something."""
        return self.by_size or self.module == "ours"

    @property
    def installed(self) -> bool:
        """Whether it can run here."""
        return importlib.util.find_spec(self.requires) is not None

    def builders(self) -> Mapping[str, Builder]:
        """What it can run; imports the packages it needs."""
        table = getattr(importlib.import_module(f"contenders.{self.module}"), self.table)
        if not self.without:
            return table
        return {
            layer: functools.partial(build, without=(self.without,))
            for layer, build in table.items()
        }


CONTENDERS: dict[str, Contender] = {
    "dgl-udf": Contender("DGL UDF", "dgl_udf", "dgl"),
    "dgl": Contender("DGL built-ins", "dgl_builtins", "dgl"),
    "pyg": Contender("PyG", "pyg", "torch_geometric"),
    "pyg-fast-rgcn": Contender(
        "PyG FastRGCNConv", "pyg", "torch_geometric", "FAST_RELATIONS", only="rgcn"
    ),
    "pyg-edge-index": Contender("PyG EdgeIndex", "pyg_edge_index", "torch_geometric"),
    "pyg-sparse": Contender("PyG torch_sparse", "pyg_sparse", "torch_sparse"),
    "pyg-dynamic": Contender(
        "PyG compiled, dynamic", "pyg_compiled", "torch_geometric", "DYNAMIC", by_size=True
    ),
    "pyg-static": Contender(
        "PyG compiled, static", "pyg_compiled", "torch_geometric", "STATIC", by_size=True
    ),
    "torch-csr": Contender("torch.sparse CSR", "torch_csr", "torch"),
    "gossamer-dgl": Contender("Gossamer on DGL", "ours", "dgl", "ON_DGL"),
    "gossamer": Contender("Gossamer", "ours", "gossamer"),
}
OURS = "gossamer"
# Each optional pass left out in turn, to see what it brings.
ABLATIONS: dict[str, Contender] = {
    f"without-{name}": Contender(f"without {name}", "ours", "gossamer", without=name)
    for name in OPTIONAL_PASSES
}


def contender(name: str) -> Contender:
    """By its name in either table."""
    return CONTENDERS.get(name) or ABLATIONS[name]


def timed(make: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What `make` returns, and the seconds it took."""
    start = time.perf_counter()
    made = make(*arguments)
    return made, time.perf_counter() - start


def converted(make: Callable[[EdgeList], Any], graph: EdgeList) -> tuple[Any, float]:
    """A graph in a contender's format, and the seconds that making it takes: a median."""
    found = [timed(make, graph) for _ in range(CONVERSIONS)]
    return found[-1][0], statistics.median(seconds for _, seconds in found)


def graphs_by_call(
    work: Workload,
    make_graph: Callable[[EdgeList], Any],
    make_blocks: Callable[[tuple[EdgeList, ...]], Any],
) -> tuple[list[Callable[[], Any]], float]:
    """What gives the graph of each call, and the seconds of making it beforehand.

    The blocks of a mini-batch are made in the call.
    """
    if LAYERS[work.layer].on_blocks:
        return [lambda blocks=blocks: make_blocks(blocks) for blocks in work.graph.blocks], 0.0
    graph, seconds = converted(make_graph, work.graph)
    return [lambda: graph], seconds


def stepper(runner: Runner, work: Workload, batch: int | None = None) -> Callable[[], list[Tensor]]:
    """What runs a workload once: the forwards without gradients, or with the backward of each; or
    only one of its mini-batches.
    """
    chosen = slice(batch, None if batch is None else batch + 1)
    runs = runner.runs[chosen]

    def infer() -> list[Tensor]:
        with torch.no_grad():
            return [run() for run in runs]

    if not work.training:
        return infer
    pulls = cotangents(work)[chosen]

    def step() -> list[Tensor]:
        for leaf in runner.leaves:
            leaf.grad = None
        outputs = []
        for run, pull in zip(runs, pulls, strict=True):
            y = run()
            y.backward(pull)
            outputs.append(y.detach())
        return outputs

    return step


def direct(work: Workload, runs: Sequence[Callable[[], Tensor]], **rest: Any) -> Runner:
    """A runner that reads the workload's own tensors."""
    leaves = work.leaves()

    def gradients() -> dict[str, Tensor]:
        return {name: leaf.grad for name, leaf in leaves.items()}

    return Runner(runs, tuple(leaves.values()), gradients, **rest)


def of_module(
    work: Workload,
    parameters: Mapping[str, tuple[Tensor, Tensor]],
    gradients: Callable[[Mapping[str, Tensor]], dict[str, Tensor]],
    runs: Sequence[Callable[[], Tensor]],
    **rest: Any,
) -> Runner:
    """A runner of a module that keeps its weights in its own layout.

    Args:
        parameters: the module's parameters, by name, with the values they are given.
        gradients: from the parameters' gradients to those of the workload's weights.
    """
    for parameter, value in parameters.values():
        parameter.data = value.detach().reshape(parameter.shape).contiguous()
    inputs = {name: leaf for name, leaf in work.leaves().items() if name not in work.weights}

    def read() -> dict[str, Tensor]:
        own = gradients({name: parameter.grad for name, (parameter, _) in parameters.items()})
        return {**{name: leaf.grad for name, leaf in inputs.items()}, **own}

    leaves = [*inputs.values(), *(parameter for parameter, _ in parameters.values())]
    return Runner(runs, leaves, read, **rest)
