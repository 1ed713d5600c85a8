"""A small classifier with a fixed split and a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH = 1024
HIDDEN = 256


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


def predict(
    features: Tensor, labels: Tensor, split: Split, epochs: int, on_epoch: Callable[[int], None]
) -> Tensor:
    """Trains on `split.train` and returns the predicted label of each row of `split.test`.

    Args:
        features: float32, (N, F). labels: int64, (N,); those of the test rows are not read.
        epochs: passes over the training rows. on_epoch: told each epoch's number, from 1.
    """
    seen = features[split.train]
    mean, deviation = seen.mean(0), seen.std(0) + 1e-3
    classes = int(labels.max()) + 1
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = multilayer_perceptron(features.shape[1], classes)
        train(model, (seen - mean) / deviation, labels[split.train], epochs, on_epoch)
    model.eval()
    with torch.no_grad():
        return model((features[split.test] - mean) / deviation).argmax(1)


def multilayer_perceptron(width: int, classes: int) -> nn.Module:
    """One hidden layer, dropout before each linear layer."""
    return nn.Sequential(
        nn.Dropout(0.3),
        nn.Linear(width, HIDDEN),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(HIDDEN, classes),
    )


def train(
    model: nn.Module, rows: Tensor, labels: Tensor, epochs: int, on_epoch: Callable[[int], None]
) -> None:
    """Minimises cross entropy with AdamW, in shuffled batches."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    for epoch in range(epochs):
        for batch in torch.randperm(len(rows)).split(BATCH):
            loss = functional.cross_entropy(model(rows[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        on_epoch(epoch + 1)
