"""Measures Gossamer beside its peers; see README.md for how."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import torch

import docs
import machine
import measure
import startup
from bars import verdicts
from cases import BASE_FEATURES, BASE_GRAPH, Case
from contenders import ABLATIONS, OURS
from graphs import graph_of
from options import Plan, base_cases, cases_of, parse, parts_of, plan_for, plan_of
from pictures import draw
from references import ReferenceFiles
from tables import (
    ablations_table,
    bars_table,
    case_text,
    growth_table,
    scaling_table,
    schedules_table,
    unmeasured,
)

ABLATION_ROUNDS, ABLATION_LIMIT_S = 4, 10.0
# Processes that measure memory, not time, run so many at once.
WEIGHED_AT_ONCE = 2


def run_case(case: Case, plan: Plan, references: ReferenceFiles) -> dict:
    """Everything about one case, as the record keeps it."""
    graph = graph_of(case.graph)
    base = {"case": asdict(case), "threads": plan.threads}
    file, exact = references.place(case)
    if not file.exists():
        measure.say(f"{exact.title}: reference")
        request = {**base, "case": asdict(exact), "keep": str(file)}
        measure.in_process(request, huge_pages(), plan.process_s)
    timing = {**base, "contenders": plan.contenders, "rounds": plan.rounds}
    timing |= {"limit_s": plan.limit_s, "slow_s": plan.slow_s}
    timing |= {"references": str(file)}
    answer = measure.in_process(timing, plain_pages(), plan.process_s)
    if answer is None:
        raise SystemExit(f"{case.title}: the measuring process failed")
    if plan.thp:
        measure.say(f"{case.title}: the same with huge pages")
        huge = measure.in_process(timing, huge_pages(), plan.process_s)
        found = {row["contender"]: row["median_ms"] for row in (huge or {"rows": []})["rows"]}
        for row in answer["rows"]:
            row["thp_ms"] = found.get(row["contender"])
    rows = {row["contender"]: row for row in answer["rows"] if row["problem"] is None}
    names = [name for name in plan.weighed if name in rows]
    if names:
        measure.say(f"{case.title}: memory of {', '.join(names)}")
    peaks = weigh([(case, name) for name in names], plan.threads, plan.process_s)
    for name, peak in zip(names, peaks, strict=True):
        rows[name]["peak_mb"] = peak
    return {**base, "nodes": graph.num_nodes, "edges": graph.num_edges, **answer}


def weigh(wanted: Iterable[tuple[Case, str]], threads: int, process_s: float) -> list[float | None]:
    """The peak memory in MB of contenders on cases, each in a process of its own."""

    def peak(each: tuple[Case, str]) -> float | None:
        request = {"case": asdict(each[0]), "threads": threads, "memory": each[1]}
        return measure.in_process(request, plain_pages(), process_s)

    with ThreadPoolExecutor(WEIGHED_AT_ONCE) as pool:
        return list(pool.map(peak, wanted))


def plain_pages() -> dict[str, str]:
    """The environment without torch's huge pages."""
    return {**os.environ, "THP_MEM_ALLOC_ENABLE": "0"}


def huge_pages() -> dict[str, str]:
    """The environment with torch's huge pages."""
    return {**os.environ, "THP_MEM_ALLOC_ENABLE": "1"}


def measure_cases(record: dict, options: argparse.Namespace) -> bool:
    """Puts every case that was asked for into the record; returns whether an output differed."""
    whole, cases, differing = plan_of(options), cases_of(options), False
    with tempfile.TemporaryDirectory() as folder:
        references = ReferenceFiles(Path(folder), cases)
        for case in cases:
            entry = run_case(case, plan_for(case, options, whole), references)
            record["cases"] = add(record.get("cases", []), entry)
            save(record, options.output)
            print(f"\n{case_text(entry)}", flush=True)
            differing |= any("differs" in (row["problem"] or "") for row in entry["rows"])
    base = Case("gat", "inference", BASE_GRAPH, BASE_FEATURES)
    if base in cases and options.threads == 2 and OURS in whole.contenders:
        request = {"case": asdict(base), "threads": 2, "by_threads": [1, 2], "rounds": whole.rounds}
        record["threads"] = measure.in_process(request, plain_pages(), whole.process_s)
    return differing


