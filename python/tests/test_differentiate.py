"""Gradients that the compiler derives: equal to torch's, for every operator that emit writes.

gossamer-opt differentiates the text, `support_mlir` runs what comes out, and torch.autograd of the
torch back end says what is right. Everything in float64.
"""

import math
import re
import subprocess
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from gossamer.capture.call import single_call
from gossamer.capture.tracer import trace_call
from gossamer.emit import emit
from gossamer.torch_backend import _ELEMENTWISE, _GRAPH_OPS, run_captured
from support_capture import inputs_of, make_call, structure
from support_mlir import ELEMENTWISE as FUNCTION_OF
from support_mlir import evaluate, parse, run_opt
from test_emit import ELEMENTWISE, FEATURES, LIFTED, MAILBOX, OPT, from_mailbox, spec, to_mailbox

pytestmark = pytest.mark.skipif(OPT is None, reason="gossamer-opt is not built")

CLEAN = "mp-resolve-mailbox,canonicalize,cse"


def passes(*names):
    """A flag that runs passes of functions."""
    return f"--pass-pipeline=builtin.module(func.func({','.join(names)}))"


def differentiate(wrt, **options):
    """The text of the pass with options."""
    words = [f"{name}={str(value).lower()}" for name, value in options.items()]
    numbers = ",".join(map(str, wrt))
    return f"mp-differentiate{{{' '.join([*words, f'wrt={numbers}'])}}}"


def pipeline(mode, wrt, *options):
    """A flag that runs everything up to kernels."""
    return f"--mp-pipeline={' '.join([f'differentiate={mode}', *options])} wrt={','.join(wrt)}"


class Case:
    """A captured call on a graph, with gradients from torch."""

    def __init__(self, kind, name, message, reduce=None):
        self.graph = structure(name)
        node, edge = spec(self.graph)
        call = make_call(kind, message=message, reduce=reduce, node=node, edge=edge, lifted=LIFTED)
        self.emitted = emit(single_call(trace_call(call)))
        given = inputs_of(self.emitted, call, self.graph, node, edge, ())
        self.inputs = [given[key].detach().clone() for key in self.emitted.inputs]
        self.text = self.emitted.text
        self.wrt = [i for i, x in enumerate(self.inputs) if x.is_floating_point()]

    def leaves(self):
        """Inputs that require a gradient, and all inputs."""
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in self.inputs]
        return [inputs[i] for i in self.wrt], inputs

    def reference(self):
        """Results, gradients of the results, gradients of the inputs."""
        leaves, inputs = self.leaves()
        results = run_captured(self.emitted, inputs, [self.graph])
        given = upstream(results)
        pairs = [(r, g) for r, g in zip(floats(results), given, strict=True) if r.requires_grad]
        if not pairs:
            return results, given, [torch.zeros_like(x) for x in leaves]
        roots, weights = zip(*pairs, strict=True)
        grads = torch.autograd.grad(roots, leaves, weights, allow_unused=True)
        return results, given, zeros_for_none(grads, leaves)


def floats(tensors):
    return [t for t in tensors if t.is_floating_point()]


def upstream(results):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(r.shape, dtype=r.dtype, generator=generator) for r in floats(results)]


def zeros_for_none(grads, leaves):
    return [
        torch.zeros_like(x) if g is None else g.detach() for g, x in zip(grads, leaves, strict=True)
    ]


def close(ours, theirs, tolerance=1e-9):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            mine, other.detach(), equal_nan=True, rtol=tolerance, atol=tolerance
        )


def check_alone(case):
    """The gradient as a function of arguments and gradients."""
    _, given, expected = case.reference()
    flag = passes(CLEAN, differentiate(case.wrt, save=False))
    ours = evaluate(parse(run_opt(OPT, case.text, flag)), [*case.inputs, *given], [case.graph])
    close(ours, expected)


def check_pair(case, *options):
    """Forward and backward as two optimised programs; no row of an edge is saved."""
    results, given, expected = case.reference()
    wrt = [str(i) for i in case.wrt]
    forward = parse(run_opt(OPT, case.text, pipeline("forward", wrt, *options)))
    made = evaluate(forward, case.inputs, [case.graph])
    close(made[: len(results)], results)
    saved = made[len(results) :]
    assert all(type.kind != "edge" for type in forward.ops[-1].operand_types[len(results) :])
    backward = parse(run_opt(OPT, case.text, pipeline("backward", wrt, *options)))
    close(evaluate(backward, [*case.inputs, *saved, *given], [case.graph]), expected)


