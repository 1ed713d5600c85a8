"""Built-in message and reduce functions, with DGL's names: `copy_u`, `u_mul_e`, ..., `sum`, `mean`,
`max`, `min`.

Each built-in can also say itself as a plain user-defined function in torch operators (`as_message`,
`as_reduce`), so that everything that understands those understands built-ins. Operands of a binary
message broadcast from the right *after* the row axis, as DGL's do: (E, 1) with (E,) is (E, 1).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gossamer.errors import GraphError
from gossamer.udf import EdgeBatch, NodeBatch

_FRAMES = {"u": "src", "v": "dst", "e": "data"}
_LETTERS = "uve"  # DGL numbers its targets in this order

_OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "dot": lambda left, right: (left * right).sum(-1, keepdim=True),
}


class BuiltinFunction:
    """Base class of all built-ins."""


@dataclass(frozen=True)
class CopyMessage(BuiltinFunction):
    """`out` is field `in_field` of the source ("u") or of the edge ("e")."""

    target: str
    in_field: str
    out_field: str

    @property
    def name(self) -> str:
        """DGL's name, such as "copy_u"."""
        return f"copy_{self.target}"

    def as_message(self, edges: EdgeBatch) -> dict[str, Tensor]:
        """The message as a plain user-defined function: {out: (E, *row)}."""
        return {self.out_field: _operand(edges, self.target, self.in_field)}


@dataclass(frozen=True)
class BinaryMessage(BuiltinFunction):
    """`out` is `lhs_field` of one end `op` `rhs_field` of another."""

    op: str
    lhs: str
    rhs: str
    lhs_field: str
    rhs_field: str
    out_field: str

    @property
    def name(self) -> str:
        """DGL's name, such as "u_mul_e"."""
        return f"{self.lhs}_{self.op}_{self.rhs}"

    def as_message(self, edges: EdgeBatch) -> dict[str, Tensor]:
        """The message as a plain user-defined function: {out: (E, *row)}."""
        left = _operand(edges, self.lhs, self.lhs_field)
        right = _operand(edges, self.rhs, self.rhs_field)
        return {self.out_field: apply_binary(self.op, left, right)}


@dataclass(frozen=True)
class Reduce(BuiltinFunction):
    """`out` is the sum, mean, max or min over messages `msg_field`.

    Nodes without in-edges get 0. For max and min, DGL's `update_all` makes *every* infinity 0 and
    its other methods leave the identity (-inf or inf) there; `keeps_infinity` chooses the latter.
    """

    name: str
    msg_field: str
    out_field: str
    keeps_infinity: bool = False

    @property
    def replaces_infinity(self) -> bool:
        """Whether infinite results become 0."""
        return self.name in ("max", "min") and not self.keeps_infinity

    @property
    def empty(self) -> float:
        """What DGL's kernels give for a node without messages where another node has one; they
        leave all at 0 where there is no message at all.
        """
        return {"max": -float("inf"), "min": float("inf")}.get(self.name, 0.0)

    def keeping_infinity(self) -> Reduce:
        """This reduction, leaving infinities as they are."""
        return replace(self, keeps_infinity=True)

    def as_reduce(self, nodes: NodeBatch) -> dict[str, Tensor]:
        """The reduction as a plain user-defined function: {out: (B, *row)} from messages (B, D,
        *row).
        """
        return {self.out_field: _REDUCTIONS[self.name](nodes.mailbox[self.msg_field])}


def finite_reduce(reduce: Reduce, nodes: NodeBatch) -> dict[str, Tensor]:
    """`reduce` as a plain user-defined function, with 0 in place of infinities."""
    return _first_finite(reduce.as_reduce(nodes))


def finite_apply(apply: Callable[[NodeBatch], dict[str, Tensor]], nodes: NodeBatch) -> dict:
    """`apply` with 0 in place of infinities in the first field it returns, as DGL does after a
    built-in max or min.
    """
    return _first_finite(apply(nodes))


def _first_finite(results: dict[str, Tensor]) -> dict[str, Tensor]:
    first = next(iter(results), None)
    return {
        field: replace_infinity(value) if field == first else value
        for field, value in results.items()
    }


def _largest(messages: Tensor) -> Tensor:
    # DGL's kernels ignore NaN.
    return torch.where(messages.isnan(), -float("inf"), messages).max(1)[0]


def _smallest(messages: Tensor) -> Tensor:
    return torch.where(messages.isnan(), float("inf"), messages).min(1)[0]


_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda messages: messages.sum(1),
    "mean": lambda messages: messages.mean(1),
    "max": _largest,
    "min": _smallest,
}


def replace_infinity(values: Tensor) -> Tensor:
    """`values` with 0 in place of inf and -inf."""
    return torch.where(values.isinf(), torch.zeros_like(values), values)


