"""Which cases are measured: a layer, a mode, a graph and a feature size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from layers import LAYERS

MODES = ("inference", "training")
BASE_GRAPH, BASE_FEATURES = "power-law", 64
OTHER_GRAPHS = ("uniform", "citation", "molecules")
OTHER_FEATURES = (16, 100, 128, 256)
# Of measuring a feature on a large graph, beside measuring a whole small one; how many times more
# for base cases, where more is measured.
EFFORT, EFFORT_TRAINING, BASE_EFFORT = 0.03, 0.1, 2.5


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
        times = BASE_EFFORT if self.base else 1.0
        per_feature = EFFORT_TRAINING if self.training else EFFORT
        return times * (1.0 + (0.0 if small else per_feature * self.features))

    @property
    def base(self) -> bool:
        """Whether it is the graph and the size that bars speak of."""
        graph = graph_for(self.layer, BASE_GRAPH)
        return (self.graph, self.features) == (graph, BASE_FEATURES)

    @property
    def training(self) -> bool:
        """Whether it has a backward."""
        return self.mode == "training"


def graph_for(layer: str, graph: str) -> str:
    """The graph of that name, or the one that a layer runs on that needs more than that."""
    chosen = LAYERS[layer]
    kind = "sampled" if chosen.on_blocks else "relations" if chosen.on_relations else ""
    if not kind:
        return graph
    return f"tiny-{kind}" if graph.startswith("tiny") else kind


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
    """The base graph and size, then the other graphs at that size and the other sizes there; a
    layer on relations at the base size alone, since peers make a matrix of F x F for each edge.
    """
    layers, modes = list(layers), list(modes)
    sized = [layer for layer in layers if not LAYERS[layer].on_relations]
    return list(
        dict.fromkeys(
            product(layers, modes, [BASE_GRAPH], [BASE_FEATURES])
            + product(layers, modes, OTHER_GRAPHS, [BASE_FEATURES])
            + product(sized, modes, [BASE_GRAPH], OTHER_FEATURES)
        )
    )
