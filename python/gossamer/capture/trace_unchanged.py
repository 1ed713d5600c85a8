"""Traces a graph call so that nothing of it is left in the user's objects."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .call import CapturedCall, Functions, GraphCall
from .errors import UntraceableError
from .session import Reached, Site, definition
from .snapshot import Snapshot, snapshot
from .substitute import substitute
from .tracer import trace_call


def trace_unchanged(site: Site, reached: Reached, scalars: tuple, rng: str) -> CapturedCall:
    """The captured call of functions that leave no trace in the user's objects.

    Copies of the functions are traced, so that one which changes its state in a way that no
    snapshot foresees does so in the copy, is found out, and runs eagerly from the first call.

    Raises:
        UntraceableError: a function cannot be traced, or changed what it reaches.
    """
    values: list[dict] = [{}, {}, {}]
    made: list[tuple[Callable, Snapshot]] = []

    def functions(symbols: list[torch.SymFloat]) -> Functions:
        for (index, path), symbol in zip(scalars, symbols, strict=True):
            values[index][path] = symbol
        copies = [
            None if function is None else substitute(function, replaced)
            for function, replaced in zip(site.functions, values, strict=True)
        ]
        made.extend((copy, snapshot(copy, traced=True)) for copy in copies if copy is not None)
        return Functions(*copies)

    call = trace_call(
        GraphCall(
            kind=site.kind,
            functions=functions,
            src=site.src,
            dst=site.dst,
            edge=site.edge,
            homogeneous=site.homogeneous,
            idtype=site.idtype,
            lifted=reached.tensors,
            num_scalars=len(scalars),
            initializers=dict(site.initializers),
            canonical_etype=site.canonical_etype,
            rng=rng,
            softmax_end=site.softmax_end,
        )
    )
    if not all(before.unchanged(copy) for copy, before in made):
        reason = "the function changes an object that outlives the call"
        raise UntraceableError(reason, *definition(site), "return what it computes instead")
    return call
