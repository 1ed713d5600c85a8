"""Readouts of a batch: DGL's numbers and gradients, eager and compiled, in both modes."""

from __future__ import annotations

import pickle
import warnings

import pytest
import torch

import gossamer as gs
import gossamer.dgl as ours
from graph_libs import WITHOUT_DGL, Library, both, equal
from programs.measure import assert_outputs

DGL = Library("dgl")
NAN, INF = float("nan"), float("inf")
OPS = ("sum", "mean", "max", "min")
#: By name: (edges, number of nodes) of each graph.
BATCHES = {
    "molecules": [
        (([0, 1, 1, 2], [1, 0, 2, 1]), 3),
        (([0, 1, 2, 0, 2, 1], [1, 2, 0, 2, 1, 0]), 3),
        (([0, 0, 1], [0, 1, 1]), 2),
    ],
    "with_empty_graphs": [(([], []), 0), (([0, 0], [1, 1]), 4), (([], []), 0), (([], []), 1)],
    "one_of_many": [(([0, 1, 2, 0], [1, 2, 3, 3]), 5)],
    "nothing": [(([], []), 0), (([], []), 0)],
}
cases = pytest.mark.parametrize("name", BATCHES)
#: Of a batch without any node DGL's mean is NaN, and ours 0.
dgl_cases = pytest.mark.parametrize("name", [name for name in BATCHES if name != "nothing"])


def make_batch(dgl, name, dtype=torch.float64, idtype=torch.int64):
    """A batch with node fields x, w and edge field e, which require gradients."""
    graphs = []
    for (src, dst), nodes in BATCHES[name]:
        ends = torch.tensor(src, dtype=idtype), torch.tensor(dst, dtype=idtype)
        graphs.append(dgl.graph(ends, num_nodes=nodes))
    g = dgl.batch(graphs)
    generator = torch.Generator().manual_seed(5)

    def signed(*shape):
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    fields = (signed(g.num_nodes(), 3), signed(g.num_nodes(), 1), signed(g.num_edges(), 2, 2))
    return g, fields


def message(edges):
    return {"m": edges.src["x"] * edges.dst["w"]}


def total(nodes):
    return {"h": nodes.mailbox["m"].sum(1) + nodes.data["x"]}


def every_readout(dgl, g, x, w, e):
    """Every readout of nodes and edges, and functions of their results."""
    with g.local_scope():
        g.ndata["x"], g.ndata["w"], g.edata["e"] = x, w, e
        out = {op: dgl.readout_nodes(g, "x", op=op) for op in OPS}
        out |= {f"weighted {op}": dgl.readout_nodes(g, "x", "w", op=op) for op in OPS}
        out |= {f"edges {op}": dgl.readout_edges(g, "e", op=op) for op in OPS}
        out["softmax"] = dgl.softmax_nodes(g, "x")
        out["edge softmax"] = dgl.softmax_edges(g, "e")
        out["row"] = dgl.broadcast_nodes(g, out["mean"])
        out["edge row"] = dgl.broadcast_edges(g, out["edges max"])
        out["centred"] = x - out["row"]
        g.ndata["a"] = out["softmax"]
        out["attention"] = dgl.sum_nodes(g, "x", "a").tanh() + out["sum"]
    return out


def layer_and_readout(dgl, g, x, w, e):
    """Message passing whose nodes and edges are read out."""
    with g.local_scope():
        g.ndata["x"], g.ndata["w"], g.edata["e"] = x, w, e
        g.apply_edges(lambda edges: {"s": edges.src["x"] - edges.dst["x"]})
        g.update_all(message, total)
        return {
            "nodes": dgl.mean_nodes(g, "h"),
            "edges": dgl.sum_edges(g, "s") + dgl.max_nodes(g, "h"),
            "scores": dgl.softmax_edges(g, "s"),
            "sizes": dgl.sum_nodes(g, "h") / g.batch_num_nodes().clamp(min=1).unsqueeze(1),
        }


