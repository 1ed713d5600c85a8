"""What people write: one small program for each kind of user-defined function met in the wild.

Elementwise, attention, linear layers and MLPs on edges, and other uses of the mailbox. EITHER marks
programs that may run eagerly, as long as they are right.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from programs.data import dst, edge, src
from programs.harness import EITHER
from programs.layer import Layer, layer, place, udf
from programs.small_udfs import U, V, W, copy, mail_max, mail_mean, mail_min, mail_sum


class Gine(Layer):
    rows = U, edge("e", "F")

    def message(self, edges):
        return {"m": F.relu(edges.src["u"] + edges.data["e"])}

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].sum(1)}


def edge_difference(edges):
    return {"m": torch.cat([edges.src["u"] - edges.dst["v"], edges.src["u"]], dim=1)}


def scaled_heads(edges):
    return {"m": edges.src["poses"] * edges.data["w"]}


class PowerMean(Layer):
    """The exponent is a parameter; the inputs are positive."""

    rows = (src("p", "F", kind="positive"),)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.p = nn.Parameter(torch.ones(1))

    def message(self, edges):
        return {"m": torch.pow(edges.src["p"].clamp(1e-3, 10.0), self.p)}

    def reduce(self, nodes):
        return {"o": torch.pow(nodes.mailbox["m"].mean(1), self.p)}


def sum_max_degree(nodes):
    m, n = nodes.mailbox["m"], nodes.mailbox["n"]
    return {"s": m.sum(1), "t": n.max(1)[0], "d": torch.full((m.shape[0],), float(m.shape[1]))}


class EqualLabels(Layer):
    """`apply_edges` alone, with integers."""

    rows = src("k", kind="label"), dst("l", kind="label")

    def forward(self, g, *inputs):
        with g.local_scope():
            place(g, self.rows, inputs)
            g.apply_edges(lambda edges: {"same": (edges.src["k"] == edges.dst["l"]).long()})
            return g.edata["same"]


class Attention(Layer):
    """Scores by `apply_edges`, softmax over the mailbox; subclasses give the score."""

    def message(self, edges):
        return {"z": edges.src["u"], "e": edges.data["e"]}

    def reduce(self, nodes):
        alpha = F.softmax(nodes.mailbox["e"], dim=1)
        return {"o": (alpha * nodes.mailbox["z"]).sum(1)}

    def forward(self, g, *inputs):
        with g.local_scope():
            place(g, self.rows, inputs)
            g.apply_edges(self.score)
            g.update_all(self.message, self.reduce)
            return g.dstdata["o"]


class GATv2(Attention):
    rows = U, V, edge("x", 2)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.by_edge, self.attn = nn.Linear(2, feat), nn.Linear(feat, 1, bias=False)

    def score(self, edges):
        both = edges.src["u"] + edges.dst["v"] + self.by_edge(edges.data["x"])
        return {"e": self.attn(F.leaky_relu(both, 0.2))}


class DotAttention(Attention):
    rows = U, V

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.key, self.query = nn.Linear(feat, feat), nn.Linear(feat, feat)

    def score(self, edges):
        product = (self.key(edges.src["u"]) * self.query(edges.dst["v"])).sum(-1, keepdim=True)
        return {"e": product / self.feat**0.5}


class CosineAttention(Attention):
    rows = U, V

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.beta = nn.Parameter(torch.ones(1))

    def score(self, edges):
        u, v = F.normalize(edges.src["u"], dim=-1), F.normalize(edges.dst["v"], dim=-1)
        return {"e": self.beta * (u * v).sum(-1, keepdim=True)}


class EdgeGAT(Layer):
    """Attention that returns its edge features as well."""

    rows = U, V, edge("x", 2)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.mix, self.attn = nn.Linear(2 * feat + 2, feat), nn.Linear(feat, 1)

    def score(self, edges):
        row = self.mix(torch.cat([edges.src["u"], edges.data["x"], edges.dst["v"]], -1))
        row = F.leaky_relu(row)
        return {"f": row, "e": self.attn(row)}

    def message(self, edges):
        return {"z": edges.src["u"], "e": edges.data["e"]}

    def reduce(self, nodes):
        alpha = F.softmax(nodes.mailbox["e"], dim=1)
        return {"o": (alpha * nodes.mailbox["z"]).sum(1)}

    def forward(self, g, *inputs):
        with g.local_scope():
            place(g, self.rows, inputs)
            g.apply_edges(self.score)
            g.update_all(self.message, self.reduce)
            return g.dstdata["o"], g.edata["f"]


class EvalDropout(Attention):
    """Dropout on the weights; in eval mode it is the identity."""

    rows = U, edge("s", 1)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.drop = nn.Dropout(0.5)

    def score(self, edges):
        return {"e": torch.tanh(edges.data["s"])}

    def reduce(self, nodes):
        alpha = self.drop(F.softmax(nodes.mailbox["e"], dim=1))
        return {"o": (alpha * nodes.mailbox["z"]).sum(1)}


class OneLinear(Layer):
    """sum W x_u: the product belongs to the nodes."""

    rows = (U,)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.linear = nn.Linear(feat, feat)

    def message(self, edges):
        return {"m": self.linear(edges.src["u"])}

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].sum(1)}


class SplitLinear(OneLinear):
    """act(W[x_u, x_v, e])."""

    rows = U, V, edge("x", 2)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.linear = nn.Linear(2 * feat + 2, feat)

    def message(self, edges):
        row = torch.cat([edges.src["u"], edges.dst["v"], edges.data["x"]], dim=1)
        return {"m": torch.tanh(self.linear(row))}


class BiasAfterSum(OneLinear):
    """A Linear on the sum: its bias must not reach isolated nodes."""

    def message(self, edges):
        return {"m": edges.src["u"]}

    def reduce(self, nodes):
        return {"o": F.relu(self.linear(nodes.mailbox["m"].sum(1)) + 1)}


class EdgeMLP(OneLinear):
    rows = U, V

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.first, self.second = nn.Linear(2 * feat, 5), nn.Linear(5, feat)

    def message(self, edges):
        row = torch.cat([edges.src["u"], edges.dst["v"]], -1)
        return {"m": self.second(F.relu(self.first(row)))}


class EdgeMLPMax(EdgeMLP):
    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].max(1)[0]}


class Equivariant(Layer):
    """EGNN: features and coordinates, two outputs."""

    rows = U, V, src("x", 3), dst("y", 3)
    outputs = "h", "dx"

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.phi = nn.Sequential(nn.Linear(2 * feat + 1, 4), nn.SiLU(), nn.Linear(4, feat))
        self.psi = nn.Sequential(nn.Linear(feat, 4), nn.SiLU(), nn.Linear(4, 1))

    def message(self, edges):
        gap = edges.src["x"] - edges.dst["y"]
        radial = gap.square().sum(dim=1, keepdim=True)
        m = self.phi(torch.cat([edges.src["u"], edges.dst["v"], radial], -1))
        return {"m": m, "dx": self.psi(m) * gap / (radial.sqrt() + 1)}

    def reduce(self, nodes):
        return {"h": nodes.mailbox["m"].sum(1), "dx": nodes.mailbox["dx"].mean(1)}


class ContinuousFilter(OneLinear):
    """MLP of radial bases of an edge length, times the source."""

    rows = U, edge("length", 1, kind="positive")

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.mlp = nn.Sequential(nn.Linear(4, 5), nn.Softplus(), nn.Linear(5, feat))
        self.register_buffer("centers", torch.tensor([0.0, 0.5, 1.0, 2.0]))

    def message(self, edges):
        basis = torch.exp(-((edges.data["length"] - self.centers) ** 2))
        return {"m": self.mlp(basis) * edges.src["u"]}


class EdgeNetwork(OneLinear):
    """NNConv: a matrix for each edge from its features."""

    rows = U, edge("x", 2)

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.network = nn.Linear(2, feat * feat)

    def message(self, edges):
        weight = self.network(edges.data["x"]).view(-1, self.feat, self.feat)
        return {"m": torch.bmm(edges.src["u"].unsqueeze(1), weight).squeeze(1)}


class TypedWeight(OneLinear):
    """RGCN: the weight of an edge by its type."""

    rows = U, edge("t", kind="label"), W

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.weight = nn.Parameter(torch.empty(3, feat, feat))

    def message(self, edges):
        weight = self.weight[edges.data["t"]]
        m = torch.bmm(edges.src["u"].unsqueeze(1), weight).squeeze(1)
        return {"m": m * edges.data["w"]}


class MailboxLinear(OneLinear):
    """DGMG: a Linear over the concatenation with the own row inside the mailbox."""

    rows = U, V

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.linear = nn.Linear(2 * feat, feat)

    def message(self, edges):
        return {"m": edges.src["u"]}

    def reduce(self, nodes):
        m = nodes.mailbox["m"]
        own = nodes.data["v"].unsqueeze(1).expand(-1, m.size(1), -1)
        return {"o": self.linear(torch.cat([own, m], dim=2)).sum(1)}


class EdgeConv(OneLinear):
    rows = U, V

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.theta, self.phi = nn.Linear(feat, feat), nn.Linear(feat, feat)

    def message(self, edges):
        gap = self.theta(edges.src["u"] - edges.dst["v"])
        return {"m": F.relu(gap + self.phi(edges.dst["v"]))}

    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].max(1)[0]}


class MessageBatchNorm(OneLinear):
    """BatchNorm over the messages, with the running statistics of eval mode."""

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.norm = nn.BatchNorm1d(feat)

    def message(self, edges):
        return {"m": self.norm(self.linear(edges.src["u"]))}


def principal_aggregation(nodes):
    """PNA: four aggregators times three scalers of the degree."""
    m = nodes.mailbox["m"]
    degree = m.shape[1]
    mean = m.mean(1)
    std = (F.relu((m * m).mean(1) - mean * mean) + 1e-2).sqrt()
    rows = torch.cat([mean, m.max(1)[0], m.min(1)[0], std], dim=1)
    scale = np.log(degree + 1)
    return {"o": torch.cat([rows, rows * scale, rows / scale], dim=1)}


def directional(nodes):
    """DGN: a directional derivative with normalised weights."""
    m, f = nodes.mailbox["m"], nodes.mailbox["f"]
    w = f / (f.abs().sum(1, keepdim=True) + 1e-3)
    return {"o": ((m * w).sum(1) - nodes.data["v"] * w.sum(1)).abs()}


class LastState(OneLinear):
    """The last hidden state of an LSTM over the mailbox in edge order."""

    network = nn.LSTM

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.rnn = self.network(feat, feat, batch_first=True)

    def message(self, edges):
        return {"m": edges.src["u"]}

    def reduce(self, nodes):
        _, state = self.rnn(nodes.mailbox["m"])
        return {"o": (state[0] if isinstance(state, tuple) else state).squeeze(0)}


class LastStateGRU(LastState):
    network = nn.GRU


class AllChildren(OneLinear):
    """N-ary TreeLSTM: a Linear over the whole mailbox, for one degree only."""

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.linear = nn.Linear(4 * feat, feat)

    def message(self, edges):
        return {"m": edges.src["u"]}

    def reduce(self, nodes):
        m = nodes.mailbox["m"]
        return {"o": torch.sigmoid(self.linear(m.view(m.size(0), -1)))}


def first(nodes):
    return {"o": nodes.mailbox["m"][:, 0]}


def top(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.topk(min(3, m.shape[1]), 1)[0].mean(1)}


def middle(nodes):
    return {"o": nodes.mailbox["m"].median(1)[0]}


def deviation(nodes):
    return {"o": nodes.mailbox["m"].std(1)}


def matching(nodes):
    m = nodes.mailbox["m"]
    alpha = torch.softmax(torch.einsum("bdf,bf->bd", m, nodes.data["v"]), dim=1)
    return {"o": torch.bmm(alpha.unsqueeze(1), m).squeeze(1)}


class PointNet(OneLinear):
    """View, permute, Conv2d and BatchNorm2d over a mailbox of constant degree."""

    def __init__(self, library, feat):
        super().__init__(library, feat)
        self.conv, self.norm = nn.Conv2d(feat, feat, 1), nn.BatchNorm2d(feat)

    def message(self, edges):
        return {"m": edges.src["u"]}

    def reduce(self, nodes):
        rows = nodes.mailbox["m"].permute(0, 2, 1).unsqueeze(0).permute(0, 2, 1, 3)
        return {"o": F.relu(self.norm(self.conv(rows))).max(3)[0].squeeze(0).t()}


class LinearMax(OneLinear):
    def message(self, edges):
        return {"m": edges.src["u"]}

    def reduce(self, nodes):
        return {"o": torch.tanh(self.linear(nodes.mailbox["m"])).max(1)[0]}


def _has_degree_four(case) -> bool:
    return case.kind == "homo" and set(case.degrees) == {4}


def integer_sums(nodes):
    m = nodes.mailbox["m"]
    return {"s": m.sum(1), "t": m.max(1)[0], "odd": (m % 2 == 1).any(1)}


def in_place(edges):
    m = edges.src["u"]
    m += 1
    m.mul_(edges.data["w"])
    return {"m": m, "n": m}


def in_place_reduce(nodes):
    m = nodes.mailbox["m"]
    m[:, 0] = 0
    return {"o": m.sum(1) + nodes.mailbox["n"].sum(1)}


PROGRAMS = (
    *(
        udf(f"census-copy_{kind}", copy, reduce, U)
        for kind, reduce in zip(
            ("sum", "mean", "max", "min"), (mail_sum, mail_mean, mail_max, mail_min), strict=True
        )
    ),
    udf("census-u_mul_e", scaled_heads, mail_sum, src("poses", 2, "F"), edge("w", 2, 1)),
    layer("census-gine", Gine),
    udf("census-edge_diff_max", edge_difference, mail_max, U, V),
    layer("census-power_mean", PowerMean),
    udf(
        "census-multi_out",
        lambda edges: {"m": edges.src["u"], "n": edges.src["u"] * edges.dst["v"]},
        sum_max_degree,
        U,
        V,
        outputs=("s", "t", "d"),
        expect=EITHER,
    ),
    layer("census-int_labels", EqualLabels, builtin=True),
    layer("census-gatv2", GATv2),
    layer("census-dot_attention", DotAttention),
    layer("census-agnn", CosineAttention),
    layer("census-egat", EdgeGAT),
    layer("census-dropout_eval", EvalDropout),
    layer("census-hoistable", OneLinear),
    layer("census-split", SplitLinear),
    layer("census-bias_after_sum", BiasAfterSum),
    layer("census-mlp2", EdgeMLP, EITHER),
    layer("census-mlp2_max", EdgeMLPMax, EITHER),
    layer("census-egnn", Equivariant, EITHER),
    layer("census-cfconv", ContinuousFilter, EITHER),
    layer("census-nnconv", EdgeNetwork, EITHER),
    layer("census-rgcn", TypedWeight),
    layer("census-dgmg", MailboxLinear, EITHER),
    layer("census-edgeconv", EdgeConv),
    layer("census-batchnorm_eval", MessageBatchNorm),
    udf("census-pna", copy, principal_aggregation, U, expect=EITHER),
    udf(
        "census-dgn",
        lambda edges: {"m": edges.src["u"], "f": edges.data["w"]},
        directional,
        U,
        V,
        W,
    ),
    layer("census-lstm", LastState, EITHER),
    layer("census-gru", LastStateGRU, EITHER),
    layer("census-treelstm", AllChildren, EITHER, accepts=_has_degree_four),
    udf("census-first", copy, first, U, expect=EITHER),
    udf("census-topk", copy, top, U, expect=EITHER),
    udf("census-median", copy, middle, U, expect=EITHER),
    udf("census-std", copy, deviation, U, expect=EITHER),
    udf("census-einsum", copy, matching, U, V, expect=EITHER),
    layer("census-pointnet", PointNet, EITHER, accepts=_has_degree_four),
    layer("census-linear_max", LinearMax, EITHER),
    udf(
        "census-integers",
        lambda edges: {"m": edges.data["big"]},
        integer_sums,
        edge("big", kind="wide"),
        outputs=("s", "t", "odd"),
        expect=EITHER,
    ),
    udf("census-in_place", in_place, in_place_reduce, U, W, expect=EITHER),
    udf(
        "census-partial_lambda",
        functools.partial(lambda k, edges: {"m": edges.src["u"] * k}, 3.0),
        mail_mean,
        U,
    ),
)
