"""Shared by the tests of capture and emit: a graph call and its reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from gossamer.capture.call import (
    CapturedCall,
    ColumnSpec,
    Functions,
    GraphCall,
    single_call,
)
from gossamer.capture.plain_data import call_data, call_from
from gossamer.capture.tracer import trace_call
from gossamer.emit import EmittedFunction, emit
from gossamer.torch_backend import run_captured
from gossamer.udf import EdgeBatch, LazyFrame, NodeBatch

#: self loop, multi-edge, isolated nodes, one node of high degree; 7 nodes
ODD_EDGES = ([0, 1, 1, 2, 2, 3, 4, 5, 0, 6, 6, 3], [0, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 0])
NUM_NODES = 7

GRAPHS = {
    "odd": (*ODD_EDGES, NUM_NODES),
    "no_edges": ([], [], 4),
    "one_node": ([0, 0], [0, 0], 1),
    "star": (list(range(1, 9)), [0] * 8, 9),
}


def structure(name: str = "odd", idtype: torch.dtype = torch.int64) -> Any:
    """A graph by name."""
    src, dst, count = GRAPHS[name]
    return SimpleNamespace(
        src=torch.tensor(src, dtype=idtype),
        dst=torch.tensor(dst, dtype=idtype),
        num_src=count,
        num_dst=count,
    )


def columns(spec: Mapping[str, Any], rows: int, seed: int) -> dict[str, Tensor]:
    """Signed random columns: name -> shape, or (shape, dtype) for other dtypes than float64."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in spec.items():
        dtype = torch.float64
        if shape and isinstance(shape[-1], torch.dtype):
            shape, dtype = shape
        if dtype.is_floating_point:
            made[name] = torch.randn(rows, *shape, dtype=dtype, generator=generator)
        else:
            made[name] = torch.randint(-3, 4, (rows, *shape), generator=generator).to(dtype)
    return made


def schema(frame: Mapping[str, Tensor]) -> dict[str, ColumnSpec]:
    """What a frame holds."""
    return {name: ColumnSpec(tuple(t.shape[1:]), t.dtype) for name, t in frame.items()}


def make_call(
    kind: str = "update_all",
    *,
    message: Callable | None = None,
    reduce: Callable | None = None,
    apply: Callable | None = None,
    node: Mapping[str, Tensor],
    edge: Mapping[str, Tensor],
    lifted: list[Tensor] | None = None,
    **options: Any,
) -> GraphCall:
    """A homogeneous call."""
    functions = options.pop("functions", None) or (lambda _: Functions(message, reduce, apply))
    nodes = schema(node)
    return GraphCall(
        kind, functions, src=nodes, dst=nodes, edge=schema(edge), lifted=lifted or [], **options
    )


def compiled(
    call: GraphCall,
    graph: Any,
    node: Mapping[str, Tensor],
    edge: Mapping[str, Tensor],
    scalars: tuple[float, ...] = (),
) -> dict[str, Tensor]:
    """The fields of a call, through capture, emit and the torch back end."""
    captured = trace_call(call)
    emitted = emit(single_call(as_from_disk(captured)))
    assert emitted.text == emit(single_call(captured)).text
    inputs = inputs_of(emitted, call, graph, node, edge, scalars)
    results = run_captured(emitted, inputs, [graph])
    return {name: value for (_, name), value in zip(emitted.outputs, results, strict=True)}


def as_from_disk(captured: CapturedCall) -> CapturedCall:
    """The call, written and read again."""
    return call_from(json.loads(json.dumps(call_data(captured))))


def inputs_of(
    emitted: EmittedFunction,
    call: GraphCall,
    graph: Any,
    node: Mapping,
    edge: Mapping,
    scalars: tuple,
) -> dict:
    """Values for the inputs of an emitted single call."""
    values = {}
    for spec in emitted.inputs:
        if spec.kind == "column":
            values[spec] = (edge if spec.frame == "edge" else node)[spec.name]
        elif spec.kind == "lifted":
            values[spec] = call.lifted[spec.index].detach()
        elif spec.kind == "scalar":
            values[spec] = scalars[spec.index]
        elif spec.frame == "edge" and spec.name != "id":
            values[spec] = getattr(graph, spec.name)
        else:
            count = graph.src.shape[0] if spec.frame == "edge" else graph.num_dst
            values[spec] = torch.arange(count, dtype=graph.src.dtype)
    return values


def reference(
    kind: str,
    graph: Any,
    node: Mapping[str, Tensor],
    edge: Mapping[str, Tensor],
    message: Callable | None = None,
    reduce: Callable | None = None,
    apply: Callable | None = None,
) -> dict[str, Tensor]:
    """The call with DGL's semantics: one reduce call per in-degree, zeros for isolated nodes."""
    src, dst = graph.src.long(), graph.dst.long()
    data = LazyFrame(dict(edge), lambda t: t)
    outputs: dict[str, Tensor] = {}
    if message is not None:
        batch = EdgeBatch(
            LazyFrame(node, lambda t: t[src]),
            LazyFrame(node, lambda t: t[dst]),
            data,
            lambda: (graph.src, graph.dst, torch.arange(len(src), dtype=graph.src.dtype)),
            len(src),
            ("_N", "_E", "_N"),
        )
        outputs = dict(message(batch))
    if reduce is not None:
        outputs = _buckets(graph, node, outputs, reduce)
    if apply is not None:
        frame = LazyFrame({**node, **outputs}, lambda t: t)
        batch = NodeBatch(frame, None, lambda: torch.arange(graph.num_dst), graph.num_dst, "_N")
        outputs = dict(apply(batch))
    return outputs


def _buckets(graph: Any, node: Mapping, messages: Mapping, reduce: Callable) -> dict[str, Tensor]:
    dst = graph.dst.long()
    degrees = torch.bincount(dst, minlength=graph.num_dst)
    order = torch.argsort(dst, stable=True)
    outputs: dict[str, Tensor] = {}
    for degree in sorted(set(degrees.tolist()) - {0}):
        rows = (degrees == degree).nonzero()[:, 0]
        edges = order[(degrees[dst[order]] == degree)].reshape(len(rows), degree)
        mailbox = {name: m[edges] for name, m in messages.items()}
        batch = NodeBatch(
            LazyFrame(node, lambda t, rows=rows: t[rows]),
            mailbox,
            lambda rows=rows: rows.to(graph.dst.dtype),
            len(rows),
            "_N",
        )
        for name, value in reduce(batch).items():
            if name not in outputs:
                outputs[name] = value.new_zeros(graph.num_dst, *value.shape[1:])
            outputs[name] = outputs[name].index_copy(0, rows, value)
    return outputs


def captured_of(call: GraphCall) -> CapturedCall:
    """The captured call."""
    return trace_call(call)
