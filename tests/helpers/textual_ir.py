"""Kernels written as textual IR: reading them, comparing what a pass makes of them, and running both.

before = read('''
    kernel k(x: array[float32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: float32 = load x[%0]
      store y[%0], %1
''')
expect(simplify(before), '''…''')
agree(before, simplify(before), dims=(5,))
"""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import Kernel
from jwarp.ir.parse import parse_kernel
from jwarp.ir.printing import format_kernel
from jwarp.ir.row_groups import Stage
from jwarp.ir.serialize import fingerprint
from jwarp.ir.verify import verify


def read(text: str, stage: Stage = Stage.DERIVED) -> Kernel:
    """The kernel of a text, which is well formed at a stage of the pipeline."""
    kernel = parse_kernel(textwrap.dedent(text))
    verify(kernel, stage)
    return kernel


def lines(kernel: Kernel) -> list[str]:
    """The text of a kernel without its source lines."""
    return format_kernel(parse_kernel(format_kernel(kernel))).splitlines()


def expect(kernel: Kernel, text: str, stage: Stage = Stage.DERIVED) -> None:
    """Assert that a kernel is well formed, and that of the text but for the numbers of values."""
    verify(kernel, stage)
    assert lines(kernel) == lines(read(text, stage))


def is_same(x: Kernel, y: Kernel) -> bool:
    """True if two kernels differ in nothing but source spans and names of values."""

    def bare(kernel: Kernel) -> Kernel:
        locals_ = tuple(dataclasses.replace(local, values=None) for local in kernel.locals)
        return dataclasses.replace(kernel, gradients=(), locals=locals_)

    def rest(kernel: Kernel) -> list[Any]:
        return [[local.values for local in kernel.locals], [g.feeds for g in kernel.gradients]]

    inner = itertools.zip_longest((g.kernel for g in x.gradients), (g.kernel for g in y.gradients))
    return fingerprint(bare(x)) == fingerprint(bare(y)) and rest(x) == rest(y) and all(is_same(*g) for g in inner)


def random_arguments(kernel: Kernel, extents: Sequence[int], seed: int = 0, high: int = 5) -> list[Any]:
    """An argument for each parameter: floats in (-2, 2), integers from 0 below `high`; arrays of these extents."""
    rng = np.random.default_rng(seed)

    def values(kind: Any, shape: tuple[int, ...]) -> np.ndarray:
        if kind.is_float:
            return rng.uniform(-2, 2, shape).astype(kind.dtype)
        return rng.integers(0, high if kind.is_int else 2, shape).astype(kind.dtype)

    def argument(param: Any) -> Any:
        if not param.is_array:
            return values(param.dtype, ())[()]
        dims = tuple(extents[: param.type.dims])
        return values(param.dtype, (*dims, *param.type.components))

    return [argument(param) for param in kernel.params]


def assert_same_bits(x: np.ndarray, y: np.ndarray) -> None:
    """Assert that arrays hold the same numbers; zeros have the same sign, and one NaN is as good as another."""
    assert x.dtype == y.dtype and x.shape == y.shape
    if x.dtype.kind not in "iub":
        x, y = x.astype(np.float64), y.astype(np.float64)
        np.testing.assert_array_equal(np.signbit(x) & ~np.isnan(x), np.signbit(y) & ~np.isnan(y))
    np.testing.assert_array_equal(x, y)


def agree(
    before: Kernel, after: Kernel, dims: Sequence[int] = (7,), extents: Sequence[int] = (7, 5, 3, 2), **ranges: Any
) -> None:
    """Assert that two kernels with the same parameters do the same to the bit, and something, on random arguments."""
    changed = False
    for seed in range(4):
        args = random_arguments(before, extents, seed, **ranges)
        arrays = [x for x in args if isinstance(x, np.ndarray) and x.ndim]
        results = [run(kernel, tuple(dims), [np.copy(x) for x in args]) for kernel in (before, after)]
        for mine, theirs in zip(*results, strict=True):
            assert_same_bits(mine, theirs)
        changed |= any(not np.array_equal(x, y) for x, y in zip(arrays, results[0], strict=True))
    assert changed, "the kernel changes none of its arguments"
