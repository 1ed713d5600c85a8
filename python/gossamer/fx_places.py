"""Where traced code is written."""

from __future__ import annotations

import functools
from typing import Any

from torch import fx, nn

from gossamer.capture.user_place import is_library, user_place


def code_fields(function: Any) -> dict[str, Any]:
    """Where a function is written: generated code says so in its file name."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, nn.Module):
        function = function.forward
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    return {
        "co_name": code.co_name,
        "co_filename": code.co_filename,
        "co_firstlineno": code.co_firstlineno,
    }


def placed(error: Exception) -> fx.proxy.TraceError:
    """The error with the user's line that it passed through last."""
    file, line = user_place()
    traceback = error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not is_library(name):
            file, line = name, traceback.tb_lineno
        traceback = traceback.tb_next
    kind = "" if isinstance(error, fx.proxy.TraceError) else f"{type(error).__name__}: "
    return fx.proxy.TraceError(f"{file}:{line}: {kind}{error}")
