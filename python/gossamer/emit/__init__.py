"""From captured calls to one function of the `mp` dialect, as text.

`captured.py` makes the function of one call: `lower.py` walks its recording and looks operators up
in tables (`elementwise`, `shapes`, `reductions`, `products`; `aten.py` joins them), `table.py`
keeps track of rows. Here the functions of calls in sequence become one, which needs no table, so
that a call whose code was found on the disk needs none of that. `ir.py` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property

from gossamer.capture.call import Dag, Produced
from gossamer.capture.errors import UntraceableError

from .ir import Builder, Function, Rows, Type, Value, text


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
        UntraceableError: a field is made with other rows than it is read with.
    """
    builder = Builder()
    fields: list[dict[str, Value]] = []
    for step in dag.steps:

        def source(index: int, type: Type, step=step) -> Value:
            origin = step.sources[index]
            if isinstance(origin, Produced):
                return _as_rows(builder, fields[origin.step][origin.field], type)
            return builder.argument(origin, type)

        results = _append(builder, step.call.function, step.graph, source)
        fields.append(dict(zip(step.call.fields, results, strict=True)))
    results = [fields[step][name] for step, name in dag.outputs]
    function = builder.finish(results, dag.num_graphs)
    inputs = tuple(argument.key for argument in function.arguments)
    return EmittedFunction(function, inputs, dag.outputs, tuple(r.type for r in results))


def _append(
    builder: Builder, function: Function, graph: int, source: Callable[[int, Type], Value]
) -> list[Value]:
    """The results of a function whose graphs are those from number `graph` on."""

    def moved(type: Type) -> Type:
        rows = type.rows
        return type.with_rows(Rows(rows.graph + graph, rows.kind)) if rows and graph else type

    values = {id(each): source(each.key, moved(each.type)) for each in function.arguments}
    for op in function.ops:
        builder.place = op.place
        operands = tuple(values[id(operand)] for operand in op.operands)
        values[id(op.result)] = builder.op(op.name, operands, moved(op.result.type), **op.attrs)
    return [values[id(result)] for result in function.results]


def _as_rows(builder: Builder, value: Value, type: Type) -> Value:
    """A produced value as rows of its consumer: the same, or the first of them."""
    if value.type == type:
        return value
    if value.type.with_rows(type.rows) != type or type.rows is None:
        raise UntraceableError(f"a field is made as {value.type} and read as {type}")
    return builder.op("mp.prefix", (value,), type)


__all__ = ["EmittedFunction", "emit"]
