"""Operators of a symbolic trace: functions of a graph, a log of written features, and functions.

They don't change the graph they are given, `commit` aside. A log is a tuple of entries in order of
writing: ((space, field), tensor), or (None, `Fields`) for what an operator wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, fx

from gossamer.borrow import from_dgl
from gossamer.errors import GraphError, MissingFieldError
from gossamer.frame import Frame
from gossamer.graph import Graph

Log = tuple[tuple[Any, Any], ...]


class Fields(Mapping[str, Tensor]):
    """Fields that an operator wrote to one type of nodes or edges; deferred ones stay so until read."""

    def __init__(self, frame: Frame, kind: str, index: int) -> None:
        self._columns = {field: frame.peek(field) for field in frame.written}
        self._kind = kind
        self._index = index

    def write(self, graph: Graph) -> None:
        """Write the fields to the same type of another view of the graph."""
        frame = getattr(graph, self._kind)[self._index]
        for field, column in self._columns.items():
            frame[field] = column

    def __getitem__(self, field: str) -> Tensor:
        column = self._columns[field]
        return column if isinstance(column, Tensor) else column.materialize()

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def update_all(
    graph: Any, log: Log, message: Callable, reduce: Callable, apply: Callable | None, etype: Any
) -> Fields:
    """The destination fields that `Graph.update_all` writes."""
    view = _replayed(graph, log)
    index = _dst_frame(view, etype)
    frame = view._node_frames[index].track_writes()
    view.update_all(_plain(message), _plain(reduce), _plain(apply), etype=etype)
    return Fields(frame, "_node_frames", index)


def apply_edges(graph: Any, log: Log, function: Callable, etype: Any) -> Fields:
    """The edge fields that `Graph.apply_edges` writes."""
    view = _replayed(graph, log)
    index = view.get_etype_id(etype)
    frame = view._edge_frames[index].track_writes()
    view.apply_edges(_plain(function), etype=etype)
    return Fields(frame, "_edge_frames", index)


def apply_nodes(graph: Any, log: Log, function: Callable, ntype: str | None) -> Fields:
    """The node fields that `Graph.apply_nodes` writes."""
    view = _replayed(graph, log)
    index = view.get_ntype_id(ntype)
    frame = view._node_frames[index].track_writes()
    view.apply_nodes(_plain(function), ntype=ntype)
    return Fields(frame, "_node_frames", index)


def read(graph: Any, log: Log, space: Any, field: str) -> Tensor:
    """One field after everything in the log.

    Raises:
        MissingFieldError: nothing has written it.
    """
    return _features(_replayed(graph, log), space)[field]


def edge_softmax(graph: Any, logits: Tensor, norm_by: str = "dst") -> Tensor:
    """Softmax of edge values over the edges of each node."""
    from gossamer.softmax import edge_softmax as softmax

    return softmax(_as_graph(graph), logits, norm_by=norm_by)


@fx.has_side_effect
def commit(graph: Any, log: Log) -> None:
    """Leave the features of the log on the graph."""
    _replay(_as_graph(graph), log)


def _as_graph(graph: Any) -> Graph:
    if isinstance(graph, Graph):
        return graph
    dgl = sys.modules.get("dgl")
    if dgl is not None and isinstance(graph, dgl.DGLGraph):
        return from_dgl(graph)
    raise GraphError(f"expected a graph, but found {type(graph).__name__}")


def _replayed(graph: Any, log: Log) -> Graph:
    view = _as_graph(graph).local_var()
    _replay(view, log)
    return view


def _replay(graph: Graph, log: Log) -> None:
    for key, value in log:
        if key is None:
            value.write(graph)
            continue
        space, field = key
        features = _features(graph, space)
        if value is not None:
            features[field] = value
        elif field in features:
            del features[field]
        else:
            raise MissingFieldError(field, str(space), features)


def _features(graph: Graph, space: Any) -> Any:
    """The features that a space names: "ndata", ("nodes", type), or (etype, "srcdata")."""
    if isinstance(space, str):
        return getattr(graph, space)
    first, second = space
    if first in ("nodes", "edges", "srcnodes", "dstnodes"):
        return getattr(graph, first)[second].data
    return _features(graph[first], second)


def _dst_frame(graph: Graph, etype: Any) -> int:
    return graph._schema.relations[graph.get_etype_id(etype)].dst


def _plain(function: Any) -> Any:
    """The user's function inside the module that a trace holds."""
    return getattr(function, "function", function)
