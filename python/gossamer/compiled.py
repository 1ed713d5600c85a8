"""Compiled modules and functions: the caller's model with another engine under its graph calls.

A compiled call runs the user's own forward on real tensors.  Only the graphs are replaced, by
shadows (same structure, write-through frames) whose graph calls run as compiled programs.  Hooks,
writes to ``self``, prints and data-dependent branches in forward keep their meaning.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gossamer.capture.region import Region
from gossamer.capture.session import Options, Session
from gossamer.capture.trace_guard import GuardedSession
from gossamer.capture.whole import Ready


def compile(
    model: nn.Module | Callable | None = None,
    *,
    fallback: str = "eager",
    backend: str = "native",
    numerics: str = "fast",
    target: str = "host",
    rng: str = "compiled",
    keep_fields: bool = False,
    tune: bool = False,
) -> Any:
    """Compile the message passing of a module or function; the model itself is untouched.

    Args:
        model: an ``nn.Module``, or a function of graphs and tensors. Left out: a decorator.
        fallback: ``"eager"`` runs what cannot be compiled eagerly, with one ``FallbackWarning`` per
            place; ``"error"`` raises ``errors.UnsupportedError`` there instead.
        backend: ``"native"`` runs generated kernels (CPU), ``"torch"`` the same captured graph as
            plain torch operators on any device.
        numerics: ``"fast"`` may reassociate sums and products, and rounds bfloat16 and float16
            values where they are stored only; ``"strict"`` rewrites exactly only, and rounds after
            each operator as torch does. Both compute 16-bit features in float32.
        target: ``"host"`` for the best code of this machine, ``"generic"`` for x86-64-v2.
        rng: random numbers in user-defined functions (dropout, ``torch.rand_like``, ...):
            ``"compiled"`` draws them in kernels, from one 64-bit draw of torch's generator per
            graph call: of the same law, but not torch's bits, which one ``RandomNumbersWarning``
            says. ``"eager"`` keeps torch's bits: these functions run eagerly.
        keep_fields: edge fields left on the graph are computed during the call instead of when
            they are first read.
        tune: the first call on graphs of one shape class (each number of nodes and edges, and the
            largest degrees, the same to a power of two) runs its kernels some thirty times, and
            measures prefetch distances, ways to store results and pieces of rows of many edges; a
            program that may multiply before or after its sums over edges runs so in each order.
            The fastest are kept for the class, on the disk, too, for other processes with as many
            threads on such a machine. Results are those of any other call, but for rounding.

    Returns:
        A module that shares the model's parameters, submodules and attributes, or a function.

    Raises:
        TypeError: the model is not callable. ValueError: an option has an unknown value.

    Modelled on ``torch.compile``.
    """
    options = Options(
        fallback=fallback,
        backend=backend,
        numerics=numerics,
        target=target,
        rng=rng,
        keep_fields=keep_fields,
        tune=tune,
    )
    if model is None:
        return functools.partial(_compile, options=options)
    return _compile(model, options)


def _compile(model: Any, options: Options) -> Any:
    if isinstance(model, (CompiledModule, CompiledFunction)):
        return _compile(model.__wrapped__, options)
    if isinstance(model, nn.Module):
        return CompiledModule(model, options)
    if not callable(model):
        raise TypeError(f"compile expects a module or a function, but found {type(model).__name__}")
    return CompiledFunction(model, options)


_SHARED = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class CompiledModule(nn.Module):
    """A module whose message passing is compiled; everything else is the wrapped model's.

    Parameters, buffers, submodules, hooks and plain attributes are the model's own objects, so
    ``state_dict`` keys, ``train()``, ``to()`` and assignments act on both.
    """

    def __init__(self, model: nn.Module, options: Options) -> None:
        object.__setattr__(self, "__wrapped__", model)
        object.__setattr__(self, "_session", GuardedSession(options, model))
        for name, value in model.__dict__.items():
            if name in _SHARED or name.endswith("_hooks") or name.endswith("_hooks_with_kwargs"):
                self.__dict__[name] = value
        object.__setattr__(self, "__doc__", type(model).__doc__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model, hooks included, with compiled message passing."""
        return _call(self._session, self.__wrapped__, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model's ``forward`` (without hooks) with compiled message passing."""
        return _call(self._session, self.__wrapped__.forward, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["__wrapped__"], name)
        bound = isinstance(value, types.MethodType) and value.__self__ is self.__wrapped__
        return _wrap_method(self._session, value) if bound else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)

    def __dir__(self) -> list[str]:
        return sorted(set(dir(self.__wrapped__)) | set(super().__dir__()))

    @property
    def training(self) -> bool:
        """The model's own mode."""
        return self.__wrapped__.training

    def train(self, mode: bool = True) -> CompiledModule:
        """Set the mode of the model, as ``nn.Module.train``."""
        self.__wrapped__.train(mode)
        return self

    def _apply(self, fn: Callable, recurse: bool = True) -> CompiledModule:
        self.__wrapped__._apply(fn, recurse)
        return self

    def __repr__(self) -> str:
        return f"compiled {self.__wrapped__!r}"

    def __deepcopy__(self, memo: dict) -> CompiledModule:
        return CompiledModule(copy.deepcopy(self.__wrapped__, memo), self._session.options)

    def __reduce__(self) -> tuple:
        return (_compile, (self.__wrapped__, self._session.options))


