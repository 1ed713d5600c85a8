"""Measures one case in this process: all contenders in turn; or the memory of one.

Run by `bench.py`, in a process for each case, so that nothing is left over from other cases and
the environment (huge pages) can differ.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from cases import Case
from contenders import Runner, contender, timed
from graphs import GRAPHS
from layers import Workload, cotangents, reference_of, workload
from roofline import least_ms

# The state measure: per tensor max|a - ref| / max|ref| from float64 may be this much, or this many
# times what the reference loses in float32 (a maximum whose largest two are nearly equal may pick
# another edge).
TOLERANCE, OWN_FACTOR, OWN_SLACK = 1e-5, 4.0, 1e-6
# A call that takes longer is made once: its time is that of the call that was compared. Of a case
# that is measured quickly, and of others.
QUICK_SLOW_S, SLOW_S = 3.0, 8.0
# What compiles nothing and takes longer was warmed up by that call.
WARM_S = 1.0
# Who takes less time is called so many times in its turn.
SHORT_S, CALLS_PER_TURN = 0.2, 3
# Calls after which a module does the same in each.
REHEARSALS = 3

Output = tuple[list[Tensor], dict[str, Tensor]]


@dataclass(frozen=True)
class Row:
    """One contender on one case: median and all times in ms, peak extra memory in MB.

    Attributes:
        first_ms: the call that was compared, in which things may be compiled.
        errors: of each output and gradient. convert_ms: making the graph's format, once.
        thp_ms: the median with huge pages. once: only one call was made.
        problem: why there are no times, or None.
    """

    contender: str
    median_ms: float | None = None
    all_ms: tuple[float, ...] = ()
    once: bool = False
    peak_mb: float | None = None
    thp_ms: float | None = None
    convert_ms: float | None = None
    first_ms: float | None = None
    errors: Mapping[str, float] = field(default_factory=dict)
    problem: str | None = None


def relative_error(found: Tensor, reference: Tensor) -> float:
    """The largest difference over the largest value of the reference; infinite for NaN."""
    if found.shape != reference.shape:
        return float("inf")
    scale = float(reference.abs().max()) or 1.0
    error = float((found.double() - reference).abs().max()) / scale
    return error if error == error else float("inf")


def errors_of(found: Output, reference: Output) -> dict[str, float]:
    """The error of each output and gradient, by name."""
    outputs, gradients = reference
    errors = {
        f"output {i}" if i else "output": relative_error(y, expected)
        for i, (y, expected) in enumerate(zip(found[0], outputs, strict=True))
    }
    for name, expected in gradients.items():
        errors[f"gradient of {name}"] = relative_error(found[1][name], expected)
    return errors


def allowed(own: Mapping[str, float]) -> dict[str, float]:
    """The largest error that a contender may have, from what the reference has in float32."""
    return {name: max(TOLERANCE, OWN_FACTOR * e + OWN_SLACK) for name, e in own.items()}


def stepper(runner: Runner, case: Case) -> Callable[[], list[Tensor]]:
    """What runs the case once: the forwards without gradients, or with the backward of each."""

    def infer() -> list[Tensor]:
        with torch.no_grad():
            return [run() for run in runner.runs]

    if not case.training:
        return infer
    pulls = cotangents(infer())

    def step() -> list[Tensor]:
        for leaf in runner.leaves:
            leaf.grad = None
        outputs = []
        for run, pull in zip(runner.runs, pulls, strict=True):
            y = run()
            y.backward(pull)
            outputs.append(y.detach())
        return outputs

    return step


def references(case: Case) -> tuple[Output, dict[str, float]]:
    """Outputs and gradients in float64, and the errors that are allowed from them."""
    graph = GRAPHS[case.graph]()
    exact, rounded = (
        reference_of(workload(case.layer, graph, case.features, case.training, dtype))
        for dtype in (torch.float64, torch.float32)
    )
    return exact, allowed(errors_of(rounded, exact))


def prepare(
    case: Case,
    name: str,
    expected: Output,
    bounds: Mapping[str, float],
    slow_s: float = SLOW_S,
):
    """The first call of a contender, compared: its row so far and, unless it is out, its step."""
    work = workload(case.layer, GRAPHS[case.graph](), case.features, case.training)
    builder = contender(name).builders().get(case.layer)
    if builder is None:
        return Row(name, problem="not expressible"), None
    try:
        runner = builder(work)
        step = stepper(runner, case)
        outputs, seconds = timed(step)
        runner.check()
    except Exception as error:
        traceback.print_exc()
        return Row(name, problem=f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"), None
    found = outputs, runner.gradients() if case.training else {}
    row = Row(
        name,
        convert_ms=1e3 * runner.convert_s,
        first_ms=1e3 * seconds,
        errors=errors_of(found, expected),
    )
    wrong = [key for key, error in row.errors.items() if error > bounds[key]]
    if wrong:
        worst = max(wrong, key=row.errors.get)
        return replace(row, problem=f"differs: {worst} by {row.errors[worst]:.1e}"), None
    # What compiles in its first call has not shown yet what a call takes.
    if seconds > slow_s and not contender(name).by_size:
        found_ms = 1e3 * seconds
        return replace(row, median_ms=found_ms, all_ms=(found_ms,), once=True), None
    return row, step


def take_turns(
    steps: Mapping[str, Callable[[], object]],
    rounds: int,
    limit_s: float,
    warm: Container[str] = (),
) -> dict[str, list[float]]:
    """Milliseconds of each call: all take turns, `rounds` times but no new round after `limit_s`,
    after one call of each that is not `warm`. Each round starts with another one, so that none
    always runs in what the same other has left in caches and heap, and short calls are made several
    times.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + limit_s
    for turn in range(rounds + 1):
        if turn > 1 and time.perf_counter() > end:
            break
        names = list(steps)
        first = turn % len(names) if names else 0
        for name in names[first:] + names[:first]:
            if not turn and name in warm:
                continue
            for _ in range(CALLS_PER_TURN):
                gc.collect()
                seconds = timed(steps[name])[1]
                if turn:
                    times[name].append(1e3 * seconds)
                if seconds > SHORT_S:
                    break
    return times


