"""The compiler: IR text in, a saved program and a report out.

`libgossamer_compiler.so` is loaded by the first compilation that the disk cache does not answer,
so a process whose programs are all cached never loads LLVM.

The disk cache (`disk_cache.py`) is asked by everything that decides the machine code: IR, options,
the compiler library, and, for target "host", the processor.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gossamer import disk_cache, native
from gossamer.errors import CompileError
from gossamer.machine import library_identity, processor

OPTIONAL_PASSES = (
    "split-linear",
    "split-sum",
    "group-terms",
    "hoist-before-gather",
    "commute-linear",
    "merge-linear",
    "commute-max",
    "factor-from-sum",
    "sink-behind-gather",
    "place-products",
    "product-sizes",
    "save",
)
"""What `gossamer/passes/Pipeline.h` lets a compilation leave out."""

_STAGES = {"captured": 3, "optimized": 4, "kernels": 5, "llvm": 6}
# How MLIR goes on to print the operation, which says nothing to users.
_OPERATION = "; see current operation:"
_PROGRAM, _REMARKS, _BUFFERS, _ERROR_TEXT, _ERROR_FILE = 0, 1, 2, 7, 8


@dataclass(frozen=True)
class Compiled:
    """A compiled function.

    Attributes:
        program: (bytes,) uint8, a saved program, as `torch.ops.gossamer.run` takes it.
        remarks: what passes did: pass, kind, message, and file and line of the user's code.
        buffers: the arrays a call makes: rows, graph, shape, dtype, lifetime.
        texts: IR of the stages captured, optimized, kernels, llvm; empty without `dump`.
        cached: it came from the disk.
    """

    program: Tensor
    remarks: list[dict[str, Any]]
    buffers: list[dict[str, Any]]
    texts: dict[str, str] = field(default_factory=dict)
    cached: bool = False


def compile_ir(
    ir: str,
    *,
    target: str = "host",
    numerics: str = "fast",
    differentiate: str = "",
    wrt: Sequence[int] = (),
    without: Sequence[str] = (),
    wide_index: bool = False,
    dump: bool = False,
    cache: bool = True,
) -> Compiled:
    """The program of the one function in `ir`.

    Args:
        ir: text of a module with one `func.func` of mp, arith and math ops.
        target: "host", "generic" (x86-64-v2), "x86-64-v3" or "x86-64-v4".
        numerics: "fast" also allows rewrites that are equal in real arithmetic only; "strict"
            does not.
        differentiate: "forward" for the function with what its gradients need as further results,
            "backward" for its gradients: arguments are the function's, what the forward saved, and
            a gradient for each floating point result.
        wrt: numbers of the arguments whose gradients the backward returns.
        without: optional passes to leave out; of `OPTIONAL_PASSES`.
        wide_index: graph arrays hold int64 instead of int32.
        dump: keep the text of all stages; never answered from the cache.
        cache: look on the disk first, and keep the result there.

    Raises:
        CompileError: what was found, with file and line of the user's code where it is known.
    """
    options = f"target={target};numerics={numerics};wide={wide_index:d};dump={dump:d}"
    if differentiate:
        options += f";differentiate={differentiate};wrt={','.join(map(str, wrt))}"
    if without:
        options += f";without={','.join(without)}"
    cache = cache and not dump
    name = _entry_of(ir, options, target) if cache else ""
    if cache and (known := _read_entry(name)) is not None:
        return known
    compiled = _compile(ir, options)
    if cache:
        _write_entry(name, compiled)
    return compiled


class _Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


_load_lock = threading.Lock()


@functools.cache
def _library() -> ctypes.CDLL:
    # Never RTLD_GLOBAL: other libraries of the process may bring another LLVM.
    library = ctypes.CDLL(str(native.library_path("gossamer_compiler")), mode=os.RTLD_LOCAL)
    library.gsCompile.restype = ctypes.c_void_p
    library.gsCompile.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
    library.gsOk.argtypes = [ctypes.c_void_p]
    library.gsGet.restype = _Bytes
    library.gsGet.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.gsErrorLine.argtypes = [ctypes.c_void_p]
    library.gsRelease.argtypes = [ctypes.c_void_p]
    library.gsRelease.restype = None
    return library


def load() -> None:
    """Load the compiler and LLVM now, so that the first compilation doesn't pay for it."""
    with _load_lock:
        _library()


def _compile(ir: str, options: str) -> Compiled:
    load()
    library = _library()
    text = ir.encode()
    result = library.gsCompile(text, len(text), options.encode())
    try:

        def part(index: int) -> bytes:
            found = library.gsGet(result, index)
            return ctypes.string_at(found.data, found.size) if found.size else b""

        if not library.gsOk(result):
            file = part(_ERROR_FILE).decode() or None
            reason = part(_ERROR_TEXT).decode().partition(_OPERATION)[0]
            raise CompileError(reason, file, library.gsErrorLine(result))
        texts = {stage: part(index).decode() for stage, index in _STAGES.items()}
        return Compiled(
            program=_tensor(part(_PROGRAM)),
            remarks=[json.loads(line) for line in part(_REMARKS).splitlines()],
            buffers=json.loads(part(_BUFFERS)),
            texts={stage: text for stage, text in texts.items() if text},
        )
    finally:
        library.gsRelease(result)


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _entry_of(ir: str, options: str, target: str) -> str:
    host = processor() if target == "host" else ""
    parts = (library_identity("gossamer_compiler"), host, options, ir)
    return disk_cache.name_of(part.encode() for part in parts)


def _read_entry(name: str) -> Compiled | None:
    payload = disk_cache.read(name)
    if payload is None:
        return None
    (size,) = struct.unpack_from("<Q", payload)
    report = json.loads(payload[8 : 8 + size])
    return Compiled(_tensor(payload[8 + size :]), report["remarks"], report["buffers"], cached=True)


def _write_entry(name: str, compiled: Compiled) -> None:
    report = json.dumps({"remarks": compiled.remarks, "buffers": compiled.buffers}).encode()
    program = compiled.program.numpy().tobytes()
    disk_cache.write(name, struct.pack("<Q", len(report)) + report + program)