def edge_formula(formula):
    return lambda e: {"m": formula(e.src["h"], e.dst["h"], e.data["e"])}


def feature_formula(formula):
    def message(e):
        return {
            "m": formula(e.src["x"] + e.data["m"], e.dst["h"], e.src["c"], e.data["s"]),
        }

    return message


@pytest.mark.parametrize("formula", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_elementwise(formula):
    check_alone(Case("apply_edges", "odd", edge_formula(formula)))


@pytest.mark.parametrize("formula", FEATURES.values(), ids=FEATURES)
def test_features(formula):
    case = Case("apply_edges", "odd", feature_formula(formula))
    check_alone(case)
    check_pair(case)


@pytest.mark.parametrize("formula", MAILBOX.values(), ids=MAILBOX)
def test_mailbox(formula):
    case = Case("update_all", "odd", to_mailbox, from_mailbox(formula))
    check_alone(case)
    check_pair(case)
    check_pair(case, "numerics=strict")


@pytest.mark.parametrize("graph", ["star", "one_node", "no_edges"])
@pytest.mark.parametrize("name", ["sum", "extrema", "heads", "linear", "pna", "prod", "concat"])
def test_odd_graphs(name, graph):
    case = Case("update_all", graph, to_mailbox, from_mailbox(MAILBOX[name]))
    check_alone(case)
    check_pair(case)


SMOOTH_MAILBOX = ("gated", "heads", "linear", "centred", "prod", "einsum_weights", "layer_norm")
SMOOTH = (
    "arithmetic",
    "powers",
    "rsqrt",
    "logs",
    "exps",
    "trigonometry",
    "hyperbolic",
    "smooth",
    "gelus",
    "sigmoids",
    "where",
)


@pytest.mark.parametrize("name", [*SMOOTH_MAILBOX, *SMOOTH])
def test_second_derivatives(name):
    """Differentiating twice: the gradient of weighted first gradients."""
    if name in SMOOTH:
        case = Case("apply_edges", "odd", edge_formula(ELEMENTWISE[name]))
    else:
        case = Case("update_all", "odd", to_mailbox, from_mailbox(MAILBOX[name]))
    leaves, inputs = case.leaves()
    results = run_captured(case.emitted, inputs, [case.graph])
    given = [g.requires_grad_() for g in upstream(results)]
    first = torch.autograd.grad(results, leaves, given, create_graph=True, allow_unused=True)
    first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, leaves, strict=True)]
    weights = upstream(first)
    roots = [(g, w) for g, w in zip(first, weights, strict=True) if g.requires_grad]
    expected = torch.autograd.grad(
        [g for g, _ in roots], [*leaves, *given], [w for _, w in roots], allow_unused=True
    )
    again = [*case.wrt, *range(len(inputs), len(inputs) + len(given))]
    flag = passes(CLEAN, differentiate(case.wrt, save=False), differentiate(again, save=False))
    block = parse(run_opt(OPT, case.text, flag))
    ours = evaluate(block, [x.detach() for x in (*inputs, *given, *weights)], [case.graph])
    close(ours, zeros_for_none(expected, [*leaves, *given]))


def run_text(text, wrt, inputs):
    """Gradients of a function written by hand, for a gradient of 1."""
    block = parse(run_opt(OPT, text, passes(differentiate(wrt, save=False))))
    return evaluate(block, [*inputs, torch.ones_like(inputs[0])], [])


def elementwise(body, count=1):
    """A function of tables without rows of 5 numbers."""
    arguments = ", ".join(f"%x{i}: tensor<5xf64>" for i in range(count))
    return f"""
    func.func @region({arguments}) -> tensor<5xf64> attributes {{mp.graphs = 1 : i64}} {{
      {body}
      return %y : tensor<5xf64>
    }}"""


SPECIAL = torch.tensor([-2.0, -0.5, 0.0, 0.5, 3.0], dtype=torch.float64)
OTHER = torch.tensor([-2.0, 1.0, 0.0, 0.5, -3.0], dtype=torch.float64)
KINKS = {
    "abs": ("%y = math.absf %x0 : tensor<5xf64>", torch.abs, 1),
    "maximum": ("%y = arith.maximumf %x0, %x1 : tensor<5xf64>", torch.maximum, 2),
    "minimum": ("%y = arith.minimumf %x0, %x1 : tensor<5xf64>", torch.minimum, 2),
    "pow": ("%y = math.powf %x0, %x1 : tensor<5xf64>", torch.pow, 2),
    "sqrt": ("%y = math.sqrt %x0 : tensor<5xf64>", torch.sqrt, 1),
}


