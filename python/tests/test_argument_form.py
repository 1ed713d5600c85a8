"""Arguments that are said to be as earlier ones are taken apart to the same; others are not."""

import pytest
import torch

import gossamer as gs
from gossamer.capture.argument_form import ArgumentForm
from gossamer.capture.whole_arguments import Arguments


def ring(nodes: int = 4, idtype: torch.dtype = torch.int64) -> gs.Graph:
    src = torch.arange(nodes, dtype=idtype)
    return gs.graph((torch.cat([src, src]), torch.cat([src.roll(1), src])), num_nodes=nodes)


GRAPH, X, Y = ring(), torch.randn(4, 8), torch.randn(3)
SIMILAR = {
    "the same": ((GRAPH, X, Y), {"power": 2}),
    "other values": ((GRAPH, torch.zeros(4, 8), torch.ones(3)), {"power": 2}),
    "another graph": ((ring(), X, Y), {"power": 2}),
    "a parameter": ((GRAPH, torch.nn.Parameter(X, requires_grad=False), Y), {"power": 2}),
}


def with_attribute() -> torch.Tensor:
    tensor = torch.randn(4, 8)
    tensor.note = 1
    return tensor


def with_initializer() -> gs.Graph:
    graph = ring()
    graph.set_n_initializer(lambda shape, dtype, device, ids: torch.ones(shape, dtype=dtype))
    return graph


def grown() -> gs.Graph:
    graph = ring()
    graph.add_edges([0], [2])
    return graph


OTHER = {
    "shape": ((GRAPH, torch.randn(4, 9), Y), {"power": 2}),
    "dtype": ((GRAPH, X.double(), Y), {"power": 2}),
    "gradient": ((GRAPH, X.clone().requires_grad_(), Y), {"power": 2}),
    "strides": ((GRAPH, torch.randn(8, 4).t(), Y), {"power": 2}),
    "attribute": ((GRAPH, with_attribute(), Y), {"power": 2}),
    "no tensor": ((GRAPH, None, Y), {"power": 2}),
    "sizes": ((ring(5), torch.randn(5, 8), Y), {"power": 2}),
    "edges": ((grown(), X, Y), {"power": 2}),
    "ids": ((ring(idtype=torch.int32), X, Y), {"power": 2}),
    "initializer": ((with_initializer(), X, Y), {"power": 2}),
    "batch": ((gs.batch([ring(2), ring(2)]), X, Y), {"power": 2}),
    "types": ((gs.heterograph({("a", "b", "a"): ([0], [1])}), X, Y), {"power": 2}),
    "value": ((GRAPH, X, Y), {"power": 3}),
    "type of value": ((GRAPH, X, Y), {"power": True}),
    "name": ((GRAPH, X, Y), {"other": 2}),
    "fewer": ((GRAPH, X), {"power": 2}),
    "more": ((GRAPH, X, Y, Y), {"power": 2}),
    "by name": ((GRAPH, X), {"y": Y, "power": 2}),
}


def form_of(*args, **kwargs) -> ArgumentForm | None:
    return ArgumentForm.of(Arguments(args, kwargs))


@pytest.mark.parametrize("case", SIMILAR)
def test_similar_arguments_are_taken_apart_alike(case):
    args, kwargs = SIMILAR[case]
    found, expected = form_of(GRAPH, X, Y, power=2).arguments(args, kwargs), Arguments(args, kwargs)
    assert found.key == expected.key
    assert (found.rows, found.counts, found.sets) == (
        expected.rows,
        expected.counts,
        expected.sets,
    )
    for name in ("graphs", "originals", "tensors", "frames", "structures"):
        pairs = zip(getattr(found, name), getattr(expected, name), strict=True)
        assert all(ours is theirs for ours, theirs in pairs)


@pytest.mark.parametrize("case", OTHER)
def test_other_arguments_are_not(case):
    args, kwargs = OTHER[case]
    assert form_of(GRAPH, X, Y, power=2).arguments(args, kwargs) is None


def test_equal_objects_are_told_from_one_object():
    twice = form_of(GRAPH, X, X)
    assert twice.arguments((GRAPH, Y, X), {}) is None
    assert twice.arguments((GRAPH, X, X.clone()), {}) is None
    assert twice.arguments((GRAPH, X, X), {}).tensors == [X]
    assert form_of(GRAPH, X, X.clone()).arguments((GRAPH, X, X), {}) is None
    assert form_of(GRAPH, ring(), X).arguments((GRAPH, GRAPH, X), {}) is None


def test_fields_and_scopes_are_those_of_the_call():
    form = form_of(GRAPH, X)
    with GRAPH.local_scope():
        found = form.arguments((GRAPH, X), {})
        assert found.frames[0] is GRAPH._node_frames[0]
    assert found.frames[0] is not GRAPH._node_frames[0]


@pytest.mark.parametrize("args", [(GRAPH, [X]), ({"g": GRAPH},), (GRAPH, 1.5)])
def test_what_has_no_form(args):
    assert form_of(*args) is None