def with_gradients(out, inputs):
    """The outputs, and the gradients of a function of them in which no two rows weigh the same."""
    loss = 0
    for tensor in out.values():
        weights = torch.arange(1, tensor.numel() + 1, dtype=tensor.dtype).reshape(tensor.shape)
        loss = loss + (tensor.square() * weights).sum() + tensor.sum()
    grads = torch.autograd.grad(loss, inputs, allow_unused=True)
    zeros = [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, grads, strict=True)]
    return {**out, **{f"grad {i}": g for i, g in enumerate(zeros)}}


# --- DGL's numbers --------------------------------------------------------------------------------


@WITHOUT_DGL
@pytest.mark.dgl_live
@dgl_cases
@pytest.mark.parametrize("how", ["eager", "compiled", "compiled DGL graph"])
def test_equal_to_dgl(name, how):
    g, fields = make_batch(DGL, name)
    expected = with_gradients(every_readout(DGL, g, *fields), fields)
    library = DGL if how == "compiled DGL graph" else ours
    g, fields = make_batch(library, name)

    def model(g, *fields):
        return every_readout(library, g, *fields)

    if how != "eager":
        model = gs.compile(model, fallback="error")
    for _ in range(1 if how == "eager" else 3):
        assert_outputs(with_gradients(model(g, *fields), fields), expected)


@both
@pytest.mark.parametrize("op", OPS)
def test_special_numbers(dgl, op):
    """NaN and infinities, ties, and a graph without rows."""
    sizes = [3, 0, 2]
    g = dgl.batch([dgl.graph(([], []), num_nodes=size) for size in sizes])
    x = torch.tensor(
        [[1.0, NAN, -INF], [1, 2, -INF], [0, 3, -INF], [2, NAN, INF], [2, NAN, 1]],
        requires_grad=True,
    )
    results = {
        "sum": ([[2, NAN, -INF], [0, 0, 0], [4, NAN, INF]], [[1.0] * 3] * 5),
        "mean": (
            [[2 / 3, NAN, -INF], [0, 0, 0], [2, NAN, INF]],
            [[1 / 3] * 3] * 3 + [[0.5] * 3] * 2,
        ),
        "max": (
            [[1, 3, 0], [0, 0, 0], [2, 0, 0]],
            [[1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]],
        ),
        "min": (
            [[0, 2, 0], [0, 0, 0], [2, 0, 1]],
            [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]],
        ),
    }

    def model(g, x):
        g.ndata["x"] = x
        return dgl.readout_nodes(g, "x", op=op)

    models = [model] if dgl.is_dgl else [model, gs.compile(model, fallback="error")]
    values, slopes = (torch.tensor(part, dtype=torch.float32) for part in results[op])
    for each in models:
        out = each(g, x)
        equal(out, values)
        equal(torch.autograd.grad(out.sum(), x)[0], slopes)


@both
def test_types(dgl):
    """Readouts by type; the types of one batch have different sizes."""
    relations = {("user", "buys", "item"): ([0, 1], [0, 0]), ("item", "suits", "user"): ([0], [1])}
    graphs = [dgl.heterograph(relations, {"user": n, "item": 1}) for n in (2, 4)]
    g = dgl.batch(graphs)

    def model(g, users, bought):
        with g.local_scope():
            g.nodes["user"].data["x"] = users
            g.edges["buys"].data["y"] = bought
            broadcast = dgl.broadcast_nodes(g, dgl.max_nodes(g, "x", ntype="user"), ntype="item")
            return broadcast, dgl.sum_edges(g, "y", etype="buys"), g.batch_num_nodes("user")

    users, bought = torch.randn(6, 3), torch.randn(4, 2)
    expected = (
        torch.stack([users[:2].amax(0), users[2:].amax(0)]),
        torch.stack([bought[:2].sum(0), bought[2:].sum(0)]),
        torch.tensor([2, 4]),
    )
    for each in [model] if dgl.is_dgl else [model, *[gs.compile(model, fallback="error")] * 3]:
        for found, wanted in zip(each(g, users, bought), expected, strict=True):
            equal(found, wanted)


