"""Rows by number: numbers outside of the table, sums by number, gradients of gradients."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gossamer as gs
from programs import ALL, PAIRS
from programs.harness import compiled
from programs.library import gossamer_library
from programs.threads import threads
from programs.training import assert_close, random_graph, rows

DTYPE = torch.float64
NODES, EDGES, TYPES, WIDTH = 12, 40, 3, 4


class Typed(nn.Module):
    """Messages that depend on the type of their edge; `message` gets the weight."""

    def __init__(self, message, weight, reduce=None):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.function, self.reduce_function = message, reduce

    def message(self, edges):
        return {"m": self.function(self.weight, edges)}

    def reduce(self, nodes):
        if self.reduce_function is not None:
            return {"o": self.reduce_function(self.weight, nodes)}
        return {"o": nodes.mailbox["m"].sum(1)}

    def forward(self, g, x, t, label=None):
        with g.local_scope():
            g.ndata["x"], g.edata["t"] = x, t
            if label is not None:
                g.ndata["label"] = label
            g.update_all(self.message, self.reduce)
            return g.ndata["o"]


def weight_of(*shape, dtype=DTYPE):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2), dtype=dtype)


def types_of(count=EDGES, types=TYPES):
    return torch.randint(types, (count,), generator=torch.Generator().manual_seed(3))


def by_bmm(weight, edges):
    return torch.bmm(edges.src["x"].unsqueeze(1), weight[edges.data["t"]]).squeeze(1)


def by_row(weight, edges):
    return edges.src["x"] * weight[edges.data["t"]]  # a row of the weight


def pair_of(message, weight, reduce=None):
    model = Typed(message, weight, reduce)
    return model, gs.compile(copy.deepcopy(model), fallback="error")


# --- numbers outside of the table -----------------------------------------------------------------


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("number", [3, -4, 2**62])
def test_a_number_outside_of_the_table_is_an_index_error(number, train):
    """As eagerly; it names line, number and row. The next call is as good as any."""
    model, fast = pair_of(by_row, weight_of(TYPES, WIDTH))
    g, x, t = random_graph(), rows().requires_grad_(train), types_of()
    bad = t.clone()
    bad[7] = number
    for _ in range(3):  # region mode, then whole
        with pytest.raises(IndexError):
            model(g, x, bad)
        with pytest.raises(IndexError, match=rf"test_lookups\.py:\d+: .* is {number} in row 7"):
            fast(g, x, bad)
        torch.testing.assert_close(fast(g, x, t), model(g, x, t))


def test_the_message_says_what_would_be_right():
    _, fast = pair_of(by_row, weight_of(TYPES, WIDTH))
    t = types_of()
    t[7] = 3
    place = f"{by_row.__code__.co_filename}:{by_row.__code__.co_firstlineno + 1}"
    want = f"{place}: field 't' is 3 in row 7, but the table has 3 rows, 0 to 2, or -3 to -1"
    with pytest.raises(IndexError) as caught:
        fast(random_graph(), rows(), t)
    assert want in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        lambda weight, edges: F.embedding(edges.data["t"], weight),
        lambda weight, edges: weight.index_select(0, edges.data["t"]),
    ],
    ids=["embedding", "index_select"],
)
def test_an_embedding_does_not_count_from_the_end(message):
    model, fast = pair_of(message, weight_of(TYPES, WIDTH))
    t = types_of()
    t[0] = -1
    for layer in (model, fast):
        with pytest.raises((IndexError, RuntimeError)):
            layer(random_graph(), rows(), t)
    with pytest.raises(IndexError, match="field 't' is -1 in row 0"):
        fast(random_graph(), rows(), t)


def test_a_computed_number_is_checked_too():
    model, fast = pair_of(
        lambda weight, edges: weight[2 * edges.data["t"]], weight_of(TYPES, WIDTH)
    )
    g, t = random_graph(), torch.zeros(EDGES, dtype=torch.int64)
    torch.testing.assert_close(fast(g, rows(), t), model(g, rows(), t))
    t[5] = 2
    with pytest.raises(IndexError, match="the index is 4 in row 5"):
        fast(g, rows(), t)


def test_numbers_that_nobody_reads_are_free():
    """A node without out-edges, or without messages, may have any label."""
    g = gs.graph((torch.tensor([0, 1, 1]), torch.tensor([1, 2, 2])), num_nodes=4)
    model, fast = pair_of(
        lambda weight, edges: weight[edges.src["label"]] * edges.src["x"],
        weight_of(TYPES, WIDTH),
        lambda weight, nodes: nodes.mailbox["m"].sum(1) * weight[nodes.data["label"]],
    )
    x, t = rows(4), types_of(3)
    free = torch.tensor([2, 1, 0, 99])
    for _ in range(3):
        torch.testing.assert_close(fast(g, x, t, free), model(g, x, t, free))
    for node in (0, 2):  # read by an edge, and after the reduction
        read = free.clone()
        read[node] = 99
        with pytest.raises(IndexError):
            model(g, x, t, read)
        with pytest.raises(IndexError, match=" is 99 in row"):
            fast(g, x, t, read)


# --- gradients ------------------------------------------------------------------------------------

MESSAGES = {"row": (by_row, (TYPES, WIDTH)), "bmm": (by_bmm, (TYPES, WIDTH, WIDTH))}


@pytest.mark.parametrize("name", MESSAGES)
def test_gradients_of_gradients(name):
    message, shape = MESSAGES[name]
    model, fast = pair_of(message, weight_of(*shape))
    g, t, found = random_graph(), types_of(), []
    for layer in (model, fast):
        x = rows().requires_grad_()
        leaves = (x, layer.weight)
        out = layer(g, x, t).square().sum()
        first = torch.autograd.grad(out, leaves, create_graph=True)
        found.append((*first, *torch.autograd.grad(sum(f.square().sum() for f in first), leaves)))
    for mine, right in zip(*reversed(found), strict=True):
        assert_close(mine, right)


@pytest.mark.parametrize("name", MESSAGES)
def test_gradcheck(name):
    message, shape = MESSAGES[name]
    _, fast = pair_of(message, weight_of(*shape))
    g, x, t = random_graph(), rows().requires_grad_(), types_of()
    assert torch.autograd.gradcheck(lambda x, weight: fast(g, x, t), (x, fast.weight))
    assert torch.autograd.gradgradcheck(lambda x: fast(g, x, t), (x,))


@pytest.mark.parametrize(
    "name", ["census-rgcn", *(p.name for p in ALL if p.name.startswith("lookup-"))]
)
def test_the_compiler_makes_the_gradients(name):
    """No row of an edge but an index is stored, and nothing falls back."""
    program = next(p for p in ALL if p.name == name)
    case = next(case for owner, case in PAIRS if owner is program)
    fast = compiled(program, gossamer_library(), program.feat, DTYPE)
    inputs = [
        x.requires_grad_(x.is_floating_point()) for x in program.inputs(case, program.feat, DTYPE)
    ]
    out = fast(*case.build(gossamer_library()), *inputs)
    sum(value.sum() for value in (out.values() if isinstance(out, dict) else [out])).backward()
    report = gs.explain(fast)
    assert report.fallbacks == []
    assert "backward" in {item.entry for item in report.programs}
    edges = [b for b in report.buffers if b.rows == "edges" and b.lifetime != "output"]
    assert all(b.shape == () and b.dtype.startswith("int") for b in edges)


@pytest.mark.parametrize(
    ("types", "dtype"), [(3, DTYPE), (70, torch.float32), (5000, torch.float32)]
)
def test_sums_by_number_of_any_size(types, dtype):
    """In runs of rows and in the table itself; to the same bits on any number of threads."""
    random = torch.Generator().manual_seed(4)
    ends = torch.randint(3000, (2, 20000), generator=random)
    g = gs.graph((ends[0], ends[1]), num_nodes=3000)
    x, t = rows(3000, 16), types_of(20000, types)
    model, _ = pair_of(by_row, weight_of(types, 16))
    upstream = rows(3000, 16, seed=5)
    (expected,) = torch.autograd.grad(model(g, x, t), model.weight, upstream)
    _, fast = pair_of(by_row, weight_of(types, 16).to(dtype))
    found = []
    for count in (1, 2, 5):
        with threads(count):
            out = fast(g, x.to(dtype), t)
            found += torch.autograd.grad(out, fast.weight, upstream.to(dtype))
    assert_close(found[0].double(), expected, 1e-12 if dtype == DTYPE else 1e-5)
    assert all(torch.equal(found[0], other) for other in found[1:])


# Edges, nodes, numbers in the table, numbers that edges have.
OUTER_PRODUCTS = {
    "no-edges": (0, 5, 3, [0]),
    "one-edge": (1, 2, 3, [1]),
    "one-number": (500, 40, 3, [2]),
    "absent-numbers": (500, 40, 9, [0, 3, 8, -2]),
    "many-numbers": (1500, 100, 400, range(-400, 400)),
    "many-parts": (9000, 600, 5, range(5)),
    "one-matrix": (500, 40, 1, [0]),
}


@pytest.mark.parametrize("dtype", [DTYPE, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("name", OUTER_PRODUCTS)
def test_outer_products_by_number(name, dtype):
    """Gradients of matrices by number, wide enough to wait in queues, and with a ragged end; to
    the same bits on any number of threads.
    """
    edges, nodes, types, found_types = OUTER_PRODUCTS[name]
    random = torch.Generator().manual_seed(4)
    ends = torch.randint(nodes, (2, edges), generator=random)
    g = gs.graph((ends[0], ends[1]), num_nodes=nodes)
    t = torch.tensor(found_types)[torch.randint(len(found_types), (edges,), generator=random)]
    x, upstream = rows(nodes, 21), rows(nodes, 19, seed=5)
    model, _ = pair_of(by_bmm, weight_of(types, 21, 19))
    _, fast = pair_of(by_bmm, weight_of(types, 21, 19).to(dtype))
    found = []
    for layer, count in ((model, 1), (fast, 1), (fast, 2), (fast, 5)):
        kind = layer.weight.dtype
        leaves = (x.to(kind).requires_grad_(), layer.weight)
        with threads(count):
            out = layer(g, leaves[0], t)
            gradients = (
                torch.autograd.grad(
                    out, leaves, upstream.to(kind), allow_unused=True, materialize_grads=True
                )
                if out.requires_grad
                else [torch.zeros_like(leaf) for leaf in leaves]
            )
        found.append(gradients)
    for right, mine, *others in zip(*found, strict=True):
        assert_close(mine.double(), right, 1e-12 if dtype == DTYPE else 1e-5)
        assert all(torch.equal(mine, other) for other in others)


def assert_same_gradients(model, fast):
    """Those of x and the weight, on numbers of edges and of nodes."""
    g, t, label, found = random_graph(), types_of(), types_of(NODES), []
    for layer in (model, fast):
        x = rows(NODES, 12).requires_grad_()
        out = layer(g, x, t, label)
        found.append(torch.autograd.grad(out.square().sum(), (x, layer.weight)))
    for right, mine in zip(*found, strict=True):
        assert_close(mine, right)


@pytest.mark.parametrize(
    "message",
    [
        lambda w, e: (e.src["x"].unsqueeze(2) * w[e.data["t"]]).sum(1) * e.src["x"][:, :1],
        lambda w, e: torch.einsum("ei,eio->eo", torch.tanh(e.src["x"]), w[e.data["t"]]),
        lambda w, e: torch.einsum("eo,eio->ei", e.src["x"], w[e.data["t"]]),
        lambda w, e: torch.einsum("ei,eio->eo", e.dst["x"], w[e.src["label"]]),
        lambda w, e: torch.einsum("ei,eio->eo", e.src["x"], w[e.data["t"]] * w[e.data["t"]]),
        lambda w, e: torch.einsum("ei,eio->eo", e.src["x"], torch.tanh(w[e.data["t"]])),
        lambda w, e: torch.einsum(
            "ehi,ehio->eho", e.src["x"].unflatten(1, (3, 4)), w.unflatten(1, (3, 4))[e.data["t"]]
        ).flatten(1),
    ],
    ids=["sum", "computed", "transposed", "label", "square", "tanh", "heads"],
)
def test_matrices_by_number_however_written(message):
    """Whether their gradients are outer products or not."""
    model, fast = pair_of(message, weight_of(TYPES, 12, 12))
    assert_same_gradients(model, fast)


def test_matrices_by_number_of_nodes():
    """The rows that are multiplied are those of nodes."""
    model, fast = pair_of(
        lambda weight, edges: edges.src["x"],
        weight_of(TYPES, 12, 12),
        lambda weight, nodes: torch.bmm(
            nodes.mailbox["m"].sum(1).unsqueeze(1), weight[nodes.data["label"]]
        ).squeeze(1),
    )
    assert_same_gradients(model, fast)


def test_one_bad_gradient_stays_with_its_type():
    """NaN of one edge is no matter of the other types."""
    model, fast = pair_of(by_row, weight_of(TYPES, WIDTH))
    g, x, t = random_graph(), rows(), types_of()
    upstream = torch.zeros(NODES, WIDTH, dtype=DTYPE)
    upstream[int(g.edges()[1][0])] = float("nan")
    for layer in (model, fast):
        layer(g, x, t).backward(upstream)
    assert torch.equal(fast.weight.grad.isnan(), model.weight.grad.isnan())


def test_the_padding_row_gets_no_gradient():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(TYPES, WIDTH, padding_idx=-1, dtype=DTYPE)

        def forward(self, g, t):
            with g.local_scope():
                g.edata["t"] = t
                g.update_all(
                    lambda edges: {"m": torch.tanh(self.embedding(edges.data["t"]) + 1)},
                    lambda nodes: {"o": nodes.mailbox["m"].sum(1)},
                )
                return g.ndata["o"]

    model = Padded()
    fast = gs.compile(copy.deepcopy(model), fallback="error")
    for layer in (model, fast):
        layer(random_graph(), types_of()).square().sum().backward()
    assert_close(fast.embedding.weight.grad, model.embedding.weight.grad)
    assert not fast.embedding.weight.grad[-1].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_tables_in_16_bits(dtype):
    model, fast = pair_of(by_row, weight_of(TYPES, WIDTH).to(dtype))
    g, x, t = random_graph(), rows().to(dtype), types_of()
    torch.testing.assert_close(fast(g, x, t), model(g, x, t), rtol=0.05, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_gradients_of_matrices_in_16_bits(dtype):
    """Beside float64 on the same rounded numbers: off by roundings of what is stored only."""
    model, _ = pair_of(by_bmm, weight_of(TYPES, 12, 20).to(dtype).to(DTYPE))
    _, fast = pair_of(by_bmm, weight_of(TYPES, 12, 20).to(dtype))
    g, t, found = random_graph(), types_of(), []
    for layer in (model, fast):
        kind = layer.weight.dtype
        x = rows(NODES, 12).to(dtype).to(kind).requires_grad_()
        upstream = rows(NODES, 20, seed=5).to(dtype).to(kind)
        found.append(torch.autograd.grad(layer(g, x, t), (x, layer.weight), upstream))
    for right, mine in zip(*found, strict=True):
        assert mine.dtype == dtype
        assert_close(mine.to(DTYPE), right, 2 * torch.finfo(dtype).eps)


# --- what stays eager -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (lambda w, e: w[e.data["t"], e.data["t"]].unsqueeze(1), "an axis other than the first"),
        (lambda w, e: w[:, e.data["t"]].t(), "an axis other than the first"),
        (lambda w, e: F.embedding(e.data["t"], w, sparse=True), "gradient is sparse"),
        (lambda w, e: F.embedding(e.data["t"], w, scale_grad_by_freq=True), "by frequency"),
    ],
    ids=["two", "second_axis", "sparse", "by_frequency"],
)
def test_other_indexing_runs_eagerly_with_a_reason(message, reason):
    model = Typed(message, weight_of(TYPES, TYPES))
    fast = gs.compile(copy.deepcopy(model), fallback="eager")
    g, x, t = random_graph(), rows(), types_of()
    with pytest.warns(gs.FallbackWarning, match=reason):
        torch.testing.assert_close(fast(g, x, t), model(g, x, t))
