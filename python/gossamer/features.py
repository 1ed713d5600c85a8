"""Access to a graph's fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from gossamer.frame import Initializer
from gossamer.views import DataView, EdgeView, NodeView, TypedDataView

if TYPE_CHECKING:
    from gossamer.schema import CanonicalEtype


class Scheme(NamedTuple):
    """Shape of one row, and dtype, of a field."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Features:
    """The part of `Graph` that reads and writes fields."""

    @property
    def nodes(self) -> NodeView:
        """`g.nodes()` are ids, `g.nodes["type"].data` features."""
        return NodeView(self, self._schema.ntype_id)

    @property
    def srcnodes(self) -> NodeView:
        """As `nodes`, among source types."""
        return NodeView(self, self._schema.src_ntype_id)

    @property
    def dstnodes(self) -> NodeView:
        """As `nodes`, among destination types."""
        return NodeView(self, self._schema.dst_ntype_id)

    @property
    def edges(self) -> EdgeView:
        """`g.edges()` are endpoints, `g.edges["type"].data` features."""
        return EdgeView(self)

    @property
    def ndata(self) -> DataView | TypedDataView:
        """Features of all nodes; with several types, {type: tensor} by field."""
        return self._node_data(range(len(self._schema.ntypes)))

    @property
    def srcdata(self) -> DataView | TypedDataView:
        """Features of source nodes."""
        return self._node_data(self._schema.src_ids)

    @property
    def dstdata(self) -> DataView | TypedDataView:
        """Features of destination nodes."""
        return self._node_data(self._schema.dst_ids)

    @property
    def edata(self) -> DataView | TypedDataView:
        """Features of all edges; with several types, {canonical type: tensor} by field."""
        if len(self._edge_frames) == 1:
            return DataView(self, "edges", 0)
        names = self._schema.canonical_etypes
        return TypedDataView({name: DataView(self, "edges", i) for i, name in enumerate(names)})

    def _node_data(self, indices: Sequence[int]) -> DataView | TypedDataView:
        if len(indices) == 1:
            return DataView(self, "nodes", indices[0])
        names = self._schema.ntypes
        return TypedDataView({names[i]: DataView(self, "nodes", i) for i in indices})

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """Shape and dtype of each node field."""
        schemes = self._node_frames[self.get_ntype_id(ntype)].schemes()
        return {key: Scheme(*scheme) for key, scheme in schemes.items()}

    def edge_attr_schemes(self, etype: str | CanonicalEtype | None = None) -> dict[str, Scheme]:
        """Shape and dtype of each edge field."""
        schemes = self._edge_frames[self.get_etype_id(etype)].schemes()
        return {key: Scheme(*scheme) for key, scheme in schemes.items()}

    def set_n_initializer(
        self, initializer: Initializer, field: str | None = None, ntype: str | None = None
    ) -> None:
        """Set what unwritten rows of node fields hold: `initializer(shape, dtype, device,
        rows)`.
        """
        self._node_frames[self.get_ntype_id(ntype)].initializers.set(initializer, field)

    def set_e_initializer(
        self,
        initializer: Initializer,
        field: str | None = None,
        etype: str | CanonicalEtype | None = None,
    ) -> None:
        """Set what unwritten rows of edge fields hold: `initializer(shape, dtype, device,
        rows)`.
        """
        self._edge_frames[self.get_etype_id(etype)].initializers.set(initializer, field)
