"""How a walk writes objects and nn.Modules: their attributes, submodules, hooks and payload."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import module as torch_module

from gossamer.capture.class_facts import ClassFacts, class_facts
from gossamer.capture.reach import Walk
from gossamer.capture.tokens import END, METHOD_NAMES, Place, Token, handles

INSTANCE, HOOKS = Token("instance"), Token("hooks")
_MODULE_DICTS = (("_parameters", "parameter"), ("_buffers", "buffer"), ("_modules", "module"))
_HOOK_DICTS = ("_forward_pre_hooks", "_forward_hooks")
_HOOK_FLAGS = (
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
# What `nn.Module` itself keeps and what has no part in forward.
_MODULE_INTERNALS = frozenset(vars(torch.nn.Module())) | {"_flat_weight_refs"}
# What a `torch.fx.GraphModule` keeps besides its generated code.
_GRAPH_INTERNALS = frozenset(vars(torch.fx.GraphModule({}, torch.fx.Graph())))


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
    raise walk.refuse(
        f"reads {class_facts(type(value)).refusal}",
        "capture tensors and plain values instead",
        parent,
        name,
    )


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


@handles(kind="owner")
def owner(walk: Walk, value: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A user's object of which code reads attributes only."""
    instance(walk, value, parent, kind, name, True)


@handles(type)
def class_(walk: Walk, value: type, parent: Place | None, kind: str, name: Any) -> None:
    """A class that is stored somewhere."""
    walk.class_value(value, True)


def instance(
    walk: Walk, value: Any, parent: Place | None, kind: str, name: Any, bound: bool = False
) -> None:
    """Writes the attributes of an object that reached code names.

    `bound`: it is here as the object of a bound method, or code reads attributes of it only, so its
    special methods and hooks count only when some method lets go of its `self`.
    """
    whole = not bound or walk.scope.escapes
    if not walk.enter(id(value), value, parent, kind, name):
        if not bound and id(value) in walk.owners:
            walk.escapes = True
        return
    if bound:
        walk.owners.add(id(value))
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


def _all_attributes(walk: Walk, variables: dict, place: Place | None) -> None:
    for name, value in variables.items():
        if name not in _MODULE_INTERNALS:
            walk.out.append(name)
            walk.value(value, place, "attr", name)
    walk.out.append(END)


def _module_state(
    walk: Walk, module: Any, place: Place | None, whole: bool, everything: bool
) -> None:
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
        walk.out.append(module.training)
        _hooks(walk, variables, place)


def _hooks(walk: Walk, variables: dict, place: Place | None) -> None:
    global_hooks = torch_module._global_forward_pre_hooks or torch_module._global_forward_hooks
    if not (
        variables["_forward_hooks"]
        or variables["_forward_pre_hooks"]
        or global_hooks
        or variables["_backward_hooks"]
        or variables["_backward_pre_hooks"]
    ):
        return
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


@handles(kind="graph module")
def graph_module(walk: Walk, module: Any, parent: Place | None, kind: str, name: Any) -> None:
    """A `torch.fx.GraphModule`: its generated code and its state; its graph is where these come
    from.
    """
    if not walk.enter(id(module), module, parent, kind, name):
        return
    place = walk.places[-1]
    walk.out += (INSTANCE, torch.fx.GraphModule, module.code)
    _module_state(walk, module, place, True, True)
    for attribute, value in module.__dict__.items():
        if attribute in walk.names and attribute not in _MODULE_INTERNALS | _GRAPH_INTERNALS:
            walk.out.append(attribute)
            walk.value(value, place, "attr", attribute)
    walk.out.append(END)
    walk.value(type(module).forward, None, "member", "forward")


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
        ordered = place if base in (list, tuple) else None
        for index, item in enumerate(base.__iter__(value)):
            walk.value(item, ordered, "item", index)
    else:
        # `float(value)` would ask the subclass; the base class's own operation does not.
        plain = base.__str__(value) if base is str else base.__getnewargs__(value)[0]
        walk.value(plain, None, "attr", "value")
