"""Graphs of a symbolic trace: writes become a log, and calls become operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, fx

from gossamer import fx_operators as operators
from gossamer.graph import Graph
from gossamer.ids import ALL, is_all
from gossamer.mutation import Mutation
from gossamer.queries import Queries
from gossamer.symbolic import Symbolic

if TYPE_CHECKING:
    from gossamer.fx import GraphTracer

_SETTERS = ("set_n_initializer", "set_e_initializer", "set_batch_num_nodes", "set_batch_num_edges")
#: Methods whose effect on a graph is not one on its fields.
_UNTRACED = frozenset((*_SETTERS, *(name for name in vars(Mutation) if name[0] != "_")))
#: Methods that ask about the structure, which a trace never changes.
_QUESTIONS = frozenset(
    name
    for name in (*vars(Queries), *dir(Graph))
    if name in vars(Queries) or name.startswith(("get_", "to_canonical"))
)
_GRAPH_NAMES = frozenset(
    name
    for name in (*dir(Graph), "edge_softmax")
    if not name.startswith("_") and not hasattr(Tensor, name)
)


class Argument(Symbolic, fx.Proxy):
    """A value in a trace; using a graph method on it makes it a graph."""

    def __getattr__(self, name: str) -> Any:
        if name in _GRAPH_NAMES or self.tracer.is_graph(self):
            return getattr(self.tracer.symbolic_graph(self), name)
        return super().__getattr__(name)

    def __getitem__(self, key: Any) -> Any:
        relation = isinstance(key, tuple) and len(key) == 3 and all(type(k) is str for k in key)
        if relation or self.tracer.is_graph(self):
            return self.tracer.symbolic_graph(self)[key]
        return self.tracer.create_proxy("call_function", operator.getitem, (self, key), {})

    def record_function(self, function: Callable, args: tuple, kwargs: dict) -> fx.Proxy:
        """Record a function of graphs that is called with this one."""
        return self.tracer.create_proxy("call_function", function, args, kwargs)


class SymbolicGraph(Symbolic):
    """A graph argument in a trace, with what has been written to it so far.

    Args:
        tracer: the trace.
        proxy: stands for the graph.
        log: what has been written: ((space, field), tensor) and (None, fields of an operator).
    """

    def __init__(self, tracer: GraphTracer, proxy: fx.Proxy, log: list | None = None) -> None:
        self._tracer = tracer
        self._proxy = proxy
        self.log: list[tuple] = [] if log is None else log

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._proxy.node.name})"

    # --- fields -----------------------------------------------------------------------------------

    ndata = property(lambda self: SymbolicFrame(self, "ndata"))
    srcdata = property(lambda self: SymbolicFrame(self, "srcdata"))
    dstdata = property(lambda self: SymbolicFrame(self, "dstdata"))
    edata = property(lambda self: SymbolicFrame(self, "edata"))
    nodes = property(lambda self: SymbolicSpaces(self, "nodes"))
    edges = property(lambda self: SymbolicSpaces(self, "edges"))
    srcnodes = property(lambda self: SymbolicSpaces(self, "srcnodes"))
    dstnodes = property(lambda self: SymbolicSpaces(self, "dstnodes"))

    # --- message passing --------------------------------------------------------------------------

    def update_all(self, message_func, reduce_func, apply_node_func=None, etype=None) -> None:
        """Record `Graph.update_all`."""
        self._operate(operators.update_all, message_func, reduce_func, apply_node_func, etype)

    def apply_edges(self, func, edges=ALL, etype=None) -> None:
        """Record `Graph.apply_edges`."""
        if not is_all(edges):
            self._call("apply_edges", (func, edges), {"etype": etype})
        else:
            self._operate(operators.apply_edges, func, etype)

    def apply_nodes(self, func, v=ALL, ntype=None) -> None:
        """Record `Graph.apply_nodes`."""
        if not is_all(v):
            self._call("apply_nodes", (func, v), {"ntype": ntype})
        else:
            self._operate(operators.apply_nodes, func, ntype)

    def edge_softmax(self, logits: Any, eids: Any = ALL, norm_by: str = "dst") -> fx.Proxy:
        """Record `edge_softmax`."""
        return self._record(operators.edge_softmax, (self.handle(), logits, eids, norm_by))

    def __getitem__(self, key: Any) -> SymbolicRelation:
        """A relation: the same log, written under its name."""
        return SymbolicRelation(self._tracer, self._proxy, self.log, key)

    # --- scopes -----------------------------------------------------------------------------------

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """What is written within is forgotten."""
        kept = list(self.log)
        try:
            yield
        finally:
            self.log[:] = kept

    def local_var(self) -> SymbolicGraph:
        """The same graph whose writes do not reach this one."""
        return SymbolicGraph(self._tracer, self._proxy, list(self.log))

    clone = local_var
    __copy__ = local_var

    # --- everything else --------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Questions about the structure are asked of the graph at run time."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _UNTRACED:
            raise fx.proxy.TraceError(
                f"`{name}` changes more of a graph than its fields, which a trace cannot; "
                "call it before the model"
            )
        if name not in _QUESTIONS and callable(getattr(Graph, name, None)):
            return lambda *args, **kwargs: self._call(name, args, kwargs)
        return getattr(self.handle(), name)

    def handle(self) -> fx.Proxy:
        """The graph itself, without what has been written."""
        return fx.Proxy(self._proxy.node, self._tracer)

    def view(self) -> fx.Proxy:
        """The graph with what has been written: what another function is given."""
        return self._record(operators.view, (self.handle_of_all(), tuple(self.log)))

    def handle_of_all(self) -> fx.Proxy:
        """The graph argument that the log belongs to."""
        return fx.Proxy(self._proxy.node, self._tracer)

    def record_read(self, space: Any, field: str) -> fx.Proxy:
        """The value of a field after everything that has been written."""
        return self._record(operators.read, (self.handle_of_all(), tuple(self.log), space, field))

    def record_write(self, space: Any, field: str, value: Any) -> None:
        """Note a write; None removes the field."""
        self.log.append(((space, field), value))

    def record_function(self, function: Callable, args: tuple, kwargs: dict) -> fx.Proxy:
        """Record a function of graphs that is called with this one."""
        return self._tracer.create_proxy("call_function", function, args, kwargs)

    def __fx_create_arg__(self, tracer: fx.Tracer) -> fx.Node:
        return self.view().node

    def _relation(self) -> Any:
        return None

    def _operate(self, target: Callable, *arguments: Any) -> None:
        """Record an operator whose last argument is the type it works on."""
        *functions, type_name = arguments
        installed = tuple(self._tracer.install(function) for function in functions)
        args = (self.handle_of_all(), tuple(self.log), *installed, type_name)
        self.log.append((None, self._record(target, args)))

    def _call(self, name: str, args: tuple, kwargs: dict[str, Any]) -> fx.Proxy:
        """Record a method that may read and write fields; gives what it returns."""
        args, kwargs = self._tracer.install_all((args, kwargs))
        arguments = (self.handle_of_all(), tuple(self.log), self._relation(), name, args, kwargs)
        called = self._record(operators.call, arguments)
        self.log.append((None, called))
        return self._record(getattr, (called, "result"))

    def _record(self, target: Callable, args: tuple) -> fx.Proxy:
        return self._tracer.create_proxy("call_function", target, args, {})


class SymbolicRelation(SymbolicGraph):
    """`g[etype]` in a trace."""

    def __init__(self, tracer: GraphTracer, proxy: fx.Proxy, log: list, etype: Any) -> None:
        super().__init__(tracer, proxy, log)
        self._etype = etype

    def update_all(self, message_func, reduce_func, apply_node_func=None, etype=None) -> None:
        """Record `update_all` on this relation."""
        super().update_all(message_func, reduce_func, apply_node_func, self._etype)

    def apply_edges(self, func, edges=ALL, etype=None) -> None:
        """Record `apply_edges` on this relation."""
        super().apply_edges(func, edges, self._etype)

    def local_var(self) -> SymbolicRelation:
        """The same relation whose writes do not reach this one."""
        return SymbolicRelation(self._tracer, self._proxy, list(self.log), self._etype)

    clone = local_var
    __copy__ = local_var

    def handle(self) -> fx.Proxy:
        """The relation itself, without what has been written."""
        return self._record(operator.getitem, (self.handle_of_all(), self._etype))

    def view(self) -> fx.Proxy:
        """The relation with what has been written."""
        return self._record(operator.getitem, (super().view(), self._etype))

    def record_read(self, space: Any, field: str) -> fx.Proxy:
        """As `SymbolicGraph.record_read`, in the frames of this relation."""
        return super().record_read((self._etype, space), field)

    def record_write(self, space: Any, field: str, value: Any) -> None:
        """As `SymbolicGraph.record_write`, in the frames of this relation."""
        super().record_write((self._etype, space), field, value)

    def _relation(self) -> Any:
        return self._etype


class SymbolicFrame(MutableMapping):
    """Features in a trace: writes go to the log, reads come from it."""

    def __init__(self, graph: SymbolicGraph, space: Any) -> None:
        self._graph = graph
        self._space = space

    def __getitem__(self, field: str) -> fx.Proxy:
        return self._graph.record_read(self._space, field)

    def __setitem__(self, field: str, value: Any) -> None:
        self._graph.record_write(self._space, field, value)

    def __delitem__(self, field: str) -> None:
        self._graph.record_write(self._space, field, None)

    def pop(self, field: str, *default: Any) -> fx.Proxy:
        """Read a field and forget it.

        Raises:
            TraceError: with a default; whether the field exists is unknown.
        """
        if default:
            field in self  # noqa: B015  (raises)
        value = self[field]
        del self[field]
        return value

    def __contains__(self, field: object) -> bool:
        raise fx.proxy.TraceError(f"whether field {field!r} exists is unknown without a graph")

    def get(self, field: str, default: Any = None) -> fx.Proxy:
        """Not traceable: whether the field exists is unknown."""
        return field in self

    def __iter__(self) -> Iterator:
        raise fx.proxy.TraceError("the fields of a graph are unknown without a graph")

    def __len__(self) -> int:
        raise fx.proxy.TraceError("the number of fields of a graph is unknown without a graph")


class SymbolicSpaces:
    """`g.nodes` and `g.edges` in a trace."""

    def __init__(self, graph: SymbolicGraph, kind: str) -> None:
        self._graph = graph
        self._kind = kind

    def __getitem__(self, type_name: Any) -> _Space:
        return _Space(SymbolicFrame(self._graph, (self._kind, type_name)))

    def __call__(self, *args: Any, **kwargs: Any) -> fx.Proxy:
        """Ids of nodes, endpoints of edges."""
        return getattr(self._graph.handle(), self._kind)(*args, **kwargs)


class _Space:
    def __init__(self, data: SymbolicFrame) -> None:
        self.data = data


def identity(node: fx.Node) -> Any:
    """What is equal for nodes of one value: items are told apart by their index."""
    if node.op == "call_function" and node.target is operator.getitem:
        owner, index = node.args
        if isinstance(owner, fx.Node) and isinstance(index, int | str | tuple):
            return (identity(owner), index)
    return node


def map_values(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """`leaf` of everything in containers, also of what fx doesn't know as a value."""
    if isinstance(value, tuple | list):
        return type(value)(map_values(item, leaf) for item in value)
    if isinstance(value, dict):
        return {key: map_values(item, leaf) for key, item in value.items()}
    return leaf(value)
