"""The layers from DGL's own modules and built-in functions."""

from __future__ import annotations

from dgl import function as fn
from dgl.nn import EdgeConv, GATConv, GATv2Conv, RelGraphConv, SAGEConv
from torch import Tensor, nn
from torch.nn import functional

from contenders import Runner, direct, of_module
from contenders.dgl_udf import check, dgl_blocks, graphs_of
from graphs import RELATIONS
from layers import HEADS, Workload


def gcn(work: Workload) -> Runner:
    """Norms on the nodes, made beforehand, one sparse product.

    `dgl.nn.GraphConv` would take the out-degrees of the sources.
    """
    (graph,), seconds = graphs_of(work)
    graph, weight = graph(), work.weights["weight"]
    norm = graph.in_degrees().to(work.x.dtype).rsqrt().unsqueeze(1)

    def run() -> Tensor:
        with graph.local_scope():
            graph.ndata["h"] = (work.x @ weight) * norm
            graph.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"))
            return graph.ndata["y"] * norm

    return direct(work, [run], check=lambda: check(graph), convert_s=seconds)


def gat(work: Workload) -> Runner:
    """`dgl.nn.GATConv`."""
    conv = GATConv(work.features, work.features // HEADS, HEADS, bias=False)
    parameters = {
        "weight": (conv.fc.weight, work.weights["weight"].t()),
        "src": (conv.attn_l, work.weights["src"]),
        "dst": (conv.attn_r, work.weights["dst"]),
    }

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"weight": found["weight"].t(), "src": found["src"][0], "dst": found["dst"][0]}

    return conv_runner(work, conv, parameters, gradients)


def gatv2(work: Workload) -> Runner:
    """`dgl.nn.GATv2Conv`."""
    conv = GATv2Conv(work.features, work.features // HEADS, HEADS, bias=False)
    parameters = {
        "src": (conv.fc_src.weight, work.weights["src"].t()),
        "dst": (conv.fc_dst.weight, work.weights["dst"].t()),
        "attention": (conv.attn, work.weights["attention"]),
    }

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        src, dst = found["src"].t(), found["dst"].t()
        return {"src": src, "dst": dst, "attention": found["attention"][0]}

    return conv_runner(work, conv, parameters, gradients)


def edgeconv(work: Workload) -> Runner:
    """`dgl.nn.EdgeConv`, which is max_u ((x_v - x_u) A + x_v B) with A = T - P and B = P; the relu
    stands after the maximum, where it costs less and gives the same.
    """
    conv = EdgeConv(work.features, work.features)
    conv.theta = nn.Linear(work.features, work.features, bias=False)
    conv.phi = nn.Linear(work.features, work.features, bias=False)
    theta, phi = work.weights["theta"], work.weights["phi"]
    parameters = {"a": (conv.theta.weight, (theta - phi).t()), "b": (conv.phi.weight, phi.t())}

    def gradients(found: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"theta": found["a"].t(), "phi": (found["b"] - found["a"]).t()}

    return conv_runner(
        work, lambda graph, x: functional.relu(conv(graph, x)), parameters, gradients
    )


def rgcn(work: Workload) -> Runner:
    """`dgl.nn.RelGraphConv` without a basis, on edges that are sorted by their relation."""
    size = work.features
    conv = RelGraphConv(size, size, RELATIONS, bias=False, self_loop=False)
    parameters = {"weight": (conv.linear_r.W, work.weights["weight"])}

    def call(graph, x: Tensor) -> Tensor:
        return conv(graph, x, graph.edata["type"], graph.edata["share"], presorted=True)

    return conv_runner(work, call, parameters, dict)


def conv_runner(work: Workload, conv, parameters, gradients) -> Runner:
    """A runner of a function of a graph and features."""
    (graph,), seconds = graphs_of(work)
    graph = graph()

    def run() -> Tensor:
        return conv(graph, work.x).flatten(1)

    checks = {"check": lambda: check(graph), "convert_s": seconds}
    return of_module(work, parameters, gradients, [run], **checks)


def sage(work: Workload) -> Runner:
    """`dgl.nn.SAGEConv` with the mean, on blocks made in each call."""
    convs = [SAGEConv(work.features, work.features, "mean", bias=False) for _ in range(2)]
    parameters = {}
    for i, conv in enumerate(convs):
        parameters[f"own{i}"] = (conv.fc_self.weight, work.weights[f"own{i}"].t())
        parameters[f"others{i}"] = (conv.fc_neigh.weight, work.weights[f"others{i}"].t())

    def run(edges, x: Tensor) -> Tensor:
        first, second = dgl_blocks(edges)
        return convs[1](second, functional.relu(convs[0](first, x)))

    runs = [
        lambda edges=edges, x=x: run(edges, x)
        for edges, x in zip(work.graph.blocks, work.batch_inputs(), strict=True)
    ]
    return of_module(
        work, parameters, lambda found: {name: g.t() for name, g in found.items()}, runs
    )


BUILDERS = {
    "gcn": gcn,
    "gat": gat,
    "edgeconv": edgeconv,
    "gatv2": gatv2,
    "rgcn": rgcn,
    "sage": sage,
}
