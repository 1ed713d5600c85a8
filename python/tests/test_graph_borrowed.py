"""`gs.from_dgl`: real DGL graphs as ours, without a copy."""

from __future__ import annotations

import gc
import pickle

import pytest
import torch

import gossamer as gs
from gossamer import borrow
from graph_libs import Library, copy_x, equal, hetero, small, sum_m
from test_graph_engines import Counting, Later

real = pytest.importorskip("dgl", reason="DGL is not installed")
DGL = Library("dgl")
pytestmark = pytest.mark.dgl_live


def test_fields_are_shared_both_ways():
    d = small(DGL)
    g = gs.from_dgl(d)
    assert g.ndata["x"] is d.ndata["x"]
    g.ndata["z"] = torch.ones(6, 1)
    assert d.ndata["z"] is g.ndata["z"]
    d.edata["v"] = torch.ones(7)
    assert "v" in g.edata
    del g.edata["v"]
    assert "v" not in d.edata
    g.update_all(copy_x, sum_m)
    d2 = small(DGL)
    d2.update_all(copy_x, sum_m)
    equal(d.ndata["h"], d2.ndata["h"])


def test_edges_are_borrowed_and_structures_remembered():
    d = small(DGL)
    g, again = gs.from_dgl(d), gs.from_dgl(d)
    assert g.structure().src.data_ptr() == d.edges()[0].data_ptr()
    assert g.structure() is again.structure()
    assert gs.from_dgl(d.local_var()).structure() is g.structure()


def test_a_changed_graph_is_seen_anew():
    d = small(DGL)
    g = gs.from_dgl(d)
    d.add_edges([4], [5])
    with pytest.raises(gs.errors.GraphError, match="from_dgl again"):
        g.edata["w"]
    assert gs.from_dgl(d).num_edges() == 8


def test_structures_go_with_their_graph():
    gc.collect()
    before = len(borrow._borrowed)
    d = small(DGL)
    gs.from_dgl(d)
    assert len(borrow._borrowed) == before + 1
    del d
    gc.collect()
    assert len(borrow._borrowed) == before


def test_scopes_of_either():
    d = small(DGL)
    g = gs.from_dgl(d)
    with g.local_scope():
        g.ndata["z"] = torch.ones(6)
        assert "z" not in d.ndata
    assert "z" not in g.ndata
    with d.local_scope():
        d.ndata["z"] = torch.ones(6)
        assert "z" in g.ndata
    assert "z" not in g.ndata


def test_types_and_blocks():
    d = hetero(DGL)
    g = gs.from_dgl(d)
    assert (g.ntypes, g.canonical_etypes) == (d.ntypes, d.canonical_etypes)
    g.update_all(copy_x, sum_m, etype="follows")
    expected = hetero(DGL)
    expected.update_all(copy_x, sum_m, etype="follows")
    equal(d.nodes["user"].data["h"], expected.nodes["user"].data["h"])
    block = real.to_block(real.in_subgraph(small(DGL), [1, 2]), torch.tensor([1, 2]))
    ours = gs.from_dgl(block)
    assert ours.is_block
    assert (ours.num_src_nodes(), ours.num_dst_nodes()) == (block.num_src_nodes(), 2)
    ours.update_all(copy_x, sum_m)
    equal(block.dstdata["h"], ours.dstdata["h"])
    assert "h" not in block.srcdata
    bipartite = real.heterograph({("a", "b", "c"): ([0, 1], [1, 1])})
    bipartite.srcdata["x"] = torch.randn(2, 2)
    gs.from_dgl(bipartite).update_all(copy_x, sum_m)
    equal(bipartite.dstdata["h"][1], bipartite.srcdata["x"].sum(0))


def test_columns_that_dgl_gathers_late_stay_late():
    d = small(DGL)
    part = real.node_subgraph(d, [0, 1, 2])
    g = gs.from_dgl(part)
    with g.local_scope():
        pass
    assert part._node_frames[0]._columns["y"].index is not None
    equal(g.ndata["y"], d.ndata["y"][:3])


