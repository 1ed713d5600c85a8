"""Small graphs and first calls: what a call costs where the kernels cost nothing.

`probes()` runs each probe below in a process of its own, `python startup.py NAME`, which answers
with one JSON object: microseconds of calls on a tiny graph, seconds of first calls.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

import gossamer as gs
from contenders.models import GAT, GCN, SAGE
from layers import HEADS, LAYERS

CALLS = 2000
OPERATIONS = (250, 500, 1000)
WIDTHS = (16, 512)
SAGE_WEIGHTS = LAYERS["sage"].weights(8)


class Stack(nn.Module):
    """Layers one after another, relu between them."""

    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, graph, x: Tensor) -> Tensor:
        """(N, F) to (N, F)."""
        for i, layer in enumerate(self.layers):
            x = layer(graph, functional.relu(x) if i else x)
        return x


def small_graph() -> gs.Graph:
    """Four nodes on a ring, with self loops."""
    return gs.graph(([0, 1, 2, 3, 0, 1, 2, 3], [1, 2, 3, 0, 0, 1, 2, 3]))


def call_us(call: Callable[[], object]) -> float:
    """Microseconds of a call, the median of many after some to warm up."""
    times = []
    for i in range(CALLS + 200):
        start = time.perf_counter()
        call()
        if i >= 200:
            times.append(1e6 * (time.perf_counter() - start))
    return median(times)


def small() -> dict[str, float]:
    """GCN on four nodes with eight features."""
    graph, x = small_graph(), torch.randn(4, 8)
    one = gs.compile(GCN(torch.randn(8, 8)), fallback="error")
    three = gs.compile(Stack(*(GCN(torch.randn(8, 8)) for _ in range(3))), fallback="error")
    with torch.no_grad():
        found = {"small_us": call_us(lambda: one(graph, x))}
        found["small_three_us"] = call_us(lambda: three(graph, x))
    found["small_training_us"] = call_us(lambda: one(graph, x).sum().backward())
    return found


def two_layer_gat() -> nn.Module:
    """Two GAT layers of 64 features."""
    width = 64 // HEADS
    weights = [(torch.randn(64, 64), *torch.randn(2, HEADS, width)) for _ in range(2)]
    return gs.compile(Stack(*(GAT(*found) for found in weights)), fallback="error")


def first(warm_up: bool) -> dict[str, float]:
    """Seconds of the first step of a two-layer GAT; what that loaded of the compiler; programs
    compiled for another graph and for other blocks.
    """
    if warm_up:
        gs.warmup()
    fast, x = two_layer_gat(), torch.randn(4, 64)
    start = time.perf_counter()
    fast(small_graph(), x).sum().backward()
    seconds, traced = time.perf_counter() - start, len(compiler_parts())
    graphs = [small_graph(), random_graph(50, 300)]
    layers = [
        lambda graph=graph: fast(graph, torch.randn(graph.num_nodes(), 64)) for graph in graphs
    ]
    sage = gs.compile(
        SAGE(**{name: torch.randn(shape) for name, shape in SAGE_WEIGHTS.items()}), fallback="error"
    )
    blocks = [random_blocks(20, 8, 4), random_blocks(60, 30, 10)]
    batches = [lambda b=b: sage(b, torch.randn(b[0].num_src_nodes(), 8)) for b in blocks]
    return {
        "seconds": seconds,
        "traced": traced,
        "recompiled": recompiled(fast, layers),
        "recompiled_blocks": recompiled(sage, batches),
    }


def compiler_parts() -> list[str]:
    """The parts of tracer and compiler that are in this process."""
    maps = Path("/proc/self/maps").read_text()
    libraries = [name for name in ("gossamer_compiler", "libLLVM") if name in maps]
    modules = ("gossamer.capture.tracer", "gossamer.emit.lower", "torch._dynamo")
    return [*libraries, *(name for name in modules if name in sys.modules)]


def recompiled(fast: nn.Module, calls: list[Callable[[], Tensor]]) -> int:
    """Programs that training on a second structure adds to those of the first."""
    known = []
    for call in calls:
        # Whole mode starts with the second call on a graph; what that compiles counts for it.
        for _ in range(3):
            call().sum().backward()
        known.append(len(gs.explain(fast).programs))
    return known[1] - known[0]


def random_graph(nodes: int, edges: int) -> gs.Graph:
    """Edges between random nodes."""
    return gs.graph(tuple(torch.randint(nodes, (2, edges))), num_nodes=nodes)


def random_blocks(*sizes: int) -> list[gs.Graph]:
    """Blocks from each number of nodes to the next, with four edges for each destination."""
    return [
        gs.create_block(
            (torch.randint(inputs, (4 * rows,)), torch.arange(rows).repeat(4)),
            num_src_nodes=inputs,
            num_dst_nodes=rows,
        )
        for inputs, rows in itertools.pairwise(sizes)
    ]


def chain(operations: int, width: int) -> float:
    """Seconds of the first call of a message with so many operations, imports paid before."""

    def message(edges):
        m = edges.src["x"]
        for i in range(operations // 2):
            m = (m * edges.dst["x"]) if i % 2 else m.abs()
            m = m + edges.src["x"]
        return {"m": m}

    def layer(graph, x):
        with graph.local_scope():
            graph.ndata["x"] = x
            graph.update_all(message, lambda nodes: {"y": nodes.mailbox["m"].sum(1)})
            return graph.ndata["y"]

    start = time.perf_counter()
    with torch.no_grad():
        gs.compile(layer, fallback="error")(small_graph(), torch.randn(4, width))
    return time.perf_counter() - start


def chains() -> dict[str, float]:
    """Seconds by number of operations and width, and how they grow with either."""
    gs.warmup()
    times = {(n, width): chain(n, width) for n in OPERATIONS for width in WIDTHS}
    (few, *_, many), (narrow, wide) = OPERATIONS, WIDTHS
    return {
        **{f"chain_{n}_{width}_s": seconds for (n, width), seconds in times.items()},
        "chain_growth": times[many, wide] / times[few, wide],
        "chain_width": times[many, wide] / times[many, narrow],
    }


def probe(name: str, cache: str) -> dict[str, float]:
    """The answer of a probe that keeps compiled programs in the folder `cache`."""
    env = {**os.environ, "XDG_CACHE_HOME": cache}
    done = subprocess.run(
        [sys.executable, __file__, name], stdout=subprocess.PIPE, env=env, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def probes() -> dict[str, float]:
    """All of them, by the names that `bars.STARTUP` has limits for."""
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as other:
        first_cold, first_known = probe("first", cold), probe("first", cold)
        first_warm = probe("first-after-warmup", other)
        assert first_cold["traced"], "a first call without the tracer: nothing was compiled"
        return {
            **probe("small", cold),
            "cold_s": first_cold["seconds"],
            "after_warmup_s": first_warm["seconds"],
            "from_disk_s": first_known["seconds"],
            "from_disk_traced": first_known["traced"],
            "recompiled": first_cold["recompiled"],
            "recompiled_blocks": first_cold["recompiled_blocks"],
            **probe("chains", other),
        }


PROBES: dict[str, Callable[[], dict[str, float]]] = {
    "small": small,
    "first": lambda: first(warm_up=False),
    "first-after-warmup": lambda: first(warm_up=True),
    "chains": chains,
}

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]]()))
