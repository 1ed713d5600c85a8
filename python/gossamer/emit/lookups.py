"""ATen operators that read rows of a table without rows, by numbers that a field has."""

from __future__ import annotations

import math

import torch
from torch import fx

from gossamer.capture.call import InputSpec
from gossamer.capture.errors import UntraceableError

from .ir import Type, Value
from .lower import Lowering
from .shapes import cut, join, reshape
from .table import Axis, Table, features

aten = torch.ops.aten

#: An index of more numbers per row than this is not taken apart.
_MOST_COLUMNS = 64

_CUT = "write slices of the features with torch.cat or torch.stack"

#: Operators whose result has the numbers of their first operand.
_COPIES = (
    aten.view.default,
    aten.reshape.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.default,
    aten.expand.default,
    aten._to_copy.default,
    torch.ops.gossamer.gather_src.default,
    torch.ops.gossamer.gather_dst.default,
    torch.ops.gossamer.mailbox.default,
)


def lookup(lowering: Lowering, source: fx.Node, numbers: fx.Node, from_end: bool) -> Table:
    """Rows of a table: `source[numbers]`.

    Args:
        from_end: negative numbers count from the end; otherwise they are out of range.

    Raises:
        UntraceableError: the table has rows of nodes or edges, or the index has none.
    """
    table, index = lowering.table(source), lowering.table(numbers)
    if table.type.rows is not None:
        raise UntraceableError(
            "rows of nodes or edges are picked by number",
            remedy="index a parameter or buffer, or read edges.src and edges.dst",
        )
    if index.type.rows is None or index.type.dtype not in ("i32", "i64"):
        raise UntraceableError("the index is no field of integers")
    attrs = {"from_end": from_end, "field": _field_of(lowering, numbers)}
    axes = index.axes + table.axes[1:]
    columns = math.prod(features(index.axes))
    if columns == 1:
        value = _rows(lowering, table, lowering.reshape(index.value, ()), attrs)
        return Table(lowering.reshape(value, features(axes)), axes)
    if columns > _MOST_COLUMNS:
        raise UntraceableError(f"an index of {columns} numbers for each row")
    return reshape(lowering, _each_column(lowering, table, index, columns, attrs), axes)


def _each_column(
    lowering: Lowering, table: Table, index: Table, columns: int, attrs: dict
) -> Table:
    """One lookup for each of several numbers of a row, side by side."""
    words: tuple[Axis, ...] = tuple(axis for axis in index.axes if isinstance(axis, str))
    flat = reshape(lowering, index, (*words, columns))
    parts = []
    for column in range(columns):
        one = lowering.reshape(cut(lowering, flat, len(words), column, 1).value, ())
        value = _rows(lowering, table, one, attrs)
        value = lowering.reshape(value, (1, *table.axes[1:]))
        parts.append(Table(value, (*words, 1, *table.axes[1:])))
    return join(lowering, parts, len(words))


def _rows(lowering: Lowering, table: Table, index: Value, attrs: dict) -> Value:
    index = lowering.as_seen(index)
    type = Type(tuple(table.axes[1:]), table.type.dtype, index.type.rows)
    return lowering.builder.op("mp.lookup", (table.value, index), type, **attrs)


def _field_of(lowering: Lowering, node: fx.Node) -> str:
    """What the user calls the numbers of a node, or nothing."""
    while node.op == "call_function" and node.target in _COPIES:
        node = node.args[0]
    spec: InputSpec | None = lowering.input_of(node)
    return f"field {spec.name!r}" if spec and spec.kind in ("column", "field") else ""


def _index(lowering: Lowering, node: fx.Node) -> Table:
    source, indices = node.args
    if len(indices) != 1 or indices[0] is None:
        raise UntraceableError(
            "an axis other than the first is indexed, or several are", remedy=_CUT
        )
    return lookup(lowering, source, indices[0], from_end=True)


def _index_select(lowering: Lowering, node: fx.Node) -> Table:
    source, dim, index = node.args
    if lowering.table(source).axis(dim) != 0:
        raise UntraceableError("an axis other than the first is indexed", remedy=_CUT)
    return lookup(lowering, source, index, from_end=False)


def _embedding(lowering: Lowering, node: fx.Node) -> Table:
    """As torch: the row of `padding_idx` gets no gradient."""
    weight, numbers, padding, by_frequency, sparse = (
        *node.args,
        *(-1, False, False)[len(node.args) - 2 :],
    )
    if by_frequency or sparse:
        raise UntraceableError("an embedding whose gradient is sparse, or scaled by frequency")
    rows, e = lookup(lowering, weight, numbers, from_end=False), lowering.elements
    if padding < 0:
        return rows
    index = lowering.table(numbers)
    index = reshape(lowering, index, index.axes + (1,) * (rows.rank - index.rank))
    is_padding = lowering.combine(lambda i: e.compare("eq", i, padding), index)
    return lowering.combine(e.select, is_padding, lowering.detach(rows), rows)


TABLE = {
    aten.index.Tensor: _index,
    aten.index_select.default: _index_select,
    aten.embedding.default: _embedding,
}
