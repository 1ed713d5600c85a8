"""Torch tensors as tables: which torch axis is rows, which is features.

A `Table` is a value of the IR with torch's axes. Each axis is a feature size, or a word:
"r" the rows, "d" the messages of a mailbox, "rd" both merged (what `nn.Linear` makes of a mailbox).
The value itself keeps rows first; features are in torch's order. A value may have rows while no
torch
axis shows them: the degree as a number is one number for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gossamer.capture.call import Symbols
from gossamer.capture.errors import UntraceableError

from .ir import Builder, Rows, Type, Value

Axis = int | str

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}


#: In memory only: values are widened when they are read.
STORAGE_ONLY = ("bf16", "f16")


def dtype_word(dtype: torch.dtype) -> str:
    """The element type of a torch dtype."""
    word = DTYPES.get(dtype)
    if word is None:
        raise UntraceableError(f"{dtype} is not compiled", remedy="use float32, float64 or int64")
    return word


def compute_word(dtype: torch.dtype) -> str:
    """The element type in which values of a torch dtype are computed: f32 for those of 16 bits."""
    word = dtype_word(dtype)
    return "f32" if word in STORAGE_ONLY else word


@dataclass(frozen=True)
class Table:
    """A value and what torch's axes are in it."""

    value: Value
    axes: tuple[Axis, ...]

    @property
    def type(self) -> Type:
        """The value's type."""
        return self.value.type

    @property
    def rank(self) -> int:
        """Number of torch axes."""
        return len(self.axes)

    def axis(self, index: int) -> int:
        """A torch axis counted from the front."""
        return index + self.rank if index < 0 else index

    def feature(self, axis: int) -> int:
        """Which axis of the value a torch feature axis is."""
        before = sum(1 for a in self.axes[:axis] if isinstance(a, int))
        return self.type.row_axes + before


def features(axes: Sequence[Axis]) -> tuple[int, ...]:
    """The feature sizes among axes."""
    return tuple(axis for axis in axes if isinstance(axis, int))


def _mixes_rows(axes: Sequence[Axis]) -> UntraceableError:
    names = {"r": "rows", "d": "degree", "rd": "rows * degree"}
    shape = ", ".join(names.get(axis, str(axis)) for axis in axes)
    if axes.count("d") > 1:
        return UntraceableError(
            f"a tensor of shape ({shape}) pairs the messages of a node with one another",
            remedy="compare messages with their sum, mean or maximum, or with nodes.data",
        )
    return UntraceableError(f"a tensor of shape ({shape}) mixes rows")


class Space:
    """Reads shapes of one captured call, and makes values agree in rows and features."""

    def __init__(self, builder: Builder, symbols: Symbols, graph: int, homogeneous: bool):
        self.builder = builder
        self.graph = graph
        self.homogeneous = homogeneous
        self._degree = symbols.degree
        self._kinds = {symbols.num_src: self.rows("src"), symbols.num_edges: self.rows("edge")}
        self._kinds[symbols.num_dst] = self.node_rows
        self._products = {n * symbols.degree: n for n in (symbols.num_dst,)}

    def rows(self, kind: str) -> Rows:
        """The rows of a kind of this call's graph."""
        return Rows(self.graph, kind)

    @property
    def node_rows(self) -> Rows:
        """Rows of the destinations."""
        return self.rows("node" if self.homogeneous else "dst")

    def axes_of(self, shape: Sequence[int | torch.SymInt]) -> tuple[tuple[Axis, ...], Rows | None]:
        """Axes and rows of a captured shape.

        Raises:
            UntraceableError: the shape counts rows in a way that is not one row per row of a table.
        """
        axes: list[Axis] = []
        kinds: set[Rows] = set()
        for size in shape:
            if isinstance(size, int):
                axes.append(size)
                continue
            word, kind = self._word(size)
            axes.append(word)
            kinds |= {kind} if kind else set()
        words = [axis for axis in axes if isinstance(axis, str)]
        if (
            len(kinds) > 1
            or len(set(words)) < len(words)
            or "".join(words) not in ("", "r", "rd", "dr")
        ):
            raise _mixes_rows(axes)
        kind = next(iter(kinds), None)
        if "d" in "".join(words):
            return tuple(axes), self.rows("mailbox")
        return tuple(axes), kind

    def _word(self, size: torch.SymInt) -> tuple[str, Rows | None]:
        expr = size.node.expr
        if expr == self._degree:
            return "d", None
        if expr in self._kinds:
            return "r", self._kinds[expr]
        if expr in self._products:
            return "rd", None
        raise UntraceableError(
            f"a tensor axis of size {expr} merges rows or messages with features",
            remedy="keep one row per edge or node, and messages on axis 1",
        )

    def reshape(self, value: Value, sizes: Sequence[int]) -> Value:
        """The value with other features of the same number."""
        sizes = tuple(sizes)
        if value.type.features == sizes:
            return value
        return self.builder.op("mp.reshape", (value,), value.type.with_features(sizes))

    def broadcast(self, value: Value, type: Type) -> Value:
        """The value repeated to a type."""
        return value if value.type == type else self.builder.op("mp.broadcast", (value,), type)

    def joint(self, tables: Sequence[Table]) -> tuple[tuple[Axis, ...], Rows | None]:
        """The axes and rows that torch broadcasts tables to."""
        rank = max(table.rank for table in tables)
        axes: list[Axis] = [1] * rank
        for table in tables:
            for position, axis in enumerate(table.axes, rank - table.rank):
                if axis != 1 and axes[position] not in (1, axis):
                    raise UntraceableError("an axis of rows or messages meets a feature axis")
                axes[position] = axis if axis != 1 else axes[position]
        return tuple(axes), self._joint_rows({t.type.rows for t in tables if t.type.rows})

    def _joint_rows(self, kinds: set[Rows]) -> Rows | None:
        mailbox = self.rows("mailbox")
        if mailbox in kinds and kinds <= {mailbox, self.node_rows}:
            return mailbox
        if len(kinds) > 1:
            raise UntraceableError("rows of different sets meet in one operator")
        return next(iter(kinds), None)

    def fit(self, table: Table, axes: Sequence[Axis], rows: Rows | None) -> Value:
        """The table's value, repeated to axes and rows as torch broadcasts."""
        own = (1,) * (len(axes) - table.rank) + table.axes
        sizes = []
        for have, want in zip(own, axes, strict=True):
            if isinstance(want, int):
                if not isinstance(have, int):
                    raise UntraceableError("an axis of rows or messages meets a feature axis")
                sizes.append(have)
            elif have not in (1, want):
                raise UntraceableError("an axis of rows or messages meets another")
        if len(own) > len(axes):
            raise UntraceableError("a tensor has too many axes for its result")
        target = Type(features(axes), table.type.dtype, rows)
        if table.type.rows is not None and table.type.rows != rows:
            self._check_into_mailbox(table, rows)
            sizes = [1, *sizes]
        return self.broadcast(self.reshape(table.value, sizes), target)

    def _check_into_mailbox(self, table: Table, rows: Rows | None) -> None:
        if rows is None or rows.kind != "mailbox" or table.type.rows != self.node_rows:
            raise UntraceableError(
                f"rows of kind {table.type.rows.kind} meet {rows.kind if rows else 'no'} rows"
            )
