"""Writes docs/performance.md from a record of measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bars import verdicts
from cases import MODES, Case
from layers import LAYERS
from pictures import draw
from tables import SECTIONS, bars_table, case_text, overview_table, unmeasured

FOLDER = Path(__file__).parents[1] / "docs"
INTRODUCTION = """# Performance

Written by `./dev bench --write-docs` from `bench-output/bench.json`: do not edit the numbers.

How it is measured is in [benchmarks](../benchmarks/README.md). Read the ratios: absolute times
mean nothing on another machine or beside other load. "ours is" says how many times faster Gossamer
is than that row; "huge pages" is the time with `THP_MEM_ALLOC_ENABLE=1`; "format ms" is what making
the graph's format takes, "with format" a call and that; "error" is the largest of outputs and
gradients from float64, relative. A dash was not measured. A case is measured in one process, all
contenders in turn; different cases may have been measured at different times, some of them by
earlier versions.

"Outputs without gradient" are numbers of the output where rounding chooses the branch of a maximum
or of relu: their gradients are compared in no contender (`benchmarks/decided.py`).

The least time of a case is its roofline: `benchmarks/roofline.py` says what it counts, and "beside
least" how many times longer a row takes. The gathers in it are measured, not derived, so a kernel
whose reads the caches serve better may take less.

To measure again: `./dev bench` measures everything, in about an hour, or in pieces with
`./dev bench --resume --minutes 20`; `./dev bench --quick` what most bars speak of, in five minutes.
Then `./dev bench --write-docs`."""


OVERVIEW_NOTE = """How many times longer each contender takes than Gossamer; below, each case."""


def in_order(entries: Iterable[Mapping]) -> list[Mapping]:
    """Cases by layer, the base case of each first, whenever they were measured."""

    def place(entry: Mapping) -> tuple:
        case = Case(**entry["case"])
        return list(LAYERS).index(case.layer), not case.base, case.graph, case.features

    return sorted(entries, key=place)


def write(record: Mapping, folder: Path = FOLDER) -> Path:
    """The page and its pictures; returns the page."""
    pictures = [f"![{path.stem}]({path.name})" for path in draw(record, folder)]
    facts = "\n".join(f"- {key}: {value}" for key, value in record["machine"].items())
    sections = [INTRODUCTION, f"## Machine\n\n{facts}", *pictures]
    sections.append(f"## Bars\n\n{bars_table(verdicts(record))}")
    if missing := unmeasured(verdicts(record)):
        sections.append(f"```text\n{missing}\n```")
    for part, section in SECTIONS.items():
        if record.get(part):
            sections.append(f"## {section.title}")
            sections += [section.note] if section.note else []
            sections.append(section.table(record[part]))
    for mode in MODES:
        entries = [e for e in in_order(record.get("cases", [])) if e["case"]["mode"] == mode]
        if entries:
            sections.append(f"## {mode.capitalize()}\n\n{OVERVIEW_NOTE}")
            sections.append(overview_table(entries))
            sections += [f"### {case_text(entry)}" for entry in entries]
    page = folder / "performance.md"
    page.write_text("\n\n".join(sections) + "\n")
    return page
