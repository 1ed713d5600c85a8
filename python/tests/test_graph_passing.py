"""update_all and apply_*: what is called, how often, with what, and what is written."""

from __future__ import annotations

import pytest
import torch

from graph_libs import both, copy_x, equal, small, sum_m


@both
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_message_is_called_once_and_reduce_once_per_degree(dgl, idtype):
    g = small(dgl, idtype)
    sizes, degrees = [], []

    def message(edges):
        sizes.append((len(edges), edges.batch_size()))
        return {"m": edges.src["x"], "id": edges.edges()[2]}

    def reduce(nodes):
        mail = nodes.mailbox["m"]
        degrees.append(mail.shape[1])
        assert mail.shape == (len(nodes), mail.shape[1], 3)
        assert mail.is_contiguous()
        assert nodes.nodes().dtype == idtype
        equal(g.in_degrees(nodes.nodes()).long(), torch.full((len(nodes),), mail.shape[1]))
        ids = nodes.mailbox["id"]
        assert (ids[:, 1:] > ids[:, :-1]).all()
        return {"h": mail.sum(1)}

    g.update_all(message, reduce)
    assert sizes == [(7, 7)]
    assert degrees == [1, 3]
    expected = torch.zeros(6, 3).index_add(
        0, g.edges()[1].long(), g.ndata["x"][g.edges()[0].long()]
    )
    equal(g.ndata["h"], expected)


@both
def test_edges_are_in_id_order(dgl):
    g = small(dgl)

    def message(edges):
        src, dst, eid = edges.edges()
        return {"ends": torch.stack([src, dst, eid], 1), "m": edges.data["w"]}

    g.update_all(message, sum_m)
    g.apply_edges(lambda edges: {"ends": torch.stack(edges.edges(), 1)})
    src, dst = g.edges()
    equal(g.edata["ends"], torch.stack([src, dst, torch.arange(7)], 1))


@both
def test_frames_of_a_batch(dgl):
    g = small(dgl)
    seen = {}

    def message(edges):
        seen["keys"] = sorted(edges.src), len(edges.src), "x" in edges.src, "q" in edges.dst
        seen["cached"] = edges.src["x"] is edges.src["x"]
        seen["get"] = edges.dst.get("q")
        seen["own"] = edges.data["w"] is g.edata["w"]
        seen["type"] = edges.canonical_etype
        return {"m": edges.src["x"]}

    def reduce(nodes):
        seen["mailbox"] = type(nodes.mailbox), sorted(nodes.mailbox)
        seen["data"] = sorted(nodes.data)
        seen["ntype"] = nodes.ntype
        return {"h": nodes.mailbox["m"].sum(1)}

    g.update_all(message, reduce)
    assert seen == {
        "keys": (["x", "y"], 2, True, False),
        "cached": True,
        "get": None,
        "own": True,
        "type": ("_N", "_E", "_N"),
        "mailbox": (dict, ["m"]),
        "data": ["x", "y"],
        "ntype": "_N",
    }


@both
def test_a_writing_function_persists_only_edge_data(dgl):
    g = small(dgl)
    x = g.ndata["x"].clone()

    def message(edges):
        edges.data["kept"] = edges.data["w"] * 2
        edges.src["gone"] = edges.src["x"] + 1
        edges.src["x"].zero_()
        return {"m": edges.src["gone"]}

    def reduce(nodes):
        nodes.data["gone"] = nodes.data["x"]
        nodes.data["x"].zero_()
        return {"h": nodes.mailbox["m"].sum(1)}

    g.update_all(message, reduce)
    equal(g.edata["kept"], g.edata["w"] * 2)
    assert sorted(g.ndata) == ["h", "x", "y"]
    equal(g.ndata["x"], x)


@both
def test_apply_edges_may_alias(dgl):
    g = small(dgl)
    g.apply_edges(lambda edges: {"same": edges.data["w"]})
    assert g.edata["same"].data_ptr() == g.edata["w"].data_ptr()


@both
def test_apply_edges_on_some_edges(dgl):
    g = small(dgl)
    g.apply_edges(lambda edges: {"m": edges.src["x"] * edges.data["w"]}, edges=[5, 1])
    src, _ = g.edges()
    expected = torch.zeros(7, 3)
    expected[[5, 1]] = g.ndata["x"][src[[5, 1]]] * g.edata["w"][[5, 1]]
    equal(g.edata["m"], expected)
    g.apply_edges(lambda edges: {"m": edges.src["x"] * 0 + 5}, edges=(0, 3))
    equal(g.edata["m"][5], torch.full((3,), 5.0))


