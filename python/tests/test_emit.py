"""What emit writes: equal to eager by the torch back end, accepted by gossamer-opt, and readable.

`python test_emit.py --update-golden` rewrites the files in golden_ir.
"""

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gossamer.capture.call import Dag, Produced, Step, single_call
from gossamer.capture.errors import UntraceableError
from gossamer.capture.tracer import trace_call
from gossamer.emit import emit
from gossamer.emit.ir import Builder, Type, literal, text
from gossamer.torch_backend import run_captured
from support_capture import columns, compiled, make_call, reference, structure

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def find_opt():
    """gossamer-opt from a build folder or the path."""
    built = sorted(ROOT.glob("build*/**/bin/gossamer-opt"), key=lambda p: p.stat().st_mtime)
    return str(built[-1]) if built else shutil.which("gossamer-opt")


OPT = find_opt()
torch.manual_seed(0)
W = nn.Parameter(torch.randn(4, 4, dtype=torch.float64))
A = nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
P = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
HEADS = nn.Parameter(torch.randn(3, 4, 5, dtype=torch.float64))
LINEAR = nn.Linear(4, 5).double()
WIDE = nn.Linear(12, 3).double()
MLP = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)).double()
NORM = nn.LayerNorm(4).double()
BATCH = nn.BatchNorm1d(4).double().eval()
BATCH.running_mean.normal_()
BATCH.running_var.uniform_(0.5, 2.0)
GROUPS = nn.GroupNorm(2, 4).double()
GROUPS.weight.data.normal_()
GROUPS.bias.data.normal_()
PRELU = nn.PReLU().double()
LIFTED = [
    t
    for owner in (LINEAR, WIDE, MLP, NORM, BATCH, GROUPS, PRELU)
    for t in (*owner.parameters(), *owner.buffers())
] + [W, A, P, HEADS]


def spec(graph):
    node = columns({"h": (4,), "x": (3, 4), "c": (1,), "n": ((), torch.int64)}, graph.num_dst, 5)
    edge = columns(
        {"w": (1,), "s": (), "e": (4,), "m": (3, 4), "k": ((), torch.int64)}, len(graph.src), 6
    )
    return node, edge


