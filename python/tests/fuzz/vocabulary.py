"""What drawn functions are made of: an operator draws its operands from a body and adds to it.

Operators return the new value, or none when nothing fits. Those that could overflow, divide by zero
or leave their domain are written as people write them to be safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fuzz.body import LEAD, Body, Value, aligned, joint_shape

Operator = Callable[[Body], Value | None]

UNARY = (
    "torch.relu({x})",
    "{x} * 0.5",
    "{x} + 1",
    "2 - {x}",
    "-{x}",
    "{x}.abs()",
    "F.leaky_relu({x}, 0.2)",
    "torch.tanh({x})",
    "torch.sigmoid({x})",
    "F.softplus({x})",
    "F.elu({x})",
    "F.silu({x})",
    "F.gelu({x})",
    "{x}.clamp(-0.5, 0.75)",
    "{x}.clamp(min=0.1)",
    "{x}.clamp(max=0.6)",
    "{x} * {x}",
    "{x} ** 2",
    "{x} ** 3",
    "torch.exp(-{x}.abs())",
    "torch.exp({x}.clamp(max=1.5))",
    "torch.exp(-({x} ** 2))",
    "torch.log({x}.abs() + 1)",
    "torch.log1p({x}.abs())",
    "({x} * {x} + 0.1).sqrt()",
    "1 / ({x}.abs() + 0.5)",
    "({x} ** 2 + 1).rsqrt()",
    "torch.sin({x})",
    "torch.cos({x})",
    "F.hardtanh({x})",
    "({x} > 0).to({x}.dtype) * {x}",
    "torch.where({x} > 0.25, {x}, torch.zeros_like({x}))",
    "{x}.masked_fill({x} < -0.5, 0.5)",
    "{x}.detach() * {x}",
    "torch.nan_to_num({x}, 0.5)",
    "torch.nan_to_num(torch.where({x} > 0.5, math.nan, {x}), 0.25)",
    "F.smooth_l1_loss({x}, torch.ones_like({x}), reduction='none')",
)

BINARY = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / ({y}.abs() + 0.5)",
    "torch.maximum({x}, {y})",
    "torch.minimum({x}, {y})",
    "torch.where({x} > {y}, {x}, {y} * 0.5)",
    "({x} - {y}) ** 2",
    "torch.relu({x} + {y})",
    "torch.lerp({x}, {y}, 0.25)",
    "torch.addcmul({x}, {x}, {y}, value=0.5)",
    "(1 + {x} ** 2) ** {y}.clamp(-1, 1)",
    "torch.atan2({x}, {y}.abs() + 0.5)",
    "torch.logaddexp({x}, {y})",
)

LOSSES = (
    "F.mse_loss({x}, {y}, reduction='none')",
    "F.huber_loss({x}, {y}, reduction='none', delta=0.4)",
    "F.l1_loss({x}, {y}, reduction='none')",
)

PARAMETRIC = (
    "{x} * {p}",
    "{x} + {p}",
    "torch.relu({x} - {p})",
    "(1 + {p}) * {x}",
    "({x}.abs() + 0.5) ** {p}",
    "{x} / ({p}.abs() + 0.5)",
)


def unary(body: Body) -> Value | None:
    x = body.pick()
    return body.let(body.choose(UNARY).format(x=x.name), x.shape, x.rows)


def binary(body: Body) -> Value | None:
    x = body.pick()
    y = body.pick(lambda v: joint_shape(x.shape, v.shape) is not None)
    (a, b), shape, rows = aligned([x, y])
    return body.let(body.choose(BINARY).format(x=a, y=b), shape, rows)


def loss(body: Body) -> Value | None:
    """Of each element, against another value of its shape."""
    x = body.pick()
    y = body.pick(lambda v: v.rows == x.rows and v.shape == x.shape)
    return body.let(body.choose(LOSSES).format(x=x.name, y=y.name), x.shape, x.rows)


def parametric(body: Body) -> Value | None:
    """With a parameter of the value's features, or of one number."""
    x = body.pick()
    shape = body.choose([x.shape, (1,), ()])
    p = body.model.parameter(shape)
    if not x.shape and shape:
        return None
    return body.let(body.choose(PARAMETRIC).format(x=x.name, p=p), x.shape, x.rows)


