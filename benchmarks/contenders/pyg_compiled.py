"""PyG's layers under `torch.compile`, for any size and for one size."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch._dynamo
import torch._inductor.compile_fx
import torch.utils.cpp_extension
from torch import Tensor, nn
from torch._inductor.codegen.common import init_backend_registration
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch_geometric.nn import FastRGCNConv, GCNConv

from contenders.pyg import builders, check_plain, edge_index_of, rgcn

# What a first compilation finds out or imports, as are the unused imports above; it is not timed.
torch._dynamo.lookup_backend("inductor")
init_backend_registration()
pick_vec_isa()


def wrap(dynamic: bool) -> Callable[[nn.Module], Callable[..., Tensor]]:
    """`torch.compile` without graph breaks.

    GCNConv runs as it is once: that fills its cache, which compiled code then only reads.
    """

    def compiled(conv: nn.Module) -> Callable[..., Tensor]:
        fast = torch.compile(conv, dynamic=dynamic, fullgraph=True)

        def call(*arguments: object) -> Tensor:
            if isinstance(conv, GCNConv) and conv._cached_edge_index is None:
                with torch.no_grad():
                    conv(*arguments)
            return fast(*arguments)

        return call

    return compiled


def check(conv: nn.Module, edge_index: Tensor) -> None:
    """Something was compiled, and nothing broke the graph (`fullgraph` would have raised)."""
    check_plain(conv, edge_index)
    counters = torch._dynamo.utils.counters
    assert counters["stats"]["unique_graphs"] > 0
    assert not counters["graph_break"], counters["graph_break"]


def table(dynamic: bool) -> dict:
    """The builders; of the two layers on relations the one whose shapes do not depend on data."""
    found = builders(edge_index_of, wrap(dynamic), check)
    return {**found, "rgcn": rgcn(FastRGCNConv, wrap(dynamic), check)}


DYNAMIC, STATIC = table(dynamic=True), table(dynamic=False)
