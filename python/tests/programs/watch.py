"""Outside evidence: which Python functions and torch operators a call really runs."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

PROGRAMS = str(Path(__file__).resolve().parent)


@contextmanager
def functions_called() -> Iterator[set[CodeType]]:
    """The code of every Python function that starts in the block, in any thread."""
    seen: set[CodeType] = set()

    def hook(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def user_functions(seen: set[CodeType]) -> set[str]:
    """Of the programs' functions those that take a batch of edges or of nodes."""
    return {
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        for code in seen
        if code.co_filename.startswith(PROGRAMS)
        and {"edges", "nodes"} & set(code.co_varnames[: code.co_argcount])
    }


def eager_engine(seen: set[CodeType]) -> set[str]:
    return {
        code.co_qualname
        for code in seen
        if Path(code.co_filename).parts[-2:] == ("gossamer", "eager.py")
    }


class Operators(TorchDispatchMode):
    """Counts the operators that reach the dispatcher while not `paused`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.paused = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not self.paused:
            self.seen[func.name()] += 1
        return func(*args, **(kwargs or {}))

    def outside(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """`method`, with what it runs left out of the count."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.paused += 1
            try:
                return method(*args, **kwargs)
            finally:
                self.paused -= 1

        return call


def resident_bytes(key: str = "VmRSS") -> int:
    """`VmRSS`, or `VmHWM` for the peak since `reset_peak`."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(key))


def reset_peak() -> None:
    """Makes VmHWM start again from the present size (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
