"""Symbolic tracing without inputs: a torch.fx tracer that knows graphs.

`symbolic_trace(model)` gives an ordinary `torch.fx.GraphModule`. Any argument on which a graph method
is used is a graph. Features on a graph become dataflow: what has been written to a graph so far is a
`Log`, an argument of every operator that may read it, and no operator changes a graph but the last
one, `commit`, which leaves the fields that the model leaves.

    update_all(graph, log, message, reduce, apply, etype) -> Fields   the fields it writes
    apply_edges(graph, log, function, etype) -> Fields
    apply_nodes(graph, log, function, ntype) -> Fields
    read(graph, log, space, field) -> Tensor
    edge_softmax(graph, logits, norm_by) -> Tensor
    commit(graph, log)

The user's functions are submodules: a `GraphModule` each where fx can trace them, else as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, fx, nn

from gossamer.function import BuiltinFunction, from_dgl, is_builtin
from gossamer.fx_operators import (
    apply_edges,
    apply_nodes,
    commit,
    edge_softmax,
    read,
    update_all,
)
from gossamer.graph import Graph
from gossamer.symbolic import Symbolic
from gossamer.udf import EdgeBatch, NodeBatch

#: Iterating an argument (a list of blocks) stops here when nothing else stops it.
MAX_ITEMS = 256

_GRAPH_NAMES = frozenset(
    name
    for name in (*dir(Graph), "edge_softmax")
    if not name.startswith("_") and not hasattr(Tensor, name)
)


class GraphTracer(fx.Tracer):
    """A `torch.fx.Tracer` that recognises graph arguments; made to be subclassed.

    As in `torch.fx.Tracer`, override `is_leaf_module`, `create_arg` and the like. `trace_function`
    decides how a user-defined function enters the trace.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._graphs: dict[fx.Node, SymbolicGraph] = {}
        self._functions: list[Callable] = []

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """A proxy that turns into a graph when it is used as one."""
        return Argument(node, self)

    def iter(self, obj: fx.Proxy) -> Iterator:
        """Items of an argument, for `zip(self.layers, blocks)` and unpacking.

        Raises:
            TraceError: nothing stops the iteration.
        """
        try:
            return super().iter(obj)
        except fx.proxy.TraceError:
            return self._items(obj)

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> fx.Graph:
        """As `torch.fx.Tracer.trace`; the fields left on graphs are committed last.

        The trace gets its functions as submodules of a shallow copy of `root`: `self.root` then.
        """
        self._graphs.clear()
        self._functions.clear()
        if isinstance(root, nn.Module):
            root = copy.copy(root)
            root._modules = dict(root._modules)
        graph = super().trace(root, concrete_args)
        for index, function in enumerate(self._functions):
            self.root.add_module(f"udf_{index}", self.trace_function(function))
        output = next(node for node in reversed(graph.nodes) if node.op == "output")
        with graph.inserting_before(output):
            for node, symbolic in self._graphs.items():
                if symbolic.log and node.op in ("placeholder", "call_function", "get_attr"):
                    graph.call_function(commit, (node, self.create_arg(tuple(symbolic.log))))
        return graph

    def symbolic_graph(self, proxy: fx.Proxy) -> SymbolicGraph:
        """The graph that a proxy stands for: one object for one argument."""
        return self._graphs.setdefault(proxy.node, SymbolicGraph(self, proxy))

    def trace_function(self, function: Callable) -> nn.Module:
        """A user-defined function as a module: a `GraphModule` if fx can trace it, else as it is."""
        if is_builtin(function):
            return Function(from_dgl(function))
        tracer = _FunctionTracer()
        try:
            graph = tracer.trace(Function(function))
        except Exception:
            return Function(function)
        return fx.GraphModule(tracer.root, graph)

    def install(self, function: Callable | None) -> fx.Proxy | None:
        """A user-defined function as a submodule of the root, by a get_attr node."""
        if function is None:
            return None
        self._functions.append(function)
        return self.create_proxy("get_attr", f"udf_{len(self._functions) - 1}", (), {})

    def _items(self, obj: fx.Proxy) -> Iterator:
        for index in range(MAX_ITEMS):
            yield obj[index]
        raise fx.proxy.TraceError(
            f"iterating {obj.node} does not end: its length is unknown without an input; "
            "iterate over zip(self.layers, blocks), or index it"
        )


