"""The layers that are measured, by name: their weights, and what they compute.

Every contender computes the same function of the same tensors; `contenders/` holds how. The
references here are plain torch operators, run in float64 and, to know what rounding alone does, in
float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from graphs import RELATIONS, EdgeList, MiniBatches

HEADS = 4
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        weights: names and shapes for F features; made of numbers of about unit gain.
        reference: (graph, x, weights) to the output in pieces, one after another: columns, or on
            mini-batches the output of each.
        on_blocks: it runs on `MiniBatches`, not on a whole graph.
        on_relations: it runs on a graph whose edges have types.
    """

    weights: Callable[[int], dict[str, tuple[int, ...]]]
    reference: Callable[[EdgeList | MiniBatches, Tensor, Weights], Iterator[Tensor]]
    on_blocks: bool = False
    on_relations: bool = False


@dataclass(frozen=True)
class Workload:
    """One layer on one graph, for one contender.

    Attributes:
        layer: name of the layer in `LAYERS`.
        graph: where it runs.
        x: node features, (N, F). weights: by name.
        training: gradients are wanted, of the weights and (on whole graphs) of x.
        decided: for each output which of its numbers gradients come from; None for all.
    """

    layer: str
    graph: EdgeList | MiniBatches
    x: Tensor
    weights: Weights
    training: bool = False
    decided: Sequence[Tensor] | None = None

    @property
    def features(self) -> int:
        """F."""
        return self.x.shape[1]

    def leaves(self) -> dict[str, Tensor]:
        """What gradients are wanted of, by name."""
        own = {} if LAYERS[self.layer].on_blocks else {"x": self.x}
        return {**own, **self.weights}

    def output_shapes(self) -> list[tuple[int, int]]:
        """The shape of the output, or of that of each mini-batch."""
        if LAYERS[self.layer].on_blocks:
            return [(blocks[-1].num_rows, self.features) for blocks in self.graph.blocks]
        return [(self.graph.num_rows, self.features)]

    def batch_inputs(self) -> list[Tensor]:
        """For each mini-batch the features that its first block reads."""
        return [self.x[nodes] for nodes in self.graph.inputs]


def workload(
    layer: str,
    graph: EdgeList | MiniBatches,
    features: int,
    training: bool = False,
    dtype: torch.dtype = torch.float32,
    decided: Sequence[Tensor] | None = None,
) -> Workload:
    """The same numbers in every process, in tensors of its own."""
    x, weights = numbers(layer, graph.num_nodes, features)
    x = x.to(dtype, copy=True)
    weights = {name: weight.to(dtype, copy=True) for name, weight in weights.items()}
    work = Workload(layer, graph, x, weights, training, decided)
    for leaf in work.leaves().values():
        leaf.requires_grad_(training)
    return work


@functools.lru_cache(maxsize=1)
def numbers(layer: str, num_nodes: int, features: int) -> tuple[Tensor, Weights]:
    """Random features (N, F) and weights of about unit gain."""
    generator = torch.Generator().manual_seed(2)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) / shape[-1] ** 0.5

    x = torch.randn(num_nodes, features, generator=generator)
    shapes = LAYERS[layer].weights(features)
    return x, {name: random(*shape) for name, shape in shapes.items()}


def cotangents(work: Workload) -> list[Tensor]:
    """A fixed gradient of each output, signed; 0 where the output is not decided."""
    generator = torch.Generator().manual_seed(4)
    shapes = work.output_shapes()
    pulls = [torch.randn(shape, generator=generator).to(work.x.dtype) for shape in shapes]
    if work.decided is None:
        return pulls
    return [pull * mask for pull, mask in zip(pulls, work.decided, strict=True)]


