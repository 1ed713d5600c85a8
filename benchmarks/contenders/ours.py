"""The UDF models, compiled, on `gs.Graph` and on the DGL graph itself; a fallback is an error."""

from __future__ import annotations

from collections.abc import Callable

import gossamer as gs
from contenders import Runner, graphs_by_call
from contenders.models import MODELS, model_of, model_runner
from gossamer.capture.session import Options
from gossamer.compiled import CompiledModule
from graphs import EdgeList
from layers import Workload


def our_graph(graph: EdgeList) -> gs.Graph:
    """The graph with both its formats built, so that no call pays for them."""
    made = gs.graph((graph.src, graph.dst), num_nodes=graph.num_nodes)
    structure = made.structure()
    structure.in_csr(), structure.out_csr()
    if graph.types is not None:
        made.edata["type"], made.edata["share"] = graph.types, graph.shares().unsqueeze(1)
    return made


def our_blocks(blocks: tuple[EdgeList, ...]) -> list[gs.Graph]:
    """The blocks of one mini-batch from their sampled edges."""
    return [
        gs.create_block((b.src, b.dst), num_src_nodes=b.num_nodes, num_dst_nodes=b.num_rows)
        for b in blocks
    ]


# The graph of each call of a workload, and the seconds of making them beforehand.
GraphsOf = Callable[[Workload], tuple[list[Callable[[], object]], float]]


def build(work: Workload, graphs_of: GraphsOf, without: tuple[str, ...] = ()) -> Runner:
    """Any layer that is written as UDFs; `without` some optional passes of the compiler."""
    model = model_of(work)
    fast = CompiledModule(model, Options(fallback="error", without=without))

    def check() -> None:
        report = gs.explain(fast)
        assert not report.fallbacks, report.fallbacks
        assert report.programs

    def on(other: Workload) -> Runner:
        graphs, seconds = graphs_of(other)
        rest = {"check": check, "convert_s": seconds, "elsewhere": on}
        rest["report"] = lambda: gs.explain(fast)
        return model_runner(other, model, fast, graphs, **rest)

    return on(work)


def on_dgl(work: Workload) -> Runner:
    """On the graphs that the DGL contenders use."""
    from contenders import dgl_udf

    return build(work, dgl_udf.graphs_of)


def on_ours(work: Workload, without: tuple[str, ...] = ()) -> Runner:
    """On our own graphs."""
    return build(work, lambda of: graphs_by_call(of, our_graph, our_blocks), without)


BUILDERS = dict.fromkeys(MODELS, on_ours)
ON_DGL = dict.fromkeys(MODELS, on_dgl)
