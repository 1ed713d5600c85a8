"""Captures on the disk, so that a process which has the code and values of an earlier one need not
trace: neither torch's tracing modules nor, with the programs on the disk as well, LLVM is loaded.

An entry is JSON (`plain_data.py`) under a name that is made of all that the trace depends on
(`stable_key.py`): the snapshot of the functions, schemas, modes, options, versions, our own source
files. What has no such name, or no plain form, is traced in each process. Refusals are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import astuple
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

from gossamer import disk_cache

from .call import CapturedCall
from .plain_data import NotPlainError, call_data, call_from, trace_data, trace_from
from .stable_key import stable_name
from .user_place import user_place
from .whole_record import Trace

if TYPE_CHECKING:
    from .session import Options

T = TypeVar("T")


class _Store(Generic[T]):
    """The entries of one kind of capture; `data` and `read` make JSON of it and back."""

    def __init__(self, kind: str, data: Callable[[T], dict], read: Callable[[dict], T]) -> None:
        self.kind = kind
        self._data = data
        self._read = read

    def name(self, options: Options, *keys: Hashable) -> str | None:
        """The name of the entry for a capture, or None when it cannot be kept.

        The line of the call is in it, because a report may show that line.
        """
        device = str(torch.get_default_device())
        return stable_name(self.kind, astuple(options), device, user_place(), *keys)

    def get(self, name: str | None) -> T | None:
        """The capture of that name."""
        payload = None if name is None else disk_cache.read(name)
        if payload is None:
            return None
        try:
            return self._read(json.loads(payload))
        except (NotPlainError, ValueError):  # another writer's: the next capture takes its place
            return None

    def put(self, name: str | None, capture: T) -> None:
        """Keep a capture, if it can be kept."""
        if name is None:
            return
        try:
            data = self._data(capture)
        except NotPlainError:
            return
        disk_cache.write(name, json.dumps(data).encode())


CALLS: _Store[CapturedCall] = _Store("call", call_data, call_from)
FORWARDS: _Store[Trace] = _Store("forward", trace_data, trace_from)
