"""Calls of one kernel in a random order of layouts: each does what it would do if it were the only one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repeated_calls import repeats

import jwarp as wp

N = 6
SHORT, LAYOUTS = 300, 60


@wp.struct
class Pair:
    x: wp.array[float]
    k: float


@wp.kernel
def mixed(x: wp.array[float], k: float, n: int, z: wp.array[float], y: wp.array[float]):
    """y = k x + z at the first n, one after the other, which arrays that overlap can see."""
    i = wp.tid()
    if i < n:
        value = k * x[i]
        if z:
            value += z[i]
        y[i] = value


@wp.kernel
def of_struct(p: Pair, n: int, z: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i < n:
        value = p.k * p.x[i]
        if z:
            value += z[i]
        y[i] = value


@wp.kernel
def generic(x: wp.array[Any], k: Any, n: int, z: wp.array[Any], y: wp.array[Any]):
    i = wp.tid()
    if i < n:
        value = x.dtype(k) * x[i]
        if z:
            value += z[i]
        y[i] = value


@wp.kernel
def flat(x: wp.array[float], k: float, n: int, z: wp.array[float], y: wp.array[float]):
    """As `mixed`, over two dimensions of threads."""
    i, j = wp.tid()
    at = 2 * i + j
    if at < n:
        y[at] = k * x[at] + z[at]


def expected(x, k, n, z, y, threads):
    """The content of y after a launch."""
    made = np.array(y)
    count = min(n, threads)
    made[:count] = made.dtype.type(k) * np.asarray(x)[:count] + (0 if z is None else np.asarray(z)[:count])
    return made


class Draw:
    """Random arguments of a launch: a layout, which comes again, and contents and numbers, which are new."""

    def __init__(self, layout: int, rng: np.random.Generator):
        self.layout, self.rng = np.random.default_rng(layout), rng

    def choice(self, *given: Any) -> Any:
        return given[self.layout.integers(len(given))]

    def content(self, size: int, dtype: Any) -> np.ndarray:
        return self.rng.integers(-9, 9, size).astype(dtype)

    def numpy(self, size: int, dtype: Any) -> np.ndarray:
        """An array of NumPy's: whole, strided, turned round, or at an odd address."""
        kind = self.choice("whole", "whole", "strided", "reversed", "part", "odd")
        if kind == "odd":
            raw = np.zeros(size * np.dtype(dtype).itemsize + 1, np.uint8)[1:].view(dtype)
            raw[...] = self.content(size, dtype)
            return raw
        content = self.content(2 * size + 2, dtype)
        return {
            "whole": content[:size].copy(), "strided": content[: 2 * size : 2], "reversed": content[size - 1 :: -1],
            "part": content[1 : size + 1],
        }[kind]  # fmt: skip

    def array(self, size: int, dtype: Any) -> Any:
        """An array that changes: of memory of its own or borrowed, whole or a view."""
        kind = self.choice("whole", "whole", "view", "part", "borrowed")
        if kind == "borrowed":
            return wp.array(self.content(size, dtype), copy=False)
        made = wp.array(self.content(2 * size + 2, dtype))
        return {"whole": made[:size].contiguous(), "view": made[: 2 * size : 2], "part": made[1 : size + 1]}[kind]

    def number(self, dtype: Any) -> Any:
        value = int(self.rng.integers(-4, 5))
        return self.choice(float(value), value, np.dtype(dtype).type(value), np.float64(value))


def shown(x: Any) -> np.ndarray:
    return x.numpy().copy() if isinstance(x, wp.array) else np.array(x)


def settings(draw: Draw) -> dict[str, Any]:
    return draw.choice({}, {}, {}, {"bounds": "unchecked"}, {"max_unroll": 4})


def aliased(draw: Draw, x: Any, z: Any, y: Any) -> tuple[Any, Any, Any]:
    """Now and then, one array for several parameters."""
    pattern = draw.choice("none", "none", "none", "x is y", "z is y", "x is z", "all")
    if pattern == "x is y":
        return y, z, y
    if pattern == "z is y":
        return x, y, y
    if pattern == "x is z":
        return x, x, y
    return (y, y, y) if pattern == "all" else (x, z, y)


