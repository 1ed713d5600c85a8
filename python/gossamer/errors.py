"""Exceptions of Gossamer. Each class's docstring is its manual page: cause, failing code, working
code.

Every class derives from `GossamerError`. Where DGL or Python raise a standard exception for the
same mistake, the class here derives from that exception as well, so existing `except` clauses work.
"""

from __future__ import annotations

from collections.abc import Iterable


class GossamerError(Exception):
    """Base class of everything that Gossamer raises on purpose."""

    def __str__(self) -> str:
        # KeyError would print the repr of its message.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class GraphError(GossamerError):
    """A graph was asked for something that it does not have, or was given unfit data.

    Stands for `dgl.DGLError` (which is what `gossamer.dgl.DGLError` names).

    >>> import gossamer as gs
    >>> g = gs.graph(([0, 1], [1, 2]))
    >>> g.ndata["x"] = torch.zeros(2, 4)      # fails: 2 rows for 3 nodes
    Traceback (most recent call last):
    gossamer.errors.RowCountError: ...
    >>> g.ndata["x"] = torch.zeros(3, 4)      # works
    """


class MissingFieldError(GraphError, KeyError):
    """A feature field was read that nothing has written. Also a `KeyError`, as in DGL.

    >>> g.update_all(lambda edges: {"m": edges.src["h"]}, gs.function.sum("m", "h"))   # fails
    Traceback (most recent call last):
    gossamer.errors.MissingFieldError: edges.src has no field 'h'; it has: 'x'
    >>> g.ndata["h"] = x                                                               # first, then
    it works
    """

    def __init__(self, key: object, where: str, available: Iterable[object] = ()):
        names = ", ".join(repr(name) for name in available) or "nothing"
        super().__init__(f"{where} has no field {key!r}; it has: {names}")
        self.key = key

    def __reduce__(self):
        return _rebuild, (type(self), self.args, {"key": self.key})


class RowCountError(GraphError, IndexError):
    """A tensor has another number of rows than there are nodes, edges or messages for it.

    >>> g.apply_edges(lambda edges: {"m": edges.data["w"][:3]})      # fails: 3 rows for E edges
    Traceback (most recent call last):
    gossamer.errors.RowCountError: ...
    >>> g.apply_edges(lambda edges: {"m": edges.data["w"][:, :3]})   # slices columns: works
    """


class SchemaError(GraphError, RuntimeError):
    """Two parts of one column have different shapes or dtypes.

    Raised when rows are written into an existing column of another shape or dtype, and when a
    reduce function returns differently shaped rows for different in-degrees.

    >>> g.ndata["h"] = torch.zeros(5, 4)
    >>> g.pull([0, 1], message, reduce_to_width_8)      # fails: rows of 8 into a column of 4
    Traceback (most recent call last):
    gossamer.errors.SchemaError: ...
    >>> g.pull([0, 1], message, reduce_to_width_4)      # works
    """


class ResultTypeError(GraphError, TypeError, AttributeError):
    """A user-defined function returned something else than a dict of tensors.

    >>> g.apply_edges(lambda edges: edges.src["h"])            # fails: a tensor
    Traceback (most recent call last):
    gossamer.errors.ResultTypeError: ...
    >>> g.apply_edges(lambda edges: {"m": edges.src["h"]})     # a dict: works
    """


def _rebuild(cls: type[GossamerError], args: tuple, state: dict) -> GossamerError:
    """Unpickle an error whose constructor does not take its message."""
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class UnsupportedError(GossamerError):
    """A graph call cannot be compiled, and ``gs.compile(..., fallback="error")`` was asked for.

    >>> fast = gs.compile(model, fallback="error")
    >>> fast(g, x)                                # fails: names the line and what stands there

    Write what the message says instead, or let that call alone run eagerly:

    >>> fast = gs.compile(model)

    Attributes:
        file, line: where in the user's code.
        reason, remedy: what was found, and what to write instead.
    """

    def __init__(self, fallback):
        self.file = fallback.file
        self.line = fallback.line
        self.reason = fallback.reason
        self.remedy = fallback.remedy
        super().__init__(_fallback_text(fallback))

    def __reduce__(self):
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class FallbackWarning(UserWarning):
    """A graph call runs eagerly, because it cannot be compiled. Said once per place.

    Attributes:
        file, line: where in the user's code.
        reason, remedy: what was found, and what to write instead.
    """

    def __init__(self, fallback):
        self.file = fallback.file
        self.line = fallback.line
        self.reason = fallback.reason
        self.remedy = fallback.remedy
        super().__init__(_fallback_text(fallback) + "; this call runs eagerly")


class RandomNumbersWarning(UserWarning):
    """Random numbers in a compiled function are not those that torch draws eagerly. Said once.

    They are of the same law, equal again after ``torch.manual_seed``, and the same in the backward.
    A test that compares with eager code bit by bit keeps torch's, at the price of running eagerly:

    >>> fast = gs.compile(model, rng="eager")

    Attributes:
        file, line: the function that draws them.
    """

    def __init__(self, file: str, line: int):
        self.file = file
        self.line = line
        super().__init__(
            f"{file}:{line}: random numbers (dropout and its like) are drawn in compiled code: of "
            'the same law as torch\'s, but not the same bits; gs.compile(..., rng="eager") keeps '
            "torch's and runs such functions eagerly"
        )

    def __reduce__(self):
        return type(self), (self.file, self.line)


class StaleFieldError(GossamerError):
    """A deferred edge field was read after one of its inputs was changed in place.

    An edge field that nothing in the compiled call needs is computed when it is first read. That
    is impossible once an input has been overwritten.

    >>> fast = gs.compile(model)
    >>> y = fast(g, x)
    >>> x.add_(1)
    >>> g.edata["m"]                              # fails: m was a function of the old x
    >>> fast = gs.compile(model, keep_fields=True)   # works: computed during the call
    """


def _fallback_text(fallback) -> str:
    remedy = f"; {fallback.remedy}" if fallback.remedy else ""
    return f"{fallback.file}:{fallback.line}: {fallback.call}: {fallback.reason}{remedy}"


class CompileError(GossamerError):
    """The compiler refuses a program. What it stands for then runs as torch operators, reported.

    >>> compile_ir("func.func @region() {")      # fails: not a whole function
    Traceback (most recent call last):
    gossamer.errors.CompileError: ...
    >>> compile_ir("func.func @region() attributes {mp.graphs = 1 : i64} { return }")

    Attributes:
        reason: what was found.
        file, line: the user's code that it comes from; None and 0 when unknown.
    """

    def __init__(self, reason: str, file: str | None = None, line: int = 0):
        super().__init__(f"{file}:{line}: {reason}" if file else reason)
        self.reason = reason
        self.file = file
        self.line = line

    def __reduce__(self):
        return type(self), (self.reason, self.file, self.line)
