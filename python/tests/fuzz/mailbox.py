"""What drawn reduce functions are made of besides the operators of rows: see `vocabulary.py`."""

from __future__ import annotations

from fuzz.body import Body, Value, aligned, joint_shape
from fuzz.vocabulary import ON_ROWS, Operator

AGGREGATORS = (
    "{m}.sum(1)",
    "{m}.mean(1)",
    "{m}.max(1)[0]",
    "{m}.min(1).values",
    "torch.sum({m}, dim=1)",
    "{m}.amax(1)",
    "torch.logsumexp({m}, 1)",
    "{m}.norm(dim=1)",
    "{m}.std(1, unbiased=False)",
    "{m}.var(1, unbiased=False)",
    "{m}.square().sum(1).sqrt()",
    "{m}.sum(1) / {m}.shape[1]",
    "{m}.mean(1) * math.log({m}.shape[1] + 1)",
    "{m}.sum(1) / {m}.shape[1] ** 0.5",
    "torch.max({m}, dim=1).values - {m}.mean(1)",
    "torch.var_mean({m}, 1, correction=0)[0]",
    "torch.std_mean({m}, dim=1, unbiased=False)[1]",
    "F.huber_loss({m}, torch.zeros_like({m}), reduction='none').sum(1)",
)


def aggregate(body: Body) -> Value | None:
    """Messages of a node become one."""
    m = body.pick(lambda v: v.rows == "mailbox")
    return m and aggregated(body, m)


def aggregated(body: Body, m: Value) -> Value:
    return body.let(body.choose(AGGREGATORS).format(m=m.name), m.shape, "nodes")


def weighted_sum(body: Body) -> Value | None:
    """Attention in the reducer."""
    m = body.pick(lambda v: v.rows == "mailbox")
    if m is None:
        return None
    s = body.pick(lambda v: v.rows == "mailbox" and joint_shape(v.shape, m.shape) is not None)
    (a, b), shape, _ = aligned([s, m])
    form = body.choose(
        [
            "(torch.softmax({a}, dim=1) * {b}).sum(1)",
            "(F.softmax({a} * 0.5, 1) * {b}).sum(dim=1)",
            "({a} * {b}).sum(1)",
            "(torch.sigmoid({a}) * {b}).mean(1)",
            "({a} * {b}).sum(1) / ({a}.abs().sum(1) + 0.5)",
        ]
    )
    return body.let(form.format(a=a, b=b), shape, "nodes")


def within_mailbox(body: Body) -> Value | None:
    """Messages beside those of the same node."""
    m = body.pick(lambda v: v.rows == "mailbox")
    if m is None:
        return None
    form = body.choose(
        [
            "torch.softmax({m}, dim=1)",
            "{m} - {m}.mean(1, keepdim=True)",
            "{m} - {m}.max(1, keepdim=True)[0]",
            "{m} / ({m}.abs().sum(1, keepdim=True) + 0.5)",
            "F.log_softmax({m}, dim=1)",
        ]
    )
    return body.let(form.format(m=m.name), m.shape, "mailbox")


def of_degree(body: Body) -> Value | None:
    """The number of messages as a number, or counted."""
    m = body.pick(lambda v: v.rows == "mailbox")
    x = body.pick(lambda v: v.rows == "nodes")
    if m is None or x is None:
        return None
    form = body.choose(
        [
            "{x} / {m}.shape[1]",
            "{x} * {m}.size(1)",
            "{x} + 1 / {m}.shape[1]",
            "{x} * {m}.shape[1] ** -0.5",
        ]
    )
    return body.let(form.format(m=m.name, x=x.name), x.shape, "nodes")


IN_MAILBOX: tuple[Operator, ...] = (
    aggregate,
    weighted_sum,
    aggregate,
    within_mailbox,
    of_degree,
    *ON_ROWS,
)
"""Operators for the body of a reduce function."""

UNCOMPILABLE = (
    "{m}.sort(1)[0].cumsum(1).sum(1)",
    "{m}.median(1)[0]",
    "{m}.sum(1) / (1 + {m}.abs().max())",
    "{m}.sum(1) * (2.0 if {m}.sum() > 0 else 3.0)",
    "{m}.sum(1) + {m}.abs().max().item()",
    "torch.softmax({m}.sum(1), dim=0)",
    "{m}.flip(1).cumsum(1).mean(1)",
    "torch.from_numpy({m}.detach().numpy().sum(1)) + {m}.mean(1)",
    "sum(({m}[:, d] / (d + 1) for d in range({m}.shape[1])), torch.zeros_like({m}[:, 0]))",
)
"""Aggregators that need other rows, a value in Python, or an order of messages: eager code."""
