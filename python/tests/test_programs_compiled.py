"""Compiled equals eager within the measure, for every program, graph, feature size and dtype."""

from __future__ import annotations

import pytest
import torch

import gossamer as gs
from programs import ALL, PAIRS, graphs, pair_id
from programs.harness import COMPILES, compiled, named_outputs, reference, run
from programs.library import gossamer_library
from programs.measure import assert_outputs

pytest_plugins = ["programs.plugin"]
pytestmark = pytest.mark.filterwarnings("ignore::gossamer.errors.FallbackWarning")

SIZES = (1, 3, 16, 64, 100, 512)
SIZED = (
    "gcn-GCN",
    "gcn-Builtin",
    "gat-GAT",
    "gat-HeadsGAT",
    "small-wave",
    "small-stacked",
    "small-distance",
    "small-log_sum_exp",
    "small-variance",
    "census-copy_max",
    "census-split",
)
"""These run at every size; the others at their own."""

STAR = (*SIZED, "gcn-Degree", "gat-MultiHead", "census-copy_mean", "small-hub_softmax")


def _named(*names):
    by_name = {program.name: program for program in ALL}
    return [by_name[name] for name in names]


def check(program, case, feat, dtype):
    """One compiled call on a fresh graph: outputs, dtypes, and the fields left on the graph."""
    library = gossamer_library()
    model = compiled(program, library, feat, dtype)
    actual = run(program, case, library, feat=feat, dtype=dtype, model=model)
    assert_outputs(
        actual,
        reference(program, case, feat, torch.float64),
        reference(program, case, feat, dtype),
    )


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("program", "case"), PAIRS, ids=pair_id)
def test_small_graphs(program, case):
    check(program, case, program.feat, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("feat", SIZES)
@pytest.mark.parametrize("program", _named(*SIZED), ids=pair_id)
def test_feature_sizes(program, feat, dtype):
    check(program, graphs.POWER_LAW, feat, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("program", _named(*STAR), ids=pair_id)
def test_star_with_100000_leaves(program, dtype):
    check(program, graphs.STAR, 8, dtype)


@pytest.mark.parametrize("program", [p for p in ALL if p.expect == COMPILES], ids=pair_id)
def test_nothing_falls_back(program):
    case = next(case for owner, case in PAIRS if owner is program)
    library = gossamer_library()
    model = compiled(program, library, program.feat, torch.float32)
    run(program, case, library, dtype=torch.float32, model=model)
    report = gs.explain(model)
    assert report.fallbacks == []
    assert "eager" not in report.code_paths.values()
    assert "kernel" in report.code_paths.values()


@pytest.mark.parametrize("program", _named("gcn-GCN", "gat-ScopedGAT", "small-wave"), ids=pair_id)
@pytest.mark.parametrize("change", ["transposed", "sliced", "expanded"])
def test_strided_inputs(program, change):
    """Non-contiguous inputs work, with the values of the contiguous ones."""
    library, case = gossamer_library(), graphs.ODD[0]
    model = compiled(program, library, 3, torch.float64)
    inputs = program.inputs(case, 3, torch.float64)
    views = [_strided(tensor, change) for tensor in inputs]
    with torch.no_grad():
        expected = program.build(library, 3, torch.float64)(*case.build(library), *views)
        actual = model(*case.build(library), *views)
    assert_outputs(named_outputs(actual), named_outputs(expected))


def _strided(tensor: torch.Tensor, change: str) -> torch.Tensor:
    if change == "transposed":
        return tensor.t().contiguous().t()
    if change == "sliced":
        return tensor.repeat_interleave(2, 0)[::2]
    return tensor[:1].expand(tensor.shape)
