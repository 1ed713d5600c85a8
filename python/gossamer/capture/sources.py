"""The tensors that inputs of captured calls stand for."""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from gossamer.capture.call import InputSpec
from gossamer.capture.deferred import DeferredColumn
from gossamer.capture.draws import draw_seed
from gossamer.capture.session import Captured
from gossamer.graph import Relation
from gossamer.structure import Structure
from gossamer.traced_graph import TracedStructure


def source_of(spec: InputSpec, relation: Relation, captured: Captured) -> Tensor | DeferredColumn:
    """The tensor or column that an input of a captured call stands for."""
    if spec.kind == "column":
        frames = {"src": relation.src, "dst": relation.dst, "edge": relation.edges}
        column = frames.get(spec.frame, relation.dst).peek(spec.name)
        computed = isinstance(column, (Tensor, DeferredColumn))
        return column if computed else column.materialize()
    if spec.kind == "lifted":
        return captured.lifted[spec.index]
    if spec.kind == "scalar":
        if type(relation.structure) is TracedStructure:
            return torch.full((), captured.scalars[spec.index], dtype=torch.float64)
        packed = bytearray(struct.pack("d", captured.scalars[spec.index]))
        return torch.frombuffer(packed, dtype=torch.float64).reshape(())
    if spec.kind == "seed":
        return draw_seed()
    if spec.kind == "count":
        structure = relation.structure
        return count_of(structure.num_edges if spec.name == "edge" else structure.num_dst)
    return ids_of(spec, relation.structure)


def count_of(rows: int) -> Tensor:
    """A number of rows as an input of a program."""
    return torch.full((), rows, dtype=torch.float64)


def ids_of(spec: InputSpec, structure: Structure) -> Tensor:
    """The ids that an input of kind "ids" stands for."""
    if spec.name == "src":
        return structure.src
    if spec.name == "dst":
        return structure.dst
    counts = {"edge": structure.num_edges, "src": structure.num_src}
    return torch.arange(counts.get(spec.frame, structure.num_dst), dtype=structure.idtype)


def version_of(source: Tensor | DeferredColumn) -> int | None:
    """The in-place counter of a tensor; inference tensors have none."""
    tensor = source if isinstance(source, Tensor) else source.tensor
    return None if tensor is None or tensor.is_inference() else tensor._version
