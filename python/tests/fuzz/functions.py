"""Drawn user-defined functions: message, reduce and apply, and the built-ins they mix with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from fuzz.body import Body, Draw, Model, Shape, Value
from fuzz.labels import ON_LABELS
from fuzz.mailbox import IN_MAILBOX, UNCOMPILABLE, aggregate, aggregated
from fuzz.vocabulary import ON_ROWS, Operator

MAX_OUTPUTS = 3

Fields = dict[str, Shape]


@dataclass
class Frames:
    """What functions can read of one relation: floating point fields, and labels.

    Labels are names, and where messages read them: "src", "dst" or "data" of edges.
    """

    src: Fields = field(default_factory=dict)
    dst: Fields = field(default_factory=dict)
    edge: Fields = field(default_factory=dict)
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Function:
    """A drawn argument of a graph call: `code` stands there, `lines` define it where needed."""

    code: str
    outputs: Fields
    lines: tuple[str, ...] = ()

    def renamed(self, keys: Sequence[str]) -> Function:
        """The same with other names for its outputs."""
        code, lines = self.code, self.lines
        for old, new in zip(self.outputs, keys, strict=True):
            code = code.replace(f"{old!r}", f"{new!r}")
            lines = tuple(line.replace(f"{old!r}", f"{new!r}") for line in lines)
        return Function(code, dict(zip(keys, self.outputs.values(), strict=True)), lines)


def _operate(body: Body, operators: tuple[Operator, ...], most: int) -> None:
    for operator in body.draw(st.lists(st.sampled_from(operators), max_size=most)):
        operator(body)


def _load(body: Body, sources: list[tuple[str, Shape]], rows: str, most: int) -> None:
    """Reads up to `most` fields, one at least."""
    for code, shape in body.some(sources, most):
        body.let(code, shape, rows)


def _finish(body: Body, argument: str, stem: str, results: list[Value]) -> Function:
    """A function that returns `results`, each in a field of its own."""
    fields = {body.model.field(stem): value for value in results}
    name = body.model.field(f"{argument}_function")
    pairs = ", ".join(f"{key!r}: {value.name}" for key, value in fields.items())
    lines = [*body.lines(*(value.name for value in results)), f"return {{{pairs}}}"]
    code = (f"def {name}({argument}):", *(f"    {line}" for line in lines))
    return Function(name, {key: value.shape for key, value in fields.items()}, code)


def message(draw: Draw, model: Model, frames: Frames) -> Function:
    """A function of edges, for update_all or apply_edges."""
    body = Body(draw, model, "edges")
    sources = [(f"edges.src[{key!r}]", shape) for key, shape in frames.src.items()]
    sources += [(f"edges.dst[{key!r}]", shape) for key, shape in frames.dst.items()]
    sources += [(f"edges.data[{key!r}]", shape) for key, shape in frames.edge.items()]
    _load(body, sources, "edges", 3)
    for key, place in frames.labels:
        if body.choose([True, False]):
            body.let(f"edges.{place}[{key!r}]", (), "edges", "int")
            _operate(body, ON_LABELS, 2)
    _operate(body, ON_ROWS, 5)
    results = [v for v in body.unused() if v.kind == "float"][-MAX_OUTPUTS:] or [body.pick()]
    return _finish(body, "edges", "m", results)


def reduce(
    draw: Draw, model: Model, messages: Fields, frames: Frames, uncompilable: bool = False
) -> Function:
    """A function of a mailbox and the nodes' own fields."""
    body = Body(draw, model, "nodes")
    _load(body, [(f"nodes.mailbox[{k!r}]", s) for k, s in messages.items()], "mailbox", 3)
    if frames.dst and body.choose([False, True]):
        _load(body, [(f"nodes.data[{k!r}]", s) for k, s in frames.dst.items()], "nodes", 1)
    for key, place in frames.labels:
        if place == "dst" and body.choose([True, False]):
            body.let(f"nodes.data[{key!r}]", (), "nodes", "int")
            _operate(body, ON_LABELS, 1)
    _operate(body, IN_MAILBOX, 4)
    if uncompilable:
        m = body.pick(lambda v: v.rows == "mailbox")
        body.let(body.choose(UNCOMPILABLE).format(m=m.name), m.shape, "nodes")
    elif not any(v.rows == "nodes" and body.combines(v) for v in body.values):
        aggregate(body)
    for value in body.unused():
        if value.rows == "mailbox" and value.kind == "float":
            aggregated(body, value)
    results = [v for v in body.unused() if v.kind == "float" and v.rows == "nodes"][-MAX_OUTPUTS:]
    return _finish(body, "nodes", "o", results)


def apply(draw: Draw, model: Model, fields: Fields) -> Function:
    """A function of nodes, for update_all's last argument or apply_nodes."""
    body = Body(draw, model, "nodes")
    _load(body, [(f"nodes.data[{key!r}]", shape) for key, shape in fields.items()], "nodes", 3)
    _operate(body, ON_ROWS, 3)
    results = [v for v in body.unused() if v.kind == "float"][-MAX_OUTPUTS:] or [body.pick()]
    return _finish(body, "nodes", "o", results)


def builtin_message(draw: Draw, model: Model, frames: Frames) -> Function:
    """copy_u, copy_e, or two fields of equal rank with an operator between."""
    body = Body(draw, model, "edges")
    ends = {"u": frames.src, "v": frames.dst, "e": frames.edge}
    places = [(end, key) for end, fields in ends.items() for key in fields]
    a, key = body.choose([place for place in places if place[0] != "v"])
    shape, out = ends[a][key], model.field("m")
    others = [
        (b, other, joint)
        for b, other in places
        if b != a and (joint := _same_rank_joint(shape, ends[b][other])) is not None
    ]
    if not others or body.choose([True, False]):
        return Function(f"fn.copy_{a}({key!r}, {out!r})", {out: shape})
    b, other, joint = body.choose(others)
    operators = ["mul", "add", "sub"]
    if shape and shape == ends[b][other]:
        operators.append("dot")
    operator = body.choose(operators)
    joint = (*joint[:-1], 1) if operator == "dot" else joint
    return Function(f"fn.{a}_{operator}_{b}({key!r}, {other!r}, {out!r})", {out: joint})


def _same_rank_joint(a: Shape, b: Shape) -> Shape | None:
    if len(a) != len(b) or any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
        return None
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))


def builtin_reduce(draw: Draw, model: Model, messages: Fields) -> Function:
    """sum, mean, max or min of one message field."""
    body = Body(draw, model, "nodes")
    key, out = body.choose(list(messages)), model.field("o")
    kind = body.choose(["sum", "mean", "max", "min"])
    return Function(f"fn.{kind}({key!r}, {out!r})", {out: messages[key]})
