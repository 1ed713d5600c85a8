"""Small user-defined functions that no list of known layers holds: each must compile.

A message and a reducer per program, named alike; `mail_sum` and its kin serve where the message is
the point.
"""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F

from programs.data import dst, edge, src
from programs.layer import udf

SHIFT = 0.75
CENTERS = torch.tensor([-1.0, 0.0, 0.5, 1.5])
U, V, W = src("u", "F"), dst("v", "F"), edge("w", 1)


def mail_sum(nodes):
    return {"o": nodes.mailbox["m"].sum(1)}


def mail_mean(nodes):
    return {"o": nodes.mailbox["m"].mean(dim=1)}


def mail_max(nodes):
    return {"o": torch.max(nodes.mailbox["m"], dim=1)[0]}


def mail_min(nodes):
    return {"o": nodes.mailbox["m"].min(1).values}


def copy(edges):
    return {"m": edges.src["u"]}


def wave(edges):
    return {"m": torch.sin(edges.src["u"]) * torch.exp(-(edges.dst["v"] ** 2)) * edges.data["w"]}


def squared_distance(a, b):
    return (a - b).square().sum(-1, keepdim=True)


def bell(a, b, width):
    return torch.exp(-squared_distance(a, b) / (2 * width))


def nested_helpers(edges):
    return {"m": bell(edges.src["u"], edges.dst["v"], 4.0) * edges.src["u"]}


def larger_or_minus(edges):
    u, v = edges.src["u"], edges.dst["v"]
    return {"m": torch.where(u > v, u, -v)}


def three_fields(edges):
    u, v = edges.src["u"], edges.dst["v"]
    return {"a": u * v, "b": edges.data["w"], "c": u - v}


def three_fields_reduce(nodes):
    box = nodes.mailbox
    return {"o": (box["a"] * box["b"]).sum(1) + box["c"].max(1)[0]}


def same_label(edges):
    same = edges.src["k"] == edges.dst["l"]
    return {"m": edges.src["u"] * same.to(edges.src["u"].dtype).unsqueeze(1)}


def label_arithmetic(edges):
    gap = (edges.src["k"] - edges.dst["l"]).abs() % 2
    return {"m": edges.src["u"] / (1 + gap).unsqueeze(-1)}


def flagged(edges):
    keep = edges.data["flag"].unsqueeze(1)
    return {"m": torch.where(keep, edges.src["u"], torch.zeros_like(edges.src["u"]))}


def inner_product(edges):
    score = torch.einsum("ef,ef->e", edges.src["u"], edges.dst["v"])
    return {"m": torch.sigmoid(score).unsqueeze(-1) * edges.src["u"]}


def stacked(edges):
    both = torch.stack([edges.src["u"], edges.dst["v"]], dim=1)
    return {"m": both.max(1)[0] - both.mean(1)}


def rotated(edges):
    x, y = edges.src["p"].unbind(-1)
    angle = edges.data["w"].squeeze(-1)
    cos, sin = angle.cos(), angle.sin()
    return {"m": torch.stack([x * cos - y * sin, x * sin + y * cos], -1)}


def complex_product(edges):
    (a, b), (c, d) = edges.src["q"].chunk(2, -1), edges.dst["r"].chunk(2, -1)
    return {"m": torch.cat([a * c - b * d, a * d + b * c], dim=-1)}


def distance(edges):
    return {"m": (edges.src["u"] - edges.dst["v"]).norm(dim=-1, keepdim=True)}


def direction(edges):
    return {"m": F.normalize(edges.src["u"] - edges.dst["v"], dim=-1) * edges.data["w"]}


def cosine(edges):
    return {"m": F.cosine_similarity(edges.src["u"], edges.dst["v"], dim=-1).unsqueeze(1)}


def several_outputs(nodes):
    m = nodes.mailbox["m"]
    return {"s": m.sum(1), "t": m.max(1)[0], "d": torch.ones_like(m[..., :1]).sum(1)}


def add_own(nodes):
    return {"o": F.relu(nodes.data["o"] + nodes.data["v"])}


def gated(edges):
    return {"m": torch.sigmoid(edges.src["u"] * edges.dst["v"]) * torch.tanh(edges.src["u"])}


