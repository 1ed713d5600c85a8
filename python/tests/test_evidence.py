"""Evidence from outside: on a warm call neither user functions nor the eager engine run."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import gossamer as gs
from programs import ALL, MODELS, PAIRS, graphs, pair_id
from programs.harness import COMPILES, Program, compiled, run
from programs.library import gossamer_library
from programs.threads import threads
from programs.twins import copy_h, mail_sum, make_graph, once, signed
from programs.watch import Operators, eager_engine, functions_called, user_functions

WATCHED = [program for program in ALL if program.expect == COMPILES]


def _case(program: Program):
    return next(case for owner, case in PAIRS if owner is program and case.num_edges)


def _call(program: Program, model=None):
    library, dtype = gossamer_library(), torch.float32
    return run(program, _case(program), library, dtype=dtype, model=model)


def _warm(program: Program):
    model = compiled(program, gossamer_library(), program.feat, torch.float32)
    for _ in range(2):
        _call(program, model)
    return model


@pytest.mark.parametrize("program", WATCHED, ids=pair_id)
def test_a_warm_call_runs_no_user_function_and_no_eager_engine(program):
    model = _warm(program)
    case, dtype = _case(program), torch.float32
    arguments = case.build(gossamer_library()), program.inputs(case, program.feat, dtype)
    with torch.no_grad(), functions_called() as seen:
        model(*arguments[0], *arguments[1])
    assert user_functions(seen) == set()
    assert eager_engine(seen) == set()


def test_the_profiler_hook_would_see_them():
    program = MODELS[0]
    case = _case(program)
    model = program.build(gossamer_library(), program.feat, torch.float32)
    arguments = case.build(gossamer_library()), program.inputs(case, program.feat, torch.float32)
    with torch.no_grad(), functions_called() as seen:
        model(*arguments[0], *arguments[1])
    assert len(user_functions(seen)) == 2
    assert eager_engine(seen)


@pytest.mark.parametrize("program", WATCHED, ids=pair_id)
def test_a_warm_call_runs_only_our_operators_and_those_of_forward(program, monkeypatch):
    """The torch operators allowed are those that the eager model runs outside its graph calls."""
    model = _warm(program)
    eager = program.build(gossamer_library(), program.feat, torch.float32)
    case = _case(program)
    inputs = program.inputs(case, program.feat, torch.float32)

    ours, graph = Operators(), case.build(gossamer_library())
    with torch.no_grad(), ours:
        model(*graph, *inputs)

    allowed, graph = Operators(), case.build(gossamer_library())
    for name in ("update_all", "apply_edges", "multi_update_all"):
        monkeypatch.setattr(gs.Graph, name, allowed.outside(getattr(gs.Graph, name)))
    with torch.no_grad(), allowed:
        eager(*graph, *inputs)

    torch_ops = {name: n for name, n in ours.seen.items() if not name.startswith("gossamer::")}
    if program.name == "hetero-CrossRelations":
        # The cross reducer joins what the relations' programs computed.
        assert (torch_ops.pop("aten::stack"), torch_ops.pop("aten::sum.dim_IntList")) == (1, 1)
    assert any(name.startswith("gossamer::") for name in ours.seen)
    # Fields left on edges are computed when read, from the parameters of now: these are copied.
    for name in ("aten::detach", "aten::clone"):
        allowed.seen[name] += len(list(eager.parameters()))
    assert {name: n for name, n in torch_ops.items() if n > allowed.seen[name]} == {}


def _python(code: str, *arguments: str) -> list[str]:
    """The words that `code` prints in a fresh interpreter with the same import path."""
    prefix = f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
    command = [sys.executable, "-c", prefix + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


IMPORT = """
import time, torch
start = time.perf_counter()
import gossamer
seconds = time.perf_counter() - start
maps = open("/proc/self/maps").read()
print(seconds, "libMLIR" in maps, "libLLVM" in maps, "dgl" in sys.modules)
"""


def test_import_loads_no_compiler_and_takes_little_time():
    runs = [_python(IMPORT) for _ in range(3)]
    assert all(run[1:] == ["False", "False", "False"] for run in runs)
    assert min(float(run[0]) for run in runs) <= 0.3


PEAK = """
import torch, gossamer as gs
from programs import MODELS
from programs.library import gossamer_library
from programs.watch import reset_peak, resident_bytes
name, nodes, edges, feat = sys.argv[1], *map(int, sys.argv[2:])
program = next(program for program in MODELS if program.name == name)
model = gs.compile(program.build(gossamer_library(), feat, torch.float32), fallback="error")
def call(nodes, edges):
    g = gs.graph((torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))), num_nodes=nodes)
    inputs = [rows.draw(nodes, feat, torch.float32, rows.name) for rows in program.rows]
    with torch.no_grad():
        reset_peak()
        before = resident_bytes()
        out = model(g, *inputs)
        return resident_bytes("VmHWM") - before, out.abs().sum().item()
