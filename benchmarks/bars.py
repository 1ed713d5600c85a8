"""What Gossamer must reach, and whether a record of measurements shows it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cases import BASE_FEATURES, BASE_GRAPH, MODES, Case, graph_for
from contenders import CONTENDERS, OURS
from layers import HEADS
from scaling import EDGES, SHAPES

COMPILED = ("pyg-dynamic", "pyg-static")
# Layers without bars of their own, which must be faster than every peer that was timed; these at
# least are named.
OTHERS, PEERS = ("gatv2", "rgcn", "sage"), ("dgl-udf", "dgl", "pyg")

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
SCALES = [(graph, size) for graph in SHAPES for size in EDGES]
# With twice the nodes: times the memory. With more edges: bytes for each, where a table with a row
# of F numbers for each edge has 4 F.
TWICE_NODES = 2.1
EDGE_BYTES = 4 * BASE_FEATURES / 4
# The choice of schedules beside the best single one.
SCHEDULE = 1.05

# What `startup.probes` answers: what it is, the largest value allowed, its unit.
STARTUP: dict[str, tuple[str, float, str]] = {
    "small_us": ("GCN call on 4 nodes, 8 features", 50, "us"),
    "small_training_us": ("the same, forward and backward", 150, "us"),
    "small_three_us": ("three GCN layers on 4 nodes", 100, "us"),
    "cold_s": ("two-layer GAT step, nothing cached", 4, "s"),
    "after_warmup_s": ("the same after gs.warmup()", 2, "s"),
    "from_disk_s": ("the same in a new process, programs on disk", 0.3, "s"),
    "from_disk_traced": ("modules of the tracer and of the compiler loaded there", 0, ""),
    "recompiled": ("programs compiled for another graph", 0, ""),
    "recompiled_blocks": ("programs compiled for other blocks", 0, ""),
    "chain_1000_512_s": ("1,000 operations at 512 features", 2, "s"),
    "chain_growth": ("1,000 operations beside 250", 5, "x"),
    "chain_width": ("1,000 operations at 512 features beside 16", 1.25, "x"),
}


@dataclass(frozen=True)
class Verdict:
    """One bar: what it is about, what is wanted and what was found (as text), and whether it is
    met: None when it was not measured.
    """

    about: str
    wanted: str
    found: str = "-"
    met: bool | None = None


Rows = Mapping[str, Mapping[str, object]]


def verdicts(record: Mapping) -> list[Verdict]:
    """Every bar."""
    cases = {Case(**entry["case"]): entry for entry in record.get("cases", [])}
    found = []
    for layer, mode in SPEED:
        entry = cases.get(Case(layer, mode, BASE_GRAPH, BASE_FEATURES), {"rows": [], "nodes": 0})
        rows = {row["contender"]: row for row in entry["rows"]}
        found += speed(f"{layer} {mode}", rows, with_others(rows, SPEED[layer, mode]))
        found += memory(f"{layer} {mode}", rows, entry["nodes"], MEMORY[layer, mode])
    for layer, mode in itertools.product(OTHERS, MODES):
        case = Case(layer, mode, graph_for(layer, BASE_GRAPH), BASE_FEATURES)
        entry = cases.get(case, {"rows": []})
        rows = {row["contender"]: row for row in entry["rows"]}
        named = {(name,): 1 for name in PEERS}
        found += speed(f"{layer} {mode}", rows, with_others(rows, named))
        if (layer, mode) == ("sage", "training"):
            found += memory("sage training", rows, 0, ("DGL built-ins", share_of_dgl(1)))
    parts = (attention(cases), threads(record), scaling(record), startup(record))
    return [v for part in (found, *parts, growth(record), schedules(record)) for v in part]


def with_others(rows: Rows, wanted: Mapping[tuple[str, ...], float]) -> dict:
    """What is wanted, and that no other peer that was timed is faster."""
    others = {(name,): 1 for name in rows if is_other(rows[name], wanted)}
    return {**wanted, **others}


def is_other(row: Mapping[str, object], wanted: Mapping[tuple[str, ...], float]) -> bool:
    """Whether a row is of a peer that was timed and that no group of bars names."""
    name = row["contender"]
    named = name.startswith(OURS) or any(name in names for names in wanted)
    return row["median_ms"] is not None and not named


def at_most(about: str, limit: float, value: float | None, unit: str, digits: int = 2) -> Verdict:
    """A bar on one number; None was not measured."""
    if value is None:
        return Verdict(about, f"<= {limit:g}{unit}")
    return Verdict(about, f"<= {limit:g}{unit}", f"{value:.{digits}f}{unit}", value <= limit)


def time_of(rows: Rows, names: tuple[str, ...]) -> float | None:
    """The shortest time of some contenders in ms, or None."""
    times = [rows[name]["median_ms"] for name in names if name in rows]
    return min((time for time in times if time is not None), default=None)


def speed(about: str, rows: Rows, wanted: Mapping[tuple[str, ...], float]) -> Iterator[Verdict]:
    """Times faster than each peer."""
    own = time_of(rows, (OURS,))
    for names, factor in wanted.items():
        peer = "PyG compiled" if names == COMPILED else CONTENDERS[names[0]].title
        bar, other = (f"{about} vs {peer}", f">= {factor:g}x"), time_of(rows, names)
        if own is None or other is None:
            yield Verdict(*bar)
        else:
            yield Verdict(*bar, f"{other / own:.1f}x", other / own >= factor)


def memory(about: str, rows: Rows, nodes: int, wanted: tuple[str, Callable]) -> Iterator[Verdict]:
    """Peak extra memory."""
    text, bound_of = wanted
    peaks = {name: row["peak_mb"] for name, row in rows.items()}
    own, dgl = peaks.get(OURS), peaks.get("dgl")
    if own is None or (dgl is None and "DGL" in text):
        yield Verdict(f"{about}, memory", f"<= {text}")
        return
    bound = bound_of(nodes, BASE_FEATURES, dgl)
    yield Verdict(f"{about}, memory", f"<= {text} ({bound:.0f} MB)", f"{own:.0f} MB", own <= bound)


def attention(cases: Mapping[Case, Mapping]) -> Iterator[Verdict]:
    """GAT beside GCN, inference."""
    times = []
    for layer in ("gcn", "gat"):
        entry = cases.get(Case(layer, "inference", BASE_GRAPH, BASE_FEATURES), {"rows": []})
        times.append(time_of({row["contender"]: row for row in entry["rows"]}, (OURS,)))
    ratio = None if None in times else times[1] / times[0]
    yield at_most("gat inference beside gcn inference", ATTENTION, ratio, "x")


def threads(record: Mapping) -> Iterator[Verdict]:
    """Two threads beside one, on GAT inference."""
    bar = "gat inference, 2 threads beside 1", f">= {THREADS:g}x"
    if not record.get("threads"):
        yield Verdict(*bar)
        return
    ratio = record["threads"]["1"] / record["threads"]["2"]
    yield Verdict(*bar, f"{ratio:.2f}x", ratio >= THREADS)


def scaling(record: Mapping) -> Iterator[Verdict]:
    """The plain sum beside the machine's bound."""
    ratios = {
        (row["graph"], row["asked_edges"]): row["ms"] / row["bound_ms"]
        for row in record.get("scaling", [])
    }
    for graph, edges in SCALES:
        about = f"sum over neighbours, {graph}, {edges:,} edges, beside the bound"
        yield at_most(about, SCALING, ratios.get((graph, edges)), "x")