#: elementwise formulas on source row h, destination row v and edge row e, all (E, 4)
ELEMENTWISE = {
    "arithmetic": lambda h, v, e: (h + 2 * v - e / 3) * 0.5 - (1 - h) + 2 / (1 + e * e),
    "alpha": lambda h, v, e: torch.add(h, v, alpha=0.5) - torch.sub(h, e, alpha=2),
    "powers": lambda h, v, e: h**2 + v**3 + e.abs() ** 0.5 + (h.abs() + 1) ** -1 + h.abs() ** 1.7,
    "power_of_parameter": lambda h, v, e: h.clamp(min=0.1) ** P + 2.0**v,
    "rsqrt": lambda h, v, e: (h * h + 1).rsqrt() + (v.abs() + 1).sqrt().reciprocal(),
    "logs": lambda h, v, e: (h.abs() + 1).log() + v.abs().log1p() + (e.abs() + 1).log2(),
    "exps": lambda h, v, e: h.exp() + v.expm1() + e.exp2(),
    "trigonometry": lambda h, v, e: h.sin() + v.cos() + e.tan() + torch.atan2(h, v) + e.atan(),
    "hyperbolic": lambda h, v, e: h.tanh() + v.sinh() + e.cosh() + h.erf(),
    "rounding": lambda h, v, e: h.floor() + v.ceil() + (e * 2).round() + h.trunc() + v.frac(),
    "signs": lambda h, v, e: h.sign() + v.abs() - (-e),
    "extrema": lambda h, v, e: torch.maximum(h, v) - torch.minimum(v, e) + h.clamp(-0.5, 0.5),
    "clamps": lambda h, v, e: (
        h.clamp(max=0.3) + v.clamp_min(0.1) + torch.clamp(e, h, h + 1) + e.clamp(max=v)
    ),
    "relus": lambda h, v, e: F.relu(h) + F.leaky_relu(v, 0.2) + F.relu6(e * 8) + PRELU(h),
    "smooth": lambda h, v, e: F.elu(h, 1.3) + F.selu(v) + F.celu(e, 0.7) + F.softplus(h, 2.0),
    "gelus": lambda h, v, e: F.gelu(h) + F.gelu(v, approximate="tanh") + F.silu(e) + F.mish(h),
    "sigmoids": lambda h, v, e: torch.sigmoid(h) + F.logsigmoid(v) + F.hardsigmoid(e * 3),
    "hards": lambda h, v, e: F.hardswish(h * 3) + F.hardtanh(v) + F.threshold(e, 0.1, 7.0),
    "soft": lambda h, v, e: F.softsign(h) + F.tanhshrink(v) + torch.lerp(h, v, e),
    "comparisons": lambda h, v, e: (h > v).double() + (v <= 0.1) * e + (h == h) - (h != v) * 1.0,
    "logic": lambda h, v, e: ((h > 0) & (v > 0) | ~(e > 0) ^ (h < v)).to(h.dtype),
    "logical": lambda h, v, e: torch.logical_and(h > 0, v).double() + torch.logical_not(e > 0),
    "where": lambda h, v, e: torch.where(h > 0, v, e) + torch.where(v > 0, 1.0, h),
    "masked_fill": lambda h, v, e: (
        h.masked_fill(v > 0, 0.0) + v.masked_fill(e > 0, -math.inf).exp()
    ),
    "remainders": lambda h, v, e: torch.remainder(h, 0.3) + torch.fmod(v, 0.3) + h % (v.abs() + 1),
    "floor_division": lambda h, v, e: torch.div(h, 0.3, rounding_mode="trunc") + h.detach() // 0.7,
    "casts": lambda h, v, e: (h * 3).long().double() + v.float().double() + (e > 0).long() * 2,
    "nan": lambda h, v, e: torch.where(h.isnan(), v, e) + torch.where((h / 0).isinf(), 1.0, 0.0),
    "nan_to_num": lambda h, v, e: (
        torch.nan_to_num(torch.where(v > 0, h, math.nan), 0.5) * e
        + torch.nan_to_num(torch.where(v > 0, e, math.inf), posinf=2.0, neginf=-1.0) * h
        + torch.nan_to_num(torch.where(h > 0, -math.inf, v), neginf=-2.0)
    ),
    "addcmul": lambda h, v, e: torch.addcmul(h, v, e, value=0.3) + torch.addcdiv(h, v, e * e + 1),
    "constants": lambda h, v, e: h * torch.tensor([1.0, -2.0, 3.0, 0.5]) + torch.tensor(0.5) * v,
    "copies": lambda h, v, e: h.clone() + v.detach().contiguous() + e.to(torch.float64) + 0,
    "likes": lambda h, v, e: h * torch.full_like(v, 0.5) + torch.ones_like(e) - torch.zeros_like(e),
    "in_place": lambda h, v, e: h.clone().mul_(v).add_(e, alpha=2).relu_().sqrt_(),
    "parameters": lambda h, v, e: h * W[0] + v * W.sum(1) + e * P,
}

