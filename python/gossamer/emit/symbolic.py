"""Numbers of a function: computed from the mailbox degree, numbers of rows, run-time scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
from torch.utils._sympy import functions as F

from gossamer.capture.call import Number
from gossamer.capture.errors import UntraceableError

from .ir import Type
from .table import Table

if TYPE_CHECKING:
    from .lower import Lowering

_UNARY = {
    F.OpaqueUnaryFn_sqrt: "sqrt",
    F.OpaqueUnaryFn_exp: "exp",
    F.OpaqueUnaryFn_log: "log",
    F.OpaqueUnaryFn_log2: "log2",
    F.OpaqueUnaryFn_sin: "sin",
    F.OpaqueUnaryFn_cos: "cos",
    F.OpaqueUnaryFn_tanh: "tanh",
}


def symbolic_table(lowering: Lowering, number: Number, dtype: str) -> Table:
    """A symbolic number as a table: without rows, or one number for each destination."""
    return _Expression(lowering, dtype).table(number.expr)


def is_symbolic(value: Any) -> bool:
    """Whether a number is known at run time only."""
    return isinstance(value, Number)


class _Expression:
    """Walks a sympy expression; scalars alone are computed in f64, as Python does."""

    def __init__(self, lowering: Lowering, dtype: str):
        self.lowering = lowering
        self.dtype = dtype if dtype[0] == "f" else "f64"
        self.wanted = dtype

    def table(self, expr: sympy.Expr) -> Table:
        lowering = self.lowering
        if self.wanted[0] != "f" and not expr.is_integer:
            raise UntraceableError(f"the number {expr} is stored as an integer")
        symbols, counts = lowering.symbols, lowering.call.counts
        if lowering.per_degree and not expr.free_symbols.isdisjoint(counts):
            raise UntraceableError(
                f"a number of nodes is used as a value ({expr}), which in eager code is the number "
                "of those with one in-degree",
                remedy="use degrees or features instead",
            )
        if expr.free_symbols - {symbols.degree, *symbols.scalars, *counts}:
            raise UntraceableError(f"a number of rows is used as a value ({expr})")
        result = self._visit(expr)
        return Table(lowering.elements.cast(result.value, self.wanted), result.axes)

    def _visit(self, expr: sympy.Expr) -> Table:
        lowering, symbols = self.lowering, self.lowering.symbols
        if symbols.degree not in expr.free_symbols and self.dtype != "f64":
            wide = _Expression(lowering, "f64")._visit(expr)
            return Table(lowering.elements.cast(wide.value, self.dtype), ())
        if expr.is_number:
            return Table(lowering.elements.fill(float(expr), Type((), self.dtype)), ())
        if expr == symbols.degree:
            return Table(lowering.elements.cast(lowering.degree(), self.dtype), ())
        if expr in lowering.call.counts:
            return lowering.count(expr)
        if expr in symbols.scalars:
            return lowering.scalar(symbols.scalars.index(expr))
        return self._function(expr)

    def _function(self, expr: sympy.Expr) -> Table:
        e, kind = self.lowering.elements, type(expr)
        if kind is F.ToFloat or expr.func in (sympy.Float,):
            return self._visit(expr.args[0])
        if kind in _UNARY:
            return self._apply(lambda x: e.math(_UNARY[kind], x), expr.args)
        if expr.is_Add:
            return self._fold(e.add, expr.args)
        if expr.is_Mul:
            return self._fold(e.mul, expr.args)
        if kind in (F.FloatTrueDiv, F.IntTrueDiv):
            return self._apply(e.div, expr.args)
        if expr.is_Pow or kind in (F.FloatPow, F.PowByNatural):
            return self._power(*expr.args)
        if kind is F.Max or kind is sympy.Max:
            return self._fold(e.maximum, expr.args)
        if kind is F.Min or kind is sympy.Min:
            return self._fold(e.minimum, expr.args)
        raise UntraceableError(f"the number {expr} is computed in a way that is not compiled")

    def _power(self, base: sympy.Expr, exponent: sympy.Expr) -> Table:
        e = self.lowering.elements
        if exponent == -1:
            return self._apply(lambda x: e.div(e.number(x, 1.0), x), (base,))
        if exponent == sympy.Rational(1, 2) or exponent == 0.5:
            return self._apply(lambda x: e.math("sqrt", x), (base,))
        return self._apply(lambda x, y: e.math("powf", x, y), (base, exponent))

    def _fold(self, function, args) -> Table:
        result = self._visit(args[0])
        for arg in args[1:]:
            result = self.lowering.combine(function, result, self._visit(arg))
        return result

    def _apply(self, function, args) -> Table:
        return self.lowering.combine(function, *(self._visit(arg) for arg in args))