def startup(record: Mapping) -> Iterator[Verdict]:
    """Small graphs and first calls."""
    measured = record.get("startup", {})
    for name, (about, limit, unit) in STARTUP.items():
        value = measured.get(name)
        digits = 0 if unit == "" else 1 if unit == "us" else 2
        yield at_most(about, limit, value, unit if unit in ("", "x") else f" {unit}", digits)


def growth(record: Mapping) -> Iterator[Verdict]:
    """Memory on the base graph, with twice the nodes, and with about twice the edges."""
    rows = {Case(**row["case"]): row for row in record.get("growth", [])}
    for layer, mode in SPEED:
        found = [
            rows.get(Case(layer, mode, graph, BASE_FEATURES))
            for graph in (BASE_GRAPH, "more-nodes", "more-edges")
        ]
        nodes = edges = None
        if all(row is not None and row["peak_mb"] is not None for row in found):
            base, wide, dense = found
            nodes = wide["peak_mb"] / base["peak_mb"]
            more = 1e6 * (dense["peak_mb"] - base["peak_mb"])
            edges = more / (dense["edges"] - base["edges"])
        yield at_most(f"{layer} {mode}, memory with twice the nodes", TWICE_NODES, nodes, "x")
        yield at_most(f"{layer} {mode}, memory per further edge", EDGE_BYTES, edges, " bytes", 1)


def schedules(record: Mapping) -> Iterator[Verdict]:
    """What the cost model chose beside the best choice forced for all kernels."""
    for row in record.get("schedules", []):
        about = f"{Case(**row['case']).title}, schedule beside the best one forced"
        yield at_most(about, SCHEDULE, row["beside_best"], "x")
    if not record.get("schedules"):
        yield Verdict("schedules beside the best one forced", f"<= {SCHEDULE:g}x")
