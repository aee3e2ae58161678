"""Stacks that the threads of a block share, against a list in Python."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tile_running import BLOCK, run_blocks

import jwarp as wp

CAPACITY = 20


@wp.struct
class Item:
    number: int
    place: wp.vec2


@wp.func
def push_all(s: Any, item: Item, keeps: bool):
    return wp.tile_stack_push(s, item, keeps)


@wp.kernel
def compacted(x: wp.array[float], rounds: int, slots: wp.array2d[int], values: wp.array2d[float],
              counts: wp.array[int]):  # fmt: skip
    i = wp.tid()
    s = wp.tile_stack(capacity=CAPACITY, dtype=Item)
    for r in range(rounds):
        item = Item(i + 100 * r, wp.vec2(x[i], 1.0))
        slots[r, i] = push_all(s, item, x[i] * float(r + 1) > 0.3)
        counts[r] = wp.tile_stack_count(s)
    k = int(0)
    while wp.tile_stack_count(s) > 0:
        if k == 3:
            wp.tile_stack_clear(s)
        popped, slot = wp.tile_stack_pop(s)
        slots[rounds + k, i] = slot
        values[k, i] = float(popped.number) + popped.place[0]
        if slot < 0:
            values[k, i] = popped.place[1] - 5.0
        k += 1
    counts[rounds] = k


def in_python(x, rounds, slots, values, counts):
    stack = []
    for r in range(rounds):
        for i in range(BLOCK):
            keeps = x[i] * np.float32(r + 1) > np.float32(0.3) and len(stack) < CAPACITY
            slots[r, i] = len(stack) if keeps else -1
            if keeps:
                stack.append(np.float32(i + 100 * r) + x[i])
        counts[r] = len(stack)
    k = 0
    while stack:
        if k == 3:
            stack.clear()
        for i in range(BLOCK):
            slots[rounds + k, i] = len(stack) - 1
            values[k, i] = stack.pop() if stack else -5.0
        k += 1
    counts[rounds] = k


@pytest.mark.parametrize("rounds", [1, 3, 6])
def test_lanes_push_and_pop_in_their_order(rounds):
    x = np.random.default_rng(rounds).normal(size=BLOCK).astype(np.float32)
    args = [x, rounds, np.zeros((12, BLOCK), np.int32), np.zeros((12, BLOCK), np.float32), np.zeros(12, np.int32)]
    wanted = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    in_python(*wanted)
    found = run_blocks(compacted, BLOCK, *args)
    for got, expected in zip(found, [a for a in wanted if isinstance(a, np.ndarray)], strict=True):
        np.testing.assert_array_equal(got, expected)


@wp.kernel
def squares(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = wp.tile_stack(CAPACITY, wp.vec2)
    wp.tile_stack_push(s, wp.vec2(x[i] * x[i], x[i]), x[i] > 0.0)
    value, slot = wp.tile_stack_pop(s)
    if slot >= 0:
        y[slot] = value[0] * value[1]


def test_values_on_a_stack_have_derivatives():
    x = jnp.asarray(np.random.default_rng(0).normal(size=BLOCK), jnp.float32)
    fn = wp.jax_kernel(squares, launch_dims=BLOCK, block_dim=BLOCK, output_dims=BLOCK)
    kept = x[x > 0]
    np.testing.assert_allclose(fn(x)[0][: len(kept)], kept**3, rtol=1e-6)
    np.testing.assert_allclose(
        jax.grad(lambda x: fn(x)[0].sum())(x), np.where(x > 0, 3 * np.asarray(x) ** 2, 0), rtol=1e-5
    )
    wp.check_grads(fn, (x,))


@wp.kernel
def of_other_values(x: wp.array[float]):
    s = wp.tile_stack(capacity=4, dtype=int)
    wp.tile_stack_push(s, x[0], True)


@wp.kernel
def of_no_capacity(n: int):
    wp.tile_stack(capacity=n, dtype=int)


@wp.kernel
def of_a_tile(x: wp.array[float]):
    wp.tile_stack_clear(wp.tile_load(x, shape=4))


@wp.kernel
def by_some(x: wp.array[float]):
    i = wp.tid()
    s = wp.tile_stack(capacity=4, dtype=float)
    if x[i] > 0.0:
        wp.tile_stack_push(s, x[i], True)
    x[i] = float(wp.tile_stack_count(s))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (of_other_values, "the stack holds int32, which float32 does not match"),
        (of_no_capacity, "`capacity` must be made of constant integers"),
        (of_a_tile, "`s` must be a stack, which wp.tile_stack makes"),
        (by_some, "must reach a tile operation together"),
    ],
)
def test_what_cannot_be_is_refused(kernel, message):
    with pytest.raises((wp.KernelTypeError, wp.CompileError), match=message):
        kernel.block_ir(None, BLOCK, 0)
