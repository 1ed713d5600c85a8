"""What Gossamer must reach on the base graph, and whether a record of measurements shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cases import BASE_FEATURES, BASE_GRAPH, Case
from contenders import CONTENDERS, OURS
from layers import HEADS

COMPILED = ("pyg-dynamic", "pyg-static")

# At least so many times faster than each; of several contenders, than the fastest of them.
SPEED: dict[tuple[str, str], dict[tuple[str, ...], float]] = {
    ("gcn", "inference"): {("dgl-udf",): 18, ("dgl",): 3, ("pyg",): 10, COMPILED: 8},
    ("gat", "inference"): {("dgl-udf",): 24, ("dgl",): 7.5, ("pyg",): 7.5, COMPILED: 7},
    ("edgeconv", "inference"): {("dgl-udf",): 28, ("dgl",): 28, ("pyg",): 22, COMPILED: 13},
    ("gcn", "training"): {("dgl-udf",): 200, ("dgl",): 3.4, ("pyg",): 10, COMPILED: 7},
    ("gat", "training"): {
        ("dgl-udf",): 110,
        ("dgl",): 4.8,
        ("pyg",): 6,
        ("pyg-edge-index",): 5.5,
        COMPILED: 4.7,
    },
    ("edgeconv", "training"): {("dgl-udf",): 150, ("dgl",): 18, ("pyg",): 30, COMPILED: 22},
}

# Peak extra memory in MB: from nodes N and features F, and the peak of DGL's built-ins.
MB = 4e-6


def tables(count: int, per_head: int = 0) -> Callable[[int, int, float], float]:
    """`count` (N, F) tables, `per_head` numbers per node and head, and 5 % for what is small."""
    return lambda n, f, dgl: 1.05 * MB * n * (count * f + per_head * HEADS)


def share_of_dgl(share: float) -> Callable[[int, int, float], float]:
    """A part of what DGL's built-ins take."""
    return lambda n, f, dgl: share * dgl


MEMORY: dict[tuple[str, str], tuple[str, Callable[[int, int, float], float]]] = {
    ("gcn", "inference"): ("output + one N x F", tables(2)),
    ("gat", "inference"): ("output + N x F + O(N H)", tables(2, per_head=4)),
    ("edgeconv", "inference"): ("output + 2 N x F", tables(3)),
    ("gcn", "training"): ("DGL built-ins", share_of_dgl(1)),
    ("gat", "training"): ("half of DGL built-ins", share_of_dgl(1 / 2)),
    ("edgeconv", "training"): ("a fifth of DGL built-ins", share_of_dgl(1 / 5)),
}
ATTENTION = 1.9
THREADS = 1.6
SCALING = 1.4

# What `startup.probes` answers: what it is, the largest value allowed, its unit.
STARTUP: dict[str, tuple[str, float, str]] = {
    "small_us": ("GCN call on 4 nodes, 8 features", 50, "us"),
    "small_training_us": ("the same, forward and backward", 150, "us"),
    "small_three_us": ("three GCN layers on 4 nodes", 100, "us"),
    "cold_s": ("two-layer GAT step, nothing cached", 4, "s"),
    "after_warmup_s": ("the same after gs.warmup()", 2, "s"),
    "from_disk_s": ("the same in a new process, programs on disk", 0.3, "s"),
    "recompiled": ("programs compiled for another graph", 0, ""),
    "chain_1000_512_s": ("1,000 operations at 512 features", 2, "s"),
}


@dataclass(frozen=True)
class Verdict:
    """One bar: what it is about, what is wanted and what was found (as text), and whether met."""

    about: str
    wanted: str
    found: str
    met: bool


Rows = Mapping[str, Mapping[str, object]]


