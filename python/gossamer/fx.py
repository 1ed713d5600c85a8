"""Symbolic tracing without inputs: a torch.fx tracer that knows graphs.

`symbolic_trace(model)` gives an ordinary `torch.fx.GraphModule`. Any argument on which a graph
method is used is a graph. Features on a graph become dataflow: what has been written to a graph so
far is a log, an argument of every operator that may read it, and no operator changes a graph but
the last one, `commit`, which leaves the fields that the model leaves. See `fx_operators.py`:

    update_all(graph, log, message, reduce, apply, etype) -> Fields   the fields it writes
    apply_edges(graph, log, function, etype) -> Fields
    apply_nodes(graph, log, function, ntype) -> Fields
    call(graph, log, relation, name, args, kwargs) -> Called          any other method
    read(graph, log, space, field) -> Tensor
    edge_softmax(graph, logits, norm_by) -> Tensor
    view(graph, log) -> Graph             what a module is given that is a leaf of the trace
    commit(graph, log)

The user's functions are submodules: a `GraphModule` each where fx can trace them, else as they are.
They hold no parameters: parameters and modules that they use are arguments of `bind`, so they have
the model's own names in the trace, and a checkpoint of the model loads into it.

As everywhere in `torch.fx`, plain Python values (a float attribute, `self.training` in an `if`) are
those of the moment of tracing. Tensors are not: what is computed from a tensor is recorded.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, fx, nn

from gossamer import dgl_bridge
from gossamer import fx_operators as operators
from gossamer.function import from_dgl, is_builtin
from gossamer.fx_functions import Body, Function, Hole, Kept, has_effect, rebuild
from gossamer.fx_graphs import Argument, SymbolicGraph, identity, map_values
from gossamer.fx_model import traced_copy
from gossamer.fx_places import code_fields, placed
from gossamer.fx_tensors import RecordTensors
from gossamer.fx_transform import CompileMessagePassing

#: Iterating an argument (a list of blocks) stops here when nothing else stops it.
MAX_ITEMS = 256


class GraphTracer(fx.Tracer):
    """A `torch.fx.Tracer` that recognises graph arguments; made to be subclassed.

    As in `torch.fx.Tracer`, override `is_leaf_module`, `create_arg` and the like. `trace_function`
    decides how a user-defined function enters the trace. Like every fx tracer it is for one thread.
    """

    proxy_buffer_attributes = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._body: Body | None = None
        self._reset()

    def _reset(self) -> None:
        self._graphs: dict[Any, SymbolicGraph] = {}
        self._captured: dict[nn.Module, dict[str, fx.Proxy]] = {}
        self._attributes: dict[str, fx.Proxy] = {}
        self._kept: dict[int, fx.Proxy] = {}
        self._speculative: list[fx.Node] = []
        self._added: set[str] = set()

    # --- the trace --------------------------------------------------------------------------------

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> fx.Graph:
        """As `torch.fx.Tracer.trace`; the fields left on graphs are committed last.

        The model is not changed: functions become submodules of a shallow copy of it, `self.root`.

        Raises:
            TraceError: what cannot be traced, with the place in the user's file.
        """
        self._reset()
        if "dgl" in sys.modules:
            dgl_bridge.install()
        try:
            with RecordTensors(self), traced_copy(root) as traced:
                graph = super().trace(traced, concrete_args)
        except Exception as error:
            raise placed(error) from error
        self._commit(graph)
        for node in reversed(self._speculative):
            if not node.users:
                graph.erase_node(node)
        return graph

    def _commit(self, graph: fx.Graph) -> None:
        output = next(node for node in reversed(graph.nodes) if node.op == "output")
        with graph.inserting_before(output):
            for symbolic in self._graphs.values():
                if symbolic.log:
                    args = (symbolic.handle_of_all(), tuple(symbolic.log))
                    self.create_proxy("call_function", operators.commit, args, {})

    def create_proxy(self, kind: str, target: Any, args: tuple, kwargs: dict, *more, **named):
        """As `torch.fx.Tracer.create_proxy`; a function or leaf that is given a graph may write it.

        It gets a view of the graph, and what it has written to the view is written by the model.
        """
        mine = isinstance(target, operators.Operator) or target in (getattr, operator.getitem)
        if kind not in ("call_function", "call_module") or mine or self._body is not None:
            return super().create_proxy(kind, target, args, kwargs, *more, **named)
        views: dict[int, tuple[SymbolicGraph, fx.Proxy, fx.Proxy]] = {}

        def viewed(value: Any) -> Any:
            graph = self._known_graph(value)
            if graph is None:
                return value
            if id(graph) not in views:
                views[id(graph)] = (graph, graph.view(), graph.view())
            return views[id(graph)][2]

        args, kwargs = map_values((args, kwargs), viewed)
        result = super().create_proxy(kind, target, args, kwargs, *more, **named)
        for graph, before, after in views.values():
            self._note_written(graph, before, after, result)
        return result

    def _note_written(self, graph: SymbolicGraph, *args: fx.Proxy) -> None:
        fields = self.create_proxy("call_function", operators.written, args, {})
        graph.log.append((None, fields))

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """A proxy that turns into a graph when it is used as one."""
        return Argument(node, self) if self._body is None else fx.Proxy(node, self)

    def iter(self, obj: fx.Proxy) -> Iterator:
        """Items of an argument, for `zip(self.layers, blocks)` and unpacking.

        Raises:
            TraceError: nothing stops the iteration.
        """
        try:
            return super().iter(obj)
        except fx.proxy.TraceError:
            if self._body is not None:
                raise
            return self._items(obj)

    def _items(self, obj: fx.Proxy) -> Iterator:
        for index in range(MAX_ITEMS):
            item = obj[index]
            self._speculative.append(item.node)
            yield item
        raise fx.proxy.TraceError(
            f"iterating {obj.node} does not end: its length is unknown without an input; "
            "iterate over zip(self.layers, blocks), or index it"
        )

    # --- graphs -----------------------------------------------------------------------------------

    def is_graph(self, proxy: fx.Proxy) -> bool:
        """Whether a proxy has been used as a graph."""
        return identity(proxy.node) in self._graphs

    def symbolic_graph(self, proxy: fx.Proxy) -> SymbolicGraph:
        """The graph that a proxy stands for: one object for one argument, or item of one."""
        key = identity(proxy.node)
        if key not in self._graphs:
            self._check_not_a_relation(key)
            self._graphs[key] = SymbolicGraph(self, proxy)
        return self._graphs[key]

    def _check_not_a_relation(self, key: Any) -> None:
        for other in self._graphs:
            if isinstance(other, tuple) and other[0] == key:
                raise fx.proxy.TraceError(
                    f"{key} is used as a graph after its item {other[1]!r} was; use the graph "
                    "itself first, so that the trace knows that the item is a relation"
                )

    def _known_graph(self, value: Any) -> SymbolicGraph | None:
        if isinstance(value, SymbolicGraph):
            return value
        return self.symbolic_graph(value) if _is_argument(value) and self.is_graph(value) else None

    # --- user-defined functions -------------------------------------------------------------------

    def install(self, function: Any) -> Any:
        """What stands for a user-defined function (or None) as an argument of an operator."""
        if function is None or is_builtin(function):
            return from_dgl(function)
        if self._body is not None:
            raise fx.proxy.TraceError("a user-defined function passes messages itself")
        module = self.trace_function(function)
        captured = self._captured.pop(module, {})
        if isinstance(module, Function):
            captured = {**captured, **self._fill_holes(module)}
        name = self.get_fresh_qualname("udf_")
        self._add(name, module)
        installed = self.create_proxy("get_attr", name, (), {})
        if not captured:
            return installed
        return self.create_proxy("call_function", operators.bind, (installed, captured), {})

    def _add(self, name: str, module: nn.Module) -> None:
        self.root.add_module(name, module)
        self._added.add(name)

    def install_all(self, values: Any) -> Any:
        """`values` with every user-defined function in it installed."""
        return map_values(values, lambda x: self.install(x) if _is_function(x) else x)

    def trace_function(self, function: Callable) -> nn.Module:
        """A user-defined function as a module: a `GraphModule` if fx can trace it, else as it is.

        To keep a function as it is, return `Function(function)`.
        """
        if has_effect(function):
            return Function(function)
        logs = {graph: len(graph.log) for graph in self._graphs.values()}
        try:
            module = self._traced(function)
        except Exception:
            module = Function(function)
        if any(len(graph.log) != logs.get(graph, 0) for graph in self._graphs.values()):
            raise _writes_a_graph()
        return module

    def _traced(self, function: Callable) -> fx.GraphModule:
        outer, scopes = self.graph, (self.scope, self.module_stack.copy())
        graph = fx.Graph()
        graph._co_fields = code_fields(function)
        batch = graph.placeholder("batch")
        self._body = body = Body(outer, graph, batch)
        self.graph = graph
        try:
            graph.output(self.create_arg(function(fx.Proxy(batch, self))))
        finally:
            self.graph, self._body = outer, None
            self.scope, self.module_stack = scopes
        name = graph._co_fields.get("co_name", "function")
        module = fx.GraphModule({}, graph, name if name.isidentifier() else "function")
        self._captured[module] = {
            inner.target: fx.Proxy(node, self) for node, inner in body.captured.items()
        }
        return module

    def _fill_holes(self, module: Function) -> dict[str, fx.Proxy]:
        """Values of the trace that a kept function reaches, and parts of the model that it uses."""
        holes: dict[str, fx.Proxy] = {}
        effect = has_effect(module.function)

        def leaf(value: Any) -> Any:
            graph = self._known_graph(value)
            if graph is not None:
                if effect:
                    raise _writes_a_graph()
                value = graph.view()
            if isinstance(value, fx.Proxy):
                holes[value.node.name] = value
                return Hole(value.node.name)
            for path in self._paths(value):
                holes.setdefault(path.replace(".", "_"), self._attribute(path))
            return value

        object.__setattr__(module, "function", rebuild(module.function, leaf))
        return holes

    def _paths(self, value: Any) -> list[str]:
        """Paths of the parameters and modules that are `value`, or parts of it for the root."""
        if not isinstance(value, nn.Module | Tensor):
            return []
        path = self._path(value)
        if path is None:
            return []
        if path:
            return [path]
        parts = (*value._parameters.items(), *value._buffers.items(), *value._modules.items())
        return [name for name, part in parts if part is not None and name not in self._added]

    @property
    def in_function(self) -> bool:
        """Whether a user-defined function is being traced."""
        return self._body is not None

    # --- values that a function reaches ---------------------------------------------------------

    def create_arg(self, a: Any) -> Any:
        """As `torch.fx.Tracer.create_arg`; within a function, what is outside of it is captured."""
        if isinstance(a, fx.Proxy):
            return self._node_here(a.node)
        if self._body is not None and isinstance(a, nn.Module | Tensor):
            return self._node_here(self._outside(a).node)
        return super().create_arg(a)

    def _node_here(self, node: fx.Node) -> fx.Node:
        if node.graph is self.graph:
            return node
        if self._body is not None and node.graph is self._body.outer:
            return self._body.placeholder(node)
        raise fx.proxy.TraceError(
            f"{node.name}, a value inside of a user-defined function, is used outside of it"
        )

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, fx.Proxy]) -> Any:
        """As `torch.fx.Tracer.getattr`; parameters are always read in the model."""
        with self._in_model():
            return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: nn.Module, forward: Callable, args: tuple, kwargs: dict) -> Any:
        """As `torch.fx.Tracer.call_module`; a leaf that a function calls is one of its inputs."""
        if self._body is None:
            return super().call_module(m, forward, args, kwargs)
        path = self._path(m)
        if path == "" or not self.is_leaf_module(m, path or type(m).__name__):
            return forward(*args, **kwargs)
        return self.create_proxy("call_method", "__call__", (self._outside(m), *args), kwargs)

    @contextmanager
    def _in_model(self) -> Iterator[None]:
        """Within it, nodes go to the graph of the model."""
        body, graph = self._body, self.graph
        if body is not None:
            self._body, self.graph = None, body.outer
        try:
            yield
        finally:
            self._body, self.graph = body, graph

    def _outside(self, value: nn.Module | Tensor) -> fx.Proxy:
        """A module or tensor that a function uses, as a value of the model's graph."""
        with self._in_model():
            path = self._path(value)
            if path:
                return self._attribute(path)
            if path == "":
                raise fx.proxy.TraceError("a user-defined function passes the model itself on")
            return self._keep(value)

    def _attribute(self, path: str) -> fx.Proxy:
        if path not in self._attributes:
            self._attributes[path] = self.create_proxy("get_attr", path, (), {})
            self._speculative.append(self._attributes[path].node)
        return self._attributes[path]

    def _keep(self, value: nn.Module | Tensor) -> fx.Proxy:
        """A value that isn't part of the model: in a submodule without parameters."""
        if id(value) not in self._kept:
            name = self.get_fresh_qualname("kept_")
            self._add(name, Kept(value))
            kept = self.create_proxy("get_attr", name, (), {})
            if isinstance(value, Tensor):
                kept = self.create_proxy("call_function", getattr, (kept, "value"), {})
            self._kept[id(value)] = kept
        return self._kept[id(value)]

    def _path(self, value: nn.Module | Tensor) -> str | None:
        """The name of a module, parameter, buffer or tensor attribute of the model, or None."""
        if isinstance(value, nn.Module):
            found = self.root.named_modules()
        else:
            found = (*self.root.named_parameters(), *self.root.named_buffers())
        for name, part in found:
            if part is value:
                return name
        return self.tensor_attrs.get(value) if isinstance(value, Tensor) else None


