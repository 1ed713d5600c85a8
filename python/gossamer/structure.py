"""Which edges there are: one relation of a graph, immutable and shared by every view of it.

A `Structure` is a list of edges (COO, in edge-id order). Compressed forms are built when first
asked for and kept. Changing a graph makes a new `Structure`, so nothing derived from one is ever
stale.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer import native
from gossamer.errors import GraphError

_INT32_LIMIT = 2**31


class Csr(NamedTuple):
    """Compressed rows. Row `r` holds entries `offsets[r]` to `offsets[r + 1]`, by ascending edge
    id.

    All three are int32 when the numbers of nodes and edges are below 2**31, else int64.
    """

    offsets: Tensor  #: (num_rows + 1,)
    neighbors: Tensor  #: (num_edges,) the other end of each edge
    edge_ids: Tensor  #: (num_edges,)


class Bucket(NamedTuple):
    """Destination nodes of one in-degree, with the edges that enter them."""

    degree: int
    nodes: Tensor  #: (B,) int64, ascending
    edge_ids: Tensor  #: (B * degree,) int64, by node, then by ascending edge id


class Structure:
    """The edges of one relation.

    Args:
        src, dst: endpoints by edge id, one dtype (int32 or int64), one device, shape (E,).
        num_src, num_dst: numbers of nodes at the two ends.
        homogeneous: whether source nodes and destination nodes are the same set.
        is_block: whether destination nodes are the first source nodes (a message flow block).

    Raises:
        GraphError: an endpoint is out of range, or the two tensors do not fit together.
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_lock",
        "dst",
        "homogeneous",
        "is_block",
        "num_dst",
        "num_src",
        "src",
    )

    def __init__(
        self,
        src: Tensor,
        dst: Tensor,
        num_src: int,
        num_dst: int,
        *,
        homogeneous: bool,
        is_block: bool = False,
        check: bool = True,
    ):
        if type(num_src) is torch.SymInt or type(num_dst) is torch.SymInt:
            raise GraphError(
                "torch is tracing, so sizes are not known: graphs can't be made or changed there, "
                "and readouts can't run; do so outside of what is compiled or exported"
            )
        if check:
            _check_endpoints(src, dst, num_src, num_dst)
        self.src = src
        self.dst = dst
        self.num_src = int(num_src)
        self.num_dst = int(num_dst)
        self.homogeneous = homogeneous
        self.is_block = is_block
        self._cache: dict[Hashable, Any] = {}
        self._lock = threading.RLock()

    @classmethod
    def runs(cls, counts: Tensor) -> Structure:
        """Edge `i` leads from source `i` to a destination: the first `counts[0]` edges to 0, and
        so on.

        Args:
            counts: in-degrees, (num_dst,), int32 or int64.
        """
        number = int(counts.sum())
        wide = max(number, counts.shape[0]) >= _INT32_LIMIT
        ids = torch.arange(number, dtype=counts.dtype, device=counts.device)
        numbers = torch.arange(counts.shape[0], dtype=counts.dtype, device=counts.device)
        dst = torch.repeat_interleave(numbers, counts.long(), output_size=number)
        structure = cls(ids, dst, number, counts.shape[0], homogeneous=False, check=False)
        index = torch.int64 if wide else torch.int32
        offsets = torch.zeros(counts.shape[0] + 1, dtype=index, device=counts.device)
        offsets[1:] = counts.cumsum(0)
        same = ids.to(index)
        structure._cache["in_csr"] = Csr(offsets, same, same)
        return structure

    @property
    def num_edges(self) -> int:
        """Number of edges E."""
        return self.src.shape[0]

    @property
    def idtype(self) -> torch.dtype:
        """dtype of node and edge ids: torch.int32 or torch.int64."""
        return self.src.dtype

    @property
    def device(self) -> torch.device:
        """Where the structure lives."""
        return self.src.device

    @property
    def wide_index(self) -> bool:
        """Whether compiled programs take int64 arrays: a node or edge number does not fit int32."""
        return max(self.num_src, self.num_dst, self.num_edges) >= _INT32_LIMIT

    def in_csr(self) -> Csr:
        """Rows are destination nodes, neighbors their sources. Built once."""
        return self.once(
            "in_csr", lambda: _compress(self.dst, self.src, self.num_dst, self.num_src)
        )

    def out_csr(self) -> Csr:
        """Rows are source nodes, neighbors their destinations. Built once."""
        return self.once(
            "out_csr", lambda: _compress(self.src, self.dst, self.num_src, self.num_dst)
        )

    def in_degrees(self) -> Tensor:
        """Number of edges that enter each destination node: (num_dst,), idtype. Shared: do not
        change.
        """
        return self.once("in_degrees", lambda: _count(self.dst, self.num_dst))

    def out_degrees(self) -> Tensor:
        """Number of edges that leave each source node: (num_src,), idtype. Shared: do not
        change.
        """
        return self.once("out_degrees", lambda: _count(self.src, self.num_src))

    def max_in_degree(self) -> int:
        """Largest in-degree, 0 without nodes."""
        return self.once("max_in_degree", lambda: _max_degree(self.in_csr()))

    def max_out_degree(self) -> int:
        """Largest out-degree, 0 without nodes."""
        return self.once("max_out_degree", lambda: _max_degree(self.out_csr()))

    def in_buckets(self) -> tuple[Bucket, ...]:
        """Destination nodes grouped by in-degree, ascending, without degree 0."""
        return self.once("in_buckets", self._make_buckets)

    def pair_keys(self, src: Tensor, dst: Tensor) -> Tensor:
        """One int64 per pair of nodes, equal for equal pairs."""
        return src.long() * max(self.num_dst, 1) + dst

    def sorted_pairs(self) -> tuple[Tensor, Tensor]:
        """(`pair_keys` of all edges, ascending; the edge id of each): parallel edges by ascending
        id.
        """
        return self.once("sorted_pairs", self._sort_pairs)

    def reversed(self) -> Structure:
        """The same edges, each with its ends exchanged. Compressed forms are shared, not
        rebuilt.
        """
        return self.once("reversed", self._make_reversed)

    def to(self, device: torch.device) -> Structure:
        """A copy on `device`; self when it is there already."""
        if self.device == device:
            return self
        return self._with_edges(self.src.to(device), self.dst.to(device))

    def astype(self, idtype: torch.dtype) -> Structure:
        """The same edges with ids of another dtype; self when they have it already."""
        if self.idtype == idtype:
            return self
        largest = max(self.num_src, self.num_dst, self.num_edges)
        if idtype == torch.int32 and largest >= _INT32_LIMIT:
            raise GraphError(f"{largest} does not fit int32 ids; keep int64")
        return self._with_edges(self.src.to(idtype), self.dst.to(idtype))

    def __reduce__(self):
        state = (self.src, self.dst, self.num_src, self.num_dst, self.homogeneous, self.is_block)
        return _restore, state

    def __deepcopy__(self, memo: dict) -> Structure:
        return self  # immutable

    def _with_edges(self, src: Tensor, dst: Tensor) -> Structure:
        ends = (self.num_src, self.num_dst)
        kinds = {"homogeneous": self.homogeneous, "is_block": self.is_block}
        return Structure(src, dst, *ends, **kinds, check=False)

    def _make_reversed(self) -> Structure:
        twin = Structure(
            self.dst,
            self.src,
            self.num_dst,
            self.num_src,
            homogeneous=self.homogeneous,
            check=False,
        )
        mirrored = {
            "in_csr": "out_csr",
            "out_csr": "in_csr",
            "in_degrees": "out_degrees",
            "out_degrees": "in_degrees",
        }
        twin._cache.update(
            {mirrored[name]: self._cache[name] for name in mirrored if name in self._cache}
        )
        return twin

    def _sort_pairs(self) -> tuple[Tensor, Tensor]:
        keys, order = torch.sort(self.pair_keys(self.src, self.dst), stable=True)
        return keys, order

    def _make_buckets(self) -> tuple[Bucket, ...]:
        offsets, _, edge_ids = self.in_csr()
        degrees = self.in_degrees().long()
        order = torch.argsort(degrees, stable=True)
        sizes, counts = torch.unique_consecutive(degrees[order], return_counts=True)
        buckets = []
        groups = order.split(counts.tolist())
        for degree, nodes in zip(sizes.tolist(), groups, strict=True):
            if degree == 0:
                continue
            slots = torch.arange(degree, device=nodes.device)
            positions = offsets[nodes].long().unsqueeze(1) + slots
            buckets.append(Bucket(degree, nodes, edge_ids[positions.reshape(-1)].long()))
        return tuple(buckets)

    def once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` returned the first time it was asked for under this name."""
        value = self._cache.get(name)
        if value is None:
            with self._lock:
                value = self._cache.get(name)
                if value is None:
                    value = self._cache[name] = make()
        return value


def _restore(src, dst, num_src, num_dst, homogeneous, is_block) -> Structure:
    return Structure(
        src, dst, num_src, num_dst, homogeneous=homogeneous, is_block=is_block, check=False
    )


def _check_endpoints(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> None:
    if src.dim() != 1 or src.shape != dst.shape:
        shapes = f"{tuple(src.shape)} and {tuple(dst.shape)}"
        raise GraphError(
            f"sources and destinations have shapes {shapes}; both need one entry per edge"
        )
    if src.dtype != dst.dtype or src.dtype not in (torch.int32, torch.int64):
        raise GraphError(
            f"node ids have dtypes {src.dtype} and {dst.dtype}; use int32 or int64 for both"
        )
    for name, ids, count in (("source", src, num_src), ("destination", dst, num_dst)):
        if ids.numel() == 0:
            continue
        low, high = (int(bound) for bound in ids.aminmax())
        if low < 0 or high >= count:
            wrong = low if low < 0 else high
            raise GraphError(f"{name} node {wrong} is out of range: there are {count} {name} nodes")


def _compress(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int) -> Csr:
    if rows.device.type == "cpu":
        return Csr(*native.ops().coo_to_csr(rows, cols, num_rows, num_cols))
    return _compress_on_device(rows, cols, num_rows, num_cols)


def _compress_on_device(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int) -> Csr:
    wide = max(rows.shape[0], num_rows, num_cols) >= _INT32_LIMIT
    index = torch.int64 if wide else torch.int32
    edge_ids = torch.argsort(rows, stable=True)
    offsets = torch.zeros(num_rows + 1, dtype=index, device=rows.device)
    offsets[1:] = torch.bincount(rows, minlength=num_rows).cumsum(0)
    return Csr(offsets, cols[edge_ids].to(index), edge_ids.to(index))


def _count(ids: Tensor, length: int) -> Tensor:
    return torch.bincount(ids, minlength=length).to(ids.dtype)


def _max_degree(csr: Csr) -> int:
    if csr.offsets.device.type == "cpu":
        return native.ops().max_degree(csr.offsets)
    return int(csr.offsets.diff().max()) if csr.offsets.shape[0] > 1 else 0
