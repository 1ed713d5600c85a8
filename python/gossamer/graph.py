"""`Graph`: types, structures, frames and an engine.

What is where: questions about the structure are in `queries.py`, message passing in `messages.py`,
changes in `mutation.py`, construction in `convert.py`. This file holds the state and its views.

A graph's *engine* decides what a user-defined function does: `EagerEngine` runs it, a recording engine
captures it. A *shadow* is the same graph under another engine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from gossamer import readout
from gossamer.errors import GraphError
from gossamer.frame import Frame, Initializer
from gossamer.messages import Engine, MessagePassing
from gossamer.mutation import Mutation
from gossamer.queries import Queries
from gossamer.schema import CanonicalEtype, RelationEnds, Schema
from gossamer.structure import Structure
from gossamer.views import DataView, EdgeView, NodeView, TypedDataView


class Scheme(NamedTuple):
    """Shape of one row, and dtype, of a field."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Relation(NamedTuple):
    """One relation of a graph with the frames at its ends: what an engine works on.

    Where both ends are one set of nodes, `src` and `dst` are the same frame.
    """

    structure: Structure
    src: Frame
    dst: Frame
    edges: Frame
    canonical_etype: CanonicalEtype

    @property
    def dst_ntype(self) -> str:
        """Name of the destination node type."""
        return self.canonical_etype[2]


