"""The demo's picture: how training goes, whom the graph helps, and what an epoch costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from packages import Dataset
from training import Training

SHOWN_CLASSES = 15
COLORS = {"no graph": "tab:gray", "eager": "tab:orange", "compiled": "tab:green"}


def draw(
    path: Path,
    data: Dataset,
    test: Tensor,
    trainings: Mapping[str, Training],
    seconds: Mapping[str, float],
) -> None:
    """Writes a PNG with three panels.

    Args:
        test: row numbers that the trainings predict.
        trainings: "no graph", "eager" and "compiled".
        seconds: time of an epoch each way.
    """
    figure = Figure(figsize=(16, 5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw_losses(left, trainings)
    draw_classes(middle, data, test, trainings)
    draw_seconds(right, seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_losses(axes, trainings: Mapping[str, Training]) -> None:
    """The loss by epoch; eager as dots, since the compiled line lies on it."""
    for name, color in COLORS.items():
        style = "o" if name == "eager" else "-"
        axes.plot(trainings[name].losses, style, color=color, label=name, markersize=5)
    axes.set_title("cross entropy of the training rows")
    axes.set_xlabel("epoch")
    axes.legend()


def draw_classes(axes, data: Dataset, test: Tensor, trainings: Mapping[str, Training]) -> None:
    """Accuracy per class, for the most frequent ones."""
    labels = data.labels[test]
    largest = torch.bincount(labels).argsort(descending=True)[:SHOWN_CLASSES].tolist()
    for name, shift in (("no graph", -0.2), ("compiled", 0.2)):
        predicted = trainings[name].predicted
        right = [float((predicted[labels == c] == c).float().mean()) for c in largest]
        at = [i + shift for i in range(len(right))]
        axes.bar(at, right, 0.4, color=COLORS[name], label=name)
    axes.set_xticks(range(len(largest)), [data.classes[c] for c in largest], rotation=60)
    axes.set_title("right predictions per class")
    axes.legend()


def draw_seconds(axes, seconds: Mapping[str, float]) -> None:
    """A bar for each way to train."""
    bars = axes.barh(list(seconds), list(seconds.values()), color="tab:blue")
    axes.bar_label(bars, fmt=" %.3g s")
    axes.margins(x=0.2)
    axes.invert_yaxis()
    axes.set_title("seconds per epoch")
