"""The UDF models, compiled, on `gs.Graph` and on the DGL graph itself; a fallback is an error."""

from __future__ import annotations

from collections.abc import Callable

import gossamer as gs
from contenders import Runner, timed
from contenders.models import MODELS, model_of, model_runner
from graphs import EdgeList
from layers import LAYERS, Workload


def our_graph(graph: EdgeList) -> gs.Graph:
    """The graph with both its formats built, so that no call pays for them."""
    made = gs.graph((graph.src, graph.dst), num_nodes=graph.num_nodes)
    structure = made.structure()
    structure.in_csr(), structure.out_csr()
    return made


def our_blocks(blocks: tuple[EdgeList, ...]) -> list[gs.Graph]:
    """The blocks of one mini-batch from their sampled edges."""
    return [
        gs.create_block((b.src, b.dst), num_src_nodes=b.num_nodes, num_dst_nodes=b.num_rows)
        for b in blocks
    ]


def graphs_of(work: Workload) -> tuple[list[Callable[[], object]], float]:
    """What gives the graph of each call, and the seconds of making it beforehand."""
    if LAYERS[work.layer].on_blocks:
        return [lambda blocks=blocks: our_blocks(blocks) for blocks in work.graph.blocks], 0.0
    graph, seconds = timed(our_graph, work.graph)
    return [lambda: graph], seconds


def build(work: Workload, graphs: list[Callable[[], object]], seconds: float) -> Runner:
    """Any layer that is written as UDFs."""
    model = model_of(work)
    fast = gs.compile(model, fallback="error")

    def check() -> None:
        report = gs.explain(fast)
        assert not report.fallbacks, report.fallbacks
        assert report.programs

    return model_runner(work, model, fast, graphs, check=check, convert_s=seconds)


def on_dgl(work: Workload) -> Runner:
    """On the graphs that the DGL contenders use."""
    from contenders import dgl_udf

    return build(work, *dgl_udf.graphs_of(work))


BUILDERS = dict.fromkeys(MODELS, lambda work: build(work, *graphs_of(work)))
ON_DGL = dict.fromkeys(MODELS, on_dgl)
