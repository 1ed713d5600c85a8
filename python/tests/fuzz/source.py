"""A trial as a Python program that repeats it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.trials import Trial
from programs.graphs import BlocksCase, HeteroCase

_TAIL = """

# Run with PYTHONPATH=python:python/tests, from the root of the repository.
if __name__ == "__main__":
    from pathlib import Path

    from numpy import array, int64

    from fuzz.check import check
    from fuzz.graphs import large
    from fuzz.trials import Settings, Trial
    from programs.data import Rows
    from programs.graphs import BlocksCase, GraphCase, HeteroCase

    trial = Trial(
        source=Path(__file__).read_text(),
        rows={rows!r},
        graph={graph},
        seed={seed},
        settings={settings!r},
        compilable={compilable},
    )
    print(check(trial))
"""


def runnable(trial: Trial) -> str:
    """The source of a file that runs the trial again."""
    return trial.source + _TAIL.format(
        rows=trial.rows,
        graph=_graph(trial.graph),
        seed=trial.seed,
        settings=trial.settings,
        compilable=trial.compilable,
    )


def _graph(case: Any) -> str:
    if isinstance(case, BlocksCase):
        return f"BlocksCase('blocks', ({', '.join(map(_graph, case.blocks))}))"
    if isinstance(case, HeteroCase):
        relations = ", ".join(f"{key!r}: {_ends(*ends)}" for key, ends in case.relations.items())
        return f"HeteroCase('hetero', {case.users}, {case.items}, {{{relations}}})"
    counts = f"{case.num_src}, {case.num_dst}"
    ends = f"large({counts})" if case.num_edges > 1000 else _ends(*case.endpoints)
    return f"GraphCase({case.name!r}, {case.kind!r}, {ends}, {counts})"


def _ends(src: np.ndarray, dst: np.ndarray) -> str:
    return f"(array({src.tolist()}, int64), array({dst.tolist()}, int64))"
