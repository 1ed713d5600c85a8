"""Edge fields that are computed when they are read, and the recorded calls that make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gossamer.capture.session import Captured
from gossamer.structure import Structure

if TYPE_CHECKING:
    from gossamer.capture.region import Region


@dataclass
class RecordedCall:
    """A captured call with what it reads: tensors, or fields of earlier calls."""

    captured: Captured
    structure: Structure
    sources: list[Tensor | DeferredColumn]
    versions: list[int | None]


class DeferredColumn:
    """An edge field that is computed when first read, or inside the program that needs it."""

    __slots__ = (
        "__weakref__",
        "_grad",
        "_region",
        "_tensor",
        "call",
        "device",
        "dtype",
        "field",
        "shape",
    )

    def __init__(self, region: Region, call: RecordedCall, field: str) -> None:
        output = output_of(call, field)
        self.shape = torch.Size((call.structure.num_edges, *output.shape))
        self.dtype = output.dtype
        self.device = call.structure.device
        self.call = call
        self.field = field
        self._region = region
        self._tensor: Tensor | None = None
        self._grad = torch.is_grad_enabled()

    @property
    def tensor(self) -> Tensor | None:
        """The column when it has been computed."""
        return self._tensor

    def materialize(self) -> Tensor:
        """The column, computed in the first call.

        Raises:
            StaleFieldError: rows, or a large parameter, were changed in place since the graph call.
        """
        if self._tensor is None:
            with torch.set_grad_enabled(self._grad):
                self._tensor = self._region.compute(self.call, [self.field])[0]
        return self._tensor


def output_of(call: RecordedCall, field: str) -> Any:
    """What the call says of a field that it makes."""
    captured = call.captured.call
    return captured.outputs.get(field) or captured.side_writes[field]


def closure_of(call: RecordedCall) -> list[RecordedCall]:
    """The call and the calls that make its deferred inputs, in the order they were made."""
    found: dict[int, RecordedCall] = {}

    def visit(each: RecordedCall) -> None:
        if id(each) in found:
            return
        for source in each.sources:
            if isinstance(source, DeferredColumn) and source.tensor is None:
                visit(source.call)
        found[id(each)] = each

    visit(call)
    return list(found.values())
