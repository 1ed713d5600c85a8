"""What marks a graph of a symbolic trace, for functions that take real graphs and those."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Symbolic:
    """Base of what stands for a graph in a symbolic trace (`fx_graphs.py`)."""

    def record_function(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Record a call of a function of graphs."""
        raise NotImplementedError


def is_symbolic(graph: object) -> bool:
    """Whether `graph` stands for a graph that is not there yet."""
    return isinstance(graph, Symbolic)


def traceable(function: _Function) -> _Function:
    """A function of a graph (its first argument) that a symbolic trace records as one call."""

    @functools.wraps(function)
    def call(graph: Any, *args: Any, **kwargs: Any) -> Any:
        if is_symbolic(graph):
            return graph.record_function(call, (graph, *args), kwargs)
        return function(graph, *args, **kwargs)

    return call
