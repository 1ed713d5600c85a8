"""Checks as many different drawn programs as asked for; the first failure ends it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from fuzz.check import Outcome, check
from fuzz.source import runnable
from fuzz.trials import Trial, numbered

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
        if trial.source in seen or (len(seen) >= programs and not failed):
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
    except Exception as error:
        if not failed:
            raise
        # Hypothesis runs the simplest failure last.
        raise FuzzFailure(*failed[-1]) from error
    return outcomes
