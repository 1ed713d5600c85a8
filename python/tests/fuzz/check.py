"""Runs a trial: eager and compiled execution must agree in outputs and in all gradients."""

from __future__ import annotations

import importlib.util
import itertools
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import gossamer as gs
from fuzz.rounding import RoundingNoise
from fuzz.trials import Trial
from gossamer import native
from gossamer.capture.session import Options
from gossamer.compiled import CompiledModule
from programs.data import Rows, fill_parameters
from programs.library import gossamer_library
from programs.measure import EAGER_FACTOR, EAGER_SLACK, FLOAT32_BOUND, FLOAT64_BOUND, error
from programs.threads import threads

FLOAT64_GRADIENT_BOUND = 1e-10
NOISE_FACTOR = 10.0
NOISE_SEEDS = range(3)
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
BFLOAT16_BOUND = 8 * UNIT[torch.bfloat16]

Results = dict[str, torch.Tensor]
_numbers = itertools.count()


class Disagreement(AssertionError):
    """Two executions of a trial differ by more than rounding explains."""


def load(source: str, folder: Path) -> ModuleType:
    """The module of a drawn program, from a file of its own."""
    path = folder / f"drawn{next(_numbers)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Outcome:
    """How a trial went that did not fail.

    Attributes:
        kind: "compiled"; "rounding" when results differ no more than rounding noise moves them;
            "refused: " and why when the program ran eagerly, as uncompilable ones must.
        whole: the last call was one program for the whole forward.
        without: passes that a compilation left out, each name once for each such compilation.
    """

    kind: str
    whole: bool = False
    without: tuple[str, ...] = ()

    @property
    def compiled(self) -> bool:
        """The program ran under fallback="error"."""
        return self.kind in ("compiled", "rounding")


