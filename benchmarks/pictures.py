"""Bar charts of a record of measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cases import BASE_FEATURES, BASE_GRAPH, MODES, Case
from contenders import CONTENDERS, OURS


def times_by_layer(record: Mapping, mode: str) -> dict[str, dict[str, float]]:
    """Milliseconds of each contender that was timed, by layer, on the base graph."""
    found = {}
    for entry in record.get("cases", []):
        case = Case(**entry["case"])
        if case.base and case.mode == mode:
            rows = entry["rows"]
            found[case.layer] = {
                row["contender"]: row["median_ms"] for row in rows if row["median_ms"] is not None
            }
    return found


def draw(record: Mapping, folder: Path) -> list[Path]:
    """One picture per mode: how many times longer than Gossamer each contender takes."""
    paths = []
    for mode in MODES:
        times = {k: v for k, v in times_by_layer(record, mode).items() if OURS in v}
        if times:
            paths.append(folder / f"performance-{mode}.png")
            draw_mode(times, mode, paths[-1])
    return paths


def draw_mode(times: Mapping[str, Mapping[str, float]], mode: str, path: Path) -> None:
    """Groups of bars, one per layer, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
    names = [name for name in CONTENDERS if any(name in found for found in times.values())]
    width = 0.85 / len(names)
    for i, name in enumerate(names):
        ratios = [found.get(name, float("nan")) / found[OURS] for found in times.values()]
        places = [group + i * width for group in range(len(times))]
        colour = pyplot.get_cmap("tab20")(i)
        axes.bar(places, ratios, width, label=CONTENDERS[name].title, color=colour)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    middle = width * (len(names) - 1) / 2
    axes.set_xticks([group + middle for group in range(len(times))], list(times))
    axes.set_ylabel("times as long as Gossamer")
    graphs = f"{BASE_GRAPH} graph (rgcn: a smaller one with relations, sage: sampled blocks)"
    axes.set_title(f"{mode}, {graphs}, {BASE_FEATURES} features")
    axes.legend(ncols=3, fontsize="small")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
