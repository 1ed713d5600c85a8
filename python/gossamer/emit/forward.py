"""Lowers a whole forward: as one call, but on several relations, whose row sets may be shared.

A set of nodes that several relations meet at has one *home*: the rows that the first of them calls
it. Every value waits at home. An operator of one relation takes it to that relation's own name for
the set and brings its result home; both ways are `mp.prefix`, and neither exists where a set has
one name only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from gossamer.capture import (
    composite,
    ops,  # noqa: F401  (registers torch.ops.gossamer)
)
from gossamer.capture.call import ForwardRecording, InputSpec, Number
from gossamer.capture.errors import UntraceableError

from .ir import Builder, Rows, Type, Value
from .lower import Lowering, Source
from .table import Table, dtype_word, features

_GRAPH = torch.ops.gossamer


class ForwardLowering(Lowering):
    """State and helpers of the lowering of a whole forward."""

    def __init__(self, builder: Builder, call: ForwardRecording, source: Source):
        super().__init__(builder, call, 0, source)
        self._relations = call.relations
        self._homes: dict[Any, Rows] = {}
        self._symbol_of: dict[Rows, Any] = {}
        for graph in range(len(call.relations)):
            for symbol, rows in self._own(graph):
                self._homes.setdefault(symbol, rows)
                self._symbol_of[rows] = symbol
        self.go_home()

    def _own(self, graph: int) -> list[tuple[Any, Rows]]:
        """What a relation calls its row sets; of two names for one set the last counts."""
        ends = self._relations[graph]
        words = ("node", "node", "edge") if ends.homogeneous else ("src", "dst", "edge")
        symbols = ends.symbols
        sets = (symbols.num_src, symbols.num_dst, symbols.num_edges)
        pairs = [(s, Rows(graph, word)) for s, word in zip(sets, words, strict=True)]
        return [pairs[0], pairs[2], pairs[1]]

    def go_home(self) -> None:
        """From here on shapes mean rows at home."""
        self.symbols = self.call.symbols
        self._kinds, self._degree, self._products = self._homes, None, {}
        self._away = False

    def go_to(self, graph: int) -> None:
        """From here on shapes mean the rows of one relation."""
        ends = self._relations[graph]
        self.graph, self.homogeneous, self.symbols = graph, ends.homogeneous, ends.symbols
        self._kinds = {**self._homes, **dict(self._own(graph))}
        self._degree = ends.symbols.degree
        self._products = {ends.symbols.num_dst * self._degree: ends.symbols.num_dst}
        self._away = True

    @property
    def adds_rows(self) -> bool:
        """All nodes are there but in a function that runs for each in-degree."""
        return not self.per_degree

    def over_rows(self, kind: str, value: Value) -> Value:
        """The sum or mean of all rows of nodes, without rows."""
        rows = value.type.rows
        if rows is None or rows.kind in ("edge", "mailbox"):
            raise UntraceableError(
                "rows of different edges are combined", remedy="reduce them to nodes first"
            )
        type = Type(value.type.features, value.type.dtype)
        total = self.builder.op("mp.sum_rows", (value,), type)
        if kind == "sum":
            return total
        count = self.count(self._symbol_of[rows])
        number = self.elements.cast(count.value, type.dtype)
        return self.elements.div(
            total, self.broadcast(self.reshape(number, [1] * len(type.features)), type)
        )

    def as_seen(self, value: Value) -> Value:
        """As `Lowering.as_seen`. Which relation a function runs for, shapes of nodes don't say."""
        if self.per_degree and value.type.rows.kind in ("src", "dst", "node"):
            if len(self._relations) > 1:
                raise UntraceableError("numbers of nodes with messages, of several relations")
            self.go_to(0)
        return super().as_seen(value)

    def relation_of(self, ids: fx.Node) -> int:
        """The graph argument whose endpoints a placeholder stands for."""
        number = self.call.inputs[self._inputs[ids]].index
        return next(i for i, ends in enumerate(self._relations) if ends.number == number)

    def table(self, node: fx.Node) -> Table:
        """As `Lowering.table`, at the present place."""
        table = super().table(node)
        rows = table.type.rows
        if not self._away or rows is None or rows.kind == "mailbox":
            return table
        here = self._kinds[self._symbol_of[rows]]
        return Table(self.as_rows(table.value, here), table.axes)

    def as_rows(self, value: Value, rows: Rows) -> Value:
        """The value under another name of its row set, or its first rows."""
        if value.type.rows == rows:
            return value
        return self.builder.op("mp.prefix", (value,), value.type.with_rows(rows))

    def home(self, table: Table) -> Table:
        """The table at home."""
        rows = table.type.rows
        if rows is None or rows.kind == "mailbox":
            return table
        return Table(self.as_rows(table.value, self._homes[self._symbol_of[rows]]), table.axes)

    def _lower(self, node: fx.Node, handlers: dict) -> None:
        graph = self._relation_in(node)
        if graph is not None:
            self.go_to(graph)
        try:
            super()._lower(node, {**handlers, **TABLE})
        finally:
            self.go_home()
        self._results[node] = _each_table(self.home, self._results[node])

    def _relation_in(self, node: fx.Node) -> int | None:
        """The relation whose mailbox or degree an operator works with, if any."""
        symbols = set(_symbols(node))
        found = [i for i, e in enumerate(self._relations) if e.symbols.degree in symbols]
        if len(found) > 1:
            raise UntraceableError("messages of two relations meet in one operator")
        return found[0] if found else None

    def _input(self, spec: InputSpec, index: int) -> Table:
        node = self.call.graph.find_nodes(op="placeholder")[index]
        away, graph = self._away, self.graph
        self.go_home()
        axes, rows = self.axes_of(node.meta["val"].shape)
        if away:
            self.go_to(graph)
        type = Type(features(axes), dtype_word(node.meta["val"].dtype), rows)
        return self.from_memory(index, type, axes)

    def _field(self, node: fx.Node, rows: str) -> Value:
        table = self.table(node)
        axes, home = self.axes_of(node.meta["val"].shape)
        if "r" in axes[1:] or "d" in axes:
            raise UntraceableError("a result of forward has its rows in another place than axis 0")
        return self.as_memory(node, self.fit(table, axes, home))


