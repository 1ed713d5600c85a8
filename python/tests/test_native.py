"""The torch operators, on hand-made programs whose kernel is compiled from C."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor

import gossamer as gs
from gossamer import native
from program_bytes import Gemm, HandMade, Kernel, Rows, Value, View
from programs.threads import threads

WIDTH = 64

KERNELS = r"""
#include <stdint.h>
typedef struct {
  const void *offsets, *neighbors, *edge_ids;
  void *const *tables;
  int64_t max_degree, prefetch; /* and more that this kernel does not read */
} Call;

/* y[v] = sum over edges (u, v) of x[u] * w[e] */
void weighted_sum(const Call *call, int64_t begin, int64_t end, void *scratch) {
  const int32_t *offsets = call->offsets, *neighbors = call->neighbors, *ids = call->edge_ids;
  const float *x = call->tables[0], *w = call->tables[1];
  float *y = call->tables[2];
  for (int64_t v = begin; v < end; ++v) {
    float sum[WIDTH] = {0};
    for (int32_t i = offsets[v]; i < offsets[v + 1]; ++i)
      for (int f = 0; f < WIDTH; ++f)
        sum[f] += x[(int64_t)neighbors[i] * WIDTH + f] * w[ids[i]];
    for (int f = 0; f < WIDTH; ++f)
      y[v * WIDTH + f] = sum[f];
  }
}
"""


@pytest.fixture(scope="module")
def ops():
    return native.ops()


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> bytes:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C compiler to make kernel code")
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.c").write_text(KERNELS)
    flags = ["-x", "c", "-O2", "-fPIC", "-fno-stack-protector", f"-DWIDTH={WIDTH}", "-c"]
    subprocess.run([compiler, *flags, "kernels.c", "-o", "kernels.o"], cwd=folder, check=True)
    return (folder / "kernels.o").read_bytes()


def sum_then_linear(code: bytes, **options) -> HandMade:
    """y = sum of weighted messages; z = y @ weight.T."""
    return HandMade(
        values=[
            Value(Rows.SRC, [WIDTH], name="h"),
            Value(Rows.EDGE, [], name="w"),
            Value(Rows.DST, [WIDTH]),
            Value(Rows.NONE, [WIDTH, WIDTH], name="weight"),
            Value(Rows.NONE, [WIDTH, WIDTH]),
            Value(Rows.DST, [WIDTH]),
        ],
        inputs=[0, 1, 3],
        outputs=[2, 5],
        steps=[
            Kernel("weighted_sum", Rows.DST, [0, 1], [2]),
            View(3, 4, 0, [1, WIDTH]),
            Gemm(2, 4, 5),
        ],
        code=code,
        **options,
    )


class Graph:
    """Edges with both index forms, as `run` takes them."""

    def __init__(self, ops, src, dst, num_src: int, num_dst: int):
        self.src, self.dst = torch.as_tensor(src).long(), torch.as_tensor(dst).long()
        self.num_src, self.num_dst = num_src, num_dst
        self.arrays = [
            *ops.coo_to_csr(self.dst, self.src, num_dst, num_src),
            *(torch.empty(0) for _ in range(3)),
        ]
        degrees = torch.bincount(self.dst, minlength=1)
        self.sizes = [num_src, num_dst, len(self.src), int(degrees.max()), 0]
        self.held = ops.hold_graph(self.arrays, self.sizes)

    def expected(self, h, w, weight):
        y = torch.zeros(self.num_dst, WIDTH, dtype=torch.float64)
        y.index_add_(0, self.dst, h.double()[self.src] * w.double()[:, None])
        return y, y @ weight.double().T


def random_graph(ops, nodes: int, edges: int) -> Graph:
    src = torch.randint(nodes, (edges,))
    dst = (torch.rand(edges) ** 3 * nodes).long()
    return Graph(ops, src, dst, nodes, nodes)


def random_inputs(graph: Graph):
    return [
        torch.randn(graph.num_src, WIDTH),
        torch.randn(len(graph.src)),
        torch.randn(WIDTH, WIDTH),
    ]


def assert_close(outputs, expected):
    for output, reference in zip(outputs, expected, strict=True):
        assert output.shape == reference.shape
        if output.numel():
            scale = reference.abs().max().clamp(min=1e-30)
            assert (output - reference).abs().max() <= 1e-5 * scale


# --- coo_to_csr ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("rows", "edges"), [(0, 0), (5, 0), (1, 1), (7, 100), (5000, 90000)])
def test_csr_is_a_stable_sort(ops, dtype, rows, edges):
    row = torch.randint(max(rows, 1), (edges,), dtype=dtype)
    col = torch.randint(9, (edges,), dtype=dtype)
    offsets, neighbors, edge_ids = ops.coo_to_csr(row, col, rows, 9)
    order = torch.argsort(row, stable=True)
    assert [t.dtype for t in (offsets, neighbors, edge_ids)] == [torch.int32] * 3
    assert torch.equal(edge_ids.long(), order)
    assert torch.equal(neighbors.long(), col[order].long())
    counts = torch.bincount(row.long(), minlength=rows)
    assert offsets.tolist() == [0, *counts.cumsum(0).tolist()]


def test_csr_of_strided_endpoints(ops):
    pairs = torch.tensor([[1, 0], [0, 1], [1, 1]])
    offsets, neighbors, _ = ops.coo_to_csr(pairs[:, 0], pairs[:, 1], 2, 2)
    assert offsets.tolist() == [0, 1, 3]
    assert neighbors.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("row", "col", "message"),
    [
        ([0, 3], [0, 0], "edge 1 has row 3, but there are 3 rows"),
        ([0, 1], [-1, 0], "edge 0 has column -1, but there are 2 columns"),
        ([0], [0, 0], "rows and cols differ"),
    ],
)
def test_csr_names_what_is_wrong(ops, row, col, message):
    with pytest.raises(ValueError, match=message):
        ops.coo_to_csr(torch.tensor(row), torch.tensor(col), 3, 2)


def test_csr_refuses_float_endpoints(ops):
    with pytest.raises(ValueError, match="int32 or int64"):
        ops.coo_to_csr(torch.zeros(2), torch.zeros(2, dtype=torch.int64), 3, 3)


def test_csr_on_fake_tensors(ops):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        row = torch.zeros(7, dtype=torch.int64)
        offsets, neighbors, edge_ids = ops.coo_to_csr(row, row, 3, 4)
    assert (offsets.shape, neighbors.shape, edge_ids.shape) == ((4,), (7,), (7,))
    assert offsets.dtype == torch.int32


# --- run ----------------------------------------------------------------------------------------


def test_run_matches_torch(ops, code):
    graph = random_graph(ops, 3000, 40000)
    inputs = random_inputs(graph)
    outputs = ops.run(sum_then_linear(code).tensor(), [graph.held], inputs)
    assert_close(outputs, graph.expected(*inputs))


@pytest.mark.parametrize(
    ("src", "dst", "num_src", "num_dst"),
    [
        ([], [], 0, 0),
        ([], [], 4, 3),
        ([0], [0], 1, 1),
        ([0, 0, 2, 2], [1, 1, 2, 0], 3, 5),
        (range(1, 20001), [0] * 20000, 20001, 20001),
    ],
    ids=["nothing", "no-edges", "self-loop", "multi-edges", "star"],
)
def test_run_on_odd_graphs(ops, code, src, dst, num_src, num_dst):
    graph = Graph(ops, list(src), list(dst), num_src, num_dst)
    inputs = random_inputs(graph)
    outputs = ops.run(sum_then_linear(code).tensor(), [graph.held], inputs)
    assert_close(outputs, graph.expected(*inputs))


def test_strided_inputs_are_read_right(ops, code):
    graph = random_graph(ops, 50, 300)
    h, w, weight = random_inputs(graph)
    strided = [
        torch.stack([h, h + 1], dim=2)[:, :, 0],
        w.repeat_interleave(2)[::2],
        weight.T.contiguous().T,
    ]
    assert not any(t.is_contiguous() for t in strided)
    outputs = ops.run(sum_then_linear(code).tensor(), [graph.held], strided)
    assert_close(outputs, graph.expected(h, w, weight))


def test_same_bits_for_any_number_of_threads(ops, code):
    graph = random_graph(ops, 20000, 150000)
    inputs = random_inputs(graph)
    program = sum_then_linear(code).tensor()
    results = []
    for count in (1, 2, 4, 1):
        with threads(count):
            results.append(ops.run(program, [graph.held], inputs))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_outputs_are_fresh(ops, code):
    graph = random_graph(ops, 10, 20)
    inputs = random_inputs(graph)
    program = HandMade(
        values=[Value(Rows.SRC, [WIDTH])], inputs=[0], outputs=[0, 0], steps=[], code=b""
    ).tensor()
    first, second = ops.run(program, [graph.held], inputs[:1])
    assert torch.equal(first, inputs[0])
    assert len({t.data_ptr() for t in (first, second, inputs[0])}) == 3


def doubled_rows(rows: int) -> Tensor:
    """An output of ``rows`` rows from a compiled call: 256 bytes each."""

    def double(nodes):
        return {"y": nodes.data["h"] * 2}

    graph = gs.graph(([], []), num_nodes=rows)
    graph.ndata["h"] = torch.ones(rows, WIDTH)
    gs.compile(lambda g: g.apply_nodes(double), fallback="error")(graph)
    return graph.ndata.pop("y")


LARGE = 1 << 15  # rows: 8 MiB


def test_memory_of_large_outputs_is_reused():
    gs.release_memory()
    first = doubled_rows(LARGE)
    address, part = first.data_ptr(), first[7:9]
    del first
    second = doubled_rows(LARGE)
    assert second.data_ptr() != address, "a view is alive"
    assert torch.equal(part, torch.full((2, WIDTH), 2.0))
    del part
    assert doubled_rows(LARGE).data_ptr() == address
    assert second.eq(2).all()


def test_kept_memory_is_released_on_request():
    gs.release_memory()
    alive, dead = doubled_rows(LARGE), doubled_rows(LARGE)
    del dead
    assert gs.release_memory() >= LARGE * 256
    assert gs.release_memory() == 0
    assert alive.eq(2).all()


def test_large_outputs_are_ordinary_tensors(tmp_path):
    output = doubled_rows(LARGE)
    expected = output.clone()
    torch.save(output, tmp_path / "output.pt")
    assert torch.equal(torch.load(tmp_path / "output.pt"), expected)
    assert torch.equal(pickle.loads(pickle.dumps(output)), expected)
    assert torch.equal(torch.from_numpy(output.numpy()), expected)
    thread = threading.Thread(target=output.share_memory_)
    thread.start()
    thread.join()
    assert output.is_shared()
    assert torch.equal(output, expected)


def test_two_python_threads_share_a_program(ops, code):
    graph = random_graph(ops, 2000, 20000)
    inputs = random_inputs(graph)
    program = sum_then_linear(code).tensor()
    expected = ops.run(program, [graph.held], inputs)
    wrong = []

    def work():
        for _ in range(50):
            outputs = ops.run(program, [graph.held], inputs)
            if not all(torch.equal(a, b) for a, b in zip(outputs, expected, strict=True)):
                wrong.append(outputs)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


FORK_SCRIPT = """
import os, sys, torch
sys.path.insert(0, sys.argv[1])
from gossamer import native
from test_native import Graph, random_inputs, sum_then_linear
torch.set_num_threads(1)  # torch's own pool does not survive a fork
ops = native.ops()
code = open(sys.argv[2], "rb").read()
graph = Graph(ops, [0, 1, 2], [1, 1, 0], 3, 3)
inputs = random_inputs(graph)
program = sum_then_linear(code).tensor()
expected = ops.run(program, [graph.held], inputs)
child = os.fork()
outputs = ops.run(program, [graph.held], inputs)
same = all(torch.equal(a, b) for a, b in zip(outputs, expected))
if child == 0:
    os._exit(0 if same else 1)
