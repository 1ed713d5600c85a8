"""Drawn graphs: small and odd, or large enough for two threads to share the work."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fuzz.body import Draw
from programs.data import generator
from programs.graphs import BlocksCase, GraphCase, HeteroCase

MAX_NODES, MAX_EDGES = 7, 18
LARGE_NODES, LARGE_EDGES = 700, 6000
LOPSIDED = ((60, 2), (2, 60))
"""Sources and destinations, so that products are cheaper at one end."""

Ends = tuple[np.ndarray, np.ndarray]


def _ends(draw: Draw, num_src: int, num_dst: int) -> Ends:
    """Endpoints with self loops, multi-edges and nodes without edges as they come."""
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1)), max_size=MAX_EDGES
        )
    )
    return _arrays([u for u, _ in pairs], [v for _, v in pairs])


def _arrays(src, dst) -> Ends:
    return np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)


def _nodes(draw: Draw) -> int:
    return draw(st.integers(1, MAX_NODES))


def large(num_src: int, num_dst: int) -> Ends:
    """Enough edges for several chunks of work; they depend on the numbers of nodes only."""
    rng = generator("fuzz", num_src, num_dst)
    return rng.integers(0, num_src, LARGE_EDGES), rng.integers(0, num_dst, LARGE_EDGES)


def homo(draw: Draw) -> GraphCase:
    """A graph whose nodes are both ends."""
    shape = draw(
        st.sampled_from(
            [
                "random",
                "random",
                "random",
                "star",
                "one_into_all",
                "tripled",
                "chain",
                "loops",
                "large",
            ]
        )
    )
    n = LARGE_NODES if shape == "large" else _nodes(draw)
    if shape == "star":
        ends = _arrays(range(1, n), [0] * (n - 1))
    elif shape == "one_into_all":
        ends = _arrays([0] * n, range(n))
    elif shape == "chain":
        ends = _arrays(range(n - 1), range(1, n))
    elif shape == "large":
        ends = large(n, n)
    else:
        ends = _ends(draw, n, n)
        if shape == "tripled":
            ends = tuple(np.tile(end, 3) for end in ends)
        if shape == "loops":
            ends = tuple(np.concatenate([end, np.arange(n)]) for end in ends)
    return GraphCase(shape, "homo", ends, n, n)


def bipartite(draw: Draw) -> GraphCase:
    """Two node types and one relation."""
    size = draw(st.sampled_from(["small"] * 4 + ["lopsided", "large"]))
    if size == "lopsided":
        num_src, num_dst = draw(st.sampled_from(LOPSIDED))
    else:
        num_src, num_dst = (LARGE_NODES, 500) if size == "large" else (_nodes(draw), _nodes(draw))
    ends = large(num_src, num_dst) if size == "large" else _ends(draw, num_src, num_dst)
    return GraphCase("bipartite", "bipartite", ends, num_src, num_dst)


def block(draw: Draw) -> GraphCase:
    """A block: destinations are the first sources."""
    num_dst = _nodes(draw)
    num_src = num_dst + draw(st.sampled_from([0, 1, 2, 3, 60]))
    return GraphCase("block", "block", _ends(draw, num_src, num_dst), num_src, num_dst)


def blocks(draw: Draw) -> BlocksCase:
    """Two sampled blocks."""
    last = _nodes(draw)
    middle = last + draw(st.integers(0, 2))
    first = middle + draw(st.integers(0, 2))
    pair = [
        GraphCase("block", "block", _ends(draw, src, dst), src, dst)
        for src, dst in ((first, middle), (middle, last))
    ]
    return BlocksCase("blocks", tuple(pair))


def hetero(draw: Draw) -> HeteroCase:
    """Users and items, with relations that may be empty."""
    users, items = _nodes(draw), _nodes(draw)
    relations = {
        ("user", "buys", "item"): _ends(draw, users, items),
        ("user", "rates", "item"): _ends(draw, users, items),
        ("user", "follows", "user"): _ends(draw, users, users),
    }
    return HeteroCase("hetero", users, items, relations)
