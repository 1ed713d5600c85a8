"""Graphs made from graphs. None changes its argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gossamer import function
from gossamer.errors import GraphError
from gossamer.frame import Frame
from gossamer.graph import Graph
from gossamer.ids import EID, NID, check_range, edge_ids_of, graph_ids
from gossamer.schema import Schema, make_block_schema
from gossamer.structure import Structure
from gossamer.symbolic import traceable

Etype = str | tuple[str, str, str] | None


@traceable
def reverse(g: Graph, copy_ndata: bool = True, copy_edata: bool = False) -> Graph:
    """The graph with the two ends of each edge exchanged; edge ids stay.

    Raises:
        GraphError: a block.
    """
    if g.is_block:
        raise GraphError("Reversing a block graph is not supported.")
    old = g._schema
    relations = tuple(type(ends)(ends.dst, ends.etype, ends.src) for ends in old.relations)
    schema = Schema(
        old.ntypes,
        relations,
        old.dst_ids if old.is_unibipartite else old.src_ids,
        old.src_ids if old.is_unibipartite else old.dst_ids,
    )
    structures = [structure.reversed() for structure in g._structures]
    return Graph(
        schema,
        structures,
        [_kept(frame, copy_ndata) for frame in g._node_frames],
        [_kept(frame, copy_edata) for frame in g._edge_frames],
        g._engine,
    )


@traceable
def add_edges(
    g: Graph, u, v, data: Mapping[str, Tensor] | None = None, etype: Etype = None
) -> Graph:
    """A copy of the graph with more edges."""
    result = g.local_var()
    result.add_edges(u, v, data, etype)
    return result


@traceable
def add_nodes(
    g: Graph, num: int, data: Mapping[str, Tensor] | None = None, ntype: str | None = None
) -> Graph:
    """A copy of the graph with more nodes."""
    result = g.local_var()
    result.add_nodes(num, data, ntype)
    return result


@traceable
def remove_edges(g: Graph, eids, etype: Etype = None, store_ids: bool = False) -> Graph:
    """A copy of the graph without some edges."""
    result = g.local_var()
    result.remove_edges(eids, etype, store_ids)
    return result


@traceable
def remove_nodes(g: Graph, nids, ntype: str | None = None, store_ids: bool = False) -> Graph:
    """A copy of the graph without some nodes and their edges."""
    result = g.local_var()
    result.remove_nodes(nids, ntype, store_ids)
    return result


@traceable
def add_self_loop(
    g: Graph,
    edge_feat_names: Sequence[str] | None = None,
    fill_data: float | str = 1.0,
    etype: Etype = None,
) -> Graph:
    """A copy with one more edge from each node to itself, also where there is one already.

    Args:
        edge_feat_names: edge fields to fill; all by default.
        fill_data: a number, or "sum", "mean", "max", "min" of the node's in-edges.

    Raises:
        GraphError: the relation has two node types, or an unknown `fill_data`.
    """
    source, _, target = g.to_canonical_etype(etype)
    if source != target or g.is_block:
        raise GraphError(f"add_self_loop needs one node type; {source!r} and {target!r} are two")
    nodes = g.nodes(source)
    frame = g._edge_frames[g.get_etype_id(etype)]
    names = list(frame) if edge_feat_names is None else edge_feat_names
    data = {name: _loop_rows(g, frame, name, fill_data, source, etype) for name in names}
    return add_edges(g, nodes, nodes, data, etype)


def _loop_rows(g: Graph, frame: Frame, name: str, fill: float | str, ntype: str, etype: Etype):
    column = frame[name]
    if not isinstance(fill, str):
        return column.new_full((g.num_nodes(ntype), *column.shape[1:]), fill)
    if fill not in function.REDUCE_NAMES:
        raise GraphError(f"fill_data must be a number or one of {function.REDUCE_NAMES}")
    with g.local_scope():
        g.update_all(function.copy_e(name, "m"), getattr(function, fill)("m", "h"), etype=etype)
        return g.nodes[ntype].data["h"]


@traceable
def remove_self_loop(g: Graph, etype: Etype = None) -> Graph:
    """A copy without edges from a node to itself."""
    structure = g.structure(etype)
    loops = (structure.src == structure.dst).nonzero().squeeze(1)
    return remove_edges(g, loops.to(g.idtype), etype)


@traceable
def add_reverse_edges(
    g: Graph, copy_ndata: bool = True, copy_edata: bool = False, exclude_self: bool = True
) -> Graph:
    """The graph with, after its own edges, the reverse of each (of self loops too unless
    `exclude_self`).

    Raises:
        GraphError: a relation between two node types.
    """
    if not all(structure.homogeneous for structure in g._structures):
        raise GraphError("add_reverse_edges needs relations whose ends are of one node type")
    structures, edge_frames = [], []
    for structure, frame in zip(g._structures, g._edge_frames, strict=True):
        src, dst = structure.src, structure.dst
        mirrored = (src != dst) if exclude_self else torch.ones_like(src, dtype=torch.bool)
        rows = torch.cat(
            [torch.arange(src.shape[0], device=src.device), mirrored.nonzero().squeeze(1)]
        )
        ends = torch.cat([src, dst[mirrored]]), torch.cat([dst, src[mirrored]])
        structures.append(_similar(structure, *ends))
        part = frame.subframe(rows) if copy_edata else _kept(frame, False, rows.shape[0])
        edge_frames.append(part)
    node_frames = [_kept(frame, copy_ndata) for frame in g._node_frames]
    return Graph(g._schema, structures, node_frames, edge_frames, g._engine)


@traceable
def to_bidirected(g: Graph, copy_ndata: bool = False) -> Graph:
    """The graph with each edge in both directions, without parallel edges."""
    return to_simple(add_reverse_edges(g, copy_ndata=copy_ndata), copy_ndata=copy_ndata)


@traceable
def to_simple(
    g: Graph, return_counts: str | None = "count", copy_ndata: bool = True, copy_edata: bool = False
) -> Graph:
    """The graph without parallel edges, sorted by (source, destination).

    Args:
        return_counts: name of the edge field for the number of edges that became one; None for
            none.
        copy_edata: keep the fields of the first of each group of parallel edges.
    """
    structures, edge_frames = [], []
    for structure, frame in zip(g._structures, g._edge_frames, strict=True):
        keys, order = structure.sorted_pairs()
        _, counts = torch.unique_consecutive(keys, return_counts=True)
        first = order[counts.cumsum(0) - counts]
        structures.append(_similar(structure, structure.src[first], structure.dst[first]))
        part = frame.subframe(first) if copy_edata else _kept(frame, False, first.shape[0])
        if return_counts is not None:
            part[return_counts] = counts
        edge_frames.append(part)
    node_frames = [_kept(frame, copy_ndata) for frame in g._node_frames]
    return Graph(g._schema, structures, node_frames, edge_frames, g._engine)


@traceable
def in_subgraph(g: Graph, nodes, store_ids: bool = True) -> Graph:
    """The edges into some nodes (by type when there are several), with all nodes."""
    table = _by_type(g, nodes)
    edges = {
        name: g.in_edges(table[name[2]], form="eid", etype=name)
        for name in g.canonical_etypes
        if name[2] in table
    }
    return _with_edges(g, edges, store_ids)


@traceable
def out_subgraph(g: Graph, nodes, store_ids: bool = True) -> Graph:
    """The edges out of some nodes (by type when there are several), with all nodes."""
    table = _by_type(g, nodes)
    edges = {
        name: g.out_edges(table[name[0]], form="eid", etype=name)
        for name in g.canonical_etypes
        if name[0] in table
    }
    return _with_edges(g, edges, store_ids)


@traceable
def edge_subgraph(g: Graph, edges, relabel_nodes: bool = True, store_ids: bool = True) -> Graph:
    """Some edges (ids, a bool mask, or a dict of them by type), with their nodes, or all of them.

    With `store_ids` original ids are fields "_ID".
    """
    table = edges if isinstance(edges, Mapping) else {None: edges}
    chosen = {
        g.to_canonical_etype(name): _edge_selection(g, ids, name) for name, ids in table.items()
    }
    part = _with_edges(g, chosen, store_ids)
    if not relabel_nodes:
        return part
    kept = []
    for i in range(len(part._node_frames)):
        kept.append(torch.unique(torch.cat([*_ends(part, i, "src"), *_ends(part, i, "dst")])))
    return _relabelled(part, kept, store_ids)


@traceable
def node_subgraph(g: Graph, nodes, relabel_nodes: bool = True, store_ids: bool = True) -> Graph:
    """Some nodes (ids, a bool mask, or a dict of them by type) and the edges among them."""
    table = _by_type(g, nodes)
    empty = torch.zeros(0, dtype=g.idtype, device=g.device)
    kept = [table.get(name, empty) for name in g._schema.ntypes]
    masks = []
    for frame, ids in zip(g._node_frames, kept, strict=True):
        mask = torch.zeros(frame.num_rows, dtype=torch.bool, device=g.device)
        mask[ids.long()] = True
        masks.append(mask)
    edges = {}
    pairs = zip(g.canonical_etypes, g._schema.relations, g._structures, strict=True)
    for name, ends, structure in pairs:
        inside = masks[ends.src][structure.src.long()] & masks[ends.dst][structure.dst.long()]
        edges[name] = inside.nonzero().squeeze(1).to(g.idtype)
    part = _with_edges(g, edges, store_ids)
    return _relabelled(part, kept, store_ids) if relabel_nodes else part


@traceable
def to_block(g: Graph, dst_nodes=None, include_dst_in_src: bool = True) -> Graph:
    """A message flow block of all edges: destinations first among the sources, original ids under
    "_ID".

    Args:
        dst_nodes: destination nodes (by type when there are several); by default those with
            in-edges.
        include_dst_in_src: whether destinations without out-edges are sources too.

    Raises:
        GraphError: an edge enters a node that is not in `dst_nodes`.
    """
    empty = torch.zeros(0, dtype=g.idtype, device=g.device)
    given = None if dst_nodes is None else _by_type(g, dst_nodes)
    targets, sources = [], []
    for i, name in enumerate(g._schema.ntypes):
        reached = torch.unique(torch.cat(_ends(g, i, "dst")))
        target = reached if given is None else given.get(name, empty)
        if not torch.isin(reached, target).all():
            raise GraphError(f"dst_nodes lacks {name!r} nodes that edges enter")
        first = target if include_dst_in_src else empty
        others = torch.unique(torch.cat(_ends(g, i, "src")))
        sources.append(torch.cat([first, others[~torch.isin(others, first)]]))
        targets.append(target)
    return _as_block(g, sources, targets)


def _as_block(g: Graph, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> Graph:
    structures, edge_frames = [], []
    for ends, whole, frame in zip(g._schema.relations, g._structures, g._edge_frames, strict=True):
        new_src = _renumbering(sources[ends.src], whole.num_src)[whole.src.long()]
        new_dst = _renumbering(targets[ends.dst], whole.num_dst)[whole.dst.long()]
        sizes = sources[ends.src].shape[0], targets[ends.dst].shape[0]
        structures.append(
            Structure(new_src, new_dst, *sizes, homogeneous=False, is_block=True, check=False)
        )
        edges = frame.clone()
        if EID not in edges:
            edges[EID] = torch.arange(whole.num_edges, dtype=g.idtype, device=g.device)
        edge_frames.append(edges)
    node_frames = []
    for kept in (sources, targets):
        for frame, ids in zip(g._node_frames, kept, strict=True):
            part = frame.subframe(ids)
            part[NID] = ids
            node_frames.append(part)
    names = list(g._schema.ntypes)
    schema = make_block_schema(names, names, g.canonical_etypes)
    return Graph(schema, structures, node_frames, edge_frames, g._engine)


# --- shared by the above -------------------------------------------------------------------------


def _kept(frame: Frame, keep: bool, rows: int | None = None) -> Frame:
    if keep:
        return frame.clone()
    count = frame.num_rows if rows is None else rows
    return Frame(count, frame.kind, frame.device, initializers=frame.initializers.copy())


def _similar(old: Structure, src: Tensor, dst: Tensor) -> Structure:
    kinds = {"homogeneous": old.homogeneous, "is_block": old.is_block}
    return Structure(src, dst, old.num_src, old.num_dst, **kinds, check=False)


def _by_type(g: Graph, nodes) -> dict[str, Tensor]:
    """Node ids by type, from ids, a bool mask, or a dict of them."""
    table = nodes if isinstance(nodes, Mapping) else {g.ntypes[g.get_ntype_id(None)]: nodes}
    result = {}
    for name, ids in table.items():
        count = g.num_nodes(name)
        if isinstance(ids, Tensor) and ids.dtype == torch.bool:
            ids = ids.nonzero().squeeze(1).to(g.idtype)
        result[name] = check_range(graph_ids(g, ids, "nodes"), count, "node")
    return result


def _edge_selection(g: Graph, ids, etype: Etype) -> Tensor:
    if isinstance(ids, Tensor) and ids.dtype == torch.bool:
        return ids.nonzero().squeeze(1).to(g.idtype)
    return edge_ids_of(g, ids, etype)


def _with_edges(g: Graph, edges: Mapping[tuple[str, str, str], Tensor], store_ids: bool) -> Graph:
    """All nodes and, per relation, the chosen edges (none where nothing is chosen)."""
    empty = torch.zeros(0, dtype=g.idtype, device=g.device)
    structures, frames = [], []
    for name, whole, frame in zip(g.canonical_etypes, g._structures, g._edge_frames, strict=True):
        ids = edges.get(name, empty)
        structures.append(_similar(whole, whole.src[ids.long()], whole.dst[ids.long()]))
        part = frame.subframe(ids)
        if store_ids:
            part[EID] = ids
        frames.append(part)
    node_frames = [frame.clone() for frame in g._node_frames]
    return Graph(g._schema, structures, node_frames, frames, g._engine)


def _relabelled(part: Graph, kept: Sequence[Tensor], store_ids: bool) -> Graph:
    """`part` with only the nodes `kept` (ids by type), renumbered."""
    structures = []
    for ends, whole in zip(part._schema.relations, part._structures, strict=True):
        src = _renumbering(kept[ends.src], whole.num_src)[whole.src.long()]
        dst = _renumbering(kept[ends.dst], whole.num_dst)[whole.dst.long()]
        sizes = kept[ends.src].shape[0], kept[ends.dst].shape[0]
        kinds = {"homogeneous": whole.homogeneous, "is_block": whole.is_block}
        structures.append(Structure(src, dst, *sizes, **kinds, check=False))
    node_frames = []
    for frame, ids in zip(part._node_frames, kept, strict=True):
        node_frames.append(frame.subframe(ids))
        if store_ids:
            node_frames[-1][NID] = ids
    edge_frames = [frame.clone() for frame in part._edge_frames]
    return Graph(part._schema, structures, node_frames, edge_frames, part._engine)


def _ends(g: Graph, ntype_index: int, side: str) -> list[Tensor]:
    """The ends ("src" or "dst") of all relations that are nodes of a type; at least one tensor."""
    empty = torch.zeros(0, dtype=g.idtype, device=g.device)
    pairs = zip(g._structures, g._schema.relations, strict=True)
    return [empty, *(getattr(s, side) for s, ends in pairs if getattr(ends, side) == ntype_index)]


def _renumbering(ids: Tensor, count: int) -> Tensor:
    """(count,): the position of each old id in `ids`, -1 for others."""
    positions = torch.full((count,), -1, dtype=ids.dtype, device=ids.device)
    positions[ids.long()] = torch.arange(ids.shape[0], dtype=ids.dtype, device=ids.device)
    return positions
