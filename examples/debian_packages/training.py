"""One training loop for every model of the demo: full batches, fixed split, fixed seed."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import memory
from packages import Dataset

# Each process has its own bars. tqdm's default lock is a semaphore that a stopped process leaks.
tqdm.set_lock(threading.RLock())

Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Recipe:
    """How a data set is trained on: passes over it, first learning rate, dropout."""

    epochs: int
    learning_rate: float
    dropout: float


@dataclass(frozen=True)
class Split:
    """Row numbers, int64, that training may see and that it may not."""

    train: Tensor
    test: Tensor

    @classmethod
    def halves(cls, rows: int) -> Split:
        """A random half each, the same in every run."""
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
        return cls(order[: rows // 2], order[rows // 2 :])


@dataclass
class Training:
    """What one training gave.

    Attributes:
        losses: of each epoch, before its step.
        seconds: of each epoch.
        peak: bytes of resident memory that its epochs took at most, above what there was before.
        predicted: labels of the test rows, int64.
    """

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    peak: int = 0
    predicted: Tensor | None = None

    @property
    def epoch_seconds(self) -> float:
        """The median epoch; of several the first is left out, which compiles or warms up."""
        return statistics.median(self.seconds[1:] or self.seconds)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """A model with the same parameters in every run."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return make()


def train(
    name: str, model: nn.Module, forward: Forward, data: Dataset, split: Split, recipe: Recipe
) -> Training:
    """Trains `model` on the training rows and predicts the test rows.

    Args:
        name: for the progress bar.
        forward: features (N, F) to scores (N, classes) by `model`, as it is or compiled.
    """
    done = Training()
    optimizer = torch.optim.AdamW(model.parameters(), recipe.learning_rate, weight_decay=1e-3)
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, recipe.epochs)
    features, labels = standardized(data.features, split), data.labels[split.train]
    base = memory.reset_peak()
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model.train()
        # No bar where the output is a file.
        for _ in (bar := tqdm(range(recipe.epochs), name, leave=False, disable=None)):
            start = time.perf_counter()
            loss = functional.cross_entropy(forward(features)[split.train], labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            slower.step()
            done.losses.append(loss.item())
            done.seconds.append(time.perf_counter() - start)
            bar.set_postfix(loss=f"{done.losses[-1]:.3f}")
    done.peak = memory.peak() - base
    model.eval()
    with torch.no_grad():
        done.predicted = forward(features)[split.test].argmax(1)
    return done


def standardized(features: Tensor, split: Split) -> Tensor:
    """Columns with mean 0 and deviation 1 over the rows that training sees."""
    seen = features[split.train]
    return (features - seen.mean(0)) / (seen.std(0) + 1e-3)
