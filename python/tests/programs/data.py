"""Test data that has the same value in float32 and float64, and on every machine.

Every number is a small dyadic fraction drawn from integers, so no rounding and no vectorised
normal generator can make two runs differ: recorded outputs stay comparable.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

FEATURE = "F"
"""Stands for the feature size in the shape of a `Rows`."""

_STEPS = 1 << 21


def generator(*names: object) -> np.random.Generator:
    """A generator that depends on nothing but `names`."""
    return np.random.default_rng(zlib.crc32("/".join(map(str, names)).encode()))


def _fraction(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-_STEPS, _STEPS, shape) / _STEPS


_KINDS: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "signed": lambda rng, shape: 2 * _fraction(rng, shape),
    "positive": lambda rng, shape: 1.25 + _fraction(rng, shape),
    "label": lambda rng, shape: rng.integers(0, 3, shape),
    "wide": lambda rng, shape: rng.integers(2**40, 2**41, shape),
    "flag": lambda rng, shape: rng.integers(0, 2, shape).astype(bool),
}
"""`signed` and `positive` are floating point; `label` (small), `wide` (past 2^32) are int64."""


@dataclass(frozen=True)
class Rows:
    """One input: a tensor with a row for each `where` ("src", "dst", "edge", a type's name).

    Rows of one name are the same numbers: on a graph whose sources and destinations are the same
    nodes, `src("x")` and `dst("x")` are one tensor; on a block the second is a prefix of the first.
    """

    name: str
    where: str
    shape: tuple[int | str, ...]
    kind: str = "signed"

    def draw(self, count: int, feat: int, dtype: torch.dtype, *seed: object) -> torch.Tensor:
        """`(count, *shape)`, of `dtype` unless the kind is an integer or bool one."""
        shape = tuple(feat if size == FEATURE else int(size) for size in self.shape)
        values = torch.from_numpy(np.asarray(_KINDS[self.kind](generator(*seed), (count, *shape))))
        return values.to(dtype) if values.is_floating_point() else values


def src(name: str, *shape: int | str, kind: str = "signed") -> Rows:
    return Rows(name, "src", shape, kind)


def dst(name: str, *shape: int | str, kind: str = "signed") -> Rows:
    return Rows(name, "dst", shape, kind)


def edge(name: str, *shape: int | str, kind: str = "signed") -> Rows:
    return Rows(name, "edge", shape, kind)


def fill_parameters(model: nn.Module, seed: object) -> None:
    """Gives every floating point parameter signed values of the size of an ordinary initialisation.

    The scale is a power of two, so a float32 model and its float64 copy hold equal numbers.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            fan_in = parameter.shape[-1] if parameter.dim() else 1
            scale = 2.0 ** -round(np.log2(max(fan_in, 1)) / 2)
            values = _fraction(generator(seed, name), tuple(parameter.shape)) * scale
            parameter.copy_(torch.from_numpy(np.asarray(values)))
