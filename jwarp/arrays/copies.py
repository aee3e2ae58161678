"""Copies and pickles of arrays, which have the class and the attributes of what they are copies of."""

from __future__ import annotations

import copy as copying
import functools
from typing import Any

import numpy as np

from jwarp.arrays.memory import HostMemory, host_memory
from jwarp.devices import CPU

# The attributes that say where an array is, and what it is of; all others go over to its copies.
_OWN = {
    *("memory", "layout", "dtype", "shape", "strides", "ndim", "size", "device", "token"),
    *("_host", "_grad", "_retain_grad", "_descriptor", "_of", "_stand_in", "parts"),
}  # fmt: skip


class Copied:
    """The methods of arrays that `copy` and `pickle` call. Those in `__slots__` of derived classes go over, too."""

    __slots__ = ()

    def __reduce__(self: Any) -> Any:
        base = type(self).plain_class
        if self.device is None:
            return functools.partial(base, dtype=self.dtype, ndim=self.ndim), ()
        gradient = None if self._grad is None else self._grad.numpy().copy()
        device = self.device.alias if self.device.is_cuda else None
        given = (self.numpy().copy(), self.dtype, self.shape, gradient, self._retain_grad, device)
        return _restored, (type(self), *given), attributes(self)

    def __setstate__(self: Any, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def __copy__(self: Any) -> Any:
        made = of_class(type(self), self.seen(self.layout))
        made.__setstate__(attributes(self))
        if self._owner is not None:
            made._owner = self._owner
        return made

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        """A copy; arrays of host memory that are copied together share theirs as those that they are copies of do."""
        own: dict[str, Any] = {}
        if self.device is not None and isinstance(self.memory, HostMemory):
            memory = self.memory
            if id(memory) not in memo:
                copied = host_memory(memory.buffer.nbytes)
                copied.buffer[...] = memory.buffer.reshape(-1).view(np.uint8)
                memo[id(memory)] = copied, memory  # which keeps its identity
            made = of_class(type(self), type(self).plain_class.of(memo[id(memory)][0], self.layout))
            made._grad, made._retain_grad = copying.deepcopy(self._grad, memo), self._retain_grad
            own = attributes(self)
        else:
            make, given, *state = self.__reduce__()
            made = make(*given)
            own = state[0] if state else {}
        memo[id(self)] = made
        made.__setstate__(copying.deepcopy(own, memo))
        return made


def of_class(kind: type, made: Any) -> Any:
    """The array as an object of its class, or of one that is derived from it, whose constructor is not called."""
    if kind is type(made):
        return made
    found: Any = object.__new__(kind)
    found.__dict__.update(made.__dict__)
    return found


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an array that its program has given it."""
    state = object.__getstate__(value)
    parts = state if isinstance(state, tuple) else (state,)
    return {name: x for part in parts for name, x in (part or {}).items() if name not in _OWN and name != "_owner"}


def _restored(
    kind: Any, content: Any, dtype: Any, shape: Any, gradient: Any, retain_grad: bool, device: str | None = None
) -> Any:
    has_gradient = gradient is not None
    given = {"device": device or CPU, "requires_grad": has_gradient, "retain_grad": retain_grad}
    made = kind.plain_class(content, dtype, shape, **given)
    if made.grad is not None:
        made.grad.assign(gradient)
    return of_class(kind, made)
