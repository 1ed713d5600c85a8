"""Checks as many different drawn programs as asked for; the first failure ends it."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from fuzz.check import Outcome, check
from fuzz.source import runnable
from fuzz.trials import Trial, numbered, trials

PROCESSES = 2
DRAWS_PER_PROGRAM = 6
"""Hypothesis also draws variations of one program; each source is checked once."""


class FuzzFailure(AssertionError):
    """A trial failed; the message holds it as a runnable program.

    Attributes:
        trial: the trial, shrunk where that was asked for.
    """

    def __init__(self, trial: Trial, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}\n\n{runnable(trial)}")
        self.trial = trial


class _Enough(Exception):
    """Ends the drawing: as many programs as wanted were checked."""


def hunt(
    strategy: SearchStrategy[Trial], first: int, programs: int, folder: Path, shrink: bool = False
) -> list[Outcome]:
    """The outcomes of `check` for `programs` different programs drawn from seed `first`.

    Raises:
        FuzzFailure: a check failed.
    """
    outcomes: list[Outcome] = []
    seen: set[str] = set()
    failed: list[tuple[Trial, BaseException]] = []

    @seed(first)
    @settings(
        max_examples=DRAWS_PER_PROGRAM * programs,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(trial: Trial) -> None:
        if len(seen) >= programs and not failed:
            raise _Enough
        if trial.source in seen:
            return
        trial = numbered(trial, first * programs + len(seen))
        try:
            outcome = check(trial, folder)
        except Exception as error:
            failed.append((trial, error))
            raise
        if not failed:
            seen.add(trial.source)
            outcomes.append(outcome)

    try:
        one()
    except _Enough:
        pass
    except Exception as error:
        if not failed:
            raise
        # Hypothesis runs the simplest failure last.
        raise FuzzFailure(*failed[-1]) from error
    return outcomes


def hunt_all(seeds: Sequence[int], programs: int) -> list[list[Outcome] | str]:
    """`hunt` for each seed, in two processes; of one that failed, what is to be read."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as pool:
        return list(pool.map(_hunt_one, seeds, [programs] * len(seeds)))


def _hunt_one(first: int, programs: int) -> list[Outcome] | str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return hunt(trials(), first, programs, Path(folder))
        except FuzzFailure as failure:
            return f"---- seed {first} fails\n{failure}"
