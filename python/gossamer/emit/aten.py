"""The table of all operators that compile, and the graph operators' own lines."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from gossamer.capture import (
    draws,
    ops,  # noqa: F401  (registers torch.ops.gossamer)
    recorder,
)

from . import elementwise, lookups, products, reductions, shapes
from .ir import Type
from .lower import Lowering
from .table import Table, dtype_word, features

_GRAPH = torch.ops.gossamer


def _gather(end: str) -> Any:
    def handler(lowering: Lowering, node: fx.Node) -> Table:
        table = lowering.table(node.args[0])
        type = table.type.with_rows(lowering.rows("edge"))
        return Table(lowering.builder.op("mp.gather", (table.value,), type, end=end), table.axes)

    return handler


def _mailbox(lowering: Lowering, node: fx.Node) -> Table:
    axes, _ = lowering.axes_of(node.args[0].meta["val"].shape)
    value = lowering.fit(lowering.table(node.args[0]), axes, lowering.rows("edge"))
    type = value.type.with_rows(lowering.rows("mailbox"))
    return Table(lowering.builder.op("mp.mailbox", (value,), type), ("r", "d", *axes[1:]))


def _fill_isolated(lowering: Lowering, node: fx.Node) -> Table:
    axes, _ = lowering.axes_of(node.meta["val"].shape)
    value = lowering.fit(lowering.table(node.args[0]), axes, lowering.node_rows)
    result = lowering.builder.op(
        "mp.fill_isolated", (value,), value.type, end="dst", value=node.args[3]
    )
    return Table(result, axes)


def _softmax(lowering: Lowering, node: fx.Node) -> Table:
    table = lowering.table(node.args[0])
    end = lowering.call.inputs[_input_index(node.args[1])].name
    return Table(lowering.builder.op("mp.softmax", (table.value,), table.type, end=end), table.axes)


def _uniform(lowering: Lowering, node: fx.Node) -> Table:
    """Numbers for messages are numbers for their edges."""
    seed, stream, _, dtype = node.args
    axes, rows = lowering.axes_of(node.meta["val"].shape)
    in_mailbox = rows is not None and rows.kind == "mailbox"
    drawn = lowering.rows("edge") if in_mailbox else rows
    type = Type(features(axes), dtype_word(dtype), drawn)
    key = lowering.table(seed).value
    value = lowering.builder.op("mp.uniform", (key,), type, stream=stream)
    if in_mailbox:
        value = lowering.builder.op("mp.mailbox", (value,), type.with_rows(rows))
    return Table(value, axes)


def _input_index(node: fx.Node) -> int:
    return node.graph.find_nodes(op="placeholder").index(node)


TABLE: dict[Any, Any] = {
    **elementwise.TABLE,
    **shapes.TABLE,
    **lookups.TABLE,
    **reductions.TABLE,
    **products.TABLE,
    recorder.getitem: shapes.item,
    draws.uniform: _uniform,
    _GRAPH.gather_src.default: _gather("src"),
    _GRAPH.gather_dst.default: _gather("dst"),
    _GRAPH.mailbox.default: _mailbox,
    _GRAPH.fill_isolated.default: _fill_isolated,
    _GRAPH.softmax.default: _softmax,
}