@both
def test_apply_nodes_on_some_nodes(dgl):
    g = small(dgl)
    seen = []

    def double(nodes):
        seen.append((nodes.nodes().tolist(), len(nodes), nodes.batch_size()))
        nodes.data["y"].zero_()
        return {"x": nodes.data["x"] * 2}

    x, y = g.ndata["x"].clone(), g.ndata["y"].clone()
    g.apply_nodes(double, v=[4, 1])
    assert seen == [([4, 1], 2, 2)]
    expected = x.clone()
    expected[[1, 4]] *= 2
    equal(g.ndata["x"], expected)
    equal(g.ndata["y"], y)
    g.apply_nodes(double)
    equal(g.ndata["x"], expected * 2)
    equal(g.ndata["y"], y)


@both
def test_isolated_nodes_get_the_initializer_of_each_returned_field(dgl):
    g = small(dgl)
    g.ndata["h"] = torch.full((6, 3), 9.0)
    g.set_n_initializer(lambda shape, dtype, device, rows: torch.full(shape, 4, dtype=dtype), "k")

    def reduce(nodes):
        mail = nodes.mailbox["m"]
        return {"h": mail.sum(1), "k": mail.sum(1), "i": mail.long().sum(1), "b": mail[:, 0] > 0}

    g.update_all(copy_x, reduce)
    isolated = [0, 4, 5]
    equal(g.ndata["h"][isolated], torch.zeros(3, 3))
    equal(g.ndata["k"][isolated], torch.full((3, 3), 4.0))
    equal(g.ndata["i"][isolated], torch.zeros(3, 3, dtype=torch.long))
    assert g.ndata["b"].dtype == torch.bool
    assert not g.ndata["b"][isolated].any()


@both
def test_default_initializer(dgl):
    g = small(dgl)
    g.set_n_initializer(lambda shape, dtype, device, rows: torch.ones(shape, dtype=dtype))
    g.update_all(copy_x, sum_m)
    equal(g.ndata["h"][[0, 4, 5]], torch.ones(3, 3))
    g.update_all(dgl.fn.copy_u("x", "m"), dgl.fn.sum("m", "h"))
    equal(g.ndata["h"][[0, 4, 5]], torch.zeros(3, 3))


@both
def test_apply_function_sees_all_fields_and_alone_is_written(dgl):
    g = small(dgl)
    seen = []

    def apply(nodes):
        seen.append(sorted(nodes.data))
        return {"z": nodes.data["h"] + nodes.data["y"]}

    g.update_all(copy_x, sum_m, apply)
    assert seen == [["h", "x", "y"]]
    assert sorted(g.ndata) == ["x", "y", "z"]
    plain = small(dgl)
    plain.update_all(copy_x, sum_m)
    equal(g.ndata["z"], plain.ndata["h"] + plain.ndata["y"])


@both
def test_apply_function_sees_the_new_value_of_a_field(dgl):
    g = small(dgl)
    old = g.ndata["x"].clone()
    g.update_all(
        copy_x,
        lambda nodes: {"x": nodes.mailbox["m"].sum(1) + nodes.data["x"]},
        lambda nodes: {"x": nodes.data["x"] * 10},
    )
    into = torch.zeros(6, 3).index_add(0, g.edges()[1], old[g.edges()[0]])
    expected = (into + old) * 10
    expected[[0, 4, 5]] = 0
    equal(g.ndata["x"], expected)


@both
def test_apply_function_in_place_reaches_untouched_features(dgl):
    g = small(dgl)

    def apply(nodes):
        nodes.data["y"].zero_()
        return {"h": nodes.data["h"]}

    g.update_all(copy_x, sum_m, apply)
    equal(g.ndata["y"], torch.zeros(6, 3))


@both
def test_a_message_without_fields_gives_an_empty_mailbox(dgl):
    g = small(dgl)
    sizes = []

    def reduce(nodes):
        sizes.append(len(nodes.mailbox))
        return {"n": torch.ones(len(nodes), 1)}

    g.update_all(lambda edges: {}, reduce)
    assert set(sizes) == {0}
    equal(g.ndata["n"].squeeze(1), torch.tensor([0.0, 1, 1, 1, 0, 0]))


