"""The UDF models, as they are, on DGL."""

from __future__ import annotations

from collections.abc import Callable

import dgl
from torch import Tensor

from contenders.models import MODELS, model_of
from layers import Workload


def dgl_graph(work: Workload) -> dgl.DGLGraph:
    """The graph with all its formats built, so that no call pays for them."""
    graph = dgl.graph((work.graph.src, work.graph.dst), num_nodes=work.graph.num_nodes)
    graph.create_formats_()
    return graph


def build(work: Workload) -> Callable[[], Tensor]:
    """Any layer that is written as UDFs."""
    graph, model = dgl_graph(work), model_of(work)
    return lambda: model(graph, work.x)


BUILDERS = dict.fromkeys(MODELS, build)
