"""Names of node and edge types, and how they map to frames and structures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gossamer.errors import GraphError

NTYPE_DEFAULT = "_N"
ETYPE_DEFAULT = "_E"

CanonicalEtype = tuple[str, str, str]


class RelationEnds(NamedTuple):
    """A relation: its name and the indices of the node frames at its ends."""

    src: int
    etype: str
    dst: int


@dataclass(frozen=True)
class Schema:
    """Types of one graph; immutable.

    In a block (and in any graph whose node types are each only a source or only a destination)
    source and destination types are apart, and one name may stand for a frame on each side.
    """

    ntypes: tuple[str, ...]
    relations: tuple[RelationEnds, ...]
    src_ids: tuple[int, ...]
    dst_ids: tuple[int, ...]
    is_block: bool = False
    canonical_etypes: tuple[CanonicalEtype, ...] = field(init=False, compare=False)

    def __post_init__(self):
        names = tuple((self.ntypes[r.src], r.etype, self.ntypes[r.dst]) for r in self.relations)
        object.__setattr__(self, "canonical_etypes", names)

    @property
    def is_unibipartite(self) -> bool:
        """Whether no node type is both a source and a destination."""
        return not set(self.src_ids) & set(self.dst_ids)

    @property
    def etypes(self) -> list[str]:
        """Edge type names by relation."""
        return [relation.etype for relation in self.relations]

    @property
    def srctypes(self) -> list[str]:
        """Names of source node types."""
        return [self.ntypes[i] for i in self.src_ids]

    @property
    def dsttypes(self) -> list[str]:
        """Names of destination node types."""
        return [self.ntypes[i] for i in self.dst_ids]

    def ntype_id(self, ntype: str | None) -> int:
        """Frame index of a node type; "SRC/name" and "DST/name" choose a side of a block.

        Raises:
            GraphError: no such type, or None where there are several.
        """
        if ntype is None:
            if len(self.ntypes) != 1:
                raise GraphError(
                    "Node type name must be specified if there are more than one node types: "
                    + ", ".join(map(repr, self.ntypes))
                )
            return 0
        if self.is_unibipartite and ntype.startswith("SRC/"):
            return self.src_ntype_id(ntype[4:])
        if self.is_unibipartite and ntype.startswith("DST/"):
            return self.dst_ntype_id(ntype[4:])
        return _find(ntype, (*self.src_ids, *self.dst_ids), self.ntypes, "Node type")

    def src_ntype_id(self, ntype: str | None) -> int:
        """Frame index of a source node type."""
        return _find(ntype, self.src_ids, self.ntypes, "SRC node type")

    def dst_ntype_id(self, ntype: str | None) -> int:
        """Frame index of a destination node type."""
        return _find(ntype, self.dst_ids, self.ntypes, "DST node type")

    def etype_id(self, etype: str | CanonicalEtype | None) -> int:
        """Relation index of an edge type, given by name or by (source, name, destination).

        Raises:
            GraphError: no such type, or a name that several relations have.
        """
        if etype is None:
            if len(self.relations) != 1:
                raise GraphError(
                    "Edge type name must be specified if there are more than one edge types: "
                    + ", ".join(map(repr, self.canonical_etypes))
                )
            return 0
        if isinstance(etype, list):
            etype = tuple(etype)
        keys = self.canonical_etypes if isinstance(etype, tuple) else self.etypes
        found = [i for i, key in enumerate(keys) if key == etype]
        if not found:
            known = ", ".join(map(repr, self.canonical_etypes))
            raise GraphError(f"Edge type {etype!r} does not exist; there are: {known}")
        if len(found) > 1:
            raise GraphError(
                f"Edge type {etype!r} is ambiguous; use (source type, edge type, destination type)"
            )
        return found[0]

    def matching(self, key: tuple) -> list[int]:
        """Relations that match (source, name, destination), where `:` matches everything."""
        return [
            i
            for i, names in enumerate(self.canonical_etypes)
            if all(
                part == slice(None) or part == name for part, name in zip(key, names, strict=True)
            )
        ]


def _find(name: str | None, ids: tuple[int, ...], ntypes: tuple[str, ...], what: str) -> int:
    if name is None:
        if len(ids) != 1:
            names = ", ".join(repr(ntypes[i]) for i in ids)
            raise GraphError(f"{what} name must be specified; there are: {names}")
        return ids[0]
    for i in ids:
        if ntypes[i] == name:
            return i
    names = ", ".join(repr(ntypes[i]) for i in ids)
    raise GraphError(f"{what} {name!r} does not exist; there are: {names}")


def make_schema(ntypes: Sequence[str], relations: Sequence[CanonicalEtype]) -> Schema:
    """The schema of a graph with these node types and (source, name, destination) relations."""
    index = {name: i for i, name in enumerate(ntypes)}
    ends = tuple(RelationEnds(index[src], name, index[dst]) for src, name, dst in relations)
    sources = {relation.src for relation in ends}
    targets = {relation.dst for relation in ends}
    everything = tuple(range(len(ntypes)))
    if sources & targets or not ends:
        return Schema(tuple(ntypes), ends, everything, everything)
    return Schema(
        tuple(ntypes),
        ends,
        tuple(i for i in everything if i not in targets),
        tuple(i for i in everything if i in targets),
    )


def make_block_schema(
    srctypes: Sequence[str], dsttypes: Sequence[str], relations: Sequence[CanonicalEtype]
) -> Schema:
    """The schema of a block: source types first, then destination types, names may repeat."""
    src_index = {name: i for i, name in enumerate(srctypes)}
    dst_index = {name: len(srctypes) + i for i, name in enumerate(dsttypes)}
    ends = tuple(RelationEnds(src_index[src], name, dst_index[dst]) for src, name, dst in relations)
    return Schema(
        (*srctypes, *dsttypes),
        ends,
        tuple(range(len(srctypes))),
        tuple(range(len(srctypes), len(srctypes) + len(dsttypes))),
        is_block=True,
    )