#: formulas on rows x of (3, 4), h of (4,), c of (1,) and s of (): results of any row shape
FEATURES = {
    "views": lambda x, h, c, s: x.view(-1, 12).view(-1, 2, 6).flatten(1) + x.reshape(len_(x), 12),
    "unsqueeze": lambda x, h, c, s: x * h.unsqueeze(1) + c[:, None] + s.view(-1, 1, 1),
    "squeeze": lambda x, h, c, s: x * c.squeeze(-1)[:, None, None],
    "transpose": lambda x, h, c, s: (
        x.transpose(1, 2).reshape(-1, 12) + x.permute(0, 2, 1).flatten(1)
    ),
    "expand": lambda x, h, c, s: h.unsqueeze(1).expand(-1, 3, -1) * x + c.unsqueeze(1).expand_as(x),
    "select": lambda x, h, c, s: x[:, 1] + x.select(2, -1).sum(1, keepdim=True) + h[..., 0, None],
    "slices": lambda x, h, c, s: x[:, 1:, ::2] + x[:, :2, 1::2] - h[:, None, -2:],
    "split": lambda x, h, c, s: torch.cat([p * i for i, p in enumerate(h.split([1, 2, 1], 1))], 1),
    "chunk": lambda x, h, c, s: h.chunk(2, -1)[0] * h.chunk(2, -1)[1],
    "unbind": lambda x, h, c, s: sum(p * i for i, p in enumerate(x.unbind(1))),
    "stack": lambda x, h, c, s: torch.stack([h, x[:, 0], h * 2], 1) + torch.stack([h, h, h], -2),
    "cat": lambda x, h, c, s: torch.cat([h, c, x[:, 0]], -1) * 2,
    "cat_parameter": lambda x, h, c, s: torch.cat([x, W.expand(len_(x), 4, 4)], 1),
    "repeat": lambda x, h, c, s: h.repeat(1, 3) + h.unsqueeze(1).repeat(1, 3, 1).flatten(1),
    "sums": lambda x, h, c, s: x.sum(-1) + x.sum((1, 2), keepdim=True)[..., 0] + x.mean(2) + c,
    "extrema": lambda x, h, c, s: (
        x.amax(1) + x.amin((1, 2))[:, None] + x.max(1)[0] - x.min(1).values
    ),
    "products": lambda x, h, c, s: x.prod(1) + h.prod(-1, keepdim=True),
    "moments": lambda x, h, c, s: x.var(2) + x.std((1, 2), keepdim=True)[..., 0] + x.var(1)[:, :3],
    "norms": lambda x, h, c, s: x.norm(dim=-1) + x.norm(1, 2) + torch.linalg.vector_norm(x, 3, 2),
    "softmax": lambda x, h, c, s: F.softmax(x, -1) + F.log_softmax(x, 1) + F.softmax(h, 1)[:, None],
    "logsumexp": lambda x, h, c, s: (
        torch.logsumexp(x, (1, 2))[:, None] + torch.logsumexp(h, -1, True)
    ),
    "any": lambda x, h, c, s: (x > 0).any(2).double() + (x > -1).all(2),
    "cosine": lambda x, h, c, s: F.cosine_similarity(x[:, 0], h) * s,
    "normalize": lambda x, h, c, s: F.normalize(x, dim=-1) + F.normalize(h, dim=1)[:, None],
    "layer_norm": lambda x, h, c, s: NORM(x) + F.layer_norm(h, (4,))[:, None],
    "batch_norm": lambda x, h, c, s: BATCH(h),
    "group_norm": lambda x, h, c, s: GROUPS(h)[:, None] + F.group_norm(x, 3),
    "linear": lambda x, h, c, s: LINEAR(x) + LINEAR(h)[:, None],
    "linear_parts": lambda x, h, c, s: WIDE(torch.cat([h, c * h, x[:, 1]], 1)),
    "mlp": lambda x, h, c, s: MLP(torch.cat([h, x[:, 2]], -1)),
    "matmul": lambda x, h, c, s: h @ W + (x @ W)[:, 0] + W @ W @ W[0] + torch.mm(h, W),
    "matmul_vector": lambda x, h, c, s: h @ W[0] * s + (W @ h.unsqueeze(-1)).squeeze(-1)[:, 0],
    "bmm": lambda x, h, c, s: torch.bmm(x, h.unsqueeze(-1)).squeeze(-1) + (x @ x.mT).sum(2),
    "addmm": lambda x, h, c, s: torch.addmm(W[0], h, W, beta=0.5, alpha=2.0),
    "einsum_dot": lambda x, h, c, s: torch.einsum("ehf,ef->eh", x, h),
    "einsum_heads": lambda x, h, c, s: torch.einsum("ehf,hfo->eho", x, HEADS),
    "einsum_ellipsis": lambda x, h, c, s: torch.einsum(
        "...hf,hfo->...ho", torch.einsum("...i,ij->...j", x, W), HEADS
    ),
    "einsum_attention": lambda x, h, c, s: torch.einsum("ehf,hf->eh", x, A) + (x * A).sum(-1),
    "einsum_outer": lambda x, h, c, s: torch.einsum("ei,ej->eij", h, h),
    "einsum_three": lambda x, h, c, s: torch.einsum("ei,ij,ej->e", h, W, x[:, 0])[:, None],
    "einsum_shared": lambda x, h, c, s: torch.einsum("ehf,gf->ehg", x, A) + x.sum(2, keepdim=True),
    "outer": lambda x, h, c, s: (h.unsqueeze(2) * h.unsqueeze(1)).flatten(1),
    "cross": lambda x, h, c, s: torch.linalg.cross(x[:, :, 0], h[:, :3]),
    "creation": lambda x, h, c, s: torch.zeros(len_(h), 4) + h.new_full((len_(h), 1), 2.0) + h,
    "literals": lambda x, h, c, s: h * torch.arange(4) + torch.tensor([[1.0, 2.0, 3.0, 4.0]]),
    "lookup": lambda x, h, c, s: W[(h[:, 0] > 0).long() - 2] * h + A[(c[:, 0] > 0).int(), :],
    "lookup_columns": lambda x, h, c, s: F.embedding((h[:, 1:] > 0).long(), A, 1) * x,
    "lookup_numbers": lambda x, h, c, s: h * W[0].index_select(0, (s > 0).long()).unsqueeze(1),
    "lookup_weights": lambda x, h, c, s: torch.bmm(h[:, None], HEADS[(s > 0).long() * 2])[:, 0],
    "glu": lambda x, h, c, s: h[:, :2] * torch.sigmoid(h[:, 2:]),
}

