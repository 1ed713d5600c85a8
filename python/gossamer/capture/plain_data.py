"""Captured calls and whole forwards as plain data: what JSON can hold, and nothing that runs.

`call_data` and `trace_data` write, `call_from` and `trace_from` read; what is read equals what was
written. Writing raises `NotPlainError` for what has no such form (a named tuple among the results
of a forward), reading raises it for what these functions have not written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from gossamer.emit.ir import Function, Op, Rows, Type, Value

from .call import CapturedCall, ColumnSpec, InputSpec, OutputSpec
from .whole_record import FieldSchema, FrameChange, Given, Made, Trace

_PLAIN = (bool, int, float, str, type(None))


class NotPlainError(Exception):
    """Something has no form as plain data, or data have another form."""


def _reads(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reader whose every failure says that the data are not of its form."""

    @functools.wraps(function)
    def read(data: Any) -> Any:
        try:
            return function(data)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise NotPlainError(str(error)) from error

    return read


# --- types and dtypes -----------------------------------------------------------------------------


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype_from(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name} is no dtype")
    return dtype


def _type(type: Type) -> list:
    rows = None if type.rows is None else [type.rows.graph, type.rows.kind]
    return [_sizes(type.features), type.dtype, rows]


def _type_from(data: list) -> Type:
    features, dtype, rows = data
    return Type(tuple(features), dtype, None if rows is None else Rows(*rows))


def _sizes(shape: tuple) -> list[int]:
    if not all(type(size) is int for size in shape):
        raise NotPlainError(f"a shape {shape}")
    return list(shape)


def _plain(value: Any) -> Any:
    if type(value) in (tuple, list):
        return [_plain(item) for item in value]
    if type(value) not in _PLAIN:
        raise NotPlainError(f"a {type(value).__name__}")
    return value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# --- functions and calls --------------------------------------------------------------------------


def _function(function: Function) -> dict:
    numbers = {id(value): number for number, value in enumerate(function.arguments)}
    ops = []
    for op in function.ops:
        attrs = {name: _plain(value) for name, value in op.attrs.items()}
        operands = [numbers[id(operand)] for operand in op.operands]
        ops.append([op.name, operands, attrs, _plain(op.place), _type(op.result.type)])
        numbers[id(op.result)] = len(numbers)
    return {
        "arguments": [[_plain(each.key), _type(each.type)] for each in function.arguments],
        "ops": ops,
        "results": [numbers[id(result)] for result in function.results],
        "num_graphs": function.num_graphs,
    }


def _function_from(data: dict) -> Function:
    arguments = tuple(Value(_type_from(type), key=key) for key, type in data["arguments"])
    values, ops = list(arguments), []
    for name, operands, attrs, place, type in data["ops"]:
        attrs = {key: _tuples(value) for key, value in attrs.items()}
        op = Op(name, tuple(values[number] for number in operands), attrs, tuple(place))
        op.result = Value(_type_from(type), op)
        ops.append(op)
        values.append(op.result)
    results = tuple(values[number] for number in data["results"])
    return Function(arguments, tuple(ops), results, data["num_graphs"])


def _input(spec: InputSpec) -> list:
    return [spec.kind, spec.frame, spec.name, spec.index, _sizes(spec.shape), _dtype(spec.dtype)]


def _input_from(data: list) -> InputSpec:
    kind, frame, name, index, shape, dtype = data
    return InputSpec(kind, frame, name, index, tuple(shape), _dtype_from(dtype))


def _outputs(outputs: dict[str, OutputSpec]) -> list:
    return [[k, v.rows, _sizes(v.shape), _dtype(v.dtype)] for k, v in outputs.items()]


def _outputs_from(data: list) -> dict[str, OutputSpec]:
    return {k: OutputSpec(rows, tuple(s), _dtype_from(dtype)) for k, rows, s, dtype in data}