def measure_ablations(record: dict, options: argparse.Namespace) -> None:
    """Puts what each optional pass of the compiler brings into the record."""
    rounds = options.rounds or ABLATION_ROUNDS
    plan = replace(plan_of(options), contenders=[OURS, *ABLATIONS], weighed=[], thp=False)
    plan, cases = replace(plan, rounds=rounds, limit_s=ABLATION_LIMIT_S), base_cases(options)
    with tempfile.TemporaryDirectory() as folder:
        references = ReferenceFiles(Path(folder), cases)
        for case in cases:
            entry = run_case(case, plan, references)
            record["ablations"] = add(record.get("ablations", []), entry)
            save(record, options.output)
    print(f"\n{ablations_table(record['ablations'])}", flush=True)


def measure_growth(record: dict, options: argparse.Namespace) -> None:
    """Puts the memory on graphs with more edges and with more nodes into the record."""
    cases = [
        replace(case, graph=graph)
        for case in base_cases(options)
        for graph in (BASE_GRAPH, "more-edges", "more-nodes")
    ]
    measure.say("memory on larger graphs")
    peaks = weigh([(case, OURS) for case in cases], options.threads, 600)
    record["growth"] = [
        {
            "case": asdict(case),
            "nodes": graph_of(case.graph).num_nodes,
            "edges": graph_of(case.graph).num_edges,
            "peak_mb": peak,
        }
        for case, peak in zip(cases, peaks, strict=True)
    ]
    print(f"\n{growth_table(record['growth'])}", flush=True)


def measured_by(script: str, threads: int) -> list[dict]:
    """What a script of this folder measures in a process of its own."""
    command = [sys.executable, Path(__file__).with_name(script), str(threads)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=plain_pages(), check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def add(entries: list[dict], entry: Mapping) -> list[dict]:
    """The cases with one put in, in place of an earlier measurement of the same."""
    return [*(e for e in entries if e["case"] != entry["case"]), dict(entry)]


def save(record: Mapping, output: Path) -> None:
    """Writes the record."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(record, indent=1))


def main() -> int:
    """Measures, prints, writes; the exit status is 1 when an output differed."""
    options = parse()
    output = options.output
    if options.write_docs:
        print(f"written: {docs.write(json.loads(output.read_text()))}")
        return 0
    torch.set_num_threads(options.threads)
    record = json.loads(output.read_text()) if options.add and output.exists() else {}
    record["machine"] = machine.facts()
    print(", ".join(f"{key}: {value}" for key, value in record["machine"].items()), flush=True)
    parts, differing = parts_of(options), False
    if "cases" in parts:
        differing = measure_cases(record, options)
    if "startup" in parts:
        measure.say("small graphs and first calls")
        record["startup"] = startup.probes()
    if "scaling" in parts:
        measure.say("sum over neighbours")
        record["scaling"] = measured_by("scaling.py", options.threads)
        print(f"\n{scaling_table(record['scaling'])}", flush=True)
    if "growth" in parts:
        measure_growth(record, options)
    if "schedules" in parts:
        measure.say("schedules")
        record["schedules"] = measured_by("schedules.py", options.threads)
        print(f"\n{schedules_table(record['schedules'])}", flush=True)
    if "ablations" in parts:
        measure_ablations(record, options)
    save(record, output)
    pictures = draw(record, output.parent)
    print(f"\n{bars_table(verdicts(record))}\n")
    if len(parts) > 1 or options.add:
        print(f"{unmeasured(verdicts(record))}\n")
    print("written:", output, *pictures)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
