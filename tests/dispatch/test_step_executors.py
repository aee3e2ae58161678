"""Adjoints of random kernels by all executors: JAX values, NumPy arrays in place, mutable arrays, tapes, graphs.

They agree with each other, and with differences in float64 of what launches in place compute.
"""

from __future__ import annotations

import random
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import LONG, check_seeds
from gradient_sources import INPUTS, OUTPUTS, PARAMS, Writer, arguments
from kernel_sources import load

import jwarp as wp

NAMES = tuple(PARAMS)
DTYPES = {"F": wp.float64, "wp.vec3d": wp.vec3d, "wp.mat22d": wp.mat22d, "int": int}
DIMS = {1: [(1,), (5,), (19,)], 2: [(1, 1), (2, 5), (7, 3)]}
IS_ARRAY = [" " in type or type.startswith("array") for type, _ in PARAMS.values()]
READ = tuple(p for p in range(len(NAMES)) if p not in OUTPUTS)
STEP = 1e-6


def dtype_of(p):
    type = PARAMS[NAMES[p]][0]
    return DTYPES[type.rpartition(" ")[2].removeprefix("array2d[").removeprefix("array[").removesuffix("]")]


class Case:
    """A random kernel with arguments, cotangents, gradients that there are, and a subset that is wanted."""

    def __init__(self, seed, folder):
        rng = random.Random(seed)
        writer = Writer(rng)
        self.source = writer.source()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wp.KernelWarning)
            self.kernel = load(self.source, folder)
            self.dims = rng.choice(DIMS[writer.rank])
            self.args = arguments(seed, self.dims, writer.own)
            for p in map(NAMES.index, "zq"):  # whose neighbours are read
                self.args[p] = np.concatenate([self.args[p], 0.5 * self.args[p][:1], 0.5 * self.args[p][:1]])
            self.args[NAMES.index("h")] = np.float32(self.args[NAMES.index("h")])
            self.launch(self.fresh())  # with its warnings
        make = np.random.default_rng(seed)
        self.cotangents = {p: make.normal(size=self.args[p].shape) for p in OUTPUTS}
        self.starts = {p: make.normal(size=np.shape(self.args[p])) for p in INPUTS}
        # A number of float32 is too coarse for short differences.
        self.direction = {p: make.normal(size=np.shape(self.args[p])) * (NAMES[p] != "h") for p in INPUTS}
        self.wanted = tuple(p for p in INPUTS if rng.random() < 0.6) or INPUTS[:1]

    def fresh(self):
        return [x.copy() if isinstance(x, np.ndarray) and x.shape else x for x in self.args]

    def launch(self, args):
        wp.launch(self.kernel, self.dims, [args[p] for p in READ], [args[p] for p in OUTPUTS])
        return {p: args[p] for p in OUTPUTS}

    def slope(self, step):
        """The difference of the outputs, times their cotangents, along the direction of the inputs."""
        sides = []
        for h in (step, -step):
            args = self.fresh()
            for p in INPUTS:
                if NAMES[p] != "h":
                    args[p] = args[p] + h * self.direction[p]
            found = self.launch(args)
            sides.append(sum(float(np.sum(self.cotangents[p] * found[p])) for p in OUTPUTS))
        return (sides[0] - sides[1]) / (2 * step)


def by_jax(case, wanted, starts):
    """Gradients of JAX values by an adjoint launch; with `starts`, added to these."""
    entries = [None if p not in wanted else starts.get(p, True) for p in (*READ, *OUTPUTS)]
    convert = lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) and x.shape else x  # noqa: E731
    found = wp.launch(
        case.kernel, case.dims, [convert(case.args[p]) for p in READ], [convert(case.args[p]) for p in OUTPUTS],
        adjoint=True, adj_inputs=[convert(x) for x in entries], adj_outputs=[case.cotangents[p] for p in OUTPUTS],
    )  # fmt: skip
    order = [p for p in (*READ, *OUTPUTS) if p in wanted]
    return {p: np.asarray(x) for p, x in zip(order, found, strict=True)}


def in_place(case, wanted, starts, times):
    """Gradients that are added to NumPy arrays, so many times, by a record."""
    arrays = {p: starts[p].copy() for p in wanted if p in starts and IS_ARRAY[p]}
    entries = [arrays.get(p, True if p in wanted else None) for p in (*READ, *OUTPUTS)]
    args = case.fresh()
    record = wp.launch(
        case.kernel, case.dims, [args[p] for p in READ], [args[p] for p in OUTPUTS], adjoint=True,
        adj_inputs=entries, adj_outputs=[case.cotangents[p] for p in OUTPUTS], record_cmd=True,
    )  # fmt: skip
    for _ in range(times):
        found = record.launch()
    order = [p for p in (*READ, *OUTPUTS) if p in wanted]
    for p in range(len(NAMES)):
        np.testing.assert_array_equal(args[p], case.args[p])
    return dict(zip(order, found, strict=True)), arrays


