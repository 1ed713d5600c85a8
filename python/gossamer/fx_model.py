"""A trace leaves the model as it was: attributes that forward assigns are put back and reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx, nn

_CONTAINERS = (list, dict, set)
_CONSTANT = re.compile(r"_.*(constant_?|_obj)\d+")  # what fx itself adds to the root of a trace


@contextmanager
def traced_copy(root: Any) -> Iterator[Any]:
    """What is traced in place of a model: a shallow copy, to which submodules can be added.

    Raises:
        TraceError: forward changed an attribute of the model or of a submodule; it is as before.
    """
    if not isinstance(root, nn.Module):
        yield root
        return
    saved = {name: _Saved(module) for name, module in root.named_modules()}
    traced = object.__new__(type(root))  # copy.copy of a GraphModule makes another class
    vars(traced).update(vars(root), _modules=dict(root._modules))
    try:
        yield traced
    finally:
        changes = _assigned(root, traced)
        for name, module in saved.items():
            changes += [f"{name}.{attribute}".lstrip(".") for attribute in module.restore()]
    if changes:
        raise fx.proxy.TraceError(
            f"forward changes {', '.join(f'self.{change}' for change in changes)}, which the trace "
            "would do only once; return the value, or update a buffer in place"
        )


def _assigned(root: nn.Module, traced: nn.Module) -> list[str]:
    """Attributes that were assigned on the copy."""
    before = vars(root)
    return [
        name
        for name, value in vars(traced).items()
        if name != "_modules" and before.get(name) is not value
        if name in before or not _CONSTANT.fullmatch(name)
    ]


class _Saved:
    """The attributes of one module at one moment."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._attributes = dict(vars(module))
        self._contents = {
            name: (value, value.copy())
            for name, value in vars(module).items()
            if type(value) in _CONTAINERS
        }

    def restore(self) -> list[str]:
        """Put everything back; the names of what was changed."""
        now = vars(self._module)
        names = {**self._attributes, **now}
        changed = [n for n in names if now.get(n) is not self._attributes.get(n) or n not in now]
        now.clear()
        now.update(self._attributes)
        for name, (value, content) in self._contents.items():
            if not _same_items(value, content):
                changed.append(name)
                value.clear()
                (value.extend if isinstance(value, list) else value.update)(content)
        return changed


def _same_items(value: Any, content: Any) -> bool:
    if len(value) != len(content):
        return False
    if isinstance(value, dict):
        return all(key in value and value[key] is item for key, item in content.items())
    if isinstance(value, set):
        return value == content
    return all(a is b for a, b in zip(value, content, strict=True))
