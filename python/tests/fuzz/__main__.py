"""`./dev fuzz`: more programs than the tests draw, each compiled in every way; failures shrunk."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz.hunt import FuzzFailure, hunt
from fuzz.source import runnable
from fuzz.trials import trials

PER_SEED = 25


def main() -> int:
    """Prints each failure as a program and counts at the end; returns the exit status."""
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=300, help="how many (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--keep", type=Path, help="folder for failing programs")
    options = parser.parse_args()
    stop = time.monotonic() + 60 * options.minutes
    kinds: Counter[str] = Counter()
    seed, failures = options.seed, 0
    with tempfile.TemporaryDirectory() as folder:
        while kinds.total() < options.programs and time.monotonic() < stop:
            count = min(PER_SEED, options.programs - kinds.total())
            try:
                found = hunt(trials(thorough=True), seed, count, Path(folder), shrink=True)
                kinds.update(outcome.kind for outcome in found)
            except FuzzFailure as failure:
                failures += 1
                kinds["failed"] += 1
                _show(failure, seed, options.keep)
            seed += 1
            print(f"seed {seed}: {kinds.total()} programs, {failures} failures", flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:6}  {kind}")
    return 1 if failures else 0


def _show(failure: FuzzFailure, seed: int, keep: Path | None) -> None:
    print(f"---- seed {seed} fails\n{failure}\n----", flush=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"seed{seed}.py").write_text(runnable(failure.trial))


if __name__ == "__main__":
    sys.exit(main())
