"""The torch modes of capture: they hand the calls of a user's function to the recorder."""

from __future__ import annotations

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import autocast, composite, decompose, draws, views
from .recorder import Recorder


class RecordingMode(TorchDispatchMode):
    """Sends every ATen call to the recorder."""

    def __init__(self, recorder: Recorder):
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not self._recorder.recording:
            return func(*args, **(kwargs or {}))
        draw = draws.OPERATORS.get(func)
        if draw is not None:
            with self:
                return draw(self._recorder, *args, **(kwargs or {}))
        return self._recorder.dispatch(func, args, kwargs or {})


_READS_DATA = {
    getattr(Tensor, name)
    for name in (
        "numpy",
        "__array__",
        "tolist",
        "item",
        "data_ptr",
        "untyped_storage",
        "__repr__",
        "__format__",
        "__dlpack__",
        "__bool__",
        "__float__",
        "__int__",
        "__index__",
        "__contains__",
        "apply_",
        "map_",
        "__deepcopy__",
    )
}

_ASKS_AUTOGRAD = {
    Tensor.requires_grad.__get__,
    Tensor.requires_grad.__set__,
    Tensor.requires_grad_,
    Tensor.grad.__get__,
    Tensor._version.__get__,
    Tensor.grad_fn.__get__,
    Tensor.is_leaf.__get__,
    Tensor.register_hook,
    Tensor.retain_grad,
    Tensor.backward,
}


class ApiMode(TorchFunctionMode):
    """Records some functions as they are written, and refuses what would leave torch unseen.

    Lifted tensors become tensors without data here, before autograd sees them: nothing that is
    recorded requires a gradient, so no autograd graph is built and none keeps tensors alive.
    """

    def __init__(self, recorder: Recorder):
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        recorder, kwargs = self._recorder, kwargs or {}
        if not recorder.recording:
            return func(*args, **kwargs)
        if func in _READS_DATA:
            raise recorder.refuse(
                f"a tensor's values are read in Python ({func.__name__})",
                "compute with tensor operators",
            )
        if func in _ASKS_AUTOGRAD:
            raise recorder.refuse("autograd's state is read or changed", "do so outside")
        args, kwargs = recorder.without_data(args), recorder.without_data(kwargs)
        record, adapted = draws.FUNCTIONS.get(func) or views.TABLE.get(func), (args, kwargs)
        if record is None:
            record = composite.TABLE.get(func) or decompose.TABLE.get(func)
            adapted = autocast.adapt(func, args, kwargs)
        with recorder.within(func):
            if record is not None and adapted is not None:
                result = record(recorder, *adapted[0], **adapted[1])
                if result is not None:
                    return result
            return func(*args, **kwargs)
