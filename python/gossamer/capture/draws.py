"""Random numbers in user-defined functions, as functions of numbers from [0, 1).

What torch draws from its generator becomes `uniform(seed, stream, ...)` here: `seed` is one draw
from torch's generator per graph call, an input of the program, and streams number what the
functions of the call draw. So the numbers are of the same law and reproducible under
`torch.manual_seed`, but not torch's, and any program that computes a value again finds the numbers
of the first time.

Drawing is refused outside of user-defined functions (that is torch code, which keeps torch's
numbers), and where eager code draws as often as there are different in-degrees.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gossamer import philox

from .call import InputSpec

if TYPE_CHECKING:
    from .recorder import Recorder

aten = torch.ops.aten
F = torch.nn.functional

Size = int | torch.SymInt


def uniform(seed: Tensor, stream: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Numbers from [0, 1) of a shape whose first axis are rows."""
    return philox.uniform(seed, stream, shape[0], shape[1:], dtype)


def draw_seed() -> Tensor:
    """() int64: the seed of one graph call, 64 bits of torch's default generator."""
    return torch.empty((), dtype=torch.int64, device="cpu").random_(-(2**63), None)


class Draws:
    """Who may draw now, and how seeds and streams are numbered.

    Args:
        rng: "compiled", or "eager" when functions that draw run eagerly.
    """

    def __init__(self, rng: str):
        self._rng = rng
        self._seeds = 0
        self._streams: int | None = None
        self._per_degree = False

    @contextlib.contextmanager
    def of_call(self) -> Iterator[None]:
        """The functions of one graph call run in the block."""
        self._streams = 0
        try:
            yield
        finally:
            self._seeds += self._streams > 0
            self._streams = None

    @contextlib.contextmanager
    def per_degree(self) -> Iterator[None]:
        """A function that eager code calls once for each in-degree runs in the block."""
        self._per_degree = True
        try:
            yield
        finally:
            self._per_degree = False

    @property
    def is_per_degree(self) -> bool:
        """Whether such a function runs."""
        return self._per_degree

    def uniform(self, recorder: Recorder, shape: Sequence[Size], dtype: torch.dtype) -> Tensor:
        """New numbers from [0, 1)."""
        if self._rng == "eager":
            remedy = "leave rng='eager' out to compile it with other random bits than torch's"
            raise recorder.refuse("random numbers are torch's own", remedy)
        if self._streams is None:
            raise recorder.refuse("random numbers are drawn outside of user-defined functions")
        if dtype not in (torch.float32, torch.float64):
            raise recorder.refuse(f"random numbers of {dtype}", "draw float32 or float64")
        if self._per_degree and not any(isinstance(size, torch.SymInt) for size in shape):
            raise recorder.refuse(
                "random numbers that nodes share, drawn anew for each in-degree",
                "draw them in forward, or one for each node or message",
            )
        spec = InputSpec("seed", index=self._seeds, dtype=torch.int64)
        seed = recorder.input(spec, None, True)
        stream, self._streams = self._streams, self._streams + 1
        args = (seed, stream, tuple(shape), dtype)
        return recorder.emit(uniform, args, {}, recorder.empty(shape, dtype))


def _uniform(recorder: Recorder, shape: Sequence[Size], dtype: torch.dtype) -> Tensor:
    return recorder.draws.uniform(recorder, shape, dtype)


def _normal(recorder: Recorder, shape: Sequence[Size], dtype: torch.dtype) -> Tensor:
    """Box and Muller, 1958. 1 - u is exact and not 0."""
    radius = (-2 * torch.log(1 - _uniform(recorder, shape, dtype))).sqrt()
    return radius * torch.cos(2 * math.pi * _uniform(recorder, shape, dtype))


def _exponential(recorder: Recorder, shape: Sequence[Size], dtype: torch.dtype) -> Tensor:
    """Never 0, as torch's."""
    drawn = -torch.log(1 - _uniform(recorder, shape, dtype))
    return drawn.clamp(min=torch.finfo(dtype).eps / 2)


def _is_below(recorder: Recorder, shape: Sequence[Size], p: float) -> Tensor:
    """True with probability p. 24 bits say so in every dtype: float64 gets the same masks."""
    return _uniform(recorder, shape, torch.float32) < p


def _as_numbers(flags: Tensor, dtype: torch.dtype) -> Tensor:
    """1 or 0. In the place of an operator, Tensor.to would itself be one."""
    return aten._to_copy.default(flags, dtype=dtype)


# --- dropout --------------------------------------------------------------------------------------


