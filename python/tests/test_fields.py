"""Fields: copies stay copies, deferred columns are never stale, what stays on a graph is right."""

from __future__ import annotations

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


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
def test_a_deferred_field_has_the_grad_mode_of_the_call(grad):
    """Not of the read: eager computes the field during the call."""
    g, h = make_graph(), H.clone().requires_grad_()
    with torch.set_grad_enabled(grad):
        gs.compile(_leaves_message, fallback="error")(g, h)
    with torch.set_grad_enabled(not grad):
        assert g.edata["e"].requires_grad is grad
