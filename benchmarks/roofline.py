"""What the machine allows: measured limits, and the least time of a layer under them."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cases import Case
from contenders import timed
from graphs import EdgeList
from machine import triad_bandwidth

ROUNDS = 3
PREFETCH_ROWS = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Passes:
    """The passes over memory and the products that no implementation of a layer gets around.

    Attributes:
        products: of (N, F) with (F, F). by_dst, by_src: sweeps over all edges that read an F-wide
            row per edge at the source, in the order of destinations, and the other way round.
        tables: (N, F) tables that the sweeps read or write in order.
    """

    products: int
    by_dst: int
    by_src: int
    tables: int


# GAT's backward must read source rows for the scores' gradients and destination rows for the
# sums' gradients; GATv2's must read two destination rows for the latter. EdgeConv's reads the rows
# of the gradient once, wherever the largest came from.
PASSES: dict[tuple[str, str], Passes] = {
    ("gcn", "inference"): Passes(1, 1, 0, 1),
    ("gcn", "training"): Passes(3, 1, 1, 2),
    ("gat", "inference"): Passes(1, 1, 0, 1),
    ("gat", "training"): Passes(3, 2, 1, 3),
    ("gatv2", "inference"): Passes(2, 1, 0, 2),
    ("gatv2", "training"): Passes(6, 2, 2, 6),
    ("edgeconv", "inference"): Passes(2, 1, 0, 2),
    ("edgeconv", "training"): Passes(6, 1, 1, 5),
}


def least_ms(case: Case, graph: EdgeList) -> float | None:
    """The least time of a case here and now in ms; None for layers without an entry."""
    passes = PASSES.get((case.layer, case.mode))
    if passes is None:
        return None
    stream = 1e9 * triad_bandwidth()
    table_s = 4.0 * graph.num_nodes * case.features / stream
    product_s = max(2.0 * graph.num_nodes * case.features**2 / product_peak(), 2 * table_s)
    found = passes.products * product_s + passes.tables * table_s
    for sweeps, rows, read in (
        (passes.by_dst, graph.dst, graph.src),
        (passes.by_src, graph.src, graph.dst),
    ):
        if sweeps:
            gather_s = gather_seconds(rows, read, graph.num_nodes, case.features)
            found += sweeps * (gather_s + 4.0 * graph.num_edges / stream)
    return 1e3 * found


def sum_bound_seconds(graph: EdgeList, features: int) -> tuple[float, float]:
    """The least time of y_v = sum_u x_u, and the part of it that gathers; seconds."""
    gather_s = gather_seconds(graph.dst, graph.src, graph.num_nodes, features)
    streamed = 4.0 * (graph.num_nodes * features + graph.num_edges + graph.num_nodes)
    memory_s = gather_s + streamed / (1e9 * triad_bandwidth())
    return max(memory_s, graph.num_edges * features / product_peak()), gather_s


def gather_seconds(rows: Tensor, read: Tensor, num_nodes: int, width: int) -> float:
    """Seconds to read rows `read` of an (N, width) table, in the order of `rows`; the best found.

    The index is that of the graph itself, so popular rows are as near as they are for a kernel.
    """
    index = read[torch.argsort(rows, stable=True)].int()
    table = torch.ones(num_nodes, width)
    threads = torch.get_num_threads()
    sink = torch.zeros(threads)
    pointers = (ctypes.c_void_p(t.data_ptr()) for t in (table, index))
    table_at, index_at = pointers
    return min(
        gather_library().gatherSeconds(
            table_at, index_at, len(index), width, threads, ahead, ctypes.c_void_p(sink.data_ptr())
        )
        for _ in range(ROUNDS)
        for ahead in PREFETCH_ROWS
    )


@functools.cache
def gather_library() -> ctypes.CDLL:
    """gather.cpp, compiled for this machine."""
    source = Path(__file__).with_name("gather.cpp")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "gather.so"
        flags = ["-O3", "-march=native", "-ffast-math", "-std=c++20", "-shared", "-fPIC"]
        subprocess.run(["g++", *flags, source, "-o", built, "-pthread"], check=True)
        library = ctypes.CDLL(str(built))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.gatherSeconds.argtypes = [pointer, pointer, *[number] * 4, pointer]
    library.gatherSeconds.restype = ctypes.c_double
    return library


@functools.cache
def product_peak(size: int = 1024) -> float:
    """Floating point operations per second of torch's product of large square matrices."""
    a, b = torch.ones(size, size), torch.ones(size, size)
    out = torch.empty(size, size)
    best = min(timed(lambda: torch.mm(a, b, out=out))[1] for _ in range(ROUNDS))
    return 2.0 * size**3 / best