def mutable(case, wanted):
    """Mutable arrays, those of `wanted` with gradients."""
    made = case.fresh()
    for p in range(len(NAMES)):
        if IS_ARRAY[p]:
            made[p] = wp.array(made[p], dtype=dtype_of(p), requires_grad=p in wanted)
    return made


def check(seed, folder):
    """Compare all ways to one kernel's gradients; whether differences were near enough to compare with, too."""
    case = Case(seed, folder)
    everything = by_jax(case, INPUTS, {})
    slopes = case.slope(STEP), case.slope(2 * STEP)
    found = sum(float(np.sum(everything[p] * case.direction[p])) for p in INPUTS)
    wanted = case.wanted
    starts = {p: case.starts[p] for p in wanted if IS_ARRAY[p]}
    want = {p: everything[p] + starts.get(p, 0.0) for p in wanted}

    def assert_same(found, want, where):
        assert set(found) == set(want), where
        for p, x in found.items():
            np.testing.assert_allclose(x, want[p], rtol=1e-9, atol=1e-10, err_msg=f"{where}: {NAMES[p]}\n{case.source}")

    assert_same(by_jax(case, wanted, starts), want, "JAX")
    jitted = jax.jit(lambda: by_traced(case, wanted))()
    assert_same(dict(zip(wanted, jitted, strict=True)), {p: everything[p] for p in wanted}, "jit")
    for times in (1, 3):
        results, arrays = in_place(case, wanted, starts, times)
        more = {p: times * everything[p] + starts[p] if p in arrays else everything[p] for p in wanted}
        assert_same(results, more, f"NumPy {times}")
    check_mutable(case, wanted, everything, assert_same)
    return found, slopes


def by_traced(case, wanted):
    """The gradients by `jax.grad` of a function of the inputs."""

    def f(values):
        args = list(case.args)
        for p, x in zip(wanted, values, strict=True):
            args[p] = x
        outs = wp.launch(
            case.kernel, case.dims, [args[p] for p in READ], [jnp.asarray(args[p]) for p in OUTPUTS]
        )  # fmt: skip
        return sum(jnp.sum(case.cotangents[p] * x) for p, x in zip(OUTPUTS, outs, strict=True))

    return jax.grad(f)([jnp.asarray(case.args[p]) for p in wanted])


def check_mutable(case, wanted, everything, assert_same):
    """Adjoint launches, tapes and graphs on mutable arrays, some of which have no gradients."""
    graded = {p for p in wanted if IS_ARRAY[p]} | set(OUTPUTS)
    want = {p: everything[p] + (0.0 if p in OUTPUTS else case.starts[p]) for p in graded}

    def start(args):
        for p in graded:
            args[p].grad.assign(case.cotangents[p] if p in OUTPUTS else case.starts[p])

    def gradients(args):
        return {p: args[p].grad.numpy() for p in graded}

    args = mutable(case, graded)
    for _ in range(2):
        start(args)
        wp.launch(
            case.kernel, case.dims, [args[p] for p in READ], [args[p] for p in OUTPUTS], adjoint=True,
            adj_inputs=[None] * len(READ), adj_outputs=[None] * len(OUTPUTS),
        )  # fmt: skip
        assert_same(gradients(args), want, "an adjoint launch on arrays")
    args = mutable(case, graded)
    seeds = {args[p]: wp.array(case.cotangents[p], dtype=dtype_of(p)) for p in OUTPUTS}

    def program(tape):
        with tape:
            wp.launch(case.kernel, case.dims, [args[p] for p in READ], [args[p] for p in OUTPUTS])
        tape.backward(grads=seeds)

    def restart():
        for p in range(len(NAMES)):
            if IS_ARRAY[p]:
                args[p].assign(case.args[p])
        start(args)

    for k in range(4):
        restart()
        program(wp.Tape())
        assert_same(gradients(args), want, f"tape {k}")
    with wp.ScopedCapture() as capture:
        program(wp.Tape())
    for k in range(4):
        restart()
        wp.capture_launch(capture.graph)
        assert_same(gradients(args), want, f"graph {k}")


@pytest.mark.usefixtures("x64")
def test_gradients_of_random_kernels(tmp_path):
    compared = 0
    for seed in range(6):
        try:
            compared += is_compared(seed, tmp_path)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert compared >= 3


