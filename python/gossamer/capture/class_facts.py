"""What a snapshot must know about a class: how its instances are walked. Once per class."""

from __future__ import annotations

import argparse
import enum
import functools
import sys
import types
from dataclasses import dataclass
from types import MemberDescriptorType

import numpy
import torch

from gossamer.capture.purity import impure_module, is_library
from gossamer.capture.weak_identity import WeakIdentityCache
from gossamer.function import BuiltinFunction

# Built-in classes that user classes may derive from; their payload is part of the key.
CONTENT_TYPES = (dict, list, tuple, set, frozenset, str, bytes, int, float, complex)

# Plain holders of attributes.
_HOLDERS = (*argparse.Namespace.__mro__[:-1], types.SimpleNamespace)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, as by a class statement
_POINTER = object.__basicsize__ // 2


@dataclass(eq=False, slots=True)
class ClassFacts:
    """Facts about one class; stands for the class in keys and is compared by identity.

    Attributes:
        name, module: qualified name, and where the class says that it is defined.
        kind: "library module", "graph module", "module", "tensor", "enum", "numpy", "library",
            "instance" or "refused": which walk an instance gets.
        refusal: for "refused", what such an object is.
        users: positions in the mro of the classes whose members are looked at.
        library_base: a library class other than `nn.Module` is in the mro, so attributes are
            read by code that is not looked into.
        content: the built-in base whose payload instances have, or None.
        slots: names of `__slots__` members.
        bases: the mro that this was computed from, without the class itself (which may die).
    """

    name: str
    module: str
    kind: str
    refusal: str
    users: tuple[int, ...]
    library_base: bool
    content: type | None
    slots: tuple[str, ...]
    bases: tuple[type, ...]


def is_library_class(cls: type) -> bool:
    """True for a class that a library module defines under its own name."""
    if not is_library(cls.__module__):
        return False
    owner = sys.modules.get(cls.__module__)
    path = cls.__qualname__.split(".")
    found = functools.reduce(lambda at, name: getattr(at, name, None), path, owner)
    # C types are sometimes published under another module than the one they name.
    return found is cls or not cls.__flags__ & _HEAP_TYPE


def _has_python_layout(cls: type) -> bool:
    """False when instances hold C data that no attribute shows."""
    if cls in _HOLDERS:
        return True
    written = [base for base in cls.__mro__ if base is not object]
    if not all(base.__flags__ & _HEAP_TYPE for base in written):
        return False
    slots = sum(
        isinstance(value, MemberDescriptorType)
        for base in written
        if "__slots__" in vars(base)
        for value in vars(base).values()
    )
    words = slots + (cls.__weakrefoffset__ > 0) + (cls.__dictoffset__ > 0)
    return cls.__basicsize__ <= object.__basicsize__ + words * _POINTER


def _is_graph_part(cls: type) -> bool:
    """Whether instances are graphs, frames, batches or views, whose content a key cannot hold."""
    if issubclass(cls, torch.nn.Module | BuiltinFunction):
        return False
    return any(base.__module__.partition(".")[0] in ("dgl", "gossamer") for base in cls.__mro__)


def _refusal(cls: type, users: tuple[type, ...], content: type | None) -> str:
    if _is_graph_part(cls):
        return f"a `{cls.__qualname__}`, which is a graph or a part of one"
    if (
        reason := next(
            (
                impure_module(base.__module__)
                for base in cls.__mro__
                if base not in _HOLDERS and impure_module(base.__module__)
            ),
            None,
        )
    ) is not None:
        return f"a `{cls.__qualname__}`: {reason}"
    if content is None and not _has_python_layout(cls):
        return f"a `{cls.__qualname__}`, whose state lies in C and cannot be read"
    return ""


def _kind(cls: type, content: type | None, users: tuple[type, ...]) -> tuple[str, str]:
    if issubclass(cls, torch.nn.Module):
        if issubclass(cls, torch.jit.ScriptModule):
            return "refused", "a TorchScript module, whose code cannot be read"
        if issubclass(cls, torch.fx.GraphModule):
            return "graph module", ""
        return ("library module" if is_library_class(cls) else "module"), ""
    if issubclass(cls, torch.Tensor):
        return "tensor", ""
    if issubclass(cls, enum.Enum):
        return "enum", ""
    if issubclass(cls, numpy.generic | numpy.ndarray | numpy.dtype):
        return "numpy", ""
    refusal = _refusal(cls, users, content)
    if refusal:
        return "refused", refusal
    return ("instance" if users or cls in _HOLDERS else "library"), ""


def _make(cls: type) -> ClassFacts:
    users = tuple(
        base for base in cls.__mro__ if base not in _HOLDERS and not is_library_class(base)
    )
    library = [
        base
        for base in cls.__mro__
        if base not in users
        and base not in (object, torch.nn.Module, *_HOLDERS)
        and base.__module__ not in ("typing", "abc", "enum", "builtins")
    ]
    content = next((base for base in CONTENT_TYPES if issubclass(cls, base)), None)
    kind, refusal = _kind(cls, content, users)
    slots = tuple(
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, MemberDescriptorType)
    )
    positions = tuple(cls.__mro__.index(base) for base in users)
    return ClassFacts(
        cls.__qualname__,
        str(cls.__module__),
        kind,
        refusal,
        positions,
        bool(library),
        content,
        slots,
        cls.__mro__[1:],
    )


_facts_of = WeakIdentityCache(_make)


def class_facts(cls: type) -> ClassFacts:
    """Facts about `cls`, renewed when its bases were changed."""
    facts = _facts_of(cls)
    if facts.users and facts.bases != cls.__mro__[1:]:
        _facts_of.forget(cls)
        return _facts_of(cls)
    return facts
