"""Message passing along some edges: send_and_recv, push, pull, and propagation."""

from __future__ import annotations

import pytest
import torch

from graph_libs import OURS, both, copy_x, equal, small, sum_m


def sent(g, edges):
    """What node each of `edges` gives to whom, summed."""
    src, dst = g.find_edges(torch.as_tensor(edges))
    return torch.zeros(6, 3).index_add(0, dst, g.ndata["x"][src])


@both
def test_mailboxes_follow_the_order_of_the_argument(dgl):
    g = small(dgl)
    mails = {}

    def reduce(nodes):
        for node, mail in zip(nodes.nodes().tolist(), nodes.mailbox["w"].tolist(), strict=True):
            mails[node] = [round(value[0], 5) for value in mail]
        return {"h": nodes.mailbox["w"].sum(1)}

    def message(edges):
        return {"w": edges.data["w"]}

    w = [round(value, 5) for value in g.edata["w"][:, 0].tolist()]
    g.send_and_recv([6, 4, 2, 0, 1], message, reduce)
    assert mails == {1: [w[4], w[2], w[0]], 2: [w[6], w[1]]}


@both
def test_send_and_recv_writes_receivers_only(dgl):
    g = small(dgl)
    g.ndata["h"] = torch.full((6, 3), 9.0)
    g.send_and_recv([0, 5], copy_x, sum_m)
    expected = sent(g, [0, 5])
    expected[[0, 2, 4, 5]] = 9
    equal(g.ndata["h"], expected)


@both
def test_repeated_edges_and_nodes_repeat_messages(dgl):
    g = small(dgl)
    g.send_and_recv([0, 0, 5], copy_x, sum_m)
    equal(g.ndata["h"], sent(g, [0, 0, 5]))
    g.pull([3, 3], copy_x, sum_m)
    equal(g.ndata["h"][3], 2 * g.ndata["x"][0])


@both
def test_pull_overwrites_pulled_nodes_without_in_edges(dgl):
    g = small(dgl)
    g.ndata["h"] = torch.full((6, 3), 9.0)
    g.pull([3, 4], copy_x, sum_m)
    expected = torch.full((6, 3), 9.0)
    expected[3], expected[4] = g.ndata["x"][0], 0
    equal(g.ndata["h"], expected)


@both
def test_pull_of_isolated_nodes_alone(dgl):
    g = small(dgl)
    g.ndata["h"] = torch.full((6, 3), 9.0)
    calls = []

    def message(edges):
        calls.append(len(edges))
        return {"m": edges.src["x"]}

    g.pull([4, 5], message, sum_m)
    assert calls == [0]
    equal(g.ndata["h"], torch.full((6, 3), 9.0))
    g.pull([4, 5], message, sum_m, lambda nodes: {"h": nodes.data["h"] + 1})
    equal(g.ndata["h"][[4, 5]], torch.full((2, 3), 10.0))


@both
def test_nothing_is_called_for_no_edges(dgl):
    g = small(dgl)

    def never(batch):
        raise AssertionError

    g.send_and_recv([], never, never, never)
    g.pull([], never, never, never)
    assert sorted(g.ndata) == ["x", "y"]


@both
def test_push(dgl):
    g = small(dgl)
    g.push([0, 1], copy_x, sum_m)
    equal(g.ndata["h"], sent(g, [0, 2, 5, 1, 6]))


@both
def test_batches_hold_original_ids(dgl):
    g = small(dgl)
    seen = []

    def message(edges):
        seen.append(edges.src["_ID"].tolist())
        seen.append(edges.data["_ID"].tolist())
        return {"m": edges.src["x"]}

    def apply(nodes):
        seen.append((nodes.nodes().tolist(), len(nodes)))
        return {"h": nodes.data["h"]}

    g.send_and_recv([5, 1], message, sum_m, apply)
    assert seen == [[0, 1], [5, 1], ([2, 3], 2)]
    assert "_ID" not in g.ndata


