"""Built-in functions, edge_softmax and dgl.ops."""

from __future__ import annotations

import pytest
import torch

import gossamer.function
from graph_libs import OURS, both, equal, hetero, small

BINARY = [name for name in gossamer.function.BINARY_NAMES if "dot" not in name]
DOTS = [name for name in gossamer.function.BINARY_NAMES if "dot" in name]
REDUCTIONS = ["sum", "mean", "max", "min"]


def edge_values(g, end, key):
    src, dst = (ids.long() for ids in g.edges())
    rows = {"u": src, "v": dst, "e": torch.arange(len(src))}[end]
    frame = {"u": g.srcdata, "v": g.dstdata, "e": g.edata}[end]
    return frame[key][rows]


@both
@pytest.mark.parametrize("name", BINARY)
def test_binary_messages(dgl, name):
    g = small(dgl)
    g.edata["f"] = torch.randn(7, 3)
    left, op, right = name.split("_")
    keys = {"u": "x", "v": "y", "e": "f"}
    g.apply_edges(getattr(dgl.fn, name)(keys[left], keys[right], "o"))
    values = edge_values(g, left, keys[left]), edge_values(g, right, keys[right])
    equal(g.edata["o"], getattr(torch, op)(*values))


@both
@pytest.mark.parametrize("name", DOTS)
def test_dot_messages_keep_one_column(dgl, name):
    g = small(dgl)
    g.edata["f"] = torch.randn(7, 3)
    left, _, right = name.split("_")
    keys = {"u": "x", "v": "y", "e": "f"}
    g.apply_edges(getattr(dgl.fn, name)(keys[left], keys[right], "o"))
    values = edge_values(g, left, keys[left]) * edge_values(g, right, keys[right])
    equal(g.edata["o"], values.sum(-1, keepdim=True))


@both
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("message", ["copy_u", "u_mul_e", "v_sub_u"])
def test_reductions(dgl, message, reduce):
    g = small(dgl)
    make = getattr(dgl.fn, message)
    fields = {"copy_u": ("x",), "u_mul_e": ("x", "w"), "v_sub_u": ("y", "x")}[message]
    for key in "xy":
        g.ndata[key].requires_grad_()
    g.update_all(make(*fields, "m"), getattr(dgl.fn, reduce)("m", "h"))
    src, dst = g.edges()
    x, y, w = g.ndata["x"].detach(), g.ndata["y"].detach(), g.edata["w"]
    x.requires_grad_()
    values = {"copy_u": x[src], "u_mul_e": x[src] * w, "v_sub_u": y[dst] - x[src]}[message]
    rows = [_reduced(reduce, values[dst == node]) for node in range(6)]
    equal(g.ndata["h"], torch.stack(rows))
    g.ndata["h"].square().sum().backward()
    torch.stack(rows).square().sum().backward()
    equal(g.ndata["x"].grad, x.grad)


def _reduced(name, rows):
    if not len(rows):
        return rows.new_zeros(rows.shape[1:])
    result = getattr(rows, name)(0)
    return result[0] if isinstance(result, tuple) else result


@both
@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((5,), (1,), (5,)),
        ((1,), (), (1,)),
        ((3, 1), (4,), (3, 4)),
        ((2, 3), (2, 1), (2, 3)),
        ((), (), ()),
    ],
)
def test_features_broadcast_after_the_row_axis(dgl, left, right, result):
    g = small(dgl)
    g.ndata["a"], g.edata["b"] = torch.randn(6, *left), torch.randn(7, *right)
    g.update_all(dgl.fn.u_mul_e("a", "b", "m"), dgl.fn.sum("m", "h"))
    assert g.ndata["h"].shape == (6, *result)
    a, b = g.ndata["a"][g.edges()[0]], g.edata["b"]
    depth = max(a.dim(), b.dim())
    a = a.reshape(7, *[1] * (depth - a.dim()), *left)
    b = b.reshape(7, *[1] * (depth - b.dim()), *right)
    equal(g.ndata["h"], torch.zeros(6, *result).index_add(0, g.edges()[1], (a * b)))


