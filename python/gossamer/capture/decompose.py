"""Torch functions recorded as the functions that they consist of.

Torch has them as one operator, or cuts them by sizes as plain numbers, which rows are not.

A rule returns None when it does not apply; torch then sees the call, and raises its own errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from . import composite

if TYPE_CHECKING:
    from .recorder import Recorder


def _linear(recorder: Recorder, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
    rule = composite.TABLE[torch.nn.functional.linear]
    return rule(recorder, rows, weight, bias)


def _gates(recorder: Recorder, x: Tensor, h: Tensor, parameters: tuple) -> tuple | None:
    """What a recurrent cell makes of its input and of its state before the gates act."""
    weight_x, weight_h, bias_x, bias_h = (*parameters, *(None, None)[len(parameters) - 2 :])
    if x.dim() != 2 or h.dim() != 2 or not composite.same_size(x.shape[0], h.shape[0]):
        return None
    pair = _linear(recorder, x, weight_x, bias_x), _linear(recorder, h, weight_h, bias_h)
    return None if any(part is None for part in pair) else pair


def _gru_cell(recorder: Recorder, input: Tensor, hx: Tensor, *parameters: Tensor | None):
    """torch.nn.GRUCell: h' = n + z (h - n), n = tanh(x_n + r h_n); r, z sigmoids."""
    gates = _gates(recorder, input, hx, parameters)
    if gates is None:
        return None
    size = hx.shape[1]
    (x_r, x_z, x_n), (h_r, h_z, h_n) = (part.split(size, dim=1) for part in gates)
    reset, update = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    new = torch.tanh(x_n + reset * h_n)
    return (hx - new) * update + new


