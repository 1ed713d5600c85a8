"""Matrix products and contractions, all as one: labelled axes, like einsum.

A product with a parameter is `mp.linear`. Other products are made row by row: multiply, then sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import fx

from gossamer.capture.errors import UntraceableError

from .lower import Lowering, out_dtype
from .reductions import reduce
from .shapes import permute, reshape
from .table import Table

aten = torch.ops.aten


def contract(lowering: Lowering, a: Table, la: str, b: Table, lb: str, out: str) -> Table:
    """Sum over the labels that `out` lacks of a times b. Each string labels the axes of a table."""
    if _is_linear(b, lb, la, out):
        return _linear(lowering, a, la, b, lb, out)
    if _is_linear(a, la, lb, out):
        return _linear(lowering, b, lb, a, la, out)
    summed = "".join(sorted(set(la + lb) - set(out)))
    order = out + summed
    product = lowering.combine(
        lowering.elements.mul, _aligned(lowering, a, la, order), _aligned(lowering, b, lb, order)
    )
    if not summed:
        return product
    return reduce(lowering, "sum", product, list(range(len(out), len(order))))


def _is_linear(weight: Table, lw: str, lx: str, out: str) -> bool:
    """Whether `weight` is a parameter whose axes are either summed with x, or new in the result."""
    if weight.type.rows is not None or not weight.type.is_float:
        return False
    shared = set(lw) & set(lx)
    return bool(shared) and not shared & set(out) and set(lw) - shared <= set(out)


def _linear(lowering: Lowering, x: Table, lx: str, weight: Table, lw: str, out: str) -> Table:
    summed = [label for label in lx if label in lw]
    new = [label for label in lw if label not in summed]
    kept = [label for label in lx if label not in summed]
    extra = [label for label in kept if label not in out]
    if extra:
        x = reduce(lowering, "sum", x, [lx.index(label) for label in extra])
        lx = "".join(label for label in lx if label not in extra)
        kept = [label for label in kept if label not in extra]
    x = permute(lowering, x, [lx.index(label) for label in (*kept, *summed)])
    weight = permute(lowering, weight, [lw.index(label) for label in (*summed, *new)])
    inner = math.prod(weight.axes[: len(summed)])
    outer = weight.axes[len(summed) :]
    rows = x.axes[: len(kept)]
    x = reshape(lowering, x, (*rows, inner))
    weight = reshape(lowering, weight, (inner, math.prod(outer)))
    type = x.type.with_features((*x.type.features[:-1], math.prod(outer)))
    value = lowering.builder.op("mp.linear", (x.value, weight.value), type)
    result = reshape(lowering, Table(value, (*rows, math.prod(outer))), (*rows, *outer))
    labels = [*kept, *new]
    return permute(lowering, result, [labels.index(label) for label in out])


def _aligned(lowering: Lowering, table: Table, labels: str, order: str) -> Table:
    """The table with an axis for each label of `order`, of size 1 where it has none."""
    present = [label for label in order if label in labels]
    table = permute(lowering, table, [labels.index(label) for label in present])
    sizes = dict(zip(present, table.axes, strict=True))
    return reshape(lowering, table, [sizes.get(label, 1) for label in order])


def _einsum(lowering: Lowering, node: fx.Node) -> Table:
    equation, operands = node.args
    inputs, output = equation.split("->")
    terms, dtype = inputs.split(","), out_dtype(node)
    tables = [lowering.operand(operand, dtype) for operand in operands]
    result, labels = tables[0], terms[0]
    if len(tables) == 1:
        return _unary(lowering, result, labels, output)
    for index in range(1, len(tables)):
        later = set("".join(terms[index + 1 :])) | set(output)
        last = index == len(tables) - 1
        joint = "".join(dict.fromkeys(labels + terms[index]))
        out = output if last else "".join(label for label in joint if label in later)
        result, labels = contract(lowering, result, labels, tables[index], terms[index], out), out
    return result


def _unary(lowering: Lowering, table: Table, labels: str, output: str) -> Table:
    summed = [i for i, label in enumerate(labels) if label not in output]
    if summed:
        table = reduce(lowering, "sum", table, summed)
        labels = "".join(label for label in labels if label in output)
    return permute(lowering, table, [labels.index(label) for label in output])


def matmul(lowering: Lowering, a: Table, b: Table) -> Table:
    """torch.matmul: leading axes broadcast, a vector is one row or one column."""
    la, lb = ("k" if a.rank == 1 else "mk"), ("k" if b.rank == 1 else "kn")
    out = ("m" if a.rank > 1 else "") + ("n" if b.rank > 1 else "")
    batch = "ABCDEFGH"[: max(a.rank, b.rank, 2) - 2]
    a, la = _thin_batch(lowering, a, la, batch)
    b, lb = _thin_batch(lowering, b, lb, batch)
    labels = "".join(label for label in batch if label in la + lb)
    result = contract(lowering, a, la, b, lb, labels + out)
    if labels == batch:
        return result
    sizes = dict(zip(labels, result.axes, strict=False))
    return reshape(
        lowering, result, [sizes.get(c, 1) for c in batch] + list(result.axes[len(labels) :])
    )


def _thin_batch(lowering: Lowering, table: Table, core: str, batch: str) -> tuple[Table, str]:
    """Label the leading axes; those of size 1 broadcast, so they are dropped."""
    lead = table.rank - len(core)
    labels = batch[len(batch) - lead :] if lead else ""
    kept = [i for i in range(lead) if table.axes[i] != 1]
    axes = [table.axes[i] for i in kept] + list(table.axes[lead:])
    return reshape(lowering, table, axes), "".join(labels[i] for i in kept) + core


def _product_dtype(node: fx.Node) -> str:
    """The dtype of all operands: products do not promote.

    Raises:
        UntraceableError: they differ; run eagerly, torch says so in its own words.
    """
    found = {value.meta["val"].dtype for value in node.args if isinstance(value, fx.Node)}
    if len(found) > 1:
        names = " and ".join(sorted(str(dtype) for dtype in found))
        raise UntraceableError(f"a product of {names}", remedy="cast one of them")
    return out_dtype(node)


def _matmul(lowering: Lowering, node: fx.Node) -> Table:
    dtype = _product_dtype(node)
    return matmul(lowering, *(lowering.operand(value, dtype) for value in node.args))


def _linear_op(lowering: Lowering, node: fx.Node) -> Table:
    dtype = _product_dtype(node)
    x, weight, *bias = (lowering.operand(value, dtype) for value in node.args if value is not None)
    labels = "ABCDEFGH"[: x.rank - 1]
    result = contract(lowering, x, labels + "k", weight, "nk", labels + "n")
    if not bias:
        return result
    # A product is stored before its bias is added, so in 16 bits it is rounded here, too.
    result = lowering.as_stored(node.meta["val"], result)
    return lowering.combine(lowering.elements.add, result, bias[0])


def _add_product(lowering: Lowering, node: fx.Node) -> Table:
    """addmm, baddbmm: beta * c + alpha * a @ b."""
    dtype, e = _product_dtype(node), lowering.elements
    c, a, b = (lowering.operand(value, dtype) for value in node.args)
    product = lowering.as_stored(node.meta["val"], matmul(lowering, a, b))
    product = _scale(lowering, product, node.kwargs.get("alpha", 1))
    return lowering.combine(e.add, product, _scale(lowering, c, node.kwargs.get("beta", 1)))


def _scale(lowering: Lowering, table: Table, factor: float) -> Table:
    if factor == 1:
        return table
    e = lowering.elements
    return lowering.combine(lambda x: e.mul(x, e.number(x, factor)), table)


def _cross(lowering: Lowering, node: fx.Node) -> Table:
    """linalg_cross(a, b, dim): three features."""
    from .shapes import cut, feature_axis, join

    dtype, e = out_dtype(node), lowering.elements
    tables = [lowering.operand(value, dtype) for value in node.args[:2]]
    axes, rows = lowering.joint(tables)
    a, b = (Table(lowering.fit(table, axes, rows), axes) for table in tables)
    axis = feature_axis(a, node.kwargs.get("dim", node.args[2] if len(node.args) > 2 else -1))

    def part(i: int) -> Table:
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: Sequence[Table] = [
            cut(lowering, t, axis, n, 1) for t, n in ((a, j), (b, k), (a, k), (b, j))
        ]
        return lowering.combine(lambda p, q, r, s: e.sub(e.mul(p, q), e.mul(r, s)), *parts)

    return join(lowering, [part(i) for i in range(3)], axis)


TABLE = {
    aten.einsum.default: _einsum,
    aten.linear.default: _linear_op,
    **dict.fromkeys(
        [
            aten.matmul.default,
            aten.mm.default,
            aten.bmm.default,
            aten.mv.default,
            aten.dot.default,
        ],
        _matmul,
    ),
    aten.addmm.default: _add_product,
    aten.baddbmm.default: _add_product,
    aten.linalg_cross.default: _cross,
}
