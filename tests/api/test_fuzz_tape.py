"""Random programs that overwrite, copy, fill and alias arrays: a tape's gradients are those of `jax.grad`."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzzing import LONG, check_seeds

import jwarp as wp

N = 6
Array = wp.array[wp.float64]


@wp.kernel
def multiply(x: Array, y: Array, z: Array):
    i = wp.tid()
    z[i] = x[i] * y[i]


@wp.kernel
def bend(x: Array, k: wp.float64):
    i = wp.tid()
    x[i] = wp.sin(x[i]) + k * x[i] * x[i]


@wp.kernel
def accumulate(x: Array, k: wp.float64, y: Array):
    i = wp.tid()
    wp.atomic_add(y, i, k * x[i] * x[i])


@wp.kernel
def gather(x: Array, at: wp.array[int], y: Array):
    i = wp.tid()
    y[i] = x[at[i]] * y[i]


@wp.kernel
def evens(x: Array, y: Array):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = x[i] * x[i]


@wp.kernel
def ends(x: Array, s: Array):
    i = wp.tid()
    wp.atomic_add(s, 0, x[i] * x[i])


@wp.kernel
def swapped(x: Array, y: Array):
    i = wp.tid()
    old = x[i]
    x[i] = y[i] * y[i]
    y[i] = wp.sin(old)


class Both:
    """The arrays of a program, and the same as values; a name is a base and a slice of it."""

    def __init__(self, contents):
        self.bases = [wp.array(x, dtype=wp.float64, requires_grad=True) for x in contents]
        self.steps = []  # of functions from values to values

    def array(self, name):
        base, cut = name
        return self.bases[base] if cut is None else self.bases[base][cut]

    def then(self, *targets, by):
        """A step: `by` takes the values of all names to those of `targets`."""

        def step(values):
            read = lambda name: values[name[0]] if name[1] is None else values[name[0]][name[1]]  # noqa: E731
            made, values = by(read), list(values)
            for name, value in zip(targets, made, strict=True):
                base, cut = name
                values[base] = value if cut is None else values[base].at[cut].set(value)
            return values

        self.steps.append(step)

    def after(self, values):
        for step in self.steps:
            values = step(values)
        return values


def some_name(r, size):
    base = r.randrange(3)
    if size == N:
        return base, None
    start = r.randrange(N - size + 1)
    return base, slice(start, start + size)


def fits(written, others):
    """Whether what is written is apart from the others, or one of them."""

    def indices(name):
        return set(range(N)[name[1] or slice(None)])

    return all(name == written or name[0] != written[0] or not (indices(name) & indices(written)) for name in others)


def step(r, both):
    size = r.choice((N, N, 3))
    a, b, c = (some_name(r, size) for _ in range(3))
    k = r.uniform(-1, 1)
    kind = r.randrange(18)
    array = both.array
    if kind == 0 and fits(c, (a, b)):
        wp.launch(multiply, size, inputs=[array(a), array(b)], outputs=[array(c)])
        both.then(c, by=lambda read: [read(a) * read(b)])
    elif kind == 1:
        wp.launch(bend, size, inputs=[array(a), k])
        both.then(a, by=lambda read: [jnp.sin(read(a)) + k * read(a) ** 2])
    elif kind == 2 and fits(b, (a,)) and a != b:
        wp.launch(accumulate, size, inputs=[array(a), k, array(b)])
        both.then(b, by=lambda read: [read(b) + k * read(a) ** 2])
    elif kind == 3 and fits(b, (a,)) and a != b:
        at = np.array([r.randrange(size) for _ in range(size)], np.int32)
        wp.launch(gather, size, inputs=[array(a), wp.array(at, dtype=int), array(b)])
        both.then(b, by=lambda read: [read(a)[at] * read(b)])
    elif kind == 4 and fits(b, (a,)):
        wp.launch(evens, size, inputs=[array(a), array(b)])
        even = np.arange(size) % 2 == 0
        both.then(b, by=lambda read: [jnp.where(even, read(a) ** 2, read(b))])
    elif kind == 5 and fits(b, (a,)) and a != b:
        wp.launch(ends, size, inputs=[array(a), array(b)])
        both.then(b, by=lambda read: [read(b).at[0].add(jnp.sum(read(a) ** 2))])
    elif kind == 6 and fits(a, (b,)) and a != b:
        wp.launch(swapped, size, inputs=[array(a), array(b)])
        both.then(a, b, by=lambda read: [read(b) ** 2, jnp.sin(read(a))])
    elif kind == 7:
        wp.copy(array(a), array(b))  # they may overlap
        both.then(a, by=lambda read: [read(b)])
    elif kind == 8:
        first, begin, count = r.randrange(3), r.randrange(3), r.randrange(1, 4)
        x, y = (a[0], None), (b[0], None)
        wp.copy(array(x), array(y), dest_offset=first, src_offset=begin, count=count)
        both.then(x, by=lambda read: [read(x).at[first : first + count].set(read(y)[begin : begin + count])])
    elif kind == 9:
        array(a).fill_(k)
        both.then(a, by=lambda read: [jnp.full(size, k)])
    else:
        step_of_arrays(r, both, kind, size, a, b, c, k)


def step_of_arrays(r, both, kind, size, a, b, c, k):
    """A step that is no launch of the program's own."""
    array = both.array
    if kind == 10:
        inclusive = r.random() < 0.5
        wp.utils.array_scan(array(a), array(b), inclusive=inclusive)  # they may overlap
        both.then(b, by=lambda read: [jnp.cumsum(read(a)) - (0.0 if inclusive else read(a))])
    elif kind == 11:
        count, target = r.randrange(size + 1), (c[0], slice(2, 3))
        wp.utils.array_sum(array(a), out=array(target), value_count=count)
        both.then(target, by=lambda read: [jnp.sum(read(a)[:count], keepdims=True)])
    elif kind == 12:
        target = c[0], slice(2, 3)
        wp.utils.array_inner(array(a), array(b), out=array(target))
        both.then(target, by=lambda read: [jnp.sum(read(a) * read(b), keepdims=True)])
    elif kind == 13 and a[0] != b[0]:
        count = size // 2  # of arrays with room for twice as many
        wp.utils.radix_sort_pairs(array(a), array(b), count)

        def ordered(read):
            order = jnp.argsort(read(a)[:count])
            return [x.at[:count].set(x[:count][order]) for x in (read(a), read(b))]

        both.then(a, b, by=ordered)
    elif kind == 14 and fits(a, (b,)):
        x = array(a)
        x += array(b)
        both.then(a, by=lambda read: [read(a) + read(b)])
    elif kind == 15 and fits(a, (b,)):
        x = array(a)
        x *= array(b)
        both.then(a, by=lambda read: [read(a) * read(b)])
    elif kind == 16:
        given = np.linspace(0.0, k, size)
        array(a).assign(given)
        both.then(a, by=lambda read: [jnp.asarray(given)])
    elif kind == 17 and size == N:
        x, y = (both.bases[base].reshape((2, 3)).transpose() for base in (a[0], b[0]))
        wp.copy(x, wp.clone(y.contiguous()))
        both.then((a[0], None), by=lambda read: [read((b[0], None))])


