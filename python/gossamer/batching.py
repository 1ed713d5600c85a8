"""Many small graphs as one, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gossamer.errors import GraphError, SchemaError
from gossamer.frame import Frame
from gossamer.graph import Graph
from gossamer.ids import ALL, is_all
from gossamer.membership import Membership
from gossamer.structure import Structure


def batch(
    graphs: Sequence[Graph],
    ndata: Sequence[str] | str | None = ALL,
    edata: Sequence[str] | str | None = ALL,
) -> Graph:
    """The disjoint union of graphs with the same types. Nodes and edges keep their order.

    Args:
        graphs: at least one; batches may be batched again.
        ndata, edata: the fields to keep; all by default, None for none.

    Raises:
        GraphError: no graph, a block, or graphs of different types.
        SchemaError: graphs have different fields, or fields of different shapes or dtypes.
    """
    graphs = list(graphs)
    if not graphs:
        raise GraphError("The input list of graphs cannot be empty.")
    schema = graphs[0]._schema
    if any(graph.is_block for graph in graphs):
        raise GraphError("Batching a block is not supported.")
    if any(graph._schema != schema for graph in graphs):
        raise GraphError("batched graphs must have the same node and edge types")
    node_frames = [
        _joined([graph._node_frames[i] for graph in graphs], ndata)
        for i in range(len(schema.ntypes))
    ]
    edge_frames = [
        _joined([graph._edge_frames[i] for graph in graphs], edata)
        for i in range(len(schema.relations))
    ]
    structures = [
        _union([graph._structures[i] for graph in graphs]) for i in range(len(schema.relations))
    ]
    result = Graph(schema, structures, node_frames, edge_frames, graphs[0]._engine)
    result._batch_nodes = {
        i: _joined_members([graph._node_members(i) for graph in graphs])
        for i in range(len(schema.ntypes))
    }
    result._batch_edges = {
        i: _joined_members([graph._edge_members(i) for graph in graphs])
        for i in range(len(schema.relations))
    }
    return result


def unbatch(
    g: Graph,
    node_split: Tensor | Mapping[str, Tensor] | None = None,
    edge_split: Tensor | Mapping[tuple[str, str, str], Tensor] | None = None,
) -> list[Graph]:
    """The graphs of a batch, with their fields.

    Args:
        node_split, edge_split: nodes and edges of each graph (by type, when there are several),
            instead of those that `batch` noted.

    Raises:
        GraphError: the splits do not add up, or an edge leaves its graph.
    """
    node_counts = _counts(g.ntypes, node_split, g.batch_num_nodes, g.num_nodes)
    edge_counts = _counts(g.canonical_etypes, edge_split, g.batch_num_edges, g.num_edges)
    numbers = {len(counts) for counts in (*node_counts, *edge_counts)}
    if len(numbers) != 1:
        raise GraphError("all node and edge splits must have the same number of graphs")
    node_parts = [_split(frame, n) for frame, n in zip(g._node_frames, node_counts, strict=True)]
    edge_parts = [_split(frame, n) for frame, n in zip(g._edge_frames, edge_counts, strict=True)]
    structures = []
    for ends, whole, sizes in zip(g._schema.relations, g._structures, edge_counts, strict=True):
        structures.append(_pieces(whole, sizes, node_counts[ends.src], node_counts[ends.dst]))
    columns = [list(zip(*parts, strict=True)) for parts in (structures, node_parts, edge_parts)]
    return [
        Graph(g._schema, parts, nodes, edges, g._engine)
        for parts, nodes, edges in zip(*columns, strict=True)
    ]


def _union(parts: Sequence[Structure]) -> Structure:
    src, dst, num_src, num_dst = [], [], 0, 0
    for part in parts:
        src.append(part.src + num_src)
        dst.append(part.dst + num_dst)
        num_src += part.num_src
        num_dst += part.num_dst
    homogeneous = parts[0].homogeneous
    return Structure(
        torch.cat(src), torch.cat(dst), num_src, num_dst, homogeneous=homogeneous, check=False
    )


def _joined_members(parts: Sequence[Membership]) -> Membership:
    return Membership(torch.cat([part.counts for part in parts]))


def _joined(frames: Sequence[Frame], keys: Sequence[str] | str | None) -> Frame:
    """Frames one after another. Frames without rows need not have the fields of the others."""
    first = frames[0]
    rows = sum(frame.num_rows for frame in frames)
    result = Frame(rows, first.kind, first.device, initializers=first.initializers.copy())
    if keys is None:
        return result
    filled = [frame for frame in frames if frame.num_rows] or frames
    names = list(filled[0]) if is_all(keys) else list(keys)
    wanted = filled[0].schemes()
    for frame in filled:
        schemes = frame.schemes()
        same = (
            schemes == wanted
            if is_all(keys)
            else all(schemes.get(n) == wanted.get(n) for n in names)
        )
        if not same:
            raise SchemaError(
                f"batched graphs must have the same {first.kind} fields: {wanted} and {schemes}"
            )
    for name in names:
        result[name] = torch.cat([frame[name] for frame in filled])
    return result


def _counts(types, split, noted, total) -> list[list[int]]:
    """Rows of each graph, by type."""
    if split is None:
        table = {name: noted(name) for name in types}
    elif isinstance(split, Mapping):
        table = split
    elif len(types) == 1:
        table = {types[0]: split}
    else:
        raise GraphError("there are several types: give the split as a dict by type")
    missing = [name for name in types if name not in table]
    if missing:
        raise GraphError(f"the split has no entry for {missing[0]!r}")
    lists = [torch.as_tensor(table[name]).tolist() for name in types]
    for name, counts in zip(types, lists, strict=True):
        if sum(counts) != total(name):
            raise GraphError(f"the split of {name!r} adds up to {sum(counts)}, not {total(name)}")
    return lists


def _split(frame: Frame, counts: Sequence[int]) -> list[Frame]:
    columns = {key: frame[key].split(list(counts)) for key in frame}
    return [
        Frame(
            count,
            frame.kind,
            frame.device,
            {key: parts[i] for key, parts in columns.items()},
            frame.initializers.copy(),
        )
        for i, count in enumerate(counts)
    ]


def _pieces(
    whole: Structure, sizes: Sequence[int], num_src: Sequence[int], num_dst: Sequence[int]
) -> list[Structure]:
    pieces, first_src, first_dst = [], 0, 0
    ends = zip(whole.src.split(list(sizes)), whole.dst.split(list(sizes)), strict=True)
    for (src, dst), sources, targets in zip(ends, num_src, num_dst, strict=True):
        piece = (src - first_src, dst - first_dst, sources, targets)
        pieces.append(Structure(*piece, homogeneous=whole.homogeneous))
        first_src += sources
        first_dst += targets
    return pieces
