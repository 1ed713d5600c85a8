"""What marks a graph of a symbolic trace, for functions that take real graphs and those."""

from __future__ import annotations


class Symbolic:
    """Base of what stands for a graph in a symbolic trace (`fx.py`)."""


def is_symbolic(graph: object) -> bool:
    """Whether `graph` stands for a graph that is not there yet."""
    return isinstance(graph, Symbolic)
