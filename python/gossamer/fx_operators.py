"""Operators of a symbolic trace: functions of a graph, a log of written features, and functions.

They don't change the graph they are given, `commit` aside. A log is a tuple of entries in order of
writing: ((space, field), tensor), or (None, `Fields`) for what an operator wrote.

An operator is an object: called with a proxy it records itself, under any tracer, so that generated
code can be traced again (which is how `torch.fx` unpickles); it prints as `gossamer::update_all`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from gossamer.borrow import from_dgl, is_dgl_graph
from gossamer.capture.tokens import LIBRARY, handles
from gossamer.errors import GraphError, MissingFieldError
from gossamer.frame import Column, resolve
from gossamer.fx_functions import Function
from gossamer.graph import Graph
from gossamer.ids import ALL

Log = tuple[tuple[Any, Any], ...]
_Columns = dict[tuple[str, int], dict[str, Column]]


class Operator:
    """A function that records itself when it is called in a symbolic trace."""

    def __init__(self, function: Callable) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, or become a node of the trace that an argument belongs to."""
        proxy = _first_proxy(args, kwargs)
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", self, args, kwargs)
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"gossamer::{self.__name__}"

    def __reduce__(self) -> str:
        return self.__name__  # the one object of this name, when copied and when unpickled


@handles(Operator)
def _snapshot_operator(walk: Any, value: Operator, *place: Any) -> None:
    """An operator is the same forever: it stands for itself in the key of a capture."""
    walk.out += (LIBRARY, value)


def _first_proxy(*values: Any) -> fx.Proxy | None:
    found: list[fx.Proxy] = []
    fx.node.map_aggregate(values, lambda x: found.append(x) if isinstance(x, fx.Proxy) else None)
    return found[0] if found else None


class Fields(Mapping[str, Tensor]):
    """What an operator wrote; deferred fields stay so until they are read."""

    def __init__(self, before: _Columns, after: _Columns) -> None:
        self._written: _Columns = {}
        self._removed: list[tuple[str, int, str]] = []
        for (kind, index), columns in after.items():
            old = before[kind, index]
            changed = {key: value for key, value in columns.items() if old.get(key) is not value}
            if changed:
                self._written[kind, index] = changed
            self._removed += [(kind, index, key) for key in old if key not in columns]

    def write(self, graph: Graph) -> None:
        """Do to another view of the graph what the operator did to its own."""
        for (kind, index), columns in self._written.items():
            frame = getattr(graph, kind)[index]
            for field, column in columns.items():
                frame[field] = column
        for kind, index, field in self._removed:
            del getattr(graph, kind)[index][field]

    def _columns(self) -> dict[str, Column]:
        return {key: column for part in self._written.values() for key, column in part.items()}

    def __getitem__(self, field: str) -> Tensor:
        return resolve(self._columns()[field])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns())

    def __len__(self) -> int:
        return len(self._columns())