@both
def test_maximum_of_infinities_is_zero_in_update_all(dgl):
    g = small(dgl)
    x = g.ndata["x"].clone()
    x[0] = float("inf")
    g.ndata["x"] = x
    seen = []

    def apply(nodes):
        seen.append(nodes.data["h"][4].tolist())
        return {"h": nodes.data["h"], "second": nodes.data["h"]}

    g.update_all(dgl.fn.copy_u("x", "m"), dgl.fn.max("m", "h"), apply)
    assert seen == [[-float("inf")] * 3]
    equal(g.ndata["h"][1], torch.zeros(3))
    equal(g.ndata["h"][4], torch.zeros(3))
    assert (g.ndata["second"][4] == -float("inf")).all()


@both
def test_maximum_ignores_nan(dgl):
    g = small(dgl)
    x = g.ndata["x"].clone()
    x[0] = float("nan")
    g.ndata["x"] = x
    g.update_all(dgl.fn.copy_u("x", "m"), dgl.fn.max("m", "h"))
    equal(g.ndata["h"][1], x[3])
    equal(g.ndata["h"][3], torch.zeros(3))


@both
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_user_message_with_builtin_reduction(dgl, reduce):
    g, h = small(dgl), small(dgl)
    g.update_all(lambda edges: {"m": edges.src["x"]}, getattr(dgl.fn, reduce)("m", "h"))
    h.update_all(dgl.fn.copy_u("x", "m"), getattr(dgl.fn, reduce)("m", "h"))
    equal(g.ndata["h"], h.ndata["h"])


@both
def test_builtin_message_with_user_reduction(dgl):
    g = small(dgl)
    g.update_all(dgl.fn.u_add_v("x", "y", "m"), lambda nodes: {"h": nodes.mailbox["m"].sum(1)})
    src, dst = g.edges()
    values = g.ndata["x"][src] + g.ndata["y"][dst]
    equal(g.ndata["h"], torch.zeros(6, 3).index_add(0, dst, values))


@both
def test_integers_are_refused(dgl):
    g = small(dgl)
    g.ndata["i"] = torch.arange(6)
    with pytest.raises(dgl.DGLError):
        g.update_all(dgl.fn.copy_u("i", "m"), dgl.fn.sum("m", "h"))
    with pytest.raises(dgl.DGLError):
        g.update_all(lambda edges: {"m": edges.src["i"]}, dgl.fn.sum("m", "h"))
    assert "h" not in g.ndata


@both
def test_pairs_must_fit(dgl):
    g = small(dgl)
    with pytest.raises(dgl.DGLError):
        g.update_all(dgl.fn.copy_u("x", "m"), dgl.fn.sum("q", "h"))
    with pytest.raises(KeyError):
        g.update_all(lambda edges: {"m": edges.src["x"]}, dgl.fn.sum("q", "h"))
    with pytest.raises(KeyError):
        g.update_all(dgl.fn.copy_u("nothing", "m"), dgl.fn.sum("m", "h"))


@both
def test_update_all_over_all_relations(dgl):
    g = hetero(dgl)
    g.update_all(dgl.fn.copy_u("x", "m"), dgl.fn.sum("m", "h"))
    user, item = g.nodes["user"].data, g.nodes["item"].data
    expected = torch.zeros(4, 2)
    for etype in ("follows", "suits"):
        src, dst = g.edges(etype=etype)
        source = user if etype == "follows" else item
        expected.index_add_(0, dst, source["x"][src])
    equal(user["h"], expected)
    with pytest.raises(NotImplementedError):
        g.update_all(dgl.fn.copy_u("x", "m"), dgl.fn.mean("m", "h"))