class Argument(Symbolic, fx.Proxy):
    """A value in a trace; using a graph method on it makes it a graph."""

    def __getattr__(self, name: str) -> Any:
        if name in _GRAPH_NAMES:
            return getattr(self.tracer.symbolic_graph(self), name)
        return super().__getattr__(name)


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
        self._call(update_all, (message_func, reduce_func, apply_node_func), etype)

    def apply_edges(self, func, edges="__ALL__", etype=None) -> None:
        """Record `Graph.apply_edges` on all edges."""
        self._all_only(edges, "apply_edges")
        self._call(apply_edges, (func,), etype)

    def apply_nodes(self, func, v="__ALL__", ntype=None) -> None:
        """Record `Graph.apply_nodes` on all nodes."""
        self._all_only(v, "apply_nodes")
        self._call(apply_nodes, (func,), ntype)

    def edge_softmax(self, logits: fx.Proxy, norm_by: str = "dst") -> fx.Proxy:
        """Record `edge_softmax` over all edges."""
        arguments = (self._proxy, logits, norm_by)
        return self._tracer.create_proxy("call_function", edge_softmax, arguments, {})

    def __getitem__(self, key: Any) -> SymbolicGraph:
        """A relation: the same log, written under its name."""
        return SymbolicRelation(self, key)

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

    def __getattr__(self, name: str) -> Any:
        """Questions about the structure are asked of the graph at run time."""
        return getattr(fx.Proxy(self._proxy.node, self._tracer), name)

    def record_read(self, space: Any, field: str) -> fx.Proxy:
        """The value of a field: the one just written to the same space, else asked at run time."""
        if self.log and self.log[-1][0] == (space, field):
            return self.log[-1][1]
        arguments = (self._proxy, tuple(self.log), space, field)
        return self._tracer.create_proxy("call_function", read, arguments, {})

    def _call(self, operator: Callable, functions: tuple, type_name: Any) -> None:
        installed = tuple(self._tracer.install(function) for function in functions)
        arguments = (self._proxy, tuple(self.log), *installed, type_name)
        fields = self._tracer.create_proxy("call_function", operator, arguments, {})
        self.log.append((None, fields))

    def _all_only(self, subset: Any, name: str) -> None:
        if not (isinstance(subset, str) and subset == "__ALL__"):
            raise fx.proxy.TraceError(
                f"{name} on a subset cannot be traced; compile the model instead"
            )


class SymbolicRelation(SymbolicGraph):
    """`g[etype]` in a trace."""

    def __init__(self, whole: SymbolicGraph, etype: Any) -> None:
        super().__init__(whole._tracer, whole._proxy, whole.log)
        self._etype = etype
        self._whole = whole

    def record_read(self, space: Any, field: str) -> fx.Proxy:
        """As `SymbolicGraph.record_read`, in the frames of this relation."""
        return super().record_read((self._etype, space), field)

    def update_all(self, message_func, reduce_func, apply_node_func=None, etype=None) -> None:
        """Record `update_all` on this relation."""
        super().update_all(message_func, reduce_func, apply_node_func, self._etype)

    def apply_edges(self, func, edges="__ALL__", etype=None) -> None:
        """Record `apply_edges` on this relation."""
        super().apply_edges(func, edges, self._etype)

    def __getattr__(self, name: str) -> Any:
        relation = fx.Proxy(self._proxy.node, self._tracer)[self._etype]
        return getattr(relation, name)


