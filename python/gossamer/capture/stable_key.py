"""A key of one process as a name that every process gives it.

Keys of captures (`snapshot.py`) tell code, classes and library objects apart by identity, which
ends with the process. Here each of them is written down by what it is: code by its bytecode,
constants, names and place, a class by its name and those of its bases (what code can use of its
members is in the key already), an object of a library by the name under which the library
publishes it. Objects that are one object stay one: the second time only a number is written.

What cannot be written so has no name, and the call is not kept on the disk. That includes code that
may look at the order of a set, which differs between processes.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Hashable
from itertools import zip_longest
from types import CodeType
from typing import Any

import torch

from gossamer import disk_cache
from gossamer.capture.call import ColumnSpec
from gossamer.capture.class_facts import ClassFacts
from gossamer.capture.code_names import CodeFacts
from gossamer.capture.purity import is_library, words
from gossamer.capture.tokens import Token
from gossamer.capture.weak_identity import WeakIdentityCache
from gossamer.identity import identity
from gossamer.schema import Schema

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, as by a class statement
_CODE = words(
    "co_argcount co_posonlyargcount co_kwonlyargcount co_flags co_code co_names co_varnames "
    "co_freevars co_cellvars co_filename co_firstlineno co_name co_qualname co_linetable "
    "co_exceptiontable"
)
#: Where torch keeps operators, also those that users define, whose code is in no key.
_OPERATORS = ("torch._ops", "torch._library")
_TORCH_OPERATORS = ("aten", "prims", "gossamer")
_TEXT = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class NotStableError(Exception):
    """Another process has no name for something in a key."""


def stable_name(*keys: Hashable) -> str | None:
    """The name of the disk entry for keys, or None when it would not be the same elsewhere."""
    versions = identity()
    if versions is None:
        return None
    writer = _Writer()
    try:
        for key in (versions, *keys):
            writer.write(key)
    except NotStableError:
        return None
    return disk_cache.name_of(writer.parts)


class _Writer:
    """Writes values so that equal bytes mean values that are equal, up to the process."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._numbers: dict[int, int] = {}

    def write(self, value: Any) -> None:
        kind = type(value)
        writer = _WRITERS.get(kind)
        if writer is not None:
            writer(self, value)
        elif kind in _TEXT:
            self.text(kind.__name__, str(value))
        else:
            self.text("library", _library_name(value))

    def text(self, tag: str, text: str) -> None:
        self.parts += (tag.encode(), text.encode("utf-8", "surrogatepass"))

    def sequence(self, values: tuple | list) -> None:
        self.text("sequence", f"{type(values).__name__} {len(values)}")
        for value, following in zip_longest(values, values[1:]):
            # A walk writes a set as its type and its size, then what is in it.
            if (value is set or value is frozenset) and type(following) is int and not following:
                self.text("type", f"empty {value.__name__}")
            else:
                self.write(value)

    def once(self, value: Any) -> bool:
        """Whether an object is met for the first time; writes its number."""
        number = self._numbers.get(id(value))
        first = number is None
        if first:
            number = self._numbers[id(value)] = len(self._numbers)
        self.text("object", str(number))
        return first

    def code_facts(self, facts: CodeFacts) -> None:
        code = facts.code()
        if code is None or facts.sees_sets:
            raise NotStableError
        if self.once(facts):
            self.parts.append(_code_bytes(code))

    def class_facts(self, facts: ClassFacts) -> None:
        if facts.module.startswith(_OPERATORS):
            raise NotStableError
        if self.once(facts):
            names = [f"{base.__module__}.{base.__qualname__}" for base in facts.bases]
            content = None if facts.content is None else facts.content.__name__
            plain = (facts.kind, facts.users, facts.library_base, content, facts.slots)
            self.sequence((facts.module, facts.name, tuple(names), *plain))

    def type(self, cls: type) -> None:
        if issubclass(cls, (set, frozenset)):
            raise NotStableError
        if cls.__flags__ & _HEAP_TYPE:
            self.text("type", _library_name(cls))
        else:
            self.text("type", f"{cls.__module__}.{cls.__qualname__}")

    def schema(self, schema: Schema) -> None:
        relations = tuple(map(tuple, schema.relations))
        ends = (schema.src_ids, schema.dst_ids, schema.is_block)
        self.sequence((schema.ntypes, relations, *ends))

    def module(self, module: types.ModuleType) -> None:
        if not is_library(module.__name__) or sys.modules.get(module.__name__) is not module:
            raise NotStableError
        self.text("module", module.__name__)


