"""The same model on DGL, where DGL is installed: its user-defined functions, and its built-ins."""

from __future__ import annotations

import dataclasses
import importlib.util
import warnings
from collections.abc import Callable

import torch.multiprocessing
from torch import Tensor
from torch.nn import functional

from gat import GAT, GATLayer
from packages import Dataset
from training import Recipe, Split, seeded, train


class BuiltinGATLayer(GATLayer):
    """The layer in DGL's built-in functions, which run DGL's own kernels."""

    def attend(self, graph, z: Tensor) -> Tensor:
        """As `GATLayer.attend`."""
        from dgl import function
        from dgl.nn.functional import edge_softmax

        with graph.local_scope():
            graph.ndata["z"] = z
            graph.ndata["src"] = (z * self.from_src).sum(-1, keepdim=True)
            graph.ndata["dst"] = (z * self.from_dst).sum(-1, keepdim=True)
            graph.apply_edges(function.u_add_v("src", "dst", "e"))
            scores = functional.leaky_relu(graph.edata.pop("e"), 0.2)
            graph.edata["a"] = edge_softmax(graph, scores)
            graph.update_all(function.u_mul_e("z", "a", "m"), function.sum("m", "h"))
            return graph.ndata["h"]


LAYERS: dict[str, type[GATLayer]] = {"DGL built-ins": BuiltinGATLayer, "DGL UDF": GATLayer}


def installed() -> bool:
    """Whether there is a DGL to compare with."""
    return importlib.util.find_spec("dgl") is not None


def epoch_seconds(
    name: str, data: Dataset, split: Split, recipe: Recipe, epochs: int, patience: float
) -> float | None:
    """Seconds per epoch of a layer of `LAYERS` on DGL; None after `patience` seconds.

    Runs in a process of its own, which can be stopped.
    """
    context = torch.multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    few = dataclasses.replace(recipe, epochs=epochs)
    process = context.Process(target=_train, args=(send, name, data, split, few))
    process.start()
    send.close()
    try:
        if receive.poll(patience):
            return receive.recv()
        process.terminate()
        return None
    except EOFError:
        raise RuntimeError(f"training with {name} failed; see above") from None
    finally:
        process.join()


def _train(
    send: torch.multiprocessing.connection.Connection,
    name: str,
    data: Dataset,
    split: Split,
    recipe: Recipe,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dgl
    graph = dgl.graph((data.src, data.dst), num_nodes=data.num_nodes)
    width, classes, layer = data.features.shape[1], len(data.classes), LAYERS[name]
    model = seeded(lambda: GAT(width, classes, recipe.dropout, layer))
    forward: Callable[[Tensor], Tensor] = lambda x: model(graph, x)  # noqa: E731
    send.send(train(name, model, forward, data, split, recipe).epoch_seconds)
