"""Errors of arrays written while JAX traces, leaked tracers, wrong types: they name the array and the place."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

HERE = r"made at .*test_bad_input.py:\d+"


@wp.kernel
def scaled(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i]


def launched(a):
    wp.launch(scaled, 4, [a, 2.0, a])


def record(a):
    return wp.launch(scaled, 4, [a, 2.0, a], record_cmd=True).launch


def graph(a):
    with wp.ScopedCapture() as capture:
        launched(a)
    return lambda: wp.capture_launch(capture.graph)


def tape(a):
    with wp.Tape() as found:
        launched(a)
    return lambda: found.backward(grads={a: np.ones(4)})


def scan_in_place(a):
    wp.utils.array_scan(a, a)


WRITES = {
    "launch": lambda a: lambda: launched(a),
    "record": record,
    "graph": graph,
    "tape": tape,
    "fill": lambda a: lambda: a.fill_(3.0),
    "zero": lambda a: a.zero_,
    "copy": lambda a: lambda: wp.copy(a, wp.ones(4, dtype=float)),
    "assign": lambda a: lambda: a.assign(np.ones(4)),
    "slice": lambda a: lambda: a[1:].fill_(3.0),
    "add": lambda a: lambda: a.__iadd__(1.0),
    "scan": lambda a: lambda: scan_in_place(a),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_arrays_written_while_another_function_is_traced(write):
    a = wp.ones(4, dtype=float, requires_grad=True)
    change = write(a)
    before = a.numpy().copy()

    @jax.jit
    def traced(x):
        change()
        return x

    with pytest.raises(wp.LaunchError, match=rf"(?s){HERE}.*(traces|traced)|traces.*{HERE}"):
        traced(jnp.ones(4))
    np.testing.assert_array_equal(a.numpy(), before)


def test_traced_arrays_written_while_another_function_is_traced():
    @jax.jit
    def outer(x):
        y = wp.from_jax(x)

        @jax.jit
        def inner(z):
            wp.launch(scaled, 4, [wp.from_jax(z), 2.0, y])
            return z

        return inner(x)

    with pytest.raises(wp.LaunchError, match=f"{HERE} is written at {HERE[8:]} while JAX traces another function"):
        outer(jnp.ones(4))


USES = {
    "numpy": lambda a: a.numpy(),
    "launch": lambda a: wp.launch(scaled, 4, [a, 2.0, wp.zeros(4, dtype=float)]),
    "written": lambda a: wp.launch(scaled, 4, [wp.zeros(4, dtype=float), 2.0, a]),
    "fill": lambda a: a.fill_(1.0),
    "copy": lambda a: wp.copy(wp.zeros(4, dtype=float), a),
    "sum": wp.utils.array_sum,
    "to_jax": wp.to_jax,
    "slice": lambda a: wp.to_jax(a[1:]),
    "another trace": lambda a: jax.jit(lambda x: USES["written"](a) or x)(1.0),
}


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_leaked_tracers(use):
    leaked = []

    @jax.jit
    def traced(x):
        y = wp.from_jax(x)
        launched(y)
        leaked.append(y)
        return wp.to_jax(y)

    assert traced(jnp.ones(4)).tolist() == [2] * 4
    with pytest.raises(wp.LaunchError, match=f"{HERE}|has ended"):
        use(leaked[0])


TYPES = {
    "launch": lambda: wp.launch(scaled, 4, [wp.zeros(4, dtype=int), 2.0, None]),
    "double": lambda: wp.launch(scaled, 4, [None, 2.0, wp.zeros(4, dtype=wp.float64)]),
    "rank": lambda: wp.launch(scaled, 4, [wp.zeros((2, 2)), 2.0, None]),
    "vectors": lambda: wp.launch(scaled, 4, [wp.zeros(4, dtype=wp.vec3), 2.0, None]),
}


@pytest.mark.parametrize("wrong", TYPES.values(), ids=list(TYPES))
def test_wrong_types(wrong):
    with pytest.raises(wp.KernelTypeError, match=rf"(?s)'[xy]': expected array\[float32\], got .*{HERE}.*make|a\.view"):
        wrong()


@pytest.mark.parametrize("make", [wp.zeros, wp.empty, lambda n, device: wp.array(np.zeros(n), device=device)])
def test_other_devices(make):
    """No machine has a hundred GPUs."""
    with pytest.raises(wp.LaunchError, match="cuda:99"):
        make(4, device="cuda:99")
    a = wp.zeros(4)
    for use in (lambda: wp.launch(scaled, 4, [a, 2.0, a], device="cuda:99"), lambda: a.to("cuda:99")):
        with pytest.raises(wp.LaunchError, match="cuda:99"):
            use()


def test_memory_that_ended():
    """Arrays that a loop's body made, and memory that may not be written."""

    def program(a: wp.array, go: wp.array):
        def body():
            if not hasattr(body, "kept"):
                body.kept = wp.zeros(4, dtype=float)
            wp.launch(scaled, 4, [a, 2.0, body.kept])
            go.zero_()

        wp.capture_while(go, body)
        wp.copy(a, body.kept)

    with pytest.raises(wp.LaunchError, match=f"{HERE} .*(ended|body)|escape"):
        wp.functionalize(program, returns="a")(wp.ones(4, dtype=float), wp.ones(1, dtype=int))
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    a = wp.array(read_only, dtype=float, copy=False)
    with pytest.raises(wp.LaunchError, match=f"{HERE} is read-only"):
        a.fill_(1.0)
    with pytest.raises(wp.LaunchError, match="'y': the array is read-only"):
        launched(a)


