"""Train a graph attention network on Debian's packages: eagerly, and compiled.

The model guesses the section of each package from its description and from what it depends on. It
is written in plain user-defined functions. Exits non-zero when the compiled training differs from
the eager one, something was not compiled, or the graph does not help. `--small` uses handwritten
digits instead, on machines without apt.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor

import digits
import gossamer as gs
import packages
import peers
from gat import GAT, multilayer_perceptron
from packages import Dataset
from training import Recipe, Split, Training, seeded, train

OUTPUT = Path("demo-output")
# By --small.
RECIPES = {False: Recipe(25, 0.02, 0.3), True: Recipe(30, 0.03, 0.0)}
# How far the shares of right guesses of compiled and eager may be apart.
LARGEST_DIFFERENCE = 0.005
# The share of right guesses that the graph must add at least.
LEAST_GAIN = 0.05
# Seconds after which DGL's user-defined functions are not waited for any longer.
PATIENCE = 20.0


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
    split, recipe = Split.halves(data.num_nodes), RECIPES[small]

    step(f"Training {recipe.epochs} epochs on half of the nodes, guessing the other half")
    trainings, report = train_all(data, split, recipe)
    problems = complaints(trainings, data.labels[split.test], report)

    step("What the compiler did")
    print(summary(report))

    step("Seconds per epoch")
    seconds = {name: trainings[name].epoch_seconds for name in ("compiled", "eager")}
    seconds |= dgl_seconds(data, split, recipe)
    print("\n".join(f"{name:>14}: {value:7.3f} s" for name, value in seconds.items()))
    print(f"compiled is {seconds['eager'] / seconds['compiled']:.1f} times as fast as eager")

    # Slow to import, and needed only here.
    from picture import draw

    path = OUTPUT / "training.png"
    draw(path, data, split.test, trainings, seconds)

    step("Result")
    print(f"picture: {path}")
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems:
        print("Compiled training equals the eager one, all of it was compiled, the graph helps.")
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


def train_all(
    data: Dataset, split: Split, recipe: Recipe
) -> tuple[dict[str, Training], gs.report.Report]:
    """The trainings by name, and the report of the compiled model; prints what each gave.

    The compiled model goes first, so that it does not find memory that others have touched.
    """
    truth = data.labels[split.test]
    guess = torch.bincount(data.labels[split.train]).argmax()
    print(f"{'most frequent':>14}: {accuracy(guess, truth):6.1%} right")
    graph = gs.graph((data.src, data.dst), num_nodes=data.num_nodes)
    sizes = data.features.shape[1], len(data.classes), recipe.dropout
    plain = seeded(lambda: multilayer_perceptron(*sizes))
    model, twin = seeded(lambda: GAT(*sizes)), seeded(lambda: GAT(*sizes))
    fast = gs.compile(twin)
    gs.warmup()
    ways = {
        "no graph": (plain, plain),
        "compiled": (twin, lambda x: fast(graph, x)),
        "eager": (model, lambda x: model(graph, x)),
    }
    trainings = {}
    for name, (owner, forward) in ways.items():
        done = trainings[name] = train(name, owner, forward, data, split, recipe)
        print(
            f"{name:>14}: {accuracy(done.predicted, truth):6.1%} right, loss "
            f"{done.losses[0]:.3f} to {done.losses[-1]:.3f} in {sum(done.seconds):.1f} s "
            f"({done.seconds[0]:.2f} s the first epoch), {done.peak / 1e6:,.0f} MB at most",
            flush=True,
        )
    return trainings, gs.explain(fast)


def complaints(
    trainings: dict[str, Training], truth: Tensor, report: gs.report.Report
) -> list[str]:
    """What did not hold, in words."""
    right = {name: accuracy(done.predicted, truth) for name, done in trainings.items()}
    problems = [f"not compiled: {f.file}:{f.line}: {f.reason}" for f in report.fallbacks]
    if abs(right["compiled"] - right["eager"]) > LARGEST_DIFFERENCE:
        problems.append(
            f"compiled gets {right['compiled']:.2%} right and eager {right['eager']:.2%}: "
            f"they may differ by {LARGEST_DIFFERENCE:.1%} at most"
        )
    gain = right["compiled"] - right["no graph"]
    if gain < LEAST_GAIN:
        problems.append(f"the graph adds {gain:.1%} only")
    return problems


def summary(report: gs.report.Report) -> str:
    """The report in short: the lines that became kernels, and arrays with a row for each edge."""
    folder = f"{Path(__file__).parent}/"
    lines = [f"{place.removeprefix(folder)}: {how}" for place, how in report.code_paths.items()]
    stored = [b for b in report.buffers if b.rows == "edges" and b.lifetime != "output"]
    spent = sum(item.seconds for item in report.programs)
    return "\n".join(
        [
            *lines,
            *(f"calls in {c.mode} mode: {c.count} ({c.reason})" for c in report.calls),
            f"{len(report.programs)} programs, made in {spent:.2f} s; {len(report.fallbacks)} "
            f"calls run eagerly; {len(stored)} arrays with a row for each edge",
        ]
    )


def dgl_seconds(data: Dataset, split: Split, recipe: Recipe) -> dict[str, float]:
    """Seconds per epoch of the same model on DGL, where there is one."""
    if not peers.installed():
        print("DGL is not installed (./dev peers installs it): not timed")
        return {}
    found = {}
    for name, epochs in (("DGL built-ins", 3), ("DGL UDF", 1)):
        seconds = peers.epoch_seconds(name, data, split, recipe, epochs, PATIENCE)
        if seconds is None:
            print(f"{name:>14}: stopped after {PATIENCE:.0f} s, before epoch {epochs} was done")
        else:
            found[name] = seconds
    return found


def accuracy(predicted: Tensor, truth: Tensor) -> float:
    """The share of right predictions."""
    return float((predicted == truth).float().mean())


if __name__ == "__main__":
    sys.exit(main())
