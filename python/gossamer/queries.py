"""Questions about a graph's structure: counts, degrees, edges, neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError
from gossamer.ids import ALL, check_range, graph_ids, is_all
from gossamer.membership import Membership, of_one_graph
from gossamer.traced_graph import TracedMembership, is_traced

if TYPE_CHECKING:
    from gossamer.schema import CanonicalEtype
    from gossamer.structure import Csr, Structure

    Etype = str | CanonicalEtype | None


class Queries:
    """The part of `Graph` that answers and changes nothing."""

    # --- counts ---------------------------------------------------------------------------------

    def num_nodes(self, ntype: str | None = None) -> int:
        """Number of nodes of one type; None: of all types."""
        if ntype is None:
            return sum(frame.num_rows for frame in self._node_frames)
        return self._node_frames[self.get_ntype_id(ntype)].num_rows

    def num_src_nodes(self, ntype: str | None = None) -> int:
        """Number of source nodes of one type; None: of all source types."""
        ids = self._schema.src_ids if ntype is None else (self._schema.src_ntype_id(ntype),)
        return sum(self._node_frames[i].num_rows for i in ids)

    def num_dst_nodes(self, ntype: str | None = None) -> int:
        """Number of destination nodes of one type; None: of all destination types."""
        ids = self._schema.dst_ids if ntype is None else (self._schema.dst_ntype_id(ntype),)
        return sum(self._node_frames[i].num_rows for i in ids)

    def num_edges(self, etype: Etype = None) -> int:
        """Number of edges of one type; None: of all types."""
        if etype is None:
            return sum(structure.num_edges for structure in self._structures)
        return self.structure(etype).num_edges

    number_of_nodes = num_nodes
    number_of_src_nodes = num_src_nodes
    number_of_dst_nodes = num_dst_nodes
    number_of_edges = num_edges

    def __len__(self) -> int:
        return self.num_nodes()

    def __bool__(self) -> bool:
        return True  # a graph without nodes is still a graph

    # --- degrees --------------------------------------------------------------------------------

    def in_degrees(self, v: object = ALL, etype: Etype = None) -> Tensor | int:
        """Number of edges into nodes `v` (all by default): idtype, (len(v),); an int for an int."""
        structure = self.structure(etype)
        return self._degrees(structure.in_degrees(), structure.num_dst, v, "v")

    def out_degrees(self, u: object = ALL, etype: Etype = None) -> Tensor | int:
        """Number of edges out of nodes `u` (all by default): idtype, (len(u),); an int for an
        int.
        """
        structure = self.structure(etype)
        return self._degrees(structure.out_degrees(), structure.num_src, u, "u")

    def _degrees(self, degrees: Tensor, count: int, nodes: object, name: str) -> Tensor | int:
        if is_all(nodes):
            return degrees.clone()  # the structure's own tensor must not be changed in place
        ids = check_range(graph_ids(self, nodes, name), count, "node")
        found = degrees[ids.long()]
        return int(found[0]) if isinstance(nodes, int) else found

    # --- edges ----------------------------------------------------------------------------------

    def all_edges(self, form: str = "uv", order: str | None = "eid", etype: Etype = None):
        """All edges: (src, dst), edge ids, or (src, dst, edge ids) for form "uv", "eid", "all".

        `order` is "eid" (default, also None) or "srcdst".
        """
        structure = self.structure(etype)
        if order not in ("eid", "srcdst", None):
            raise GraphError(f"order must be 'eid' or 'srcdst', not {order!r}")
        eid = torch.arange(structure.num_edges, dtype=self.idtype, device=self.device)
        if order == "srcdst":
            eid = structure.sorted_pairs()[1].to(self.idtype)
        return _in_form(structure, eid, form, whole=order != "srcdst")

    def in_edges(self, v: object, form: str = "uv", etype: Etype = None):
        """Edges into nodes `v`, node by node in the given order, each node's by ascending edge
        id.
        """
        structure = self.structure(etype)
        nodes = check_range(graph_ids(self, v, "v"), structure.num_dst, "node")
        return _in_form(structure, row_edges(structure.in_csr(), nodes, self.idtype), form)

    def out_edges(self, u: object, form: str = "uv", etype: Etype = None):
        """Edges out of nodes `u`, node by node in the given order, each node's by ascending edge
        id.
        """
        structure = self.structure(etype)
        nodes = check_range(graph_ids(self, u, "u"), structure.num_src, "node")
        return _in_form(structure, row_edges(structure.out_csr(), nodes, self.idtype), form)

    def find_edges(self, eid: object, etype: Etype = None) -> tuple[Tensor, Tensor]:
        """(sources, destinations) of edges `eid`."""
        structure = self.structure(etype)
        edges = check_range(graph_ids(self, eid, "eid"), structure.num_edges, "edge").long()
        return structure.src[edges], structure.dst[edges]

    def edge_ids(self, u: object, v: object, return_uv: bool = False, etype: Etype = None):
        """Ids of the edges from `u` to `v`, pairwise (a single node pairs with all of the others).

        Of parallel edges the lowest id; with `return_uv` all of them, as (sources, destinations,
        ids).

        Raises:
            GraphError: a pair without an edge.
        """
        structure = self.structure(etype)
        src, dst, wanted = self._pair_keys(structure, u, v)
        keys, order = structure.sorted_pairs()
        first = torch.searchsorted(keys, wanted)
        last = torch.searchsorted(keys, wanted, right=True)
        missing = (first == last).nonzero()
        if missing.numel() and not return_uv:
            at = int(missing[0])
            pair = f"({int(src[at])}, {int(dst[at])})"
            raise GraphError(f"Error: {pair} does not form a valid edge")
        if return_uv:
            eid = order[_ranges(first, last - first)]
            return structure.src[eid], structure.dst[eid], eid.to(self.idtype)
        eid = order[first].to(self.idtype)
        return int(eid[0]) if isinstance(u, int) and isinstance(v, int) else eid

    def has_edges_between(self, u: object, v: object, etype: Etype = None) -> Tensor | bool:
        """Whether there is an edge from `u` to `v`, pairwise: bool, (n,); a bool for two ints."""
        structure = self.structure(etype)
        _, _, wanted = self._pair_keys(structure, u, v)
        keys, _ = structure.sorted_pairs()
        found = torch.searchsorted(keys, wanted) < torch.searchsorted(keys, wanted, right=True)
        return bool(found[0]) if isinstance(u, int) and isinstance(v, int) else found

    def has_nodes(self, vid: object, ntype: str | None = None) -> Tensor | bool:
        """Whether ids are nodes of a type: bool, (n,); a bool for an int."""
        count = self._node_frames[self.get_ntype_id(ntype)].num_rows
        ids = graph_ids(self, vid, "vid")
        found = (ids >= 0) & (ids < count)
        return bool(found[0]) if isinstance(vid, int) else found

    def predecessors(self, v: int, etype: Etype = None) -> Tensor:
        """Sources of the edges into node `v`, by edge id; of parallel edges once each."""
        return self.in_edges(v, etype=etype)[0]

    def successors(self, v: int, etype: Etype = None) -> Tensor:
        """Destinations of the edges out of node `v`, by edge id; of parallel edges once each."""
        return self.out_edges(v, etype=etype)[1]

    @property
    def is_multigraph(self) -> bool:
        """Whether two edges have the same ends."""
        return any(
            keys.numel() > torch.unique_consecutive(keys).numel()
            for keys, _ in (structure.sorted_pairs() for structure in self._structures)
        )

    # --- batches --------------------------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """Number of graphs in this batch, 1 for a graph that is none."""
        first = next(iter(self._batch_nodes.values()), None)
        return 1 if first is None else first.size

    def batch_num_nodes(self, ntype: str | None = None) -> Tensor:
        """Nodes of each graph in the batch: (batch_size,), idtype."""
        return self._node_members(self.get_ntype_id(ntype)).counts.clone()

    def batch_num_edges(self, etype: Etype = None) -> Tensor:
        """Edges of each graph in the batch: (batch_size,), idtype."""
        return self._edge_members(self.get_etype_id(etype)).counts.clone()

    def set_batch_num_nodes(self, counts: Tensor | dict[str, Tensor]) -> None:
        """Say how many nodes each graph of the batch has, by type when there are several."""
        table = counts if isinstance(counts, dict) else {None: counts}
        self._batch_nodes = {
            self.get_ntype_id(ntype): Membership(graph_ids(self, n, "counts"))
            for ntype, n in table.items()
        }

    def set_batch_num_edges(self, counts: Tensor | dict[CanonicalEtype, Tensor]) -> None:
        """Say how many edges each graph of the batch has, by type when there are several."""
        table = counts if isinstance(counts, dict) else {None: counts}
        self._batch_edges = {
            self.get_etype_id(etype): Membership(graph_ids(self, n, "counts"))
            for etype, n in table.items()
        }

    def _node_members(self, index: int) -> Membership:
        """The graphs of the batch that nodes of a type belong to."""
        found = self._batch_nodes.get(index)
        return found or self._one_graph(self._node_frames[index].num_rows)

    def _edge_members(self, index: int) -> Membership:
        """The graphs of the batch that edges of a type belong to."""
        found = self._batch_edges.get(index)
        return found or self._one_graph(self._edge_frames[index].num_rows)

    def _one_graph(self, rows: int) -> Membership:
        if is_traced(self._structures):
            return TracedMembership.of_one_graph(rows, self._structures[0])
        return of_one_graph(rows, self.idtype, self.device)

    # --- shared by the above --------------------------------------------------------------------

    def _all_node_ids(self, index: int) -> Tensor:
        count = self._node_frames[index].num_rows
        return torch.arange(count, dtype=self.idtype, device=self.device)

    def _pair_keys(self, structure: Structure, u: object, v: object):
        src = check_range(graph_ids(self, u, "u"), structure.num_src, "node")
        dst = check_range(graph_ids(self, v, "v"), structure.num_dst, "node")
        if src.shape != dst.shape and 1 not in (src.numel(), dst.numel()):
            raise GraphError(f"{src.numel()} sources do not pair with {dst.numel()} destinations")
        src, dst = torch.broadcast_tensors(src, dst)
        return src, dst, structure.pair_keys(src, dst)


def _in_form(structure: Structure, eid: Tensor, form: str, whole: bool = False):
    if form == "eid":
        return eid
    if form not in ("uv", "all"):
        raise GraphError(f"form must be 'uv', 'eid' or 'all', not {form!r}")
    rows = eid.long()
    ends = (structure.src, structure.dst) if whole else (structure.src[rows], structure.dst[rows])
    return ends if form == "uv" else (*ends, eid)


def row_edges(csr: Csr, rows: Tensor, idtype: torch.dtype) -> Tensor:
    """Edge ids of compressed rows, row by row."""
    begins = csr.offsets[rows.long()].long()
    counts = csr.offsets[rows.long() + 1].long() - begins
    return csr.edge_ids[_ranges(begins, counts)].to(idtype)


def _ranges(begins: Tensor, counts: Tensor) -> Tensor:
    """begins[0], begins[0] + 1, ... (counts[0] of them), begins[1], ...: int64."""
    ends = counts.cumsum(0)
    shifts = torch.repeat_interleave(begins - (ends - counts), counts)
    return torch.arange(shifts.shape[0], device=begins.device) + shifts
