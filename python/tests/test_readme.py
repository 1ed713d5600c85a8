"""The Python code in README.md runs, one block after the other, and falls back nowhere."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import torch

import gossamer as gs

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_readme_code_runs(tmp_path, capsys):
    blocks = BLOCK.findall(README.read_text())
    assert blocks, "README.md shows no Python code"
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.errors.FallbackWarning)
        for number, block in enumerate(blocks):
            # A UDF's source is looked up by file name, so the code needs a file.
            path = tmp_path / f"block{number}.py"
            path.write_text(block)
            exec(compile(block, str(path), "exec"), names)
    assert capsys.readouterr().out.strip(), "the report is empty"

    graph, x = names["graph"], torch.randn(3, 16)
    torch.testing.assert_close(names["fast"](graph, x), names["attention"](graph, x))
