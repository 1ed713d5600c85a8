"""Whether the arguments of a call are as those of an earlier one: a check in a fraction of the time
that taking them apart needs.

    form = ArgumentForm.of(arguments)
    again = form.arguments(args, kwargs)  # equal to Arguments(args, kwargs), or None

Known are graphs without batches, plain tensors and plain values, not in containers. No argument is
kept alive, and none is known by identity: the form has what the key of the arguments is made of.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.eager import EAGER
from gossamer.graph import Graph

from .whole_arguments import PLAIN, Arguments, is_plain, plain_initializers


class _TensorForm(NamedTuple):
    number: int
    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool

    def fits(self, value: Any, tensors: list[Tensor]) -> bool:
        kind = type(value)
        if kind is not Tensor and kind is not torch.nn.Parameter:
            return False
        return (
            value.shape == self.shape
            and value.dtype is self.dtype
            and value.requires_grad is self.requires_grad
            and is_plain(value)
            and _is_number(self.number, value, tensors)
        )


class _GraphForm(NamedTuple):
    number: int
    schema: Any
    idtype: torch.dtype
    rows: list[int]

    def fits(self, value: Any, graphs: list[Graph]) -> bool:
        if type(value) is not Graph or value._engine is not EAGER:
            return False
        if value._schema is not self.schema and value._schema != self.schema:
            return False
        ids = value._structures[0].src
        frames = value._node_frames + value._edge_frames
        return (
            not value._batch_nodes
            and not value._batch_edges
            and ids.dtype is self.idtype
            and ids.is_cpu
            and [frame.num_rows for frame in frames] == self.rows
            and all(map(plain_initializers, frames))
            and _is_number(self.number, value, graphs)
        )


class _PlainForm(NamedTuple):
    kind: type
    value: Any

    def fits(self, value: Any, _: list) -> bool:
        return type(value) is self.kind and value == self.value


class ArgumentForm:
    """What the arguments of one call were."""

    __slots__ = ("_counts", "_key", "_leaves", "_names", "_rows", "_sets")

    def __init__(self, arguments: Arguments, leaves: list) -> None:
        self._leaves = leaves
        self._names = list(arguments.kwargs)
        self._counts, self._sets = arguments.counts, arguments.sets
        self._rows, self._key = arguments.rows, arguments.key

    @classmethod
    def of(cls, arguments: Arguments) -> ArgumentForm | None:
        """The form of some arguments; None when there is an argument of another kind."""
        values = (*arguments.args, *arguments.kwargs.values())
        leaves = [_leaf(value, arguments) for value in values]
        return None if None in leaves else cls(arguments, leaves)

    def arguments(self, args: tuple, kwargs: dict) -> Arguments | None:
        """These arguments taken apart, or None when they are not of this form."""
        if kwargs or self._names:
            if list(kwargs) != self._names:
                return None
            values = (*args, *kwargs.values())
        else:
            values = args
        leaves = self._leaves
        if len(values) != len(leaves):
            return None
        graphs: list[Graph] = []
        tensors: list[Tensor] = []
        for value, leaf in zip(values, leaves, strict=True):
            if not leaf.fits(value, graphs if type(leaf) is _GraphForm else tensors):
                return None
        found = Arguments.__new__(Arguments)
        found.args, found.kwargs, found.seeds = args, kwargs, []
        found.graphs = found.originals = graphs
        found.tensors = tensors
        found.take_graphs()
        found.counts, found.sets = self._counts, self._sets
        found.rows, found.key = self._rows, self._key
        return found


def _is_number(number: int, value: Any, known: list) -> bool:
    """Whether `value` is number `number` of different objects; a new one is added."""
    for index, each in enumerate(known):
        if each is value:
            return index == number
    known.append(value)
    return number == len(known) - 1


def _leaf(value: Any, arguments: Arguments) -> _TensorForm | _GraphForm | _PlainForm | None:
    kind = type(value)
    if kind is Tensor or kind is torch.nn.Parameter:
        number = [each is value for each in arguments.tensors].index(True)
        return _TensorForm(number, value.shape, value.dtype, value.requires_grad)
    if kind is Graph:
        if value._batch_nodes or value._batch_edges:
            return None
        number = [each is value for each in arguments.originals].index(True)
        rows = [frame.num_rows for frame in value._node_frames + value._edge_frames]
        return _GraphForm(number, value._schema, value._structures[0].idtype, rows)
    return _PlainForm(kind, value) if kind in PLAIN else None
