"""Models on several graphs or relations: sampled blocks, a graph and its reverse, node types."""

from __future__ import annotations

import torch
from torch import nn

from programs.data import Rows, src
from programs.gat import GAT
from programs.harness import Program
from programs.library import Library


def _mean(nodes):
    return {"h": nodes.mailbox["m"].mean(1)}


class BlocksGCN(nn.Module):
    """A two-layer GCN over a list of two sampled blocks, with the usual `x[:num_dst]`."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(feat, feat) for _ in range(2))
        self.loops = nn.ModuleList(nn.Linear(feat, feat) for _ in range(2))

    def forward(self, blocks, x):
        for linear, loop, block in zip(self.layers, self.loops, blocks, strict=False):
            own = x[: block.num_dst_nodes()]
            degree = block.in_degrees().clamp(min=1).to(x.dtype).unsqueeze(1)
            with block.local_scope():
                block.srcdata["h"] = linear(x)
                block.dstdata["c"] = 1 / degree
                block.update_all(
                    lambda edges: {"m": edges.src["h"] * edges.dst["c"]},
                    lambda nodes: {"h": nodes.mailbox["m"].sum(1)},
                )
                x = torch.relu(block.dstdata["h"] + loop(own))
        return x


class BlocksGAT(nn.Module):
    """Attention over two blocks; each block keeps its own fields."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GAT(library, feat) for _ in range(2))

    def forward(self, blocks, x):
        first, second = blocks[0], blocks[1]
        x = torch.tanh(self.layers[0](first, x, x[: first.number_of_dst_nodes()]))
        return self.layers[1](second, x, x[: second.number_of_dst_nodes()])


class BothWays(nn.Module):
    """One model on two graphs at once: messages along the edges and against them."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.ahead, self.back = nn.Linear(feat, feat), nn.Linear(feat, feat)

    def message(self, edges):
        return {"m": edges.src["h"] - 0.5 * edges.dst["h"]}

    def forward(self, g, reverse, x):
        with g.local_scope(), reverse.local_scope():
            g.ndata["h"], reverse.ndata["h"] = self.ahead(x), self.back(x)
            g.update_all(self.message, _mean)
            reverse.update_all(self.message, lambda nodes: {"h": nodes.mailbox["m"].max(1)[0]})
            return torch.cat([g.ndata["h"], reverse.ndata["h"]], 1)


class BothWaysNested(BothWays):
    """The second graph's messages are the first graph's results."""

    def forward(self, g, reverse, x):
        with g.local_scope(), reverse.local_scope():
            g.ndata["h"] = self.ahead(x)
            g.update_all(self.message, _mean)
            reverse.ndata["h"] = self.back(torch.relu(g.ndata["h"]))
            reverse.update_all(self.message, _mean)
            return {"ahead": g.ndata["h"], "back": reverse.ndata["h"]}


class Relations(nn.Module):
    """Two node types and three relations: `update_all(..., etype=)` and `g[etype]`."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.user, self.item = nn.Linear(feat, feat), nn.Linear(feat, feat)

    def forward(self, g, users, items, stars):
        with g.local_scope():
            g.nodes["user"].data["h"] = self.user(users)
            g.nodes["item"].data["x"] = self.item(items)
            g.edges["rates"].data["w"] = stars
            g.update_all(
                lambda edges: {"m": edges.src["h"] * edges.dst["x"]},
                lambda nodes: {"bought": nodes.mailbox["m"].sum(1)},
                etype="buys",
            )
            rates = g["rates"]
            rates.update_all(
                lambda edges: {"m": edges.src["h"] * edges.data["w"]},
                lambda nodes: {"rated": nodes.mailbox["m"].mean(1) + nodes.data["x"]},
            )
            g["user", "follows", "user"].update_all(
                lambda edges: {"m": torch.tanh(edges.src["h"] - edges.dst["h"])},
                lambda nodes: {"h": nodes.mailbox["m"].max(1)[0]},
            )
            items = g.nodes["item"].data
            return items["bought"] + items["rated"], g.nodes["user"].data["h"]


class CrossRelations(nn.Module):
    """`multi_update_all` with user-defined functions, summed over the relations of a type."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.fn = library.fn
        self.linear = nn.Linear(feat, feat, bias=False)

    def forward(self, g, users, stars):
        with g.local_scope():
            g.nodes["user"].data["h"] = users
            g.edges["rates"].data["w"] = stars
            g.multi_update_all(
                {
                    "buys": (lambda edges: {"m": self.linear(edges.src["h"])}, _mean),
                    "rates": (lambda edges: {"m": edges.src["h"] * edges.data["w"]}, _mean),
                },
                "sum",
            )
            return g.nodes["item"].data["h"]


class BuiltinRelations(nn.Module):
    """The same kind of model with built-in functions."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.fn = library.fn

    def forward(self, g, users, stars):
        fn = self.fn
        with g.local_scope():
            g.nodes["user"].data["h"] = users
            g.edges["rates"].data["w"] = stars
            g["rates"].update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "rated"))
            g.update_all(fn.copy_u("h", "m"), fn.mean("m", "bought"), etype="buys")
            g.update_all(fn.copy_u("h", "m"), fn.max("m", "near"), etype="follows")
            return (
                g.nodes["item"].data["rated"],
                g.nodes["item"].data["bought"],
                (g.nodes["user"].data["near"]),
            )


def _has_edges_everywhere(case) -> bool:
    return case.num_edges > 0


_BLOCKS, _PAIR, _HETERO = frozenset({"blocks"}), frozenset({"pair"}), frozenset({"hetero"})
_USERS, _ITEMS = Rows("users", "user", ("F",)), Rows("items", "item", ("F",))
_STARS = Rows("stars", "rates", (1,))

PROGRAMS = (
    Program("blocks-GCN", BlocksGCN, (src("x", "F"),), _BLOCKS),
    Program("blocks-GAT", BlocksGAT, (src("x", "F"),), _BLOCKS),
    Program("pair-BothWays", BothWays, (src("x", "F"),), _PAIR),
    Program("pair-BothWaysNested", BothWaysNested, (src("x", "F"),), _PAIR),
    Program("hetero-Relations", Relations, (_USERS, _ITEMS, _STARS), _HETERO),
    Program(
        "hetero-CrossRelations",
        CrossRelations,
        (_USERS, _STARS),
        _HETERO,
        accepts=_has_edges_everywhere,
    ),
    Program("hetero-Builtin", BuiltinRelations, (_USERS, _STARS), _HETERO, builtin=True),
)
