"""Measures Gossamer beside its peers; see README.md for how."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import machine
import measure
from contenders import CONTENDERS
from graphs import GRAPHS
from layers import LAYERS

FEATURES = 64


@dataclass(frozen=True)
class Row:
    """One contender on one layer: median and all times in ms, peak extra memory in MB.

    Attributes:
        error: relative, from the reference contender. problem: why there are no times, or None.
    """

    layer: str
    contender: str
    error: float | None = None
    median_ms: float | None = None
    all_ms: tuple[float, ...] = ()
    peak_mb: float | None = None
    problem: str | None = None


def measure_layer(layer: str, graph: str, names: list[str], rounds: int) -> list[Row]:
    """All contenders on one layer: compares, then times, then weighs."""
    work = LAYERS[layer](GRAPHS[graph](), FEATURES)
    runs, errors, rows, reference = {}, {}, [], None
    for name in names:
        print(f"{layer}: comparing {name}", file=sys.stderr, flush=True)
        run = measure.build(name, work)
        if run is None:
            continue
        output = run()
        reference = output if reference is None else reference
        errors[name] = measure.relative_error(output, reference)
        if errors[name] <= measure.TOLERANCE:
            runs[name] = run
        else:
            rows.append(Row(layer, name, errors[name], problem="differs from the reference"))
    print(f"{layer}: timing, {rounds} rounds", file=sys.stderr, flush=True)
    times = measure.median_times(runs, rounds)
    # Free the memory of all before each is weighed alone.
    runs.clear()
    for name, (middle, *found) in times.items():
        print(f"{layer}: memory of {name}", file=sys.stderr, flush=True)
        peak = measure.peak_memory(name, layer, graph, FEATURES)
        rows.append(Row(layer, name, errors[name], middle, tuple(found), peak))
    return rows


def table(rows: list[Row]) -> str:
    """A text table: times, and how many times faster Gossamer is than each peer."""
    lines = [
        f"{'layer':8}{'contender':16}{'median ms':>10}{'ours is':>10}{'peak MB':>10}{'error':>10}"
    ]
    ours = {row.layer: row.median_ms for row in rows if row.contender == "gossamer"}
    for row in rows:
        title = CONTENDERS[row.contender].title
        if row.problem:
            lines.append(f"{row.layer:8}{title:16}{row.problem} (error {row.error:.1e})")
            continue
        own = ours.get(row.layer)
        ratio = f"{row.median_ms / own:.1f}x" if own else "-"
        peak = "-" if row.peak_mb is None else f"{row.peak_mb:.0f}"
        cells = f"{row.median_ms:>10.1f}{ratio:>10}{peak:>10}{row.error:>10.0e}"
        lines.append(f"{row.layer:8}{title:16}{cells}")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small graph and few rounds")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--graph", choices=GRAPHS)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", type=Path, default=Path("bench-output/bench.json"))
    options = parser.parse_args()
    options.graph = options.graph or ("power-law-small" if options.quick else "power-law")
    options.rounds = options.rounds or (3 if options.quick else 11)
    return options


def main() -> int:
    """Measures, prints, writes; the exit status is 1 when an output differed."""
    options = parse()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    names = [name for name in options.contenders if CONTENDERS[name].installed]
    for name in set(options.contenders) - set(names):
        print(f"skipped {CONTENDERS[name].title}: not installed (./dev peers)", file=sys.stderr)

    facts = machine.facts()
    rows = [
        row
        for layer in options.layers
        for row in measure_layer(layer, options.graph, names, options.rounds)
    ]
    edges = GRAPHS[options.graph]()
    shape = {"name": options.graph, "nodes": edges.num_nodes, "edges": edges.num_edges}
    record = {"machine": facts, "graph": shape, "features": FEATURES, "rows": [*map(asdict, rows)]}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1))

    print(f"{shape['nodes']:,} nodes, {shape['edges']:,} edges, {FEATURES} features, float32")
    print(", ".join(f"{key}: {value}" for key, value in facts.items()))
    print(table(rows))
    print(f"written: {options.output}")
    return 1 if any(row.problem for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
