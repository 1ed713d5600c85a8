"""Features in bfloat16, float16 and float64, and autocast: forward, gradients and training.

16-bit models are compared with the same model in float64, on the numbers that the 16 bits hold.
Errors count in units of roundoff of the format (2^-8 for bfloat16, 2^-11 for float16), beside the
largest value of a result. `docs/differences-from-dgl.md` promises 8 of them, and at most
four times as many as eager has, where that is more than a unit.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gossamer as gs
from gossamer.dgl.nn.functional import edge_softmax
from programs import graphs
from programs.library import gossamer_library
from programs.threads import threads

BF16, F16, F64 = torch.bfloat16, torch.float16, torch.float64
UNIT = {BF16: 2.0**-8, F16: 2.0**-11, F64: 1e-13, torch.float32: 2.0**-22}
#: What the documentation promises.
UNITS = 8
WIDTH = 24
CASES = {
    case.name: case
    for case in graphs.ODD
    if case.name in ("power_law", "zero_in_degree", "multi_edges", "small_star", "one_node")
}


class GCN(nn.Module):
    """Kipf and Welling, two layers; the norm is a column of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 40), nn.Linear(40, 8, bias=False)

    def forward(self, g, x, e):
        with g.local_scope():
            for layer in (self.first, self.second):
                g.ndata["n"] = g.in_degrees().clamp(min=1).to(x.dtype).rsqrt().unsqueeze(1)
                g.ndata["h"] = layer(x)
                g.update_all(
                    lambda edges: {"m": edges.src["h"] * edges.src["n"]},
                    lambda nodes: {"h": nodes.mailbox["m"].sum(1)},
                )
                x = F.relu(g.ndata["h"] * g.ndata["n"])
            return x


class GAT(nn.Module):
    """Velickovic et al., four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, 32, bias=False)
        self.left, self.right = (nn.Parameter(torch.randn(4, 8) / 3) for _ in "lr")

    def forward(self, g, x, e):
        h = self.linear(x).view(-1, 4, 8)
        with g.local_scope():
            g.ndata["h"] = h
            g.ndata["l"], g.ndata["r"] = (h * self.left).sum(2), (h * self.right).sum(2)

            def message(edges):
                return {"s": F.leaky_relu(edges.src["l"] + edges.dst["r"]), "h": edges.src["h"]}

            def reduce(nodes):
                a = torch.softmax(nodes.mailbox["s"], 1)
                return {"h": (a.unsqueeze(3) * nodes.mailbox["h"]).sum(1)}

            g.update_all(message, reduce)
            return g.ndata["h"].flatten(1)


class EdgeConv(nn.Module):
    """Wang et al.: the largest message of each channel.

    Which one that is must not depend on rounding, or gradients go elsewhere: all numbers are small
    integers, on which 16 bits are exact.
    """

    def __init__(self) -> None:
        super().__init__()
        self.theta, self.phi = nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 16)
        for parameter in self.parameters():
            parameter.data = torch.randint(-1, 2, parameter.shape).float()

    def forward(self, g, x, e):
        with g.local_scope():
            g.ndata["x"] = x

            def message(edges):
                there, here = edges.src["x"], edges.dst["x"]
                return {"m": self.theta(there - here) + self.phi(here)}

            g.update_all(message, lambda nodes: {"h": nodes.mailbox["m"].max(1)[0]})
            return g.ndata["h"]


class EdgeMLP(nn.Module):
    """A network on both ends and the features of the edge itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2 * WIDTH + 3, 20), nn.Linear(20, 12)

    def forward(self, g, x, e):
        with g.local_scope():
            g.ndata["x"], g.edata["e"] = x, e

            def message(edges):
                parts = [edges.src["x"], edges.dst["x"], edges.data["e"]]
                return {"m": self.second(F.silu(self.first(torch.cat(parts, 1))))}

            g.update_all(message, lambda nodes: {"h": nodes.mailbox["m"].mean(1)})
            return g.ndata["h"]