def clamped(edges):
    return {"m": (edges.src["u"] + edges.dst["v"]).clamp(-0.5, 1.0) * edges.data["w"]}


def huber(edges):
    gap = edges.src["u"] - edges.dst["v"]
    return {"m": torch.where(gap.abs() < 1, 0.5 * gap * gap, gap.abs() - 0.5)}


def temperature(nodes):
    m = nodes.mailbox["m"]
    return {"o": (torch.softmax(m / 0.7, dim=1) * m).sum(1)}


def log_sum_exp(nodes):
    return {"o": torch.logsumexp(nodes.mailbox["m"], dim=1)}


def weighted(edges):
    return {"m": edges.src["u"], "p": edges.data["p"]}


def weighted_mean(nodes):
    m, p = nodes.mailbox["m"], nodes.mailbox["p"]
    return {"o": (m * p).sum(1) / p.sum(1)}


def max_over_mean(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.max(1)[0] - m.mean(1)}


def variance(nodes):
    m = nodes.mailbox["m"]
    return {"o": (m - m.mean(1, keepdim=True)).pow(2).mean(1)}


def spread(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.amax(1) - m.amin(1)}


def from_own(nodes):
    return {"o": (nodes.mailbox["m"] - nodes.data["v"].unsqueeze(1)).abs().sum(1)}


def outer(edges):
    return {"m": (edges.src["u"].unsqueeze(2) * edges.dst["t"].unsqueeze(1)).flatten(1)}


def turned(edges):
    return {"m": torch.linalg.cross(edges.src["xyz"], edges.dst["abc"], dim=-1)}


def root_gap(edges):
    return {"m": (edges.src["u"] - edges.dst["v"]).abs().add(0.1).sqrt()}


def angle(edges):
    return {"m": torch.atan2(edges.src["u"], edges.dst["v"])}


def radial(edges):
    length = (edges.src["u"] - edges.dst["v"]).norm(dim=1, keepdim=True)
    return {"m": torch.exp(-((length - CENTERS.to(length.dtype)) ** 2))}


def by_heads(edges):
    u, r = edges.src["q"].view(-1, 2, 2), edges.dst["r"].view(-1, 2, 2)
    return {"m": (u * r).sum(-1, keepdim=True) * u}


def head_sum(nodes):
    return {"o": nodes.mailbox["m"].sum(1).flatten(1)}


def activations(edges):
    u, v = edges.src["u"], edges.dst["v"]
    return {"m": F.gelu(u) + F.silu(v) + F.elu(u - v) + F.softplus(v)}


def capsule(edges):
    return {"m": edges.data["c"].unsqueeze(-1) * edges.src["poses"]}


def with_defaults(edges, *, scale=1.5, field="u"):
    return {"m": edges.src[field] * scale + math.pi}


