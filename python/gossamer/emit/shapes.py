"""ATen operators that move, cut, join or make tensors."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from gossamer.capture import composite
from gossamer.capture.call import Number
from gossamer.capture.errors import UntraceableError

from .ir import Type
from .lower import Lowering, out_dtype
from .missing import missing_result
from .table import Axis, Table, compute_word, features

aten = torch.ops.aten

_ROWS_ONLY = "a single row, or a part of the rows, is picked"
_SLOTS_ONLY = "single messages are picked from the mailbox"


def feature_axis(table: Table, axis: int) -> int:
    """A torch axis that must be a feature axis, counted from the front."""
    axis = table.axis(axis)
    word = table.axes[axis]
    if not isinstance(word, int):
        raise UntraceableError(
            _SLOTS_ONLY if word == "d" else _ROWS_ONLY,
            remedy="combine messages with sum, mean, max, min or softmax over axis 1",
        )
    return axis


def reshape(lowering: Lowering, table: Table, axes: Sequence[Axis]) -> Table:
    """The table under other axes; rows and messages must stay what they are.

    Exact when only axes of size 1 come or go, or when rows (and messages) lead on both sides, so
    that each row keeps its features in order.
    """
    axes = tuple(axes)
    squeezed = [[a for a in side if a != 1] for side in (table.axes, axes)]
    if squeezed[0] != squeezed[1]:
        for side in (table.axes, axes):
            words = [isinstance(axis, str) for axis in side]
            if any(words[sum(words) :]):
                raise UntraceableError(
                    "a view merges features with rows or messages",
                    remedy="keep rows on axis 0 and messages on axis 1",
                )
        words = ["".join(a for a in side if isinstance(a, str)) for side in (table.axes, axes)]
        if words[0] != words[1]:
            raise UntraceableError("a view mixes rows or messages")
    if math.prod(features(axes)) != math.prod(table.type.features):
        raise UntraceableError("a view mixes rows and features")
    return Table(lowering.reshape(table.value, features(axes)), axes)


def permute(lowering: Lowering, table: Table, order: Sequence[int]) -> Table:
    """Torch axis `i` of the result is axis `order[i]`."""
    order = [table.axis(axis) for axis in order]
    axes = tuple(table.axes[axis] for axis in order)
    moved = [table.feature(axis) for axis in order if isinstance(table.axes[axis], int)]
    if moved == sorted(moved):
        return Table(table.value, axes)
    permutation = [*range(table.type.row_axes), *moved]
    type = table.type.with_features(features(axes))
    value = lowering.builder.op("mp.transpose", (table.value,), type, permutation=permutation)
    return Table(value, axes)


def cut(
    lowering: Lowering, table: Table, axis: int, start: int, count: int, step: int = 1
) -> Table:
    """Elements `start`, `start + step`, ... of a feature axis."""
    axis = feature_axis(table, axis)
    if start == 0 and step == 1 and count == table.axes[axis]:
        return table
    axes = (*table.axes[:axis], count, *table.axes[axis + 1 :])
    type = table.type.with_features(features(axes))
    place = {"axis": table.feature(axis), "offset": start, "stride": step}
    return Table(lowering.builder.op("mp.slice", (table.value,), type, **place), axes)


def join(lowering: Lowering, tables: Sequence[Table], axis: int) -> Table:
    """Tables side by side along a feature axis."""
    if len(tables) == 1:
        return tables[0]
    axis = feature_axis(tables[0], axis)
    for table in tables:
        feature_axis(table, axis)
    thin = [Table(t.value, (*t.axes[:axis], 1, *t.axes[axis + 1 :])) for t in tables]
    axes, rows = lowering.joint(thin)
    values = []
    for table in tables:
        own = (*axes[:axis], table.axes[axis], *axes[axis + 1 :])
        values.append(lowering.fit(table, own, rows))
    total = sum(table.axes[axis] for table in tables)
    axes = (*axes[:axis], total, *axes[axis + 1 :])
    result = Table(values[0], axes)
    type = values[0].type.with_features(features(axes))
    row_axes = type.row_axes
    place = row_axes + sum(1 for a in axes[:axis] if isinstance(a, int))
    return Table(lowering.builder.op("mp.concat", tuple(values), type, axis=place), result.axes)


def _view(lowering: Lowering, node: fx.Node) -> Table:
    axes, _ = lowering.axes_of(node.meta["val"].shape)
    return reshape(lowering, lowering.table(node.args[0]), axes)


def _expand(lowering: Lowering, node: fx.Node) -> Table:
    return lowering.pad_rows(node, lowering.table(node.args[0]))


def _permute(lowering: Lowering, node: fx.Node) -> Table:
    return permute(lowering, lowering.table(node.args[0]), node.args[1])


def _transpose(lowering: Lowering, node: fx.Node) -> Table:
    table = lowering.table(node.args[0])
    order = list(range(table.rank))
    if table.rank > 1:
        a, b = (table.axis(axis) for axis in (node.args[1:] or (0, 1)))
        order[a], order[b] = order[b], order[a]
    return permute(lowering, table, order)


def _select(lowering: Lowering, node: fx.Node) -> Table:
    table, axis, index = lowering.table(node.args[0]), *node.args[1:]
    axis = feature_axis(table, axis)
    index += table.axes[axis] if index < 0 else 0
    one = cut(lowering, table, axis, index, 1)
    return reshape(lowering, one, one.axes[:axis] + one.axes[axis + 1 :])


def _slice(lowering: Lowering, node: fx.Node) -> Table:
    source, axis, start, end, step = (*node.args, *(0, None, None, 1)[len(node.args) - 1 :])
    table = lowering.table(source)
    whole = start in (None, 0) and (end is None or end == sys.maxsize) and step == 1
    if whole:
        return table
    axis = feature_axis(table, axis)
    if any(isinstance(bound, Number) for bound in (start, end, step)):
        raise UntraceableError("a feature axis is cut at the degree or a number of rows")
    begin, stop, step = slice(start, end, step).indices(table.axes[axis])
    return cut(lowering, table, axis, begin, len(range(begin, stop, step)), step)


def _split(lowering: Lowering, node: fx.Node) -> tuple[Table, ...]:
    source, sizes, axis = (*node.args, *(1, 0)[len(node.args) - 1 :])
    table = lowering.table(source)
    axis = feature_axis(table, axis)
    total = table.axes[axis]
    if isinstance(sizes, int):
        sizes = [min(sizes, total - start) for start in range(0, total, sizes)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(
        cut(lowering, table, axis, start, count) for start, count in zip(starts, sizes, strict=True)
    )


def _unbind(lowering: Lowering, node: fx.Node) -> tuple[Table, ...]:
    source, axis = (*node.args, *(0,)[len(node.args) - 1 :])
    table = lowering.table(source)
    axis = feature_axis(table, axis)
    parts = [cut(lowering, table, axis, i, 1) for i in range(table.axes[axis])]
    return tuple(reshape(lowering, p, p.axes[:axis] + p.axes[axis + 1 :]) for p in parts)


def _operands(lowering: Lowering, node: fx.Node) -> list[Table]:
    dtype = out_dtype(node)
    return [lowering.operand(value, dtype) for value in node.args[0]]


def _cat(lowering: Lowering, node: fx.Node) -> Table:
    tables = _operands(lowering, node)
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    if any(t.axes == (0,) for t in tables):
        raise UntraceableError("torch.cat with an empty tensor")
    return join(lowering, tables, tables[0].axis(axis))


def _stack(lowering: Lowering, node: fx.Node) -> Table:
    tables = _operands(lowering, node)
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    axis += tables[0].rank + 1 if axis < 0 else 0
    thick = [reshape(lowering, t, (*t.axes[:axis], 1, *t.axes[axis:])) for t in tables]
    return join(lowering, thick, axis)


def _repeat(lowering: Lowering, node: fx.Node) -> Table:
    table, counts = lowering.table(node.args[0]), node.args[1]
    table = reshape(lowering, table, (1,) * (len(counts) - table.rank) + table.axes)
    for axis, count in enumerate(counts):
        if isinstance(count, int) and count > 1 and table.axes[axis] != 1:
            table = join(lowering, [table] * count, axis)
    return lowering.pad_rows(node, table)


def item(lowering: Lowering, node: fx.Node) -> Any:
    """One result of an operator with several."""
    result = lowering.results(node.args[0])[node.args[1]]
    if result is None:
        raise missing_result(node.args[0].target, node.args[1])
    return result


def _full(value_of: Any) -> Any:
    """A handler for operators that fill a new tensor with one number."""

    def handler(lowering: Lowering, node: fx.Node) -> Table:
        axes, rows = lowering.axes_of(node.meta["val"].shape)
        dtype = compute_word(node.meta["val"].dtype)
        value = value_of(node)
        number = lowering.operand(value, dtype)
        if isinstance(number, Table):
            rows = rows if rows is not None else number.type.rows
            return Table(lowering.fit(number, axes, rows), axes)
        return Table(lowering.elements.fill(value, Type(features(axes), dtype, rows)), axes)

    return handler


def _constant(lowering: Lowering, node: fx.Node) -> Table:
    """A literal: equal numbers are a fill, others are joined one by one."""
    literal, dtype = node.args
    tensor = torch.tensor(literal, dtype=dtype)
    word, values = compute_word(dtype), tensor.flatten().tolist()
    if len(set(map(repr, values))) <= 1:
        value = values[0] if values else 0
        return Table(
            lowering.elements.fill(value, Type(tuple(tensor.shape), word)), tuple(tensor.shape)
        )
    ones = [Table(lowering.elements.fill(value, Type((1,), word)), (1,)) for value in values]
    return reshape(lowering, join(lowering, ones, 0), tuple(tensor.shape))


def _arange(lowering: Lowering, node: fx.Node) -> Table:
    if any(not isinstance(size, int) for size in node.meta["val"].shape):
        raise UntraceableError("torch.arange over rows or messages numbers them")
    values = node.target(*node.args, **node.kwargs)
    if values.numel() > 256:
        raise UntraceableError("a constant of more than 256 numbers is made in the function")
    word = compute_word(values.dtype)
    ones = [Table(lowering.elements.fill(v, Type((1,), word)), (1,)) for v in values.tolist()]
    if not ones:
        return Table(lowering.elements.fill(0, Type((0,), word)), (0,))
    return join(lowering, ones, 0)


def _copy(lowering: Lowering, node: fx.Node) -> Table:
    return lowering.pad_rows(node, lowering.operand(node.args[1], out_dtype(node)))


def _fill_tensor(lowering: Lowering, node: fx.Node) -> Table:
    return lowering.pad_rows(node, lowering.operand(node.args[1], out_dtype(node)))


TABLE = {
    **dict.fromkeys(
        [
            aten.view.default,
            aten.reshape.default,
            aten._unsafe_view.default,
            aten._reshape_alias.default,
            aten.unsqueeze.default,
            aten.squeeze.dim,
            aten.squeeze.dims,
            aten.squeeze.default,
            aten.flatten.using_ints,
        ],
        _view,
    ),
    aten.expand.default: _expand,
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
    aten.t.default: _transpose,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.unbind.int: _unbind,
    aten.cat.default: _cat,
    aten.stack.default: _stack,
    aten.repeat.default: _repeat,
    aten.full.default: _full(lambda node: node.args[1]),
    aten.full_like.default: _full(lambda node: node.args[1]),
    aten.new_full.default: _full(lambda node: node.args[2]),
    aten.fill.Scalar: _full(lambda node: node.args[1]),
    aten.fill.Tensor: _fill_tensor,
    aten.copy.default: _copy,
    aten.scalar_tensor.default: _full(lambda node: node.args[0]),
    # What torch.empty holds is unspecified, so zeros are as good.
    **dict.fromkeys(
        [
            aten.zeros.default,
            aten.zeros_like.default,
            aten.new_zeros.default,
            aten.zero.default,
            aten.empty.memory_format,
            aten.empty_like.default,
            aten.new_empty.default,
        ],
        _full(lambda node: 0),
    ),
    **dict.fromkeys(
        [aten.ones.default, aten.ones_like.default, aten.new_ones.default], _full(lambda node: 1)
    ),
    **dict.fromkeys([aten.arange.default, aten.arange.start, aten.arange.start_step], _arange),
    composite.constant: _constant,
}