def apply_binary(op: str, left: Tensor, right: Tensor) -> Tensor:
    """`left op right` row by row, feature axes broadcast from the right: (E, ...)."""
    for _ in range(left.dim() - right.dim()):
        right = right.unsqueeze(1)
    for _ in range(right.dim() - left.dim()):
        left = left.unsqueeze(1)
    if op == "dot" and left.dim() == 1:
        raise GraphError("dot needs features with at least one axis after the rows")
    return _OPERATORS[op](left, right)


def _operand(edges: EdgeBatch, target: str, field: str) -> Tensor:
    return getattr(edges, _FRAMES[target])[field]


# --- constructors --------------------------------------------------------------------------------


def copy_u(u: str, out: str) -> CopyMessage:
    """Message `out` = source field `u`."""
    return CopyMessage("u", u, out)


def copy_e(e: str, out: str) -> CopyMessage:
    """Message `out` = edge field `e`."""
    return CopyMessage("e", e, out)


def copy_src(src: str, out: str) -> CopyMessage:
    """DGL's older name of `copy_u`."""
    return copy_u(src, out)


def copy_edge(edge: str, out: str) -> CopyMessage:
    """DGL's older name of `copy_e`."""
    return copy_e(edge, out)


def _binary_constructor(lhs: str, op: str, rhs: str) -> Callable[[str, str, str], BinaryMessage]:
    def construct(lhs_field: str, rhs_field: str, out: str) -> BinaryMessage:
        return BinaryMessage(op, lhs, rhs, lhs_field, rhs_field, out)

    construct.__name__ = construct.__qualname__ = f"{lhs}_{op}_{rhs}"
    construct.__doc__ = f"Message `out` = `{lhs}` field {op} `{rhs}` field."
    return construct


def _reduce_constructor(name: str) -> Callable[[str, str], Reduce]:
    def construct(msg: str, out: str) -> Reduce:
        return Reduce(name, msg, out)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"`out` = {name} of messages `msg` over each node's in-edges."
    return construct


BINARY_NAMES = tuple(
    f"{lhs}_{op}_{rhs}" for lhs in _LETTERS for op in _OPERATORS for rhs in _LETTERS if lhs != rhs
)
REDUCE_NAMES = tuple(_REDUCTIONS)

for _name in BINARY_NAMES:
    globals()[_name] = _binary_constructor(*_name.split("_"))
for _name in REDUCE_NAMES:
    globals()[_name] = _reduce_constructor(_name)
del _name

__all__ = [
    "BinaryMessage",
    "BuiltinFunction",
    "CopyMessage",
    "Reduce",
    "copy_e",
    "copy_edge",
    "copy_src",
    "copy_u",
    *BINARY_NAMES,
    *REDUCE_NAMES,
]


# --- DGL's own objects ---------------------------------------------------------------------------


def from_dgl(function: object) -> object:
    """Our built-in for one of DGL's; anything else comes back as it is."""
    dgl = sys.modules.get("dgl")
    if dgl is None or not isinstance(function, dgl.function.BuiltinFunction):
        return function
    if hasattr(function, "msg_field"):
        return Reduce(function.name, function.msg_field, function.out_field)
    if hasattr(function, "binary_op"):
        ends = _LETTERS[function.lhs], _LETTERS[function.rhs]
        fields = function.lhs_field, function.rhs_field, function.out_field
        return BinaryMessage(function.binary_op, *ends, *fields)
    return CopyMessage(_LETTERS[function.target], function.in_field, function.out_field)


def is_builtin(function: object) -> bool:
    """Whether `function` is a built-in, ours or DGL's."""
    return isinstance(from_dgl(function), BuiltinFunction)


def plain_message(function: Any) -> Callable:
    """A built-in message as the plain function it stands for; other functions as they are."""
    builtin = from_dgl(function)
    return builtin.as_message if isinstance(builtin, BuiltinFunction) else function


def plain_functions(
    message: Any, reduce: Any, apply: Callable | None, no_edges: Callable[[], bool]
) -> tuple[tuple, tuple]:
    """The functions of update_all as plain ones, and what isolated nodes get by field.

    A built-in max or min gives isolated nodes an infinity (0 where there is no edge at all, which
    is asked only if it matters), which apply sees, and which DGL then replaces by 0 in the first
    field.
    """
    builtin = from_dgl(reduce)
    if not isinstance(builtin, Reduce):
        return (plain_message(message), reduce, apply), ()
    reduce = builtin.as_reduce
    if builtin.replaces_infinity:
        if apply is None:
            reduce = functools.partial(finite_reduce, builtin)
            return (plain_message(message), reduce, None), ()
        apply = functools.partial(finite_apply, apply)
    empty = 0.0 if builtin.empty and no_edges() else builtin.empty
    return (plain_message(message), reduce, apply), ((builtin.out_field, empty),)
