"""Message passing methods of `Graph`. What a whole-graph call does is the engine's matter; calls on
some
nodes or edges run eagerly, on the small graph of the edges concerned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from gossamer.cross import merge_results
from gossamer.errors import GraphError, RowCountError
from gossamer.frame import Frame
from gossamer.function import Reduce, from_dgl, is_builtin, replace_infinity
from gossamer.ids import ALL, EID, NID, check_range, edge_ids_of, graph_ids, is_all
from gossamer.slices import one_relation
from gossamer.structure import Structure

if TYPE_CHECKING:
    from gossamer.graph import Graph, Relation
    from gossamer.readout import Readout
    from gossamer.schema import CanonicalEtype

    Etype = str | CanonicalEtype | None


class Engine(Protocol):
    """Decides what a graph's whole-graph calls do. Each writes its results to the graph's
    frames.
    """

    def update_all(self, graph: Graph, relation_index: int, message, reduce, apply=None) -> None:
        """Message passing over one relation."""

    def apply_edges(self, graph: Graph, relation_index: int, func) -> None:
        """A function of all edges of one relation."""

    def apply_nodes(self, graph: Graph, ntype_index: int, func) -> None:
        """A function of all nodes of one type."""

    def edge_softmax(
        self, graph: Graph, relation_index: int, logits: Tensor, norm_by: str
    ) -> Tensor:
        """Softmax over each node's edges."""

    def readout(self, members: Graph, readout: Readout) -> Tensor:
        """The rows of each graph reduced; `members` is the relation of rows to graphs."""


