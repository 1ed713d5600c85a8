"""ATen operators that act on each element alone: one line each.

A line gives the formula on values `e` computes with; `_operands` tensors come first, then the
operator's other arguments as they are (numbers, maybe symbolic).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from gossamer.capture.errors import UntraceableError

from .elements import Elements
from .ir import Value
from .lower import Lowering, out_dtype, promoted_dtype
from .symbolic import is_symbolic
from .table import Table

aten = torch.ops.aten
Handler = Callable[[Lowering, fx.Node], Any]
TABLE: dict[Any, Handler] = {}


def _bound(node: fx.Node) -> list[Any]:
    """All arguments in schema order, with defaults."""
    values = []
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args):
            values.append(node.args[index])
        else:
            values.append(node.kwargs.get(argument.name, argument.default_value))
    return values


def _define(operands: int, formula: Callable[..., Value], *targets: Any, dtype: str = "") -> None:
    """`dtype` of the operands: by default the result's; "promote": torch's common one."""

    def handler(lowering: Lowering, node: fx.Node) -> Table:
        values = _bound(node)
        tensors, rest = values[:operands], values[operands:]
        word = promoted_dtype(tuple(tensors)) if dtype == "promote" else dtype or out_dtype(node)
        tables = [lowering.operand(value, word) for value in tensors]
        tables = [_as_table(lowering, t, word) for t in tables]
        return lowering.combine(lambda *v: formula(lowering.elements, *v, *rest), *tables)

    for target in targets:
        TABLE[target] = handler


def _as_table(lowering: Lowering, value: Any, dtype: str) -> Any:
    if isinstance(value, Table) or not isinstance(value, (int, float)):
        return value
    if dtype[0] == "i" and isinstance(value, float):
        raise UntraceableError("a fraction meets integers")
    return value


def _unary(formula: Callable[..., Value], *targets: Any) -> None:
    _define(1, formula, *targets)


def _binary(formula: Callable[..., Value], *names: str, dtype: str = "") -> None:
    for name in names:
        packet = getattr(aten, name)
        targets = [
            getattr(packet, o) for o in packet.overloads() if o in ("Tensor", "Scalar", "default")
        ]
        _define(2, formula, *targets, dtype=dtype)


for _name in [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "floor",
    "ceil",
    "trunc",
]:
    _unary(lambda e, x, n=_name: e.math(n, x), getattr(aten, _name).default)

_unary(lambda e, x: e.math("roundeven", x), aten.round.default)
_unary(lambda e, x: e.abs(x), aten.abs.default)
_unary(lambda e, x: e.neg(x), aten.neg.default)
_unary(lambda e, x: e.div(e.number(x, 1.0), x), aten.reciprocal.default)
_unary(lambda e, x: _power(e, x, 2), aten.square.default)
_unary(lambda e, x: e.select(e.compare("le", x, 0), e.number(x, 0), x), aten.relu.default)
_unary(lambda e, x: _sign(e, x), aten.sign.default, aten.sgn.default)
_unary(lambda e, x: e.sub(x, e.math("trunc", x)), aten.frac.default)
_unary(lambda e, x: _sigmoid(e, x), aten.sigmoid.default)
_unary(lambda e, x: e.mul(x, _sigmoid(e, x)), aten.silu.default)
_unary(lambda e, x: e.mul(x, e.math("tanh", _softplus(e, x, 1.0, 20.0))), aten.mish.default)
_unary(lambda e, x: _hardsigmoid(e, x), aten.hardsigmoid.default)
_unary(lambda e, x: _hardswish(e, x), aten.hardswish.default)
_unary(lambda e, x, *_: x, aten.clone.default, aten.alias.default)
_unary(lambda e, x, *_: x, aten._to_copy.default, aten.contiguous.default, aten.positive.default)
_unary(lambda e, x: e.invert(x), aten.bitwise_not.default)


def _sign(e: Elements, x: Value) -> Value:
    zero = e.number(x, 0)
    sign = e.select(e.compare("lt", x, zero), e.number(x, -1), zero)
    return e.select(e.compare("gt", x, zero), e.number(x, 1), sign)


def _sigmoid(e: Elements, x: Value) -> Value:
    one = e.number(x, 1.0)
    return e.div(one, e.add(one, e.math("exp", e.neg(x))))


def _hardsigmoid(e: Elements, x: Value) -> Value:
    """Without slope where it is constant, from -3 and from 3 on."""
    three, six = e.number(x, 3.0), e.number(x, 6.0)
    inside = e.bits("and", e.compare("gt", x, -3.0), e.compare("lt", x, three))
    shifted = e.add(x, three)
    constant = e.div(_limited(e, shifted, e.number(x, 0.0), six), six)
    return e.select(inside, e.div(shifted, six), e.detach(constant))


def _hardswish(e: Elements, x: Value) -> Value:
    """Slope 0 up to -3 and 1 from 3. The parabola sees no infinity: its slope is infinite there."""
    three, zero = e.number(x, 3.0), e.number(x, 0.0)
    low, high = e.compare("le", x, -3.0), e.compare("lt", x, three)
    inside = e.bits("and", e.compare("gt", x, -3.0), high)
    near = e.select(inside, x, zero)
    parabola = e.mul(near, e.div(e.add(near, three), e.number(x, 6.0)))
    return e.select(inside, parabola, e.select(low, e.detach(e.mul(x, zero)), x))


def _softplus(e: Elements, x: Value, beta: Any, threshold: Any) -> Value:
    scaled = e.mul(x, e.number(x, beta))
    soft = e.div(e.math("log1p", e.math("exp", scaled)), e.number(x, beta))
    return e.select(e.compare("gt", scaled, e.number(x, threshold)), x, soft)


def _leaky(e: Elements, x: Value, slope: Value) -> Value:
    return e.select(e.compare("gt", x, 0.0), x, e.mul(x, slope))


def _elu(e: Elements, x: Value, alpha: Any, scale: Any, input_scale: Any) -> Value:
    curve = e.math("expm1", e.mul(x, e.number(x, input_scale)))
    negative = e.mul(e.mul(curve, e.number(x, alpha)), e.number(x, scale))
    return e.select(e.compare("gt", x, 0.0), e.mul(x, e.number(x, scale)), negative)


def _celu(e: Elements, x: Value, alpha: Any) -> Value:
    curve = e.mul(e.math("expm1", e.div(x, e.number(x, alpha))), e.number(x, alpha))
    return e.select(e.compare("gt", x, 0.0), x, curve)


def _gelu(e: Elements, x: Value, approximate: str) -> Value:
    half, one = e.number(x, 0.5), e.number(x, 1.0)
    if approximate == "tanh":
        cubic = e.mul(e.number(x, 0.044715), e.mul(x, e.mul(x, x)))
        inner = e.mul(e.number(x, math.sqrt(2.0 / math.pi)), e.add(x, cubic))
        return e.mul(e.mul(half, x), e.add(one, e.math("tanh", inner)))
    return e.mul(e.mul(half, x), e.add(one, e.math("erf", e.mul(x, e.number(x, math.sqrt(0.5))))))


def _limited(e: Elements, x: Value, low: Value | None, high: Value | None) -> Value:
    if low is not None:
        x = e.maximum(x, low)
    return x if high is None else e.minimum(x, high)


def _within(
    e: Elements, x: Value, low: Value | None, high: Value | None, words: tuple[str, str]
) -> Value:
    """Whether x compares so with each bound."""
    pairs = [(word, b) for word, b in zip(words, (low, high), strict=True) if b is not None]
    first, *rest = (e.compare(word, x, bound) for word, bound in pairs)
    return e.bits("and", first, rest[0]) if rest else first


def _clamp(e: Elements, x: Value, low: Any, high: Any, words: tuple = ("ge", "le")) -> Value:
    """Numbers as bounds. The gradient is that of x where x compares so with them, else 0."""
    bounds = [None if bound is None else e.number(x, bound) for bound in (low, high)]
    limited = _limited(e, x, *bounds)
    if not x.type.is_float:
        return limited
    return e.select(_within(e, x, *bounds, words), x, e.detach(limited))


def _clamp_to(e: Elements, x: Value, low: Value | None, high: Value | None) -> Value:
    """Tensors as bounds: the gradient is that of the one which is the result, x if x is within.

    When both bounds are equal and x is less, there is none, as in torch.
    """
    limited = _limited(e, x, low, high)
    if not x.type.is_float:
        return limited
    result = e.detach(limited)
    if low is not None:
        below = e.compare("lt", x, low)
        chosen = below if high is None else e.bits("and", below, e.compare("lt", low, high))
        result = e.select(chosen, low, result)
    if high is not None:
        above = e.compare("gt", x, high)
        chosen = above if low is None else e.bits("or", above, e.compare("lt", high, low))
        result = e.select(chosen, high, result)
    return e.select(_within(e, x, low, high, ("ge", "le")), x, result)


_unary(_softplus, aten.softplus.default)
_unary(lambda e, x, slope: _leaky(e, x, e.number(x, slope)), aten.leaky_relu.default)
_unary(_elu, aten.elu.default)
_unary(lambda e, x, alpha: _celu(e, x, alpha), aten.celu.default)
_unary(_gelu, aten.gelu.default)
_unary(_clamp, aten.clamp.default)
_unary(lambda e, x, *bounds: _clamp(e, x, *bounds, words=("gt", "lt")), aten.hardtanh.default)
_unary(lambda e, x, low: _clamp(e, x, low, None), aten.clamp_min.default)
_unary(lambda e, x, high: _clamp(e, x, None, high), aten.clamp_max.default)
_unary(
    lambda e, x, limit, value: e.select(
        e.compare("le", x, e.number(x, limit)), e.number(x, value), x
    ),
    aten.threshold.default,
)
_define(2, _leaky, aten._prelu_kernel.default)
_define(2, lambda e, x, low: _clamp_to(e, x, low, None), aten.clamp_min.Tensor)
_define(2, lambda e, x, high: _clamp_to(e, x, None, high), aten.clamp_max.Tensor)

_binary(lambda e, x, y, alpha=1: e.add(x, _scaled(e, y, alpha)), "add")
_binary(lambda e, x, y, alpha=1: e.sub(x, _scaled(e, y, alpha)), "sub")
_binary(lambda e, x, y, alpha=1: e.sub(y, _scaled(e, x, alpha)), "rsub")
_binary(lambda e, x, y: e.mul(x, y), "mul")
_binary(lambda e, x, y: e.div(x, y), "div", "true_divide")
_binary(lambda e, x, y: e.maximum(x, y), "maximum")
_binary(lambda e, x, y: e.minimum(x, y), "minimum")
_binary(lambda e, x, y: e.math("atan2", x, y), "atan2")
for _name in ("and", "or", "xor"):
    _binary(lambda e, x, y, n=_name: e.bits(n, x, y), f"bitwise_{_name}")
    _define(
        2,
        lambda e, x, y, n=_name: e.bits(n, x, y),
        getattr(aten, f"logical_{_name}").default,
        dtype="i1",
    )
_define(1, lambda e, x: e.invert(x), aten.logical_not.default, dtype="i1")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _binary(lambda e, x, y, n=_name: e.compare(n, x, y), _name, dtype="promote")
_define(1, lambda e, x: e.compare("uno", x, x), aten.isnan.default, dtype="promote")
_define(
    1,
    lambda e, x: e.compare("eq", e.abs(x), e.number(x, math.inf)),
    aten.isinf.default,
    dtype="promote",
)


def _scaled(e: Elements, value: Value, factor: Any) -> Value:
    if not is_symbolic(factor) and factor == 1:
        return value
    return e.mul(value, e.number(value, factor))


def _addcmul(e: Elements, x: Value, a: Value, b: Value, value: Any) -> Value:
    return e.add(x, _scaled(e, e.mul(a, b), value))


_define(3, _addcmul, aten.addcmul.default)
_define(3, lambda e, x, a, b, value: e.add(x, _scaled(e, e.div(a, b), value)), aten.addcdiv.default)


def _clamp_tensors(lowering: Lowering, node: fx.Node) -> Table:
    """clamp(x, low, high) with tensors, either of which may be absent."""
    e, dtype = lowering.elements, out_dtype(node)
    x, *bounds = _bound(node)
    given = [index for index, bound in enumerate(bounds) if bound is not None]

    def formula(value: Value, *values: Value) -> Value:
        limits: list[Value | None] = [None, None]
        for index, limit in zip(given, values, strict=True):
            limits[index] = limit
        return _clamp_to(e, value, *limits)

    tables = [lowering.operand(bounds[index], dtype) for index in given]
    return lowering.combine(formula, lowering.operand(x, dtype), *tables)


TABLE[aten.clamp.Tensor] = _clamp_tensors


def _power(e: Elements, x: Value, exponent: Any) -> Value:
    """torch.pow: small whole exponents are products, as in torch's own kernels for 2 and 3."""
    if isinstance(exponent, Value):
        return e.math("powf", x, exponent)
    if is_symbolic(exponent):
        return e.math("powf", x, e.number(x, exponent))
    if x.type.is_float and exponent == 0.5:
        return e.math("sqrt", x)
    if x.type.is_float and exponent in (-1, -2, -0.5):
        return e.div(e.number(x, 1.0), _power(e, x, -exponent))
    if exponent == int(exponent) and 0 <= exponent <= (4 if x.type.is_float else 63):
        return _product(e, x, int(exponent))
    return e.math("powf", x, e.number(x, exponent))


