"""Fails when a stage uses one that it may not: ARCHITECTURE.md's table, checked.

C++ stages are the folders `gossamer/<stage>/`. A stage may include itself, what the table's last
column names for it, and what those may use in turn. MLIR and LLVM are open to stages that reach
"MLIR" this way, torch to `gossamer/torch/` only.

The Python package reaches the shared libraries through `native.py` (torch operators) and
`compiler.py` (C API) only, and no module imports, while it is loaded, one that imports it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
ROW = re.compile(r"^\|\s*`gossamer/(\w+)/`\s*\|.*\|([^|]*)\|\s*$", re.MULTILINE)
EXTERNAL = {"mlir": "MLIR", "llvm": "MLIR", "torch": "torch", "ATen": "torch", "c10": "torch"}
# The modules that load the shared libraries: one for each.
LOADERS = {"gossamer.native", "gossamer.compiler"}


def allowed_stages(architecture: str) -> dict[str, set[str]]:
    """What each C++ stage may use, by the table in the text of ARCHITECTURE.md, closed.

    Raises:
        ValueError: there is no such table, or it names a stage that has no row.
    """
    # "nothing (no LLVM, no torch)": what is in parentheses explains.
    cells = {stage: re.sub(r"\(.*?\)", "", cell) for stage, cell in ROW.findall(architecture)}
    direct = {s: set(re.findall(r"\w+", cell)) - {"nothing"} for s, cell in cells.items()}
    unknown = set().union(*direct.values()) - direct.keys() - {"MLIR"} if direct else {"any stage"}
    if unknown:
        raise ValueError(f"ARCHITECTURE.md has no row for {', '.join(sorted(unknown))}")
    return {stage: reachable(stage, direct) for stage in direct}


def reachable(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """`start` and all that can be reached from it."""
    found, waiting = {start}, [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def cpp_violations(root: Path, allowed: Mapping[str, set[str]]) -> Iterator[str]:
    """One line for each include that the table does not allow, and each stage without a row."""
    for path in sorted((root / "gossamer").rglob("*")):
        if path.suffix not in (".h", ".cpp", ".td"):
            continue
        stage = path.relative_to(root).parts[1]
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            reason = forbidden(match[1], stage, allowed)
            if reason:
                line = text.count("\n", 0, match.start(1)) + 1
                yield f'{path.relative_to(root)}:{line}: includes "{match[1]}", but {reason}'


def forbidden(include: str, stage: str, allowed: Mapping[str, set[str]]) -> str | None:
    """Why `stage` may not include this, or None."""
    if stage not in allowed:
        return f"gossamer/{stage}/ has no row in ARCHITECTURE.md"
    top, _, rest = include.partition("/")
    if top == "gossamer":
        used = rest.partition("/")[0]
        if used not in allowed[stage]:
            return f"gossamer/{stage}/ may not use gossamer/{used}/"
        return None
    needed = EXTERNAL.get(top.removesuffix("-c"))
    if needed == "MLIR" and "MLIR" not in allowed[stage]:
        return f"gossamer/{stage}/ may not use MLIR or LLVM"
    if needed == "torch" and stage != "torch":
        return "only gossamer/torch/ may use torch"
    return None


def python_violations(package: Path) -> Iterator[str]:
    """One line for each library load in other modules, and each import cycle."""
    modules = {module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text(), str(path)) for name, path in modules.items()}
    for name, tree in trees.items():
        if name not in LOADERS:
            for line in library_loads(tree):
                yield f"{modules[name]}:{line}: loads a library; only native.py and compiler.py may"
    # Importing a package's names at the top of its modules is what makes the package slow and
    # cyclic to load; the package file itself may import everything.
    edges = {name: set(imports(name, tree, modules)) for name, tree in trees.items()}
    for name, used in edges.items():
        for other in sorted(used):
            if name < other and name in reachable(other, edges):
                yield f"{modules[name]}: {name} and {other} import each other"


def module_name(path: Path, package: Path) -> str:
    """`gossamer.capture.tracer` for .../gossamer/capture/tracer.py."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def library_loads(tree: ast.Module) -> Iterator[int]:
    """Lines that import ctypes or call `load_library`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(alias.name == "ctypes" for alias in names):
                yield node.lineno
            case ast.ImportFrom(module="ctypes") | ast.Attribute(attr="load_library"):
                yield node.lineno


def imports(name: str, tree: ast.Module, modules: Mapping[str, Path]) -> Iterator[str]:
    """Modules of the package that `name` imports while it is loaded."""
    for statement in loaded_statements(tree.body):
        if isinstance(statement, ast.Import):
            targets = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
            inner = [f"{statement.module}.{alias.name}" for alias in statement.names]
            # `from gossamer import errors` imports the module, not names of the package.
            targets = [t if t in modules else statement.module for t in inner]
        else:
            continue
        yield from (t for t in targets if t in modules and t != name)


def loaded_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run while a module is loaded, without those under TYPE_CHECKING."""
    for statement in body:
        if isinstance(statement, ast.If):
            if "TYPE_CHECKING" not in ast.dump(statement.test):
                yield from loaded_statements(statement.body)
            yield from loaded_statements(statement.orelse)
        elif isinstance(statement, (ast.Try, ast.With)):
            yield from loaded_statements(statement.body)
        else:
            yield statement


def violations(root: Path) -> list[str]:
    """All complaints about the repository at `root`."""
    allowed = allowed_stages((root / "ARCHITECTURE.md").read_text())
    return [
        *cpp_violations(root, allowed),
        *python_violations(root / "python" / "gossamer"),
    ]


def main() -> int:
    """Prints the complaints; the exit status is 1 when there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    found = violations(parser.parse_args().root)
    print("\n".join(found) if found else "no stage uses a later one")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
