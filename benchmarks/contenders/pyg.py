"""PyG's own layers on plain `edge_index` tensors, with the weights of the workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric import typing as installed
from torch_geometric.nn import (
    EdgeConv,
    FastRGCNConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    RGCNConv,
    SAGEConv,
)

from contenders import Runner, converted, of_module
from graphs import RELATIONS, EdgeList
from layers import HEADS, Workload

# Makes what a layer takes for its graph; for edges with types, all that it takes.
Format = Callable[[EdgeList], Tensor]
TypedFormat = Callable[[EdgeList], tuple]
# Wraps a layer, such as torch.compile does.
Wrap = Callable[[nn.Module], Callable[..., Tensor]]


def edge_index_of(graph: EdgeList) -> Tensor:
    """(2, E), in the order of the graph's edges."""
    return torch.stack([graph.src, graph.dst])


def typed_edge_index_of(graph: EdgeList) -> tuple[Tensor, Tensor]:
    """(2, E) and the type of each edge."""
    return edge_index_of(graph), graph.types


def builders(
    form: Format,
    wrap: Wrap,
    check: Callable[[object, Tensor], None],
    block_form: Format | None = None,
) -> dict:
    """The table of a PyG contender.

    Args:
        form: makes the graph. wrap: what is called instead of the layer itself.
        check: raises when the layer and the graph it was called with show another path.
        block_form: makes a block of a mini-batch, in each call; None for `form`.
    """
    block_form = block_form or form

    def build(make: Callable) -> Callable[[Workload], Runner]:
        return lambda work: make(work, form, wrap, check)

    makers = {"gcn": gcn, "gat": gat, "edgeconv": edgeconv, "gatv2": gatv2}
    layers = {name: build(whole_graph(maker)) for name, maker in makers.items()}
    return {**layers, "sage": lambda work: sage(work, block_form, wrap, check)}


def whole_graph(make: Callable) -> Callable[..., Runner]:
    """A runner of a layer on one graph, from what makes layer, parameters and gradients."""

    def build(work: Workload, form: Format, wrap: Wrap, check: Callable) -> Runner:
        conv, parameters, gradients = make(work)
        edge_index, seconds = converted(form, work.graph)
        call = wrap(conv)
        return of_module(
            work,
            parameters,
            gradients,
            [lambda: call(work.x, edge_index)],
            check=lambda: check(conv, edge_index),
            convert_s=seconds,
        )

    return build


def gcn(work: Workload) -> tuple:
    """`GCNConv`; the norm of each edge is computed by the first call and kept."""
    conv = GCNConv(work.features, work.features, cached=True, add_self_loops=False, bias=False)
    parameters = {"weight": (conv.lin.weight, work.weights["weight"].t())}
    return conv, parameters, lambda found: {"weight": found["weight"].t()}


def gat(work: Workload) -> tuple:
    """`GATConv`; the graph has its self loops already."""
    width = work.features // HEADS
    conv = GATConv(work.features, width, heads=HEADS, add_self_loops=False, bias=False)
    parameters = {
        "weight": (conv.lin.weight, work.weights["weight"].t()),
        "src": (conv.att_src, work.weights["src"]),
        "dst": (conv.att_dst, work.weights["dst"]),
    }

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"weight": found["weight"].t(), "src": found["src"][0], "dst": found["dst"][0]}

    return conv, parameters, gradients


def gatv2(work: Workload) -> tuple:
    """`GATv2Conv`."""
    width = work.features // HEADS
    conv = GATv2Conv(work.features, width, heads=HEADS, add_self_loops=False, bias=False)
    parameters = {
        "src": (conv.lin_l.weight, work.weights["src"].t()),
        "dst": (conv.lin_r.weight, work.weights["dst"].t()),
        "attention": (conv.att, work.weights["attention"]),
    }

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        src, dst = found["src"].t(), found["dst"].t()
        return {"src": src, "dst": dst, "attention": found["attention"][0]}

    return conv, parameters, gradients


