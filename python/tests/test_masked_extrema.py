"""Maxima and minima behind relu and its like: the gradients that eager code has, ties included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import gossamer as gs
from programs import graphs
from programs.library import gossamer_library

WIDTH = 5


def numbers(count: int, seed: int) -> Tensor:
    """Few different signed numbers, so that messages tie and masks meet their bounds."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, (count, WIDTH), generator=generator).double() / 2


class Extremum(nn.Module):
    """EdgeConv's message, `combine` of the mailbox, and `after` in the reducer or behind it."""

    def __init__(self, combine, after, inside: bool) -> None:
        super().__init__()
        self.theta = nn.Parameter(numbers(WIDTH, 1))
        self.phi = nn.Parameter(numbers(WIDTH, 2))
        self.combine, self.after, self.inside = combine, after, inside

    def message(self, edges):
        change = (edges.dst["y"] - edges.src["x"]) @ self.theta
        return {"m": change + edges.src["x"] @ self.phi}

    def reduce(self, nodes):
        y = self.combine(nodes.mailbox["m"])
        return {"y": self.after(y) if self.inside else y}

    def forward(self, graph, x, y):
        with graph.local_scope():
            graph.srcdata["x"], graph.dstdata["y"] = x, y
            graph.update_all(self.message, self.reduce)
            out = graph.dstdata["y"]
            return out if self.inside else self.after(out)


AFTER = {
    "relu": functional.relu,
    "clamp": lambda y: y.clamp(-1, 0.5),
    "relu6_of_shifted": lambda y: functional.relu6(y - 0.5),
    "dropped": lambda y: torch.where(y > 1, torch.zeros_like(y), y),
    "leaky": lambda y: functional.leaky_relu(y, 0.5),
}
COMBINE = {
    "max": lambda m: m.max(1)[0],
    "min": lambda m: m.min(1)[0],
    "relu_max": lambda m: functional.relu(m).max(1)[0],
}


def gradients(model: nn.Module, graph, rows: list[Tensor]) -> list[Tensor]:
    leaves = [r.clone().requires_grad_() for r in rows]
    out = model(graph, *leaves)
    weights = numbers(len(out), 7) + 0.25
    return [out, *torch.autograd.grad((out * weights).sum(), [*leaves, *model.parameters()])]


CASES = [("max", name, True) for name in AFTER]
CASES += [("max", "relu", False), ("min", "clamp", True), ("relu_max", "leaky", True)]


@pytest.mark.parametrize(("combine", "after", "inside"), CASES)
def test_gradients_are_those_of_eager_code(combine, after, inside):
    model = Extremum(COMBINE[combine], AFTER[after], inside)
    fast = gs.compile(model, fallback="error")
    for case in (case for case in graphs.ODD if case.num_edges):
        (graph,) = case.build(gossamer_library())
        rows = [numbers(case.num_src, 3), numbers(case.num_dst, 4)]
        expected = gradients(model, graph, rows)
        for have, want in zip(gradients(fast, graph, rows), expected, strict=True):
            torch.testing.assert_close(have, want, msg=case.name)


def test_nothing_but_positions_is_saved():
    fast = gs.compile(Extremum(COMBINE["max"], AFTER["relu"], inside=True).float())
    (graph,) = graphs.ODD[0].build(gossamer_library())
    rows = [numbers(n, 3).float() for n in (graph.num_src_nodes(), graph.num_dst_nodes())]
    kept = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.dtype)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        gradients(fast, graph, rows)
    assert torch.int32 in kept
    assert torch.bool not in kept
