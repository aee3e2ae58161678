"""Branches that leave out what is zero, against the same kernels without them."""

import jax
import numpy as np
import pytest
from textual_ir import agree, expect, read

import jwarp as wp
from jwarp.ir.printing import format_kernel
from jwarp.passes.zero_skips import without_zero_skips

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(4)


@wp.kernel
def sparse(J: wp.array2d[float], D: wp.array[float], up: wp.array[int], s: wp.array[float], H: wp.array2d[float]):
    i, j = wp.tid()
    delta = 0.0
    for k in range(J.shape[0]):
        a = J[k, i]
        if a == 0.0:
            continue
        b = J[k, j]
        if b == 0.0:
            continue
        if up[k] == 1:
            delta += D[k] * a * b
        else:
            delta -= D[k] * a * b
    if delta != 0.0 and i != j:
        H[i, j] += delta
    c, d = s[i], s[j]
    if c != 0.0 or d != 0.0:
        H[j, i] += 2.0 * c - wp.min(d, 0.0 * c) + c * d


@wp.kernel
def full(J: wp.array2d[float], D: wp.array[float], up: wp.array[int], s: wp.array[float], H: wp.array2d[float]):
    i, j = wp.tid()
    delta = 0.0
    for k in range(J.shape[0]):
        if up[k] == 1:
            delta += D[k] * J[k, i] * J[k, j]
        else:
            delta -= D[k] * J[k, i] * J[k, j]
    if i != j:
        H[i, j] += delta
    H[j, i] += 2.0 * s[i] - wp.min(s[j], 0.0 * s[i]) + s[i] * s[j]


