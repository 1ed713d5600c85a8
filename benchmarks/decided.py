"""Which outputs gradients are compared from: those where rounding does not choose a branch.

A maximum passes its gradient to one edge, relu and leaky_relu have another slope on each side of
zero. Where two messages are nearly equal, or a number is nearly zero, correct float32 code takes
either branch, and its gradients differ from those of float64 by whole terms. Such outputs get the
gradient 0, in every contender and in the reference alike; the outputs themselves are all compared.

What "nearly" means is measured: the largest error that the numbers in question have when the
reference computes them in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from graphs import EdgeList
from layers import LAYERS, Workload, at, edgeconv_sums, gat_scores, heads_of, sage_layer, sums

# A contender, which may add in another order, loses so many times what the reference loses.
OTHER_ORDERS = 2.0


def decided_of(exact: Workload, rounded: Workload) -> list[Tensor] | None:
    """For each output which of its numbers are decided, in the output's shape; None where a layer
    has no branches.

    Args:
        exact: the workload in float64. rounded: the same in float32.
    """
    if exact.layer not in DECIDED:
        return None
    with torch.no_grad():
        found = list(DECIDED[exact.layer](exact, rounded))
    if LAYERS[exact.layer].on_blocks:
        return found
    (shape,) = exact.output_shapes()
    width = shape[1] // len(found)
    return [torch.cat([mask.expand(-1, width) for mask in found], dim=1)]


def loss(exact: Tensor, rounded: Tensor) -> float:
    """How far the numbers of a contender may be from those of float64."""
    return OTHER_ORDERS * float((rounded - exact).abs().max())


def by_head(compute: Callable[..., Tensor], decide: Callable[..., Tensor]) -> Callable:
    """Masks of each head, (N, F / HEADS) or (N, 1): `decide` gets the graph, the numbers that
    `compute` gives in float64, and how far those of a contender may be off.
    """

    def masks(exact: Workload, rounded: Workload) -> Iterator[Tensor]:
        pairs = zip(heads_of(exact.weights), heads_of(rounded.weights), strict=True)
        for parts, rounded_parts in pairs:
            values = compute(exact.graph, exact.x, **parts)
            off = loss(values, compute(rounded.graph, rounded.x, **rounded_parts))
            yield decide(exact.graph, values, off)

    return masks


def gat(graph: EdgeList, x: Tensor, weight: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    """What leaky_relu gets, (E, 1)."""
    return gat_scores(graph, x @ weight, src, dst).unsqueeze(1)


def gatv2(graph: EdgeList, x: Tensor, src: Tensor, dst: Tensor, attention: Tensor) -> Tensor:
    """What leaky_relu gets, (E, F / HEADS)."""
    return at(x @ src, graph.src) + at(x @ dst, graph.dst)


def no_edge_near_zero(graph: EdgeList, values: Tensor, off: float) -> Tensor:
    """Nodes all of whose in-edges have their values on a certain side of zero, (N, 1)."""
    near = (values.abs() <= off).any(1, keepdim=True)
    return sums(graph, near.double()) == 0


def one_largest(graph: EdgeList, values: Tensor, off: float) -> Tensor:
    """Nodes and columns whose largest in-edge value is one source's for certain, and on a certain
    side of zero, (N, columns).
    """
    columns = values.shape[1]
    top = values.new_zeros(graph.num_rows, columns)
    top.scatter_reduce_(
        0, graph.dst.unsqueeze(1).expand_as(values), values, "amax", include_self=False
    )
    # Both values of a pair may be off.
    edges, column = (values >= at(top, graph.dst) - 2 * off).nonzero(as_tuple=True)
    place, source = graph.dst[edges] * columns + column, graph.src[edges].double()
    size = graph.num_rows * columns
    mean = torch.bincount(place, source, size) / torch.bincount(place, minlength=size)
    # Parallel edges carry the same gradient to the same node.
    others = torch.bincount(place, (source != mean[place]).double(), size).view_as(top)
    return (others == 0) & (top.abs() > off)


def sage(exact: Workload, rounded: Workload) -> Iterator[Tensor]:
    """Rows that read no row of the hidden layer with a number near relu's kink."""
    inputs = zip(exact.batch_inputs(), rounded.batch_inputs(), strict=True)
    for (first, second), rows in zip(exact.graph.blocks, inputs, strict=True):
        hidden, rough = (
            sage_layer(first, x, work.weights, 0)
            for x, work in zip(rows, (exact, rounded), strict=True)
        )
        near = (hidden.abs() <= loss(hidden, rough)).any(1, keepdim=True).double()
        read = sums(second, at(near, second.src)) + near[: second.num_rows]
        yield (read == 0).expand(-1, exact.features)


DECIDED = {
    "gat": by_head(gat, no_edge_near_zero),
    "gatv2": by_head(gatv2, no_edge_near_zero),
    "edgeconv": by_head(edgeconv_sums, one_largest),
    "sage": sage,
}
