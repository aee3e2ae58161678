"""Launches whose threads count, differentiated without an order of the threads: what they find comes from a scan."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counter_kernels import CELLS, F, N, compacted, counted_by_cell, first_wins, free_list, point, several_places
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp
from jwarp.bind import counting, derivatives
from jwarp.compiler.counting import without_order
from jwarp.compiler.program import program_of
from jwarp.launching.descriptor import Descriptor


@pytest.fixture(autouse=True)
def double_precision(x64):
    yield


@pytest.mark.parametrize("operation", [(n, None) for n in ("add", "min", "max", "and", "or", "xor", "")] + [("", 3)])
@pytest.mark.parametrize("is_one", [False, True])
def test_a_scan_finds_what_operations_in_order_find(operation, is_one):
    """The scan of GPUs against that of processors, with a batch axis and without."""
    rng = np.random.default_rng(1)
    for dtype, shape in ((np.int32, (1,)), (np.uint32, (50,)), (np.int64, (3, 20)), (np.int32, (2, 33))):
        element = rng.integers(0, 2 if is_one else 5, shape).astype(np.int32) * (3 if is_one else 1)
        value, content = (rng.integers(0, 6, n).astype(dtype) for n in (shape, (*shape[:-1], 6)))

        def scan(*arrays):
            return counting.found_values(operation, is_one, *arrays)

        axes, arrays = len(shape) - 1, list(map(jnp.asarray, (content, element, value)))
        found = (jax.vmap(scan) if axes else scan)(*arrays)
        for x, y in zip(found, counting._in_order(operation, *arrays, axes), strict=True):
            assert_array_equal(x, y)


def orders(function, *args):
    """The orders of the threads of all launches that a function makes."""
    found = []

    def visit(jaxpr):
        for eqn in jaxpr.eqns:
            for value in eqn.params.values():
                if isinstance(value, Descriptor):
                    found.append((value.program.name, bool(value.program.kernel.order)))
            for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
                if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                    visit(getattr(inner, "jaxpr", inner))

    visit(jax.make_jaxpr(function)(*args).jaxpr)
    return found


@pytest.mark.parametrize(
    "kernel", [compacted, several_places, counted_by_cell, free_list, first_wins], ids=lambda k: k.name
)
def test_no_launch_of_the_kernel_has_an_order(kernel):
    x, *rest = map(jnp.asarray, point(1))

    def loss(x):
        return wp.launch(kernel, N, [x, *rest[:2]], rest[2:])[1].sum()

    made = [order for name, order in orders(jax.value_and_grad(loss), x) if name == kernel.name]
    assert len(made) >= 3 and not any(made)


@wp.kernel
def two_counters(x: wp.array[F], cell: wp.array[int], n: wp.array[int], total: wp.array[int], y: wp.array[F]):
    """The first counter decides which element of the second one counts, and by how much."""
    i = wp.tid()
    place = wp.atomic_add(n, cell[i], 1)
    if place < 3:
        row = wp.atomic_add(total, place % 2, 1 + place)
        y[20 * (place % 2) + row] = x[i] * x[i] * F(row + 1)


def in_python(x, cell, y):
    n, total, y = [0] * CELLS, [0, 0], np.array(y)
    for i, c in enumerate(cell):
        place, n[c] = n[c], n[c] + 1
        if place < 3:
            row = total[place % 2]
            total[place % 2] += 1 + place
            y[20 * (place % 2) + row] = x[i] ** 2 * (row + 1)
    return n, total, y


def test_a_counter_decides_about_another_one():
    x, cell, _, _, y = point(4)
    weights = np.random.default_rng(0).normal(size=y.size)

    def loss(x):
        n, total, after = wp.launch(two_counters, N, [x, cell], [CELLS, 2, jnp.asarray(y)])
        return jnp.sum(jnp.sin(after) * weights), (n, total)

    (value, counters), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(jnp.asarray(x))
    n, total, after = in_python(x, cell, y)
    assert_allclose(value, np.sum(np.sin(after) * weights), rtol=1e-12)
    assert_array_equal(counters[0], n)
    assert_array_equal(counters[1], total)
    h = 1e-6
    steps = [
        [np.sum(np.sin(in_python(x + s * h * e, cell, y)[2]) * weights) for s in (1, -1)] for e in np.eye(N)
    ]  # fmt: skip
    assert_allclose(slope, [(a - b) / (2 * h) for a, b in steps], rtol=1e-6, atol=1e-7)
    made = [order for name, order in orders(jax.grad(lambda x: loss(x)[0]), jnp.asarray(x)) if name == "two_counters"]
    assert len(made) >= 4 and not any(made)


@wp.kernel
def rows(x: wp.array2d[F], counted: wp.array[wp.int64], y: wp.array2d[F]):
    w, i = wp.tid()
    if x[w, i] > F(0.0):
        row = wp.atomic_add(counted, w - 2, wp.int64(1))  # of negative numbers, from the end
        if row < wp.int64(3):
            y[w, int(row)] = x[w, i] * x[w, i]


def test_batches_checkpoints_and_second_derivatives_of_rows_of_worlds():
    """Counters that begin as the launch finds them, one for each element of a batch or one for all."""
    rng = np.random.default_rng(2)
    x, start = rng.normal(size=(4, 3, 8)), np.array([[0, 1, 0], [2, 0, 0], [0, 0, 3], [1, 1, 1]])

    def by_hand(x, start):
        y = np.zeros((3, 3), object)
        for w in range(3):
            taken = [i for i in range(8) if x[w, i] > 0]
            for k, i in enumerate(taken, int(start[w - 2])):
                if k < 3:
                    y[w, k] = (w, i)
        return y

    def loss(x, start):
        counted, y = wp.launch(rows, (3, 8), [x], [start, (3, 3)])
        return jnp.sum(jnp.sin(y) * np.arange(1.0, 10).reshape(3, 3)), counted

    for starts in (jnp.asarray(start), jnp.asarray(start[0])):
        axes = (0, 0 if starts.ndim == 2 else None)
        run = jax.jit(jax.vmap(jax.value_and_grad(jax.checkpoint(loss), has_aux=True), axes))
        (values, counted), slopes = run(x, starts)
        curves = jax.vmap(jax.grad(lambda x, s: jnp.sum(jax.grad(loss, has_aux=True)(x, s)[0] ** 2) / 2), axes)(
            x, starts
        )
        for b in range(4):
            own = np.asarray(starts[b] if starts.ndim == 2 else starts)
            value, slope, curve = 0.0, np.zeros((3, 8)), np.zeros((3, 8))
            for k, at in enumerate(by_hand(x[b], own).ravel(), 1):
                if at:
                    v = x[b][at]
                    value += k * np.sin(v * v)
                    slope[at] = k * np.cos(v * v) * 2 * v
                    curve[at] = slope[at] * k * (2 * np.cos(v * v) - 4 * v * v * np.sin(v * v))
            assert_allclose(values[b], value, rtol=1e-12)
            assert_allclose(slopes[b], slope, rtol=1e-12)
            assert_allclose(curves[b], curve, rtol=1e-10, atol=1e-12)
            more = (x[b] > 0).sum(1)
            assert_array_equal(counted[b], own + np.roll(more, -2))


def test_launches_that_keep_their_order(monkeypatch):
    """Threads with the same coordinates, those of debug mode, and stores that meet where an order is asked for."""
    x, cell, trips, n, y = point(1)
    program = program_of(compacted, wp.config.settings)
    assert without_order(program) is not None
    with wp.config(debug=True):
        assert without_order(program_of(compacted, wp.config.settings)) is None
    with wp.config(deterministic=True):
        assert without_order(program_of(compacted, wp.config.settings)) is not None
        assert without_order(program_of(first_wins, wp.config.settings)) is None
    found = []
    counted = derivatives.counted
    monkeypatch.setattr(derivatives, "counted", lambda *args: found.append(counted(*args)) or found[-1])
    given = [jnp.asarray(a) for a in (x, cell, trips)]

    def loss(x, dim):
        return wp.launch(compacted, dim, [x, *given[1:]], [jnp.asarray(n), jnp.asarray(y)])[1].sum()

    with pytest.warns(wp.KernelWarning, match="reads 1 coordinate"):
        jax.grad(loss)(given[0], (N, 2))
    assert found == [None]
    jax.grad(loss)(given[0], N)
    assert found[-1] is not None
