"""Wrong input: the class of the error, what it names, and that nothing has changed."""

from __future__ import annotations

import pickle

import pytest
import torch

from gossamer import errors
from graph_libs import OURS, both, copy_x, equal, hetero, small, sum_m


def fails(dgl, g, call, kinds, match=None):
    """`call` raises one of `kinds`; of ours it is a GraphError as well. `g` is as before."""
    before = {key: value.clone() for key, value in g.ndata.items()}
    edges = sorted(g.edata)
    with pytest.raises(kinds, match=None if dgl.is_dgl else match) as caught:
        call()
    if not dgl.is_dgl:
        assert isinstance(caught.value, errors.GraphError)
    assert sorted(g.ndata) == sorted(before)
    for key, value in before.items():
        equal(g.ndata[key], value)
    assert sorted(g.edata) == edges


MESSAGES = {
    "missing source field": (lambda e: {"m": e.src["q"]}, KeyError, r"edges\.src.*'q'.*'x', 'y'"),
    "missing edge field": (lambda e: {"m": e.data["q"]}, KeyError, r"'q'"),
    "too few rows": (lambda e: {"m": e.src["x"][:5]}, IndexError, "5 rows.*7 edges"),
    "returns a tensor": (lambda e: e.src["x"], (AttributeError, TypeError, RuntimeError), "dict"),
    "returns no tensor": (lambda e: {"m": 3.5}, (AttributeError, TypeError), "tensor"),
}


@both
@pytest.mark.parametrize("case", list(MESSAGES))
def test_bad_messages(dgl, case):
    message, kinds, match = MESSAGES[case]
    g = small(dgl)
    if case == "returns a tensor" and dgl.is_dgl:
        kinds = Exception
    fails(dgl, g, lambda: g.update_all(message, sum_m), kinds, match)


REDUCERS = {
    "missing message": (lambda n: {"h": n.mailbox["q"]}, KeyError, "q"),
    "missing node field": (lambda n: {"h": n.data["q"]}, KeyError, r"nodes\.data.*'q'"),
    "wrong rows": (lambda n: {"h": n.mailbox["m"].sum(1)[:1].repeat(2, 1)}, IndexError, "rows"),
    "returns nothing": (lambda n: None, AttributeError, "dict"),
    "shape by degree": (lambda n: {"h": n.mailbox["m"].flatten(1)}, RuntimeError, "in-degrees"),
    "a key missing for a degree": (
        lambda n: {"h": n.mailbox["m"].sum(1)} if n.mailbox["m"].shape[1] < 3 else {},
        KeyError,
        "'h'",
    ),
}


@both
@pytest.mark.parametrize("case", list(REDUCERS))
def test_bad_reducers(dgl, case):
    reduce, kinds, match = REDUCERS[case]
    g = small(dgl)
    if case == "missing message":
        with pytest.raises(KeyError):
            g.update_all(copy_x, reduce)
        assert "h" not in g.ndata
        return
    fails(dgl, g, lambda: g.update_all(copy_x, reduce), kinds, match)


@both
def test_a_key_that_only_a_later_degree_returns_is_dropped(dgl):
    g = small(dgl)

    def reduce(nodes):
        mail = nodes.mailbox["m"]
        return {"h": mail.sum(1), **({"late": mail[:, 0]} if mail.shape[1] == 3 else {})}

    g.update_all(copy_x, reduce)
    assert sorted(g.ndata) == ["h", "x", "y"]


@both
def test_bad_apply_functions(dgl):
    g = small(dgl)
    for bad, kinds in (
        (lambda n: {"h": n.data["h"][:2]}, (dgl.DGLError, IndexError)),
        (lambda n: None, AttributeError),
        (lambda n: {"z": n.data["q"]}, KeyError),
    ):
        fails(dgl, g, lambda bad=bad: g.update_all(copy_x, sum_m, bad), kinds)
        if kinds is not KeyError:
            fails(dgl, g, lambda bad=bad: g.apply_nodes(lambda n: bad_like(bad, n)), kinds)


def bad_like(bad, nodes):
    nodes.data["h"] = nodes.data["x"]
    return bad(nodes)


@both
def test_bad_edge_functions(dgl):
    g = small(dgl)
    fails(dgl, g, lambda: g.apply_edges(lambda e: {"m": e.data["w"][:3]}), dgl.DGLError, "3 rows")
    fails(dgl, g, lambda: g.apply_edges(lambda e: None), dgl.DGLError, "dict")
    fails(dgl, g, lambda: g.apply_edges(lambda e: e.data["w"]), dgl.DGLError, "dict")


@both
def test_errors_of_functions_pass_unchanged(dgl):
    g = small(dgl)

    class Mine(Exception):
        pass

    def fail(batch):
        raise Mine("here")

    for call in (
        lambda: g.update_all(fail, sum_m),
        lambda: g.update_all(copy_x, fail),
        lambda: g.update_all(copy_x, sum_m, fail),
        lambda: g.apply_edges(fail),
        lambda: g.apply_nodes(fail),
        lambda: g.pull([1], copy_x, fail),
    ):
        with pytest.raises(Mine, match="here"):
            call()
    assert sorted(g.ndata) == ["x", "y"]


