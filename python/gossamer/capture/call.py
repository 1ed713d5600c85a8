"""Records: a graph call to capture, what becomes of it, and a sequence of captured calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

if TYPE_CHECKING:
    from gossamer.emit.ir import Function


@dataclass(frozen=True)
class ColumnSpec:
    """A feature column without its rows: shape of one row, and dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Functions:
    """The user's functions of one graph call."""

    message: Callable | None = None
    reduce: Callable | None = None
    apply: Callable | None = None


@dataclass(frozen=True)
class GraphCall:
    """One graph call with user-defined functions.

    Args:
        kind: "update_all", "readout" (update_all of the rows of a batch to its graphs),
            "apply_edges" (uses `message`), "apply_nodes" (uses `apply`), or "edge_softmax" (uses no
            function; normalises the edge column `softmax_field`).
        functions: makes the functions from the run-time scalars (`num_scalars` torch.SymFloat), so
            that a number which varies becomes an input.
        src, dst, edge: schemas of the frames, by field name. apply_nodes sees `dst`.
        homogeneous: source and destination nodes are the same rows, and `src` is `dst`.
        idtype: dtype of node and edge ids.
        lifted: the tensors that the functions reach by other ways than the graph.
        initializers: value for isolated nodes by output field, 0 where absent. A callable
            initializer is the caller's concern.
        canonical_etype: (source type, edge type, destination type), which batches show to
            functions.
        rng: what random numbers in the functions are: "compiled", or "eager" for a refusal.
        softmax_field, softmax_end: for edge_softmax: the column, and the end ("dst" or "src") at
            which the edges of one group meet.
    """

    kind: str
    functions: Callable[[Sequence[torch.SymFloat]], Functions]
    src: Mapping[str, ColumnSpec] = field(default_factory=dict)
    dst: Mapping[str, ColumnSpec] = field(default_factory=dict)
    edge: Mapping[str, ColumnSpec] = field(default_factory=dict)
    homogeneous: bool = True
    idtype: torch.dtype = torch.int64
    lifted: Sequence[Tensor] = ()
    num_scalars: int = 0
    initializers: Mapping[str, float] = field(default_factory=dict)
    canonical_etype: tuple[str, str, str] = ("_N", "_E", "_N")
    rng: str = "compiled"
    softmax_field: str = "logits"
    softmax_end: str = "dst"


@dataclass(frozen=True)
class InputSpec:
    """What a captured call reads.

    kind "column": field `name` of `frame` ("node", "src", "dst", "edge"); rows are the frame's.
    kind "ids": ids of the rows of `frame`; `name` is "id" (of nodes or edges), "src" or "dst"
    (endpoints of edges).
    kind "lifted": tensor `index` of the call's lifted tensors.
    kind "scalar": run-time scalar `index`, a Python float.
    kind "seed": of the random numbers of a graph call, number `index` of those that draw.
    kind "count": how many rows `name` ("edge" or "dst") there are, as a float64.

    Of a whole forward (`ForwardRecording`), whose rows are those of the placeholder's shape:

    kind "argument": tensor `index` among the arguments.
    kind "field": field `name` of frame `index` among those of all graphs.
    kind "ids": `index` is the number of the relation.
    kind "count": of row set `index` of kind `name`: see `Arguments.sets`.
    """

    kind: str
    frame: str = ""
    name: str = ""
    index: int = -1
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float64

    @property
    def rows(self) -> str | None:
        """ "node", "src", "dst" or "edge", or None for what has no rows."""
        return self.frame or None


@dataclass(frozen=True)
class OutputSpec:
    """A field that a captured call makes; `rows`: "node", "dst", "edge", or of a forward "rows"."""

    rows: str
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class RecordedOutput(OutputSpec):
    """A field with the node that makes it."""

    node: fx.Node


@dataclass(frozen=True)
class Number:
    """A number that is known at run time only: a sympy expression of `Symbols`."""

    expr: Any
    is_integer: bool