def check(trial: Trial, folder: Path | None = None) -> Outcome:
    """Compares every execution of a trial.

    Raises:
        Disagreement: two executions differ, or a program that must fall back did not say so.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as name:
            return check(trial, Path(name))
    return _Check(trial, load(trial.source, folder)).run()


class _Check:
    def __init__(self, trial: Trial, module: ModuleType) -> None:
        self.trial, self.module = trial, module
        self.dtype = getattr(torch, trial.settings.dtype)
        self.noise: Results | None = None
        with threads(1):
            self.reference = self.evaluate(self.model(torch.float64), torch.float64)
            single = self.dtype != torch.float64
            self.eager = self.evaluate(self.model(self.dtype), self.dtype) if single else None

    def run(self) -> Outcome:
        settings = self.trial.settings
        try:
            kind, whole = self.compare_compiled(())
        except gs.errors.UnsupportedError as refusal:
            return Outcome(self.compare_fallback(refusal))
        if not self.trial.compilable:
            raise Disagreement("an uncompilable program ran under fallback='error'")
        for without in settings.without:
            kind = max(kind, self.compare_compiled(without)[0])
        return Outcome(kind, whole, tuple(name for names in settings.without for name in names))

    def compare_compiled(self, without: tuple[str, ...]) -> tuple[str, bool]:
        """A compiled module, call by call; with two threads the same bits.

        Returns the kind of outcome, and whether the last call ran the whole forward as one program.
        """
        label = f"without {', '.join(without)}" if without else "compiled"
        settings = self.trial.settings
        options = Options(fallback="error", numerics=settings.numerics, without=without)
        fast = CompiledModule(self.model(self.dtype), options)
        kinds = []
        for call in range(settings.calls):
            name = f"{label}, call {call}"
            with threads(1):
                found = self.evaluate(fast, self.dtype)
            kinds.append(self.compare(found, name))
            with threads(2), nullcontext() if call else _Regions():
                self.compare_bits(self.evaluate(fast, self.dtype), found, name, "with two threads")
        for number in settings.variants:
            with threads(1), native.forced_variant(number):
                found = self.evaluate(fast, self.dtype)
            kinds.append(self.compare(found, f"{label}, variant {number}"))
        if settings.thorough and not without:
            self.compare_changed(fast)
        report = gs.explain(fast)
        if report.fallbacks:
            raise Disagreement(f"{label}: the compiler refused {report.fallbacks[0]}")
        return max(kinds), report.mode == "whole"

    def compare_changed(self, fast: CompiledModule) -> None:
        """What is changed in place before the backward changes no gradient, or torch refuses."""
        with threads(1):
            found = self.evaluate(fast, self.dtype)
            inputs = [rows.name for rows in self.trial.rows]
            for name in [*inputs, *dict(fast.named_parameters())]:
                try:
                    changed = self.evaluate(fast, self.dtype, change=name)
                except RuntimeError as error:
                    if "inplace operation" not in str(error):
                        raise
                else:
                    self.compare_bits(changed, found, "compiled", f"when {name} changed")

    def compare_fallback(self, refusal: gs.errors.UnsupportedError) -> str:
        """What cannot be compiled runs eagerly, with equal results, and is reported."""
        fast = gs.compile(self.model(self.dtype))
        with threads(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.errors.FallbackWarning)
            for call in range(self.trial.settings.calls):
                found = self.evaluate(fast, self.dtype)
                self.compare(found, f"with fallback, call {call}")
        if not any(fall.reason and fall.line for fall in gs.explain(fast).fallbacks):
            raise Disagreement("the program fell back, and the report has no reason with a line")
        return f"refused: {refusal.reason}"

    # --- one execution ----------------------------------------------------------------------------

    def model(self, dtype: torch.dtype) -> nn.Module:
        model = self.module.Model()
        fill_parameters(model, self.trial.seed)
        return model.to(self.dtype).to(dtype)

    def evaluate(self, model: nn.Module, dtype: torch.dtype, change: str = "") -> Results:
        """Outputs, and gradients of a weighted sum of them for every input and parameter.

        The input or parameter `change` is changed in place between forward and backward.
        """
        rows, graph = self.trial.rows, self.trial.graph
        inputs = {spec.name: self.draw(spec, dtype) for spec in rows}
        given = {name: x.clone() if name == change else x for name, x in inputs.items()}
        outputs = model(*graph.build(gossamer_library()), *given.values())
        leaves = {name: x for name, x in inputs.items() if x.requires_grad}
        leaves |= dict(model.named_parameters())
        total = sum((v * _weights(k, v)).sum() for k, v in outputs.items() if v.requires_grad)
        results = {name: value.detach().clone() for name, value in outputs.items()}
        found: Any = [None] * len(leaves)
        with _changed((leaves | given)[change]) if change else nullcontext():
            if isinstance(total, torch.Tensor):
                found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        for (name, leaf), grad in zip(leaves.items(), found, strict=True):
            results[f"gradient of {name}"] = torch.zeros_like(leaf) if grad is None else grad
        return results

    def draw(self, spec: Rows, dtype: torch.dtype) -> torch.Tensor:
        count = self.trial.graph.count(spec.where)
        value = spec.draw(count, 0, self.dtype, self.trial.seed, spec.name)
        if not value.is_floating_point():
            return value
        return value.to(dtype).requires_grad_()

    # --- comparisons ------------------------------------------------------------------------------

    def compare(self, found: Results, label: str) -> str:
        """Raises unless every tensor is within the measure, or within what rounding may do."""
        if sorted(found) != sorted(self.reference):
            raise Disagreement(f"{label}: {sorted(found)} instead of {sorted(self.reference)}")
        outcome = "compiled"
        for name, value in found.items():
            if value.dtype != (self.reference if self.eager is None else self.eager)[name].dtype:
                raise Disagreement(f"{label}: {name} is {value.dtype}")
            distance, bound = error(value, self.reference[name]), self.bound(name)
            if distance <= bound:
                continue
            allowed = NOISE_FACTOR * self.rounding(name)
            if not distance <= allowed:
                raise Disagreement(
                    f"{label}: {name} {tuple(value.shape)} differs by {distance:.2e}; the bound is "
                    f"{bound:.2e}, rounding explains {allowed:.2e}\nfound\n{value}\n"
                    f"reference\n{self.reference[name]}"
                )
            outcome = "rounding"
        return outcome

    def compare_bits(self, found: Results, before: Results, label: str, when: str) -> None:
        for name, value in found.items():
            if not torch.equal(value.nan_to_num(7.0), before[name].nan_to_num(7.0)):
                gap = (value - before[name]).abs().max().item()
                raise Disagreement(f"{label}: {name} changes by {gap:.2e} {when}")

    def bound(self, name: str) -> float:
        """The error measure of one tensor."""
        if self.eager is None:
            return FLOAT64_GRADIENT_BOUND if name.startswith("gradient") else FLOAT64_BOUND
        earned = EAGER_FACTOR * error(self.eager[name], self.reference[name]) + EAGER_SLACK
        return min(BFLOAT16_BOUND if self.dtype == torch.bfloat16 else FLOAT32_BOUND, earned)

    def rounding(self, name: str) -> float:
        """How far noise of the size of rounding errors moves a tensor of the eager result."""
        if self.noise is None:
            self.noise = dict.fromkeys(self.reference, 0.0)
            model = self.model(torch.float64)
            for seed in NOISE_SEEDS:
                with threads(1), RoundingNoise(UNIT[self.dtype], seed):
                    moved = self.evaluate(model, torch.float64)
                for key, value in moved.items():
                    self.noise[key] = max(self.noise[key], error(value, self.reference[key]))
        return self.noise[name]


@contextmanager
def _changed(tensor: torch.Tensor) -> Iterator[None]:
    """Other numbers in a tensor while the context is open; labels stay labels."""
    before = tensor.detach().clone()
    with torch.no_grad():
        tensor.copy_(before.flip(0) if before.dim() else before + 1)
        if tensor.is_floating_point():
            tensor.add_(1)
    try:
        yield
    finally:
        with torch.no_grad():
            tensor.copy_(before)


def _weights(name: str, value: torch.Tensor) -> torch.Tensor:
    if value.dim() == 0:
        return torch.ones((), dtype=value.dtype)
    spec = Rows(name, "output", tuple(value.shape[1:]))
    return spec.draw(value.shape[0], 0, value.dtype, "weights", name)


class _Regions(TorchFunctionMode):
    """A compiled module stays in region mode: a mode could see every operator of forward."""

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        return func(*args, **(kwargs or {}))
