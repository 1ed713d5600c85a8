"""Training on sampled blocks, several relations, DGL's graphs, and with eager calls inside."""

from __future__ import annotations

import copy
import itertools
import warnings

import pytest
import torch
from torch import nn

import gossamer as gs
from graph_libs import OURS, WITHOUT_DGL, Library
from programs.training import (
    DTYPE,
    AttentionLayer,
    assert_close,
    assert_same_state,
    assert_trains_alike,
    compiled_copy,
    network,
    random_graph,
    rows,
)

# --- blocks --------------------------------------------------------------------------------------


class SageLayer(nn.Module):
    """A nonlinear message of both ends, the mean, and a product of each."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.own, self.other = nn.Linear(width, out), nn.Linear(width, out)

    def message(self, edges):
        return {"m": torch.tanh(edges.src["h"] - edges.dst["own"])}

    def reduce(self, nodes):
        return {"o": self.other(nodes.mailbox["m"].mean(1))}

    def forward(self, block, h):
        own = h[: block.num_dst_nodes()]
        with block.local_scope():
            block.srcdata["h"], block.dstdata["own"] = h, own
            block.update_all(self.message, self.reduce)
            return block.dstdata["o"] + self.own(own)


class Sage(nn.Module):
    """One layer for each block of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([SageLayer(4, 6), SageLayer(6, 3)])

    def forward(self, blocks, h):
        for layer, block in zip(self.layers, blocks, strict=True):
            h = torch.relu(layer(block, h))
        return h


def sage():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Sage().to(DTYPE)


def our_batches(count=6):
    """Pairs of blocks made anew in each step, of other sizes each, with isolated destinations."""
    for seed in range(count):
        random = torch.Generator().manual_seed(seed)
        sizes = [30 + 3 * seed, 12 + seed, 5 + seed % 2]
        blocks = []
        for src, dst in itertools.pairwise(sizes):
            ends = [torch.randint(n, (3 * dst,), generator=random) for n in (src, dst - 1)]
            blocks.append(gs.create_block(tuple(ends), num_src_nodes=src, num_dst_nodes=dst))
        yield blocks, rows(sizes[0], 4, seed)


def dgl_batches():
    """Blocks of DGL's sampler, from a graph with parallel edges."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dgl
    random = torch.Generator().manual_seed(0)
    ends = torch.randint(60, (2, 300), generator=random)
    g = dgl.graph((ends[0], ends[1]), num_nodes=60)
    x = rows(60, 4)
    dgl.seed(3)
    sampler = dgl.dataloading.NeighborSampler([4, 3])
    loader = dgl.dataloading.DataLoader(g, torch.arange(60), sampler, batch_size=17, shuffle=False)
    for inputs, _, blocks in loader:
        yield list(blocks), x[inputs]


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(our_batches, id="gossamer"),
        pytest.param(dgl_batches, id="dgl", marks=[WITHOUT_DGL, pytest.mark.dgl_live]),
    ],
)
def test_mini_batches_of_blocks(batches):
    """Each model sees the same blocks; one specialisation serves them all."""
    model = sage()
    fast = compiled_copy(model)
    optimizers = [torch.optim.SGD(layer.parameters(), 0.1) for layer in (model, fast)]
    steps = 0
    for blocks, h in batches():
        for layer, optimizer in zip((model, fast), optimizers, strict=True):
            optimizer.zero_grad()
            layer(blocks, h).square().mean().backward()
            optimizer.step()
        assert_same_state(fast, model)
        steps += 1
    assert steps >= 4
    regions = [item for item in gs.explain(fast).programs if item.mode == "region"]
    assert sum(item.entry == "backward" for item in regions) == len(model.layers)


# --- several relations ---------------------------------------------------------------------------


class Relations(nn.Module):
    """A product for each relation, its messages summed or averaged, relations added."""

    names = ("follows", "buys", "suits")

    def __init__(self) -> None:
        super().__init__()
        self.products = nn.ModuleDict({name: nn.Linear(2, 2) for name in self.names})

    def functions(self, name):
        def message(edges):
            return {"m": torch.tanh(self.products[name](edges.src["h"]))}

        def reduce(nodes):
            return {"o": nodes.mailbox["m"].sum(1)}

        return message, reduce

    def forward(self, g, users, items):
        with g.local_scope():
            g.nodes["user"].data["h"], g.nodes["item"].data["h"] = users, items
            g.multi_update_all({name: self.functions(name) for name in self.names}, "sum")
            user = g.nodes["user"].data["o"]
            g.nodes["user"].data["h"] = user
            g.update_all(*self.functions("buys"), etype="buys")
            return user, g.nodes["item"].data["o"]


def relations():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Relations().to(DTYPE)


def hetero(dgl):
    edges = {
        ("user", "follows", "user"): ([0, 1, 1, 1], [1, 2, 0, 0]),
        ("user", "buys", "item"): ([0, 2, 2], [1, 0, 1]),
        ("item", "suits", "user"): ([0, 1], [2, 2]),
    }
    return dgl.heterograph(
        {key: tuple(map(torch.tensor, ends)) for key, ends in edges.items()},
        {"user": 4, "item": 3},
    )


@pytest.mark.parametrize(
    "dgl",
    [
        pytest.param(OURS, id="gossamer"),
        pytest.param(Library("dgl"), id="dgl", marks=[WITHOUT_DGL, pytest.mark.dgl_live]),
    ],
)
def test_several_relations(dgl):
    g = hetero(dgl)

    def body(model):
        users, items = rows(4, 2).requires_grad_(), rows(3, 2, seed=2).requires_grad_()
        for scale in (1.0, -0.5, 2.0):
            out = model(g, scale * users, items)
            (out[0].square().sum() + out[1].sin().sum()).backward()
        return users.grad, items.grad

    assert_trains_alike(body, relations())


# --- eager calls inside --------------------------------------------------------------------------


class Branches(AttentionLayer):
    """The reducer looks at values, which cannot be compiled."""

    def reduce(self, nodes):
        found = super().reduce(nodes)["o"]
        return {"o": found if float(found.detach().sum()) > 0 else -2 * found}


def test_an_eager_call_takes_part_in_autograd():
    model = network()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model.second = Branches(4).to(DTYPE)
    fast = gs.compile(copy.deepcopy(model))
    g = random_graph()
    optimizers = [torch.optim.SGD(layer.parameters(), 0.05) for layer in (model, fast)]
    for number in range(4):
        for layer, optimizer in zip((model, fast), optimizers, strict=True):
            optimizer.zero_grad()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", gs.FallbackWarning)
                layer(g, rows(seed=number)).square().sum().backward()
            optimizer.step()
        assert_same_state(fast, model)
    report = gs.explain(fast)
    assert len(report.fallbacks) == 1
    assert "backward" in {item.entry for item in report.programs}


def test_eager_reducers_may_write_to_the_mailbox():
    """Messages are gathered once for all in-degrees, yet each bucket's are its own."""

    def reduce(nodes):
        mail = nodes.mailbox["m"]
        mail.mul_(2)
        own = nodes.data["h"]
        own.add_(1)
        return {"o": mail.sum(1) * own}

    def apart(nodes):
        return {"o": (2 * nodes.mailbox["m"]).sum(1) * (nodes.data["h"] + 1)}

    g, grads = random_graph(), []
    for function in (reduce, apart):
        x = rows().requires_grad_()
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(lambda edges: {"m": torch.tanh(edges.src["h"])}, function)
            (grad,) = torch.autograd.grad(g.ndata["o"].square().sum(), x)
            grads.append(grad)
    assert_close(*grads)