class MessagePassing:
    """The part of `Graph` that calls user-defined functions."""

    # --- whole graph ----------------------------------------------------------------------------

    def update_all(
        self, message_func, reduce_func, apply_node_func=None, etype: Etype = None
    ) -> None:
        """Send along all edges, reduce at all destination nodes, then apply; write node fields.

        Raises:
            GraphError: several relations and no `etype`, with user-defined functions.
            MissingFieldError, RowCountError, SchemaError, ResultTypeError: from what the functions
                read and return; nothing is written then.
        """
        if etype is None and len(self._structures) > 1:
            self._update_all_relations(message_func, reduce_func, apply_node_func)
            return
        index = self.get_etype_id(etype)
        self._engine.update_all(self, index, message_func, reduce_func, apply_node_func)

    def _update_all_relations(self, message_func, reduce_func, apply_node_func) -> None:
        if not is_builtin(message_func) or not is_builtin(reduce_func):
            raise GraphError(
                "User defined functions are not yet supported in update_all for "
                "heterogeneous graphs: give etype=, or use multi_update_all"
            )
        if reduce_func.name == "mean":
            raise NotImplementedError(
                "update_all over several relations cannot take a mean of means; "
                "use multi_update_all"
            )
        pair = (message_func, reduce_func)
        table = dict.fromkeys(self.canonical_etypes, pair)
        self.multi_update_all(table, reduce_func.name, apply_node_func)

    def apply_edges(self, func, edges: object = ALL, etype: Etype = None) -> None:
        """Run `func` on edges (all, ids, or a pair of endpoints); write the edge fields it
        returns.
        """
        if etype is None and len(self._structures) > 1:
            if not is_builtin(func) or not is_all(edges):
                raise GraphError(
                    "User defined functions are not yet supported in apply_edges for heterogeneous "
                    "graphs: give etype="
                )
            for index in range(len(self._structures)):
                self._engine.apply_edges(self, index, func)
            return
        index = self.get_etype_id(etype)
        if is_all(edges):
            self._engine.apply_edges(self, index, func)
            return
        from gossamer import eager

        relation = self.relation(index)
        eid = edge_ids_of(self, edges, etype)
        batch = eager.some_edges(relation, eid)
        func = from_dgl(func)
        returned = func.as_message(batch) if is_builtin(func) else func(batch)
        relation.edges.update_rows(eid, eager.checked(returned, "the edge function"))

    def apply_nodes(self, func: Callable, v: object = ALL, ntype: str | None = None) -> None:
        """Run `func` on nodes (all, or ids); write the node fields it returns."""
        index = self.get_ntype_id(ntype)
        if is_all(v):
            self._engine.apply_nodes(self, index, func)
            return
        from gossamer import eager

        frame = self._node_frames[index]
        nodes = check_range(graph_ids(self, v, "v"), frame.num_rows, "node")
        returned = func(eager.node_batch(self, index, nodes))
        frame.update_rows(nodes, eager.checked(returned, "the node function"))

    def multi_update_all(
        self,
        etype_dict: Mapping[str | CanonicalEtype, tuple],
        cross_reducer: str | Callable[[list[Tensor]], Tensor],
        apply_node_func: Callable | None = None,
    ) -> None:
        """Message passing over several relations, on the fields as they are now; results that meet
        at one
        node type are merged by `cross_reducer`: "sum", "min", "max", "mean", "stack", or a function
        of the list.

        Args:
            etype_dict: (message, reduce) or (message, reduce, apply) by edge type.
        """
        found: dict[int, list[tuple[int, dict[str, Tensor]]]] = defaultdict(list)
        reduce = None
        for etype, functions in etype_dict.items():
            message, reduce, apply = _triple(etype, functions)
            reduce = from_dgl(reduce)
            if isinstance(reduce, Reduce):
                reduce = reduce.keeping_infinity()
            index = self.get_etype_id(etype)
            results = self._results_of(index, message, reduce, apply)
            found[self._schema.relations[index].dst].append((index, results))
        replaces = isinstance(reduce, Reduce) and reduce.name in ("max", "min")
        merged = {dst: merge_results(parts, cross_reducer) for dst, parts in found.items()}
        for dst, results in merged.items():
            if replaces:
                results = {key: replace_infinity(value) for key, value in results.items()}
            self._node_frames[dst].assign(results)
            if apply_node_func is not None:
                self._engine.apply_nodes(self, dst, apply_node_func)

    def _results_of(self, index: int, message, reduce, apply) -> dict[str, Tensor]:
        """What update_all on one relation would write, without writing it."""
        view = one_relation(self, index)
        view._node_frames = [frame.clone() for frame in view._node_frames]
        target = view._node_frames[-1].track_writes()
        view._engine.update_all(view, 0, message, reduce, apply)
        return {key: target[key] for key in target.written}

    # --- some nodes or edges --------------------------------------------------------------------

    def send_and_recv(
        self, edges: object, message_func, reduce_func, apply_node_func=None, etype: Etype = None
    ) -> None:
        """Message passing along some edges; only nodes that receive a message are written."""
        index = self.get_etype_id(etype)
        eid = edge_ids_of(self, edges, etype)
        if not eid.numel():
            return
        self._pass_along(index, eid, None, message_func, reduce_func, apply_node_func)

    def push(
        self, u: object, message_func, reduce_func, apply_node_func=None, etype: Etype = None
    ) -> None:
        """`send_and_recv` along all edges out of nodes `u`."""
        edges = self.out_edges(u, form="eid", etype=etype)
        self.send_and_recv(edges, message_func, reduce_func, apply_node_func, etype)

    def pull(
        self, v: object, message_func, reduce_func, apply_node_func=None, etype: Etype = None
    ) -> None:
        """Message passing along all edges into nodes `v`; all of `v` are written."""
        index = self.get_etype_id(etype)
        nodes = graph_ids(self, v, "v")
        if not nodes.numel():
            return
        eid = self.in_edges(nodes, form="eid", etype=etype)
        self._pass_along(index, eid, nodes, message_func, reduce_func, apply_node_func)

    def _pass_along(
        self, index: int, eid: Tensor, receivers: Tensor | None, message, reduce, apply
    ) -> None:
        from gossamer import eager

        part, nodes = _subrelation(self.relation(index), eid, receivers)
        results = eager.pass_messages(part, message, reduce, apply, fill_empty=False)
        self.relation(index).dst.update_rows(nodes, results)

    def prop_nodes(
        self, nodes_generator: Iterable, message_func, reduce_func, apply_node_func=None, etype=None
    ) -> None:
        """`pull` for each group of nodes."""
        for nodes in nodes_generator:
            self.pull(nodes, message_func, reduce_func, apply_node_func, etype)

    def prop_edges(
        self, edges_generator: Iterable, message_func, reduce_func, apply_node_func=None, etype=None
    ) -> None:
        """`send_and_recv` for each group of edges."""
        for edges in edges_generator:
            self.send_and_recv(edges, message_func, reduce_func, apply_node_func, etype)

    def prop_nodes_topo(
        self, message_func, reduce_func, reverse: bool = False, apply_node_func=None
    ) -> None:
        """`pull` for each generation of nodes in topological order."""
        from gossamer.traversal import topological_nodes_generator

        frontiers = topological_nodes_generator(self, reverse)
        self.prop_nodes(frontiers, message_func, reduce_func, apply_node_func)

    # --- filters --------------------------------------------------------------------------------

    def filter_nodes(
        self, predicate: Callable, nodes: object = ALL, ntype: str | None = None
    ) -> Tensor:
        """Ids (of `nodes`, in their order) for which `predicate(batch)`, one value per node, is
        true.
        """
        from gossamer import eager

        index = self.get_ntype_id(ntype)
        ids = self._all_node_ids(index) if is_all(nodes) else graph_ids(self, nodes, "nodes")
        check_range(ids, self._node_frames[index].num_rows, "node")
        with self.local_scope():
            return ids[_mask(predicate(eager.node_batch(self, index, ids)), ids.shape[0])]

    def filter_edges(self, predicate: Callable, edges: object = ALL, etype: Etype = None) -> Tensor:
        """Ids (of `edges`, in their order) for which `predicate(batch)`, one value per edge, is
        true.
        """
        from gossamer import eager

        index = self.get_etype_id(etype)
        with self.local_scope():
            relation = self.relation(index)
            if is_all(edges):
                ids = self.all_edges("eid", etype=etype)
                batch = eager.all_edges(relation)
            else:
                ids = edge_ids_of(self, edges, etype)
                batch = eager.some_edges(relation, ids)
            return ids[_mask(predicate(batch), ids.shape[0])]


