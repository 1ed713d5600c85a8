"""Graph attention as in DGL's tutorial, one head and several, in the ways that people write it.

A Linear over the concatenation of both ends gives the score, softmax runs over the mailbox, and the
fields stay on the graph unless a class says otherwise.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import nn

from programs.data import dst, src
from programs.harness import Program
from programs.library import Library


class GAT(nn.Module):
    """User-defined functions as methods; leaves `z`, `e` and `h` on the graph."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.library = library
        self.fc = nn.Linear(feat, feat, bias=False)
        self.attn_fc = nn.Linear(2 * feat, 1, bias=False)

    def edge_attention(self, edges):
        both = torch.cat([edges.src["z"], edges.dst["z"]], dim=1)
        return {"e": F.leaky_relu(self.attn_fc(both))}

    def message(self, edges):
        return {"z": edges.src["z"], "e": edges.data["e"]}

    def reduce(self, nodes):
        alpha = F.softmax(nodes.mailbox["e"], dim=1)
        return {"h": torch.sum(alpha * nodes.mailbox["z"], dim=1)}

    def functions(self):
        return self.edge_attention, self.message, self.reduce

    def forward(self, g, x, y):
        score, message, reduce = self.functions()
        g.srcdata["z"] = self.fc(x)
        g.dstdata["z"] = self.fc(y)
        g.apply_edges(score)
        g.update_all(message, reduce)
        return g.dstdata["h"]


class PopGAT(GAT):
    """The result is taken off the graph, as the tutorial does."""

    def forward(self, g, x, y):
        super().forward(g, x, y)
        return g.dstdata.pop("h")


class ScopedGAT(GAT):
    """In a local scope nothing stays behind."""

    def forward(self, g, x, y):
        with g.local_scope():
            return super().forward(g, x, y)


class LambdaGAT(GAT):
    def functions(self):
        return (
            lambda edges: {
                "e": F.leaky_relu(self.attn_fc(torch.cat([edges.src["z"], edges.dst["z"]], -1)))
            },
            lambda edges: {"z": edges.src["z"], "e": edges.data["e"]},
            lambda nodes: {
                "h": (nodes.mailbox["e"].softmax(1) * nodes.mailbox["z"]).sum(1),
            },
        )


class ClosureGAT(GAT):
    """The parameters and the slope reach the functions through their closure."""

    def functions(self):
        weight, slope = self.attn_fc.weight, 0.2

        def score(edges):
            both = torch.cat((edges.src["z"], edges.dst["z"]), dim=-1)
            return {"e": F.leaky_relu(F.linear(both, weight), negative_slope=slope)}

        def message(edges):
            return {"z": edges.src["z"], "e": edges.data["e"]}

        def reduce(nodes):
            alpha = torch.softmax(nodes.mailbox["e"], dim=1)
            return {"h": (alpha * nodes.mailbox["z"]).sum(dim=1)}

        return score, message, reduce


def _score(layer, edges, slope=0.01):
    both = torch.cat([edges.src["z"], edges.dst["z"]], dim=1)
    return {"e": F.leaky_relu(layer(both), slope)}


def _message(edges, fields):
    return {"z": edges.src[fields[0]], "e": edges.data[fields[1]]}


def _reduce(nodes, out):
    alpha = F.softmax(nodes.mailbox["e"], dim=1)
    return {out: torch.sum(alpha * nodes.mailbox["z"], dim=1)}


class PartialGAT(GAT):
    def functions(self):
        return (
            functools.partial(_score, self.attn_fc, slope=0.1),
            functools.partial(_message, fields=("z", "e")),
            functools.partial(_reduce, out="h"),
        )


class Score(nn.Module):
    def __init__(self, feat: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * feat, 1)
        self.activation = nn.LeakyReLU(0.2)

    def forward(self, edges):
        both = torch.cat([edges.src["z"], edges.dst["z"]], dim=-1)
        return {"e": self.activation(self.linear(both))}


class Message(nn.Module):
    def forward(self, edges):
        return {"z": edges.src["z"], "e": edges.data["e"]}