def reference_of(work: Workload) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Outputs and, in training, the gradients by name.

    What a piece of the output needs for its gradients is dropped before the next piece is made.
    """
    layer, leaves, pulls = LAYERS[work.layer], work.leaves(), cotangents(work)
    pulls = pulls if layer.on_blocks else pulls[0].chunk(HEADS, 1)
    pieces, gradients = [], {}
    with torch.set_grad_enabled(work.training):
        outputs = layer.reference(work.graph, work.x, work.weights)
        for y, pull in zip(outputs, pulls, strict=True):
            pieces.append(y.detach())
            if work.training:
                found = torch.autograd.grad(y, list(leaves.values()), pull)
                for name, gradient in zip(leaves, found, strict=True):
                    gradients[name] = gradients.get(name, 0) + gradient
    return pieces if layer.on_blocks else [torch.cat(pieces, dim=1)], gradients


# --- what they compute ---------------------------------------------------------------------------


def heads_of(weights: Weights) -> Iterator[Weights]:
    """The weights of each head (of `HEADS`; of a block of columns where a layer has none)."""
    for head in range(HEADS):
        yield {
            name: weight[head] if weight.shape[0] == HEADS else weight.chunk(HEADS, -1)[head]
            for name, weight in weights.items()
        }


def by_head(compute: Callable[..., Tensor]) -> Callable[..., Iterator[Tensor]]:
    """The layer from what it does for one head, so that only one head's edge rows are alive at a
    time.
    """

    def reference(graph: EdgeList, x: Tensor, weights: Weights) -> Iterator[Tensor]:
        for parts in heads_of(weights):
            yield compute(graph, x, **parts)

    return reference


def at(rows: Tensor, index: Tensor) -> Tensor:
    """Rows by number; its derivative is much faster than that of `rows[index]`."""
    return rows.index_select(0, index)


def sums(graph: EdgeList, values: Tensor) -> Tensor:
    """Sums of edge values by destination."""
    return values.new_zeros(graph.num_rows, *values.shape[1:]).index_add(0, graph.dst, values)


def edge_softmax(graph: EdgeList, scores: Tensor) -> Tensor:
    """Softmax of scores (E,) over the in-edges of each node."""
    top = scores.detach().new_zeros(graph.num_rows)
    top.scatter_reduce_(0, graph.dst, scores.detach(), "amax", include_self=False)
    weights = (scores - at(top, graph.dst)).exp()
    return weights / at(sums(graph, weights), graph.dst)


def gcn(graph: EdgeList, x: Tensor, weight: Tensor) -> Tensor:
    """y_v = c_v sum_u c_u x_u W with c = in-degree^-1/2; W: (F, F) as `weight`.

    Source: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks.
    """
    norm = torch.bincount(graph.dst).to(x.dtype).rsqrt().unsqueeze(1)
    return sums(graph, at(x @ weight * norm, graph.src)) * norm


def gat(graph: EdgeList, x: Tensor, weight: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    """y_v = sum_u softmax_u(leaky_relu(a_src . z_u + a_dst . z_v)) z_u, z = x W, per head.

    W: (F, F) as `weight`; z has `HEADS` heads of F / HEADS; `src` and `dst`: (HEADS, F / HEADS).
    Source: Velickovic et al., Graph Attention Networks.
    """
    z = x @ weight
    scores = functional.leaky_relu(gat_scores(graph, z, src, dst), 0.2)
    return sums(graph, edge_softmax(graph, scores).unsqueeze(1) * at(z, graph.src))


def gat_scores(graph: EdgeList, z: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    """a_src . z_u + a_dst . z_v of each edge, (E,)."""
    return at(z @ src, graph.src) + at(z @ dst, graph.dst)


def gatv2(graph: EdgeList, x: Tensor, src: Tensor, dst: Tensor, attention: Tensor) -> Tensor:
    """y_v = sum_u softmax_u(a . leaky_relu(l_u + r_v)) l_u, l = x L, r = x R, per head.

    L, R: (F, F) as `src` and `dst`; a: (HEADS, F / HEADS) as `attention`.
    Source: Brody et al., How Attentive are Graph Attention Networks?
    """
    left, right = x @ src, x @ dst
    ends = functional.leaky_relu(at(left, graph.src) + at(right, graph.dst), 0.2)
    return sums(graph, edge_softmax(graph, ends @ attention).unsqueeze(1) * at(left, graph.src))


def edgeconv(graph: EdgeList, x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """y_v = max_u relu((x_v - x_u) T + x_u P); T, P: (F, F) as `theta` and `phi`.

    Source: Wang et al., Dynamic Graph CNN for Learning on Point Clouds.
    """
    messages = functional.relu(edgeconv_sums(graph, x, theta, phi))
    with torch.no_grad():
        # As the mean of the largest: the derivative of torch's scattered maximum is very slow.
        index = graph.dst.unsqueeze(1).expand_as(messages)
        top = messages.new_zeros(graph.num_rows, messages.shape[1])
        top.scatter_reduce_(0, index, messages, "amax", include_self=False)
        share = (messages == at(top, graph.dst)).to(x.dtype)
        share /= at(sums(graph, share), graph.dst)
    return sums(graph, share * messages)


def edgeconv_sums(graph: EdgeList, x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """(x_v - x_u) T + x_u P of each edge, (E, F)."""
    t, p = x @ theta, x @ phi
    return at(t, graph.dst) - at(t, graph.src) + at(p, graph.src)


def rgcn(graph: EdgeList, x: Tensor, weight: Tensor) -> Tensor:
    """y_v = sum_r mean_u x_u W_r over the in-edges of each relation r; W: (RELATIONS, F, F) as
    `weight`.

    Source: Schlichtkrull et al., Modeling Relational Data with Graph Convolutional Networks.
    """
    share, found = graph.shares().to(x.dtype).unsqueeze(1), 0
    for relation, matrix in enumerate(weight):
        edges = (graph.types == relation).nonzero().squeeze(1)
        part = EdgeList(graph.src[edges], graph.dst[edges], graph.num_nodes)
        found = found + sums(part, at(x, part.src) * share[edges]) @ matrix
    return found


def sage(batches: MiniBatches, x: Tensor, weights: Weights) -> Iterator[Tensor]:
    """Two layers y_v = x_v S + mean_u x_u M over the blocks of each mini-batch, relu between them.

    S, M: (F, F) as `own0`, `others0`, `own1`, `others1`.
    Source: Hamilton et al., Inductive Representation Learning on Large Graphs.
    """
    for blocks, nodes in zip(batches.blocks, batches.inputs, strict=True):
        rows = x[nodes]
        for i, block in enumerate(blocks):
            rows = sage_layer(block, functional.relu(rows) if i else rows, weights, i)
        yield rows


def sage_layer(block: EdgeList, rows: Tensor, weights: Weights, i: int) -> Tensor:
    """Layer number `i` on its block."""
    degree = torch.bincount(block.dst, minlength=block.num_rows).clamp(min=1)
    mean = sums(block, at(rows, block.src)) / degree.unsqueeze(1).to(rows.dtype)
    return rows[: block.num_rows] @ weights[f"own{i}"] + mean @ weights[f"others{i}"]


def square(*names: str) -> Callable[[int], dict[str, tuple[int, ...]]]:
    """Weights of shape (F, F)."""
    return lambda features: dict.fromkeys(names, (features, features))


def square_and_heads(squares: tuple[str, ...], heads: tuple[str, ...]) -> Callable:
    """Weights of shape (F, F), and weights of shape (HEADS, F / HEADS)."""
    return lambda features: {
        **dict.fromkeys(squares, (features, features)),
        **dict.fromkeys(heads, (HEADS, features // HEADS)),
    }


LAYERS: dict[str, Layer] = {
    "gcn": Layer(square("weight"), by_head(gcn)),
    "gat": Layer(square_and_heads(("weight",), ("src", "dst")), by_head(gat)),
    "edgeconv": Layer(square("theta", "phi"), by_head(edgeconv)),
    "gatv2": Layer(square_and_heads(("src", "dst"), ("attention",)), by_head(gatv2)),
    "rgcn": Layer(
        lambda features: {"weight": (RELATIONS, features, features)},
        by_head(rgcn),
        on_relations=True,
    ),
    "sage": Layer(square("own0", "others0", "own1", "others1"), sage, on_blocks=True),
}