def is_compared(seed, folder):
    """Check a kernel, and compare with differences where these agree: between kinks."""
    found, slopes = check(seed, folder)
    scale = 1.0 + max(map(abs, slopes))
    if abs(slopes[0] - slopes[1]) > 1e-6 * scale:
        return False
    assert abs(found - slopes[0]) < 1e-5 * scale, f"{found}, by differences {slopes}"
    return True


@pytest.mark.skipif(not LONG, reason="the long profile")
@pytest.mark.usefixtures("x64")
def test_gradients_of_many_random_kernels(tmp_path):
    check_seeds(lambda seed: is_compared(seed, tmp_path))


@wp.struct
class Spring:
    k: wp.float64
    rest: wp.array[wp.float64]


@wp.kernel
def stretched(x: wp.array[wp.float64], s: Spring, w: wp.array[wp.float64], y: wp.array[wp.float64]):
    """A struct with an array, an array that may be None, and an array that is read and overwritten."""
    i = wp.tid()
    d = x[i] - s.rest[i]
    if w:
        d = d * w[i]
    y[i] = y[i] * d + s.k * wp.sin(d)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("with_weights", [True, False])
def test_structs_and_absent_arrays(with_weights):
    """Gradients of the fields of a struct and of arrays that None is given for, by tapes, adjoint launches and JAX."""
    make = np.random.default_rng(3)
    x, rest, y, w, ct = (make.normal(size=7) for _ in range(5))
    k = 0.7

    def f(x, rest, y, w):
        d = (x - rest) * w
        return y * d + k * np.sin(d)

    def slopes(at):
        """By differences in float64."""
        given = [x, rest, y, w if with_weights else np.ones(7)]
        found = []
        for h in (STEP, -STEP):
            moved = [a + h * (n == at) for n, a in enumerate(given)]
            found.append(ct * f(*moved))
        return (found[0] - found[1]) / (2 * STEP)

    want = [slopes(n) for n in range(3 + with_weights)]

    def program():
        arrays = [wp.array(a, dtype=wp.float64, requires_grad=True) for a in (x, rest, y, w)]
        spring = Spring()
        spring.k, spring.rest = k, arrays[1]
        return arrays, [arrays[0], spring, arrays[3] if with_weights else None], [arrays[2]]

    def check_gradients(arrays, where):
        for n, slope in enumerate(want):
            np.testing.assert_allclose(arrays[n].grad.numpy(), slope, rtol=1e-7, atol=1e-8, err_msg=where)

    arrays, inputs, outputs = program()
    seed = {arrays[2]: wp.array(ct, dtype=wp.float64)}
    for n in range(4):
        arrays[2].assign(y)
        for a in arrays:
            a.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(stretched, 7, inputs, outputs)
        tape.backward(grads=seed)
        check_gradients(arrays, f"tape {n}")
    arrays, inputs, outputs = program()
    with wp.ScopedCapture() as capture:
        with wp.Tape() as tape:
            wp.launch(stretched, 7, inputs, outputs)
        tape.backward(grads={arrays[2]: wp.array(ct, dtype=wp.float64)})
    for n in range(4):
        arrays[2].assign(y)
        for a in arrays:
            a.grad.zero_()
        wp.capture_launch(capture.graph)
        check_gradients(arrays, f"graph {n}")
    arrays, inputs, outputs = program()
    arrays[2].grad.assign(ct)
    wp.launch(stretched, 7, inputs, outputs, adjoint=True, adj_inputs=[None] * 3, adj_outputs=[None])
    check_gradients(arrays, "adjoint launch")
    gx, gy = np.ones(7), np.full(7, 2.0)
    given = [x, Spring(k=k, rest=rest), w if with_weights else None]
    wp.launch(
        stretched, 7, given, [y], adjoint=True, adj_inputs=[gx, None, None, gy], adj_outputs=[ct]
    )  # fmt: skip
    np.testing.assert_allclose(gx, 1.0 + want[0], rtol=1e-7)
    np.testing.assert_allclose(gy, 2.0 + want[2], rtol=1e-7)


@wp.kernel
def blended(x: wp.array[wp.float64], y: wp.array[wp.float64], z: wp.array[wp.float64]):
    i = wp.tid()
    z[i] = wp.sin(x[i]) * y[i] + z[i] * x[i]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("same", [(0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0)])
