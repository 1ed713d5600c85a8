"""Runs the text of an `mp` function, as gossamer-opt prints it, on tensors: an oracle for passes.

Written for clarity: one line per operation, nodes one by one. Reads MLIR's generic form, in which
all operations look alike.
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i32": torch.int32,
    "i64": torch.int64,
    "i1": torch.bool,
}
ENDS = ("src", "dst")
KINDS = ("sum", "mean", "max", "min", "prod")
TYPE = re.compile(r"tensor<((?:[?\d]+x)*)(\w+)(?:, #mp\.rows<(\d+), (\w+)[^>]*>)?>")
OP = re.compile(r'\s*(?:(%\w+)(?::\d+)? = )?"([\w.]+)"\(([^)]*)\)(?: <\{(.*?)\}>)?(.*)')


def run_opt(opt: str, module: str, *flags: str) -> str:
    """What gossamer-opt makes of a module, in generic form.

    Raises:
        ValueError: gossamer-opt refuses; with its message.
    """
    done = subprocess.run(
        [opt, "-", "--mlir-print-op-generic", *flags],
        input=module,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


@dataclass(frozen=True)
class TableType:
    """A table: all axes (None: rows), element type, graph and kind of rows."""

    axes: tuple[int | None, ...]
    dtype: torch.dtype
    graph: int | None
    kind: str | None


def _types(text: str) -> list[TableType]:
    found = []
    for axes, dtype, graph, kind in TYPE.findall(text):
        sizes = tuple(None if a == "?" else int(a) for a in axes.split("x")[:-1])
        found.append(TableType(sizes, DTYPES[dtype], int(graph) if graph else None, kind or None))
    return found


@dataclass
class MlirOp:
    """One operation, maybe with a body."""

    name: str
    results: str | None
    operands: list[str]
    attrs: str
    operand_types: list[TableType] = field(default_factory=list)
    types: list[TableType] = field(default_factory=list)
    body: MlirBlock | None = None

    def number(self, name: str, default: int | None = None) -> int:
        """An integer attribute."""
        found = re.search(rf"\b{name} = (-?\d+)", self.attrs)
        if found is None and default is None:
            raise KeyError(name)
        return int(found.group(1)) if found else default


@dataclass
class MlirBlock:
    """Arguments, and operations of which the last one gives the results."""

    arguments: list[tuple[str, TableType]]
    ops: list[MlirOp]


def parse(text: str) -> MlirBlock:
    """The body of the one function of a module in generic form."""
    lines = iter(text.splitlines())
    for line in lines:
        if '"func.func"' in line:
            return _block(lines)[0]
    raise ValueError("no function")


def _block(lines: Iterator[str]) -> tuple[MlirBlock, str]:
    """A block, and the line that closes it."""
    header = next(lines)
    arguments = []
    if header.strip().startswith("^"):
        names = re.findall(r"(%\w+): ", header)
        arguments = list(zip(names, _types(header), strict=True))
        header = next(lines)
    ops = []
    line = header
    while not line.strip().startswith("})"):
        result, name, operands, attrs, rest = OP.match(line).groups()
        op = MlirOp(name, result, [o for o in operands.split(", ") if o], attrs or "")
        if rest.rstrip().endswith("({"):
            op.body, rest = _block(lines)
        before, _, after = rest.partition(" -> ")
        op.operand_types, op.types = _types(before), _types(after)
        ops.append(op)
        line = next(lines)
    return MlirBlock(arguments, ops), line


def evaluate(block: MlirBlock, inputs: Sequence[Tensor], graphs: Sequence[Any]) -> list[Tensor]:
    """The results of a block."""
    names = [name for name, _ in block.arguments]
    values = dict(zip(names, inputs, strict=True))
    for (name, type), given in zip(block.arguments, inputs, strict=True):
        features = [a for a in type.axes if a is not None]
        assert list(given.shape[given.dim() - len(features) :]) == features, (name, type)
        assert given.dtype == type.dtype, (name, type)
    for op in block.ops:
        operands = [values[name] for name in op.operands]
        if op.name in ("func.return", "mp.yield"):
            return operands
        if op.body is not None:
            for i, value in enumerate(evaluate(op.body, operands, graphs)):
                values[f"{op.results}#{i}"] = value
                values[op.results] = value
            continue
        result = _Eval(op, graphs).run(operands)
        assert result.dtype == op.types[0].dtype, op
        values[op.results] = result
    raise ValueError("no terminator")


class _Eval:
    def __init__(self, op: MlirOp, graphs: Sequence[Any]):
        self.op = op
        self.graphs = graphs
        self.type = op.types[0]

    def run(self, operands: list[Tensor]) -> Tensor:
        own = getattr(self, self.op.name.replace(".", "_"), None)
        if own is not None:
            return own(*operands)
        return ELEMENTWISE[self.op.name](*operands)

    def index(self, type: TableType) -> Tensor:
        graph = self.graphs[type.graph]
        return getattr(graph, ENDS[self.op.number("end")]).long()

    def count(self, type: TableType) -> int:
        graph = self.graphs[type.graph]
        if type.kind == "edge":
            return len(graph.src)
        return graph.num_src if type.kind == "src" else graph.num_dst

    def shape(self, type: TableType) -> list[int]:
        return [self.count(type) if a is None else a for a in type.axes]

    def segments(self, x: Tensor, type: TableType, function: Callable) -> Tensor:
        """`function` of the rows of each node; 0 where there are none."""
        index, count = self.index(type), self.count(type)
        rows = [x[index == v] for v in range(count)]
        zero = torch.zeros(x.shape[1:], dtype=x.dtype)
        return torch.stack([function(r) if len(r) else zero for r in rows]).reshape(
            count, *x.shape[1:]
        )

    def mp_gather(self, x):
        return x[self.index(self.op.operand_types[0])]

    def mp_reduce(self, x):
        kind = KINDS[self.op.number("kind")]
        return self.segments(x, self.type, lambda rows: _combine(kind, rows, 0))

    def mp_softmax(self, x):
        index, result = self.index(self.type), torch.empty_like(x)
        for v in index.unique():
            result[index == v] = x[index == v].softmax(0)
        return result

    def mp_degree(self):
        return torch.bincount(self.index(self.type), minlength=self.count(self.type))

    def mp_fill_isolated(self, x):
        isolated = torch.bincount(self.index(self.type), minlength=len(x)) == 0
        return torch.where(_like(isolated, x), _literal(self.op, self.type.dtype), x)

    def mp_prefix(self, x):
        return x[: self.count(self.type)]

    def mp_pad_rows(self, x):
        return torch.cat([x, x.new_zeros(self.count(self.type) - len(x), *x.shape[1:])])

    def rows_of(self, index, count):
        least = -count if "from_end" in self.op.attrs else 0
        assert bool(((index >= least) & (index < count)).all())
        return index.long() % count

    def mp_lookup(self, table, index):
        return table[self.rows_of(index, len(table))]

    def mp_sum_by(self, x, index):
        count = self.type.axes[0]
        rows = self.rows_of(index, count)
        return torch.stack([x[rows == k].sum(0) for k in range(count)])

    def mp_sum_rows(self, x):
        return x.sum(0)

    def mp_contract_rows(self, x, y):
        return x.reshape(-1, x.shape[-1]).T @ y.reshape(-1, y.shape[-1])

    def mp_fill(self):
        return _literal(self.op, self.type.dtype).expand(self.shape(self.type))

    def mp_iota(self):
        shape, axis = self.shape(self.type), self.op.number("axis")
        ones = [1] * len(shape)
        ones[axis] = shape[axis]
        return torch.arange(shape[axis], dtype=self.type.dtype).reshape(ones).expand(shape)

    def mp_broadcast(self, x):
        return x.expand(self.shape(self.type))

    def mp_reshape(self, x):
        return x.reshape(self.shape(self.type))

    def mp_transpose(self, x):
        axes = re.search(r"permutation = array<i64: ([\d, ]+)>", self.op.attrs).group(1)
        return x.permute([int(a) for a in axes.split(", ")])

    def mp_slice(self, x):
        axis, start = self.op.number("axis"), self.op.number("offset")
        step, count = self.op.number("stride"), self.type.axes[self.op.number("axis")]
        return x.index_select(axis, torch.arange(count) * step + start)

    def mp_concat(self, *parts):
        return torch.cat(parts, self.op.number("axis"))

    def mp_reduce_axis(self, x):
        return _combine(KINDS[self.op.number("kind")], x, self.op.number("axis"))

    def mp_softmax_axis(self, x):
        return x.softmax(self.op.number("axis"))

    def mp_linear(self, x, weight):
        return x @ weight

    def mp_detach(self, x):
        return x

    def arith_cmpf(self, a, b):
        return FLOAT_PREDICATES[self.op.number("predicate")](a, b)

    def arith_cmpi(self, a, b):
        return INT_PREDICATES[self.op.number("predicate")](a, b)

    def cast(self, x):
        return x.to(self.type.dtype)

    arith_extf = arith_truncf = arith_sitofp = arith_uitofp = arith_fptosi = cast
    arith_extsi = arith_extui = arith_trunci = cast


def _like(rows: Tensor, other: Tensor) -> Tensor:
    return rows.reshape(-1, *[1] * (other.dim() - 1))


def _combine(kind: str, x: Tensor, axis: int) -> Tensor:
    if kind in ("max", "min"):
        return getattr(x, kind)(axis)[0]
    return getattr(x, kind)(axis, dtype=x.dtype)


def _literal(op: MlirOp, dtype: torch.dtype) -> Tensor:
    word = re.search(r"value = ([^\s,}]+)", op.attrs).group(1)
    if word in ("true", "false"):
        return torch.tensor(word == "true")
    if word.startswith("0x"):
        code = "<f" if dtype == torch.float32 else "<d"
        number = struct.unpack(code, int(word, 16).to_bytes(struct.calcsize(code), "little"))[0]
        return torch.tensor(number, dtype=dtype)
    return torch.tensor(float(word) if dtype.is_floating_point else int(word), dtype=dtype)


FLOAT_PREDICATES: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    1: torch.eq,
    2: torch.gt,
    3: torch.ge,
    4: torch.lt,
    5: torch.le,
    13: torch.ne,
    14: lambda a, b: a.isnan() | b.isnan(),
}
INT_PREDICATES: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    0: torch.eq,
    1: torch.ne,
    2: torch.lt,
    3: torch.le,
    4: torch.gt,
    5: torch.ge,
}
ELEMENTWISE: dict[str, Callable[..., Tensor]] = {
    "arith.addf": torch.add,
    "arith.subf": torch.sub,
    "arith.mulf": torch.mul,
    "arith.divf": torch.div,
    "arith.remf": torch.fmod,
    "arith.negf": torch.neg,
    "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum,
    "arith.select": torch.where,
    "arith.addi": torch.add,
    "arith.subi": torch.sub,
    "arith.muli": torch.mul,
    "arith.maxsi": torch.maximum,
    "arith.minsi": torch.minimum,
    "arith.andi": torch.bitwise_and,
    "arith.ori": torch.bitwise_or,
    "arith.xori": torch.bitwise_xor,
    "arith.remsi": torch.fmod,
    "arith.divsi": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "arith.floordivsi": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "math.absf": torch.abs,
    "math.absi": torch.abs,
    "math.powf": torch.pow,
    "math.roundeven": torch.round,
    **{
        f"math.{name}": getattr(torch, name)
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "rsqrt",
            "sin",
            "cos",
            "tan",
            "tanh",
            "sinh",
            "cosh",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "erfc",
            "floor",
            "ceil",
            "trunc",
            "atan2",
        ]
    },
}