def linear(body: Body) -> Value | None:
    x = body.pick(lambda v: v.shape)
    if x is None:
        return None
    inner, outer = x.shape[-1], body.choose([body.model.width, 1, body.model.heads, inner_twice(x)])
    form = body.choose(["layer", "matmul", "weight", "einsum"])
    if form == "layer":
        layer = body.model.linear(inner, outer, body.choose([True, False]))
        code = f"{layer}({x.name})"
    elif form == "matmul":
        code = f"{x.name} @ {body.model.parameter((inner, outer))}"
    elif form == "weight":
        code = f"F.linear({x.name}, {body.model.parameter((outer, inner))})"
    else:
        code = f"torch.einsum('...i,ij->...j', {x.name}, {body.model.parameter((inner, outer))})"
    return body.let(code, (*x.shape[:-1], outer), x.rows)


def inner_twice(x: Value) -> int:
    return 2 * x.shape[-1]


def perceptron(body: Body) -> Value | None:
    x = body.pick(lambda v: v.shape)
    if x is None:
        return None
    inner, hidden, outer = x.shape[-1], body.model.width, body.choose([body.model.width, 1])
    activation = body.choose(["nn.ReLU()", "nn.Tanh()", "nn.SiLU()"])
    code = (
        f"nn.Sequential(nn.Linear({inner}, {hidden}), {activation}, nn.Linear({hidden}, {outer}))"
    )
    return body.let(f"{body.model.make('mlp', code)}({x.name})", (*x.shape[:-1], outer), x.rows)


def score(body: Body) -> Value | None:
    """An attention vector against the last axis."""
    x = body.pick(lambda v: v.shape)
    if x is None:
        return None
    shape = body.choose([x.shape[-1:], x.shape])
    p, keep = body.model.parameter(shape), body.choose([True, False])
    code = f"({x.name} * {p}).sum(-1{', keepdim=True' if keep else ''})"
    return body.let(code, x.shape[:-1] + ((1,) if keep else ()), x.rows)


def heads_weight(body: Body) -> Value | None:
    """A matrix for each head."""
    x = body.pick(lambda v: len(v.shape) == 2)
    if x is None:
        return None
    h, f = x.shape
    p = body.model.parameter((h, f, body.model.width))
    return body.let(
        f"torch.einsum('...hf,hfg->...hg', {x.name}, {p})", (h, body.model.width), x.rows
    )


def combine_features(body: Body) -> Value | None:
    x = body.pick(lambda v: v.shape)
    if x is None:
        return None
    axis = -body.choose(range(1, len(x.shape) + 1))
    keep = body.choose([False, True])
    form = body.choose(
        [
            "{x}.sum({dims})",
            "{x}.mean({dims})",
            "{x}.max({dims})[0]",
            "{x}.min({dims}).values",
            "{x}.amax({dims})",
            "{x}.amin({dims})",
            "{x}.norm(dim={dims})",
            "torch.logsumexp({x}, {dims})",
            "{x}.square().sum({dims})",
            "{x}.prod({dims})",
            "{x}.var({dims}, unbiased=False)",
        ]
    )
    at = len(x.shape) + axis
    shape = x.shape[:at] + ((1,) if keep else ()) + x.shape[at + 1 :]
    dims = f"{axis}, keepdim=True" if keep else str(axis)
    return body.let(form.format(x=x.name, dims=dims), shape, x.rows)


def normalise_features(body: Body) -> Value | None:
    x = body.pick(lambda v: v.shape)
    if x is None:
        return None
    forms = [
        "torch.softmax({x}, -1)",
        "F.normalize({x}, dim=-1)",
        "{x} - {x}.mean(-1, keepdim=True)",
        "{x} / ({x}.norm(dim=-1, keepdim=True) + 0.5)",
        "F.log_softmax({x}, dim=-1)",
        "{x}.softmax({first})",
        "{x} * torch.linspace(-1, 1.5, {f}, dtype={x}.dtype)",
        "({x} - torch.std_mean({x}, -1, keepdim=True, correction=0)[1]).square()",
    ]
    if x.shape[-1] > 1:
        forms.append("F.layer_norm({x}, ({f},))")
        if x.rows != "mailbox" and x.shape[0] % 2 == 0 and len(x.shape) == 2:
            forms.append("F.group_norm({x}, 2)")
    code = body.choose(forms).format(x=x.name, f=x.shape[-1], first=LEAD[x.rows])
    return body.let(code, x.shape, x.rows)


