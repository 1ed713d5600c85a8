"""Several node and edge types, slices, cross reduction, blocks."""

from __future__ import annotations

import pytest
import torch

from graph_libs import OURS, both, copy_x, equal, hetero, sum_m

FOLLOWS, BUYS, SUITS = (
    ("user", "follows", "user"),
    ("user", "buys", "item"),
    (
        "item",
        "suits",
        "user",
    ),
)


def into(g, etype):
    source, _, target = etype
    src, dst = g.edges(etype=etype)
    rows = g.nodes[source].data["x"][src]
    return torch.zeros(g.num_nodes(target), 2).index_add(0, dst, rows)


@both
def test_names(dgl):
    g = hetero(dgl)
    assert g.ntypes == ["item", "user"]
    assert g.canonical_etypes == [SUITS, BUYS, FOLLOWS]
    assert g.etypes == ["suits", "buys", "follows"]
    assert g.srctypes == g.dsttypes == ["item", "user"]
    assert g.to_canonical_etype("buys") == BUYS
    assert (g.num_nodes(), g.num_nodes("user"), g.num_edges(), g.num_edges(BUYS)) == (7, 4, 8, 3)
    assert (g.number_of_nodes("item"), g.number_of_edges("suits")) == (3, 2)
    for bad in (lambda: g.num_nodes("shop"), lambda: g.num_edges("sells"), lambda: g["sells"]):
        with pytest.raises(dgl.DGLError):
            bad()
    with pytest.raises(dgl.DGLError):
        g.in_degrees()


@both
def test_bipartite_sides(dgl):
    g = dgl.heterograph({BUYS: ([0, 1], [1, 1])}, {"user": 3, "item": 2})
    assert (g.srctypes, g.dsttypes) == (["user"], ["item"])
    g.srcdata["x"] = torch.randn(3, 2)
    g.dstdata["y"] = torch.randn(2, 2)
    seen = {}

    def message(edges):
        seen["fields"] = sorted(edges.src), sorted(edges.dst)
        seen["type"] = edges.canonical_etype
        return {"m": edges.src["x"]}

    g.update_all(message, sum_m)
    assert seen == {"fields": (["x"], ["y"]), "type": BUYS}
    equal(g.nodes["item"].data["h"], into(g, BUYS))
    assert sorted(g.srcdata) == ["x"]
    assert (g.num_src_nodes(), g.num_dst_nodes(), g.num_src_nodes("user")) == (3, 2, 3)


@both
def test_update_one_relation(dgl):
    for call in (
        lambda g: g.update_all(copy_x, sum_m, etype="follows"),
        lambda g: g["follows"].update_all(copy_x, sum_m),
        lambda g: g[FOLLOWS].update_all(copy_x, sum_m),
    ):
        g = hetero(dgl)
        call(g)
        equal(g.nodes["user"].data["h"], into(g, FOLLOWS))
        assert sorted(g.nodes["item"].data) == ["x"]


@both
def test_slice_shares_frames(dgl):
    g = hetero(dgl)
    part = g["buys"]
    assert part.canonical_etypes == [BUYS]
    part.srcdata["z"] = torch.ones(4, 1)
    part.edata["z"] = torch.ones(3, 1)
    assert "z" in g.nodes["user"].data
    assert "z" in g.edges["buys"].data
    with part.local_scope():
        part.srcdata["gone"] = torch.ones(4, 1)
    assert "gone" not in g.nodes["user"].data


@both
def test_slice_of_several_relations_is_a_copy(dgl):
    g = dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1], [1, 2]),
            ("user", "likes", "user"): ([2, 0], [0, 2]),
        }
    )
    g.ndata["x"] = torch.randn(3, 2)
    part = g["user", :, "user"]
    assert part.num_edges() == 4
    assert part.etypes == ["follows+likes"]
    assert part.edata["_TYPE"].tolist() == [0, 0, 1, 1]
    assert part.edata["_ID"].tolist() == [0, 1, 0, 1]
    part.update_all(copy_x, sum_m)
    expected = torch.zeros(3, 2).index_add(
        0, torch.tensor([1, 2, 0, 2]), g.ndata["x"][torch.tensor([0, 1, 2, 0])]
    )
    equal(part.ndata["h"], expected)
    assert "h" not in g.ndata


