"""The eager engine: DGL's semantics in plain torch. The reference for everything compiled, and the
fallback.

update_all runs
1. the message function once, on all edges in edge-id order;
2. the reduce function once per distinct in-degree above 0, ascending: a *bucket* of B nodes of
degree D
   sees its messages as (B, D, ...), each node's by ascending edge id;
3. nodes without in-edges get the field's initializer (zeros);
4. the apply function once, on the results laid over the other node features.
Nothing is written before all of it has succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.errors import (
    GraphError,
    MissingFieldError,
    ResultTypeError,
    RowCountError,
    SchemaError,
)
from gossamer.frame import Frame
from gossamer.function import BuiltinFunction, Reduce, from_dgl, replace_infinity
from gossamer.ids import EID, NID
from gossamer.segments import segment_reduce, segment_softmax
from gossamer.udf import EdgeBatch, LazyFrame, NodeBatch

if TYPE_CHECKING:
    from gossamer.graph import Graph, Relation
    from gossamer.readout import Readout
    from gossamer.structure import Bucket

Function = Callable | BuiltinFunction

_CPU_DTYPES = (torch.bfloat16, torch.float32, torch.float64)


class EagerEngine:
    """Runs user-defined functions at once, with degree buckets."""

    def update_all(
        self,
        graph: Graph,
        relation_index: int,
        message: Function,
        reduce: Function,
        apply: Callable | None = None,
    ) -> None:
        """Message, reduce and apply over all edges of one relation; write the destination nodes."""
        relation = graph.relation(relation_index)
        reduce = from_dgl(reduce)
        results = pass_messages(relation, message, reduce, apply, fill_empty=True)
        if isinstance(reduce, Reduce) and reduce.replaces_infinity and results:
            first = next(iter(results))
            results[first] = replace_infinity(results[first])
        relation.dst.assign(results)

    def apply_edges(self, graph: Graph, relation_index: int, func: Function) -> None:
        """Run `func` on all edges of one relation and write what it returns to the edges."""
        relation = graph.relation(relation_index)
        func = from_dgl(func)
        if isinstance(func, BuiltinFunction):
            results = run_builtin_message(relation, func)
        else:
            results = checked(func(all_edges(relation)), "the edge function")
        relation.edges.assign(results)

    def apply_nodes(self, graph: Graph, ntype_index: int, func: Callable) -> None:
        """Run `func` on all nodes of one type and write what it returns to them."""
        frame = graph._node_frames[ntype_index]
        nodes = node_batch(graph, ntype_index, graph._all_node_ids(ntype_index))
        frame.assign(checked(func(nodes), "the node function"))

    def edge_softmax(
        self, graph: Graph, relation_index: int, logits: Tensor, norm_by: str = "dst"
    ) -> Tensor:
        """Softmax of `logits` (E, ...) over the edges of each destination (or source) node."""
        structure = graph.relation(relation_index).structure
        if norm_by == "src":
            return segment_softmax(logits, structure.src, structure.num_src)
        return segment_softmax(logits, structure.dst, structure.num_dst)

    def readout(self, members: Graph, readout: Readout) -> Tensor:
        """Reduce the rows of each graph, without degree buckets: batches have many sizes."""
        relation = members.relation(0)
        values = readout.message(all_edges(relation))[readout.MESSAGE]
        structure = relation.structure
        return segment_reduce(values, structure.dst, structure.num_dst, readout.op)


EAGER = EagerEngine()


def pass_messages(
    relation: Relation,
    message: Function,
    reduce: Function,
    apply: Callable | None,
    fill_empty: bool,
) -> dict[str, Tensor]:
    """The fields that message passing over a whole relation gives its destination nodes.

    `fill_empty`: with no edge at all, a reduce function's fields are initial rows instead of
    absent.
    """
    message, reduce = from_dgl(message), from_dgl(reduce)
    if isinstance(message, BuiltinFunction):
        if isinstance(reduce, BuiltinFunction) and message.out_field != reduce.msg_field:
            raise GraphError(
                f"Invalid message ({message}) and reduce ({reduce}) function pairs. The output "
                "field of the message function must be equal to the message field of the reduce "
                "function."
            )
        messages = run_builtin_message(relation, message)
    else:
        messages = run_message(relation, message)
    if isinstance(reduce, BuiltinFunction):
        results = run_builtin_reduce(relation, reduce, messages)
    else:
        results = run_reduce(relation, reduce, messages, fill_empty)
    return results if apply is None else run_apply(relation, apply, results)


# --- batches -------------------------------------------------------------------------------------


def all_edges(relation: Relation, parent_ids: bool = False) -> EdgeBatch:
    """All edges as a batch. Its `data` is the graph's own edge frame: writes to it stay.

    `parent_ids`: where frames hold original ids ("_ID"), `edges()` gives those.
    """
    structure = relation.structure
    number = structure.num_edges

    def endpoints() -> tuple[Tensor, Tensor, Tensor]:
        eid = torch.arange(number, dtype=structure.idtype, device=structure.device)
        if not parent_ids:
            return structure.src, structure.dst, eid
        return (
            _parent_ids(relation.src, structure.src),
            _parent_ids(relation.dst, structure.dst),
            _parent_ids(relation.edges, eid, EID),
        )

    return EdgeBatch(
        _gathered(relation.src, structure.src, "edges.src"),
        _gathered(relation.dst, structure.dst, "edges.dst"),
        relation.edges,
        endpoints,
        number,
        relation.canonical_etype,
    )


def some_edges(relation: Relation, eid: Tensor) -> EdgeBatch:
    """Edges `eid` (idtype, (n,)) as a batch of copies."""
    structure = relation.structure
    src, dst = structure.src[eid.long()], structure.dst[eid.long()]
    return EdgeBatch(
        _gathered(relation.src, src, "edges.src"),
        _gathered(relation.dst, dst, "edges.dst"),
        _gathered(relation.edges, eid, "edges.data"),
        lambda: (src, dst, eid),
        eid.shape[0],
        relation.canonical_etype,
    )


def node_batch(graph: Graph, ntype_index: int, nodes: Tensor) -> NodeBatch:
    """Nodes (idtype, (n,)) as a batch of copies."""
    data = _gathered(graph._node_frames[ntype_index], nodes, "nodes.data")
    ntype = graph._schema.ntypes[ntype_index]
    return NodeBatch(data, None, lambda: nodes, nodes.shape[0], ntype)


def _gathered(frame: Frame, rows: Tensor, where: str) -> LazyFrame:
    return LazyFrame(
        frame.clone(), lambda column: column.index_select(0, rows), where, rows.shape[0]
    )


def _parent_ids(frame: Frame, ids: Tensor, key: str = NID) -> Tensor:
    return frame[key][ids.long()] if key in frame else ids


class RowsByBucket:
    """The rows of columns that belong to each bucket.

    A column that needs a gradient is gathered once for all buckets and then split: a gather for
    each bucket would make a table of the whole column's size for each bucket in backward.

    Args:
        rows: row numbers of each bucket, int64.
    """

    def __init__(self, rows: Sequence[Tensor]) -> None:
        self._rows = rows
        self._split: dict[int, tuple[Tensor, Sequence[Tensor]]] = {}

    def of(self, column: Tensor, bucket: int) -> Tensor:
        """The rows of `column` that bucket number `bucket` has, which the caller may write to."""
        plain = not (column.requires_grad and torch.is_grad_enabled())
        # torch.func has no batching rule for the split.
        if plain or len(self._rows) == 1 or torch._C._functorch.peek_interpreter_stack():
            return column.index_select(0, self._rows[bucket])
        known = self._split.get(id(column))
        if known is None:
            every = column.index_select(0, torch.cat(list(self._rows)))
            # Not split(): its results are views of each other, which autograd lets nobody write to.
            sizes = [len(rows) for rows in self._rows]
            known = (column, torch.unsafe_split_with_sizes(every, sizes))
            self._split[id(column)] = known
        return known[1][bucket]


def _as_mailbox(rows: Tensor, bucket: Bucket) -> Tensor:
    """Messages (B * D, ...) of a bucket as (B, D, ...)."""
    return rows.reshape(bucket.nodes.shape[0], bucket.degree, *rows.shape[1:])


# --- phases --------------------------------------------------------------------------------------


def run_message(relation: Relation, message: Callable) -> dict[str, Tensor]:
    """Call a message function once on all edges; check that each field has one row per edge."""
    messages = message(all_edges(relation, parent_ids=True))
    messages = {} if messages is None else checked(messages, "the message function")
    for key, value in messages.items():
        _check_rows(value, relation.structure.num_edges, f"message {key!r}", "edges")
    return messages


def run_builtin_message(relation: Relation, message: BuiltinFunction) -> dict[str, Tensor]:
    """A built-in message on all edges."""
    if not hasattr(message, "as_message"):
        raise GraphError(f"{message} is no message function")
    edges = all_edges(relation)
    messages = message.as_message(edges)
    read = [*edges.src._local.values(), *edges.dst._local.values()]
    for value in (*read, *messages.values()):
        _check_builtin_dtype(value, message)
    return messages


def run_reduce(
    relation: Relation, reduce: Callable, messages: Mapping[str, Tensor], fill_empty: bool
) -> dict[str, Tensor]:
    """Call a reduce function once per bucket and put the rows together."""
    structure, dst = relation.structure, relation.dst
    buckets = structure.in_buckets()
    if not buckets:
        return _initial_results(relation, reduce, messages) if fill_empty else {}
    edge_rows = RowsByBucket([bucket.edge_ids for bucket in buckets])
    node_rows = RowsByBucket([bucket.nodes for bucket in buckets])
    columns, parts = dst.clone(), []
    for number, bucket in enumerate(buckets):
        nodes = bucket.nodes
        mailbox = {
            key: _as_mailbox(edge_rows.of(value, number), bucket) for key, value in messages.items()
        }

        def ids(nodes: Tensor = nodes) -> Tensor:
            return _parent_ids(dst, nodes.to(structure.idtype))

        def fetch(column: Tensor, number: int = number) -> Tensor:
            return node_rows.of(column, number)

        data = LazyFrame(columns, fetch, "nodes.data", nodes.shape[0])
        batch = NodeBatch(data, mailbox, ids, nodes.shape[0], relation.dst_ntype)
        parts.append(checked(reduce(batch), "the reduce function"))
        for key, value in parts[-1].items():
            _check_rows(value, nodes.shape[0], f"reduced field {key!r}", "nodes of the batch")
    nodes = torch.cat([bucket.nodes for bucket in buckets])
    return _merged(parts, nodes, lambda key, like: dst.initial(key, structure.num_dst, like))


def run_builtin_reduce(
    relation: Relation, reduce: BuiltinFunction, messages: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """A built-in reduction; nodes without in-edges get its identity, never an initializer."""
    if not isinstance(reduce, Reduce):
        raise GraphError(f"{reduce} is no reduce function")
    structure = relation.structure
    if reduce.msg_field not in messages:
        raise MissingFieldError(reduce.msg_field, "the message function's result", messages)
    value = messages[reduce.msg_field]
    _check_rows(value, structure.num_edges, f"Expect E_data: message {reduce.msg_field!r}", "edges")
    _check_builtin_dtype(value, reduce)
    shape = (structure.num_dst, *value.shape[1:])
    if not structure.num_edges:
        return {reduce.out_field: value.new_zeros(shape)}
    parts, nodes = [], []
    buckets = structure.in_buckets()
    edge_rows = RowsByBucket([bucket.edge_ids for bucket in buckets])
    for number, bucket in enumerate(buckets):
        mail = _as_mailbox(edge_rows.of(value, number), bucket)
        batch = NodeBatch({}, {reduce.msg_field: mail}, None, mail.shape[0], relation.dst_ntype)
        parts.append(reduce.as_reduce(batch))
        nodes.append(bucket.nodes)
    return _merged(parts, torch.cat(nodes), lambda _, like: like.new_full(shape, reduce.empty))


def run_apply(
    relation: Relation, apply: Callable, results: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Call an apply function once on `results` laid over all other features; only what it returns
    counts.
    """
    structure, dst = relation.structure, relation.dst
    number = structure.num_dst
    data = LazyFrame(dst.clone(), lambda column: column, "nodes.data", number)
    data.update(results)

    def ids() -> Tensor:
        every = torch.arange(number, dtype=structure.idtype, device=structure.device)
        return _parent_ids(dst, every)

    returned = apply(NodeBatch(data, None, ids, number, relation.dst_ntype))
    return dict(checked(returned, "the apply function"))