def test_derivatives_are_those_without_skips():
    J = np.float32(RNG.normal(size=(6, 4)) * (RNG.uniform(size=(6, 4)) < 0.5))
    D, s = np.float32(RNG.normal(size=6) * [1, 0, 1, 1, 1, 0]), np.float32([0.5, -1.5, 0, 0])
    up, H = np.int32([1, 0, 1, 1, 0, 0]), np.zeros((4, 4), np.float32)

    def derivatives(kernel):
        f = wp.jax_kernel(kernel, in_out_argnames=["H"], launch_dims=(4, 4))

        def values(J, D, s):
            return f(J, D, up, s, H)[0]

        return values(J, D, s), [mode(values, argnums=(0, 1, 2))(J, D, s) for mode in (jax.jacrev, jax.jacfwd)]

    for found, wanted in zip(*map(jax.tree.leaves, map(derivatives, (sparse, full))), strict=True):
        assert np.abs(wanted).max() > 0.1
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@wp.kernel
def padded(w: wp.array[float], index: wp.array[int], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    k = index[i]
    if w[i] != 0.0:
        wp.atomic_add(y, i, w[i] * x[k])


def test_elements_that_are_not_there_stay_skipped():
    w, index, x = np.float32([2, 0, 0, 0]), np.int32([1, 0, -1, 7]), np.float32([3, 5])
    f = wp.jax_kernel(padded, launch_dims=4, output_dims=4)
    for mode in (jax.jacrev, jax.jacfwd):
        by_w, by_x = mode(lambda w, x: f(w, index, x)[0], argnums=(0, 1))(w, x)
        np.testing.assert_array_equal(by_w, np.diag([5, 3, 0, 0]))
        np.testing.assert_array_equal(by_x, [[0, 2], [0, 0], [0, 0], [0, 0]])


@wp.kernel
def last(w: wp.array[float], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if w[i] != 0.0:
        wp.atomic_add(y, i, w[i] * (x[-1] + x[-3]))


def test_elements_counted_from_the_end_are_there():
    f = wp.jax_kernel(last, launch_dims=2, output_dims=2)
    for x, expected in (([3, 5, 7], 10), ([3, 5], 0)):  # of the second array, there is no third
        for mode in (jax.jacrev, jax.jacfwd):
            by_w = mode(lambda w, x=x: f(w, np.float32(x))[0])(np.zeros(2, np.float32))
            np.testing.assert_array_equal(by_w, np.eye(2) * expected)


@wp.kernel
def wide(w: wp.array[float], i32: wp.array[wp.uint32], i64: wp.array[wp.int64], u64: wp.array[wp.uint64],
         u8: wp.array[wp.uint8], x: wp.array[float], y: wp.array[float]):  # fmt: skip
    i = wp.tid()
    a, b, c, d = i32[i], i64[i], u64[i], u8[i]
    if w[i] != 0.0:
        wp.atomic_add(y, i, w[i] * (x[a] + x[b] * x[c] + x[d]))


def test_indices_of_all_integers():
    w, x = np.zeros(5, np.float32), np.float32(RNG.uniform(1, 2, size=300))
    numbers = np.array([[0, 1, 2, 255], [3, 299, 0, 4], [300, 0, 0, 0], [0, -1, 0, 0], [0, 0, 2**64 - 1, 0]], object).T
    types = (np.uint32, np.int64, np.uint64, np.uint8)
    with jax.enable_x64(True):
        indices = [np.array(list(n), t) for n, t in zip(numbers, types, strict=True)]
        f = wp.jax_kernel(wide, launch_dims=5, output_dims=5)
        by_w = jax.jacrev(lambda w: f(w, *indices, x)[0])(w)
    expected = [x[0] + x[1] * x[2] + x[255], x[3] + x[299] * x[0] + x[4], 0, 0, 0]
    np.testing.assert_allclose(by_w, np.diag(expected), rtol=1e-6)


@wp.kernel
def masked(w: wp.array[float], x: wp.array2d[float], y: wp.array[float]):
    i = wp.tid()
    s, by = 0.0, x[i, 0]
    for k in range(w.shape[0]):
        if w[k] != 0.0:
            s += w[k] * x[i, k] * by
        x[i, k] = 2.0 * x[i, k]
    if w[1] != 0.0:
        wp.atomic_add(y, 1, w[1] * x[i, 2])
    wp.atomic_add(y, 0, wp.exp(s))


def test_numbers_that_are_not_finite_stay_skipped():
    w, x = np.float32([1, 0, 0, 2]), np.float32([[0.5, np.nan, np.inf, 0.25], [0.1, 3, -np.inf, 0.75]])
    f = wp.jax_kernel(masked, launch_dims=2, output_dims={"y": 2}, num_outputs=2, in_out_argnames=["x"])
    value = np.exp(x[:, 0] * (x[:, 0] + 2 * x[:, 3]))
    np.testing.assert_allclose(f(w, x)[1], [value.sum(), 0], rtol=1e-6)
    expected = np.zeros((2, 4)), np.zeros((2, 2, 4))
    expected[0][0] = (value * x[:, 0]) @ np.where(np.isfinite(x), x, 0)  # what is finite counts
    expected[1][0] = value[:, None] * np.stack([x[:, 0] * 2 + 2 * x[:, 3], 0 * value, 0 * value, 2 * x[:, 0]], axis=1)
    for mode in (jax.jacrev, jax.jacfwd):
        by_w, by_x = mode(lambda w, x: f(w, x)[1], argnums=(0, 1))(w, x)
        np.testing.assert_allclose(by_w, expected[0], rtol=1e-5)
        np.testing.assert_allclose(by_x, expected[1], rtol=1e-5)


@wp.kernel
def guarded(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    a, s, other = x[i], 1.0, 0.0
    if a != 0.0:
        s = wp.sin(a) / a
    if a == 0.0:
        other = 1.0
    if a != 0.0:
        other += wp.sqrt(a)  # no slope at zero
    if a != 0.0:
        y[i] = a  # a store is one more in any case
    y[i] = y[i] + s + other


def test_guards_stay_as_they_are():
    assert without_zero_skips(guarded.ir()) is guarded.ir()
    f = wp.jax_kernel(guarded)
    np.testing.assert_array_equal(f(np.float32([0.0]))[0], [2.0])
    np.testing.assert_array_equal(jax.jacrev(lambda x: f(x)[0])(np.float32([0.0])), [[0.0]])


def test_a_skip_is_taken_where_nothing_may_go_wrong():
    before = read("""
        kernel k(x: array[float32], w: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: bool = eq %1, 0.0
          if %2 {
          } else {
            %3: float32 = load w[%0]
            %4: float32 = mul %1, %3
            atomic_add y[%0], %4
          }
    """)
    made = without_zero_skips(before)
    expect(
        made,
        """
            kernel k(x: array[float32], w: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: bool = eq %1, 0.0
              %3: int32 = shape w axis 0
              %4: bool = lt %0, 0
              %5: bool = ge %0, %3
              %6: bool = or %4, %5
              %7: int32 = shape y axis 0
              %8: bool = lt %0, 0
              %9: bool = ge %0, %7
              %10: bool = or %6, %8
              %11: bool = or %10, %9
              %12: bool = not %11
              %13: bool = and %2, %12
              if %13 {
                %14: float32 = load w[%0]
                %15: float32 = abs %1
                %16: bool = lt %15, inf
                %17: float32 = abs %14
                %18: bool = lt %17, inf
                %19: bool = and %16, %18
                yield %19
              } else {
                yield False
              } -> %20: bool
              %21: bool = not %20
              %22: bool = and %2, %21
              if %22 {
              } else {
                %23: float32 = load w[%0]
                %24: float32 = mul %1, %23
                atomic_add y[%0], %24
              }
        """,
    )
    agree(before, made)


@pytest.mark.parametrize(
    "body",
    [
        "%3: float32 = add %1, 1.0\n atomic_add y[%0], %3",
        "%3: float32 = div %1, 2.0\n atomic_add y[%0], %3",
        "store y[%0], %1",
        "atomic_max y[%0], %1",
    ],
)
def test_a_branch_that_does_something_at_zero_stays(body):
    kernel = read(f"""
        kernel k(x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: bool = ne %1, 0.0
          if %2 {{
            {body}
          }}
    """)
    expect(without_zero_skips(kernel), format_kernel(kernel))