def test_edges_of_a_part_have_original_ids():
    g = small(OURS)
    seen = []

    def message(edges):
        seen.append([ids.tolist() for ids in edges.edges()])
        return {"m": edges.src["x"]}

    g.send_and_recv([6, 4], message, sum_m)
    g.pull([3], message, sum_m)
    assert seen == [[[1, 3], [2, 1], [6, 4]], [[0], [3], [5]]]


@both
def test_edge_data_written_by_a_part_is_dropped(dgl):
    g = small(dgl)

    def message(edges):
        edges.data["gone"] = edges.data["w"]
        return {"m": edges.src["x"]}

    g.send_and_recv([0, 1], message, sum_m)
    assert sorted(g.edata) == ["w"]


@both
def test_existing_columns_keep_their_scheme(dgl):
    g = small(dgl)
    for bad in (lambda m: m.sum(1)[:, :2], lambda m: m.double().sum(1)):
        g.ndata["h"] = torch.ones(6, 3)
        for call in (g.pull, g.send_and_recv):
            with pytest.raises(dgl.DGLError):
                call([1], copy_x, lambda nodes, bad=bad: {"h": bad(nodes.mailbox["m"])})
        equal(g.ndata["h"], torch.ones(6, 3))
    g.update_all(copy_x, lambda nodes: {"h": nodes.mailbox["m"].sum(1)[:, :2]})
    assert g.ndata["h"].shape == (6, 2)


@both
def test_builtin_maximum_keeps_infinity(dgl):
    g = small(dgl)
    g.pull([1, 4], dgl.fn.copy_u("x", "m"), dgl.fn.max("m", "h"))
    assert (g.ndata["h"][4] == -float("inf")).all()
    equal(g.ndata["h"][1], torch.stack([g.ndata["x"][0], g.ndata["x"][3]]).max(0)[0])
    g.pull([4], dgl.fn.copy_u("x", "m"), dgl.fn.max("m", "h"))
    equal(g.ndata["h"][4], torch.zeros(3))


@both
def test_topological_propagation_keeps_leaf_values(dgl):
    g = dgl.graph(([0, 1, 2, 3], [2, 2, 4, 4]), num_nodes=5)
    g.ndata["c"] = torch.tensor([[1.0], [10.0], [0.0], [100.0], [0.0]])
    sizes = []

    def message(edges):
        sizes.append(len(edges))
        return {"c": edges.src["c"]}

    dgl.prop_nodes_topo(
        g,
        message,
        lambda nodes: {"c": nodes.mailbox["c"].sum(1)},
        apply_node_func=lambda nodes: {"c": nodes.data["c"] + 0.5},
    )
    assert sizes == [0, 2, 2]
    equal(g.ndata["c"].squeeze(1), torch.tensor([1.5, 10.5, 12.5, 100.5, 113.5]))


@both
def test_frontiers(dgl):
    g = dgl.graph(([0, 0, 1, 2, 3], [1, 2, 3, 3, 4]), num_nodes=5)

    def lists(frontiers):
        return [sorted(frontier.tolist()) for frontier in frontiers]

    assert lists(dgl.topological_nodes_generator(g)) == [[0], [1, 2], [3], [4]]
    assert lists(dgl.topological_nodes_generator(g, True)) == [[4], [3], [1, 2], [0]]
    assert lists(dgl.bfs_nodes_generator(g, 0)) == [[0], [1, 2], [3], [4]]
    assert lists(dgl.bfs_nodes_generator(g, 3, True)) == [[3], [1, 2], [0]]
    assert lists(dgl.bfs_edges_generator(g, 0))[0] == [0, 1]
    assert len(list(dgl.dfs_edges_generator(g, [0]))) == 4


@both
def test_prop_edges(dgl):
    g = small(dgl)
    g.prop_edges([[0, 1], [5]], copy_x, sum_m)
    equal(g.ndata["h"], sent(g, [0, 1, 5]))


def test_a_cycle_has_no_topological_order():
    g = OURS.graph(([0, 1, 2], [1, 2, 1]))
    with pytest.raises(OURS.DGLError, match="cycle"):
        list(OURS.topological_nodes_generator(g))
