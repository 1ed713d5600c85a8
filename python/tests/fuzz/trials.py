"""A trial: a program as Python source, a graph, inputs, and how the program is compiled."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from fuzz import graphs
from fuzz.body import Draw, Model, Shape
from fuzz.functions import (
    Fields,
    Frames,
    Function,
    apply,
    builtin_message,
    builtin_reduce,
    message,
    reduce,
)
from gossamer.compiler import OPTIONAL_PASSES
from programs.data import Rows
from programs.graphs import AnyCase

HEAD = """\
import math

import torch
import torch.nn.functional as F
from torch import nn

import gossamer.dgl.function as fn
from gossamer.dgl.nn.functional import edge_softmax
"""


@dataclass(frozen=True)
class Settings:
    """How the program of a trial is compiled and called.

    calls: 1 runs regions only; at the second call the whole forward becomes one program.
    without: sets of optional passes; the program is compiled once without each of them.
    variants: those of the program that are forced in turn, where it has them.
    thorough: all this was chosen already, and what the backward reads is changed before it.
    """

    dtype: str = "float64"
    calls: int = 1
    numerics: str = "fast"
    without: tuple[tuple[str, ...], ...] = ()
    variants: tuple[int, ...] = ()
    thorough: bool = False


@dataclass(frozen=True)
class Trial:
    """`source` defines `Model`; its forward takes the graphs of `graph`, then one tensor a row."""

    source: str
    rows: tuple[Rows, ...]
    graph: AnyCase
    seed: int
    settings: Settings
    compilable: bool = True


@dataclass
class Forward:
    """The code of a forward under construction: inputs, statements, results."""

    draw: Draw
    model: Model
    inputs: list[Rows] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)

    def choose(self, options):
        return self.draw(st.sampled_from(options))

    def shape(self) -> Shape:
        """Features of an input."""
        w, h = self.model.width, self.model.heads
        return self.choose([(w,), (w,), (1,), (h, w), (h, 1), ()])

    def input(self, stem: str, where: str, target: str, kind: str = "signed") -> tuple[str, Shape]:
        """A new argument, written to the frame `target` under its own name."""
        name = self.model.field(stem)
        rows = Rows(name, where, () if kind == "label" else self.shape(), kind)
        self.inputs.append(rows)
        self.lines.append(f"{target}[{name!r}] = {name}")
        return name, rows.shape

    def inputs_of(self, stem: str, where: str, target: str, least: int, most: int) -> Fields:
        count = self.draw(st.integers(least, most))
        return dict(self.input(stem, where, target) for _ in range(count))

    def define(self, function: Function) -> str:
        """Code for a function: a built-in, a method of the model, or a closure of forward."""
        if not function.lines:
            return function.code
        if self.choose([False, True]):
            self.lines += function.lines
            return function.code
        first, *rest = function.lines
        self.methods += ["", first.replace("(", "(self, ", 1), *rest]
        return f"self.{function.code}"

    def source(self, arguments: str, scopes: str) -> str:
        """The module with the class."""
        signature = ", ".join(["self", arguments, *(rows.name for rows in self.inputs)])
        results = ", ".join(f"{key!r}: {code}" for key, code in self.results.items())
        body = "\n".join(self.lines + self.methods)
        made = [(n, c) for n, c in self.model.made.items() if f"self.{n}" in body]
        start = ["super().__init__()", *(f"self.{name} = {code}" for name, code in made)]
        forward = [*self.lines, f"return {{{results}}}"]
        lines = [
            HEAD,
            "",
            "class Model(nn.Module):",
            "    def __init__(self):",
            *(f"        {line}" for line in start),
            *(f"    {line}" if line else "" for line in self.methods),
            "",
            f"    def forward({signature}):",
            f"        with {scopes}:",
            *(f"            {line}" for line in forward),
        ]
        return "\n".join(lines) + "\n"


def _message_and_reduce(
    f: Forward, frames: Frames, uncompilable: bool = False
) -> tuple[Function, Function]:
    builtin = f.choose(["none", "none", "none", "message", "reduce", "both"])
    if uncompilable:
        builtin = "none"
    make = builtin_message if builtin in ("message", "both") else message
    sent = make(f.draw, f.model, frames)
    if builtin in ("reduce", "both"):
        got = builtin_reduce(f.draw, f.model, sent.outputs)
    else:
        got = reduce(f.draw, f.model, sent.outputs, frames, uncompilable)
    return sent, got


def _update_all(f: Forward, g: str, frames: Frames, uncompilable: bool) -> Fields:
    """One update_all, maybe with an apply function; returns what it wrote."""
    sent, got = _message_and_reduce(f, frames, uncompilable)
    last = ""
    outputs = got.outputs
    if f.choose([False, False, False, True]):
        final = apply(f.draw, f.model, got.outputs | frames.dst)
        outputs, last = final.outputs, f", {f.define(final)}"
    f.lines.append(f"{g}.update_all({f.define(sent)}, {f.define(got)}{last})")
    return outputs


def _edge_step(f: Forward, g: str, frames: Frames) -> None:
    """apply_edges, maybe with edge_softmax after; new edge fields."""
    make = f.choose([message, message, builtin_message])
    made = make(f.draw, f.model, frames)
    f.lines.append(f"{g}.apply_edges({f.define(made)})")
    frames.edge |= made.outputs
    softmaxed = [key for key, shape in made.outputs.items() if shape]
    if softmaxed and f.choose([False, True]):
        key, out = f.choose(softmaxed), f.model.field("a")
        f.lines.append(f"{g}.edata[{out!r}] = edge_softmax({g}, {g}.edata[{key!r}])")
        frames.edge[out] = made.outputs[key]
    if f.choose([False, False, True]):
        key = f.choose(list(frames.edge))
        f.results[key] = f"{g}.edata[{key!r}]"


def _frames(f: Forward, g: str) -> Frames:
    frames = Frames()
    frames.src = f.inputs_of("u", "src", f"{g}.srcdata", 1, 2)
    frames.dst = f.inputs_of("v", "dst", f"{g}.dstdata", 0, 2)
    frames.edge = f.inputs_of("w", "edge", f"{g}.edata", 0, 2)
    where = f.choose([None] * 5 + ["edge", "edge", "src", "dst"])
    if where is not None:
        target = {"edge": "edata", "src": "srcdata", "dst": "dstdata"}[where]
        key, _ = f.input("k", where, f"{g}.{target}", "label")
        frames.labels = ((key, "data" if where == "edge" else where),)
    return frames


def _prepare(f: Forward, g: str, frames: Frames) -> None:
    """A column made of an input by a layer, outside user-defined functions."""
    wide = [key for key, shape in frames.src.items() if shape]
    if not wide or not f.choose([False, False, True]):
        return
    key, out = f.choose(wide), f.model.field("h")
    shape = frames.src[key]
    layer = f.model.linear(shape[-1], f.model.width, True)
    f.lines.append(f"{g}.srcdata[{out!r}] = {layer}({g}.srcdata[{key!r}])")
    frames.src[out] = (*shape[:-1], f.model.width)


def single(f: Forward, uncompilable: bool = False) -> tuple[AnyCase, str]:
    """Calls one after another on one graph."""
    case = f.choose([graphs.homo, graphs.homo, graphs.bipartite, graphs.block])(f.draw)
    frames = _frames(f, "g")
    _prepare(f, "g", frames)
    for _ in range(f.draw(st.integers(0, 2))):
        step = f.choose(["edges", "update", "nodes"])
        if step == "edges":
            _edge_step(f, "g", frames)
        elif step == "update":
            _absorb(case, frames, _update_all(f, "g", frames, False))
        elif frames.dst and case.kind == "homo":
            made = apply(f.draw, f.model, dict(frames.dst))
            f.lines.append(f"g.apply_nodes({f.define(made)})")
            _absorb(case, frames, made.outputs)
    for key in _update_all(f, "g", frames, uncompilable):
        f.results[key] = f"g.dstdata[{key!r}]"
    return case, f.source("g", "g.local_scope()")


def _absorb(case: AnyCase, frames: Frames, outputs: Fields) -> None:
    """What a call wrote to destinations can be read, at both ends where these are one set."""
    frames.dst |= outputs
    if case.kind == "homo":
        frames.src |= outputs


def two_blocks(f: Forward) -> tuple[AnyCase, str]:
    """A layer on each of two sampled blocks."""
    case = graphs.blocks(f.draw)
    name, shape = f.model.field("u"), f.shape()
    f.inputs.append(Rows(name, "src", shape))
    rows = name
    for i in range(2):
        g = f"blocks[{i}]"
        keys = f.model.field("u"), f.model.field("v")
        f.lines.append(f"{g}.srcdata[{keys[0]!r}] = {rows}")
        f.lines.append(f"{g}.dstdata[{keys[1]!r}] = {rows}[: {g}.num_dst_nodes()]")
        outputs = _update_all(f, g, Frames({keys[0]: shape}, {keys[1]: shape}), False)
        key = f.choose(list(outputs))
        rows, shape = f"{g}.dstdata[{key!r}]", outputs[key]
    f.results["o"] = rows
    return case, f.source("blocks", "blocks[0].local_scope(), blocks[1].local_scope()")


RELATIONS = (("buys", "user", "item"), ("rates", "user", "item"), ("follows", "user", "user"))


def relations(f: Forward) -> tuple[AnyCase, str]:
    """multi_update_all over relations, or one update_all for each."""
    case = graphs.hetero(f.draw)
    nodes = {t: f.inputs_of("u", t, f"g.nodes[{t!r}].data", 1, 2) for t in ("user", "item")}
    used = f.choose([RELATIONS[:2], RELATIONS[:1], RELATIONS, RELATIONS[1:]])
    pairs = {}
    for name, src, dst in used:
        edge = f.inputs_of("w", name, f"g.edges[{name!r}].data", 0, 1)
        frames = Frames(nodes[src], nodes[dst], edge)
        sent, got = _message_and_reduce(f, frames)
        pairs[name] = sent, got
    by_type = {dst: [n for n, _, d in used if d == dst] for _, _, dst in used}
    joined = all(len(names) == 1 for names in by_type.values()) or f.choose([False, True])
    if joined and _same_outputs(f, pairs, by_type):
        cross = f.choose(["sum", "mean", "max", "min", "stack"])
        listed = ", ".join(f"{n!r}: ({f.define(s)}, {f.define(r)})" for n, (s, r) in pairs.items())
        f.lines.append(f"g.multi_update_all({{{listed}}}, {cross!r})")
    else:
        for name, (sent, got) in pairs.items():
            call = f.choose(["g.update_all({}, {}, etype={!r})", "g[{2!r}].update_all({0}, {1})"])
            f.lines.append(call.format(f.define(sent), f.define(got), name))
    for name, _, dst in used:
        for key in pairs[name][1].outputs:
            f.results[key] = f"g.nodes[{dst!r}].data[{key!r}]"
    return case, f.source("g", "g.local_scope()")


def _same_outputs(
    f: Forward, pairs: dict[str, tuple[Function, Function]], by_type: dict[str, list[str]]
) -> bool:
    """Makes relations into one type write one field, where their shapes agree."""
    for names in by_type.values():
        shapes = [list(pairs[name][1].outputs.values()) for name in names]
        if any(shape != shapes[0] for shape in shapes):
            return False
    for names in by_type.values():
        keys = list(pairs[names[0]][1].outputs)
        for name in names[1:]:
            sent, got = pairs[name]
            pairs[name] = sent, got.renamed(keys)
    return True


@st.composite
def trials(draw: Draw, thorough: bool = False) -> Trial:
    """A trial whose program is made of what the compiler takes.

    `thorough`: compiled also without every optional pass, and called as a whole.
    """
    f = _forward(draw)
    form = f.choose([single, single, single, single, single, relations, two_blocks])
    case, source = form(f)
    return Trial(source, tuple(f.inputs), case, draw(st.integers(0, 99)), _settings(f, thorough))


@st.composite
def uncompilable_trials(draw: Draw) -> Trial:
    """A trial with one reducer that must run eagerly."""
    f = _forward(draw)
    case, source = single(f, uncompilable=True)
    seed = draw(st.integers(0, 99))
    return Trial(source, tuple(f.inputs), case, seed, Settings(), compilable=False)


def numbered(trial: Trial, number: int) -> Trial:
    """The trial with what `number` says it is compiled for, so that each way has its share.

    Every third is also called as a whole; every fourth also leaves out one pass, or all but one.
    Of half of those on a relation of two ends one variant is forced.
    """
    settings = trial.settings
    if settings.thorough:
        return trial
    calls = 2 if number % 3 == 0 else 1
    place, others = divmod(number // 4, 2)
    one = OPTIONAL_PASSES[place % len(OPTIONAL_PASSES)]
    left_out = tuple(name for name in OPTIONAL_PASSES if name != one) if others else (one,)
    without = (left_out,) if number % 4 == 0 else ()
    variants = (place % 4,) if others and getattr(trial.graph, "kind", "") != "homo" else ()
    settings = replace(settings, calls=calls, without=without, variants=variants)
    return replace(trial, settings=settings)


def _forward(draw: Draw) -> Forward:
    width = draw(st.sampled_from([2, 3, 4, 8]))
    return Forward(draw, Model(width, draw(st.sampled_from([2, 3]))))


def _settings(f: Forward, thorough: bool) -> Settings:
    dtype = f.choose(["float64", "float32"])
    numerics = f.choose(["fast", "fast", "fast", "strict"])
    if thorough:
        return Settings(
            f.choose([dtype, dtype, "bfloat16"]),
            2,
            numerics,
            (*((name,) for name in OPTIONAL_PASSES), OPTIONAL_PASSES),
            variants=tuple(range(4)),
            thorough=True,
        )
    return Settings(dtype, numerics=numerics)
