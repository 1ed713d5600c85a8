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
from torch.nn.modules import module as torch_module

from gossamer.capture.class_facts import ClassFacts, class_facts
from gossamer.capture.code_names import Use, facts_of
from gossamer.capture.purity import REMEDY
from gossamer.capture.reach import (
    AGAIN,
    END,
    LIBRARY,
    METHOD,
    METHOD_NAMES,
    Place,
    Token,
    Walk,
    follow,
    handles,
)
from gossamer.capture.refusal import CannotSnapshot

PARTIAL, INSTANCE = Token("partial"), Token("instance")
TENSOR, HOOKS = Token("tensor"), Token("hooks")
_LARGEST_ARRAY = 1000
_MODULE_DICTS = (("_parameters", "parameter"), ("_buffers", "buffer"), ("_modules", "module"))
_HOOK_DICTS = ("_forward_pre_hooks", "_forward_hooks")
_HOOK_FLAGS = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs",
               "_forward_hooks_always_called")
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
# What `nn.Module` itself keeps and what has no part in forward.
_MODULE_INTERNALS = frozenset(vars(torch.nn.Module())) | {"_flat_weight_refs"}


# --- plain values ---------------------------------------------------------------------------------

@handles(int, str, bool, bytes, type(None), type(Ellipsis), type(NotImplemented), torch.dtype,
         torch.device, torch.Size, torch.layout, torch.memory_format)
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
        raise walk.refuse(f"reads a numpy array of {value.size} elements",
                          "make it a tensor, which is an input", parent, name)
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
        raise walk.refuse(f"reads a tensor of layout {value.layout}", "use a dense tensor", parent,
                          name)
    walk.tensors.append((place, value))
    walk.out += (TENSOR, type(value), value.dtype, value.device, value.shape, value.requires_grad,
                 None if value.is_contiguous() else value.stride())