_WRITERS: dict[type, Callable[[_Writer, Any], None]] = {
    type(None): lambda writer, value: writer.text("None", ""),
    bool: lambda writer, value: writer.text("bool", str(value)),
    int: lambda writer, value: writer.text("int", str(value)),
    float: lambda writer, value: writer.text("float", value.hex()),
    complex: lambda writer, value: writer.text("complex", repr(value)),
    str: lambda writer, value: writer.text("str", value),
    bytes: lambda writer, value: writer.text("bytes", value.hex()),
    type(Ellipsis): lambda writer, value: writer.text("...", ""),
    type(NotImplemented): lambda writer, value: writer.text("NotImplemented", ""),
    Token: lambda writer, value: writer.text("token", value.word),
    tuple: _Writer.sequence,
    list: _Writer.sequence,
    torch.Size: _Writer.sequence,
    ColumnSpec: lambda writer, value: writer.sequence((value.shape, value.dtype)),
    Schema: _Writer.schema,
    CodeFacts: _Writer.code_facts,
    ClassFacts: _Writer.class_facts,
    type: _Writer.type,
    type(torch.Tensor): _Writer.type,
    type(torch.nn.Parameter): _Writer.type,
    types.ModuleType: _Writer.module,
}


# --- code -----------------------------------------------------------------------------------------


def _write_code(code: CodeType) -> bytes:
    writer = _Writer()
    for name in sorted(_CODE):
        writer.write(getattr(code, name, None))
    _constants(writer, code.co_consts)
    return disk_cache.name_of(writer.parts).encode()


_code_bytes = WeakIdentityCache(_write_code)


def _constants(writer: _Writer, constants: tuple | frozenset) -> None:
    """Constants of code; those of a set in the order in which this process would go through it."""
    writer.text("constants", f"{type(constants).__name__} {len(constants)}")
    for constant in constants:
        if type(constant) is CodeType:
            writer.parts.append(_code_bytes(constant))
        elif type(constant) in (tuple, frozenset):
            _constants(writer, constant)
        else:
            writer.write(constant)


# --- objects of libraries -------------------------------------------------------------------------

#: Where torch and Python publish functions that do not say it themselves.
_PUBLISHERS = ("builtins", "torch", "torch.nn.functional", "torch._C._nn", "torch.special", "numpy")


def _library_name(value: Any) -> str:
    """The name under which a library, whose version is in the key, publishes an object.

    Raises:
        NotStableError: it does not, or has another object there.
    """
    if isinstance(value, (torch.finfo, torch.iinfo)):
        return f"{type(value).__name__} {value.dtype}"
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        if str(value).partition(".")[0] not in _TORCH_OPERATORS:
            raise NotStableError
        return f"{type(value).__name__} {value}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if type(name) is str:
        for module in (_home(value), *_PUBLISHERS):
            for path in (name, name.rpartition(".")[2]):
                if is_library(module) and _found(module, path) is value:
                    return f"{module}:{path}"
    raise NotStableError


def _home(value: Any) -> str | None:
    owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    if isinstance(owner, types.ModuleType):
        return owner.__name__
    module = getattr(value, "__module__", None) or getattr(owner, "__module__", None)
    return module if type(module) is str else None


def _found(module: str, path: str) -> Any:
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found
