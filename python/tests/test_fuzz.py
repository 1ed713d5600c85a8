"""Random programs on random graphs agree, eager and compiled, forward and in every gradient.

The seeds are fixed, so every run draws the same programs. `./dev fuzz --seed S` draws more,
compiles each in every way, and prints failures shrunk.
"""

from __future__ import annotations

from collections import Counter

from fuzz.check import Outcome
from fuzz.hunt import hunt, hunt_all
from fuzz.trials import uncompilable_trials
from gossamer.compiler import OPTIONAL_PASSES

SEEDS = range(12)
PER_SEED = 25
LEAST_COMPILED = 0.95
LEAST_WITHOUT = 30
LEAST_WHOLE = 60
MOST_ROUNDING = 0.05


def test_drawn_programs(capsys, monkeypatch):
    """No disagreement; and the counts, so that these are comparisons of compiled code."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # threads of two processes share the cores
    results = hunt_all(SEEDS, PER_SEED)
    failures = [result for result in results if isinstance(result, str)]
    assert not failures, "\n".join(failures)
    found: list[Outcome] = [outcome for result in results for outcome in result]
    kinds = Counter(outcome.kind for outcome in found)
    without = Counter(name for outcome in found for name in outcome.without)
    compiled, whole = sum(o.compiled for o in found), sum(o.whole for o in found)
    with capsys.disabled():
        print(f"\ndrawn programs: {len(found)}, compiled under fallback='error': {compiled}")
        print(f"of these, as a whole too: {whole}, equal by rounding alone: {kinds['rounding']}")
        print("compiled again without", *(f"{name}: {without[name]}" for name in OPTIONAL_PASSES))
        for kind, count in kinds.items():
            if kind.startswith("refused"):
                print(f"  {count} {kind}")
    assert len(found) == len(SEEDS) * PER_SEED >= 300
    assert compiled >= LEAST_COMPILED * len(found)
    assert kinds["rounding"] <= MOST_ROUNDING * len(found)
    assert whole >= LEAST_WHOLE
    assert all(without[name] >= LEAST_WITHOUT for name in OPTIONAL_PASSES)


def test_uncompilable_programs_fall_back(tmp_path):
    """Equal results, and a reason with a line; none of them runs under fallback="error"."""
    found = hunt(uncompilable_trials(), 1000, 12, tmp_path)
    assert len(found) == 12
    assert all(outcome.kind.startswith("refused: ") for outcome in found)
