"""What decides, beside the user's code, what a capture makes of it: versions, and our own code."""

from __future__ import annotations

import functools
import hashlib
import sys
import time
from pathlib import Path

import numpy
import torch

_STARTED = time.time_ns()


@functools.cache
def _own_files() -> str | None:
    """A digest of our source files; None when they are not there as files, or when one was changed
    after we were imported.
    """
    base = Path(__file__).parent
    digest = hashlib.sha256()
    paths = sorted(base.rglob("*.py"))
    if Path(__file__) not in paths:
        return None
    for path in paths:
        if path.stat().st_mtime_ns >= _STARTED:
            return None
        content = path.read_bytes()
        digest.update(f"{path.relative_to(base)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def identity() -> tuple[str, ...] | None:
    """Versions of all that a capture relies on; None when they cannot be told.

    The bytecode of a UDF belongs to one version of Python; functions of torch, numpy and DGL are
    known by name.
    """
    own = _own_files()
    if own is None:
        return None
    dgl = sys.modules.get("dgl")
    return (
        own,
        sys.version,
        str(sys.flags),
        f"{torch.__version__} {torch.version.git_version}",
        numpy.__version__,
        "" if dgl is None else str(getattr(dgl, "__version__", "unknown")),
    )
