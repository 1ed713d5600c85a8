"""A model that is called with graphs, as one that is called with tensors only.

`torch.export`, AOTInductor and `torch.jit.trace` make programs of tensors. `OnTensors` is the model
for them: each graph among the arguments is replaced by its index arrays and fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.borrow import from_dgl, is_dgl_graph
from gossamer.errors import GraphError
from gossamer.frame import Frame
from gossamer.graph import Graph
from gossamer.schema import Schema
from gossamer.traced_graph import ARRAYS, TracedMembership, TracedStructure, arrays_of


class OnTensors(nn.Module):
    """A model called with tensors in place of graphs, for `torch.export` and `torch.jit.trace`.

    Args:
        model: a compiled module, or a module that contains some.
        args: arguments of one call, to show their form: graphs (also DGL's), tensors, and lists,
            tuples or dicts of them; anything else is kept as it is.

    The tensors stand in the order of the arguments. For a graph these are, relation by relation,
    the arrays (N + 1,), (E,), (E,) of its edges by destination node, then by source node:
    ``in_offsets, in_neighbors, in_edge_ids, out_offsets, out_neighbors, out_edge_ids``, int32, as
    the operator ``gossamer::coo_to_csr`` makes them from a list of edges; then node fields, by type
    and name, and edge fields; then, of a batch, how many nodes and edges each graph has. `names`
    lists them.

    Raises:
        GraphError: a graph of another form than the one in ``args``.

    Numbers of nodes and edges may change from call to call, features and types may not. Fields that
    forward leaves on a graph are not results.
    """

    def __init__(self, model: nn.Module, args: tuple):
        super().__init__()
        self.model = model
        self._forms = [_form(arg) for arg in args]

    @property
    def names(self) -> list[str]:
        """What each tensor is: ``"0.in_offsets"`` for an array of argument 0, and so on."""
        return [name for i, form in enumerate(self._forms) for name in form.names(str(i))]

    def tensors(self, args: tuple) -> tuple[Tensor, ...]:
        """The tensors for arguments of the same form."""
        if len(args) != len(self._forms):
            raise GraphError(f"expected {len(self._forms)} arguments, got {len(args)}")
        found: list[Tensor] = []
        for i, (form, arg) in enumerate(zip(self._forms, args, strict=True)):
            form.take(arg, str(i), found)
        return tuple(found)

    def export(self, args: tuple) -> torch.export.ExportedProgram:
        """The model without Python: for AOTInductor and everything else on `torch.export`.

        The first axis of each tensor may vary where the model lets it.

        Raises:
            errors.UnsupportedError: a graph call that is not compiled; it names line and reason.
        """
        auto = torch.export.Dim.AUTO
        tensors = self.tensors(args)
        dims = tuple({0: auto} if tensor.dim() else None for tensor in tensors)
        with torch.no_grad():
            return torch.export.export(self, tensors, dynamic_shapes=(dims,))

    def trace(self, args: tuple) -> torch.jit.ScriptModule:
        """The model as `torch.jit.trace` writes it.

        Raises:
            errors.UnsupportedError: as `export`.
            GraphError: forward computes with a number of rows, which a trace would fix.
        """
        plain = self.export(args).module(check_guards=False)
        plain._forward_pre_hooks.clear()  # they ask for shapes, which a trace can't
        _drop_shape_checks(plain.graph)
        plain.recompile()
        return torch.jit.trace(plain, self.tensors(args), check_trace=False)

    def forward(self, *tensors: Tensor) -> Any:
        """The model's result for the arguments that the tensors stand for."""
        left = list(reversed(tensors))
        args = [form.build(left) for form in self._forms]
        if left:
            raise GraphError(f"{len(left)} tensors more than the {len(self.names)} expected")
        return self.model(*args)


_SHAPE_CHECKS = {
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
}


def _drop_shape_checks(graph: torch.fx.Graph) -> None:
    """Leave what computes; refuse sizes that are computed with."""
    for node in reversed(graph.nodes):
        if node.target in _SHAPE_CHECKS:
            graph.erase_node(node)
    graph.eliminate_dead_code()
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sym_size.int):
        user = next(iter(node.users))
        raise GraphError(
            f"forward uses a number of rows in {user.target}, which torch.jit.trace would fix to "
            f"that of one graph; write -1 for it, or use export\n{user.stack_trace or ''}"
        )


