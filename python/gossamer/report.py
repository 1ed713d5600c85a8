"""What the compiler did with the user's code, line by line.

A report is a view of what a compiled module has done so far: it changes with further calls.
"""

from __future__ import annotations

import linecache
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from gossamer import native
from gossamer.errors import GossamerError


class NothingCompiledError(GossamerError, TypeError):
    """``explain`` was given something that ``gs.compile`` did not make.

    >>> gs.explain(model)                       # fails: a plain module has no report

    Explain the compiled one, after a call:

    >>> fast = gs.compile(model)
    >>> y = fast(g, x)
    >>> print(gs.explain(fast))
    """


@dataclass(frozen=True)
class Fallback:
    """A graph call that runs eagerly: where in the user's file, and why."""

    file: str
    line: int
    reason: str
    remedy: str
    call: str


@dataclass(frozen=True)
class Compilation:
    """One program, and what made it necessary.

    Attributes:
        entry: "forward", or of a specialisation that is trained "training forward" and "backward".
        mode: "region", or "whole" for the whole forward of a model as one program.
    """

    reason: str
    calls: tuple[str, ...]
    seconds: float
    cached: bool
    entry: str = "forward"
    mode: str = "region"


@dataclass(frozen=True)
class Buffer:
    """An array that a program makes.

    Attributes:
        rows: "src", "dst" (also the nodes of a homogeneous graph), "edges" or "none".
        shape, dtype: of one row.
        bytes: of the whole array, on the graph of the program's last call; None before one.
        lifetime: "output" or "temp". entry: "forward" or "backward".
    """

    rows: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int | None
    lifetime: str
    entry: str


@dataclass(frozen=True)
class KernelSchedule:
    """How one kernel went over the graphs of its program's last call.

    Attributes:
        program: number of the program in `Report.programs`. kernel: number in the program.
        prefetch: how many edges ahead rows are asked for; 0 for not at all.
        stream: whether results go to memory past the caches.
        piece_edges: rows of more edges are computed in pieces of so many, by all threads; 2**63 -
            64 where no row is cut.
        source: who chose: "by the cost model", or with ``tune=True`` whether this process or an
            earlier one measured it.
    """

    program: int
    kernel: int
    prefetch: int
    stream: bool
    piece_edges: int
    source: str


@dataclass(frozen=True)
class Calls:
    """Calls that ran in one mode for one reason.

    Attributes:
        mode: "whole" or "region". count: how many there were.
    """

    mode: str
    reason: str
    count: int


@dataclass(frozen=True)
class ProgramVariant:
    """Which way a program that has several took on the graphs of its last call.

    Attributes:
        program: number of the program in `Report.programs`. number: of the variant, from 0.
        count: how many the program has: they multiply before or after sums over edges.
        source: who chose, as in `KernelSchedule`.
    """

    program: int
    number: int
    count: int
    source: str


