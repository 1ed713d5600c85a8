"""Compiling a trace: a `torch.fx.Transformer` that puts graphs under a compiling engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx, nn

from gossamer import fx_operators as operators
from gossamer.capture.session import Options, Session

_ON_GRAPHS = frozenset(
    id(operator)
    for operator in (
        operators.apply_edges,
        operators.apply_nodes,
        operators.call,
        operators.commit,
        operators.edge_softmax,
        operators.read,
        operators.update_all,
        operators.view,
    )
)


class CompiledSession(nn.Module, Session):
    """What a compiled trace has learnt; `gs.explain` reads it. A copy starts anew."""

    def __init__(self, options: Options, name: str) -> None:
        nn.Module.__init__(self)
        Session.__init__(self, options, name)

    def __reduce__(self) -> tuple:
        return CompiledSession, (self.options, self.name)


class CompileMessagePassing(fx.Transformer):
    """A `torch.fx.Transformer` whose result runs the message passing operators compiled.

    All of them share one session: an edge field that one operator makes and another one reads stays
    inside of the program of the latter, and `gs.explain` reports on the whole module.

    Args:
        module: what `gs.symbolic_trace` returned, or what other passes made of it.
        options: those of `gs.compile`.

    Raises:
        TypeError, ValueError: an option is unknown, or has an unknown value.

    >>> fast = gs.fx.CompileMessagePassing(gs.symbolic_trace(model)).transform()
    >>> y = fast(g, x)
    """

    def __init__(self, module: fx.GraphModule, **options: Any) -> None:
        super().__init__(module)
        self.module = self.tracer.root = _with_session(module, Options(**options))
        self._session: fx.Proxy | None = None
        self._shadows: dict[fx.Node, fx.Proxy] = {}

    def call_function(self, target: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Operators get a graph whose calls are compiled; others stay."""
        if id(target) in _ON_GRAPHS:
            if args:
                args = (self._shadow(args[0]), *args[1:])
            else:
                kwargs = {**kwargs, "graph": self._shadow(kwargs["graph"])}
        return super().call_function(target, args, kwargs)

    def _shadow(self, graph: fx.Proxy) -> fx.Proxy:
        if self._session is None:
            self._session = self.tracer.create_proxy("get_attr", "_session", (), {})
        if graph.node not in self._shadows:
            args = (self._session, graph)
            self._shadows[graph.node] = super().call_function(operators.shadow, args, {})
        return self._shadows[graph.node]


def _with_session(module: fx.GraphModule, options: Options) -> nn.Module:
    """What the attributes of the result are taken from: those of the module, and a session."""
    root = nn.Module()
    vars(root).update(vars(module))
    root._modules = dict(module._modules)
    root.add_module("_session", CompiledSession(options, type(module).__name__))
    return root
