"""The code of one drawn function: typed values, and the statements that make them.

Everything is drawn through hypothesis, the simplest choice first, so that a failing program shrinks
to a short one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

LEAD = {"edges": 1, "nodes": 1, "mailbox": 2, "none": 0}
"""How many axes come before the features: rows, and in a mailbox also messages."""

MAX_FEATURES = 48

Draw = Callable[[st.SearchStrategy], Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A variable of the drawn program: its features, rows (a key of LEAD) and kind of number."""

    name: str
    shape: Shape
    rows: str
    kind: str = "float"


@dataclass
class Model:
    """The parameters that drawn functions have asked for, by name, with the code that makes them.

    `width` and `heads` are sizes that come back often, so that drawn values fit together.
    """

    width: int
    heads: int
    made: dict[str, str] = field(default_factory=dict)
    names: int = 0

    def make(self, stem: str, code: str) -> str:
        """A new attribute of the model."""
        name = f"{stem}{len(self.made)}"
        self.made[name] = code
        return f"self.{name}"

    def parameter(self, shape: Shape) -> str:
        return self.make("p", f"nn.Parameter(torch.zeros({shape}))")

    def linear(self, inner: int, outer: int, bias: bool) -> str:
        tail = "" if bias else ", bias=False"
        return self.make("lin", f"nn.Linear({inner}, {outer}{tail})")

    def field(self, stem: str) -> str:
        """A field name that no other field of the program has."""
        self.names += 1
        return f"{stem}{self.names}"


class Body:
    """Straight-line code over `values`; operators of the vocabulary add to it."""

    def __init__(self, draw: Draw, model: Model, rows: str) -> None:
        self.draw, self.model, self.rows = draw, model, rows
        self.values: list[Value] = []
        self.statements: list[tuple[str, str]] = []

    def choose(self, options: Sequence[Any]) -> Any:
        """One of `options`; failures shrink towards the first."""
        return self.draw(st.sampled_from(options))

    def some(self, options: Sequence[Any], most: int) -> list[Any]:
        """One to `most` of `options`, each once."""
        limit = min(most, len(options))
        return self.draw(
            st.lists(st.sampled_from(options), min_size=1, max_size=limit, unique_by=str)
        )

    def let(self, code: str, shape: Shape, rows: str, kind: str = "float") -> Value | None:
        """A new variable; none when it would be large."""
        if math.prod(shape) > MAX_FEATURES:
            return None
        value = Value(f"x{len(self.statements)}", shape, rows, kind)
        self.statements.append((value.name, code))
        self.values.append(value)
        return value

    def pick(
        self, wanted: Callable[[Value], bool] = lambda value: True, kind: str = "float"
    ) -> Value | None:
        """A variable so far, the newest first."""
        found = [v for v in reversed(self.values) if v.kind == kind and wanted(v)]
        return self.choose(found) if found else None

    def unused(self) -> list[Value]:
        """Variables that no statement reads, oldest first."""
        read = {name for _, code in self.statements for name in names_in(code)}
        return [value for value in self.values if value.name not in read]

    def combines(self, value: Value) -> bool:
        """Whether messages of a mailbox went into a value."""
        known = {v.name: v for v in self.values}
        code = dict(self.statements)[value.name]
        return "mailbox" in code or any(self.combines(known[name]) for name in names_in(code))

    def lines(self, *results: str) -> list[str]:
        """The statements that the code `results` needs, in order."""
        needed = {name for code in results for name in names_in(code)}
        kept = []
        for name, code in reversed(self.statements):
            if name in needed:
                kept.append(f"{name} = {code}")
                needed |= names_in(code)
        return kept[::-1]


def names_in(code: str) -> set[str]:
    """The variables of a body that code reads."""
    return set(re.findall(r"\bx\d+\b", code))


def joint_shape(a: Shape, b: Shape) -> Shape | None:
    """What two feature shapes broadcast to when the shorter is filled up at its end, or none."""
    rank = max(len(a), len(b))
    pairs = zip(*(shape + (1,) * (rank - len(shape)) for shape in (a, b)), strict=True)
    sizes = []
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            return None
        sizes.append(max(x, y))
    return tuple(sizes)


def aligned(values: Sequence[Value]) -> tuple[list[str], Shape, str]:
    """Code for each of `values` with axes so that torch broadcasts them, and the result's type."""
    rows = "mailbox" if any(v.rows == "mailbox" for v in values) else values[0].rows
    rank = max(len(v.shape) for v in values)
    codes, shape = [], ()
    for value in values:
        code = value.name
        if rows == "mailbox" and value.rows == "nodes":
            code += ".unsqueeze(1)"
        codes.append(code + ".unsqueeze(-1)" * (rank - len(value.shape)))
        shape = joint_shape(shape, value.shape)
    return codes, shape, rows
