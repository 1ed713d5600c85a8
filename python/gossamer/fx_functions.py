"""User-defined functions in a symbolic trace: while they are traced, and those kept as they are.

A function that is kept is called at run time, so values of the trace that it reaches (through its
closure, defaults, arguments of a partial, or containers in those) become `Hole`s, filled at each
call.
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, fx, nn

from gossamer.capture.code_names import facts_of
from gossamer.capture.purity import PURE_BUILTINS, impure_module, is_library

_NO_FUNCTIONS: frozenset[int] = frozenset()


@dataclass
class Body:
    """A user-defined function that is being traced.

    Attributes:
        outer: the graph of the model, in which the function is used.
        graph: the graph of the function: placeholders for its argument and for `captured`.
        captured: nodes of `outer` that the function uses, to its placeholders.
    """

    outer: fx.Graph
    graph: fx.Graph
    last_placeholder: fx.Node
    captured: dict[fx.Node, fx.Node] = field(default_factory=dict)

    def placeholder(self, node: fx.Node) -> fx.Node:
        """What stands for a node of the model in the function."""
        if node not in self.captured:
            with self.graph.inserting_after(self.last_placeholder):
                inner = self.graph.placeholder(node.name)
            inner.target = inner.name  # another name would be assigned to in the code
            self.last_placeholder = self.captured[node] = inner
        return self.captured[node]


@dataclass(frozen=True)
class Hole:
    """Stands in a kept function for a value that the trace computes."""

    name: str


class Function(nn.Module):
    """A user-defined function as it is. Its parameters stay the model's: this module has none.

    Args:
        function: takes an `EdgeBatch` or a `NodeBatch`, returns a dict of tensors.
    """

    def __init__(self, function: Callable) -> None:
        super().__init__()
        object.__setattr__(self, "function", function)

    def forward(self, batch: Any) -> Mapping[str, Tensor]:
        """Call the function."""
        return self.function(batch)

    def filled(self, values: Mapping[str, Any]) -> Callable:
        """The function with a value in each hole."""
        return rebuild(self.function, lambda x: values[x.name] if isinstance(x, Hole) else x)

    def extra_repr(self) -> str:
        """The function's name."""
        return getattr(self.function, "__qualname__", repr(self.function))


class Kept(nn.Module):
    """Holds something that a trace uses and that isn't part of the model: no parameter of it."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        object.__setattr__(self, "value", value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self.value(*args, **kwargs)


def rebuild(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """`value` with `leaf` applied to everything it is made of; itself where nothing changes.

    Functions are made of their cells and defaults, partials and containers of their items, bound
    methods of their function and object.
    """
    return _Rebuilder(leaf)(value)


class _Rebuilder:
    def __init__(self, leaf: Callable[[Any], Any]) -> None:
        self._leaf = leaf
        self._done: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        new = self._leaf(value)
        rebuilder = _REBUILDERS.get(type(value))
        if new is not value or rebuilder is None:
            return new
        key = id(value)
        if key not in self._done:
            self._done[key] = value  # where a function reaches itself
            self._done[key] = rebuilder(self, value)
        return self._done[key]

    def items(self, values: Any) -> list | None:
        """The rebuilt items, or None when none changed."""
        new = [self(value) for value in values]
        same = all(a is b for a, b in zip(new, values, strict=True))
        return None if same else new


def _function(rebuilder: _Rebuilder, function: types.FunctionType) -> Any:
    cells = function.__closure__ or ()
    filled = [cell for cell in cells if _is_filled(cell)]
    contents = rebuilder.items([cell.cell_contents for cell in filled])
    defaults = rebuilder.items(function.__defaults__ or ())
    keywords = rebuilder(function.__kwdefaults__)
    if contents is None and defaults is None and keywords is function.__kwdefaults__:
        return function
    new_cells = {
        id(cell): types.CellType(content)
        for cell, content in zip(filled, contents or (), strict=contents is not None)
    }
    closure = tuple(new_cells.get(id(cell), cell) for cell in cells) or None
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__ if defaults is None else tuple(defaults),
        closure,
    )
    functools.update_wrapper(copy, function)
    del copy.__wrapped__
    copy.__kwdefaults__ = keywords
    return copy


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (raises when empty)
    except ValueError:
        return False
    return True


def _partial(rebuilder: _Rebuilder, partial: functools.partial) -> Any:
    function = rebuilder(partial.func)
    args = rebuilder.items(partial.args)
    keywords = rebuilder.items(list(partial.keywords.values()))
    if function is partial.func and args is None and keywords is None:
        return partial
    named = partial.keywords if keywords is None else zip(partial.keywords, keywords, strict=True)
    return functools.partial(function, *(partial.args if args is None else args), **dict(named))


def _method(rebuilder: _Rebuilder, method: types.MethodType) -> Any:
    parts = rebuilder.items([method.__func__, method.__self__])
    return method if parts is None else types.MethodType(*parts)


def _list(rebuilder: _Rebuilder, values: list) -> Any:
    return rebuilder.items(values) or values


def _tuple(rebuilder: _Rebuilder, values: tuple) -> Any:
    items = rebuilder.items(values)
    return values if items is None else tuple(items)


def _dict(rebuilder: _Rebuilder, values: dict) -> Any:
    items = rebuilder.items(list(values.values()))
    return values if items is None else dict(zip(values, items, strict=True))


_REBUILDERS: dict[type, Callable[[_Rebuilder, Any], Any]] = {
    types.FunctionType: _function,
    types.MethodType: _method,
    functools.partial: _partial,
    list: _list,
    tuple: _tuple,
    dict: _dict,
}


def has_effect(function: Any, seen: frozenset[int] = _NO_FUNCTIONS) -> bool:
    """Whether a function may do something besides computing its result, as far as its code shows.

    Tracing would do that once, and the trace never again.
    """
    bound = False
    while not isinstance(function, types.FunctionType):
        bound |= isinstance(function, types.MethodType)
        inner = getattr(function, "func", None) or getattr(function, "__func__", None)
        inner = inner or (type(function).forward if isinstance(function, nn.Module) else None)
        if inner is None:
            return False
        bound |= isinstance(function, nn.Module)
        function = inner
    if id(function) in seen or is_library(function.__globals__.get("__name__")):
        return False
    facts = facts_of(function.__code__)
    writes = [write for write in facts.writes if bound or write.kind != "self"]
    if facts.problem is not None or writes:
        return True
    seen |= {id(function)}
    return any(_is_impure(value, seen) for value in _named(function, facts))


def _named(function: types.FunctionType, facts: Any) -> list:
    """The values of the globals and outer variables that a function names."""
    names = [use.name for use in facts.globals]
    values = [function.__globals__.get(name, vars(builtins).get(name)) for name in names]
    return values + [c.cell_contents for c in function.__closure__ or () if _is_filled(c)]


def _is_impure(value: Any, seen: frozenset[int]) -> bool:
    if isinstance(value, types.ModuleType):
        return impure_module(value.__name__) is not None
    if isinstance(value, types.BuiltinFunctionType):
        return value.__module__ == "builtins" and value.__name__ not in PURE_BUILTINS
    return isinstance(value, types.FunctionType) and has_effect(value, seen)
