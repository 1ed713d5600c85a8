"""What tests of snapshots share: the state of a function, and a layer to change."""

import dataclasses
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gossamer.capture.snapshot import CannotSnapshot, snapshot
from gossamer.capture.stable_key import stable_name

_TESTS = Path(__file__).parents[1]

ALPHA = 2


class Edges:
    """Stands for an edge batch: a plain holder of rows."""

    def __init__(self, **src):
        self.src = src
        self.data = {}


def edges():
    return Edges(h=torch.arange(6.0).reshape(2, 3))


def state(udf):
    snap = snapshot(udf)
    return snap.key, snap.float_bits


def tensors(udf):
    return [lifted.tensor for lifted in snapshot(udf).tensors]


def same(a, b):
    """Whether two states are equal; then and only then they have one name on the disk, if any."""
    hash(a[0])
    name, other = stable_name(*a), stable_name(*b)
    assert None in (name, other) or (name == other) == (a == b)
    return a == b


def refusal(udf):
    with pytest.raises(CannotSnapshot) as caught:
        snapshot(udf)
    error = caught.value
    assert Path(error.file).is_relative_to(_TESTS)
    assert error.line > 0
    assert error.remedy
    return error


def line_of(udf, offset):
    return udf.__code__.co_firstlineno + offset


def scaled(value):
    return lambda edges: {"m": edges.src["h"] * value}


class Layer(nn.Module):
    scale = 3

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)
        self.slope = 0.2
        self.k = 1
        self.act = torch.relu
        self.history = []
        self.unused = threading.Lock()
        self.register_buffer("shift", torch.zeros(3))

    def message(self, edges):
        return {"m": self.helper(self.fc(edges.src["h"])) * self.k + self.shift}

    def helper(self, x):
        return F.leaky_relu(self.act(x), self.slope) * self.scale * ALPHA

    def forward(self, graph, x):
        self.history.append(time.time())
        return graph.update_all(self.message, x)


@dataclasses.dataclass(frozen=True)
class Config:
    heads: int = 2
    slope: float = 0.1
    names: tuple = ("a", "b")


def changes(change, make=Layer, udf=lambda layer: layer.message):
    layer = make()
    before = state(udf(layer))
    assert same(state(udf(layer)), before)
    change(layer)
    return not same(state(udf(layer)), before)
