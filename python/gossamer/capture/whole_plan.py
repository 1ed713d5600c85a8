"""A captured forward with its program: when it may be used, and how it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gossamer.emit import EmittedFunction, emit
from gossamer.errors import StaleFieldError
from gossamer.structure import Structure

from .call import Dag, InputSpec, Step
from .draws import draw_seed
from .past_values import PastValues
from .plan import Plan, run_tensors
from .sources import count_of, ids_of, version_of
from .whole_arguments import Arguments
from .whole_record import Given, Made, Trace, field_schema

if TYPE_CHECKING:
    from .session import Reached, Session

Read = Callable[[Arguments, "Reached"], Tensor]


class WholePlan:
    """One captured forward; may run in several threads at once.

    Raises:
        UntraceableError, CompileError: it does not compile.
    """

    def __init__(self, trace: Trace, session: Session, arguments: Arguments, reached: Reached):
        self._trace = trace
        self._session = session
        self._relations = trace.call.relations
        keep = session.options.keep_fields
        num_nodes = len(arguments.counts["node"])
        self._later = {
            made.name: _LaterField(self, made.name)
            for change in trace.changes
            if change.frame >= num_nodes and not keep
            for _, made in change.written
            if isinstance(made, Made) and not _holds(trace.result, made)
        }
        names = [name for name in trace.call.outputs if name not in self._later]
        self._numbers = {name: number for number, name in enumerate(names)}
        structures = [arguments.structure(number) for number in self._relations]
        left = tuple(
            number for number, name in enumerate(names) if not _holds(trace.result, Made(name))
        )
        left = left if len(left) < len(names) else ()
        self._plan = Plan(self.dag(names), session, structures, required=True, left=left)
        self._reads = _reads(self._plan.emitted)
        self._num_seeds = trace.call.num_seeds
        self._prepare_training(arguments, reached)
        self._result = self._builder(trace.result)

    def dag(self, names: Sequence[str]) -> Dag:
        """The forward, for some of its outputs."""
        call = self._trace.call
        step = Step(call, 0, call.inputs)
        return Dag((step,), tuple((0, name) for name in names), len(self._relations))

    def fits(self, arguments: Arguments) -> bool:
        """Whether what the capture saw beside its key is so in this call."""
        frames = arguments.frames
        trace = self._trace
        for frame, name, schema in trace.asked:
            if field_schema(frames[frame], name) != schema:
                return False
        for frame, names in trace.listed:
            if tuple(frames[frame]) != names:
                return False
        for rows, empty in trace.emptiness:
            if (arguments.count(rows) == 0) != empty:
                return False
        prefixes = [arguments.count(a) <= arguments.count(b) for a, b in trace.prefixes]
        return False not in prefixes

    def run(self, arguments: Arguments, reached: Reached) -> Any:
        """The results; fields are written to the graphs."""
        structures = [arguments.structure(number) for number in self._relations]
        if self._num_seeds:
            arguments.seeds = [draw_seed() for _ in range(self._num_seeds)]
        tensors = [read(arguments, reached) for read in self._reads]
        outputs = run_tensors(self._plan, structures, tensors)
        values = _Values(arguments, reached, outputs)
        if not self._trace.changes:
            return self._result(values)
        fields = [
            (change, [self._column(made, values) for _, made in change.written])
            for change in self._trace.changes
        ]
        result = self._result(values)
        for change, columns in fields:
            frame = arguments.frames[change.frame]
            for name in change.removed:
                del frame[name]
            for (name, _), column in zip(change.written, columns, strict=True):
                frame[name] = column
        return result

    def _column(self, made: Given | Made, values: _Values) -> Any:
        later = self._later.get(made.name) if isinstance(made, Made) else None
        if later is not None:
            return later.column(values)
        return self._builder(made)(values)

    def _builder(self, tree: Any) -> Callable[[_Values], Any]:
        """Makes a result from the outputs of a run."""
        if isinstance(tree, Made):
            number = self._numbers[tree.name]
            return lambda values: values.outputs[number]
        if isinstance(tree, Given):
            read = _given(tree)
            return lambda values: read(values.arguments, values.reached)
        if isinstance(tree, (list, tuple)):
            parts = [self._builder(item) for item in tree]
            make = tree._make if hasattr(tree, "_make") else type(tree)
            return lambda values: make([part(values) for part in parts])
        if isinstance(tree, dict):
            items = {name: self._builder(item) for name, item in tree.items()}
            return lambda values: {name: part(values) for name, part in items.items()}
        return lambda values: tree

    def _prepare_training(self, arguments: Arguments, reached: Reached) -> None:
        """Find what the compiler cannot differentiate now, while region mode is still a choice."""
        if not torch.is_grad_enabled():
            return
        inputs = enumerate(zip(self._plan.emitted.inputs, self._reads, strict=True))
        wrt = tuple(
            number
            for number, (spec, read) in inputs
            if spec.kind != "seed" and read(arguments, reached).requires_grad
        )
        if wrt:
            structures = [arguments.structure(number) for number in self._relations]
            unused = self._plan.expected_unused(wrt)
            self._plan.training(wrt, unused, structures, required=True)


class _Values:
    """What a result is built from."""

    __slots__ = ("arguments", "outputs", "past", "reached")

    def __init__(self, arguments: Arguments, reached: Reached, outputs: list[Tensor]):
        self.arguments = arguments
        self.reached = reached
        self.outputs = outputs
        self.past: PastValues | None = None


def _holds(tree: Any, wanted: Made) -> bool:
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (list, tuple)):
        return any(_holds(item, wanted) for item in tree)
    return tree == wanted


def _reads(emitted: EmittedFunction) -> list[Read]:
    return [_read(spec) for spec in emitted.inputs]


def _read(spec: InputSpec) -> Read:
    """Finds an input in a call."""
    index, name = spec.index, spec.name
    if spec.kind == "argument":
        return lambda arguments, reached: arguments.tensors[index]
    if spec.kind == "lifted":
        return lambda arguments, reached: reached.tensors[index]
    if spec.kind == "field":
        return lambda arguments, reached: arguments.frames[index][name]
    if spec.kind == "seed":
        return lambda arguments, reached: arguments.seeds[index]
    if spec.kind == "count":
        return lambda arguments, reached: count_of(arguments.counts[name][index])
    return lambda arguments, reached: ids_of(spec, arguments.structure(index))


def _given(given: Given) -> Callable[[Arguments, Reached], Any]:
    index, name = given.index, given.name

    def find(arguments: Arguments, reached: Reached) -> Any:
        if given.kind == "tensor":
            return arguments.tensors[index]
        if given.kind == "lifted":
            return reached.tensors[index]
        if given.kind == "graph":
            return arguments.originals[index]
        return arguments.frames[index][name]

    if given.copied:
        return lambda arguments, reached: find(arguments, reached).clone()
    return find


class _LaterField:
    """An edge field that is left on the graph: computed when first read, as in region mode."""

    def __init__(self, plan: WholePlan, name: str):
        self._whole = plan
        self._name = name
        self.dag = plan.dag([name])
        emitted = emit(self.dag)
        self.inputs = emitted.inputs
        self._arguments = emitted.function.arguments
        self.reads = _reads(emitted)
        self.type = emitted.types[0]
        self.spec = plan._trace.call.outputs[name]
        self._plan: Plan | None = None

    def column(self, values: _Values) -> LaterColumn:
        """The field of one call."""
        structures = [values.arguments.structure(number) for number in self._whole._relations]
        tensors = [read(values.arguments, values.reached) for read in self.reads]
        if values.past is None:
            values.past = PastValues()
        for tensor, argument in zip(tensors, self._arguments, strict=True):
            if argument.type.rows is None:
                values.past.keep(tensor)
        return LaterColumn(self, structures, tensors, values.past)

    def compute(self, structures: list[Structure], tensors: list[Tensor]) -> Tensor:
        """The field's values."""
        if self._plan is None:
            self._plan = Plan(self.dag, self._whole._session, structures)
        return run_tensors(self._plan, structures, tensors)[0]

    @property
    def place(self) -> tuple[str, int]:
        """Where forward makes it."""
        call = self._whole._trace.call
        op = call.function.results[call.fields.index(self._name)].op
        return op.place if op is not None and op.place[0] else call.place


