"""The error measure: per tensor max|a - ref| / max|ref|, against an eager float64 reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch

FLOAT32_BOUND = 1e-5
FLOAT64_BOUND = 1e-12
EAGER_FACTOR = 4.0
EAGER_SLACK = 1e-6

Outputs = Mapping[str, torch.Tensor]


def error(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """max|actual - reference| / max|reference| over the finite places.

    Where the reference is zero everywhere the error is absolute. Infinite when shapes differ, or
    when NaN, +inf and -inf do not stand in the same places.
    """
    if actual.shape != reference.shape:
        return float("inf")
    actual, reference = actual.detach().double(), reference.detach().double()
    finite = torch.isfinite(reference)
    special = (torch.isnan(actual) == torch.isnan(reference)) & (
        finite | torch.isnan(reference) | (actual == reference)
    )
    if not bool(special.all()) or not bool(torch.isfinite(actual[finite]).all()):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = reference[finite].abs().max().item()
    return (actual[finite] - reference[finite]).abs().max().item() / (scale or 1.0)


def assert_outputs(actual: Outputs, reference: Outputs, eager: Outputs | None = None) -> None:
    """Each tensor of `actual` is within the measure of `reference` (eager, float64).

    `eager` is the eager result in the dtype of `actual`: it settles the dtype, and for float32 how
    much error is earned. Integer and bool tensors must be equal.
    """
    assert sorted(actual) == sorted(reference), "different outputs or fields left on the graph"
    for name, value in actual.items():
        if eager is not None:
            assert value.dtype == eager[name].dtype, f"{name}: {value.dtype}, {eager[name].dtype}"
        if not value.is_floating_point():
            same = value.shape == reference[name].shape and torch.equal(value, reference[name])
            assert same, f"{name}: {value} is not {reference[name]}"
            continue
        found, bound = error(value, reference[name]), _bound(value, name, reference, eager)
        assert found <= bound, (
            f"{name} {tuple(value.shape)} {value.dtype}: error {found:.2e} is over {bound:.2e}"
        )


def _bound(value: torch.Tensor, name: str, reference: Outputs, eager: Outputs | None) -> float:
    if value.dtype == torch.float64:
        return FLOAT64_BOUND
    if eager is None:
        return FLOAT32_BOUND
    earned = EAGER_FACTOR * error(eager[name], reference[name]) + EAGER_SLACK
    return min(FLOAT32_BOUND, earned)
