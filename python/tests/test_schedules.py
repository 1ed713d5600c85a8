"""Each choice of a schedule forced in turn: forward and gradients, over programs of every kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer import disk_cache, native, tuned
from programs import ALL
from programs.graphs import GraphCase
from programs.harness import compiled, named_outputs
from programs.library import gossamer_library
from programs.measure import error
from programs.threads import threads

NAMES = (
    "gcn-GCN",
    "gat-GAT",
    "gat-HeadsGAT",
    "census-edgeconv",
    "census-copy_max",
    "census-copy_mean",
    "small-log_sum_exp",
    "small-variance",
    "small-hub_softmax",
)
PROGRAMS = [program for program in ALL if program.name in NAMES]
FEAT = 16

SAME_BITS = [
    {"prefetch": 0},
    {"prefetch": 5},
    {"prefetch": 1000},
    {"stream": False},
    {"stream": True},
    {"prefetch": 5, "stream": True},
]
"""These change no bit: the same numbers are added in the same order."""

PIECES = {"piece_edges": 64}


def _hubs() -> GraphCase:
    """Two nodes of many in-edges, two of many out-edges, parallel edges, nodes without any."""
    random = np.random.default_rng(3)
    nodes = 300
    ends = random.integers(0, 200, (2, 600))
    into = np.stack([random.integers(0, nodes, 777), random.choice([3, 250], 777)])
    out_of = np.stack([random.choice([7, 251], 500), random.integers(0, nodes, 500)])
    src, dst = np.concatenate([ends, into, out_of], axis=1)
    kept = dst != 299
    return GraphCase("hubs", "homo", (src[kept], dst[kept]), nodes, nodes)


HUBS = _hubs()


def test_every_program_named_here_exists():
    assert sorted(program.name for program in PROGRAMS) == sorted(NAMES)


def _run(model, program, dtype):
    """Outputs and gradients of inputs and parameters, one list of tensors."""
    inputs = [x.clone().requires_grad_() for x in program.inputs(HUBS, FEAT, dtype)]
    out = named_outputs_with_grad(model(*HUBS.build(gossamer_library()), *inputs))
    total = sum(
        (value * torch.linspace(-1, 1, value.numel(), dtype=dtype).view(value.shape)).sum()
        for value in out
    )
    leaves = inputs + (list(model.parameters()) if isinstance(model, torch.nn.Module) else [])
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    return [*(value.detach() for value in out), *(g for g in grads if g is not None)]


def named_outputs_with_grad(out):
    """The tensors of a model's output, in the order of their names."""
    if isinstance(out, torch.Tensor):
        return [out]
    items = out.values() if isinstance(out, dict) else out
    return [tensor for item in items for tensor in named_outputs_with_grad(item)]


def _forced(program, choices, dtype=torch.float32):
    fast = compiled(program, gossamer_library(), FEAT, dtype)
    with native.forced_schedule(**choices):
        found = _run(fast, program, dtype)
        assert all(
            getattr(schedule, name) == value
            for schedule in gs.explain(fast).schedules
            for name, value in choices.items()
        )
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_choices_that_change_no_bit(program):
    _forced(program, {})  # later calls are of the whole model
    plain = _forced(program, {})
    for choices in SAME_BITS:
        for got, want in zip(_forced(program, choices), plain, strict=True):
            assert torch.equal(got, want), choices


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_rows_in_pieces(program):
    """Within the measure of float64 eager, forward and gradients; in float64 close to exact."""
    eager = program.build(gossamer_library(), FEAT, torch.float64)
    want = _run(eager, program, torch.float64)
    for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        for got, right in zip(_forced(program, PIECES, dtype), want, strict=True):
            assert error(got, right) <= bound


@pytest.mark.parametrize("program", PROGRAMS[:4], ids=lambda program: program.name)
def test_rows_in_pieces_have_the_same_bits_for_any_threads(program):
    fast = compiled(program, gossamer_library(), FEAT, torch.float32)
    inputs = program.inputs(HUBS, FEAT, torch.float32)
    # The first call is another program than later ones, which are one for the whole forward.
    with torch.no_grad():
        fast(*HUBS.build(gossamer_library()), *inputs)
    found = []
    for number in (1, 2, 3):
        with threads(number), native.forced_schedule(**PIECES), torch.no_grad():
            found.append(named_outputs(fast(*HUBS.build(gossamer_library()), *inputs)))
    for other in found[1:]:
        assert all(torch.equal(other[name], found[0][name]) for name in found[0])


def _sum(graph, x):
    with graph.local_scope():
        graph.ndata["x"] = x
        graph.update_all(
            lambda edges: {"m": edges.src["x"]}, lambda nodes: {"y": nodes.mailbox["m"].sum(1)}
        )
        return graph.ndata["y"]


def test_one_row_of_all_edges_is_cut_unforced():
    """A star of 100,000 edges: pieces by the cost model, accurate, and the report says so."""
    edges = 100_000
    graph = gs.graph((torch.arange(1, edges + 1), torch.zeros(edges, dtype=torch.int64)))
    x = torch.randn(edges + 1, 3, generator=torch.Generator().manual_seed(0))
    fast = gs.compile(_sum, fallback="error")
    found = fast(graph, x)
    assert error(found, _sum(graph, x.double())) <= 1e-6
    (schedule,) = gs.explain(fast).schedules
    assert schedule.piece_edges < edges
    assert f"cuts rows of more than {schedule.piece_edges} edges" in str(gs.explain(fast))


