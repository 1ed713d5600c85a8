"""What outputs and gradients must be: those of float64, and how far a contender may be off."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from cases import Case
from decided import decided_of
from graphs import graph_of
from layers import reference_of, workload

# The state measure: per tensor max|a - ref| / max|ref| from float64 may be this much, or this many
# times what the reference loses in float32 (the gradient of a weight that all edges share is a sum
# of a million terms that nearly cancel).
TOLERANCE, OWN_FACTOR = 1e-5, 2.0

Output = tuple[list[Tensor], dict[str, Tensor]]
Decided = Sequence[Tensor] | None


def relative_error(found: Tensor, reference: Tensor) -> float:
    """The largest difference over the largest value of the reference; infinite for NaN."""
    if found.shape != reference.shape:
        return float("inf")
    scale = float(reference.abs().max()) or 1.0
    error = float((found.double() - reference).abs().max()) / scale
    return error if error == error else float("inf")


def errors_of(found: Output, reference: Output) -> dict[str, float]:
    """The error of each output and gradient, by name."""
    outputs, gradients = reference
    errors = {
        f"output {i}" if i else "output": relative_error(y, expected)
        for i, (y, expected) in enumerate(zip(found[0], outputs, strict=True))
    }
    for name, expected in gradients.items():
        errors[f"gradient of {name}"] = relative_error(found[1][name], expected)
    return errors


def allowed(own: Mapping[str, float]) -> dict[str, float]:
    """The largest error that a contender may have, from what the reference has in float32."""
    return {name: max(TOLERANCE, OWN_FACTOR * error) for name, error in own.items()}


def exact(case: Case) -> tuple[Output, Decided]:
    """Outputs and gradients in float64, and which outputs gradients come from."""
    work = (case.layer, graph_of(case.graph), case.features, case.training)
    wide, narrow = (workload(*work, dtype) for dtype in (torch.float64, torch.float32))
    decided = decided_of(wide, narrow) if case.training else None
    return reference_of(replace(wide, decided=decided)), decided


def bounds_of(case: Case, expected: Output, decided: Decided) -> dict[str, float]:
    """The errors that are allowed, from those that the reference has in float32."""
    work = (case.layer, graph_of(case.graph), case.features, case.training)
    return allowed(errors_of(reference_of(workload(*work, decided=decided)), expected))


@dataclass(frozen=True)
class Reference:
    """What a case must give.

    Attributes:
        expected: outputs and gradients in float64.
        bounds: gives the errors that are allowed where `TOLERANCE` is not enough, by name.
        decided: as in `layers.Workload`.
    """

    expected: Output
    bounds: Callable[[], Mapping[str, float]]
    decided: Decided = None

    def wrong(self, errors: Mapping[str, float]) -> list[str]:
        """The names of errors that are too large."""
        doubted = [name for name, error in errors.items() if error > TOLERANCE]
        return [name for name in doubted if errors[name] > self.bounds()[name]]

    @property
    def undecided(self) -> int:
        """How many numbers of the outputs no gradient comes from."""
        return sum(int((~mask).sum()) for mask in self.decided or ())


def reference(case: Case) -> Reference:
    """Made here and now."""
    expected, decided = exact(case)
    return Reference(expected, functools.cache(lambda: bounds_of(case, expected, decided)), decided)


class ReferenceFiles:
    """Where references are kept.

    A case in training and the same in inference have one file: both have the same outputs.

    Args:
        folder: where the files are. cases: all that will be asked for.
    """

    def __init__(self, folder: Path, cases: Iterable[Case]) -> None:
        self._folder = folder
        self._trained = {_name(case) for case in cases if case.training}

    def place(self, case: Case) -> tuple[Path, Case]:
        """The file for a case, and the case whose references belong there."""
        mode = "training" if _name(case) in self._trained else case.mode
        return self._folder / _name(case), replace(case, mode=mode)


def keep(case: Case, path: Path) -> None:
    """Puts the reference of a case into a file."""
    torch.save(exact(case), path)


def load(path: Path, case: Case) -> Reference:
    """The reference of a case from its file; the bounds are made when they are asked for, and kept
    beside it.
    """
    expected, decided = torch.load(path)
    if not case.training:
        expected, decided = (expected[0], {}), None

    @functools.cache
    def bounds() -> Mapping[str, float]:
        beside = path.with_name(f"{path.name}-{case.mode}.json")
        if not beside.exists():
            beside.write_text(json.dumps(bounds_of(case, expected, decided)))
        return json.loads(beside.read_text())

    return Reference(expected, bounds, decided)


def _name(case: Case) -> str:
    return f"{case.layer}-{case.graph}-{case.features}"