@handles(kind="tensor")
def tensor_subclass(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A subclass of Tensor: only the fake tensors that the tracer puts in are known."""
    if not walk.traced:
        raise walk.refuse(f"reads a `{type(value).__name__}`, a subclass of Tensor",
                          "use a plain tensor", parent, name)
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
            raise CannotSnapshot(f"{write.what} `{target}`, which outlives the call",
                                 "return the value instead", (), facts.file, write.line)


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


@handles(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
         types.GetSetDescriptorType, numpy.ufunc, type(numpy.sum), torch._ops.OpOverload,
         torch._ops.OpOverloadPacket, torch.jit.ScriptFunction, torch.finfo, torch.iinfo,
         type(functools.reduce), typing.TypeVar, types.GenericAlias, types.UnionType)
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


@handles(types.GeneratorType, types.CoroutineType, itertools.count, itertools.cycle, zip, map,
         filter, enumerate, type(iter([])), type(iter(())), type(iter({})), type(iter(range(0))))
def iterator(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """An iterator changes with each use."""
    raise walk.refuse(f"reads a `{type(value).__name__}`, which changes with each use",
                      "make a list of it", parent, name)


# --- instances ------------------------------------------------------------------------------------

@handles(Token)
def token(walk: Walk, value: Token, parent: Place | None, kind: str, name: Any) -> None:
    """Stands for a value that isn't there."""
    walk.out.append(value)


@handles(kind="refused")
def refused(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """An object whose state no key can hold."""
    if isinstance(value, type):
        walk.class_value(value, True)
        return
    raise walk.refuse(f"reads {class_facts(type(value)).refusal}",
                      "capture tensors and plain values instead", parent, name)


@handles(kind="library")
def library_object(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """An instance of a library class: all of its state, since its code isn't looked into."""
    if isinstance(value, type):
        walk.class_value(value, True)
    elif walk.enter(id(value), value, parent, kind, name):
        place = walk.places[-1]
        facts = class_facts(type(value))
        walk.out += (INSTANCE, facts)
        _all_attributes(walk, getattr(value, "__dict__", {}), place)
        for slot in facts.slots:
            walk.value(getattr(value, slot, END), place, "attr", slot)
        if facts.content is not None:
            _content(walk, value, facts, place)


@handles(kind="instance")
def any_instance(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """An instance of a user's class, or a class with a user's metaclass."""
    if isinstance(value, type):
        walk.class_value(value, True)
    else:
        instance(walk, value, parent, kind, name)


@handles(kind="module")
def user_module(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A user's nn.Module."""
    instance(walk, value, parent, kind, name)


@handles(type)
def class_(walk: Walk, value: type, parent: Place | None, kind: str, name: Any) -> None:
    """A class that is stored somewhere."""
    walk.class_value(value, True)


def instance(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any,
             bound: bool = False) -> None:
    """Writes the attributes of an object that reached code names.

    `bound`: it is here as the object of a bound method, so its special methods and hooks count only
    when some method lets go of its `self`.
    """
    whole = not bound or walk.scope.escapes
    if not walk.enter(id(value), value, parent, kind, name):
        if not bound and id(value) in _bound_owners(walk):
            walk.escapes = True
        return
    place = walk.places[-1]
    cls = type(value)
    facts = class_facts(cls)
    walk.out += (INSTANCE, facts)
    walk.class_body(cls, facts, whole, False)
    variables = getattr(value, "__dict__", None)
    if variables is not None:
        (_all_attributes if facts.library_base else Walk.attributes)(walk, variables, place)
    for slot in facts.slots:
        if slot in walk.names and hasattr(value, slot):
            walk.out.append(slot)
            walk.value(getattr(value, slot), place, "attr", slot)
    if facts.kind == "module":
        _module_state(walk, value, place, whole, facts.library_base)
    if facts.content is not None:
        _content(walk, value, facts, place)
    walk.out.append(END)


def _bound_owners(walk: Walk) -> set[int]:
    """Objects that were met as the object of a bound method."""
    return {id(each.__self__) for each in walk.objects if type(each) is types.MethodType}


def _all_attributes(walk: Walk, variables: dict, place: Place | None) -> None:
    for name, value in variables.items():
        if name not in _MODULE_INTERNALS:
            walk.out.append(name)
            walk.value(value, place, "attr", name)
    walk.out.append(END)


def _module_state(walk: Walk, module: Any, place: Place | None, whole: bool,
                  everything: bool) -> None:
    """Writes what an nn.Module keeps in its own dicts; without `whole` only what is named."""
    variables, names = module.__dict__, walk.names
    for key, kind in _MODULE_DICTS:
        for name, value in variables[key].items():
            if everything or name in names:
                walk.out.append(name)
                walk.value(value, place, kind, name)
        walk.out.append(END)
    if whole:
        for name in METHOD_NAMES:
            if name in variables:  # a method replaced on this one object
                walk.out.append(name)
                walk.value(variables[name], place, "attr", name)
        walk.out.append(variables["training"])
        _hooks(walk, variables, place)


def _hooks(walk: Walk, variables: dict, place: Place | None) -> None:
    for key in _BACKWARD_HOOKS:
        if variables[key]:
            raise walk.refuse("uses a module with backward hooks", "remove the hooks", place, key)
    for key in _HOOK_DICTS:
        if variables[key]:
            _hook_functions(walk, key, variables[key], place)
            walk.out += [tuple(variables[flags]) for flags in _HOOK_FLAGS]
    for key in ("_global_forward_pre_hooks", "_global_forward_hooks"):
        if hooks := getattr(torch_module, key):
            _hook_functions(walk, key, hooks, None)


def _hook_functions(walk: Walk, key: str, hooks: dict, place: Place | None) -> None:
    walk.out += (HOOKS, key, len(hooks))
    for number, hook in hooks.items():
        walk.out.append(number)
        walk.value(hook, place, key, number)


@handles(kind="library module")
def library_module(walk: Walk, module: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A module of torch.nn: all of its state."""
    if not walk.enter(id(module), module, parent, kind, name):
        return
    place = walk.places[-1]
    cls = type(module)
    walk.out += (INSTANCE, class_facts(cls))
    _module_state(walk, module, place, True, True)
    _all_attributes(walk, module.__dict__, place)
    walk.value(cls.forward, None, "member", "forward")


def _content(walk: Walk, value: Any, facts: ClassFacts, place: Place | None) -> None:
    """Writes the payload of an instance of a subclass of dict, list, int, ..."""
    base = facts.content
    if base is dict:
        walk.out.append(len(value))
        for key in dict.keys(value):
            walk.value(key, None, "key", key)
            walk.value(dict.__getitem__(value, key), place, "item", key)
    elif base in (list, tuple, set, frozenset):
        walk.out.append(base.__len__(value))
        _items(walk, base.__iter__(value), place if base in (list, tuple) else None)
    else:
        # `float(value)` would ask the subclass; the base class's own operation does not.
        plain = base.__str__(value) if base is str else base.__getnewargs__(value)[0]
        walk.value(plain, None, "attr", "value")
