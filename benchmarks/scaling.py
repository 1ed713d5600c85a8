"""The plain sum over neighbours from 10^5 to 10^7 edges, beside the machine's bound for it.

Prints one JSON object per graph; run by `bench.py --scaling`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import median

import torch

import gossamer as gs
from contenders import timed
from contenders.ours import our_graph
from graphs import EdgeList, power_law, uniform
from roofline import ROUNDS as PASSES
from roofline import sum_bound_seconds

EDGES = (100_000, 1_000_000, 10_000_000)
EDGES_PER_NODE = 8
FEATURES = 64
ROUNDS = 7
SHAPES: dict[str, Callable[[int, int], EdgeList]] = {"power-law": power_law, "uniform": uniform}


def neighbour_sum(graph, x):
    """y_v = sum_u x_u: (N, F) to (N, F)."""
    with graph.local_scope():
        graph.ndata["x"] = x
        graph.update_all(
            lambda edges: {"m": edges.src["x"]}, lambda nodes: {"y": nodes.mailbox["m"].sum(1)}
        )
        return graph.ndata["y"]


def measure(shape: str, edges: int) -> dict[str, object]:
    """Kernel and bound on one graph, in turn: medians in ms."""
    graph = SHAPES[shape](edges // EDGES_PER_NODE, edges)
    ours, x = our_graph(graph), torch.randn(graph.num_nodes, FEATURES)
    fast = gs.compile(neighbour_sum, fallback="error")
    times, bounds, gathers = [], [], []
    with torch.no_grad():
        for turn in range(ROUNDS + 1):
            # The best of as many calls as the bound is the best of passes.
            seconds = min(timed(fast, ours, x)[1] for _ in range(PASSES))
            bound, gather = sum_bound_seconds(graph, FEATURES)
            if turn:
                times.append(1e3 * seconds)
                bounds.append(1e3 * bound)
                gathers.append(1e3 * gather)
    return {
        "graph": shape,
        "asked_edges": edges,
        "edges": graph.num_edges,
        "features": FEATURES,
        "ms": median(times),
        "bound_ms": median(bounds),
        "gather_ms": median(gathers),
    }


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for name in SHAPES:
        for size in EDGES:
            print(json.dumps(measure(name, size)), flush=True)
