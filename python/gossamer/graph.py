"""`Graph`: types, structures, frames and an engine.

What is where: fields are in `features.py`, questions about the structure in `queries.py`, message
passing in `messages.py`, changes in `mutation.py`, construction in `convert.py`.

A graph's *engine* decides what a user-defined function does: `EagerEngine` runs it, a recording
engine captures it. A *shadow* is the same graph under another engine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from gossamer import readout, slices
from gossamer.errors import GraphError
from gossamer.features import Features
from gossamer.frame import Frame
from gossamer.membership import Membership
from gossamer.messages import Engine, MessagePassing
from gossamer.mutation import Mutation
from gossamer.queries import Queries
from gossamer.schema import CanonicalEtype, Schema
from gossamer.structure import Structure


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


class Graph(Features, Queries, MessagePassing, Mutation):
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
        self._batch_nodes: dict[int, Membership] = {}
        self._batch_edges: dict[int, Membership] = {}
        self._origin: Graph | None = None
        self._scopes = 0

    # --- engines --------------------------------------------------------------------------------

    def shadow(self, engine: Engine) -> Graph:
        """This graph under another engine: same structures, and (outside a local scope) the same
        frames.

        Slices and local copies of a shadow keep its engine. A change of the structure made through
        a shadow is made to this graph too.
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

    # --- scopes and copies ----------------------------------------------------------------------

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """Within it, written fields are this scope's own; they are gone afterwards, also on an
        error.
        """
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

    def _map(
        self, convert: Callable[[Tensor], Tensor], device: torch.device | None = None
    ) -> Graph:
        return self._like(
            [frame.map(convert, device) for frame in self._node_frames],
            [frame.map(convert, device) for frame in self._edge_frames],
        )

    # --- slices ---------------------------------------------------------------------------------

    def __getitem__(self, key: str | tuple) -> Graph:
        """The graph of one relation, sharing its frames; of several (`g["u", :, "v"]`), a merged
        copy.

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
            return slices.merge_relations(self, found)
        return slices.one_relation(self, found[0])

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
        for members in (twin._batch_nodes, twin._batch_edges):
            members.update({index: each.to(device) for index, each in members.items()})
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
        if self.is_block:
            split = len(self._schema.src_ids)
            parts = {"num_src_nodes": slice(split), "num_dst_nodes": slice(split, None)}
        else:
            parts = {"num_nodes": slice(None)}
        fields = {name: self._counts(part) for name, part in parts.items()}
        etypes = self.canonical_etypes
        if len(etypes) == 1:
            fields["num_edges"] = self.num_edges()
        else:
            fields["num_edges"] = {etype: self.num_edges(etype) for etype in etypes}
        if self.is_homogeneous:
            fields["ndata_schemes"] = self.node_attr_schemes()
            fields["edata_schemes"] = self.edge_attr_schemes()
        elif len(etypes) > 1 or etypes[0] != ("_N", "_E", "_N"):
            fields["metagraph"] = etypes
        name = "Block" if self.is_block else "Graph"
        text = ",\n      ".join(f"{key}={value}" for key, value in fields.items())
        return f"{name}({text})"

    def _counts(self, part: slice) -> dict[str, int] | int:
        names, frames = self._schema.ntypes[part], self._node_frames[part]
        if len(names) == 1:
            return frames[0].num_rows
        return {name: frame.num_rows for name, frame in zip(names, frames, strict=True)}


def _restore(schema, structures, node_frames, edge_frames, batch_nodes, batch_edges) -> Graph:
    restored = Graph(schema, structures, node_frames, edge_frames)
    restored._batch_nodes = batch_nodes
    restored._batch_edges = batch_edges
    return restored