class Reduce(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.Softmax(dim=1)

    def forward(self, nodes):
        return {"h": (self.softmax(nodes.mailbox["e"]) * nodes.mailbox["z"]).sum(1)}


class ModuleGAT(GAT):
    def __init__(self, library: Library, feat: int) -> None:
        super().__init__(library, feat)
        self.score, self.send, self.receive = Score(feat), Message(), Reduce()

    def functions(self):
        return self.score, self.send, self.receive


class BuiltinGAT(nn.Module):
    """Built-in functions and edge_softmax."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.library = library
        self.fc = nn.Linear(feat, feat, bias=False)
        self.left, self.right = nn.Linear(feat, 1, bias=False), nn.Linear(feat, 1, bias=False)

    def forward(self, g, x, y):
        fn = self.library.fn
        with g.local_scope():
            z = self.fc(x)
            g.srcdata["z"], g.srcdata["el"] = z, self.left(z)
            g.dstdata["er"] = self.right(self.fc(y))
            g.apply_edges(fn.u_add_v("el", "er", "e"))
            g.edata["a"] = self.library.edge_softmax(g, F.leaky_relu(g.edata["e"], 0.2))
            g.update_all(fn.u_mul_e("z", "a", "m"), fn.sum("m", "h"))
            return g.dstdata["h"]


class HeadsGAT(nn.Module):
    """Several heads in one tensor of shape (rows, heads, feat)."""

    heads = 2

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.library, self.feat = library, feat
        self.fc = nn.Linear(feat, self.heads * feat, bias=False)
        self.attn_src = nn.Parameter(torch.empty(1, self.heads, feat))
        self.attn_dst = nn.Parameter(torch.empty(1, self.heads, feat))

    def split(self, x):
        return self.fc(x).view(-1, self.heads, self.feat)

    def score(self, edges):
        both = edges.src["z"] * self.attn_src + edges.dst["z"] * self.attn_dst
        return {"e": F.leaky_relu(both.sum(-1, keepdim=True), 0.2)}

    def message(self, edges):
        return {"z": edges.src["z"], "e": edges.data["e"]}

    def reduce(self, nodes):
        alpha = F.softmax(nodes.mailbox["e"], dim=1)
        return {"h": torch.sum(alpha * nodes.mailbox["z"], dim=1)}

    def functions(self):
        return self.score, self.message, self.reduce

    def forward(self, g, x, y):
        score, message, reduce = self.functions()
        with g.local_scope():
            g.srcdata["z"], g.dstdata["z"] = self.split(x), self.split(y)
            g.apply_edges(score)
            g.update_all(message, reduce)
            return g.dstdata["h"].flatten(1)


class LambdaHeadsGAT(HeadsGAT):
    def functions(self):
        return (
            lambda edges: {
                "e": F.leaky_relu(
                    (torch.cat([edges.src["z"], edges.dst["z"]], -1) * self.both()).sum(-1), 0.2
                )
            },
            lambda edges: {"z": edges.src["z"], "e": edges.data["e"]},
            lambda nodes: {
                "h": (nodes.mailbox["e"].softmax(1).unsqueeze(-1) * nodes.mailbox["z"]).sum(1)
            },
        )

    def both(self):
        return torch.cat([self.attn_src, self.attn_dst], -1)


class ClosureHeadsGAT(HeadsGAT):
    def functions(self):
        attn_src, attn_dst = self.attn_src[0], self.attn_dst[0]

        def score(edges):
            left = torch.einsum("ehf,hf->eh", edges.src["z"], attn_src)
            right = torch.einsum("ehf,hf->eh", edges.dst["z"], attn_dst)
            return {"e": F.leaky_relu(left + right, 0.2).unsqueeze(-1)}

        return score, self.message, self.reduce


def _score_heads(edges, attn_src, attn_dst, slope):
    left, right = edges.src["z"].mul(attn_src), edges.dst["z"].mul(attn_dst)
    return {"e": F.leaky_relu((left + right).sum(dim=2), slope)[..., None]}


class PartialHeadsGAT(HeadsGAT):
    def functions(self):
        score = functools.partial(
            _score_heads, attn_src=self.attn_src, attn_dst=self.attn_dst, slope=0.2
        )
        return score, functools.partial(_message, fields=["z", "e"]), self.reduce


class ModuleHeadsGAT(HeadsGAT):
    def __init__(self, library: Library, feat: int) -> None:
        super().__init__(library, feat)
        self.scores, self.send, self.receive = Score(feat), Message(), Reduce()

    def functions(self):
        return self.scores, self.send, self.receive


class BuiltinHeadsGAT(HeadsGAT):
    """Heads through built-in functions, which broadcast (E, H, 1) against (E, H, F)."""

    def forward(self, g, x, y):
        fn = self.library.fn
        with g.local_scope():
            z = self.split(x)
            g.srcdata["z"], g.srcdata["el"] = z, (z * self.attn_src).sum(-1, keepdim=True)
            g.dstdata["er"] = (self.split(y) * self.attn_dst).sum(-1, keepdim=True)
            g.apply_edges(fn.u_add_v("el", "er", "e"))
            scores = F.leaky_relu(g.edata.pop("e"), 0.2)
            g.edata["a"] = self.library.edge_softmax(g, scores)
            g.update_all(fn.u_mul_e("z", "a", "m"), fn.sum("m", "h"))
            return g.dstdata["h"].flatten(1)


class MultiHeadGAT(nn.Module):
    """The tutorial's list of single heads, concatenated; the last head's fields stay."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(GAT(library, feat) for _ in range(2))

    def forward(self, g, x, y):
        return torch.cat([head(g, x, y) for head in self.heads], dim=1)


class TwoLayerGAT(nn.Module):
    """As in the tutorial: heads, ELU, then one head. Homogeneous graphs only."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.first, self.second = MultiHeadGAT(library, feat), GAT(library, 2 * feat)

    def forward(self, g, x, y):
        hidden = F.elu(self.first(g, x, y))
        return self.second(g, hidden, hidden)


_ROWS = src("x", "F"), dst("x", "F")

FORMS = (GAT, LambdaGAT, ClosureGAT, PartialGAT, ModuleGAT)
HEADS_FORMS = (HeadsGAT, LambdaHeadsGAT, ClosureHeadsGAT, PartialHeadsGAT, ModuleHeadsGAT)

PROGRAMS = (
    *(Program(f"gat-{form.__name__}", form, _ROWS) for form in FORMS),
    *(Program(f"gat-{form.__name__}", form, _ROWS) for form in (PopGAT, ScopedGAT)),
    Program("gat-Builtin", BuiltinGAT, _ROWS, builtin=True),
    *(Program(f"gat-{form.__name__}", form, _ROWS) for form in HEADS_FORMS),
    Program("gat-BuiltinHeads", BuiltinHeadsGAT, _ROWS, builtin=True),
    Program("gat-MultiHead", MultiHeadGAT, _ROWS),
    Program("gat-TwoLayer", TwoLayerGAT, _ROWS, kinds=frozenset({"homo"})),
)