def test_another_graph_is_another_schedule_of_one_program():
    fast = gs.compile(_sum, fallback="error")
    found = []
    for nodes in (10, 400_000):
        ends = torch.arange(nodes)
        fast(gs.graph((ends, ends.flip(0)), num_nodes=nodes), torch.ones(nodes, 64))
        found.append(gs.explain(fast).schedules)
        assert len(gs.explain(fast).programs) <= 2  # region, then whole
    assert (found[0][0].prefetch, found[0][0].stream) == (0, False)
    assert found[0][0].piece_edges == native.WHOLE_ROWS
    assert found[-1][-1].prefetch > 0
    assert found[-1][-1].stream


@pytest.fixture
def cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of entries of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gossamer"


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch):
    """Called, it makes the process forget its programs, and what it measured for them."""

    def forget() -> None:
        monkeypatch.setattr("gossamer.program._programs", {})

    forget()
    return forget


def _sources(fast) -> list[str]:
    """Who chose the schedules, of each program in order."""
    return [schedule.source for schedule in gs.explain(fast).schedules]


def _tuned_sum(graph, x: torch.Tensor):
    fast = gs.compile(_sum, fallback="error", tune=True)
    assert torch.equal(fast(graph, x), gs.compile(_sum, fallback="error")(graph, x))
    return fast


def _hubs_and_x():
    x = torch.randn(HUBS.num_src, 64, generator=torch.Generator().manual_seed(0))
    return HUBS.build(gossamer_library())[0], x


def test_tuning_measures_once_per_shape_class_and_keeps_the_bits(cache, another_process):
    graph, x = _hubs_and_x()
    fast = _tuned_sum(graph, x)
    assert _sources(fast) == [tuned.MEASURED]
    (found,) = gs.explain(fast).schedules
    assert str(gs.explain(fast)).endswith(f"; {tuned.MEASURED}")
    want = fast(graph, x)  # of the whole function from now on
    assert torch.equal(fast(graph, x), want)
    assert gs.explain(fast).schedules[0] == found
    assert set(_sources(fast)) == {tuned.MEASURED}
    more = gs.graph((torch.tensor([0, 1]), torch.tensor([1, 0])))
    fast(more, torch.ones(2, 64))
    assert len(gs.explain(fast).compilations) == 1
    programs = [record.program for record in gs.explain(fast)._session.programs]
    assert len({shape for program in programs for shape in program._tuned_by}) == 2


def test_another_process_finds_what_was_measured(cache, another_process):
    graph, x = _hubs_and_x()
    first = gs.explain(_tuned_sum(graph, x)).schedules
    another_process()
    second = gs.explain(_tuned_sum(graph, x)).schedules
    assert [schedule.source for schedule in second] == [tuned.FOUND]
    assert [replace(schedule, source=tuned.MEASURED) for schedule in second] == first


def test_what_was_measured_with_other_threads_is_measured_anew(cache, another_process):
    graph, x = _hubs_and_x()
    for number in (1, 2):
        another_process()
        with threads(number):
            assert _sources(_tuned_sum(graph, x)) == [tuned.MEASURED]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "Expecting property name"),
        (b'{"prefetch": 1}', "expected a list of integers"),
        (b"[true, 1]", "expected a list of integers"),
        (b"[]", "then three numbers for each kernel; got 0"),
        (b"[0, 16]", "then three numbers for each kernel; got 2"),
        (b"[0, 16, 0, 64, 16, 0, 64]", "program has 1 kernels; got choices of 2"),
        (b"[1, 16, 0, 64]", "program has 1 variants; got number 1"),
        (b"[-1, 16, 0, 64]", "program has 1 variants; got number"),
        (b"[0, -5, 0, 64]", "kernel 0 cannot prefetch -5 edges ahead"),
        (b"[0, 5, 0, 0]", "kernel 0 cannot cut rows in pieces of 0 edges"),
    ],
)
def test_a_foreign_entry_is_ignored_with_its_reason(cache, another_process, content, problem):
    graph, x = _hubs_and_x()
    _tuned_sum(graph, x)
    (entry,) = filter(_is_tuned, cache.glob("*"))
    disk_cache.write(entry.name, content)
    another_process()
    (source,) = _sources(_tuned_sum(graph, x))
    assert source.startswith(f"{tuned.MEASURED} (ignored {entry}: ")
    assert problem in source
    another_process()
    assert _sources(_tuned_sum(graph, x)) == [tuned.FOUND]  # the new entry took its place


def test_a_damaged_entry_is_as_none(cache, another_process):
    graph, x = _hubs_and_x()
    _tuned_sum(graph, x)
    (entry,) = filter(_is_tuned, cache.glob("*"))
    entry.write_bytes(entry.read_bytes()[:-1])
    another_process()
    assert _sources(_tuned_sum(graph, x)) == [tuned.MEASURED]


def _is_tuned(path: Path) -> bool:
    """Whether an entry holds a list of numbers; no other does."""
    return disk_cache.read(path.name).startswith(b"[")


def test_tune_is_refused_with_another_value():
    with pytest.raises(ValueError, match="tune is one of False, True"):
        gs.compile(_sum, tune="yes")