def check(seed):
    r, make = random.Random(seed), np.random.default_rng(seed)
    contents = [make.uniform(-1, 1, N) for _ in range(3)]
    both, tape = Both(contents), wp.Tape()
    with tape:
        for _ in range(r.randrange(1, 10)):
            step(r, both)
    wanted = both.after([jnp.asarray(x) for x in contents])
    for a, value in zip(both.bases, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), value, rtol=1e-12)
    if r.random() < 0.5:
        both.bases[0].fill_(9.0)
    weights = [make.uniform(-1, 1, N) for _ in range(3)]
    for _ in range(2):  # going back leaves the tape as it was
        for a in both.bases:
            a.grad.zero_()
        tape.backward(grads={a: wp.array(w, dtype=wp.float64) for a, w in zip(both.bases, weights, strict=True)})
        _, back = jax.vjp(lambda *x: both.after(list(x)), *map(jnp.asarray, contents))
        for a, g in zip(both.bases, back([jnp.asarray(w) for w in weights]), strict=True):
            np.testing.assert_allclose(a.grad.numpy(), g, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_gradients_of_random_programs():
    for seed in range(60):
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.skipif(not LONG, reason="the long profile")
@pytest.mark.usefixtures("x64")
def test_gradients_of_many_random_programs():
    check_seeds(check)