@both
@pytest.mark.parametrize("norm_by", ["dst", "src"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_edge_softmax(dgl, norm_by, shape):
    g = small(dgl)
    logits = torch.randn(7, *shape, requires_grad=True)
    scores = dgl.edge_softmax(g, logits, norm_by=norm_by)
    ends = g.edges()[0 if norm_by == "src" else 1]
    other = logits.detach().clone().requires_grad_()
    expected = torch.empty(7, *shape)
    for node in range(6):
        expected[ends == node] = other[ends == node].softmax(0)
    equal(scores, expected)
    scores.square().sum().backward()
    expected.square().sum().backward()
    equal(logits.grad, other.grad)


@both
def test_edge_softmax_of_some_edges(dgl):
    g = small(dgl)
    eids = torch.tensor([0, 4, 5])
    logits = torch.randn(3, 1)
    scores = dgl.edge_softmax(g, logits, eids)
    equal(scores[:2], logits[:2].softmax(0))
    equal(scores[2:], torch.ones(1, 1))


@both
def test_edge_softmax_over_relations(dgl):
    g = hetero(dgl)
    keys = {("user", "follows", "user"): 3, ("item", "suits", "user"): 2}
    logits = {key: torch.randn(count, 1) for key, count in keys.items()}
    logits[("user", "buys", "item")] = torch.randn(3, 1)
    scores = dgl.edge_softmax(g, logits)
    both_into_2 = torch.cat(
        [logits[("user", "follows", "user")][1:2], logits[("item", "suits", "user")]]
    )
    found = torch.cat([scores[("user", "follows", "user")][1:2], scores[("item", "suits", "user")]])
    equal(found, both_into_2.softmax(0))


@both
def test_ops(dgl):
    g = small(dgl)
    x, y, w = g.ndata["x"], g.ndata["y"], torch.randn(7, 3)
    src, dst = g.edges()
    equal(dgl.ops.u_mul_e_sum(g, x, w), torch.zeros(6, 3).index_add(0, dst, x[src] * w))
    equal(dgl.ops.copy_u_sum(g, x), torch.zeros(6, 3).index_add(0, dst, x[src]))
    equal(dgl.ops.copy_e_sum(g, w), torch.zeros(6, 3).index_add(0, dst, w))
    equal(dgl.ops.u_dot_v(g, x, y), (x[src] * y[dst]).sum(-1, keepdim=True))
    equal(dgl.ops.e_sub_v(g, w, y), w - y[dst])
    equal(dgl.ops.copy_v(g, y), y[dst])
    equal(dgl.ops.gsddmm(g, "add", x, w, "u", "e"), x[src] + w)
    equal(dgl.ops.gspmm(g, "copy_lhs", "mean", x, None)[3], x[0])
    assert (dgl.ops.copy_u_max(g, x)[4] == -float("inf")).all()
    seglen = torch.tensor([2, 0, 5])
    equal(dgl.ops.segment_reduce(seglen, w, "max")[2], w[2:].max(0)[0])
    assert sorted(g.ndata) == ["x", "y"]


def test_builtins_as_user_functions():
    fn = gossamer.function
    for message in (fn.u_mul_e("x", "w", "m"), fn.copy_e("w", "m"), fn.e_dot_v("f", "y", "m")):
        for name in REDUCTIONS:
            reduce = getattr(fn, name)("m", "h")
            g, h = small(OURS), small(OURS)
            for graph in (g, h):
                graph.edata["f"] = torch.ones(7, 3)
            g.update_all(message, reduce)
            h.update_all(message.as_message, reduce.as_reduce)
            equal(g.ndata["h"], h.ndata["h"])


def test_unknown_reducers_and_operators_are_named():
    g = small(OURS)
    with pytest.raises(OURS.DGLError, match="median"):
        OURS.ops.gspmm(g, "mul", "median", g.ndata["x"], g.edata["w"])
    with pytest.raises(OURS.DGLError, match="pow"):
        OURS.ops.gspmm(g, "pow", "sum", g.ndata["x"], g.edata["w"])
    with pytest.raises(AttributeError, match=r"u_mul_e_sum|u_mul_e"):
        _ = OURS.ops.u_mul_e_summ
    with pytest.raises(AttributeError, match="in_subgraph"):
        _ = OURS.in_subgrap
    with pytest.raises(AttributeError, match="copy_u"):
        _ = OURS.fn.copy_uu
