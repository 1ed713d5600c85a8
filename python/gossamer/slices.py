"""`g[etype]`: the graph of one relation, or of several as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.frame import Frame
from gossamer.ids import EID, ETYPE, NID, NTYPE
from gossamer.schema import RelationEnds, Schema, make_schema
from gossamer.structure import Structure

if TYPE_CHECKING:
    from gossamer.graph import Graph


def one_relation(graph: Graph, index: int) -> Graph:
    """The graph of one relation. Its frames are `graph`'s own."""
    from gossamer.graph import Graph

    ends = graph._schema.relations[index]
    ids = (ends.src,) if ends.src == ends.dst else (ends.src, ends.dst)
    last = len(ids) - 1
    schema = Schema(
        tuple(graph._schema.ntypes[i] for i in ids),
        (RelationEnds(0, ends.etype, last),),
        (0,),
        (last,),
        graph._schema.is_block,
    )
    node_frames = [graph._node_frames[i] for i in ids]
    edge_frames = [graph._edge_frames[index]]
    part = Graph(schema, [graph._structures[index]], node_frames, edge_frames, graph._engine)
    counts = graph._batch_nodes
    part._batch_nodes = {k: counts[i] for k, i in enumerate(ids) if i in counts}
    if index in graph._batch_edges:
        part._batch_edges = {0: graph._batch_edges[index]}
    return part


def merge_relations(graph: Graph, relations: Sequence[int]) -> Graph:
    """One relation with the edges of several; types and ids in the original are fields "_TYPE" and
    "_ID".

    Fields that all merged types have with one shape and dtype are concatenated. Frames are copies:
    what is written to the slice does not reach the graph.
    """
    ends = [graph._schema.relations[i] for i in relations]
    src_types = sorted({end.src for end in ends})
    dst_types = sorted({end.dst for end in ends})
    homogeneous = src_types == dst_types
    src_frame, src_begin = _stacked(graph, src_types)
    dst_frame, dst_begin = (src_frame, src_begin) if homogeneous else _stacked(graph, dst_types)
    structures = [graph._structures[i] for i in relations]
    idtype = graph.idtype
    pairs = list(zip(structures, ends, strict=True))
    structure = Structure(
        torch.cat([part.src + src_begin[end.src] for part, end in pairs]).to(idtype),
        torch.cat([part.dst + dst_begin[end.dst] for part, end in pairs]).to(idtype),
        src_frame.num_rows,
        dst_frame.num_rows,
        homogeneous=homogeneous,
    )
    edge_frame = _concatenated([graph._edge_frames[i] for i in relations])
    sizes = [part.num_edges for part in structures]
    _label(edge_frame, ETYPE, EID, relations, sizes, idtype)
    frames = [src_frame] if homogeneous else [src_frame, dst_frame]
    schema = _merged_schema(graph, src_types, dst_types, [end.etype for end in ends])
    from gossamer.graph import Graph

    return Graph(schema, [structure], frames, [edge_frame], graph._engine)


def _merged_schema(
    graph: Graph, src_types: Sequence[int], dst_types: Sequence[int], etypes: Sequence[str]
) -> Schema:
    src, dst = (
        "+".join(sorted(graph._schema.ntypes[i] for i in types)) for types in (src_types, dst_types)
    )
    return make_schema([src] if src == dst else [src, dst], [(src, "+".join(sorted(etypes)), dst)])


def _stacked(graph: Graph, types: Sequence[int]) -> tuple[Frame, dict[int, int]]:
    """One frame over all nodes of the types, and where each type begins."""
    frames = [graph._node_frames[i] for i in types]
    sizes = [frame.num_rows for frame in frames]
    begins = {kind: sum(sizes[:k]) for k, kind in enumerate(types)}
    frame = _concatenated(frames)
    _label(frame, NTYPE, NID, types, sizes, graph.idtype)
    return frame, begins


def _concatenated(frames: Sequence[Frame]) -> Frame:
    first = frames[0]
    schemes = [frame.schemes() for frame in frames]
    common = [key for key in first if all(s.get(key) == schemes[0][key] for s in schemes)]
    columns: dict[str, Tensor] = {
        key: torch.cat([frame[key] for frame in frames]) for key in common
    }
    rows = sum(frame.num_rows for frame in frames)
    return Frame(rows, first.kind, first.device, columns, first.initializers.copy())


def _label(
    frame: Frame,
    type_key: str,
    id_key: str,
    types: Sequence[int],
    sizes: Sequence[int],
    idtype: torch.dtype,
) -> None:
    device = frame.device
    counts = torch.tensor(sizes, device=device)
    kinds = torch.tensor(list(types), dtype=idtype, device=device)
    frame[type_key] = torch.repeat_interleave(kinds, counts)
    frame[id_key] = torch.cat([torch.arange(n, dtype=idtype, device=device) for n in sizes])
