"""What the cost model of schedules chooses, beside each choice forced for all kernels.

Choices by which no kernel goes another way are measured as one. Prints one JSON object per case;
run by `bench.py --schedules`.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from random import Random
from statistics import median

import torch

from cases import MODES, Case
from contenders import Runner, stepper, timed
from contenders.ours import on_ours
from gossamer import native
from graphs import graph_of
from layers import Workload, workload

# Rounds are made until they took so long, and how many at least: those that find the best forced
# choice, and those that compare it.
SCREEN_S, LIMIT_S, LEAST_ROUNDS = 8.0, 6.0, 9
# A choice's turn is one call, or of short ones as many as take so long; its fastest call counts.
TURN_S, MOST_CALLS = 0.02, 40

# Milliseconds of each choice, next to each other in time.
Round = dict[str, float]

MODEL = "model"
FORCED: dict[str, Callable[[], AbstractContextManager]] = {
    **{
        f"{edges} edges ahead": partial(native.forced_schedule, prefetch=edges)
        for edges in (0, 16, 32, 64, 128)
    },
    "results in the caches": partial(native.forced_schedule, stream=False),
    "results past them": partial(native.forced_schedule, stream=True),
    "whole rows": partial(native.forced_schedule, piece_edges=native.WHOLE_ROWS),
    **{f"variant {number}": partial(native.forced_variant, number) for number in range(2)},
}
CASES = [
    *(Case(layer, "inference", "power-law", 64) for layer in ("gcn", "gat", "gatv2", "edgeconv")),
    *(Case("gcn", "inference", "power-law", size) for size in (16, 100, 256)),
    *(Case(layer, "inference", "hub", 64) for layer in ("gcn", "gat")),
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


def rounds_of(names: Sequence[str], step: Callable[[], object], limit_s: float) -> list[Round]:
    """Rounds in which each choice has one turn, in an order of its own."""
    calls = min(max(int(TURN_S / timed(step)[1]), 1), MOST_CALLS)
    order, rounds, start = Random(1), [], time.perf_counter()
    while len(rounds) < LEAST_ROUNDS or time.perf_counter() - start < limit_s:
        found = {}
        for name in order.sample(names, len(names)):
            with forced(name):
                found[name] = 1e3 * min(timed(step)[1] for _ in range(calls))
        rounds.append(found)
    return rounds


def ratios(rounds: Sequence[Round], name: str) -> list[float]:
    """How many times as long as a choice the model's took in each round, sorted."""
    return sorted(found[MODEL] / found[name] for found in rounds)


def median_and_interval(numbers: Sequence[float]) -> tuple[float, float, float]:
    """The median of sorted numbers, and the ends of its 95 % interval by the sign test."""
    middle = (len(numbers) - 1) / 2
    reach = math.sqrt(len(numbers))  # 1.96 of sqrt(n) / 2, the deviation of a fair coin's n tosses
    low, high = max(math.floor(middle - reach), 0), min(math.ceil(middle + reach), len(numbers) - 1)
    return median(numbers), numbers[low], numbers[high]


def measure(case: Case) -> dict[str, object]:
    """The model's choice and each forced one, in this process.

    Rounds of all find the best of those that go another way. It was lucky there, too, so only
    further rounds, of it and the model's choice, compare the two.
    """
    work = workload(case.layer, graph_of(case.graph), case.features, case.training)
    runner = on_ours(work)
    step = stepper(runner, work)
    for _ in range(3):  # later calls may be other programs
        step()
    ways = different_choices(runner, work)
    screened = rounds_of(list(ways), step, SCREEN_S)
    medians = {way: median(found[way] for found in screened) for way in ways}
    forced_ms = {
        name: medians[way] for way, names in ways.items() for name in names if name != MODEL
    }
    others = [way for way in ways if way != MODEL]
    best = max(others, key=lambda way: median(ratios(screened, way)))
    compared = rounds_of([MODEL, best], step, LIMIT_S)
    beside, *interval = median_and_interval(ratios(compared, best))
    runner.check()
    return {
        "case": asdict(case),
        "model_ms": medians[MODEL],
        "forced_ms": forced_ms,
        "best": best,
        "beside_best": beside,
        "interval": interval,
    }


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for each in CASES:
        print(json.dumps(measure(each)), flush=True)