def measure(
    case: Case, names: list[str], rounds: int, limit_s: float, slow_s: float
) -> dict[str, object]:
    """All contenders on one case: compares, then times; with the machine's bound."""
    print(f"{case.title}: reference", file=sys.stderr, flush=True)
    expected, bounds = references(case)
    rows, steps = {}, {}
    for name in names:
        print(f"{case.title}: comparing {name}", file=sys.stderr, flush=True)
        rows[name], step = prepare(case, name, expected, bounds, slow_s)
        if step is not None:
            steps[name] = step
    del expected
    print(f"{case.title}: timing", file=sys.stderr, flush=True)
    warm = {n for n in steps if rows[n].first_ms > 1e3 * WARM_S and not contender(n).compiles}
    for name, found in take_turns(steps, rounds, limit_s, warm).items():
        rows[name] = replace(rows[name], median_ms=median(found), all_ms=tuple(found))
    del steps
    bound = least_ms(case, GRAPHS[case.graph]())
    return {"rows": [asdict(row) for row in rows.values()], "bound_ms": bound}


# --- memory --------------------------------------------------------------------------------------


def peak_memory(case: Case, name: str) -> float | None:
    """Megabytes that one call adds to this process at its peak; None where it can't be measured.

    The call is the first one of its size, so memory kept from earlier calls does not hide any. The
    graph's index arrays and compiled code are no part of it: a narrow call on the same graph and
    calls on a tiny graph make them before, by the same module where its first calls differ from
    later ones.
    """
    graph, chosen = GRAPHS[case.graph](), contender(name)
    tiny = "tiny-sampled" if case.graph.endswith("sampled") else "tiny"
    builder = chosen.builders()[case.layer]

    def steps(graph: object, features: int) -> Callable[[], object]:
        return stepper(builder(workload(case.layer, graph, features, case.training)), case)

    if chosen.by_size:
        step = steps(graph, case.features)
        step()
    else:
        steps(graph, 4)()
        rehearsal = workload(case.layer, GRAPHS[tiny](), case.features, case.training)
        stepper(builder(rehearsal), case)()
        step = first_call(case, builder, graph, rehearsal)
    gc.collect()
    try:
        # Makes the peak that the kernel keeps start from now.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    before = status_megabytes("VmRSS")
    step()
    return round(status_megabytes("VmHWM") - before, 1)


def first_call(case: Case, builder, graph, rehearsal: Workload) -> Callable[[], object]:
    """A step of a new runner that has not run on this graph at all, not even to learn the shape of
    outputs.
    """
    runner = builder(workload(case.layer, graph, case.features, case.training))
    if runner.elsewhere is not None:
        step = stepper(runner.elsewhere(rehearsal), case)
        for _ in range(REHEARSALS):
            step()
    if not case.training:
        return stepper(runner, case)
    blocks = graph.blocks if hasattr(graph, "blocks") else [[graph]]
    pulls = [torch.ones(found[-1].num_rows, case.features) for found in blocks]

    def step() -> None:
        for run, pull in zip(runner.runs, pulls, strict=True):
            run().backward(pull)

    return step


def status_megabytes(name: str) -> float:
    """A field of /proc/self/status in units of 10^6 bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(name)


# --- processes -----------------------------------------------------------------------------------


def in_process(request: Mapping[str, object], env: Mapping[str, str], limit_s: float):
    """What `main` answers to a request in a process of its own; None when it fails or is slow."""
    command = [sys.executable, __file__, json.dumps(request)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, env=env, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main() -> None:
    """Answers one request, given as JSON, with JSON on the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", type=json.loads)
    request = parser.parse_args().request
    warnings.simplefilter("ignore")
    torch.set_num_threads(request["threads"])
    case = Case(**request["case"])
    if "memory" in request:
        print(json.dumps(peak_memory(case, request["memory"])))
        return
    how = (request[key] for key in ("contenders", "rounds", "limit_s", "slow_s"))
    print(json.dumps(measure(case, *how)))


if __name__ == "__main__":
    main()
