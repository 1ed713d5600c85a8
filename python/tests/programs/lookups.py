"""Rows of parameters and buffers by a field of integers: types of edges, labels of nodes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from programs.data import dst, edge, src
from programs.layer import Layer, layer
from programs.small_udfs import U, mail_sum

TYPES = 3
T = edge("t", kind="label")


class TypedLayer(Layer):
    """Sums messages of which each depends on the type of its edge."""

    rows = U, T

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.weight = nn.Parameter(torch.empty(TYPES, *self.shape(feat)))

    def shape(self, feat):
        return (feat,)

    def reduce(self, nodes):
        return mail_sum(nodes)


class Bases(TypedLayer):
    """RGCN with basis decomposition: the weights of types are sums of few matrices."""

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.parts = nn.Parameter(torch.empty(TYPES, 2))
        self.weight = nn.Parameter(torch.empty(2, feat, feat))

    def message(self, edges):
        weight = torch.einsum("rb,bio->rio", self.parts, self.weight)
        x = edges.src["u"].unsqueeze(1)
        return {"m": torch.bmm(x, weight[edges.data["t"]]).squeeze(1)}


class Scale(TypedLayer):
    """One number for each type; types count from the end."""

    def shape(self, feat):
        return ()

    def message(self, edges):
        scale = self.weight[edges.data["t"] - TYPES]
        return {"m": edges.src["u"] * torch.sigmoid(scale).unsqueeze(1)}


class Embedding(TypedLayer):
    """An embedding of int32 types with a row that is never learned."""

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.embedding = nn.Embedding(TYPES, feat, padding_idx=1)

    def message(self, edges):
        known = self.embedding(edges.data["t"].int())
        return {"m": F.relu(edges.src["u"] * known + self.weight[0])}


class Labels(TypedLayer):
    """Labels of both ends; the own one after the reduction. A label that no edge reads is free."""

    rows = U, src("k", kind="label"), dst("l", kind="label")

    def message(self, edges):
        pair = edges.src["k"] + edges.dst["l"]
        own = self.weight.index_select(0, edges.src["k"])
        return {"m": edges.src["u"] + own * self.weight[pair // 2], "k": edges.src["k"]}

    def reduce(self, nodes):
        seen = F.embedding(nodes.mailbox["k"], self.weight)
        m = (nodes.mailbox["m"] * seen).sum(1)
        return {"o": m - self.weight[nodes.data["l"]]}


class Attention(TypedLayer):
    """HGT: a score by the type of the edge, normalised over the mailbox."""

    def message(self, edges):
        key = self.weight[edges.data["t"]]
        return {"e": (edges.src["u"] * key).sum(-1, keepdim=True), "u": edges.src["u"]}

    def reduce(self, nodes):
        alpha = torch.softmax(nodes.mailbox["e"], 1)
        return {"o": (alpha * nodes.mailbox["u"]).sum(1)}


PROGRAMS = (
    layer("lookup-bases", Bases),
    layer("lookup-scale", Scale),
    layer("lookup-embedding", Embedding),
    layer("lookup-labels", Labels),
    layer("lookup-attention", Attention),
)
