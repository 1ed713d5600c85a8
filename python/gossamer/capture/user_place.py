"""Where the user's code is on the stack."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import torch

_TORCH = str(Path(torch.__file__).parent)
_PACKAGE = str(Path(__file__).parents[1])
_STDLIB = sysconfig.get_paths()["stdlib"]


def is_library(file: str) -> bool:
    """Whether a source file is torch's, ours or Python's own."""
    if file.startswith((_TORCH, _PACKAGE, "<frozen")):
        return True
    return file.startswith(_STDLIB) and "site-packages" not in file


def user_place() -> tuple[str | None, int]:
    """File and line of the innermost frame on the stack that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, 0
