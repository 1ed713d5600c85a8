"""The record of a capture: every ATen call on tensors without data becomes an fx node.

Three promises make the recorded graph true for every graph size:
- sizes of rows are unbacked symbols, so no size hint exists that could decide anything;
- an operator that could only go on by assuming something of such a symbol (an equality with another
  size, a dropped or kept axis of unknown size) is refused, not recorded;
- tensors with data are known by identity (lifted) or are constants, else they are refused.

Writes in place are recorded as their out-of-place operator; the tensor object then stands for the
new node. That is exact while no other live tensor shares its memory, which is checked.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFunction
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import ShapeEnv, _constrain_range_for_size
from torch.overrides import resolve_name
from torch.utils._pytree import tree_map

from . import composite
from .call import InputSpec, Meta, Number
from .draws import Draws
from .errors import UntraceableError
from .user_place import user_place

aten = torch.ops.aten

_MAX_CONSTANT = 256
#: Torch raises in the backward; a kernel's would be 0.
_WITHOUT_DERIVATIVE = (aten.floor_divide, aten.floor_divide_)


#: What to write instead of a torch function that is not compiled.
NO_SUCH_FUNCTION = (
    "write it with arithmetic, sums, maxima, softmax, products and slices, or call it outside of "
    "the function"
)


class _Env(ShapeEnv):
    """A shape environment that remembers the first question it could not answer.

    User code may swallow the exception; the capture is refused all the same.
    """

    unanswered: UntraceableError | None = None
    #: The torch function that the user's code is in.
    function: Callable | None = None

    def evaluate_expr(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().evaluate_expr(*args, **kwargs)
        except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode as error:
            if self.unanswered is None:
                self.unanswered = size_decision(error, self.function)
            raise


def size_decision(error: Exception, function: Callable | None = None) -> UntraceableError:
    """What a question about an unknown size or value means to the user.

    Args:
        function: the torch function that asks; None when the user's own code does.
    """
    condition = getattr(error, "cond", None)
    asked = f" ({condition})" if condition is not None else ""
    file, line = user_place()
    unknown = f"a number of rows, a degree or a value{asked}"
    name = function and resolve_name(function)
    if name:
        return UntraceableError(f"{name} decides by {unknown}", file, line, NO_SUCH_FUNCTION)
    if condition is None or isinstance(condition, (Relational, BooleanFunction)):
        remedy = "compute with tensor operators, or choose with torch.where"
        return UntraceableError(f"a decision on {unknown}", file, line, remedy)
    remedy = "compute with tensors; arithmetic, math and numpy take it without float() or int()"
    return UntraceableError(f"a Python number is made of {unknown}", file, line, remedy)


class Recorder:
    """One capture: symbols, the growing fx graph, and which node each tensor stands for."""

    def __init__(self, lifted: Sequence[Tensor], rng: str = "compiled"):
        self.draws = Draws(rng)
        self.env = _Env()
        self.fake = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.graph = fx.Graph()
        self.inputs: list[InputSpec] = []
        self.recording = True
        self.grad = torch.is_grad_enabled()
        #: Numbers of rows now, by symbol, where a capture may rely on facts about them.
        self.row_counts: Mapping[Any, int] = {}
        #: (smaller, larger): what it relied on; checked in every later call.
        self.prefixes: list[tuple[Any, Any]] = []
        #: Whether there are no rows: what it relied on, too.
        self.emptiness: dict[Any, bool] = {}
        self._by_spec: dict[InputSpec, fx.Node] = {}
        self._fake_lifted: dict[int, Tensor] = {}
        self._lifted = {id(tensor): index for index, tensor in enumerate(lifted)}
        self._live: list[weakref.ref[Tensor]] = []
        self._persistent: set[int] = set()
        self._protected: list[Tensor] = []

    def new_size(self, least: int) -> torch.SymInt:
        """An unknown size of at least `least`."""
        size = self.env.create_unbacked_symint()
        _constrain_range_for_size(size, least, None)
        return size

    def scalar(self, index: int) -> torch.SymFloat:
        """Run-time scalar `index` of the call: an unknown number."""
        self._placeholder(InputSpec("scalar", index=index), self.empty((), torch.float64))
        return self.env.create_unbacked_symfloat()

    def empty(self, shape: Sequence[int | torch.SymInt], dtype: torch.dtype) -> Tensor:
        """A tensor without data, unknown to the graph so far."""
        with self.unrecorded(), self.fake:
            return torch.empty(tuple(shape), dtype=dtype)

    def allows_prefix(self, count: torch.SymInt, rows: torch.SymInt) -> bool:
        """Whether `x[:count]` of a tensor of `rows` rows has `count` rows; then it is noted."""
        smaller, larger = count.node.expr, rows.node.expr
        counts = self.row_counts
        if smaller not in counts or larger not in counts or counts[smaller] > counts[larger]:
            return False
        self.prefixes.append((smaller, larger))
        return True

    def is_empty(self, rows: torch.SymInt) -> bool:
        """Whether there are no such rows now, which is noted.

        Raises:
            UntraceableError: the number is not known.
        """
        symbol = rows.node.expr
        if symbol not in self.row_counts:
            raise UntraceableError("a graph made inside forward may have no edge", *user_place())
        return self.emptiness.setdefault(symbol, self.row_counts[symbol] == 0)

    @contextlib.contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Torch calls in the block are ours, not the user's."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    @contextlib.contextmanager
    def within(self, function: Callable) -> Iterator[None]:
        """The user's code calls a torch function: what the block asks of sizes, that one asks."""
        before, self.env.function = self.env.function, function
        try:
            yield
        finally:
            self.env.function = before

    def input(self, spec: InputSpec, rows: int | torch.SymInt | None, persistent: bool) -> Tensor:
        """A new tensor for an input. `persistent`: writes in place would outlive the call."""
        shape = spec.shape if rows is None else (rows, *spec.shape)
        tensor = self.empty(shape, spec.dtype)
        self.bind(tensor, self._placeholder(spec, tensor))
        if persistent:
            self.protect(tensor)
        return tensor

    def _placeholder(self, spec: InputSpec, tensor: Tensor) -> fx.Node:
        node = self._by_spec.get(spec)
        if node is not None:
            return node
        name = f"input_{len(self.inputs)}"
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        if first is None:
            node = self.graph.placeholder(name)
        else:
            with self.graph.inserting_before(first):
                node = self.graph.placeholder(name)
        node.meta["val"] = Meta(tuple(tensor.shape), tensor.dtype)
        node.meta["loc"] = user_place()
        self._by_spec[spec] = node
        self.inputs.append(spec)
        return node

    def protect(self, tensor: Tensor) -> None:
        """Refuse writes to this memory. The tensor is kept, so that the address stays taken."""
        self._persistent.add(self.memory(tensor))
        self._protected.append(tensor)

    def is_protected(self, tensor: Tensor) -> bool:
        """Whether this memory outlives the call."""
        return self.memory(tensor) in self._persistent

    def memory(self, tensor: Tensor) -> int:
        """Tensors with the same number share memory."""
        with self.unrecorded():
            return tensor.untyped_storage()._cdata

    def bind(self, tensor: Tensor, node: fx.Node) -> None:
        """Let a tensor stand for a node."""
        tensor._gossamer_node = node
        self._live.append(weakref.ref(tensor))

    def node_of(self, tensor: Tensor) -> fx.Node:
        """The node that a tensor stands for.

        Raises:
            UntraceableError: a tensor that is neither made here nor lifted.
        """
        node = getattr(tensor, "_gossamer_node", None)
        if node is not None:
            return node
        index = self._lifted.get(id(tensor))
        if index is None and isinstance(tensor, FakeTensor):
            raise self.refuse("a tensor that was made by an operator capture did not see")
        if index is None:
            raise self.refuse(
                f"a tensor of shape {tuple(tensor.shape)} that was not found in the closure, "
                "globals or attributes of the function",
                "reach it through self, a closure variable or a field of the graph",
            )
        spec = InputSpec("lifted", index=index, shape=tuple(tensor.shape), dtype=tensor.dtype)
        return self._placeholder(spec, tensor)

    def fake_of(self, tensor: Tensor) -> Tensor:
        """The tensor without its data."""
        if isinstance(tensor, FakeTensor) and id(tensor) not in self._lifted:
            return tensor
        known = self._fake_lifted.get(id(tensor))
        if known is None:
            with self.unrecorded(), self.fake:
                known = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            self.protect(known)
            self._fake_lifted[id(tensor)] = known
            self.bind(known, self.node_of(tensor))
        return known

    def without_data(self, value: Any) -> Any:
        """The value with lifted tensors, also in containers, replaced by tensors without data."""
        return tree_map(lambda v: self.fake_of(v) if id(v) in self._lifted else v, value)

    def emit(self, target: Callable, args: tuple, kwargs: dict, result: Any) -> Any:
        """Record a call whose result (tensors without data) is known."""
        if torch.is_grad_enabled() and not self.grad:
            raise self.refuse("gradients are switched on", "do so around the call")
        node = self.graph.call_function(target, self._nodes(args), self._nodes(kwargs))
        node.meta["loc"] = user_place()
        node.meta["detached"] = self.grad and not torch.is_grad_enabled()
        node.meta["per_degree"] = self.draws.is_per_degree
        if isinstance(result, Tensor):
            node.meta["val"] = Meta(tuple(result.shape), result.dtype)
            self.bind(result, node)
            return result
        metas = []
        for index, item in enumerate(result):
            part = self.graph.call_function(getitem, (node, index))
            part.meta["loc"] = node.meta["loc"]
            part.meta["detached"] = node.meta["detached"]
            part.meta["val"] = Meta(tuple(item.shape), item.dtype)
            metas.append(part.meta["val"])
            self.bind(item, part)
        node.meta["val"] = tuple(metas)
        return result

    def _nodes(self, value: Any) -> Any:
        return tree_map(self._node_argument, value)

    def _node_argument(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.node_of(value)
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return Number(value.node.expr, isinstance(value, torch.SymInt))
        return value

    def _fakes(self, value: Any) -> Any:
        return tree_map(lambda v: self.fake_of(v) if isinstance(v, Tensor) else v, value)

    def refuse(self, reason: str, remedy: str = "") -> UntraceableError:
        """The error for what the user's code does now."""
        return UntraceableError(reason, *user_place(), remedy)

    def dispatch(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Record one ATen call. Runs with the recording mode off and the fake mode on."""
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if func is aten.lift_fresh.default:
            return args[0] if isinstance(args[0], FakeTensor) else self.constant(args[0])
        self._check(func, args)
        if func._schema.is_mutable:
            return self._functionalise(func, args, kwargs)
        return self.emit(func, args, kwargs, self._infer(func, args, kwargs))

    def _infer(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """The result's shapes; refused when they hold only under an assumption on unknown sizes."""
        before = self._assumptions()
        result = func(*self._fakes(args), **self._fakes(kwargs))
        if self._assumptions() != before:
            raise self.refuse(
                f"{func} needs two sizes to be equal of which one is a number of rows or a degree",
                "use tensors whose rows are those of the batch",
            )
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(part, Tensor):
                found = "nothing" if part is None else f"a {type(part).__name__}"
                raise self.refuse(
                    f"{func} returns {found} instead of a tensor", "call it outside of the function"
                )
        return result

    def assumes(self) -> bool:
        """Whether anything was assumed of unknown sizes, also outside of operators."""
        return any(self._assumptions())

    def _assumptions(self) -> tuple[int, int, int]:
        env = self.env
        return env.num_deferred_runtime_asserts, len(env.replacements), len(env.guards)

    def _check(self, func: Any, args: tuple) -> None:
        tags = func.tags
        if torch.Tag.nondeterministic_seeded in tags:
            raise self.refuse(f"random numbers ({func})", "draw with torch.rand_like")
        if torch.Tag.data_dependent_output in tags or func is aten._local_scalar_dense.default:
            raise self.refuse(
                f"a tensor's value is read in Python ({func})", "select with torch.where"
            )
        if torch.Tag.dynamic_output_shape in tags and not _picks_rows(func, args):
            raise self.refuse(
                f"{func} makes a result whose size depends on values", "select with torch.where"
            )
        if func in (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims):
            self._check_squeeze(args)
        if func.overloadpacket in _WITHOUT_DERIVATIVE and any(map(self._may_have_gradient, args)):
            raise self.refuse(
                f"torch has no derivative of {func}",
                'detach() the operands, or use torch.div(x, y, rounding_mode="floor")',
            )

    def _may_have_gradient(self, value: Any) -> bool:
        if not (isinstance(value, Tensor) and value.is_floating_point() and self.grad):
            return False
        node = self.node_of(value)
        return not node.meta.get("detached") and node.target is not aten.detach.default

    def _check_squeeze(self, args: tuple) -> None:
        shape = args[0].shape
        axes = range(len(shape)) if len(args) == 1 else args[1]
        axes = [axes] if isinstance(axes, int) else axes
        if any(isinstance(shape[axis], torch.SymInt) for axis in axes):
            raise self.refuse(
                "squeeze() drops the row axis or the message axis when its size happens to be 1",
                "name the feature axis, as in squeeze(-1)",
            )

    def constant(self, data: Any, dtype: torch.dtype | None = None) -> Tensor:
        """A small tensor of numbers that the function made."""
        with self.unrecorded(), unset_fake_temporarily():
            value = torch.as_tensor(data, dtype=dtype)
            literal = value.tolist()
        if value.numel() > _MAX_CONSTANT:
            raise self.refuse(
                f"a constant of {value.numel()} numbers is made in the function", "make it outside"
            )
        fake = self.empty(value.shape, value.dtype)
        return self.emit(composite.constant, (literal, value.dtype), {}, fake)

    def _functionalise(self, func: Any, args: tuple, kwargs: dict) -> Tensor:
        """Record `x.add_(y)` as a new value of x."""
        pure = _out_of_place(func)
        target = args[0] if args else None
        if pure is None or not isinstance(target, Tensor):
            raise self.refuse(f"{func} changes a tensor in place", "use its out-of-place form")
        self._check_unshared(func, target)
        result = self._infer(pure, args, kwargs)
        if not composite.same_shape(result.shape, target.shape):
            raise self.refuse(f"{func} would change the shape of its tensor")
        if result.dtype != target.dtype and not torch.can_cast(result.dtype, target.dtype):
            raise self.refuse(f"{func} cannot store {result.dtype} in {target.dtype}")
        self.emit(pure, args, kwargs, result)
        if result.dtype != target.dtype:
            cast = self._infer(aten._to_copy.default, (result,), {"dtype": target.dtype})
            result = self.emit(aten._to_copy.default, (result,), {"dtype": target.dtype}, cast)
        target._gossamer_node = result._gossamer_node
        return target

    def _check_unshared(self, func: Any, target: Tensor) -> None:
        if not isinstance(target, FakeTensor):
            raise self.refuse(
                f"{func} changes a parameter, buffer or other tensor in place",
                "return a new tensor",
            )
        self.node_of(target)
        memory = self.memory(target)
        if memory in self._persistent:
            raise self.refuse(
                f"{func} changes a field, parameter or buffer in place",
                "write x = x + y instead of x += y",
            )
        self._live = [ref for ref in self._live if ref() is not None]
        for ref in self._live:
            other = ref()
            if other is target or other is None:
                continue
            if self.memory(other) == memory:
                raise self.refuse(
                    f"{func} changes memory that another tensor also shows, such as a slice",
                    "build the result with torch.cat, torch.stack or torch.where",
                )


def getitem(values: tuple, index: int) -> Tensor:
    """Result `index` of an operator with several."""
    return values[index]


def _picks_rows(func: Any, args: tuple) -> bool:
    """Whether an indexing has as many results as indices: no index is a mask."""
    if func is not aten.index.Tensor:
        return False
    return all(index is None or index.dtype != torch.bool for index in args[1])


def _out_of_place(func: Any) -> Any:
    """aten.add_.Tensor to aten.add.Tensor, or None."""
    name = func._schema.name.split("::")[1]
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(torch.ops.aten, name[:-1], None)
    return getattr(packet, func._overloadname, None) if packet is not None else None
