"""Guess the section of each Debian package, without and with the graph of dependencies.

Shows that a layer of plain user-defined functions, compiled, gives the results of the eager layer
in a fraction of the time. Exits non-zero when results differ, something was not compiled, or the
graph does not help. `--small` uses handwritten digits instead, on machines without apt.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import classifier
import digits
import gossamer as gs
import packages
from packages import Dataset
from propagation import Neighborhood

OUTPUT = Path("demo-output")
HOPS = 3
# After a first call each way is timed this often, or less when it takes too many seconds.
REPEATS = 3
PATIENCE = 10.0
EPOCHS = 12
# Points of accuracy that the graph must add at least.
LEAST_GAIN = 0.05


def main() -> int:
    """Runs the demo; the exit status is 0 when all that it claims held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="digits instead of Debian's packages")
    small = parser.parse_args().small

    step("Reading the graph")
    try:
        data = digits.load() if small else packages.load()
    except (FileNotFoundError, LookupError) as reason:
        print(f"cannot read Debian's packages: {reason}; ./dev demo --small needs no apt")
        return 2
    describe(data)

    step(f"Propagating {data.features.shape[1]} features over {HOPS} hops")
    layer = Neighborhood(HOPS)
    fast = gs.compile(layer)
    propagated, seconds = propagate(data, layer, fast)
    problems = differences(data, layer, propagated)
    report = gs.explain(fast)
    problems += [f"not compiled: {f.file}:{f.line}: {f.reason}" for f in report.fallbacks]

    step("What the compiler did")
    print(report)

    step("Guessing the class of the half of the nodes that training does not see")
    problems += classify(data, propagated["compiled"], seconds)

    step("Result")
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems:
        print("The compiled layer equals the eager one, all of it was compiled, the graph helps.")
    return 1 if problems else 0


def step(title: str) -> None:
    """Prints a headline."""
    print(f"\n-- {title}", flush=True)


def describe(data: Dataset) -> None:
    """Prints the graph's figures."""
    degrees = torch.bincount(data.dst, minlength=data.num_nodes)
    print(
        f"{data.title}: {data.num_nodes:,} nodes, {len(data.src):,} edges, "
        f"{len(data.classes)} classes\n"
        f"neighbours: {float(degrees.float().mean()):.1f} on average, {int(degrees.max()):,} at "
        f"most, {int((degrees == 0).sum()):,} nodes have none"
    )


def propagate(
    data: Dataset, layer: torch.nn.Module, fast: torch.nn.Module
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Results and best seconds of the layer, by name of the way it ran; prints the seconds."""
    graph = gs.graph((data.src, data.dst), num_nodes=data.num_nodes)
    ways: dict[str, Callable[[], Tensor]] = {"eager": lambda: layer(graph, data.features)}
    if importlib.util.find_spec("dgl"):
        foreign = dgl_graph(data)
        ways["DGL"] = lambda: layer(foreign, data.features)
    else:
        print("DGL: not installed (./dev peers installs it), skipped")
    ways["compiled"] = lambda: fast(graph, data.features)

    results, seconds = {}, {}
    for name, way in ways.items():
        print(f"{name:>9}: ", end="", flush=True)
        results[name], first = timed(way)
        times: list[float] = []
        while not times or (len(times) < REPEATS and first + sum(times) < PATIENCE):
            times.append(timed(way)[1])
        seconds[name] = min(times)
        print(f"{seconds[name]:7.3f} s   (the first time {first:.3f} s)", flush=True)
    print(f"compiled is {seconds['eager'] / seconds['compiled']:.1f} times as fast as eager")
    return results, seconds


def dgl_graph(data: Dataset):
    """The same graph as DGL has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dgl
    return dgl.graph((data.src, data.dst), num_nodes=data.num_nodes)


def timed(way: Callable[[], Tensor]) -> tuple[Tensor, float]:
    """What `way` returns, and the seconds it took."""
    with torch.no_grad():
        start = time.perf_counter()
        result = way()
        return result, time.perf_counter() - start


def differences(data: Dataset, layer: torch.nn.Module, results: dict[str, Tensor]) -> list[str]:
    """Complaints about results that are further from the exact one than float32 allows.

    Error: largest difference over largest value, from the eager layer in float64. Allowed: 1e-5,
    and four times the eager layer's own error in float32 plus 1e-6.
    """
    graph = gs.graph((data.src, data.dst), num_nodes=data.num_nodes)
    exact = timed(lambda: layer(graph, data.features.double()))[0]
    errors = {k: float((v - exact).abs().max() / exact.abs().max()) for k, v in results.items()}
    print("largest relative error: " + ", ".join(f"{k} {v:.1e}" for k, v in errors.items()))
    allowed = min(1e-5, 4 * errors["eager"] + 1e-6)
    return [
        f"{name} differs from the exact result by {error:.1e}, more than {allowed:.1e}"
        for name, error in errors.items()
        if not error <= allowed
    ]


def classify(data: Dataset, propagated: Tensor, seconds: dict[str, float]) -> list[str]:
    """Accuracy without and with the graph, and the picture; complains when it does not help."""
    split = classifier.Split.halves(data.num_nodes)
    truth = data.labels[split.test]
    most_frequent = torch.bincount(data.labels[split.train]).argmax()
    print(f"{'always the most frequent':>26}: {accuracy(most_frequent, truth):6.1%}")

    predicted = {}
    for name, features in {"without": data.features, "with": propagated}.items():
        predicted[name] = classifier.predict(features, data.labels, split, EPOCHS, progress)
        score = accuracy(predicted[name], truth)
        print(f"\r{f'{name} the graph':>26}: {score:6.1%}        ", flush=True)

    # Slow to import, and needed only here.
    from picture import draw

    path = OUTPUT / "graph.png"
    draw(path, data, split.test, predicted["without"], predicted["with"], seconds)
    print(f"picture: {path}")
    gain = accuracy(predicted["with"], truth) - accuracy(predicted["without"], truth)
    return [] if gain >= LEAST_GAIN else [f"the graph adds {gain:.1%} only"]


def accuracy(predicted: Tensor, truth: Tensor) -> float:
    """The share of right predictions."""
    return float((predicted == truth).float().mean())


def progress(epoch: int) -> None:
    """Shows how far training is, on a terminal."""
    if sys.stdout.isatty():
        print(f"\r{'training':>26}: {epoch}/{EPOCHS} epochs", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