@pytest.mark.parametrize(("body", "function", "count"), KINKS.values(), ids=KINKS)
def test_conventions_at_kinks_are_those_of_torch(body, function, count):
    inputs = [x.clone().requires_grad_() for x in (SPECIAL, OTHER)[:count]]
    expected = torch.autograd.grad(function(*inputs).sum(), inputs)
    ours = run_text(elementwise(body, count), range(count), [x.detach() for x in inputs])
    close(ours, expected)


def test_overflow_on_a_branch_that_is_not_taken_gives_no_nan():
    body = """
      %zero = mp.fill 0.0 : f64 : tensor<5xf64>
      %positive = arith.cmpf ogt, %x0, %zero : tensor<5xf64>
      %e = math.expm1 %x0 : tensor<5xf64>
      %y = arith.select %positive, %x0, %e : tensor<5xi1>, tensor<5xf64>"""
    x = SPECIAL * 1000
    (ours,) = run_text(elementwise(body), [0], [x])
    torch.testing.assert_close(ours, torch.where(x > 0, 1.0, x.exp()))


#: emitted functions at their kinks, at ties and at overflow
EMITTED_KINKS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "celu": F.celu,
    "gelu": F.gelu,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp(min=0),
    "clamp_max": lambda x: x.clamp(max=1),
    "threshold": lambda x: F.threshold(x, 0.5, 7.0),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "sqrt_of_abs": lambda x: x.abs().sqrt(),
    "norm_of_zeros": lambda x: (x * 0).norm(dim=1, keepdim=True) * x,
    "std_of_zeros": lambda x: (x * 0).std(1, unbiased=False, keepdim=True) * x,
    "normalize_zeros": lambda x: F.normalize(x * 0, dim=1),
    "max": lambda x: x.clamp(-1, 1).max(1, keepdim=True)[0],
    "amax": lambda x: x.clamp(-1, 1).amax(1, keepdim=True),
    "hardtanh_to_relu6": lambda x: F.relu6(x) + F.hardtanh(x, 0.5, 3.0),
    "clamp_empty": lambda x: x.clamp(1, -1),
    "clamp_tensors": lambda x: torch.clamp(x, (x * 0.5).floor(), (2 - x) * 0.25),
    "clamp_min_tensor": lambda x: torch.clamp(x, min=x.relu() * 2 - 1),
    "clamp_max_tensor": lambda x: torch.clamp(x, max=x.abs()),
    "clamp_equal_tensors": lambda x: torch.clamp(x, x * 0 + 1, x * 0 + 1),
    "norm_3_of_zeros": lambda x: (x * 0).norm(p=3, dim=1, keepdim=True) * x,
    "norm_3": lambda x: x.norm(p=3, dim=1, keepdim=True),
    "norm_half": lambda x: x.norm(p=0.5, dim=1, keepdim=True),
    "cosine_of_zeros": lambda x: F.cosine_similarity(x * 0, x, 1)[:, None] * x,
    "cosine_of_small": lambda x: F.cosine_similarity(x * 1e-13, x.cos(), 1)[:, None] * x,
    "amin": lambda x: x.clamp(-1, 1).amin(1, keepdim=True),
    "amax_of_two": lambda x: x.clamp(-1, 1).reshape(-1, 2, 5).amax((1, 2)),
    "norm_inf_of_two": lambda x: x.clamp(-1, 1).reshape(-1, 5, 2).norm(p=math.inf, dim=(1, 2)),
    "norm_inf": lambda x: x.norm(p=math.inf, dim=1, keepdim=True),
    "logsumexp": lambda x: x.logsumexp(1, keepdim=True),
    "log_softmax": lambda x: x.log_softmax(1),
}


@pytest.mark.parametrize("function", EMITTED_KINKS.values(), ids=EMITTED_KINKS)
def test_emitted_kinks(function):
    graph = structure("one_node")
    values = [-1000.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 1000.0]
    x = torch.tensor([values] * 2, dtype=torch.float64)
    call = make_call(
        "apply_edges", message=lambda e: {"m": function(e.data["e"])}, node={}, edge={"e": x}
    )
    written = emit(single_call(trace_call(call))).text
    block = parse(run_opt(OPT, written, passes(CLEAN, differentiate([0], save=False))))
    leaf = x.clone().requires_grad_()
    result = function(leaf)
    ones = torch.ones_like(result)
    # torch rounds the slope 1/6 of hardsigmoid to float32.
    tolerance = 1e-7 if function is F.hardsigmoid else 1e-9
    close(evaluate(block, [x, ones], [graph]), torch.autograd.grad(result, leaf, ones), tolerance)


