"""Peak extra memory of one call, measured in a process that did nothing of that size before."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

import gossamer
from cases import Case, graph_for
from contenders import contender, stepper
from graphs import graph_of
from layers import Workload, workload

# Calls after which a module does the same in each.
REHEARSALS = 3


def peak_memory(case: Case, name: str) -> float | None:
    """Megabytes that one call adds to this process at its peak; None where it can't be measured.

    The call is the first one of its size, and what earlier calls keep is given back first. The
    graph's index arrays and compiled code are no part of it: a narrow call on the same graph and
    calls on a tiny graph make them before, by the same module where its first calls differ from
    later ones.
    """
    graph, chosen = graph_of(case.graph), contender(name)
    builder = chosen.builders()[case.layer]

    def made(graph: object, features: int) -> Workload:
        return workload(case.layer, graph, features, case.training)

    def ready(work: Workload) -> Callable[[], object]:
        return stepper(builder(work), work)

    if chosen.by_size:
        step = ready(made(graph, case.features))
        step()
    else:
        tiny = graph_of(graph_for(case.layer, "tiny"))
        rehearsal = made(tiny, case.features)
        ready(made(graph, 4))()
        ready(rehearsal)()
        step = first_step(builder, made(graph, case.features), rehearsal)
    give_back()
    try:
        # Makes the peak that the kernel keeps start from now.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    before = status_megabytes("VmRSS")
    step()
    return round(status_megabytes("VmHWM") - before, 1)


def first_step(builder: Callable, work: Workload, rehearsal: Workload) -> Callable[[], object]:
    """A step of a new runner that has not run on this graph at all."""
    runner = builder(work)
    if runner.elsewhere is not None:
        step = stepper(runner.elsewhere(rehearsal), rehearsal)
        for _ in range(REHEARSALS):
            step()
    return stepper(runner, work)


def give_back() -> None:
    """Gives the system what was freed but is kept for later calls, which would hide their needs."""
    gc.collect()
    gossamer.release_memory()
    ctypes.CDLL(None).malloc_trim(0)


def status_megabytes(name: str) -> float:
    """A field of /proc/self/status in units of 10^6 bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(name)
