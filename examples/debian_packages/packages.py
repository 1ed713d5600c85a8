"""The graph of Debian's packages: who depends on whom, what each says about itself, its section.

Every Debian machine has this data after `apt-get update`. The description is one line per package;
the package's name is left out on purpose, since `libfoo-dev` would give the section away.
"""

from __future__ import annotations

import math
import re
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PRIORITIES = ("required", "important", "standard", "optional", "extra")
WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Dataset:
    """A graph whose nodes are to be classified.

    Attributes:
        title: what it is, in a few words.
        src, dst: edge endpoints, int64, (E,); each pair in both directions, no self loops.
        features: float32, (N, F).
        labels: int64, (N,), an index into `classes`.
        classes: the names of the labels.
    """

    title: str
    src: Tensor
    dst: Tensor
    features: Tensor
    labels: Tensor
    classes: Sequence[str]

    @property
    def num_nodes(self) -> int:
        """The number of nodes, N."""
        return len(self.labels)


def load(width: int = 128) -> Dataset:
    """Debian's packages known to apt on this machine, words hashed to `width` columns.

    Raises:
        FileNotFoundError: there is no apt-cache. LookupError: apt knows hardly any package.
    """
    shown = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout
    packages = {p["Package"]: p for p in reversed(list(paragraphs(shown.decode(errors="replace"))))}
    if len(packages) < 10_000:
        raise LookupError(
            f"apt knows {len(packages)} packages only: run apt-get update (as root), "
            "or use --small, which needs no apt"
        )
    src, dst = undirected(dependencies(packages), len(packages))
    # "contrib/games" and "games" are the same kind of package.
    sections = [p.get("Section", "unknown").rpartition("/")[2] for p in packages.values()]
    classes = sorted(set(sections))
    position = {name: i for i, name in enumerate(classes)}
    return Dataset(
        title="Debian's packages",
        src=src,
        dst=dst,
        features=package_features(list(packages.values()), width),
        labels=torch.tensor([position[section] for section in sections]),
        classes=classes,
    )


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """The fields of each paragraph of a Debian control file that describes a package."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines():
            name, colon, value = line.partition(":")
            # A line that starts with a space continues a field; none that we read is continued.
            if colon and not line[0].isspace():
                fields[name] = value.strip()
        if "Package" in fields:
            yield fields


def dependencies(packages: dict[str, dict[str, str]]) -> list[tuple[int, int]]:
    """Pairs (package, what it needs), once each; of alternatives "a | b" the first known one.

    A need that is no package but a virtual one ("mail-transport-agent") stands for the first
    package that provides it.
    """
    position = {name: i for i, name in enumerate(packages)}
    for i, package in enumerate(packages.values()):
        for name in names_in(package.get("Provides", "")):
            position.setdefault(name, i)
    pairs = set()
    for i, package in enumerate(packages.values()):
        for field in ("Pre-Depends", "Depends", "Recommends"):
            for need in package.get(field, "").split(","):
                known = [position[n] for n in names_in(need, "|") if n in position]
                if known and known[0] != i:
                    pairs.add((i, known[0]))
    return sorted(pairs)


def names_in(field: str, separator: str = ",") -> Iterator[str]:
    """Package names in "a (>= 1), b:any": without versions and architectures."""
    for item in field.split(separator):
        name = item.partition("(")[0].partition(":")[0].strip()
        if name:
            yield name


def undirected(pairs: list[tuple[int, int]], num_nodes: int) -> tuple[Tensor, Tensor]:
    """Endpoints with each pair in both directions, once; both int64, (E,)."""
    a, b = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).unbind(1)
    keys = torch.unique(torch.cat([a * num_nodes + b, b * num_nodes + a]))
    return keys // num_nodes, keys % num_nodes


def package_features(packages: Sequence[dict[str, str]], width: int) -> Tensor:
    """Words of the description, the two sizes, the priority: float32, (N, width + 7)."""
    words = hashed_words([p.get("Description", "") for p in packages], width)
    sizes = [[float(p.get(key, 0)) for key in ("Size", "Installed-Size")] for p in packages]
    log_sizes = torch.tensor(sizes).log1p()
    log_sizes = (log_sizes - log_sizes.mean(0)) / log_sizes.std(0)
    priorities = torch.zeros(len(packages), len(PRIORITIES))
    for row, package in zip(priorities, packages, strict=True):
        if package.get("Priority") in PRIORITIES:
            row[PRIORITIES.index(package["Priority"])] = 1
    # A tenth: about what one word says, so that sizes don't drown the words.
    return torch.cat([words, 0.1 * log_sizes, 0.1 * priorities], dim=1)


def hashed_words(texts: Sequence[str], width: int) -> Tensor:
    """Rows of length one, (N, width): each word adds its rarity, signed, to a column by its hash.

    Source: Weinberger et al., Feature Hashing for Large Scale Multitask Learning, 2009.
    """
    words = [set(WORD.findall(text.lower())) for text in texts]
    frequency = Counter(word for found in words for word in found)
    rows = np.zeros((len(texts), width), np.float32)
    for row, found in zip(rows, words, strict=True):
        for word in sorted(found):
            digest = zlib.crc32(word.encode())
            rarity = math.log(len(texts) / frequency[word])
            row[digest % width] += rarity if digest >> 31 else -rarity
    return torch.nn.functional.normalize(torch.from_numpy(rows), dim=1)
