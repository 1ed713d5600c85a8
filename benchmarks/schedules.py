"""What the cost model of schedules chooses, beside each choice forced for all kernels.

Prints one JSON object per case; run by `bench.py --schedules`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from statistics import median

import torch

from cases import Case
from contenders import timed
from contenders.ours import on_ours
from gossamer import native
from graphs import GRAPHS
from layers import workload

ROUNDS = 9
FORCED: dict[str, dict[str, int | bool]] = {
    **{f"{edges} edges ahead": {"prefetch": edges} for edges in (0, 16, 32, 64, 128)},
    "results in the caches": {"stream": False},
    "results past them": {"stream": True},
    "whole rows": {"piece_edges": 2**40},
}
CASES = [
    *(Case(layer, "inference", "power-law", 64) for layer in ("gcn", "gat", "gatv2", "edgeconv")),
    *(Case("gcn", "inference", "power-law", size) for size in (16, 100, 256)),
    Case("gat", "inference", "uniform", 64),
    Case("gcn", "inference", "uniform", 128),
    Case("gcn", "inference", "citation", 64),
    Case("gat", "inference", "molecules", 64),
]


def measure(case: Case) -> dict[str, object]:
    """The model's choice and each forced one, in turn, in this process: medians in ms."""
    runner = on_ours(workload(case.layer, GRAPHS[case.graph](), case.features))
    (run,) = runner.runs
    times: dict[str, list[float]] = {name: [] for name in ("model", *FORCED)}
    with torch.no_grad():
        run(), run()  # the second call may be another program
        for _ in range(ROUNDS):
            for name, found in times.items():
                with native.forced_schedule(**FORCED.get(name, {})):
                    found.append(1e3 * min(timed(run)[1] for _ in range(2)))
    runner.check()
    medians = {name: median(found) for name, found in times.items()}
    chosen = medians.pop("model")
    return {"case": asdict(case), "model_ms": chosen, "forced_ms": medians}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for each in CASES:
        print(json.dumps(measure(each)), flush=True)