def cat(body: Body) -> Value | None:
    x = body.pick(lambda v: v.shape)
    if x is None:
        return None
    y = body.pick(lambda v: v.rows == x.rows and v.shape[:-1] == x.shape[:-1] and v.shape)
    z = body.pick(lambda v: v.rows == x.rows and v.shape[:-1] == x.shape[:-1] and v.shape)
    parts = body.choose([[x, y], [x, y, z]])
    last = sum(part.shape[-1] for part in parts)
    names = ", ".join(part.name for part in parts)
    return body.let(f"torch.cat([{names}], dim=-1)", (*x.shape[:-1], last), x.rows)


def stack(body: Body) -> Value | None:
    x = body.pick()
    y = body.pick(lambda v: v.rows == x.rows and v.shape == x.shape)
    place = body.choose(range(len(x.shape) + 1))
    shape = (*x.shape[:place], 2, *x.shape[place:])
    code = f"torch.stack([{x.name}, {y.name}], dim={LEAD[x.rows] + place})"
    return body.let(code, shape, x.rows)


def cut(body: Body) -> Value | None:
    """Slices, chunks and single features."""
    x = body.pick(lambda v: v.shape and v.shape[-1] > 1)
    if x is None:
        return None
    n, half = x.shape[-1], (x.shape[-1] + 1) // 2
    gated = [(f"F.glu({x.name}, -1)", (half,))] if n % 2 == 0 else []
    code, shape = body.choose(
        [
            *gated,
            (f"{x.name}[..., :{half}]", (half,)),
            (f"{x.name}[..., {half}:]", (n - half,)),
            (f"{x.name}[..., 0]", ()),
            (f"{x.name}[..., -1:]", (1,)),
            (f"{x.name}[..., ::2]", (half,)),
            (f"{x.name}.chunk(2, dim=-1)[0]", (half,)),
            (f"{x.name}.unbind(-1)[1]", ()),
            (f"{x.name}.narrow(-1, 1, {n - 1})", (n - 1,)),
            (f"torch.split({x.name}, [1, {n - 1}], dim=-1)[1]", (n - 1,)),
        ]
    )
    return body.let(code, x.shape[:-1] + shape, x.rows)


def first_axis(body: Body) -> Value | None:
    """One head, by its number on the first feature axis."""
    x = body.pick(lambda v: len(v.shape) > 1)
    if x is None:
        return None
    colons = ":, " * LEAD[x.rows]
    return body.let(f"{x.name}[{colons}{x.shape[0] - 1}]", x.shape[1:], x.rows)