def call_data(call: CapturedCall) -> dict:
    """A captured call.

    Raises:
        NotPlainError: it holds something else than numbers and text.
    """
    return {
        "kind": call.kind,
        "function": _function(call.function),
        "inputs": list(map(_input, call.inputs)),
        "outputs": _outputs(call.outputs),
        "side_writes": _outputs(call.side_writes),
        "draws_at": _plain(call.draws_at),
        "places": _plain(call.places),
        "relations": _plain(call.relations),
    }


@_reads
def call_from(data: dict) -> CapturedCall:
    """The captured call that `call_data` wrote.

    Raises:
        NotPlainError: data of another form.
    """
    return CapturedCall(
        kind=data["kind"],
        function=_function_from(data["function"]),
        inputs=tuple(map(_input_from, data["inputs"])),
        outputs=_outputs_from(data["outputs"]),
        side_writes=_outputs_from(data["side_writes"]),
        draws_at=_tuples(data["draws_at"]),
        places=_tuples(data["places"]),
        relations=_tuples(data["relations"]),
    )


# --- whole forwards -------------------------------------------------------------------------------


def _tree(value: Any) -> list:
    kind = type(value)
    if kind is Made:
        return ["made", value.name]
    if kind is Given:
        return ["given", value.kind, value.index, value.name, value.copied]
    if kind in (list, tuple):
        return [kind.__name__, *map(_tree, value)]
    if kind is dict:
        return ["dict", *([_plain(name), _tree(item)] for name, item in value.items())]
    if kind is torch.dtype:
        return ["dtype", _dtype(value)]
    if kind is torch.device:
        return ["device", str(value)]
    return ["plain", _plain(value)]


def _tree_from(data: list) -> Any:
    kind, *parts = data
    if kind == "dict":
        return {_tuples(name): _tree_from(item) for name, item in parts}
    if kind in ("list", "tuple"):
        items = map(_tree_from, parts)
        return list(items) if kind == "list" else tuple(items)
    make = {
        "made": Made,
        "given": Given,
        "dtype": _dtype_from,
        "device": torch.device,
        "plain": lambda value: value,
    }
    return make[kind](*parts)


def _schema(schema: FieldSchema | None) -> list | None:
    if schema is None:
        return None
    spec, requires_grad, plain = schema
    return [_sizes(spec.shape), _dtype(spec.dtype), requires_grad, plain]


def _schema_from(data: list | None) -> FieldSchema | None:
    if data is None:
        return None
    shape, dtype, requires_grad, plain = data
    return ColumnSpec(tuple(shape), _dtype_from(dtype)), requires_grad, plain


def trace_data(trace: Trace) -> dict:
    """A whole forward.

    Raises:
        NotPlainError: as `call_data`; or its result is of a user's class.
    """
    return {
        "call": call_data(trace.call),
        "result": _tree(trace.result),
        "changes": [
            [change.frame, _plain(change.removed), [[k, _tree(v)] for k, v in change.written]]
            for change in trace.changes
        ],
        "asked": [[frame, name, _schema(schema)] for frame, name, schema in trace.asked],
        "listed": _plain(trace.listed),
        "prefixes": _plain(trace.prefixes),
        "emptiness": _plain(trace.emptiness),
    }


@_reads
def trace_from(data: dict) -> Trace:
    """The whole forward that `trace_data` wrote.

    Raises:
        NotPlainError: data of another form.
    """
    return Trace(
        call=call_from(data["call"]),
        result=_tree_from(data["result"]),
        changes=tuple(
            FrameChange(frame, _tuples(removed), tuple((k, _tree_from(v)) for k, v in written))
            for frame, removed, written in data["changes"]
        ),
        asked=tuple((frame, name, _schema_from(schema)) for frame, name, schema in data["asked"]),
        listed=_tuples(data["listed"]),
        prefixes=_tuples(data["prefixes"]),
        emptiness=_tuples(data["emptiness"]),
    )
