"""Measures Gossamer beside its peers; see README.md for how."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

import docs
import machine
import measure
import startup
from bars import SPEED, verdicts
from cases import BASE_FEATURES, BASE_GRAPH, MODES, Case, product, star
from contenders import ABLATIONS, CONTENDERS, OURS
from graphs import GRAPHS
from layers import HEADS, LAYERS
from pictures import draw
from tables import ablations_table, bars_table, case_text, scaling_table, schedules_table

# Contenders whose memory the bars speak of.
WEIGHED = (OURS, "dgl")
QUICK_CONTENDERS = ("dgl-udf", "dgl", "pyg", "pyg-edge-index", "pyg-dynamic", OURS)


@dataclass(frozen=True)
class Plan:
    """How cases are measured.

    Attributes:
        contenders: names. weighed: those whose memory is measured. thp: also with huge pages.
        rounds: at most; no new round of a case after `limit_s`. slow_s: longer calls are made once.
        process_s: a process that takes longer is given up.
    """

    contenders: list[str]
    weighed: list[str]
    thp: bool
    rounds: int
    limit_s: float
    threads: int
    slow_s: float = measure.SLOW_S
    process_s: float = 3600


def run_case(case: Case, plan: Plan) -> dict:
    """Everything about one case, as the record keeps it."""
    graph = GRAPHS[case.graph]()
    base = {"case": asdict(case), "threads": plan.threads}
    timing = {**base, "contenders": plan.contenders, "rounds": plan.rounds}
    timing |= {"limit_s": plan.limit_s, "slow_s": plan.slow_s}
    answer = measure.in_process(timing, plain_pages(), plan.process_s)
    if answer is None:
        raise SystemExit(f"{case.title}: the measuring process failed")
    if plan.thp:
        huge = measure.in_process(timing, huge_pages(), plan.process_s)
        found = {row["contender"]: row["median_ms"] for row in (huge or {"rows": []})["rows"]}
        for row in answer["rows"]:
            row["thp_ms"] = found.get(row["contender"])
    for row in answer["rows"]:
        if row["contender"] in plan.weighed and row["problem"] is None:
            print(f"{case.title}: memory of {row['contender']}", file=sys.stderr, flush=True)
            request = {**base, "memory": row["contender"]}
            row["peak_mb"] = measure.in_process(request, plain_pages(), plan.process_s)
    return {**base, "nodes": graph.num_nodes, "edges": graph.num_edges, **answer}


def plain_pages() -> dict[str, str]:
    """The environment without torch's huge pages."""
    return {**os.environ, "THP_MEM_ALLOC_ENABLE": "0"}


def huge_pages() -> dict[str, str]:
    """The environment with torch's huge pages."""
    return {**os.environ, "THP_MEM_ALLOC_ENABLE": "1"}


def thread_times(case: Case, plan: Plan) -> dict[str, float]:
    """Milliseconds of Gossamer on a case with one thread and with two."""
    times = {}
    for threads in (1, 2):
        request = {"case": asdict(case), "threads": threads, "contenders": [OURS]}
        request |= {"rounds": plan.rounds, "limit_s": plan.limit_s, "slow_s": plan.slow_s}
        answer = measure.in_process(request, plain_pages(), plan.process_s)
        times[str(threads)] = answer["rows"][0]["median_ms"]
    return times


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="what the bars speak of, few rounds")
    parser.add_argument("--layers", nargs="+", choices=LAYERS)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS)
    parser.add_argument("--features", nargs="+", type=int, help="multiples of 4")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS)
    parser.add_argument("--weigh", nargs="*", choices=CONTENDERS, help="whose memory is measured")
    parser.add_argument("--thp", action="store_true", help="also with torch's huge pages")
    parser.add_argument("--scaling", action="store_true", help="10^5 to 10^7 edges; only that")
    parser.add_argument("--schedules", action="store_true", help="each choice forced; only that")
    parser.add_argument("--startup", action="store_true", help="small graphs, first calls; only")
    parser.add_argument("--ablations", action="store_true", help="each pass left out; only that")
    parser.add_argument("--write-docs", action="store_true", help="docs/performance.md; only that")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--add", action="store_true", help="keep what the output file holds")
    parser.add_argument("--output", type=Path, default=Path("bench-output/bench.json"))
    options = parser.parse_args()
    if any(size % HEADS for size in options.features or []):
        parser.error(f"--features: the layers have {HEADS} heads, so use multiples of {HEADS}")
    if options.layers is None:
        options.layers = [name for name in LAYERS if not options.quick or has_bars(name)]
    return options


