"""Making graphs from edge lists and from other libraries' graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import GraphError
from gossamer.frame import Frame
from gossamer.graph import Graph
from gossamer.ids import id_tensor
from gossamer.schema import (
    ETYPE_DEFAULT,
    NTYPE_DEFAULT,
    CanonicalEtype,
    Schema,
    make_block_schema,
    make_schema,
)
from gossamer.structure import Structure

if TYPE_CHECKING:
    import networkx
    import scipy.sparse

#: (sources, destinations) as tensors, lists or arrays.
Edges = tuple[object, object]


def graph(
    data: Edges,
    num_nodes: int | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A graph with one node type and one edge type.

    Args:
        data: (sources, destinations): tensors, lists or arrays of E node ids; edge i is the i-th
            pair.
        num_nodes: one more than the largest id when left out.
        idtype: torch.int32 or torch.int64; by default that of the tensors, else int64.
        device: by default that of the tensors, else the CPU.

    Raises:
        GraphError: an id is negative, or not below `num_nodes`; sources and destinations differ in
            number.
    """
    src, dst = _edge_tensors(data, idtype, device)
    count = _count(src, dst) if num_nodes is None else num_nodes
    structure = Structure(src, dst, count, count, homogeneous=True)
    return assemble(make_schema([NTYPE_DEFAULT], [_HOMOGENEOUS]), [structure], [count])


_HOMOGENEOUS: CanonicalEtype = (NTYPE_DEFAULT, ETYPE_DEFAULT, NTYPE_DEFAULT)


