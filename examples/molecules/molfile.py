"""Molecules from SDF files: the V2000 molblock, and the data items behind it.

Follows "CTfile Formats" (BIOVIA): fixed columns, charges from the atom lines unless `M  CHG` lines
replace them. What this reader has no use for (coordinates, stereo, queries) is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Charge by the code in an atom line; 4 is a radical without charge.
CHARGES = (0, 3, 2, 1, 0, -1, -2, -3)
BOND_TYPES = (1, 2, 3, 4)  # single, double, triple, aromatic


class DamagedRecord(ValueError):
    """A record that is not a molecule; says which file and line, and what is wrong there."""


@dataclass(frozen=True)
class Molecule:
    """One record.

    Attributes:
        elements, charges: one entry for each atom.
        bonds: (first atom, second atom, type), atoms from 0; each bond once.
        data: the data items, by name.
    """

    title: str
    elements: tuple[str, ...]
    charges: tuple[int, ...]
    bonds: tuple[tuple[int, int, int], ...]
    data: dict[str, str]


def read(path: Path) -> list[Molecule]:
    """All records of an SDF file.

    Raises:
        DamagedRecord: one of them cannot be read, or the file ends inside it.
    """
    return [_Record(path, first, lines).molecule() for first, lines in _records(path)]


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, lines) of each record."""
    first, lines = 1, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.rstrip() == "$$$$":
            yield first, lines
            first, lines = number + 1, []
        else:
            lines.append(line)
    if any(line.strip() for line in lines):
        raise DamagedRecord(f"{path}:{first}: the file ends before the $$$$ of this record")


class _Record:
    """The lines of one record; knows where it is in the file."""

    def __init__(self, path: Path, first: int, lines: list[str]):
        self.path = path
        self.first = first
        self.lines = lines

    def molecule(self) -> Molecule:
        """What the record says."""
        if "V2000" not in self._line(3):
            raise self._damaged(3, f"the counts line should end with V2000: {self._line(3)!r}")
        atoms = self._number(3, 0, 3, "number of atoms")
        bonds = self._number(3, 3, 6, "number of bonds")
        first_bond, end = 4 + atoms, 4 + atoms + bonds
        charges = [self._charge(i) for i in range(4, first_bond)]
        self._apply_properties(end, charges)
        return Molecule(
            title=self.lines[0].strip(),
            elements=tuple(self._element(i) for i in range(4, first_bond)),
            charges=tuple(charges),
            bonds=tuple(self._bond(i, atoms) for i in range(first_bond, end)),
            data=self._data(end),
        )

    def _element(self, index: int) -> str:
        symbol = self._line(index)[31:34].strip()
        if not symbol.isalpha():
            raise self._damaged(index, f"no element in columns 32 to 34: {self._line(index)!r}")
        return symbol

    def _charge(self, index: int) -> int:
        if not self._line(index)[36:39].strip():
            return 0
        code = self._number(index, 36, 39, "charge code")
        if code not in range(len(CHARGES)):
            raise self._damaged(index, f"the charge code is {code}, not 0 to 7")
        return CHARGES[code]

    def _bond(self, index: int, atoms: int) -> tuple[int, int, int]:
        ends = [self._number(index, start, start + 3, "atom of a bond") for start in (0, 3)]
        kind = self._number(index, 6, 9, "bond type")
        for atom in ends:
            if not 1 <= atom <= atoms:
                raise self._damaged(index, f"a bond of atom {atom}, but there are {atoms} atoms")
        if kind not in BOND_TYPES:
            raise self._damaged(index, f"the bond type is {kind}, not one of {BOND_TYPES}")
        return ends[0] - 1, ends[1] - 1, kind

    def _apply_properties(self, start: int, charges: list[int]) -> None:
        """Read the property lines up to `M  END`; the first `M  CHG` clears all other charges."""
        cleared = False
        for index in range(start, len(self.lines)):
            words = self.lines[index].split()
            if words[:2] == ["M", "END"]:
                return
            if words[:2] != ["M", "CHG"]:
                continue
            if not cleared:
                charges[:] = [0] * len(charges)
                cleared = True
            for atom, charge in self._pairs(index, words[2:], len(charges)):
                charges[atom - 1] = charge
        raise self._damaged(len(self.lines) - 1, "the record ends before M  END")

    def _pairs(self, index: int, words: list[str], atoms: int) -> list[tuple[int, int]]:
        try:
            count, *numbers = map(int, words)
            pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        except ValueError:
            raise self._damaged(index, f"no charges: {self._line(index)!r}") from None
        if count != len(pairs) or not all(1 <= atom <= atoms for atom, _ in pairs):
            raise self._damaged(index, f"charges of {atoms} atoms: {self._line(index)!r}")
        return pairs

    def _data(self, start: int) -> dict[str, str]:
        """`> <name>`, the value's lines, an empty line; again and again."""
        items: dict[str, str] = {}
        name = None
        for line in self.lines[start:]:
            if line.startswith(">"):
                name = line.partition("<")[2].partition(">")[0]
                items[name] = ""
            elif not line.strip():
                name = None
            elif name is not None:
                items[name] = f"{items[name]}\n{line}".strip()
        return items

    def _number(self, index: int, start: int, end: int, what: str) -> int:
        text = self._line(index)[start:end]
        try:
            return int(text)
        except ValueError:
            columns = f"columns {start + 1} to {end}"
            raise self._damaged(index, f"{what} in {columns} is {text!r}") from None

    def _line(self, index: int) -> str:
        if index >= len(self.lines):
            raise self._damaged(len(self.lines) - 1, "the record ends within its molecule")
        return self.lines[index]

    def _damaged(self, index: int, reason: str) -> DamagedRecord:
        title = self.lines[0].strip() if self.lines else ""
        place = f"{self.path}:{self.first + max(index, 0)}"
        return DamagedRecord(
            f"{place}: in the record of {title or 'a nameless molecule'}: {reason}"
        )
