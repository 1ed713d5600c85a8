"""ATen operators that combine the features of a row, or the messages of a mailbox."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from gossamer.capture.errors import UntraceableError

from .elements import Elements
from .ir import Type, Value
from .lower import Lowering, out_dtype
from .table import STORAGE_ONLY, Table, dtype_word, features

aten = torch.ops.aten

MIXED_ROWS = "rows of different nodes or edges are combined"
_REMEDY = "reduce over feature axes, or over axis 1 of a mailbox"


def _axes(table: Table, dims: Any, rows: bool = False) -> list[int]:
    """Torch axes to reduce, ascending; none of them may be rows, or merged ones with `rows`."""
    if dims is None or dims == []:
        dims = range(table.rank)
    dims = sorted({table.axis(dim) for dim in ([dims] if isinstance(dims, int) else dims)})
    if any(table.axes[dim] in (("rd",) if rows else ("r", "rd")) for dim in dims):
        raise UntraceableError(MIXED_ROWS, remedy=_REMEDY)
    return dims


def reduce(
    lowering: Lowering, kind: str, table: Table, dims: Any, keep: bool = False, **ties: str
) -> Table:
    """Combine axes by sum, mean, max, min or prod. Messages go first: the rest is then less."""
    dims = _axes(table, dims, lowering.adds_rows and kind in ("sum", "mean"))
    axes = list(table.axes)
    value = table.value
    order = sorted(dims, key=lambda dim: (axes[dim] == "r", axes[dim] != "d", -dim))
    for dim in order:
        if axes[dim] == "r":
            value = lowering.over_rows(kind, value)
            axes[dim] = _Dropped()
            continue
        slot = axes[dim] == "d"
        place = 1 if slot else Table(value, tuple(axes)).feature(dim)
        value = _drop(lowering, kind, value, place, slot, **ties)
        axes[dim] = _Dropped()
    kept = tuple(1 if isinstance(a, _Dropped) else a for a in axes)
    if keep:
        return Table(lowering.reshape(value, features(kept)), kept)
    return Table(value, tuple(a for a in axes if not isinstance(a, _Dropped)))


class _Dropped:
    """An axis that a reduction removed."""


def _drop(
    lowering: Lowering, kind: str, value: Value, place: int, slot: bool, **ties: str
) -> Value:
    type = value.type
    if slot:
        type = type.with_rows(lowering.node_rows)
    else:
        index = place - type.row_axes
        type = type.with_features(type.features[:index] + type.features[index + 1 :])
    return lowering.builder.op("mp.reduce_axis", (value,), type, kind=kind, axis=place, **ties)


def even_extremum(
    lowering: Lowering, kind: str, table: Table, dims: Any, keep: bool = False
) -> Table:
    """max or min over axes; all places that attain it share its gradient evenly."""
    dims = _axes(table, dims)
    if not table.type.is_float:
        return reduce(lowering, kind, table, dims, keep)
    if len(dims) < 2:
        return reduce(lowering, kind, table, dims, keep, ties="even")
    e = lowering.elements
    whole = lowering.detach(reduce(lowering, kind, table, dims, keep=True))
    attained = lowering.combine(lambda x, m: e.compare("eq", x, m), table, whole)
    ones = lowering.combine(lambda a: e.cast(a, table.type.dtype), attained)
    number = reduce(lowering, "sum", ones, dims, keep)
    # 0 with the gradient of x. Its sum over the ties divided by their number is 0 again.
    ghost = lowering.combine(
        lambda x, a: e.select(a, _ghost(e, x), e.number(x, 0.0)), table, attained
    )
    total = reduce(lowering, "sum", ghost, dims, keep)
    share = lowering.combine(lambda t, n: e.div(t, e.maximum(n, e.number(n, 1.0))), total, number)
    value = whole if keep else lowering.detach(reduce(lowering, kind, table, dims))
    return lowering.combine(e.add, value, share)


def _ghost(e: Elements, x: Value) -> Value:
    """0 with the gradient of x, unless x is infinite."""
    still = e.detach(x)
    infinite = e.compare("eq", e.abs(still), e.number(x, math.inf))
    return e.select(infinite, e.number(x, 0.0), e.sub(x, still))


def softmax(lowering: Lowering, table: Table, dim: int) -> Table:
    """Normalise one axis."""
    (dim,) = _axes(table, [dim])
    place = 1 if table.axes[dim] == "d" else table.feature(dim)
    value = lowering.builder.op("mp.softmax_axis", (table.value,), table.type, axis=place)
    return Table(value, table.axes)


def count(lowering: Lowering, table: Table, dims: Any, dtype: str) -> Table:
    """How many numbers each result of a reduction combines: a number without axes."""
    dims = _axes(table, dims)
    number = math.prod(table.axes[dim] for dim in dims if isinstance(table.axes[dim], int))
    e = lowering.elements
    if not any(table.axes[dim] == "d" for dim in dims):
        return Table(e.fill(number, Type((), dtype)), ())
    degree = Table(e.cast(lowering.degree(), dtype), ())
    return degree if number == 1 else lowering.combine(e.mul, degree, number)


def _reduction(kind: str) -> Any:
    """Handler for op(x, dims, keepdim, dtype=)."""

    def handler(lowering: Lowering, node: fx.Node) -> Table:
        table = lowering.operand(node.args[0], out_dtype(node))
        dims = node.args[1] if len(node.args) > 1 else None
        keep = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
        return reduce(lowering, kind, table, dims, keep)

    return handler


def _even_extremum(kind: str) -> Any:
    """Handler for op(x, dims, keepdim), in which ties share the gradient."""

    def handler(lowering: Lowering, node: fx.Node) -> Table:
        if dtype_word(node.meta["val"].dtype) in STORAGE_ONLY:
            # Which places tie is decided by an extremum that may have been stored in 16 bits.
            raise UntraceableError(
                "places that share the gradient of amax or amin can't be told apart in 16 bits",
                remedy="write x.max(dim)[0] or x.min(dim)[0], or widen with x.float()",
            )
        table = lowering.operand(node.args[0], out_dtype(node))
        dims = node.args[1] if len(node.args) > 1 else None
        keep = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
        return even_extremum(lowering, kind, table, dims, keep)

    return handler


def _any_all(kind: str) -> Any:
    def handler(lowering: Lowering, node: fx.Node) -> Table:
        e = lowering.elements
        table = lowering.operand(node.args[0], "i1")
        wide = Table(e.cast(table.value, "i32"), table.axes)
        dims = node.args[1] if len(node.args) > 1 else None
        keep = node.args[2] if len(node.args) > 2 else False
        result = reduce(lowering, kind, wide, dims, keep)
        return Table(e.cast(result.value, "i1"), result.axes)

    return handler


def _extremum(kind: str) -> Any:
    """max.dim, min.dim: values; the index among messages or features is not provided."""

    def handler(lowering: Lowering, node: fx.Node) -> tuple:
        table = lowering.operand(node.args[0], out_dtype(node))
        keep = node.args[2] if len(node.args) > 2 else False
        return reduce(lowering, kind, table, [node.args[1]], keep), None

    return handler


def _softmax(lowering: Lowering, node: fx.Node) -> Table:
    return softmax(lowering, lowering.operand(node.args[0], out_dtype(node)), node.args[1])


def _log_softmax(lowering: Lowering, node: fx.Node) -> Table:
    table = lowering.operand(node.args[0], out_dtype(node))
    shifted, total = _exponentials(lowering, table, [node.args[1]])
    e = lowering.elements
    return lowering.combine(lambda x, s: e.sub(x, e.math("log", s)), shifted, total)


def _still_max(lowering: Lowering, table: Table, dims: Sequence[int], keep: bool) -> Table:
    """The maximum that keeps exponentials from overflow; the result does not depend on it."""
    return lowering.detach(reduce(lowering, "max", table, dims, keep))


def _exponentials(lowering: Lowering, table: Table, dims: Sequence[int]) -> tuple[Table, Table]:
    """x - max, and the sum of exp(x - max), axes kept."""
    e = lowering.elements
    largest = _still_max(lowering, table, dims, True)
    shifted = lowering.combine(e.sub, table, largest)
    return shifted, reduce(
        lowering, "sum", lowering.combine(lambda x: e.math("exp", x), shifted), dims, keep=True
    )


def _logsumexp(lowering: Lowering, node: fx.Node) -> Table:
    e = lowering.elements
    table = lowering.operand(node.args[0], out_dtype(node))
    dims, keep = node.args[1], node.args[2] if len(node.args) > 2 else False

    def finite(x: Value) -> Value:
        infinite = e.compare("eq", e.abs(x), e.number(x, math.inf))
        return e.select(infinite, e.number(x, 0.0), x)

    largest = lowering.combine(finite, _still_max(lowering, table, dims, True))
    powers = lowering.combine(lambda x, m: e.math("exp", e.sub(x, m)), table, largest)
    total = reduce(lowering, "sum", powers, dims, keep)
    if not keep:
        largest = lowering.combine(finite, _still_max(lowering, table, dims, False))
    return lowering.combine(lambda s, m: e.add(e.math("log", s), m), total, largest)


def variance(lowering: Lowering, table: Table, dims: Any, correction: Any, keep: bool) -> Table:
    """Squared distances to the mean over count - correction; 1 message, correction 1 give NaN."""
    e, dtype = lowering.elements, table.type.dtype
    mean = reduce(lowering, "mean", table, dims, keep=True)
    centred = lowering.combine(e.sub, table, mean)
    total = reduce(lowering, "sum", lowering.combine(lambda x: e.mul(x, x), centred), dims, keep)
    number = count(lowering, table, dims, dtype)
    divisor = lowering.combine(
        lambda n: e.maximum(e.sub(n, e.number(n, float(correction))), e.number(n, 0.0)), number
    )
    return lowering.combine(e.div, total, divisor)


def _variance(root: bool) -> Any:
    def handler(lowering: Lowering, node: fx.Node) -> Table:
        table = lowering.operand(node.args[0], out_dtype(node))
        dims = node.args[1] if len(node.args) > 1 else None
        correction = node.kwargs.get("correction", 1)
        correction = 1 if correction is None else correction
        result = variance(lowering, table, dims, correction, node.kwargs.get("keepdim", False))
        if not root:
            return result
        return lowering.combine(lambda x: _root(lowering.elements, x), result)

    return handler


def _norm(lowering: Lowering, node: fx.Node) -> Table:
    """linalg_vector_norm(x, ord, dims, keepdim)."""
    source, order, dims, keep = (*node.args, *(2, None, False)[len(node.args) - 1 :])
    return vector_norm(lowering, lowering.operand(source, out_dtype(node)), order, dims, keep)


def _old_norm(lowering: Lowering, node: fx.Node) -> Table:
    """norm.ScalarOpt_dim(x, p, dims, keepdim)."""
    source, order, dims, keep = (*node.args, *(None, None, False)[len(node.args) - 1 :])
    order = 2 if order is None else order
    return vector_norm(lowering, lowering.operand(source, out_dtype(node)), order, dims, keep)


def vector_norm(lowering: Lowering, table: Table, order: Any, dims: Any, keep: bool) -> Table:
    """The p-norm over axes."""
    e = lowering.elements
    if order in (math.inf, -math.inf):
        kind = "max" if order > 0 else "min"
        return even_extremum(lowering, kind, lowering.combine(e.abs, table), dims, keep)
    if order == 1:
        return reduce(lowering, "sum", lowering.combine(e.abs, table), dims, keep)
    if order == 2:
        total = reduce(lowering, "sum", lowering.combine(lambda x: e.mul(x, x), table), dims, keep)
        return lowering.combine(lambda x: _root(e, x), total)
    if not isinstance(order, (int, float)) or order <= 0:
        raise UntraceableError(f"the norm of order {order} is not compiled")

    def power(exponent: float) -> Any:
        return lambda x: e.flat_at_zero(lambda v: e.math("powf", v, e.number(v, exponent)), x)

    powers = lowering.combine(power(order), lowering.combine(e.abs, table))
    total = reduce(lowering, "sum", powers, dims, keep)
    return lowering.combine(power(1.0 / order), total)


def _root(e: Elements, x: Value) -> Value:
    return e.flat_at_zero(lambda v: e.math("sqrt", v), x)


def _cosine(lowering: Lowering, node: fx.Node) -> Table:
    """cosine_similarity(x, y, dim, eps): each norm is at least eps."""
    e, dtype = lowering.elements, out_dtype(node)
    axis, epsilon = node.args[2:]
    x, y = (lowering.operand(value, dtype) for value in node.args[:2])
    from_end = axis - max(x.rank, y.rank)

    def at_least(n: Value) -> Value:
        # torch limits the norm without autograd: the gradient stays that of the norm.
        least = e.add(e.number(n, epsilon), e.sub(n, e.detach(n)))
        return e.select(e.compare("ge", n, epsilon), n, least)

    def unit(table: Table) -> Table:
        length = vector_norm(lowering, table, 2, [from_end], True)
        return lowering.combine(lambda a, n: e.div(a, at_least(n)), table, length)

    return reduce(lowering, "sum", lowering.combine(e.mul, unit(x), unit(y)), [from_end])


def _layer_norm(lowering: Lowering, node: fx.Node) -> tuple:
    """native_layer_norm(x, normalised shape, weight, bias, eps)."""
    source, shape, weight, bias, epsilon = node.args
    dtype = out_dtype(node)
    table = lowering.operand(source, dtype)
    dims = list(range(table.rank - len(shape), table.rank))
    mean = reduce(lowering, "mean", table, dims, keep=True)
    spread = variance(lowering, table, dims, 0, keep=True)
    return _normalised(lowering, table, mean, spread, epsilon, (weight, bias)), None, None


def _normalised(lowering, table, mean, spread, epsilon, affine) -> Table:
    """(x - mean) / sqrt(variance + eps), then weight and bias, which broadcast."""
    e = lowering.elements

    def formula(x: Value, m: Value, v: Value) -> Value:
        return e.mul(e.sub(x, m), e.math("rsqrt", e.add(v, e.number(v, epsilon))))

    result = lowering.combine(formula, table, mean, spread)
    for function, value in zip((e.mul, e.add), affine, strict=True):
        if value is not None:
            operand = (
                value if isinstance(value, Table) else lowering.operand(value, table.type.dtype)
            )
            result = lowering.combine(function, result, operand)
    return result


def _batch_norm(training: int | None, epsilon: int) -> Any:
    """A handler given the positions of the training flag (None: never trains) and of eps."""

    def handler(lowering: Lowering, node: fx.Node) -> tuple:
        source, weight, bias, mean, var = node.args[:5]
        if (training is not None and node.args[training]) or mean is None or var is None:
            raise UntraceableError(
                "BatchNorm in training combines the rows of a batch",
                remedy="call eval() on the module",
            )
        dtype = out_dtype(node)
        table = lowering.operand(source, dtype)
        thin = []
        for value in (mean, var, weight, bias):
            channel = None if value is None else lowering.operand(value, dtype)
            if channel is not None:
                sizes = (*channel.axes, *[1] * (table.rank - 2))
                channel = Table(lowering.reshape(channel.value, sizes), sizes)
            thin.append(channel)
        return (
            _normalised(lowering, table, thin[0], thin[1], node.args[epsilon], thin[2:]),
            None,
            None,
        )

    return handler


TABLE = {
    aten.sum.default: _reduction("sum"),
    aten.sum.dim_IntList: _reduction("sum"),
    aten.mean.default: _reduction("mean"),
    aten.mean.dim: _reduction("mean"),
    aten.amax.default: _even_extremum("max"),
    aten.amin.default: _even_extremum("min"),
    aten.max.default: _even_extremum("max"),
    aten.min.default: _even_extremum("min"),
    aten.prod.default: _reduction("prod"),
    aten.prod.dim_int: _reduction("prod"),
    aten.max.dim: _extremum("max"),
    aten.min.dim: _extremum("min"),
    **dict.fromkeys([aten.any.default, aten.any.dim, aten.any.dims], _any_all("max")),
    **dict.fromkeys([aten.all.default, aten.all.dim, aten.all.dims], _any_all("min")),
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten.logsumexp.default: _logsumexp,
    aten.var.correction: _variance(False),
    aten.std.correction: _variance(True),
    aten.linalg_vector_norm.default: _norm,
    aten.norm.ScalarOpt_dim: _old_norm,
    aten.norm.Scalar: _old_norm,
    aten.cosine_similarity.default: _cosine,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_batch_norm.default: _batch_norm(5, 7),
    aten.cudnn_batch_norm.default: _batch_norm(5, 7),
    aten._native_batch_norm_legit_no_training.default: _batch_norm(None, 6),
}