def _writes_a_graph() -> fx.proxy.TraceError:
    return fx.proxy.TraceError(
        "a user-defined function writes fields of a graph itself, or may do so; return them"
    )


def _is_argument(value: Any) -> bool:
    return isinstance(value, Argument)


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, fx.Proxy | Tensor | type)


def symbolic_trace(model: nn.Module | Callable) -> fx.GraphModule:
    """The model as a `torch.fx.GraphModule`, traced without inputs; the model is not changed.

    Parameters and submodules are the model's own objects under their own names. Python numbers
    and flags are those of this moment, as in `torch.fx.symbolic_trace`. Each graph argument must be
    another graph.

    Raises:
        torch.fx.proxy.TraceError: the model's code outside of user-defined functions depends on
            values; with file and line.
    """
    from gossamer.compiled import CompiledFunction, CompiledModule

    if isinstance(model, CompiledFunction | CompiledModule):
        model = model.__wrapped__
    tracer = GraphTracer()
    graph = tracer.trace(model)
    name = type(model).__name__ if isinstance(model, nn.Module) else model.__name__
    return fx.GraphModule(tracer.root, graph, name if name.isidentifier() else "GraphModule")


__all__ = [
    "CompileMessagePassing",
    "Function",
    "GraphTracer",
    "SymbolicGraph",
    "symbolic_trace",
]