def _symbols(node: fx.Node) -> Iterable[Any]:
    """The symbols in the shapes of a node and its operands, and in its numbers."""
    for each in (node, *node.all_input_nodes):
        values = each.meta["val"]
        for meta in values if isinstance(values, tuple) else (values,):
            for size in meta.shape:
                if isinstance(size, torch.SymInt):
                    yield from size.node.expr.free_symbols
    numbers: list[Number] = []
    _collect(numbers, (node.args, node.kwargs))
    for number in numbers:
        yield from number.expr.free_symbols


def _collect(numbers: list[Number], value: Any) -> None:
    if isinstance(value, Number):
        numbers.append(value)
    elif isinstance(value, dict):
        _collect(numbers, tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(numbers, item)


def _each_table(function: Callable[[Table], Table], result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_each_table(function, item) for item in result)
    return function(result) if isinstance(result, Table) else result


def _on(ids: int, make: Callable[[ForwardLowering, fx.Node], Table]) -> Callable:
    """A handler on the relation whose endpoints are argument `ids`; its result is at home."""

    def handler(lowering: ForwardLowering, node: fx.Node) -> Table:
        lowering.go_to(lowering.relation_of(node.args[ids]))
        result = lowering.home(make(lowering, node))
        if result.type.rows.kind != "mailbox":
            lowering.go_home()
        return result

    return handler


def _end_rows(lowering: ForwardLowering, end: str) -> Rows:
    return lowering.rows("node" if lowering.homogeneous else end)


def _rows_at(lowering: ForwardLowering, node: fx.Node, rows: Rows) -> Table:
    table = Lowering.table(lowering, node)
    axes, _ = lowering.axes_of(node.meta["val"].shape)
    if table.type.rows is None:
        return Table(lowering.fit(table, axes, rows), axes)
    return Table(lowering.as_rows(table.value, rows), axes)


def _gather(end: str) -> Callable:
    def make(lowering: ForwardLowering, node: fx.Node) -> Table:
        table = _rows_at(lowering, node.args[0], _end_rows(lowering, end))
        type = table.type.with_rows(lowering.rows("edge"))
        return Table(lowering.builder.op("mp.gather", (table.value,), type, end=end), table.axes)

    return _on(1, make)


def _mailbox(lowering: ForwardLowering, node: fx.Node) -> Table:
    table = _rows_at(lowering, node.args[0], lowering.rows("edge"))
    type = table.type.with_rows(lowering.rows("mailbox"))
    value = lowering.builder.op("mp.mailbox", (table.value,), type)
    return Table(value, ("r", "d", *table.axes[1:]))


def _fill_isolated(lowering: ForwardLowering, node: fx.Node) -> Table:
    table = _rows_at(lowering, node.args[0], _end_rows(lowering, "dst"))
    filled = {"end": "dst", "value": node.args[3]}
    value = lowering.builder.op("mp.fill_isolated", (table.value,), table.type, **filled)
    return Table(value, table.axes)


def _end_of(lowering: ForwardLowering, ids: fx.Node) -> str:
    return lowering.call.inputs[lowering._inputs[ids]].name


def _softmax(lowering: ForwardLowering, node: fx.Node) -> Table:
    table = _rows_at(lowering, node.args[0], lowering.rows("edge"))
    end = _end_of(lowering, node.args[1])
    value = lowering.builder.op("mp.softmax", (table.value,), table.type, end=end)
    return Table(value, table.axes)


def _degree(lowering: ForwardLowering, node: fx.Node) -> Table:
    end = _end_of(lowering, node.args[0])
    type = Type((), "i64", _end_rows(lowering, end))
    return Table(lowering.builder.op("mp.degree", (), type, end=end), ("r",))


def _prefix(lowering: ForwardLowering, node: fx.Node) -> Table:
    table = lowering.table(node.args[0])
    axes, rows = lowering.axes_of(node.meta["val"].shape)
    return Table(lowering.as_rows(table.value, rows), axes)


TABLE: dict[Any, Callable] = {
    _GRAPH.gather_src.default: _gather("src"),
    _GRAPH.gather_dst.default: _gather("dst"),
    _GRAPH.mailbox.default: _on(1, _mailbox),
    _GRAPH.fill_isolated.default: _on(1, _fill_isolated),
    _GRAPH.softmax.default: _on(1, _softmax),
    _GRAPH.degree.default: _on(0, _degree),
    composite.prefix: _prefix,
}
