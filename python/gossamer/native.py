"""The shared library of program, runtime and torch operators.

It is looked for, in this order, in

1. ``$GOSSAMER_BUILD_DIR/lib``, when that variable is set: a CMake build folder, for work on
   Gossamer itself;
2. ``lib`` beside this file: an installed package, or a checkout that ``./dev`` built.

The library is loaded at the first call of :func:`ops`, once per process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

BUILD_DIR_VARIABLE = "GOSSAMER_BUILD_DIR"

_lock = threading.Lock()


class GraphNeeds(NamedTuple):
    """Which index arrays of one graph argument a program reads."""

    needs_in_edges: bool
    needs_out_edges: bool


@dataclass(frozen=True)
class ProgramInfo:
    """What a program asks of its caller.

    Attributes:
        wide_index: index arrays are int64, else int32.
        graphs: one entry for each graph argument.
        reads: for each input, whether it is read; any tensor may stand for one that is not.
    """

    wide_index: bool
    graphs: tuple[GraphNeeds, ...]
    reads: tuple[bool, ...]


def library_path(name: str) -> Path:
    """Where the shared library ``lib<name>.so`` of this package lies.

    Raises:
        ImportError: it is in none of the places above; the message lists them.
    """
    places = [Path(__file__).parent / "lib"]
    build_dir = os.environ.get(BUILD_DIR_VARIABLE)
    if build_dir:
        places.insert(0, Path(build_dir) / "lib")
    for place in places:
        path = place / f"lib{name}.so"
        if path.exists():
            return path
    searched = ", ".join(str(place) for place in places)
    raise ImportError(
        f"lib{name}.so was not found in {searched}; in a checkout, build it with ./dev build, or "
        f"set {BUILD_DIR_VARIABLE} to a CMake build folder that has it under lib"
    )


def ops() -> Any:
    """``torch.ops.gossamer``, with the operators of the library in it.

    - ``coo_to_csr(rows, cols, num_rows, num_cols) -> (offsets, neighbors, edge_ids)``: edges
      sorted by row, stably. ``rows`` and ``cols`` are (E,) int32 or int64; ``offsets`` is
      (num_rows + 1,), the others (E,), int32 where every size fits, else int64.
      ValueError when an endpoint is out of range; it names edge and value.
    - ``hold_graph(arrays, sizes) -> Tensor``: a graph argument. Of one graph, ``arrays`` are
      in-offsets, in-neighbors, in-edge-ids, out-offsets, out-neighbors and out-edge-ids (empty
      where :func:`program_info` says they are not read), ``sizes`` five numbers: sources,
      destinations, edges, largest in-degree, largest out-degree. The result keeps the arrays
      alive; a copy of it is no graph. ValueError when there are more or fewer.
    - ``run(program, graphs, inputs) -> list[Tensor]``: ``program`` is uint8, the bytes of a saved
      program; ``graphs`` are results of ``hold_graph``. An input that is not read may be any
      tensor. ValueError when something does not fit; it says which input, what was found and what
      was expected.
      The results are fresh tensors without gradient history.
    - ``run_traced(program, results, graph, inputs) -> list[Tensor]``: as ``run``, in graphs that
      torch's compilers make: all six arrays of each graph argument are given, and sizes are
      their lengths. ``results`` is ``program_results(program)``, from which shapes are known
      without the program. Gradients: RuntimeError, since programs for them are other programs.
    - ``run_known(name, results, graph, inputs) -> list[Tensor]``: as ``run_traced``, by the name
      that :func:`know` gave the program: for graphs that stay in this process, which can't all
      hold constants.
    - ``tune(program, graphs, inputs) -> list[int]``: measures which variant of a program is
      the fastest on these graphs, and how its kernels best go over them; later runs on graphs whose
      sizes are the same to a power of two go so. The number of the variant, then three numbers for
      each of its kernels: those of :class:`Schedule`.
    - ``keep_tuned(program, sizes, way)``: has runs on such graphs go as ``tune`` of an equal
      program returned. ValueError when such a program has no such way.
    - ``cache_sizes() -> list[int]``: bytes of this machine's second and last level of cache.
    - ``schedules(program, sizes) -> list[int]``: see :func:`schedules`.
    - ``force_schedule(prefetch, stream, piece_edges)``: see :func:`forced_schedule`.
    - ``variant(program, sizes) -> list[int]``: see :func:`variant`.
    - ``force_variant(number)``: see :func:`forced_variant`.
    - ``program_results(program) -> list[int]``: for each output the numbers of its dtype, row set
      and graph as in ``Program.h``, how many feature axes it has, and their sizes.
    - ``program_info(program) -> list[int]``: see :func:`program_info`.
    - ``release_memory() -> int``: see :func:`release_memory`.

    Raises:
        ImportError: the library is missing, or does not fit this torch.
    """
    return _loaded or _load_once()


def program_info(program: Tensor) -> ProgramInfo:
    """What a saved program, (bytes,) uint8, asks of its caller.

    Raises:
        ValueError: damaged or foreign bytes.
        RuntimeError: a program of another version, or for a processor with other features.
    """
    wide, graphs, *flags = ops().program_info(program)
    pairs = zip(flags[: 2 * graphs : 2], flags[1 : 2 * graphs : 2], strict=True)
    needs = tuple(GraphNeeds(bool(i), bool(o)) for i, o in pairs)
    return ProgramInfo(bool(wide), needs, tuple(map(bool, flags[2 * graphs :])))


def release_memory() -> int:
    """Give the memory that is kept for later calls back to the system; the number of bytes.

    Temporaries, and outputs of 4 MiB and more once they are freed, are kept for the next call: at
    most 512 MiB in the process. Tensors that are alive are not concerned; such an output cannot
    grow in place (``resize_``), like a tensor from NumPy. Modelled on ``torch.cuda.empty_cache``.

    Raises:
        ImportError: as :func:`ops`.
    """
    return ops().release_memory()


WHOLE_ROWS = 2**63 - 64
"""Edges of a piece when no row is cut."""


class Schedule(NamedTuple):
    """How a kernel goes over a graph; no choice changes a result by more than rounding."""

    prefetch: int  #: how many edges ahead rows are asked for; 0 for not at all
    stream: bool  #: whether results go to memory past the caches
    #: rows of more edges are computed in pieces of so many, by all threads; WHOLE_ROWS: none is
    piece_edges: int


def schedules(program: Tensor, sizes: Sequence[int]) -> list[Schedule]:
    """The schedule of each kernel of a saved program, in order, on graphs of these ``sizes``.

    Raises:
        ValueError: not five sizes for each graph of the program.
    """
    numbers = iter(ops().schedules(program, sizes))
    return [Schedule(p, bool(s), e) for p, s, e in zip(numbers, numbers, numbers, strict=True)]


@contextlib.contextmanager
def forced_schedule(
    prefetch: int | None = None, stream: bool | None = None, piece_edges: int | None = None
) -> Iterator[None]:
    """Make all kernels of the process go by these choices while the context is open.

    For tests and measurements. None leaves a choice to the kernel; ``piece_edges`` is rounded down
    to a multiple of 64, at least 64.
    """
    ops().force_schedule(prefetch, stream, piece_edges)
    try:
        yield
    finally:
        ops().force_schedule(None, None, None)


class Variant(NamedTuple):
    """Which of the ways that a program has from its inputs to its outputs a run takes."""

    number: int  #: from 0
    count: int  #: 1 for a program that has one way only


def variant(program: Tensor, sizes: Sequence[int]) -> Variant:
    """The variant of a saved program that runs on graphs of these ``sizes``.

    Raises:
        ValueError: not five sizes for each graph of the program.
    """
    return Variant(*ops().variant(program, sizes))


@contextlib.contextmanager
def forced_variant(number: int) -> Iterator[None]:
    """Make all programs of the process that have a variant of this number, from 0 to 3, take it
    while the context is open. For tests and measurements.

    Raises:
        ValueError: another number.
    """
    ops().force_variant(number)
    try:
        yield
    finally:
        ops().force_variant(None)


_loaded: Any = None


def _load_once() -> Any:
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
    return _loaded


def _load() -> Any:
    path = library_path("gossamer_torch")
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} could not be loaded with torch {torch.__version__}; Gossamer needs torch "
            f"2.11 or later: {error}"
        ) from error
    torch.library.register_fake("gossamer::coo_to_csr", _fake_coo_to_csr)
    torch.library.register_fake("gossamer::run_traced", _fake_run_traced)
    torch.library.register_autograd("gossamer::run_traced", _no_gradient)
    _define_run_known()
    return torch.ops.gossamer


def _fake_coo_to_csr(
    rows: Tensor, cols: Tensor, num_rows: int, num_cols: int
) -> tuple[Tensor, Tensor, Tensor]:
    edges = rows.shape[0]
    # Each by itself: how they compare with each other is no reason to trace another graph anew.
    wide = edges >= 2**31 or num_rows >= 2**31 or num_cols >= 2**31
    dtype = torch.int64 if wide else torch.int32
    return (
        rows.new_empty(num_rows + 1, dtype=dtype),
        rows.new_empty(edges, dtype=dtype),
        rows.new_empty(edges, dtype=dtype),
    )


#: By number, as in Program.h.
_DTYPES = (
    torch.float32,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.float16,
)
_NO_ROWS, _SRC, _DST, _NODE, _EDGE = range(5)


def _fake_run_traced(
    program: Tensor | str, results: Sequence[int], graph: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor]:
    outputs = []
    numbers = iter(results)
    for dtype in numbers:
        rows, index, axes = next(numbers), next(numbers), next(numbers)
        shape = [next(numbers) for _ in range(axes)]
        arrays = graph[6 * index : 6 * index + 6]
        if rows == _SRC:
            shape.insert(0, arrays[3].shape[0] - 1)
        elif rows == _EDGE:
            shape.insert(0, arrays[1].shape[0])
        elif rows != _NO_ROWS:
            shape.insert(0, arrays[0].shape[0] - 1)
        outputs.append(graph[0].new_empty(shape, dtype=_DTYPES[dtype]))
    return outputs


def _no_gradient(ctx: Any, *grads: Tensor | None) -> None:
    raise RuntimeError(
        "gossamer::run_traced has no gradient: an exported or traced program computes results "
        "only; train the model itself, or torch.compile it"
    )


#: Programs by name, for as long as the process: traces that name them may be.
_known: dict[str, Tensor] = {}


def know(program: Tensor) -> str:
    """The name of a saved program for ``run_known``: its digest, so equal in every process."""
    name = hashlib.sha256(memoryview(program.numpy())).hexdigest()
    _known.setdefault(name, program)
    return name


def _define_run_known() -> None:
    schema = "(str name, int[] results, Tensor[] graph, Tensor[] inputs) -> Tensor[]"
    torch.library.define("gossamer::run_known", schema)
    torch.library.impl("gossamer::run_known", "CPU", _run_known)
    torch.library.register_fake("gossamer::run_known", _fake_run_traced)
    torch.library.register_autograd("gossamer::run_known", _no_gradient)


def _run_known(
    name: str, results: Sequence[int], graph: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor]:
    program = _known.get(name)
    if program is None:
        raise RuntimeError(f"program {name} belongs to another process; compile the model here")
    return torch.ops.gossamer.run_traced(program, results, graph, inputs)
