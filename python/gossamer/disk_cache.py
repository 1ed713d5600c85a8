"""Entries on the disk that outlive the process: compiled programs, captured calls, and measured
schedules.

A folder of files named by a digest of everything that decides their content. An entry starts with
the digest of its content, which is checked before use; a damaged one is deleted. The folder belongs
to the user alone; one that others can write to is not used, because its content is code.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import struct
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

CACHE_BYTES = 256 * 2**20
_DIGEST_BYTES = 32


def folder() -> Path:
    """Where entries are kept: `gossamer` in `$XDG_CACHE_HOME`, or in `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gossamer"


def name_of(parts: Iterable[bytes | memoryview]) -> str:
    """The name of the entry that these parts decide; parts that are cut elsewhere differ."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.hexdigest()


def read(name: str) -> bytes | None:
    """The content of an entry; None when there is none, or a damaged one."""
    base = folder()
    if not _is_safe(base):
        return None
    path = base / name
    try:
        content = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != digest:
        path.unlink(missing_ok=True)
        return None
    return payload


def write(name: str, payload: bytes) -> None:
    """Keep an entry; others make room for it. What does not work is a warning."""
    base = folder()
    if not _is_safe(base):
        return
    try:
        # Readers see the whole entry or none.
        with tempfile.NamedTemporaryFile(dir=base, delete=False) as file:
            file.write(hashlib.sha256(payload).digest() + payload)
        os.replace(file.name, base / name)
        _make_room(base, len(payload))
    except OSError as error:
        warnings.warn(f"a compiled program was not kept on disk: {error}", stacklevel=3)


@functools.cache
def _is_safe(base: Path) -> bool:
    """Whether a folder is ours alone; made when it is missing. Says so once when it is not."""
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(base)
    except OSError as error:
        warnings.warn(f"compiled programs are not kept on disk: {error}", stacklevel=4)
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        problem = "is not a folder of this user"
    elif status.st_mode & 0o077:
        problem = "can be read or written by others; chmod 700 it"
    else:
        return True
    warnings.warn(f"compiled programs are not kept on disk: {base} {problem}", stacklevel=4)
    return False


#: Bytes in a folder when this process last looked, and what it wrote since.
_used: dict[Path, int] = {}


def _make_room(base: Path, written: int) -> None:
    """Note what was written. Only when that may be too much, the folder is looked through."""
    used = _used.get(base)
    if used is not None:
        used += written
    if used is None or used > CACHE_BYTES:
        used = _drop_oldest(base)
    _used[base] = used


def _drop_oldest(base: Path) -> int:
    """When there is too much, delete what was not used for longest, so that a quarter is free.

    Returns the bytes that are left.
    """
    entries = []
    for path in base.iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # another process dropped it
        entries.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    if total <= CACHE_BYTES:
        return total
    for _, size, path in sorted(entries):
        if total <= CACHE_BYTES * 3 // 4:
            break
        path.unlink(missing_ok=True)
        total -= size
    return total
