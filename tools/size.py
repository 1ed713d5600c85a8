"""Reports files and functions over the size budget; for review, never a failure.

Budget: 400 lines a file, 40 a function. Functions of Python are found with its parser; those of
C++ by their layout: clang-format puts the closing brace of a function under its first line.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE_LINES = 400
FUNCTION_LINES = 40
NO_FUNCTION = re.compile(r"\s*(namespace|class|struct|enum|union|extern|constexpr|static const)\b")
FUNCTION_NAME = re.compile(r"([\w:~]+)\(")


def main() -> int:
    """Prints totals by folder, then what is over the budget; always returns 0."""
    shown = subprocess.run(
        ["git", "ls-files", "*.cpp", "*.h", "*.td", "*.py", "dev"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    sources = {name: (ROOT / name).read_text().splitlines() for name in shown.stdout.split()}
    totals: dict[str, int] = {}
    for name, lines in sources.items():
        folder = "/".join(Path(name).parts[:2] if "/" in name else ["."])
        totals[folder] = totals.get(folder, 0) + len(lines)
    for folder, total in sorted(totals.items()):
        print(f"{total:7,} lines  {folder}")
    for name, lines in sources.items():
        if len(lines) > FILE_LINES:
            print(f"over {FILE_LINES}: {name} has {len(lines)} lines")
        for line, function, length in functions(name, lines):
            if length > FUNCTION_LINES:
                print(f"over {FUNCTION_LINES}: {name}:{line}: {function} has {length} lines")
    return 0


def functions(name: str, lines: list[str]) -> Iterator[tuple[int, str, int]]:
    """First line, name and length of each function of a file."""
    if name.endswith((".cpp", ".h")):
        yield from cpp_functions(lines)
    elif name.endswith(".py") or name == "dev":
        yield from python_functions(lines)


def python_functions(lines: list[str]) -> Iterator[tuple[int, str, int]]:
    """As `functions`; the docstring does not count."""
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            documented = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
            first = documented if documented else node.lineno
            yield node.lineno, node.name, (node.end_lineno or first) - first


def cpp_functions(lines: list[str]) -> Iterator[tuple[int, str, int]]:
    """As `functions`, for outermost functions and methods."""
    start: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        if start is None and line.rstrip().endswith("{") and indent <= 2:
            # A long signature may start some lines above its brace, at the same indentation.
            first = number - 1
            while first > 0 and lines[first].startswith(" " * (indent + 3)):
                first -= 1
            signature = " ".join(lines[first:number])
            found = FUNCTION_NAME.search(signature)
            if found and not NO_FUNCTION.match(signature):
                start, closing = (first + 1, found[1]), " " * indent + "}"
        elif start is not None and line.rstrip(";) ") == closing:
            yield *start, number - start[0] + 1
            start = None


if __name__ == "__main__":
    sys.exit(main())
