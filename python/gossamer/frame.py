"""Features: named columns with one row per node or per edge.

A column is a tensor, or a *deferred* column: an object with attributes `shape` and `dtype` and a
method `materialize() -> Tensor` that computes the tensor once and returns the same one later.
Reading a field through a `Frame` gives a tensor always; `peek` gives the column as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from gossamer.errors import (
    GraphError,
    MissingFieldError,
    ResultTypeError,
    RowCountError,
    SchemaError,
)

#: Fills new rows: (shape, dtype, device, slice of row ids) -> tensor of that shape. DGL's
#: signature.
Initializer = Callable[[tuple[int, ...], torch.dtype, torch.device, slice], Tensor]


@runtime_checkable
class Deferred(Protocol):
    """A column that is computed when first read."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def materialize(self) -> Tensor:
        """Return the column's tensor, computing it in the first call."""


Column = Tensor | Deferred


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, rows: slice) -> Tensor:
    """The default initializer."""
    return torch.zeros(shape, dtype=dtype, device=device)


class Initializers:
    """What rows hold that nobody has written: one default and exceptions by field."""

    __slots__ = ("by_field", "default")

    def __init__(
        self, default: Initializer = zeros, by_field: Mapping[str, Initializer] | None = None
    ):
        self.default = default
        self.by_field = dict(by_field or {})

    def get(self, field: str) -> Initializer:
        """The initializer of `field`."""
        return self.by_field.get(field, self.default)

    def set(self, initializer: Initializer, field: str | None = None) -> None:
        """Set the default (`field=None`) or the initializer of one field."""
        if field is None:
            self.default = initializer
        else:
            self.by_field[field] = initializer

    def copy(self) -> Initializers:
        """An independent copy."""
        return Initializers(self.default, self.by_field)


class GatheredColumn:
    """Rows `ids` of another column, gathered when first read."""

    __slots__ = ("_ids", "_source", "_tensor", "device", "dtype", "shape")

    def __init__(self, source: Column, ids: Tensor):
        self.shape = torch.Size((ids.shape[0], *source.shape[1:]))
        self.dtype = source.dtype
        self.device = ids.device
        self._source = source
        self._ids = ids
        self._tensor: Tensor | None = None

    def materialize(self) -> Tensor:
        """Gather once; release the source."""
        if self._tensor is None:
            self._tensor = resolve(self._source).index_select(0, self._ids)
            self._source = self._ids = None
        return self._tensor


def resolve(column: Column) -> Tensor:
    """The tensor of a column."""
    return column if isinstance(column, Tensor) else column.materialize()


