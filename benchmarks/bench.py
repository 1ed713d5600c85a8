"""Measures Gossamer beside its peers; see README.md for how."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch

import docs
import machine
import startup
from bars import verdicts
from cases import BASE_FEATURES, BASE_GRAPH, Case
from contenders import OURS
from graphs import graph_of
from measure import say
from options import (
    PARTS,
    Plan,
    ablations_plan,
    base_cases,
    cases_of,
    parse,
    parts_of,
    plan_for,
    plan_of,
)
from pictures import draw
from session import Progress, Session, measured, pages
from tables import SECTIONS, ablations_table, bars_table, case_text, unmeasured


def measure_cases(record: dict, options: argparse.Namespace) -> None:
    """Puts every case that was asked for into the record, and what threads bring."""
    whole = plan_of(options)
    plans = {case: plan_for(case, options, whole) for case in cases_of(options)}
    done = measure_plans(record, "cases", plans, options)
    base = Case("gat", "inference", BASE_GRAPH, BASE_FEATURES)
    if base in done and options.threads == 2 and OURS in whole.contenders:
        with Session({}, [OURS]) as session:
            record["threads"] = session.by_threads(base, whole)


def measure_ablations(record: dict, options: argparse.Namespace) -> None:
    """Puts what each optional pass of the compiler brings into the record."""
    plans = dict.fromkeys(base_cases(options), ablations_plan(options))
    measure_plans(record, "ablations", plans, options, lambda entry: ablations_table([entry]))


def measure_plans(
    record: dict,
    kind: str,
    plans: Mapping[Case, Plan],
    options: argparse.Namespace,
    text_of: Callable[[Mapping], str] = case_text,
) -> list[Case]:
    """Puts cases into a list of the record; returns those that were measured now."""
    known = record.get(kind, []) if options.resume else []
    todo = {case: plan for case, plan in plans.items() if not measured(known, case, plan)}
    if len(todo) < len(plans):
        say(f"{len(plans) - len(todo)} of {len(plans)} cases are in the record")
    progress, done = Progress(todo), []
    with Session(todo) as session:
        for case, plan in todo.items():
            if time_is_up(options):
                break
            entry = session.case(case, plan)
            if entry is None:
                say(f"{case.title}: the measuring process failed")
                FAILED.append(case)
                continue
            record[kind] = add(record.get(kind, []), entry)
            save(record, options.output)
            print(f"\n{text_of(entry)}\n", flush=True)
            done.append(case)
            say(progress.done(case))
    return done


def measure_growth(options: argparse.Namespace) -> list[dict]:
    """The memory on graphs with more edges and with more nodes."""
    cases = [
        replace(case, graph=graph)
        for case in base_cases(options)
        for graph in (BASE_GRAPH, "more-edges", "more-nodes")
    ]
    with Session({}, [OURS]) as session:
        peaks = session.peaks([(case, OURS) for case in cases], options.threads)
    return [
        {
            "case": asdict(case),
            "nodes": graph_of(case.graph).num_nodes,
            "edges": graph_of(case.graph).num_edges,
            "peak_mb": peak,
        }
        for case, peak in zip(cases, peaks, strict=True)
    ]


def measured_by(script: str) -> Callable[[argparse.Namespace], list[dict]]:
    """What a script of this folder measures in a process of its own."""

    def measure(options: argparse.Namespace) -> list[dict]:
        command = [sys.executable, Path(__file__).with_name(script), str(options.threads)]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=pages("0"), check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return measure


# What measures a part that is no list of compared cases.
MEASURES: dict[str, Callable[[argparse.Namespace], object]] = {
    "startup": lambda options: startup.probes(),
    "scaling": measured_by("scaling.py"),
    "growth": measure_growth,
    "schedules": measured_by("schedules.py"),
}


def measure_part(record: dict, part: str, options: argparse.Namespace) -> None:
    """Puts a part into the record, unless it is there already or the time is up."""
    if part == "cases":
        measure_cases(record, options)
    elif part == "ablations":
        measure_ablations(record, options)
    elif options.resume and record.get("code", {}).get(part) == machine.code_version():
        say(f"{part}: in the record")
    elif not time_is_up(options):
        say(f"{part}: {PARTS[part]}")
        record[part] = MEASURES[part](options)
        record.setdefault("code", {})[part] = machine.code_version()
    if part in SECTIONS and record.get(part):
        print(f"\n{SECTIONS[part].table(record[part])}", flush=True)
    save(record, options.output)


def time_is_up(options: argparse.Namespace) -> bool:
    """Whether nothing new begins; says so."""
    late = options.minutes is not None and time.monotonic() > BEGIN + 60 * options.minutes
    if late:
        say(f"{options.minutes:g} minutes are over; --resume measures the rest")
    return late


def add(entries: list[dict], entry: Mapping) -> list[dict]:
    """The cases with one put in, in place of an earlier measurement of the same."""
    return [*(e for e in entries if e["case"] != entry["case"]), dict(entry)]


def save(record: Mapping, output: Path) -> None:
    """Writes the record."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(record, indent=1))


def differing(record: Mapping) -> list[str]:
    """The cases and contenders whose outputs or gradients differ from the reference."""
    return [
        f"{Case(**entry['case']).title}: {row['contender']} {row['problem']}"
        for entry in record.get("cases", [])
        for row in entry["rows"]
        if "differs" in (row["problem"] or "")
    ]


def main() -> int:
    """Measures, prints, writes; the exit status is 1 when an output differs or a case failed."""
    options = parse()
    output = options.output
    if options.write_docs:
        print(f"written: {docs.write(json.loads(output.read_text()))}")
        return 0
    torch.set_num_threads(options.threads)
    keep = (options.add or options.resume) and output.exists()
    record = json.loads(output.read_text()) if keep else {}
    record["machine"] = machine.facts()
    print(", ".join(f"{key}: {value}" for key, value in record["machine"].items()), flush=True)
    parts = parts_of(options)
    for part in parts:
        measure_part(record, part, options)
    pictures = draw(record, output.parent)
    print(f"\n{bars_table(verdicts(record))}\n")
    if len(parts) > 1 or keep:
        print(f"{unmeasured(verdicts(record))}\n")
    wrong = [*differing(record), *(f"{case.title}: failed" for case in FAILED)]
    for line in wrong:
        print(line)
    print("written:", output, *pictures)
    return 1 if wrong else 0


BEGIN = time.monotonic()
# Cases whose process gave no answer, for want of memory for example.
FAILED: list[Case] = []

if __name__ == "__main__":
    sys.exit(main())
