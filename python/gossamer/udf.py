"""What user-defined functions see: `EdgeBatch` and `NodeBatch`, DGL's surface.

The same classes serve the eager engine, where fetching a column is an index_select, and capture,
where it records a graph operator on fake tensors. Hence row counts may be `torch.SymInt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping

import torch
from torch import Tensor

from gossamer.errors import MissingFieldError, RowCountError

Rows = int | torch.SymInt


class LazyFrame(MutableMapping[str, Tensor]):
    """Fields of a batch: each is fetched in the first read, and the same tensor comes back later.

    Args:
        columns: the fields of all nodes or edges. Not changed; give a snapshot if the source may
            change.
        fetch: makes a batch's column from a column.
        where: how the user names this frame, for messages, such as "edges.src".
        num_rows: rows of the batch; when it is an int, written fields are checked against it.
    """

    __slots__ = ("_columns", "_fetch", "_local", "_num_rows", "_removed", "_where")

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        fetch: Callable[[Tensor], Tensor],
        where: str = "the frame",
        num_rows: Rows | None = None,
    ):
        self._columns = columns
        self._fetch = fetch
        self._where = where
        self._num_rows = num_rows
        self._local: dict[str, Tensor] = {}
        self._removed: set[str] = set()

    def __getitem__(self, key: str) -> Tensor:
        tensor = self._local.get(key)
        if tensor is None:
            if key not in self:
                raise MissingFieldError(key, self._where, self)
            tensor = self._local[key] = self._fetch(self._columns[key])
        return tensor

    def __setitem__(self, key: str, value: Tensor) -> None:
        counted = type(self._num_rows) is int and type(value.shape[0]) is int
        if counted and value.shape[0] != self._num_rows:
            raise RowCountError(
                f"{self._where}[{key!r}]: expected {self._num_rows} rows, got {value.shape[0]}"
            )
        self._removed.discard(key)
        self._local[key] = value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise MissingFieldError(key, self._where, self)
        self._local.pop(key, None)
        self._removed.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._local or (key in self._columns and key not in self._removed)

    def __iter__(self) -> Iterator[str]:
        for key in self._columns:
            if key not in self._removed:
                yield key
        for key in self._local:
            if key not in self._columns or key in self._removed:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{self._where}({', '.join(map(repr, self))})"


class EdgeBatch:
    """A batch of edges, the argument of message, apply and filter functions on edges.

    Args:
        src, dst: features of the source and of the destination of each edge.
        data: features of the edges.
        edges_fn: makes (sources, destinations, edge ids), each of shape (E,).
        num_edges: E.
        canonical_etype: (source type, edge type, destination type).
    """

    __slots__ = ("_edges_fn", "_num_edges", "canonical_etype", "data", "dst", "src")

    def __init__(
        self,
        src: MutableMapping[str, Tensor],
        dst: MutableMapping[str, Tensor],
        data: MutableMapping[str, Tensor],
        edges_fn: Callable[[], tuple[Tensor, Tensor, Tensor]],
        num_edges: Rows,
        canonical_etype: tuple[str, str, str],
    ):
        self.src = src
        self.dst = dst
        self.data = data
        self.canonical_etype = canonical_etype
        self._edges_fn = edges_fn
        self._num_edges = num_edges

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """(sources, destinations, edge ids) of the batch, the graph's idtype."""
        return self._edges_fn()

    def batch_size(self) -> Rows:
        """Number of edges in the batch."""
        return self._num_edges

    def __len__(self) -> int:
        return self._num_edges


class NodeBatch:
    """A batch of nodes, the argument of reduce, apply and filter functions on nodes.

    Args:
        data: features of the nodes.
        mailbox: messages by field, each (B, D, ...) with D the in-degree of the batch's nodes; None
            outside reduce functions.
        nodes_fn: makes the node ids, shape (B,).
        num_nodes: B.
        ntype: the type of the nodes.
    """

    __slots__ = ("_nodes_fn", "_num_nodes", "data", "mailbox", "ntype")

    def __init__(
        self,
        data: MutableMapping[str, Tensor],
        mailbox: dict[str, Tensor] | None,
        nodes_fn: Callable[[], Tensor],
        num_nodes: Rows,
        ntype: str,
    ):
        self.data = data
        self.mailbox = mailbox
        self.ntype = ntype
        self._nodes_fn = nodes_fn
        self._num_nodes = num_nodes

    def nodes(self) -> Tensor:
        """Ids of the nodes, the graph's idtype."""
        return self._nodes_fn()

    def batch_size(self) -> Rows:
        """Number of nodes in the batch."""
        return self._num_nodes

    def __len__(self) -> int:
        return self._num_nodes
