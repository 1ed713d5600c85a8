"""Writes what `infer` runs: a model as AOTInductor package and as TorchScript, and graphs.

python export_model.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import gossamer as gs


class Attention(nn.Module):
    """One head of graph attention, in user-defined functions."""

    def __init__(self, width: int, out: int):
        super().__init__()
        self.fc = nn.Linear(width, out)
        self.score = nn.Parameter(torch.randn(out) * 0.3)

    def message(self, edges):
        """Score of each edge, and what it carries."""
        pair = (edges.src["z"] + edges.dst["z"]).tanh()
        return {"s": (pair * self.score).sum(-1, keepdim=True), "z": edges.src["z"]}

    def reduce(self, nodes):
        """Mean of the messages, weighted by the softmax of their scores."""
        return {"h": (nodes.mailbox["s"].softmax(1) * nodes.mailbox["z"]).sum(1)}

    def forward(self, graph, x):
        """Node rows (N, width) in, (N, out) out."""
        with graph.local_scope():
            graph.ndata["z"] = self.fc(x)
            graph.update_all(self.message, self.reduce)
            return graph.ndata["h"]


class Network(nn.Module):
    """Two layers of attention."""

    def __init__(self):
        super().__init__()
        self.first = gs.compile(Attention(8, 16), target="generic")
        self.second = gs.compile(Attention(16, 3), target="generic")

    def forward(self, graph, x):
        """Node rows (N, 8) in, (N, 3) out."""
        return self.second(graph, self.first(graph, x).relu())


class EdgeList(nn.Module):
    """A graph with features in a file that C++ reads."""

    def __init__(self, src: Tensor, dst: Tensor, x: Tensor):
        super().__init__()
        self.register_buffer("src", src)
        self.register_buffer("dst", dst)
        self.register_buffer("x", x)


def random_edges(nodes: int, edges: int) -> EdgeList:
    """A random graph with random features."""
    src, dst = torch.randint(0, nodes, (2, edges)).unbind()
    return EdgeList(src.clone(), dst.clone(), torch.randn(nodes, 8))


def call_arguments(data: EdgeList) -> tuple[gs.Graph, Tensor]:
    """The arguments of the model for a graph in a file."""
    return gs.graph((data.src, data.dst), num_nodes=data.x.shape[0]), data.x


def write(folder: Path) -> tuple[Network, EdgeList]:
    """Write model.pt2, model.pt and graph.pt; returns the model, and the graph in graph.pt.

    The model is traced on another graph, of other size.
    """
    torch.manual_seed(0)
    model = Network().eval()
    args = call_arguments(random_edges(50, 200))
    flat = gs.OnTensors(model, args)
    torch._inductor.aoti_compile_and_package(
        flat.export(args),
        package_path=str(folder / "model.pt2"),
        inductor_configs={"aot_inductor.compile_wrapper_opt_level": "O0"},
    )
    flat.trace(args).save(str(folder / "model.pt"))
    other = random_edges(300, 2000)
    torch.jit.script(other).save(str(folder / "graph.pt"))
    return model, other


if __name__ == "__main__":
    write(Path(sys.argv[1]))
