"""The second back end: an emitted function on plain torch operators, on any device, with gradients.

One line per operation. A mailbox is kept as its edge rows: axis 1 is ragged, so slot `d` of node
`v` is simply the row of its edge, and operations over messages are operations over segments of
edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from gossamer import philox
from gossamer.capture import ops as graph_ops
from gossamer.emit import EmittedFunction
from gossamer.emit.ir import DETACH, Op, Type, Value


class Edges(Protocol):
    """What a graph argument must have; `gossamer.structure.Structure` does."""

    src: Tensor
    dst: Tensor
    num_src: int
    num_dst: int


def run_captured(
    emitted: EmittedFunction,
    inputs: Mapping[Any, Tensor | float] | Sequence,
    graphs: Sequence[Edges],
) -> list[Tensor]:
    """The results of an emitted function, differentiable by autograd.

    Args:
        inputs: values by key (`emitted.inputs`), or in that order: columns, lifted tensors, floats.
        graphs: one per graph argument.

    Returns:
        Results in the order of `emitted.outputs`.
    """
    if isinstance(inputs, Mapping):
        inputs = [inputs[key] for key in emitted.inputs]
    arguments = emitted.function.arguments
    device = graphs[0].src.device if graphs else None
    values: dict[Value, Tensor] = {}
    for argument, given in zip(arguments, inputs, strict=True):
        values[argument] = _given(given, argument.type, device)
    runner = _Runner(graphs, device)
    # The casts of autocast are operations of the function already.
    with torch.autocast("cpu", enabled=False):
        for op in emitted.function.ops:
            values[op.result] = runner.run(op, [values[operand] for operand in op.operands])
    return [values[result] for result in emitted.function.results]


def _given(value: Tensor | float, type: Type, device: torch.device | None) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=_DTYPES[type.dtype], device=device)


_DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i32": torch.int32,
    "i64": torch.int64,
    "i1": torch.bool,
}


class _Runner:
    """Runs operations on given graphs."""

    def __init__(self, graphs: Sequence[Edges], device: torch.device | None):
        self._graphs = graphs
        self._device = device

    def run(self, op: Op, operands: list[Tensor]) -> Tensor:
        """The result of one operation."""
        handler = _GRAPH_OPS.get(op.name)
        if handler is not None:
            return handler(self, op, *operands)
        return _ELEMENTWISE[op.name](op, *operands)

    def graph(self, type: Type) -> Edges:
        """The graph whose rows a type has."""
        return self._graphs[type.rows.graph]

    def segments(self, type: Type, end: str = "dst") -> tuple[Tensor, int]:
        """The node of each edge at an end, and how many nodes there are."""
        graph = self.graph(type)
        return (graph.src, graph.num_src) if end == "src" else (graph.dst, graph.num_dst)

    def rows(self, type: Type) -> tuple[int, ...]:
        """Leading sizes of a tensor of a type; a mailbox has its edges."""
        if type.rows is None:
            return ()
        graph, kind = self.graph(type), type.rows.kind
        if kind in ("edge", "mailbox"):
            return (graph.src.shape[0],)
        return (graph.num_src if kind == "src" else graph.num_dst,)

    def shape(self, type: Type) -> tuple[int, ...]:
        """The shape of a tensor of a type."""
        return (*self.rows(type), *type.features)

    def axis(self, op: Op) -> int:
        """The torch axis of an operation's feature axis: a mailbox lacks axis 1 here."""
        return op.attrs["axis"] - _ragged(op.operands[0].type)


def _ragged(type: Type) -> int:
    return 1 if type.rows is not None and type.rows.kind == "mailbox" else 0


def _gather(run: _Runner, op: Op, x: Tensor) -> Tensor:
    return x.index_select(0, run.segments(op.result.type, op.attrs["end"])[0])


def _lookup(run: _Runner, op: Op, table: Tensor, index: Tensor) -> Tensor:
    _check_index(op, index, table.shape[0])
    return table[index.long()]


def _check_index(op: Op, index: Tensor, count: int) -> None:
    """IndexError with the user's line; as the programs do."""
    least = -count if op.attrs["from_end"] else 0
    if bool(((index < least) | (index >= count)).any()):
        file, line = op.place
        raise IndexError(
            f"{file}:{line}: {op.attrs['field'] or 'the index'} has numbers outside of "
            f"{least} to {count - 1}, but the table has {count} rows"
        )


def _reduce(run: _Runner, op: Op, x: Tensor) -> Tensor:
    index, size = run.segments(op.result.type, op.attrs["end"])
    return graph_ops.reduce(x, index, size, op.attrs["kind"])


def _softmax(run: _Runner, op: Op, x: Tensor) -> Tensor:
    return graph_ops.softmax(x, *run.segments(op.result.type, op.attrs["end"]))


def _degree(run: _Runner, op: Op) -> Tensor:
    return graph_ops.degree(*run.segments(op.result.type, op.attrs["end"]))


def _fill_isolated(run: _Runner, op: Op, x: Tensor) -> Tensor:
    segments = run.segments(op.result.type, op.attrs["end"])
    return graph_ops.fill_isolated(x, *segments, op.attrs["value"])


def _prefix(run: _Runner, op: Op, x: Tensor) -> Tensor:
    return x[: run.rows(op.result.type)[0]]


def _fill(run: _Runner, op: Op) -> Tensor:
    type = op.result.type
    value = torch.full((), op.attrs["value"], dtype=_DTYPES[type.dtype], device=run._device)
    return value.expand(run.shape(type))