def _keep(recorder: Recorder, input: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """What stays, and the factors: 1 / (1 - p) or 0."""
    keep = _is_below(recorder, input.shape, 1 - p)
    return keep, _as_numbers(keep, input.dtype) * (1 / (1 - p) if p < 1 else 1.0)


def _is_plain(recorder: Recorder, input: Tensor, p: float, train: bool | None) -> bool:
    """Whether torch itself does the call: it draws nothing, or is an error."""
    if isinstance(p, torch.SymFloat):
        raise recorder.refuse("the probability of a dropout varies")
    return train is False or p == 0 or not 0 <= p <= 1 or not input.is_floating_point()


def _dropout(
    recorder: Recorder, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
):
    if _is_plain(recorder, input, p, training):
        return None
    factors = _keep(recorder, input, p)[1]
    return input.mul_(factors) if inplace else input * factors


def _dropout_in_place(recorder: Recorder, input: Tensor, p: float, train: bool):
    return _dropout(recorder, input, p, train, True)


def _native_dropout(recorder: Recorder, input: Tensor, p: float, train: bool | None):
    if _is_plain(recorder, input, p, train):
        return None
    keep, factors = _keep(recorder, input, p)
    return input * factors, keep


def _refused(name: str) -> Callable:
    is_on = "alpha" not in name  # what torch takes for `training` when it is left out

    def rule(recorder: Recorder, input: Tensor, p: float = 0.5, training: bool = is_on, *_, **__):
        if not _is_plain(recorder, input, p, training):
            raise recorder.refuse(f"{name} draws random numbers and is not compiled", "use dropout")

    return rule


_NOT_COMPILED = ["alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d"]

#: torch function -> rule; None from a rule: torch's own code does it.
FUNCTIONS = {
    F.dropout: _dropout,
    torch.dropout: _dropout,
    torch.dropout_: _dropout_in_place,
    torch.native_dropout: _native_dropout,
    **{getattr(F, name): _refused(name) for name in _NOT_COMPILED},
    torch.feature_dropout: _refused("feature_dropout"),
    torch.alpha_dropout: _refused("alpha_dropout"),
    torch.feature_alpha_dropout: _refused("feature_alpha_dropout"),
}


# --- operators ------------------------------------------------------------------------------------


def _made(draw: Callable) -> Callable:
    """torch.rand and its like."""

    def rule(recorder: Recorder, size: Sequence[Size], *, dtype=None, **_: Any) -> Tensor:
        return draw(recorder, size, dtype or torch.get_default_dtype())

    return rule


def _made_like(draw: Callable) -> Callable:
    def rule(recorder: Recorder, self: Tensor, *, dtype=None, **_: Any) -> Tensor:
        return draw(recorder, self.shape, dtype or self.dtype)

    return rule


def _filled(draw: Callable) -> Callable:
    """Tensor.uniform_ and its like."""

    def rule(recorder: Recorder, self: Tensor, *args: Any, generator=None, **named: Any) -> Tensor:
        if generator is not None:
            raise recorder.refuse("random numbers of a generator of its own")
        return self.copy_(draw(recorder, self, *args, **named))

    return rule


def _between(recorder: Recorder, like: Tensor, *ends: float, **named: float) -> Tensor:
    low, high = (*ends, *(named.get("from", 0.0), named.get("to", 1.0))[len(ends) :])
    return low + (high - low) * _uniform(recorder, like.shape, like.dtype)


def _gauss(recorder: Recorder, like: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return mean + std * _normal(recorder, like.shape, like.dtype)


def _waiting(recorder: Recorder, like: Tensor, lambd: float = 1.0) -> Tensor:
    return _exponential(recorder, like.shape, like.dtype) / lambd


def _coin(recorder: Recorder, like: Tensor, p: float = 0.5) -> Tensor:
    return _as_numbers(_is_below(recorder, like.shape, p), like.dtype)


def _coins(recorder: Recorder, p: Tensor, like: Tensor | None = None) -> Tensor:
    shape = torch.broadcast_shapes(p.shape, like.shape) if like is not None else p.shape
    drawn = _uniform(recorder, shape, p.dtype) < p
    return _as_numbers(drawn, p.dtype if like is None else like.dtype)


def _bernoulli(recorder: Recorder, self: Tensor, *p: float, generator=None) -> Tensor:
    if generator is not None:
        raise recorder.refuse("random numbers of a generator of its own")
    return _coin(recorder, self, *p) if p else _coins(recorder, self)


#: ATen operator -> rule, which runs as the user's code would in the place of the operator.
OPERATORS = {
    aten.rand.default: _made(_uniform),
    aten.randn.default: _made(_normal),
    aten.rand_like.default: _made_like(_uniform),
    aten.randn_like.default: _made_like(_normal),
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
    aten.bernoulli_.float: _filled(_coin),
    aten.bernoulli_.Tensor: _filled(lambda recorder, like, p: _coins(recorder, p, like)),
    aten.uniform_.default: _filled(_between),
    aten.normal_.default: _filled(_gauss),
    aten.exponential_.default: _filled(_waiting),
}