class Report:
    """The report of one compiled module or function."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @property
    def mode(self) -> str:
        """How the last call ran: ``"whole"`` as one program, ``"region"`` forward in Python."""
        return self._session.whole.mode

    @property
    def mode_reason(self) -> str:
        """Why the last call ran so."""
        return self._session.whole.reason

    @property
    def calls(self) -> list[Calls]:
        """How all calls ran so far, one entry for each mode and reason, the most frequent first.

        A call in other circumstances is another first call: another number of features, training
        or evaluation, with or without gradients.
        """
        found = [Calls(*how, count) for how, count in self._session.whole.calls().items()]
        return sorted(found, key=lambda calls: -calls.count)

    @property
    def fallbacks(self) -> list[Fallback]:
        """The graph calls that run eagerly; empty when everything is compiled."""
        return list(self._session.fallbacks.values())

    @property
    def compilations(self) -> list[Compilation]:
        """The specialisations of graph calls compiled so far, each with its reason.

        A specialisation may have further programs: see `programs`.
        """
        return [item for item in self.programs if item.mode == "region" and item.entry == "forward"]

    @property
    def programs(self) -> list[Compilation]:
        """Every program: specialisations, those for training, and whole forwards."""
        return [program.compilation for program in self._session.programs]

    @property
    def buffers(self) -> list[Buffer]:
        """Every array the programs make; of those with several variants, the first one."""
        return [
            Buffer(
                rows="dst" if entry["rows"] == "node" else entry["rows"],
                shape=tuple(entry["shape"]),
                dtype=entry["dtype"],
                bytes=entry["bytes"],
                lifetime=entry["lifetime"],
                entry=entry.get("entry", "forward"),
            )
            for program in self._session.programs
            for entry in program.buffers
        ]

    @property
    def schedules(self) -> list[KernelSchedule]:
        """What each kernel chose for the graphs of its program's last call."""
        return [
            KernelSchedule(number, kernel, *schedule, program.program.chosen_by)
            for number, program in enumerate(self._session.programs)
            for kernel, schedule in enumerate(program.program.schedules)
        ]

    @property
    def variants(self) -> list[ProgramVariant]:
        """What programs with several variants took on the graphs of their last calls."""
        return [
            ProgramVariant(number, *variant, program.program.chosen_by)
            for number, program in enumerate(self._session.programs)
            if (variant := program.program.variant) is not None and variant.count > 1
        ]

    @property
    def code_paths(self) -> dict[str, str]:
        """``"file:line"`` to ``"kernel"``, ``"torch"`` or ``"eager"``."""
        paths: dict[str, str] = {}
        for program in self._session.programs:
            for file, line in program.lines:
                paths[f"{file}:{line}"] = program.path
        for fallback in self.fallbacks:
            paths[f"{fallback.file}:{fallback.line}"] = "eager"
        return paths

    def ir(self, stage: str = "optimized") -> str:
        """The text of all programs at ``"captured"``, ``"optimized"``, ``"kernels"`` or ``"llvm"``.

        Raises:
            ValueError: the stage has another name.
        """
        stages = ("captured", "optimized", "kernels", "llvm")
        if stage not in stages:
            raise ValueError(f"stage is one of {', '.join(stages)}, but found {stage!r}")
        return "\n".join(program.text(stage) for program in self._session.programs)

    def to_dict(self) -> dict[str, Any]:
        """The whole report as plain lists, dicts, strings and numbers."""
        return {
            "model": self._session.name,
            "mode": self.mode,
            "mode_reason": self.mode_reason,
            "calls": [asdict(item) for item in self.calls],
            "fallbacks": [asdict(item) for item in self.fallbacks],
            "compilations": [asdict(item) for item in self.compilations],
            "programs": [asdict(item) for item in self.programs],
            "buffers": [asdict(item) for item in self.buffers],
            "schedules": [asdict(item) for item in self.schedules],
            "variants": [asdict(item) for item in self.variants],
            "code_paths": self.code_paths,
            "remarks": self._remarks(),
        }

    def _remarks(self) -> list[dict[str, Any]]:
        return [dict(remark) for program in self._session.programs for remark in program.remarks]

    def __str__(self) -> str:
        lines = [f"report of {self._session.name}"]
        lines += [f"calls in {c.mode} mode: {c.count} ({c.reason})" for c in self.calls]
        lines += self._source_lines()
        for item in self.fallbacks:
            lines.append(f"runs eagerly: {item.file}:{item.line}: {item.reason}; {item.remedy}")
        if not self.fallbacks:
            lines.append("nothing fell back to eager")
        lines += self._array_lines()
        schedules, variants = self.schedules, self.variants
        for number, item in enumerate(self.programs):
            source = "found in the cache" if item.cached else f"compiled in {item.seconds:.2f} s"
            what = f"{item.mode} {item.entry} program for {', '.join(item.calls)}"
            lines.append(f"{what}: {source} ({item.reason})")
            lines += [_variant_line(v) for v in variants if v.program == number]
            lines += [_schedule_line(s) for s in schedules if s.program == number]
        return "\n".join(lines)

    __repr__ = __str__

    def _source_lines(self) -> list[str]:
        notes: dict[tuple[str, int], list[str]] = defaultdict(list)
        for remark in self._remarks():
            place = notes[(remark["file"], int(remark["line"]))]
            text = f"{remark['pass']}: {remark['message']}"
            if text not in place:
                place.append(text)
        lines = []
        for place, path in sorted(self.code_paths.items(), key=_by_place):
            file, _, line = place.rpartition(":")
            source = linecache.getline(file, int(line)).strip()
            lines.append(f"{place} [{path}] {source}")
            lines += [f"    {note}" for note in notes.get((file, int(line)), [])]
        return lines

    def _array_lines(self) -> list[str]:
        if not self._session.programs:
            return ["no program yet: call the compiled module first"]
        lines = []
        for buffer in self.buffers:
            shape = "x".join(str(size) for size in buffer.shape) or "1"
            lines.append(f"{buffer.lifetime} array: per {buffer.rows} row, {shape} {buffer.dtype}")
        return lines


def _variant_line(variant: ProgramVariant) -> str:
    return f"    variant {variant.number} of 0 to {variant.count - 1}; {variant.source}"


def _schedule_line(schedule: KernelSchedule) -> str:
    ahead = f"{schedule.prefetch} edges ahead" if schedule.prefetch else "not ahead"
    stores = "past the caches" if schedule.stream else "in the caches"
    whole = schedule.piece_edges == native.WHOLE_ROWS
    cuts = "cuts no row" if whole else f"cuts rows of more than {schedule.piece_edges} edges"
    return (
        f"    kernel {schedule.kernel}: reads rows {ahead}, leaves results {stores}, "
        f"{cuts}; {schedule.source}"
    )


def _by_place(item: tuple[str, str]) -> tuple[str, int]:
    file, _, line = item[0].rpartition(":")
    return file, int(line)


def explain(compiled: Any) -> Report:
    """What the compiler did with a compiled module or function so far.

    Raises:
        NothingCompiledError: the argument was not made by ``gossamer.compile``.
    """
    session = getattr(compiled, "_session", None)
    if session is None:
        raise NothingCompiledError(
            f"explain expects what gossamer.compile returned, but found "
            f"{type(compiled).__name__}; compile it and call it once"
        )
    return Report(session)
