"""How a walk writes each kind of value: the table behind `Walk.value`."""

from __future__ import annotations

import collections
import functools
import itertools
import types
import typing
import weakref
from typing import Any

import numpy
import torch

from gossamer.capture.class_facts import class_facts
from gossamer.capture.code_names import Use, facts_of
from gossamer.capture.instances import instance
from gossamer.capture.purity import REMEDY
from gossamer.capture.reach import Walk, follow
from gossamer.capture.refusal import CannotSnapshot
from gossamer.capture.tokens import AGAIN, LIBRARY, METHOD, Place, Token, handles
from gossamer.traced_graph import stands_for_tensor

PARTIAL, TENSOR, ATTRIBUTES = Token("partial"), Token("tensor"), Token("attributes")
_LARGEST_ARRAY = 1000


# --- plain values ---------------------------------------------------------------------------------


@handles(
    int,
    str,
    bool,
    bytes,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.Size,
    torch.layout,
    torch.memory_format,
)
def scalar(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A hashable value whose equality, within its type, is sameness."""
    walk.out += (type(value), value)


@handles(float)
def real(walk: Walk, value: float, parent: Place | None, kind: str, name: Any) -> None:
    """A float: listed where it can be substituted, else by its exact value."""
    if parent is None:
        walk.out += (float, value.hex())
    else:
        walk.floats.append(((parent, kind, name), value))
        walk.out += (float, None)


@handles(complex)
def complex_number(walk: Walk, value: complex, parent: Place | None, kind: str, name: Any) -> None:
    """A complex number; its text tells 0.0 from -0.0."""
    walk.out += (complex, repr(value))


@handles(slice, range)
def slice_(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A slice or range, by its three parts: ranges of equal items are equal, but not the same."""
    walk.out.append(type(value))
    for part in (value.start, value.stop, value.step):
        walk.value(part, None, "item", name)


@handles(tuple, list)
def sequence(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A list or tuple."""
    if walk.enter(id(value), value, parent, kind, name):
        walk.out += (type(value), len(value))
        _items(walk, value, walk.places[-1])


def _items(walk: Walk, values: Any, place: Place | None) -> None:
    for index, item in enumerate(values):
        walk.value(item, place, "item", index)


@handles(dict, collections.OrderedDict)
def mapping(walk: Walk, value: dict, parent: Place | None, kind: str, name: Any) -> None:
    """A dict; order counts, because iteration shows it."""
    if walk.enter(id(value), value, parent, kind, name):
        walk.out += (type(value), len(value))
        _entries(walk, value, walk.places[-1])


def _entries(walk: Walk, value: dict, place: Place | None) -> None:
    for key, item in value.items():
        walk.value(key, None, "key", key)
        walk.value(item, place, "item", key)


@handles(collections.defaultdict)
def default_mapping(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A defaultdict: its factory as well."""
    if walk.enter(id(value), value, parent, kind, name):
        place = walk.places[-1]
        walk.out += (collections.defaultdict, len(value))
        walk.value(value.default_factory, None, "factory", "default_factory")
        _entries(walk, value, place)


@handles(set, frozenset)
def set_(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A set, in the order of its iteration, which code can see."""
    if walk.enter(id(value), value, parent, kind, name):
        walk.out += (type(value), len(value))
        _items(walk, value, None)


@handles(collections.deque)
def deque(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A deque with its bound."""
    if walk.enter(id(value), value, parent, kind, name):
        walk.out += (collections.deque, len(value), value.maxlen)
        _items(walk, value, walk.places[-1])


@handles(types.MappingProxyType)
def proxy(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A read-only view of a dict."""
    if walk.enter(id(value), value, None, kind, name):
        walk.out += (types.MappingProxyType, len(value))
        _entries(walk, value, None)


@handles(bytearray)
def byte_array(walk: Walk, value: bytearray, parent: Place | None, kind: str, name: Any) -> None:
    """A bytearray by content."""
    if walk.enter(id(value), value, parent, kind, name):
        walk.out += (bytearray, bytes(value))


@handles(weakref.ReferenceType)
def weak(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A weak reference: what it refers to now."""
    walk.out.append(weakref.ReferenceType)
    walk.value(value(), None, kind, name)


@handles(kind="enum")
def enum_member(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """An enum member: its class, name and value."""
    if walk.enter(id(value), value, None, kind, name):
        walk.class_value(type(value), False)
        walk.out.append(value._name_)
        walk.value(value._value_, None, "attr", "value")


@handles(kind="numpy")
def numpy_value(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A numpy scalar, dtype or small array by content."""
    if isinstance(value, numpy.dtype):
        walk.out += (numpy.dtype, repr(value))
        return
    if type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
        raise walk.refuse(f"reads a `{type(value).__name__}`", "make it a tensor", parent, name)
    if value.dtype.hasobject:
        raise walk.refuse("reads a numpy array of objects", "use a list", parent, name)
    if value.size > _LARGEST_ARRAY:
        raise walk.refuse(
            f"reads a numpy array of {value.size} elements",
            "make it a tensor, which is an input",
            parent,
            name,
        )
    if isinstance(value, numpy.generic) or walk.enter(id(value), value, None, kind, name):
        walk.out += (type(value), repr(value.dtype), value.shape, value.tobytes())


# --- tensors --------------------------------------------------------------------------------------


@handles(torch.Tensor, torch.nn.Parameter)
def tensor(walk: Walk, value: torch.Tensor, parent: Place | None, kind: str, name: Any) -> None:
    """A tensor: its schema is written, the tensor itself is lifted."""
    key = id(value)
    memo = walk.memo
    if key in memo:
        walk.out += (AGAIN, memo[key])
        return
    memo[key] = len(walk.places)
    place = None if parent is None else (parent, kind, name)
    walk.places.append(place)
    walk.objects.append(value)
    if value.layout is not torch.strided:
        raise walk.refuse(
            f"reads a tensor of layout {value.layout}", "use a dense tensor", parent, name
        )
    walk.tensors.append((place, value))
    walk.out += (
        TENSOR,
        type(value),
        value.dtype,
        value.device,
        value.shape,
        value.requires_grad,
        None if value.is_contiguous() else value.stride(),
    )
    if value.__dict__:
        walk.out.append(ATTRIBUTES)
        walk.attributes(value.__dict__, None)


@handles(kind="tensor")
def tensor_subclass(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A subclass of Tensor: known are fake tensors that the tracer puts in, and what stands for a
    tensor while torch traces.
    """
    if not walk.traced and stands_for_tensor(value):
        if walk.enter(id(value), value, parent, kind, name):
            walk.tensors.append((walk.places[-1], value))
            shape = tuple(int(size) for size in value.shape)
            walk.out += (TENSOR, value.dtype, value.device, shape, value.requires_grad)
        return
    if not walk.traced:
        raise walk.refuse(
            f"reads a `{type(value).__name__}`, a subclass of Tensor",
            "use a plain tensor",
            parent,
            name,
        )
    if walk.enter(id(value), value, parent, kind, name):
        walk.tensors.append((walk.places[-1], value))
        walk.out += (TENSOR, type(value))


@handles(torch.SymFloat, torch.SymInt, torch.SymBool)
def symbol(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A symbolic number that the tracer put in for a float."""
    if not walk.traced:
        raise walk.refuse(f"reads a {type(value).__name__}", REMEDY, parent, name)
    walk.out += (type(value), str(value.node))


# --- callables ------------------------------------------------------------------------------------


@handles(types.FunctionType)
def function(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A Python function."""
    walk.function(value, parent, kind, name)


@handles(types.MethodType)
def method(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A bound method: its object counts by the names that the method uses."""
    if not walk.enter(id(value), value, parent, kind, name):
        return
    place = walk.places[-1]
    owner, code = value.__self__, value.__func__
    walk.out.append(METHOD)
    if isinstance(owner, type):
        walk.class_value(owner, True)
    elif class_facts(type(owner)).kind in ("instance", "module"):
        if type(code) is types.FunctionType:
            _check_self_writes(owner, code)
        instance(walk, owner, place, "self", "self", True)
    else:
        walk.value(owner, place, "self", "self")
    if type(code) is types.FunctionType:
        walk.function(code, place, "function", code.__name__, True)
    else:
        walk.value(code, place, "function", getattr(code, "__name__", ""))


def _check_self_writes(owner: Any, code: types.FunctionType) -> None:
    facts = facts_of(code.__code__)
    for write in facts.writes:
        if write.kind == "self" and isinstance(follow(owner, write.chain), list | dict | set):
            target = ".".join((write.root, *write.chain))
            raise CannotSnapshot(
                f"{write.what} `{target}`, which outlives the call",
                "return the value instead",
                (),
                facts.file,
                write.line,
            )


@handles(functools.partial)
def partial(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A partial: its function and its arguments."""
    if walk.enter(id(value), value, parent, kind, name):
        place = walk.places[-1]
        walk.out += (PARTIAL, len(value.args), len(value.keywords))
        walk.value(value.func, place, "function", "")
        for index, argument in enumerate(value.args):
            walk.value(argument, place, "argument", index)
        for key, argument in value.keywords.items():
            walk.out.append(key)
            walk.value(argument, place, "keyword", key)


@handles(types.BuiltinFunctionType)
def builtin(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A function written in C, or a bound method of an object with C code."""
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType | type):
        module = value.__module__ or getattr(owner, "__module__", None)
        walk.library(value, module or "builtins", value.__name__, parent, name)
    elif (value.__module__ or "").partition(".")[0] in ("torch", "numpy"):
        walk.library(value, value.__module__, value.__name__, parent, name)
    elif walk.enter(id(value), value, parent, kind, name):
        walk.out += (METHOD, value.__name__)
        walk.value(owner, None, "self", name)


@handles(
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    numpy.ufunc,
    type(numpy.sum),
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    torch.jit.ScriptFunction,
    torch.finfo,
    torch.iinfo,
    type(functools.reduce),
    typing.TypeVar,
    types.GenericAlias,
    types.UnionType,
)
def by_identity(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """An object of a library that never changes."""
    if type(value) is types.BuiltinFunctionType:
        builtin(walk, value, parent, kind, name)
    else:
        walk.out += (LIBRARY, value)


@handles(types.ModuleType)
def python_module(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A Python module that is stored somewhere: every name counts."""
    walk.module(value, Use(str(name), (), True), None, kind)


@handles(
    types.GeneratorType,
    types.CoroutineType,
    itertools.count,
    itertools.cycle,
    zip,
    map,
    filter,
    enumerate,
    type(iter([])),
    type(iter(())),
    type(iter({})),
    type(iter(range(0))),
)
def iterator(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """An iterator changes with each use."""
    raise walk.refuse(
        f"reads a `{type(value).__name__}`, which changes with each use",
        "make a list of it",
        parent,
        name,
    )