def test_eager_backward_gathers_once_for_all_in_degrees():
    """The number of gathers in backward does not grow with the number of in-degrees."""

    def gathers(leaves):
        dst = torch.cat([torch.full((n,), n) for n in range(1, leaves)])
        g = gs.graph((torch.zeros_like(dst), dst), num_nodes=leaves)
        g.ndata["h"] = rows(leaves).requires_grad_()
        g.update_all(
            lambda edges: {"m": edges.src["h"] + 1},
            lambda nodes: {"o": nodes.mailbox["m"].sum(1) * nodes.data["h"]},
        )
        seen, found, queue = set(), 0, [g.ndata["o"].grad_fn]
        while queue:
            node = queue.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            found += "IndexSelect" in node.name()
            queue += [following for following, _ in node.next_functions]
        return found

    assert gathers(12) == gathers(4) > 0


# --- DGL's graphs --------------------------------------------------------------------------------


@WITHOUT_DGL
@pytest.mark.dgl_live
def test_gradients_of_fields_on_a_graph_of_dgl():
    """Fields that the caller wrote are leaves; fields that the model leaves carry gradients."""
    dgl = Library("dgl")
    random = torch.Generator().manual_seed(0)
    ends = torch.randint(10, (2, 40), generator=random)

    def layer(g):
        g.apply_edges(lambda edges: {"s": torch.tanh(edges.src["h"] * edges.data["w"])})
        g.update_all(
            lambda edges: {"m": edges.data["s"] * edges.dst["h"]},
            lambda nodes: {"o": nodes.mailbox["m"].sum(1)},
        )

    found = []
    fast = gs.compile(layer, fallback="error")
    for function in (layer, fast, fast, fast):
        g = dgl.graph((ends[0], ends[1]), num_nodes=10)
        h, w = rows(10).requires_grad_(), rows(40, 1, seed=2).requires_grad_()
        g.ndata["h"], g.edata["w"] = h, w
        function(g)
        loss = g.ndata["o"].square().sum() + g.edata["s"].sin().sum()
        found.append(torch.autograd.grad(loss, [h, w]))
    for other in found[1:]:
        for mine, right in zip(other, found[0], strict=True):
            assert_close(mine, right)
