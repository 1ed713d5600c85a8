"""Products of tall tables: in kernels with what is around them, and between kernels.

Where a product runs is a choice by its sizes; each way is forced here, on every size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from gossamer import compiler
from programs.threads import threads
from regions import Graph, Region, Value
from test_compiler import random_graph, star

SIZES = [1, 7, 16, 64, 100, 128, 256]
WAYS = {"in-kernel": ["product-sizes"], "library": ["place-products"], "by-size": []}
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(params=WAYS)
def without(request: pytest.FixtureRequest) -> list[str]:
    return WAYS[request.param]


def nodes(count: int) -> Graph:
    """Nodes without edges."""
    return Graph(torch.zeros(0).long(), torch.zeros(0).long(), count)


def dense_layer(r: Region, depth: int, width: int) -> Value:
    """relu(x W + b)."""
    product = r.linear(r.input("node", depth), r.input(None, depth, width))
    return r.relu(r.add(product, r.broadcast(r.input(None, width), "node", width)))


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("depth", SIZES)
def test_sizes(depth: int, width: int) -> None:
    r = Region(nodes(67))
    r.check(dense_layer(r, depth, width), without=["product-sizes"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 65, 1000])
def test_counts_of_rows(count: int, dtype: torch.dtype, without: list[str]) -> None:
    r = Region(nodes(count), dtype)
    r.check(dense_layer(r, 20, 33), without=without)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("width", [3, 7, 13, 31, 100])
def test_machines(width: int, target: str) -> None:
    """Narrower vectors, with and without masked loads."""
    r = Region(nodes(10))
    r.check(dense_layer(r, 9, width), without=["product-sizes"], target=target)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_inputs_and_transposed_weight(dtype: torch.dtype, without: list[str]) -> None:
    r = Region(nodes(50), dtype)
    rows = torch.randn(40, 50, generator=r.random, dtype=dtype).T[:, ::2]
    x = r.input("node", 20, values=rows)
    weight = r.transpose(r.input(None, 24, 20), 1, 0)
    half = r.slice(r.linear(x, weight), 1, 3, 7, 2)
    r.check(r.linear(half, r.slice(r.input(None, 7, 30), 1, 5, 11, 2)), without=without)


def test_rows_with_heads(without: list[str]) -> None:
    """Leading features are more rows of the product."""
    r = Region(nodes(30))
    heads = r.linear(r.input("node", 3, 10), r.input(None, 10, 6))
    r.check(r.linear(r.reshape(heads, 18), r.input(None, 18, 5)), heads, without=without)


def test_chain_of_layers(without: list[str]) -> None:
    r = Region(nodes(100))
    hidden = r.relu(r.linear(r.input("node", 12), r.input(None, 12, 40)))
    r.check(r.exp(r.linear(hidden, r.input(None, 40, 3))), hidden, without=without)


GRAPHS = {
    "random": random_graph,
    "no-edges": lambda: nodes(5),
    "one-node": lambda: nodes(1),
    "star": lambda: star(1000),
    "bipartite": lambda: Graph(
        torch.tensor([0, 1, 2, 2, 4]), torch.tensor([0, 0, 1, 1, 1]), (5, 3)
    ),
    "wide": lambda: random_graph(wide=True),
}


def source_and_destination(r: Region, width: int) -> tuple[Value, Value]:
    src = r.input(r.graph.rows_at("src"), width)
    return src, r.input("dst", width) if r.graph.bipartite else src


def neighbours_then_product(r: Region) -> list[Value]:
    """GraphSAGE: the mean of neighbours and the row itself, each with a weight."""
    src, dst = source_and_destination(r, 10)
    mean = r.reduce("mean", r.gather("src", src))
    own = r.linear(dst, r.input(None, 10, 33))
    return [r.relu(r.add(r.linear(mean, r.input(None, 10, 33)), own))]


def product_then_neighbours(r: Region) -> list[Value]:
    src, _ = source_and_destination(r, 20)
    return [r.reduce("max", r.gather("src", r.linear(src, r.input(None, 20, 18))))]


def attention(r: Region) -> list[Value]:
    """Scores of both ends from the product, softmax, weighted sum."""
    src, dst = source_and_destination(r, 9)
    weight = r.input(None, 9, 24)
    heads = [r.reshape(r.linear(x, weight), 4, 6) for x in (src, dst)]
    scores = [
        r.reduce_axis("sum", r.mul(z, r.broadcast(r.input(None, 4, 6), z.rows, 4, 6)), 2)
        for z in heads
    ]
    both = r.add(r.gather("src", scores[0]), r.gather("dst", scores[1]))
    alpha = r.broadcast(r.reshape(r.softmax(r.leaky_relu(both)), 4, 1), "edge", 4, 6)
    return [r.reduce("sum", r.mul(alpha, r.gather("src", heads[0]))), scores[0]]


def product_between_sweeps(r: Region) -> list[Value]:
    """Edge values are computed before the product and read again after it."""
    src, _ = source_and_destination(r, 5)
    edges = r.exp(r.mul(r.gather("src", src), r.input("edge", 5)))
    product = r.linear(r.reduce("sum", edges), r.input(None, 5, 5))
    return [r.reduce("sum", r.mul(edges, r.gather("dst", product)))]


def product_at_both_ends(r: Region) -> list[Value]:
    """Kernels by destination and by source read the rows of one product."""
    src, _ = source_and_destination(r, 6)
    product = r.linear(src, r.input(None, 6, 17))
    by_dst = r.reduce("sum", r.gather("src", product))
    messages = r.mul(r.gather("src", product), r.input("edge", 17))
    return [by_dst, r.add(r.reduce("sum", messages, end="src"), product)]


PROGRAMS = [
    neighbours_then_product,
    product_then_neighbours,
    attention,
    product_between_sweeps,
    product_at_both_ends,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("graph", GRAPHS)
def test_with_neighbours(
    graph: str, program: Callable[[Region], list[Value]], without: list[str]
) -> None:
    r = Region(GRAPHS[graph]())
    r.check(*program(r), without=without)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_bits_for_any_number_of_threads(
    program: Callable[[Region], list[Value]], without: list[str]
) -> None:
    r = Region(random_graph(nodes=9000, edges=20000))
    one, two = with_threads(r, program(r), without)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def with_threads(
    r: Region, results: Sequence[Value], without: list[str]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What one thread computes, and what two do."""
    with threads(1):
        one = r.run(*results, without=without)
    with threads(2):
        return one, r.run(*results, without=without)


