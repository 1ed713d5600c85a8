"""Gossamer compiles message passing written as DGL user-defined functions to fused sparse
kernels.
"""

from __future__ import annotations

from gossamer import errors, function
from gossamer.batching import batch, unbatch
from gossamer.borrow import from_dgl
from gossamer.convert import (
    create_block,
    from_edge_index,
    from_networkx,
    from_scipy,
    graph,
    heterograph,
)
from gossamer.graph import Graph
from gossamer.softmax import edge_softmax
from gossamer.transforms import reverse

__all__ = [
    "Graph",
    "batch",
    "create_block",
    "edge_softmax",
    "errors",
    "from_dgl",
    "from_edge_index",
    "from_networkx",
    "from_scipy",
    "function",
    "graph",
    "heterograph",
    "reverse",
    "unbatch",
]
