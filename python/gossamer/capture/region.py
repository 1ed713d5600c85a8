"""Region mode: graph calls of one compiled call, recorded lazily and run as programs.

Node fields are computed at the call that writes them.  Edge fields written by ``apply_edges`` are
*deferred*: a later call that reads them takes the function that makes them into its own program, so
that they never exist as arrays.  Reading one computes it.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from gossamer import dgl_bridge
from gossamer.borrow import from_dgl, is_dgl_graph
from gossamer.capture.call import ColumnSpec, Dag, InputSpec, Produced, Step
from gossamer.capture.deferred import DeferredColumn, RecordedCall, closure_of
from gossamer.capture.past_values import PastValues
from gossamer.capture.plan import Plan, run_plan
from gossamer.capture.session import Session, Site
from gossamer.capture.sources import source_of, version_of
from gossamer.eager import EAGER
from gossamer.errors import StaleFieldError, UnsupportedError
from gossamer.frame import Column, Frame, zeros
from gossamer.function import Reduce, plain_functions, plain_message
from gossamer.function import from_dgl as builtin_of
from gossamer.graph import Graph, Relation
from gossamer.readout import Readout
from gossamer.report import Fallback
from gossamer.structure import Structure
from gossamer.traced_graph import TracedStructure, is_traced, outside_tracing


class Region:
    """The graph calls of one call of a compiled module: the engine of its shadow graphs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deferred: list[weakref.ref[DeferredColumn]] = []
        self._past = PastValues()

    def shadow(self, value: Any) -> Any:
        """A graph under this engine for a graph; anything else as it is."""
        if isinstance(value, Graph):
            return value if isinstance(value._engine, Region) else value.shadow(self)
        if not is_dgl_graph(value):
            return value
        dgl_bridge.install()
        return from_dgl(value).shadow(self)

    # --- the engine interface ---------------------------------------------------------------------

    def update_all(
        self,
        graph: Graph,
        relation_index: int,
        message: Callable,
        reduce: Callable,
        apply: Callable | None,
    ) -> None:
        """Run or compile ``graph.update_all`` on one relation."""
        relation = graph.relation(relation_index)
        functions, initializers = plain_functions(
            message, reduce, apply, lambda: relation.structure.num_edges == 0
        )
        call = self._record("update_all", relation, functions, initializers=initializers)
        if isinstance(call, RecordedCall) and not isinstance(builtin_of(reduce), Reduce):
            call = _with_zeros(call, relation.dst)
        if isinstance(call, Fallback):
            with self._eagerly(call, graph):
                EAGER.update_all(graph, relation_index, message, reduce, apply)
            return
        self._write_edges(call, relation.edges, call.captured.call.side_writes)
        self._write_nodes(call, relation.dst)

    def apply_edges(self, graph: Graph, relation_index: int, func: Callable) -> None:
        """Run or compile ``graph.apply_edges`` on one relation."""
        relation = graph.relation(relation_index)
        call = self._record("apply_edges", relation, (plain_message(func), None, None))
        if isinstance(call, Fallback):
            with self._eagerly(call, graph):
                EAGER.apply_edges(graph, relation_index, func)
            return
        captured = call.captured.call
        self._write_edges(call, relation.edges, {**captured.side_writes, **captured.outputs})

    def apply_nodes(self, graph: Graph, ntype_index: int, func: Callable) -> None:
        """Run or compile ``graph.apply_nodes`` on one node type."""
        frame = graph._node_frames[ntype_index]
        rows = _node_set_of(graph, frame.num_rows)
        none = Frame(0, "edges", graph.device)
        etype = ("", "", graph.ntypes[ntype_index])
        relation = Relation(rows, frame, frame, none, etype)
        call = self._record("apply_nodes", relation, (None, None, func))
        if isinstance(call, Fallback):
            with self._eagerly(call, graph):
                EAGER.apply_nodes(graph, ntype_index, func)
            return
        self._write_nodes(call, frame)

    def edge_softmax(
        self, graph: Graph, relation_index: int, logits: Tensor, norm_by: str
    ) -> Tensor:
        """Normalise ``logits`` (E, ...) over the edges that meet at each node."""
        relation = graph.relation(relation_index)
        frame = Frame(relation.structure.num_edges, "edges", columns={"logits": logits})
        relation = relation._replace(edges=frame)
        call = self._record("edge_softmax", relation, (None, None, None), norm_by)
        if isinstance(call, Fallback):
            with self._eagerly(call, graph):
                return EAGER.edge_softmax(graph, relation_index, logits, norm_by)
        return self.compute(call, list(call.captured.call.outputs))[0]

    def readout(self, members: Graph, readout: Readout) -> Tensor:
        """Run or compile a reduction of the rows of each graph."""
        functions = (readout.message, readout.reduce, None)
        call = self._record("readout", members.relation(0), functions)
        if isinstance(call, Fallback):
            with self._eagerly(call, members):
                return EAGER.readout(members, readout)
        return self.compute(call, [readout.RESULT])[0]

    # --- recording --------------------------------------------------------------------------------

    def _record(
        self,
        kind: str,
        relation: Relation,
        functions: tuple,
        softmax_end: str = "dst",
        initializers: tuple = (),
    ) -> RecordedCall | Fallback:
        traced = type(relation.structure) is TracedStructure
        specs = _static_specs if traced else _specs
        site = Site(
            kind=kind,
            functions=functions,
            src=specs(relation.src),
            dst=specs(relation.dst),
            edge=specs(relation.edges),
            homogeneous=relation.structure.homogeneous,
            idtype=relation.structure.idtype,
            canonical_etype=relation.canonical_etype,
            device=relation.structure.device.type,
            softmax_end=softmax_end,
            initializers=initializers,
        )
        with outside_tracing() if traced else contextlib.nullcontext():
            captured = self._session.capture(site)
        if isinstance(captured, Fallback):
            return captured
        if captured.call.asks_ids and _has_original_ids(relation):
            reason = "ids are asked for on a graph that holds those of another graph"
            place = captured.call.place
            return Fallback(*place, reason, "read them from a field of your own", kind)
        sources = [source_of(spec, relation, captured) for spec in captured.call.inputs]
        versions = [version_of(source) for source in sources]
        return RecordedCall(captured, relation.structure, sources, versions)

    @contextlib.contextmanager
    def _eagerly(self, fallback: Fallback, graph: Graph) -> Iterator[None]:
        """Around a call that runs eagerly. It is reported when it works: errors are the user's."""
        if is_traced(graph._structures):  # eager code would be traced with one graph's degrees
            raise UnsupportedError(fallback)
        if self._session.options.fallback == "error":
            self._session.refuse(fallback)
        yield
        self._session.refuse(fallback)

    def _write_nodes(self, call: RecordedCall, frame: Frame) -> None:
        fields = list(call.captured.call.outputs)
        for field, tensor in zip(fields, self.compute(call, fields), strict=True):
            frame[field] = tensor

    def _write_edges(self, call: RecordedCall, frame: Frame, outputs: Mapping) -> None:
        for field in outputs:
            column = DeferredColumn(self, call, field)
            keep = self._session.options.keep_fields
            frame[field] = column.materialize() if keep else column
            self._deferred.append(weakref.ref(column))

    def finish(self) -> None:
        """At the end of forward: keep what an optimizer may change before a field is read."""
        columns = [column for ref in self._deferred if (column := ref()) is not None]
        for column in columns:
            if column.tensor is None and type(column.call.structure) is not TracedStructure:
                for call in closure_of(column.call):
                    self._keep(call)

    def _keep(self, call: RecordedCall) -> None:
        for source, version, spec in zip(
            call.sources, call.versions, call.captured.call.inputs, strict=True
        ):
            if isinstance(source, Tensor) and spec.rows is None and version_of(source) == version:
                self._past.keep(source)

    # --- running ----------------------------------------------------------------------------------

    def compute(self, call: RecordedCall, fields: list[str]) -> list[Tensor]:
        """The named outputs of a call, with every deferred field that it reads made on the way."""
        calls = closure_of(call)
        past: dict[int, Tensor] = {}
        for each in calls:
            _check_fresh(each, self._past, past)
        positions = {id(each): i for i, each in enumerate(calls)}
        structures = list({id(each.structure): each.structure for each in calls}.values())
        graphs = {id(structure): i for i, structure in enumerate(structures)}
        values = _Values(past)
        steps = tuple(_step(each, graphs[id(each.structure)], positions, values) for each in calls)
        outputs = tuple((positions[id(call)], field) for field in fields)
        dag = Dag(steps, outputs, len(structures))
        key = (tuple((id(s.call), s.graph, s.sources) for s in steps), outputs)
        plan = self._session.plans.get(key)
        if plan is None:
            plan = self._session.plans[key] = Plan(dag, self._session, structures)
        return run_plan(plan, structures, values.by_key)