def _lstm_cell(recorder: Recorder, input: Tensor, hx: Sequence[Tensor], *parameters: Tensor | None):
    """torch.nn.LSTMCell: c' = f c + i g, h' = o tanh(c'); i, f, o sigmoids, g a tanh."""
    hidden, cell = hx
    gates = _gates(recorder, input, hidden, parameters)
    if gates is None or not composite.same_shape(hidden.shape, cell.shape):
        return None
    let_in, forget, new, out = (gates[0] + gates[1]).split(hidden.shape[1], dim=1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(let_in) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def _weight_norm(recorder: Recorder, v: Tensor, g: Tensor, dim: int = 0):
    """g v / |v|, the norm over all axes but `dim`; over all axes where that is -1."""
    axes = [axis for axis in range(v.dim()) if dim == -1 or axis != dim % v.dim()]
    return v * (g / torch.linalg.vector_norm(v, 2, axes, keepdim=dim != -1))


def _group_norm(
    recorder: Recorder,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
):
    """Each group of a row's channels normalised by its mean and variance, then an affine map."""
    rows, *features = input.shape
    if not features or any(type(size) is not int for size in features):
        return None
    channels, size = features[0], math.prod(features)
    # Of one number per group torch asks how many rows there are.
    if channels % num_groups or size <= num_groups:
        return None
    groups = input.reshape(rows, num_groups, size // num_groups)
    groups = torch.nn.functional.layer_norm(groups, groups.shape[2:], None, None, eps)
    result = groups.reshape(input.shape)
    each = (channels, *[1] * (len(features) - 1))
    result = result if weight is None else result * weight.view(each)
    return result if bias is None else result + bias.view(each)


def _vdot(recorder: Recorder, a: Tensor, b: Tensor):
    return None if a.is_complex() or b.is_complex() else torch.dot(a, b)


def _pad(recorder: Recorder, input: Tensor, pad: Sequence[int], mode: str = "constant", value=None):
    """Numbers around features; torch asks whether there is any row."""
    axes = len(pad) // 2
    plain = all(type(count) is int and count >= 0 for count in pad)
    sizes = input.shape[input.dim() - axes :]
    if mode != "constant" or not plain or not all(type(size) is int for size in sizes):
        return None
    result = input
    for axis in range(axes):
        sides = [_around(result, -1 - axis, count, value or 0) for count in pad[2 * axis :][:2]]
        parts = [*sides[0], result, *sides[1]]
        result = torch.cat(parts, dim=-1 - axis)
    return result


def _around(rows: Tensor, axis: int, count: int, value: float) -> list[Tensor]:
    shape = list(rows.shape)
    shape[axis] = count
    return [rows.new_full(shape, value)] if count else []


def _glu(recorder: Recorder, input: Tensor, dim: int = -1):
    """torch.nn.functional.glu: the first half of an axis times the sigmoid of the second."""
    size = input.shape[dim]
    if type(size) is not int or size % 2 or not input.is_floating_point():
        return None
    values, gates = input.split(size // 2, dim=dim)
    return values * torch.sigmoid(gates)


def _logaddexp(recorder: Recorder, input: Tensor, other: Tensor):
    """As a logsumexp of two, which is smooth where both are equal."""
    shape = composite.broadcast_shape(input.shape, other.shape)
    if shape is None or input.dtype != other.dtype:
        return None
    rule = composite.TABLE[torch.logsumexp]
    pair = [input.expand(shape), other.expand(shape)]
    return rule(recorder, torch.stack(pair, dim=-1), -1)


def _lerp(recorder: Recorder, input: Tensor, end: Tensor, weight: Tensor | float):
    """From input to end; counted from end where that is nearer, so that weight 1 gives end."""
    parts = [part for part in (input, end, weight) if isinstance(part, Tensor)]
    if any(part.dtype != input.dtype or not part.is_floating_point() for part in parts):
        return None
    way = end - input
    if type(weight) in (int, float):
        return input + weight * way if abs(weight) < 0.5 else end - (1 - weight) * way
    if not isinstance(weight, Tensor):
        weight = torch.tensor(weight, dtype=input.dtype)
    return torch.where(weight.abs() < 0.5, input + weight * way, end - (1 - weight) * way)


def _attention(
    recorder: Recorder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
):
    """torch.nn.functional.scaled_dot_product_attention without mask and dropout."""
    plain = attn_mask is None and dropout_p == 0 and not is_causal and not enable_gqa
    width = query.shape[-1]
    if not plain or type(width) is not int or key.dim() != query.dim():
        return None
    scores = query @ key.transpose(-2, -1)
    scale = 1 / math.sqrt(width) if scale is None else scale
    return torch.softmax(scores * scale, dim=-1) @ value


def _difference(input: Tensor, target: Tensor, reduction: str, named: dict) -> Tensor | None:
    """What a loss of each element acts on; None for sums over rows and other forms."""
    plain = reduction == "none" and all(value is None for value in named.values())
    alike = input.dtype == target.dtype and composite.same_shape(input.shape, target.shape)
    return input - target if plain and alike and input.is_floating_point() else None


def _mse_loss(recorder: Recorder, input: Tensor, target: Tensor, *, reduction="mean", **named):
    difference = _difference(input, target, reduction, named)
    return None if difference is None else difference.square()


def _huber_loss(
    recorder: Recorder, input: Tensor, target: Tensor, *, reduction="mean", delta=1.0, **named
):
    """d d / 2 up to delta, then delta (|d| - delta / 2). The square sees no infinity."""
    difference = _difference(input, target, reduction, named)
    if difference is None:
        return None
    size = difference.abs()
    near = torch.where(size <= delta, difference, 0.0)
    return torch.where(size <= delta, 0.5 * near * near, delta * (size - 0.5 * delta))


def _smooth_l1_loss(
    recorder: Recorder, input: Tensor, target: Tensor, *, reduction="mean", beta=1.0, **named
):
    """The Huber loss divided by its threshold."""
    if beta <= 0:
        return None
    huber = _huber_loss(recorder, input, target, reduction=reduction, delta=beta, **named)
    return None if huber is None else huber / beta


def _linspace(recorder: Recorder, start, end, steps, *, dtype=None, requires_grad=False, **_):
    """The numbers themselves."""
    if requires_grad or not all(type(value) in (int, float) for value in (start, end, steps)):
        return None
    with recorder.unrecorded(), unset_fake_temporarily():
        values = torch.linspace(start, end, steps, dtype=dtype)
    return recorder.constant(values, values.dtype)


def _with_mean(spread: Callable[..., Tensor]) -> Callable:
    """The rule of var_mean and std_mean over named axes."""

    def rule(recorder: Recorder, input: Tensor, dim=None, *, keepdim=False, **named):
        if dim is None or isinstance(dim, bool):
            return None
        return spread(input, dim, keepdim=keepdim, **named), input.mean(dim, keepdim=keepdim)

    return rule


#: torch function -> rule
TABLE = {
    torch.gru_cell: _gru_cell,
    torch.lstm_cell: _lstm_cell,
    torch._weight_norm: _weight_norm,
    torch.vdot: _vdot,
    Tensor.vdot: _vdot,
    torch.nn.functional.pad: _pad,
    torch.nn.functional.glu: _glu,
    torch.logaddexp: _logaddexp,
    Tensor.logaddexp: _logaddexp,
    torch.lerp: _lerp,
    Tensor.lerp: _lerp,
    torch.nn.functional.scaled_dot_product_attention: _attention,
    torch.nn.functional.mse_loss: _mse_loss,
    torch.nn.functional.huber_loss: _huber_loss,
    torch.nn.functional.smooth_l1_loss: _smooth_l1_loss,
    torch.linspace: _linspace,
    torch.var_mean: _with_mean(torch.var),
    torch.std_mean: _with_mean(torch.std),
    torch.nn.functional.group_norm: _group_norm,
}