MODELS = {model.__name__: model for model in (GCN, GAT, EdgeConv, EdgeMLP)}


def _graph(case):
    return case.build(gossamer_library())[0]


def _rows(case, dtype=torch.float32, name="GCN"):
    random = torch.Generator().manual_seed(case.num_src + case.num_edges)
    x = torch.randn(case.num_src, WIDTH, generator=random)
    e = torch.randn(case.num_edges, 3, generator=random)
    return (x.round() if name == "EdgeConv" else x).to(dtype), e.to(dtype)


def _model(name, dtype=torch.float32):
    torch.manual_seed(5)
    return MODELS[name]().to(dtype)


def _compiled(model, **options):
    return gs.compile(copy.deepcopy(model), fallback="error", **options)


def _results(model, g, x, e):
    """The output, then gradients of a weighted sum of it for both inputs and all parameters."""
    x, e = x.detach().requires_grad_(), e.detach().requires_grad_()
    out = model(g, x, e)
    if not out.requires_grad:
        return [out]
    weights = (torch.arange(out.numel()) % 5 - 2).view(out.shape)
    leaves = [x, e, *model.parameters()]
    grads = torch.autograd.grad((out * weights.to(out.dtype)).sum(), leaves, allow_unused=True)
    found = [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, grads, strict=True)
    ]
    return [out.detach(), *found]


def _wide(model):
    return copy.deepcopy(model).to(F64)


def _errors(found, exact):
    """The largest error of each result, beside its largest value."""
    errors = []
    for value, right in zip(found, exact, strict=True):
        scale = right.abs().max().item() if right.numel() else 0.0
        difference = (value.to(F64) - right).abs().max().item() if right.numel() else 0.0
        errors.append(difference / scale if scale else difference)
    return errors


def _assert_as_good(found, eager, exact, unit):
    mine, theirs = _errors(found[: len(exact)], exact), _errors(eager, exact)
    for index, (error, other) in enumerate(zip(mine, theirs, strict=True)):
        assert found[index].dtype == eager[index].dtype
        assert error <= 4 * max(other, unit), (index, error / unit, other / unit)
        assert error <= UNITS * unit, (index, error / unit)


# --- forward and gradients ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [BF16, F16, F64], ids=["bf16", "f16", "f64"])
@pytest.mark.parametrize("name", MODELS)
def test_as_close_to_float64_as_eager(name, dtype):
    model = _model(name, dtype)
    fast = _compiled(model)
    for case in CASES.values():
        x, e = _rows(case, dtype, name)
        g = _graph(case)
        exact = _results(_wide(model), g, x.to(F64), e.to(F64))
        eager, found = _results(model, g, x, e), _results(fast, g, x, e)
        _assert_as_good(found, eager, exact, UNIT[dtype])


@pytest.mark.parametrize("name", ["GCN", "GAT"])
def test_strict_rounds_after_each_operator(name):
    dtype = BF16
    model = _model(name, dtype)
    fast = _compiled(model, numerics="strict")
    for case in (CASES["power_law"], CASES["zero_in_degree"]):
        x, e = _rows(case, dtype, name)
        g = _graph(case)
        exact = _results(_wide(model), g, x.to(F64), e.to(F64))
        _assert_as_good(_results(fast, g, x, e), _results(model, g, x, e), exact, UNIT[dtype])


def test_strict_is_eager_where_nothing_is_summed():
    def layer(g, x, w):
        with g.local_scope():
            g.ndata["x"], g.edata["w"] = x, w
            g.apply_edges(lambda edges: {"y": edges.src["x"] * edges.data["w"] - edges.dst["x"]})
            return g.edata["y"]

    case = CASES["power_law"]
    x, e = _rows(case, BF16)
    args = _graph(case), x, e[:, :1]
    strict = gs.compile(layer, fallback="error", numerics="strict")
    fast = gs.compile(layer, fallback="error")
    assert torch.equal(strict(*args), layer(*args))
    assert not torch.equal(fast(*args), layer(*args))