@both
def test_bad_fields(dgl):
    g = small(dgl)
    with pytest.raises(dgl.DGLError):
        g.ndata["z"] = torch.zeros(5, 3)
    with pytest.raises(dgl.DGLError):
        g.edata["z"] = torch.zeros(6, 3)
    with pytest.raises(dgl.DGLError):
        g.ndata["z"] = torch.zeros(6, 3, device="meta")
    with pytest.raises(KeyError):
        g.ndata["q"]
    with pytest.raises(KeyError):
        g.ndata.pop("q")
    assert sorted(g.ndata) == ["x", "y"]


BAD_IDS = {
    "pull, int32": lambda g, wrong: g.pull(wrong, copy_x, sum_m),
    "send_and_recv, int32": lambda g, wrong: g.send_and_recv(wrong, copy_x, sum_m),
    "in_degrees, int32": lambda g, wrong: g.in_degrees(wrong),
    "find_edges, int32": lambda g, wrong: g.find_edges(wrong),
    "find_edges": lambda g, _: g.find_edges([7]),
    "edge_ids": lambda g, _: g.edge_ids([0], [5]),
    "pull": lambda g, _: g.pull([6], copy_x, sum_m),
    "filter_nodes": lambda g, _: g.filter_nodes(lambda n: n.data["x"][:, 0] > 0, [9]),
}


@both
@pytest.mark.parametrize("case", list(BAD_IDS))
def test_bad_ids(dgl, case):
    g = small(dgl)
    with pytest.raises(dgl.DGLError):
        BAD_IDS[case](g, torch.tensor([0, 1], dtype=torch.int32))
    assert sorted(g.ndata) == ["x", "y"]


def test_bad_ids_of_ours_alone():
    """DGL leaves these to torch, or to chance."""
    g = small(OURS)
    for call in (
        lambda: g.apply_nodes(lambda n: {"h": n.data["x"]}, [6]),
        lambda: g.send_and_recv([7], copy_x, sum_m),
        lambda: g.in_degrees([6]),
        lambda: g.nodes[[8]].data["x"],
        lambda: g.add_edges([0], [6]),
        lambda: g.remove_nodes([6]),
    ):
        with pytest.raises(errors.GraphError):
            call()
    assert (g.num_nodes(), g.num_edges()) == (6, 7)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: OURS.graph(([0, 3], [1, 1]), num_nodes=3), "source node 3 is out of range"),
        (lambda: OURS.graph(([0, 1], [1, -1]), num_nodes=3), "destination node -1"),
        (lambda: OURS.graph(([0, 1], [1])), "2 sources, but 1 destinations"),
        (lambda: OURS.graph(([0.5], [1.0])), "integers"),
        (lambda: OURS.graph((torch.tensor([0.0]), torch.tensor([1.0]))), "int32 or int64"),
        (lambda: OURS.graph("edges"), "pair"),
        (lambda: OURS.heterograph({}), "at least one edge type"),
        (lambda: OURS.heterograph({"follows": ([0], [1])}), "follows"),
        (lambda: OURS.heterograph({("a", "b", "c"): ([0], [5])}, {"a": 1, "c": 2}), "node 5"),
        (lambda: OURS.heterograph({("a", "b", "c"): ([0], [0])}, {"a": 1}), "'c'"),
        (lambda: OURS.create_block(([0], [0]), 1), "both"),
        (lambda: OURS.from_edge_index(torch.zeros(3, 2, dtype=torch.long)), r"\(2, E\)"),
    ],
)
def test_bad_graphs(make, match):
    with pytest.raises(errors.GraphError, match=match):
        make()


def test_extra_message_rows_are_an_error():
    """DGL ignores them."""
    g = small(OURS)
    with pytest.raises(errors.RowCountError, match="9 rows"):
        g.update_all(lambda e: {"m": torch.zeros(9, 2)}, sum_m)
    with pytest.raises(errors.RowCountError):
        g.update_all(copy_x, lambda n: {"h": n.mailbox["m"].sum(1).repeat(2, 1)})


def test_errors_survive_pickling():
    error = errors.MissingFieldError("q", "edges.src", ["x", "y"])
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "edges.src has no field 'q'; it has: 'x', 'y'"
    assert again.key == "q"


def test_no_change_of_structure_in_a_local_scope():
    g = small(OURS)
    with g.local_scope(), pytest.raises(errors.GraphError, match="local_scope"):
        g.add_nodes(1)
    assert g.num_nodes() == 6


def test_a_failing_scope_restores_fields():
    """DGL 1.1.3 leaves the scope's fields behind."""
    g = hetero(OURS)

    def fail_inside():
        with g.local_scope():
            g.nodes["user"].data["z"] = torch.ones(4)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert set(g.ndata) == {"x"}
