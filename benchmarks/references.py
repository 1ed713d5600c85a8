"""What outputs and gradients must be: those of float64, and how far a contender may be off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from cases import Case
from graphs import graph_of
from layers import reference_of, workload

# The state measure: per tensor max|a - ref| / max|ref| from float64 may be this much, or this many
# times what the reference loses in float32 (a maximum whose largest two are nearly equal may pick
# another edge).
TOLERANCE, OWN_FACTOR, OWN_SLACK = 1e-5, 4.0, 1e-6

Output = tuple[list[Tensor], dict[str, Tensor]]


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
    return {name: max(TOLERANCE, OWN_FACTOR * e + OWN_SLACK) for name, e in own.items()}


def references(case: Case) -> tuple[Output, dict[str, float]]:
    """Outputs and gradients in float64, and the errors that are allowed from them."""
    graph = graph_of(case.graph)
    exact, rounded = (
        reference_of(workload(case.layer, graph, case.features, case.training, dtype))
        for dtype in (torch.float64, torch.float32)
    )
    return exact, allowed(errors_of(rounded, exact))


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
    """Puts the references of a case into a file."""
    torch.save(references(case), path)


def load(path: Path, case: Case) -> tuple[Output, dict[str, float]]:
    """What `references` gives for a case, from its file."""
    (outputs, gradients), bounds = torch.load(path)
    if case.training:
        return (outputs, gradients), bounds
    kept = {name: bound for name, bound in bounds.items() if name.startswith("output")}
    return (outputs, {}), kept


def _name(case: Case) -> str:
    return f"{case.layer}-{case.graph}-{case.features}"
