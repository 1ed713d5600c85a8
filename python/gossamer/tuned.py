"""Variants and schedules that were measured, on the disk, so that no other process measures them.

An entry is JSON under a name (`disk_cache.py`) made of all that the times depend on: the program's
bytes, the runtime, the processor, its caches, the number of threads, and the shape class of the
graphs. An entry that is damaged or of another form is as none: all is measured anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch
from torch import Tensor

from gossamer import disk_cache, native
from gossamer.machine import library_identity, processor

MEASURED = "measured in this process"
FOUND = "measured by an earlier process"

ShapeClass = tuple[int, ...]


def shape_class_of(sizes: Sequence[int]) -> ShapeClass:
    """As in Tuning.h: each size to a power of two."""
    return tuple(size.bit_length() for size in sizes)


def tune(
    program: Tensor, graphs: Sequence[Tensor], inputs: Sequence[Tensor], sizes: Sequence[int]
) -> str:
    """Have later runs of a program on graphs of such sizes go the fastest way.

    Returns:
        Where that is from; when there was an entry of no use, with what was found in it.
    """
    name = _entry_of(program, sizes)
    entry, problem = disk_cache.read(name), ""
    if entry is not None:
        try:
            native.ops().keep_tuned(program, sizes, _numbers_in(entry))
            return FOUND
        except ValueError as error:
            problem = f" (ignored {disk_cache.folder() / name}: {error})"
    numbers = native.ops().tune(program, graphs, inputs)
    disk_cache.write(name, json.dumps(numbers).encode())
    return MEASURED + problem


def _numbers_in(entry: bytes) -> list[int]:
    """The numbers of an entry.

    Raises:
        ValueError: it holds something else.
    """
    numbers = json.loads(entry)
    if not isinstance(numbers, list) or any(type(number) is not int for number in numbers):
        raise ValueError(f"expected a list of integers, but found {entry[:40]!r}")
    return numbers


def _entry_of(program: Tensor, sizes: Sequence[int]) -> str:
    machine = [library_identity("gossamer_torch"), processor(), *native.ops().cache_sizes()]
    asked = [*machine, torch.get_num_threads(), *shape_class_of(sizes)]
    parts = (b"tuned way", memoryview(program.numpy()), json.dumps(asked).encode())
    return disk_cache.name_of(parts)