class LaterColumn:
    """A deferred column: see `gossamer.frame.Deferred`."""

    __slots__ = (
        "_field",
        "_grad",
        "_past",
        "_structures",
        "_tensor",
        "_tensors",
        "_versions",
        "device",
        "dtype",
        "shape",
    )

    def __init__(
        self,
        field: _LaterField,
        structures: list[Structure],
        tensors: list[Tensor],
        past: PastValues,
    ):
        self._field = field
        self._past = past
        self._structures = structures
        self._tensors = tensors
        self._versions = [version_of(tensor) for tensor in tensors]
        self._grad = torch.is_grad_enabled()
        self._tensor: Tensor | None = None
        edges = structures[field.type.rows.graph].num_edges
        self.shape = torch.Size((edges, *field.spec.shape))
        self.dtype = field.spec.dtype
        self.device = structures[0].device

    def materialize(self) -> Tensor:
        """The column, computed in the first call.

        Raises:
            StaleFieldError: rows, or a large parameter, were changed in place since forward ran.
        """
        if self._tensor is None:
            with torch.set_grad_enabled(self._grad):
                tensors = list(map(self._then, self._tensors, self._versions))
                self._tensor = self._field.compute(self._structures, tensors)
            self._tensors = []
        return self._tensor

    def _then(self, tensor: Tensor, version: int | None) -> Tensor:
        """A tensor as it was when forward ran."""
        if version_of(tensor) == version:
            return tensor
        value = self._past.of(tensor)
        if value is None:
            file, line = self._field.place
            raise StaleFieldError(
                f"{file}:{line}: this edge field is computed when first read, but a tensor "
                "that it depends on was changed in place before; compile with "
                "gs.compile(..., keep_fields=True)"
            )
        return value