def _merged(
    parts: list[Mapping[str, Tensor]], nodes: Tensor, fill: Callable[[str, Tensor], Tensor]
) -> dict[str, Tensor]:
    """Rows of all buckets in node order. The first bucket's fields count, as in DGL."""
    results = {}
    for key in parts[0]:
        columns = []
        for part in parts:
            if key not in part:
                raise MissingFieldError(
                    key, "what the reduce function returned for one degree", part
                )
            columns.append(part[key])
        shapes = {tuple(column.shape[1:]) for column in columns}
        if len(shapes) > 1:
            raise SchemaError(
                f"the reduce function returns field {key!r} with row shapes "
                f"{', '.join(map(str, sorted(shapes)))} for different in-degrees"
            )
        merged = torch.cat(columns)
        results[key] = fill(key, merged).index_copy(0, nodes, merged)
    return results


def _initial_results(
    relation: Relation, reduce: Callable, messages: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What a reduction over no edges gives: the initializer for every field it would return.

    Which fields those are is found by a call on a sample batch: two nodes of degree 1, all zeros,
        so that
    statistics over the batch exist. Random state is put back.
    """
    rows = 2
    dst, idtype = relation.dst, relation.structure.idtype
    device = relation.structure.device

    def blank(column: Tensor) -> Tensor:
        return column.new_zeros((rows, *column.shape[1:]))

    mailbox = {key: blank(value).unsqueeze(1) for key, value in messages.items()}
    data = LazyFrame(dst.clone(), blank, "nodes.data", rows)

    def ids() -> Tensor:
        return torch.zeros(rows, dtype=idtype, device=device)

    batch = NodeBatch(data, mailbox, ids, rows, relation.dst_ntype)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        sample = checked(reduce(batch), "the reduce function")
    count = relation.structure.num_dst
    return {key: dst.initial(key, count, value) for key, value in sample.items()}


# --- checks --------------------------------------------------------------------------------------


def checked(results: object, what: str) -> Mapping[str, Tensor]:
    """`results`, when they are a mapping.

    Raises:
        ResultTypeError: they are something else.
    """
    if not isinstance(results, Mapping):
        raise ResultTypeError(
            f"Expect dictionary type from {what}, got {type(results).__name__}; "
            'return {"field": tensor, ...}'
        )
    return results


def _check_rows(value: object, rows: int, what: str, of: str) -> None:
    if not isinstance(value, Tensor):
        raise ResultTypeError(f"{what} is a {type(value).__name__}; expected a tensor")
    if value.dim() == 0 or value.shape[0] != rows:
        found = value.shape[0] if value.dim() else "no"
        raise RowCountError(f"{what} has {found} rows; expected one for each of the {rows} {of}")


def _check_builtin_dtype(value: Tensor, function: BuiltinFunction) -> None:
    if value.device.type == "cpu" and value.dtype not in _CPU_DTYPES:
        raise GraphError(
            f"{function} on the CPU takes bfloat16, float32 or float64, not {value.dtype}; "
            "convert the field, or write a function of edges or nodes instead"
        )
