"""Random programs of views, copies and fills, under Warp and here."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import warp

import jwarp as wp

PROGRAMS = int(os.environ.get("JWARP_FUZZ_ARRAYS", "60"))
STEPS = 14


def some_slice(rng: np.random.Generator, extent: int) -> Any:
    if rng.random() < 0.25:
        return slice(None, None, int(rng.integers(1, 4)))
    start = int(rng.integers(extent))
    stop = int(rng.integers(start, extent + 1))
    return slice(start - (extent if rng.random() < 0.3 else 0), stop, int(rng.integers(1, 4)))


def step(rng: np.random.Generator, pairs: list[tuple[Any, Any]]) -> None:
    """Do the same to both arrays of a pair, or add a pair of views."""
    own, other = pairs[rng.integers(len(pairs))]
    kind = rng.choice(
        ["slice", "row", "transpose", "reshape", "flatten", "view", "fill", "zero", "copy", "part", "assign"]
    )
    if kind == "slice" and 0 not in own.shape:
        key = tuple(some_slice(rng, n) for n in own.shape[: rng.integers(1, own.ndim + 1)])
        pairs.append((own[key], other[key]))
    elif kind == "row" and own.ndim > 1 and 0 not in own.shape:
        index = int(rng.integers(-own.shape[0], own.shape[0]))
        pairs.append((own[index], other[index]))
    elif kind == "transpose":
        axes = [int(a) for a in rng.permutation(own.ndim)]
        pairs.append((own.transpose(axes), other.transpose(axes)))
    elif kind in ("reshape", "flatten") and own.is_contiguous and own.size:
        shape = (-1,) if kind == "flatten" or own.size % 2 else (2, -1)
        pairs.append((own.reshape(shape), other.reshape(shape)))
    elif kind == "view":
        name = rng.choice(["float32", "int32", "uint32"])
        pairs.append((own.view(getattr(wp, name)), other.view(getattr(warp, name))))
    elif kind == "fill":
        value = int(rng.integers(100))
        own.fill_(value)
        other.fill_(value)
    elif kind == "zero":
        own.zero_()
        other.zero_()
    elif kind == "assign":
        content = rng.integers(99, size=own.shape)
        own.assign(content)
        other.assign(content)
    elif kind in ("copy", "part"):
        source = pairs[rng.integers(len(pairs))]
        offsets = [int(n) for n in rng.integers(0, 3, size=3)] if kind == "part" else [0, 0, 0]
        shares = any(np.may_share_memory(a.numpy(), b.numpy()) for a, b in ((own, source[0]), (other, source[1])))
        if shares or (kind == "copy" and own.shape != source[0].shape):
            return  # of those that overlap, Warp says nothing
        results = []
        for w, target, given in ((wp, own, source[0]), (warp, other, source[1])):
            try:
                w.copy(target, given, *offsets)
                results.append("done")
            except (RuntimeError, ValueError, TypeError):
                results.append("refused")
        # What is past the end of one is refused by both; where nothing is to be copied, Warp looks at nothing, and it
        # does not copy parts if one of the arrays is not contiguous.
        if results == ["done", "refused"] and not (own.is_contiguous and source[0].is_contiguous):
            other.assign(own.numpy())
        else:
            assert results[0] == results[1] or not own.size or not source[0].size


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(2):
        shape = tuple(int(n) for n in rng.integers(1, 6, size=rng.integers(1, 4)))
        content = rng.integers(99, size=shape)
        pairs.append((wp.array(content, dtype=wp.float32), warp.array(content, dtype=warp.float32, device="cpu")))
    for _ in range(STEPS):
        step(rng, pairs)
        for own, other in pairs:
            assert own.shape == tuple(other.shape) and (own.strides == tuple(other.strides) or own.size <= 1)
            np.testing.assert_array_equal(own.numpy().view(np.int32), other.numpy().view(np.int32))
