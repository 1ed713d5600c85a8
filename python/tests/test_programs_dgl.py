"""Eager `gs.Graph`, compiled and DGL agree: recorded outputs everywhere, live ones where DGL is."""

from __future__ import annotations

import pytest
import torch

from programs import ALL, MODELS, PAIRS, pair_id
from programs.golden import FOLDER, load
from programs.harness import compiled, reference, run
from programs.library import dgl_is_installed, dgl_library, gossamer_library
from programs.measure import assert_outputs

pytest_plugins = ["programs.plugin"]
pytestmark = pytest.mark.usefixtures("one_thread")

COMPARED = [(program, case) for program, case in PAIRS if program.dgl_defines(case)]
ON_DGL_GRAPHS = [
    (program, case)
    for program, case in COMPARED
    if program in MODELS or case.name in ("power_law_int32", "bipartite", "block")
]

live_only = pytest.mark.skipif(not dgl_is_installed(), reason="DGL is not installed")


@pytest.mark.dgl_golden
@pytest.mark.parametrize(("program", "case"), COMPARED, ids=pair_id)
def test_eager_equals_recorded(program, case):
    assert_outputs(
        reference(program, case, program.feat, torch.float64),
        load(program, case, gossamer_library()),
    )


@pytest.mark.dgl_golden
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "case"), COMPARED, ids=pair_id)
def test_compiled_equals_recorded(program, case):
    library = gossamer_library()
    model = compiled(program, library, program.feat, torch.float64)
    assert_outputs(run(program, case, library, model=model), load(program, case, library))


@pytest.mark.dgl_golden
def test_every_comparison_is_recorded():
    assert int((FOLDER / "count.txt").read_text()) == len(COMPARED)
    assert {path.stem for path in FOLDER.glob("*.npz")} == {program.name for program in ALL}


@live_only
@pytest.mark.dgl_live
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "case"), COMPARED, ids=pair_id)
def test_eager_equals_dgl(program, case):
    assert_outputs(
        reference(program, case, program.feat, torch.float64), run(program, case, dgl_library())
    )


@live_only
@pytest.mark.dgl_live
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "case"), ON_DGL_GRAPHS, ids=pair_id)
def test_compiled_on_a_dgl_graph_equals_dgl(program, case):
    """The model is written with DGL's own functions and gets a real `dgl.DGLGraph`."""
    library, dtype = dgl_library(), torch.float32
    model = compiled(program, library, program.feat, dtype)
    assert_outputs(
        run(program, case, library, dtype=dtype, model=model),
        run(program, case, library),
        run(program, case, library, dtype=dtype),
    )
