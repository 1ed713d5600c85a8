"""A function of the `mp` dialect in Python: types, operations, and their text.

Small on purpose: what is needed to build straight-line code, drop what nobody reads, number values
in order and print. `gossamer/ir/MpOps.td` and what it includes document the operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str | None, int]

#: The same value, through which no gradient flows.
DETACH = "mp.detach"


@dataclass(frozen=True)
class Rows:
    """The encoding `#mp.rows<graph, kind>`; kind is src, dst, node, edge or mailbox."""

    graph: int
    kind: str

    def __str__(self) -> str:
        return f"#mp.rows<{self.graph}, {self.kind}>"


@dataclass(frozen=True)
class Type:
    """A table: features of a row, element type (f32, f64, bf16, f16, i32, i64, i1), rows if any."""

    features: tuple[int, ...]
    dtype: str
    rows: Rows | None = None

    @property
    def row_axes(self) -> int:
        """How many leading axes are rows."""
        if self.rows is None:
            return 0
        return 2 if self.rows.kind == "mailbox" else 1

    @property
    def is_float(self) -> bool:
        """Whether elements are floating point."""
        return self.dtype[0] != "i"

    def with_features(self, features: tuple[int, ...]) -> Type:
        """This type with other features."""
        return Type(tuple(features), self.dtype, self.rows)

    def with_dtype(self, dtype: str) -> Type:
        """This type with another element type."""
        return Type(self.features, dtype, self.rows)

    def with_rows(self, rows: Rows | None) -> Type:
        """This type with other rows."""
        return Type(self.features, self.dtype, rows)

    def __str__(self) -> str:
        axes = ["?"] * self.row_axes + [str(size) for size in self.features]
        encoding = f", {self.rows}" if self.rows else ""
        return f"tensor<{'x'.join([*axes, self.dtype])}{encoding}>"


@dataclass(eq=False)
class Value:
    """A result of an operation, or an argument of the function (`op` is None, `key` names it)."""

    type: Type
    op: Op | None = None
    key: Any = None


@dataclass(eq=False)
class Op:
    """One operation with one result."""

    name: str
    operands: tuple[Value, ...]
    attrs: dict[str, Any]
    place: Place
    result: Value = field(init=False)


@dataclass(frozen=True)
class Function:
    """Straight-line code. `results` are values of `ops` or `arguments`."""

    arguments: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    num_graphs: int


class Builder:
    """Appends operations; an equal operation on equal operands is made once."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.arguments: dict[Any, Value] = {}
        self.place: Place = (None, 0)
        self._known: dict[Any, Value] = {}

    def argument(self, key: Any, type: Type) -> Value:
        """The argument of that key, made at its first use."""
        value = self.arguments.get(key)
        if value is None:
            value = self.arguments[key] = Value(type, key=key)
        if value.type != type:
            raise ValueError(f"input {key!r} is {value.type} and {type}")
        return value

    def op(self, name: str, operands: tuple[Value, ...], type: Type, **attrs: Any) -> Value:
        """The result of an operation."""
        identity = (name, tuple(map(id, operands)), type, _hashable(attrs))
        value = self._known.get(identity)
        if value is None:
            op = Op(name, operands, attrs, self.place)
            value = op.result = Value(type, op)
            self.ops.append(op)
            self._known[identity] = value
        return value

    def finish(self, results: list[Value], num_graphs: int) -> Function:
        """The function that returns `results`, without what they do not need."""
        needed = {id(value) for value in results}
        ops = []
        for op in reversed(self.ops):
            if id(op.result) in needed:
                ops.append(op)
                needed.update(id(operand) for operand in op.operands)
        arguments = [a for a in self.arguments.values() if id(a) in needed]
        return Function(tuple(arguments), tuple(reversed(ops)), tuple(results), num_graphs)


def empty_table(function: Function) -> tuple[Type, Place] | None:
    """The first table whose rows hold no numbers, and where the user's code makes it."""
    for op in function.ops:
        for value in (*op.operands, op.result):
            if 0 in value.type.features:
                return value.type, op.place
    return None


def detached(function: Function, results: Collection[int]) -> Function:
    """The function, where no gradient flows from the results of these numbers."""
    returned, ops = list(function.results), list(function.ops)
    for number in results:
        value = returned[number]
        op = Op(DETACH, (value,), {}, value.op.place if value.op else (None, 0))
        returned[number] = op.result = Value(value.type, op)
        ops.append(op)
    return Function(function.arguments, tuple(ops), tuple(returned), function.num_graphs)


def _hashable(attrs: dict[str, Any]) -> tuple:
    # repr tells -0.0 from 0.0 and 1 from True.
    return tuple((name, repr(value)) for name, value in sorted(attrs.items()))


def text(function: Function) -> str:
    """The function as a module of MLIR text, every operation with its user's file and line."""
    names: dict[int, str] = {id(a): f"%arg{i}" for i, a in enumerate(function.arguments)}
    for number, op in enumerate(function.ops):
        names[id(op.result)] = f"%{number}"
    arguments = ", ".join(f"{names[id(a)]}: {a.type}" for a in function.arguments)
    types = ", ".join(str(r.type) for r in function.results)
    lines = [
        f"func.func @region({arguments}) -> ({types})",
        f"    attributes {{mp.graphs = {function.num_graphs} : i64}} {{",
    ]
    for op in function.ops:
        body = _FORMS.get(op.name, _plain)(op, [names[id(o)] for o in op.operands])
        lines.append(f"  {names[id(op.result)]} = {op.name} {body}{_location(op.place)}")
    returned = ", ".join(names[id(r)] for r in function.results)
    lines.append(f"  return {returned} : {types}" if types else "  return")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _location(place: Place) -> str:
    file, line = place
    if file is None:
        return ""
    return f' loc("{_quoted(file)}":{line}:0)'