def _form(value: Any) -> _Form:
    if is_dgl_graph(value):
        value = from_dgl(value)
    if isinstance(value, Graph):
        return _GraphForm(value)
    if isinstance(value, Tensor):
        return _TensorForm(value)
    if type(value) in (list, tuple):
        return _SequenceForm(type(value), [_form(item) for item in value])
    if type(value) is dict:
        return _DictForm({name: _form(item) for name, item in value.items()})
    return _Form(value)


class _Form:
    """An argument that is kept: a number, a name, None."""

    def __init__(self, value: Any):
        self._value = value

    def names(self, path: str) -> list[str]:
        """What each tensor is."""
        return []

    def take(self, value: Any, path: str, found: list[Tensor]) -> None:
        """Append the tensors of an argument of this form."""
        if type(value) is not type(self._value) or value != self._value:
            raise GraphError(f"argument {path} is {value!r}, expected {self._value!r} as before")

    def build(self, left: list[Tensor]) -> Any:
        """The argument, from the last of the tensors."""
        return self._value


class _TensorForm(_Form):
    def __init__(self, value: Tensor):
        self._rank = value.dim()

    def names(self, path: str) -> list[str]:
        return [path]

    def take(self, value: Any, path: str, found: list[Tensor]) -> None:
        if not isinstance(value, Tensor) or value.dim() != self._rank:
            what = f"{value.dim()} axes" if isinstance(value, Tensor) else type(value).__name__
            raise GraphError(f"argument {path}: expected a tensor of {self._rank} axes, got {what}")
        found.append(value)

    def build(self, left: list[Tensor]) -> Tensor:
        return left.pop()


class _SequenceForm(_Form):
    def __init__(self, kind: type, items: list[_Form]):
        self._kind, self._items = kind, items

    def names(self, path: str) -> list[str]:
        return [n for i, item in enumerate(self._items) for n in item.names(f"{path}.{i}")]

    def take(self, value: Any, path: str, found: list[Tensor]) -> None:
        if type(value) is not self._kind or len(value) != len(self._items):
            expected = f"a {self._kind.__name__} of {len(self._items)}"
            raise GraphError(f"argument {path}: expected {expected}, got {value!r}")
        for i, (item, each) in enumerate(zip(self._items, value, strict=True)):
            item.take(each, f"{path}.{i}", found)

    def build(self, left: list[Tensor]) -> Any:
        return self._kind([item.build(left) for item in self._items])


class _DictForm(_Form):
    def __init__(self, items: dict[Any, _Form]):
        self._items = items

    def names(self, path: str) -> list[str]:
        return [n for key, item in self._items.items() for n in item.names(f"{path}.{key}")]

    def take(self, value: Any, path: str, found: list[Tensor]) -> None:
        if type(value) is not dict or list(value) != list(self._items):
            raise GraphError(f"argument {path}: expected a dict of {list(self._items)}")
        for key, item in self._items.items():
            item.take(value[key], f"{path}.{key}", found)

    def build(self, left: list[Tensor]) -> Any:
        return {key: item.build(left) for key, item in self._items.items()}


