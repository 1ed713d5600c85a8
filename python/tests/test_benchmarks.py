"""The benchmark's own logic: what is compared and shown, and which bars are met; never times."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import bars
import bench
import docs
import layers
import measure
import options
import schedules
import session
import tables
from cases import Case, graph_for, product, star
from contenders import ABLATIONS, CONTENDERS, direct, ours
from decided import no_edge_near_zero, one_largest
from graphs import GRAPHS, EdgeList
from layers import LAYERS, workload
from measure import Pace, Row, by_threads, prepare
from references import (
    Reference,
    ReferenceFiles,
    allowed,
    errors_of,
    keep,
    load,
    reference,
    relative_error,
)

COMPARED = (
    "dgl-udf",
    "dgl",
    "pyg",
    "pyg-fast-rgcn",
    "pyg-edge-index",
    "pyg-sparse",
    "torch-csr",
    "gossamer-dgl",
    "gossamer",
)


def tiny(layer: str, mode: str) -> Case:
    return Case(layer, mode, graph_for(layer, "tiny"), 8)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_contenders_agree_with_the_reference(layer, mode):
    case = tiny(layer, mode)
    exact = reference(case)
    for name in COMPARED:
        if not CONTENDERS[name].installed or layer not in CONTENDERS[name].builders():
            continue
        row, _ = prepare(case, name, exact)
        assert row.problem is None, f"{name}: {row.problem}"
        assert set(row.errors) == set(exact.bounds())


@pytest.mark.skipif(not CONTENDERS["pyg-sparse"].installed, reason="./dev peers --sparse")
@pytest.mark.parametrize("layer", ["gcn", "gat", "edgeconv", "rgcn"])
def test_only_their_own_contender_uses_torch_scatter_and_torch_sparse(layer):
    from contenders.pyg_sparse import OPERATORS, operators

    case = tiny(layer, "training")
    work = workload(layer, GRAPHS[case.graph](), case.features, training=True)
    found = {
        name: operators(CONTENDERS[name].builders()[layer](work).runs[0])
        for name in ("pyg", "pyg-edge-index", "pyg-sparse")
        if layer in CONTENDERS[name].builders()
    }
    assert found.pop("pyg-sparse").issuperset(OPERATORS[layer])
    seen = set().union(*found.values())
    assert not any(name.startswith(("torch_scatter::", "torch_sparse::")) for name in seen)


@pytest.mark.parametrize("name", ["gossamer", "without-split-linear"])
def test_what_compiles_is_not_measured_by_its_first_call(name):
    case = tiny("gcn", "inference")
    row, step = prepare(case, name, reference(case), slow_s=0.0)
    assert step is not None
    assert row.median_ms is None


def test_a_contender_with_another_gradient_is_not_timed():
    case = tiny("gcn", "training")
    exact = reference(case)
    exact.bounds()
    _, gradients = exact.expected
    gradients["weight"] = gradients["weight"] + gradients["weight"].abs().max() * 1e-3
    row, step = prepare(case, "gossamer", exact)
    assert step is None
    assert row.problem.startswith("differs: gradient of weight")


# Nodes 0 and 1 send nearly the same; node 2 takes the larger, 3 has a clear choice, 4 has none.
TIE = EdgeList(torch.tensor([0, 1, 0, 4, 0, 0, 0, 1]), torch.tensor([2, 2, 3, 3, 4, 4, 0, 1]), 5)


@pytest.fixture
def near_tie(monkeypatch):
    """EdgeConv training on `TIE`."""

    def numbers(layer, num_nodes, features):
        x, weights = made(layer, num_nodes, features)
        x[1] = x[0].nextafter(torch.tensor(9.0))
        return x, weights

    made = layers.numbers.__wrapped__
    monkeypatch.setattr(layers, "numbers", numbers)
    monkeypatch.setitem(GRAPHS, "tie", lambda: TIE)
    return Case("edgeconv", "training", "tie", 8)


def on_sources(sources):
    """A contender that says that edges come from these nodes; its outputs are nearly the same."""

    def build(work):
        graph = EdgeList(torch.tensor(sources), work.graph.dst, work.graph.num_nodes)
        parts = LAYERS[work.layer].reference
        return direct(work, [lambda: torch.cat(list(parts(graph, work.x, work.weights)), dim=1)])

    return build


def test_a_near_tie_has_no_gradient_and_all_may_choose(near_tie, monkeypatch):
    exact = reference(near_tie)
    (mask,) = exact.decided
    assert [bool(row.any()) for row in mask] == [True, True, False, True, True]
    assert exact.undecided == 8
    for name in COMPARED:
        if CONTENDERS[name].installed and "edgeconv" in CONTENDERS[name].builders():
            assert prepare(near_tie, name, exact)[0].problem is None
    all_compared, refused = replace(exact, decided=None), []
    for sources in ([0, 0, 0, 4, 0, 0, 0, 1], [1, 1, 0, 4, 0, 0, 0, 1]):
        monkeypatch.setitem(ours.BUILDERS, "edgeconv", on_sources(sources))
        assert prepare(near_tie, "gossamer", exact)[0].problem is None
        refused.append(prepare(near_tie, "gossamer", all_compared)[0].problem)
    assert any(problem is not None for problem in refused)


def test_a_wrong_gradient_beside_a_near_tie_is_refused(near_tie, monkeypatch):
    exact = reference(near_tie)

    def build(work):
        right, smallest = on_sources(TIE.src.tolist())(work), []
        for columns in layers.heads_of(work.weights):
            values = layers.edgeconv_sums(work.graph, work.x, **columns).relu()
            index = work.graph.dst.unsqueeze(1).expand_as(values)
            bottom = values.new_zeros(work.graph.num_rows, values.shape[1])
            smallest.append(
                lambda values=values, index=index, bottom=bottom: bottom.scatter_reduce(
                    0, index, values, "amin", include_self=False
                )
            )

        def run():
            other = torch.cat([made() for made in smallest], dim=1)
            return right.runs[0]().detach() + other - other.detach()

        return direct(work, [run])

    monkeypatch.setitem(ours.BUILDERS, "edgeconv", build)
    row, step = prepare(near_tie, "gossamer", exact)
    assert step is None
    assert row.errors["output"] < 1e-6
    assert row.problem.startswith("differs: gradient of ")


def test_what_is_nearly_zero_or_nearly_equal_is_not_decided():
    graph = EdgeList(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 0, 1, 1]), 3)
    values = torch.tensor([[1.0, 5.0], [1.1, 2.0], [3.0, 0.05], [-0.05, 0.01]]).double()
    assert one_largest(graph, values, 0.1).tolist() == [[False, True], [True, False], [False] * 2]
    assert one_largest(graph, values, 0.04).tolist() == [[True, True], [True, False], [False] * 2]
    assert no_edge_near_zero(graph, values, 0.1).tolist() == [[True], [False], [True]]
    assert no_edge_near_zero(graph, values, 0.001).all()


def test_what_is_missing_in_a_table_of_builders_is_not_expressible():
    case = tiny("gat", "inference")
    row, step = prepare(case, "torch-csr", reference(case))
    assert (row.problem, step) == ("not expressible", None)


def test_error_measure():
    reference = torch.tensor([1.0, -4.0], dtype=torch.float64)
    assert relative_error(torch.tensor([1.0, -3.0]), reference) == 0.25
    assert relative_error(torch.tensor([1.0]), reference) == float("inf")
    assert relative_error(torch.tensor([1.0, float("nan")]), reference) == float("inf")
    found = [torch.tensor([1.0, -3.0])], {"x": torch.tensor([1.0, -4.0])}
    assert errors_of(found, ([reference], {"x": reference})) == {
        "output": 0.25,
        "gradient of x": 0.0,
    }
    assert allowed({"output": 1e-7, "gradient of x": 1e-3}) == {
        "output": 1e-5,
        "gradient of x": 2e-3,
    }


def test_sampled_blocks_fit_together():
    batches = GRAPHS["tiny-sampled"]()
    graph = GRAPHS["tiny"]()
    edges = set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    for (first, second), inputs in zip(batches.blocks, batches.inputs, strict=True):
        assert first.num_rows == second.num_nodes
        assert first.num_nodes == len(inputs) == len(inputs.unique())
        for block, fanout in ((first, 3), (second, 2)):
            assert torch.bincount(block.dst).max() <= fanout
            ends = zip(inputs[block.src].tolist(), inputs[block.dst].tolist(), strict=True)
            assert edges.issuperset(ends)


def test_every_process_makes_the_same_numbers():
    first, second = (workload("gat", GRAPHS["tiny"](), 8) for _ in range(2))
    assert torch.equal(first.x, second.x)
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)


def test_cases_are_a_star_around_the_base():
    cases = star(["gcn", "sage"], ["inference"])
    assert len(cases) == len(set(cases)) == 8 + 5
    assert all(c.graph == "power-law" or c.features == 64 for c in cases if c.layer == "gcn")
    assert star(["rgcn"], ["training"]) == [Case("rgcn", "training", "relations", 64)]
    assert [case.base for case in star(["sage"], ["training"])] == [True] + [False] * 4


def entry(layer: str, mode: str, times: dict[str, float], peaks: dict[str, float]) -> dict:
    rows = [
        vars(Row(name, median_ms=time, peak_mb=peaks.get(name))) for name, time in times.items()
    ]
    case = vars(Case(layer, mode, "power-law", 64))
    return {"case": case, "nodes": 1000, "edges": 5000, "rows": rows, "bound_ms": 5.0}


def measured(record: dict) -> list[bars.Verdict]:
    return [v for v in bars.verdicts(record) if v.met is not None]


def test_bars():
    times = {"dgl-udf": 199.0, "dgl": 34.0, "pyg-dynamic": 90.0, "pyg-static": 60.0, "gossamer": 10}
    record = {"cases": [entry("gcn", "training", times, {"dgl": 20.0, "gossamer": 20.5})]}
    assert [(v.about, v.found, v.met) for v in measured(record)] == [
        ("gcn training vs DGL UDF", "19.9x", False),
        ("gcn training vs DGL built-ins", "3.4x", True),
        ("gcn training vs PyG compiled", "6.0x", False),
        ("gcn training, memory", "20 MB", False),
    ]


def test_no_peer_is_faster():
    """Whether a bar names it or not, on the graph that a layer runs on."""
    gcn = entry("gcn", "inference", {"dgl": 40.0, "torch-csr": 9.0, "gossamer": 10.0}, {})
    rgcn = entry("rgcn", "training", {"pyg": 12.0, "pyg-sparse": 8.0, "gossamer": 10.0}, {})
    rgcn["case"]["graph"] = "relations"
    assert [(v.about, v.found, v.met) for v in measured({"cases": [gcn, rgcn]})] == [
        ("gcn inference vs DGL built-ins", "4.0x", True),
        ("gcn inference vs torch.sparse CSR", "0.9x", False),
        ("rgcn training vs PyG", "1.2x", True),
        ("rgcn training vs PyG torch_sparse", "0.8x", False),
    ]


def test_bars_between_layers_and_threads():
    gcn, gat = (
        entry(layer, "inference", {"gossamer": t}, {}) for layer, t in (("gcn", 10), ("gat", 20))
    )
    found = measured({"cases": [gcn, gat], "threads": {"1": 32.0, "2": 20.0}})
    assert [(v.found, v.met) for v in found] == [("2.00x", False), ("1.60x", True)]


def test_tables_show_ratio_bound_and_problem():
    shown = entry("gcn", "inference", {"pyg": 45.0, "gossamer": 10.0}, {"gossamer": 7.0})
    shown["rows"].append(vars(Row("torch-csr", problem="not expressible")))
    shown["rows"].append(vars(Row("dgl-udf", median_ms=9000.0, once=True)))
    text = tables.case_text(shown)
    assert "least time here 5.0 ms" in text
    assert "without gradient" not in text
    assert "; 1,200 outputs without gradient" in tables.case_text({**shown, "undecided": 1200})
    own = next(line for line in text.splitlines() if line.startswith("| Gossamer "))
    assert "2.00x" in own
    assert "4.5x" in text
    assert "not expressible" in text
    assert "9000.0 (one call)" in text
    assert len({len(line) for line in text.splitlines() if line.startswith("|")}) == 1


def test_bars_of_sizes_and_first_calls():
    row = {"graph": "uniform", "asked_edges": 10**6, "ms": 3.0, "bound_ms": 2.0}
    found = measured({"scaling": [row], "startup": {"small_us": 40.0, "recompiled": 1}})
    assert [(v.found, v.met) for v in found] == [("1.50x", False), ("40.0 us", True), ("1", False)]


def test_the_page_holds_bars_cases_and_pictures(tmp_path):
    cases = [
        entry("gcn", mode, {"dgl": 45.0, "gossamer": 10.0}, {})
        for mode in ("inference", "training")
    ]
    page = docs.write({"machine": {"cores": 2}, "cases": cases}, tmp_path).read_text()
    assert "### gcn training, power-law, 64 features" in page
    assert "gcn inference vs DGL built-ins" in page
    assert all(
        (tmp_path / f"performance-{mode}.png").exists() for mode in ("inference", "training")
    )
    assert "performance-training.png" in page


def test_the_page_has_cases_in_order_and_an_overview(tmp_path):
    times = {"pyg": 45.0, "gossamer": 10.0}
    cases = [entry(layer, "inference", times, {}) for layer in ("gat", "gcn")]
    wide = entry("gcn", "inference", {"dgl": 5.0}, {})
    wide["case"] = vars(Case("gcn", "inference", "power-law", 16))
    record = {"machine": {"cores": 2}, "cases": [wide, *cases]}
    page = docs.write(record, tmp_path).read_text()
    heads = [line.split(" (")[0] for line in page.splitlines() if line.startswith("### ")]
    sizes = (("gcn", 64), ("gcn", 16), ("gat", 64))
    assert heads == [f"### {layer} inference, power-law, {f} features" for layer, f in sizes]
    overview = page.partition("## Inference")[2].partition("###")[0]
    rows = [line.split("|")[1:] for line in overview.splitlines() if line.startswith("| g")]
    shown = [[cell.strip() for cell in row[1:-1]] for row in rows if len(row) == 5]
    assert shown == [["10.00", "-", "4.5x"], ["-", "-", "-"], ["10.00", "-", "4.5x"]]


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_pass_can_be_left_out(name):
    case = tiny("gat", "training")
    row, _ = prepare(case, name, reference(case))
    assert row.problem is None


def test_ablations_show_how_many_times_longer_it_takes():
    times = {"gossamer": 10.0} | dict.fromkeys(ABLATIONS, 10.0) | {"without-split-linear": 25.0}
    shown = entry("gat", "inference", times, {})
    shown["rows"].append(vars(Row("without-save", problem="differs")))
    line = tables.ablations_table([shown]).splitlines()[-1]
    assert line.count("2.50x") == 1
    assert line.count("1.00x") == len(ABLATIONS) - 2
    assert line.count(" - ") == 1


def test_ablations_are_shown_when_they_are_measured(monkeypatch, tmp_path, capsys):
    class Measured(session.Session):
        def case(self, case, plan):
            return entry(case.layer, case.mode, dict.fromkeys(plan.contenders, 10.0), {})

    monkeypatch.setattr(bench, "Session", Measured)
    record, layers = {}, ["gcn", "gat"]
    bench.measure_ablations(
        record,
        options.parse(["--ablations", "--layers", *layers, "--output", f"{tmp_path}/a.json"]),
    )
    assert {found["case"]["layer"] for found in record["ablations"]} == set(layers)
    assert capsys.readouterr().out.count("1.00x") == len(ABLATIONS) * len(record["ablations"])


def counting_steps(seconds, monkeypatch):
    """Steps that note that they were called, each in the time that `seconds` says."""
    calls = []
    monkeypatch.setattr(measure, "call_seconds", lambda step: seconds[step()])
    return calls, {name: lambda name=name: calls.append(name) or name for name in seconds}


def test_short_calls_are_made_several_times_in_their_turn(monkeypatch):
    calls, steps = counting_steps({"short": 1e-3, "warm": 1e-3}, monkeypatch)
    found = measure.take_turns(steps, Pace(2, budget_s=60, slow_s=60), warm={"warm": 1e-3})
    assert found == {"short": [1.0] * 6, "warm": [1.0] * 6}
    assert (calls.count("short"), calls.count("warm")) == (9, 6)


def test_who_takes_long_has_fewer_turns_and_in_all_rounds(monkeypatch):
    calls, steps = counting_steps({"fast": 0.3, "slow": 2.0, "very slow": 9.0}, monkeypatch)
    found = measure.take_turns(steps, Pace(6, budget_s=4, slow_s=5))
    assert {name: len(times) for name, times in found.items()} == {
        "fast": 6,
        "slow": measure.LEAST_TURNS,
        "very slow": 1,
    }
    # After one call of each, in every second round; each round begins with another one.
    in_turn = "".join(name[0] for name in calls[3:])
    assert calls.count("very slow") == 1
    assert sorted(len(part) for part in in_turn.split("s")) == [1, 1, 2, 2]


def test_quick_runs_hold_what_bars_speak_of():
    quick = options.parse(["--quick"])
    plan = replace(options.plan_of(quick), contenders=list(CONTENDERS))

    def kept(layer, mode):
        (case,) = product([layer], [mode], ["power-law"], [64])
        return options.plan_for(case, quick, plan)

    training = kept("gat", "training")
    peers = ["dgl", "pyg", "pyg-edge-index", "pyg-dynamic", "pyg-static"]
    assert training.contenders == [*peers, "gossamer"]
    assert training.weighed == ["dgl", "gossamer"]
    assert kept("gat", "inference").weighed == ["gossamer"]
    assert "dgl-udf" in kept("gcn", "inference").contenders
    everyone = [name for name in CONTENDERS if not CONTENDERS[name].only]
    assert kept("sage", "training").contenders == everyone
    assert not plan.thp
    assert options.parts_of(quick) == ["cases", "startup"]


def test_without_options_everything_is_measured():
    everything = options.parse([])
    assert options.parts_of(everything) == ["cases", *options.PARTS]
    plan = options.plan_of(everything)
    assert set(plan.contenders) - set(plan.thp) <= options.TWINS
    assert options.plan_of(options.parse(["--thp"])).thp == plan.contenders
    assert not options.plan_of(options.parse(["--no-thp"])).thp
    assert options.parts_of(options.parse(["--layers", "gat"])) == ["cases"]
    assert options.parts_of(options.parse(["--scaling", "--growth"])) == ["scaling", "growth"]


def test_both_modes_of_a_case_share_a_reference(tmp_path):
    inference, training = tiny("gcn", "inference"), tiny("gcn", "training")
    files = ReferenceFiles(tmp_path, [inference, training])
    assert files.place(inference) == files.place(training)
    path, case = files.place(inference)
    assert case == training
    keep(case, path)
    found, exact = load(path, inference), reference(training)
    (outputs, gradients), (expected, wanted) = found.expected, exact.expected
    assert (gradients, set(found.bounds())) == ({}, {"output"})
    assert all(torch.equal(*pair) for pair in zip(outputs, expected, strict=True))
    found = load(path, training)
    _, gradients = found.expected
    assert all(torch.equal(gradients[name], wanted[name]) for name in wanted)
    assert found.bounds() == load(path, training).bounds() == exact.bounds()
    assert (found.decided, load(path, inference).decided) == (None, None)
    assert set(found.bounds()) == {"output", "gradient of x", "gradient of weight"}


def test_what_float32_loses_is_asked_for_only_where_the_tolerance_is_not_enough():
    asked = []
    exact = Reference(([], {}), lambda: asked.append(1) or {"output": 2e-5, "gradient of x": 1e-5})
    assert (exact.wrong({"output": 9e-6}), asked) == ([], [])
    assert exact.wrong({"output": 1.5e-5, "gradient of x": 1.1e-5}) == ["gradient of x"]
    assert exact.wrong({"output": float("inf")}) == ["output"]


def test_threads_give_the_same_bits_and_times_of_each():
    before = torch.get_num_threads()
    times = by_threads(tiny("gat", "inference"), [1, 2], Pace(1, budget_s=1, slow_s=9))
    torch.set_num_threads(before)
    assert set(times) == {"1", "2"}


def test_growth_bars():
    def row(graph, nodes, edges, peak):
        case = vars(Case("gcn", "inference", graph, 64))
        return {"case": case, "nodes": nodes, "edges": edges, "peak_mb": peak}

    rows = [
        row("power-law", 100, 10**6, 40.0),
        row("more-nodes", 200, 10**6, 79.0),
        row("more-edges", 100, 2 * 10**6, 140.0),
    ]
    assert [(v.about, v.found, v.met) for v in measured({"growth": rows})] == [
        ("gcn inference, memory with twice the nodes", "1.98x", True),
        ("gcn inference, memory per further edge", "100.0 bytes", False),
    ]


def test_a_schedule_is_held_against_the_best_one_forced():
    case = vars(Case("gat", "inference", "uniform", 64))
    row = {"case": case, "model_ms": 11.0, "forced_ms": {"whole rows": 10.0, "other": 12.0}}
    row |= {"best": "whole rows", "beside_best": 1.0812, "interval": [1.07, 1.1]}
    assert [(v.found, v.met) for v in measured({"schedules": [row]})] == [("1.08x", False)]
    cells = ["11.00", "whole rows", "1.08x", "1.07x to 1.10x", "12.00"]
    assert tables.schedules_row(row)[1:] == cells


def test_every_bar_is_named_when_nothing_was_measured():
    found = bars.verdicts({})
    assert {v.met for v in found} == {None}
    names = [v.about for v in found]
    assert len(names) == len(set(names))
    assert "edgeconv training vs DGL UDF" in names
    assert len(tables.unmeasured(found).splitlines()) == len(names)
    assert f"{len(names)} were not measured" in tables.bars_table(found)


def test_choices_that_go_one_way_are_measured_once(monkeypatch):
    """On a tiny graph the model neither prefetches, nor streams; every choice has a time."""
    hurry(monkeypatch)
    found = schedules.measure(tiny("gcn", "training"))
    forced = found["forced_ms"]
    assert set(forced) == set(schedules.FORCED)
    as_model = ("0 edges ahead", "results in the caches")
    assert [forced[name] for name in as_model] == [found["model_ms"]] * 2
    assert len(set(forced.values())) > 1
    assert found["best"] not in as_model
    low, high = found["interval"]
    assert low <= found["beside_best"] <= high


def hurry(monkeypatch):
    """One round of each kind."""
    for name, value in (("SCREEN_S", 0.0), ("LIMIT_S", 0.0), ("LEAST_ROUNDS", 1)):
        monkeypatch.setattr(schedules, name, value)


def test_a_choice_that_looked_better_by_luck_is_compared_anew(monkeypatch):
    """The rounds that find it do not count, only those of the two after it."""
    asked = []

    def rounds_of(names, step, limit_s):
        asked.append(set(names))
        lucky = 0.8 if len(asked) == 1 else 1.25
        return [dict.fromkeys(names, 1.0) | {"64 edges ahead": lucky}] * 9

    monkeypatch.setattr(schedules, "rounds_of", rounds_of)
    found = schedules.measure(tiny("gcn", "inference"))
    assert asked[1] == {schedules.MODEL, "64 edges ahead"}
    assert (found["best"], found["forced_ms"][found["best"]]) == ("64 edges ahead", 0.8)
    assert (found["beside_best"], found["interval"]) == (0.8, [0.8, 0.8])


def test_the_interval_of_a_median_is_narrower_with_more_rounds():
    few, many = [
        schedules.median_and_interval([1 + i / rounds for i in range(rounds)])
        for rounds in (9, 900)
    ]
    assert few == (1 + 4 / 9, 1 + 1 / 9, 1 + 7 / 9)
    assert many[0] == pytest.approx(1.5, abs=0.01)
    assert many[2] - many[1] == pytest.approx(2 / 900**0.5, rel=0.1)
    assert schedules.median_and_interval([1.5]) == (1.5, 1.5, 1.5)


def test_other_cases_leave_out_what_is_slow_and_weigh_less():
    everything = options.parse([])
    plan = replace(options.plan_of(everything), contenders=list(CONTENDERS))
    plan = replace(plan, weighed=list(CONTENDERS), thp=list(CONTENDERS))
    base, wide = (Case("gat", "training", "power-law", size) for size in (64, 256))
    assert options.plan_for(base, everything, plan).thp == list(CONTENDERS)
    assert set(CONTENDERS) - set(options.plan_for(base, everything, plan).contenders) == {
        "pyg-fast-rgcn"
    }
    (relations,) = product(["rgcn"], ["training"], ["power-law"], [64])
    assert options.plan_for(relations, everything, plan) == plan
    found = options.plan_for(wide, everything, plan)
    assert set(plan.contenders) - set(found.contenders) == {
        "dgl-udf",
        "gossamer-dgl",
        "pyg-static",
        "pyg-fast-rgcn",
        "pyg-edge-index",
    }
    unsorted = replace(plan, contenders=[name for name in CONTENDERS if name != "pyg-sparse"])
    assert "pyg-edge-index" in options.plan_for(wide, everything, unsorted).contenders
    assert found.weighed == ["dgl", "gossamer"]
    assert found.thp == ["dgl", "pyg", "gossamer"]
    chosen = options.parse(["--contenders", "dgl-udf", "--weigh", "dgl-udf"])
    plan = options.plan_of(chosen)
    assert options.plan_for(wide, chosen, plan).contenders == plan.contenders


def test_a_case_is_measured_in_forks_and_not_again(tmp_path):
    """Through the processes: references, comparison, times, huge pages and memory."""
    case = tiny("gcn", "training")
    pace = Pace(1, budget_s=0.1, slow_s=9)
    plan = options.Plan(["torch-csr", "gossamer"], ["gossamer"], ["torch-csr", "gossamer"], 2, pace)
    with session.Session({case: plan}) as processes:
        found = processes.case(case, plan)
        assert processes.plain.ask({"threads": 2, "case": {}}, 60) is None
    rows = {row["contender"]: row for row in found["rows"]}
    assert all(row["problem"] is None and row["thp_ms"] for row in rows.values())
    assert rows["gossamer"]["peak_mb"] is not None
    assert rows["torch-csr"]["peak_mb"] is None
    assert json.loads(json.dumps(found)) == found
    assert session.measured([found], case, plan)
    assert not session.measured([found], case, replace(plan, thp=[]))
    assert not session.measured([{**found, "how": {}}], case, plan)


def test_who_is_called_once_is_not_measured_with_huge_pages():
    case = tiny("gcn", "inference")
    plan = options.Plan(["torch-csr", "gossamer"], [], ["torch-csr", "gossamer"], 2, Pace(1, 0, 0))
    with session.Session({case: plan}) as processes:
        found = processes.case(case, plan)
    assert [(row["once"], row["thp_ms"]) for row in found["rows"]] == [(True, None)] * 2


def test_progress_says_how_long_the_rest_takes(monkeypatch):
    cases = [Case("gcn", "training", graph, 64) for graph in ("citation", "molecules", "uniform")]
    progress = session.Progress(cases)
    monkeypatch.setattr(session.Progress, "seconds", 60.0)
    assert progress.done(cases[0]).startswith("1 of 3 cases in 60 s, the rest takes about 8 min")


def test_a_page_of_a_part_alone(tmp_path):
    row = {"graph": "uniform", "edges": 10**6, "features": 64}
    row |= {"asked_edges": 10**6, "ms": 3.0, "bound_ms": 2.0, "gather_ms": 1.0}
    page = docs.write({"machine": {"cores": 2}, "scaling": [row]}, tmp_path).read_text()
    assert "## Sum over neighbours" in page
    assert "## Schedules" not in page
