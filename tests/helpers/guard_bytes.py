"""Arrays between bytes that no kernel may touch."""

from __future__ import annotations

import numpy as np

GUARD, GUARD_BYTE = 256, 0xA5


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy of `array` between bytes that no kernel may touch."""
    memory = np.full(array.nbytes + 2 * GUARD, GUARD_BYTE, np.uint8)
    inner = memory[GUARD : GUARD + array.nbytes].view(array.dtype).reshape(array.shape)
    inner[...] = array
    return inner


def check_guards(array: np.ndarray) -> None:
    """Nothing has changed the bytes around an array that `guarded` made."""
    memory = array
    while memory.base is not None:
        memory = memory.base
    outside = np.concatenate([memory[:GUARD], memory[GUARD + array.nbytes :]])
    assert np.all(outside == GUARD_BYTE), "the kernel wrote outside an array"
