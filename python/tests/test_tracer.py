"""What capture must refuse, with the user's line, and what it must carry through."""

import inspect
import math
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gossamer.capture.errors import UntraceableError
from gossamer.capture.tracer import trace_call
from support_capture import NUM_NODES, columns, compiled, make_call, reference, structure

NODE = columns({"h": (4,), "x": (3, 4), "t": ((), torch.int64)}, NUM_NODES, 0)
EDGE = columns({"w": (1,), "s": (), "e": (4,), "k": ((), torch.int64)}, 12, 1)
PARAMETER = torch.randn(4, 4, dtype=torch.float64)
BUFFER = torch.zeros(4, dtype=torch.float64)
LINEAR = nn.Linear(4, 4).double()


def copy(edges):
    return {"m": edges.src["h"]}


def add(nodes):
    return {"o": nodes.mailbox["m"].sum(1)}


def refused(line_of, **call):
    """The error of a call, after a check that it names a line of `line_of`."""
    call.setdefault("message", copy)
    if call.get("kind", "update_all") == "update_all":
        call.setdefault("reduce", add)
    lifted = [PARAMETER, BUFFER, *LINEAR.parameters()]
    with pytest.raises(UntraceableError) as caught:
        trace_call(make_call(node=NODE, edge=EDGE, lifted=lifted, **call))
    lines, first = inspect.getsourcelines(line_of)
    assert caught.value.file == __file__
    bodies = [(first, first + len(lines)), *RESULT_LINES]
    assert any(start <= caught.value.line < end for start, end in bodies)
    assert caught.value.reason
    return caught.value


def in_reduce(body):
    """A reducer test: the body gets the mailbox field."""

    def reduce(nodes):
        return {"o": body(nodes, nodes.mailbox["m"])}

    return reduce


def in_message(body):
    """A message test: the body gets the edges."""

    def message(edges):
        return {"m": body(edges)}

    return message


def _lines(function):
    lines, first = inspect.getsourcelines(function)
    return first, first + len(lines)


#: a fault of a returned field is told at the definition of the function that returned it
RESULT_LINES = [_lines(in_reduce), _lines(in_message)]


def squeeze_rows(nodes, m):
    return m.sum(1).squeeze()


def branch_degree(nodes, m):
    return m.sum(1) if m.shape[1] == 1 else m.std(1)


def branch_degree_large(nodes, m):
    return m.sum(1) if m.shape[1] > 3 else m.mean(1)


def swallowed(nodes, m):
    try:
        factor = 2.0 if m.shape[1] == 1 else 1.0
    except Exception:
        factor = 3.0
    return m.sum(1) * factor


def unroll(nodes, m):
    total = m[:, 0] * 0
    for d in range(m.shape[1]):
        total = total + m[:, d]
    return total


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


REDUCERS = [
    lambda nodes, m: Doubled.apply(m.sum(1)),
    lambda nodes, m: m.sum(1) if m.requires_grad else m.mean(1),
    lambda nodes, m: m.requires_grad_().sum(1),
    branch_degree,
    branch_degree_large,
    swallowed,
    unroll,
    squeeze_rows,
    lambda nodes, m: m.topk(min(2, m.shape[1]), 1)[0].mean(1),
    lambda nodes, m: m.sum(1) * int(m.shape[1]),
    lambda nodes, m: m.sum(1) * float(m.shape[1]),
    lambda nodes, m: m.sum(1) * len(nodes),
    lambda nodes, m: m.sum(1) * nodes.batch_size(),
    lambda nodes, m: sum(list(m.unbind(1))),
    lambda nodes, m: m.squeeze(1).sum(1),
    lambda nodes, m: m.sum(1) - m.max(),
    lambda nodes, m: m.sum(1) - m.mean(),
    lambda nodes, m: F.softmax(m.sum(1), 0),
    lambda nodes, m: m.sum(1).cumsum(0),
    lambda nodes, m: m.sum(1) @ m.sum(1).t() @ m.sum(1),
    lambda nodes, m: m.sum((0, 1)).expand(m.shape[0], -1),
    lambda nodes, m: nn.BatchNorm1d(4).double()(m.sum(1)),
    lambda nodes, m: m.sum(1).flip(0),
    lambda nodes, m: m[:, 0],
    lambda nodes, m: m.sort(1)[0][:, 0],
    lambda nodes, m: m.median(1)[0],
    lambda nodes, m: m.max(1)[1],
    lambda nodes, m: m.flip(1).sum(1),
    lambda nodes, m: m.reshape(m.shape[0], -1).sum(1, keepdim=True),
    lambda nodes, m: m.view(-1, m.shape[0], 4).sum(0),
    lambda nodes, m: m.transpose(0, 1).reshape(m.shape[0], m.shape[1], 4).sum(1),
    lambda nodes, m: (m * torch.arange(m.shape[1]).view(1, -1, 1)).sum(1),
    lambda nodes, m: F.alpha_dropout(m, 0.5, True).sum(1),
    lambda nodes, m: (m + torch.rand(4, dtype=m.dtype)).sum(1),
    lambda nodes, m: m.sum(1) if m.sum() > 0 else -m.sum(1),
    lambda nodes, m: m.sum(1) * m.sum().item(),
    lambda nodes, m: m.sum(1) * torch.from_numpy(m.numpy()).sum(1),
    lambda nodes, m: m.sum(1) + np.asarray(m).sum(),
    lambda nodes, m: m.sum(1) * PARAMETER.tolist()[0][0],
    lambda nodes, m: m.sum(1) * float(PARAMETER[0, 0]),
    lambda nodes, m: m.sum(1) * len(str(m)),
    lambda nodes, m: m[m > 0],
    lambda nodes, m: m.sum(1) + torch.ones(7, 4),
    lambda nodes, m: m.sum(1)[: len(m)],
    lambda nodes, m: m.sum(1)[:3],
    lambda nodes, m: m.sum(1).to(torch.int16),
    lambda nodes, m: m.sum(1) + torch.full((1,), 2.0).expand(5, 4),
    lambda nodes, m: None,
    lambda nodes, m: 3.0,
    lambda nodes, m: m,
    lambda nodes, m: m.sum((1, 2)).sum(),
    lambda nodes, m: nodes.mailbox["absent"],
    lambda nodes, m: nodes.data["absent"],
    lambda nodes, m: m.sum(1) / 0 if math.isnan(m.sum(1)) else m.sum(1),
]