def has_bars(layer: str) -> bool:
    """Whether bars speak of a layer: of whole graphs some, of sampled blocks all."""
    return LAYERS[layer].on_blocks or any(layer == name for name, _ in SPEED)


def cases_of(options: argparse.Namespace) -> list[Case]:
    """What the command line asks for."""
    if options.graphs or options.features:
        graphs = options.graphs or [BASE_GRAPH]
        return product(options.layers, options.modes, graphs, options.features or [BASE_FEATURES])
    if options.quick:
        return product(options.layers, options.modes, [BASE_GRAPH], [BASE_FEATURES])
    return star(options.layers, options.modes)


def plan_of(options: argparse.Namespace) -> Plan:
    """How the command line wants it measured; says which contenders are not installed."""
    wanted = options.contenders or (QUICK_CONTENDERS if options.quick else list(CONTENDERS))
    names = [name for name in wanted if CONTENDERS[name].installed]
    for name in wanted:
        if name not in names:
            print(f"skipped {CONTENDERS[name].title}: not installed (./dev peers)", file=sys.stderr)
    weighed = options.weigh
    if weighed is None:
        weighed = WEIGHED if options.quick else names
    rounds, limit_s = (3, 6.0) if options.quick else (11, 60.0)
    return Plan(
        names,
        list(weighed),
        options.thp,
        options.rounds or rounds,
        limit_s,
        options.threads,
        measure.QUICK_SLOW_S if options.quick else measure.SLOW_S,
    )


def quick_contenders(case: Case, names: list[str]) -> list[str]:
    """Those of the contenders that the bars of a case speak of. A training step of DGL's UDFs on a
    whole graph, half a minute, is left to the long run.
    """
    wanted = SPEED.get((case.layer, case.mode))
    if wanted is None:
        return names
    kept = {OURS, *(name for group in wanted for name in group)}
    if case.training:
        kept.discard("dgl-udf")
    return [name for name in names if name in kept]


def measure_cases(record: dict, options: argparse.Namespace) -> bool:
    """Puts every case that was asked for into the record; returns whether an output differed."""
    whole, differing = plan_of(options), False
    for case in cases_of(options):
        plan = whole
        if options.quick and not options.contenders:
            plan = replace(whole, contenders=quick_contenders(case, whole.contenders))
        entry = run_case(case, plan)
        record["cases"] = add(record.get("cases", []), entry)
        save(record, options.output)
        print(f"\n{case_text(entry)}", flush=True)
        differing |= any("differs" in (row["problem"] or "") for row in entry["rows"])
    base = Case("gat", "inference", BASE_GRAPH, BASE_FEATURES)
    if base in cases_of(options) and options.threads == 2 and OURS in whole.contenders:
        record["threads"] = thread_times(base, whole)
    return differing


def measure_ablations(record: dict, options: argparse.Namespace) -> None:
    """Puts what each optional pass of the compiler brings into the record."""
    plan = replace(plan_of(options), contenders=[OURS, *ABLATIONS], weighed=[])
    for case in product(options.layers, options.modes, [BASE_GRAPH], [BASE_FEATURES]):
        record["ablations"] = add(record.get("ablations", []), run_case(case, plan))
        save(record, options.output)
    print(f"\n{ablations_table(record['ablations'])}", flush=True)


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
    print(", ".join(f"{key}: {value}" for key, value in record["machine"].items()))
    differing = False
    if options.startup:
        record["startup"] = startup.probes()
    if options.scaling:
        record["scaling"] = measured_by("scaling.py", options.threads)
        print(f"\n{scaling_table(record['scaling'])}", flush=True)
    if options.schedules:
        record["schedules"] = measured_by("schedules.py", options.threads)
        print(f"\n{schedules_table(record['schedules'])}", flush=True)
    if options.ablations:
        measure_ablations(record, options)
    only = (options.startup, options.scaling, options.schedules, options.ablations)
    if not any(only):
        differing = measure_cases(record, options)
    save(record, output)
    pictures = draw(record, output.parent)
    print(f"\n{bars_table(verdicts(record))}\n\nwritten:", output, *pictures)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
