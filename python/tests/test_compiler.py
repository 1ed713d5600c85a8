"""Compiled regions against torch in float64: every stage that lowering can make, on odd graphs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from gossamer import compiler, disk_cache
from gossamer.errors import CompileError
from regions import Graph, Region

FEATURES = [1, 3, 4, 7, 16, 17, 64, 100, 512]
HEADS = [(4, 16), (3, 5), (8, 1), (1, 64), (2, 3), (6, 2)]


def random_graph(nodes: int = 40, edges: int = 300, seed: int = 0, **options: bool) -> Graph:
    """Multi-edges, self loops, and nodes without edges at either end."""
    random = torch.Generator().manual_seed(seed)
    src, dst = ((torch.rand(edges, generator=random) ** 2 * (nodes - 3)).long() for _ in range(2))
    return Graph(src, dst, nodes, **options)


def star(leaves: int) -> Graph:
    return Graph(torch.arange(leaves) + 1, torch.zeros(leaves, dtype=torch.int64), leaves + 1)


GRAPHS = {
    "random": random_graph,
    "no-edges": lambda: Graph(torch.zeros(0).long(), torch.zeros(0).long(), 5),
    "one-node": lambda: Graph(torch.zeros(1).long(), torch.zeros(1).long(), 1),
    "star": lambda: star(1000),
    "bipartite": lambda: Graph(
        torch.tensor([0, 1, 2, 2, 4]), torch.tensor([0, 0, 1, 1, 1]), (5, 3)
    ),
    "wide": lambda: random_graph(wide=True),
}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> Graph:
    return GRAPHS[request.param]()


def node_inputs(region: Region, *features: int) -> tuple:
    """A table of sources and one of destinations; the same one where they are the same nodes."""
    src = region.input(region.graph.rows_at("src"), *features)
    return src, region.input(region.graph.rows_at("dst"), *features)


@pytest.mark.parametrize("features", FEATURES)
def test_sum_of_neighbours(graph: Graph, features: int) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, features)
    r.check(r.reduce("sum", r.gather("src", x)))


@pytest.mark.parametrize("features", FEATURES)
def test_weighted_sum(graph: Graph, features: int) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, features)
    w = r.broadcast(r.input("edge", 1), "edge", features)
    r.check(r.reduce("sum", r.mul(r.gather("src", x), w)))


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reductions(graph: Graph, kind: str, dtype: torch.dtype) -> None:
    r = Region(graph, dtype)
    x, _ = node_inputs(r, 20)
    scale = r.input("edge", 20) if kind != "prod" else r.fill(0.99, r.gather("src", x))
    r.check(r.reduce(kind, r.mul(r.gather("src", x), scale)))


@pytest.mark.parametrize("features", [1, 16, 100])
def test_several_reductions_of_one_mailbox(graph: Graph, features: int) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, features)
    m = r.gather("src", x)
    r.check(*(r.reduce(kind, m) for kind in ("mean", "max", "min", "sum")), r.degree())


@pytest.mark.parametrize("heads", HEADS)
def test_attention(graph: Graph, heads: tuple[int, int]) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, *heads)
    left, right = node_inputs(r, heads[0], 1)
    score = r.leaky_relu(r.add(r.gather("src", left), r.gather("dst", right)))
    weight = r.softmax(score)
    m = r.mul(r.gather("src", x), r.broadcast(weight, "edge", *heads))
    r.check(r.reduce("sum", m), weight)


@pytest.mark.parametrize("heads", HEADS)
def test_softmax_by_hand(graph: Graph, heads: tuple[int, int]) -> None:
    r = Region(graph)
    scores = r.input("edge", *heads)
    e = r.exp(r.binary("arith.subf", scores, r.gather("dst", r.reduce("max", scores))))
    share = r.binary("arith.divf", e, r.gather("dst", r.reduce("sum", e)))
    r.check(share, r.reduce("max", share))


@pytest.mark.parametrize("heads", HEADS)
def test_dot_attention(graph: Graph, heads: tuple[int, int]) -> None:
    r = Region(graph)
    k, q = node_inputs(r, *heads)
    v, _ = node_inputs(r, *heads)
    products = r.mul(r.gather("src", k), r.gather("dst", q))
    score = r.reshape(r.reduce_axis("sum", products, 2), heads[0], 1)
    weight = r.softmax(r.mul(score, r.fill(0.25, score)))
    m = r.mul(r.gather("src", v), r.broadcast(weight, "edge", *heads))
    r.check(r.reduce("sum", m))


@pytest.mark.parametrize("sizes", [(3, 5, 4), (16, 32, 16), (33, 20, 7), (64, 64, 64)])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_edge_mlp(graph: Graph, sizes: tuple[int, int, int], kind: str) -> None:
    inputs, hidden, outputs = sizes
    r = Region(graph)
    x, y = node_inputs(r, inputs)
    w1, w2 = r.input(None, inputs, hidden), r.input(None, hidden, outputs)
    bias = r.input(None, hidden)
    pair = r.mul(r.gather("src", x), r.gather("dst", y))
    h = r.relu(r.add(r.linear(pair, w1), r.broadcast(bias, "edge", hidden)))
    r.check(r.reduce(kind, r.linear(h, w2)))


def test_linear_per_head(graph: Graph) -> None:
    r = Region(graph)
    x, y = node_inputs(r, 3, 8)
    w = r.input(None, 8, 5)
    h = r.linear(r.mul(r.gather("src", x), r.gather("dst", y)), w)
    r.check(r.reduce("max", r.relu(h)), h)


@pytest.mark.parametrize("axis", [1, 2])
def test_concat_into_reduce_and_linear(graph: Graph, axis: int) -> None:
    r = Region(graph)
    x, y = node_inputs(r, 4, 6)
    both = r.concat([r.gather("src", x), r.exp(r.gather("dst", y)), r.input("edge", 4, 6)], axis)
    w = r.input(None, both.features[-1], 9)
    r.check(r.reduce("max", both), r.reduce("max", r.relu(r.linear(r.exp(both), w))))


def test_views_on_edges(graph: Graph) -> None:
    r = Region(graph)
    x, y = node_inputs(r, 6, 4)
    m = r.mul(r.gather("src", x), r.gather("dst", y))
    flipped = r.transpose(m, 0, 2, 1)
    halves = r.slice(r.reshape(flipped, 24), 1, 1, 12, 2)
    r.check(r.reduce("sum", flipped), r.reduce("max", halves), r.slice(m, 2, 1, 2))


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (6, 1), (6,)])
def test_reshape_that_is_no_view(graph: Graph, shape: tuple[int, ...]) -> None:
    r = Region(graph)
    x, y = node_inputs(r, 3, 2)
    m = r.transpose(r.mul(r.gather("src", x), r.gather("dst", y)), 0, 2, 1)
    r.check(r.reduce("sum", r.reshape(m, *shape)))


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
def test_reduce_axis(graph: Graph, axis: int, kind: str) -> None:
    r = Region(graph)
    x, y = node_inputs(r, 3, 5, 7)
    m = r.reduce_axis(kind, r.mul(r.gather("src", x), r.gather("dst", y)), axis)
    own = r.reduce_axis(kind, r.exp(y), axis)
    r.check(m, own, r.reduce("max", m))


@pytest.mark.parametrize("features", [1, 7, 33, 130, 512])
def test_norm_of_wide_rows(graph: Graph, features: int) -> None:
    r = Region(graph)
    x, y = node_inputs(r, features)
    difference = r.binary("arith.subf", r.gather("src", x), r.gather("dst", y))
    squares = r.reduce_axis("sum", r.mul(difference, difference), 1)
    r.check(r.reduce("sum", r.unary("math.sqrt", squares, torch.sqrt)))


def test_standard_deviation_recomputes_in_a_second_sweep(graph: Graph) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, 50)
    m = r.mul(r.gather("src", x), r.input("edge", 50))
    centred = r.binary("arith.subf", m, r.gather("dst", r.reduce("mean", m)))
    r.check(r.reduce("mean", r.mul(centred, centred)))


def test_expensive_value_crosses_sweeps(graph: Graph) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, 40)
    e = r.exp(r.mul(r.gather("src", x), r.input("edge", 40)))
    r.check(r.reduce("max", r.mul(e, r.gather("dst", r.reduce("mean", e)))))


def test_rows_without_edges_get_the_initializer(graph: Graph) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, 10)
    total = r.reduce("sum", r.gather("src", x))
    shifted = r.add(total, r.broadcast(r.input(None, 10), total.rows, 10))
    r.check(r.fill_isolated(shifted, 0.0), r.fill_isolated(total, -2.5))


def test_only_node_rows(graph: Graph) -> None:
    r = Region(graph)
    x, _ = node_inputs(r, 30)
    r.check(r.exp(r.mul(x, r.broadcast(r.input(None, 30), x.rows, 30))))


def test_sums_at_the_source(graph: Graph) -> None:
    r = Region(graph)
    _, y = node_inputs(r, 12)
    r.check(r.reduce("sum", r.mul(r.gather("dst", y), r.input("edge", 12)), end="src"))


@pytest.mark.parametrize("features", [1, 4, 64])
def test_star_with_many_leaves(features: int) -> None:
    r = Region(star(100_000))
    values = torch.rand(100_001, features, generator=r.random) + 0.5
    x = r.input("node", values=values)
    m = r.gather("src", x)
    w = r.softmax(r.input("edge", features))
    r.check(r.reduce("sum", m), r.reduce("mean", m), r.reduce("sum", r.mul(m, w)))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("features", [1, 4, 20])
def test_nan_and_infinity_in_a_reduction(kind: str, features: int) -> None:
    graph = random_graph(edges=200)
    r = Region(graph)
    values = torch.randn(200, features, generator=r.random)
    for position, odd in zip(range(0, 200, 9), itertools.cycle([torch.nan, torch.inf, -torch.inf])):
        values[position, position % features] = odd
    m = r.input("edge", values=values)
    found = r.run(r.reduce(kind, m))[0]
    with_odd = r.reduce(kind, m).expected
    for row in range(graph.num_dst):
        mine = values[graph.dst == row]
        if len(mine):
            with_odd[row] = (mine.amax(0) if kind == "max" else mine.amin(0)).double()
    torch.testing.assert_close(found, with_odd.float(), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("features", [1, 5, 16])
def test_integers(graph: Graph, dtype: torch.dtype, kind: str, features: int) -> None:
    r = Region(graph)
    count = graph.count("edge")
    values = torch.randint(-3, 4, (count, features), generator=r.random).to(dtype)
    r.check(r.reduce(kind, r.input("edge", values=values)))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("features", [1, 3, 40])
def test_bools(graph: Graph, kind: str, features: int) -> None:
    r = Region(graph)
    values = torch.rand(graph.count("edge"), features, generator=r.random) < 0.3
    other = torch.rand(graph.count("edge"), features, generator=r.random) < 0.7
    both = r.binary("arith.andi", r.input("edge", values=values), r.input("edge", values=other))
    r.check(r.reduce(kind, both), both)


def libm(function: Callable[[float], float]) -> Callable[[torch.Tensor], torch.Tensor]:
    """torch's own sinh and cosh overflow early in float64."""

    def checked(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.copysign(math.inf, function(math.copysign(1.0, x)))

    return lambda values: torch.tensor([checked(x) for x in values.tolist()], dtype=torch.float64)


MATH = {
    "exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "atan": torch.atan, "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt, "log1p": torch.log1p, "expm1": torch.expm1, "exp2": torch.exp2,
    "log2": torch.log2, "log10": torch.log10, "floor": torch.floor, "ceil": torch.ceil,
    "trunc": torch.trunc, "roundeven": torch.round, "absf": torch.abs, "sinh": libm(math.sinh),
    "cosh": libm(math.cosh), "asin": torch.asin, "acos": torch.acos, "asinh": torch.asinh,
    "acosh": torch.acosh, "atanh": torch.atanh,
}  # fmt: skip
ODD = [0.0, -0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan, 1e-40, -1e-40, 88.7, -87.3, -103.9,
       -104.5, 89.0, 1e5, -1e5, 3e38, 0.4999999, 0.5, 1.5, 2.5, 1e-7, -1e-7, 0.9999]  # fmt: skip


@pytest.mark.parametrize("target", ["host", "generic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MATH)
def test_math(name: str, dtype: torch.dtype, target: str) -> None:
    """Within a few units in the last place of float64, or of libm in float64 itself."""
    r = Region(random_graph(), dtype)
    spread = torch.randn(4000, dtype=dtype, generator=r.random)
    values = torch.cat([torch.tensor(ODD, dtype=dtype), spread, spread * 20, spread * 1e3])
    x = r.input(None, values=values)
    result = r.unary(f"math.{name}", x, MATH[name])
    found = r.run(result, target=target)[0]
    expected = MATH[name](values.double())
    exact = expected.to(dtype)
    assert torch.equal(found.isnan(), exact.isnan())
    assert torch.equal(found.isinf(), exact.isinf())
    usable = exact.isfinite() & (exact.abs() > torch.finfo(dtype).tiny)
    spacing = torch.nextafter(exact.abs(), torch.tensor(torch.inf, dtype=dtype)) - exact.abs()
    error = ((found.double() - expected).abs() / spacing.double())[usable]
    # Without fma, the polynomials round once more.
    assert error.max() <= (4 if target == "host" else 5)


@pytest.mark.parametrize("op", ["math.powf", "math.atan2", "arith.maximumf", "arith.minimumf"])
def test_binary_math(op: str) -> None:
    r = Region(random_graph())
    odd = torch.tensor(ODD)
    pairs = torch.cartesian_prod(odd, odd)
    x, y = r.input(None, values=pairs[:, 0].clone()), r.input(None, values=pairs[:, 1].clone())
    found = r.run(r.binary(op, x, y))[0]
    torch.testing.assert_close(
        found, r.binary(op, x, y).expected.float(), rtol=4e-7, atol=1e-37, equal_nan=True
    )


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_other_targets(target: str) -> None:
    r = Region(random_graph())
    x, _ = node_inputs(r, 4, 16)
    score = r.softmax(r.input("edge", 4, 1))
    w = r.input(None, 16, 20)
    m = r.mul(r.gather("src", x), r.broadcast(score, "edge", 4, 16))
    r.check(r.reduce("sum", m), r.reduce("max", r.linear(r.exp(m), w)), target=target)


def test_many_ops_compile_in_time_linear_in_ops() -> None:
    """1,000 ops on 512 features; a vector per op and feature would take minutes."""
    r = Region(random_graph(nodes=8, edges=20))
    x = r.gather("src", r.input("node", 512))
    c = r.fill(0.999, x)
    for _ in range(500):
        x = r.add(r.mul(x, c), c)
    r.check(r.reduce("sum", x))


def test_errors_name_the_users_line() -> None:
    with pytest.raises(CompileError, match="reads past the end") as caught:
        compiler.compile_ir(
            """
            func.func @region(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
                attributes {mp.graphs = 1 : i64} {
              %y = mp.slice %x axis 1 from 4 by 1 : tensor<4x8xf32> -> tensor<4x8xf32>
                loc("model.py":31:0)
              return %y : tensor<4x8xf32>
            }""",
            cache=False,
        )
    assert (caught.value.file, caught.value.line) == ("model.py", 31)


def test_text_that_is_no_ir() -> None:
    with pytest.raises(CompileError):
        compiler.compile_ir("func.func @region() {", cache=False)


@pytest.mark.parametrize(
    "options", [{"target": "pdp11"}, {"numerics": "loose"}, {"without": ["form-kernels"]}]
)
def test_unknown_options(options: dict) -> None:
    with pytest.raises(CompileError, match=r"pdp11|loose|form-kernels"):
        compiler.compile_ir(SMALL, cache=False, **options)


SMALL = """
func.func @region(%x: tensor<?x8xf32, #mp.rows<0, node>>) -> tensor<?x8xf32, #mp.rows<0, node>>
    attributes {mp.graphs = 1 : i64} {
  %y = math.exp %x : tensor<?x8xf32, #mp.rows<0, node>>
  return %y : tensor<?x8xf32, #mp.rows<0, node>>
}"""


def test_report() -> None:
    compiled = compiler.compile_ir(SMALL, dump=True)
    assert [(b["rows"], b["shape"], b["dtype"], b["lifetime"]) for b in compiled.buffers] == [
        ("node", [8], "float32", "output")
    ]
    assert set(compiled.texts) == {"captured", "optimized", "kernels", "llvm"}
    assert "mp.kernel" in compiled.texts["optimized"]
    assert "define" in compiled.texts["llvm"]


def test_a_pass_is_left_out() -> None:
    """What hoisting moves to nodes stays on edges without it."""
    ir = """
func.func @region(%x: tensor<?x8xf32, #mp.rows<0, node>>) -> tensor<?x8xf32, #mp.rows<0, edge>>
    attributes {mp.graphs = 1 : i64} {
  %m = mp.gather src %x : tensor<?x8xf32, #mp.rows<0, node>> -> tensor<?x8xf32, #mp.rows<0, edge>>
  %y = math.exp %m : tensor<?x8xf32, #mp.rows<0, edge>>
  return %y : tensor<?x8xf32, #mp.rows<0, edge>>
}"""
    without = ["hoist-before-gather"]
    for left_out, rows in (((), "node"), (without, "edge")):
        compiled = compiler.compile_ir(ir, without=[*left_out, "sink-behind-gather"], dump=True)
        (line,) = [s for s in compiled.texts["optimized"].splitlines() if "math.exp" in s]
        assert f"<0, {rows}>" in line


@pytest.fixture
def cache_home(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gossamer"


def test_cache_answers_the_second_time(cache_home) -> None:
    first, second = compiler.compile_ir(SMALL), compiler.compile_ir(SMALL)
    assert (first.cached, second.cached) == (False, True)
    assert torch.equal(first.program, second.program)
    assert (first.buffers, first.remarks) == (second.buffers, second.remarks)
    assert cache_home.stat().st_mode & 0o777 == 0o700
    assert not compiler.compile_ir(SMALL, numerics="strict").cached
    assert not compiler.compile_ir(SMALL, without=["split-linear"]).cached
    assert not compiler.compile_ir(SMALL, cache=False).cached


def test_damaged_entry_is_not_used(cache_home) -> None:
    first = compiler.compile_ir(SMALL)
    (entry,) = cache_home.iterdir()
    content = bytearray(entry.read_bytes())
    content[-100] ^= 1
    entry.write_bytes(content)
    again = compiler.compile_ir(SMALL)
    assert not again.cached
    assert torch.equal(first.program, again.program)


def test_folder_that_others_can_write_is_not_used(cache_home) -> None:
    cache_home.mkdir()
    cache_home.chmod(0o777)
    with pytest.warns(UserWarning, match="can be read or written by others"):
        compiler.compile_ir(SMALL)
    assert not list(cache_home.iterdir())


def test_cache_is_bounded(cache_home, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.compile_ir(SMALL)
    (entry,) = cache_home.iterdir()
    monkeypatch.setattr(disk_cache, "CACHE_BYTES", entry.stat().st_size * 5 // 2)
    for size in (9, 10, 11, 12):
        compiler.compile_ir(SMALL.replace("?x8x", f"?x{size}x"))
    assert 1 <= len(list(cache_home.iterdir())) <= 2


def test_compiles_in_several_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = [SMALL.replace("?x8x", f"?x{size}x") for size in (5, 6, 7, 8)]
    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(lambda ir: compiler.compile_ir(ir, cache=False), texts * 2))
    for first, second in zip(programs[:4], programs[4:], strict=True):
        assert torch.equal(first.program, second.program)
