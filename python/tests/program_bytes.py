"""Writes saved programs by hand, independently of the C++ writer: for tests of the runtime.

The format is described in gossamer/program/Serialize.h.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import torch

ABI_VERSION = 3
FORMAT_VERSION = 6


class DType(IntEnum):
    """Element types, as in Program.h."""

    F32 = 0
    F64 = 1
    I32 = 2
    I64 = 3
    BOOL = 4


class Rows(IntEnum):
    """Row sets, as in Program.h."""

    NONE = 0
    SRC = 1
    DST = 2
    NODE = 3
    EDGE = 4


@dataclass
class Value:
    """A table: its rows, and the axes after the row axis."""

    rows: Rows
    features: Sequence[int]
    dtype: DType = DType.F32
    graph: int = 0
    name: str = ""


@dataclass
class Kernel:
    """A step by one function of the code."""

    symbol: str
    rows: Rows
    inputs: Sequence[int]
    outputs: Sequence[int]
    by_source: bool = False
    uses_edges: bool = True
    graph: int = 0
    row_work: int = 1
    scratch_bytes: int = 0
    scratch_bytes_per_degree: int = 0
    gathered_bytes: int = 0
    phases: int = 0
    partial_bytes: int = 0


@dataclass
class Gemm:
    """A matrix product."""

    input: int
    weight: int
    output: int


@dataclass
class View:
    """A strided view of a table's features."""

    source: int
    output: int
    offset: int
    strides: Sequence[int]


@dataclass
class HandMade:
    """A program in Python."""

    values: Sequence[Value]
    inputs: Sequence[int]
    outputs: Sequence[int]
    steps: Sequence[Kernel | Gemm | View]
    code: bytes
    graphs: int = 1
    wide_index: bool = False
    cpu: str = ""
    abi_version: int = field(default=ABI_VERSION)

    def tensor(self) -> torch.Tensor:
        """The saved program, (bytes,) uint8."""
        payload = _payload(self)
        header = b"GOSSAMER" + struct.pack("<IIQ", self.abi_version, FORMAT_VERSION, len(payload))
        data = header + hashlib.sha256(payload).digest() + payload
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _ids(ids: Sequence[int]) -> bytes:
    return struct.pack(f"<I{len(ids)}I", len(ids), *ids)


def _numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<I{len(numbers)}q", len(numbers), *numbers)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def _value(value: Value) -> bytes:
    head = struct.pack("<BBI", value.dtype, value.rows, value.graph)
    return head + _numbers(value.features) + _text(value.name)


def _step(step: Kernel | Gemm | View) -> bytes:
    if isinstance(step, Gemm):
        return struct.pack("<BIII", 1, step.input, step.weight, step.output)
    if isinstance(step, View):
        head = struct.pack("<BIIq", 2, step.source, step.output, step.offset)
        return head + _numbers(step.strides)
    return (
        b"\0"
        + _text(step.symbol)
        + struct.pack("<BIBB", step.rows, step.graph, step.by_source, step.uses_edges)
        + _ids(step.inputs)
        + _ids(step.outputs)
        + struct.pack(
            "<6q",
            step.row_work,
            step.scratch_bytes,
            step.scratch_bytes_per_degree,
            step.gathered_bytes,
            step.phases,
            step.partial_bytes,
        )
    )


def _payload(program: HandMade) -> bytes:
    return b"".join(
        [
            struct.pack("<I", len(program.values)),
            *map(_value, program.values),
            _ids(program.inputs),
            _ids(program.outputs),
            struct.pack("<I", len(program.steps)),
            *map(_step, program.steps),
            struct.pack("<IB", program.graphs, program.wide_index),
            _text(program.cpu),
            struct.pack("<Q", len(program.code)),
            program.code,
            struct.pack("<II", 0, 0),  # variants and costs: none
        ]
    )
