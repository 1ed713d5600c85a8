"""GCN, written with user-defined functions in the ways that people write them.

The norm of the source travels as a second message field, the norm of the destination is read from
`nodes.data` in the reducer.
"""

from __future__ import annotations

import functools

import torch
from torch import nn

from programs.data import dst, src
from programs.harness import Program
from programs.library import Library


class GCN(nn.Module):
    """User-defined functions as methods."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.fn = library.fn
        self.linear = nn.Linear(feat, feat)

    def message(self, edges):
        return {"m": edges.src["h"], "c": edges.src["norm"]}

    def reduce(self, nodes):
        total = (nodes.mailbox["m"] * nodes.mailbox["c"]).sum(1)
        return {"h": total * nodes.data["norm"]}

    def functions(self):
        return self.message, self.reduce

    def forward(self, g, x, norm_src, norm_dst):
        with g.local_scope():
            g.srcdata["h"] = self.linear(x)
            g.srcdata["norm"] = norm_src
            g.dstdata["norm"] = norm_dst
            g.update_all(*self.functions())
            return torch.relu(g.dstdata["h"])


class LambdaGCN(GCN):
    """Fresh lambdas on every call."""

    def functions(self):
        return (
            lambda edges: {"m": edges.src["h"], "c": edges.src["norm"]},
            lambda nodes: {
                "h": (nodes.mailbox["m"] * nodes.mailbox["c"]).sum(1) * nodes.data["norm"]
            },
        )


class ClosureGCN(GCN):
    """Nested functions that reach field names and a helper through their closure."""

    def functions(self):
        features, norm = "h", "norm"

        def scaled(rows, by):
            return rows * by

        def message(edges):
            return {"m": scaled(edges.src[features], edges.src[norm])}

        def reduce(nodes):
            return {features: scaled(nodes.mailbox["m"].sum(1), nodes.data[norm])}

        return message, reduce


def _message(edges, features, norm):
    return {"m": edges.src[features], "c": edges.src[norm]}


def _reduce(norm, nodes):
    total = torch.sum(nodes.mailbox["m"] * nodes.mailbox["c"], dim=1)
    return {"h": total * nodes.data[norm]}


class PartialGCN(GCN):
    """`functools.partial` with keyword and with positional arguments."""

    def functions(self):
        return (
            functools.partial(_message, features="h", norm="norm"),
            functools.partial(_reduce, "norm"),
        )


class Message(nn.Module):
    def __init__(self, feat: int) -> None:
        super().__init__()
        self.linear = nn.Linear(feat, feat)

    def forward(self, edges):
        return {"m": self.linear(edges.src["h"]), "c": edges.src["norm"]}


class Reduce(nn.Module):
    def __init__(self, feat: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(feat))

    def forward(self, nodes):
        total = (nodes.mailbox["m"] * nodes.mailbox["c"]).sum(1)
        return {"h": self.gain * total * nodes.data["norm"]}


class ModuleGCN(GCN):
    """User-defined functions that are modules with parameters of their own."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__(library, feat)
        self.send, self.receive = Message(feat), Reduce(feat)

    def functions(self):
        return self.send, self.receive


class BuiltinReduceGCN(GCN):
    """A user-defined message into a built-in reducer."""

    def forward(self, g, x, norm_src, norm_dst):
        with g.local_scope():
            g.srcdata["h"], g.srcdata["norm"] = self.linear(x), norm_src
            g.update_all(
                lambda edges: {"m": edges.src["h"] * edges.src["norm"]}, self.fn.sum("m", "h")
            )
            return torch.relu(g.dstdata["h"] * norm_dst)


class BuiltinMessageGCN(GCN):
    """A built-in message into a user-defined reducer."""

    def forward(self, g, x, norm_src, norm_dst):
        with g.local_scope():
            g.srcdata["h"], g.dstdata["norm"] = self.linear(x) * norm_src, norm_dst
            g.update_all(
                self.fn.copy_u("h", "m"),
                lambda nodes: {"h": nodes.mailbox["m"].sum(1) * nodes.data["norm"]},
            )
            return torch.relu(g.dstdata["h"])


class BuiltinGCN(GCN):
    """Built-in functions only."""

    def forward(self, g, x, norm_src, norm_dst):
        with g.local_scope():
            g.srcdata["h"] = self.linear(x) * norm_src
            g.update_all(self.fn.copy_u("h", "m"), self.fn.sum("m", "h"))
            return torch.relu(g.dstdata["h"] * norm_dst)


class DegreeGCN(nn.Module):
    """The norm is computed from the degrees of the graph of the call."""

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.linear = nn.Linear(feat, feat)

    def forward(self, g, x):
        with g.local_scope():
            cu = g.out_degrees().clamp(min=1).to(x.dtype).pow(-0.5).unsqueeze(1)
            cv = g.in_degrees().clamp(min=1).to(x.dtype).pow(-0.5).unsqueeze(1)
            g.srcdata["h"], g.srcdata["cu"] = self.linear(x), cu
            g.dstdata["cv"] = cv
            g.update_all(
                lambda edges: {"m": edges.src["h"] * edges.src["cu"] * edges.dst["cv"]},
                lambda nodes: {"h": nodes.mailbox["m"].sum(dim=1)},
            )
            return torch.relu(g.dstdata["h"])


class LeavesFieldsGCN(GCN):
    """No local_scope: input, norm and result stay on the graph."""

    def forward(self, g, x, norm_src, norm_dst):
        g.srcdata["h"] = self.linear(x)
        g.srcdata["norm"] = norm_src
        g.dstdata["norm"] = norm_dst
        g.update_all(*self.functions())
        return g.dstdata["h"]


_ROWS = (
    src("x", "F"),
    src("norm", 1, kind="positive"),
    dst("norm", 1, kind="positive"),
)

FORMS = (GCN, LambdaGCN, ClosureGCN, PartialGCN, ModuleGCN)

PROGRAMS = (
    *(Program(f"gcn-{form.__name__}", form, _ROWS) for form in FORMS),
    Program("gcn-BuiltinReduce", BuiltinReduceGCN, _ROWS, builtin=True),
    Program("gcn-BuiltinMessage", BuiltinMessageGCN, _ROWS),
    Program("gcn-Builtin", BuiltinGCN, _ROWS, builtin=True),
    Program("gcn-Degree", DegreeGCN, (src("x", "F"),)),
    Program("gcn-LeavesFields", LeavesFieldsGCN, _ROWS),
)
