"""The command line of the benchmark, and what it asks for: parts, cases, and how to measure."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bars import SPEED
from cases import BASE_FEATURES, BASE_GRAPH, MODES, Case, product, star
from contenders import ABLATIONS, CONTENDERS, OURS
from graphs import GRAPHS
from layers import HEADS, LAYERS
from measure import Pace

# What can be measured beside cases, each by a flag of its name.
PARTS = {
    "startup": "calls on tiny graphs, first calls in new processes",
    "scaling": "the sum over neighbours from 10^5 to 10^7 edges",
    "growth": "memory with more edges and with more nodes",
    "schedules": "the choice of schedules beside each choice forced",
    "ablations": "each pass of the compiler left out in turn",
}
# Away from the base case, only these are measured with huge pages, these are weighed, and those
# that nearly are another contender left out, as they are with huge pages everywhere.
COMPARED, WEIGHED = (OURS, "dgl", "pyg"), (OURS, "dgl")
TWINS = {"gossamer-dgl", "pyg-static"}
QUICK_CONTENDERS = ("dgl-udf", "dgl", "pyg", "pyg-edge-index", "pyg-dynamic", OURS)
QUICK, BASE = Pace(5, budget_s=1.5, slow_s=3.0), Pace(11, budget_s=2.0, slow_s=5.0)
# Of cases away from the base graph or size, of ablations, and of everything with huge pages.
OTHERS = Pace(9, budget_s=1.0, slow_s=1.0)


@dataclass(frozen=True)
class Plan:
    """How a case is measured.

    Attributes:
        contenders: names. weighed: those whose memory is measured. thp: those that are measured
            with huge pages too.
    """

    contenders: list[str]
    weighed: list[str]
    thp: list[str]
    threads: int
    pace: Pace


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="Measures Gossamer beside its peers. Without options everything, which takes "
        "an hour; flags of parts choose these only.",
    )
    parser.add_argument("--quick", action="store_true", help="what bars speak of, few rounds")
    parser.add_argument("--layers", nargs="+", choices=LAYERS)
    parser.add_argument("--modes", nargs="+", choices=MODES)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS)
    parser.add_argument("--features", nargs="+", type=int, help=f"multiples of {HEADS}")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS)
    parser.add_argument("--weigh", nargs="*", choices=CONTENDERS, help="whose memory is measured")
    parser.add_argument(
        "--thp",
        action=argparse.BooleanOptionalAction,
        help="all once more with torch's huge pages; else most in the base cases, some in others",
    )
    for name, what in PARTS.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"{what}; only that")
    parser.add_argument("--write-docs", action="store_true", help="docs/performance.md; only that")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--add", action="store_true", help="keep what the output file holds")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep it, and skip what it holds from the same code and options",
    )
    parser.add_argument("--minutes", type=float, help="begin nothing new after so long")
    parser.add_argument("--output", type=Path, default=Path("bench-output/bench.json"))
    options = parser.parse_args(arguments)
    if any(size % HEADS for size in options.features or []):
        parser.error(f"--features: the layers have {HEADS} heads, so use multiples of {HEADS}")
    return options


def parts_of(options: argparse.Namespace) -> list[str]:
    """The parts that are measured; "cases" is one. A choice of cases means those only."""
    chosen = [name for name in PARTS if getattr(options, name)]
    if chosen:
        return chosen
    kinds = (options.layers, options.modes, options.graphs, options.features, options.contenders)
    if any(kind is not None for kind in kinds):
        return ["cases"]
    return ["cases", "startup"] if options.quick else ["cases", *PARTS]


def cases_of(options: argparse.Namespace) -> list[Case]:
    """The cases that the command line asks for."""
    layers = options.layers or [name for name in LAYERS if not options.quick or is_quick(name)]
    modes = options.modes or list(MODES)
    if options.graphs or options.features:
        graphs = options.graphs or [BASE_GRAPH]
        return product(layers, modes, graphs, options.features or [BASE_FEATURES])
    if options.quick:
        return product(layers, modes, [BASE_GRAPH], [BASE_FEATURES])
    return star(layers, modes)


def base_cases(options: argparse.Namespace) -> list[Case]:
    """The cases of the parts that look at whole layers on the base graph."""
    layers = options.layers or list(dict.fromkeys(layer for layer, _ in SPEED))
    return product(layers, options.modes or MODES, [BASE_GRAPH], [BASE_FEATURES])


def is_quick(layer: str) -> bool:
    """Whether `--quick` measures a layer: those whose bars have factors, and those on blocks."""
    return LAYERS[layer].on_blocks or any(layer == name for name, _ in SPEED)


def plan_of(options: argparse.Namespace) -> Plan:
    """How the command line wants cases measured; says which contenders are not installed."""
    wanted = options.contenders or (QUICK_CONTENDERS if options.quick else list(CONTENDERS))
    names = [name for name in wanted if CONTENDERS[name].installed]
    for name in wanted:
        if name not in names:
            found = CONTENDERS[name]
            by = "./dev peers --sparse" if found.requires == "torch_sparse" else "./dev peers"
            print(f"skipped {found.title}: not installed ({by})", file=sys.stderr)
    pace = QUICK if options.quick else BASE
    alike = set() if options.thp else TWINS
    huge = options.thp or (options.thp is None and not options.quick)
    return Plan(
        contenders=names,
        weighed=names if options.weigh is None else options.weigh,
        thp=[name for name in names if name not in alike] if huge else [],
        threads=options.threads,
        pace=with_rounds(pace, options),
    )


def plan_for(case: Case, options: argparse.Namespace, plan: Plan) -> Plan:
    """The plan for one case: with `--quick` what bars speak of; else all in the base cases, less
    in others. What the command line chooses stays.
    """
    names = [name for name in plan.contenders if CONTENDERS[name].only in ("", case.layer)]
    plan = replace(plan, contenders=names)
    if case.base and not options.quick:
        return plan
    # On nodes of many degrees a training step of DGL's UDFs takes half a minute.
    left_out = {"dgl-udf"} if case.training and case.graph == BASE_GRAPH else set()
    kept, weighed, compared = plan.contenders, plan.weighed, WEIGHED
    if options.quick:
        compared = WEIGHED if case.training else (OURS,)
        bars = SPEED.get((case.layer, case.mode), {tuple(kept): 1})
        left_out |= set(kept) - {OURS, *(name for names in bars for name in names)}
    else:
        left_out |= TWINS
        if "pyg-sparse" in plan.contenders:
            left_out.add("pyg-edge-index")  # the other way to sort the edges
        plan = replace(plan, pace=with_rounds(OTHERS, options))
    if options.contenders is None:
        kept = [name for name in kept if name not in left_out]
    if options.weigh is None:
        weighed = [name for name in kept if name in compared]
    thp = [name for name in kept if name in plan.thp and (options.thp or name in COMPARED)]
    return replace(plan, contenders=kept, weighed=weighed, thp=thp)


def with_rounds(pace: Pace, options: argparse.Namespace) -> Pace:
    """The pace with the rounds of the command line, if it says how many."""
    return replace(pace, rounds=options.rounds or pace.rounds)


def ablations_plan(options: argparse.Namespace) -> Plan:
    """How the cases with passes left out are measured."""
    pace = with_rounds(OTHERS, options)
    return Plan([OURS, *ABLATIONS], [], [], options.threads, pace)