@pytest.mark.parametrize("fmt", ["coo", "csr", "csc"])
def test_restricted_formats(fmt):
    d = small(DGL)
    expected = small(DGL)
    expected.update_all(copy_x, sum_m)
    restricted = d.formats(fmt)
    g = gs.from_dgl(restricted)
    g.update_all(copy_x, sum_m)
    equal(g.ndata["h"], expected.ndata["h"])
    g.update_all(lambda e: {"m": e.src["x"] * e.data["w"]}, sum_m)
    expected.update_all(lambda e: {"m": e.src["x"] * e.data["w"]}, sum_m)
    equal(g.ndata["h"], expected.ndata["h"])


def test_deferred_columns_inside_dgl():
    d = small(DGL)
    g = gs.from_dgl(d)
    column = Later(torch.arange(14.0).reshape(7, 2))
    g.relation(0).edges["late"] = column
    assert g.relation(0).edges.peek("late") is column
    assert "late" in list(d.edata)
    with d.local_scope():
        assert d.edge_attr_schemes()["late"].shape == (2,)
    assert column.calls == 0
    part = real.edge_subgraph(d, [2, 1])
    equal(part.edata["late"], column.tensor[[2, 1]])
    equal(d.edata["late"], column.tensor)
    assert d.edata["late"] is d.edata["late"]
    d.edata["late"] = torch.zeros(7, 2)
    equal(g.edata["late"], torch.zeros(7, 2))


def test_deferred_columns_of_dgl_pickle_and_extend():
    d = small(DGL)
    gs.from_dgl(d).relation(0).edges["late"] = Later(torch.ones(7, 2))
    again = pickle.loads(pickle.dumps(d))
    equal(again.edata["late"], torch.ones(7, 2))
    gs.from_dgl(d).relation(0).edges["late"] = Later(torch.ones(7, 2))
    d.add_edges([4], [5])
    equal(d.edata["late"][7], torch.zeros(2))


def test_shadows_of_borrowed_graphs():
    d, engine = small(DGL), Counting()
    shadow = gs.from_dgl(d).shadow(engine)
    shadow.update_all(copy_x, sum_m)
    assert "h" in d.ndata
    assert len(engine.calls) == 1
    with pytest.raises(gs.errors.GraphError, match="DGL graph"):
        shadow.add_nodes(1)
    assert shadow.num_nodes() == 6


def test_initializers_and_builtins_of_dgl():
    d = small(DGL)
    d.set_n_initializer(lambda shape, dtype, device, rows: torch.ones(shape, dtype=dtype))
    g = gs.from_dgl(d)
    g.update_all(copy_x, sum_m)
    equal(d.ndata["h"][4], torch.ones(3))
    g.update_all(real.function.u_mul_e("x", "w", "m"), real.function.max("m", "h"))
    expected = small(DGL)
    expected.update_all(real.function.u_mul_e("x", "w", "m"), real.function.max("m", "h"))
    equal(d.ndata["h"], expected.ndata["h"])
    for name in ("copy_e", "e_div_u", "v_dot_u"):
        make = getattr(real.function, name)
        builtin = make("w", "m") if name == "copy_e" else make("a", "b", "m")
        assert gs.function.from_dgl(builtin).name == name


def test_batches_of_dgl():
    d = real.batch([small(DGL), small(DGL)])
    g = gs.from_dgl(d)
    assert g.batch_num_nodes().tolist() == [6, 6]
    assert g.batch_num_edges().tolist() == [7, 7]
    equal(g.sum_nodes("x"), real.sum_nodes(d, "x"))


def test_pickles():
    d = small(DGL)
    g = pickle.loads(pickle.dumps(gs.from_dgl(d)))
    equal(g.ndata["x"], d.ndata["x"])


def test_other_things_are_refused():
    with pytest.raises(gs.errors.GraphError, match="list"):
        gs.from_dgl([1, 2])
