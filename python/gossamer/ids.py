"""Turning what users pass as node and edge ids into id tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError

if TYPE_CHECKING:
    from gossamer.graph import Graph

#: Fields and words that DGL reserves.
NID = EID = "_ID"
NTYPE = ETYPE = "_TYPE"
ALL = "__ALL__"

_INTEGERS = (torch.int32, torch.int64)


def is_all(ids: object) -> bool:
    """Whether `ids` stands for all nodes or edges."""
    return isinstance(ids, str) and ids == ALL


def id_tensor(ids: object, idtype: torch.dtype, device: torch.device, name: str) -> Tensor:
    """Ids as a 1-D tensor of `idtype` on `device`. Lists, ints and arrays are converted, tensors
    must fit.

    Raises:
        GraphError: a tensor of another dtype or device, or not one-dimensional.
    """
    if isinstance(ids, Tensor):
        if ids.dtype != idtype and ids.numel():
            raise GraphError(
                f"Expect argument {name!r} to have data type {idtype}, but got {ids.dtype}"
            )
        if ids.device != device:
            raise GraphError(
                f"Expect argument {name!r} to be on device {device}, but got {ids.device}"
            )
        tensor = ids.to(idtype)
    else:
        tensor = _as_tensor(ids, name)
        if tensor.numel() and tensor.dtype not in _INTEGERS:
            raise GraphError(f"Expect argument {name!r} to hold integers, but got {tensor.dtype}")
        tensor = tensor.to(idtype).to(device)
    if tensor.dim() == 0:
        return tensor.unsqueeze(0)
    if tensor.dim() != 1:
        raise GraphError(
            f"Expect a 1-D tensor for argument {name!r}, but got {tensor.dim()} dimensions"
        )
    return tensor


def _as_tensor(ids: object, name: str) -> Tensor:
    if not hasattr(ids, "__array__") and not isinstance(ids, int | list | tuple):
        ids = list(ids)
    try:
        return torch.as_tensor(ids)
    except (TypeError, ValueError) as error:
        raise GraphError(f"argument {name!r} holds no node or edge ids: {error}") from None


def graph_ids(graph: Graph, ids: object, name: str) -> Tensor:
    """Ids in the graph's idtype and on its device."""
    return id_tensor(ids, graph.idtype, graph.device, name)


def check_range(ids: Tensor, count: int, what: str) -> Tensor:
    """`ids`, after checking that each is at least 0 and below `count`.

    Raises:
        GraphError: naming the first bound that is broken.
    """
    if ids.numel():
        low, high = (int(bound) for bound in ids.aminmax())
        if low < 0 or high >= count:
            wrong = low if low < 0 else high
            raise GraphError(f"Invalid {what} ID {wrong}; there are {count}")
    return ids


def edge_ids_of(graph: Graph, edges: object, etype: object, name: str = "edges") -> Tensor:
    """Edge ids from ids or from a pair (sources, destinations).

    Raises:
        GraphError: an invalid id, or a pair of nodes without an edge.
    """
    if isinstance(edges, tuple) and len(edges) == 2:
        return graph_ids(graph, graph.edge_ids(*edges, etype=etype), name)
    return check_range(graph_ids(graph, edges, name), graph.num_edges(etype), "edge")
