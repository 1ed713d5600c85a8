"""From one graph call with user-defined functions to an fx graph of ATen and graph operators.

The functions run once, on tensors without data. What the result may assume about the graph is
nothing: see `recorder.py`. The program that comes out treats each row alone, which `gossamer.emit`
proves by giving every value its rows; operators that mix rows are refused there, within
`trace_call`.
"""

from __future__ import annotations

import contextlib
import functools
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gossamer.errors import GossamerError
from gossamer.udf import EdgeBatch, LazyFrame, NodeBatch

from . import ops  # noqa: F401  (registers torch.ops.gossamer)
from .call import (
    CapturedCall,
    ColumnSpec,
    Functions,
    GraphCall,
    InputSpec,
    RecordedOutput,
    Recording,
    Symbols,
)
from .composite import same_size
from .errors import UntraceableError
from .modes import ApiMode, RecordingMode
from .recorder import Recorder, size_decision
from .sideways import watch_python
from .user_place import is_library, user_place

_GRAPH = torch.ops.gossamer
#: One capture at a time.
TRACING = threading.RLock()


def trace_call(call: GraphCall) -> CapturedCall:
    """Run the functions of a call on tensors without data, and check that the result compiles.

    Raises:
        UntraceableError: with file, line, reason and remedy; the call must run eagerly, and any
            error of the functions themselves shows there as eager code shows it.
    """
    from gossamer.emit.captured import captured

    with TRACING:
        recorder = Recorder(call.lifted, call.rng)
        sizes = Sizes.new(recorder, call.homogeneous)
        scalars = [recorder.scalar(index) for index in range(call.num_scalars)]
        functions = call.functions(scalars)
        trace = CallTrace(call, recorder, sizes)
        with capturing(recorder):
            recording = trace.recording(trace.fields(functions), scalars)
    return captured(recording)


class Sizes(NamedTuple):
    """The unknown sizes of one relation."""

    num_src: torch.SymInt
    num_dst: torch.SymInt
    num_edges: torch.SymInt
    degree: torch.SymInt

    @classmethod
    def new(cls, recorder: Recorder, homogeneous: bool) -> Sizes:
        """Sizes of which nothing is known but that both ends may be one set of nodes."""
        num_dst = recorder.new_size(0)
        num_src = num_dst if homogeneous else recorder.new_size(0)
        return cls(num_src, num_dst, recorder.new_size(0), recorder.new_size(1))

    def symbols(self, scalars: Sequence[torch.SymFloat] = ()) -> Symbols:
        """Their symbols."""
        exprs = (size.node.expr for size in self)
        return Symbols(*exprs, tuple(scalar.node.expr for scalar in scalars))


@contextlib.contextmanager
def capturing(recorder: Recorder) -> Iterator[None]:
    """Records what the block does.

    Raises:
        UntraceableError: at the user's line, for every failure of the block.
    """
    modes = RecordingMode(recorder), ApiMode(recorder)
    outer = _outside_inference_mode(), _errors(recorder), watch_python(recorder)
    with outer[0], outer[1], outer[2], recorder.fake, modes[0], modes[1]:
        yield


@contextlib.contextmanager
def _outside_inference_mode() -> Iterator[None]:
    """Inference mode hands composite operators on whole, instead of what they consist of."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    # Leaving inference mode alone would switch gradients on.
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextlib.contextmanager
def _errors(recorder: Recorder) -> Iterator[None]:
    """Every failure becomes an UntraceableError at the user's line."""
    states = random.getstate()
    try:
        yield
    except UntraceableError:
        raise
    except GossamerError as error:
        raise UntraceableError(str(error), *_place_of(error)) from error
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode as error:
        raise (recorder.env.unanswered or size_decision(error)) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise UntraceableError(reason, *_place_of(error)) from error
    if recorder.env.unanswered is not None:
        raise recorder.env.unanswered
    if recorder.assumes():
        raise UntraceableError("the function is right only for certain numbers of rows or degrees")
    if random.getstate() != states:
        raise UntraceableError("a user function draws random numbers in Python")


class _Columns(Mapping[str, str]):
    """A frame's field names, mapped to themselves: the column is made in the fetch."""

    def __init__(self, schema: Mapping[str, ColumnSpec]):
        self._schema = schema

    def __getitem__(self, name: str) -> str:
        if name not in self._schema:
            raise KeyError(name)
        return name

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)


