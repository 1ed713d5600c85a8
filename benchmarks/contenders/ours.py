"""The UDF models, compiled, on `gs.Graph`; a fallback is an error."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

import gossamer as gs
from contenders.models import MODELS, model_of
from layers import Workload


def build(work: Workload) -> Callable[[], Tensor]:
    """Any layer that is written as UDFs."""
    graph = gs.graph((work.graph.src, work.graph.dst), num_nodes=work.graph.num_nodes)
    fast = gs.compile(model_of(work), fallback="error")
    return lambda: fast(graph, work.x)


BUILDERS = dict.fromkeys(MODELS, build)
