"""Random graphs, small random programs: ours, DGL and a loop agree, with gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_libs import OURS, WITHOUT_DGL, Library, equal

MESSAGES = {
    "copy": lambda e: {"m": e.src["x"]},
    "both ends": lambda e: {"m": torch.sin(e.src["x"]) * e.dst["x"]},
    "edge": lambda e: {"m": e.src["x"] * e.data["w"] - e.dst["x"]},
}
REDUCERS = {
    "sum": lambda n: {"h": n.mailbox["m"].sum(1)},
    "softmax": lambda n: {"h": (n.mailbox["m"].softmax(1) * n.mailbox["m"]).sum(1)},
    "first": lambda n: {"h": n.mailbox["m"][:, 0] + n.data["x"]},
    "last": lambda n: {"h": n.mailbox["m"][:, -1]},
    "spread": lambda n: {"h": n.mailbox["m"].var(1, unbiased=False) * n.mailbox["m"].shape[1]},
}


class Row:
    """One node's or edge's view in the loop: the same functions, a batch of one."""

    def __init__(self, **frames):
        self.__dict__.update(frames)


def by_hand(src, dst, x, w, message, reduce):
    rows = []
    for node in range(x.shape[0]):
        mail = []
        for edge in range(len(src)):
            if dst[edge] == node:
                ends = {"src": {"x": x[src[edge]][None]}, "dst": {"x": x[node][None]}}
                mail.append(message(Row(**ends, data={"w": w[edge][None]}))["m"])
        if not mail:
            rows.append(torch.zeros(1, x.shape[1], dtype=x.dtype))
            continue
        batch = Row(data={"x": x[node][None]}, mailbox={"m": torch.stack(mail, 1)})
        rows.append(reduce(batch)["h"])
    return torch.cat(rows)


def by_graph(lib, src, dst, x, w, message, reduce):
    g = lib.graph((torch.tensor(src), torch.tensor(dst)), num_nodes=x.shape[0])
    g.ndata["x"], g.edata["w"] = x, w
    g.update_all(message, reduce)
    return g.ndata["h"]


@st.composite
def programs(draw):
    nodes = draw(st.integers(1, 20))
    ends = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=40))
    src, dst = (list(part) for part in zip(*edges, strict=True))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    x = torch.randn(nodes, 3, dtype=torch.float64, generator=generator)
    w = torch.randn(len(src), 1, dtype=torch.float64, generator=generator)
    message = draw(st.sampled_from(sorted(MESSAGES)))
    reduce = draw(st.sampled_from(sorted(REDUCERS)))
    return src, dst, x, w, MESSAGES[message], REDUCERS[reduce]


def with_gradients(run, src, dst, x, w, message, reduce):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    result = run(src, dst, x, w, message, reduce)
    if result.requires_grad:
        result.square().sum().backward()
    zero = torch.zeros(())
    return result.detach(), *(t.grad if t.grad is not None else zero for t in (x, w))


LIBRARIES = [
    pytest.param(OURS, id="gossamer"),
    pytest.param(Library("dgl"), id="dgl", marks=[WITHOUT_DGL, pytest.mark.dgl_live]),
]


@pytest.mark.parametrize("lib", LIBRARIES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(program=programs())
def test_random_programs(lib, program):
    expected = with_gradients(by_hand, *program)
    actual = with_gradients(lambda *args: by_graph(lib, *args), *program)
    for got, want in zip(actual, expected, strict=True):
        equal(got, want)
