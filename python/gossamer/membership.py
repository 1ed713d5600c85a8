"""Which graph of a batch each node, or each edge, belongs to."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from gossamer.structure import Structure


class Membership:
    """How many rows (nodes or edges of one type) each graph of a batch has, one after the other.

    Args:
        counts: (batch_size,), int32 or int64. Not to be changed afterwards.
    """

    __slots__ = ("_structure", "counts")

    def __init__(self, counts: Tensor):
        self.counts = counts
        self._structure: Structure | None = None

    @property
    def size(self) -> int:
        """Number of graphs."""
        return self.counts.shape[0]

    @property
    def structure(self) -> Structure:
        """The relation from rows to graphs: edge `i` leads from row `i` to its graph."""
        if self._structure is None:
            self._structure = Structure.runs(self.counts)
        return self._structure

    def to(self, device: torch.device) -> Membership:
        """A copy on `device`; self when it is there already."""
        if self.counts.device == device:
            return self
        return Membership(self.counts.to(device))

    def __reduce__(self):
        return Membership, (self.counts,)


@functools.lru_cache(maxsize=64)
def of_one_graph(rows: int, idtype: torch.dtype, device: torch.device) -> Membership:
    """All rows belong to one graph."""
    return Membership(torch.tensor([rows], dtype=idtype, device=device))
