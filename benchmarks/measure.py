"""Measures one case in this process: all contenders in turn, or the memory or threads of one.

Run by `processes.py`, in a process for each request, so that nothing is left over from other cases
and the environment (huge pages) can differ.
"""

from __future__ import annotations

import functools
import gc
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cases import Case
from contenders import OURS, contender, stepper, timed
from graphs import graph_of
from layers import workload
from memory import peak_memory
from references import Reference, errors_of, keep, load
from roofline import least_ms

# What compiles nothing and takes longer was warmed up by the call that was compared.
WARM_S = 1.0
# Who takes less time is called so many times in its turn.
SHORT_S, CALLS_PER_TURN = 0.2, 3
# Turns of each contender at least.
LEAST_TURNS = 3


@dataclass(frozen=True)
class Pace:
    """How long a case is measured.

    Attributes:
        rounds: turns of a contender at most.
        budget_s: it has no more turns than fit into this, but `LEAST_TURNS` in any case.
        slow_s: a call that takes longer is made once: the one that was compared, or what follows
            it where that compiled.
    """

    rounds: int
    budget_s: float
    slow_s: float

    def turns(self, seconds: float) -> int:
        """The turns of a contender with calls of so many seconds."""
        calls = CALLS_PER_TURN if seconds <= SHORT_S else 1
        return min(self.rounds, max(LEAST_TURNS, int(self.budget_s / (calls * seconds))))


@dataclass(frozen=True)
class Row:
    """One contender on one case: median and all times in ms, peak extra memory in MB.

    Attributes:
        first_ms: the call that was compared, in which things may be compiled.
        errors: of each output and gradient. convert_ms: making the graph's format, once.
        thp_ms: the median with huge pages. once: a call takes so long that only
            one was made.
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


def prepare(case: Case, name: str, reference: Reference, slow_s: float = float("inf")):
    """The first call of a contender, compared: its row so far and, unless it is out, its step."""
    shape = (case.layer, graph_of(case.graph), case.features, case.training)
    work = workload(*shape, decided=reference.decided)
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
        said = next(iter(str(error).splitlines()), "")[:80]
        return Row(name, problem=f"{type(error).__name__}: {said}"), None
    found = outputs, runner.gradients() if case.training else {}
    row = Row(
        name,
        convert_ms=1e3 * runner.convert_s,
        first_ms=1e3 * seconds,
        errors=errors_of(found, reference.expected),
    )
    if wrong := reference.wrong(row.errors):
        worst = max(wrong, key=row.errors.get)
        return replace(row, problem=f"differs: {worst} by {row.errors[worst]:.1e}"), None
    # What compiles in its first call has not shown yet what a call takes.
    if seconds > slow_s and not contender(name).compiles:
        found_ms = 1e3 * seconds
        return replace(row, median_ms=found_ms, all_ms=(found_ms,), once=True), None
    if contender(name).compiles:
        step()  # whole mode starts with the second call, which compiles, too
    return row, step


def take_turns(
    steps: Mapping[str, Callable[[], object]], pace: Pace, warm: Mapping[str, float] | None = None
) -> dict[str, list[float]]:
    """Milliseconds of each call: all take turns, after one call of each that is not `warm`, which
    holds seconds of a call by name. Each round starts with another one, so that none always runs
    in what the same other has left in caches and heap; short calls are made several times in a
    turn, and who has fewer turns has them evenly in all rounds.
    """
    seconds = dict(warm or {})
    # What is there stays: collections between calls need not look at it.
    gc.collect()
    gc.freeze()
    for name in steps.keys() - seconds.keys():
        for _ in range(CALLS_PER_TURN):
            seconds[name] = call_seconds(steps[name])
            if seconds[name] > SHORT_S:
                break
    times = {name: [1e3 * s] if s > pace.slow_s else [] for name, s in seconds.items()}
    names = [name for name in steps if not times[name]]
    turns = {name: pace.turns(seconds[name]) for name in names}
    rounds = max(turns.values(), default=0)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            # How many turns of it come before this round, and before the next.
            before, after = (t * turns[name] // rounds for t in (turn, turn + 1))
            for _ in range(CALLS_PER_TURN if after > before else 0):
                times[name].append(1e3 * call_seconds(steps[name]))
                if times[name][-1] > 1e3 * SHORT_S:
                    break
    gc.unfreeze()
    return {name: times[name] for name in steps}


def call_seconds(step: Callable[[], object]) -> float:
    """The seconds of a call that no garbage of others is collected in."""
    gc.collect()
    return timed(step)[1]


def measure(
    case: Case, names: Sequence[str], kept: Path, pace: Pace, with_least: bool
) -> dict[str, object]:
    """All contenders on one case, compared with the references in the file `kept`, then timed; if
    wanted, with the machine's bound, the better of before and after.
    """

    def least() -> float | None:
        return least_ms(case, graph_of(case.graph)) if with_least else None

    bounds_ms = [least()]
    reference = load(kept, case)
    rows, steps, undecided = {}, {}, reference.undecided
    if undecided:
        say(f"{case.title}: rounding chooses the gradient of {undecided:,} outputs, left out")
    for name in names:
        say(f"{case.title}: comparing {name}")
        rows[name], step = prepare(case, name, reference, pace.slow_s)
        if step is not None:
            steps[name] = step
    del reference
    say(f"{case.title}: timing")
    warm = {
        n: rows[n].first_ms / 1e3
        for n in steps
        if rows[n].first_ms > 1e3 * WARM_S and not contender(n).compiles
    }
    for name, found in take_turns(steps, pace, warm).items():
        once = len(found) == 1 and found[0] > 1e3 * pace.slow_s
        rows[name] = replace(rows[name], median_ms=median(found), all_ms=tuple(found), once=once)
    del steps
    bounds_ms.append(least())
    bound = None if None in bounds_ms else min(bounds_ms)
    shown = [asdict(row) for row in rows.values()]
    return {"rows": shown, "bound_ms": bound, "undecided": undecided}


def by_threads(case: Case, counts: Sequence[int], pace: Pace) -> dict[str, float]:
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
    return {name: median(times) for name, times in take_turns(steps, pace).items()}


def say(text: str) -> None:
    """A line about what is done now, where it does not mix with results."""
    print(text, file=sys.stderr, flush=True)


def answer(request: Mapping[str, Any]) -> object:
    """What a request asks for, made of what JSON knows."""
    torch.set_num_threads(request["threads"])
    case = Case(**request["case"])
    if "keep" in request:
        return keep(case, Path(request["keep"]))
    if "memory" in request:
        return peak_memory(case, request["memory"])
    pace = Pace(**request["pace"])
    if "by_threads" in request:
        return by_threads(case, request["by_threads"], pace)
    names, kept = request["contenders"], Path(request["references"])
    return measure(case, names, kept, pace, request["least"])
