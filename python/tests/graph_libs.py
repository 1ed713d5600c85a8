"""One test body, two libraries: each fact about DGL is asserted of `gossamer.dgl` and, where it is
installed, of DGL itself. So the expected values in these tests are DGL's, not our memory of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings

import pytest
import torch

WITHOUT_DGL = pytest.mark.skipif(
    importlib.util.find_spec("dgl") is None, reason="DGL is not installed"
)


class Library:
    """A DGL-like module with its submodules, whichever it is."""

    def __init__(self, name: str):
        self.name = name
        self.is_dgl = name == "dgl"

    def __getattr__(self, attribute: str):
        if attribute == "fn":
            return importlib.import_module(f"{self.name}.function")
        if attribute == "edge_softmax":
            return importlib.import_module(f"{self.name}.nn.functional").edge_softmax
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(self.name), attribute)


OURS = Library("gossamer.dgl")
both = pytest.mark.parametrize(
    "dgl",
    [
        pytest.param(OURS, id="gossamer"),
        pytest.param(Library("dgl"), id="dgl", marks=[WITHOUT_DGL, pytest.mark.dgl_live]),
    ],
)


def small(dgl, idtype=torch.int64):
    """Self loop at 2, parallel edges 0 -> 1, isolated nodes 4 and 5, in-degrees 0 to 3."""
    edges = torch.tensor([[0, 1, 0, 2, 3, 0, 1], [1, 2, 1, 2, 1, 3, 2]], dtype=idtype)
    g = dgl.graph((edges[0], edges[1]), num_nodes=6)
    torch.manual_seed(7)
    g.ndata["x"] = torch.randn(6, 3)
    g.ndata["y"] = torch.randn(6, 3)
    g.edata["w"] = torch.randn(7, 1)
    return g


def hetero(dgl):
    """Two node types, three relations, one of them empty."""
    g = dgl.heterograph(
        {
            ("user", "follows", "user"): (torch.tensor([0, 1, 1]), torch.tensor([1, 2, 0])),
            ("user", "buys", "item"): (torch.tensor([0, 2, 2]), torch.tensor([1, 0, 1])),
            ("item", "suits", "user"): (torch.tensor([0, 1]), torch.tensor([2, 2])),
        },
        {"user": 4, "item": 3},
    )
    torch.manual_seed(8)
    g.nodes["user"].data["x"] = torch.randn(4, 2)
    g.nodes["item"].data["x"] = torch.randn(3, 2)
    return g


def equal(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6, equal_nan=True)


def copy_x(edges):
    return {"m": edges.src["x"]}


def sum_m(nodes):
    return {"h": nodes.mailbox["m"].sum(1)}