def test_sums_are_float32():
    """Ten thousand ones: bfloat16 cannot count beyond 256."""
    leaves = 10_000
    g = gs.graph((torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.int64)))

    def layer(g, x):
        with g.local_scope():
            g.ndata["x"] = x
            g.update_all(
                lambda edges: {"m": edges.src["x"]}, lambda nodes: {"o": nodes.mailbox["m"].sum(1)}
            )
            return g.ndata["o"]

    x = torch.ones(leaves + 1, 3, dtype=BF16)
    out = gs.compile(layer, fallback="error")(g, x)
    assert torch.equal(out[0], torch.full((3,), 1e4).to(BF16))


@pytest.mark.parametrize("name", ["GAT", "EdgeMLP"])
def test_bits_do_not_depend_on_threads(name):
    case = graphs.POWER_LAW
    fast = _compiled(_model(name, BF16))
    _results(fast, _graph(case), *_rows(case, BF16, name))  # the next call is one program
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(_results(fast, _graph(case), *_rows(case, BF16, name)))
    for one, two in zip(*found, strict=True):
        assert torch.equal(one, two)


def test_without_instructions_for_16_bits():
    """Conversions are integer arithmetic there. Rows of three features are no whole vector."""

    def layer(g, x, e):
        with g.local_scope():
            g.ndata["x"], g.edata["e"] = x, e
            g.apply_edges(lambda edges: {"y": edges.src["x"][:, :3] * edges.data["e"]})
            return g.edata["y"]

    case = CASES["power_law"]
    for dtype in (BF16, F16):
        fast = gs.compile(layer, fallback="error", target="generic")
        x, e = _rows(case, dtype)
        x[0, 0], x[1, 1], x[2, 2], e[3] = torch.inf, -torch.inf, torch.nan, 2.0**-20
        args = _graph(case), x, e
        torch.testing.assert_close(fast(*args), layer(*args), rtol=0, atol=0, equal_nan=True)


# --- mixed ----------------------------------------------------------------------------------------


def test_features_in_16_bits_and_weights_of_edges_in_32():
    """torch promotes to float32, and so does the program."""

    def layer(g, x, w):
        with g.local_scope():
            g.ndata["x"], g.edata["w"] = x, w
            g.update_all(
                lambda edges: {"m": edges.src["x"] * edges.data["w"]},
                lambda nodes: {"o": nodes.mailbox["m"].sum(1)},
            )
            return g.ndata["o"]

    case = CASES["power_law"]
    x, w = _rows(case)
    exact = layer(_graph(case), x.to(BF16).to(F64), w[:, :1].to(F64))
    found = gs.compile(layer, fallback="error")(_graph(case), x.to(BF16), w[:, :1])
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.to(F64), exact, rtol=1e-5, atol=1e-5)


def test_products_of_float32_that_the_user_asks_for():
    """Widened by hand, a product is one of float32, though its factors come from 16 bits."""
    weight = torch.randn(WIDTH, 8, generator=torch.Generator().manual_seed(1)).to(BF16)

    def layer(g, x):
        with g.local_scope():
            g.ndata["h"] = x.float() @ weight.float()
            g.update_all(
                lambda edges: {"m": edges.src["h"]}, lambda nodes: {"o": nodes.mailbox["m"].sum(1)}
            )
            return g.ndata["o"]

    case = CASES["power_law"]
    x = _rows(case, BF16)[0]
    fast = gs.compile(layer, fallback="error")
    for _ in range(3):
        torch.testing.assert_close(fast(_graph(case), x), layer(_graph(case), x))


