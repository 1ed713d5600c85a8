"""Python calls that matter in capture although torch never sees them.

While a function is captured, `print` and `input` of the user's code and custom autograd functions
are refused in the capturing thread; what torch logs there of a question that it can't answer is
dropped, as the report gives the reason; `math` and `numpy` functions of an unknown degree or scalar
give an unknown number, as they do with a known one, and so does `len` of what has an unknown number
of rows. Other threads get the original functions.
"""

from __future__ import annotations

import builtins
import contextlib
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._sympy import functions as sympy_functions

from gossamer.udf import EdgeBatch, NodeBatch

from .user_place import is_library

if TYPE_CHECKING:
    from .recorder import Recorder

_Symbolic = (torch.SymInt, torch.SymFloat)

#: names in math (and methods that numpy calls on objects) -> sympy function
_FUNCTIONS = {
    "sqrt": sympy_functions.OpaqueUnaryFn_sqrt,
    "exp": sympy_functions.OpaqueUnaryFn_exp,
    "log": sympy_functions.OpaqueUnaryFn_log,
    "log2": sympy_functions.OpaqueUnaryFn_log2,
}

#: What speaks of shapes in torch.
_SHAPE_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")


def _symbolic(name: str, value: Any) -> torch.SymFloat:
    node = value.node
    expr = node.expr if isinstance(value, torch.SymFloat) else sympy_functions.ToFloat(node.expr)
    return node.shape_env.create_symfloatnode(_FUNCTIONS[name](expr), hint=None)


def _log1p(value: Any) -> torch.SymFloat:
    return _symbolic("log", value + 1)


def _math_function(name: str, original: Callable) -> Callable:
    def function(value: Any, *args: Any) -> Any:
        if isinstance(value, _Symbolic) and not args:
            return _log1p(value) if name == "log1p" else _symbolic(name, value)
        return original(value, *args)

    return function


def _length(original: Callable, thread: int) -> Callable:
    """`len`, which makes a plain int of whatever `__len__` returns."""

    def function(value: Any, /) -> Any:
        if threading.get_ident() == thread:
            if isinstance(value, torch.Tensor) and value.dim():
                return value.shape[0]
            if isinstance(value, (EdgeBatch, NodeBatch)):
                return value.batch_size()
        return original(value)

    return function


def _refused(recorder: Recorder, name: str, original: Callable, thread: int) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread or is_library(sys._getframe(1).f_code.co_filename):
            return original(*args, **kwargs)
        raise recorder.refuse(
            f"{name}() would run at capture only", "print outside of the function"
        )

    return function


def _refused_apply(recorder: Recorder, thread: int) -> Callable:
    original = torch.autograd.Function.apply.__func__

    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return original(cls, *args, **kwargs)
        raise recorder.refuse(f"{cls.__name__} has a gradient of its own", "use torch operators")

    return apply


@contextlib.contextmanager
def _quiet(thread: int) -> Iterator[None]:
    """Drop what the capturing thread logs about shapes: torch would print it with a traceback."""

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [logging.getLogger(name) for name in _SHAPE_LOGGERS]
    for logger in loggers:
        logger.addFilter(others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)


@contextlib.contextmanager
def watch_python(recorder: Recorder) -> Iterator[None]:
    """Replace the functions named above within the block, which one thread enters at a time."""
    thread = threading.get_ident()
    changes: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        changes.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, value)

    for name in ("print", "input"):
        replace(builtins, name, _refused(recorder, name, getattr(builtins, name), thread))
    replace(builtins, "len", _length(len, thread))
    for name in (*_FUNCTIONS, "log1p"):
        replace(math, name, _math_function(name, getattr(math, name)))
        method = _log1p if name == "log1p" else (lambda self, name=name: _symbolic(name, self))
        for owner in _Symbolic:
            replace(owner, name, method)
    replace(torch.autograd.Function, "apply", classmethod(_refused_apply(recorder, thread)))
    try:
        with _quiet(thread):
            yield
    finally:
        for owner, name, value in reversed(changes):
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
