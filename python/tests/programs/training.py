"""A small attention network, and the check that a way to train it gives what it gives eagerly."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import gossamer as gs

DTYPE = torch.float64
NODES, WIDTH = 12, 4


class AttentionLayer(nn.Module):
    """Attention over the mailbox with a learned score of both ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.score = nn.Linear(2 * width, 1, bias=False)

    def message(self, edges):
        pair = torch.cat([edges.src["h"], edges.dst["h"]], 1)
        return {"s": torch.tanh(self.score(pair)), "h": edges.src["h"]}

    def reduce(self, nodes):
        return {"o": (nodes.mailbox["s"].softmax(1) * nodes.mailbox["h"]).sum(1)}

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.linear(x)
            g.update_all(self.message, self.reduce)
            return g.ndata["o"]


class Network(nn.Module):
    """Two layers and a skip connection; `first` and `second` may be one layer."""

    def __init__(self, width: int = WIDTH, shared: bool = False) -> None:
        super().__init__()
        self.first = AttentionLayer(width)
        self.second = self.first if shared else AttentionLayer(width)

    def forward(self, g, x):
        return self.second(g, torch.tanh(self.first(g, x))) + x


def network(shared: bool = False, dtype: torch.dtype = DTYPE, width: int = WIDTH) -> Network:
    """The same parameters in every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Network(width, shared).to(dtype)


def random_graph(nodes: int = NODES, edges: int = 40, seed: int = 0) -> gs.Graph:
    """With multi-edges, and two nodes that no edge enters."""
    random = torch.Generator().manual_seed(seed)
    src = torch.randint(nodes, (edges,), generator=random)
    dst = torch.randint(nodes - 2, (edges,), generator=random)
    return gs.graph((src, dst), num_nodes=nodes)


def rows(
    count: int = NODES, width: int = WIDTH, seed: int = 1, dtype: torch.dtype = DTYPE
) -> Tensor:
    """Signed numbers."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, width, generator=random, dtype=dtype)


def compiled_copy(model: nn.Module) -> Any:
    """The model's copy, compiled; whatever cannot be compiled is an error."""
    return gs.compile(copy.deepcopy(model), fallback="error")


def assert_close(actual: Tensor | None, expected: Tensor | None, tolerance: float = 1e-10) -> None:
    """Largest difference over largest value; None only where None is due."""
    assert (actual is None) == (expected is None)
    if expected is not None:
        assert torch.isfinite(expected).all()
        scale = max(1.0, float(expected.detach().abs().max()) if expected.numel() else 0.0)
        torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance * scale)


def assert_same_state(fast: nn.Module, model: nn.Module, tolerance: float = 1e-10) -> None:
    """Parameters, their gradients and buffers."""
    names, found = zip(*model.named_parameters(), strict=True)
    assert names == tuple(name for name, _ in fast.named_parameters())
    for mine, right in zip(fast.parameters(), found, strict=True):
        assert_close(mine, right, tolerance)
        assert_close(mine.grad, right.grad, tolerance)
    for mine, right in zip(fast.buffers(), model.buffers(), strict=True):
        assert_close(mine, right, tolerance)


def assert_trains_alike(
    body: Callable[[Any], Any], model: nn.Module | None = None, tolerance: float = 1e-10
) -> Any:
    """Runs `body` with the model and with its compiled copy; both must end in the same state.

    `body`: trains what it is given, and returns the tensors, if any, that must be equal, too.
    Returns the compiled module.
    """
    model = network() if model is None else model
    fast = compiled_copy(model)
    expected, actual = body(model), body(fast)
    assert any(parameter.grad is not None for parameter in model.parameters())
    for mine, right in zip(_tensors(actual), _tensors(expected), strict=True):
        assert_close(mine, right, tolerance)
    assert_same_state(fast, model, tolerance)
    return fast


def _tensors(result: Any) -> list[Tensor]:
    return [] if result is None else [result] if isinstance(result, Tensor) else list(result)
