"""The demo's picture: what the graph looks like, whom it helps, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from packages import Dataset

SHOWN_CLASSES = 15


def draw(
    path: Path,
    data: Dataset,
    test: Tensor,
    without: Tensor,
    with_graph: Tensor,
    seconds: Mapping[str, float],
) -> None:
    """Writes a PNG with three panels.

    Args:
        test: row numbers; without, with_graph: the labels predicted for these rows.
        seconds: time of each way to propagate.
    """
    figure = Figure(figsize=(16, 5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw_degrees(left, data)
    draw_classes(middle, data, test, without, with_graph)
    draw_seconds(right, seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_degrees(axes, data: Dataset) -> None:
    """How many nodes have how many neighbours, both on a log scale."""
    degrees = torch.bincount(data.dst, minlength=data.num_nodes)
    count = torch.bincount(degrees)
    present = count.nonzero().squeeze(1)
    present = present[present > 0]
    axes.loglog(present, count[present], ".", color="tab:blue")
    isolated = int((degrees == 0).sum())
    axes.set_title(f"{data.num_nodes:,} nodes, {len(data.src):,} edges, {isolated:,} isolated")
    axes.set_xlabel("neighbours")
    axes.set_ylabel("nodes")


def draw_classes(axes, data: Dataset, test: Tensor, without: Tensor, with_graph: Tensor) -> None:
    """Accuracy per class, for the most frequent ones."""
    labels = data.labels[test]
    largest = torch.bincount(labels).argsort(descending=True)[:SHOWN_CLASSES].tolist()
    for predicted, shift, color, name in (
        (without, -0.2, "tab:gray", "without the graph"),
        (with_graph, 0.2, "tab:green", "with the graph"),
    ):
        right = [float((predicted[labels == c] == c).float().mean()) for c in largest]
        axes.bar([i + shift for i in range(len(right))], right, 0.4, color=color, label=name)
    axes.set_xticks(range(len(largest)), [data.classes[c] for c in largest], rotation=60)
    axes.set_title("right predictions per class")
    axes.legend()


def draw_seconds(axes, seconds: Mapping[str, float]) -> None:
    """A bar for each way to propagate."""
    bars = axes.barh(list(seconds), list(seconds.values()), color="tab:orange")
    axes.bar_label(bars, fmt=" %.3g s")
    axes.set_xscale("log")
    axes.margins(x=0.25)
    axes.invert_yaxis()
    axes.set_title("seconds to propagate the features")
