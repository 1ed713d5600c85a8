"""Random numbers as a function of a seed and a place: the torch form of `mp.uniform`.

Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Bit by bit what kernels compute (`gossamer/lowering/Philox.cpp`), so it does not matter which of
the two runs a program. Words of 32 bits are kept in int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Words = tuple[Tensor, Tensor, Tensor, Tensor]

_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_WORD = 0xFFFFFFFF


def philox(counter: Words, seed: Tensor) -> Words:
    """Four words for each place.

    Args:
        counter: four int64 tensors of one shape (or that broadcast), each word below 2**32.
        seed: () int64, the key.

    Returns:
        Four int64 tensors, each word below 2**32.
    """
    a, b, c, d = counter
    keys = seed & _WORD, _upper(seed)
    for _ in range(_ROUNDS):
        # The product may pass 2**63: its 64 bits are right all the same.
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b = _upper(second) ^ b ^ keys[0], second & _WORD
        c, d = _upper(first) ^ d ^ keys[1], first & _WORD
        keys = tuple((k + step) & _WORD for k, step in zip(keys, _KEY_STEPS, strict=True))
    return a, b, c, d


def _upper(value: Tensor) -> Tensor:
    return (value >> 32) & _WORD


def uniform(
    seed: Tensor,
    stream: int,
    rows: int | None,
    features: Sequence[int],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Tensor:
    """Numbers from [0, 1), equal for equal seed and stream.

    Args:
        seed: () int64.
        stream: below 2**31; numbers of different streams are independent.
        rows: how many rows; None for a tensor without rows.
        features: shape of one row.
        dtype: float32 (24 bits are random) or float64 (53 bits).

    Returns:
        (rows, *features), or (*features) without rows.
    """
    size = math.prod(features)
    each = 2 if dtype == torch.float64 else 4
    count, counters = 1 if rows is None else rows, -(-size // each)
    row = torch.arange(count, device=device)[:, None]
    position = torch.arange(counters, device=device)
    streams = torch.full((), stream, device=device)
    words = philox((position, row & _WORD, _upper(row), streams), seed)
    if dtype == torch.float64:
        pairs = torch.stack([words[0], words[2]], -1), torch.stack([words[1], words[3]], -1)
        numbers = pairs[0].double() * 2.0**-32 + (pairs[1] >> 11).double() * 2.0**-53
    else:
        numbers = (torch.stack(words, -1) >> 8).float() * 2.0**-24
    numbers = numbers.reshape(count, counters * each)[:, :size]
    return numbers.reshape((*([] if rows is None else [rows]), *features))
