"""Programs: compiled once per IR text, run on any graph.

Two calls with equal IR share one program, whatever module, graph or sizes they come from.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer import native, tuned
from gossamer.structure import Structure
from gossamer.traced_graph import TracedStructure, constants_allowed, outside_tracing


@dataclass(frozen=True)
class CompileOptions:
    """What changes the machine code of a program."""

    numerics: str
    target: str
    differentiate: str = ""
    wrt: tuple[int, ...] = ()
    without: tuple[str, ...] = ()


COST_MODEL = "by the cost model"


@dataclass
class Program:
    """Machine code for one function of IR, with what the compiler said about it."""

    ir: str
    options: CompileOptions
    wide_index: bool
    code: Tensor
    buffers: list[dict[str, Any]]
    remarks: list[dict[str, Any]]
    seconds: float
    cached: bool
    needs: tuple[native.GraphNeeds, ...]
    reads: tuple[bool, ...]
    results: tuple[int, ...]
    last_sizes: Sequence[int] = ()
    tune: bool = False  #: whether its way is measured, once per shape class of graphs
    _tuned_by: dict[tuned.ShapeClass, str] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    def rows(self, kind: str, graph: int) -> int | None:
        """How many rows of a kind the last call's graph had; None before the first call."""
        if kind == "none":
            return 1
        place = 5 * graph + {"src": 0, "dst": 1, "node": 1, "edges": 2}[kind]
        return self.last_sizes[place] if place < len(self.last_sizes) else None

    @functools.cached_property
    def name(self) -> str:
        """The name under which traces know the program."""
        with outside_tracing():
            return native.know(self.code)

    def text(self, stage: str) -> str:
        """The IR of one stage, made again on demand."""
        if stage == "captured":
            return self.ir
        if stage not in self._texts:
            from gossamer import compiler

            compiled = compiler.compile_ir(
                self.ir,
                **asdict(self.options),
                wide_index=self.wide_index,
                dump=True,
                cache=False,
            )
            self._texts.update(compiled.texts)
        return self._texts[stage]

    def run(self, structures: Sequence[Structure], inputs: Sequence[Tensor]) -> list[Tensor]:
        """Outputs in the order of the function's results, on the given graphs."""
        if structures and type(structures[0]) is TracedStructure:
            arrays = [array for structure in structures for array in structure.arrays]
            if torch.compiler.is_exporting():  # what is exported holds its programs
                with constants_allowed():
                    return native.ops().run_traced(self.code, self.results, arrays, inputs)
            return native.ops().run_known(self.name, self.results, arrays, inputs)
        if len(structures) == 1:
            arguments = _arguments(structures[0], self.needs[0])
        else:
            arguments = _Arguments([], [])
            for structure, needs in zip(structures, self.needs, strict=True):
                found = _arguments(structure, needs)
                arguments.graphs.extend(found.graphs)
                arguments.sizes.extend(found.sizes)
        self.last_sizes = arguments.sizes
        if self.tune:
            self._tune(arguments, inputs)
        return self._operator(self.code, arguments.graphs, inputs)

    @functools.cached_property
    def _operator(self) -> Any:
        return native.ops().run.default

    def _tune(self, arguments: _Arguments, inputs: Sequence[Tensor]) -> None:
        found = tuned.shape_class_of(arguments.sizes)
        with _lock:
            if found in self._tuned_by:
                return
            self._tuned_by[found] = COST_MODEL  # until it is done
        source = tuned.tune(self.code, arguments.graphs, inputs, arguments.sizes)
        self._tuned_by[found] = source

    @property
    def schedules(self) -> list[native.Schedule]:
        """How each kernel went over the graphs of the last call; empty before one."""
        return native.schedules(self.code, self.last_sizes) if self.last_sizes else []

    @property
    def chosen_by(self) -> str:
        """Who chose `variant` and `schedules`."""
        return self._tuned_by.get(tuned.shape_class_of(self.last_sizes), COST_MODEL)

    @property
    def variant(self) -> native.Variant | None:
        """Which variant ran on the graphs of the last call; None before one."""
        return native.variant(self.code, self.last_sizes) if self.last_sizes else None


_programs: dict[tuple, Program] = {}
_lock = threading.Lock()


def program_for(ir: str, options: CompileOptions, wide_index: bool) -> Program:
    """The program of this IR text, compiled at the first request of the process.

    Raises:
        errors.CompileError: the compiler refuses the IR.
    """
    key = (ir, options, wide_index)
    program = _programs.get(key)
    if program is None:
        with _lock:
            program = _programs.get(key)
            if program is None:
                with outside_tracing():
                    program = _programs[key] = _compile(ir, options, wide_index)
    return program


def _compile(ir: str, options: CompileOptions, wide_index: bool) -> Program:
    from gossamer import compiler

    start = time.perf_counter()
    compiled = compiler.compile_ir(ir, **asdict(options), wide_index=wide_index)
    info = native.program_info(compiled.program)
    return Program(
        ir=ir,
        options=options,
        wide_index=wide_index,
        code=compiled.program,
        buffers=compiled.buffers,
        remarks=compiled.remarks,
        seconds=time.perf_counter() - start,
        cached=compiled.cached,
        needs=info.graphs,
        reads=info.reads,
        results=tuple(native.ops().program_results(compiled.program)),
    )


class _Arguments(NamedTuple):
    graphs: list[Tensor]
    sizes: list[int]


#: Stands for index arrays that a program does not read.
_NOTHING = {dtype: torch.empty(0, dtype=dtype) for dtype in (torch.int32, torch.int64)}


def _arguments(structure: Structure, needs: native.GraphNeeds) -> _Arguments:
    """What a program takes for one graph, and its sizes, kept with the structure."""
    return structure.once(needs, lambda: _make_arguments(structure, needs))


def _make_arguments(structure: Structure, needs: native.GraphNeeds) -> _Arguments:
    index = torch.int64 if structure.wide_index else torch.int32
    none = [_NOTHING[index]] * 3
    arrays = list(structure.in_csr()) if needs.needs_in_edges else none
    arrays = arrays + (list(structure.out_csr()) if needs.needs_out_edges else none)
    sizes = [
        structure.num_src,
        structure.num_dst,
        structure.num_edges,
        structure.max_in_degree() if needs.needs_in_edges else 0,
        structure.max_out_degree() if needs.needs_out_edges else 0,
    ]
    return _Arguments([native.ops().hold_graph(arrays, sizes)], sizes)
