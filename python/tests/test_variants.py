"""Programs of several variants: products before or after the sums over the edges of a block.

Each variant is forced in turn, forward and gradients, and compared with float64; a run takes one
by the sizes of its graph.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import gossamer as gs
from gossamer import disk_cache, native, tuned
from programs.measure import error
from programs.threads import threads

BLOCKS = {
    # sources, destinations, endpoints
    "sampled": (40, 3, [0, 5, 39, 39, 7, 5], [0, 0, 2, 2, 2, 2]),  # destination 1 has no edge
    "spread": (2, 50, [0, 1, 1, 0, 1], [49, 0, 0, 12, 13]),
    "no edges": (4, 4, [], []),
    "one node": (1, 1, [0, 0], [0, 0]),
    "star": (30, 1, list(range(30)), [0] * 30),
}


def _block(sources: int, destinations: int, src: list[int], dst: list[int]) -> gs.Graph:
    ends = (torch.tensor(src, dtype=torch.int64), torch.tensor(dst, dtype=torch.int64))
    return gs.create_block(ends, num_src_nodes=sources, num_dst_nodes=destinations)


def _signed(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


class Layer(nn.Module):
    """Sums or means of c_u (x_u W), and of w_e (sin(x_u) W') when there are two terms."""

    def __init__(self, width: int, wide: int, kind: str = "mean", terms: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(_signed(width, wide, seed=1))
        self.other = nn.Parameter(_signed(width, wide, seed=2)) if terms else None
        self.kind = kind

    def message(self, edges) -> dict[str, Tensor]:
        sent = edges.src["c"] * (edges.src["x"] @ self.weight)
        if self.other is None:
            return {"m": sent}
        return {"m": sent + edges.data["w"] * (edges.src["z"] @ self.other)}

    def reduce(self, nodes) -> dict[str, Tensor]:
        m = nodes.mailbox["m"]
        return {"y": m.mean(1) if self.kind == "mean" else m.sum(1)}

    def forward(self, block, x: Tensor, c: Tensor) -> Tensor:
        with block.local_scope():
            block.srcdata["x"], block.srcdata["c"], block.srcdata["z"] = x, c, x.sin()
            if self.other is not None:
                weights = torch.linspace(-1, 1, block.num_edges(), dtype=x.dtype)
                block.edata["w"] = weights.unsqueeze(1)
            block.update_all(self.message, self.reduce)
            return block.dstdata["y"]


class Layers(nn.Module):
    """Two layers on two blocks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(width, width), Layer(width, width, "sum")])

    def forward(self, blocks, x: Tensor) -> Tensor:
        for layer, block in zip(self.layers, blocks, strict=True):
            x = torch.relu(layer(block, x, x.new_ones(x.shape[0], 1)))
        return x


def _step(model: nn.Module, run, *arguments) -> list[Tensor]:
    """Output, and gradients of the inputs that are tensors and of the parameters."""
    arguments = [a.clone().requires_grad_() if isinstance(a, Tensor) else a for a in arguments]
    out = run(*arguments)
    pull = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    leaves = [a for a in arguments if isinstance(a, Tensor)] + list(model.parameters())
    if not out.requires_grad:  # eagerly without edges
        return [out, *map(torch.zeros_like, leaves)]
    total = (out * pull).sum()
    grads = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [out.detach(), *grads]


@pytest.mark.parametrize(
    ("widths", "kind", "terms"),
    [((8, 8), "mean", False), ((8, 8), "sum", True), ((12, 4), "sum", False)],
    ids=str,
)
def test_each_variant_is_right(widths, kind, terms):
    model = Layer(*widths, kind, terms)
    exact = {name: _inputs(name, widths[0], torch.float64) for name in BLOCKS}
    want = {name: _step(model, model, *inputs) for name, inputs in exact.items()}
    model.float()
    fast = gs.compile(model, fallback="error")
    taken = set()
    for number in range(2):
        for name in BLOCKS:
            for _ in range(1 if number else 2):  # the second call is of the whole model
                with native.forced_variant(number):
                    found = _step(model, fast, *_inputs(name, widths[0], torch.float32))
                    with torch.no_grad():
                        found.append(fast(*_inputs(name, widths[0], torch.float32)))
                    taken |= {(v.program, v.number) for v in gs.explain(fast).variants}
                for ours, right in zip(found, [*want[name], want[name][0]], strict=True):
                    assert error(ours, right) <= 1e-5, (name, number)
    assert {number for _, number in taken} == {0, 1}


def _inputs(name: str, width: int, dtype: torch.dtype) -> tuple:
    sources = BLOCKS[name][0]
    return (
        _block(*BLOCKS[name]),
        _signed(sources, width, seed=3).to(dtype),
        _signed(sources, 1, seed=4).to(dtype),
    )


def test_the_sizes_of_a_graph_choose_and_nothing_is_compiled_again():
    """As wide before as after: after the sum where there are more sources, else before it."""
    fast = gs.compile(Layer(16, 16).float(), fallback="error")
    sizes = {"many sources": (500, 5), "many destinations": (5, 500)}
    taken, counts = [], []
    for _ in range(2):
        for sources, destinations in sizes.values():
            src = torch.arange(20) % sources
            block = gs.create_block(
                (src, torch.arange(20) % destinations),
                num_src_nodes=sources,
                num_dst_nodes=destinations,
            )
            with torch.no_grad():
                fast(block, torch.ones(sources, 16), torch.ones(sources, 1))
            taken.append({variant.number for variant in gs.explain(fast).variants})
            counts.append(len(gs.explain(fast).programs))
    assert taken[2:] == [{0}, {1}] or taken[2:] == [{0}, {0, 1}]
    assert counts[2:] == [counts[2]] * 2
    report = str(gs.explain(fast))
    assert "multiplies before or after the reduction, by the numbers of rows" in report
    assert "variant 1 of 0 to 1; by the cost model" in report


def test_products_on_two_blocks_are_four_variants():
    model = Layers(8)
    blocks = [_block(30, 7, [i % 30 for i in range(40)], [i % 6 for i in range(40)])]
    blocks.append(_block(7, 2, [*range(7)] * 2, [0] * 5 + [1] * 9))
    x = _signed(30, 8, seed=5)
    want = model(blocks, x).detach()
    fast = gs.compile(model.float(), fallback="error")
    with torch.no_grad():
        fast(blocks, x.float())  # the whole model is one program from the next call on
        for number in range(4):
            with native.forced_variant(number):
                with threads(1):
                    found = fast(blocks, x.float())
                with threads(2):
                    assert torch.equal(fast(blocks, x.float()), found)
                assert error(found, want) <= 1e-5
                whole = gs.explain(fast).variants[-1]
                assert (whole.number, whole.count) == (number, 4)


def test_a_graph_of_one_kind_of_nodes_has_one_variant():
    fast = gs.compile(Layer(8, 8).float(), fallback="error")
    graph = gs.graph(([0, 1, 2], [1, 2, 2]))
    with torch.no_grad():
        fast(graph, torch.ones(3, 8), torch.ones(3, 1))
    assert gs.explain(fast).variants == []
    assert "variant 0" not in str(gs.explain(fast))


def test_a_tuned_program_takes_the_variant_that_was_measured(tmp_path, monkeypatch):
    """Whatever the sizes say: here an earlier process measured the one, then the other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = Layer(8, 8).float()
    inputs = _inputs("sampled", 8, torch.float32)
    want = model(*inputs).detach()

    def run() -> tuple[int, str, int]:
        monkeypatch.setattr("gossamer.program._programs", {})
        fast = gs.compile(model, fallback="error", tune=True)
        with torch.no_grad():
            assert error(fast(*inputs), want) <= 1e-5
        (variant,) = gs.explain(fast).variants
        kernels = gs.explain(fast).schedules
        assert {kernel.source for kernel in kernels} == {variant.source}
        return variant.number, variant.source, len(kernels)

    assert run()[1] == tuned.MEASURED
    (entry,) = (path for path in (tmp_path / "gossamer").iterdir() if _is_way(path))
    for number in range(2):
        with native.forced_variant(number):
            *_, kernels = run()
        way = [number, *[16, 0, native.WHOLE_ROWS] * kernels]
        disk_cache.write(entry.name, json.dumps(way).encode())
        assert run() == (number, tuned.FOUND, kernels)


def _is_way(path: Path) -> bool:
    return disk_cache.read(path.name).startswith(b"[")


def test_a_number_out_of_range_is_refused():
    for number in (-1, 4):
        with (
            pytest.raises(ValueError, match="variants are numbered 0 to 3"),
            native.forced_variant(number),
        ):
            pass
