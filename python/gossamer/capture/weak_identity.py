"""A cache from objects to what is known about them, by identity and without keeping them alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class WeakIdentityCache:
    """Calls ``make(obj)`` once per live object and returns the same result until `obj` dies.

    Looked up by ``id``, which is several times faster than a WeakKeyDictionary and does not
    call user-defined ``__hash__`` or ``__eq__``. An entry is dropped when its object dies,
    before its id can be used again; the identity check makes that independent of timing.
    """

    __slots__ = ("_entries", "_make")

    def __init__(self, make: Callable[[Any], Any]) -> None:
        """An empty cache that fills itself with ``make(obj)``."""
        self._entries: dict[int, tuple[weakref.ref, Any]] = {}
        self._make = make

    def __len__(self) -> int:
        """How many objects are known; each of them is alive."""
        return len(self._entries)

    def __call__(self, obj: Any) -> Any:
        """What ``make(obj)`` returned when `obj` was first seen."""
        entry = self._entries.get(id(obj))
        if entry is not None and entry[0]() is obj:
            return entry[1]
        return self._add(obj)

    def forget(self, obj: Any) -> None:
        """Drops what is known about `obj`."""
        self._entries.pop(id(obj), None)

    def _add(self, obj: Any) -> Any:
        key, entries = id(obj), self._entries
        made = self._make(obj)

        def forget(ref: weakref.ref) -> None:
            if (entry := entries.get(key)) is not None and entry[0] is ref:
                del entries[key]

        # Two threads may both get here: the first entry wins, so that a token stays the same.
        entry = entries.setdefault(key, (weakref.ref(obj, forget), made))
        return entry[1] if entry[0]() is obj else made
