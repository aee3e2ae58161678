"""Random programs that overwrite, copy, fill and alias arrays: a tape's gradients are those of `jax.grad`."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import LONG, check_seeds
from taped_kernels import Array, N, accumulate, assert_contents, bend, evens, multiply

import jwarp as wp


@wp.kernel
def gather(x: Array, at: wp.array[int], y: Array):
    i = wp.tid()
    y[i] = x[at[i]] * y[i]


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


@wp.struct
class Pair:
    x: Array
    y: Array
    k: wp.float64


@wp.kernel
def fields(pair: Pair):
    i = wp.tid()
    pair.y[i] = pair.k * pair.x[i] * pair.x[i]


@wp.struct
class Body:
    at: wp.float64
    by: wp.vec3d


@wp.kernel
def bodies(x: Array, y: Array, b: wp.array[Body]):
    i = wp.tid()
    b[i].at = x[i] * y[i]
    b[i].by = wp.vec3d(x[i], y[i] * y[i], wp.float64(2.0))


@wp.kernel
def of_bodies(b: wp.array[Body], z: Array):
    i = wp.tid()
    z[i] = b[i].at * b[i].by[1] + b[i].by[0]


@wp.kernel
def taken(x: wp.indexedarray[wp.float64], y: Array):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def put(y: Array, x: wp.indexedarray[wp.float64]):
    i = wp.tid()
    x[i] = y[i] * y[i]


@wp.kernel
def taken_rows(x: wp.indexedarray2d[wp.float64], y: wp.array2d[wp.float64]):
    i, j = wp.tid()
    y[i, j] = wp.sin(x[i, j])


@wp.kernel
def scattered(x: Array, at: wp.array[int], y: Array):
    i = wp.tid()
    wp.atomic_add(y, at[i], x[i] * x[i])


@wp.func
def curve(x: wp.float64):
    return x * x * x


@wp.func_grad(curve)
def adj_curve(x: wp.float64, adj_ret: wp.float64):
    wp.adjoint[x] += wp.float64(3.0) * x * x * adj_ret


@wp.kernel
def curved(x: Array, y: Array):
    i = wp.tid()
    y[i] = curve(x[i]) + x[i]


@wp.kernel
def turned(x: wp.array2d[wp.float64], y: wp.array2d[wp.float64]):
    i, j = wp.tid()
    y[i, j] = wp.sin(x[i, j]) + wp.float64(i) * x[i, j]


@wp.kernel
def crossed(x: wp.array[wp.vec3d], y: wp.array[wp.vec3d]):
    i = wp.tid()
    y[i] = wp.cross(x[i], y[i]) + x[i]


@wp.kernel
def repeated(x: Array, y: Array, n: int):
    i = wp.tid()
    for _ in range(n):
        x[i] = x[i] * y[i] + wp.float64(0.5)


class Both:
    """The arrays of a program, and the same as values; a name is a base and a slice of it."""

    def __init__(self, contents):
        self.bases = [wp.array(x, dtype=wp.float64, requires_grad=True) for x in contents]
        self.steps = []  # of functions from values to values
        self.indices = []  # arrays of integers that launches have read, and what they held
        self.tapes = []  # inner ones, with the numbers of the steps where they began and ended

    def temporary(self):
        """One more array, of zeros."""
        self.bases.append(wp.zeros(N, dtype=wp.float64, requires_grad=True))
        return len(self.bases) - 1, None

    def integers(self, content):
        made = wp.array(np.asarray(content, np.int32), dtype=int)
        self.indices.append((made, content))
        return made

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

    def after(self, values, begin=0, end=None):
        for step in self.steps[begin:end]:
            values = step(values)
        return values


def some_name(r, size):
    base = r.randrange(3)
    if size == N:
        return base, None
    if r.random() < 0.3:
        return base, slice(r.randrange(2), None, 2)
    start = r.randrange(N - size + 1)
    return base, slice(start, start + size)


def fits(written, others):
    """True if the written elements are disjoint from the others, or one of them."""

    def indices(name):
        return set(range(N)[name[1] or slice(None)])

    return all(name == written or name[0] != written[0] or not (indices(name) & indices(written)) for name in others)


def step(r, both):
    size = r.choice((N, N, 3))
    a, b, c = (some_name(r, size) for _ in range(3))
    k = r.uniform(-1, 1)
    kind = r.randrange(33)
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
        wp.launch(gather, size, inputs=[array(a), both.integers(at), array(b)])
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
    elif kind < 18:
        step_of_arrays(r, both, kind, size, a, b, c, k)
    else:
        step_of_kinds(r, both, kind, size, a, b, c, k)


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
    elif kind == 13 and a[0] != b[0] and all(x[1] is None or x[1].step is None for x in (a, b)):
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


def step_of_kinds(r, both, kind, size, a, b, c, k):
    """A launch on something else than plain arrays, or not by `wp.launch`."""
    array, whole = both.array, ((a[0], None), (b[0], None))
    if kind == 18 and fits(b, (a,)):
        at = [r.randrange(size) for _ in range(size)]
        wp.launch(taken, size, inputs=[wp.indexedarray(array(a), [both.integers(at)]), array(b)])
        both.then(b, by=lambda read: [read(a)[np.array(at)] ** 2])
    elif kind == 19 and fits(b, (a,)) and a != b:
        count = r.randrange(1, size + 1)
        at = r.sample(range(size), count)
        wp.launch(put, count, inputs=[array(a), wp.indexedarray(array(b), [both.integers(at)])])
        both.then(b, by=lambda read: [read(b).at[np.array(at)].set(read(a)[:count] ** 2)])
    elif kind == 20 and a[0] != b[0]:
        rows, at = r.random() < 0.5, [r.randrange(2) for _ in range(2)]
        chosen = [both.integers(at), None] if rows else [None, both.integers([2, 0, 1])]
        x, y = (both.bases[base].reshape((2, 3)) for base in (a[0], b[0]))
        wp.launch(taken_rows, (2, 3), inputs=[wp.indexedarray(x, chosen), y])

        def picked(read):
            x = read(whole[0]).reshape(2, 3)
            return [jnp.sin(x[np.array(at)] if rows else x[:, np.array([2, 0, 1])]).reshape(6)]

        both.then(whole[1], by=picked)
    elif kind == 21 and fits(b, (a,)):
        pair = Pair()
        pair.x, pair.y, pair.k = array(a), array(b), k
        wp.launch(fields, size, inputs=[pair])
        both.then(b, by=lambda read: [k * read(a) ** 2])
    elif kind == 22:
        made = wp.zeros(size, dtype=Body, requires_grad=True)
        wp.launch(bodies, size, inputs=[array(a), array(b), made])
        wp.launch(of_bodies, size, inputs=[made, array(c)])
        both.then(c, by=lambda read: [read(a) * read(b) ** 3 + read(a)])
    elif kind == 23 and fits(b, (a,)) and a != b:
        at = [r.randrange(size) for _ in range(size)]
        wp.launch(scattered, size, inputs=[array(a), both.integers(at), array(b)])
        both.then(b, by=lambda read: [read(b).at[np.array(at)].add(read(a) ** 2)])
    elif kind == 24 and fits(b, (a,)):
        wp.launch(curved, size, inputs=[array(a), array(b)])
        both.then(b, by=lambda read: [read(a) ** 3 + read(a)])
    elif kind == 25 and a[0] != b[0]:
        x, y = (both.bases[base].reshape((2, 3)).transpose() for base in (a[0], b[0]))
        wp.launch(turned, (3, 2), inputs=[x, y])
        row = np.tile(np.arange(3.0), 2)
        both.then(whole[1], by=lambda read: [jnp.sin(read(whole[0])) + row * read(whole[0])])
    elif kind == 26 and a[0] != b[0]:
        x, y = (both.bases[base].reshape((2, 3)).view(wp.vec3d).reshape(2) for base in (a[0], b[0]))
        wp.launch(crossed, 2, inputs=[x, y])

        def cross(read):
            x, y = (read(name).reshape(2, 3) for name in whole)
            return [(jnp.cross(x, y) + x).reshape(6)]

        both.then(whole[1], by=cross)
    elif kind == 27 and fits(b, (a,)) and a != b:
        record = wp.launch(accumulate, size, inputs=[array(a), k, array(b)], record_cmd=True)
        record.launch()
        record.set_param_by_name("k", 2.0 * k)
        record.launch()
        both.then(b, by=lambda read: [read(b) + 3.0 * k * read(a) ** 2])
    elif kind == 28 and both.indices:  # what launches have read changes
        chosen, content = r.choice(both.indices)
        chosen.fill_(0) if r.random() < 0.5 else chosen.assign(content[::-1])
    elif kind == 29:
        made = both.temporary()
        wp.launch(curved, N, inputs=[array(whole[0]), array(made)])
        wp.launch(multiply, N, inputs=[array(made), array(made), array(whole[1])])
        both.then(made, by=lambda read: [read(whole[0]) ** 3 + read(whole[0])])
        both.then(whole[1], by=lambda read: [read(made) ** 2])
    elif kind == 30:
        begin, inner = len(both.steps), wp.Tape()
        with inner:
            for _ in range(r.randrange(1, 3)):
                step(r, both)
        both.tapes.append((inner, begin, len(both.steps)))
    elif kind == 31 and fits(a, (b,)) and a != b:
        n = r.randrange(4)
        wp.launch(repeated, size, inputs=[array(a), array(b), n])

        def often(read):
            x = read(a)
            for _ in range(n):
                x = x * read(b) + 0.5
            return [x]

        both.then(a, by=often)
    elif kind == 32 and size == N and a[0] != b[0]:
        array(a).assign(array(b))
        both.then(a, by=lambda read: [read(b)])


def check(seed):
    """A program, its gradients, those of its inner tapes; and, for every other seed, the same by a graph."""
    r, make = random.Random(seed), np.random.default_rng(seed)
    contents = [make.uniform(-1, 1, N) for _ in range(3)]
    both, tape = Both(contents), wp.Tape()
    weights = [make.uniform(-1, 1, N) for _ in range(3)]
    seeds = [wp.array(w, dtype=wp.float64) for w in weights]

    def back():
        tape.backward(grads=dict(zip(both.bases, seeds, strict=False)))

    if r.random() < 0.5:
        with tape:
            for _ in range(r.randrange(1, 10)):
                step(r, both)
        run = None
    else:
        with wp.ScopedCapture() as capture:
            with tape:
                for _ in range(r.randrange(1, 10)):
                    step(r, both)
            back()
        run = capture.graph
    zeros = [np.zeros(N) for _ in both.bases[3:]]
    wanted = both.after([jnp.asarray(x) for x in (*contents, *zeros)])
    _, pull = jax.vjp(lambda *x: both.after(list(x)), *map(jnp.asarray, (*contents, *zeros)))
    gradients = pull([jnp.asarray(w) for w in (*weights, *zeros)])
    for k in range(4):  # going back leaves the tape as it was
        tape.zero()
        for a in both.bases:
            a.grad.zero_()
        if run is None:
            assert_contents(both.bases, wanted)
            if k == 0 and r.random() < 0.5:
                overwritten(r, both)
                wanted = [jnp.asarray(a.numpy().copy()) for a in both.bases]
            back()
        else:
            for a, x in [*zip(both.bases, (*contents, *zeros), strict=True), *both.indices]:
                a.assign(x)
            wp.capture_launch(run)
            assert_contents(both.bases, wanted)
        for a, g in zip(both.bases, gradients, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), g, rtol=1e-9, atol=1e-12)
    if r.random() < 0.5:
        overwritten(r, both)
    for inner, begin, end in both.tapes:
        check_inner(both, inner, begin, end, [*contents, *zeros], [*weights, *zeros])


def overwritten(r, both):
    """Change arrays after they were recorded, in one way or another."""
    for a in r.sample([*both.bases, *(a for a, _ in both.indices)], k=r.randrange(1, 3)):
        way = r.randrange(3)
        if way == 0:
            a.fill_(9)
        elif way == 1:
            a.numpy()[::2] = 3
        elif a.dtype is wp.float64:
            wp.launch(bend, N, inputs=[a, 1.5])


def check_inner(both, inner, begin, end, contents, weights):
    """The gradients of a tape that was open for some steps."""
    found = both.after([jnp.asarray(x) for x in contents], 0, begin)
    _, pull = jax.vjp(lambda *x: both.after(list(x), begin, end), *found)
    for a in both.bases:
        a.grad.zero_()
    inner.zero()
    inner.backward(grads={a: wp.array(w, dtype=wp.float64) for a, w in zip(both.bases, weights, strict=True)})
    for a, g in zip(both.bases, pull([jnp.asarray(w) for w in weights]), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), g, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_gradients_of_random_programs():
    for seed in range(15):
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.skipif(not LONG, reason="the long profile")
@pytest.mark.usefixtures("x64")
def test_gradients_of_many_random_programs():
    check_seeds(check)