def test_parameters_that_are_one_array(same):
    """Tapes, graphs and adjoint launches where parameters are given one array, written or not."""
    make = np.random.default_rng(5)
    contents, ct = [make.normal(size=5) for _ in range(2)], make.normal(size=5)

    def f(values):
        x, y, z = (values[k] for k in same)
        out = np.sin(x) * y + z * x
        return [out if k == same[2] else value for k, value in enumerate(values)]

    def slope(at):
        sides = []
        for h in (STEP, -STEP):
            out = f([a + h * (k == at) for k, a in enumerate(contents)])
            sides.append(ct * out[same[2]])
        return (sides[0] - sides[1]) / (2 * STEP)

    used = sorted(set(same))
    bases = [wp.array(a, dtype=wp.float64, requires_grad=True) for a in contents]
    given = [bases[k] for k in same]

    def restart():
        for base, content in zip(bases, contents, strict=True):
            base.assign(content)
            base.grad.zero_()

    def check_gradients(where):
        for k in used:
            np.testing.assert_allclose(bases[k].grad.numpy(), slope(k), rtol=1e-7, atol=1e-8, err_msg=where)

    seed = {bases[same[2]]: wp.array(ct, dtype=wp.float64)}
    for n in range(4):
        restart()
        with wp.Tape() as tape:
            wp.launch(blended, 5, given[:2], given[2:])
        tape.backward(grads=seed)
        check_gradients(f"tape {n}")
    with wp.ScopedCapture() as capture:
        with wp.Tape() as tape:
            wp.launch(blended, 5, given[:2], given[2:])
        tape.backward(grads=seed)
    for n in range(4):
        restart()
        wp.capture_launch(capture.graph)
        check_gradients(f"graph {n}")
    restart()
    bases[same[2]].grad.assign(ct)
    wp.launch(blended, 5, given[:2], given[2:], adjoint=True, adj_inputs=[None, None], adj_outputs=[None])
    check_gradients("adjoint launch")


@wp.kernel
def first_of(x: wp.array[wp.float64], y: wp.array[wp.float64], z: wp.array[wp.float64]):
    """The adjoint reads what the launch left: that tells whose value it is, or that it was there before."""
    i = wp.tid()
    wp.atomic_max(z, i % 2, x[i] * y[i])


@pytest.mark.usefixtures("x64")
def test_adjoints_that_run_the_launch_once_more():
    make = np.random.default_rng(8)
    x, y, z, ct = make.normal(size=6), make.normal(size=6), np.array([-9.0, 9.0]), make.normal(size=2)
    top = max(range(0, 6, 2), key=lambda i: x[i] * y[i])
    want = np.zeros(6)
    want[top] = ct[0] * y[top]
    gx = np.zeros(6)
    record = wp.launch(
        first_of, 6, [x, y], [z], adjoint=True, adj_inputs=[gx, None], adj_outputs=[ct], record_cmd=True
    )  # fmt: skip
    for n in range(1, 4):
        record.launch()
        np.testing.assert_allclose(gx, n * want, rtol=1e-12)
    np.testing.assert_array_equal(z, [-9.0, 9.0])
    a, b, c = (wp.array(v, dtype=wp.float64, requires_grad=True) for v in (x, y, z))
    for n in range(4):
        c.assign(z)
        a.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(first_of, 6, [a, b], [c])
        tape.backward(grads={c: wp.array(ct, dtype=wp.float64)})
        np.testing.assert_allclose(a.grad.numpy(), want, rtol=1e-12, err_msg=f"tape {n}")
    (found,) = wp.launch(
        first_of, 6, [jnp.asarray(x), jnp.asarray(y)], [jnp.asarray(z)], adjoint=True, adj_inputs=[True, None],
        adj_outputs=[ct],
    )  # fmt: skip
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_gradients_whose_memory_has_gone_are_refused():
    """A record adds to arrays natively; one that was resized by force, or made read-only, is an error each time."""
    x, ct, g = np.ones(6, np.float32), np.ones(6, np.float32), np.zeros(6, np.float32)
    y = np.zeros(6, np.float32)

    def recorded(gradient):
        return wp.launch(
            doubled, 6, [x], [y], adjoint=True, adj_inputs=[gradient], adj_outputs=[ct], record_cmd=True
        )  # fmt: skip

    record = recorded(g)
    for _ in range(3):
        record.launch()
    np.testing.assert_array_equal(g, 6.0)
    g.flags.writeable = False
    with pytest.raises(wp.LaunchError, match="read-only"):
        record.launch()
    own = np.zeros(6, np.float32)
    record = recorded(own)
    for _ in range(3):
        record.launch()
    own.resize((2, 3), refcheck=False)
    with pytest.raises(wp.LaunchError, match="changed its shape"):
        record.launch()


@wp.kernel
def doubled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]
