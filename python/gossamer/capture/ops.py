"""Graph operators: `torch.ops.gossamer.*`, functions of tensors only.

They are what fx graphs hold where a user's function meets the graph, in capture and in symbolic
tracing. Each is made of plain torch operators, so autograd, fake tensors and every device work
without more code. `src` and `dst` are the endpoints of the edges, by edge id: (E,) int32 or int64.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("gossamer", "FRAGMENT")


def _define(schema: str):
    def register(function):
        _LIBRARY.define(schema)
        _LIBRARY.impl(schema.split("(")[0], function, "CompositeImplicitAutograd")
        return function

    return register


@_define("gather_src(Tensor rows, Tensor src) -> Tensor")
def gather_src(rows: Tensor, src: Tensor) -> Tensor:
    """The row of the source of each edge: (num_src, ...) to (E, ...)."""
    return rows.index_select(0, src)


@_define("gather_dst(Tensor rows, Tensor dst) -> Tensor")
def gather_dst(rows: Tensor, dst: Tensor) -> Tensor:
    """The row of the destination of each edge: (num_dst, ...) to (E, ...)."""
    return rows.index_select(0, dst)


@_define("degree(Tensor dst, SymInt num_dst) -> Tensor")
def degree(dst: Tensor, num_dst: int) -> Tensor:
    """Number of edges at each node: (num_dst,) int64."""
    zeros = torch.zeros(num_dst, dtype=torch.int64, device=dst.device)
    return zeros.index_add(0, dst, torch.ones_like(dst, dtype=torch.int64))


@_define("reduce(Tensor edges, Tensor dst, SymInt num_dst, str kind) -> Tensor")
def reduce(edges: Tensor, dst: Tensor, num_dst: int, kind: str) -> Tensor:
    """Combine edge rows per node: (E, ...) to (num_dst, ...); 0 for nodes without edges.

    `kind` is sum, mean, max, min or prod. max and min propagate NaN, and the whole gradient of a
    tie goes to the edge with the smallest id, as torch.max over a mailbox does.

    Raises:
        ValueError: another kind.
    """
    zeros = edges.new_zeros(num_dst, *edges.shape[1:])
    if kind == "sum":
        return zeros.index_add(0, dst, edges)
    if kind == "mean":
        count = degree(dst, num_dst).clamp(min=1).to(edges.dtype)
        return zeros.index_add(0, dst, edges) / _like(count, edges)
    if kind in ("max", "min"):
        return _extremum(edges, dst, num_dst, kind)
    if kind == "prod":
        ones = edges.new_ones(num_dst, *edges.shape[1:])
        result = ones.scatter_reduce(0, _spread(dst, edges), edges, "prod")
        return fill_isolated(result, dst, num_dst, 0.0)
    raise ValueError(f"reduce kind is sum, mean, max, min or prod, but found {kind!r}")


@_define("softmax(Tensor edges, Tensor dst, SymInt num_dst) -> Tensor")
def softmax(edges: Tensor, dst: Tensor, num_dst: int) -> Tensor:
    """Normalise edge rows over the edges of each node: (E, ...) to (E, ...)."""
    largest = _amax(edges.detach(), dst, num_dst).index_select(0, dst)
    weight = (edges - largest).exp()
    return weight / reduce(weight, dst, num_dst, "sum").index_select(0, dst)


@_define("fill_isolated(Tensor rows, Tensor dst, SymInt num_dst, Scalar value) -> Tensor")
def fill_isolated(rows: Tensor, dst: Tensor, num_dst: int, value: float) -> Tensor:
    """Rows of nodes without edges become `value`; the others stay."""
    isolated = _like(degree(dst, num_dst) == 0, rows)
    return torch.where(isolated, torch.full((), value, dtype=rows.dtype, device=rows.device), rows)


@_define("mailbox(Tensor edges, Tensor dst, SymInt num_dst) -> Tensor")
def mailbox(edges: Tensor, dst: Tensor, num_dst: int) -> Tensor:
    """Messages by node, ordered by edge id: (E, ...) to (num_dst, D, ...).

    Raises:
        ValueError: the nodes do not all have the same number D of edges. A reducer over other
            graphs runs once per degree, or compiled.
    """
    degrees = degree(dst, num_dst)
    count = 0 if num_dst == 0 else int(degrees[0])
    if not bool((degrees == count).all()):
        raise ValueError(
            "a mailbox as one tensor needs nodes of one in-degree, but found degrees from "
            f"{int(degrees.min())} to {int(degrees.max())}"
        )
    order = torch.argsort(dst, stable=True)
    return edges.index_select(0, order).reshape(num_dst, count, *edges.shape[1:])


def _like(rows: Tensor, other: Tensor) -> Tensor:
    """(N,) with as many axes of size 1 as `other` has features."""
    return rows.reshape(-1, *[1] * (other.dim() - 1))


def _spread(index: Tensor, rows: Tensor) -> Tensor:
    """(E,) repeated over the features of `rows`, int64 as scatter operators want it."""
    return _like(index.long(), rows).expand_as(rows)


def _amax(edges: Tensor, dst: Tensor, num_dst: int) -> Tensor:
    zeros = edges.new_zeros(num_dst, *edges.shape[1:])
    return zeros.scatter_reduce(0, _spread(dst, edges), edges, "amax", include_self=False)


def _extremum(edges: Tensor, dst: Tensor, num_dst: int, kind: str) -> Tensor:
    """max or min per node, read through the id of the first edge that attains it."""
    zeros = edges.new_zeros(num_dst, *edges.shape[1:])
    if edges.shape[0] == 0:
        return zeros
    index = _spread(dst, edges)
    best = zeros.scatter_reduce(0, index, edges.detach(), "a" + kind, include_self=False)
    attained = edges.detach() == best.index_select(0, dst)
    if edges.is_floating_point():
        attained = attained | edges.detach().isnan()
    none = edges.shape[0]
    ids = torch.arange(none, device=edges.device)
    candidate = torch.where(attained, _like(ids, edges), none)
    first = torch.full_like(zeros, none, dtype=torch.int64)
    first = first.scatter_reduce(0, index, candidate, "amin")
    values = edges.gather(0, first.clamp(max=none - 1))
    return torch.where(first < none, values, torch.zeros_like(values))
