"""DGL's own functions on our graphs: `edge_softmax(g, x)` of DGL inside a compiled model.

Models copy DGL's functions into their own namespaces (`from dgl.ops import edge_softmax`), so the
function objects themselves learn to pass graphs of ours on to the function of the same name here,
and tensors of a capture, whose number of rows is not known. For others they do what they did.
Installed once per process, when the first DGL graph is compiled; it holds for all threads, since
only the type of the first argument decides.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from gossamer.graph import Graph
from gossamer.symbolic import is_symbolic

#: Module of the function in DGL, and the names of functions that take a graph, a list of them, or
#: tensors and ask how many rows these have.
_FUNCTIONS = {
    "dgl.ops.edge_softmax": ("edge_softmax",),
    "dgl.ops.spmm": ("gspmm",),
    "dgl.ops.sddmm": ("gsddmm",),
    "dgl.ops.gather_mm": ("gather_mm",),
    "dgl.batch": ("batch", "unbatch"),
    "dgl.subgraph": ("node_subgraph", "edge_subgraph", "in_subgraph", "out_subgraph"),
    "dgl.transforms.functional": (
        "reverse",
        "add_reverse_edges",
        "add_self_loop",
        "remove_self_loop",
        "to_bidirected",
        "to_simple",
    ),
    "dgl.transforms.to_block": ("to_block",),
    "dgl.propagate": ("prop_nodes_bfs", "prop_nodes_topo", "prop_edges_dfs"),
    "dgl.traversal": (
        "topological_nodes_generator",
        "bfs_nodes_generator",
        "bfs_edges_generator",
        "dfs_edges_generator",
    ),
    "dgl.readout": (
        "sum_nodes",
        "mean_nodes",
        "max_nodes",
        "softmax_nodes",
        "broadcast_nodes",
        "sum_edges",
        "mean_edges",
        "max_edges",
        "softmax_edges",
        "broadcast_edges",
        "readout_nodes",
        "readout_edges",
        "topk_nodes",
        "topk_edges",
    ),
}

#: How the functions call their first argument.
_FIRST = ("graph", "g", "graphs", "a")


@functools.cache
def install() -> None:
    """Let DGL's functions accept our graphs. Does nothing where DGL isn't imported."""
    for module_name, names in _FUNCTIONS.items():
        module = sys.modules.get(module_name)
        for name in names if module is not None else ():
            function = getattr(module, name, None)
            if isinstance(function, types.FunctionType) and not function.__code__.co_freevars:
                _teach(function, _counterpart(name))


def _counterpart(name: str) -> Callable:
    from gossamer import dgl as ours

    return getattr(ours, name, None) or getattr(ours.ops, name)


def _teach(function: types.FunctionType, ours: Callable) -> None:
    """Give the function object a body that looks at the graph first; its old body moves aside."""
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    original.__kwdefaults__ = function.__kwdefaults__

    def choose(*args: Any, **kwargs: Any) -> Any:
        given = (kwargs[name] for name in _FIRST if kwargs.get(name) is not None)
        first = args[0] if args else next(given, None)
        return (ours if _is_ours(first) else original)(*args, **kwargs)

    function.__kwdefaults__ = {"_gossamer_choose": choose}
    function.__defaults__ = None
    function.__code__ = _body.__code__.replace(co_name=function.__name__)


def _body(*args: Any, _gossamer_choose: Callable, **kwargs: Any) -> Any:
    return _gossamer_choose(*args, **kwargs)


def _is_ours(first: Any) -> bool:
    if isinstance(first, (list, tuple)) and first:
        first = first[0]
    return isinstance(first, Graph) or is_symbolic(first) or _is_captured(first)


def _is_captured(value: Any) -> bool:
    """Whether a value is a tensor without data; the module that has them may not be loaded."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(value, module.FakeTensor)