@both
def test_user_functions_need_a_relation(dgl):
    g = hetero(dgl)
    with pytest.raises(dgl.DGLError):
        g.update_all(copy_x, sum_m)
    with pytest.raises(dgl.DGLError):
        g.apply_edges(copy_x)
    with pytest.raises(dgl.DGLError):
        g.update_all(copy_x, sum_m, etype="sells")


@both
@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
def test_cross_reducers(dgl, reducer):
    g = hetero(dgl)
    functions = (copy_x, sum_m)
    g.multi_update_all({FOLLOWS: functions, "suits": functions, BUYS: functions}, reducer)
    parts = torch.stack([into(g, FOLLOWS), into(g, SUITS)])
    merged = getattr(parts, reducer)(0)
    equal(g.nodes["user"].data["h"], merged[0] if reducer in ("max", "min") else merged)
    equal(g.nodes["item"].data["h"], into(g, BUYS))


@both
def test_stack_orders_by_relation_and_functions_by_call(dgl):
    g = hetero(dgl)
    functions = (copy_x, sum_m)
    table = {FOLLOWS: functions, SUITS: functions, BUYS: functions}
    g.multi_update_all(table, "stack")
    equal(g.nodes["user"].data["h"], torch.stack([into(g, SUITS), into(g, FOLLOWS)], 1))
    equal(g.nodes["item"].data["h"], into(g, BUYS).unsqueeze(1))
    lengths = []

    def first(parts):
        lengths.append(len(parts))
        return parts[0] * 2

    g.multi_update_all(table, first)
    assert lengths == [2]
    equal(g.nodes["user"].data["h"], into(g, FOLLOWS) * 2)
    equal(g.nodes["item"].data["h"], into(g, BUYS))


@both
def test_relations_read_old_fields_and_the_last_function_new_ones(dgl):
    g = hetero(dgl)
    old = into(g, FOLLOWS) + into(g, SUITS)

    def overwrite(nodes):
        return {"x": nodes.mailbox["m"].sum(1)}

    table = {FOLLOWS: (copy_x, overwrite), SUITS: (copy_x, overwrite, lambda n: {"x": n.data["x"]})}
    g.multi_update_all(table, "sum", lambda nodes: {"z": nodes.data["x"] + 1})
    equal(g.nodes["user"].data["x"], old)
    equal(g.nodes["user"].data["z"], old + 1)


@both
def test_fields_of_some_relations_only(dgl):
    g = hetero(dgl)
    other = (copy_x, lambda nodes: {"k": nodes.mailbox["m"].sum(1)})
    g.multi_update_all({FOLLOWS: (copy_x, sum_m), SUITS: other}, "mean")
    equal(g.nodes["user"].data["h"], into(g, FOLLOWS))
    equal(g.nodes["user"].data["k"], into(g, SUITS))


@both
def test_infinities_follow_the_last_relation(dgl):
    fn = dgl.fn
    high = (fn.copy_u("x", "m"), fn.max("m", "h"))
    total = (fn.copy_u("x", "m"), fn.sum("m", "h"))
    g = hetero(dgl)
    g.multi_update_all({FOLLOWS: high, SUITS: high}, "max")
    x, y = g.nodes["user"].data["x"], g.nodes["item"].data["x"]
    equal(g.nodes["user"].data["h"][0], x[1])
    equal(g.nodes["user"].data["h"][2], torch.stack([x[1], y[0], y[1]]).max(0)[0])
    equal(g.nodes["user"].data["h"][3], torch.zeros(2))
    g.multi_update_all({FOLLOWS: high, SUITS: total}, "sum")
    assert (g.nodes["user"].data["h"][3] == -float("inf")).all()


@both
def test_bad_cross_reduction(dgl):
    g = hetero(dgl)
    two = {FOLLOWS: (copy_x, sum_m), SUITS: (copy_x, sum_m)}
    with pytest.raises(dgl.DGLError):
        g.multi_update_all(two, "median_of_means")
    with pytest.raises(dgl.DGLError):
        g.multi_update_all({FOLLOWS: (copy_x, sum_m, None, None)}, "sum")
    assert "h" not in g.nodes["user"].data


