"""Graphs inside torch's compilers: nothing but tensors, whose lengths are the sizes.

A `TracedStructure` is made from the compressed forms, as a compiled program takes them, and its
numbers of nodes and edges are lengths of these tensors: symbolic where torch traces without data,
so that nothing which is traced depends on one graph.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, fake_tensor_tls
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import _disable_current_modes

from gossamer.errors import GraphError
from gossamer.membership import Membership
from gossamer.structure import Csr, Structure

#: Index arrays of one relation, in the order of `arrays_of`.
ARRAYS = (
    "in_offsets",
    "in_neighbors",
    "in_edge_ids",
    "out_offsets",
    "out_neighbors",
    "out_edge_ids",
)


def arrays_of(structure: Structure) -> tuple[Tensor, ...]:
    """The six index arrays of one relation: see `structure.Csr`; first the one whose rows are
    destination nodes.
    """
    return (*structure.in_csr(), *structure.out_csr())


class TracedStructure(Structure):
    """The edges of one relation, known from its index arrays alone.

    Args:
        arrays: as from `arrays_of`.
        idtype: dtype of node and edge ids that functions see.
    """

    __slots__ = ("_arrays", "_idtype")

    def __init__(
        self,
        arrays: Sequence[Tensor],
        idtype: torch.dtype,
        *,
        homogeneous: bool,
        is_block: bool = False,
    ):
        self._arrays = tuple(arrays)
        self._idtype = idtype
        self.homogeneous = homogeneous
        self.is_block = is_block
        self._cache = {}
        self._lock = threading.RLock()

    @property
    def arrays(self) -> tuple[Tensor, ...]:
        """The six index arrays."""
        return self._arrays

    @property
    def num_src(self) -> int:
        """Number of source nodes."""
        return self._arrays[3].shape[0] - 1

    @property
    def num_dst(self) -> int:
        """Number of destination nodes."""
        return self._arrays[0].shape[0] - 1

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self._arrays[1].shape[0]

    @property
    def idtype(self) -> torch.dtype:
        """dtype of node and edge ids."""
        return self._idtype

    @property
    def device(self) -> torch.device:
        """Where the arrays are."""
        return self._arrays[0].device

    @property
    def wide_index(self) -> bool:
        """Whether the arrays are int64."""
        return self._arrays[0].dtype == torch.int64

    @property
    def src(self) -> Tensor:
        """Source nodes by edge id."""
        return self.once("src", lambda: self._ends(self.out_csr(), self.num_src))

    @property
    def dst(self) -> Tensor:
        """Destination nodes by edge id."""
        return self.once("dst", lambda: self._ends(self.in_csr(), self.num_dst))

    def in_csr(self) -> Csr:
        """Rows are destination nodes."""
        return Csr(*self._arrays[:3])

    def out_csr(self) -> Csr:
        """Rows are source nodes."""
        return Csr(*self._arrays[3:])

    def in_degrees(self) -> Tensor:
        """Number of edges that enter each destination node."""
        return self._arrays[0].diff().to(self._idtype)

    def out_degrees(self) -> Tensor:
        """Number of edges that leave each source node."""
        return self._arrays[3].diff().to(self._idtype)

    def in_buckets(self) -> tuple:
        """Refused: how many buckets there are is data."""
        raise GraphError(
            "torch is tracing, so the degrees of the graph are not known: "
            "message passing that is not compiled can't run here"
        )

    def node_set(self, num_rows: int) -> TracedStructure:
        """Nodes without edges: what an apply function runs on."""
        offsets = self._arrays[0].new_zeros(num_rows + 1)
        none = self._arrays[0].new_empty(0)
        arrays = (offsets, none, none, offsets, none, none)
        return TracedStructure(arrays, self._idtype, homogeneous=True)

    def _ends(self, csr: Csr, num_rows: int) -> Tensor:
        rows = torch.arange(num_rows, dtype=self._idtype, device=self.device)
        ends = rows.repeat_interleave(csr.offsets.diff().long(), output_size=self.num_edges)
        return torch.empty_like(ends).index_copy(0, csr.edge_ids.long(), ends)


class TracedMembership(Membership):
    """The graphs of a batch that rows belong to: their relation is made of the counts.

    Args:
        counts: (batch_size,) rows of each graph. rows: how many they are together.
        index: dtype of the index arrays.
    """

    __slots__ = ("_index", "_rows")

    def __init__(self, counts: Tensor, rows: int, index: torch.dtype):
        super().__init__(counts)
        self._rows = rows
        self._index = index

    @classmethod
    def of_one_graph(cls, rows: int, like: Structure) -> TracedMembership:
        """All rows belong to the graph that has the relation `like`."""
        counts = torch.full((1,), rows, dtype=like.idtype, device=like.device)
        return cls(counts, rows, like.arrays[0].dtype)

    @property
    def structure(self) -> TracedStructure:
        """The relation from rows to graphs, as `Structure.runs` makes it."""
        if self._structure is None:
            counts, named = self.counts.long(), {"dtype": self._index, "device": self.counts.device}
            offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(self._index)
            rows, row_offsets = (
                torch.arange(self._rows, **named),
                torch.arange(self._rows + 1, **named),
            )
            graphs = torch.arange(self.size, **named)
            graphs = graphs.repeat_interleave(counts, output_size=self._rows)
            arrays = (offsets, rows, rows, row_offsets, graphs, rows)
            self._structure = TracedStructure(arrays, self.counts.dtype, homogeneous=False)
        return self._structure


def is_traced(structures: Iterable[Structure]) -> bool:
    """Whether a graph with these relations is one inside a compiler of torch."""
    return any(type(structure) is TracedStructure for structure in structures)


_outside = threading.local()


@contextlib.contextmanager
def outside_tracing() -> Iterator[None]:
    """Around work on ordinary tensors while torch traces: nothing of it is recorded."""
    before = getattr(_outside, "active", False)
    _outside.active = True
    try:
        with _disable_current_modes():
            yield
    finally:
        _outside.active = before


@contextlib.contextmanager
def constants_allowed() -> Iterator[None]:
    """Around an operator that takes a tensor with data while torch traces: it becomes a constant
    there. Torch allows it in a forward, and for a backward has to be told.
    """
    before = fake_tensor_tls.allow_non_fake_inputs_override
    fake_tensor_tls.allow_non_fake_inputs_override = True
    try:
        yield
    finally:
        fake_tensor_tls.allow_non_fake_inputs_override = before


def stands_for_tensor(value: Tensor) -> bool:
    """Whether torch is tracing and this is what its trace has in place of a tensor."""
    return getattr(_outside, "active", False) and isinstance(value, FakeTensor | FunctionalTensor)