class Frame(MutableMapping[str, Tensor]):
    """Columns of `num_rows` rows on one device.

    Args:
        num_rows: rows of every column.
        kind: "nodes" or "edges", for messages.
        device: where columns must be; None accepts any device.
        columns: the mapping that holds the columns. It is used, not copied, so two frames (or a
            frame and a foreign store) may share one.
        initializers: what unwritten rows hold; shared, not copied.
    """

    __slots__ = ("_columns", "device", "initializers", "kind", "num_rows", "written")

    def __init__(
        self,
        num_rows: int,
        kind: str,
        device: torch.device | None = None,
        columns: MutableMapping[str, Column] | None = None,
        initializers: Initializers | None = None,
    ):
        self.num_rows = num_rows
        self.kind = kind
        self.device = device
        self.initializers = Initializers() if initializers is None else initializers
        #: Names of fields written since `track_writes`, in order; None when not tracked.
        self.written: dict[str, None] | None = None
        self._columns = {} if columns is None else columns

    # --- fields ---------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Tensor:
        try:
            column = self._columns[key]
        except KeyError:
            raise MissingFieldError(key, f"the {self.kind} frame", self._columns) from None
        if isinstance(column, Tensor):
            return column
        tensor = column.materialize()
        self._columns[key] = tensor
        return tensor

    def __setitem__(self, key: str, column: Column) -> None:
        self.check(key, column, self.num_rows)
        if self.written is not None:
            self.written[key] = None
        self._columns[key] = column

    def __delitem__(self, key: str) -> None:
        try:
            del self._columns[key]
        except KeyError:
            raise MissingFieldError(key, f"the {self.kind} frame", self._columns) from None

    def __contains__(self, key: object) -> bool:
        return key in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return repr(dict(self))

    def peek(self, key: str) -> Column:
        """The column as it is stored, not computed if it is deferred. KeyError when absent."""
        try:
            return self._columns[key]
        except KeyError:
            raise MissingFieldError(key, f"the {self.kind} frame", self._columns) from None

    def schemes(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Per field: shape of one row, and dtype."""
        columns = {key: self.peek(key) for key in self}
        return {key: (tuple(column.shape[1:]), column.dtype) for key, column in columns.items()}

    # --- rows -----------------------------------------------------------------------------------

    def initial(self, key: str, num_rows: int, like: Column, start: int = 0) -> Tensor:
        """`num_rows` rows for field `key` from its initializer, shaped like rows of `like`."""
        shape = (num_rows, *like.shape[1:])
        device = self.device if self.device is not None else like.device
        rows = slice(start, start + num_rows)
        return self.initializers.get(key)(shape, like.dtype, device, rows)

    def assign(self, values: Mapping[str, Column]) -> None:
        """Write whole columns, replacing what is there; nothing is written on an error."""
        for key, column in values.items():
            self.check(key, column, self.num_rows)
        self.update(values)

    def update_rows(self, ids: Tensor, values: Mapping[str, Tensor]) -> None:
        """Write rows `ids` (int32/int64, shape (R,)) out of place; nothing is written on an error.

        A new field gets its initializer in the other rows.

        Raises:
            RowCountError: a value does not have R rows.
            SchemaError: an existing column has another row shape or dtype.
        """
        columns = {}
        for key, value in values.items():
            self.check(key, value, ids.shape[0])
            value = resolve(value)
            if key in self:
                old = self[key]
                self._check_scheme(key, old, value)
            else:
                old = self.initial(key, self.num_rows, value)
            columns[key] = old.index_copy(0, ids.long(), value)
        self.assign(columns)

    def subframe(self, ids: Tensor) -> Frame:
        """A frame of rows `ids`, each column gathered when first read."""
        columns = {key: GatheredColumn(self.peek(key), ids) for key in self}
        return Frame(ids.shape[0], self.kind, self.device, columns, self.initializers)

    def extended(self, num_rows: int, values: Mapping[str, Tensor] | None = None) -> Frame:
        """A frame with `num_rows` more rows, from `values` or the initializers."""
        values = values or {}
        for key, value in values.items():
            self.check(key, value, num_rows)
        frame = self.clone()
        frame.num_rows += num_rows
        for key in {**dict.fromkeys(self), **dict.fromkeys(values)}:
            new = values.get(key)
            if new is None:
                new = self.initial(key, num_rows, self[key], self.num_rows)
            old = self[key] if key in self else self.initial(key, self.num_rows, new)
            self._check_scheme(key, old, new)
            frame[key] = torch.cat([old, new])
        return frame

    # --- copies ---------------------------------------------------------------------------------

    def clone(self) -> Frame:
        """A frame of its own with the same columns; tensors are shared, deferred columns stay
        so.
        """
        columns = {key: self._columns[key] for key in self._columns}
        return Frame(self.num_rows, self.kind, self.device, columns, self.initializers.copy())

    def track_writes(self) -> Frame:
        """Start recording the names of written fields in `written`; returns self."""
        self.written = {}
        return self

    def map(self, convert: Callable[[Tensor], Tensor], device: torch.device | None = None) -> Frame:
        """A frame of its own whose columns are `convert(column)`, on `device`."""
        columns = {key: convert(self[key]) for key in self}
        device = self.device if device is None else device
        return Frame(self.num_rows, self.kind, device, columns, self.initializers.copy())

    def __reduce__(self):
        state = (self.num_rows, self.kind, self.device, dict(self), self.initializers.copy())
        return Frame, state

    # --- checks ---------------------------------------------------------------------------------

    def check(self, key: str, column: Column, num_rows: int) -> None:
        """Raise unless `column` is one with `num_rows` rows on this frame's device."""
        if not isinstance(column, Tensor | Deferred):
            raise ResultTypeError(
                f"field {key!r} of {self.kind}: expected a tensor, got {type(column).__name__}"
            )
        if len(column.shape) == 0:
            raise RowCountError(
                f"field {key!r} has no rows (a 0-dimensional tensor); "
                f"{num_rows} {self.kind} need one row each"
            )
        if column.shape[0] != num_rows:
            raise RowCountError(
                f"Expect number of features to match number of {self.kind}: "
                f"field {key!r} has {column.shape[0]} rows, there are {num_rows} {self.kind}"
            )
        device = getattr(column, "device", self.device)
        if self.device is not None and device != self.device:
            raise GraphError(
                f"Cannot assign {self.kind[:-1]} feature {key!r} on device {device} to a graph on "
                f"device {self.device}; move one of them with .to()"
            )

    def _check_scheme(self, key: str, old: Tensor, new: Tensor) -> None:
        if old.shape[1:] != new.shape[1:] or old.dtype != new.dtype:
            raise SchemaError(
                f"Cannot update column of scheme {tuple(old.shape[1:])}, {old.dtype} with rows of "
                f"scheme {tuple(new.shape[1:])}, {new.dtype} (field {key!r} of {self.kind})"
            )