#: reducers on mailbox m (D, 4), q (D, 3, 4), g (D, 1), k (D,) int; node rows h (4,), x (3, 4)
MAILBOX = {
    "sum": lambda n, m, q, g: m.sum(1) + m.mean(1),
    "extrema": lambda n, m, q, g: m.max(1)[0] - m.min(1).values + m.amax(1) + m.amin(1),
    "gated": lambda n, m, q, g: (F.softmax(g, 1) * m).sum(1),
    "heads": lambda n, m, q, g: (F.softmax(q.sum(-1, keepdim=True), dim=1) * q).sum(1),
    "dot": lambda n, m, q, g: (
        torch.einsum("bdf,bf->bd", m, n.data["h"]).softmax(1).unsqueeze(-1).mul(m).sum(1)
    ),
    "einsum_ellipsis": lambda n, m, q, g: torch.einsum("...i,ij", m, W).sum(1),
    "addcmul": lambda n, m, q, g: (
        torch.addcmul(m, m, n.data["h"].unsqueeze(1), value=0.5)
        + torch.addcdiv(m, m, 1 + n.data["h"].unsqueeze(1) ** 2, value=0.5)
    ).sum(1),
    "einsum_weights": lambda n, m, q, g: torch.einsum("bd,bdf->bf", g.squeeze(-1), m),
    "bmm": lambda n, m, q, g: torch.bmm(F.softmax(g, 1).transpose(1, 2), m).squeeze(1),
    "matmul_scores": lambda n, m, q, g: (F.softmax(m @ n.data["h"].unsqueeze(-1), 1).mT @ m)[:, 0],
    "linear": lambda n, m, q, g: F.relu(LINEAR(m)).max(1)[0] + LINEAR(m).sum(1),
    "linear_flat": lambda n, m, q, g: (m.reshape(-1, 4) @ W).view(m.shape).sum(1),
    "lookup": lambda n, m, q, g: (
        (m * W[(g[:, :, 0] > 0).long()]).sum(1) + A[(n.data["h"][:, 0] > 0).long()]
    ),
    "concat": lambda n, m, q, g: torch.cat([m, n.data["h"].unsqueeze(1).expand_as(m)], -1).sum(1),
    "repeat": lambda n, m, q, g: (n.data["h"].unsqueeze(1).repeat(1, m.shape[1], 1) * m).mean(1),
    "pna": lambda n, m, q, g: (
        torch.cat([m.mean(1), m.max(1)[0], m.min(1)[0], m.std(1, unbiased=False)], 1)
        * math.log(m.shape[1] + 1)
    ),
    "centred": lambda n, m, q, g: ((m - m.mean(1, keepdim=True)) ** 2).mean(1).sqrt(),
    "both_axes": lambda n, m, q, g: (
        q.sum((1, 3)) + q.mean((1, 2))[:, :3] + q.amax((1, 2, 3))[:, None]
    ),
    "logsumexp": lambda n, m, q, g: torch.logsumexp(m, 1) + F.log_softmax(m, 1).sum(1),
    "power_mean": lambda n, m, q, g: m.clamp(min=0.1).pow(P).mean(1).pow(1 / P),
    "norm": lambda n, m, q, g: m.norm(dim=1) + m.norm(dim=2).sum(1, keepdim=True),
    "prod": lambda n, m, q, g: m.prod(1),
    "layer_norm": lambda n, m, q, g: NORM(m).sum(1),
    "permuted": lambda n, m, q, g: (m.transpose(1, 2) * g.transpose(1, 2)).sum(-1),
    "permuted_heads": lambda n, m, q, g: q.permute(0, 2, 1, 3).softmax(2).sum(2).flatten(1),
    "node_only": lambda n, m, q, g: n.data["h"] * 2 + n.data["x"][:, 0],
    "parameter": lambda n, m, q, g: W[0].expand(n.data["h"].shape[0], -1) + m.sum(1) * 0,
    "constant": lambda n, m, q, g: torch.ones(m.shape[0], 2, dtype=m.dtype),
    "mask": lambda n, m, q, g: (m * (m > 0)).sum(1) / (m > 0).sum(1).clamp(min=1),
    "sizes": lambda n, m, q, g: m.sum(1) / q.shape[1] + m.shape[1],
    "cosine": lambda n, m, q, g: (
        F.cosine_similarity(m, n.data["h"].unsqueeze(1), -1).softmax(1)[..., None] * m
    ).sum(1),
    "any": lambda n, m, q, g: (m > 1).any(1).double(),
    "int_sum": lambda n, m, q, g: n.mailbox["k"].sum(1),
    "int_max": lambda n, m, q, g: n.mailbox["k"].max(1)[0].unsqueeze(-1) * m.sum(1),
    "bool": lambda n, m, q, g: m.sum(1) > 0,
}


