"""Captures found on the disk: when, with what result, and what a process need not load then."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import gossamer as gs
from gossamer import disk_cache, identity
from gossamer.capture.session import Options
from gossamer.capture.stored import CALLS, FORWARDS
from gossamer.compiled import CompiledModule

SOURCE = """
import torch
from torch import nn

SCALE = 3

def act(x):
    return torch.relu(x)

def make(shift, factor=1.5):
    def message(edges):
        return {"m": act(edges.src["h"]) * SCALE * factor + shift}
    return message

message = make(2)

def apply(nodes, power=2):
    return {"h": nodes.data["h"] ** power}

class Layer(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.width = 4

    def reduce(self, nodes):
        return {"h": nodes.mailbox["m"].sum(1) * self.width}

    def forward(self, graph, x):
        with graph.local_scope():
            graph.ndata["h"] = x @ self.weight
            graph.update_all(message, self.reduce, apply)
            return graph.ndata["h"]
"""

pytestmark = pytest.mark.stored
GRAPH = gs.graph(([0, 1, 2, 2, 0, 0], [1, 1, 1, 3, 3, 3]), num_nodes=5)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gossamer"


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was traced, "call" or "forward", in order: each trace is offered to the disk."""
    found: list[str] = []
    for store in (CALLS, FORWARDS):

        def put(name, capture, store=store, kind=store.kind):
            found.append(kind)
            type(store).put(store, name, capture)

        monkeypatch.setattr(store, "put", put)
    return found


def user_code(source: str = SOURCE) -> types.SimpleNamespace:
    """The names of a source file, anew: other code objects, as in another process."""
    names: dict = {"__name__": "user_model"}
    exec(compile(source, "user_model.py", "exec"), names)
    return types.SimpleNamespace(**names)


def data(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(*shape, generator=generator, dtype=dtype)  # noqa: E731
    return make(5, 4), make(4, 3)


def step(layer, fast, x: torch.Tensor) -> list[torch.Tensor]:
    """Result and gradients of one step."""
    x = x.clone().requires_grad_()
    result = fast(GRAPH, x)
    result.square().sum().backward()
    found = [result.detach(), x.grad, layer.weight.grad]
    layer.weight.grad = None
    return found


def check(code: types.SimpleNamespace, dtype=torch.float32, change=None, **options) -> list:
    """One step of a newly compiled layer, equal to eager; its tensors."""
    x, weight = data(dtype)
    layer = code.Layer(weight)
    if change is not None:
        change(layer)
    found = step(layer, gs.compile(layer, fallback="error", **options), x)
    for ours, eager in zip(found, step(layer, layer, x), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-3)
    return found


def test_equal_code_is_not_traced_again(traces):
    first = check(user_code())
    assert traces == ["call"]
    second = check(user_code())
    assert traces == ["call"]
    assert all(map(torch.equal, first, second))


CHANGES = {
    "body": ("torch.relu(x)", "torch.tanh(x)"),
    "constant": ("sum(1) *", "sum(1) * 5 *"),
    "global": ("SCALE = 3", "SCALE = 4"),
    "closure": ("make(2)", "make(3)"),
    "float in a closure": ("factor=1.5", "factor=2.5"),
    "default": ("power=2", "power=3"),
    "attribute": ("self.width = 4", "self.width = 6"),
    "line": ("\nSCALE", "\n\nSCALE"),
    "field name": ('"m"', '"message"'),
}


@pytest.mark.parametrize("what", CHANGES)
def test_other_code_is_traced(what, traces):
    check(user_code())
    old, new = CHANGES[what]
    assert old in SOURCE
    check(user_code(SOURCE.replace(old, new)))
    assert traces == ["call", "call"]
    check(user_code())
    assert traces == ["call", "call"]


def test_other_types_and_options_are_traced(traces):
    check(user_code())
    check(user_code(), torch.float64)
    check(user_code(), numerics="strict")
    check(user_code(), rng="eager")
    assert traces == ["call"] * 4
    check(user_code(), change=lambda layer: setattr(layer, "width", True))
    assert traces == ["call"] * 5
    with torch.no_grad():
        x, weight = data()
        gs.compile(user_code().Layer(weight))(GRAPH, x)
    assert traces == ["call"] * 6


def test_a_float_that_varies_is_found_again(traces):
    def run() -> list[torch.Tensor]:
        code = user_code()
        x, weight = data()
        layer = code.Layer(weight)
        fast = gs.compile(layer, fallback="error")
        found = []
        for factor in (1.5, 2.5, -0.0):
            code.Layer.forward.__globals__["message"] = code.make(2, factor)
            with torch.no_grad():
                found.append(fast(GRAPH, x))
                torch.testing.assert_close(found[-1], layer(GRAPH, x))
        return found

    first = run()
    assert traces == ["call", "call"]
    assert all(map(torch.equal, first, run()))
    assert traces == ["call", "call"]


def test_whole_forwards_are_found_in_the_first_call(traces):
    def run(calls: int) -> tuple[list, gs.report.Report]:
        x, weight = data()
        layer = user_code().Layer(weight)
        fast = gs.compile(layer, fallback="error")
        steps = [step(layer, fast, x) for _ in range(calls)]
        return steps[-1], gs.explain(fast)

    first, before = run(2)
    assert (traces, before.mode) == (["call", "forward"], "whole")
    second, after = run(1)
    assert (traces, after.mode) == (["call", "forward"], "whole")
    assert all(map(torch.equal, first, second))
    assert after.code_paths == before.code_paths
    assert after.ir("captured") in before.ir("captured")


def test_reports_of_both_are_equal(traces):
    def report() -> dict:
        x, weight = data()
        layer = user_code().Layer(weight)
        fast = gs.compile(layer, fallback="error")
        step(layer, fast, x)
        found = gs.explain(fast).to_dict()
        for item in (*found["programs"], *found["compilations"]):
            del item["seconds"], item["cached"]
        return found

    assert report() == report()
    assert traces == ["call"]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "other json"])
