"""Operators that read labels: comparisons, and rows of parameters by number."""

from __future__ import annotations

from fuzz.body import Body, Value

LABELS = 3
"""Labels are from 0 to one less."""


def same_label(body: Body) -> Value | None:
    k = body.pick(kind="int")
    if k is None:
        return None
    x = body.pick(lambda v: v.rows == k.rows and v.shape == k.shape)
    code, kind = f"{k.name} == {body.choose([1, 0])}", "bool"
    if x is not None and body.choose([False, True]):
        code, kind = f"{x.name} * {k.name}", "float"
    return body.let(code, k.shape, k.rows, kind)


def looked_up(body: Body) -> Value | None:
    """Beside a value: a parameter's row, or one number, for each label."""
    k = body.pick(kind="int")
    x = k and body.pick(lambda v: v.rows == k.rows)
    if x is None:
        return None
    shape = body.choose([x.shape, ()])
    p = body.model.parameter((LABELS, *shape))
    forms = [
        "{p}[{k}]",
        "{p}.index_select(0, {k})",
        "{p}[{k} - 3]",
        "torch.sigmoid({p})[{k}.to(torch.int32)]",
    ]
    if len(shape) == 1:
        forms.append("F.embedding({k}, {p})")
    found = body.choose(forms).format(p=p, k=k.name)
    found += ".unsqueeze(-1)" * (len(x.shape) - len(shape))
    return body.let(f"{x.name} {body.choose(['*', '+'])} {found}", x.shape, x.rows)


def typed_linear(body: Body) -> Value | None:
    """A matrix for each label."""
    k = body.pick(kind="int")
    x = k and body.pick(lambda v: v.rows == k.rows and len(v.shape) == 1)
    if x is None:
        return None
    inner, outer = x.shape[0], body.model.width
    p = body.model.parameter((LABELS, inner, outer))
    form = body.choose(
        [
            "torch.einsum('...i,...io->...o', {x}, {p}[{k}])",
            "({x}.unsqueeze(-2) @ {p}[{k}]).squeeze(-2)",
            "({x}.unsqueeze(-1) * {p}[{k}]).sum(-2)",
        ]
    )
    return body.let(form.format(x=x.name, p=p, k=k.name), (outer,), x.rows)


ON_LABELS = (looked_up, typed_linear, same_label)
