"""The layers from DGL's built-in functions, as its manual recommends to write them."""

from __future__ import annotations

from collections.abc import Callable

from dgl import function as fn
from dgl.nn.functional import edge_softmax
from torch import Tensor
from torch.nn import functional

from contenders.dgl_udf import dgl_graph
from layers import HEADS, Workload


def gcn(work: Workload) -> Callable[[], Tensor]:
    """Norms on the nodes, one sparse product."""
    graph, weight = dgl_graph(work), work.weights["weight"]

    def run() -> Tensor:
        with graph.local_scope():
            norm = graph.in_degrees().to(work.x.dtype).rsqrt().unsqueeze(1)
            graph.ndata["h"] = (work.x @ weight) * norm
            graph.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"))
            return graph.ndata["y"] * norm

    return run


def gat(work: Workload) -> Callable[[], Tensor]:
    """Scores split by end, DGL's edge softmax, one weighted sparse product."""
    graph, weights = dgl_graph(work), work.weights

    def run() -> Tensor:
        with graph.local_scope():
            z = (work.x @ weights["weight"]).view(len(work.x), HEADS, -1)
            graph.ndata["z"] = z
            graph.ndata["l"] = (z * weights["src"]).sum(-1, keepdim=True)
            graph.ndata["r"] = (z * weights["dst"]).sum(-1, keepdim=True)
            graph.apply_edges(fn.u_add_v("l", "r", "e"))
            scores = functional.leaky_relu(graph.edata.pop("e"), 0.2)
            graph.edata["a"] = edge_softmax(graph, scores)
            graph.update_all(fn.u_mul_e("z", "a", "m"), fn.sum("m", "y"))
            return graph.ndata["y"].flatten(1)

    return run


BUILDERS = {"gcn": gcn, "gat": gat}
