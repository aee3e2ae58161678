"""Values that no argument of a traced function decides on can be read while JAX traces."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp
from jwarp.bind import known_values


@wp.kernel
def two_results(keys: wp.array[int], x: wp.array[float], count: wp.array[int], total: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(count, keys[i] % 3, 1)
    scale = 1.0
    while scale * x[i] > 1.0:  # which the counts do not need
        scale *= 0.5
    wp.atomic_add(total, keys[i] % 3, scale * x[i])


@wp.kernel
def by_value(x: wp.array[float], y: wp.array[int]):
    i = wp.tid()
    if x[i] > 0.5:
        y[i] = 1


@wp.kernel
def chained(x: wp.array[float], a: wp.array[int], b: wp.array[int]):
    i = wp.tid()
    a[i] = int(x[i])
    b[i] = a[i] + 1


@wp.kernel
def printing(y: wp.array[int]):
    i = wp.tid()
    y[i] = i
    wp.printf("%d\n", i)


KEYS = np.random.default_rng(0).integers(0, 9, 20).astype(np.int32)


def counted(x: wp.array[float]):
    count, total = wp.zeros(3, dtype=int), wp.zeros(3, dtype=float)
    wp.launch(two_results, 20, inputs=[wp.array(KEYS), x], outputs=[count, total])
    most = int(count.numpy().max())  # a shape that the program reads
    parts = wp.zeros(most, dtype=float)
    wp.copy(parts, total, count=min(most, 3))
    return wp.to_jax(parts), wp.to_jax(total)


def test_a_result_is_known_that_arguments_do_not_decide_on():
    x = np.random.default_rng(1).uniform(0.0, 4.0, 20).astype(np.float32)
    counts = np.bincount(KEYS % 3, minlength=3)
    scaled = x / 2.0 ** np.maximum(0.0, np.ceil(np.log2(x)))
    want = np.bincount(KEYS % 3, weights=scaled, minlength=3)
    for transform in (lambda f: f, jax.jit):
        parts, total = transform(lambda x: wp.functionalize(counted)(x)[0])(jnp.asarray(x))
        assert parts.shape == (counts.max(),)
        assert_allclose(total, want, rtol=1e-5)
    both = jax.vmap(lambda x: wp.functionalize(counted)(x)[0][1])(jnp.stack([x, x[::-1]]))
    assert_allclose(both[0], want, rtol=1e-5)
    by = jax.grad(lambda x: wp.functionalize(counted)(x)[0][1].sum())(jnp.asarray(x))
    assert_allclose(by, scaled / x, rtol=1e-5)


def refused(function, *args):
    with pytest.raises(wp.LaunchError, match=re.escape("stands for a value that JAX traces")):
        wp.functionalize(function)(*args)


def test_what_arguments_decide_on_is_refused():
    def read(kernel):
        def function(x: wp.array[float]):
            y = wp.zeros(4, dtype=int)
            wp.launch(kernel, 4, inputs=[x], outputs=[y])
            return y.numpy()

        return function

    def read_through_another(x: wp.array[float]):
        a, b = wp.zeros(4, dtype=int), wp.zeros(4, dtype=int)
        wp.launch(chained, 4, inputs=[x], outputs=[a, b])
        return b.numpy()

    def read_argument(x: wp.array[float]):
        return x.numpy()

    x = jnp.linspace(0.0, 1.0, 4)
    for function in (read(by_value), read_through_another, read_argument):
        refused(function, x)


def test_effects_happen_in_each_call_and_are_not_run_before():
    def function(x: wp.array[float]):
        y = wp.zeros(4, dtype=int)
        wp.launch(printing, 4, outputs=[y])
        return y.numpy()

    refused(function, jnp.zeros(4))


def test_what_was_written_before_an_argument_is_known_until_then():
    def function(x: wp.array[float]):
        y = wp.full(4, 2, dtype=int)
        before = y.numpy().tolist()
        y.assign(wp.to_jax(x).astype(int))
        with pytest.raises(wp.LaunchError, match="JAX traces"):
            y.numpy()
        z = wp.array(before, dtype=int)
        z += 1
        return wp.to_jax(y) + jnp.asarray(z.numpy())

    got = jax.jit(lambda x: wp.functionalize(function)(x)[0])(jnp.arange(4.0))
    assert got.tolist() == [3, 4, 5, 6]


def test_arrays_that_a_program_keeps_are_constants_after_the_trace():
    kept = {}

    def table():
        if not kept:
            kept["keys"] = wp.array(KEYS % 5, dtype=int)
            kept["doubled"] = wp.zeros(20, dtype=int)
            wp.launch(doubled, 20, inputs=[kept["keys"]], outputs=[kept["doubled"]])
        return kept["doubled"]

    def function(x: wp.array[float]):
        return wp.to_jax(x) + wp.to_jax(table())

    f = wp.functionalize(function)
    x = jnp.linspace(0.0, 1.0, 20)
    want = np.asarray(x) + 2 * (KEYS % 5)
    assert_allclose(f(x)[0], want, rtol=1e-6)
    both = jax.vmap(lambda x: wp.functionalize(function, max_trips=3)(x)[0])(jnp.stack([x, 2.0 * x]))
    assert_allclose(both[0], want, rtol=1e-6)
    assert kept["doubled"].numpy().tolist() == (2 * (KEYS % 5)).tolist()


@wp.kernel
def doubled(x: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = 2 * x[i]


@wp.kernel
def one_more(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


@pytest.mark.parametrize("in_place", [False, True])
def test_values_in_between_are_freed(in_place, monkeypatch):
    """So that a chain of launches on large arrays takes as much memory as a few of these."""
    size, most = known_values.SMALL // 4 + 1, 0
    run = known_values._Run.now

    def measured(self, found):
        nonlocal most
        made = run(self, found)
        most = max(most, sum(x.nbytes > known_values.SMALL for x in jax.live_arrays()))
        return made

    def function(x: wp.array[float]):
        a = wp.zeros(size)
        for _ in range(20):
            b = a if in_place else wp.empty(size)
            wp.launch(one_more, size, inputs=[a], outputs=[b])
            a = b
        assert a.numpy()[5] == 20.0
        return wp.to_jax(x) * 2.0

    before = sum(x.nbytes > known_values.SMALL for x in jax.live_arrays())
    monkeypatch.setattr(known_values._Run, "now", measured)
    assert wp.functionalize(function)(np.ones(2, np.float32))[0].tolist() == [2.0, 2.0]
    assert 0 < most - before <= 5


def test_arrays_that_are_constants_cannot_be_written_and_copies_can():
    kept = {}

    def function(x: wp.array[float]):
        if not kept:
            kept["a"] = wp.zeros(3)
            wp.launch(one_more, 3, inputs=[kept["a"]], outputs=[kept["a"]])
        return wp.to_jax(x) + wp.to_jax(kept["a"])

    f = wp.functionalize(function)
    assert f(np.zeros(3, np.float32))[0].tolist() == [1.0] * 3
    for write in (
        lambda: kept["a"].fill_(2.0),
        lambda: wp.launch(one_more, 3, inputs=[kept["a"]], outputs=[kept["a"]]),
        lambda: kept["a"].assign(np.ones(3, np.float32)),
    ):
        with pytest.raises(
            wp.LaunchError, match=r"is a constant since that has ended, and is written at .*\.py:\d+"
        ) as e:
            write()
        assert "wp.clone(a)" in str(e.value)
    copied = wp.clone(kept["a"])
    wp.launch(one_more, 3, inputs=[copied], outputs=[copied])
    assert copied.numpy().tolist() == [2.0] * 3 and kept["a"].numpy().tolist() == [1.0] * 3
