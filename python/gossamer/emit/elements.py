"""Arithmetic on values of one type: the right `arith` or `math` operation for the element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gossamer.capture.errors import UntraceableError

from .ir import DETACH, Type, Value

if TYPE_CHECKING:
    from .lower import Lowering

_FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_INT_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_BITS = {"i1": 1, "i32": 32, "i64": 64, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}
#: Operations that copy what is rounded already.
_COPIES = {
    "mp.broadcast",
    "mp.concat",
    "mp.gather",
    "mp.lookup",
    "mp.mailbox",
    "mp.pad_rows",
    "mp.prefix",
    "mp.reshape",
    "mp.slice",
    "mp.transpose",
    DETACH,
}


class Elements:
    """Elementwise operations. Operands of one call have equal types unless said otherwise."""

    def __init__(self, lowering: Lowering):
        self._lowering = lowering
        self._builder = lowering.builder

    def _op(self, name: str, *operands: Value, dtype: str | None = None, **attrs: Any) -> Value:
        type = operands[0].type
        return self._builder.op(name, operands, type.with_dtype(dtype or type.dtype), **attrs)

    def _pick(self, names: tuple[str, str, str], *operands: Value) -> Value:
        """Names for floats, integers and booleans."""
        type = operands[0].type
        name = names[0] if type.is_float else names[2] if type.dtype == "i1" else names[1]
        if not name:
            raise UntraceableError(f"this arithmetic on {type.dtype} is not compiled")
        return self._op(name, *operands)

    def number(self, like: Value, value: Any) -> Value:
        """A number, or a symbolic one, in every place of `like`'s type."""
        return self._lowering.number(value, like.type)

    def fill(self, value: Any, type: Type) -> Value:
        """A constant of a type."""
        if type.is_float:
            value = float(value)
        elif type.dtype == "i1":
            value = bool(value)
        else:
            value = int(value)
        return self._builder.op("mp.fill", (), type, value=value)

    def add(self, a: Value, b: Value) -> Value:
        """Sum; or of booleans."""
        return self._pick(("arith.addf", "arith.addi", "arith.ori"), a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """Difference."""
        return self._pick(("arith.subf", "arith.subi", ""), a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """Product; and of booleans."""
        return self._pick(("arith.mulf", "arith.muli", "arith.andi"), a, b)

    def div(self, a: Value, b: Value) -> Value:
        """Quotient of floats."""
        return self._pick(("arith.divf", "", ""), a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger; NaN when one is."""
        return self._pick(("arith.maximumf", "arith.maxsi", "arith.ori"), a, b)

    def minimum(self, a: Value, b: Value) -> Value:
        """The smaller; NaN when one is."""
        return self._pick(("arith.minimumf", "arith.minsi", "arith.andi"), a, b)

    def bits(self, name: str, a: Value, b: Value) -> Value:
        """and, or, xor of integers or booleans."""
        return self._pick(("", f"arith.{name}i", f"arith.{name}i"), a, b)

    def neg(self, a: Value) -> Value:
        """Negative."""
        return self._op("arith.negf", a) if a.type.is_float else self.sub(self.number(a, 0), a)

    def abs(self, a: Value) -> Value:
        """Absolute value."""
        return self._pick(("math.absf", "math.absi", ""), a)

    def math(self, name: str, *operands: Value) -> Value:
        """A function of the math dialect on floats."""
        return self._pick((f"math.{name}", "", ""), *operands)

    def invert(self, a: Value) -> Value:
        """Bitwise not of integers, logical not of booleans."""
        return self.bits("xor", a, self.number(a, True if a.type.dtype == "i1" else -1))

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """Booleans; `b` may be a number."""
        if not isinstance(b, Value):
            b = self.number(a, b)
        if a.type.is_float:
            name = _FLOAT_PREDICATES.get(predicate, predicate)
            return self._op("arith.cmpf", a, b, dtype="i1", predicate=name)
        if a.type.dtype == "i1":
            a, b = self.cast(a, "i32"), self.cast(b, "i32")
        return self._op("arith.cmpi", a, b, dtype="i1", predicate=_INT_PREDICATES[predicate])

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, else `b`."""
        return self._builder.op("arith.select", (condition, a, b), a.type)

    def detach(self, a: Value) -> Value:
        """The same value, through which no gradient flows."""
        return self._builder.op(DETACH, (a,), a.type)

    def flat_at_zero(self, function: Callable[[Value], Value], a: Value) -> Value:
        """A root or power, of value 0 and slope 0 at 0, where its own slope may be infinite."""
        vanishes = self.compare("eq", a, 0.0)
        result = function(self.select(vanishes, self.number(a, 1.0), a))
        return self.select(vanishes, self.number(a, 0.0), result)

    def cast(self, a: Value, dtype: str) -> Value:
        """The value as another element type, rounding as torch does."""
        have = a.type.dtype
        if have == dtype:
            return a
        if dtype == "i1":
            return self.compare("ne", a, 0)
        if have == "i1":
            return self._op("arith.uitofp" if dtype[0] == "f" else "arith.extui", a, dtype=dtype)
        wider = _BITS[dtype] > _BITS[have]
        kinds = ("i" if word[0] == "i" else "f" for word in (have, dtype))
        name = {
            "ff": "arith.extf" if wider else "arith.truncf",
            "ii": "arith.extsi" if wider else "arith.trunci",
            "if": "arith.sitofp",
            "fi": "arith.fptosi",
        }["".join(kinds)]
        return self._op(name, a, dtype=dtype)

    def rounded(self, a: Value, dtype: str) -> Value:
        """The value, as exact as `dtype` is, in the element type it has."""
        have = a.type.dtype
        if dtype == have or _is_rounded(a, dtype):
            return a
        return self.cast(self.cast(a, dtype), have)


def _is_rounded(value: Value, dtype: str) -> bool:
    """True for numbers of `dtype`, and copies of them."""
    if value.op is None:
        return False
    if value.op.name == "arith.extf":
        return value.op.operands[0].type.dtype == dtype
    return value.op.name in _COPIES and all(_is_rounded(v, dtype) for v in value.op.operands)
