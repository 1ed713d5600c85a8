"""Borrowing a real DGL graph: its edges without a copy, its frames by writing through.

DGL is never imported here; what is given brings it along.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError
from gossamer.frame import Column, Deferred, Frame, Initializer, Initializers, zeros
from gossamer.graph import Graph
from gossamer.membership import Membership
from gossamer.schema import RelationEnds, Schema
from gossamer.structure import Structure

if TYPE_CHECKING:
    import dgl


@dataclass(frozen=True)
class _Borrowed:
    """What was made for one of DGL's structure objects; `members` by type."""

    owner: weakref.ref
    structures: tuple[Structure, ...]
    members: dict[Hashable, Membership] = field(default_factory=dict)


#: By id of DGL's structure object. DGL makes a new object when a graph changes, and the entry
#: leaves with the old one. (DGL's own hash and equality of that object do not work, hence the id.)
_borrowed: dict[int, _Borrowed] = {}


def from_dgl(graph: dgl.DGLGraph) -> Graph:
    """A graph on the edges of a DGL graph (or block), whose features are the DGL graph's own.

    Fields written to either appear in the other. The structure is shared, not copied.

    Raises:
        GraphError: not a DGL graph.
    """
    if not is_dgl_graph(graph):
        raise GraphError(f"expected a dgl.DGLGraph, got {type(graph).__name__}")
    schema = _schema(graph)
    structures = _borrow_structures(graph, schema)
    device = graph.device
    node_frames = [
        _borrow_frame(graph, "_node_frames", i, graph._graph.num_nodes(i), "nodes", device)
        for i in range(len(schema.ntypes))
    ]
    edge_frames = [
        _borrow_frame(graph, "_edge_frames", i, structure.num_edges, "edges", device)
        for i, structure in enumerate(structures)
    ]
    result = BorrowedGraph(schema, structures, node_frames, edge_frames)
    result._batch_nodes = _borrow_members(graph, graph._batch_num_nodes, schema.ntypes)
    result._batch_edges = _borrow_members(graph, graph._batch_num_edges, schema.canonical_etypes)
    return result


def is_dgl_graph(value: object) -> bool:
    """Whether `value` is a graph of the real DGL."""
    return hasattr(value, "_graph") and any(
        base.__module__.partition(".")[0] == "dgl" and base.__name__ == "DGLGraph"
        for base in type(value).__mro__
    )


class BorrowedGraph(Graph):
    """A `Graph` on a DGL graph. Its structure cannot be changed from here."""

    def _replace(self, structures, node_frames, edge_frames) -> None:
        raise GraphError(
            "nodes and edges of a DGL graph cannot be added or removed through gossamer; "
            "change the DGL graph itself, and call from_dgl again"
        )


def _schema(graph: dgl.DGLGraph) -> Schema:
    metagraph = graph._graph.metagraph
    ends = [metagraph.find_edge(i) for i in range(len(graph.canonical_etypes))]
    relations = tuple(
        RelationEnds(int(src), name, int(dst))
        for (src, dst), name in zip(ends, graph.etypes, strict=True)
    )
    src_ids = tuple(graph._srctypes_invmap.values())
    dst_ids = tuple(graph._dsttypes_invmap.values())
    return Schema(tuple(graph.ntypes), relations, src_ids, dst_ids, bool(graph.is_block))


def _borrow_structures(graph: dgl.DGLGraph, schema: Schema) -> tuple[Structure, ...]:
    index = graph._graph
    key = id(index)
    entry = _borrowed.get(key)
    if entry is not None and entry.owner() is index:
        return entry.structures
    structures = tuple(
        Structure(
            *_edges_by_id(graph, name),
            index.num_nodes(ends.src),
            index.num_nodes(ends.dst),
            homogeneous=ends.src == ends.dst,
            is_block=schema.is_block,
            check=False,
        )
        for name, ends in zip(schema.canonical_etypes, schema.relations, strict=True)
    )

    def forget(reference: weakref.ref) -> None:
        if key in _borrowed and _borrowed[key].owner is reference:
            del _borrowed[key]

    _borrowed[key] = _Borrowed(weakref.ref(index, forget), structures)
    return structures


def _borrow_members(
    graph: dgl.DGLGraph, counts: Mapping[Hashable, Tensor] | None, types: Sequence[Hashable]
) -> dict[int, Membership]:
    """The batch that a DGL graph is, by type; the same objects while its counts are the same."""
    known = _borrowed[id(graph._graph)].members
    found = {}
    for index, name in enumerate(types):
        if counts is None or name not in counts:
            continue
        if name not in known or known[name].counts is not counts[name]:
            known[name] = Membership(counts[name])
        found[index] = known[name]
    return found