def test_damaged_entries_are_replaced(damage, cache, traces):
    check(user_code())
    for entry in cache.iterdir():
        content = bytearray(entry.read_bytes())
        if content[32:33] != b"{":
            continue  # a program, not a capture
        if damage == "cut":
            entry.write_bytes(content[: len(content) // 2])
        elif damage == "flip":
            content[len(content) // 2] ^= 1
            entry.write_bytes(content)
        elif damage == "empty":
            entry.write_bytes(b"")
        elif damage == "foreign":
            disk_cache.write(entry.name, b"\x80\x04K\x01.")
        else:
            found = json.loads(content[32:])
            found["inputs"] = found["inputs"][0]
            disk_cache.write(entry.name, json.dumps(found).encode())
    check(user_code())
    assert traces == ["call", "call"]
    check(user_code())
    assert traces == ["call", "call"]


def test_what_may_see_the_order_of_a_set_is_not_kept(traces):
    source = SOURCE.replace("return torch.relu(x)", "return sum(x * n for n in {len('a'), SCALE})")
    for _ in range(2):
        check(user_code(source))
    assert traces == ["call", "call"]


def test_an_empty_set_has_no_order(traces):
    source = SOURCE.replace("self.width = 4", "self.width = 4; self.names = set()")
    source = source.replace("* self.width", "* (self.width + len(self.names))")
    for _ in range(2):
        check(user_code(source))
    assert traces == ["call"]
    check(user_code(source.replace("set()", "{1}")))
    assert traces == ["call"] * 2


def test_other_folders_of_options_do_not_meet(traces):
    x, weight = data()
    for without in ((), ("hoist-before-gather",)):
        layer = user_code().Layer(weight)
        step(layer, CompiledModule(layer, Options(without=without)), x)
    assert traces == ["call", "call"]


def test_random_numbers_are_warned_of_after_a_hit(traces):
    source = SOURCE.replace("return torch.relu(x)", "return torch.dropout(x, 0.5, True)")
    x, weight = data()
    results = []
    for _ in range(2):
        fast = gs.compile(user_code(source).Layer(weight), fallback="error")
        torch.manual_seed(3)
        with pytest.warns(gs.RandomNumbersWarning, match="user_model.py:8"):
            results.append(fast(GRAPH, x))
    assert torch.equal(*results)
    assert traces == ["call"]


def test_random_numbers_of_a_whole_forward_are_warned_of(traces):
    source = SOURCE.replace("return torch.relu(x)", "return torch.dropout(x, 0.5, True)")
    x, weight = data()
    for calls in (2, 1):
        fast = gs.compile(user_code(source).Layer(weight), fallback="error")
        with pytest.warns(gs.RandomNumbersWarning, match="user_model.py:8"):
            _ = [fast(GRAPH, x) for _ in range(calls)]
        assert gs.explain(fast).mode == "whole"
    assert traces == ["call", "forward"]


def test_operators_that_users_define_are_traced_in_each_process(traces):
    with torch.library._scoped_library("user", "DEF") as library:
        library.define("act(Tensor x) -> Tensor")
        for function in (torch.relu, torch.tanh):
            library.impl("act", function, "CompositeImplicitAutograd", allow_override=True)
            for name in ("act", "act.default"):
                source = SOURCE.replace("torch.relu(x)", "op(x)")
                check(user_code(source.replace("SCALE", f"op = torch.ops.user.{name}; SCALE", 1)))
    assert traces == ["call"] * 4


def test_our_own_files_are_in_the_name(monkeypatch, tmp_path):
    def name() -> str | None:
        identity._own_files.cache_clear()
        return CALLS.name(Options(), 1)

    file = tmp_path / "identity.py"
    file.write_text("1")
    os.utime(file, (0, 0))
    monkeypatch.setattr(identity, "__file__", str(file))
    names = [name()]
    file.write_text("2")
    assert name() is None  # changed after the import
    os.utime(file, (0, 0))
    names.append(name())
    (tmp_path / "more.py").write_text("")
    os.utime(tmp_path / "more.py", (0, 0))
    names.append(name())
    assert len({*names, None}) == 4
    file.unlink()
    assert name() is None  # not there as files
    monkeypatch.undo()
    identity._own_files.cache_clear()


def test_a_changed_library_function_has_no_name(monkeypatch):
    code = user_code()
    key = (torch.relu, torch.Tensor.sum, torch.nn.functional.leaky_relu, len)
    assert CALLS.name(Options(), *key) is not None
    monkeypatch.setattr(torch.nn.functional, "leaky_relu", code.act)
    assert CALLS.name(Options(), torch.nn.functional.leaky_relu) is None


PROCESS = '''
import sys, torch, gossamer as gs
import user_model
from user_model import Layer
generator = torch.Generator().manual_seed(0)
x, first, second = (torch.randn(*s, generator=generator) for s in ((5, 4), (4, 3), (3, 3)))
graph = gs.graph(([0, 1, 2, 2, 0, 0], [1, 1, 1, 3, 3, 3]), num_nodes=5)

class Counted(torch.nn.Module):
    """Not whole: it writes an attribute."""
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(first), Layer(second)])
    def forward(self, graph, x):
        self.calls = 1
        for layer in self.layers:
            x = layer(graph, x)
        return x

results = []
for model in (Layer(first), Counted()):
    fast = gs.compile(model, fallback="error")
    for _ in range(int(sys.argv[2])):
        model.zero_grad()  # the first call may be another program in the process that traces
        result = fast(graph, x)
        result.square().sum().backward()
    results += [result.detach(), *(p.grad for p in model.parameters())]
    print(gs.explain(fast).mode)
torch.save(results, sys.argv[1])
loaded = [m for m in ("sympy", "torch._dynamo", "gossamer.capture.tracer", "gossamer.emit.lower")
          if m in sys.modules]
maps = open("/proc/self/maps").read()
print(*loaded, *(["LLVM"] if "gossamer_compiler" in maps or "libLLVM" in maps else []))
'''


def test_another_process_loads_neither_tracer_nor_compiler(tmp_path):
    (tmp_path / "user_model.py").write_text(SOURCE)
    (tmp_path / "main.py").write_text(PROCESS)

    def run(name: str, calls: int) -> list[str]:
        done = subprocess.run(
            [sys.executable, "main.py", name, str(calls)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": "random"},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return done.stdout.splitlines()

    everything = "sympy torch._dynamo gossamer.capture.tracer gossamer.emit.lower LLVM"
    assert run("a.pt", 2) == ["whole", "region", everything]
    assert run("b.pt", 2) == ["whole", "region", ""]
    first, second = (torch.load(tmp_path / name) for name in ("a.pt", "b.pt"))
    assert len(first) == 5
    assert all(map(torch.equal, first, second))