class Scaled:
    """A callable object."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, edges):
        return {"m": self.scale * edges.src["u"] + edges.dst["v"]}

    @staticmethod
    def plain(edges):
        return {"m": edges.src["u"] + SHIFT}

    @classmethod
    def of_class(cls, edges):
        return {"m": edges.src["u"] * len(cls.__name__)}


def share_positive(nodes):
    m = nodes.mailbox["m"]
    return {"o": (m > 0).to(m.dtype).mean(1)}


def kept_dim(nodes):
    return {"o": nodes.mailbox["m"].sum(1, keepdim=True).squeeze(1).sigmoid()}


def only_own(edges):
    return {"m": edges.dst["v"] * edges.data["w"]}


def only_edges(edges):
    return {"m": torch.log1p(edges.data["p"])}


def inverse_root(edges):
    return {"m": torch.rsqrt(1 + edges.src["u"].abs()) - edges.dst["v"].abs().add(1).reciprocal()}


def halves(edges):
    q, r = edges.src["q"], edges.dst["r"]
    return {"m": torch.cat([q[:, :1], r[:, 1:3], q[..., -1:]], dim=1)}


def expanded(edges):
    wide = edges.data["w"].unsqueeze(1).expand(-1, 2, -1)
    return {"m": (wide * edges.src["u"].unsqueeze(1)).sum(1)}


def hub_softmax(nodes):
    m = nodes.mailbox["m"]
    alpha = m.norm(dim=-1, keepdim=True).softmax(1)
    return {"o": (alpha * m).sum(1) * torch.rsqrt(nodes.data["v"].square() + 1)}


def two_sums(nodes):
    m = nodes.mailbox["m"]
    share = m.abs() / (m.abs().sum(1, keepdim=True) + 1e-3)
    return {"o": (share * m).sum(1), "p": m.sum(1).abs()}


def polynomial(edges):
    u = edges.src["u"]
    return {"m": ((0.5 * u - 1) * u + SHIFT) * u / (1 + u * u)}


K, L, P = src("k", kind="label"), dst("l", kind="label"), edge("p", 1, kind="positive")
Q, R = src("q", 4), dst("r", 4)

PROGRAMS = (
    udf("small-wave", wave, mail_sum, U, V, W),
    udf("small-nested_helpers", nested_helpers, mail_mean, U, V),
    udf("small-where", larger_or_minus, mail_sum, U, V),
    udf("small-three_fields", three_fields, three_fields_reduce, U, V, W),
    udf("small-same_label", same_label, mail_sum, U, K, L),
    udf("small-label_arithmetic", label_arithmetic, mail_mean, U, K, L),
    udf("small-flagged", flagged, mail_sum, U, edge("flag", kind="flag")),
    udf("small-inner_product", inner_product, mail_sum, U, V),
    udf("small-stacked", stacked, mail_max, U, V),
    udf("small-rotated", rotated, mail_sum, src("p", 2), W),
    udf("small-complex_product", complex_product, mail_mean, Q, R),
    udf("small-distance", distance, mail_mean, U, V),
    udf("small-direction", direction, mail_sum, U, V, W),
    udf("small-cosine", cosine, mail_max, U, V),
    udf("small-several_outputs", copy, several_outputs, U, outputs=("s", "t", "d")),
    udf("small-apply", copy, mail_sum, U, V, apply=add_own),
    udf("small-gated", gated, mail_min, U, V),
    udf("small-clamped", clamped, mail_sum, U, V, W),
    udf("small-huber", huber, mail_mean, U, V),
    udf("small-temperature", copy, temperature, U),
    udf("small-log_sum_exp", copy, log_sum_exp, U),
    udf("small-weighted_mean", weighted, weighted_mean, U, P),
    udf("small-max_over_mean", copy, max_over_mean, U),
    udf("small-variance", copy, variance, U),
    udf("small-spread", copy, spread, U),
    udf("small-from_own", copy, from_own, U, V),
    udf("small-outer", outer, mail_sum, U, dst("t", 2)),
    udf("small-cross", turned, mail_mean, src("xyz", 3), dst("abc", 3)),
    udf("small-root_gap", root_gap, mail_sum, U, V),
    udf("small-angle", angle, mail_mean, U, V),
    udf("small-radial", radial, mail_sum, U, V),
    udf("small-by_heads", by_heads, head_sum, Q, R),
    udf("small-activations", activations, mail_sum, U, V),
    udf("small-capsule", capsule, mail_sum, src("poses", 2, "F"), edge("c", 1)),
    udf("small-defaults", functools.partial(with_defaults, scale=-0.25), mail_sum, U),
    udf("small-callable", Scaled(0.3), mail_mean, U, V),
    udf("small-staticmethod", Scaled.plain, mail_max, U),
    udf("small-classmethod", Scaled.of_class, mail_sum, U),
    udf("small-share_positive", copy, share_positive, U),
    udf("small-kept_dim", copy, kept_dim, U),
    udf("small-only_own", only_own, mail_sum, V, W),
    udf("small-only_edges", only_edges, mail_sum, P),
    udf("small-inverse_root", inverse_root, mail_sum, U, V),
    udf("small-halves", halves, mail_sum, Q, R),
    udf("small-expanded", expanded, mail_max, U, W),
    udf("small-hub_softmax", copy, hub_softmax, U, V),
    udf("small-two_sums", copy, two_sums, U, outputs=("o", "p")),
    udf("small-polynomial", polynomial, mail_sum, U),
)