def verdicts(record: Mapping) -> list[Verdict]:
    """Every bar that the record has measurements for."""
    cases = {Case(**entry["case"]): entry for entry in record.get("cases", [])}
    found = []
    for (layer, mode), wanted in SPEED.items():
        entry = cases.get(Case(layer, mode, BASE_GRAPH, BASE_FEATURES))
        if entry is not None:
            rows = {row["contender"]: row for row in entry["rows"]}
            found += speed(f"{layer} {mode}", rows, wanted)
            found += memory(f"{layer} {mode}", rows, entry["nodes"], MEMORY[layer, mode])
    for case, entry in cases.items():
        if case.layer == "sage":
            rows = {row["contender"]: row for row in entry["rows"]}
            others = tuple(name for name in rows if not name.startswith(OURS))
            found += speed(case.title, rows, {(name,): 1 for name in others})
    return [*found, *attention(cases), *threads(record), *scaling(record), *startup(record)]


def time_of(rows: Rows, names: tuple[str, ...]) -> float | None:
    """The shortest time of some contenders in ms, or None."""
    times = [rows[name]["median_ms"] for name in names if name in rows]
    return min((time for time in times if time is not None), default=None)


def speed(about: str, rows: Rows, wanted: Mapping[tuple[str, ...], float]) -> Iterator[Verdict]:
    """Times faster than each peer that was measured."""
    own = time_of(rows, (OURS,))
    for names, factor in wanted.items():
        other = time_of(rows, names)
        if own is None or other is None:
            continue
        peer = "PyG compiled" if names == COMPILED else CONTENDERS[names[0]].title
        ratio = other / own
        yield Verdict(f"{about} vs {peer}", f">= {factor:g}x", f"{ratio:.1f}x", ratio >= factor)


def memory(about: str, rows: Rows, nodes: int, wanted: tuple[str, Callable]) -> Iterator[Verdict]:
    """Peak extra memory, where it was measured."""
    text, bound_of = wanted
    peaks = {name: row["peak_mb"] for name, row in rows.items()}
    own, dgl = peaks.get(OURS), peaks.get("dgl")
    if own is None or (dgl is None and "DGL" in text):
        return
    bound = bound_of(nodes, BASE_FEATURES, dgl)
    yield Verdict(f"{about}, memory", f"<= {text} ({bound:.0f} MB)", f"{own:.0f} MB", own <= bound)


def attention(cases: Mapping[Case, Mapping]) -> Iterator[Verdict]:
    """GAT beside GCN, inference."""
    times = []
    for layer in ("gcn", "gat"):
        entry = cases.get(Case(layer, "inference", BASE_GRAPH, BASE_FEATURES), {"rows": []})
        times.append(time_of({row["contender"]: row for row in entry["rows"]}, (OURS,)))
    if None not in times:
        ratio = times[1] / times[0]
        about = "gat inference beside gcn inference"
        yield Verdict(about, f"<= {ATTENTION:g}x", f"{ratio:.2f}x", ratio <= ATTENTION)


def threads(record: Mapping) -> Iterator[Verdict]:
    """Two threads beside one, on GAT inference."""
    if "threads" in record:
        ratio = record["threads"]["1"] / record["threads"]["2"]
        about = "gat inference, 2 threads beside 1"
        yield Verdict(about, f">= {THREADS:g}x", f"{ratio:.2f}x", ratio >= THREADS)


def scaling(record: Mapping) -> Iterator[Verdict]:
    """The plain sum beside the machine's bound."""
    for row in record.get("scaling", []):
        ratio = row["ms"] / row["bound_ms"]
        about = f"sum over neighbours, {row['graph']}, {row['edges']:,} edges, beside the bound"
        yield Verdict(about, f"<= {SCALING:g}x", f"{ratio:.2f}x", ratio <= SCALING)


def startup(record: Mapping) -> Iterator[Verdict]:
    """Small graphs and first calls."""
    for name, (about, limit, unit) in STARTUP.items():
        if name in record.get("startup", {}):
            value = record["startup"][name]
            wanted, found = f"<= {limit:g} {unit}".strip(), f"{value:.3g} {unit}".strip()
            yield Verdict(about, wanted, found, value <= limit)
