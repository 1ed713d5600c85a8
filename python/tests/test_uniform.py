"""mp.uniform: known answers of Philox, and kernels bit by bit as the torch form."""

import math

import pytest
import torch

from gossamer import philox
from regions import Graph, Region

SEED = -0x123456789ABCDEF1


def words(*numbers: int) -> list[torch.Tensor]:
    return [torch.tensor(number) for number in numbers]


def key(low: int, high: int) -> torch.Tensor:
    number = high << 32 | low
    return torch.tensor(number - (1 << 64) if number >> 63 else number)


FULL = 0xFFFFFFFF
# From the list of known answers that the authors of Philox publish (Random123, kat_vectors).
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((FULL,) * 4, (FULL, FULL), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "seed", "expected"), KNOWN)
def test_known_answers(counter, seed, expected):
    found = philox.philox(words(*counter), key(*seed))
    assert [int(word) for word in found] == list(expected)


def graph(wide: bool = False) -> Graph:
    """Multi-edges, isolated nodes, a node with more edges than a block, one loop."""
    random = torch.Generator().manual_seed(1)
    src, dst = ((torch.rand(700, generator=random) ** 3 * 37).long() for _ in range(2))
    return Graph(src, dst, 40, wide=wide)


def region(dtype: torch.dtype, wide: bool = False) -> tuple[Region, object]:
    made = Region(graph(wide), dtype)
    return made, made.input(None, values=torch.tensor(SEED))


def test_known_answers_of_kernels():
    r = Region(graph())
    found = r.run(r.uniform(r.input(None, values=torch.tensor(0)), 0, "node", 4))[0]
    assert (found[0] * 2**24).long().tolist() == [word >> 8 for word in KNOWN[0][2]]


@pytest.mark.parametrize("target", ["host", "generic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", ["node", "edge", None])
def test_every_width(rows, dtype, target):
    """Vectors, their rests, and tiles that begin in the middle of a counter."""
    r, seed = region(dtype)
    shapes = [(), (1,), (2,), (3,), (8,), (5, 3), (17,), (64,), (3, 37), (200,), (258,)]
    values = [r.uniform(seed, stream, rows, *shape) for stream, shape in enumerate(shapes)]
    for value, found in zip(values, r.run(*values, target=target), strict=True):
        assert torch.equal(found.double(), value.expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (3,), (8,), (4, 5), (64,), (96,), (3, 70)], ids=str)
def test_both_ends_see_the_same_numbers(shape, dtype):
    """By destination and by source, in registers, in buffers, and once more in a later sweep."""
    r, seed = region(dtype)
    m = r.mul(r.gather("src", r.input("node", *shape)), r.uniform(seed, 7, "edge", *shape))
    weights = r.softmax(m)
    r.check(r.reduce("sum", m, "dst"), r.reduce("sum", m, "src"), r.reduce("sum", weights), weights)


@pytest.mark.parametrize("wide", [False, True])
def test_a_factor_per_edge_and_head(wide):
    """Few numbers, each for many features: drawn once, then repeated."""
    r, seed = region(torch.float32, wide)
    for heads in (1, 2, 4, 3):
        x = r.gather("src", r.input("node", heads, 40))
        u = r.broadcast(r.uniform(seed, heads, "edge", heads, 1), "edge", heads, 40)
        r.check(r.reduce("sum", r.mul(x, u)))
        r.lines.clear()
        r.inputs[1:] = []


def test_other_orders_of_features():
    r, seed = region(torch.float32)
    u = r.uniform(seed, 0, "edge", 6, 20)
    x = r.gather("src", r.input("node", 20, 6))
    swapped = r.mul(r.transpose(u, 0, 2, 1), x)
    part = r.slice(u, 2, 3, 8, 2)
    folded = r.reshape(u, 4, 30)
    r.check(*(r.reduce("sum", value) for value in (swapped, part, folded)))
    r.check(r.reduce_axis("sum", r.mul(u, r.reshape(x, 6, 20)), 1), r.reduce_axis("max", u, 2))


def test_rows_of_both_sides_of_a_block():
    random = torch.Generator().manual_seed(3)
    src, dst = (
        torch.randint(90, (400,), generator=random),
        torch.randint(7, (400,), generator=random),
    )
    r = Region(Graph(src, dst, (90, 7)))
    seed = r.input(None, values=torch.tensor(SEED))
    u, v = r.uniform(seed, 0, "src", 12), r.uniform(seed, 0, "dst", 12)
    m = r.mul(r.gather("src", u), r.gather("dst", v))
    r.check(r.reduce("sum", m), r.reduce("sum", m, "src"), u, v)


def test_no_rows_and_no_edges():
    none = torch.zeros(0, dtype=torch.long)
    r = Region(Graph(none, none, 3))
    u = r.uniform(r.input(None, values=torch.tensor(SEED)), 0, "edge", 8)
    r.check(r.reduce("sum", u), u)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_law(dtype):
    """Mean, variance, correlations between neighbours in every direction: within 5 sigma."""
    drawn = [
        philox.uniform(torch.tensor(s), t, 500, (64,), dtype) for s, t in ((1, 0), (1, 1), (2, 0))
    ]
    for u in drawn:
        count = u.numel()
        assert float(u.min()) >= 0
        assert float(u.max()) < 1
        assert abs(float(u.double().mean()) - 0.5) < 5 * math.sqrt(1 / 12 / count)
        assert abs(float(u.double().var()) - 1 / 12) < 5 * math.sqrt(1 / 180 / count)
    a, b, c = (u.double() - 0.5 for u in drawn)
    for x, y in ((a, b), (a, c), (a[1:], a[:-1]), (a[:, 1:], a[:, :-1]), (a[:, 4:], a[:, :-4])):
        assert abs(float((x * y).mean()) * 12) < 5 / math.sqrt(x.numel())