def heterograph(
    data_dict: Mapping[CanonicalEtype, Edges],
    num_nodes_dict: Mapping[str, int] | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A graph with several node or edge types.

    Args:
        data_dict: (sources, destinations) by (source type, edge type, destination type).
        num_nodes_dict: nodes by type; one more than the largest id when left out.
        idtype, device: as in `graph`.

    Raises:
        GraphError: no relation; an id out of range; relations with different id dtypes.
    """
    edges = _edge_table(data_dict, idtype, device)
    if num_nodes_dict is None:
        sizes: dict[str, int] = defaultdict(int)
        for (srctype, _, dsttype), (src, dst) in edges.items():
            sizes[srctype] = max(sizes[srctype], _count(src))
            sizes[dsttype] = max(sizes[dsttype], _count(dst))
    else:
        sizes = dict(num_nodes_dict)
        for name in {end for key in edges for end in (key[0], key[2])}:
            if name not in sizes:
                raise GraphError(f"num_nodes_dict has no entry for node type {name!r}")
    ntypes, relations = sorted(sizes), sorted(edges)
    structures = [
        Structure(*edges[key], sizes[key[0]], sizes[key[2]], homogeneous=key[0] == key[2])
        for key in relations
    ]
    return assemble(make_schema(ntypes, relations), structures, [sizes[name] for name in ntypes])


def create_block(
    data_dict: Edges | Mapping[CanonicalEtype, Edges],
    num_src_nodes: int | Mapping[str, int] | None = None,
    num_dst_nodes: int | Mapping[str, int] | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A message flow block: sources and destinations are numbered apart.

    Args:
        data_dict: (sources, destinations), or a dict of them by (source type, edge type,
            destination type).
        num_src_nodes, num_dst_nodes: nodes on each side, by type for a dict; one more than the
            largest id when both are left out.

    Raises:
        GraphError: an id out of range; one of the two numbers missing.
    """
    if not isinstance(data_dict, Mapping):
        data_dict = {_HOMOGENEOUS: data_dict}
        if num_src_nodes is not None:
            num_src_nodes = {NTYPE_DEFAULT: num_src_nodes}
        if num_dst_nodes is not None:
            num_dst_nodes = {NTYPE_DEFAULT: num_dst_nodes}
    edges = _edge_table(data_dict, idtype, device)
    if (num_src_nodes is None) != (num_dst_nodes is None):
        raise GraphError("give both num_src_nodes and num_dst_nodes, or neither")
    if num_src_nodes is None:
        num_src_nodes, num_dst_nodes = defaultdict(int), defaultdict(int)
        for (srctype, _, dsttype), (src, dst) in edges.items():
            num_src_nodes[srctype] = max(num_src_nodes[srctype], _count(src))
            num_dst_nodes[dsttype] = max(num_dst_nodes[dsttype], _count(dst))
    srctypes, dsttypes, relations = sorted(num_src_nodes), sorted(num_dst_nodes), sorted(edges)
    structures = [
        Structure(
            *edges[key],
            num_src_nodes[key[0]],
            num_dst_nodes[key[2]],
            homogeneous=False,
            is_block=True,
        )
        for key in relations
    ]
    sizes = [num_src_nodes[name] for name in srctypes] + [num_dst_nodes[name] for name in dsttypes]
    return assemble(make_block_schema(srctypes, dsttypes, relations), structures, sizes)


def from_edge_index(edge_index: Tensor, num_nodes: int | None = None) -> Graph:
    """A graph from a (2, E) tensor of sources and destinations, as PyTorch Geometric has it."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise GraphError(f"edge_index has shape {tuple(edge_index.shape)}; expected (2, E)")
    return graph((edge_index[0].contiguous(), edge_index[1].contiguous()), num_nodes)


def from_scipy(
    matrix: scipy.sparse.spmatrix,
    eweight_name: str | None = None,
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A graph with an edge from i to j for each stored entry (i, j) of a square sparse matrix.

    `eweight_name` keeps the entries as an edge field.

    Raises:
        GraphError: the matrix is not square.
    """
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphError(
            f"the adjacency matrix has shape {matrix.shape}; "
            "make a bipartite graph with heterograph"
        )
    entries = matrix.tocoo()
    result = graph((entries.row, entries.col), matrix.shape[0], idtype or torch.int64, device)
    if eweight_name is not None:
        result.edata[eweight_name] = torch.as_tensor(entries.data).to(result.device)
    return result


def from_networkx(
    nx_graph: networkx.Graph,
    node_attrs: Sequence[str] = (),
    edge_attrs: Sequence[str] = (),
    idtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Graph:
    """A graph from a networkx graph; an undirected edge becomes two. Nodes are numbered in sorted
    order.

    Args:
        node_attrs, edge_attrs: attributes to keep as fields; every node or edge must have them.

    Raises:
        GraphError: an attribute is missing.
    """
    if not nx_graph.is_directed():
        nx_graph = nx_graph.to_directed()
    nodes = list(nx_graph.nodes)
    if all(isinstance(node, int) for node in nodes):
        nodes.sort()
    index = {node: i for i, node in enumerate(nodes)}
    edges = list(nx_graph.edges(data=True))
    if edges and all("id" in attributes for *_, attributes in edges):
        edges.sort(key=lambda edge: edge[2]["id"])
    src, dst = [index[u] for u, _, _ in edges], [index[v] for _, v, _ in edges]
    result = graph((src, dst), len(nodes), idtype or torch.int64, device)
    for key in node_attrs:
        result.ndata[key] = _attribute_column((nx_graph.nodes[node] for node in nodes), key)
    for key in edge_attrs:
        result.edata[key] = _attribute_column((attributes for *_, attributes in edges), key)
    return result


def assemble(schema: Schema, structures: Sequence[Structure], num_nodes: Sequence[int]) -> Graph:
    """A graph without features."""
    if not structures:
        raise GraphError("a graph needs at least one edge type; its edges may be empty")
    idtypes = {structure.idtype for structure in structures}
    if len(idtypes) > 1:
        raise GraphError(f"relations have different id dtypes: {sorted(map(str, idtypes))}")
    device = structures[0].device
    node_frames = [Frame(count, "nodes", device) for count in num_nodes]
    edge_frames = [Frame(structure.num_edges, "edges", device) for structure in structures]
    return Graph(schema, structures, node_frames, edge_frames)


def _edge_table(data_dict: Mapping, idtype: object, device: object) -> dict:
    for key in data_dict:
        if not (isinstance(key, tuple) and len(key) == 3):
            raise GraphError(
                f"edge type {key!r}: expected (source type, edge type, destination type)"
            )
    return {key: _edge_tensors(edges, idtype, device) for key, edges in data_dict.items()}


def _edge_tensors(
    data: Edges, idtype: torch.dtype | None, device: torch.device | str | None
) -> tuple[Tensor, Tensor]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise GraphError(
            f"edges must be a pair (sources, destinations), got {type(data).__name__}; "
            "see from_scipy, from_networkx, from_edge_index and from_dgl for other things"
        )
    tensors = [ids for ids in data if isinstance(ids, Tensor)]
    if idtype is None:
        idtype = tensors[0].dtype if tensors else torch.int64
    if idtype not in (torch.int32, torch.int64):
        raise GraphError(f"node ids must be int32 or int64, got {idtype}")
    if device is None:
        device = tensors[0].device if tensors else torch.device("cpu")
    device = torch.empty(0, device=device).device
    src, dst = (_ids(ids, idtype, device) for ids in data)
    if src.shape != dst.shape:
        raise GraphError(f"{src.numel()} sources, but {dst.numel()} destinations")
    return src, dst


def _ids(ids: object, idtype: torch.dtype, device: torch.device) -> Tensor:
    if isinstance(ids, Tensor):
        if ids.numel() and ids.dtype not in (torch.int32, torch.int64):
            raise GraphError(f"node ids must be int32 or int64, got {ids.dtype}")
        return id_tensor(ids.to(device=device, dtype=idtype), idtype, device, "data")
    return id_tensor(ids, idtype, device, "data")


def _count(*ids: Tensor) -> int:
    return max((int(part.max()) + 1 for part in ids if part.numel()), default=0)


def _attribute_column(attributes: Iterable[Mapping[str, object]], key: str) -> Tensor:
    try:
        values = [row[key] for row in attributes]
    except KeyError:
        raise GraphError(f"attribute {key!r} is missing on some nodes or edges") from None
    if values and isinstance(values[0], Tensor):
        return torch.stack(values)
    return torch.as_tensor(values)
