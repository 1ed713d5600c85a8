"""The eager engine against facts that need no reference implementation."""

from __future__ import annotations

import pytest
import torch
from programs import MODELS, PAIRS, census, graphs, pair_id, small_udfs
from programs.harness import reference
from programs.measure import FLOAT32_BOUND, error

UDF_LAYERS = small_udfs.PROGRAMS + census.PROGRAMS


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
    [program for program in UDF_LAYERS if not program.builtin and program.name != "small-apply"],
    ids=pair_id,
)
def test_without_edges_every_key_is_zeros(program):
    """What the reducer would return is written with its initializer; DGL writes nothing."""
    by_name = {case.name: case for case in graphs.ODD}
    if not program.runs_on(by_name["no_edges"]):
        pytest.skip("legal on graphs of constant degree only")
    empty = reference(program, by_name["no_edges"], program.feat, torch.float32)
    usual = reference(program, by_name["power_law"], program.feat, torch.float32)
    assert sorted(empty) == sorted(usual)
    for name, value in empty.items():
        assert value.dtype == usual[name].dtype
        assert value.shape[1:] == usual[name].shape[1:]
        assert not value.any()


@pytest.mark.parametrize("program", [p for p in MODELS if "homo" in p.kinds], ids=pair_id)
def test_int32_ids_give_the_same_bits(program):
    by_name = {case.name: case for case in graphs.ODD}
    long = reference(program, by_name["power_law"], program.feat, torch.float32)
    inputs = program.inputs(by_name["power_law"], program.feat, torch.float32)
    short = run_with_inputs(program, by_name["power_law_int32"], inputs)
    assert all(torch.equal(value, short[name]) for name, value in long.items())


def run_with_inputs(program, case, inputs):
    from programs.harness import fields_left, named_outputs
    from programs.library import gossamer_library

    library = gossamer_library()
    g = case.build(library)
    with torch.no_grad():
        out = program.build(library, program.feat, torch.float32)(*g, *inputs)
    return {**named_outputs(out), **fields_left(g)}
