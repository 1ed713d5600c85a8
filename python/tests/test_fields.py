"""Fields: copies stay copies, deferred columns are never stale, what stays on a graph is right."""

from __future__ import annotations

import copy

import pytest
import torch

import gossamer as gs
from programs.twins import H, assert_twins, call, copy_h, mail_sum, make_graph, once


def test_messages_are_copies():
    """In-place edits of gathered rows never reach the features."""

    def message(edges):
        rows = edges.src["h"]
        rows += 1
        return {"m": rows}

    h = H.clone()
    assert_twins(once(message, mail_sum), h)
    assert torch.equal(h, H)


def test_a_result_named_like_its_input_reads_the_old_rows():
    def layer(g, h):
        g.ndata["h"] = h
        g.update_all(copy_h, lambda nodes: {"h": nodes.mailbox["m"].sum(1) + nodes.data["h"]})
        return g.ndata["h"]

    assert_twins(layer, H, fallback="error")


def test_fields_outlive_the_call_and_feed_the_next():
    def layer(g, h):
        if "total" not in g.ndata:
            g.ndata["total"] = h
        g.ndata["h"] = g.ndata["total"]
        g.update_all(copy_h, lambda nodes: {"total": nodes.mailbox["m"].mean(1)})
        return g.ndata["total"]

    eager, compiled = make_graph(), make_graph()
    fast = gs.compile(layer, fallback="error")
    for _ in range(3):
        torch.testing.assert_close(call(fast, compiled, H), call(layer, eager, H))


def _leaves_message(g, h):
    g.ndata["h"] = h
    g.apply_edges(lambda edges: {"e": edges.src["h"] * edges.dst["h"]})
    g.update_all(lambda edges: {"m": edges.data["e"]}, mail_sum)
    return g.ndata["o"]


def test_a_deferred_field_whose_input_changed_is_not_read_silently():
    h, g = H.clone(), make_graph()
    gs.compile(_leaves_message, fallback="error")(g, h)
    assert "e" in g.edata
    h.add_(1)
    with pytest.raises(gs.errors.StaleFieldError, match="keep_fields=True"):
        g.edata["e"]


def test_keep_fields_computes_during_the_call():
    h, g = H.clone(), make_graph()
    gs.compile(_leaves_message, fallback="error", keep_fields=True)(g, h)
    h.add_(1)
    u, v = g.edges()
    torch.testing.assert_close(g.edata["e"], H[u] * H[v])


class LeavesScores(torch.nn.Module):
    """Leaves a field that depends on parameters and on another field that is left."""

    def __init__(self):
        super().__init__()
        self.score = torch.nn.Linear(H.shape[1], 2).double()
        self.scale = torch.nn.Parameter(torch.full((2,), 0.5, dtype=H.dtype))

    def forward(self, g, h):
        g.ndata["h"] = h
        g.apply_edges(lambda edges: {"s": self.score(edges.src["h"] * edges.dst["h"])})
        g.apply_edges(lambda edges: {"e": torch.tanh(edges.data["s"] * self.scale)})
        g.update_all(lambda edges: {"m": edges.data["e"]}, mail_sum)
        return g.ndata["o"]


def test_a_deferred_field_has_the_parameters_of_its_forward():
    """The optimizer steps before it is read; its gradients are at the old parameters, too."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LeavesScores()
    fast = gs.compile(copy.deepcopy(model), fallback="error")
    found = []
    for layer in (model, fast):
        optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
        for _ in range(4):
            g = make_graph()
            optimizer.zero_grad()
            layer(g, H).square().sum().backward()
            optimizer.step()
            found.append((g.edata["s"].detach().clone(), g.edata["e"].detach().clone()))
        if layer is fast:  # eager gradients at old parameters are torch's error
            g.edata["s"].sum().backward()
    for actual, expected in zip(found[4:], found[:4], strict=True):
        torch.testing.assert_close(actual, expected)
    before = model.score.bias.grad
    torch.testing.assert_close(fast.score.bias.grad, before + g.num_edges())


def test_a_large_parameter_is_not_copied_for_a_deferred_field():
    g, weight = make_graph(), torch.nn.Parameter(torch.ones(600, 600, dtype=H.dtype))

    def layer(g, h):
        g.ndata["h"] = h
        g.apply_edges(lambda edges: {"e": edges.src["h"] * weight[0, 0]})
        g.update_all(copy_h, mail_sum)
        return g.ndata["o"]

    gs.compile(layer, fallback="error")(g, H)
    with torch.no_grad():
        weight.add_(1)
    with pytest.raises(gs.errors.StaleFieldError):
        g.edata["e"]


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
def test_a_deferred_field_has_the_grad_mode_of_the_call(grad):
    """Not of the read: eager computes the field during the call."""
    g, h = make_graph(), H.clone().requires_grad_()
    with torch.set_grad_enabled(grad):
        gs.compile(_leaves_message, fallback="error")(g, h)
    with torch.set_grad_enabled(not grad):
        assert g.edata["e"].requires_grad is grad