def _triple(etype: object, functions: object) -> tuple:
    parts = functions if isinstance(functions, tuple | list) else (functions,)
    if len(parts) not in (2, 3):
        raise GraphError(
            f'Invalid arguments for edge type "{etype}". '
            "Should be (msg_func, reduce_func, [apply_node_func])"
        )
    return (*parts, None)[:3]


def _mask(values: Tensor, rows: int) -> Tensor:
    if values.dim() != 1 or values.shape[0] != rows:
        raise RowCountError(
            f"the predicate must return one value per row, shape ({rows},); "
            f"got {tuple(values.shape)}"
        )
    return values.bool()


def _subrelation(
    relation: Relation, eid: Tensor, receivers: Tensor | None
) -> tuple[Relation, Tensor]:
    """The relation of edges `eid` alone, with its own node ids, and the receiving nodes (ascending,
    unique).

    Edge ids of the part are positions in `eid`. Its frames hold original ids under "_ID".
    """
    whole = relation.structure
    src, dst = whole.src[eid.long()], whole.dst[eid.long()]
    senders, new_src = torch.unique(src, return_inverse=True)
    nodes = torch.unique(dst if receivers is None else receivers)
    new_dst = torch.searchsorted(nodes, dst)
    idtype = whole.idtype
    part = Structure(
        new_src.to(idtype),
        new_dst.to(idtype),
        senders.shape[0],
        nodes.shape[0],
        homogeneous=False,
        check=False,
    )
    frames = (
        _with_ids(relation.src, senders, NID),
        _with_ids(relation.dst, nodes, NID),
        _with_ids(relation.edges, eid, EID),
    )
    return type(relation)(part, *frames, relation.canonical_etype), nodes


def _with_ids(frame: Frame, ids: Tensor, key: str) -> Frame:
    part = frame.subframe(ids)
    part[key] = ids
    return part
