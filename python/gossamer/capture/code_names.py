"""What a code object names: computed once per code object from its bytecode.

A snapshot must find every value that code can reach. Bytecode says exactly which globals and
outer variables are loaded, and which attribute names and string constants occur; an attribute that
is not named (and not looked up by a computed name) cannot be read. Nested code (lambdas,
comprehensions, local functions and classes) belongs to the code that contains it.

Effects that are certain from the bytecode alone are found here too: writes to globals, to outer
variables and to attributes.
"""

from __future__ import annotations

import dis
import weakref
from dataclasses import dataclass, field
from types import CodeType

from gossamer.capture.purity import is_torch_file, words
from gossamer.capture.weak_identity import WeakIdentityCache

# Stands among names for all of them: attributes are looked up by computed names.
ANY_NAME = "*any*"

CONSTRUCTORS = words(
    "__init__ __new__ __post_init__ __init_subclass__ __set_name__ __setattr__ __delattr__"
)
MUTATORS = words(
    "add append appendleft clear discard extend extendleft insert pop popitem popleft remove "
    "reverse setdefault sort update"
)
_COMPUTED_LOOKUP = words(
    "__dict__ __getattribute__ __slots__ _buffers _modules _parameters asdict astuple "
    "attrgetter buffers children dir fields functional_call get_buffer get_parameter "
    "get_submodule methodcaller modules named_buffers named_children named_modules "
    "named_parameters parameters replace state_dict vars"
)
_REFUSED_ATTRIBUTES = {
    name: f"calls `{name}`, whose effect a compiled function would lose"
    for name in words(
        "add_module backward register_backward_hook register_buffer register_forward_hook "
        "register_forward_pre_hook register_full_backward_hook register_hook register_module "
        "register_parameter register_post_accumulate_grad_hook retain_grad"
    )
}
_SKIPPED = words("CACHE COPY_FREE_VARS EXTENDED_ARG MAKE_CELL NOP PRECALL PUSH_NULL RESUME")
_ATTRIBUTE_LOADS = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_GLOBAL_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_OUTER_LOADS = frozenset(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"))
_FAST_LOADS = frozenset(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"))
_SIMPLE_KEYS = _GLOBAL_LOADS | _OUTER_LOADS | _FAST_LOADS | {"LOAD_CONST", "LOAD_SMALL_INT"}
_KEEP_STATE = "compute with local variables and return the result instead"


@dataclass(slots=True)
class Use:
    """How code uses one global or outer variable.

    `chains` are the attribute paths read from it (``F.relu`` gives ``("relu",)``); `bare` says
    that the object itself is used as well.
    """

    name: str
    chains: tuple[tuple[str, ...], ...] = ()
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A store into, or a mutating call on, ``root.chain``; `kind`: "global", "outer" or "self"."""

    kind: str
    root: str
    chain: tuple[str, ...]
    what: str
    line: int


@dataclass(frozen=True, slots=True)
class Problem:
    """An effect that is certain from the bytecode."""

    reason: str
    remedy: str
    line: int


@dataclass(eq=False, slots=True, repr=False)
class CodeFacts:
    """What a snapshot must know about one code object; compared by identity.

    It stands for the code object in keys: it does not keep the code alive, and a key that holds
    it cannot be confused with one of another code object at the same address. `scopes` are those
    of the last walks that began here, see `reach.py`. `inspects`: the user's code may ask for
    the type or the text of a number, which a symbol that stands for the number does not have.
    `sees_sets`: the code may make a set, whose order is another in each process. `code` is the
    code object while it lives.
    """

    file: str
    line: int
    names: frozenset[str]
    globals: tuple[Use, ...]
    outer: tuple[Use, ...]
    imports: tuple[str, ...]
    writes: tuple[Write, ...]
    problem: Problem | None
    self_escapes: bool
    inspects: bool
    sees_sets: bool
    code: weakref.ref[CodeType]
    lines: dict[str, int]
    scopes: list = field(default_factory=list)

    def __repr__(self) -> str:
        """Where the code is."""
        return f"<code {self.file}:{self.line}>"


#: Names that code which asks for the type or the text of a value uses.
_INSPECTIONS = words(
    "isinstance issubclass type hasattr callable str repr format ascii bytes hash id vars dir "
    "__class__ __dict__ __name__ __str__ __repr__ __format__ __hash__ singledispatch"
)

_SET_STEPS = words("BUILD_SET SET_ADD SET_UPDATE")
_SETS = words("set frozenset")
#: Parts of a dict that these operators make a set of.
_SET_VIEWS = words("keys items")
_SET_OPERATORS = words("& | ^ -")


class _Scan:
    """Collects the facts of one code object and of the code nested in it."""

    def __init__(self, code: CodeType) -> None:
        self.root = code
        self.self_name = code.co_varnames[0] if code.co_argcount else None
        self.names: set[str] = set()
        self.globals: dict[str, Use] = {}
        self.outer = {name: Use(name) for name in code.co_freevars}
        self.imports: list[str] = []
        self.writes: list[Write] = []
        self.problem: Problem | None = None
        self.self_escapes = False
        self.inspects = False
        self.sees_sets = False
        self.set_operators = False
        self.lines: dict[str, int] = {}
        self._scan(code, frozenset())
        self.inspects |= not _INSPECTIONS.isdisjoint(self.names)
        self.sees_sets |= not _SETS.isdisjoint(self.names)
        self.sees_sets |= self.set_operators and not _SET_VIEWS.isdisjoint(self.names)

    def facts(self) -> CodeFacts:
        return CodeFacts(
            self.root.co_filename,
            self.root.co_firstlineno,
            frozenset(self.names),
            tuple(self.globals.values()),
            tuple(self.outer.values()),
            tuple(self.imports),
            tuple(self.writes),
            self.problem,
            self.self_escapes,
            self.inspects and not is_torch_file(self.root.co_filename),
            self.sees_sets,
            weakref.ref(self.root),
            self.lines,
        )

    def _scan(self, code: CodeType, owned: frozenset[str]) -> None:
        """`owned`: variables of enclosing scopes that belong to the root's own call."""
        owned |= set(code.co_cellvars)
        self._constants(code.co_consts, owned)
        steps = [step for step in dis.get_instructions(code) if step.opname not in _SKIPPED]
        line = code.co_firstlineno
        for index, step in enumerate(steps):
            line = step.starts_line if type(step.starts_line) is int else line
            position = step.positions.lineno if step.positions else None
            self._step(code, owned, steps, index, position or line)

    def _constants(self, constants: object, owned: frozenset[str]) -> None:
        for constant in constants:
            if isinstance(constant, str):
                self.names.add(constant)
                self.inspects |= "%" in constant
            elif isinstance(constant, tuple | frozenset):
                self._constants(constant, owned)
            elif isinstance(constant, CodeType):
                self._scan(constant, owned)

    def _step(self, code: CodeType, owned: frozenset[str], steps: list, at: int, line: int) -> None:
        op, arg = steps[at].opname, steps[at].argval
        self.inspects |= op.startswith(("FORMAT_", "MATCH_"))
        self.sees_sets |= op in _SET_STEPS
        self.set_operators |= op == "BINARY_OP" and steps[at].argrepr.rstrip("=") in _SET_OPERATORS
        if op in _GLOBAL_LOADS:
            self._named(arg, line)
            self._use(self.globals.setdefault(arg, Use(arg)), "global", steps, at, line)
            self._computed_lookup(arg, steps, at)
        elif op in _OUTER_LOADS and arg not in owned:
            self.lines.setdefault(arg, line)
            self._use(self.outer[arg], "outer", steps, at, line)
        elif op in _ATTRIBUTE_LOADS or op in ("LOAD_SUPER_ATTR", "IMPORT_FROM"):
            self._named(arg, line)
            if arg in _COMPUTED_LOOKUP or arg in ("getattr", "hasattr"):
                self.names.add(ANY_NAME)
            if arg in _REFUSED_ATTRIBUTES:
                self._refuse(_REFUSED_ATTRIBUTES[arg], "do this outside of the UDF", line)
        elif op == "IMPORT_NAME":
            self._import(steps, at, line)
        elif op == "MATCH_CLASS":
            self.names.add(ANY_NAME)
        elif op.startswith(("STORE_", "DELETE_")):
            self._store(code, owned, steps, at, line)
        if self._is_self(code, op, arg):
            self._use_of_self(steps, at, line)

    def _named(self, name: str, line: int) -> None:
        self.names.add(name)
        self.lines.setdefault(name, line)

    def _refuse(self, reason: str, remedy: str, line: int) -> None:
        if self.problem is None:
            self.problem = Problem(reason, remedy, line)

    def _use(self, use: Use, kind: str, steps: list, at: int, line: int) -> None:
        chain = _chain_after(steps, at)
        if chain:
            if chain not in use.chains:
                use.chains += (chain,)
        else:
            use.bare = True
        self._write_through(kind, use.name, steps, at, chain, line)

    def _write_through(
        self, kind: str, root: str, steps: list, at: int, chain: tuple[str, ...], line: int
    ) -> None:
        if chain and chain[-1] in MUTATORS:
            self.writes.append(Write(kind, root, chain[:-1], f"calls `{chain[-1]}` on", line))
        after = at + 1 + len(chain)
        if (
            after + 1 < len(steps)
            and steps[after].opname in _SIMPLE_KEYS
            and steps[after + 1].opname in ("STORE_SUBSCR", "DELETE_SUBSCR")
        ):
            self.writes.append(Write(kind, root, chain, "writes an item of", line))

    def _computed_lookup(self, name: str, steps: list, at: int) -> None:
        if name in ("setattr", "delattr"):
            self._refuse(f"calls `{name}`", _KEEP_STATE, steps[at].positions.lineno)
        elif name in ("getattr", "hasattr"):
            key = at + 2 + len(_chain_after(steps, at + 1))
            after = [step.opname for step in steps[key : key + 3]]
            plain = after[:2] == ["LOAD_CONST", "CALL"] or (
                after[:1] == ["LOAD_CONST"]
                and after[1:2]
                and after[1] in _SIMPLE_KEYS
                and after[2:] == ["CALL"]
            )
            if not plain or steps[at + 1].opname not in _SIMPLE_KEYS:
                self.names.add(ANY_NAME)
        elif name in _COMPUTED_LOOKUP:
            self.names.add(ANY_NAME)

    def _import(self, steps: list, at: int, line: int) -> None:
        level = steps[at - 2].argval
        if level != 0:
            self._refuse("has a relative import", "import at the top of the file", line)
        self.lines.setdefault(steps[at].argval, line)
        self.imports.append(steps[at].argval)

    def _is_self(self, code: CodeType, op: str, arg: object) -> bool:
        if self.self_name is None:
            return False
        if code is self.root and "FAST" in op and op.startswith("LOAD"):
            return arg == self.self_name or (isinstance(arg, tuple) and self.self_name in arg)
        captured = self.self_name in self.root.co_cellvars
        return captured and op in _OUTER_LOADS and arg == self.self_name

    def _use_of_self(self, steps: list, at: int, line: int) -> None:
        chain = _chain_after(steps, at)
        self._write_through("self", self.self_name, steps, at, chain, line)
        following = steps[at + 1].opname if at + 1 < len(steps) else ""
        looked_up = (
            at > 0
            and steps[at - 1].opname == "LOAD_GLOBAL"
            and steps[at - 1].argval in ("getattr", "hasattr")
        )
        harmless = looked_up or following in ("STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR")
        if isinstance(steps[at].argval, tuple) or not (chain or harmless):
            self.self_escapes = True

    def _store(
        self, code: CodeType, owned: frozenset[str], steps: list, at: int, line: int
    ) -> None:
        op, name = steps[at].opname, steps[at].argval
        if op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            self._refuse(f"writes the global variable `{name}`", _KEEP_STATE, line)
        elif op in ("STORE_DEREF", "DELETE_DEREF") and name not in owned:
            self._refuse(f"writes the outer variable `{name}`", _KEEP_STATE, line)
        elif op in ("STORE_ATTR", "DELETE_ATTR"):
            self._named(name, line)
            under_construction = (
                code.co_name in CONSTRUCTORS
                and code.co_argcount
                and at > 0
                and steps[at - 1].opname in _FAST_LOADS
                and steps[at - 1].argval == code.co_varnames[0]
            )
            if not under_construction:
                self._refuse(f"writes the attribute `{name}`", _KEEP_STATE, line)


def _chain_after(steps: list, at: int) -> tuple[str, ...]:
    """The attribute names that are read, one from the other, from what step `at` loads."""
    end = at + 1
    while end < len(steps) and steps[end].opname in _ATTRIBUTE_LOADS:
        end += 1
    return tuple(step.argval for step in steps[at + 1 : end])


def _make(code: CodeType) -> CodeFacts:
    return _Scan(code).facts()


facts_of = WeakIdentityCache(_make)