SAGE = """
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
#edge = #mp.rows<0, edge>
func.func @region(%x: tensor<?x3xf64, #src>, %w: tensor<6x2xf64>, %b: tensor<2xf64>)
    -> tensor<?x2xf64, #dst> attributes {mp.graphs = 1 : i64} {
  %m = mp.gather src %x : tensor<?x3xf64, #src> -> tensor<?x3xf64, #edge>
  %s = mp.reduce mean dst %m : tensor<?x3xf64, #edge> -> tensor<?x3xf64, #dst>
  %p = mp.prefix %x : tensor<?x3xf64, #src> -> tensor<?x3xf64, #dst>
  %c = mp.concat %p, %s axis 1 : tensor<?x3xf64, #dst>, tensor<?x3xf64, #dst>
    -> tensor<?x6xf64, #dst>
  %y = mp.linear %c, %w : tensor<?x6xf64, #dst>, tensor<6x2xf64> -> tensor<?x2xf64, #dst>
  %r = mp.broadcast %b : tensor<2xf64> -> tensor<?x2xf64, #dst>
  %z = arith.addf %y, %r : tensor<?x2xf64, #dst>
  return %z : tensor<?x2xf64, #dst>
}"""


def test_block_whose_destinations_are_its_first_sources():
    graph = SimpleNamespace(
        src=torch.tensor([0, 3, 4, 4, 1]), dst=torch.tensor([0, 0, 0, 1, 1]), num_src=5, num_dst=3
    )
    generator = torch.Generator().manual_seed(0)
    x, w, b, g = (
        torch.randn(shape, dtype=torch.float64, generator=generator)
        for shape in ((5, 3), (6, 2), (2,), (3, 2))
    )
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    mean = torch.stack([leaves[0][[0, 3, 4]].mean(0), leaves[0][[4, 1]].mean(0), torch.zeros(3)])
    result = torch.cat([leaves[0][:3], mean], 1) @ leaves[1] + leaves[2]
    expected = torch.autograd.grad(result, leaves, g)
    wrt = ["0", "1", "2"]
    made = evaluate(parse(run_opt(OPT, SAGE, pipeline("forward", wrt))), [x, w, b], [graph])
    close(made[:1], [result])
    backward = parse(run_opt(OPT, SAGE, pipeline("backward", wrt)))
    close(evaluate(backward, [x, w, b, *made[1:], g], [graph]), expected)


TIES = """
func.func @region(%x: tensor<?x3xf64, #mp.rows<0, edge>>) -> tensor<?x3xf64, #mp.rows<0, node>>
    attributes {{mp.graphs = 1 : i64}} {{
  %y = mp.reduce {kind} dst %x {ties} : tensor<?x3xf64, #mp.rows<0, edge>>
    -> tensor<?x3xf64, #mp.rows<0, node>>
  return %y : tensor<?x3xf64, #mp.rows<0, node>>
}}"""


def tied(graph):
    x = torch.tensor([1.0, 2.0, 2.0, 0.0], dtype=torch.float64)
    return x[torch.arange(len(graph.dst) * 3) % 4].reshape(-1, 3)


def gradients_per_node(x, graph, function):
    """Gradients of `function` of the rows of each node."""
    x = x.clone().requires_grad_()
    rows = [x[graph.dst == v] for v in range(graph.num_dst)]
    total = sum(function(r).sum() for r in rows if len(r))
    return torch.autograd.grad(total, x) if len(x) else (torch.zeros_like(x),)


