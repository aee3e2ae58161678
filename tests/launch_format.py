"""The numbers that describe a launch to the native module, written down once for the tests of both sides."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

FORMAT = 1
MAX_DIMS = 4
# What a parameter holds before the first thread runs: an operand that is only read, zeros, or its operand's content.
INPUT, ZEROS, IN_OUT = 0, 1, 2


def make_launch(
    dims: Sequence[int],
    bindings: Sequence[tuple[int, int, int, int]],
    batch: Sequence[int] = (),
    repeat: int = 1,
) -> np.ndarray:
    """A launch; a binding is (operand or -1, result or -1, initial content, mask of batch axes), one per parameter."""
    padded = (*dims, *[1] * (MAX_DIMS - len(dims)))
    numbers = [FORMAT, *padded, repeat, len(batch), *batch, len(bindings), *itertools.chain(*bindings)]
    return np.array(numbers, np.int64)