class _EdgeData(LazyFrame):
    """`edges.data` over all edges: the graph's own frame, so assignments outlive the call."""

    __slots__ = ("written",)

    def __init__(self, *args):
        super().__init__(*args)
        self.written: dict[str, Tensor] = {}

    def __setitem__(self, key: str, value: Tensor) -> None:
        super().__setitem__(key, value)
        self.written[key] = value

    def __delitem__(self, key: str) -> None:
        raise UntraceableError("edges.data loses a field in a user function", *user_place())


class CallTrace:
    """The functions of one graph call as operators of a recorder, to be used within `capturing`."""

    def __init__(self, call: GraphCall, recorder: Recorder, sizes: Sizes):
        self.call = call
        self.recorder = recorder
        self.sizes = sizes
        self.num_src, self.num_dst, self.num_edges, self.degree = sizes
        self.written: dict[str, Tensor] = {}

    def fields(self, functions: Functions) -> dict[str, Tensor]:
        """The fields that the call makes; `written` are those that a message function assigned."""
        with self.recorder.draws.of_call():
            return self._fields(functions)

    def _fields(self, functions: Functions) -> dict[str, Tensor]:
        if self.call.kind in ("update_all", "readout"):
            fields = self._reduce(functions.reduce, self._message(functions.message))
            return fields if functions.apply is None else self._apply(functions.apply, fields)
        if self.call.kind == "apply_edges":
            return self._message(functions.message)
        if self.call.kind == "apply_nodes":
            return self._apply(functions.apply, {})
        if self.call.kind == "edge_softmax":
            name = self.call.softmax_field
            logits = self._fetch("edge", self.call.edge, False)(name)
            return {name: self.softmax(logits, self.call.softmax_end)}
        raise ValueError(f"unknown kind of graph call: {self.call.kind!r}")

    def _message(self, message) -> dict[str, Tensor]:
        call = self.call
        src = self._frame("src", call.src, self._gather_src, "edges.src", self.num_edges)
        dst = self._frame("dst", call.dst, self._gather_dst, "edges.dst", self.num_edges)
        fetch = self._fetch("edge", call.edge, True)
        data = _EdgeData(_Columns(call.edge), fetch, "edges.data", self.num_edges)
        batch = EdgeBatch(src, dst, data, self._edge_ids, self.num_edges, call.canonical_etype)
        fields = self._checked(message, message(batch), self.num_edges, "edges")
        self.written = self._checked(message, data.written, self.num_edges, "edges")
        return fields

    def _reduce(self, reduce, messages: dict[str, Tensor]) -> dict[str, Tensor]:
        mailbox = {name: self._mailbox(tensor) for name, tensor in messages.items()}
        data = self._frame("dst", self.call.dst, None, "nodes.data", self.num_dst)
        batch = NodeBatch(data, mailbox, self._node_ids, self.num_dst, self.call.canonical_etype[2])
        with self.recorder.draws.per_degree():
            returned = reduce(batch)
        fields = self._checked(reduce, returned, self.num_dst, "nodes")
        return {name: self._fill(name, tensor) for name, tensor in fields.items()}

    def _apply(self, apply, overlay: dict[str, Tensor]) -> dict[str, Tensor]:
        fetch = self._fetch(self._name("dst"), self.call.dst, self.call.kind == "update_all")
        data = LazyFrame(_Columns(self.call.dst), fetch, "nodes.data", self.num_dst)
        for name, tensor in overlay.items():
            data[name] = tensor
        batch = NodeBatch(data, None, self._node_ids, self.num_dst, self.call.canonical_etype[2])
        return self._checked(apply, apply(batch), self.num_dst, "nodes")

    def softmax(self, logits: Tensor, end: str) -> Tensor:
        """Edge values normalised over the edges that meet at an end."""
        size = self.num_src if end == "src" else self.num_dst
        result = self.recorder.empty(logits.shape, logits.dtype)
        args = (logits, self._endpoint(end), size)
        return self.recorder.emit(_GRAPH.softmax.default, args, {}, result)

    def _name(self, end: str) -> str:
        return "node" if self.call.homogeneous else end

    def _frame(self, end, schema, gather, where, rows) -> LazyFrame:
        fetch = self._fetch(self._name(end), schema, False)
        made = fetch if gather is None else (lambda name: gather(fetch(name)))
        return LazyFrame(_Columns(schema), made, where, rows)

    def _fetch(self, frame: str, schema: Mapping[str, ColumnSpec], persistent: bool):
        def fetch(name: str) -> Tensor:
            column = schema[name]
            spec = InputSpec("column", frame, name, -1, column.shape, column.dtype)
            return self.recorder.input(spec, self._rows(frame), persistent)

        return fetch

    def _rows(self, frame: str) -> torch.SymInt:
        return {"src": self.num_src, "edge": self.num_edges}.get(frame, self.num_dst)

    def _ids(self, frame: str, name: str) -> Tensor:
        spec = InputSpec("ids", frame, name, -1, (), self.call.idtype)
        return self.recorder.input(spec, self._rows(frame), True)

    def _endpoint(self, end: str) -> Tensor:
        return self._ids("edge", end)

    def _edge_ids(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._endpoint("src"), self._endpoint("dst"), self._ids("edge", "id")

    def _node_ids(self) -> Tensor:
        return self._ids(self._name("dst"), "id")

    def _gather_src(self, rows: Tensor) -> Tensor:
        return self._gather(_GRAPH.gather_src.default, rows, "src")

    def _gather_dst(self, rows: Tensor) -> Tensor:
        return self._gather(_GRAPH.gather_dst.default, rows, "dst")

    def _gather(self, op, rows: Tensor, end: str) -> Tensor:
        result = self.recorder.empty((self.num_edges, *rows.shape[1:]), rows.dtype)
        return self.recorder.emit(op, (rows, self._endpoint(end)), {}, result)

    def _mailbox(self, edges: Tensor) -> Tensor:
        shape = (self.num_dst, self.degree, *edges.shape[1:])
        result = self.recorder.empty(shape, edges.dtype)
        args = (edges, self._endpoint("dst"), self.num_dst)
        return self.recorder.emit(_GRAPH.mailbox.default, args, {}, result)

    def _fill(self, name: str, rows: Tensor) -> Tensor:
        value = self.call.initializers.get(name, 0)
        result = self.recorder.empty(rows.shape, rows.dtype)
        args = (rows, self._endpoint("dst"), self.num_dst, value)
        return self.recorder.emit(_GRAPH.fill_isolated.default, args, {}, result)

    def _checked(self, function, fields, rows: torch.SymInt, unit: str) -> dict[str, Tensor]:
        """The fields a function returned or set: tensors with the rows of the batch."""
        place = _definition(function)
        if not isinstance(fields, Mapping):
            reason = f"the function returns {type(fields).__name__} instead of a dict of tensors"
            raise UntraceableError(reason, *place)
        for name, tensor in fields.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise UntraceableError(f"field {name!r} of the result is a {kind}", *place)
            first, *others = tensor.shape or (None,)
            if not isinstance(first, torch.SymInt) or not same_size(first, rows):
                raise UntraceableError(
                    f"field {name!r} of the result has shape {_shape(tensor)}, "
                    f"which is not one row for each of the {unit}",
                    *place,
                )
            if any(isinstance(size, torch.SymInt) for size in others):
                raise UntraceableError(
                    f"field {name!r} has shape {_shape(tensor)}: its rows depend on the graph",
                    *place,
                )
        return dict(fields)

    def recording(
        self, outputs: dict[str, Tensor], scalars: Sequence[torch.SymFloat] = ()
    ) -> Recording:
        """The record of a call that makes these fields."""
        on_edges = self.call.kind in ("apply_edges", "edge_softmax")
        rows = "edge" if on_edges else self._name("dst")
        specs = {name: self._output(tensor, rows) for name, tensor in outputs.items()}
        written = {name: self._output(tensor, "edge") for name, tensor in self.written.items()}
        graph = self.recorder.graph
        graph.output(tuple(spec.node for spec in (*specs.values(), *written.values())))
        return Recording(
            kind=self.call.kind,
            graph=graph,
            inputs=tuple(self.recorder.inputs),
            outputs=specs,
            side_writes={
                name: spec for name, spec in written.items() if name not in specs or not on_edges
            },
            homogeneous=self.call.homogeneous,
            symbols=self.sizes.symbols(scalars),
            counts={
                size.node.expr: InputSpec("count", name=name)
                for name, size in (("edge", self.num_edges), ("dst", self.num_dst))
            },
        )

    def _output(self, tensor: Tensor, rows: str) -> RecordedOutput:
        node = self.recorder.node_of(tensor)
        return RecordedOutput(rows, tuple(tensor.shape[1:]), tensor.dtype, node)


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _definition(function) -> tuple[str | None, int]:
    """Where a function is defined; where the graph was called when it has no code."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, torch.nn.Module):
        function = function.forward
    code = getattr(function, "__code__", None)
    if code is None or is_library(code.co_filename):
        return user_place()
    return code.co_filename, code.co_firstlineno


def _place_of(error: BaseException) -> tuple[str | None, int]:
    """The user's line that an exception passed through last, or that is on the stack now."""
    place: tuple[str | None, int] = (None, 0)
    traceback = error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not is_library(name):
            place = (name, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place if place[0] is not None else user_place()
