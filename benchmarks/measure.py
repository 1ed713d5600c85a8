"""Measures one case in this process: all contenders in turn, or the memory or threads of one.

Run by `bench.py`, in a process for each case, so that nothing is left over from other cases and
the environment (huge pages) can differ.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

import torch

from cases import Case
from contenders import OURS, contender, stepper, timed
from graphs import graph_of
from layers import workload
from memory import peak_memory
from references import Output, errors_of, keep, load
from roofline import least_ms

# A call that takes longer is made once: its time is that of the call that was compared. Of a case
# that is measured quickly, and of others.
QUICK_SLOW_S, SLOW_S = 3.0, 8.0
# What compiles nothing and takes longer was warmed up by that call.
WARM_S = 1.0
# Who takes less time is called so many times in its turn.
SHORT_S, CALLS_PER_TURN = 0.2, 3


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


def prepare(
    case: Case,
    name: str,
    expected: Output,
    bounds: Mapping[str, float],
    slow_s: float = SLOW_S,
):
    """The first call of a contender, compared: its row so far and, unless it is out, its step."""
    work = workload(case.layer, graph_of(case.graph), case.features, case.training)
    builder = contender(name).builders().get(case.layer)
    if builder is None:
        return Row(name, problem="not expressible"), None
    try:
        runner = builder(work)
        step = stepper(runner, work)
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
    # What is there stays: collections between calls need not look at it.
    gc.collect()
    gc.freeze()
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
    gc.unfreeze()
    return times


def measure(
    case: Case,
    names: Sequence[str],
    kept: Path,
    rounds: int,
    limit_s: float,
    slow_s: float,
) -> dict[str, object]:
    """All contenders on one case, compared with the references in the file `kept`, then timed; with
    the machine's bound, the better of before and after.
    """
    least = [least_ms(case, graph_of(case.graph))]
    expected, bounds = load(kept, case)
    rows, steps = {}, {}
    for name in names:
        say(f"{case.title}: comparing {name}")
        rows[name], step = prepare(case, name, expected, bounds, slow_s)
        if step is not None:
            steps[name] = step
    del expected
    say(f"{case.title}: timing")
    warm = {n for n in steps if rows[n].first_ms > 1e3 * WARM_S and not contender(n).compiles}
    for name, found in take_turns(steps, rounds, limit_s, warm).items():
        rows[name] = replace(rows[name], median_ms=median(found), all_ms=tuple(found))
    del steps
    least.append(least_ms(case, graph_of(case.graph)))
    bound = None if None in least else min(least)
    return {"rows": [asdict(row) for row in rows.values()], "bound_ms": bound}


def by_threads(case: Case, counts: Sequence[int], rounds: int) -> dict[str, float]:
    """Milliseconds of Gossamer by number of threads, in turn; all give the same bits."""
    work = workload(case.layer, graph_of(case.graph), case.features, case.training)
    step = stepper(contender(OURS).builders()[case.layer](work), work)

    def with_threads(count: int) -> list[torch.Tensor]:
        torch.set_num_threads(count)
        return step()

    steps = {str(count): functools.partial(with_threads, count) for count in counts}
    step()  # the second call may be another program
    first, *others = (with_threads(count) for count in counts)
    assert all(torch.equal(*pair) for other in others for pair in zip(first, other, strict=True))
    return {name: median(times) for name, times in take_turns(steps, rounds, 60.0).items()}


def say(text: str) -> None:
    """A line about what is done now, where it does not mix with results."""
    print(text, file=sys.stderr, flush=True)


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
    if "keep" in request:
        found = keep(case, Path(request["keep"]))
    elif "memory" in request:
        found = peak_memory(case, request["memory"])
    elif "by_threads" in request:
        found = by_threads(case, request["by_threads"], request["rounds"])
    else:
        how = (request[key] for key in ("rounds", "limit_s", "slow_s"))
        found = measure(case, request["contenders"], Path(request["references"]), *how)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
