"""DGL's recorded outputs: an archive for each program, an entry for each graph and output."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import torch

from programs.graphs import AnyCase
from programs.harness import Program, digest, run
from programs.library import Library, dgl_library

FOLDER = Path(__file__).resolve().parent.parent / "golden"
DIGEST = "@digest"


def path_of(program: Program) -> Path:
    return FOLDER / f"{program.name}.npz"


def record(program: Program, cases: list[AnyCase]) -> int:
    """Writes what DGL computes in float64; returns how many comparisons that makes."""
    library, entries = dgl_library(), {}
    for case in cases:
        entries[f"{case.name}/{DIGEST}"] = np.array(digest(program, case, library))
        for name, tensor in run(program, case, library).items():
            entries[f"{case.name}/{name}"] = tensor.numpy()
    np.savez_compressed(path_of(program), **entries)
    return len(cases)


@functools.cache
def _archive(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return dict(archive)


def load(program: Program, case: AnyCase, library: Library) -> dict[str, torch.Tensor]:
    """The recorded outputs and fields; LookupError when inputs or parameters have changed."""
    path = path_of(program)
    if not path.exists():
        raise LookupError(f"no recording of {program.name}: run ./dev peers --record")
    prefix = f"{case.name}/"
    entries = _archive(path).items()
    found = {key.removeprefix(prefix): value for key, value in entries if key.startswith(prefix)}
    if str(found.pop(DIGEST, None)) != digest(program, case, library):
        raise LookupError(f"{program.name} on {case.name} has changed: run ./dev peers --record")
    return {key: torch.from_numpy(np.asarray(value)) for key, value in found.items()}
