"""Graphs without edges, deferred columns, engines and shadows: where DGL differs or has nothing."""

from __future__ import annotations

import pytest
import torch

import gossamer as gs
from gossamer.eager import EAGER, EagerEngine
from gossamer.udf import EdgeBatch, LazyFrame, NodeBatch
from graph_libs import OURS, copy_x, equal, hetero, small, sum_m


class Later:
    """A deferred column that counts how often it is computed."""

    def __init__(self, tensor):
        self.shape, self.dtype, self.tensor, self.calls = tensor.shape, tensor.dtype, tensor, 0

    def materialize(self):
        self.calls += 1
        return self.tensor


class Counting(EagerEngine):
    def __init__(self):
        self.calls = []

    def update_all(self, graph, relation_index, message, reduce, apply=None):
        self.calls.append(("update_all", graph.relation(relation_index).canonical_etype[1]))
        super().update_all(graph, relation_index, message, reduce, apply)

    def apply_edges(self, graph, relation_index, func):
        self.calls.append(("apply_edges", graph.relation(relation_index).canonical_etype[1]))
        super().apply_edges(graph, relation_index, func)

    def apply_nodes(self, graph, ntype_index, func):
        self.calls.append(("apply_nodes", graph.ntypes[ntype_index]))
        super().apply_nodes(graph, ntype_index, func)

    def edge_softmax(self, graph, relation_index, logits, norm_by="dst"):
        self.calls.append(("edge_softmax", norm_by))
        return super().edge_softmax(graph, relation_index, logits, norm_by)


def without_edges():
    g = gs.graph(([], []), num_nodes=3)
    g.ndata["x"] = torch.randn(3, 2)
    return g


# --- no edges ------------------------------------------------------------------------------------


def test_every_field_of_the_reducer_is_written_without_edges():
    g = without_edges()
    g.ndata["h"] = torch.ones(3, 2)
    g.set_n_initializer(lambda shape, dtype, device, rows: torch.full(shape, 5, dtype=dtype), "k")

    def reduce(nodes):
        mail = nodes.mailbox["m"]
        assert nodes.nodes().shape == (len(nodes),)
        return {
            "h": mail.sum(1) + nodes.data["x"],
            "k": mail.argmax(1),
            "w": mail.repeat(1, 1, 3)[:, 0],
        }

    g.update_all(copy_x, reduce)
    equal(g.ndata["h"], torch.zeros(3, 2))
    equal(g.ndata["k"], torch.full((3, 2), 5))
    assert g.ndata["w"].shape == (3, 6)


def test_the_sample_call_for_no_edges_leaves_random_state_alone():
    g = without_edges()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    g.update_all(copy_x, lambda nodes: {"h": torch.rand(len(nodes), 1)})
    equal(torch.rand(2), expected)


def test_apply_function_without_edges():
    g = without_edges()
    g.update_all(copy_x, sum_m, lambda nodes: {"h": nodes.data["h"] + nodes.data["x"]})
    equal(g.ndata["h"], g.ndata["x"])


def test_relations_without_edges_give_zeros_to_the_cross_reduction():
    g = hetero(OURS)
    g.remove_edges([0, 1], etype="suits")
    g.multi_update_all({"follows": (copy_x, sum_m), "suits": (copy_x, sum_m)}, "mean")
    h = g.nodes["user"].data["h"]
    g.update_all(copy_x, sum_m, etype="follows")
    equal(h, g.nodes["user"].data["h"] / 2)


# --- the apply function's batch ------------------------------------------------------------------


def test_apply_functions_know_their_nodes():
    """In DGL 1.1.3 they are '__ALL__' and 7."""
    g = small(OURS)
    seen = []

    def apply(nodes):
        seen.append((nodes.nodes().tolist(), len(nodes), nodes.batch_size(), nodes.ntype))
        return {}

    g.update_all(copy_x, sum_m, apply)
    assert seen == [(list(range(6)), 6, 6, "_N")]


# --- deferred columns ----------------------------------------------------------------------------


def test_deferred_columns_are_computed_when_read():
    g = small(OURS)
    column = Later(torch.ones(7, 2))
    frame = g.relation(0).edges
    frame["late"] = column
    assert frame.peek("late") is column
    assert g.edge_attr_schemes()["late"] == ((2,), torch.float32)
    with g.local_scope():
        assert g.relation(0).edges.peek("late") is column
    copied = g.local_var()
    assert column.calls == 0
    equal(g.edata["late"], torch.ones(7, 2))
    assert frame.peek("late") is g.edata["late"]
    assert column.calls == 1
    equal(copied.edata["late"], torch.ones(7, 2))
    with pytest.raises(gs.errors.RowCountError):
        frame["late"] = Later(torch.ones(6, 2))