def gradients_of_weight(r: Region, *features: int, width: int) -> tuple[Value, Value]:
    """A table times what is computed, and the other way round."""
    x = r.input("node", *features)
    computed = r.exp(r.mul(r.input("node", width), r.fill(0.1, r.input("node", width))))
    return r.contract_rows(x, computed), r.contract_rows(computed, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 3, 32, 65, 10000])
def test_sums_of_outer_products(count: int, dtype: torch.dtype, without: list[str]) -> None:
    r = Region(nodes(count), dtype)
    r.check(*gradients_of_weight(r, 20, width=33), without=without)


@pytest.mark.parametrize(
    ("depth", "width"), [(1, 1), (1, 64), (7, 3), (64, 64), (100, 7), (128, 256)]
)
def test_sizes_of_outer_products(depth: int, width: int) -> None:
    r = Region(nodes(70))
    r.check(*gradients_of_weight(r, depth, width=width), without=["product-sizes"])


def test_sums_of_neighbours_are_multiplied_and_added_up(without: list[str]) -> None:
    """The backward of a convolution: gradients of the rows, and of the weight."""
    r = Region(random_graph(nodes=300, edges=2000))
    sums = r.reduce("sum", r.gather("dst", r.input("node", 24)), end="src")
    rows = r.linear(sums, r.transpose(r.input(None, 10, 24), 1, 0))
    r.check(rows, r.contract_rows(r.input("node", 10), sums), without=without)


def test_outer_products_have_the_same_bits_for_any_number_of_threads(without: list[str]) -> None:
    r = Region(nodes(20000))
    one, two = with_threads(r, gradients_of_weight(r, 16, width=9), without)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_the_report_says_where_a_product_runs() -> None:
    r = Region(nodes(3))
    ir = r.ir([dense_layer(r, 64, 64)])

    def remarks(without: list[str]) -> list[str]:
        found = compiler.compile_ir(ir, without=without).remarks
        return [line["message"] for line in found if line["pass"] == "place-products"]

    assert remarks([]) == ["multiplied inside a kernel"]
    assert remarks(["place-products"]) == []
    large = r.linear(r.input("node", 1024), r.input(None, 1024, 512))
    ir = r.ir([large])
    assert remarks([]) == ["left to the library: the weight is large"]
    assert remarks(["product-sizes"]) == ["multiplied inside a kernel"]


def test_one_kernel_and_one_table() -> None:
    """Aggregation, product, bias and activation: nothing but the result is stored."""
    r = Region(random_graph())
    x = r.input("node", 16)
    product = r.linear(r.reduce("sum", r.gather("src", x)), r.input(None, 16, 8))
    result = r.relu(r.add(product, r.broadcast(r.input(None, 8), "node", 8)))
    compiled = compiler.compile_ir(r.ir([result]))
    assert [b["lifetime"] for b in compiled.buffers] == ["output"]
