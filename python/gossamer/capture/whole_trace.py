"""The capture of a whole forward: what it makes of its graphs, tensors and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from gossamer.emit.captured import captured
from gossamer.graph import Graph

from .call import Ends, ForwardRecording, InputSpec, RecordedOutput, Symbols
from .errors import UntraceableError
from .recorder import Recorder
from .refusal import CannotSnapshot
from .snapshot import snapshot
from .substitute import substitute
from .tracer import TRACING, capturing
from .whole_arguments import Arguments, rebuilt
from .whole_graph import Columns, WholeFrame, WholeGraphs
from .whole_record import FrameChange, Given, Made, Trace


def trace_forward(function: Callable, arguments: Arguments, reached: Any, rng: str) -> Trace:
    """Run a copy of `function` without data.

    Raises:
        UntraceableError, CannotSnapshot: what stands against one program.
    """
    with TRACING:
        return _ForwardTrace(arguments, reached, rng).run(function)


class _ForwardTrace:
    def __init__(self, arguments: Arguments, reached: Any, rng: str):
        self.arguments = arguments
        self.lifted = reached.tensors
        self.recorder = Recorder(reached.tensors, rng)
        self.graphs = WholeGraphs(self.recorder, arguments.graphs, arguments.sets)
        self.row_sets = self.graphs.sizes
        self.recorder.row_counts = {
            size.node.expr: arguments.count(rows) for rows, size in self.row_sets.items()
        }
        self.tensors = [
            self._tensor(index, tensor, rows)
            for index, (tensor, rows) in enumerate(
                zip(arguments.tensors, arguments.rows, strict=True)
            )
        ]
        self.outputs: dict[str, Tensor] = {}

    def _tensor(self, index: int, tensor: Tensor, rows: tuple[str, int] | None) -> Tensor:
        shape = tuple(tensor.shape if rows is None else tensor.shape[1:])
        frame = "" if rows is None else "rows"
        spec = InputSpec("argument", frame, "", index, shape, tensor.dtype)
        size = None if rows is None else self.row_sets[rows]
        made = self.recorder.input(spec, size, True)
        self.recorder.node_of(made).meta["loc"] = None  # the caller's line says nothing
        return made

    def run(self, function: Callable) -> Trace:
        copy = substitute(function, {})
        before = snapshot(copy, traced=True)
        args, kwargs = self.arguments.replaced(self.graphs.graphs, self.tensors)
        same = rebuilt((args, kwargs), lambda leaf: leaf)
        grad = torch.is_grad_enabled()
        with capturing(self.recorder):
            result = copy(*args, **kwargs)
            if torch.is_grad_enabled() != grad:
                raise UntraceableError("forward changes the gradient mode")
        if not before.unchanged(copy):
            raise UntraceableError("forward changes an object that outlives the call")
        if not _identical((args, kwargs), same):
            raise UntraceableError("forward changes a container among its arguments")
        tree = self._described(result, _objects(copy))
        changes = self._changes()
        self._check_separate()
        return self._trace(tree, changes)

    # --- results ----------------------------------------------------------------------------------

    def _described(self, value: Any, known: set[int]) -> Any:
        kind = type(value)
        if isinstance(value, (list, tuple, dict)) and id(value) in known:
            raise UntraceableError("forward returns a container that outlives the call")
        if kind in (list, tuple):
            return kind([self._described(item, known) for item in value])
        if kind is dict:
            return {name: self._described(item, known) for name, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*[self._described(item, known) for item in value])
        if isinstance(value, Tensor):
            return self._tensor_result(value)
        if isinstance(value, Graph):
            return Given("graph", _position(value, self.graphs.graphs, "a graph made in forward"))
        if value is None or kind in (bool, int, float, str, torch.dtype, torch.device):
            return value
        raise UntraceableError(f"forward returns a {kind.__name__}")

    def _tensor_result(self, tensor: Tensor) -> Given | Made:
        for index, known in enumerate(self.tensors):
            if known is tensor:
                return Given("tensor", index)
        for number, source in enumerate(self.graphs.sources):
            name = source.name_of(tensor)
            if name is not None:
                return Given("field", number, name)
        if not isinstance(tensor, FakeTensor):
            return Given("lifted", _position(tensor, self.lifted, "a tensor from elsewhere"))
        node = self.recorder.node_of(tensor)
        if node.op == "placeholder":
            return self._input_copy(node, tensor)
        for name, known in self.outputs.items():
            if known is tensor:
                return Made(name)
        name = str(len(self.outputs))
        self.outputs[name] = tensor
        return Made(name)

    def _input_copy(self, node: Any, tensor: Tensor) -> Given:
        """A new tensor with the values of an input, or the lifted tensor itself."""
        placeholders = self.recorder.graph.find_nodes(op="placeholder")
        spec = self.recorder.inputs[placeholders.index(node)]
        if spec.kind == "lifted":
            return Given("lifted", spec.index, copied=not self.recorder.is_protected(tensor))
        if spec.kind == "argument":
            return Given("tensor", spec.index, copied=True)
        if spec.kind == "field":
            return Given("field", spec.index, spec.name, copied=True)
        raise UntraceableError("forward returns node or edge ids")

    def _changes(self) -> tuple[FrameChange, ...]:
        frames: list[WholeFrame] = []
        for graph in self.graphs.graphs:
            frames += graph._node_frames
        for graph in self.graphs.graphs:
            frames += graph._edge_frames
        changes = []
        for number, frame in enumerate(frames):
            columns: Columns = frame.columns
            if columns.written or columns.removed:
                removed = tuple(n for n in sorted(columns.removed) if columns.source.has(n))
                written = [(n, self._tensor_result(t)) for n, t in columns.written.items()]
                changes.append(FrameChange(number, removed, tuple(written)))
        return tuple(changes)

    def _check_separate(self) -> None:
        """Refuse results that share memory with each other or with an input."""
        memories = []
        for tensor in self.outputs.values():
            if self.recorder.is_protected(tensor):
                raise UntraceableError("a result of forward is a view of one of its inputs")
            memories.append(self.recorder.memory(tensor))
        if len(set(memories)) < len(memories):
            raise UntraceableError("two results of forward show the same memory")

    # --- the record -------------------------------------------------------------------------------

    def _trace(self, tree: Any, changes: tuple[FrameChange, ...]) -> Trace:
        outputs = {
            name: RecordedOutput(
                "rows",
                tuple(size for size in tensor.shape if isinstance(size, int)),
                tensor.dtype,
                self.recorder.node_of(tensor),
            )
            for name, tensor in self.outputs.items()
        }
        graph = self.recorder.graph
        graph.output(tuple(spec.node for spec in outputs.values()))
        sources = list(enumerate(self.graphs.sources))
        row_sets = {size.node.expr: rows for rows, size in self.row_sets.items()}
        recording = ForwardRecording(
            kind="forward",
            graph=graph,
            inputs=tuple(self.recorder.inputs),
            outputs=outputs,
            side_writes={},
            homogeneous=False,
            symbols=Symbols(*[sympy.Dummy(name) for name in "sdek"], ()),
            relations=self._relations(),
            counts={
                size.node.expr: InputSpec("count", name=kind, index=number)
                for (kind, number), size in self.row_sets.items()
            },
        )
        return Trace(
            call=captured(recording),
            result=tree,
            changes=changes,
            asked=tuple((i, k, v) for i, source in sources for k, v in source.asked.items()),
            listed=tuple((i, source.listed) for i, source in sources if source.listed is not None),
            prefixes=tuple((row_sets[a], row_sets[b]) for a, b in self.recorder.prefixes),
            emptiness=tuple((row_sets[a], no) for a, no in self.recorder.emptiness.items()),
        )

    def _relations(self) -> tuple[Ends, ...]:
        """The relations that operators name, and those needed to name other rows."""
        structures = self.graphs.structures
        used = [spec.index for spec in self.recorder.inputs if spec.kind == "ids"]
        used = list(dict.fromkeys(used))
        if not used:
            raise UntraceableError("forward passes no messages")
        named = {symbol for index in used for symbol in self._names(index)}
        for size in self._sizes():
            if size not in named:
                index = self._with_rows(size)
                used += [index] if index not in used else []
                named |= {each.node.expr for each in structures[index].sizes}
        used.sort()
        ends = []
        for index in used:
            structure = structures[index]
            ends.append(Ends(index, structure.homogeneous, structure.sizes.symbols()))
        return tuple(ends)

    def _names(self, index: int) -> list[Any]:
        """The row sets that are at home in a relation: the rows of a batch are so elsewhere."""
        sizes = self.graphs.structures[index].sizes
        members = index >= len(self.arguments.structures)
        return [size.node.expr for size in (sizes[1:2] if members else sizes)]

    def _sizes(self) -> list[Any]:
        """Numbers of nodes and edges in the shapes of the record."""
        rows = {size.node.expr for size in self.row_sets.values()}
        found: dict[Any, None] = {}
        for node in self.recorder.graph.nodes:
            meta = node.meta.get("val", ())
            for each in meta if isinstance(meta, tuple) else (meta,):
                for size in each.shape:
                    if isinstance(size, torch.SymInt) and size.node.expr in rows:
                        found[size.node.expr] = None
        return list(found)

    def _with_rows(self, symbol: Any) -> int:
        for index, structure in enumerate(self.graphs.structures):
            if any(size.node.expr == symbol for size in structure.sizes):
                return index
        raise UntraceableError("nodes of a type without relations are computed on")


def _position(value: Any, among: list, what: str) -> int:
    for index, each in enumerate(among):
        if each is value:
            return index
    raise UntraceableError(f"forward returns {what}")


def _identical(left: Any, right: Any) -> bool:
    """Whether nested containers hold the same objects."""
    if type(left) is not type(right):
        return False
    if type(left) in (list, tuple):
        return len(left) == len(right) and all(map(_identical, left, right))
    if type(left) is dict:
        return list(left) == list(right) and all(map(_identical, left.values(), right.values()))
    return left is right


def _objects(copy: Callable) -> set[int]:
    """Ids of what a callable reaches."""
    from .snapshot import walk_all

    try:
        return {id(each) for each in walk_all(copy, traced=True).objects}
    except CannotSnapshot as error:
        raise UntraceableError(error.reason) from error