@both
def test_gradients(dgl):
    g = small(dgl)
    x = g.ndata["x"].clone().requires_grad_()
    w = g.edata["w"].clone().requires_grad_()
    g.ndata["x"], g.edata["w"] = x, w
    g.update_all(
        lambda edges: {"m": edges.src["x"] * edges.data["w"]},
        lambda nodes: {"h": nodes.mailbox["m"].max(1)[0] * nodes.data["x"]},
    )
    assert g.ndata["h"].requires_grad
    g.ndata["h"].square().sum().backward()
    src, dst = g.edges()
    a, b = x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
    rows = []
    for node in range(6):
        mail = (a[src] * b)[dst == node]
        rows.append(mail.max(0)[0] * a[node] if len(mail) else torch.zeros(3))
    torch.stack(rows).square().sum().backward()
    equal(x.grad, a.grad)
    equal(w.grad, b.grad)


@both
def test_dtypes_and_rows_of_one_number(dgl):
    g = small(dgl)
    g.ndata["i"] = torch.arange(6, dtype=torch.int32)
    g.ndata["b"] = torch.arange(6) > 2
    g.ndata["c"] = torch.randn(6, 2, dtype=torch.complex64)

    def message(edges):
        return {key: edges.src[key] for key in "ibc"}

    def reduce(nodes):
        assert nodes.mailbox["i"].dim() == 2
        return {key + "s": nodes.mailbox[key].sum(1) for key in "ibc"}

    g.update_all(message, reduce)
    assert g.ndata["is"].dtype == torch.int64
    assert g.ndata["is"].tolist() == [0, 3, 4, 0, 0, 0]
    assert g.ndata["bs"].tolist() == [0, 1, 0, 0, 0, 0]
    assert g.ndata["cs"].dtype == torch.complex64


@both
def test_a_graph_of_isolated_nodes_with_builtins(dgl):
    g = dgl.graph(([], []), num_nodes=3)
    g.ndata["x"] = torch.randn(3, 2)
    for reduce in (dgl.fn.sum, dgl.fn.mean, dgl.fn.max, dgl.fn.min):
        g.update_all(dgl.fn.copy_u("x", "m"), reduce("m", "h"))
        equal(g.ndata["h"], torch.zeros(3, 2))
    g.apply_edges(dgl.fn.copy_u("x", "m"))
    assert g.edata["m"].shape == (0, 2)
    g.apply_edges(lambda edges: {"n": edges.src["x"]})
    assert g.edata["n"].shape == (0, 2)


@both
def test_a_graph_without_nodes(dgl):
    g = dgl.graph(([], []), num_nodes=0)
    g.ndata["x"] = torch.randn(0, 2)
    g.update_all(dgl.fn.copy_u("x", "m"), dgl.fn.sum("m", "h"))
    assert g.ndata["h"].shape == (0, 2)


@both
def test_local_scope_keeps_new_fields_and_drops_them(dgl):
    g = small(dgl)
    view = g.ndata
    x = g.ndata["x"]
    with g.local_scope():
        g.ndata["x"] = torch.zeros(6, 3)
        g.update_all(copy_x, sum_m)
        assert "h" in view
        g.ndata["y"].fill_(3)
    assert sorted(g.ndata) == ["x", "y"]
    assert g.ndata["x"] is x
    equal(g.ndata["y"], torch.full((6, 3), 3.0))
    local = g.local_var()
    local.ndata["x"] = torch.zeros(6, 3)
    del local.ndata["y"]
    assert sorted(g.ndata) == ["x", "y"]
    assert g.ndata["x"] is x


@both
def test_filters(dgl):
    g = small(dgl)
    positive = (g.ndata["x"][:, 0] > 0).nonzero().squeeze(1)
    assert g.filter_nodes(lambda nodes: nodes.data["x"][:, 0] > 0).tolist() == positive.tolist()
    order = [5, 2, 0, 3]
    kept = [i for i in order if i in positive.tolist()]
    found = g.filter_nodes(lambda nodes: nodes.data["x"][:, 0] > 0, order)
    assert found.tolist() == kept
    wanted = [i for i in range(7) if g.edata["w"][i] > 0]
    assert g.filter_edges(lambda edges: edges.data["w"][:, 0] > 0).tolist() == wanted
    found = g.filter_edges(lambda edges: (edges.data["w"][:, 0] > 0).float(), [6, 2, 1])
    assert found.tolist() == [i for i in (6, 2, 1) if i in wanted]
    assert sorted(g.ndata) == ["x", "y"]
    with pytest.raises((IndexError, RuntimeError)):
        g.filter_nodes(lambda nodes: nodes.data["x"] > 0)
