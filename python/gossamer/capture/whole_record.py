"""What is kept of the capture of a whole forward, in the process and on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gossamer.frame import Frame

from .call import CapturedCall, ColumnSpec
from .whole_arguments import is_plain

#: Row shape and dtype, requires_grad, `is_plain`.
FieldSchema = tuple[ColumnSpec, bool, bool]


def field_schema(frame: Frame, key: str) -> FieldSchema | None:
    """What a capture knows of a field, or None when there is none."""
    if key not in frame:
        return None
    column = frame[key]
    spec = ColumnSpec(tuple(column.shape[1:]), column.dtype)
    return spec, column.requires_grad, is_plain(column)


@dataclass(frozen=True)
class Given:
    """A result or field that is what the call got, or was there before.

    kind "tensor", "lifted", "graph" (`index` says which), or "field" (`name` of frame `index`).
    `copied`: a new tensor with the same values.
    """

    kind: str
    index: int
    name: str = ""
    copied: bool = False


@dataclass(frozen=True)
class Made:
    """A result or field that the program makes: output `name` of the captured forward."""

    name: str


@dataclass(frozen=True)
class FrameChange:
    """What forward leaves on one frame: first fields go, then fields are written, in order."""

    frame: int
    removed: tuple[str, ...]
    written: tuple[tuple[str, Given | Made], ...]


@dataclass(frozen=True)
class Trace:
    """A captured forward.

    Attributes:
        call: the code.
        result: what forward returned, with `Given` and `Made` in the places of tensors and graphs.
        changes: fields left on the graphs.
        asked: (frame, field, schema or None where it is absent) for the fields that forward looked
            for; `listed`: (frame, all names) where it listed them.
        prefixes: row sets, as in `Arguments.rows`, of which the first has no more rows.
        emptiness: row sets, and whether they have no rows.
    """

    call: CapturedCall
    result: Any
    changes: tuple[FrameChange, ...]
    asked: tuple[tuple[int, str, FieldSchema | None], ...]
    listed: tuple[tuple[int, tuple[str, ...]], ...]
    prefixes: tuple[tuple[tuple[str, int], tuple[str, int]], ...]
    emptiness: tuple[tuple[tuple[str, int], bool], ...]
