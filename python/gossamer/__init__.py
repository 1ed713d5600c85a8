"""Gossamer compiles message passing written as DGL user-defined functions to fused sparse
kernels.

The names that need torch's tracing machinery are imported when first used, so that importing the
package stays quick.
"""

from __future__ import annotations

import importlib
from typing import Any

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
from gossamer.errors import FallbackWarning, RandomNumbersWarning
from gossamer.graph import Graph
from gossamer.identity import identity as _identity  # noqa: F401 (notes when we were imported)
from gossamer.softmax import edge_softmax
from gossamer.transforms import reverse

_LAZY = {
    "OnTensors": "gossamer.on_tensors",
    "compile": "gossamer.compiled",
    "explain": "gossamer.report",
    "release_memory": "gossamer.native",
    "symbolic_trace": "gossamer.fx",
    "warmup": "gossamer.compiled",
}
_LAZY_MODULES = ("dgl", "fx")


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"gossamer.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'gossamer' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAZY_MODULES})


__all__ = [
    "FallbackWarning",
    "Graph",
    "OnTensors",
    "RandomNumbersWarning",
    "batch",
    "compile",
    "create_block",
    "edge_softmax",
    "errors",
    "explain",
    "from_dgl",
    "from_edge_index",
    "from_networkx",
    "from_scipy",
    "function",
    "graph",
    "heterograph",
    "release_memory",
    "reverse",
    "symbolic_trace",
    "unbatch",
    "warmup",
]