class CompiledFunction:
    """A function of graphs and tensors whose message passing is compiled."""

    def __init__(self, function: Callable, options: Options) -> None:
        self._session = GuardedSession(options, function)
        functools.update_wrapper(self, function)
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with compiled message passing."""
        return _call(self._session, self.__wrapped__, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return _wrap_method(self._session, types.MethodType(self.__wrapped__, instance))

    def __reduce__(self) -> tuple:
        return (_compile, (self.__wrapped__, self._session.options))


def _wrap_method(session: Session, method: Callable) -> Callable:
    """The model's method, with compiled message passing."""

    @functools.wraps(method)
    def compiled_method(*args: Any, **kwargs: Any) -> Any:
        return _call(session, method, args, kwargs)

    return compiled_method


def _call(session: Session, function: Callable, args: tuple, kwargs: dict) -> Any:
    if torch.compiler.is_dynamo_compiling():
        from gossamer.in_dynamo import call_in_dynamo

        return call_in_dynamo(session, function, args, kwargs)
    found = session.whole.find(function, args, kwargs)
    if isinstance(found, Ready):
        return found.run()
    result = call_regions(session, function, args, kwargs)
    if found is not None:
        session.whole.note(found)
    return result


def call_regions(session: Session, function: Callable, args: tuple, kwargs: dict) -> Any:
    """Run the user's function on shadows of its graphs."""
    region = Region(session)
    shadows = _Shadows(region)
    args = tuple(shadows.enter(arg) for arg in args)
    kwargs = {name: shadows.enter(arg) for name, arg in kwargs.items()}
    result = shadows.leave(function(*args, **kwargs))
    region.finish()
    return result


@dataclass
class _Pair:
    original: Any
    shadow: Any


class _Shadows:
    """The graphs of one call and what stands for them inside it."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._pairs: dict[int, _Pair] = {}

    def enter(self, value: Any) -> Any:
        """The value with every graph in it, also inside containers, replaced by its shadow."""
        return _map(value, self._shadow)

    def leave(self, value: Any) -> Any:
        """The value with every shadow replaced by the caller's graph."""
        originals = {id(pair.shadow): pair.original for pair in self._pairs.values()}
        return _map(value, lambda item: originals.get(id(item), item))

    def _shadow(self, value: Any) -> Any:
        pair = self._pairs.get(id(value))
        if pair is None:
            shadow = self._region.shadow(value)
            if shadow is value:
                return value
            pair = self._pairs[id(value)] = _Pair(value, shadow)
        return pair.shadow


def _map(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Apply ``leaf`` inside lists, tuples and dicts; containers without change are kept."""
    kind = type(value)
    if kind in (list, tuple):
        items = [_map(item, leaf) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else kind(items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(_map(item, leaf) for item in value))
    if kind is dict:
        items = {key: _map(item, leaf) for key, item in value.items()}
        return value if all(items[key] is value[key] for key in value) else items
    return leaf(value)


def warmup() -> None:
    """Pay for torch's tracing imports, the runtime library and LLVM now, not in the first call."""
    from gossamer import compiler, native

    native.ops()
    compiler.load()

    # Functions that only this call has: no process finds their capture on the disk.
    def layer(graph: Any, rows: Any) -> Any:
        with graph.local_scope():
            graph.ndata["h"] = rows
            graph.update_all(
                lambda edges: {"m": edges.src["h"]}, lambda nodes: {"h": nodes.mailbox["m"].sum(1)}
            )
            return graph.ndata["h"]

    from gossamer.convert import graph as make_graph

    compile(layer)(make_graph(([0], [0])), torch.ones(1, 1))
