"""What library code may be reached by a UDF, and why the rest may not.

A library here is code that a snapshot does not look into: its functions count as pure functions
of their arguments and enter a key by identity. That holds for torch, numpy and dgl functions
(whatever they do to tensors is seen by the tracer), and for a part of the standard library.
Everything else is either user code, which is walked, or refused.
"""

from __future__ import annotations

import functools
import os
import sys

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep


def words(text: str) -> frozenset[str]:
    """The words of `text`: tables of names read better without quotes and commas."""
    return frozenset(text.split())


_PURE_STDLIB = words(
    "__future__ _abc _bisect _collections _collections_abc _functools _heapq _operator abc "
    "bisect builtins cmath collections contextlib copy dataclasses enum fractions functools "
    "heapq itertools keyword math numbers operator statistics string types typing"
)
_LIBRARIES = _PURE_STDLIB | {"torch", "numpy", "dgl", "gossamer"}
_STDLIB = frozenset(sys.stdlib_module_names)

PURE_BUILTINS = words(
    "abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict dir "
    "divmod enumerate filter float format frozenset getattr hasattr hex int isinstance "
    "issubclass iter len list map max min next object oct ord pow property range repr "
    "reversed round set slice sorted staticmethod str sum super tuple type vars zip "
    "__build_class__"
)

_IMPURE_MODULES = words(
    "numpy.random numpy.lib.npyio torch.random torch.cuda.random torch.distributed "
    "torch.multiprocessing torch.hub torch.serialization torch.utils.data dgl.random "
    "dgl.sampling dgl.dataloading dgl.data dgl.distributed"
)
_IMPURE_NAMES = {
    "torch": words(
        "get_num_interop_threads get_num_threads get_rng_state initial_seed load manual_seed "
        "save seed set_default_device set_default_dtype set_default_tensor_type "
        "set_float32_matmul_precision set_flush_denormal set_grad_enabled "
        "set_num_interop_threads set_num_threads set_printoptions set_rng_state "
        "use_deterministic_algorithms"
    ),
    "numpy": words(
        "fromfile genfromtxt load loadtxt memmap save savetxt savez savez_compressed seterr "
        "set_printoptions"
    ),
}
REMEDY = "read it outside of the UDF and capture the value"


@functools.cache
def is_library(module: str | None) -> bool:
    """True when code of the module named `module` is trusted by identity and not walked."""
    if module is None:
        return False
    root, *parts = module.split(".")
    # Layers are models like any other, wherever they come from: their UDFs are walked.
    layers = root in ("dgl", "gossamer") and "nn" in parts
    return root in _LIBRARIES and not layers


@functools.cache
def _impurity(module: str | None) -> str | None:
    """What is wrong with using the module named `module`, or None."""
    if module is None:
        return None
    root, *parts = module.split(".")
    if root in _STDLIB and root not in _PURE_STDLIB and root != "__main__":
        return "depends on state outside of the program"
    prefix = root
    for part in parts:
        prefix += "." + part
        if prefix in _IMPURE_MODULES:
            return "has state of its own"
    return None


@functools.cache
def impure_module(module: str | None) -> str | None:
    """Why nothing of the module named `module` can be used in a UDF, or None."""
    why = _impurity(module)
    return None if why is None else f"uses the module `{module}`, which {why}"


@functools.cache
def impure_function(module: str | None, name: str) -> str | None:
    """Why the library function `name` of `module` cannot be used in a UDF, or None."""
    if module == "builtins":
        return None if name in PURE_BUILTINS else f"calls `{name}`, which has an effect"
    why = _impurity(module)
    if module is not None and name in _IMPURE_NAMES.get(module.partition(".")[0], ()):
        why = "reads or writes state outside of the program"
    return None if why is None else f"calls `{module}.{name}`, which {why}"


def is_torch_file(file: str) -> bool:
    """Whether a source file is one of torch's own."""
    return file.startswith(_TORCH)
