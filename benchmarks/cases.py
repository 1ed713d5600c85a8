"""Which cases are measured: a layer, a mode, a graph and a feature size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from layers import LAYERS

MODES = ("inference", "training")
BASE_GRAPH, BASE_FEATURES = "power-law", 64
OTHER_GRAPHS = ("uniform", "citation", "molecules")
OTHER_FEATURES = (16, 100, 128, 256)
# Of measuring a feature on a large graph, beside measuring a whole small one.
EFFORT, EFFORT_TRAINING = 0.03, 0.1


@dataclass(frozen=True)
class Case:
    """One layer on one graph.

    Attributes:
        layer: of `layers.LAYERS`. mode: "inference", or "training" for forward, backward and all
            gradients (no optimizer).
        graph: of `graphs.GRAPHS`. features: F, float32.
    """

    layer: str
    mode: str
    graph: str
    features: int

    @property
    def title(self) -> str:
        """What it is, in one line."""
        return f"{self.layer} {self.mode}, {self.graph}, {self.features} features"

    @property
    def effort(self) -> float:
        """About how long it is measured, in units of a small graph."""
        small = self.graph not in (BASE_GRAPH, "uniform")
        return (
            1.0 if small else 1.0 + (EFFORT_TRAINING if self.training else EFFORT) * self.features
        )

    @property
    def training(self) -> bool:
        """Whether it has a backward."""
        return self.mode == "training"


def graph_for(layer: str, graph: str) -> str:
    """The graph of that name, or its sampled blocks for a layer that runs on those."""
    if not LAYERS[layer].on_blocks:
        return graph
    return "tiny-sampled" if graph.startswith("tiny") else "sampled"


def product(
    layers: Iterable[str], modes: Iterable[str], graphs: Iterable[str], features: Iterable[int]
) -> list[Case]:
    """All combinations, each once."""
    cases = [
        Case(layer, mode, graph_for(layer, graph), size)
        for layer in layers
        for mode in modes
        for graph in graphs
        for size in features
    ]
    return list(dict.fromkeys(cases))


def star(layers: Iterable[str], modes: Iterable[str]) -> list[Case]:
    """The base graph and size, then the other graphs at that size and the other sizes there."""
    layers, modes = list(layers), list(modes)
    return list(
        dict.fromkeys(
            product(layers, modes, [BASE_GRAPH], [BASE_FEATURES])
            + product(layers, modes, OTHER_GRAPHS, [BASE_FEATURES])
            + product(layers, modes, [BASE_GRAPH], OTHER_FEATURES)
        )
    )
