"""The graphs that are measured, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class EdgeList:
    """Endpoints, int64, (E,), of a graph.

    Attributes:
        num_nodes: how many nodes sources have; each node of a whole graph has a self loop.
        num_dst: how many destinations a sampled block has, which are its first sources; None for a
            whole graph.
        types: the relation of each edge, int64, (E,), in ascending order; None where there is one.
    """

    src: Tensor
    dst: Tensor
    num_nodes: int
    num_dst: int | None = None
    types: Tensor | None = None

    @property
    def num_edges(self) -> int:
        """The number of edges, E, self loops included."""
        return len(self.src)

    @property
    def num_rows(self) -> int:
        """The number of destinations."""
        return self.num_nodes if self.num_dst is None else self.num_dst

    def shares(self) -> Tensor:
        """One over the number of edges of the same relation into the same node, (E,)."""
        groups = self.dst * RELATIONS + self.types
        return torch.bincount(groups)[groups].float().reciprocal()


@dataclass(frozen=True)
class MiniBatches:
    """Sampled blocks of some mini-batches, outermost block first.

    Attributes:
        num_nodes: nodes of the graph they were sampled from.
        blocks: for each mini-batch its blocks.
        inputs: for each mini-batch the nodes whose features its first block reads, int64.
    """

    num_nodes: int
    blocks: tuple[tuple[EdgeList, ...], ...]
    inputs: tuple[Tensor, ...]

    @property
    def num_edges(self) -> int:
        """Edges of all blocks."""
        return sum(block.num_edges for blocks in self.blocks for block in blocks)


def power_law(num_nodes: int, num_edges: int) -> EdgeList:
    """Random edges whose sources and destinations follow power laws, then the self loops.

    The ids of popular nodes are scattered, so that nothing is gained by their order.
    """
    generator = torch.Generator().manual_seed(1)

    def ends(exponent: float) -> Tensor:
        uniform = torch.rand(num_edges, generator=generator, dtype=torch.float64)
        return ((uniform**exponent) * num_nodes).long().clamp(max=num_nodes - 1)

    sources = torch.randperm(num_nodes, generator=generator)
    destinations = torch.randperm(num_nodes, generator=generator)
    return with_self_loops(sources[ends(2.0)], destinations[ends(1.6)], num_nodes)


def hub(num_nodes: int, num_edges: int) -> EdgeList:
    """A power-law graph in which every other edge goes into the most popular node instead."""
    graph = power_law(num_nodes, num_edges)
    graph.dst[:num_edges:2] = graph.dst.bincount().argmax()
    return graph


def uniform(num_nodes: int, num_edges: int) -> EdgeList:
    """Edges between nodes drawn uniformly, then the self loops."""
    generator = torch.Generator().manual_seed(1)
    ends = torch.randint(num_nodes, (2, num_edges), generator=generator)
    return with_self_loops(*ends, num_nodes)


def molecules(count: int) -> EdgeList:
    """A batch of `count` graphs like molecules: 10 to 30 atoms on a chain with branches, two or
    three rings, each bond in both directions; then the self loops.
    """
    generator = torch.Generator().manual_seed(1)
    first, ends = 0, []
    for _ in range(count):
        atoms = int(torch.randint(10, 31, (1,), generator=generator))
        rings = int(torch.randint(2, 4, (1,), generator=generator))
        back = torch.randint(1, 4, (atoms,), generator=generator)
        later = torch.arange(1, atoms)
        bonds = torch.stack([later, (later - back[1:]).clamp(min=0)])
        closed = torch.randint(5, atoms, (rings,), generator=generator)
        bonds = torch.cat([bonds, torch.stack([closed, closed - 5])], dim=1) + first
        ends += [bonds, bonds.flip(0)]
        first += atoms
    return with_self_loops(*torch.cat(ends, dim=1), first)


def with_relations(graph: EdgeList) -> EdgeList:
    """The graph with edges of random relations, sorted by them."""
    generator = torch.Generator().manual_seed(5)
    types, order = torch.randint(RELATIONS, (graph.num_edges,), generator=generator).sort()
    return replace(graph, src=graph.src[order], dst=graph.dst[order], types=types)


def with_self_loops(src: Tensor, dst: Tensor, num_nodes: int) -> EdgeList:
    """The edges, then a self loop of each node."""
    loops = torch.arange(num_nodes)
    return EdgeList(torch.cat([src, loops]), torch.cat([dst, loops]), num_nodes)


def sampled(graph: EdgeList, batches: int, seeds: int, fanouts: tuple[int, ...]) -> MiniBatches:
    """Neighbour lists of `batches` mini-batches of random `seeds`, sampled without replacement.

    `fanouts` holds the most neighbours of a node in each block, outermost block first.
    """
    generator = torch.Generator().manual_seed(3)
    chosen = torch.randperm(graph.num_nodes, generator=generator)[: batches * seeds].split(seeds)
    found = [sample_blocks(graph, nodes, fanouts, generator) for nodes in chosen]
    return MiniBatches(graph.num_nodes, *zip(*found, strict=True))


def sample_blocks(
    graph: EdgeList, nodes: Tensor, fanouts: tuple[int, ...], generator: torch.Generator
) -> tuple[tuple[EdgeList, ...], Tensor]:
    """The blocks that compute `nodes`, outermost first, and the nodes that the first one reads."""
    blocks: list[EdgeList] = []
    for fanout in reversed(fanouts):
        local = torch.full((graph.num_nodes,), -1)
        local[nodes] = torch.arange(len(nodes))
        edges = (local[graph.dst] >= 0).nonzero().squeeze(1)
        edges = edges[torch.randperm(len(edges), generator=generator)]
        rows, order = local[graph.dst[edges]].sort(stable=True)
        edges = edges[order]
        starts = torch.searchsorted(rows, rows)
        kept = torch.arange(len(rows)) - starts < fanout
        rows, sources = rows[kept], graph.src[edges[kept]]
        new = sources.unique()
        inputs = torch.cat([nodes, new[local[new] < 0]])
        local[inputs] = torch.arange(len(inputs))
        blocks.insert(0, EdgeList(local[sources], rows, len(inputs), len(nodes)))
        nodes = inputs
    return tuple(blocks), nodes


# Of graphs whose edges have one.
RELATIONS = 8
# As many nodes and edges as ogbn-arxiv.
ARXIV = (169_343, 1_166_243)

GRAPHS: dict[str, Callable[[], EdgeList | MiniBatches]] = {
    "power-law": lambda: power_law(*ARXIV),
    "more-edges": lambda: power_law(ARXIV[0], 2 * ARXIV[1]),
    "more-nodes": lambda: power_law(2 * ARXIV[0], ARXIV[1]),
    "hub": lambda: hub(*ARXIV),
    "uniform": lambda: uniform(*ARXIV),
    # As many nodes and edges as Cora.
    "citation": lambda: power_law(2_708, 10_556),
    "molecules": lambda: molecules(512),
    "sampled": lambda: sampled(power_law(*ARXIV), batches=4, seeds=1024, fanouts=(10, 10)),
    # Small, for peers that make a matrix for each edge.
    "relations": lambda: with_relations(power_law(10_000, 80_000)),
    "tiny": lambda: power_law(64, 256),
    "tiny-sampled": lambda: sampled(power_law(64, 256), batches=2, seeds=8, fanouts=(3, 2)),
    "tiny-relations": lambda: with_relations(power_law(64, 256)),
}


@functools.cache
def graph_of(name: str) -> EdgeList | MiniBatches:
    """The graph of that name, made once in a process."""
    return GRAPHS[name]()
