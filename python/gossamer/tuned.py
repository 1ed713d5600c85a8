"""Schedules that were measured, on the disk, so that no other process measures them again.

An entry is JSON under a name (`disk_cache.py`) made of all that the times depend on: the program's
bytes, the runtime, the processor, its caches, the number of threads, the variant that runs, and the
shape class of the graphs. An entry that is damaged or of another form is as none: the schedules are
measured anew.
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

TuningClass = tuple[int, ...]


def class_of(program: Tensor, sizes: Sequence[int]) -> TuningClass:
    """What has schedules of its own: the variant that runs on graphs of these ``sizes``, and their
    shape class, as in Tuning.h: each size to a power of two.
    """
    return (native.variant(program, sizes).number, *(size.bit_length() for size in sizes))


def tune(
    program: Tensor, arrays: Sequence[Tensor], inputs: Sequence[Tensor], sizes: Sequence[int]
) -> str:
    """Have later runs of a program on graphs of such sizes go by the fastest schedules.

    Returns:
        Where the schedules are from; when there was an entry of no use, with what was found in it.
    """
    name = _entry_of(program, sizes)
    entry, problem = disk_cache.read(name), ""
    if entry is not None:
        try:
            native.ops().keep_tuned(program, sizes, _numbers_in(entry))
            return FOUND
        except ValueError as error:
            problem = f" (ignored {disk_cache.folder() / name}: {error})"
    numbers = native.ops().tune(program, arrays, inputs, sizes)
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
    asked = [*machine, torch.get_num_threads(), *class_of(program, sizes)]
    parts = (b"tuned schedules", memoryview(program.numpy()), json.dumps(asked).encode())
    return disk_cache.name_of(parts)