def _product(e: Elements, x: Value, count: int) -> Value:
    """x multiplied `count` times, by repeated squaring."""
    if count == 0:
        return e.number(x, 1)
    if count == 1:
        return x
    half = _product(e, x, count // 2)
    square = e.mul(half, half)
    return e.mul(square, x) if count % 2 else square


_unary(_power, aten.pow.Tensor_Scalar)
_define(2, _power, aten.pow.Tensor_Tensor, aten.pow.Scalar)


def _remainder(e: Elements, x: Value, y: Value) -> Value:
    """The remainder with the sign of the divisor, as in Python."""
    rest = _fmod(e, x, y)
    zero = e.number(x, 0)
    differs = e.bits("xor", e.compare("lt", rest, zero), e.compare("lt", y, zero))
    return e.select(e.bits("and", e.compare("ne", rest, zero), differs), e.add(rest, y), rest)


def _fmod(e: Elements, x: Value, y: Value) -> Value:
    if not x.type.is_float:
        _check_divisor(y)
    return e._pick(("arith.remf", "arith.remsi", ""), x, y)


def _check_divisor(y: Value) -> None:
    """Integer division by 0 raises in torch; a kernel cannot."""
    if y.op is None or y.op.name != "mp.fill" or y.op.attrs["value"] == 0:
        raise UntraceableError(
            "integers are divided by a tensor", remedy="divide floats, or by a number"
        )


def _rounded_division(e: Elements, x: Value, y: Value, mode: str | None) -> Value:
    if mode is None:
        return e.div(x, y)
    if x.type.is_float:
        if mode == "floor":
            rest = _remainder(e, x, y)
            return e.math("roundeven", e.div(e.sub(x, rest), y))
        return e.math("trunc", e.div(x, y))
    _check_divisor(y)
    return e._pick(("", "arith.floordivsi" if mode == "floor" else "arith.divsi", ""), x, y)


_binary(_remainder, "remainder")
_binary(_fmod, "fmod")
_binary(lambda e, x, y: _rounded_division(e, x, y, "floor"), "floor_divide")
_define(2, _rounded_division, aten.div.Tensor_mode, aten.div.Scalar_mode)


def _where(lowering: Lowering, node: fx.Node) -> Table:
    condition, a, b = node.args
    dtype = out_dtype(node)
    operands = (
        lowering.operand(condition, "i1"),
        lowering.operand(a, dtype),
        lowering.operand(b, dtype),
    )
    return lowering.combine(lowering.elements.select, *operands)


def _masked_fill(lowering: Lowering, node: fx.Node) -> Table:
    x, mask, value = node.args
    dtype = out_dtype(node)
    table, number = lowering.operand(x, dtype), lowering.operand(value, dtype)

    def fill(condition: Value, kept: Value, filler: Value) -> Value:
        return lowering.elements.select(condition, filler, kept)

    if not isinstance(number, Table):
        number = lowering.combine(lambda v: lowering.elements.number(v, number), table)
    return lowering.combine(fill, lowering.operand(mask, "i1"), table, number)


def _log_sigmoid(lowering: Lowering, node: fx.Node) -> tuple:
    e = lowering.elements

    def formula(x: Value) -> Value:
        low = e.minimum(x, e.number(x, 0.0))
        return e.sub(low, e.math("log1p", e.math("exp", e.neg(e.abs(x)))))

    return lowering.combine(formula, lowering.operand(node.args[0], out_dtype(node))), None


def _nan_to_num(lowering: Lowering, node: fx.Node) -> Table:
    """nan_to_num(x, nan, posinf, neginf): by default 0, and the largest numbers of x's dtype."""
    source, nan, high, low = _bound(node)
    table, e = lowering.operand(source, out_dtype(node)), lowering.elements
    if not table.type.is_float:
        return table
    limits = torch.finfo(node.meta["val"].dtype)
    high, low = limits.max if high is None else high, limits.min if low is None else low

    def formula(x: Value) -> Value:
        result = e.select(e.compare("eq", x, math.inf), e.number(x, high), x)
        result = e.select(e.compare("eq", x, -math.inf), e.number(x, low), result)
        return e.select(e.compare("uno", x, x), e.number(x, nan or 0.0), result)

    return lowering.combine(formula, table)


TABLE[aten.nan_to_num.default] = _nan_to_num
TABLE[aten.detach.default] = lambda lowering, node: lowering.detach(lowering.table(node.args[0]))
TABLE[aten.where.self] = _where
TABLE[aten.masked_fill.Scalar] = TABLE[aten.masked_fill.Tensor] = _masked_fill
TABLE[aten.log_sigmoid_forward.default] = _log_sigmoid
