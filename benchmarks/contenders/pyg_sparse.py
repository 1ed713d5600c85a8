"""PyG's layers with torch_scatter and torch_sparse: on `SparseTensor`, rows sorted by destination,
caches filled, as PyG's page on memory-efficient aggregations has it.

GCN, SAGE and RGCN are sparse products, which PyG gives to torch on a CPU (torch_sparse's own take
1.2 to 2.4 times as long). Attention takes its softmax by torch_scatter's `segment_csr`. Sums and
maxima of messages are scattered, as PyG has it by default; in training EdgeConv takes `segment_csr`
for its maximum, as PyG does where deterministic algorithms are wanted: its derivative is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch_geometric.nn import GCNConv, RGCNConv
from torch_sparse import SparseTensor

from cases import graph_for
from contenders import Builder, Runner
from contenders.pyg import builders, rgcn
from graphs import EdgeList, graph_of
from layers import Workload, workload

# What must be seen in a call in training.
PRODUCT = ("aten::_sparse_mm_reduce_impl",)
SUM, MAXIMUM = "torch_scatter::segment_sum_csr", "torch_scatter::segment_max_csr"
OPERATORS = {
    **dict.fromkeys(("gcn", "sage", "rgcn"), PRODUCT),
    **dict.fromkeys(("gat", "gatv2"), (SUM, MAXIMUM)),
    "edgeconv": (MAXIMUM,),
}


def adjacency_of(graph: EdgeList) -> SparseTensor:
    """(rows, N), transposed as PyG wants it, with the type of each edge as value."""
    size = (graph.num_rows, graph.num_nodes)
    return SparseTensor(row=graph.dst, col=graph.src, value=graph.types, sparse_sizes=size)


def filled(graph: EdgeList) -> SparseTensor:
    """The same with the pointers and orders of both directions, which the first call would make."""
    return adjacency_of(graph).fill_cache_()


def check(conv: nn.Module, adjacency: SparseTensor) -> None:
    """The graph is a `SparseTensor`, in what GCNConv keeps, too, and products are fused."""
    kept = conv._cached_adj_t if isinstance(conv, GCNConv) else adjacency
    assert isinstance(kept, SparseTensor), type(kept)
    if isinstance(conv, GCNConv | RGCNConv):
        assert conv.fuse


def seen_on_tiny(layer: str, build: Builder) -> Builder:
    """The builder with a check of the operators: those that a call on a tiny graph runs."""

    def made(work: Workload) -> Runner:
        runner = build(work)

        def checked() -> None:
            runner.check()
            tiny = graph_of(graph_for(layer, "tiny"))
            small = build(workload(layer, tiny, work.features, work.training))
            found = operators(small.runs[0])
            wanted = OPERATORS[layer] if work.training or layer != "edgeconv" else ()
            assert found.issuperset(wanted), found

        return replace(runner, check=checked)

    return made


def sorted_maximum(build: Builder) -> Builder:
    """The builder of a layer that, in training, reduces what is sorted by `segment_csr`."""

    def made(work: Workload) -> Runner:
        if not work.training:
            return build(work)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            return build(work)
        finally:
            torch.use_deterministic_algorithms(False)

    return made


def operators(call: Callable[[], Tensor]) -> set[str]:
    """The names of all operators that a call runs."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    return {event.key for event in seen.key_averages()}


def itself(conv: nn.Module) -> nn.Module:
    """The layer, with all that is installed."""
    return conv


FORMS = builders(filled, itself, check, block_form=adjacency_of)
FORMS["rgcn"] = rgcn(RGCNConv, itself, check, form=lambda graph: (filled(graph),))
FORMS["edgeconv"] = sorted_maximum(FORMS["edgeconv"])
BUILDERS = {layer: seen_on_tiny(layer, build) for layer, build in FORMS.items()}
