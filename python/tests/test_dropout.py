"""Random numbers in user-defined functions: the law, seeds, and one mask for both passes."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import gossamer as gs
from programs.threads import threads

pytestmark = pytest.mark.filterwarnings("ignore::gossamer.errors.RandomNumbersWarning")

NODES = 40


def make_graph(nodes: int = NODES, edges: int = 300, seed: int = 1) -> gs.Graph:
    """Multi-edges, loops and isolated nodes."""
    random = torch.Generator().manual_seed(seed)
    ends = (torch.rand(2, edges, generator=random) ** 2 * (nodes - 3)).long()
    return gs.graph((ends[0], ends[1]), num_nodes=nodes)


def signed(*shape: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def reducing(message, reduce=lambda nodes: {"o": nodes.mailbox["m"].sum(1)}, apply=None):
    def layer(g, h):
        with g.local_scope():
            g.ndata["h"] = h
            g.update_all(message, reduce, apply)
            return g.ndata["o"]

    return layer


def compiled(layer, **options):
    return gs.compile(layer, fallback="error", **options)


class Attention(nn.Module):
    """Graph attention with dropout on features and on weights."""

    def __init__(self, width: int = 8, heads: int = 2, p: float = 0.5):
        super().__init__()
        self.project = nn.Linear(width, width * heads, bias=False, dtype=torch.float64)
        self.score = nn.Parameter(signed(heads, 2 * width))
        self.drop = nn.Dropout(p)
        self.heads, self.width = heads, width

    def logits(self, edges):
        both = torch.cat([edges.src["z"], edges.dst["z"]], -1)
        return {"e": F.leaky_relu((both * self.score).sum(-1, keepdim=True))}

    def message(self, edges):
        return {"z": self.drop(edges.src["z"]), "e": edges.data["e"]}

    def reduce(self, nodes):
        weights = self.drop(torch.softmax(nodes.mailbox["e"], 1))
        return {"o": (weights * nodes.mailbox["z"]).sum(1)}

    def forward(self, g, h):
        with g.local_scope():
            g.ndata["z"] = self.project(h).view(-1, self.heads, self.width)
            g.apply_edges(self.logits)
            g.update_all(self.message, self.reduce)
            return g.ndata["o"].mean(1)


def seeded(function, *args, seed: int = 0):
    torch.manual_seed(seed)
    return function(*args)


DRAWS = {
    "dropout": (lambda x: F.dropout(x, 0.3), (1.0, 0.3 / 0.7)),
    "native": (lambda x: torch.native_dropout(x, 0.3, True)[0], (1.0, 0.3 / 0.7)),
    "in place": (lambda x: F.dropout(x * 1.0, 0.3, inplace=True), (1.0, 0.3 / 0.7)),
    "rand": (lambda x: torch.rand(x.shape[0], 4), (0.5, 1 / 12)),
    "rand_like": (torch.rand_like, (0.5, 1 / 12)),
    "randn_like": (torch.randn_like, (0.0, 1.0)),
    "bernoulli": (lambda x: torch.bernoulli(torch.sigmoid(x) * 0 + 0.25), (0.25, 0.1875)),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.25), (0.25, 0.1875)),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(-1, 3), (1.0, 4 / 3)),
    "normal_": (lambda x: torch.empty_like(x).normal_(2.0, 0.5), (2.0, 0.25)),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2.0), (0.5, 0.25)),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_law_of_each_operator(name, dtype):
    """Mean and variance over 40000 numbers of edges, within 5 sigma."""
    draw, (mean, variance) = DRAWS[name]

    def layer(g, h):
        g.ndata["h"] = h
        g.apply_edges(lambda edges: {"r": draw(edges.src["h"]).to(h.dtype)})
        return g.edata["r"]

    g = make_graph(edges=10000)
    drawn = seeded(compiled(layer), g, torch.ones(NODES, 4, dtype=dtype)).double()
    fourth = ((drawn - mean) ** 4).mean()
    count = drawn.numel()
    assert abs(float(drawn.mean()) - mean) < 5 * (variance / count) ** 0.5
    spread = float((fourth - variance**2) / count) ** 0.5
    assert abs(float(((drawn - mean) ** 2).mean()) - variance) < 5 * spread + 1e-6


def test_expectation_is_the_eager_layer():
    g, h, model = make_graph(), signed(NODES, 8), Attention(p=0.4)
    fast = compiled(model)
    torch.manual_seed(0)
    with torch.no_grad():
        drawn = torch.stack([fast(g, h) for _ in range(400)])
        expected = model.eval()(g, h)
        torch.testing.assert_close(fast(g, h), expected)
    sigma = drawn.std(0) / len(drawn) ** 0.5
    assert ((drawn.mean(0) - expected).abs() <= 5.5 * sigma + 1e-9).all()


@pytest.mark.parametrize("options", [{}, {"backend": "torch"}, {"numerics": "strict"}], ids=str)
def test_seeds(options):
    """Equal after manual_seed, in both modes of compilation; other numbers in another call."""
    g, h = make_graph(), signed(NODES, 8)
    fast = compiled(Attention(), **options)
    first = seeded(fast, g, h)
    for _ in range(3):
        torch.testing.assert_close(seeded(fast, g, h), first)
    assert not torch.allclose(fast(g, h), fast(g, h))


def test_kernels_and_torch_operators_draw_the_same():
    g, h, model = make_graph(), signed(NODES, 8), Attention()
    expected = seeded(compiled(model, backend="torch"), g, h)
    torch.testing.assert_close(seeded(compiled(model), g, h), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_mask_for_forward_and_backward(dtype):
    layer = reducing(lambda edges: {"m": F.dropout(edges.src["h"], 0.25)})
    g, h = make_graph(), torch.ones(NODES, 6, dtype=dtype, requires_grad=True)
    fast = compiled(layer)
    for _ in range(3):  # region mode, then whole mode
        out = seeded(fast, g, h)
        weights = signed(*out.shape).to(dtype)
        (grad,) = torch.autograd.grad((out * weights).sum(), h)
        # The layer is linear, so <weights, layer(h)> is <gradient, h>, for h of ones here.
        torch.testing.assert_close((grad * h).sum(), (out * weights).sum())
        kept = seeded(fast, make_graph(), torch.eye(NODES, dtype=dtype)[:, :6]).detach()
        assert ((kept / (1 / 0.75)).round() - kept * 0.75).abs().max() < 1e-5


def test_gradients_with_fixed_masks():
    """First and second derivatives against finite differences, the seed fixed."""
    g, model = make_graph(6, 10), Attention(2, 1)
    fast = compiled(model)
    h = signed(6, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: seeded(fast, g, x), (h,))
    assert torch.autograd.gradgradcheck(lambda x: seeded(fast, g, x), (h,))


def test_probabilities_at_the_ends():
    g, h = make_graph(), signed(NODES, 5)
    none = compiled(reducing(lambda edges: {"m": F.dropout(edges.src["h"], 1.0)}))
    every = compiled(reducing(lambda edges: {"m": F.dropout(edges.src["h"], 0.0)}))
    assert torch.equal(none(g, h), torch.zeros(NODES, 5, dtype=h.dtype))
    torch.testing.assert_close(every(g, h), reducing(lambda edges: {"m": edges.src["h"]})(g, h))


def test_several_draws_of_one_call_differ():
    def message(edges):
        ones = torch.ones_like(edges.src["h"])
        return {"m": F.dropout(ones, 0.5) * F.dropout(ones, 0.5)}

    g = make_graph(edges=20000)
    out = seeded(compiled(reducing(message)), g, torch.ones(NODES, 1))
    # Equal masks would give 2 on average.
    assert abs(float(out.sum()) / 20000 - 1) < 5 * (3 / 20000) ** 0.5


def test_a_deferred_field_agrees_with_itself():
    def layer(g, h):
        g.ndata["h"] = h
        g.apply_edges(lambda edges: {"m": F.dropout(edges.src["h"], 0.5)})
        g.update_all(
            lambda edges: {"m": edges.data["m"]}, lambda nodes: {"o": nodes.mailbox["m"].sum(1)}
        )
        return g.ndata["o"]

    fast = compiled(layer)
    for _ in range(3):
        g = make_graph()
        out = fast(g, signed(NODES, 5))
        torch.rand(7)
        expected = torch.zeros_like(out).index_add(0, g.edges()[1].long(), g.edata["m"])
        torch.testing.assert_close(out, expected)


def test_train_and_eval_take_turns():
    g, h, model = make_graph(), signed(NODES, 8), Attention()
    fast = compiled(model)
    expected = copy.deepcopy(model).eval()(g, h)
    for _ in range(3):
        model.train()
        assert not torch.allclose(fast(g, h), fast(g, h))
        model.eval()
        torch.testing.assert_close(fast(g, h), expected)
    assert len(gs.explain(fast).compilations) <= 8


def test_checkpoint():
    g, h = make_graph(), signed(NODES, 8).requires_grad_()
    fast = compiled(Attention())
    results = []
    for run in (fast, lambda *args: checkpoint(fast, *args, use_reentrant=False)):
        out = seeded(run, g, h)
        results.append((out, *torch.autograd.grad(out.square().sum(), h)))
    torch.testing.assert_close(*results)


def test_any_number_of_threads():
    g, h = make_graph(3000, 20000), signed(3000, 8)
    layer = reducing(
        lambda edges: {"m": F.dropout(edges.src["h"], 0.5) * torch.rand_like(edges.dst["h"])}
    )
    fast = compiled(layer)
    results = []
    for count in (1, 2):
        with threads(count):
            x = h.clone().requires_grad_()
            out = seeded(fast, g, x)
            results.append((out, *torch.autograd.grad(out.square().sum(), x)))
    assert all(map(torch.equal, *results))


def test_blocks_and_relations():
    block = gs.create_block((torch.arange(60) % 12, torch.arange(60) % 5), 12, 5)
    hetero = gs.heterograph(
        {
            ("user", "buys", "item"): (torch.arange(60) % 12, torch.arange(60) % 5),
            ("item", "of", "user"): (torch.arange(60) % 5, torch.arange(60) % 12),
        }
    )
    copies = [
        lambda edges: {"m": F.dropout(edges.src["h"], 0.5)},
        lambda n: {"o": n.mailbox["m"].sum(1)},
    ]

    def on_block(g, h):
        g.srcdata["h"] = h
        g.update_all(*copies)
        return g.dstdata["o"]

    def on_relations(g, users, items):
        g.nodes["user"].data["h"], g.nodes["item"].data["h"] = users, items
        calls = dict.fromkeys(g.canonical_etypes, copies)
        g.multi_update_all(calls, "sum")
        return g.nodes["item"].data["o"], g.nodes["user"].data["o"]

    ones = torch.ones(12, 3), torch.ones(5, 3)
    fast = compiled(on_block), compiled(on_relations)
    for _ in range(3):
        out = seeded(fast[0], block, ones[0])
        torch.testing.assert_close(out, seeded(fast[0], block, ones[0]))
        assert ((out == 0) | (out >= 2)).all()
        items, users = seeded(fast[1], hetero, *ones)
        for found, again in zip((items, users), seeded(fast[1], hetero, *ones), strict=True):
            torch.testing.assert_close(found, again)
            assert ((found == 0) | (found >= 2)).all()


def test_training_goes_down():
    g, h, model = make_graph(), signed(NODES, 8), Attention(p=0.2)
    fast, target = compiled(model), signed(NODES, 8) * 0.1
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    torch.manual_seed(0)
    losses = []
    for _ in range(60):
        loss = F.mse_loss(fast(g, h), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


def test_torch_bits_on_demand():
    g, h = make_graph(), signed(NODES, 8)
    model = Attention()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = gs.compile(model, rng="eager")
        for _ in range(2):
            torch.testing.assert_close(seeded(fast, g, h), seeded(model, g, h))
    assert any("random" in fallback.reason for fallback in gs.explain(fast).fallbacks)


def test_one_warning():
    fast = compiled(Attention())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            fast(make_graph(), signed(NODES, 8))
    assert [each.category for each in seen] == [gs.RandomNumbersWarning]
    assert "test_dropout.py:" in str(seen[0].message)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda m: F.alpha_dropout(m, 0.5, True), "alpha_dropout"),
        (lambda m: torch.randint(3, m.shape) + m, "random numbers"),
        (lambda m: m + torch.rand(4), "for each in-degree"),
        (
            lambda m: m + torch.rand_like(m).bernoulli_(0.5, generator=torch.default_generator),
            "`Generator`",
        ),
    ],
)
def test_refusals(body, why):
    layer = reducing(
        lambda edges: {"m": edges.src["h"]}, lambda nodes: {"o": body(nodes.mailbox["m"]).sum(1)}
    )
    fast = gs.compile(layer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast(make_graph(), torch.ones(NODES, 4))
    (fallback,) = gs.explain(fast).fallbacks
    assert why in fallback.reason
