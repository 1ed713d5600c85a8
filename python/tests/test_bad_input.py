"""Bad input: a clear error of the same class eager and compiled, and nothing has changed."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import gossamer as gs
from programs.harness import fields_left
from programs.twins import NODES, H, Model, copy_h, mail_sum, make_graph, signed


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64], ids=["int32", "int64"])
@pytest.mark.parametrize(
    ("src", "dst", "found"),
    [([0, 5], [1, 1], "5"), ([0, 1], [1, 3], "3"), ([0, -1], [1, 1], "-1")],
    ids=["source", "destination", "negative"],
)
def test_an_endpoint_out_of_range(src, dst, found, idtype):
    with pytest.raises(gs.errors.GraphError, match=re.escape(found)) as raised:
        gs.graph((src, dst), num_nodes=3, idtype=idtype)
    assert "3" in str(raised.value)


def test_endpoints_of_different_lengths():
    with pytest.raises(gs.errors.GraphError, match=r"2.*3"):
        gs.graph(([0, 1], [1, 1, 0]))


def test_endpoints_that_are_no_integers():
    with pytest.raises(gs.errors.GraphError, match="float"):
        gs.graph((torch.tensor([0.5]), torch.tensor([1.0])))


def test_an_endpoint_out_of_range_of_its_node_type():
    with pytest.raises(gs.errors.GraphError, match=r"item|4"):
        gs.heterograph(
            {("user", "buys", "item"): ([0], [4])}, num_nodes_dict={"user": 1, "item": 4}
        )


def test_an_edge_added_out_of_range():
    g = make_graph()
    before = g.num_edges(), g.num_nodes()
    with pytest.raises(gs.errors.GraphError):
        g.add_edges([0], [-2])
    assert (g.num_edges(), g.num_nodes()) == before


@dataclass(frozen=True)
class Bad:
    """A model and input whose call must raise `error` with the words of `says` in its message."""

    name: str
    model: type[Model]
    says: tuple[str, ...]
    rows: torch.Tensor = H
    error: type[BaseException] = Exception


class MissingSource(Model):
    def message(self, edges):
        return {"m": edges.src["nothing"]}


class MissingEdge(Model):
    def message(self, edges):
        return {"m": edges.src["h"] * edges.data["weight"]}


class MissingMail(Model):
    def reduce(self, nodes):
        return {"o": nodes.mailbox["mail"].sum(1)}


class MissingOwn(Model):
    def reduce(self, nodes):
        return {"o": nodes.mailbox["m"].sum(1) + nodes.data["own"]}


class Weighted(Model):
    def message(self, edges):
        return {"m": self.linear(edges.src["h"])}


class ShortMessage(Model):
    def message(self, edges):
        return {"m": edges.src["h"][:3]}


class LongReduce(Model):
    def reduce(self, nodes):
        rows = nodes.mailbox["m"].sum(1)
        return {"o": torch.cat([rows, rows])}


class NoDict(Model):
    def message(self, edges):
        return edges.src["h"]


class NoReduction(Model):
    def reduce(self, nodes):
        return None


class NoTensor(Model):
    def reduce(self, nodes):
        return {"o": 3}


class WrongColumns(Model):
    def message(self, edges):
        return {"m": edges.src["h"] + torch.ones(4, dtype=torch.float64)}


class UnknownRelation(Model):
    def forward(self, g, h):
        g.ndata["h"] = h
        g.update_all(copy_h, mail_sum, etype="likes")
        return g.ndata["o"]


class UnknownView(UnknownRelation):
    def forward(self, g, h):
        return g["likes"].num_edges()


class TooFewRows(Model):
    def forward(self, g, h):
        g.ndata["h"] = h[:-1]
        return super().forward(g, h)


class UnknownType(Model):
    def forward(self, g, h):
        g.nodes["planet"].data["h"] = h
        return h


CASES = (
    Bad("unknown_source_field", MissingSource, ("nothing", "h"), error=gs.errors.MissingFieldError),
    Bad("unknown_edge_field", MissingEdge, ("weight",), error=gs.errors.MissingFieldError),
    Bad("unknown_mailbox_field", MissingMail, ("mail",), error=KeyError),
    Bad("unknown_own_field", MissingOwn, ("own", "h"), error=gs.errors.MissingFieldError),
    Bad("wrong_width", Weighted, ("4", "3"), signed(NODES, 4), RuntimeError),
    Bad("wrong_dtype", Weighted, ("float", "double"), H.float(), RuntimeError),
    Bad("wrong_columns", WrongColumns, ("4", "3"), error=RuntimeError),
    Bad("short_message", ShortMessage, ("3", "200"), error=gs.errors.RowCountError),
    Bad("long_reduce", LongReduce, (), error=gs.errors.RowCountError),
    Bad("message_no_dict", NoDict, ("dict", "Tensor"), error=gs.errors.ResultTypeError),
    Bad("reduce_none", NoReduction, ("dict", "None"), error=gs.errors.ResultTypeError),
    Bad("reduce_no_tensor", NoTensor, ("int",), error=gs.errors.ResultTypeError),
    Bad("unknown_relation", UnknownRelation, ("likes",), error=gs.errors.GraphError),
    Bad("unknown_relation_view", UnknownView, ("likes",), error=gs.errors.GraphError),
    Bad("unknown_node_type", UnknownType, ("planet",), error=gs.errors.GraphError),
    Bad("too_few_rows", TooFewRows, ("39", "40"), error=gs.errors.RowCountError),
)


def _state(g: Any, model: nn.Module) -> dict[str, torch.Tensor]:
    fields = {name: value.clone() for name, value in fields_left((g,)).items()}
    return {**fields, **{name: value.clone() for name, value in model.state_dict().items()}}


def _raised(call: Any, g: Any, rows: torch.Tensor) -> BaseException:
    with torch.no_grad(), pytest.raises(Exception) as raised:  # noqa: PT011 (the test compares it)
        call(g, rows)
    return raised.value


@pytest.mark.filterwarnings("ignore::gossamer.errors.FallbackWarning")
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)
def test_a_bad_call(bad, mode):
    model, g = bad.model(), make_graph()
    call = model if mode == "eager" else gs.compile(model)
    g.ndata["kept"] = signed(NODES, 2)
    before = _state(g, model)
    error = _raised(call, g, bad.rows)
    eager = _raised(copy.deepcopy(model), make_graph(), bad.rows)
    assert isinstance(error, bad.error)
    assert type(error) is type(eager)
    for word in bad.says:
        assert word.lower() in str(error).lower()
    after = _state(g, model)
    assert set(after) - set(before) <= {"graph0.node._N.h"}
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_a_compiled_module_works_after_an_error():
    model = Weighted()
    fast = gs.compile(model, fallback="error")
    expected = model(make_graph(), H)
    for _ in range(2):
        _raised(fast, make_graph(), signed(NODES, 4))
        torch.testing.assert_close(fast(make_graph(), H), expected)


def test_a_graph_of_another_kind():
    """A bipartite graph under a model that reads `ndata`: DGL's error, not a crash."""
    g = gs.heterograph({("a", "to", "b"): ([0, 1], [1, 0])}, num_nodes_dict={"a": 2, "b": 3})
    eager = _raised(Model(), g, signed(2, 3))
    assert isinstance(eager, gs.errors.GossamerError)
    assert type(_raised(gs.compile(Model()), g, signed(2, 3))) is type(eager)


def test_an_unknown_option():
    for options in ({"fallback": "maybe"}, {"backend": "gpu"}, {"numerics": "wild"}):
        with pytest.raises(ValueError, match=next(iter(options.values()))):
            gs.compile(Model(), **options)
    with pytest.raises(TypeError):
        gs.compile(3)


def test_explain_of_a_plain_module():
    with pytest.raises(gs.errors.GossamerError, match="compile"):
        gs.explain(Model())