@both
def test_one_graph(dgl):
    g = dgl.graph(([0, 1], [1, 2]))
    x = torch.randn(3, 2)

    def model(g, x, row):
        g.ndata["x"] = x
        return dgl.sum_nodes(g, "x"), dgl.broadcast_nodes(g, row), dgl.softmax_nodes(g, "x")

    row = torch.randn(1, 4)
    for each in [model] if dgl.is_dgl else [model, *[gs.compile(model, fallback="error")] * 3]:
        found = each(g, x, row)
        expected = x.sum(0, keepdim=True), row.expand(3, 4), x.softmax(0)
        for part, wanted in zip(found, expected, strict=True):
            equal(part, wanted)


@both
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda dgl, g: dgl.sum_nodes(g, "absent"), KeyError),
        (lambda dgl, g: dgl.readout_nodes(g, "x", op="median"), "DGLError"),
        (lambda dgl, g: dgl.sum_nodes(g, "label"), "DGLError"),
        (lambda dgl, g: dgl.broadcast_nodes(g, torch.ones(5, 2)), (RuntimeError, IndexError)),
    ],
    ids=["absent", "op", "integers", "rows"],
)
def test_errors(dgl, call, error):
    g, (x, *_) = make_batch(dgl, "molecules")
    g.ndata["x"] = x
    g.ndata["label"] = torch.arange(8)
    error = dgl.DGLError if error == "DGLError" else error
    with pytest.raises(error):
        call(dgl, g)
    if not dgl.is_dgl:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.FallbackWarning)
            with pytest.raises(error):
                gs.compile(lambda g: call(dgl, g))(g)


def test_sizes_that_do_not_add_up():
    g, (x, *_) = make_batch(ours, "molecules")
    g.ndata["x"] = x
    g.set_batch_num_nodes(torch.tensor([3, 3]))
    with pytest.raises(gs.errors.GraphError, match="6 nodes together, but there are 8"):
        ours.sum_nodes(g, "x")
    g.set_batch_num_nodes(torch.tensor([4, 4]))
    assert ours.sum_nodes(g, "x").shape == (2, 3)


# --- compiled -------------------------------------------------------------------------------------


@cases
@pytest.mark.parametrize("program", [every_readout, layer_and_readout])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled(name, program, dtype):
    """Region mode, then whole mode: eager values and gradients; no torch code runs."""

    def model(g, *fields):
        return program(ours, g, *fields)

    g, fields = make_batch(ours, name)
    exact = with_gradients(model(g, *fields), fields)
    g, fields = make_batch(ours, name)
    fields = tuple(field.detach().to(dtype).requires_grad_() for field in fields)
    eager = with_gradients(model(g, *fields), fields)
    fast = gs.compile(model, fallback="error")
    modes = []
    for _ in range(3):
        assert_outputs(with_gradients(fast(g, *fields), fields), exact, eager)
        modes.append(gs.explain(fast).mode)
    assert set(gs.explain(fast).code_paths.values()) == {"kernel"}
    if name == "molecules":
        assert modes == ["region", "whole", "whole"], gs.explain(fast).mode_reason


@WITHOUT_DGL
@pytest.mark.dgl_live
@pytest.mark.parametrize(
    ("name", "arguments", "mode"),
    [
        ("SumPooling", (), "whole"),
        ("AvgPooling", (), "whole"),
        ("MaxPooling", (), "whole"),
        ("GlobalAttentionPooling", (torch.nn.Linear(3, 1),), "whole"),
        ("WeightAndSum", (3,), "whole"),
        ("Set2Set", (3, 2, 1), "region"),
    ],
)
def test_pooling_modules_of_dgl(name, arguments, mode):
    """They call DGL's readouts on DGL's batch; what is in kernels is theirs, unchanged."""
    module = getattr(DGL.nn, name)(*arguments)
    g, fields = make_batch(DGL, "molecules", torch.float32)
    fast = gs.compile(module, fallback="error")
    expected = with_gradients({"out": module(g, fields[0])}, fields[:1])
    for _ in range(3):
        found = with_gradients({"out": fast(g, fields[0])}, fields[:1])
        torch.testing.assert_close(found, expected)
    assert gs.explain(fast).mode == mode
    assert set(gs.explain(fast).code_paths.values()) == {"kernel"}


