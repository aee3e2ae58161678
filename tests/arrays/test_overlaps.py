"""Views that overlap in one launch: as in Warp where each thread reads before it writes, else refused by name."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.analysis.read_first import reads_first


@wp.kernel
def moved(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i] * x[i]


@wp.kernel
def read_after(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0
    y[i] += x[i]


@wp.kernel
def both(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    x[i] = 1.0
    y[i] = 2.0


@wp.kernel
def in_branches(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = 1.0
    else:
        y[i] = x[i]


@wp.kernel
def in_a_loop(x: wp.array[float], y: wp.array[float], n: int):
    i = wp.tid()
    for _ in range(n):
        y[i] = 2.0 * x[i]


@wp.kernel
def loop_before(x: wp.array[float], y: wp.array[float], n: int):
    i = wp.tid()
    s = 0.0 * x[i]
    while s < 3.0 and x[i] > 0.0:
        s += x[i]
    y[i] = s


@pytest.mark.parametrize(
    ("kernel", "is_first"),
    [(moved, True), (read_after, False), (in_branches, True), (in_a_loop, False), (loop_before, True)],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_what_is_read_first(kernel, is_first):
    ir = kernel.ir()
    names = [p.name for p in ir.params]
    assert reads_first(ir, names.index("x"), names.index("y")) is is_first


def test_launches_records_and_captures():
    """To the left is what Warp's threads do one after the other; to the right nobody promises anything else."""
    for source, target in ((slice(2, 8), slice(0, 6)), (slice(0, 6), slice(2, 8)), (slice(1, 7), slice(2, 8))):
        expected = np.arange(8, dtype=np.float32)
        a = wp.array(expected, dtype=float)
        launch = functools.partial(wp.launch, moved, 6, [a[source], 0.5], [a[target]])
        record = launch(record_cmd=True)
        with wp.ScopedCapture() as capture:
            launch()
        for run in (launch, launch, launch, record.launch, functools.partial(wp.capture_launch, capture.graph)):
            expected[target] = np.float32(0.5) * expected[source] * expected[source]
            run()
            np.testing.assert_array_equal(a.numpy(), expected)


def test_traced_they_have_derivatives():
    def program(a: wp.array):
        wp.launch(moved, 5, [a[1:], 0.5], [a[:5]])

    run = wp.functionalize(program, returns="a")
    x = jnp.arange(1.0, 7.0)
    value, back = jax.vjp(lambda x: wp.to_jax(run(wp.from_jax(x))), x)
    expected, expected_back = jax.vjp(lambda x: x.at[:5].set(0.5 * x[1:] ** 2), x)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(back(jnp.ones(6))[0], expected_back(jnp.ones(6))[0])


def test_on_tapes_they_have_none():
    a = wp.array(np.arange(6.0), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(moved, 5, [a[1:], 0.5], [a[:5]])
    np.testing.assert_array_equal(a.numpy(), [0.5, 2, 4.5, 8, 12.5, 5])
    with pytest.raises(wp.LaunchError, match=r"'y', which it writes, overlaps 'x' .*not follow.*test_overlaps.py:\d+"):
        tape.backward(grads={a: wp.ones(6, dtype=float)})
    a.grad.zero_()
    tape.backward()  # nothing is asked for


@pytest.mark.parametrize(
    ("kernel", "words"),
    [(read_after, "'y', which it writes, overlaps 'x' .* what it wrote by the other"), (both, "and both are written")],
    ids=("read after", "both written"),
)
def test_refused(kernel, words):
    a = wp.zeros(6, dtype=float)
    with pytest.raises(wp.LaunchError, match=rf"{words}.*test_overlaps.py:\d+"):
        wp.launch(kernel, 5, [a[1:], a[:5]])

    def program(a: wp.array):
        wp.launch(kernel, 5, [a[1:], a[:5]])

    with pytest.raises(wp.LaunchError, match=words):
        wp.functionalize(program, returns="a")(a)
    assert not a.numpy().any()