def _name(body):
    source = inspect.getsource(body).strip().rstrip(",")
    return source.split("m: ")[-1] if "lambda" in source else body.__name__


@pytest.mark.parametrize("body", REDUCERS, ids=_name)
def test_reducers_that_one_program_cannot_express(body):
    refused(body, reduce=in_reduce(body))


MESSAGES = [
    lambda e: e.src["h"] * 2 if len(e) else e.src["h"],
    lambda e: e.src["h"][:3],
    lambda e: e.src["h"] - e.src["h"].mean(0),
    lambda e: nn.BatchNorm1d(4).double()(e.src["h"]),
    lambda e: e.src["h"].reshape(-1),
    lambda e: e.src["h"] * e.data["s"],
    lambda e: e.data["e"].mul_(2.0),
    lambda e: e.data["e"].view(-1, 4).add_(1.0),
    lambda e: e.src["h"] + PARAMETER.add_(1.0)[0],
    lambda e: e.src["h"] + BUFFER.zero_(),
    lambda e: e.src["h"].t().contiguous().view(-1, 4),
    lambda e: e.src["h"].sum(),
    lambda e: e.src["h"] + torch.ones(4, dtype=torch.float64, requires_grad=True).numpy(),
    lambda e: e.src["h"] if torch.all(e.data["w"] > 0) else -e.src["h"],
    lambda e: e.src["h"][torch.randperm(4)],
    lambda e: torch.bmm(e.src["x"].unsqueeze(1)[:, 0], e.src["x"].mT).squeeze(),
]


@pytest.mark.parametrize("body", MESSAGES, ids=lambda b: inspect.getsource(b).strip().rstrip(","))
def test_messages_that_one_program_cannot_express(body):
    refused(body, message=in_message(body))


def test_a_tensor_that_nobody_lifted():
    stranger = torch.ones(4, dtype=torch.float64)

    def message(edges):
        return {"m": edges.src["h"] * stranger}

    assert "not found" in refused(message, message=message).reason


@pytest.mark.parametrize(
    ("operator", "operands", "found"),
    [(torch.linalg.inv, 1, "nothing"), (torch.is_same_size, 2, "a bool")],
    ids=["inv", "is_same_size"],
)
def test_an_operator_that_returns_no_tensor_is_named(operator, operands, found):
    """torch.linalg.inv checks what its operator found, by another that returns nothing."""

    def message(edges):
        rows = edges.src["h"].unflatten(1, (2, 2))
        return {"m": operator(*[rows] * operands).flatten(1)}

    error = refused(message, message=message)
    assert error.reason.startswith("aten.")
    assert f"returns {found} instead of a tensor" in error.reason


def test_prints_are_refused_and_print_is_restored():
    def message(edges):
        print("seen")
        return {"m": edges.src["h"]}

    original = print
    assert "print" in refused(message, message=message).reason
    assert print is original
    assert not hasattr(torch.SymInt, "log")
    assert math.log.__module__ == "math"