def test_tables_are_stored_in_16_bits():
    """The report shows what a program stores: nothing of float32 with rows."""
    fast = _compiled(_model("GCN", BF16))
    case = CASES["power_law"]
    for _ in range(2):
        fast(_graph(case), *_rows(case, BF16))
    report = gs.explain(fast)
    assert report.mode == "whole"
    for buffer in report.buffers:
        if buffer.rows in ("node", "edges") and len(buffer.shape):
            assert buffer.dtype == "bfloat16", buffer


# --- autocast -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_autocast(name):
    """As close to float64 as eager under autocast; a call in whole mode, too."""
    model = _model(name)
    fast = _compiled(model)
    for case in CASES.values():
        x, e = _rows(case, name=name)
        exact = _results(_wide(model), _graph(case), x.to(F64), e.to(F64))
        with torch.autocast("cpu", dtype=BF16):
            eager = model(_graph(case), x, e)
        for _ in range(2):
            with torch.autocast("cpu", dtype=BF16):
                out = fast(_graph(case), x, e)
            assert out.dtype == eager.dtype
            _assert_as_good([out.detach()], [eager.detach()], exact[:1], UNIT[BF16])
    assert gs.explain(fast).fallbacks == []


@pytest.mark.parametrize("name", ["GCN", "GAT"])
def test_training_under_autocast(name):
    """Parameters and their gradients stay float32; a few steps end near eager's."""
    case = CASES["power_law"]
    x, e = _rows(case)
    start = _model(name)
    exact, models = _wide(start), (copy.deepcopy(start), _compiled(start))
    for model, dtype in ((exact, F64), *((model, torch.float32) for model in models)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=BF16, enabled=dtype != F64):
                out = model(_graph(case), x.to(dtype), e.to(dtype))
            (out.to(dtype) - 0.3).square().mean().backward()
            optimizer.step()
    eager, fast = (list(model.parameters()) for model in models)
    assert all(p.grad.dtype == torch.float32 for p in fast)
    right = [p.detach() for p in exact.parameters()]
    _assert_as_good([p.detach() for p in fast], [p.detach() for p in eager], right, UNIT[BF16])


def test_autocast_on_and_off_are_different_programs():
    model = _model("EdgeMLP")
    fast = _compiled(model)
    case = CASES["power_law"]
    args = _graph(case), *_rows(case)
    for enabled in (False, True, False, True, False):
        with torch.autocast("cpu", dtype=BF16, enabled=enabled):
            out = fast(*args)
        assert out.dtype == (BF16 if enabled else torch.float32)
    with torch.autocast("cpu", dtype=F16):
        assert fast(*args).dtype == F16
    exact = _wide(model)(args[0], *(t.to(F64) for t in args[1:]))
    assert _errors([fast(*args)], [exact])[0] < 1e-5


def test_autocast_inside_of_forward():
    """A region of forward in which autocast is off."""

    class Inner(GCN):
        def forward(self, g, x, e):
            with torch.autocast("cpu", enabled=False):
                return super().forward(g, x.float(), e)

    torch.manual_seed(5)
    model = Inner()
    fast = _compiled(model)
    case = CASES["power_law"]
    args = _graph(case), *_rows(case)
    for _ in range(3):
        with torch.autocast("cpu", dtype=BF16):
            out, right = fast(*args), model(*args)
        assert out.dtype == torch.float32
        torch.testing.assert_close(out, right)


def test_no_tensor_without_data_is_left_in_the_cache_of_casts():
    """After a capture under autocast, eager code with the same parameters works."""
    model = _model("GAT")
    fast = gs.compile(model, fallback="error")
    case = CASES["power_law"]
    args = _graph(case), *_rows(case)
    with torch.autocast("cpu", dtype=BF16):
        right = model(*args).detach()
        for _ in range(3):
            fast(*args)
            again = model(*args)
            assert torch.equal(again, right)
        again.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("width", [3, 8, 17])