call(100, 1000)
print(*call(nodes, edges))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcn-GCN", "gat-ScopedGAT"])
def test_peak_memory_stays_below_edges_times_features(name):
    nodes, edges, feat = 20_000, 1_000_000, 256
    growth, total = _python(PEAK, name, str(nodes), str(edges), str(feat))
    assert float(total) > 0
    assert int(growth) < edges * feat


def _sampled(seed: int) -> graphs.GraphCase:
    return graphs.sampled_block(f"sample{seed}", 30 + 3 * seed, 10 + seed, 60 + 7 * seed)


def test_fifty_sampled_blocks_need_one_compilation():
    def layer(block, h):
        with block.local_scope():
            block.srcdata["h"] = h
            block.dstdata["own"] = h[: block.num_dst_nodes()]
            block.update_all(
                lambda edges: {"m": edges.src["h"] - edges.dst["own"]},
                lambda nodes: {"o": nodes.mailbox["m"].mean(1)},
            )
            return block.dstdata["o"]

    fast = gs.compile(layer, fallback="error")
    for seed in range(50):
        case = _sampled(seed)
        h = signed(case.num_src, 5, seed=seed)
        torch.testing.assert_close(fast(make_graph(case), h), layer(make_graph(case), h))
    assert len(gs.explain(fast).compilations) == 1


def test_twenty_graphs_need_one_compilation():
    layer = once(lambda edges: {"m": edges.src["h"].exp() * edges.dst["h"]}, mail_sum)
    fast = gs.compile(layer, fallback="error")
    cases = [case for case in graphs.ODD if case.kind == "homo" and case.idtype == torch.int64]
    for seed in range(20 - len(cases)):
        ends = graphs.power_law(f"twenty{seed}", 10 + 5 * seed, 40 + 9 * seed)
        nodes = 10 + 5 * seed
        cases.append(graphs.GraphCase(f"twenty{seed}", "homo", ends, nodes, nodes))
    assert len(cases) == 20
    for case in cases:
        h = signed(case.num_src, 5, seed=case.name)
        torch.testing.assert_close(fast(make_graph(case), h), layer(make_graph(case), h))
    assert len(gs.explain(fast).compilations) == 1


def test_equal_modules_share_nothing_but_code():
    """Two layers of one class with other parameters, and two models, give their own results."""
    program = MODELS[0]
    library, case = gossamer_library(), graphs.ODD[0]
    inputs = program.inputs(case, 3, torch.float64)
    for seed in range(3):
        model = program.build(library, 3, torch.float64)
        with torch.no_grad():
            model.linear.weight.mul_(seed + 1)
        fast = gs.compile(model, fallback="error")
        with torch.no_grad():
            torch.testing.assert_close(
                fast(make_graph(), *inputs), model(make_graph(), *inputs), rtol=1e-12, atol=1e-12
            )


HUB = graphs.GraphCase(
    "hub",
    "homo",
    tuple(
        torch.cat([torch.from_numpy(end), torch.tensor(extra)]).numpy()
        for end, extra in zip(
            graphs.power_law("hub", 300, 20_000),
            ([i % 300 for i in range(60_000)], [0] * 60_000),
            strict=True,
        )
    ),
    300,
    300,
)


@pytest.mark.parametrize(
    "name", ["gcn-GCN", "gat-GAT", "gat-HeadsGAT", "small-log_sum_exp", "census-copy_mean"]
)
def test_equal_bits_from_run_to_run_and_for_any_number_of_threads(name):
    program = next(program for program in ALL if program.name == name)
    library = gossamer_library()
    model = compiled(program, library, 16, torch.float32)
    # The first call is another program than later ones, which are one for the whole forward.
    run(program, HUB, library, feat=16, dtype=torch.float32, model=model)
    results = []
    for count in (2, 2, 2, 1, 1):
        with threads(count):
            results.append(run(program, HUB, library, feat=16, dtype=torch.float32, model=model))
    for result in results[1:]:
        for field, value in result.items():
            assert torch.equal(value, results[0][field]), field


def test_the_peak_would_show_an_edge_tensor():
    """The measure itself: an allocation that is touched shows."""
    code = """
import torch
from programs.watch import reset_peak, resident_bytes
reset_peak(); before = resident_bytes()
torch.ones(64 << 20, dtype=torch.uint8)
print(resident_bytes("VmHWM") - before)
"""
    assert int(_python(code)[0]) > 60 << 20


def test_copies_alone_make_no_edge_rows():
    """The report's arrays: nothing has a row for each edge when only nodes are asked for."""
    fast = gs.compile(once(copy_h, mail_sum), fallback="error")
    fast(make_graph(), signed(graphs.ODD[0].num_src, 3))
    buffers = gs.explain(fast).buffers
    assert buffers
    assert [buffer for buffer in buffers if buffer.rows == "edges"] == []