def len_(x):
    return x.shape[0]


def check(kind, name, message, reduce=None):
    """Compiled equals reference on a graph; the text is accepted."""
    graph = structure(name)
    node, edge = spec(graph)
    call = make_call(kind, message=message, reduce=reduce, node=node, edge=edge, lifted=LIFTED)
    ours = compiled(call, graph, node, edge)
    expected = reference(kind, graph, node, edge, message, reduce)
    for field, value in expected.items():
        torch.testing.assert_close(ours[field], value, equal_nan=True, rtol=1e-10, atol=1e-10)
    if not expected:
        assert all(not value.any() for value in ours.values())
    return emit(single_call(trace_call(call))).text


def accepted(module):
    """Parsed and verified by gossamer-opt, and printed without change of meaning."""
    if OPT is None:
        pytest.skip("gossamer-opt is not built")
    done = subprocess.run([OPT, "-"], input=module, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + module


@pytest.mark.parametrize("formula", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_elementwise(formula):
    def message(edges):
        return {"m": formula(edges.src["h"], edges.dst["h"], edges.data["e"])}

    accepted(check("apply_edges", "odd", message))


@pytest.mark.parametrize("formula", FEATURES.values(), ids=FEATURES)
def test_features(formula):
    def message(edges):
        x = edges.src["x"] + edges.data["m"]
        return {"m": formula(x, edges.dst["h"], edges.src["c"], edges.data["s"])}

    accepted(check("apply_edges", "odd", message))


def to_mailbox(edges):
    return {
        "m": edges.src["h"] + edges.data["e"],
        "q": edges.src["x"] * edges.data["w"].unsqueeze(1),
        "g": edges.data["w"],
        "k": edges.src["n"] - edges.data["k"],
    }


def from_mailbox(formula):
    def reduce(nodes):
        box = nodes.mailbox
        return {"o": formula(nodes, box["m"], box["q"], box["g"])}

    return reduce


@pytest.mark.parametrize("formula", MAILBOX.values(), ids=MAILBOX)
def test_mailbox(formula):
    for name in ("odd", "star", "one_node", "no_edges"):
        module = check("update_all", name, to_mailbox, from_mailbox(formula))
    accepted(module)


@pytest.mark.parametrize("formula", MAILBOX.values(), ids=MAILBOX)
def test_gradients(formula):
    graph = structure()
    results = []
    for run in (compiled_run, reference_run):
        node, edge = spec(graph)
        leaves = [
            t.requires_grad_() for t in (*node.values(), *edge.values()) if t.is_floating_point()
        ]
        output = run(graph, node, edge, from_mailbox(formula))
        if not output.requires_grad:
            return
        weight = torch.randn(
            output.shape, dtype=output.dtype, generator=torch.Generator().manual_seed(1)
        )
        results.append(torch.autograd.grad((output * weight).sum(), leaves, allow_unused=True))
    for ours, theirs in zip(*results, strict=True):
        theirs = torch.zeros_like(ours) if theirs is None and ours is not None else theirs
        ours = torch.zeros_like(theirs) if ours is None and theirs is not None else ours
        if theirs is not None:
            torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-9, atol=1e-9)


def compiled_run(graph, node, edge, reduce):
    call = make_call(message=to_mailbox, reduce=reduce, node=node, edge=edge, lifted=LIFTED)
    return compiled(call, graph, node, edge)["o"]


def reference_run(graph, node, edge, reduce):
    return reference("update_all", graph, node, edge, to_mailbox, reduce)["o"]


def stopped(nodes, m, q, g):
    with torch.no_grad():
        scale = m.max(1)[0]
    return m.sum(1) * scale + m.detach().mean(1) * nodes.data["h"]


def test_gradients_stop_where_the_user_stops_them():
    test_gradients(stopped)
    graph = structure()
    module = emit(
        single_call(
            trace_call(make_call(message=to_mailbox, reduce=from_mailbox(stopped), **frames(graph)))
        )
    ).text
    assert module.count("mp.detach") == 2
    accepted(module)


def frames(graph):
    node, edge = spec(graph)
    return {"node": node, "edge": edge}


def test_ties_give_the_whole_gradient_to_the_first_message():
    graph = structure()
    node, edge = spec(graph)
    h = torch.zeros(graph.num_dst, 4, dtype=torch.float64, requires_grad=True)
    node = {**node, "h": h}
    message, reduce = (lambda e: {"m": e.src["h"]}), (lambda n: {"o": n.mailbox["m"].max(1)[0]})
    call = make_call(message=message, reduce=reduce, node=node, edge=edge)
    (ours,) = torch.autograd.grad(compiled(call, graph, node, edge)["o"].sum(), h)
    expected = reference("update_all", graph, node, edge, message, reduce)["o"]
    assert torch.equal(ours, torch.autograd.grad(expected.sum(), h)[0])


@pytest.mark.parametrize("end", ["dst", "src"])
def test_edge_softmax(end):
    graph = structure()
    edge = columns({"logits": (2,)}, len(graph.src), 3)
    call = make_call("edge_softmax", node={}, edge=edge, softmax_end=end)
    ours = compiled(call, graph, {}, edge)["logits"]
    index = getattr(graph, end)
    for node in range(graph.num_dst):
        rows = index == node
        torch.testing.assert_close(ours[rows], edge["logits"][rows].softmax(0))
    accepted(emit(single_call(trace_call(call))).text)


def test_float32_and_integer_types():
    graph = structure(idtype=torch.int32)
    labels = torch.arange(graph.num_dst, dtype=torch.int32)
    node = {"h": torch.randn(graph.num_dst, 4), "l": labels}

    def message(edges):
        return {
            "same": (edges.src["l"] == edges.dst["l"]).long(),
            "ratio": edges.src["l"] / 3,
            "floor": edges.src["l"] // 2 + edges.src["l"] % 3,
            "mixed": edges.src["l"].unsqueeze(1) * edges.src["h"],
            "bits": edges.src["l"] & 3 | 4,
            "power": edges.src["l"] ** 3,
        }

    call = make_call("apply_edges", message=message, node=node, edge={}, idtype=torch.int32)
    ours = compiled(call, graph, node, {})
    for field, value in reference("apply_edges", graph, node, {}, message).items():
        assert ours[field].dtype == value.dtype
        torch.testing.assert_close(ours[field], value)
    accepted(emit(single_call(trace_call(call))).text)


def test_division_of_integers_by_a_tensor_is_refused():
    graph = structure()
    node, edge = spec(graph)

    def message(edges):
        return {"m": edges.src["n"] // edges.dst["n"]}

    with pytest.raises(UntraceableError, match="integers are divided"):
        trace_call(make_call("apply_edges", message=message, node=node, edge=edge))


def test_isolated_nodes_get_the_initializer():
    graph = structure()
    node, edge = spec(graph)
    call = make_call(
        message=to_mailbox,
        reduce=lambda n: {"o": n.mailbox["m"].sum(1) + 1},
        node=node,
        edge=edge,
        initializers={"o": -2.0},
    )
    ours = compiled(call, graph, node, edge)["o"]
    isolated = torch.bincount(graph.dst, minlength=graph.num_dst) == 0
    assert isolated.any()
    assert (ours[isolated] == -2.0).all()


def gat_sequence():
    """apply_edges, then an update_all that reads its column."""
    graph = structure()
    node, edge = spec(graph)

    def scores(edges):
        z = torch.cat([edges.src["h"], edges.dst["h"]], 1)
        return {"a": F.leaky_relu(z @ W.reshape(8, 2)), "unused": edges.src["x"]}

    def message(edges):
        return {"z": edges.src["h"], "a": edges.data["a"]}

    def reduce(nodes):
        alpha = F.softmax(nodes.mailbox["a"], 1)
        return {"o": torch.einsum("bdh,bdf->bhf", alpha, nodes.mailbox["z"])}

    first = trace_call(make_call("apply_edges", message=scores, node=node, edge=edge, lifted=[W]))
    made = {"a": torch.empty(12, 2, dtype=torch.float64)}
    second = trace_call(make_call(message=message, reduce=reduce, node=node, edge=edge | made))
    sources = tuple(Produced(0, "a") if s.name == "a" else s for s in second.inputs)
    dag = Dag((Step(first, 0, first.inputs), Step(second, 0, sources)), ((1, "o"),))
    return dag, graph, node, edge, (scores, message, reduce)


def test_calls_in_sequence_become_one_function():
    dag, graph, node, edge, (scores, message, reduce) = gat_sequence()
    emitted = emit(dag)
    accepted(emitted.text)
    inputs = {spec: node.get(spec.name) if spec.kind == "column" else W for spec in emitted.inputs}
    assert {spec.name for spec in emitted.inputs} == {"h", ""}
    (ours,) = run_captured(emitted, inputs, [graph])
    made = reference("apply_edges", graph, node, edge, scores)
    expected = reference("update_all", graph, node, {**edge, **made}, message, reduce)
    torch.testing.assert_close(ours, expected["o"])


def test_equal_code_gives_equal_text_on_any_graph():
    texts = set()
    for name in ("odd", "star", "no_edges", "one_node"):
        node, edge = spec(structure(name))
        call = make_call(
            message=to_mailbox,
            reduce=from_mailbox(MAILBOX["pna"]),
            node=node,
            edge=edge,
            lifted=LIFTED,
        )
        texts.add(emit(single_call(trace_call(call))).text)
    assert len(texts) == 1


def test_inputs_that_nobody_needs_are_dropped():
    node, edge = spec(structure())
    call = make_call(
        message=to_mailbox, reduce=lambda n: {"o": n.mailbox["g"].sum(1)}, node=node, edge=edge
    )
    assert [s.name for s in emit(single_call(trace_call(call))).inputs] == ["w"]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1e-5, "f32", "1.0e-05 : f32"),
        (0.5, "f64", "0.5 : f64"),
        (-3, "i64", "-3 : i64"),
        (True, "i1", "true"),
        (2, "f32", "2.0 : f32"),
        (math.inf, "f32", "0x7F800000 : f32"),
        (-math.inf, "f64", "0xFFF0000000000000 : f64"),
        (1e300, "f32", "0x7F800000 : f32"),
        (math.nan, "f32", "0x7FC00000 : f32"),
    ],
)
def test_literals(value, dtype, expected):
    assert literal(value, dtype) == expected
    builder = Builder()
    result = builder.op("mp.fill", (), Type((2,), dtype), value=value)
    accepted(text(builder.finish([result], 1)))


