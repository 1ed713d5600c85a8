"""From captured calls to one function of the `mp` dialect, as text.

`lower.py` walks a captured graph and looks operators up in tables (`elementwise`, `shapes`,
`reductions`, `products`; `aten.py` joins them), `table.py` keeps track of rows, `ir.py` prints.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from gossamer.capture.call import CapturedForward, Dag, Produced, Step
from gossamer.capture.errors import UntraceableError

from .forward import ForwardLowering
from .ir import Builder, Function, Type, Value, text
from .lower import Lowering, Source


@dataclass(frozen=True)
class EmittedFunction:
    """A region as IR.

    Attributes:
        function: the code; `gossamer.torch_backend` runs it.
        inputs: keys of the arguments, in order; those that nothing needs are left out.
        outputs: (step, field) of the results, in order, as the sequence asked for them.
        types: types of the results.
    """

    function: Function
    inputs: tuple[Hashable, ...]
    outputs: tuple[tuple[int, str], ...]
    types: tuple[Type, ...]

    @cached_property
    def text(self) -> str:
        """MLIR text. Equal programs have equal text, whatever the graph and its size."""
        return text(self.function)


def emit(dag: Dag) -> EmittedFunction:
    """One function for captured calls in sequence. Lazy where it can be: unneeded calls vanish.

    Raises:
        UntraceableError: an operator outside the tables, or rows that meet where no row-by-row
            program exists; with file and line.
    """
    builder = Builder()
    fields: list[dict[str, Value]] = []
    for step in dag.steps:

        def source(index: int, type: Type, step=step) -> Value:
            origin = step.sources[index]
            if isinstance(origin, Produced):
                return _as_rows(builder, fields[origin.step][origin.field], type)
            return builder.argument(origin, type)

        fields.append(_lowering(builder, step, source).run())
    results = [fields[step][name] for step, name in dag.outputs]
    function = builder.finish(results, dag.num_graphs)
    inputs = tuple(argument.key for argument in function.arguments)
    return EmittedFunction(function, inputs, dag.outputs, tuple(r.type for r in results))


def _lowering(builder: Builder, step: Step, source: Source) -> Lowering:
    if isinstance(step.call, CapturedForward):
        return ForwardLowering(builder, step.call, source)
    return Lowering(builder, step.call, step.graph, source)


def _as_rows(builder: Builder, value: Value, type: Type) -> Value:
    """A produced value as rows of its consumer: the same, or the first of them."""
    if value.type == type:
        return value
    if value.type.with_rows(type.rows) != type or type.rows is None:
        raise UntraceableError(f"a field is made as {value.type} and read as {type}")
    return builder.op("mp.prefix", (value,), type)


__all__ = ["EmittedFunction", "emit"]
