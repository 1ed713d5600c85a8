"""One `update_all` in a local scope, around any pair of user-defined functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from programs.data import Rows
from programs.harness import COMPILES, Program
from programs.library import Library

Udf = Callable[..., Mapping[str, torch.Tensor]]


def place(g: Any, rows: tuple[Rows, ...], inputs: tuple[torch.Tensor, ...]) -> None:
    """Writes each input to the frame that its `Rows` names."""
    frames = {"src": g.srcdata, "dst": g.dstdata, "edge": g.edata}
    for spec, tensor in zip(rows, inputs, strict=True):
        frames[spec.where][spec.name] = tensor


class Layer(nn.Module):
    """Subclasses say what they read (`rows`), what they write (`outputs`), and how."""

    rows: tuple[Rows, ...] = ()
    outputs: tuple[str, ...] = ("o",)

    def __init__(self, library: Library, feat: int) -> None:
        super().__init__()
        self.library, self.feat = library, feat

    def functions(self) -> tuple[Udf, ...]:
        return self.message, self.reduce

    def forward(self, g, *inputs):
        with g.local_scope():
            place(g, self.rows, inputs)
            g.update_all(*self.functions())
            return {name: g.dstdata[name] for name in self.outputs}


class _PlainLayer(Layer):
    """A layer around free functions."""

    def __init__(self, functions: tuple[Udf, ...], rows: tuple[Rows, ...], outputs) -> None:
        nn.Module.__init__(self)
        self.udfs, self.rows, self.outputs = functions, rows, outputs

    def functions(self) -> tuple[Udf, ...]:
        return self.udfs


def udf(
    name: str,
    message: Udf,
    reduce: Udf,
    *rows: Rows,
    outputs: tuple[str, ...] = ("o",),
    apply: Udf | None = None,
    **options: Any,
) -> Program:
    """A program of free functions. `options` go to `Program`."""
    functions = (message, reduce) if apply is None else (message, reduce, apply)
    return Program(
        name, lambda library, feat: _PlainLayer(functions, rows, outputs), rows, **options
    )


def layer(name: str, cls: type[Layer], expect: str = COMPILES, **options: Any) -> Program:
    """A program of a `Layer` class."""
    return Program(name, cls, cls.rows, expect=expect, **options)
