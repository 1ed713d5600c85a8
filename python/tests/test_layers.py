"""tools/layers.py: the repository keeps its layers, and each kind of breach is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = """
| folder | holds | may use |
|---|---|---|
| `gossamer/ir/` | the dialect | MLIR |
| `gossamer/passes/` | rewrites | ir |
| `gossamer/program/` | programs | nothing (no LLVM) |
| `gossamer/codegen/` | code | passes, program |
| `gossamer/torch/` | operators | program |
"""


def load_tool():
    spec = importlib.util.spec_from_file_location("layers", ROOT / "tools" / "layers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layers = load_tool()


def repository(folder: Path, **files: str) -> Path:
    """A repository with the table above; `ir__A_h="..."` makes gossamer/ir/A.h."""
    (folder / "ARCHITECTURE.md").write_text(TABLE)
    (folder / "python" / "gossamer").mkdir(parents=True)
    for name, text in files.items():
        path = folder / (name.replace("__", "/").replace("_h", ".h").replace("_py", ".py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_repository_keeps_its_layers():
    assert layers.violations(ROOT) == []


def test_table_is_closed_over_what_the_used_stages_use():
    allowed = layers.allowed_stages(TABLE)
    assert allowed["codegen"] == {"codegen", "passes", "ir", "MLIR", "program"}
    assert allowed["program"] == {"program"}


def test_table_must_exist_and_name_known_stages():
    with pytest.raises(ValueError, match="any stage"):
        layers.allowed_stages("no table")
    with pytest.raises(ValueError, match="no row for jit"):
        layers.allowed_stages(TABLE.replace("passes, program", "jit"))


def test_allowed_includes_pass(tmp_path):
    root = repository(
        tmp_path,
        gossamer__codegen__A_h='#include "gossamer/ir/B.h"\n#include "llvm/ADT/Twine.h"\n',
        gossamer__torch__A_h="#include <torch/csrc/stable/library.h>\n#include <vector>\n",
    )
    assert layers.violations(root) == []


@pytest.mark.parametrize(
    ("include", "stage", "reason"),
    [
        ('"gossamer/codegen/Jit.h"', "ir", "may not use gossamer/codegen/"),
        ('"gossamer/ir/MpDialect.h"', "program", "may not use gossamer/ir/"),
        ('"mlir/IR/Value.h"', "program", "may not use MLIR or LLVM"),
        ("<llvm-c/Core.h>", "torch", "may not use MLIR or LLVM"),
        ("<torch/library.h>", "passes", "only gossamer/torch/ may use torch"),
        ("<vector>", "misc", "has no row"),
    ],
)
def test_forbidden_include_is_found_with_its_line(tmp_path, include, stage, reason):
    root = repository(tmp_path, **{f"gossamer__{stage}__A_h": f"\n#include {include}\n"})
    (found,) = layers.violations(root)
    assert found.startswith(f"gossamer/{stage}/A.h:2: ")
    assert reason in found


@pytest.mark.parametrize(
    "code", ["import ctypes", "from ctypes import CDLL", "torch.ops.load_library(path)"]
)
def test_only_two_modules_load_libraries(tmp_path, code):
    loaders = dict.fromkeys(["python__gossamer__native_py", "python__gossamer__compiler_py"], code)
    root = repository(tmp_path, python__gossamer__a_py=code, **loaders)
    (found,) = layers.violations(root)
    assert "a.py:1: loads a library" in found


def test_modules_that_import_each_other_are_found(tmp_path):
    root = repository(
        tmp_path,
        python__gossamer__a_py="from gossamer import b",
        python__gossamer__b_py="import gossamer.c",
        python__gossamer__c_py="from gossamer.a import f",
    )
    assert any("import each other" in line for line in layers.violations(root))


def test_import_inside_a_function_or_for_types_is_no_cycle(tmp_path):
    root = repository(
        tmp_path,
        python__gossamer__a_py="from gossamer import b",
        python__gossamer__b_py="if TYPE_CHECKING:\n    import gossamer.a\n"
        "def f():\n    import gossamer.a\n",
    )
    assert layers.violations(root) == []