class _Values:
    """The outside tensors of a sequence of calls; a key says which must be one tensor."""

    def __init__(self, past: Mapping[int, Tensor]) -> None:
        self.by_key: dict[Hashable, Tensor] = {}
        self._past = past
        self._numbers: dict[int, int] = {}

    def key(self, tensor: Tensor, spec: InputSpec, graph: int) -> Hashable:
        number = self._numbers.setdefault(id(tensor), len(self._numbers))
        key = (number, spec.rows, graph if spec.rows else None)
        self.by_key[key] = self._past.get(id(tensor), tensor)
        return key


def _step(call: RecordedCall, graph: int, positions: dict[int, int], values: _Values) -> Step:
    sources: list[Produced | Hashable] = []
    for source, spec in zip(call.sources, call.captured.call.inputs, strict=True):
        if isinstance(source, DeferredColumn):
            if source.tensor is None:
                sources.append(Produced(positions[id(source.call)], source.field))
                continue
            source = source.tensor
        sources.append(values.key(source, spec, graph))
    return Step(call.captured.call, graph, tuple(sources))


def _with_zeros(call: RecordedCall, frame: Frame) -> RecordedCall | Fallback:
    """The call when isolated nodes get 0 in every output; another initializer runs eagerly."""
    for field in call.captured.call.outputs:
        if frame.initializers.get(field) is not zeros:
            reason = f"field {field!r} has an initializer of its own"
            return Fallback(
                *call.captured.call.place, reason, "use the default, zeros", "update_all"
            )
    return call


