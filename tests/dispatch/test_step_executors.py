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