@pytest.mark.parametrize("view", [False, True], ids=["own", "view"])
def test_memory_that_an_array_shares_is_not_freed_by_force(view):
    """NumPy's `resize` frees the memory; launches wrote to what was freed."""
    content = np.zeros(8, np.float32)
    shared = wp.array(content[2:6] if view else content, dtype=float, copy=False)
    with pytest.raises(ValueError, match="cannot resize"):
        content.resize(1 << 16, refcheck=False)
    launched(shared)
    del shared
    content.resize(1 << 16, refcheck=False)


def test_an_address_that_is_none():
    with pytest.raises(wp.LaunchError, match="address 0"):
        wp.array(ptr=0, dtype=float, shape=4)
    assert wp.array(ptr=0, dtype=float, shape=0).size == 0


@pytest.mark.parametrize(
    ("dim", "block_dim"), [((True, 1), None), ([1, 1.0], None), ((np.bool_(True), 1), None), ((1, 1), 1.0)]
)
def test_what_is_equal_to_an_int_is_refused_after_the_int_was_launched_often(dim, block_dim):
    @wp.kernel
    def one(x: wp.array2d[float]):
        i, j = wp.tid()
        x[i, j] += 1.0

    x = wp.zeros((1, 1), dtype=float)
    for _ in range(12):
        wp.launch(one, (1, 1), [x], block_dim=1 if block_dim else None)
    with pytest.raises(wp.LaunchError):
        wp.launch(one, dim, [x], block_dim=block_dim)
    assert x.numpy() == 12


@pytest.mark.parametrize("adjoint", [False, True])
def test_the_device_of_a_launch_and_of_its_adjoint_is_one_that_there_is(adjoint):
    x, y = (wp.full(4, k, dtype=float, requires_grad=True) for k in (2.0, 3.0))
    y.grad.fill_(1.0)
    with pytest.raises(wp.LaunchError, match="cuda:99"):
        wp.launch(scaled, 4, [x, 2.0], [y], adjoint=adjoint, device="cuda:99")
    assert (y.numpy() == 3.0).all() and (x.grad.numpy() == 0.0).all()
    wp.launch(scaled, 4, [x, 2.0], [y], adjoint=adjoint, device="cpu")
    assert (x.grad.numpy() == (2.0 if adjoint else 0.0)).all() and (y.numpy() == (3.0 if adjoint else 4.0)).all()
