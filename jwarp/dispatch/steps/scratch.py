"""Memory that native steps use one after the other."""

from __future__ import annotations

import collections

import numpy as np


class Scratch:
    """Arrays for steps to work on. What one turn takes is taken again after `turn`."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[tuple[int, ...], np.dtype], list[np.ndarray]] = collections.defaultdict(list)
        self._taken: collections.Counter[tuple[tuple[int, ...], np.dtype]] = collections.Counter()

    @property
    def nbytes(self) -> int:
        """How much memory it is."""
        return sum(array.nbytes for arrays in self._arrays.values() for array in arrays)

    def turn(self) -> None:
        """All arrays are free again."""
        self._taken.clear()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array that nothing else uses in this turn."""
        key = shape, dtype
        known, count = self._arrays[key], self._taken[key]
        self._taken[key] += 1
        if count == len(known):
            known.append(np.empty(shape, dtype))
        return known[count]
