"""Runs a program on a graph case: eager, compiled or on DGL; returns what came out and was left."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from programs.data import Rows, fill_parameters
from programs.graphs import AnyCase
from programs.library import Library, gossamer_library

COMPILES = "compiles"
FALLS_BACK = "falls back"
EITHER = "compiles or falls back"

Model = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Program:
    """A model, its inputs, the graphs it is legal on, and what compiling must do with it.

    `make(library, feat)` returns a module or function; `expect` is COMPILES (with no fallback),
    FALLS_BACK (right, and reported) or EITHER (only right). `builtin` says that no UDF reduces, so
    that DGL too writes zeros on a graph without edges.
    """

    name: str
    make: Callable[[Library, int], Model]
    rows: tuple[Rows, ...]
    kinds: frozenset[str] = frozenset({"homo", "bipartite", "block"})
    accepts: Callable[[AnyCase], bool] = lambda case: True
    expect: str = COMPILES
    builtin: bool = False
    feat: int = 3

    def runs_on(self, case: AnyCase) -> bool:
        return case.kind in self.kinds and self.accepts(case)

    def dgl_defines(self, case: AnyCase) -> bool:
        """False where a UDF reduces and there is no edge: api.md writes zeros, DGL nothing."""
        return self.builtin or case.num_edges > 0

    def build(self, library: Library, feat: int, dtype: torch.dtype) -> Model:
        """The model in `dtype`, with parameters that depend on the program's name only."""
        model = self.make(library, feat)
        if isinstance(model, nn.Module):
            fill_parameters(model, self.name)
            model.to(dtype).eval()
        return model

    def inputs(self, case: AnyCase, feat: int, dtype: torch.dtype) -> list[torch.Tensor]:
        """One tensor for each of `rows`, in order."""
        drawn: dict[str, torch.Tensor] = {}
        result = []
        for rows in self.rows:
            if rows.name in drawn and case.shares_rows(rows.where):
                result.append(drawn[rows.name][: case.count(rows.where)])
                continue
            seed = (case.name, rows.name, rows.where)
            drawn[rows.name] = rows.draw(case.count(rows.where), feat, dtype, *seed)
            result.append(drawn[rows.name])
        return result


def run(
    program: Program,
    case: AnyCase,
    library: Library,
    *,
    feat: int | None = None,
    dtype: torch.dtype = torch.float64,
    model: Model | None = None,
) -> dict[str, torch.Tensor]:
    """Outputs and fields left on the graphs by one call without grad, by name."""
    feat = feat or program.feat
    model = model or program.build(library, feat, dtype)
    graphs = case.build(library)
    with torch.no_grad():
        out = model(*graphs, *program.inputs(case, feat, dtype))
    return {**named_outputs(out), **fields_left(graphs)}


@functools.cache
def reference(program: Program, case: AnyCase, feat: int, dtype: torch.dtype):
    """The eager result on a `gs.Graph`: in float64 the reference of every comparison."""
    return run(program, case, gossamer_library(), feat=feat, dtype=dtype)


@functools.cache
def compiled(program: Program, library: Library, feat: int, dtype: torch.dtype) -> Model:
    """One compiled model for all graphs. FALLS_BACK and EITHER programs may fall back."""
    import gossamer as gs

    policy = "error" if program.expect == COMPILES else "eager"
    return gs.compile(program.build(library, feat, dtype), fallback=policy)


def named_outputs(out: Any, name: str = "out") -> dict[str, torch.Tensor]:
    """Flattens tuples, lists and dicts of tensors."""
    if isinstance(out, torch.Tensor):
        return {name: out.detach()}
    items = out.items() if isinstance(out, Mapping) else enumerate(out)
    named: dict[str, torch.Tensor] = {}
    for key, value in items:
        named.update(named_outputs(value, f"{name}.{key}"))
    return named


def fields_left(graphs: Any, name: str = "graph") -> dict[str, torch.Tensor]:
    """Every field on the graphs, by graph, type and name. DGL keeps a plain dict view of each."""
    if isinstance(graphs, (tuple, list)):
        left: dict[str, torch.Tensor] = {}
        for index, graph in enumerate(graphs):
            left.update(fields_left(graph, f"{name}{index}"))
        return left
    if graphs.is_block:
        left = {**_frame(graphs.srcdata, f"{name}.src"), **_frame(graphs.dstdata, f"{name}.dst")}
    else:
        left = {}
        for ntype in graphs.ntypes:
            left.update(_frame(graphs.nodes[ntype].data, f"{name}.node.{ntype}"))
    for relation in graphs.canonical_etypes:
        left.update(_frame(graphs.edges[relation].data, f"{name}.edge.{relation[1]}"))
    return left


def _frame(frame: Mapping[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {f"{name}.{key}": frame[key].detach() for key in list(frame.keys())}


def digest(program: Program, case: AnyCase, library: Library) -> str:
    """Of everything a recorded output depends on: endpoints, inputs and parameters."""
    model = program.build(library, program.feat, torch.float64)
    state = model.state_dict() if isinstance(model, nn.Module) else {}
    inputs = program.inputs(case, program.feat, torch.float64)
    sha = hashlib.sha256(case.kind.encode())
    for tensor in [*case.endpoint_tensors(), *inputs, *state.values()]:
        sha.update(repr((tuple(tensor.shape), str(tensor.dtype))).encode())
        sha.update(tensor.numpy().tobytes())
    return sha.hexdigest()[:16]