def test_a_write_through_a_view_is_refused():
    def reduce(nodes):
        m = nodes.mailbox["m"]
        m[:, :, 0] = 0.0
        return {"o": m.sum(1)}

    refused(reduce, reduce=reduce)


def test_a_write_that_another_view_would_show_is_refused():
    def reduce(nodes):
        m = nodes.mailbox["m"]
        first = m[..., 0]
        m *= 2.0
        return {"o": (m * first.unsqueeze(-1)).sum(1)}

    refused(reduce, reduce=reduce)


def test_field_write_in_place_by_apply_function():
    def apply(nodes):
        nodes.data["h"].mul_(2.0)
        return {"o": nodes.data["o"]}

    refused(apply, apply=apply)


def test_an_assumption_on_sizes_outside_of_operators_is_refused():
    def reduce(nodes):
        m = nodes.mailbox["m"]
        torch._check(m.shape[1] == 4)
        return {"o": m.sum(1)}

    assert "certain numbers" in str(_refusal(reduce))


def test_wrong_rows_are_named():
    def reduce(nodes):
        return {"o": torch.zeros(3, 4)}

    assert "one row for each of the nodes" in str(_refusal(reduce))


def _refusal(reduce):
    with pytest.raises(UntraceableError) as caught:
        trace_call(make_call(message=copy, reduce=reduce, node=NODE, edge=EDGE))
    return caught.value


def test_errors_in_the_function_keep_their_text_and_line():
    def message(edges):
        return {"m": edges.src["h"] @ torch.ones(5, 5, dtype=torch.float64)}

    refused(message, message=message)


SAME = [
    lambda nodes, m: m.sum(1) / m.shape[1],
    lambda nodes, m: m.sum(1) * (m.shape[1] + 1) ** 0.5,
    lambda nodes, m: m.sum(1) / math.sqrt(m.shape[1]),
    lambda nodes, m: m.mean(1) * math.log(m.shape[1] + 1) / 2.5,
    lambda nodes, m: m.mean(1) * np.log(m.shape[1] + 1),
    lambda nodes, m: m.mean(1) / np.sqrt(m.shape[1]) * math.log1p(m.shape[1]),
    lambda nodes, m: m.view(*m.size()).sum(1),
    lambda nodes, m: m.sum(1) * torch.tensor(m.shape[1]) + torch.tensor(math.sqrt(m.shape[1])),
    lambda nodes, m: m.sum(1) + torch.zeros(m.shape[0], 4, dtype=m.dtype),
    lambda nodes, m: m.sum(1) * m.new_ones(m.shape[0], 1),
    lambda nodes, m: m.sum(1) * torch.full((m.shape[0], 1), m.shape[1], dtype=m.dtype),
    lambda nodes, m: m.sum(1) * torch.full((1,), 2.0, dtype=m.dtype) * m.shape[1],
    lambda nodes, m: m.sum(1) + torch.ones_like(m).sum(1),
    lambda nodes, m: torch.stack(m.unbind(-1), -1).sum(1),
    lambda nodes, m: m.var(1, unbiased=False),
    lambda nodes, m: m.std(1),
    lambda nodes, m: m.var((1, 2)).unsqueeze(-1),
    lambda nodes, m: (m - m.mean(1, keepdim=True)).pow(2).mean(1),
    lambda nodes, m: m.sum(1) * 2 if m.dim() == 3 and m.shape[-1] == 4 else m.sum(1),
    lambda nodes, m: m.sum(1) if m.shape[1] >= 1 else m.mean(1),
]


@pytest.mark.parametrize("body", SAME, ids=_name)
@pytest.mark.parametrize("name", ["odd", "star", "one_node", "no_edges"])
def test_sizes_as_numbers(body, name):
    graph = structure(name)
    node = columns({"h": (4,)}, graph.num_dst, 2)
    edge = columns({"w": (1,)}, len(graph.src), 3)
    reduce = in_reduce(body)
    ours = compiled(make_call(message=copy, reduce=reduce, node=node, edge=edge), graph, node, edge)
    expected = reference("update_all", graph, node, edge, copy, reduce)
    for field, value in expected.items():
        torch.testing.assert_close(ours[field], value, equal_nan=True)
    if not expected:
        assert torch.equal(ours["o"], torch.zeros_like(ours["o"]))