class _GraphForm(_Form):
    def __init__(self, graph: Graph):
        self._scheme = _scheme(graph)
        self._schema = graph._schema
        self._idtype = graph.idtype
        self._kinds = [(each.homogeneous, each.is_block) for each in graph._structures]
        frames = (*graph._node_frames, *graph._edge_frames)
        self._fields = [(frame.kind, sorted(frame)) for frame in frames]
        self._batch = list(graph._batch_nodes), list(graph._batch_edges)

    def names(self, path: str) -> list[str]:
        ntypes, etypes = self._schema.ntypes, self._schema.etypes
        several = len(etypes) > 1
        found = [
            f"{path}.{etype}.{array}" if several else f"{path}.{array}"
            for etype in etypes
            for array in ARRAYS
        ]
        types = (*ntypes, *etypes)
        for name, (kind, fields) in zip(types, self._fields, strict=True):
            data = "ndata" if kind == "nodes" else "edata"
            where = f"{data}.{name}" if several or len(ntypes) > 1 else data
            found += [f"{path}.{where}.{field}" for field in fields]
        for kind, own, indices in zip(
            ("nodes", "edges"), (ntypes, etypes), self._batch, strict=True
        ):
            word = f"{path}.batch_num_{kind}"
            found += [f"{word}.{own[i]}" if len(own) > 1 else word for i in indices]
        return found

    def take(self, value: Any, path: str, found: list[Tensor]) -> None:
        value = from_dgl(value) if is_dgl_graph(value) else value
        if not isinstance(value, Graph):
            raise GraphError(f"argument {path}: expected a graph, got {type(value).__name__}")
        scheme = _scheme(value)
        if scheme != self._scheme:
            raise GraphError(
                f"argument {path}: a graph of another form: {scheme}, expected {self._scheme}"
            )
        for structure in value._structures:
            found += arrays_of(structure)
        for frame in (*value._node_frames, *value._edge_frames):
            found += [frame[field] for field in sorted(frame)]
        for members in (value._batch_nodes, value._batch_edges):
            found += [each.counts for each in members.values()]

    def build(self, left: list[Tensor]) -> Graph:
        structures = []
        for homogeneous, is_block in self._kinds:
            arrays = [left.pop() for _ in ARRAYS]
            structures.append(
                TracedStructure(arrays, self._idtype, homogeneous=homogeneous, is_block=is_block)
            )
        columns = [{field: left.pop() for field in fields} for _, fields in self._fields]
        batch = [{index: left.pop() for index in indices} for indices in self._batch]
        return graph_of(self._schema, structures, columns, batch)


def graph_of(
    schema: Schema,
    structures: list[TracedStructure],
    columns: Sequence[Mapping[str, Tensor]],
    batch: Sequence[Mapping[int, Tensor]],
) -> Graph:
    """A graph of these relations, with the fields of each node type, then of each relation.

    `batch`: how many nodes, and how many edges, each graph of a batch has, by index of the type.

    Raises:
        GraphError: a node type without relations.
    """
    rows = _node_counts(schema, structures) + [each.num_edges for each in structures]
    device, nodes = structures[0].device, len(schema.ntypes)
    frames = [
        Frame(count, "nodes" if i < nodes else "edges", device, dict(each))
        for i, (count, each) in enumerate(zip(rows, columns, strict=True))
    ]
    graph = Graph(schema, structures, frames[:nodes], frames[nodes:])
    index = structures[0].arrays[0].dtype
    graph._batch_nodes, graph._batch_edges = (
        {i: TracedMembership(counts, own[i].num_rows, index) for i, counts in members.items()}
        for own, members in zip((frames[:nodes], frames[nodes:]), batch, strict=True)
    )
    return graph


def _node_counts(schema: Schema, structures: list[TracedStructure]) -> list[int]:
    """Number of nodes of each type, known from a relation that it takes part in."""
    counts: list[int | None] = [None] * len(schema.ntypes)
    for ends, structure in zip(schema.relations, structures, strict=True):
        counts[ends.src] = structure.num_src
        counts[ends.dst] = structure.num_dst
    for name, count in zip(schema.ntypes, counts, strict=True):
        if count is None:
            raise GraphError(f"node type {name!r} has no relation, so its size is in no tensor")
    return counts


def _scheme(graph: Graph) -> tuple:
    """What must be equal of two graphs for one exported program."""
    frames = (*graph._node_frames, *graph._edge_frames)
    fields = [{key: frame.schemes()[key] for key in sorted(frame)} for frame in frames]
    return graph._schema, graph.idtype, fields, list(graph._batch_nodes), list(graph._batch_edges)
