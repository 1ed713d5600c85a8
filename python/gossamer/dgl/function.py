"""`dgl.function`: the built-in message and reduce functions of `gossamer.function`."""

import difflib

from gossamer.function import *  # noqa: F403
from gossamer.function import __all__


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __all__, n=1, cutoff=0.0)
    raise AttributeError(
        f"gossamer.dgl.function has no {name!r}; the nearest name it has is {near[0]!r}"
    )
