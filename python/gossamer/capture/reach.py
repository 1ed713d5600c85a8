"""Walks everything that a UDF can reach and writes it down as a flat sequence of tokens.

Two walks that write equal tokens mean equal behaviour, up to the tensors and floats that are
listed beside them. Each value starts with a token that says how many follow or what ends it, so a
sequence can be read in one way only; values carry their type, since ``True == 1 == 1.0``.

*Names.* Of an instance only those attributes are followed whose name occurs in reached code. More
code means more names, which mean more attributes, which mean more code: the least such set is found
by repeating the walk with the names of the code that the last one reached. The result (a `Scope`)
is remembered per root code object, so that repeated calls of one UDF need one walk, which tells
whether it reached just the code of its scope.

*Places.* A value has a place: ``(place of its container, kind, name)``. A place is None where
nothing can be substituted, because only a copied class could hold the new value; floats found there
are part of the key by value, and so are those that are also reached in such a way ("pinned").
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from typing import Any

from gossamer.capture.class_facts import ClassFacts, class_facts
from gossamer.capture.code_names import (
    ANY_NAME,
    CodeFacts,
    Use,
    Write,
    facts_of,
)
from gossamer.capture.purity import (
    REMEDY,
    impure_function,
    impure_module,
    is_library,
)
from gossamer.capture.reach_classes import write_class, write_members
from gossamer.capture.refusal import CannotSnapshot
from gossamer.capture.scope import EVERY_NAME, Scope
from gossamer.capture.tokens import (
    AGAIN,
    END,
    FUNCTION,
    HANDLERS,
    KINDS,
    LIBRARY,
    MISSING,
    MODULE,
    Place,
)

_CONTAINERS = (list, dict, set, bytearray)


class Walk:
    """One walk over what a callable reaches.

    Attributes:
        out: the tokens.
        tensors: ``(place, tensor)`` of every tensor, once each, in the order of the walk.
        floats: ``(place, value)`` of every float that can be substituted.
        memo: number of each object met, by id; `places` and `objects` are indexed by it.
        reached: the code that was reached, in order; `escapes`: as in `Scope`.
        owners: ids of objects that were met where code reads attributes only.
        newly_pinned: ids met again without a place after they had one.
    """

    __slots__ = (
        "escapes",
        "floats",
        "memo",
        "names",
        "newly_pinned",
        "objects",
        "out",
        "owners",
        "pinned",
        "places",
        "reached",
        "scope",
        "tensors",
        "traced",
    )

    def __init__(self, scope: Scope, pinned: frozenset[int], traced: bool) -> None:
        """A walk with the names of `scope`, where the ids in `pinned` can't be substituted."""
        self.out: list = []
        self.tensors: list[tuple[Place | None, Any]] = []
        self.floats: list[tuple[Place, float]] = []
        self.memo: dict[int | tuple, int] = {}
        self.places: list[Place | None] = []
        self.objects: list = []
        self.reached: dict[CodeFacts, None] = {}
        self.escapes = False
        self.owners: set[int] = set()
        self.scope = scope
        self.names = EVERY_NAME if ANY_NAME in scope.names else scope.names
        self.pinned = pinned
        self.newly_pinned: set[int | tuple] = set()
        self.traced = traced

    def fits(self) -> bool:
        """True when the walk reached exactly what its scope says, so that no name was missing."""
        return self.reached.keys() == self.scope.codes and self.escapes == self.scope.escapes

    # --- values -----------------------------------------------------------------------------

    def value(self, value: Any, parent: Place | None, kind: str, name: Any) -> None:
        """Writes `value`, which is at ``(parent, kind, name)``."""
        handler = HANDLERS.get(type(value))
        if handler is not None:
            handler(self, value, parent, kind, name)
        else:
            KINDS[class_facts(type(value)).kind](self, value, parent, kind, name)

    def owner(self, value: Any, parent: Place | None, kind: str, name: Any) -> None:
        """Writes a user's object of which code reads attributes only, as methods do of `self`."""
        KINDS["owner"](self, value, parent, kind, name)

    def enter(self, key: int | tuple, obj: Any, parent: Place | None, kind: str, name: Any) -> bool:
        """Numbers `obj`; False when it was met before, and then writes its number."""
        number = self.memo.get(key)
        if number is None:
            self.memo[key] = len(self.places)
            pinned = parent is None or (self.pinned and key in self.pinned)
            self.places.append(None if pinned else (parent, kind, name))
            self.objects.append(obj)
            return True
        self.out += (AGAIN, number)
        if parent is None and self.places[number] is not None:
            self.newly_pinned.add(key)
        return False

    def variable(
        self, owner: Any, key: int | tuple, value: Any, parent: Place | None, kind: str, name: Any
    ) -> None:
        """Writes the value of a variable that several functions may share.

        Containers are told apart by identity, but a float has none: its variable stands for it.
        """
        if type(value) is not float:
            self.value(value, parent, kind, name)
        elif self.enter(key, owner, parent, kind, name):
            place = self.places[-1]
            if place is None:
                self.value(value, None, kind, name)
            else:
                self.floats.append((place, value))
                self.out += (float, None)

    def refuse(self, reason: str, remedy: str, parent: Place | None, name: Any) -> CannotSnapshot:
        """The error for a value at ``(parent, _, name)``; where is found later, from the names."""
        names = [name] if isinstance(name, str) else []
        while parent:
            if isinstance(parent[2], str):
                names.append(parent[2])
            parent = parent[0]
        return CannotSnapshot(reason, remedy, tuple(names))

    # --- code -------------------------------------------------------------------------------

    def code(self, facts: CodeFacts, library: bool = False) -> None:
        """Notes that this code is reached: its names are looked for on all instances."""
        self.reached[facts] = None
        if facts.problem is not None and not library:
            problem = facts.problem
            raise CannotSnapshot(problem.reason, problem.remedy, (), facts.file, problem.line)

    def function(
        self,
        function: types.FunctionType,
        parent: Place | None,
        kind: str,
        name: Any,
        method: bool = False,
    ) -> None:
        """Writes a Python function: its code, and all that the code can reach from it."""
        variables = function.__globals__
        module = variables.get("__name__")
        library = is_library(module)
        if library and function.__closure__ is None:
            self.library(function, module, function.__name__, parent, name)
            return
        if not library and (reason := impure_module(module)) is not None:
            raise self.refuse(reason, REMEDY, parent, name)
        if not self.enter(id(function), function, parent, kind, name):
            self.escapes |= method and facts_of(function.__code__).self_escapes
            return
        place = self.places[-1]
        facts = facts_of(function.__code__)
        self.out += (FUNCTION, facts)
        self.code(facts, library)
        self.escapes |= method and facts.self_escapes
        if function.__dict__:
            self.attributes(function.__dict__, place)
        self._arguments(function, place)
        for use, cell in zip(facts.outer, function.__closure__ or (), strict=True):
            self._cell(use, cell, place)
        if library:  # a wrapper made by a library around what its closure holds
            return
        for use in facts.globals:
            self._global(function, variables, use, place)
        for module in facts.imports:
            self._import(module)
        if facts.writes:
            self._check_writes(function, facts)

    def _arguments(self, function: types.FunctionType, place: Place | None) -> None:
        defaults, keyword_defaults = function.__defaults__, function.__kwdefaults__
        self.out.append(len(defaults) if defaults else 0)
        if defaults:
            for index, value in enumerate(defaults):
                self.value(value, place, "default", index)
        if keyword_defaults:
            self.out.append(len(keyword_defaults))
            for key, value in keyword_defaults.items():
                self.out.append(key)
                self.value(value, place, "kwdefault", key)
        self.out.append(END)

    def _cell(self, use: Use, cell: types.CellType, place: Place | None) -> None:
        try:
            value = cell.cell_contents
        except ValueError:
            self.out.append(MISSING)
            return
        kind = type(value)
        if kind is types.ModuleType:
            self.module(value, use, place, "cell")
        elif isinstance(value, type):
            # The cell `__class__` serves `super()`: it doesn't make instances.
            self.class_value(value, use.name != "__class__" or use.bare)
        elif not use.bare and _is_users_object(kind):
            self.owner(value, place, "cell", use.name)
        else:
            self.variable(cell, id(cell), value, place, "cell", use.name)

    def _global(
        self, function: types.FunctionType, variables: dict, use: Use, place: Place | None
    ) -> None:
        name = use.name
        value = variables.get(name, MISSING)
        if value is MISSING:
            value = function.__builtins__.get(name, MISSING)
            place = None
        kind = type(value)
        if kind is types.ModuleType:
            self.module(value, use, place, "global")
        elif isinstance(value, type):
            self.class_value(value, use.bare)
        elif value is MISSING:
            self.out.append(MISSING)
        elif not use.bare and _is_users_object(kind):
            self.owner(value, place, "global", name)
        else:
            self.variable(variables, (id(variables), name), value, place, "global", name)

    def _import(self, name: str) -> None:
        parts = name.split(".")
        module = sys.modules.get(name), sys.modules.get(parts[0])
        if None in module:
            raise self.refuse(
                f"imports `{name}`, which is not loaded",
                "import it at the top of the file",
                None,
                name,
            )
        for each in module:
            self.module(each, Use(name, (), True), None, "import")

    def _check_writes(self, function: types.FunctionType, facts: CodeFacts) -> None:
        for write in facts.writes:
            if isinstance(_target(function, write), _CONTAINERS):
                target = ".".join((write.root, *write.chain))
                raise CannotSnapshot(
                    f"{write.what} `{target}`, which outlives the call",
                    "return the value instead",
                    (),
                    facts.file,
                    write.line,
                )

    # --- modules, attributes ------------------------------------------------------------------

    def module(self, module: types.ModuleType, use: Use, parent: Place | None, kind: str) -> None:
        """Writes what `use` reads of a Python module."""
        if (reason := impure_module(module.__name__)) is not None:
            raise self.refuse(reason, REMEDY, parent, use.name)
        library = is_library(module.__name__)
        self.out += (MODULE, module if library else module.__name__)
        place = None if parent is None else (parent, kind, use.name)
        for chain in use.chains:
            self._module_attribute(module, chain, place)
        if use.bare:
            self._whole_module(module, use, place)

    def _module_attribute(
        self, module: types.ModuleType, chain: tuple[str, ...], parent: Place | None
    ) -> None:
        library = is_library(module.__name__)
        if not library:
            parent = self._module_place(module, parent)
        name, rest = chain[0], chain[1:]
        value = getattr(module, name, MISSING) if library else vars(module).get(name, MISSING)
        if value is MISSING:
            if "__getattr__" in vars(module):
                raise self.refuse(
                    f"`{module.__name__}.{name}` is computed by the module's `__getattr__`",
                    "import the name itself",
                    None,
                    name,
                )
            self.out.append(MISSING)
        elif type(value) is types.ModuleType:
            use = Use(name, (rest,) if rest else (), not rest)
            self.module(value, use, None if library else parent, "attr")
        elif isinstance(value, type):
            self.class_value(value, not rest)
        else:
            variables = vars(module)
            self.variable(
                variables, (id(variables), name), value, None if library else parent, "attr", name
            )

    def _module_place(self, module: types.ModuleType, place: Place | None) -> Place | None:
        """The one place of a user's module, however often and by whatever name it is used."""
        number = self.memo.get(id(module))
        if number is None:
            self.memo[id(module)] = number = len(self.places)
            self.places.append(None if id(module) in self.pinned else place)
            self.objects.append(module)
        elif place is None and self.places[number] is not None:
            self.newly_pinned.add(id(module))
        return self.places[number]

    def _whole_module(self, module: types.ModuleType, use: Use, place: Place | None) -> None:
        library = is_library(module.__name__)
        if self.names is EVERY_NAME and not library:
            raise self.refuse(
                f"reads attributes of the module `{module.__name__}` by computed names",
                "name them in the code",
                None,
                use.name,
            )
        names = self.scope.names
        for name in [name for name in vars(module) if name in names]:
            if library:
                self._refuse_impure(module, name)
            else:
                self.out.append(name)
                self._module_attribute(module, (name,), place)
        self.out.append(END)

    def _refuse_impure(self, module: types.ModuleType, name: str) -> None:
        value = vars(module)[name]
        reason = (
            impure_module(value.__name__)
            if isinstance(value, types.ModuleType)
            else impure_function(module.__name__, name)
            if callable(value)
            else None
        )
        if reason is not None and name in self.scope.names:
            raise self.refuse(reason, REMEDY, None, name)

    def library(
        self, obj: Any, module: str | None, name: str, parent: Place | None, at: Any
    ) -> None:
        """Writes a function of a library by identity, or refuses one that isn't pure."""
        if (reason := impure_function(module, name)) is not None:
            raise self.refuse(reason, REMEDY, parent, at)
        self.out += (LIBRARY, obj)

    def class_value(self, cls: type, constructs: bool) -> None:
        """Writes a class that code names; `constructs`: code may make instances of it."""
        write_class(self, cls, constructs)

    def class_body(self, cls: type, facts: ClassFacts, special: bool, constructs: bool) -> None:
        """Writes the members of a user's class that reached code can use."""
        write_members(self, cls, facts, special, constructs)

    def attributes(self, variables: dict, place: Place | None) -> None:
        """Writes those attributes that reached code names."""
        names = self.names
        for name, value in variables.items():
            if name in names:
                self.out.append(name)
                self.value(value, place, "attr", name)
        self.out.append(END)


def _target(function: types.FunctionType, write: Write) -> Any:
    """What a `Write` stores into, or None when that can't be told."""
    if write.kind == "self":
        return None
    if write.kind == "global":
        value = function.__globals__.get(write.root)
    else:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        try:
            value = cells[write.root].cell_contents
        except ValueError:
            return None
    return follow(value, write.chain)


def follow(value: Any, chain: Iterable[str]) -> Any:
    """The object at the end of an attribute path, without running descriptors; None if none."""
    for name in chain:
        variables = getattr(value, "__dict__", None)
        if not isinstance(variables, dict) or name not in variables:
            return None
        value = variables[name]
    return value


def _is_users_object(kind: type) -> bool:
    return kind not in HANDLERS and class_facts(kind).kind in ("instance", "module")