class Graph(Queries, MessagePassing, Mutation):
    """A graph with features and DGL's message passing surface.

    Make one with `graph`, `heterograph`, `create_block`, `batch` or a `from_...` function.

    Args:
        schema: names of the types.
        structures: one per relation.
        node_frames: one per entry of `schema.ntypes`.
        edge_frames: one per relation.
        engine: runs user-defined functions; the eager engine when left out.
    """

    def __init__(
        self,
        schema: Schema,
        structures: Sequence[Structure],
        node_frames: Sequence[Frame],
        edge_frames: Sequence[Frame],
        engine: Engine | None = None,
    ):
        if engine is None:
            from gossamer.eager import EAGER as engine
        self._schema = schema
        self._structures = tuple(structures)
        self._node_frames = list(node_frames)
        self._edge_frames = list(edge_frames)
        self._engine = engine
        self._batch_nodes: dict[int, Tensor] = {}
        self._batch_edges: dict[int, Tensor] = {}
        self._origin: Graph | None = None
        self._scopes = 0

    # --- engines --------------------------------------------------------------------------------

    def shadow(self, engine: Engine) -> Graph:
        """This graph under another engine: same structures, and (outside a local scope) the same frames.

        Slices and local copies of a shadow keep its engine. A change of the structure made through a
        shadow is made to this graph too.
        """
        twin = self._like(self._node_frames, self._edge_frames)
        twin._engine = engine
        twin._origin = self
        return twin

    def relation(self, index: int) -> Relation:
        """The relation with this index and its frames at this moment."""
        ends = self._schema.relations[index]
        return Relation(
            self._structures[index],
            self._node_frames[ends.src],
            self._node_frames[ends.dst],
            self._edge_frames[index],
            self._schema.canonical_etypes[index],
        )

    def structure(self, etype: str | CanonicalEtype | None = None) -> Structure:
        """The structure of one relation."""
        return self._structures[self.get_etype_id(etype)]

    # --- types ----------------------------------------------------------------------------------

    @property
    def ntypes(self) -> list[str]:
        """Node type names; of a block, source types first."""
        return list(self._schema.ntypes)

    @property
    def etypes(self) -> list[str]:
        """Edge type names, by relation."""
        return self._schema.etypes

    @property
    def canonical_etypes(self) -> list[CanonicalEtype]:
        """(source type, edge type, destination type), by relation."""
        return list(self._schema.canonical_etypes)

    @property
    def srctypes(self) -> list[str]:
        """Types that are sources."""
        return self._schema.srctypes

    @property
    def dsttypes(self) -> list[str]:
        """Types that are destinations."""
        return self._schema.dsttypes

    @property
    def is_block(self) -> bool:
        """Whether this is a message flow block: destination nodes are the first source nodes."""
        return self._schema.is_block

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self._schema.ntypes) == 1 and len(self._schema.relations) == 1

    @property
    def is_unibipartite(self) -> bool:
        """Whether no node type is both a source and a destination."""
        return self._schema.is_unibipartite

    def get_ntype_id(self, ntype: str | None) -> int:
        """Index of a node type."""
        return self._schema.ntype_id(ntype)

    def get_ntype_id_from_src(self, ntype: str | None) -> int:
        """Index of a source node type."""
        return self._schema.src_ntype_id(ntype)

    def get_ntype_id_from_dst(self, ntype: str | None) -> int:
        """Index of a destination node type."""
        return self._schema.dst_ntype_id(ntype)

    def get_etype_id(self, etype: str | CanonicalEtype | None) -> int:
        """Index of an edge type."""
        return self._schema.etype_id(etype)

    def to_canonical_etype(self, etype: str | CanonicalEtype | None) -> CanonicalEtype:
        """(source type, edge type, destination type) of an edge type name."""
        return self._schema.canonical_etypes[self.get_etype_id(etype)]

    # --- features -------------------------------------------------------------------------------

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
        """Set what unwritten rows of node fields hold: `initializer(shape, dtype, device, rows)`."""
        self._node_frames[self.get_ntype_id(ntype)].initializers.set(initializer, field)

    def set_e_initializer(
        self,
        initializer: Initializer,
        field: str | None = None,
        etype: str | CanonicalEtype | None = None,
    ) -> None:
        """Set what unwritten rows of edge fields hold: `initializer(shape, dtype, device, rows)`."""
        self._edge_frames[self.get_etype_id(etype)].initializers.set(initializer, field)

    # --- scopes and copies ----------------------------------------------------------------------

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """Within it, written fields are this scope's own; they are gone afterwards, also on an error."""
        outer = self._node_frames, self._edge_frames
        self._node_frames = [frame.clone() for frame in outer[0]]
        self._edge_frames = [frame.clone() for frame in outer[1]]
        self._scopes += 1
        try:
            yield
        finally:
            self._scopes -= 1
            self._node_frames, self._edge_frames = outer

    def local_var(self) -> Graph:
        """A graph with the same structure and fields, whose writes do not reach this one."""
        return self._like(
            [frame.clone() for frame in self._node_frames],
            [frame.clone() for frame in self._edge_frames],
        )

    def clone(self) -> Graph:
        """As `local_var`."""
        return self.local_var()

    __copy__ = local_var

    def __deepcopy__(self, memo: dict) -> Graph:
        def copied(tensor: Tensor) -> Tensor:
            return copy.deepcopy(tensor, memo) if tensor.is_leaf else tensor.clone()

        return self._map(copied)

    def __reduce__(self):
        state = (self._schema, self._structures, self._node_frames, self._edge_frames)
        return _restore, (*state, self._batch_nodes, self._batch_edges)

    def _like(self, node_frames: Sequence[Frame], edge_frames: Sequence[Frame]) -> Graph:
        """A graph with this one's structure and engine, and other frames."""
        twin = Graph(self._schema, self._structures, node_frames, edge_frames, self._engine)
        twin._batch_nodes = dict(self._batch_nodes)
        twin._batch_edges = dict(self._batch_edges)
        return twin

    def _map(self, convert: Callable[[Tensor], Tensor], device: torch.device | None = None) -> Graph:
        return self._like(
            [frame.map(convert, device) for frame in self._node_frames],
            [frame.map(convert, device) for frame in self._edge_frames],
        )

    # --- slices ---------------------------------------------------------------------------------

    def __getitem__(self, key: str | tuple) -> Graph:
        """The graph of one relation, sharing its frames; of several (`g["u", :, "v"]`), a merged copy.

        Raises:
            GraphError: no relation matches.
        """
        parts = key if isinstance(key, tuple) else (slice(None), key, slice(None))
        if len(parts) != 3:
            raise GraphError(
                f"Invalid slice {key!r}; use g[etype] or g[source type, etype, destination type]"
            )
        found = self._schema.matching(parts)
        if not found:
            known = ", ".join(map(repr, self._schema.canonical_etypes))
            raise GraphError(f"Invalid key {key!r}. Must be one of the edge types: {known}")
        if len(found) > 1:
            from gossamer.merge import merge_relations

            return merge_relations(self, found)
        return self._slice(found[0])

    def _slice(self, index: int) -> Graph:
        """The graph of one relation. Its frames are this graph's own."""
        ends = self._schema.relations[index]
        ids = (ends.src,) if ends.src == ends.dst else (ends.src, ends.dst)
        last = len(ids) - 1
        schema = Schema(
            tuple(self._schema.ntypes[i] for i in ids),
            (RelationEnds(0, ends.etype, last),),
            (0,),
            (last,),
            self._schema.is_block,
        )
        frames = [self._node_frames[i] for i in ids]
        part = Graph(
            schema, [self._structures[index]], frames, [self._edge_frames[index]], self._engine
        )
        part._batch_nodes = {
            k: self._batch_nodes[i] for k, i in enumerate(ids) if i in self._batch_nodes
        }
        if index in self._batch_edges:
            part._batch_edges = {0: self._batch_edges[index]}
        return part

    # --- readouts and copies with other edges (also functions of the same names) ------------------

    sum_nodes = readout.sum_nodes
    mean_nodes = readout.mean_nodes
    max_nodes = readout.max_nodes
    softmax_nodes = readout.softmax_nodes
    broadcast_nodes = readout.broadcast_nodes
    sum_edges = readout.sum_edges
    mean_edges = readout.mean_edges
    max_edges = readout.max_edges
    softmax_edges = readout.softmax_edges
    broadcast_edges = readout.broadcast_edges

    def in_subgraph(self, nodes: object, store_ids: bool = True) -> Graph:
        """The edges into some nodes, with all nodes."""
        from gossamer import transforms

        return transforms.in_subgraph(self, nodes, store_ids)

    def reverse(self, copy_ndata: bool = True, copy_edata: bool = False) -> Graph:
        """The graph with the two ends of each edge exchanged."""
        from gossamer import transforms

        return transforms.reverse(self, copy_ndata, copy_edata)

    def add_self_loop(self, *args: object, **options: object) -> Graph:
        """A copy with one more edge from each node to itself; see `transforms.add_self_loop`."""
        from gossamer import transforms

        return transforms.add_self_loop(self, *args, **options)

    def remove_self_loop(self, etype: str | CanonicalEtype | None = None) -> Graph:
        """A copy without edges from a node to itself."""
        from gossamer import transforms

        return transforms.remove_self_loop(self, etype)

    # --- devices and dtypes ---------------------------------------------------------------------

    @property
    def idtype(self) -> torch.dtype:
        """dtype of ids: torch.int32 or torch.int64."""
        return self._structures[0].idtype

    @property
    def device(self) -> torch.device:
        """Where structure and features live."""
        return self._structures[0].device

    def to(self, device: torch.device | str, **options: object) -> Graph:
        """A copy on `device`; self when it is there already. `options` as of `Tensor.to`."""
        device = torch.empty(0, device=device).device
        if device == self.device:
            return self
        twin = self._map(lambda tensor: tensor.to(device, **options), device)
        twin._structures = tuple(structure.to(device) for structure in self._structures)
        return twin

    def cpu(self) -> Graph:
        """A copy on the CPU; self when it is there already."""
        return self.to("cpu")

    def int(self) -> Graph:
        """The same graph with int32 ids, sharing the fields' tensors."""
        return self.astype(torch.int32)

    def long(self) -> Graph:
        """The same graph with int64 ids, sharing the fields' tensors."""
        return self.astype(torch.int64)

    def astype(self, idtype: torch.dtype) -> Graph:
        """The same graph with ids of `idtype`; self when it has them already."""
        if idtype == self.idtype:
            return self
        twin = self.local_var()
        twin._structures = tuple(structure.astype(idtype) for structure in self._structures)
        return twin

    def __repr__(self) -> str:
        name = "Block" if self.is_block else "Graph"
        if self.is_homogeneous:
            counts = f"num_nodes={self.num_nodes()}, num_edges={self.num_edges()}"
            fields = f"ndata_schemes={self.node_attr_schemes()}\n      edata_schemes={self.edge_attr_schemes()}"
            return f"{name}({counts},\n      {fields})"
        names = list(self._schema.ntypes)
        sizes = [frame.num_rows for frame in self._node_frames]
        edges = {etype: self.num_edges(etype) for etype in self.canonical_etypes}
        nodes = list(zip(names, sizes, strict=True))
        if self.is_block:
            split = len(self._schema.src_ids)
            counts = f"num_src_nodes={dict(nodes[:split])},\n      num_dst_nodes={dict(nodes[split:])}"
        else:
            counts = f"num_nodes={dict(nodes)}"
        return f"{name}({counts},\n      num_edges={edges},\n      metagraph={self.canonical_etypes})"


def _restore(schema, structures, node_frames, edge_frames, batch_nodes, batch_edges) -> Graph:
    restored = Graph(schema, structures, node_frames, edge_frames)
    restored._batch_nodes = batch_nodes
    restored._batch_edges = batch_edges
    return restored
