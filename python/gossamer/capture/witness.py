"""Whether everything that a walk read is still the same object: a check in a fraction of its time.

A walk writes down what it reads; equal objects in equal places make it write equal tokens. So a
second walk can be left out when each place that the first one read holds the very same object:

    snap, witness = witnessed(model)
    if witness is not None and witness.holds():
        ...  # snapshot(model) would equal `snap`

The check compares more than the walk reads (whole dicts, where the walk follows only the names in
the code), so that it may fail for nothing, and then a walk decides. There is no witness for kinds
of objects that are not in the table below, for instance those whose content has no identity.
It keeps what it compares with alive; so it belongs where the owner is kept alive as well.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from itertools import chain
from operator import attrgetter, is_, methodcaller
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from gossamer.capture.class_facts import ClassFacts, class_facts
from gossamer.capture.code_names import Use
from gossamer.capture.reach import Walk
from gossamer.capture.snapshot import Snapshot, walk_all
from gossamer.capture.tokens import HANDLERS, MISSING, Place
from gossamer.capture.values import by_identity, scalar

_FUNCTION = attrgetter("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__dict__")
_INSTANCE = attrgetter("__class__", "__dict__")
_TENSOR = attrgetter("__class__", "dtype", "device", "shape", "requires_grad", "__dict__")
_CONTIGUOUS = methodcaller("is_contiguous")
_CELL = attrgetter("cell_contents")
_MRO = attrgetter("__mro__")
_FORWARD = attrgetter("forward")
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
#: Values that are what they are, as long as they are the same object.
_CONSTANT = frozenset(
    [kind for kind, handler in HANDLERS.items() if handler in (scalar, by_identity)]
    + [float, complex, slice, range, frozenset, types.BuiltinFunctionType]
)
_WALKED = frozenset([*_CONSTANT, types.FunctionType, types.ModuleType, type, tuple, list, dict])
_KINDS = frozenset(["module", "library module", "instance"])


class _WitnessedWalk(Walk):
    """A walk that notes what it reads besides the objects it meets.

    Attributes:
        whole: whether the witness can see everything that was read.
        lookups: ``(dict, key)`` of variables and of attributes of modules.
        classes: the classes whose members were looked at.
    """

    __slots__ = ("classes", "lookups", "whole")

    def __init__(self, *scope: Any) -> None:
        super().__init__(*scope)
        self.whole = True
        self.lookups: list[tuple[dict, str]] = []
        self.classes: list[type] = []

    def value(self, value: Any, parent: Place | None, kind: str, name: Any) -> None:
        """As any walk; notes values that have no witness."""
        if self.whole and type(value) not in _WALKED:
            self.whole = _has_witness(value)
        super().value(value, parent, kind, name)

    def owner(self, value: Any, parent: Place | None, kind: str, name: Any) -> None:
        """As any walk; notes objects that have no witness."""
        self.whole = self.whole and _has_witness(value)
        super().owner(value, parent, kind, name)

    def _global(
        self, function: types.FunctionType, variables: dict, use: Use, place: Place | None
    ) -> None:
        self.lookups += ((variables, use.name), (function.__builtins__, use.name))
        super()._global(function, variables, use, place)

    def _module_attribute(
        self, module: types.ModuleType, chain: tuple[str, ...], parent: Place | None
    ) -> None:
        self.lookups.append((vars(module), chain[0]))
        self.whole &= chain[0] in vars(module)
        super()._module_attribute(module, chain, parent)

    def _whole_module(self, module: types.ModuleType, use: Use, place: Place | None) -> None:
        self.whole = False
        super()._whole_module(module, use, place)

    def _import(self, name: str) -> None:
        self.lookups += ((sys.modules, name), (sys.modules, name.partition(".")[0]))
        super()._import(name)

    def class_value(self, cls: type, constructs: bool) -> None:
        """As any walk; notes classes that have no witness."""
        self.whole &= type(cls) is type or not class_facts(cls).users
        super().class_value(cls, constructs)

    def class_body(self, cls: type, facts: ClassFacts, special: bool, constructs: bool) -> None:
        """As any walk; notes the class."""
        self.classes.append(cls)
        super().class_body(cls, facts, special, constructs)


def _has_witness(value: Any) -> bool:
    """Whether a value that is not of a kind known by type can be witnessed."""
    if type(value) is types.MethodType:
        owner = value.__self__
        return type(owner) in _WALKED or isinstance(owner, type) or _has_witness(owner)
    if isinstance(value, torch.Tensor):
        plain = type(value) in (torch.Tensor, torch.nn.Parameter)
        return plain and not value.__dict__ and value.is_contiguous()
    facts = class_facts(type(value))
    if facts.kind not in _KINDS or facts.slots or facts.content is not None:
        return False
    return not any(getattr(value, key, None) for key in _HOOKS)


class Witness:
    """What a walk read; made right after the walk."""

    __slots__ = (
        "_cells",
        "_classes",
        "_empty",
        "_filled",
        "_functions",
        "_instances",
        "_library_modules",
        "_lookup_dicts",
        "_lookup_keys",
        "_missing",
        "_same",
        "_schemas",
        "_sequences",
        "_sized",
        "_sizes",
        "_tensors",
    )

    def __init__(self, walk: _WitnessedWalk) -> None:
        objects = walk.objects
        instances = [
            each for each in objects if class_facts(type(each)).kind in _KINDS and _is_object(each)
        ]
        modules = [each for each in instances if isinstance(each, torch.nn.Module)]
        kinds = {type(each): class_facts(type(each)).kind for each in modules}
        self._library_modules = [cls for cls, kind in kinds.items() if kind == "library module"]
        self._functions = _of(objects, types.FunctionType)
        closures = [function.__closure__ or () for function in self._functions]
        self._cells = list(chain.from_iterable(closures))
        self._instances = instances
        self._classes = walk.classes
        self._tensors = [tensor for _, tensor in walk.tensors]
        keywords = [each.__kwdefaults__ for each in self._functions if each.__kwdefaults__]
        bodies = [vars(base) for cls in walk.classes for base in _user_bases(cls)]
        dicts = [
            *_of(objects, dict),
            *keywords,
            *map(vars, self._functions),
            *map(vars, instances),
            *(vars(module)[key] for module in modules for key in _MODULE_DICTS),
            *bodies,
        ]
        self._filled = [each for each in dicts if each]  # the sizes say that the others are empty
        self._sequences = [each for each in objects if type(each) in (list, tuple)]
        self._sized = [*dicts, *self._sequences]
        self._empty = [
            *(vars(module)[key] for module in modules for key in _HOOKS),
            torch_module._global_forward_pre_hooks,
            torch_module._global_forward_hooks,
        ]
        self._lookup_dicts = [variables for variables, _ in walk.lookups]
        self._lookup_keys = [key for _, key in walk.lookups]
        self._missing = [MISSING] * len(self._lookup_keys)
        self._sizes = list(map(len, self._sized))
        self._schemas = list(map(_TENSOR, self._tensors))
        self._same = self._read()

    def holds(self) -> bool:
        """True when a walk would write the tokens that it wrote, and find the same tensors."""
        try:
            return (
                not any(self._empty)
                and list(map(len, self._sized)) == self._sizes
                and list(map(_TENSOR, self._tensors)) == self._schemas
                and all(map(_CONTIGUOUS, self._tensors))
                and all(map(is_, self._read(), self._same))
            )
        except (AttributeError, ValueError):  # an empty cell, an attribute that is gone
            return False

    def _read(self) -> list:
        """Every object that the walk read; as many as then, when the sizes are as then."""
        found = list(map(dict.get, self._lookup_dicts, self._lookup_keys, self._missing))
        found += map(_CELL, self._cells)
        found += map(_MRO, self._classes)
        found += map(_FORWARD, self._library_modules)
        for function in self._functions:
            found += _FUNCTION(function)
        for instance in self._instances:
            found += _INSTANCE(instance)
        for each in self._filled:
            found += each
            found += each.values()
        for each in self._sequences:
            found += each
        return found


def _of(objects: list, kind: type) -> list:
    return [each for each in objects if type(each) is kind]


def _is_object(value: Any) -> bool:
    return not isinstance(value, (type, types.MethodType, types.ModuleType))


def _user_bases(cls: type) -> list[type]:
    return [cls.__mro__[position] for position in class_facts(cls).users]


def witnessed(udf: Callable) -> tuple[Snapshot, Witness | None]:
    """The snapshot of `udf` with its witness; None where some value has none.

    Raises:
        CannotSnapshot: as for `snapshot`.
    """
    walk = walk_all(udf, make=_WitnessedWalk)
    return Snapshot(walk), Witness(walk) if walk.whole else None