def _edges_by_id(graph: dgl.DGLGraph, etype: tuple[str, str, str]) -> tuple[Tensor, Tensor]:
    formats = graph.formats()
    if "coo" in (*formats["created"], *formats["not created"]):
        src, dst = graph.edges(form="uv", order="eid", etype=etype)
        return src, dst
    # A graph restricted to compressed formats lists its edges by rows only.
    src, dst, eid = graph.edges(form="all", order=None, etype=etype)
    order = torch.argsort(eid)
    return src[order], dst[order]


def _borrow_frame(
    graph: dgl.DGLGraph, attribute: str, index: int, rows: int, kind: str, device: torch.device
) -> Frame:
    store = DglColumns(graph, attribute, index, rows)
    return Frame(rows, kind, device, store, DglInitializers(store))


class DglColumns(MutableMapping[str, Column]):
    """The columns of one frame of a DGL graph, looked up each time (DGL's local_scope exchanges
    frames).
    """

    __slots__ = ("_attribute", "_graph", "_index", "_rows")

    def __init__(self, graph: dgl.DGLGraph, attribute: str, index: int, rows: int):
        self._graph = graph
        self._attribute = attribute
        self._index = index
        self._rows = rows

    @property
    def frame(self):
        """DGL's frame object."""
        frame = getattr(self._graph, self._attribute)[self._index]
        if frame.num_rows != self._rows:
            raise GraphError(
                "the DGL graph has got or lost nodes or edges since from_dgl; call from_dgl again"
            )
        return frame

    def __getitem__(self, key: str) -> Column:
        column = self.frame._columns[key]
        deferred = getattr(column, "deferred", None)
        if deferred is not None:
            return deferred
        if not hasattr(column, "scheme"):
            raise GraphError(
                f"field {key!r} is a placeholder that DGL's data loader has not filled"
            )
        if any(work is not None for work in (column.index, column.device, column.deferred_dtype)):
            return UnreadDglColumn(column, self._rows)
        return column.data

    def __setitem__(self, key: str, column: Column) -> None:
        if not isinstance(column, Tensor):
            column = _deferred_dgl_column(column)
        self.frame[key] = column

    def __delitem__(self, key: str) -> None:
        del self.frame[key]

    def __contains__(self, key: object) -> bool:
        return key in self.frame

    def __iter__(self) -> Iterator[str]:
        return iter(self.frame._columns)

    def __len__(self) -> int:
        return len(self.frame._columns)


class DglInitializers:
    """Initializers of a DGL frame, with the interface of `Initializers`."""

    __slots__ = ("_store",)

    def __init__(self, store: DglColumns):
        self._store = store

    def get(self, field: str) -> Initializer:
        """The initializer of `field`."""
        return self._store.frame.get_initializer(field) or zeros

    def set(self, initializer: Initializer, field: str | None = None) -> None:
        """Set the default (`field=None`) or the initializer of one field."""
        self._store.frame.set_initializer(initializer, field)

    def copy(self) -> Initializers:
        """An independent copy."""
        frame = self._store.frame
        return Initializers(frame._default_initializer or zeros, frame._initializers)


class UnreadDglColumn:
    """A column that DGL gathers, moves or converts when it is first read."""

    __slots__ = ("_column", "dtype", "shape")

    def __init__(self, column, rows: int):
        self.shape = torch.Size((rows, *column.scheme.shape))
        self.dtype = column.deferred_dtype or column.scheme.dtype
        self._column = column

    def materialize(self) -> Tensor:
        """Have DGL do it, which DGL remembers."""
        return self._column.data


def _deferred_dgl_column(deferred: Deferred):
    """A DGL column that computes `deferred` when DGL first asks for its storage."""
    return _deferred_column_class()(deferred)


@functools.cache
def _deferred_column_class() -> type:
    from dgl.frame import Column as DglColumn
    from dgl.frame import Scheme as DglScheme

    class DeferredDglColumn(DglColumn):
        """DGL reads `storage`; the first read computes it."""

        def __init__(self, deferred: Deferred):
            self.deferred: Deferred | None = deferred
            self._rows = deferred.shape[0]
            super().__init__(None, DglScheme(tuple(deferred.shape[1:]), deferred.dtype))

        @property
        def storage(self) -> Tensor:
            if self.deferred is not None:
                self._storage = self.deferred.materialize()
                self.deferred = None
            return self._storage

        @storage.setter
        def storage(self, value: Tensor | None) -> None:
            if value is not None:  # DGL's constructor stores None
                self.deferred = None
            self._storage = value

        def __len__(self) -> int:
            return self._rows if self.index is None else len(self.index)

        def clone(self):
            return super().clone() if self.deferred is None else type(self)(self.deferred)

        def __reduce__(self):
            return DglColumn, (self.data,)

    return DeferredDglColumn
