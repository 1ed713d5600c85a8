"""What forward sees in the capture of a whole forward: graphs without edges and without data.

They are `gs.Graph` objects, so frames, local scopes, types and slices are the real ones. Only three
things differ: numbers of nodes and edges are unknown, columns are made when they are first read
(and each question about fields that exist is noted), and graph calls go to the recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from gossamer.frame import Frame
from gossamer.function import plain_functions, plain_message
from gossamer.graph import Graph, Relation
from gossamer.ids import NID
from gossamer.readout import Readout

from .call import Functions, GraphCall, InputSpec
from .errors import UntraceableError
from .recorder import Recorder
from .tracer import CallTrace, Sizes
from .user_place import user_place
from .whole_arguments import is_plain
from .whole_record import FieldSchema, field_schema

_GRAPH = torch.ops.gossamer


def _refusal(reason: str, remedy: str = "") -> UntraceableError:
    return UntraceableError(reason, *user_place(), remedy)


class FieldSource:
    """The fields of one frame as they were before the call.

    Args:
        number: of the frame among those of all graphs.
        frame: the real one; only names, shapes and dtypes are looked at.

    Attributes:
        asked: what the capture knows of each field it asked for; None for one that is not there.
        listed: all names, when it asked for them.
    """

    def __init__(self, recorder: Recorder, number: int, frame: Frame, rows: torch.SymInt):
        self.asked: dict[str, FieldSchema | None] = {}
        self.listed: tuple[str, ...] | None = None
        self._recorder = recorder
        self._number = number
        self._frame = frame
        self._rows = rows
        self._made: dict[str, Tensor] = {}

    def has(self, key: str) -> bool:
        """Whether there is such a field."""
        if key not in self.asked:
            with self._recorder.unrecorded(), unset_fake_temporarily():
                self.asked[key] = field_schema(self._frame, key)
                if self.asked[key] is not None and not is_plain(self._frame[key]):
                    raise _refusal(f"field {key!r} is not contiguous, or has attributes of its own")
        return self.asked[key] is not None

    def column(self, key: str) -> Tensor:
        """The field without data; the same object each time."""
        tensor = self._made.get(key)
        if tensor is None:
            spec, *_ = self.asked[key]
            wanted = InputSpec("field", "rows", key, self._number, spec.shape, spec.dtype)
            tensor = self._made[key] = self._recorder.input(wanted, self._rows, True)
        return tensor

    def name_of(self, tensor: Tensor) -> str | None:
        """The field that this very tensor is."""
        return next((key for key, made in self._made.items() if made is tensor), None)

    def names(self) -> tuple[str, ...]:
        """All fields."""
        if self.listed is None:
            self.listed = tuple(self._frame)
        return self.listed


class Columns(MutableMapping[str, Tensor]):
    """The columns of a frame in capture: those of before the call under those written since."""

    def __init__(self, source: FieldSource, over: Columns | None = None):
        self.source = source
        self.written: dict[str, Tensor] = dict(over.written) if over else {}
        self.removed: set[str] = set(over.removed) if over else set()

    def __contains__(self, key: object) -> bool:
        return key in self.written or (key not in self.removed and self.source.has(key))

    def __getitem__(self, key: str) -> Tensor:
        if key in self.written:
            return self.written[key]
        if key in self.removed or not self.source.has(key):
            raise KeyError(key)
        return self.source.column(key)

    def __setitem__(self, key: str, value: Tensor) -> None:
        self.written[key] = value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self.written.pop(key, None)
        self.removed.add(key)

    def __iter__(self) -> Iterator[str]:
        before = [key for key in self.source.names() if key not in self.removed]
        return iter([*before, *(key for key in self.written if key not in before)])

    def __len__(self) -> int:
        return len(list(iter(self)))


class WholeFrame(Frame):
    """A frame in capture."""

    def clone(self) -> Frame:
        """A frame of its own with the same columns, none of which is looked at."""
        columns = Columns(self._columns.source, self._columns)
        kept = self.num_rows, self.kind, self.device
        return WholeFrame(*kept, columns, FixedInitializers())

    @property
    def columns(self) -> Columns:
        """The columns, without a look at them."""
        return self._columns


class FixedInitializers:
    """Zeros for every field, for good: a whole capture is for graphs with these only."""

    def get(self, field: str) -> Callable:
        """Zeros."""
        from gossamer.frame import zeros

        return zeros

    def set(self, initializer: Callable, field: str | None = None) -> None:
        """Not in capture."""
        raise _refusal("an initializer is set in forward", "set it before the call")

    def copy(self) -> FixedInitializers:
        """Itself: it never changes."""
        return self


class WholeStructure:
    """The edges of a relation in capture: numbers are symbols, endpoints have no data.

    Raises:
        UntraceableError: anything else is asked.
    """

    def __init__(self, trace: WholeGraphs, number: int, real: Any, sizes: Sizes):
        self.number = number
        self.sizes = sizes
        self.num_src, self.num_dst, self.num_edges, _ = sizes
        self.homogeneous, self.is_block = real.homogeneous, real.is_block
        self.idtype, self.device = real.idtype, real.device
        self._recorder = trace.recorder

    src = property(lambda self: self.ids("edge", "src"))
    dst = property(lambda self: self.ids("edge", "dst"))

    def ids(self, frame: str, name: str) -> Tensor:
        """Ids without data: see `InputSpec`."""
        rows = {"src": self.num_src, "edge": self.num_edges}.get(frame, self.num_dst)
        spec = InputSpec("ids", frame, name, self.number, (), self.idtype)
        return self._recorder.input(spec, rows, True)

    def in_degrees(self) -> Tensor:
        """A row value for each destination."""
        return self._degrees(self.dst, self.num_dst)

    def out_degrees(self) -> Tensor:
        """A row value for each source."""
        return self._degrees(self.src, self.num_src)

    def _degrees(self, ids: Tensor, rows: torch.SymInt) -> Tensor:
        counts = self._recorder.empty((rows,), torch.int64)
        self._recorder.emit(_GRAPH.degree.default, (ids, rows), {}, counts)
        return counts.to(self.idtype)

    def __getattr__(self, name: str) -> Any:
        raise _refusal(f"the structure of the graph decides ({name})")


class WholeMembership:
    """The graphs of a batch that rows belong to, in capture.

    Args:
        structure: the relation from the rows to the graphs.
        is_batch: whether the graph is a batch; if not, it is known to be one graph.
    """

    def __init__(self, structure: WholeStructure, is_batch: bool):
        self.structure = structure
        self.size = structure.num_dst if is_batch else 1

    @property
    def counts(self) -> Tensor:
        """A row value for each graph."""
        return self.structure.in_degrees()


class _CallTrace(CallTrace):
    """A graph call on the present fields of graphs in capture."""

    def __init__(
        self, kind: str, recorder: Recorder, relation: Relation, initializers: Sequence = ()
    ):
        structure = relation.structure
        call = GraphCall(
            kind=kind,
            functions=lambda scalars: Functions(),
            src=relation.src,
            dst=relation.dst,
            edge=relation.edges,
            homogeneous=structure.homogeneous,
            idtype=structure.idtype,
            initializers=dict(initializers),
            canonical_etype=relation.canonical_etype,
        )
        super().__init__(call, recorder, structure.sizes)
        self._relation = relation

    def _fetch(self, frame: str, schema: Any, persistent: bool) -> Callable[[str], Tensor]:
        def fetch(name: str) -> Tensor:
            tensor = schema[name]
            if persistent:
                return tensor
            # Functions get copies: what they do to them in place is not seen outside.
            copy = self.recorder.empty(tensor.shape, tensor.dtype)
            self.recorder.bind(copy, self.recorder.node_of(tensor))
            return copy

        return fetch

    def _ids(self, frame: str, name: str) -> Tensor:
        return self._relation.structure.ids(frame, name)

    def _edge_ids(self) -> tuple[Tensor, Tensor, Tensor]:
        self._check_own_ids(self._relation.src, self._relation.dst, self._relation.edges)
        return super()._edge_ids()

    def _node_ids(self) -> Tensor:
        self._check_own_ids(self._relation.dst)
        return super()._node_ids()

    def _check_own_ids(self, *frames: Frame) -> None:
        if any(NID in frame for frame in frames):
            raise _refusal("ids are asked of a graph that was cut out of another")


class WholeEngine:
    """Records graph calls into the one graph of a whole capture."""

    def __init__(self, recorder: Recorder):
        self._recorder = recorder

    def update_all(self, graph: Graph, relation_index: int, message, reduce, apply=None) -> None:
        """Record the functions; write the fields."""
        relation = graph.relation(relation_index)
        functions, initializers = plain_functions(
            message, reduce, apply, lambda: self._recorder.is_empty(relation.structure.num_edges)
        )
        trace = _CallTrace("update_all", self._recorder, relation, initializers)
        fields = trace.fields(Functions(*functions))
        relation.edges.assign(trace.written)
        relation.dst.assign(fields)

    def apply_edges(self, graph: Graph, relation_index: int, func: Callable) -> None:
        """Record the function; write the fields."""
        relation = graph.relation(relation_index)
        trace = _CallTrace("apply_edges", self._recorder, relation)
        fields = trace.fields(Functions(plain_message(func)))
        relation.edges.assign({**trace.written, **fields})

    def apply_nodes(self, graph: Graph, ntype_index: int, func: Callable) -> None:
        """Record the function; write the fields."""
        frame = graph._node_frames[ntype_index]
        index, end = _relation_at(graph, ntype_index)
        relation = graph.relation(index)
        structure = relation.structure
        if end == "src" and not structure.homogeneous:
            raise _refusal("apply_nodes on nodes that are sources only")
        trace = _CallTrace("apply_nodes", self._recorder, relation._replace(dst=frame))
        frame.assign(trace.fields(Functions(apply=func)))

    def edge_softmax(
        self, graph: Graph, relation_index: int, logits: Tensor, norm_by: str
    ) -> Tensor:
        """Record the operator."""
        relation = graph.relation(relation_index)
        trace = _CallTrace("edge_softmax", self._recorder, relation)
        return trace.softmax(logits, norm_by)

    def readout(self, members: Graph, readout: Readout) -> Tensor:
        """Record the reduction."""
        trace = _CallTrace("readout", self._recorder, members.relation(0))
        return trace.fields(Functions(readout.message, readout.reduce))[readout.RESULT]


class _MembersLike(NamedTuple):
    """What a relation of rows to graphs is like."""

    idtype: torch.dtype
    device: torch.device
    homogeneous: bool = False
    is_block: bool = False


def _relation_at(graph: Graph, ntype: int) -> tuple[int, str]:
    for end in ("dst", "src"):
        for index, ends in enumerate(graph._schema.relations):
            if getattr(ends, end) == ntype:
                return index, end
    raise _refusal("apply_nodes on nodes without a relation")


class WholeGraphs:
    """The graphs of one capture.

    Args:
        graphs: the real ones.
        sets: see `Arguments`; equal numbers are known to have equally many rows.

    Attributes:
        graphs: what forward gets in their place.
        sizes: unknown numbers of rows, by kind and number of the row set.
        sources: the fields of before the call, node frames first.
        structures: numbered as in `Arguments.structure`.
    """

    def __init__(
        self,
        recorder: Recorder,
        graphs: Sequence[Graph],
        sets: Mapping[str, Sequence[int]],
    ):
        self.recorder = recorder
        self.sizes = {
            (kind, number): recorder.new_size(0)
            for kind, numbers in sets.items()
            for number in dict.fromkeys(numbers)
        }
        self.sources: list[FieldSource] = []
        self.structures: list[WholeStructure] = []
        self._nodes = self._sources(graphs, "_node_frames", "node", sets)
        self._edges = self._sources(graphs, "_edge_frames", "edge", sets)
        engine = WholeEngine(recorder)
        self.graphs = [self._graph(graph, engine) for graph in graphs]
        batches = [self.sizes["graph", number] for number in sets["graph"]]
        self._note_batches(graphs, batches, "_node_frames", "_batch_nodes")
        self._note_batches(graphs, batches, "_edge_frames", "_batch_edges")

    def _sources(self, graphs, attribute, kind, sets) -> Iterator[WholeFrame]:
        frames = [frame for graph in graphs for frame in getattr(graph, attribute)]
        made = []
        for frame, number in zip(frames, sets[kind], strict=True):
            rows = self.sizes[kind, number]
            self.sources.append(FieldSource(self.recorder, len(self.sources), frame, rows))
            columns = Columns(self.sources[-1])
            made.append(WholeFrame(rows, frame.kind, frame.device, columns, FixedInitializers()))
        return iter(made)

    def _note_batches(self, graphs, batches, frames, attribute) -> None:
        """Give the graphs in capture the batches of the real ones, one relation per frame."""
        for real, graph, size in zip(graphs, self.graphs, batches, strict=True):
            members = getattr(graph, attribute)
            for index, frame in enumerate(getattr(graph, frames)):
                ends = (self.recorder.new_size(0), size, frame.num_rows, self.recorder.new_size(1))
                like = real._structures[0]
                kind = _MembersLike(like.idtype, like.device)
                structure = WholeStructure(self, len(self.structures), kind, Sizes(*ends))
                self.structures.append(structure)
                members[index] = WholeMembership(structure, bool(real._batch_nodes))

    def _graph(self, real: Graph, engine: WholeEngine) -> Graph:
        nodes = [next(self._nodes) for _ in real._node_frames]
        edges = [next(self._edges) for _ in real._edge_frames]
        structures = []
        for structure, ends, frame in zip(
            real._structures, real._schema.relations, edges, strict=True
        ):
            ends = (nodes[ends.src].num_rows, nodes[ends.dst].num_rows)
            sizes = Sizes(*ends, frame.num_rows, self.recorder.new_size(1))
            structures.append(WholeStructure(self, len(self.structures), structure, sizes))
            self.structures.append(structures[-1])
        return Graph(real._schema, structures, nodes, edges, engine)