status = os.waitpid(child, 0)[1]
sys.exit(0 if same and status == 0 else 1)
"""


def test_forked_child_runs(code, tmp_path):
    kernel = tmp_path / "kernel.o"
    kernel.write_bytes(code)
    here = Path(__file__).parent
    subprocess.run(
        [sys.executable, "-c", FORK_SCRIPT, str(here), str(kernel)],
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(here.parent)},
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: [i[0][:, :3], *i[1:]], r"input 0 \('h'\) is float32\[5, 3\], expected float32"),
        (lambda i: [i[0].double(), *i[1:]], r"input 0 \('h'\) is float64"),
        (lambda i: [i[0], i[1][1:], i[2]], r"input 1 \('w'\) is float32\[6\].*edges of graph 0"),
        (lambda i: i[:2], "takes 3 inputs, got 2"),
        (lambda i: [i[0].bfloat16(), *i[1:]], r"input 0 \('h'\) is bfloat16"),
        (lambda i: [i[0].cfloat(), *i[1:]], "input 0 has dtype ComplexFloat"),
    ],
)
def test_wrong_inputs_are_named(ops, code, change, message):
    graph = Graph(ops, [0, 1, 2, 3, 4, 0, 1], [1, 1, 2, 0, 3, 4, 4], 5, 5)
    program = sum_then_linear(code).tensor()
    with pytest.raises(ValueError, match=message):
        ops.run(program, [graph.held], change(random_inputs(graph)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, s: (a[:5], s), "6 arrays; got 5"),
        (lambda a, s: (a, s[:4]), "5 sizes; got 4"),
        (lambda a, s: ([a[0].long(), *a[1:]], s), "in-offsets are int64"),
        (lambda a, s: ([a[0][:-1], *a[1:]], s), r"expected contiguous int32\[6\]"),
        (lambda a, s: (a, [*s[:3], s[3] - 1, s[4]]), "more edges than the maximum in-degree"),
        (lambda a, s: (a, [*s[:2], -1, *s[3:]]), "must not be negative"),
    ],
)
def test_wrong_graphs_are_named(ops, code, change, message):
    graph = Graph(ops, [0, 1, 2, 3, 4, 0, 1], [1, 1, 2, 0, 3, 4, 4], 5, 5)
    arrays, sizes = change(graph.arrays, graph.sizes)
    program, inputs = sum_then_linear(code).tensor(), random_inputs(graph)
    with pytest.raises(ValueError, match=message):
        ops.run(program, [ops.hold_graph(arrays, sizes)], inputs)


def test_graphs_are_those_that_were_held(ops, code):
    graph = Graph(ops, [0, 1, 2], [1, 1, 0], 3, 3)
    program, inputs = sum_then_linear(code).tensor(), random_inputs(graph)
    expected = ops.run(program, [graph.held], inputs)
    for other in (graph.held.clone(), graph.held[1:], graph.arrays[0], torch.zeros(3)):
        with pytest.raises(ValueError, match="graph 0 is not what hold_graph returned"):
            ops.run(program, [other], inputs)
    with pytest.raises(ValueError, match="takes 1 graphs, got 2"):
        ops.run(program, [graph.held] * 2, inputs)
    held = ops.hold_graph(graph.arrays, graph.sizes)
    del graph  # what is held lives on
    again = ops.run(program, [held], inputs)
    assert all(map(torch.equal, again, expected))


# --- programs -----------------------------------------------------------------------------------


def test_program_info(code):
    info = native.program_info(sum_then_linear(code).tensor())
    assert info == native.ProgramInfo(False, (native.GraphNeeds(True, False),), (True,) * 3)


def test_damaged_programs_are_refused(code):
    good = sum_then_linear(code).tensor()
    assert native.program_info(good)
    for position in (0, 20, 30, 60, len(good) - 1):
        damaged = good.clone()
        damaged[position] ^= 1
        with pytest.raises(ValueError, match=r"damaged|not a gossamer program"):
            native.program_info(damaged)
    with pytest.raises(ValueError, match="damaged"):
        native.program_info(good[:-1])
    good[-1] ^= 1  # in memory where the runtime has seen a sound program
    with pytest.raises(ValueError, match="damaged"):
        native.program_info(good)


def test_programs_of_another_version_are_refused(code):
    with pytest.raises(RuntimeError, match="ABI version 99"):
        native.program_info(sum_then_linear(code, abi_version=99).tensor())


def test_another_program_in_the_same_memory_is_noticed(ops):
    def constant(features):
        return HandMade([Value(Rows.SRC, features)], [0], [0], [], b"").tensor()

    memory = constant([3])
    graph = Graph(ops, [], [], 2, 2)
    x = torch.randn(2, 3)
    assert torch.equal(ops.run(memory, [graph.held], [x])[0], x)
    memory.copy_(constant([4]))
    with pytest.raises(ValueError, match=r"expected float32\[2, 4\]"):
        ops.run(memory, [graph.held], [x])


def test_missing_library_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv(native.BUILD_DIR_VARIABLE, str(tmp_path))
    with pytest.raises(ImportError, match=f"{tmp_path}.*dev build"):
        native.library_path("gossamer_absent")
