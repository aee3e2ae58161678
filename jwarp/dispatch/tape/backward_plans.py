"""Ways back through whole tapes that are repeated on the same arrays: one native call from the third one on."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from jwarp import _native
from jwarp.arrays.memory import Memory
from jwarp.caches import Cache
from jwarp.dispatch.steps.host_executor import Scratch

MAX_PLANS = 32
# Of more scratch memory than this, a way back takes longer than its Python, and the memory is not to be kept.
MAX_SCRATCH_BYTES = 1 << 24


class _Plan:
    """The native steps of a way back. They are at an end with the first of the memories that is."""

    __slots__ = ("__weakref__", "_ends", "_native", "_written")

    def __init__(self, steps: list[Any], written: Iterable[Memory], read: Iterable[Memory]):
        self._native: _native.HostGraph | None = _native.HostGraph(steps)
        self._written = [weakref.ref(memory) for memory in written]
        end = functools.partial(_end, weakref.ref(self))
        self._ends = [weakref.ref(memory, end) for memory in dict.fromkeys([*written, *read])]

    def end(self) -> None:
        """Let go of the arrays."""
        self._native = None

    def run(self) -> bool:
        """Run it; False where it cannot, and then nothing has run."""
        native = self._native
        if native is None:
            return False
        for known in self._written:
            memory = known()
            if memory is not None and memory.is_watched:
                memory.will_write()
        try:
            native()
        except ValueError:  # an array was resized by force
            self.end()
            return False
        return True


def _end(plan: Callable[[], Any], memory: Any) -> None:
    found = plan()
    if found is not None:
        found.end()


_PLANS: Cache[Hashable, _Plan | bool] = Cache("ways back through tapes", MAX_PLANS)


def repeated(key: Hashable) -> bool:
    """Go back as before, if that has been learnt: whether it has been done."""
    plan = _PLANS.get(key)
    return type(plan) is _Plan and plan.run()


def learn(
    key: Hashable,
    steps: Callable[[Scratch], list[Any] | None],
    written: Iterable[Memory],
    read: Iterable[Memory],
) -> None:
    """Learn a way back that was gone, where it is the second time. `steps` are None where Python is needed."""
    seen = _PLANS.get(key)
    if seen is None:
        _PLANS.replace(key, True)
    elif seen is True:
        scratch = Scratch()
        found = steps(scratch)
        is_small = scratch.nbytes <= MAX_SCRATCH_BYTES
        _PLANS.replace(key, False if found is None or not is_small else _Plan(found, list(written), list(read)))
