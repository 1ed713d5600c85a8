"""Facts about the machine and what runs on it, for the record of a measurement."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import time
from datetime import date
from pathlib import Path

import torch

import gossamer

PACKAGES = (
    "gossamer",
    "torch",
    "dgl",
    "torch_geometric",
    "torch_scatter",
    "torch_sparse",
    "numpy",
)
VECTOR_FLAGS = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl")


def facts() -> dict[str, object]:
    """Processor, threads, versions, load, and the bandwidth of plain copies, by name."""
    return {
        "date": date.today().isoformat(),
        "processor": cpu_field("model name"),
        "vector extensions": [f for f in VECTOR_FLAGS if f in cpu_field("flags").split()],
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "triad GB/s": round(triad_bandwidth(), 1),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES if version(name)},
    }


def cpu_field(name: str) -> str:
    """A field of the first processor in /proc/cpuinfo, or nothing."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def version(package: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def code_version() -> str:
    """A digest of Gossamer's files, of the benchmark's and of the versions of packages: what was
    measured with another one is measured again.
    """
    digest = hashlib.sha256(repr({name: version(name) for name in PACKAGES}).encode())
    ours, own = Path(gossamer.__file__).parent, Path(__file__).parent
    for folder, pattern in ((ours, "*.py"), (ours / "lib", "*.so"), (own, "*.py"), (own, "*.cpp")):
        for path in sorted(folder.rglob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def triad_bandwidth(elements: int = 20_000_000) -> float:
    """GB/s of a = b + s c on all threads, warm; the best of five.

    Source: McCalpin, STREAM.
    """
    b, c = torch.ones(elements), torch.ones(elements)
    a = torch.empty(elements)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        torch.add(b, c, alpha=3.0, out=a)
        best = min(best, time.perf_counter() - start)
    return 3 * 4 * elements / best / 1e9