def in_place(draw: Draw, make: Callable[[int, Any], Any], dtype: Any, kernel: Any) -> None:
    """A launch on arrays that are written where they are."""
    size = int(draw.choice(N, N, N + 1))
    x, z, y = (make(size, dtype) for _ in range(3))
    x, z, y = aliased(draw, x, z, y)
    k, n = draw.number(dtype), int(draw.rng.integers(0, size + 1))
    if kernel not in (flat, generic) and draw.choice(False, False, True):
        z = None if z is not y else z
    threads = int(draw.layout.integers(1, size + 1))
    dims: Any = draw.choice(threads, (threads,), [threads])
    if kernel is flat:
        threads, dims = 2 * (size // 2), (size // 2, 2)
    want = expected(shown(x), k, n, None if z is None else shown(z), shown(y), threads)
    values: list[Any] = [x, k, n, z]
    if kernel is of_struct:
        values = [Pair(x=x, k=float(k)), n, z]
    is_split = draw.choice(True, False) or isinstance(y, np.ndarray)
    given = {"inputs": values, "outputs": [y]} if is_split else {"inputs": [*values, y]}
    with wp.config(**settings(draw)):
        if isinstance(y, wp.array) and draw.choice(False, False, True):
            with wp.Tape():
                wp.launch(kernel, dims, **given)
        else:
            wp.launch(kernel, dims, block_dim=draw.choice(None, None, 32), **given)
    np.testing.assert_array_equal(shown(y), want)


def in_jax(draw: Draw, kernel: Any, functions: dict[Any, Any]) -> None:
    """A launch that returns new arrays."""
    size = int(draw.choice(N, N + 1))
    dtype = np.float32
    x, z = (draw.choice(jnp.asarray, np.asarray)(draw.content(size, dtype)) for _ in range(2))
    if kernel is generic:
        x = x[0] * 1.0 + jnp.asarray(x) if draw.choice(True, False) else x
    k, n = float(draw.rng.integers(-4, 5)), int(draw.rng.integers(0, size + 1))
    if draw.choice(True, False):
        want = expected(x, k, n, z, np.zeros(size), size)
        (found,) = functions[kernel](x, k, n, z)
    else:
        start = draw.choice(None, jnp.asarray(draw.content(size, dtype)))
        threads = int(draw.layout.integers(1, size + 1))
        want = expected(x, k, n, z, np.zeros(size) if start is None else start, threads)
        output = draw.choice(size, (size,)) if start is None else start
        with wp.config(**settings(draw)):
            (found,) = wp.launch(kernel, threads, [x, k, n, z], [output])
    np.testing.assert_array_equal(found, want)
    assert found.shape == (size,)


def adjoint(draw: Draw) -> None:
    """The adjoint on NumPy or JAX arrays, with gradients of its own or of the caller's."""
    size, make = int(draw.choice(N, N + 1)), draw.choice(np.asarray, jnp.asarray)
    x, z, w, start = (draw.content(size, np.float32) for _ in range(4))
    k, n = float(draw.rng.integers(-4, 5)), int(draw.rng.integers(0, size + 1))
    wanted = draw.choice([True, None, None, None], [None, None, None, True], [start.copy(), None, None, None])
    if make is jnp.asarray and wanted[0] is not True and wanted[0] is not None:
        wanted = [jnp.asarray(wanted[0]), None, None, None]
    output = make(np.zeros(size, np.float32)) if draw.choice(True, False) or make is np.asarray else size
    (found,) = wp.launch(
        mixed, size, [make(x), k, n, make(z)], [output], adjoint=True, adj_inputs=wanted, adj_outputs=[make(w)]
    )
    is_x = wanted[3] is not True
    want = np.where(np.arange(size) < n, (k if is_x else 1.0) * w, 0.0)
    if is_x and wanted[0] is not True:
        want = want + start
    np.testing.assert_array_equal(found, want.astype(np.float32))


def run(seed: int, steps: int) -> None:
    """So many random launches, of few enough layouts that most of them are repeats."""
    rng = np.random.default_rng(seed)
    kernels = mixed, of_struct, generic, flat
    functions = {kernel: wp.jax_kernel(kernel) for kernel in (mixed, generic)}
    for step in range(steps):
        draw = Draw(LAYOUTS * seed + int(rng.integers(LAYOUTS)), rng)
        way = "none"
        try:
            way = draw.choice("array", "array", "numpy", "numpy", "jax", "adjoint")
            if way == "adjoint":
                adjoint(draw)
            elif way == "jax":
                in_jax(draw, draw.choice(mixed, generic), functions)
            else:
                kernel = draw.choice(*kernels)
                dtype = draw.choice(np.float32, np.float64) if kernel is generic else np.float32
                in_place(draw, draw.array if way == "array" else draw.numpy, dtype, kernel)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {step}, {way}") from error


@pytest.mark.parametrize("seed", [0, 1])
def test_random_layouts(seed):
    steps = SHORT if os.environ.get("JWARP_FUZZ") != "long" else 20 * SHORT
    with repeats() as made:
        run(seed, steps)
    assert sum(made) > steps // 2, "most of them are repeats"


def test_jax_memory_that_is_written():
    """A JAX array may share the memory of a NumPy array."""
    y = np.zeros(64, np.float32)
    z = np.zeros(64, np.float32)
    for _ in range(3):
        wp.launch(mixed, 64, [jnp.ones(64), 2.0, 64, z], [y])
    start = y.__array_interface__["data"][0] % 64 // 4
    whole = np.arange(128, dtype=np.float32)
    at = -(whole.__array_interface__["data"][0] // 4) % 16 + 0 * start
    part = whole[at : at + 64]
    shared = jax.dlpack.from_dlpack(part) if hasattr(jax, "dlpack") else jnp.asarray(part)
    content = np.array(part)
    try:
        wp.launch(mixed, 64, [shared, 2.0, 64, z], [part])
    except wp.LaunchError:
        np.testing.assert_array_equal(part, content)
    else:
        np.testing.assert_array_equal(part, 2.0 * content)
