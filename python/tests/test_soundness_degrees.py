"""Nothing is decided by a size hint: degrees, row counts and structure are those of each call."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import gossamer as gs
from programs.twins import (
    BY_NAME,
    Model,
    assert_twins,
    call,
    copy_h,
    mail_sum,
    make_graph,
    once,
    parameters,
    signed,
)


def degree_equals_one(nodes):
    m = nodes.mailbox["m"]
    D = m.shape[1]
    if D == 1:
        return {"o": m[:, 0] * 100}
    return {"o": m.std(1)}


def degree_over_three(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.sum(1) if m.shape[1] > 3 else -m.sum(1)}


def top_five(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.topk(min(5, m.shape[1]), dim=1)[0].mean(1)}


def log_degree(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.mean(1) * math.log(m.shape[1] + 1)}


def root_degree(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.sum(1) / math.sqrt(m.size(1))}


def numpy_log_degree(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.mean(1) * np.log(m.shape[1] + 1)}


def degree_as_a_number(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.sum(1) * m.shape[1] + 1 / m.size(1)}


def degree_as_a_float(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.sum(1) / float(m.shape[1])}


def degree_squeezed(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.squeeze(1) if m.dim() == 3 and m.size(1) == 1 else m.sum(1) * 3}


def unrolled(nodes):
    m = nodes.mailbox["m"]
    state = torch.zeros_like(m[:, 0])
    for row in m.unbind(1):
        state = torch.tanh(row + state)
    return {"o": state}


def constant_filled(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.sum(1) + torch.full((len(nodes), 1), m.shape[1], dtype=m.dtype)}


def largest_of_bucket(nodes):
    m = nodes.mailbox["m"]
    return {"o": m.sum(1) / m.max()}


def minus_mean_of_bucket(nodes):
    m = nodes.mailbox["m"]
    return {"o": (m - m.mean()).abs().sum(1)}


def softmax_over_rows(nodes):
    return {"o": nodes.mailbox["m"].sum(1).softmax(0)}


def sorted_rows(nodes):
    return {"o": nodes.mailbox["m"].sum(1).cumsum(0)}


DEGREE_REDUCERS = (
    degree_equals_one,
    degree_over_three,
    top_five,
    log_degree,
    root_degree,
    numpy_log_degree,
    degree_as_a_number,
    degree_as_a_float,
    degree_squeezed,
    unrolled,
    constant_filled,
    largest_of_bucket,
    minus_mean_of_bucket,
    softmax_over_rows,
    sorted_rows,
)
DEGREE_GRAPHS = tuple(
    BY_NAME[name] for name in ("power_law", "chain", "regular4", "small_star", "one_node_loop")
)


def _rows(case):
    return signed(case.num_src, 3)


@pytest.mark.parametrize("reduce", DEGREE_REDUCERS, ids=lambda f: f.__name__)
def test_reducers_that_look_at_the_bucket(reduce):
    """One compiled layer on graphs of quite different degrees, in both orders.

    Rows inside a bucket are sorted by node on both sides, so an op that mixes them compares too.
    """
    layer = once(copy_h, reduce)
    fast = gs.compile(layer)
    for case in DEGREE_GRAPHS + DEGREE_GRAPHS[::-1]:
        expected, actual = (
            call(layer, make_graph(case), _rows(case)),
            call(fast, make_graph(case), _rows(case)),
        )
        torch.testing.assert_close(actual["out"], expected["out"], rtol=1e-12, atol=1e-12)


def length_of_edges(edges):
    return {"m": edges.src["h"] / len(edges)}


def one_edge_differs(edges):
    h = edges.src["h"]
    return {"m": h * 10 if h.shape[0] == 1 else h}


def squeezed_rows(edges):
    return {"m": edges.src["h"].unsqueeze(0).squeeze(0) + edges.batch_size()}


def all_edges_at_once(edges):
    h = edges.src["h"]
    return {"m": (h - h.mean(0)) / h.max()}


def viewed_by_length(edges):
    h = edges.src["h"]
    return {"m": h.view(len(edges), -1) * torch.ones(h.shape[0], 1, dtype=h.dtype)}


@pytest.mark.parametrize(
    "message",
    [length_of_edges, one_edge_differs, squeezed_rows, all_edges_at_once, viewed_by_length],
    ids=lambda f: f.__name__,
)
def test_messages_that_look_at_the_number_of_edges(message):
    layer = once(message, mail_sum)
    fast = gs.compile(layer)
    names = ("power_law", "one_node_loop", "chain", "power_law", "one_node_loop")
    for case in (BY_NAME[name] for name in names):
        expected = call(layer, make_graph(case), _rows(case))
        actual = call(fast, make_graph(case), _rows(case))
        torch.testing.assert_close(actual["out"], expected["out"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["gru", "lstm", "rnn"])
def test_a_recurrent_network_over_the_mailbox(kind):
    class Recurrent(Model):
        def __init__(self):
            super().__init__()
            self.rnn = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}[kind](3, 3, batch_first=True)
            parameters(self)

        def reduce(self, nodes):
            return {"o": self.rnn(nodes.mailbox["m"])[0][:, -1]}

    model = Recurrent()
    fast = gs.compile(model)
    for case in DEGREE_GRAPHS:
        expected = call(model, make_graph(case), _rows(case))
        actual = call(fast, make_graph(case), _rows(case))
        torch.testing.assert_close(actual["out"], expected["out"], rtol=1e-12, atol=1e-12)


def test_bias_and_activation_do_not_reach_isolated_nodes():
    class Biased(Model):
        def reduce(self, nodes):
            return {"o": torch.sigmoid(nodes.mailbox["m"].sum(1) @ self.linear.weight + 3.0)}

    model = Biased()
    case = BY_NAME["zero_in_degree"]
    assert_twins(model, signed(case.num_src, 3), case=case, fallback="error")
    out = call(gs.compile(model, fallback="error"), make_graph(case), signed(case.num_src, 3))
    isolated = torch.from_numpy(case.degrees == 0)
    assert isolated.any()
    assert not out["out"][isolated].any()


def test_the_initializer_fills_isolated_nodes():
    layer = once(copy_h, mail_sum)
    case = BY_NAME["zero_in_degree"]
    g = make_graph(case)
    g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 7.0, dtype=dtype), "o")
    out = call(gs.compile(layer), g, signed(case.num_src, 3))["out"]
    isolated = torch.from_numpy(case.degrees == 0)
    assert (out[isolated] == 7).all()
    torch.testing.assert_close(out, call(layer, g, signed(case.num_src, 3))["out"])


def test_structure_predicates_are_evaluated_on_every_call():
    def layer(g, h):
        if (g.in_degrees() == 0).any():
            raise ValueError("isolated node")
        return once(copy_h, mail_sum)(g, h / g.in_degrees().to(h.dtype).unsqueeze(1))

    fast = gs.compile(layer, fallback="error")
    for case in (BY_NAME["regular4"], BY_NAME["self_loops"], BY_NAME["regular4"]):
        expected = call(layer, make_graph(case), _rows(case))["out"]
        torch.testing.assert_close(call(fast, make_graph(case), _rows(case))["out"], expected)
    with pytest.raises(ValueError, match="isolated node"):
        fast(make_graph(BY_NAME["chain"]), _rows(BY_NAME["chain"]))