def test_one_program_for_batches_of_all_sizes():
    """Another batch, with another number of graphs, is no reason to compile again."""

    def model(g, x):
        with g.local_scope():
            g.ndata["x"] = x
            g.update_all(lambda e: {"m": e.src["x"]}, lambda n: {"x": n.mailbox["m"].mean(1)})
            return ours.sum_nodes(g, "x")

    fast = gs.compile(model, fallback="error")
    for number in (3, 7, 5, 4):
        size = 2 * number
        g = gs.batch([gs.graph(([0, 1, 2], [1, 2, 3]), num_nodes=4)] * size)
        x = torch.randn(4 * size, 2)
        torch.testing.assert_close(fast(g, x), model(g, x))
    assert gs.explain(fast).mode == "whole"
    assert len(gs.explain(fast).programs) == 3  # the layer, the readout, and both at once


def test_an_argument_with_a_row_for_each_graph():
    def model(g, x, row):
        with g.local_scope():
            g.ndata["x"] = x
            g.ndata["y"] = x * ours.broadcast_nodes(g, row)
            return ours.sum_nodes(g, "y") + row

    fast = gs.compile(model, fallback="error")
    for number in (3, 4, 5):
        g = gs.batch([gs.graph(([0, 0], [1, 2]), num_nodes=7)] * number)
        x, row = torch.randn(7 * number, 2), torch.randn(number, 2)
        torch.testing.assert_close(fast(g, x, row), model(g, x, row))
    assert gs.explain(fast).mode == "whole"


def test_a_question_about_the_batch_stays_in_python():
    def model(g, x):
        g.ndata["x"] = x
        out = ours.sum_nodes(g, "x")
        return out if g.batch_size > 1 else out * 2

    fast = gs.compile(model, fallback="error")
    for number in (1, 2, 1, 2):
        g = gs.batch([gs.graph(([0, 1], [1, 2]))] * number)
        x = torch.randn(3 * number, 2)
        torch.testing.assert_close(fast(g, x), model(g, x))
    assert gs.explain(fast).mode == "region"


# --- batches --------------------------------------------------------------------------------------


def test_the_relation_to_the_graphs_is_kept():
    g, _ = make_batch(ours, "molecules")
    assert g._node_members(0).structure is g.local_var()._node_members(0).structure
    again = pickle.loads(pickle.dumps(g))
    assert torch.equal(again.batch_num_nodes(), g.batch_num_nodes())
    offsets, rows, edges = g._node_members(0).structure.in_csr()
    assert offsets.tolist() == [0, 3, 6, 8]
    assert rows.tolist() == edges.tolist() == list(range(8))


@WITHOUT_DGL
@pytest.mark.dgl_live
def test_the_relation_to_the_graphs_is_kept_for_dgl():
    g, _ = make_batch(DGL, "molecules")
    first = gs.from_dgl(g)._node_members(0)
    assert gs.from_dgl(g)._node_members(0) is first
    g.set_batch_num_nodes(torch.tensor([4, 4]))
    assert gs.from_dgl(g)._node_members(0).counts.tolist() == [4, 4]


class _Graphs(torch.utils.data.Dataset):
    """Paths of 1 to 6 nodes."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        g = gs.graph((torch.arange(index), torch.arange(1, index + 1)), num_nodes=index + 1)
        g.ndata["x"] = torch.full((index + 1, 2), float(index))
        return g


def test_a_data_loader_with_workers():
    """Workers (forked) batch graphs and hand them over."""
    loader = torch.utils.data.DataLoader(
        _Graphs(), batch_size=3, num_workers=2, collate_fn=gs.batch, multiprocessing_context="fork"
    )
    fast = gs.compile(lambda g: ours.sum_nodes(g, "x"), fallback="error")
    batches = list(loader)
    sums = torch.cat([fast(g) for g in batches])
    assert sums[:, 0].tolist() == [i * (i + 1) for i in range(6)]
    assert [g.num_edges() for g in batches] == [3, 12]