@pytest.mark.parametrize("graph", ["odd", "star", "one_node", "no_edges"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_ties_between_messages(kind, graph):
    graph = structure(graph)
    x = tied(graph)
    x[len(x) // 2 :] *= 0
    ones = torch.ones(graph.num_dst, 3, dtype=torch.float64)

    def run(ties):
        flag = passes(differentiate([0], save=False))
        block = parse(run_opt(OPT, TIES.format(kind=kind, ties=ties), flag))
        return evaluate(block, [x, ones], [graph])

    first, even = getattr(torch, kind), getattr(torch, "a" + kind)
    close(run(""), gradients_per_node(x, graph, lambda r: first(r, 0)[0]))
    close(run("ties even"), gradients_per_node(x, graph, lambda r: even(r, 0)))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("ties", ["first", "even"])
def test_ties_between_features(kind, ties):
    text = f"""
    func.func @region(%x: tensor<4x6xf64>) -> tensor<4xf64> attributes {{mp.graphs = 1 : i64}} {{
      %y = mp.reduce_axis {kind} %x axis 1 ties {ties} : tensor<4x6xf64> -> tensor<4xf64>
      return %y : tensor<4xf64>
    }}"""
    x = (torch.arange(24) % 5 // 2).reshape(4, 6).double().requires_grad_()
    y = getattr(torch, kind)(x, 1)[0] if ties == "first" else getattr(torch, "a" + kind)(x, 1)
    ones = torch.ones(4, dtype=torch.float64)
    block = parse(run_opt(OPT, text, passes(differentiate([0], save=False))))
    close(evaluate(block, [x.detach(), ones], []), torch.autograd.grad(y.sum(), x))


def test_product_with_zeros():
    graph = structure()
    x = tied(graph)
    block = parse(
        run_opt(OPT, TIES.format(kind="prod", ties=""), passes(differentiate([0], save=False)))
    )
    ones = torch.ones(graph.num_dst, 3, dtype=torch.float64)
    close(evaluate(block, [x, ones], [graph]), gradients_per_node(x, graph, lambda r: r.prod(0)))


def known_derivatives():
    done = subprocess.run(
        [OPT, "-", "--mp-list-derivatives", "-o", "/dev/null"],
        input="module {}",
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(re.findall(r"(?m)^([\w.]+): (.*)$", done.stdout))


def test_every_op_has_a_derivative_or_says_why_not():
    known = known_derivatives()
    emitted = {name for name in (*_ELEMENTWISE, *_GRAPH_OPS) if "." in name}
    own = {name for name in known if name.startswith("mp.")}
    assert len(own) > 20
    assert {name for name in emitted | own if known.get(name, "missing") == "missing"} == set()


#: the arithmetic that maps floats to floats
FLOAT_ARITHMETIC = [
    f"arith.{name}"
    for name in ("addf", "subf", "mulf", "divf", "remf", "negf", "maximumf", "minimumf")
]
OF_ONE = ("arith.negf",)
OF_TWO = ("math.powf", "math.atan2")
#: where an op is defined, if not from 1.1 to 3
DOMAINS = dict.fromkeys(["math.asin", "math.acos", "math.atanh"], (0.1, 0.9))
FLOAT_OPS = [
    name
    for name in _ELEMENTWISE
    if name in FLOAT_ARITHMETIC or (name.startswith("math.") and name != "math.absi")
]


@pytest.mark.parametrize("name", FLOAT_OPS)
def test_slope_and_curvature_of_every_op(name):
    """Each op that maps floats to floats, by itself, differentiated once and twice."""
    function = FUNCTION_OF[name]
    two = name in OF_TWO or (name.startswith("arith.") and name not in OF_ONE)
    count = 2 if two else 1
    points = torch.linspace(*DOMAINS.get(name, (1.1, 3.0)), 5, dtype=torch.float64)
    inputs = [points.roll(2 * number).requires_grad_() for number in range(count)]
    operands = ", ".join(f"%x{number}" for number in range(count))
    text = elementwise(f"%y = {name} {operands} : tensor<5xf64>", count)
    first = torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
    plain = [x.detach() for x in inputs]
    close(run_text(text, range(count), plain), first)

    total = sum(slope.sum() for slope in first)
    second = [None] * count
    if total.requires_grad:
        second = torch.autograd.grad(total, inputs, allow_unused=True)
    again = differentiate(range(count), save=False)
    block = parse(run_opt(OPT, text, passes(again, again)))
    ones = [torch.ones_like(points)] * (1 + count)
    close(evaluate(block, [*plain, *ones], []), zeros_for_none(second, inputs))


def test_unknown_argument_is_refused():
    case = Case("update_all", "odd", to_mailbox, from_mailbox(MAILBOX["int_max"]))
    integers = [i for i, x in enumerate(case.inputs) if not x.is_floating_point()]
    for index in (integers[0], len(case.inputs)):
        flag = passes(CLEAN, differentiate([index]))
        with pytest.raises(ValueError, match=f"no floating point argument {index}"):
            run_opt(OPT, case.text, flag)
