"""From the recording of a call to what is kept of it: its code as IR, and plain facts."""

from __future__ import annotations

from gossamer.capture.call import CapturedCall, ForwardRecording, OutputSpec, Recording

from .forward import ForwardLowering
from .ir import Builder, Type, Value
from .lower import Lowering


def captured(recording: Recording) -> CapturedCall:
    """The captured call.

    Raises:
        UntraceableError: an operator outside the tables, or rows that meet where no row-by-row
            program exists; with file and line.
    """
    builder = Builder()
    forward = isinstance(recording, ForwardRecording)
    relations = tuple(ends.number for ends in recording.relations) if forward else (0,)

    def source(index: int, type: Type) -> Value:
        return builder.argument(index, type)

    lowering = (
        ForwardLowering(builder, recording, source)
        if forward
        else Lowering(builder, recording, 0, source)
    )
    made = lowering.run()
    outputs, side_writes = _plain(recording.outputs), _plain(recording.side_writes)
    names = [*outputs, *(name for name in side_writes if name not in outputs)]
    return CapturedCall(
        kind=recording.kind,
        function=builder.finish([made[name] for name in names], len(relations)),
        inputs=tuple(lowering.inputs),
        outputs=outputs,
        side_writes=side_writes,
        draws_at=_draws_at(recording),
        places=_places(recording),
        relations=relations,
    )


def _plain(outputs: dict) -> dict[str, OutputSpec]:
    return {name: OutputSpec(each.rows, each.shape, each.dtype) for name, each in outputs.items()}


def _draws_at(recording: Recording) -> tuple[str, int] | None:
    """Where the functions draw their first random number, if any."""
    placeholders = recording.graph.find_nodes(op="placeholder")
    for node, spec in zip(placeholders, recording.inputs, strict=True):
        if spec.kind == "seed":
            return next(iter(node.users)).meta["loc"]
    return None


def _places(recording: Recording) -> tuple[tuple[str, int], ...]:
    found = (node.meta.get("loc") for node in recording.graph.nodes)
    return tuple(dict.fromkeys(place for place in found if place and place[0]))