def edgeconv(work: Workload) -> tuple:
    """`EdgeConv`, which is max_u relu([x_v; x_u - x_v] [A; B]) with A = P and B = P - T."""
    linear = nn.Linear(2 * work.features, work.features, bias=False)
    conv = EdgeConv(nn.Sequential(linear, nn.ReLU()), aggr="max")
    theta, phi = work.weights["theta"], work.weights["phi"]
    parameters = {"both": (linear.weight, torch.cat([phi, phi - theta]).t())}

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        own, change = found["both"].t().chunk(2)
        return {"theta": -change, "phi": own + change}

    return conv, parameters, gradients


def rgcn(
    conv_class: type[RGCNConv], wrap: Wrap, check: Callable, form: TypedFormat = typed_edge_index_of
) -> Callable[[Workload], Runner]:
    """`RGCNConv`, which goes over one relation after another, or `FastRGCNConv`, which makes the
    matrix of each edge and has no shapes that depend on data.
    """
    fixed = {"root_weight": False, "bias": False, "aggr": "mean", "is_sorted": True}

    def build(work: Workload) -> Runner:
        conv = conv_class(work.features, work.features, RELATIONS, **fixed)
        parameters = {"weight": (conv.weight, work.weights["weight"])}
        graph, seconds = converted(form, work.graph)
        call = wrap(conv)
        return of_module(
            work,
            parameters,
            dict,
            [lambda: call(work.x, *graph)],
            check=lambda: check(conv, graph[0]),
            convert_s=seconds,
        )

    return build


class SAGE(nn.Module):
    """Two `SAGEConv` with the mean, relu between them."""

    def __init__(self, features: int):
        super().__init__()
        make = {"aggr": "mean", "root_weight": True, "bias": False}
        self.convs = nn.ModuleList(SAGEConv(features, features, **make) for _ in range(2))

    def forward(self, x: Tensor, first: Tensor, middle: int, second: Tensor, last: int) -> Tensor:
        """Inputs of the first block to outputs of the last; with its edges goes the number of rows
        of each block's output.
        """
        x = functional.relu(self.convs[0]((x, x[:middle]), first))
        return self.convs[1]((x, x[:last]), second)


def sage(work: Workload, form: Format, wrap: Wrap, check: Callable) -> Runner:
    """The graph's format is made in each call."""
    model = SAGE(work.features)
    call = wrap(model)
    parameters = {}
    for i, conv in enumerate(model.convs):
        parameters[f"own{i}"] = (conv.lin_r.weight, work.weights[f"own{i}"].t())
        parameters[f"others{i}"] = (conv.lin_l.weight, work.weights[f"others{i}"].t())

    def run(blocks: tuple[EdgeList, ...], x: Tensor) -> Tensor:
        first, second = blocks
        return call(x, form(first), first.num_rows, form(second), second.num_rows)

    runs = [
        lambda blocks=blocks, x=x: run(blocks, x)
        for blocks, x in zip(work.graph.blocks, work.batch_inputs(), strict=True)
    ]

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: gradient.t() for name, gradient in found.items()}

    def check_last() -> None:
        check(model, form(work.graph.blocks[-1][-1]))

    return of_module(work, parameters, gradients, runs, check=check_last)


def check_plain(conv: nn.Module, edge_index: Tensor) -> None:
    """A plain tensor, and GCN's norm kept."""
    assert type(edge_index) is Tensor
    if isinstance(conv, GCNConv):
        assert conv._cached_edge_index is not None


@contextmanager
def without_extensions() -> Iterator[None]:
    """PyG as it is where torch_scatter and torch_sparse are not installed."""
    before = installed.WITH_TORCH_SCATTER, installed.WITH_TORCH_SPARSE
    installed.WITH_TORCH_SCATTER = installed.WITH_TORCH_SPARSE = False
    try:
        yield
    finally:
        installed.WITH_TORCH_SCATTER, installed.WITH_TORCH_SPARSE = before


def plain(conv: nn.Module) -> Callable[..., Tensor]:
    """The layer as it is, without the extensions."""

    def call(*arguments: object) -> Tensor:
        with without_extensions():
            return conv(*arguments)

    return call


BUILDERS = builders(edge_index_of, plain, check_plain)
BUILDERS["rgcn"] = rgcn(RGCNConv, plain, check_plain)
# A contender of its own: PyG has two layers for this.
FAST_RELATIONS = {"rgcn": rgcn(FastRGCNConv, plain, check_plain)}