def _uniform(run: _Runner, op: Op, seed: Tensor) -> Tensor:
    type = op.result.type
    rows = run.rows(type)[0] if type.rows else None
    dtype = _DTYPES[type.dtype]
    return philox.uniform(seed, op.attrs["stream"], rows, type.features, dtype, run._device)


def _broadcast(run: _Runner, op: Op, x: Tensor) -> Tensor:
    have, want = op.operands[0].type, op.result.type
    if _ragged(want) > _ragged(have) and have.rows is not None:
        x = x.squeeze(1).index_select(0, run.segments(want)[0])
    return x.expand(run.shape(want))


def _reshape(run: _Runner, op: Op, x: Tensor) -> Tensor:
    return x.reshape(run.shape(op.result.type))


def _transpose(run: _Runner, op: Op, x: Tensor) -> Tensor:
    order = op.attrs["permutation"]
    return x.permute([0, *(axis - 1 for axis in order[2:])] if _ragged(op.result.type) else order)


def _slice(run: _Runner, op: Op, x: Tensor) -> Tensor:
    axis = run.axis(op)
    count = op.result.type.features[op.attrs["axis"] - op.result.type.row_axes]
    start, step = op.attrs["offset"], op.attrs["stride"]
    index = [slice(None)] * axis + [
        slice(start, start + (count - 1) * step + 1 if count else start, step)
    ]
    return x[tuple(index)]


def _concat(run: _Runner, op: Op, *tensors: Tensor) -> Tensor:
    return torch.cat(tensors, run.axis(op))


def _reduce_axis(run: _Runner, op: Op, x: Tensor) -> Tensor:
    kind, type = op.attrs["kind"], op.operands[0].type
    even = op.attrs.get("ties") == "even"
    if _ragged(type) and op.attrs["axis"] == 1:
        segments = run.segments(op.result.type)
        return _even(x, *segments, kind) if even else graph_ops.reduce(x, *segments, kind)
    axis = run.axis(op)
    if even:
        return getattr(x, "a" + kind)(axis)
    if kind in ("max", "min"):
        return getattr(x, kind)(axis)[0]
    return getattr(x, kind)(axis, dtype=x.dtype)


def _even(x: Tensor, index: Tensor, size: int, kind: str) -> Tensor:
    """max or min of segments whose ties share the gradient evenly; 0 for empty ones."""
    zeros = x.new_zeros(size, *x.shape[1:])
    spread = index.long().reshape(-1, *[1] * (x.dim() - 1)).expand_as(x)
    return zeros.scatter_reduce(0, spread, x, "a" + kind, include_self=False)


def _softmax_axis(run: _Runner, op: Op, x: Tensor) -> Tensor:
    if _ragged(op.result.type) and op.attrs["axis"] == 1:
        return graph_ops.softmax(x, *run.segments(op.result.type))
    return torch.softmax(x, run.axis(op))


def _linear(run: _Runner, op: Op, x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight


_GRAPH_OPS: dict[str, Callable[..., Tensor]] = {
    "mp.gather": _gather,
    "mp.reduce": _reduce,
    "mp.softmax": _softmax,
    "mp.mailbox": lambda run, op, x: x,
    "mp.degree": _degree,
    "mp.fill_isolated": _fill_isolated,
    "mp.prefix": _prefix,
    "mp.fill": _fill,
    "mp.uniform": _uniform,
    "mp.broadcast": _broadcast,
    "mp.reshape": _reshape,
    "mp.transpose": _transpose,
    "mp.slice": _slice,
    "mp.concat": _concat,
    "mp.reduce_axis": _reduce_axis,
    "mp.sum_rows": lambda run, op, x: x.sum(0),
    "mp.softmax_axis": _softmax_axis,
    "mp.linear": _linear,
    "mp.lookup": _lookup,
    DETACH: lambda run, op, x: x.detach(),
}

_COMPARE = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


def _compare(op: Op, a: Tensor, b: Tensor) -> Tensor:
    predicate = op.attrs["predicate"]
    if predicate == "uno":
        return a.isnan() | b.isnan()
    return _COMPARE[predicate[-2:]](a, b)


def _cast(op: Op, x: Tensor) -> Tensor:
    return x.to(_DTYPES[op.result.type.dtype])


def _plain(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda op, *operands: function(*operands)


_ELEMENTWISE: dict[str, Callable[..., Tensor]] = {
    "arith.cmpf": _compare,
    "arith.cmpi": _compare,
    "arith.select": _plain(torch.where),
    "arith.addf": _plain(torch.add),
    "arith.addi": _plain(torch.add),
    "arith.subf": _plain(torch.sub),
    "arith.subi": _plain(torch.sub),
    "arith.mulf": _plain(torch.mul),
    "arith.muli": _plain(torch.mul),
    "arith.divf": _plain(torch.div),
    "arith.divsi": _plain(lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    "arith.floordivsi": _plain(lambda a, b: torch.div(a, b, rounding_mode="floor")),
    "arith.remf": _plain(torch.fmod),
    "arith.remsi": _plain(torch.fmod),
    "arith.maximumf": _plain(torch.maximum),
    "arith.maxsi": _plain(torch.maximum),
    "arith.minimumf": _plain(torch.minimum),
    "arith.minsi": _plain(torch.minimum),
    "arith.negf": _plain(torch.neg),
    "arith.andi": _plain(torch.bitwise_and),
    "arith.ori": _plain(torch.bitwise_or),
    "arith.xori": _plain(torch.bitwise_xor),
    "math.absf": _plain(torch.abs),
    "math.absi": _plain(torch.abs),
    "math.powf": _plain(torch.pow),
    "math.roundeven": _plain(torch.round),
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
        _cast,
    ),
    **{
        f"math.{name}": _plain(getattr(torch, name))
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