def test_subframes_do_not_read_what_nobody_reads():
    g = small(OURS)
    column = Later(torch.ones(6, 2))
    g.relation(0).src["late"] = column
    g.update_all(copy_x, sum_m)
    g.pull([1], copy_x, sum_m)
    assert column.calls == 0
    g.pull([1], lambda edges: {"m": edges.src["late"]}, sum_m, lambda n: {"k": n.data["h"]})
    assert column.calls >= 1


# --- engines -------------------------------------------------------------------------------------


def test_a_shadow_writes_to_the_graph_and_uses_its_engine():
    g, engine = small(OURS), Counting()
    shadow = g.shadow(engine)
    shadow.update_all(copy_x, sum_m)
    shadow.apply_edges(copy_x)
    shadow.apply_nodes(lambda nodes: {"z": nodes.data["x"]})
    gs.edge_softmax(shadow, torch.randn(7, 1))
    assert [name for name, _ in engine.calls] == [
        "update_all",
        "apply_edges",
        "apply_nodes",
        "edge_softmax",
    ]
    assert sorted(g.ndata) == ["h", "x", "y", "z"]
    assert "m" in g.edata
    g.update_all(copy_x, sum_m)
    assert len(engine.calls) == 4
    assert g._engine is EAGER


def test_a_local_scope_of_a_shadow_is_its_own():
    g, engine = small(OURS), Counting()
    shadow = g.shadow(engine)
    with shadow.local_scope():
        shadow.update_all(copy_x, sum_m)
        assert "h" in shadow.ndata
        assert "h" not in g.ndata
    assert "h" not in shadow.ndata
    local = shadow.local_var()
    local.update_all(copy_x, sum_m)
    assert sorted(g.ndata) == ["x", "y"]
    assert len(engine.calls) == 2


def test_slices_of_a_shadow_keep_its_engine():
    g, engine = hetero(OURS), Counting()
    shadow = g.shadow(engine)
    shadow["follows"].update_all(copy_x, sum_m)
    shadow.update_all(copy_x, sum_m, etype="buys")
    table = {"follows": (copy_x, sum_m), "suits": (copy_x, sum_m)}
    shadow.multi_update_all(table, "sum", lambda nodes: {"z": nodes.data["h"]})
    assert engine.calls == [
        ("update_all", "follows"),
        ("update_all", "buys"),
        ("update_all", "follows"),
        ("update_all", "suits"),
        ("apply_nodes", "user"),
    ]
    assert "z" in g.nodes["user"].data


def test_a_change_through_a_shadow_changes_the_graph():
    g = small(OURS)
    old = g.structure()
    shadow = g.shadow(Counting())
    shadow.add_edges([4], [5])
    for graph in (g, shadow):
        assert graph.num_edges() == 8
        assert graph.in_degrees(5) == 1
    assert g.structure() is not old
    assert old.num_edges == 7
    shadow.ndata["z"] = torch.ones(6)
    assert "z" in g.ndata


def test_dgl_ops_run_on_the_engine():
    g, engine = small(OURS), Counting()
    shadow = g.shadow(engine)
    OURS.ops.u_mul_e_sum(shadow, g.ndata["x"], g.edata["w"])
    OURS.ops.u_dot_v(shadow, g.ndata["x"], g.ndata["y"])
    assert [name for name, _ in engine.calls] == ["update_all", "apply_edges"]


# --- batches alone -------------------------------------------------------------------------------


def test_lazy_frames():
    fetched = []

    def fetch(column):
        fetched.append(column)
        return column * 2

    frame = LazyFrame({"a": torch.ones(2), "b": torch.zeros(2)}, fetch, "edges.src", 2)
    assert (sorted(frame), len(frame), "a" in frame, "c" in frame) == (["a", "b"], 2, True, False)
    assert fetched == []
    equal(frame["a"], torch.full((2,), 2.0))
    assert frame["a"] is frame["a"]
    assert len(fetched) == 1
    frame["c"] = torch.ones(2)
    del frame["b"]
    assert sorted(frame) == ["a", "c"]
    frame["b"] = torch.ones(2)
    assert dict(frame).keys() == {"a", "b", "c"}
    with pytest.raises(gs.errors.RowCountError):
        frame["c"] = torch.ones(3)
    with pytest.raises(gs.errors.MissingFieldError, match=r"edges\.src has no field 'q'"):
        frame["q"]
    assert frame.get("q") is None


def test_batches():
    edges = EdgeBatch({}, {}, {}, lambda: (1, 2, 3), 5, ("a", "b", "c"))
    assert (len(edges), edges.batch_size(), edges.edges()) == (5, 5, (1, 2, 3))
    nodes = NodeBatch({}, {"m": 1}, lambda: 4, 2, "a")
    assert (len(nodes), nodes.nodes(), nodes.mailbox, nodes.ntype) == (2, 4, {"m": 1}, "a")