def test_file_names_are_quoted():
    builder = Builder()
    builder.place = ('odd "name\\ü.py', 3)
    result = builder.op("mp.fill", (), Type((), "f32"), value=0.0)
    accepted(text(builder.finish([result], 1)))


GOLDEN = {
    "gat": lambda: emit(gat_sequence()[0]).text,
    **{
        name: lambda name=name: check("update_all", "odd", to_mailbox, from_mailbox(MAILBOX[name]))
        for name in ("sum", "pna", "linear", "bmm", "concat")
    },
}


def golden_text(name):
    """The text without file and line, which move with this file."""
    return re.sub(r' loc\("[^"]*":\d+:0\)', "", GOLDEN[name]())


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name, request):
    path = HERE / "golden_ir" / f"{name}.mlir"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(golden_text(name))
    assert golden_text(name) == path.read_text()


def test_every_operation_has_the_users_line():
    dag, *_ = gat_sequence()
    lines = [line for line in emit(dag).text.splitlines() if line.startswith("  %")]
    assert lines
    for line in lines:
        assert re.search(r'loc\("[^"]*test_emit.py":\d+:0\)$', line)


if __name__ == "__main__" and "--update-golden" in sys.argv:
    (HERE / "golden_ir").mkdir(exist_ok=True)
    for golden in GOLDEN:
        (HERE / "golden_ir" / f"{golden}.mlir").write_text(golden_text(golden))
