"""Who is measured, by name, in the order of the table; the first installed one is the reference."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from layers import Workload

# Sets a layer up and returns what runs it once.
Builder = Callable[[Workload], Callable[[], Tensor]]


@dataclass(frozen=True)
class Contender:
    """A way to run layers.

    Attributes:
        title: its name in the table.
        module: the file of this folder that holds `BUILDERS`, from layer name to builder.
        requires: the package that must be installed.
    """

    title: str
    module: str
    requires: str

    @property
    def installed(self) -> bool:
        """Whether it can run here."""
        return importlib.util.find_spec(self.requires) is not None

    def builders(self) -> Mapping[str, Builder]:
        """What it can run; imports the packages it needs."""
        return importlib.import_module(f"contenders.{self.module}").BUILDERS


CONTENDERS: dict[str, Contender] = {
    "dgl-udf": Contender("DGL UDF", "dgl_udf", "dgl"),
    "dgl": Contender("DGL built-ins", "dgl_builtins", "dgl"),
    "pyg": Contender("PyG", "pyg", "torch_geometric"),
    "gossamer": Contender("Gossamer", "ours", "gossamer"),
}