@both
def test_typed_features(dgl):
    g = hetero(dgl)
    assert set(g.ndata["x"]) == {"user", "item"}
    g.ndata["z"] = {"user": torch.ones(4, 1)}
    assert set(g.ndata["z"]) == {"user"}
    g.edges["buys"].data["w"] = torch.ones(3)
    g.edata["v"] = {FOLLOWS: torch.ones(3)}
    assert set(g.edata["w"]) == {BUYS}
    assert "v" in g.edges[FOLLOWS].data
    g.nodes["user"].data.pop("z")
    assert set(g.ndata) == {"x"}
    g.nodes["user"].data["x"] = g.nodes["user"].data["x"] * 0
    equal(g.ndata["x"]["user"], torch.zeros(4, 2))


@both
def test_blocks(dgl):
    block = dgl.create_block((torch.tensor([0, 1, 2, 3]), torch.tensor([0, 0, 1, 1])), 4, 3)
    assert block.is_block
    assert (block.num_src_nodes(), block.num_dst_nodes(), block.num_edges()) == (4, 3, 4)
    assert block.srcnodes().tolist() == [0, 1, 2, 3]
    assert block.dstnodes().tolist() == [0, 1, 2]
    block.srcdata["x"] = torch.randn(4, 2)
    block.dstdata["x"] = block.srcdata["x"][:3]
    block.update_all(lambda e: {"m": e.src["x"] - e.dst["x"]}, sum_m)
    x = block.srcdata["x"]
    expected = torch.stack([x[1] - x[0], x[2] - x[1] + x[3] - x[1], torch.zeros(2)])
    equal(block.dstdata["h"], expected)
    assert sorted(block.srcdata) == ["x"]
    with block.local_scope():
        block.srcdata["x"] = torch.zeros(4, 2)
    equal(block.srcdata["x"], x)


@both
def test_blocks_with_types(dgl):
    block = dgl.create_block(
        {FOLLOWS: ([0, 1, 2], [0, 1, 1]), SUITS: ([1], [0])},
        {"user": 3, "item": 2},
        {"user": 2},
    )
    block.srcnodes["user"].data["x"] = torch.randn(3, 2)
    block.srcnodes["item"].data["x"] = torch.randn(2, 2)
    block.multi_update_all({"follows": (copy_x, sum_m), "suits": (copy_x, sum_m)}, "sum")
    users, items = block.srcnodes["user"].data["x"], block.srcnodes["item"].data["x"]
    equal(block.dstnodes["user"].data["h"], torch.stack([users[0] + items[1], users[1] + users[2]]))
    assert block.num_dst_nodes("user") == 2
    assert block.num_src_nodes() == 5


@both
def test_node_ids_of_blocks_are_those_of_the_parent(dgl):
    g = dgl.graph(([1, 2, 3, 4], [0, 0, 2, 2]))
    g.ndata["x"] = torch.randn(5, 2)
    block = dgl.to_block(dgl.in_subgraph(g, [0, 2]), torch.tensor([0, 2]))
    assert block.dstdata["_ID"].tolist() == [0, 2]
    assert block.srcdata["_ID"][:2].tolist() == [0, 2]
    assert sorted(block.srcdata["_ID"].tolist()) == [0, 1, 2, 3, 4]
    block.srcdata["x"] = g.ndata["x"][block.srcdata["_ID"]]
    seen = []

    def reduce(nodes):
        seen.extend(nodes.nodes().tolist())
        return {"h": nodes.mailbox["m"].sum(1)}

    block.update_all(copy_x, reduce)
    assert sorted(seen) == [0, 2]
    x = g.ndata["x"]
    equal(block.dstdata["h"], torch.stack([x[1] + x[2], x[3] + x[4]]))


def test_edge_ids_of_blocks_are_those_of_the_parent():
    g = OURS.graph(([1, 2, 3, 4], [0, 0, 2, 2]))
    g.ndata["x"] = torch.randn(5, 2)
    block = OURS.to_block(OURS.in_subgraph(g, [2]), torch.tensor([2]))
    seen = []

    def message(edges):
        seen.extend(ids.tolist() for ids in edges.edges())
        return {"m": edges.src["x"]}

    block.update_all(message, sum_m)
    assert seen == [[3, 4], [2, 2], [2, 3]]
