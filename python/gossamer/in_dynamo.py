"""Compiled modules inside `torch.compile`.

Dynamo does not look into a compiled call. It takes the call's graphs apart, into index arrays and
fields, and leaves the rest to AOTAutograd, which runs forward on tensors without data
(`nonstrict_trace`): graph calls become `gossamer::run_traced`, for gradients too, and what stands
between them becomes torch's own operators. A `TraceGuard` has torch compile anew when something has
changed that the code of the call reaches: an attribute, a function, a float, the mode.

Fields that forward leaves on a graph are results, written by dynamo.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gossamer import native
from gossamer.borrow import is_dgl_graph
from gossamer.capture.trace_guard import guard_number, guarded
from gossamer.capture.whole_arguments import rebuilt
from gossamer.errors import GraphError
from gossamer.frame import Frame
from gossamer.graph import Graph
from gossamer.on_tensors import graph_of
from gossamer.schema import RelationEnds, Schema
from gossamer.structure import Csr, Structure
from gossamer.traced_graph import TracedStructure

_GRAPH = "gossamer graph "
_DTYPES = {"int32": torch.int32, "int64": torch.int64}


# --- what dynamo traces ---------------------------------------------------------------------------


def call_in_dynamo(session: Any, function: Callable, args: tuple, kwargs: dict) -> Any:
    """The call of a compiled module or function, as dynamo sees it.

    Raises:
        GraphError: arguments that can't enter torch's compilers.
    """
    number = guard_number(session)
    graphs: list[Graph] = []
    flat_args = [_enter(arg, graphs) for arg in args]
    flat_kwargs = {name: _enter(arg, graphs) for name, arg in kwargs.items()}
    parts = [_parts(graph) for graph in graphs]
    if isinstance(function, nn.Module):
        result, fields = _traced_module(number, function, parts, flat_args, flat_kwargs)
    elif isinstance(function, types.FunctionType):
        result, fields = _traced_function(number, parts, flat_args, flat_kwargs)
    else:
        raise GraphError(
            "inside torch.compile a compiled module can be called, its methods can't; "
            "make a module whose forward is that method"
        )
    for graph, frames in zip(graphs, fields, strict=True):
        own = [*graph._node_frames, *graph._edge_frames]
        for frame, columns in zip(own, frames, strict=True):
            for name, column in columns.items():
                frame._columns[name] = column
    return result


def _enter(value: Any, graphs: list[Graph]) -> Any:
    """The value with graphs replaced by their numbers."""
    if isinstance(value, Graph):
        for number, known in enumerate(graphs):
            if known is value:
                return _GRAPH + str(number)
        graphs.append(value)
        return _GRAPH + str(len(graphs) - 1)
    if is_dgl_graph(value):
        raise GraphError(
            "a DGL graph can't enter torch.compile, which does not see into DGL's library; "
            "make a graph of it once, outside, with gs.from_dgl(graph), and pass that"
        )
    if isinstance(value, list):
        return [_enter(item, graphs) for item in value]
    if isinstance(value, tuple):
        return tuple([_enter(item, graphs) for item in value])
    if isinstance(value, dict):
        return {name: _enter(item, graphs) for name, item in value.items()}
    return value


def _parts(graph: Graph) -> tuple:
    """A graph as tensors and constants."""
    schema = graph._schema
    names = (
        schema.ntypes,
        tuple([(ends.src, ends.etype, ends.dst) for ends in schema.relations]),
        schema.src_ids,
        schema.dst_ids,
        schema.is_block,
    )
    kinds = [(each.homogeneous, each.is_block) for each in graph._structures]
    idtype = "int32" if graph._structures[0].src.dtype == torch.int32 else "int64"
    arrays = [
        [
            *_csr(each, "in_csr", each.dst, each.src, each.num_dst, each.num_src),
            *_csr(each, "out_csr", each.src, each.dst, each.num_src, each.num_dst),
        ]
        for each in graph._structures
    ]
    frames = [*graph._node_frames, *graph._edge_frames]
    batch = [
        {index: members.counts for index, members in found.items()}
        for found in (graph._batch_nodes, graph._batch_edges)
    ]
    return names, kinds, idtype, arrays, batch, [_columns(frame) for frame in frames]


def _csr(structure: Structure, name: str, *ends: Any) -> Csr:
    """As `Structure.in_csr` and `out_csr`, without the lock, which dynamo does not trace."""
    found = structure._cache.get(name)
    if found is None:
        found = structure._cache[name] = Csr(*torch.ops.gossamer.coo_to_csr(*ends))
    return found


def _columns(frame: Frame) -> dict[str, Tensor]:
    columns = frame._columns
    found = {name: columns[name] for name in columns}
    for name, column in found.items():
        if not isinstance(column, Tensor):
            raise GraphError(
                f"field {name!r} is computed when it is first read; read it before torch.compile"
            )
    return found


# --- what AOTAutograd traces ----------------------------------------------------------------------


@torch._dynamo.nonstrict_trace
def _traced_module(number: int, module: nn.Module, parts: list, args: list, kwargs: dict) -> tuple:
    return _run(number, module, parts, args, kwargs)


@torch._dynamo.nonstrict_trace
def _traced_function(number: int, parts: list, args: list, kwargs: dict) -> tuple:
    return _run(number, guarded(number).root, parts, args, kwargs)


def _run(number: int, function: Callable, parts: list, args: list, kwargs: dict) -> tuple:
    """The result, and for each frame of each graph the fields that forward left there."""
    from gossamer.compiled import call_regions

    graphs = [_graph(*part) for part in parts]
    frames = [[*graph._node_frames, *graph._edge_frames] for graph in graphs]

    def leave(value: Any) -> Any:
        is_graph = type(value) is str and value.startswith(_GRAPH)
        return graphs[int(value.removeprefix(_GRAPH))] if is_graph else value

    args = tuple(rebuilt(arg, leave) for arg in args)
    kwargs = rebuilt(kwargs, leave)
    result = call_regions(guarded(number).session, function, args, kwargs)
    _refuse_graphs(result)
    given = [part[-1] for part in parts]
    return result, [
        [_changed(frame, columns) for frame, columns in zip(own, before, strict=True)]
        for own, before in zip(frames, given, strict=True)
    ]


def _graph(
    names: tuple, kinds: list, idtype: str, arrays: list, batch: list, columns: list
) -> Graph:
    ntypes, relations, src_ids, dst_ids, is_block = names
    ends = tuple(RelationEnds(*relation) for relation in relations)
    schema = Schema(tuple(ntypes), ends, tuple(src_ids), tuple(dst_ids), is_block)
    structures = [
        TracedStructure(tensors, _DTYPES[idtype], homogeneous=homogeneous, is_block=block)
        for tensors, (homogeneous, block) in zip(arrays, kinds, strict=True)
    ]
    return graph_of(schema, structures, columns, batch)


def _changed(frame: Frame, before: dict[str, Tensor]) -> dict[str, Tensor]:
    gone = [name for name in before if name not in frame]
    if gone:
        raise GraphError(
            f"inside torch.compile forward can't remove the caller's field {gone[0]!r}; "
            "use graph.local_scope()"
        )
    return {name: frame[name] for name in frame if frame[name] is not before.get(name)}


def _refuse_graphs(value: Any) -> None:
    if isinstance(value, Graph):
        raise GraphError("inside torch.compile forward can't return a graph; return tensors")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            _refuse_graphs(item)


native.ops()
