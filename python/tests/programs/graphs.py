"""The graphs that programs run on, each buildable as a `gs.Graph` and as a DGL graph.

A case holds plain numpy endpoints, so a recorded output belongs to the same graph everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from programs.data import generator
from programs.library import Library

Endpoints = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class GraphCase:
    """One graph. `kind` is "homo", "bipartite" (two node types) or "block" (destinations first)."""

    name: str
    kind: str
    endpoints: Endpoints = field(repr=False)
    num_src: int
    num_dst: int
    idtype: torch.dtype = torch.int64

    @property
    def num_edges(self) -> int:
        return len(self.endpoints[0])

    @property
    def degrees(self) -> np.ndarray:
        """In-degree of every destination."""
        return np.bincount(self.endpoints[1], minlength=self.num_dst)

    def count(self, where: str) -> int:
        return {"src": self.num_src, "dst": self.num_dst, "edge": self.num_edges}[where]

    def shares_rows(self, where: str) -> str | None:
        """The end whose rows begin with the rows of `where`."""
        return "src" if where == "dst" and self.kind != "bipartite" else None

    def endpoint_tensors(self) -> list[torch.Tensor]:
        return [torch.from_numpy(end).to(self.idtype) for end in self.endpoints]

    def build(self, library: Library) -> tuple[object, ...]:
        """The leading arguments of a model: here one graph."""
        return (build_relation(library, self),)


def build_relation(library: Library, case: GraphCase) -> object:
    ends = tuple(case.endpoint_tensors())
    if case.kind == "homo":
        return library.graph(ends, num_nodes=case.num_src, idtype=case.idtype)
    if case.kind == "block":
        return library.create_block(
            ends,
            num_src_nodes=case.num_src,
            num_dst_nodes=case.num_dst,
            idtype=case.idtype,
        )
    return library.heterograph(
        {("left", "to", "right"): ends},
        num_nodes_dict={"left": case.num_src, "right": case.num_dst},
        idtype=case.idtype,
    )


@dataclass(frozen=True, eq=False)
class BlocksCase:
    """Two sampled blocks in a list: destinations of the first are the sources of the second."""

    name: str
    blocks: tuple[GraphCase, GraphCase]
    kind: str = "blocks"

    @property
    def num_edges(self) -> int:
        return min(block.num_edges for block in self.blocks)

    def count(self, where: str) -> int:
        return {"src": self.blocks[0].num_src, "dst": self.blocks[1].num_dst}[where]

    def shares_rows(self, where: str) -> str | None:
        return None

    def endpoint_tensors(self) -> list[torch.Tensor]:
        return [end for block in self.blocks for end in block.endpoint_tensors()]

    def build(self, library: Library) -> tuple[object, ...]:
        return ([build_relation(library, block) for block in self.blocks],)


@dataclass(frozen=True, eq=False)
class PairCase:
    """A graph and its reverse, as two arguments."""

    name: str
    graph: GraphCase
    kind: str = "pair"

    @property
    def num_edges(self) -> int:
        return self.graph.num_edges

    def count(self, where: str) -> int:
        return self.graph.count(where)

    def shares_rows(self, where: str) -> str | None:
        return self.graph.shares_rows(where)

    def endpoint_tensors(self) -> list[torch.Tensor]:
        return self.graph.endpoint_tensors()

    def build(self, library: Library) -> tuple[object, ...]:
        here, there = self.graph.endpoints
        flipped = GraphCase(
            self.name, "homo", (there, here), self.graph.num_dst, self.graph.num_src
        )
        return build_relation(library, self.graph), build_relation(library, flipped)


@dataclass(frozen=True, eq=False)
class HeteroCase:
    """Users and items; relations buys, rates (both to items) and follows (among users)."""

    name: str
    users: int
    items: int
    relations: dict[tuple[str, str, str], Endpoints] = field(repr=False)
    kind: str = "hetero"

    @property
    def num_edges(self) -> int:
        return min(len(ends[0]) for ends in self.relations.values())

    def count(self, where: str) -> int:
        if where in ("user", "item"):
            return self.users if where == "user" else self.items
        return next(len(ends[0]) for key, ends in self.relations.items() if key[1] == where)

    def shares_rows(self, where: str) -> str | None:
        return None

    def endpoint_tensors(self) -> list[torch.Tensor]:
        return [torch.from_numpy(end) for ends in self.relations.values() for end in ends]

    def build(self, library: Library) -> tuple[object, ...]:
        data = {
            key: tuple(torch.from_numpy(end) for end in ends)
            for key, ends in self.relations.items()
        }
        sizes = {"user": self.users, "item": self.items}
        return (library.heterograph(data, num_nodes_dict=sizes),)


AnyCase = GraphCase | BlocksCase | PairCase | HeteroCase


def _homo(name: str, src, dst, nodes: int, idtype: torch.dtype = torch.int64) -> GraphCase:
    ends = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
    return GraphCase(name, "homo", ends, nodes, nodes, idtype)


def _uniform(name: str, src: int, dst: int, edges: int) -> Endpoints:
    rng = generator("graph", name)
    return rng.integers(0, src, edges), rng.integers(0, dst, edges)


def power_law(name: str, nodes: int, edges: int) -> Endpoints:
    """Both ends drawn with probability about 1 / rank, in a shuffled order of nodes."""
    rng = generator("graph", name)
    weight = 1.0 / (1 + np.arange(nodes))
    order = rng.permutation(nodes)
    draws = [np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(edges)) for _ in "uv"]
    src, dst = (order[np.minimum(draw, nodes - 1)] for draw in draws)
    return src, dst


def sampled_block(name: str, src: int, dst: int, edges: int) -> GraphCase:
    """A block in which destination 0 hears from nobody."""
    ends = _uniform(name, src, max(dst - 1, 1), edges)
    shift = 1 if dst > 1 else 0
    return GraphCase(name, "block", (ends[0], ends[1] + shift), src, dst)


def _zero_in_degree() -> GraphCase:
    src, dst = _uniform("zero_in_degree", 20, 6, 40)
    return _homo("zero_in_degree", src, 3 * dst, 20)


def _self_loops() -> GraphCase:
    src, dst = _uniform("self_loops", 18, 18, 30)
    loops = np.arange(18)
    return _homo("self_loops", np.concatenate([src, loops]), np.concatenate([dst, loops]), 18)


def _multi_edges() -> GraphCase:
    src, dst = _uniform("multi_edges", 10, 10, 12)
    return _homo("multi_edges", np.tile(src, 3), np.tile(dst, 3), 10)


def _regular(degree: int) -> GraphCase:
    src = generator("graph", "regular").integers(0, 20, 20 * degree)
    return _homo(f"regular{degree}", src, np.tile(np.arange(20), degree), 20)


def _star(leaves: int, name: str) -> GraphCase:
    return _homo(name, np.arange(1, leaves + 1), np.zeros(leaves), leaves + 1)


ODD: tuple[GraphCase, ...] = (
    _homo("power_law", *power_law("power_law", 40, 200), 40),
    _homo("power_law_int32", *power_law("power_law", 40, 200), 40, torch.int32),
    _zero_in_degree(),
    _self_loops(),
    _multi_edges(),
    _star(25, "small_star"),
    _homo("all_into_one", generator("into_one").integers(0, 5, 40), np.zeros(40), 5),
    _homo("chain", np.arange(6), np.arange(1, 7), 7),
    _regular(4),
    _homo("no_edges", [], [], 5),
    _homo("one_node", [], [], 1),
    _homo("one_node_loop", [0], [0], 1),
    _homo("no_nodes", [], [], 0),
    GraphCase("bipartite", "bipartite", _uniform("bipartite", 12, 9, 30), 12, 9),
    GraphCase("bipartite_no_edges", "bipartite", _uniform("none", 4, 3, 0), 4, 3),
    sampled_block("block", 14, 6, 25),
)
"""Small graphs, each with one oddity: recorded outputs exist for all of them."""

POWER_LAW = _homo("power_law_2000", *power_law("power_law_2000", 2000, 20_000), 2000)
STAR = _star(100_000, "star_100000")

BLOCKS = (
    BlocksCase("blocks", (sampled_block("b0", 20, 9, 40), sampled_block("b1", 9, 4, 15))),
    BlocksCase("blocks_thin", (sampled_block("b2", 6, 2, 3), sampled_block("b3", 2, 1, 1))),
)
PAIRS = tuple(PairCase(case.name, case) for case in ODD if case.kind == "homo")


def hetero(name: str, users: int, items: int, edges: tuple[int, int, int]) -> HeteroCase:
    """Random endpoints; `edges` counts the edges of buys, rates and follows."""
    keys = ("user", "buys", "item"), ("user", "rates", "item"), ("user", "follows", "user")
    sizes = {"user": users, "item": items}
    relations = {
        key: _uniform(name + key[1], sizes[key[0]], sizes[key[2]], count)
        for key, count in zip(keys, edges, strict=True)
    }
    return HeteroCase(name, users, items, relations)


HETEROS = (
    hetero("hetero", 11, 8, (30, 12, 25)),
    hetero("hetero_sparse", 9, 7, (4, 3, 2)),
    hetero("hetero_empty_relation", 9, 7, (12, 0, 9)),
)

ALL_SMALL: tuple[AnyCase, ...] = ODD + BLOCKS + PAIRS + HETEROS
