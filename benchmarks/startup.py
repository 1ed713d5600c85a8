"""Small graphs and first calls: what a call costs where the kernels cost nothing.

`probes()` runs each probe below in a process of its own, `python startup.py NAME`, which answers
with one JSON object: microseconds of calls on a tiny graph, seconds of first calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

import gossamer as gs
from contenders.models import GAT, GCN
from layers import HEADS

CALLS = 2000
OPERATIONS = (250, 500, 1000)
WIDTHS = (16, 512)


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
    """Seconds of the first step of a two-layer GAT, and programs compiled for another graph."""
    if warm_up:
        gs.warmup()
    fast, x = two_layer_gat(), torch.randn(4, 64)
    start = time.perf_counter()
    fast(small_graph(), x).sum().backward()
    seconds = time.perf_counter() - start
    # Whole mode starts with the second call on a graph; what that compiles is no recompilation.
    for _ in range(2):
        fast(small_graph(), x).sum().backward()
    known = len(gs.explain(fast).programs)
    other = gs.graph((torch.randint(50, (300,)), torch.randint(50, (300,))), num_nodes=50)
    for _ in range(3):
        fast(other, torch.randn(50, 64)).sum().backward()
    return {"seconds": seconds, "recompiled": len(gs.explain(fast).programs) - known}


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
    """Seconds by number of operations and width."""
    gs.warmup()
    return {f"chain_{n}_{width}_s": chain(n, width) for n in OPERATIONS for width in WIDTHS}


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
        return {
            **probe("small", cold),
            "cold_s": first_cold["seconds"],
            "after_warmup_s": first_warm["seconds"],
            "from_disk_s": first_known["seconds"],
            "recompiled": first_cold["recompiled"],
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