class SymbolicFrame(MutableMapping):
    """Features in a trace: writes go to the log, reads come from it."""

    def __init__(self, graph: SymbolicGraph, space: Any) -> None:
        self._graph = graph
        self._space = space

    def __getitem__(self, field: str) -> fx.Proxy:
        return self._graph.record_read(self._space, field)

    def __setitem__(self, field: str, value: Any) -> None:
        space = self._space
        if isinstance(self._graph, SymbolicRelation):
            space = (self._graph._etype, space)
        self._graph.log.append(((space, field), value))

    def pop(self, field: str, *default: Any) -> fx.Proxy:
        """Read a field and forget it."""
        value = self[field]
        del self[field]
        return value

    def __delitem__(self, field: str) -> None:
        self[field] = None

    def __contains__(self, field: object) -> bool:
        raise fx.proxy.TraceError(f"whether field {field!r} exists is unknown without a graph")

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
        proxy = fx.Proxy(self._graph._proxy.node, self._graph._tracer)
        return getattr(proxy, self._kind)(*args, **kwargs)


class _Space:
    def __init__(self, data: SymbolicFrame) -> None:
        self.data = data


class Function(nn.Module):
    """A user-defined function as a module, so that a trace can hold it."""

    def __init__(self, function: Callable | BuiltinFunction) -> None:
        super().__init__()
        if isinstance(function, nn.Module):
            self.add_module("function", function)
        else:
            object.__setattr__(self, "function", function)

    def forward(self, batch: EdgeBatch | NodeBatch) -> Mapping[str, Tensor]:
        """Call the function."""
        return self.function(batch)


class _FunctionTracer(fx.Tracer):
    """Traces one user-defined function. Batches need nothing special: frames are asked at run time.

    Modules and parameters that the function reaches are installed in the result.
    """

    def path_of_module(self, mod: nn.Module) -> str:
        """Where a module is in the result; installed when it isn't there yet."""
        try:
            return super().path_of_module(mod)
        except NameError:
            name = f"module_{len(self.root._modules)}"
            self.root.add_module(name, mod)
            return name

    def create_arg(self, a: Any) -> Any:
        """As `torch.fx.Tracer.create_arg`, also for parameters outside of the root."""
        if isinstance(a, nn.Parameter) and all(a is not p for p in self.root.parameters()):
            self.root.register_parameter(f"parameter_{len(self.root._parameters)}", a)
        return super().create_arg(a)


def symbolic_trace(model: nn.Module | Callable) -> fx.GraphModule:
    """The model as a `torch.fx.GraphModule`, traced without inputs.

    Raises:
        torch.fx.proxy.TraceError: the model's code outside user-defined functions depends on values.
    """
    wrapped = getattr(model, "__wrapped__", model)
    tracer = GraphTracer()
    graph = tracer.trace(wrapped)
    name = type(wrapped).__name__ if isinstance(wrapped, nn.Module) else wrapped.__name__
    return fx.GraphModule(tracer.root, graph, name)


class CompileMessagePassing(fx.Transformer):
    """A `torch.fx.Transformer` whose result runs the message passing operators compiled.

    >>> fast = gs.fx.CompileMessagePassing(gs.symbolic_trace(model)).transform()
    >>> y = fast(g, x)
    """

    def __init__(self, module: fx.GraphModule, **options: Any) -> None:
        super().__init__(module)
        self._options = options

    def call_function(self, target: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Message passing operators become compiled ones; others stay."""
        if target in (update_all, apply_edges, apply_nodes, edge_softmax, read):
            target = self._compiled(target)
        return super().call_function(target, args, kwargs)

    def _compiled(self, target: Callable) -> Callable:
        from gossamer.compiled import compile

        return compile(target, **self._options)


__all__ = [
    "CompileMessagePassing",
    "GraphTracer",
    "SymbolicGraph",
    "symbolic_trace",
]