@pytest.mark.parametrize(
    "part",
    [lambda t: t[..., 1:], lambda t: t[..., ::2], lambda t: t.transpose(-1, -2)],
    ids=["slice", "step", "transposed"],
)
def test_parts_of_rows_of_any_width(part, width, dtype):
    """Lanes that do not lie side by side, in vectors of odd sizes."""

    def sums(g, x, e):
        with g.local_scope():
            g.ndata["x"], g.edata["e"] = x, e
            g.update_all(
                lambda edges: {"m": part(edges.src["x"]) * 2 + part(edges.data["e"])},
                lambda nodes: {"y": nodes.mailbox["m"].sum(1)},
            )
            return g.ndata["y"]

    (graph,) = CASES["multi_edges"].build(gossamer_library())
    generator = torch.Generator().manual_seed(3)
    shape = (graph.num_nodes() + graph.num_edges(), 3, width)
    x, e = torch.randn(shape, generator=generator).to(dtype).tensor_split([graph.num_nodes()])
    fast = gs.compile(sums, fallback="error")
    found = []
    for run, kind in ((sums, torch.float64), (fast, dtype)):
        leaves = [t.to(kind).requires_grad_() for t in (x, e)]
        y = run(graph, *leaves)
        upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(4)).to(dtype)
        found.append([y, *torch.autograd.grad(y, leaves, upstream.to(kind))])
    for want, have in zip(*found, strict=True):
        far = (have.double() - want).abs().max() / want.abs().max()
        assert far <= UNITS * UNIT[dtype]


class EdgeFields(nn.Module):
    """Fields of edges: rounded rows of nodes, and their softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(-1, 1, WIDTH))

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["x"] = x
            g.apply_edges(lambda edges: {"m": edges.src["x"] * self.scale, "x": edges.dst["x"]})
            return g.edata["m"], g.edata["x"], edge_softmax(g, g.edata["m"])


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_rounded_edge_fields_have_compiled_gradients(dtype):
    model = EdgeFields().to(dtype)
    fast = gs.compile(model, fallback="error")
    exact = copy.deepcopy(model).double()
    (graph,) = CASES["zero_in_degree"].build(gossamer_library())
    rows = torch.linspace(-1, 1, graph.num_nodes() * WIDTH).view(-1, WIDTH).to(dtype)

    def gradients(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
        x = x.clone().requires_grad_()
        outputs = model(graph, x)
        total = sum((out * torch.arange(WIDTH)).sum() for out in outputs)
        return [*outputs, *torch.autograd.grad(total, [x, *model.parameters()])]

    expected = gradients(exact, rows.double())
    for _ in range(2):
        for have, want in zip(gradients(fast, rows), expected, strict=True):
            assert have.dtype == dtype
            far = (have.double() - want).abs().max() / want.abs().max()
            assert far <= UNITS * UNIT[dtype]


def test_shared_extrema_run_eagerly():
    """amax compares the messages with a maximum that may be stored in 16 bits."""

    def largest(g, x):
        with g.local_scope():
            g.ndata["x"] = x
            g.update_all(
                lambda edges: {"m": torch.sin(edges.src["x"])},
                lambda nodes: {"y": nodes.mailbox["m"].amax(1)},
            )
            return g.ndata["y"]

    (graph,) = CASES["multi_edges"].build(gossamer_library())
    rows = torch.randn(graph.num_nodes(), WIDTH).to(BF16)
    with pytest.raises(gs.errors.UnsupportedError, match=r"write x.max\(dim\)"):
        gs.compile(largest, fallback="error")(graph, rows)
    fast = gs.compile(largest)
    with pytest.warns(gs.errors.FallbackWarning):
        gradients = [_gradient_of_sum(f, graph, rows) for f in (largest, fast, fast)]
    assert gradients[0].any()
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])


def _gradient_of_sum(model, graph, rows: torch.Tensor) -> torch.Tensor:
    x = rows.clone().requires_grad_()
    return torch.autograd.grad(model(graph, x).sum(), x)[0]
