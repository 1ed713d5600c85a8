"""One run of the benchmark: the processes that measure, and what it asks of them."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path

import machine
from cases import Case
from contenders import contender
from graphs import graph_of
from measure import say
from options import OTHERS, Plan
from processes import Origin
from references import ReferenceFiles

# Processes that measure memory, not time, run so many at once.
WEIGHED_AT_ONCE = 2
PROCESS_S = 1800


class Session(AbstractContextManager):
    """The processes of a run, with and without torch's huge pages, and the references they share.

    Args:
        plans: the cases that will be compared, and how. others: further contenders.
    """

    def __init__(self, plans: Mapping[Case, Plan], others: Iterable[str] = ()) -> None:
        self._open = ExitStack()
        names = {name for plan in plans.values() for name in plan.contenders}
        modules = sorted({f"contenders.{contender(name).module}" for name in {*names, *others}})
        self._huge_modules = modules if any(plan.thp for plan in plans.values()) else []
        self.plain = self._open.enter_context(Origin(pages("0"), modules))
        folder = self._open.enter_context(tempfile.TemporaryDirectory())
        self._references = ReferenceFiles(Path(folder), plans)

    @functools.cached_property
    def huge(self) -> Origin:
        """The processes with huge pages; they start with the first question."""
        return self._open.enter_context(Origin(pages("1"), self._huge_modules))

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def case(self, case: Case, plan: Plan) -> dict | None:
        """Everything about one case, as the record keeps it; None when the process failed."""
        start, graph = time.monotonic(), graph_of(case.graph)
        request = {"case": asdict(case), "threads": plan.threads, "pace": asdict(plan.pace)}
        request["references"] = str(self._reference(case, plan))
        found = self.plain.ask({**request, "contenders": plan.contenders, "least": True}, PROCESS_S)
        if found is None:
            return None
        rows = {row["contender"]: row for row in found["rows"] if row["problem"] is None}
        again = [name for name in plan.thp if name in rows and not rows[name]["once"]]
        if again:
            say(f"{case.title}: the same with huge pages")
            pace = {**asdict(plan.pace), "budget_s": min(plan.pace.budget_s, OTHERS.budget_s)}
            request |= {"contenders": again, "least": False, "pace": pace}
            huge = self.huge.ask(request, PROCESS_S)
            for row in (huge or {"rows": []})["rows"]:
                rows[row["contender"]]["thp_ms"] = row["median_ms"]
        names = [name for name in plan.weighed if name in rows]
        if names:
            say(f"{case.title}: memory of {', '.join(names)}")
        for name, peak in zip(
            names, self.peaks([(case, n) for n in names], plan.threads), strict=True
        ):
            rows[name]["peak_mb"] = peak
        shape = {"nodes": graph.num_nodes, "edges": graph.num_edges}
        done = {"how": how(plan), "took_s": round(time.monotonic() - start, 1)}
        return {"case": asdict(case), "threads": plan.threads, **shape, **done, **found}

    def _reference(self, case: Case, plan: Plan) -> Path:
        """The file with what a case must give, made when it is not there."""
        file, exact = self._references.place(case)
        if not file.exists():
            say(f"{exact.title}: reference")
            request = {"case": asdict(exact), "threads": plan.threads, "keep": str(file)}
            self.huge.ask(request, PROCESS_S)
        return file

    def peaks(self, wanted: Sequence[tuple[Case, str]], threads: int) -> list[float | None]:
        """The peak memory in MB of contenders on cases, each in a process of its own."""

        def peak(each: tuple[Case, str]) -> float | None:
            request = {"case": asdict(each[0]), "threads": threads, "memory": each[1]}
            return self.plain.ask(request, PROCESS_S)

        with ThreadPoolExecutor(WEIGHED_AT_ONCE) as pool:
            return list(pool.map(peak, wanted))

    def by_threads(self, case: Case, plan: Plan) -> dict[str, float] | None:
        """Milliseconds of Gossamer by number of threads."""
        request = {"case": asdict(case), "threads": 2, "by_threads": [1, 2]}
        return self.plain.ask({**request, "pace": asdict(plan.pace)}, PROCESS_S)


def how(plan: Plan) -> dict[str, object]:
    """What tells whether an earlier measurement is the one that a plan wants."""
    return {"code": machine.code_version(), **asdict(plan)}


def pages(huge: str) -> dict[str, str]:
    """The environment with torch's huge pages, "1", or without, "0"."""
    return {**os.environ, "THP_MEM_ALLOC_ENABLE": huge}


class Progress:
    """How far a list of cases is, and about how long the rest takes.

    Args:
        cases: all that are to be measured.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self._left, self._count = list(cases), len(cases)
        self._start, self._effort = time.monotonic(), 0.0

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    def done(self, case: Case) -> str:
        """Takes note that a case was measured; a line that says how far it is."""
        self._left.remove(case)
        self._effort += case.effort
        rest = self.seconds / self._effort * sum(other.effort for other in self._left)
        far = f"{self._count - len(self._left)} of {self._count} cases in {self.seconds:.0f} s"
        return f"{far}, the rest takes about {rest / 60:.0f} min"


def measured(entries: Iterable[Mapping], case: Case, plan: Plan) -> bool:
    """Whether a record's entries have a case as the plan wants it, with this code."""
    wanted = how(plan)
    return any(e["case"] == asdict(case) and e.get("how") == wanted for e in entries)
