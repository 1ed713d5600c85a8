"""The arguments of one call of a compiled model, taken apart: graphs, tensors, and the rest.

The rest must be plain: it is part of the key by value. Of a tensor the key has all but the number
of its rows, when that is the number of nodes or edges of an argument graph, or of graphs in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from gossamer import dgl_bridge
from gossamer.borrow import DglInitializers, from_dgl, is_dgl_graph
from gossamer.eager import EAGER
from gossamer.frame import Frame, Initializers, zeros
from gossamer.graph import Graph
from gossamer.membership import Membership
from gossamer.structure import Structure

from .errors import UntraceableError

PLAIN = (int, str, bool, type(None), torch.dtype, torch.device)
GRAPH, TENSOR = "graph", "tensor"


class Unsuited(UntraceableError):
    """These arguments (not the code) are a reason for region mode."""


class Arguments:
    """One call's arguments.

    Attributes:
        graphs: each argument graph once, DGL's as borrowed ones; `originals` as the caller has
            them.
        tensors: each argument tensor once.
        frames: the frames of all graphs, node frames first.
        structures: the relations of all graphs.
        counts: by kind of rows, "node", "edge" and "graph" (of a batch), their number for each
            node frame, relation and graph.
        sets: by kind, the row set of each of these; sets of equally many rows are one.
        rows: for each tensor (kind, number of the row set), or None.
        key: everything that decides what forward does with them.

    Raises:
        Unsuited: the arguments can't be taken apart.
    """

    def __init__(self, args: tuple, kwargs: dict):
        self.args = args
        self.kwargs = kwargs
        self.graphs: list[Graph] = []
        self.originals: list[Any] = []
        self.tensors: list[Tensor] = []
        self.frames: list[Frame] = []
        self.structures: tuple[Structure, ...] = ()
        #: Of this call's random numbers.
        self.seeds: list[Tensor] = []
        tokens: list[Hashable] = []
        for value in args:
            self._take(value, tokens)
        for name, value in kwargs.items():
            tokens.append(name)
            self._take(value, tokens)
        if not self.graphs:
            raise Unsuited("there is no graph among the arguments")
        self._count_rows()
        self.rows = [self._rows_of(tensor) for tensor in self.tensors]
        self.key = (
            tuple(tokens),
            tuple(map(_graph_key, self.graphs)),
            tuple(self.sets.values()),
            tuple(map(_tensor_key, self.tensors, self.rows)),
        )

    def _take(self, value: Any, tokens: list[Hashable]) -> None:
        kind = type(value)
        if kind is Tensor or kind is torch.nn.Parameter:
            tokens += (TENSOR, self._tensor(value))
        elif kind in PLAIN:
            tokens += (kind, value)
        elif kind is float:
            tokens += (kind, value.hex())
        elif kind in (list, tuple):
            tokens += (kind, len(value))
            for item in value:
                self._take(item, tokens)
        elif kind is dict:
            tokens += (kind, len(value))
            for name, item in value.items():
                self._take(name, tokens)
                self._take(item, tokens)
        elif isinstance(value, Graph) or is_dgl_graph(value):
            tokens += (GRAPH, self._graph(value))
        else:
            raise Unsuited(f"an argument is a {kind.__name__}")

    def _tensor(self, value: Tensor) -> int:
        for number, known in enumerate(self.tensors):
            if known is value:
                return number
        self.tensors.append(value)
        return len(self.tensors) - 1

    def _graph(self, value: Any) -> int:
        for number, known in enumerate(self.originals):
            if known is value:
                return number
        self.originals.append(value)
        if not isinstance(value, Graph):
            dgl_bridge.install()
            value = from_dgl(value)
        self.graphs.append(value)
        return len(self.graphs) - 1

    def take_graphs(self) -> None:
        """Find the frames and relations of the graphs."""
        graphs = self.graphs
        if len(graphs) == 1:
            self.frames = graphs[0]._node_frames + graphs[0]._edge_frames
            self.structures = graphs[0]._structures
            return
        nodes = [frame for graph in graphs for frame in graph._node_frames]
        self.frames = nodes + [frame for graph in graphs for frame in graph._edge_frames]
        self.structures = tuple([each for graph in graphs for each in graph._structures])

    def _count_rows(self) -> None:
        self.take_graphs()
        num_nodes = sum(len(graph._node_frames) for graph in self.graphs)
        rows = [frame.num_rows for frame in self.frames]
        self.counts = {
            "node": rows[:num_nodes],
            "edge": rows[num_nodes:],
            "graph": [graph.batch_size for graph in self.graphs],
        }
        self.sets = {
            kind: tuple([counts.index(count) for count in counts])
            for kind, counts in self.counts.items()
        }

    def _rows_of(self, tensor: Tensor) -> tuple[str, int] | None:
        if not tensor.dim():
            return None
        count = tensor.shape[0]
        kinds = [kind for kind, counts in self.counts.items() if count in counts]
        if "graph" in kinds and not any(
            graph._batch_nodes and graph.batch_size == count for graph in self.graphs
        ):
            kinds.remove("graph")  # one row is no sign of a graph that is no batch
        if len(kinds) > 1:
            words = " or to ".join(f"{kind}s" for kind in kinds)
            raise Unsuited(f"a tensor with {count} rows may belong to {words}")
        return (kinds[0], self.counts[kinds[0]].index(count)) if kinds else None

    def count(self, rows: tuple[str, int]) -> int:
        """The size of a row set."""
        kind, number = rows
        return self.counts[kind][number]

    def structure(self, number: int) -> Structure:
        """A relation: first those of all graphs, then from the rows of each frame to the graphs of
        their batch.
        """
        if number < len(self.structures):
            return self.structures[number]
        return self._members[number - len(self.structures)].structure

    @functools.cached_property
    def _members(self) -> list[Membership]:
        nodes = [g._node_members(i) for g in self.graphs for i in range(len(g._node_frames))]
        return nodes + [g._edge_members(i) for g in self.graphs for i in range(len(g._edge_frames))]

    def replaced(self, graphs: list, tensors: list) -> tuple[tuple, dict]:
        """Arguments of the same form, in fresh containers, with other graphs and tensors."""

        def leaf(value: Any) -> Any:
            if isinstance(value, Tensor):
                return tensors[self._tensor(value)]
            known = [i for i, original in enumerate(self.originals) if original is value]
            return graphs[known[0]] if known else value

        args = tuple([rebuilt(value, leaf) for value in self.args])
        return args, {name: rebuilt(value, leaf) for name, value in self.kwargs.items()}


def rebuilt(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A copy of nested lists, tuples and dicts with `leaf` applied to the rest."""
    kind = type(value)
    if kind in (list, tuple):
        return kind([rebuilt(item, leaf) for item in value])
    if kind is dict:
        return {name: rebuilt(item, leaf) for name, item in value.items()}
    return leaf(value)


