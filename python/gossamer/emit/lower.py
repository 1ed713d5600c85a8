"""Lowers one captured call: walks the fx graph and looks each operator up in the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from gossamer.capture.call import InputSpec, Meta, Recording
from gossamer.capture.errors import UntraceableError

from .elements import Elements
from .ir import Builder, Type, Value
from .missing import missing
from .symbolic import is_symbolic, symbolic_table
from .table import STORAGE_ONLY, Axis, Space, Table, compute_word, dtype_word, features

Source = Callable[[int, Type], Value]


class Lowering(Space):
    """State and helpers of the lowering of one call.

    Args:
        source: makes the value of input `i` of the call, of the given type, at its first use.

    Attributes:
        inputs: those of the call, and the numbers of rows that it computes with.
        per_degree: the present operator is one that eager code runs for each in-degree.
    """

    def __init__(self, builder: Builder, call: Recording, graph: int, source: Source):
        super().__init__(builder, call.symbols, graph, call.homogeneous)
        self.call = call
        self.symbols = call.symbols
        self.elements = Elements(self)
        self.inputs = list(call.inputs)
        self.per_degree = False
        self._source = source
        self._results: dict[fx.Node, Any] = {}
        self._inputs: dict[fx.Node, int] = {}

    def run(self) -> dict[str, Value]:
        """The fields of the call, by name; side writes too."""
        from . import aten

        wanted = {**self.call.side_writes, **self.call.outputs}
        needed = _needed(spec.node for spec in wanted.values())
        placeholders = self.call.graph.find_nodes(op="placeholder")
        self._inputs = {node: index for index, node in enumerate(placeholders)}
        for node in self.call.graph.nodes:
            if node.op == "call_function" and node in needed:
                self._lower(node, aten.TABLE)
        return {name: self._field(spec.node, spec.rows) for name, spec in wanted.items()}

    def _field(self, node: fx.Node, rows: str) -> Value:
        table = self.table(node)
        axes, _ = self.axes_of(node.meta["val"].shape)
        if axes[0] != "r" or table.type.rows not in (None, self.rows(rows)):
            raise UntraceableError("a returned field has rows of another kind")
        return self.as_memory(node, self.fit(table, axes, self.rows(rows)))

    def as_memory(self, node: fx.Node, value: Value) -> Value:
        """What a node computes, as it leaves the program."""
        return self.elements.cast(value, dtype_word(node.meta["val"].dtype))

    def _lower(self, node: fx.Node, handlers: dict) -> None:
        place = node.meta.get("loc") or (None, 0)
        self.builder.place = place
        self.per_degree = node.meta.get("per_degree", False)
        handler = handlers.get(node.target)
        try:
            if handler is None:
                raise missing(node.target)
            result = handler(self, node)
            if isinstance(result, Table):
                self._check(node, result)
                if node.meta.get("detached"):
                    result = self.detach(result)
            self._results[node] = self.as_stored(node.meta["val"], result)
        except UntraceableError as error:
            raise error.at(*place) from None
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            # An argument of a kind that the tables don't know must not end the user's program.
            reason = f"{node.target} with these arguments is not compiled ({error})"
            raise UntraceableError(reason, *place) from error

    def _check(self, node: fx.Node, table: Table) -> None:
        """The table agrees with the shape that torch inferred."""
        meta = node.meta["val"]
        axes, rows = self.axes_of(meta.shape)
        hidden = rows is None and table.type.rows == self.node_rows
        if (
            axes != table.axes
            or features(axes) != table.type.features
            or compute_word(meta.dtype) != table.type.dtype
            or not (hidden or rows == table.type.rows)
        ):
            raise UntraceableError(
                f"{node.target} was lowered to {table.type}, {table.axes}, but torch has {meta}"
            )

    def as_stored(self, meta: Any, result: Any) -> Any:
        """The result with the precision that torch stores it in; 16 bits stay f32 here."""
        if isinstance(result, tuple):
            return tuple(map(self.as_stored, meta, result))
        if not isinstance(result, Table):
            return result
        word = dtype_word(meta.dtype)
        return Table(self.elements.rounded(result.value, word), result.axes)

    def table(self, node: fx.Node) -> Table:
        """The table of a node.

        Raises:
            UntraceableError: a result that the lowering does not provide (an argmax, say).
        """
        index = self._inputs.get(node)
        if index is not None:
            return self._input(self.call.inputs[index], index)
        result = self._results[node]
        if not isinstance(result, Table):
            raise UntraceableError(f"this result of {node.target} is not compiled")
        return result

    def results(self, node: fx.Node) -> Any:
        """What the handler of a node returned: a table, or a tuple of tables and None."""
        return self._results[node] if node in self._results else self.table(node)

    def _input(self, spec: InputSpec, index: int) -> Table:
        rows = self.rows(spec.rows) if spec.rows else None
        type = Type(spec.shape, dtype_word(spec.dtype), rows)
        axes: tuple[Axis, ...] = (("r",) if rows else ()) + spec.shape
        return self.from_memory(index, type, axes)

    def from_memory(self, index: int, type: Type, axes: tuple[Axis, ...]) -> Table:
        """Input `index`, as it is computed with."""
        value = self._source(index, type)
        if type.dtype in STORAGE_ONLY:
            value = self.elements.cast(value, "f32")
        return Table(value, axes)

    def scalar(self, index: int) -> Table:
        """Run-time scalar `index`, f64 without rows."""
        position = next(
            i for i, s in enumerate(self.call.inputs) if s.kind == "scalar" and s.index == index
        )
        return Table(self._source(position, Type((), "f64")), ())

    def count(self, symbol: Any) -> Table:
        """A number of rows, f64 without rows."""
        spec = self.call.counts[symbol]
        if spec not in self.inputs:
            self.inputs.append(spec)
        return Table(self._source(self.inputs.index(spec), Type((), "f64")), ())

    @property
    def adds_rows(self) -> bool:
        """Whether the present operator may add up the rows of a table."""
        return False

    def as_seen(self, value: Value) -> Value:
        """Numbers of rows, with 0 in rows that the present operator never sees eagerly."""
        if not self.per_degree or value.type.rows != self.node_rows:
            return value
        return self.builder.op("mp.fill_isolated", (value,), value.type, end="dst", value=0)

    def input_of(self, node: fx.Node) -> InputSpec | None:
        """The input that a node is, if it is one."""
        index = self._inputs.get(node)
        return None if index is None else self.call.inputs[index]

    def degree(self) -> Value:
        """The in-degree of each destination, i64."""
        return self.builder.op("mp.degree", (), Type((), "i64", self.node_rows), end="dst")

    def operand(self, value: Any, dtype: str) -> Table | float | int | bool:
        """An operator's argument as a table of an element type; plain numbers stay."""
        if isinstance(value, fx.Node):
            table = self.table(value)
            return Table(self.elements.cast(table.value, dtype), table.axes)
        if is_symbolic(value):
            return symbolic_table(self, value, dtype)
        return value

    def number(self, value: Any, type: Type) -> Value:
        """A number, maybe symbolic, in every place of a type."""
        if not is_symbolic(value):
            return self.elements.fill(value, type)
        table = symbolic_table(self, value, type.dtype)
        if table.type.rows is None:
            return self.broadcast(table.value, type)
        if type.rows is None:
            raise UntraceableError(
                "the degree is a parameter of an operator on tensors without rows"
            )
        axes = (*["r", "d"][: type.row_axes], *type.features)
        return self.fit(table, axes, type.rows)

    def detach(self, table: Table) -> Table:
        """The same table, through which no gradient flows."""
        return Table(self.elements.detach(table.value), table.axes)

    def combine(self, function: Callable[..., Value], *operands: Any) -> Table:
        """Apply a function of values to tables and numbers, broadcast as torch does."""
        tables = [operand for operand in operands if isinstance(operand, Table)]
        if not tables:
            raise UntraceableError("an operator without a tensor")
        axes, rows = self.joint(tables)
        dtype = tables[0].type.dtype
        values = []
        for operand in operands:
            if isinstance(operand, Table):
                values.append(self.fit(operand, axes, rows))
            else:
                values.append(self.elements.fill(operand, Type(features(axes), dtype, rows)))
        return Table(function(*values), axes)

    def pad_rows(self, node: fx.Node, table: Table) -> Table:
        """The table as the node's shape wants it: repeated along new axes and rows."""
        axes, rows = self.axes_of(node.meta["val"].shape)
        if rows is None:
            rows = table.type.rows
        return Table(self.fit(table, axes, rows), axes)


def out_dtype(node: fx.Node) -> str:
    """Element type in which a node's (first) result is computed."""
    meta = node.meta["val"]
    return compute_word((meta if isinstance(meta, Meta) else meta[0]).dtype)


def promoted_dtype(values: tuple) -> str:
    """Element type in which torch compares or combines arguments."""
    probes: list[Any] = []
    for value in values:
        if isinstance(value, fx.Node):
            meta = value.meta["val"]
            probes.append(torch.empty((1,) * len(meta.shape), dtype=meta.dtype, device="meta"))
        elif is_symbolic(value):
            probes.append(1 if value.is_integer else 1.0)
        else:
            probes.append(value)
    dtype = probes[0].dtype
    for other in probes[1:]:
        dtype = (
            torch.result_type(probes[0], other)
            if len(probes) == 2
            else torch.promote_types(dtype, torch.result_type(probes[0], other))
        )
    return compute_word(dtype)


def _needed(roots) -> set[fx.Node]:
    needed: set[fx.Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    return needed
