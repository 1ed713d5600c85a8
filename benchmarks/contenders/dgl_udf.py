"""The UDF models, as they are, on DGL."""

from __future__ import annotations

from collections.abc import Callable

import dgl

from contenders import Runner, graphs_by_call
from contenders.models import MODELS, model_of, model_runner
from graphs import EdgeList
from layers import LAYERS, Workload


def dgl_graph(graph: EdgeList) -> dgl.DGLGraph:
    """The graph with all its formats built, so that no call pays for them."""
    made = dgl.graph((graph.src, graph.dst), num_nodes=graph.num_nodes)
    made.create_formats_()
    if graph.types is not None:
        made.edata["type"], made.edata["share"] = graph.types, graph.shares().unsqueeze(1)
    return made


def dgl_blocks(blocks: tuple[EdgeList, ...]) -> list[dgl.DGLGraph]:
    """The blocks of one mini-batch from their sampled edges."""
    return [
        dgl.create_block((b.src, b.dst), num_src_nodes=b.num_nodes, num_dst_nodes=b.num_rows)
        for b in blocks
    ]


def graphs_of(work: Workload) -> tuple[list[Callable[[], object]], float]:
    """As `graphs_by_call`, in DGL."""
    return graphs_by_call(work, dgl_graph, dgl_blocks)


def check(graph: dgl.DGLGraph) -> None:
    """The formats that forward and backward want are there, and DGL's CPU kernels are on."""
    assert {"csc", "csr"} <= set(graph.formats()["created"]), graph.formats()
    assert dgl.is_libxsmm_enabled()


def build(work: Workload) -> Runner:
    """Any layer that is written as UDFs."""
    graphs, seconds = graphs_of(work)
    model = model_of(work)
    on_blocks = LAYERS[work.layer].on_blocks
    checks = {} if on_blocks else {"check": lambda: check(graphs[0]())}
    return model_runner(work, model, model, graphs, convert_s=seconds, **checks)


BUILDERS = dict.fromkeys(MODELS, build)
