"""A copy of a callable in which some of the values that it reaches are replaced.

The tracer runs a UDF with fake tensors and with symbolic numbers in the places of real ones, and
the run must not be seen by the user: everything mutable that a walk reaches is copied (functions
with their cells and globals, instances, modules, containers), once each, so that what was one
object stays one object. Classes are never copied; what is reached through one is left alone.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from gossamer.capture.class_facts import class_facts
from gossamer.capture.reach import Walk
from gossamer.capture.refusal import CannotSnapshot
from gossamer.capture.snapshot import Path, format_path, walk_all
from gossamer.capture.tokens import Place

_MODULE_DICTS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}


def substitute(udf: Any, replacements: Mapping[Path, Any]) -> Any:
    """A copy of `udf` with other values at some paths of its snapshot.

    Args:
        udf: the callable; neither it nor anything that it reaches is changed.
        replacements: new values by paths from `Snapshot.tensors` or `Snapshot.floats`. A tensor is
            replaced wherever it is reached.

    Raises:
        CannotSnapshot: `udf` can't be snapshot, or a value lies where it can't be replaced.
        KeyError: a path is not one of the snapshot of `udf`.
    """
    walk = walk_all(udf)
    known = {place for place, _ in walk.tensors} | {place for place, _ in walk.floats}
    for path in replacements:
        if path is None or path not in known:
            raise KeyError(f"no tensor or float at {format_path(path)}")
    copier = _Copier(walk, replacements)
    copy = copier.copy(udf)
    missing = set(replacements) - copier.applied
    if missing:
        path = format_path(next(iter(missing)))
        raise CannotSnapshot(
            f"the value at {path} cannot be replaced",
            "keep it in a plain attribute, closure, list or dict",
            (),
            path,
            0,
        )
    return copy


class _Copier:
    """Copies the objects of one walk, each at most once."""

    def __init__(self, walk: Walk, replacements: Mapping[Path, Any]) -> None:
        self.walk = walk
        self.replacements = replacements
        self.applied: set[Path] = set()
        self.done: dict[int, Any] = {}
        self.tensors = {
            id(tensor): place for place, tensor in walk.tensors if place in replacements
        }
        self.module_of = {
            id(vars(each)): each
            for each in walk.objects
            if type(each) is types.ModuleType and self.place(each) is not None
        }

    def place(self, obj: Any) -> Place | None:
        """Where `obj` was met, or None when it must stay itself."""
        number = self.walk.memo.get(id(obj))
        return None if number is None else self.walk.places[number]

    def replaced(self, path: Path) -> Any:
        """The new value at `path`."""
        self.applied.add(path)
        return self.replacements[path]

    def at(self, obj: Any, place: Place | None, kind: str, name: Any) -> Any:
        """What stands for `obj`, which is at ``(place, kind, name)``."""
        if type(obj) is float and (place, kind, name) in self.replacements:
            return self.replaced((place, kind, name))
        return self.copy(obj)

    def variable(self, obj: Any, key: int | tuple) -> Any:
        """What stands for `obj`, the value of the variable `key`; see `Walk.variable`."""
        number = self.walk.memo.get(key)
        if type(obj) is float and number is not None:
            place = self.walk.places[number]
            return self.replaced(place) if place in self.replacements else obj
        return self.copy(obj)

    def copy(self, obj: Any) -> Any:
        """What stands for `obj`: a replacement, a copy, or itself."""
        key = id(obj)
        if key in self.done:
            return self.done[key]
        if key in self.tensors:
            return self.replaced(self.tensors[key])
        place = self.place(obj)
        if place is None:
            return obj
        copier = _COPIERS.get(type(obj))
        if copier is None and class_facts(type(obj)).kind in (
            "instance",
            "library",
            "module",
            "library module",
            "graph module",
        ):
            copier = _instance
        if copier is None:
            return obj
        made = copier(self, obj, place)
        return self.done.setdefault(key, made)

    def variables(self, original: dict) -> dict:
        """The globals of copied functions: those of `original` with copies in them."""
        key = id(original)
        if key in self.done:
            return self.done[key]
        module = self.module_of.get(key)
        if module is None:
            copy = {}
        else:
            self.done[id(module)] = shell = types.ModuleType(module.__name__)
            copy = vars(shell)
        self.done[key] = copy
        copy.update(original)
        for name, value in original.items():
            copy[name] = self.variable(value, (key, name))
        return copy

    def cell(self, original: types.CellType) -> types.CellType:
        """A cell with the copy of what `original` holds."""
        key = id(original)
        if key not in self.done:
            self.done[key] = cell = types.CellType()
            try:
                cell.cell_contents = self.variable(original.cell_contents, key)
            except ValueError:
                return cell  # an empty cell stays empty
        return self.done[key]


def _function(copier: _Copier, function: types.FunctionType, place: Place) -> Any:
    closure = function.__closure__
    cells = None if closure is None else tuple(copier.cell(cell) for cell in closure)
    copy = types.FunctionType(
        function.__code__, copier.variables(function.__globals__), function.__name__, None, cells
    )
    # A recursive function was copied on the way, through its own cell or global.
    if id(function) in copier.done:
        return copier.done[id(function)]
    copier.done[id(function)] = copy
    if function.__defaults__:
        copy.__defaults__ = tuple(
            copier.at(value, place, "default", index)
            for index, value in enumerate(function.__defaults__)
        )
    if function.__kwdefaults__:
        copy.__kwdefaults__ = {
            key: copier.at(value, place, "kwdefault", key)
            for key, value in function.__kwdefaults__.items()
        }
    for key, value in function.__dict__.items():
        copy.__dict__[key] = copier.at(value, place, "attr", key)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _method(copier: _Copier, method: types.MethodType, place: Place) -> Any:
    return types.MethodType(copier.copy(method.__func__), copier.copy(method.__self__))


def _partial(copier: _Copier, partial: functools.partial, place: Place) -> Any:
    arguments = [
        copier.at(value, place, "argument", index) for index, value in enumerate(partial.args)
    ]
    keywords = {
        key: copier.at(value, place, "keyword", key) for key, value in partial.keywords.items()
    }
    return functools.partial(copier.copy(partial.func), *arguments, **keywords)


def _module(copier: _Copier, module: types.ModuleType, place: Place) -> Any:
    copier.variables(vars(module))
    return copier.done[id(module)]


def _tuple(copier: _Copier, values: tuple, place: Place) -> Any:
    return tuple([copier.at(value, place, "item", index) for index, value in enumerate(values)])


def _sequence(copier: _Copier, values: Any, place: Place) -> Any:
    copier.done[id(values)] = copy = (
        [] if type(values) is list else collections.deque(maxlen=values.maxlen)
    )
    copy.extend([copier.at(value, place, "item", index) for index, value in enumerate(values)])
    return copy


def _mapping(copier: _Copier, values: dict, place: Place) -> Any:
    copier.done[id(values)] = copy = values.copy()
    for key, value in values.items():
        copy[key] = copier.at(value, place, "item", key)
    return copy


def _plain(copier: _Copier, value: Any, place: Place) -> Any:
    return type(value)(value)


def _blank(cls: type, content: type | None) -> Any:
    """An instance without state, made without the class's own code."""
    try:
        return (content or object).__new__(cls)
    except TypeError as error:
        raise CannotSnapshot(
            f"reads a `{cls.__qualname__}`, which cannot be copied ({error})",
            "capture what you read of it in variables",
        ) from None


