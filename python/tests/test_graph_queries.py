"""Structure: counts, degrees, edges, changes, batches, conversions."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import gossamer as gs
from gossamer.structure import _compress_on_device
from graph_libs import OURS, both, copy_x, equal, hetero, small, sum_m


@both
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_degrees_and_edges(dgl, idtype):
    g = small(dgl, idtype)
    assert g.idtype == idtype
    assert g.in_degrees().tolist() == [0, 3, 3, 1, 0, 0]
    assert g.out_degrees().tolist() == [3, 2, 1, 1, 0, 0]
    assert g.in_degrees([3, 1]).tolist() == [1, 3]
    assert g.in_degrees(1) == 3
    assert g.out_degrees(0) == 3
    assert [ids.tolist() for ids in g.edges(form="all")][2] == list(range(7))
    assert g.edges(order="srcdst", form="eid").tolist() == [0, 2, 5, 1, 6, 3, 4]
    for ids in g.edges():
        assert ids.dtype == idtype
    assert g.in_edges([3, 1], form="eid").tolist() == [5, 0, 2, 4]
    assert g.out_edges(0, form="eid").tolist() == [0, 2, 5]
    assert [ids.tolist() for ids in g.in_edges(2)] == [[1, 2, 1], [2, 2, 2]]
    assert [ids.tolist() for ids in g.find_edges([6, 0])] == [[1, 0], [2, 1]]
    assert g.has_edges_between([0, 5], [1, 1]).tolist() == [True, False]
    assert g.has_edges_between(2, 2) is True
    assert g.edge_ids([3, 0], [1, 3]).tolist() == [4, 5]
    found = g.edge_ids([0, 1], [1, 2], return_uv=True)
    assert sorted(found[2].tolist()) == [0, 1, 2, 6]
    assert g.predecessors(1).tolist() == [0, 0, 3]
    assert g.successors(0).tolist() == [1, 1, 3]
    assert g.is_multigraph
    assert g.has_nodes([0, 6]).tolist() == [True, False]


def test_degrees_are_the_callers_own():
    g = small(OURS)
    g.in_degrees().zero_()
    assert g.in_degrees().tolist() == [0, 3, 3, 1, 0, 0]


def test_compressed_forms_are_stable_and_built_once():
    for idtype in (torch.int32, torch.int64):
        structure = small(OURS, idtype).structure()
        csr = structure.in_csr()
        assert csr is structure.in_csr()
        assert csr.offsets.tolist() == [0, 0, 3, 6, 7, 7, 7]
        assert csr.edge_ids.tolist() == [0, 2, 4, 1, 3, 6, 5]
        assert csr.neighbors.tolist() == [0, 0, 3, 1, 2, 1, 0]
        assert {part.dtype for part in csr} == {torch.int32}
        back = structure.out_csr()
        assert back.edge_ids.tolist() == [0, 2, 5, 1, 6, 3, 4]
        twin = structure.reversed()
        assert twin.out_csr() is csr
        assert twin.in_degrees().tolist() == structure.out_degrees().tolist()
    assert (structure.max_in_degree(), structure.max_out_degree()) == (3, 3)
    empty = gs.graph(([], [])).structure()
    assert (empty.max_in_degree(), empty.in_csr().offsets.tolist()) == (0, [0])


def test_compressed_forms_of_random_graphs():
    torch.manual_seed(1)
    for nodes, edges in ((1, 5), (40, 0), (40, 300), (1000, 5000)):
        g = OURS.rand_graph(nodes, edges)
        structure = g.structure()
        offsets, neighbors, edge_ids = (part.long() for part in structure.in_csr())
        rows = torch.repeat_interleave(torch.arange(nodes), offsets.diff())
        assert torch.equal(structure.dst[edge_ids], rows)
        assert torch.equal(structure.src[edge_ids], neighbors)
        same_row = rows[1:] == rows[:-1]
        assert (edge_ids[1:][same_row] > edge_ids[:-1][same_row]).all()
        other = _compress_on_device(structure.dst, structure.src, nodes, nodes)
        for mine, theirs in zip(structure.in_csr(), other, strict=True):
            assert torch.equal(mine, theirs)
            assert mine.dtype == theirs.dtype


@both
def test_adding_and_removing(dgl):
    g = small(dgl)
    g.add_nodes(2, {"x": torch.ones(2, 3)})
    assert g.num_nodes() == 8
    equal(g.ndata["x"][6:], torch.ones(2, 3))
    equal(g.ndata["y"][6:], torch.zeros(2, 3))
    g.add_edges([6, 7], [0, 0], {"w": torch.ones(2, 1)})
    assert g.in_degrees().tolist() == [2, 3, 3, 1, 0, 0, 0, 0]
    g.update_all(copy_x, sum_m)
    equal(g.ndata["h"][0], torch.full((3,), 2.0))
    g.remove_edges([0, 8])
    assert g.edges()[0].tolist() == [1, 0, 2, 3, 0, 1, 6]
    assert g.edata["w"].shape == (7, 1)
    g.remove_nodes([0])
    assert g.num_nodes() == 7
    pairs = zip(*(ids.tolist() for ids in g.edges()), strict=True)
    assert sorted(pairs) == [(0, 1), (0, 1), (1, 1), (2, 0)]
    equal(g.ndata["x"][5:], torch.ones(2, 3))


@both
def test_changes_keep_other_relations(dgl):
    g = hetero(dgl)
    g.add_nodes(1, ntype="user")
    g.add_edges(4, 4, etype="follows")
    g.remove_nodes([0], ntype="user")
    assert [ids.tolist() for ids in g.edges(etype="follows")] == [[0, 3], [1, 3]]
    assert [ids.tolist() for ids in g.edges(etype="buys")] == [[1, 1], [0, 1]]
    assert [ids.tolist() for ids in g.edges(etype="suits")] == [[0, 1], [1, 1]]
    equal(g.nodes["user"].data["x"][3], torch.zeros(2))


@both
def test_copies_with_other_edges(dgl):
    g = small(dgl)
    looped = dgl.add_self_loop(g)
    assert looped.num_edges() == 13
    equal(looped.edata["w"][7:], torch.ones(6, 1))
    assert dgl.remove_self_loop(looped).num_edges() == 6
    back = dgl.reverse(g, copy_edata=True)
    assert torch.equal(back.edges()[0], g.edges()[1])
    equal(back.edata["w"], g.edata["w"])
    equal(back.ndata["x"], g.ndata["x"])
    assert dgl.add_reverse_edges(g).num_edges() == 13
    both_ways = dgl.to_bidirected(g)
    pairs = set(zip(*(ids.tolist() for ids in both_ways.edges()), strict=True))
    assert len(pairs) == both_ways.num_edges() == 9
    part = dgl.in_subgraph(g, [1, 3])
    assert sorted(part.edata["_ID"].tolist()) == [0, 2, 4, 5]
    assert part.num_nodes() == 6
    assert dgl.out_subgraph(g, [0]).edata["_ID"].tolist() == [0, 2, 5]
    part = dgl.edge_subgraph(g, [4, 5])
    nodes = part.ndata["_ID"]
    assert sorted(nodes.tolist()) == [0, 1, 3]
    assert [nodes[ids].tolist() for ids in part.edges()] == [[3, 0], [1, 3]]
    equal(part.ndata["x"], g.ndata["x"][nodes])
    part = dgl.node_subgraph(g, [1, 2])
    assert sorted(part.edata["_ID"].tolist()) == [1, 3, 6]
    assert (g.num_edges(), sorted(g.ndata)) == (7, ["x", "y"])


@both
def test_batches(dgl):
    graphs = [small(dgl), small(dgl), dgl.graph(([], []), num_nodes=0)]
    graphs[1].ndata["x"] = graphs[1].ndata["x"] * 2
    g = dgl.batch(graphs)
    assert g.batch_size == 3
    assert g.batch_num_nodes().tolist() == [6, 6, 0]
    assert g.batch_num_edges().tolist() == [7, 7, 0]
    assert g.edges()[1].tolist()[7:9] == [7, 8]
    x = g.ndata["x"]
    parts = [x[:6], x[6:], x[:0]]
    equal(dgl.sum_nodes(g, "x"), torch.stack([part.sum(0) for part in parts]))
    equal(dgl.mean_nodes(g, "x")[:2], torch.stack([part.mean(0) for part in parts[:2]]))
    equal(dgl.max_nodes(g, "x")[:2], torch.stack([part.max(0)[0] for part in parts[:2]]))
    equal(dgl.max_nodes(g, "x")[2], torch.zeros(3))
    equal(dgl.sum_edges(g, "w")[0], g.edata["w"][:7].sum(0))
    equal(dgl.softmax_nodes(g, "x"), torch.cat([part.softmax(0) for part in parts]))
    g.ndata["s"] = torch.rand(12, 1)
    equal(dgl.sum_nodes(g, "x", "s")[0], (x * g.ndata["s"])[:6].sum(0))
    rows = torch.randn(3, 4)
    equal(dgl.broadcast_nodes(g, rows), rows[torch.tensor([0] * 6 + [1] * 6)])
    equal(dgl.broadcast_edges(g, rows), rows[torch.tensor([0] * 7 + [1] * 7)])
    again = dgl.unbatch(g)
    assert len(again) == 3
    equal(again[1].ndata["x"], graphs[1].ndata["x"])
    assert torch.equal(again[1].edges()[0], graphs[1].edges()[0])
    with pytest.raises(dgl.DGLError):
        dgl.batch([])


@both
def test_topk(dgl):
    g = dgl.batch([small(dgl), dgl.graph(([0], [0]), num_nodes=1)][:1] * 2)
    x = g.ndata["x"]
    values, where = dgl.topk_nodes(g, "x", 2)
    equal(values[0], x[:6].topk(2, 0)[0])
    assert where.shape == (2, 2, 3)
    values, where = dgl.topk_nodes(g, "x", 8, sortby=1)
    order = x[:6, 1].argsort(descending=True)
    equal(values[1, :6], x[:6][order])
    equal(values[1, 6:], torch.zeros(2, 3))
    assert where[0, :6].tolist() == order.tolist()


def test_readouts_are_methods_too():
    g = small(OURS)
    equal(g.sum_nodes("x"), g.ndata["x"].sum(0, keepdim=True))
    equal(g.mean_edges("w"), g.edata["w"].mean(0, keepdim=True))


@both
def test_id_dtypes_and_devices(dgl):
    g = small(dgl)
    narrow = g.int()
    assert narrow.idtype == torch.int32
    assert narrow.nodes().dtype == torch.int32
    narrow.update_all(copy_x, sum_m)
    g.update_all(copy_x, sum_m)
    equal(narrow.ndata["h"], g.ndata["h"])
    assert narrow.long().idtype == torch.int64
    assert g.device == torch.device("cpu")
    assert g.to("cpu").num_edges() == 7


def test_copies_and_pickles():
    g = small(OURS)
    g.set_n_initializer(torch_ones)
    deep, again = copy.deepcopy(g), pickle.loads(pickle.dumps(g))
    for other in (deep, again):
        equal(other.ndata["x"], g.ndata["x"])
        other.ndata["x"].zero_()
        other.update_all(copy_x, sum_m)
        equal(other.ndata["h"][4], torch.ones(3))
    assert g.ndata["x"].abs().sum() > 0
    assert copy.copy(g).ndata["x"] is g.ndata["x"]


def torch_ones(shape, dtype, device, rows):
    return torch.ones(shape, dtype=dtype, device=device)


def test_other_sources():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    matrix = scipy_sparse.coo_matrix(([5.0, 6.0], ([0, 2], [1, 0])), shape=(3, 3))
    g = gs.from_scipy(matrix, eweight_name="w")
    assert [ids.tolist() for ids in g.edges()] == [[0, 2], [1, 0]]
    assert g.edata["w"].tolist() == [5, 6]
    g = gs.from_edge_index(torch.tensor([[0, 2], [1, 0]]), 4)
    assert (g.num_nodes(), g.num_edges()) == (4, 2)


def test_networkx():
    networkx = pytest.importorskip("networkx")
    g = gs.from_networkx(networkx.path_graph(3))
    assert (g.num_nodes(), g.num_edges()) == (3, 4)
    directed = networkx.DiGraph()
    directed.add_node("a", size=1.0)
    directed.add_node("b", size=2.0)
    directed.add_edge("a", "b", weight=[1.0, 2.0])
    g = gs.from_networkx(directed, ["size"], ["weight"])
    assert g.ndata["size"].tolist() == [1, 2]
    assert g.edata["weight"].tolist() == [[1, 2]]
    with pytest.raises(gs.errors.GraphError, match="colour"):
        gs.from_networkx(directed, ["colour"])


@both
def test_representation(dgl):
    assert "num_nodes=6" in repr(small(dgl))
    assert "buys" in repr(hetero(dgl))
    assert repr(dgl.create_block(([0], [0]), 2, 1)).startswith("Block(num_src_nodes=2")
