"""The eager engine against facts that need no reference implementation."""

from __future__ import annotations

import pytest
import torch

from programs import MODELS, PAIRS, census, graphs, pair_id, small_udfs
from programs.harness import fields_left, named_outputs, reference
from programs.library import gossamer_library
from programs.measure import FLOAT32_BOUND, error

pytest_plugins = ["programs.plugin"]
pytestmark = pytest.mark.usefixtures("one_thread")

UDF_LAYERS = small_udfs.PROGRAMS + census.PROGRAMS
USUAL, INT32, EMPTY = (
    next(case for case in graphs.ODD if case.name == name)
    for name in ("power_law", "power_law_int32", "no_edges")
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "case"), PAIRS, ids=pair_id)
def test_float32_is_close_to_float64(program, case):
    """Else the program is no fair test of the compiled float32 result."""
    expected = reference(program, case, program.feat, torch.float64)
    actual = reference(program, case, program.feat, torch.float32)
    assert sorted(actual) == sorted(expected)
    for name, value in actual.items():
        if value.is_floating_point():
            assert value.dtype == torch.float32
            assert error(value, expected[name]) <= FLOAT32_BOUND
        else:
            assert torch.equal(value, expected[name])


@pytest.mark.parametrize(
    "program",
    [p for p in UDF_LAYERS if not p.builtin and p.name != "small-apply" and p.runs_on(EMPTY)],
    ids=pair_id,
)
def test_without_edges_every_key_is_zeros(program):
    """What the reducer would return is written with its initializer; DGL writes nothing."""
    empty = reference(program, EMPTY, program.feat, torch.float32)
    usual = reference(program, USUAL, program.feat, torch.float32)
    assert sorted(empty) == sorted(usual)
    for name, value in empty.items():
        assert value.dtype == usual[name].dtype
        assert value.shape[1:] == usual[name].shape[1:]
        assert not value.any()


@pytest.mark.parametrize("program", [p for p in MODELS if "homo" in p.kinds], ids=pair_id)
def test_int32_ids_give_the_same_bits(program):
    long = reference(program, USUAL, program.feat, torch.float32)
    inputs = program.inputs(USUAL, program.feat, torch.float32)
    short = _run(program, INT32, inputs)
    assert all(torch.equal(value, short[name]) for name, value in long.items())


def _run(program, case, inputs):
    library = gossamer_library()
    g = case.build(library)
    with torch.no_grad():
        out = program.build(library, program.feat, torch.float32)(*g, *inputs)
    return {**named_outputs(out), **fields_left(g)}
