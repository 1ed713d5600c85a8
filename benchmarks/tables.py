"""A record of measurements as text, for the terminal and, as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bars import Verdict
from cases import Case
from contenders import ABLATIONS, CONTENDERS, OURS


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with aligned columns, the first to the left."""
    rows = [list(head), *map(list, rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join([first, *rest])} |"

    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([line(rows[0]), f"|{rule}|", *map(line, rows[1:])])


def number(value: float | None, digits: int = 1) -> str:
    """A number, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def case_table(entry: Mapping) -> str:
    """One case: times, how many times faster Gossamer is, memory, errors."""
    own = time_of(entry, OURS)
    head = ["contender", "median ms", "ours is", "beside least", "huge pages", "peak MB"]
    head += ["format ms", "with format", "error"]
    return markdown(head, (case_row(row, own, entry.get("bound_ms")) for row in entry["rows"]))


def case_row(row: Mapping, own: float | None, least: float | None) -> list[str]:
    """The cells of one contender."""
    title, error = CONTENDERS[row["contender"]].title, max(row["errors"].values(), default=None)
    shown_error = "-" if error is None else f"{error:.0e}"
    if row["median_ms"] is None:
        return [title, row["problem"] or "-", *"------", shown_error]
    once = " (one call)" if row["once"] else ""
    ratio = f"{row['median_ms'] / own:.1f}x" if own else "-"
    return [
        title,
        number(row["median_ms"]) + once,
        ratio,
        f"{row['median_ms'] / least:.2f}x" if least else "-",
        number(row["thp_ms"]),
        number(row["peak_mb"], 0),
        number(row["convert_ms"], 0),
        number(row["median_ms"] + (row["convert_ms"] or 0)),
        shown_error,
    ]


def overview_table(entries: Sequence[Mapping]) -> str:
    """How many times longer each contender takes than Gossamer, a line for each case."""
    names = [name for name in CONTENDERS if name != OURS and any(time_of(e, name) for e in entries)]
    head = ["case", "Gossamer ms", *(CONTENDERS[name].title for name in names)]
    return markdown(head, (overview_row(entry, names) for entry in entries))


def overview_row(entry: Mapping, names: Sequence[str]) -> list[str]:
    """The cells of one case."""
    own, others = time_of(entry, OURS), [time_of(entry, name) for name in names]
    ratios = [f"{time / own:.1f}x" if own and time else "-" for time in others]
    return [Case(**entry["case"]).title, number(own, 2), *ratios]


def time_of(entry: Mapping, name: str) -> float | None:
    """The median of a contender in ms, or None."""
    found = (row["median_ms"] for row in entry["rows"] if row["contender"] == name)
    return next(found, None)


def case_text(entry: Mapping) -> str:
    """A case with its headline and, where there is one, the least time that the machine allows."""
    case = Case(**entry["case"])
    head = f"{case.title} ({entry['nodes']:,} nodes, {entry['edges']:,} edges)"
    if entry.get("bound_ms"):
        head += f"; least time here {entry['bound_ms']:.1f} ms"
    if entry.get("undecided"):
        head += f"; {entry['undecided']:,} outputs without gradient"
    return f"{head}\n\n{case_table(entry)}"


def bars_table(found: Sequence[Verdict]) -> str:
    """Every bar that was measured, met or missed, and how many of each."""
    measured = [v for v in found if v.met is not None]
    rows = ([v.about, v.wanted, v.found, "met" if v.met else "MISSED"] for v in measured)
    counts = f"{sum(v.met for v in measured)} of {len(measured)} bars that were measured are met; "
    counts += f"{len(found) - len(measured)} were not measured."
    return f"{markdown(['bar', 'wanted', 'found', ''], rows)}\n\n{counts}"


def unmeasured(found: Sequence[Verdict]) -> str:
    """The bars that were not measured, a line each; empty when there is none."""
    return "\n".join(f"not measured: {v.about}, {v.wanted}" for v in found if v.met is None)


@dataclass(frozen=True)
class Section:
    """What a part of the record is shown as: a headline and a table, with a note before it."""

    title: str
    table: Callable[[Sequence[Mapping]], str]
    note: str = ""


def schedules_table(rows: Sequence[Mapping]) -> str:
    """The cost model's choice beside the best other one forced for all kernels, with the 95 %
    interval of that ratio, and beside the worst.
    """
    head = ["case", "model ms", "best other", "model / best", "95 %", "worst other ms"]
    return markdown(head, map(schedules_row, rows))


def schedules_row(row: Mapping) -> list[str]:
    """The cells of one case."""
    ratio, interval = f"{row['beside_best']:.2f}x", "{:.2f}x to {:.2f}x".format(*row["interval"])
    ends = [row["best"], ratio, interval, number(max(row["forced_ms"].values()), 2)]
    return [Case(**row["case"]).title, number(row["model_ms"], 2), *ends]


def scaling_table(rows: Sequence[Mapping]) -> str:
    """The sum over neighbours by size, beside the bound and its part that gathers."""
    head = ["graph", "edges", "features", "ms", "bound ms", "gathers ms", "times the bound"]
    return markdown(head, map(scaling_row, rows))


def scaling_row(row: Mapping) -> list[str]:
    """The cells of one size."""
    times = [number(row[key], 2) for key in ("ms", "bound_ms", "gather_ms")]
    ratio = f"{row['ms'] / row['bound_ms']:.2f}x"
    return [row["graph"], f"{row['edges']:,}", str(row["features"]), *times, ratio]


def growth_table(rows: Sequence[Mapping]) -> str:
    """Peak extra memory of Gossamer by numbers of nodes and edges."""
    head = ["case", "nodes", "edges", "peak MB"]
    return markdown(head, map(growth_row, rows))


def growth_row(row: Mapping) -> list[str]:
    """The cells of one case."""
    case, peak = Case(**row["case"]), number(row["peak_mb"], 0)
    return [case.title, f"{row['nodes']:,}", f"{row['edges']:,}", peak]


def ablations_table(entries: Sequence[Mapping]) -> str:
    """How many times longer each case takes without each optional pass."""
    head = ["case", "ms", *(found.title for found in ABLATIONS.values())]
    return markdown(head, map(ablations_row, entries))


def ablations_row(entry: Mapping) -> list[str]:
    """The cells of one case."""
    case = Case(**entry["case"])
    times = {row["contender"]: row["median_ms"] for row in entry["rows"]}
    own = times[OURS]
    ratios = ("-" if times[n] is None else f"{times[n] / own:.2f}x" for n in ABLATIONS)
    return [f"{case.layer} {case.mode}", number(own), *ratios]


ABLATIONS_NOTE = """Each optional pass of the compiler left out in turn: how many times longer the
layer then takes. 1.00x: it does nothing there. ARCHITECTURE.md says what each pass does."""

# The parts of a record that have a table, in the order of the page.
SECTIONS = {
    "scaling": Section("Sum over neighbours", scaling_table),
    "growth": Section("Memory on larger graphs", growth_table),
    "ablations": Section("What each pass brings", ablations_table, ABLATIONS_NOTE),
    "schedules": Section("Schedules", schedules_table),
}