def is_plain(tensor: Tensor) -> bool:
    """Whether a fresh tensor without data shows all that Python code can ask of this one."""
    return (
        tensor.layout is torch.strided
        and tensor.is_cpu
        and tensor.is_contiguous()
        and not tensor.__dict__
    )


def _tensor_key(tensor: Tensor, rows: tuple[str, int] | None) -> Hashable:
    if not is_plain(tensor):
        raise Unsuited("a tensor is not on the CPU, not contiguous, or has attributes of its own")
    shape = tensor.shape if rows is None else tensor.shape[1:]
    return rows, shape, tensor.dtype, tensor.requires_grad


def _graph_key(graph: Graph) -> Hashable:
    if not all(map(plain_initializers, (*graph._node_frames, *graph._edge_frames))):
        raise Unsuited("a graph has an initializer of its own")
    first = graph._structures[0] if graph._structures else None
    if first is None or first.device.type != "cpu" or not isinstance(graph._schema, Hashable):
        raise Unsuited("a graph has no relation, or is not on the CPU")
    if graph._engine is not EAGER:
        raise Unsuited("a graph is being compiled already")
    return graph._schema, first.idtype, tuple(graph._batch_nodes), tuple(graph._batch_edges)


def plain_initializers(frame: Frame) -> bool:
    """Whether rows that nobody writes are zeros."""
    initializers = frame.initializers
    if type(initializers) is Initializers:
        return initializers.default is zeros and not initializers.by_field
    if type(initializers) is not DglInitializers:
        return False
    theirs = initializers._store.frame
    default = theirs._default_initializer
    return (default is None or default is _dgl_zeros()) and not theirs._initializers


def _dgl_zeros() -> Any:
    from dgl.init import zero_initializer

    return zero_initializer
