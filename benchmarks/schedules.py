"""What the cost model of schedules chooses, beside each choice forced for all kernels.

Choices by which no kernel goes another way are measured as one. Prints one JSON object per case;
run by `bench.py --schedules`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from statistics import median

import torch

from cases import MODES, Case
from contenders import Runner, stepper, timed
from contenders.ours import on_ours
from gossamer import native
from graphs import graph_of
from layers import Workload, workload

# Rounds of a case until it took so long, and how many at least: the more, the less a choice can
# look better than another by chance.
LIMIT_S, LEAST_ROUNDS = 6.0, 9
# A choice's turn takes about so long, and its fastest call counts.
TURN_S, LEAST_CALLS, MOST_CALLS = 0.02, 2, 40

MODEL = "model"
FORCED: dict[str, Callable[[], AbstractContextManager]] = {
    **{
        f"{edges} edges ahead": partial(native.forced_schedule, prefetch=edges)
        for edges in (0, 16, 32, 64, 128)
    },
    "results in the caches": partial(native.forced_schedule, stream=False),
    "results past them": partial(native.forced_schedule, stream=True),
    "whole rows": partial(native.forced_schedule, piece_edges=2**40),
    **{f"variant {number}": partial(native.forced_variant, number) for number in range(2)},
}
CASES = [
    *(Case(layer, "inference", "power-law", 64) for layer in ("gcn", "gat", "gatv2", "edgeconv")),
    *(Case("gcn", "inference", "power-law", size) for size in (16, 100, 256)),
    Case("gat", "inference", "uniform", 64),
    Case("gcn", "inference", "uniform", 128),
    Case("gcn", "inference", "citation", 64),
    Case("gat", "inference", "molecules", 64),
    *(Case("sage", mode, "sampled", 64) for mode in MODES),
    *(Case(layer, "training", "power-law", 64) for layer in ("gcn", "gat")),
]


def forced(name: str) -> AbstractContextManager:
    """While it is open, what the name says is forced."""
    return FORCED.get(name, nullcontext)()


def schedules_of(runner: Runner, work: Workload) -> tuple:
    """How the kernels go over each of the runner's graphs."""
    found = []
    for batch in range(len(runner.runs)):
        stepper(runner, work, batch)()
        report = runner.report()
        found.append((*report.schedules, *report.variants))
    return tuple(found)


def different_choices(runner: Runner, work: Workload) -> dict[str, list[str]]:
    """One name for each way the kernels go, with the names of all choices that go so."""
    ways: dict[tuple, list[str]] = {}
    for name in (MODEL, *FORCED):
        with forced(name):
            ways.setdefault(schedules_of(runner, work), []).append(name)
    return {names[0]: names for names in ways.values()}


def in_turn(names: list[str], step: Callable[[], object]) -> dict[str, float]:
    """Median over rounds in ms of each choice's fastest call; each round begins with another."""
    calls = min(max(int(TURN_S / timed(step)[1]), LEAST_CALLS), MOST_CALLS)
    times: dict[str, list[float]] = {name: [] for name in names}
    start, first = time.perf_counter(), 0
    while first < LEAST_ROUNDS or time.perf_counter() - start < LIMIT_S:
        for i in range(len(names)):
            name = names[(first + i) % len(names)]
            with forced(name):
                times[name].append(1e3 * min(timed(step)[1] for _ in range(calls)))
        first += 1
    return {name: median(found) for name, found in times.items()}


def measure(case: Case) -> dict[str, object]:
    """The model's choice and each forced one, in this process: medians in ms."""
    work = workload(case.layer, graph_of(case.graph), case.features, case.training)
    runner = on_ours(work)
    step = stepper(runner, work)
    for _ in range(3):  # later calls may be other programs
        step()
    ways = different_choices(runner, work)
    medians = in_turn(list(ways), step)
    runner.check()
    found = {name: medians[way] for way, names in ways.items() for name in names if name != MODEL}
    return {"case": asdict(case), "model_ms": medians[MODEL], "forced_ms": found}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for each in CASES:
        print(json.dumps(measure(each)), flush=True)