def split_heads(body: Body) -> Value | None:
    heads = body.model.heads
    x = body.pick(lambda v: v.shape and v.shape[-1] % heads == 0)
    if x is None:
        return None
    shape = (*x.shape[:-1], heads, x.shape[-1] // heads)
    tail = ", ".join(map(str, shape))
    forms = ["{x}.view(*{x}.shape[:-1], {h}, {f})", "{x}.unflatten(-1, ({h}, {f}))"]
    if x.rows != "mailbox":
        forms += ["{x}.reshape(-1, {tail})", "{x}.view({x}.shape[0], {tail})"]
    else:
        forms.append("{x}.view({x}.shape[0], {x}.shape[1], {tail})")
    form = body.choose(forms)
    return body.let(form.format(x=x.name, h=heads, f=shape[-1], tail=tail), shape, x.rows)


def move_axes(body: Body) -> Value | None:
    x = body.pick(lambda v: len(v.shape) > 1)
    if x is None:
        return None
    lead, swapped = LEAD[x.rows], (*x.shape[:-2], x.shape[-1], x.shape[-2])
    flat = (math.prod(x.shape),)
    code, shape = body.choose(
        [
            (f"{x.name}.transpose(-1, -2)", swapped),
            (f"{x.name}.flatten({lead})", flat),
            (f"{x.name}.mT", swapped),
        ]
    )
    return body.let(code, shape, x.rows)


def thin_axes(body: Body) -> Value | None:
    """Axes of size 1 come, go, or are repeated."""
    x = body.pick(lambda v: len(v.shape) < 3)
    if x is None:
        return None
    forms = [
        ("{x}.unsqueeze(-1)", (*x.shape, 1)),
        ("{x}[..., None]", (*x.shape, 1)),
        ("{x}.unsqueeze({lead})", (1, *x.shape)),
    ]
    if x.shape and x.shape[-1] == 1:
        wide = (*x.shape[:-1], 3)
        keep = ", ".join(["-1"] * (LEAD[x.rows] + len(x.shape) - 1))
        forms += [
            ("{x}.squeeze(-1)", x.shape[:-1]),
            (f"{{x}}.expand({keep}, 3)", wide),
            ("torch.cat([{x}] * 3, dim=-1)", wide),
        ]
    form, shape = body.choose(forms)
    return body.let(form.format(x=x.name, lead=LEAD[x.rows]), shape, x.rows)


def inner_product(body: Body) -> Value | None:
    x = body.pick(lambda v: v.shape)
    if x is None:
        return None
    y = body.pick(lambda v: v.shape == x.shape)
    (a, b), shape, rows = aligned([x, y])
    forms = ["({a} * {b}).sum(-1)", "({a} * {b}).sum(-1, keepdim=True)"]
    if rows == "edges" and len(shape) == 1:
        forms += [
            "torch.bmm({a}.unsqueeze(1), {b}.unsqueeze(2)).squeeze(2)",
            "torch.einsum('ef,ef->e', {a}, {b}).unsqueeze(-1)",
            "F.cosine_similarity({a} + 0.5, {b} - 2, dim=-1).unsqueeze(-1)",
        ]
    form = body.choose(forms)
    kept = shape[:-1] if form == forms[0] else (*shape[:-1], 1)
    return body.let(form.format(a=a, b=b), kept, rows)


def outer_product(body: Body) -> Value | None:
    x = body.pick(lambda v: len(v.shape) == 1)
    if x is None:
        return None
    y = body.pick(lambda v: len(v.shape) == 1 and v.rows == x.rows)
    forms = ["{x}.unsqueeze(-1) * {y}.unsqueeze(-2)", "torch.einsum('...f,...g->...fg', {x}, {y})"]
    if x.rows == "edges":
        forms.append("torch.bmm({x}.unsqueeze(2), {y}.unsqueeze(1))")
    code = body.choose(forms).format(x=x.name, y=y.name)
    return body.let(code, x.shape + y.shape, x.rows)


def matrix_product(body: Body) -> Value | None:
    x = body.pick(lambda v: len(v.shape) == 2)
    if x is None:
        return None
    y = body.pick(lambda v: len(v.shape) == 2 and v.rows == x.rows and v.shape[0] == x.shape[1])
    if y is None:
        return None
    return body.let(f"{x.name} @ {y.name}", (x.shape[0], y.shape[1]), x.rows)


def compare(body: Body) -> Value | None:
    x = body.pick()
    y = body.pick(lambda v: v.shape == x.shape and v.rows == x.rows)
    form = body.choose(["{x} > {y}", "{x} <= 0.25", "({x} < {y}) | ({x} > 1)", "~({x} >= 0)"])
    return body.let(form.format(x=x.name, y=y.name), x.shape, x.rows, "bool")


def masked(body: Body) -> Value | None:
    c = body.pick(kind="bool")
    if c is None:
        return None
    x = body.pick(lambda v: v.shape == c.shape and v.rows == c.rows)
    y = body.pick(lambda v: v.shape == c.shape and v.rows == c.rows)
    if x is None:
        return None
    form = body.choose(
        [
            "torch.where({c}, {x}, {y})",
            "{x} * {c}.to({x}.dtype)",
            "{x}.masked_fill({c}, -1.0)",
            "torch.where({c}, {x}, 0.0)",
        ]
    )
    return body.let(form.format(c=c.name, x=x.name, y=y.name), x.shape, x.rows)


ON_ROWS: tuple[Operator, ...] = (
    binary,
    unary,
    binary,
    unary,
    linear,
    parametric,
    cat,
    score,
    combine_features,
    inner_product,
    cut,
    split_heads,
    thin_axes,
    normalise_features,
    compare,
    masked,
    perceptron,
    stack,
    first_axis,
    move_axes,
    outer_product,
    matrix_product,
    heads_weight,
    loss,
)
"""Operators for rows of any kind; the frequent ones are there twice."""