def in_place(nodes):
    m = nodes.mailbox["m"]
    m += 1
    m.mul_(nodes.data["h"].unsqueeze(1))
    total = m.sum(1)
    total.clamp_(min=-1.0).neg_()
    kept = total.clone().zero_()
    kept.copy_(total[:, :1])
    return {"o": total, "p": kept, "again": nodes.mailbox["m"].mean(1), "h2": nodes.data["h"]}


def test_writes_in_place_on_copies_are_local():
    graph = structure()

    def message(edges):
        h = edges.src["h"]
        h *= edges.data["w"]
        return {"m": edges.src["h"] + edges.dst["h"]}

    ours = compiled(
        make_call(message=message, reduce=in_place, node=NODE, edge=EDGE), graph, NODE, EDGE
    )
    node = {name: value.clone() for name, value in NODE.items()}
    expected = reference("update_all", graph, node, EDGE, message, in_place)
    for field, value in expected.items():
        torch.testing.assert_close(ours[field], value)
    assert torch.equal(node["h"], NODE["h"])


def test_edges_data_assignments_persist_and_are_seen():
    def message(edges):
        edges.data["kept"] = edges.src["h"] * 2
        return {"m": edges.data["kept"] + 1}

    call = make_call(message=message, reduce=add, node=NODE, edge=EDGE)
    captured = trace_call(call)
    assert set(captured.side_writes) == {"kept"}
    assert set(captured.outputs) == {"o"}
    graph = structure()
    ours = compiled(call, graph, NODE, EDGE)
    torch.testing.assert_close(ours["kept"], NODE["h"][graph.src] * 2)


def test_apply_sees_overlay_and_writes_only_what_it_returns():
    def apply(nodes):
        return {"z": nodes.data["o"] + nodes.data["h"]}

    call = make_call(message=copy, reduce=add, apply=apply, node=NODE, edge=EDGE)
    assert set(trace_call(call).outputs) == {"z"}
    graph = structure()
    expected = reference("update_all", graph, NODE, EDGE, copy, add, apply)
    torch.testing.assert_close(compiled(call, graph, NODE, EDGE)["z"], expected["z"])


def test_ids_are_inputs():
    def message(edges):
        src, dst, eid = edges.edges()
        return {"m": (src + 10 * dst + 100 * eid).unsqueeze(1) * edges.src["h"]}

    def reduce(nodes):
        return {"o": nodes.mailbox["m"].sum(1) * nodes.nodes().unsqueeze(1)}

    graph = structure()
    ours = compiled(
        make_call(message=message, reduce=reduce, node=NODE, edge=EDGE), graph, NODE, EDGE
    )
    expected = reference("update_all", graph, NODE, EDGE, message, reduce)
    torch.testing.assert_close(ours["o"], expected["o"])


def test_only_what_is_read_is_an_input():
    captured = trace_call(make_call(message=copy, reduce=add, node=NODE, edge=EDGE))
    assert captured.reads == (("node", "h"),)


def test_scalars_are_inputs_and_their_branches_are_refused():
    def functions(scalars):
        def message(edges):
            return {"m": edges.src["h"] * scalars[0] + (1 - scalars[1]) * edges.dst["h"]}

        return type("F", (), {"message": message, "reduce": add, "apply": None})

    graph = structure()
    call = make_call(functions=functions, num_scalars=2, node=NODE, edge=EDGE)

    def message(edges):
        return {"m": edges.src["h"] * 0.25 + (1 - 0.75) * edges.dst["h"]}

    expected = reference("update_all", graph, NODE, EDGE, message, add)
    torch.testing.assert_close(compiled(call, graph, NODE, EDGE, (0.25, 0.75))["o"], expected["o"])

    def branches(scalars):
        def message(edges):
            return {"m": edges.src["h"] * (2 if scalars[0] > 0 else 3)}

        return type("F", (), {"message": message, "reduce": add, "apply": None})

    with pytest.raises(UntraceableError):
        trace_call(make_call(functions=branches, num_scalars=1, node=NODE, edge=EDGE))


def test_two_threads_capture_at_once():
    errors = []

    def work():
        try:
            for _ in range(3):
                trace_call(make_call(message=copy, reduce=add, node=NODE, edge=EDGE))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_bipartite_rows():
    from gossamer.capture.call import Functions, GraphCall
    from support_capture import schema

    def message(edges):
        return {"m": torch.cat([edges.src["a"], edges.dst["b"]], 1)}

    call = GraphCall(
        "update_all",
        lambda _: Functions(message, add),
        src=schema(columns({"a": (2,)}, 3, 0)),
        dst=schema(columns({"b": (1,)}, 3, 0)),
        homogeneous=False,
    )
    captured = trace_call(call)
    assert captured.reads == (("src", "a"), ("dst", "b"))
    assert captured.outputs["o"].rows == "dst"
