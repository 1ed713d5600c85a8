"""Gossamer and DGL behind one set of names, so that a test program is written once."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Library:
    """Graph constructors, built-in functions and edge_softmax of one implementation."""

    name: str
    graph: Callable[..., object]
    heterograph: Callable[..., object]
    create_block: Callable[..., object]
    fn: ModuleType
    edge_softmax: Callable[..., object]


@functools.cache
def gossamer_library() -> Library:
    import gossamer as gs
    import gossamer.dgl.function as fn
    from gossamer.dgl.nn.functional import edge_softmax

    return Library("gs", gs.graph, gs.heterograph, gs.create_block, fn, edge_softmax)


def dgl_is_installed() -> bool:
    """Whether a DGL distribution is present. One that is present but broken must fail, not skip."""
    return importlib.util.find_spec("dgl") is not None


@functools.cache
def dgl_library() -> Library:
    import dgl
    import dgl.function as fn
    from dgl.nn.functional import edge_softmax

    return Library("dgl", dgl.graph, dgl.heterograph, dgl.create_block, fn, edge_softmax)
