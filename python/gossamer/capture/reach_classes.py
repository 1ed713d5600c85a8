"""What a walk writes of a class: its name, and the members that reached code can use.

Code that only names a class reads what it names. Code that may make instances of it also runs its
constructors, and what Python calls by itself: special methods, and `forward`.
"""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

import torch

from gossamer.capture.class_facts import ClassFacts, class_facts
from gossamer.capture.code_names import CONSTRUCTORS
from gossamer.capture.purity import PURE_BUILTINS, REMEDY, impure_module, words
from gossamer.capture.tokens import CLASS, END, METHOD_NAMES

if TYPE_CHECKING:
    from gossamer.capture.reach import Walk

#: What a named tuple has for each of its names: the item of an index.
_TUPLE_FIELD = type(collections.namedtuple("_OneField", "field").field)

_REPRESENTATION = frozenset(("__repr__", "__str__", "__format__"))
_ATTRIBUTE_ACCESS = frozenset(("__getattr__", "__getattribute__"))
_PRINTING = frozenset(("repr", "str", "format", "ascii"))
_NEVER_READ = words(
    "__module__ __doc__ __dict__ __weakref__ __annotations__ __slots__ __qualname__ "
    "__firstlineno__ __match_args__ __dataclass_fields__ __dataclass_params__ "
    "__abstractmethods__ __parameters__ __orig_bases__ __hash__ __static_attributes__ __del__ "
    "__reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __copy__ __deepcopy__ "
    "__class_getitem__ __annotate__ _abc_impl __annotations_cache__ __class_cell__ "
    "__classcell__ __subclasshook__ __sizeof__ __dir__"
)


def write_class(walk: Walk, cls: type, constructs: bool) -> None:
    """Writes a class that code names; `constructs`: code may make instances of it."""
    facts = class_facts(cls)
    if facts.users:
        if facts.kind == "refused" and not issubclass(cls, BaseException):
            raise walk.refuse(facts.refusal, REMEDY, None, cls.__name__)
        if issubclass(cls, torch.autograd.Function):
            raise walk.refuse(
                f"`{facts.name}` has a hand-written derivative",
                "write it with torch operations",
                None,
                cls.__name__,
            )
    elif (reason := impure_module(cls.__module__)) is not None:
        raise walk.refuse(reason, REMEDY, None, cls.__name__)
    elif cls.__module__ == "builtins" and not (
        cls.__name__ in PURE_BUILTINS or issubclass(cls, BaseException) or cls is object
    ):
        raise walk.refuse(f"uses `{cls.__name__}`", REMEDY, None, cls.__name__)
    walk.out += (CLASS, facts)
    if facts.kind == "enum":
        for name, member in cls._member_map_.items():
            walk.out.append(name)
            walk.value(member._value_, None, "attr", name)
    if facts.users:
        instances = constructs or walk.scope.escapes
        walk.class_body(cls, facts, instances, instances)
        meta = type(cls)
        if class_facts(meta).users:
            walk.class_value(meta, False)
    walk.out.append(END)


def write_members(
    walk: Walk, cls: type, facts: ClassFacts, special: bool, constructs: bool
) -> None:
    """Writes the members of a user's class that reached code can use.

    `special`: special methods and `forward` too; `constructs`: and constructors.
    """
    names = walk.names
    if not constructs:
        constructs = "__class__" in walk.scope.names or "type" in walk.scope.names
    mro = cls.__mro__
    for position in facts.users:
        base = mro[position]
        if not walk.enter((id(base), special, constructs), base, None, "class", ""):
            continue
        for name, member in vars(base).items():
            if name in _NEVER_READ:
                continue
            if name[:2] == "__" == name[-2:]:
                wanted = (
                    constructs if name in CONSTRUCTORS else special and _is_implicit(walk, name)
                )
                wanted = wanted or name in _ATTRIBUTE_ACCESS or name in walk.scope.names
            else:
                wanted = name in names or (special and name in METHOD_NAMES)
            if wanted:
                walk.out.append(name)
                _member(walk, member, name)
        walk.out.append(END)


def _is_implicit(walk: Walk, name: str) -> bool:
    return name not in _REPRESENTATION or not _PRINTING.isdisjoint(walk.scope.names)


def _member(walk: Walk, member: Any, name: str) -> None:
    kind = type(member)
    if kind is types.FunctionType:
        walk.function(member, None, "member", name, True)
    elif kind in (staticmethod, classmethod):
        walk.out.append(kind)
        if type(member.__func__) is types.FunctionType:
            walk.function(member.__func__, None, "member", name, kind is classmethod)
        else:
            walk.value(member.__func__, None, "member", name)
    elif kind is property:
        walk.out.append(kind)
        for accessor in (member.fget, member.fset, member.fdel):
            if type(accessor) is types.FunctionType:
                walk.function(accessor, None, "member", name, True)
            else:
                walk.value(accessor, None, "member", name)
    elif kind in (types.MemberDescriptorType, types.GetSetDescriptorType):
        walk.out.append(kind)
    elif kind is _TUPLE_FIELD:
        index, _ = member.__reduce__()[1]
        walk.out += (kind, index)
    elif name[:2] != "__" or kind not in (str, tuple, dict, frozenset):
        walk.value(member, None, "member", name)
