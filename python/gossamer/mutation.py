"""Methods of `Graph` that change its structure in place. Structures are immutable: a change makes
new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError
from gossamer.frame import Frame
from gossamer.ids import EID, NID, check_range, graph_ids
from gossamer.structure import Structure

if TYPE_CHECKING:
    from gossamer.schema import CanonicalEtype

    Etype = str | CanonicalEtype | None


class Mutation:
    """The part of `Graph` that adds and removes nodes and edges."""

    def add_nodes(
        self, num: int, data: Mapping[str, Tensor] | None = None, ntype: str | None = None
    ) -> None:
        """Append `num` nodes; fields from `data`, else from initializers."""
        index = self.get_ntype_id(ntype)
        frames = list(self._node_frames)
        frames[index] = frames[index].extended(num, data)
        self._replace(self._resized(frames), frames, self._edge_frames)

    def add_edges(
        self, u: object, v: object, data: Mapping[str, Tensor] | None = None, etype: Etype = None
    ) -> None:
        """Append edges from `u` to `v` (a single node pairs with all of the others).

        Raises:
            GraphError: a node that does not exist.
        """
        index = self.get_etype_id(etype)
        old = self._structures[index]
        src, dst = graph_ids(self, u, "u"), graph_ids(self, v, "v")
        if src.shape != dst.shape and 1 not in (src.numel(), dst.numel()):
            raise GraphError(f"{src.numel()} sources do not pair with {dst.numel()} destinations")
        src, dst = torch.broadcast_tensors(src, dst)
        check_range(src, old.num_src, "source node")
        check_range(dst, old.num_dst, "destination node")
        frames = list(self._edge_frames)
        frames[index] = frames[index].extended(src.shape[0], data)
        ends = torch.cat([old.src, src]), torch.cat([old.dst, dst])
        self._replace(self._with(index, _like(old, *ends)), self._node_frames, frames)

    def remove_edges(self, eids: object, etype: Etype = None, store_ids: bool = False) -> None:
        """Remove edges; the others keep their order. `store_ids` keeps old ids under "_ID"."""
        index = self.get_etype_id(etype)
        old = self._structures[index]
        removed = check_range(graph_ids(self, eids, "eids"), old.num_edges, "edge")
        kept = _others(removed, old.num_edges)
        frames = list(self._edge_frames)
        frames[index] = _selected(frames[index], kept, EID if store_ids else None, self.idtype)
        structures = self._with(index, _like(old, old.src[kept], old.dst[kept]))
        self._replace(structures, self._node_frames, frames)

    def remove_nodes(self, nids: object, ntype: str | None = None, store_ids: bool = False) -> None:
        """Remove nodes with their edges; the others are renumbered in order."""
        index = self.get_ntype_id(ntype)
        count = self._node_frames[index].num_rows
        kept = _others(check_range(graph_ids(self, nids, "nids"), count, "node"), count)
        new_ids = torch.full((count,), -1, dtype=self.idtype, device=self.device)
        new_ids[kept] = torch.arange(kept.shape[0], dtype=self.idtype, device=self.device)
        node_frames = list(self._node_frames)
        node_frames[index] = _selected(
            node_frames[index], kept, NID if store_ids else None, self.idtype
        )
        structures, edge_frames = [], []
        for i, (ends, old) in enumerate(zip(self._schema.relations, self._structures, strict=True)):
            src = new_ids[old.src.long()] if ends.src == index else old.src
            dst = new_ids[old.dst.long()] if ends.dst == index else old.dst
            edges = ((src >= 0) & (dst >= 0)).nonzero().squeeze(1)
            sizes = node_frames[ends.src].num_rows, node_frames[ends.dst].num_rows
            structures.append(_like(old, src[edges], dst[edges], *sizes))
            edge_key = EID if store_ids else None
            edge_frames.append(_selected(self._edge_frames[i], edges, edge_key, self.idtype))
        self._replace(structures, node_frames, edge_frames)

    # --- shared by the above --------------------------------------------------------------------

    def _with(self, index: int, structure: Structure) -> list[Structure]:
        structures = list(self._structures)
        structures[index] = structure
        return structures

    def _resized(self, node_frames: Sequence[Frame]) -> list[Structure]:
        """The structures for other numbers of nodes."""
        return [
            _like(
                old,
                old.src,
                old.dst,
                node_frames[ends.src].num_rows,
                node_frames[ends.dst].num_rows,
            )
            for ends, old in zip(self._schema.relations, self._structures, strict=True)
        ]

    def _replace(
        self,
        structures: Sequence[Structure],
        node_frames: Sequence[Frame],
        edge_frames: Sequence[Frame],
    ) -> None:
        """Take on a new structure, and give it to the graph that this one shadows."""
        if self._scopes:
            raise GraphError(
                "nodes and edges cannot be added or removed inside local_scope, which would bring "
                "back fields of the old size; do it before, or on g.local_var()"
            )
        if self._origin is not None:
            self._origin._replace(structures, node_frames, edge_frames)
        self._structures = tuple(structures)
        self._node_frames = list(node_frames)
        self._edge_frames = list(edge_frames)
        self._batch_nodes, self._batch_edges = {}, {}


def _like(
    old: Structure,
    src: Tensor,
    dst: Tensor,
    num_src: int | None = None,
    num_dst: int | None = None,
) -> Structure:
    return Structure(
        src,
        dst,
        old.num_src if num_src is None else num_src,
        old.num_dst if num_dst is None else num_dst,
        homogeneous=old.homogeneous,
        is_block=old.is_block,
        check=False,
    )


def _others(ids: Tensor, count: int) -> Tensor:
    mask = torch.ones(count, dtype=torch.bool, device=ids.device)
    mask[ids.long()] = False
    return mask.nonzero().squeeze(1)


def _selected(frame: Frame, rows: Tensor, key: str | None, idtype: torch.dtype) -> Frame:
    columns = {name: frame[name].index_select(0, rows) for name in frame}
    if key is not None:
        columns[key] = rows.to(idtype)
    return Frame(rows.shape[0], frame.kind, frame.device, columns, frame.initializers.copy())
