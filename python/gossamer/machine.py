"""What names of entries on the disk say about this machine and the libraries on it."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

from gossamer import native


@functools.cache
def processor() -> str:
    """Name and features of the processor, as the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return platform.processor()
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags")
    return "\n".join(line for line in lines if line.split("\t")[0].strip() in wanted)


@functools.cache
def library_identity(name: str) -> str:
    """Changes with every build of ``lib<name>.so``, and needs no look into it."""
    status = native.library_path(name).stat()
    return f"{status.st_size} {status.st_mtime_ns}"