def _node_set_of(graph: Graph, num_rows: int) -> Structure:
    first = graph._structures[0]
    if type(first) is TracedStructure:
        return first.node_set(num_rows)
    return _node_set(num_rows, graph.idtype, graph.device)


@functools.lru_cache(maxsize=64)
def _node_set(num_rows: int, idtype: torch.dtype, device: torch.device) -> Structure:
    """Nodes without edges: what an apply function runs on."""
    none = torch.empty(0, dtype=idtype, device=device)
    return Structure(none, none, num_rows, num_rows, homogeneous=True, check=False)


def _specs(frame: Frame) -> dict[str, ColumnSpec]:
    return {key: _spec(frame.peek(key)) for key in frame}


def _static_specs(frame: Frame) -> dict[str, ColumnSpec]:
    """As `_specs` while torch traces: rows have one shape, which torch is told to rely on."""
    columns = {key: frame.peek(key) for key in frame}
    return {
        key: ColumnSpec(tuple(int(size) for size in column.shape[1:]), column.dtype)
        for key, column in columns.items()
    }


def _spec(column: Column) -> ColumnSpec:
    return ColumnSpec(tuple(column.shape[1:]), column.dtype)


def _has_original_ids(relation: Relation) -> bool:
    """Whether ids that functions see are fields, as in sampled blocks and subgraphs."""
    return any("_ID" in frame for frame in (relation.src, relation.dst, relation.edges))


def _check_fresh(call: RecordedCall, kept: PastValues, past: dict[int, Tensor]) -> None:
    """Find past values of what was changed in place; they go into `past`, by id."""
    for source, version, spec in zip(
        call.sources, call.versions, call.captured.call.inputs, strict=True
    ):
        if version is not None and version_of(source) != version and id(source) not in past:
            value = kept.of(source) if isinstance(source, Tensor) else None
            if value is not None:
                past[id(source)] = value
                continue
            file, line = call.captured.call.place
            what = f"field {spec.name!r}" if spec.kind == "column" else "a tensor"
            raise StaleFieldError(
                f"{file}:{line}: this edge field is computed when first read, but {what} that it "
                f"depends on was changed in place before; compile with "
                f"gs.compile(..., keep_fields=True)"
            )
