"""Times contenders in turn, and the memory of one in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from contenders import CONTENDERS
from graphs import GRAPHS
from layers import LAYERS, Workload

# Largest difference over largest value that two float32 implementations may have.
TOLERANCE = 1e-4


def relative_error(found: Tensor, reference: Tensor) -> float:
    """The largest difference over the largest value of the reference; infinite for NaN."""
    if found.shape != reference.shape:
        return float("inf")
    error = float((found - reference).abs().max() / reference.abs().max())
    return error if error == error else float("inf")


def build(contender: str, work: Workload) -> Callable[[], Tensor] | None:
    """What runs the workload once without gradients; None when the contender does not have it."""
    builder = CONTENDERS[contender].builders().get(work.layer)
    if builder is None:
        return None
    run = builder(work)

    def without_gradients() -> Tensor:
        with torch.no_grad():
            return run()

    return without_gradients


def median_times(runs: Mapping[str, Callable[[], Tensor]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each call, median first: all take turns, after one call to warm up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: [median(found), *found] for name, found in times.items()}


def peak_memory(contender: str, layer: str, graph: str, features: int) -> float | None:
    """Peak extra memory of one call in MB, in a fresh process; None where it can't be measured."""
    command = [sys.executable, __file__, contender, layer, graph, str(features)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(shown.splitlines()[-1])


def call_memory(contender: str, layer: str, graph: str, features: int) -> float | None:
    """What `peak_memory` runs: megabytes that one call adds to this process at its peak.

    The call is the first one of its size, so memory kept from earlier calls does not hide any. The
    graph's index arrays and compiled code are no part of it: a narrow call on the same graph and a
    call on a tiny graph make them before.
    """
    edges = GRAPHS[graph]()
    build_on = LAYERS[layer]
    for warm_up in (build_on(edges, 4), build_on(GRAPHS["tiny"](), features)):
        build(contender, warm_up)()
    run = build(contender, build_on(edges, features))
    try:
        # Makes the peak that the kernel keeps start from now.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    before = status_megabytes("VmRSS")
    run()
    return round(status_megabytes("VmHWM") - before, 1)


def status_megabytes(field: str) -> float:
    """A field of /proc/self/status in units of 10^6 bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(field)


if __name__ == "__main__":
    name, layer_name, graph_name, width = sys.argv[1:]
    print(json.dumps(call_memory(name, layer_name, graph_name, int(width))))
