"""`g.nodes`, `g.edges`, `g.ndata` and their kin: dictionary views of a graph's frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from gossamer.errors import GraphError, MissingFieldError
from gossamer.frame import Frame
from gossamer.ids import ALL, check_range, edge_ids_of, graph_ids, is_all

if TYPE_CHECKING:
    from gossamer.graph import Graph


class Space(NamedTuple):
    """What `g.nodes[...]` and `g.edges[...]` give: features under `.data`."""

    data: DataView


class DataView(MutableMapping[str, Tensor]):
    """Fields of one node or edge type, of all rows or of some.

    The graph is asked for its frame in every access: a view made before `local_scope` follows it.
    """

    __slots__ = ("_graph", "_index", "_kind", "_rows")

    def __init__(self, graph: Graph, kind: str, index: int, rows: Tensor | None = None):
        self._graph = graph
        self._kind = kind
        self._index = index
        self._rows = rows

    def _frame(self) -> Frame:
        frames = self._graph._node_frames if self._kind == "nodes" else self._graph._edge_frames
        return frames[self._index]

    def __getitem__(self, key: str) -> Tensor:
        value = self._frame()[key]
        return value if self._rows is None else value.index_select(0, self._rows)

    def __setitem__(self, key: str, value: Tensor) -> None:
        if self._rows is None:
            self._frame()[key] = value
        else:
            self._frame().update_rows(self._rows, {key: value})

    def __delitem__(self, key: str) -> None:
        if self._rows is not None:
            raise GraphError(f"cannot delete field {key!r} of some {self._kind} only")
        del self._frame()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._frame()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._frame()))

    def __len__(self) -> int:
        return len(self._frame())

    def __repr__(self) -> str:
        return repr(dict(self))


class TypedDataView(MutableMapping[str, dict]):
    """Fields of several node or edge types: `view[field]` is {type: tensor} over the types that
    have it.
    """

    __slots__ = ("_views",)

    def __init__(self, views: Mapping[object, DataView]):
        self._views = views

    def __getitem__(self, key: str) -> dict[object, Tensor]:
        return {name: view[key] for name, view in self._views.items() if key in view}

    def __setitem__(self, key: str, values: Mapping[object, Tensor]) -> None:
        if not isinstance(values, Mapping):
            raise GraphError(
                f"field {key!r}: there are several types; give a dict from type to tensor"
            )
        for name, value in values.items():
            self._view(name)[key] = value

    def __delitem__(self, key: str) -> None:
        holders = [view for view in self._views.values() if key in view]
        if not holders:
            raise MissingFieldError(key, "no type", self)
        for view in holders:
            del view[key]

    def __contains__(self, key: object) -> bool:
        return any(key in view for view in self._views.values())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for view in self._views.values() for key in view))

    def __len__(self) -> int:
        return len(set(iter(self)))

    def __repr__(self) -> str:
        table: dict[str, dict] = defaultdict(dict)
        for name, view in self._views.items():
            for key, value in view.items():
                table[key][name] = value
        return repr(dict(table))

    def _view(self, name: object) -> DataView:
        if name in self._views:
            return self._views[name]
        by_etype = [view for key, view in self._views.items() if key[1] == name]
        if len(by_etype) == 1:
            return by_etype[0]
        raise GraphError(f"Type {name!r} does not exist; there are: {list(self._views)}")


class NodeView:
    """`g.nodes`: call it for ids, index it with a type (and ids) for features."""

    __slots__ = ("_find", "_graph")

    def __init__(self, graph: Graph, find: Callable[[str | None], int]):
        self._graph = graph
        self._find = find

    def __call__(self, ntype: str | None = None) -> Tensor:
        """Ids of all nodes of a type: (N,), idtype."""
        return self._graph._all_node_ids(self._find(ntype))

    def __getitem__(self, key: object) -> Space:
        nodes, ntype = key if isinstance(key, tuple) else _ids_or_type(key)
        index = self._find(ntype)
        if is_all(nodes):
            return Space(DataView(self._graph, "nodes", index))
        count = self._graph._node_frames[index].num_rows
        rows = check_range(graph_ids(self._graph, nodes, "nodes"), count, "node")
        return Space(DataView(self._graph, "nodes", index, rows))


class EdgeView:
    """`g.edges`: call it for endpoints, index it with a type or with ids for features."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph):
        self._graph = graph

    def __call__(self, form: str = "uv", order: str | None = "eid", etype: object = None):
        """All edges; see `Queries.all_edges`."""
        return self._graph.all_edges(form, order, etype)

    def __getitem__(self, key: object) -> Space:
        if isinstance(key, tuple) and len(key) == 3:
            edges, etype = ALL, key
        elif isinstance(key, tuple):
            edges, etype = key, None
        else:
            edges, etype = _ids_or_type(key)
        index = self._graph.get_etype_id(etype)
        if is_all(edges):
            return Space(DataView(self._graph, "edges", index))
        rows = edge_ids_of(self._graph, edges, etype)
        return Space(DataView(self._graph, "edges", index, rows))


def _ids_or_type(key: object) -> tuple[object, str | None]:
    if isinstance(key, slice):
        if key != slice(None):
            raise GraphError("only the full slice : can be taken")
        return ALL, None
    if key is None or isinstance(key, str):
        return ALL, key
    return key, None