class Called(Mapping[str, Tensor]):
    """What a method returned (`result`), and the `fields` it wrote."""

    def __init__(self, result: Any, fields: Fields) -> None:
        self.result = result
        self.fields = fields

    def write(self, graph: Graph) -> None:
        """As `Fields.write`."""
        self.fields.write(graph)

    def __getitem__(self, field: str) -> Tensor:
        return self.fields[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


# --- message passing ------------------------------------------------------------------------------


@Operator
def update_all(
    graph: Any, log: Log, message: Any, reduce: Any, apply: Any = None, etype: Any = None
) -> Fields:
    """The destination fields that `Graph.update_all` writes."""
    functions = (plain(message), plain(reduce), plain(apply))
    return _run(graph, log, lambda view: view.update_all(*functions, etype=etype)).fields


@Operator
def apply_edges(graph: Any, log: Log, function: Any, etype: Any = None) -> Fields:
    """The edge fields that `Graph.apply_edges` writes."""
    return _run(graph, log, lambda view: view.apply_edges(plain(function), etype=etype)).fields


@Operator
def apply_nodes(graph: Any, log: Log, function: Any, ntype: str | None = None) -> Fields:
    """The node fields that `Graph.apply_nodes` writes."""
    return _run(graph, log, lambda view: view.apply_nodes(plain(function), ntype=ntype)).fields


@Operator
def edge_softmax(graph: Any, logits: Any, eids: Any = ALL, norm_by: str = "dst") -> Any:
    """Softmax of edge values over the edges of each node."""
    from gossamer.softmax import edge_softmax as softmax

    return softmax(as_graph(graph), logits, eids, norm_by)


@Operator
def call(
    graph: Any, log: Log, relation: Any, name: str, args: tuple, kwargs: dict[str, Any]
) -> Called:
    """Another method of a graph (or of one of its relations), and the fields it writes."""
    args = fx.node.map_aggregate(args, plain)
    kwargs = fx.node.map_aggregate(kwargs, plain)

    def action(view: Graph) -> Any:
        target = view if relation is None else view[relation]
        return getattr(target, name)(*args, **kwargs)

    return _run(graph, log, action)


# --- features -------------------------------------------------------------------------------------


@Operator
def read(graph: Any, log: Log, space: Any, field: str) -> Tensor:
    """One field after everything in the log.

    Raises:
        MissingFieldError: nothing has written it.
    """
    return _features(_replayed(graph, log), space)[field]


@Operator
def view(graph: Any, log: Log) -> Graph:
    """The graph with the features of the log, whose own features do not change."""
    return _replayed(graph, log)


@Operator
def written(before: Graph, after: Graph, result: Any = None) -> Fields:
    """What a function that returned `result` wrote: two views, one of which it was given."""
    return Fields(_columns(before), _columns(after))


@Operator
def commit(graph: Any, log: Log) -> None:
    """Leave the features of the log on the graph."""
    _replay(as_graph(graph), log)


fx.has_side_effect(commit)


# --- functions ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bound:
    """A user-defined function with the values that it reaches outside of its argument."""

    function: nn.Module
    captured: Mapping[str, Any]

    def __fx_create_arg__(self, tracer: fx.Tracer) -> fx.Node:
        args = tracer.create_arg((self.function, dict(self.captured)))
        return tracer.create_node("call_function", bind, args, {})

    def plain(self) -> Callable:
        """The function alone, of one argument."""
        if isinstance(self.function, Function):
            return self.function.filled(self.captured)
        return functools.partial(plain(self.function), **self.captured)


@Operator
def bind(function: nn.Module, captured: Mapping[str, Any]) -> Bound:
    """A user-defined function with the values that it reaches outside of its argument."""
    return Bound(function, captured)


def plain(function: Any) -> Any:
    """What an engine is given for a function of a trace: the user's own function where it is kept.

    A `GraphModule` without hooks is called by `forward`: `torch.fx` prints errors on the other way.
    """
    if isinstance(function, Bound):
        return function.plain()
    if isinstance(function, Function):
        return function.function
    if isinstance(function, fx.GraphModule) and not (
        function._forward_hooks or function._forward_pre_hooks
    ):
        return function.forward
    return function


# --- compilation ----------------------------------------------------------------------------------


@Operator
def shadow(session: Any, graph: Any) -> Graph:
    """The graph, with its calls compiled."""
    from gossamer.capture.region import Region

    return Region(session).shadow(graph)


# --- logs -----------------------------------------------------------------------------------------


def as_graph(graph: Any) -> Graph:
    """The graph, or the graph of ours on a graph of DGL.

    Raises:
        GraphError: neither.
    """
    if isinstance(graph, Graph):
        return graph
    if is_dgl_graph(graph):
        return from_dgl(graph)
    raise GraphError(f"expected a graph, but found {type(graph).__name__}")


def _run(graph: Any, log: Log, action: Callable[[Graph], Any]) -> Called:
    view = _replayed(graph, log)
    before = _columns(view)
    result = action(view)
    return Called(result, Fields(before, _columns(view)))


def _columns(graph: Graph) -> _Columns:
    return {
        (kind, index): {key: frame.peek(key) for key in frame}
        for kind in ("_node_frames", "_edge_frames")
        for index, frame in enumerate(getattr(graph, kind))
    }


def _replayed(graph: Any, log: Log) -> Graph:
    view = as_graph(graph).local_var()
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
