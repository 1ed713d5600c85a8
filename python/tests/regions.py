"""Writes a region of mp IR and computes, beside it, what it has to give: the same ops in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer import compiler, native, philox

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "arith.addf": torch.add,
    "arith.subf": torch.sub,
    "arith.mulf": torch.mul,
    "arith.divf": torch.div,
    "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum,
    "arith.addi": torch.add,
    "arith.muli": torch.mul,
    "arith.andi": torch.logical_and,
    "math.atan2": torch.atan2,
    "math.powf": torch.pow,
}


class Graph:
    """A homogeneous graph with `nodes` nodes, or one from `sources` to `destinations`."""

    def __init__(self, src: Tensor, dst: Tensor, nodes: int | tuple[int, int], wide: bool = False):
        self.src, self.dst = src, dst
        self.bipartite = isinstance(nodes, tuple)
        self.num_src, self.num_dst = nodes if self.bipartite else (nodes, nodes)
        ops = native.ops()
        arrays = [
            *ops.coo_to_csr(dst, src, self.num_dst, self.num_src),
            *ops.coo_to_csr(src, dst, self.num_src, self.num_dst),
        ]
        self.arrays = [a.long() if wide else a.int() for a in arrays]
        self.wide = wide
        self.sizes = [self.num_src, self.num_dst, len(src), _most(dst), _most(src)]
        self.held = ops.hold_graph(self.arrays, self.sizes)

    def count(self, rows: str | None) -> int:
        return {
            None: 0,
            "edge": len(self.src),
            "src": self.num_src,
            "dst": self.num_dst,
            "node": self.num_src,
        }[rows]

    def rows_at(self, end: str) -> str:
        return end if self.bipartite else "node"

    def index(self, end: str) -> Tensor:
        return self.src if end == "src" else self.dst


def _most(index: Tensor) -> int:
    return int(torch.bincount(index).max()) if len(index) else 0


@dataclass(frozen=True)
class Value:
    name: str
    rows: str | None
    expected: Tensor  # float64 where the program has floats
    dtype: torch.dtype

    @property
    def features(self) -> tuple[int, ...]:
        return tuple(self.expected.shape[1 if self.rows else 0 :])

    @property
    def type(self) -> str:
        sizes = (["?"] if self.rows else []) + [str(size) for size in self.features]
        encoding = f", #mp.rows<0, {self.rows}>" if self.rows else ""
        return f"tensor<{'x'.join([*sizes, NAMES[self.dtype]])}{encoding}>"


class Region:
    def __init__(self, graph: Graph, dtype: torch.dtype = torch.float32, seed: int = 0):
        self.graph, self.dtype = graph, dtype
        self.random = torch.Generator().manual_seed(seed)
        self.lines: list[str] = []
        self.inputs: list[tuple[Value, Tensor]] = []
        self._count = 0

    def input(self, rows: str | None, *features: int, values: Tensor | None = None) -> Value:
        """A table of signed numbers, or `values`."""
        count = (self.graph.count(rows),) if rows else ()
        if values is None:
            values = torch.randn(*count, *features, generator=self.random, dtype=self.dtype)
        value = self._value(rows, _exact(values), values.dtype)
        self.inputs.append((value, values))
        return value

    def _value(self, rows: str | None, expected: Tensor, dtype: torch.dtype) -> Value:
        self._count += 1
        return Value(f"%v{self._count}", rows, expected, dtype)

    def _emit(
        self, text: str, rows: str | None, expected: Tensor, dtype: torch.dtype, suffix: str = ""
    ) -> Value:
        value = self._value(rows, expected, dtype)
        self.lines.append(f"  {value.name} = {text}{suffix or value.type}")
        return value

    def _convert(self, text: str, x: Value, rows: str | None, expected: Tensor) -> Value:
        return self._emit(f"{text} : {x.type} -> ", rows, expected, x.dtype)

    def gather(self, end: str, x: Value) -> Value:
        rows = x.expected[self.graph.index(end)]
        return self._convert(f"mp.gather {end} {x.name}", x, "edge", rows)

    def reduce(self, kind: str, x: Value, end: str = "dst") -> Value:
        rows = self.graph.rows_at(end)
        expected = reduce_rows(kind, x.expected, self.graph.index(end), self.graph.count(rows))
        return self._convert(f"mp.reduce {kind} {end} {x.name}", x, rows, expected)

    def softmax(self, x: Value) -> Value:
        index, count = self.graph.dst, self.graph.num_dst
        centred = (x.expected - reduce_rows("max", x.expected, index, count)[index]).exp()
        expected = centred / reduce_rows("sum", centred, index, count)[index]
        return self._emit(f"mp.softmax dst {x.name} : ", "edge", expected, x.dtype)

    def degree(self, end: str = "dst") -> Value:
        rows = self.graph.rows_at(end)
        expected = torch.bincount(self.graph.index(end), minlength=self.graph.count(rows))
        return self._emit(f"mp.degree {end} : ", rows, expected, torch.int64)

    def fill_isolated(self, x: Value, number: float) -> Value:
        has_edge = torch.bincount(self.graph.dst, minlength=self.graph.num_dst) > 0
        shape = (-1,) + (1,) * len(x.features)
        expected = torch.where(has_edge.view(shape), x.expected, torch.tensor(number).double())
        text = f"mp.fill_isolated dst {x.name}, {number:e} : {NAMES[x.dtype]}"
        return self._convert(text, x, x.rows, expected)

    def fill(self, number: float, like: Value) -> Value:
        expected = torch.full_like(like.expected, number)
        kind = NAMES[like.dtype]
        return self._emit(f"mp.fill {number:e} : {kind} : ", like.rows, expected, like.dtype)

    def uniform(self, seed: Value, stream: int, rows: str | None, *features: int) -> Value:
        """`seed` is an input without rows: one int64."""
        count = self.graph.count(rows) if rows else None
        key = seed.expected.long()
        expected = philox.uniform(key, stream, count, features, self.dtype).double()
        return self._emit(f"mp.uniform {seed.name} stream {stream} : ", rows, expected, self.dtype)

    def broadcast(self, x: Value, rows: str | None, *features: int) -> Value:
        count = (self.graph.count(rows),) if rows else ()
        expected = x.expected.expand(*count, *features)
        return self._convert(f"mp.broadcast {x.name}", x, rows, expected)

    def reshape(self, x: Value, *features: int) -> Value:
        count = (len(x.expected),) if x.rows else ()
        return self._convert(
            f"mp.reshape {x.name}", x, x.rows, x.expected.reshape(*count, *features)
        )

    def transpose(self, x: Value, *axes: int) -> Value:
        return self._convert(
            f"mp.transpose {x.name} {list(axes)}", x, x.rows, x.expected.permute(axes)
        )

    def slice(self, x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
        wanted = torch.arange(start, start + size * step, step)
        text = f"mp.slice {x.name} axis {axis} from {start} by {step}"
        return self._convert(text, x, x.rows, x.expected.index_select(axis, wanted))

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        names = ", ".join(x.name for x in xs)
        types = ", ".join(x.type for x in xs)
        expected = torch.cat([x.expected for x in xs], axis)
        text = f"mp.concat {names} axis {axis} : {types} -> "
        return self._emit(text, xs[0].rows, expected, xs[0].dtype)

    def reduce_axis(self, kind: str, x: Value, axis: int) -> Value:
        expected = {
            "sum": torch.sum,
            "mean": torch.mean,
            "max": torch.amax,
            "min": torch.amin,
            "prod": torch.prod,
        }[kind](x.expected, axis)
        return self._convert(f"mp.reduce_axis {kind} {x.name} axis {axis}", x, x.rows, expected)

    def linear(self, x: Value, weight: Value) -> Value:
        text = f"mp.linear {x.name}, {weight.name} : {x.type}, {weight.type} -> "
        return self._emit(text, x.rows, x.expected @ weight.expected, x.dtype)

    def contract_rows(self, x: Value, y: Value) -> Value:
        left, right = (v.expected.reshape(-1, v.features[-1]) for v in (x, y))
        text = f"mp.contract_rows {x.name}, {y.name} : {x.type}, {y.type} -> "
        return self._emit(text, None, left.T @ right, x.dtype)

    def unary(self, op: str, x: Value, function: Callable[[Tensor], Tensor]) -> Value:
        return self._emit(f"{op} {x.name} : ", x.rows, function(x.expected), x.dtype)

    def binary(self, op: str, x: Value, y: Value) -> Value:
        expected = BINARY[op](x.expected, y.expected)
        return self._emit(f"{op} {x.name}, {y.name} : ", x.rows, expected, x.dtype)

    def add(self, x: Value, y: Value) -> Value:
        return self.binary("arith.addf", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.binary("arith.mulf", x, y)

    def exp(self, x: Value) -> Value:
        return self.unary("math.exp", x, torch.exp)

    def relu(self, x: Value) -> Value:
        return self.binary("arith.maximumf", x, self.fill(0.0, x))

    def leaky_relu(self, x: Value, slope: float = 0.2) -> Value:
        positive = x.expected > 0
        cmp = f"arith.cmpf ogt, {x.name}, {self.fill(0.0, x).name} : {x.type}"
        condition = self._emit(cmp, x.rows, positive, torch.bool, suffix=" ")
        small = self.mul(x, self.fill(slope, x))
        text = f"arith.select {condition.name}, {x.name}, {small.name} : {condition.type}, "
        expected = torch.where(positive, x.expected, small.expected)
        return self._emit(text, x.rows, expected, x.dtype)

    def ir(self, results: Sequence[Value]) -> str:
        arguments = ", ".join(f"{value.name}: {value.type}" for value, _ in self.inputs)
        types = ", ".join(value.type for value in results)
        names = ", ".join(value.name for value in results)
        return "\n".join(
            [
                f"func.func @region({arguments}) -> ({types})",
                "    attributes {mp.graphs = 1 : i64} {",
                *self.lines,
                f"  return {names} : {types}",
                "}",
            ]
        )

    def run(self, *results: Value, **options: object) -> list[Tensor]:
        compiled = compiler.compile_ir(
            self.ir(results), wide_index=self.graph.wide, cache=False, **options
        )
        inputs = [values for _, values in self.inputs]
        return native.ops().run(compiled.program, [self.graph.held], inputs)

    def check(self, *results: Value, tolerance: float | None = None, **options: object) -> None:
        """Compile, run and compare with torch in float64."""
        for value, found in zip(results, self.run(*results, **options), strict=True):
            assert found.dtype == value.dtype
            assert found.shape == value.expected.shape
            check_close(found, value.expected, tolerance)


def check_close(found: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
    """Largest difference over largest value, as the project measures it; NaN where NaN is due."""
    if not found.is_floating_point():
        assert torch.equal(found, expected.to(found.dtype))
        return
    assert torch.equal(found.isnan(), expected.isnan())
    if tolerance is None:
        tolerance = 1e-5 if found.dtype == torch.float32 else 1e-12
    found, expected = found.double().nan_to_num(), expected.nan_to_num()
    if found.numel():
        scale = max(1e-30, float(expected.abs().max()))
        assert float((found - expected).abs().max()) <= tolerance * scale


def _exact(values: Tensor) -> Tensor:
    return values.double() if values.is_floating_point() else values


def reduce_rows(kind: str, rows: Tensor, index: Tensor, count: int) -> Tensor:
    """The rows of each node combined; 0 for nodes without any."""
    result = torch.zeros(count, *rows.shape[1:], dtype=rows.dtype)
    if kind == "sum":
        return result.index_add_(0, index, rows)
    name = {"mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}[kind]
    if rows.dtype == torch.bool:
        return reduce_rows(kind, rows.int(), index, count).bool()
    wide = index.view(-1, *[1] * (rows.dim() - 1)).expand_as(rows)
    return result.scatter_reduce_(0, wide, rows, name, include_self=False)