def _instance(copier: _Copier, instance: Any, place: Place) -> Any:
    cls = type(instance)
    facts = class_facts(cls)
    if facts.content is tuple:
        copy = tuple.__new__(cls, _tuple(copier, tuple(tuple.__iter__(instance)), place))
    elif facts.content in (None, dict, list, set):
        copy = cls.__new__(cls) if cls is types.SimpleNamespace else _blank(cls, facts.content)
    else:
        return instance
    copier.done[id(instance)] = copy
    for name, value in getattr(instance, "__dict__", {}).items():
        copy.__dict__[name] = _attribute(copier, instance, name, value, place)
    for slot in (slot for slot in facts.slots if slot != "__dict__"):
        if hasattr(instance, slot):
            # A frozen class refuses ordinary assignment.
            object.__setattr__(copy, slot, copier.at(getattr(instance, slot), place, "attr", slot))
    if facts.content is dict:
        for key in dict.keys(instance):
            item = dict.__getitem__(instance, key)
            dict.__setitem__(copy, key, copier.at(item, place, "item", key))
    elif facts.content is list:
        list.extend(
            copy,
            [
                copier.at(item, place, "item", index)
                for index, item in enumerate(list.__iter__(instance))
            ],
        )
    elif facts.content is set:
        set.update(copy, set.__iter__(instance))
    return copy


def _attribute(copier: _Copier, owner: Any, name: str, value: Any, place: Place) -> Any:
    if not isinstance(owner, torch.nn.Module) or not isinstance(value, dict):
        return copier.at(value, place, "attr", name)
    if name not in _MODULE_DICTS and not name.endswith("_hooks"):
        return copier.at(value, place, "attr", name)
    copy = value.copy()
    for key, item in value.items():
        copy[key] = copier.at(item, place, _MODULE_DICTS.get(name, name), key)
    return copy


_COPIERS: dict[type, Callable[[_Copier, Any, Place], Any]] = {
    types.FunctionType: _function,
    types.MethodType: _method,
    types.ModuleType: _module,
    functools.partial: _partial,
    tuple: _tuple,
    list: _sequence,
    collections.deque: _sequence,
    dict: _mapping,
    collections.OrderedDict: _mapping,
    collections.defaultdict: _mapping,
    set: _plain,
    bytearray: _plain,
}