@dataclass(frozen=True)
class Meta:
    """Shape and dtype of a captured tensor; `node.meta["val"]`. Sizes may be torch.SymInt."""

    shape: tuple[int | torch.SymInt, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Symbols:
    """The sympy symbols of a capture. In a homogeneous call num_src and num_dst are one symbol."""

    num_src: Any
    num_dst: Any
    num_edges: Any
    degree: Any
    scalars: tuple[Any, ...]


@dataclass(frozen=True)
class Recording:
    """A graph call as a graph of ATen and graph operators: what capture makes, and emit reads.

    Attributes:
        graph: placeholders stand for `inputs`, in order. `node.meta` has "val" (`Meta`) and "loc".
        outputs, side_writes: as in `CapturedCall`.
        counts: the inputs that numbers of rows are, by symbol. Emit adds those that are computed
            with to `inputs`.
    """

    kind: str
    graph: fx.Graph
    inputs: tuple[InputSpec, ...]
    outputs: dict[str, RecordedOutput]
    side_writes: dict[str, RecordedOutput]
    homogeneous: bool
    symbols: Symbols
    counts: Mapping[Any, InputSpec]


@dataclass(frozen=True)
class Ends:
    """A relation that a whole forward uses.

    Row sets of different relations that are known to have equally many rows share a symbol.
    """

    number: int
    homogeneous: bool
    symbols: Symbols


@dataclass(frozen=True)
class ForwardRecording(Recording):
    """A whole forward as one call of kind "forward".

    Attributes:
        outputs: results and fields under names that have no meaning; those without a row axis are
            the same for all rows.
        relations: one for each graph argument of the program.
    """

    relations: tuple[Ends, ...]


@dataclass(frozen=True)
class CapturedCall:
    """A graph call as IR: all that is kept of its capture, in the process and on the disk.

    Attributes:
        function: the code. Keys of its arguments are positions in `inputs`; its results are the
            fields of `outputs` and of those `side_writes` that have another name, in this order.
        outputs: fields that the call writes to nodes (update_all, apply_nodes) or edges
            (apply_edges).
        side_writes: edge fields that a message function assigned to `edges.data`; they persist.
        draws_at: file and line of the first random number, if there is one.
        places: every (file, line) of the user's code in it, in order of execution.
        relations: of a whole forward, the number of the relation behind each graph argument.
    """

    kind: str
    function: Function
    inputs: tuple[InputSpec, ...]
    outputs: dict[str, OutputSpec]
    side_writes: dict[str, OutputSpec]
    draws_at: tuple[str, int] | None
    places: tuple[tuple[str, int], ...]
    relations: tuple[int, ...] = (0,)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the function's results."""
        return (*self.outputs, *(name for name in self.side_writes if name not in self.outputs))

    @property
    def asks_ids(self) -> bool:
        """Whether a function computes with ids of nodes or edges."""
        return any(self.inputs[each.key].kind == "ids" for each in self.function.arguments)

    @property
    def num_seeds(self) -> int:
        """How many seeds the call takes: of a whole forward, one for each graph call that draws."""
        return 1 + max((i.index for i in self.inputs if i.kind == "seed"), default=-1)

    @property
    def place(self) -> tuple[str, int]:
        """Where the call's code begins."""
        return self.places[0] if self.places else ("<unknown>", 0)

    @property
    def reads(self) -> tuple[tuple[str, str], ...]:
        """(frame, field) of each column that the call reads."""
        return tuple((i.frame, i.name) for i in self.inputs if i.kind == "column")


@dataclass(frozen=True)
class Produced:
    """An input of a step that an earlier step of the same sequence makes."""

    step: int
    field: str


@dataclass(frozen=True)
class Step:
    """One captured call of a sequence.

    Args:
        call: what runs.
        graph: index of the graph argument it runs on.
        sources: for each of `call.inputs`, `Produced`, or any hashable key that names an outside
            value. Equal keys are one input of the emitted function.
    """

    call: CapturedCall
    graph: int
    sources: tuple[Produced | Hashable, ...]


@dataclass(frozen=True)
class Dag:
    """Captured calls in order, and the fields wanted from them, as (step, field)."""

    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, str], ...]
    num_graphs: int = 1


def single_call(call: CapturedCall) -> Dag:
    """The sequence of one call that returns everything; keys are the call's InputSpecs."""
    outputs = tuple((0, name) for name in call.fields)
    return Dag((Step(call, 0, call.inputs),), outputs, len(call.relations))
