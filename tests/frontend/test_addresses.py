"""Arrays made of addresses of local arrays show a part of these."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

THREADS, ROOM, FIRST, SHOWN = 9, 10, 5, 4


@wp.func
def fill(a: wp.array[wp.vec2], n: int, x: float):
    for i in range(n):
        a[i] = wp.vec2(x * float(i + 1), x + float(i))


@wp.func
def weighed(a: wp.array[wp.vec2], n: int) -> float:
    s = float(0.0)
    for i in range(n):
        s += a[i][0] * float(i + 1) + a[i][1]
    return s


@wp.kernel
def two_parts(x: wp.array[float], n: wp.array[int], y: wp.array[float], held: wp.array[wp.vec2]):
    i = wp.tid()
    whole = wp.zeros(shape=(10,), dtype=wp.vec2)
    part = wp.array(ptr=whole.ptr + wp.uint64(5 * 8), shape=(4,), dtype=wp.vec2)
    fill(part, n[i], x[i])
    fill(whole, 3, 2.0 * x[i])
    y[i] = weighed(whole, 8) * weighed(part, n[i])
    for k in range(10):
        held[i * 10 + k] = whole[k]


def in_numpy(x: float, n: int) -> tuple[float, np.ndarray]:
    """The same; what would leave the part is dropped, or zero."""
    whole = np.zeros((ROOM, 2))
    part = whole[FIRST : FIRST + SHOWN]
    for a, count, value in ((part, n, x), (whole, 3, 2 * x)):
        for i in range(min(count, len(a))):
            a[i] = value * (i + 1), value + i
    weights = [sum(u * (i + 1) + v for i, (u, v) in enumerate(a[:m])) for a, m in ((whole, 8), (part, n))]
    return weights[0] * weights[1], whole


def test_a_part_shares_its_elements_with_the_whole():
    rng = np.random.default_rng(1)
    x, n = rng.normal(size=THREADS), np.arange(THREADS, dtype=np.int32) % 8
    expected = [in_numpy(*given) for given in zip(x, n, strict=True)]

    def run(x):
        return wp.launch(two_parts, THREADS, [x, n], [THREADS, THREADS * ROOM])

    y, held = run(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(y, [e for e, _ in expected], rtol=1e-5)
    np.testing.assert_allclose(held, np.concatenate([e for _, e in expected]), rtol=1e-6)
    slopes = [(in_numpy(u + 1e-4, m)[0] - in_numpy(u - 1e-4, m)[0]) / 2e-4 for u, m in zip(x, n, strict=True)]
    np.testing.assert_allclose(jax.grad(lambda x: run(x)[0].sum())(jnp.asarray(x, jnp.float32)), slopes, rtol=1e-4)


@wp.kernel
def in_a_loop(n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(6, dtype=float)
    place = own.ptr + wp.uint64(8)
    for k in range(n[i]):
        part = wp.array(ptr=place, shape=4, dtype=float)
        part[k] += float(k + i)
        own[1] -= part[0]
    y[i] = own[0] + 10.0 * own[1] + 100.0 * own[2] + 1000.0 * own[5]


def test_an_address_has_a_name_across_a_loop():
    n = np.arange(7, dtype=np.int32)
    (y,) = wp.launch(in_a_loop, 7, [n], [7])
    for i in range(7):
        own = np.zeros(6)
        for k in range(n[i]):
            if k < 4:
                own[2 + k] += k + i
            own[1] -= own[2]
        assert y[i] == own[0] + 10 * own[1] + 100 * own[2] + 1000 * own[5]


def refused(kernel, said: str) -> None:
    with pytest.raises((wp.CompileError, wp.KernelTypeError), match=said):
        wp.inspect(kernel, "ir")


def test_what_an_address_cannot_be():
    @wp.kernel
    def of_a_parameter(y: wp.array[float]):
        y[0] = wp.array(ptr=y.ptr, shape=2, dtype=float)[1]

    @wp.kernel
    def of_another_type(y: wp.array[float]):
        own = wp.zeros(8, dtype=float)
        y[0] = wp.array(ptr=own.ptr, shape=2, dtype=wp.vec2)[1][0]

    @wp.kernel
    def between_elements(y: wp.array[float]):
        own = wp.zeros(8, dtype=float)
        y[0] = wp.array(ptr=own.ptr + wp.uint64(6), shape=2, dtype=float)[1]

    @wp.kernel
    def past_the_end(y: wp.array[float]):
        own = wp.zeros(8, dtype=float)
        y[0] = wp.array(ptr=wp.uint64(16) + own.ptr, shape=5, dtype=float)[1]

    @wp.kernel
    def varying(n: wp.array[wp.uint64], y: wp.array[float]):
        own = wp.zeros(8, dtype=float)
        y[0] = wp.array(ptr=own.ptr + n[0], shape=5, dtype=float)[1]

    @wp.kernel
    def scaled(y: wp.array[float]):
        own = wp.zeros(8, dtype=float)
        y[0] = wp.array(ptr=own.ptr * wp.uint64(2), shape=5, dtype=float)[1]

    @wp.kernel
    def in_two_dimensions(y: wp.array[float]):
        own = wp.zeros(8, dtype=float)
        y[0] = wp.array(ptr=own.ptr, shape=(2, 4), dtype=float)[1, 1]

    @wp.kernel
    def stored(y: wp.array[wp.uint64]):
        own = wp.zeros(8, dtype=float)
        y[0] = own.ptr

    @wp.kernel
    def of_a_branch(n: wp.array[int], y: wp.array[float]):
        own = wp.zeros(8, dtype=float)
        place = own.ptr
        if n[0] > 0:
            place = own.ptr + wp.uint64(4)
        y[0] = wp.array(ptr=place, shape=2, dtype=float)[1]

    refused(of_a_parameter, "the address of `y` is looked up when the kernel runs")
    refused(of_another_type, "an array of vec2f? cannot show one of float32")
    refused(between_elements, "2 bytes after the start of an element")
    refused(past_the_end, "elements 4 to 8 of `own`, which has 8")
    refused(varying, "must be a constant uint64")
    refused(scaled, r"takes no `\*`")
    refused(in_two_dimensions, "has one dimension")
    refused(stored, "address")
    refused(of_a_branch, "address")