def _quoted(word: str) -> str:
    return "".join(f"\\{ord(c):02X}" if c in '"\\' or ord(c) < 32 else c for c in word)


def _plain(op: Op, names: list[str]) -> str:
    return f"{', '.join(names)} : {op.result.type}"


def _to(op: Op, names: list[str]) -> str:
    return f"{', '.join(names)} : {op.operands[0].type} to {op.result.type}"


def _arrow(op: Op, names: list[str]) -> str:
    types = ", ".join(str(o.type) for o in op.operands)
    return f"{', '.join(names)} : {types} -> {op.result.type}"


def _keywords(*attrs: str) -> Callable[[Op, list[str]], str]:
    """Leading attribute words, then the arrow form."""
    return lambda op, names: " ".join([*(str(op.attrs[a]) for a in attrs), _arrow(op, names)])


def _ties(op: Op) -> str:
    """Who gets the gradient of a maximum: by default the first that attains it."""
    return " ties even" if op.attrs.get("ties") == "even" else ""


def _with_axis(op: Op, names: list[str]) -> str:
    operands = ", ".join(names)
    types = ", ".join(str(o.type) for o in op.operands)
    kind = f"{op.attrs['kind']} " if "kind" in op.attrs else ""
    return f"{kind}{operands} axis {op.attrs['axis']}{_ties(op)} : {types} -> {op.result.type}"


def _slice(op: Op, names: list[str]) -> str:
    a = op.attrs
    where = f"axis {a['axis']} from {a['offset']} by {a['stride']}"
    return f"{names[0]} {where} : {op.operands[0].type} -> {op.result.type}"


def _transpose(op: Op, names: list[str]) -> str:
    axes = ", ".join(map(str, op.attrs["permutation"]))
    return f"{names[0]} [{axes}] : {op.operands[0].type} -> {op.result.type}"


def _compare(op: Op, names: list[str]) -> str:
    return f"{op.attrs['predicate']}, {names[0]}, {names[1]} : {op.operands[0].type}"


def _select(op: Op, names: list[str]) -> str:
    return f"{', '.join(names)} : {op.operands[0].type}, {op.result.type}"


def _lookup(op: Op, names: list[str]) -> str:
    from_end = " from_end" if op.attrs["from_end"] else ""
    field = f' {{field = "{_quoted(op.attrs["field"])}"}}' if op.attrs["field"] else ""
    types = ", ".join(str(o.type) for o in op.operands)
    return f"{names[0]} at {names[1]}{from_end}{field} : {types} -> {op.result.type}"


def literal(value: float | int | bool, dtype: str) -> str:
    """A number as an MLIR attribute of an element type."""
    if dtype == "i1":
        return "true" if value else "false"
    if not dtype.startswith("f"):
        return f"{int(value)} : {dtype}"
    value = float(value)
    if math.isnan(value):
        return f"{'0x7FC00000' if dtype == 'f32' else '0x7FF8000000000000'} : {dtype}"
    if math.isinf(value) or (dtype == "f32" and abs(value) > 3.4028235677973366e38):
        negative = value < 0
        single, double = (
            ("0xFF800000", "0xFFF0000000000000")
            if negative
            else (
                "0x7F800000",
                "0x7FF0000000000000",
            )
        )
        return f"{single if dtype == 'f32' else double} : {dtype}"
    digits = repr(value)
    mantissa, exponent, power = digits.partition("e")
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}{exponent}{power} : {dtype}"


_FORMS: dict[str, Callable[[Op, list[str]], str]] = {
    "mp.gather": _keywords("end"),
    "mp.reduce": _keywords("kind", "end"),
    "mp.softmax": lambda op, names: f"{op.attrs['end']} {names[0]} : {op.result.type}",
    "mp.mailbox": _arrow,
    "mp.sum_rows": _arrow,
    "mp.degree": lambda op, names: f"{op.attrs['end']} : {op.result.type}",
    "mp.fill_isolated": lambda op, names: (
        f"{op.attrs['end']} {names[0]}, {literal(op.attrs['value'], op.result.type.dtype)} : "
        f"{op.operands[0].type} -> {op.result.type}"
    ),
    "mp.prefix": _arrow,
    "mp.fill": lambda op, names: (
        f"{literal(op.attrs['value'], op.result.type.dtype)} : {op.result.type}"
    ),
    "mp.uniform": lambda op, names: f"{names[0]} stream {op.attrs['stream']} : {op.result.type}",
    "mp.broadcast": _arrow,
    "mp.reshape": _arrow,
    "mp.transpose": _transpose,
    "mp.slice": _slice,
    "mp.concat": _with_axis,
    "mp.reduce_axis": _with_axis,
    "mp.softmax_axis": lambda op, names: f"{names[0]} axis {op.attrs['axis']} : {op.result.type}",
    "mp.linear": _arrow,
    "mp.lookup": _lookup,
    "arith.cmpf": _compare,
    "arith.cmpi": _compare,
    "arith.select": _select,
    **dict.fromkeys(
        [
            "arith.extf",
            "arith.truncf",
            "arith.sitofp",
            "arith.uitofp",
            "arith.fptosi",
            "arith.extsi",
            "arith.extui",
            "arith.trunci",
        ],
        _to,
    ),
}
