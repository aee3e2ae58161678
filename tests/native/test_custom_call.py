"""The native module behind XLA: registration, compiling, execution, errors."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from launch_format import IN_OUT, INPUT, ZEROS, make_launch
from native_kernels import (
    ARRAY,
    F32,
    S32,
    SCALAR,
    SCALE_PLAN,
    UNKNOWN,
    child_environment,
    make_plan,
    new_fingerprint,
    python_entry,
    register,
    scale_entry,
    scale_launch,
)

from jwarp import _native
from jwarp.compiler.cpu import compile_program

TARGET = "jwarp_launch_v1"


@pytest.fixture(scope="module", autouse=True)
def registered_target() -> None:
    jax.ffi.register_ffi_target(TARGET, _native.handlers(), platform="cpu")


@pytest.fixture(autouse=True)
def default_state() -> Iterator[None]:
    _native.set_compiler(None)
    yield
    _native.set_thread_limit(0)
    _native.set_compiler(compile_program)


@pytest.fixture(scope="module")
def scale() -> str:
    fingerprint = new_fingerprint()
    _native.register_kernel(fingerprint, SCALE_PLAN, scale_entry(), 0)
    return fingerprint


def call(fingerprint: str, launch: np.ndarray, results: list, *operands, program: bytes = b"p\0", **options):
    """One custom call; `results` are shapes with dtypes."""
    function = jax.ffi.ffi_call(TARGET, results, **options)
    return function(*operands, fingerprint=fingerprint, program=program, launch=launch)


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
@pytest.mark.parametrize("n", [1, 63, 1000, 300_000])
def test_result_is_the_same_for_any_number_of_threads(scale: str, n: int, threads: int) -> None:
    """Subnormal values included, which XLA would flush to zero."""
    x = np.random.default_rng(n).uniform(-1, 1, n).astype(np.float32) * np.float32(1e-38)
    _native.set_thread_limit(threads, eager=threads > 0)
    (y,) = jax.jit(lambda x: call(scale, scale_launch(n), [floats(n)], x, jnp.float32(0.25)))(x)
    np.testing.assert_array_equal(np.asarray(y), x * np.float32(0.25))


def test_pool_shares_work_inside_a_larger_program(scale: str) -> None:
    n = 200_000
    _native.set_thread_limit(0, eager=True)

    @jax.jit
    def run(x):
        for k in range(1, 9):
            (y,) = call(scale, scale_launch(n), [floats(n)], jnp.sin(x), jnp.float32(k))
            x = jnp.cos(y)
        return x

    def reference(x):
        for k in range(1, 9):
            x = jnp.cos(jnp.sin(x) * k)
        return x

    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    expected = np.asarray(jax.jit(reference)(x))
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(np.asarray(run(x)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_allclose(result, expected, atol=1e-5)


def test_batch_axes(scale: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    k = np.arange(2, dtype=np.float32)
    launch = scale_launch(50, x_mask=0b01, k_mask=0b10, batch=(3, 2))
    (y,) = jax.jit(lambda x, k: call(scale, launch, [floats(3, 2, 50)], x, k))(x, k)
    np.testing.assert_array_equal(np.asarray(y), x[:, None, :] * k[None, :, None])


@pytest.mark.parametrize("aliased", [True, False])
def test_in_out_starts_from_its_operand(aliased: bool) -> None:
    def body(frame):
        frame.array(0, (100,))[frame.columns] += 1

    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)]), body)
    launch = make_launch([60], [(0, 0, IN_OUT, 0)])
    options = {"input_output_aliases": {0: 0}} if aliased else {}
    x = jnp.arange(100, dtype=jnp.float32)
    (y,) = jax.jit(lambda x: call(fingerprint, launch, [floats(100)], x, **options))(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(100) + (np.arange(100) < 60))
    np.testing.assert_array_equal(np.asarray(x), np.arange(100))


def test_unknown_kernel_is_compiled_once_from_the_program() -> None:
    plan = make_plan(1, [(SCALAR, 0, S32, UNKNOWN), (ARRAY, 1, F32, UNKNOWN)], [[({4: 1}, 0)]])
    fingerprint = new_fingerprint()
    calls = []

    def compile_kernel(name: str, program: bytes, version: str) -> None:
        calls.append((name, program, version))
        value = {"fast": 1.0, "checked": 2.0}[version]

        def body(frame):
            frame.array(1, (4,))[frame.columns] = value

        address = python_entry(body)
        _native.register_kernel(name, plan, *((address, 0) if version == "fast" else (0, address)))

    _native.set_compiler(compile_kernel)
    launch = make_launch([4], [(0, -1, INPUT, 0), (-1, 0, ZEROS, 0)])
    program = bytes(range(256))

    @jax.jit
    def run(k):
        results = [call(fingerprint, launch, [floats(4)], k + i, program=program)[0] for i in range(3)]
        return sum(results)

    np.testing.assert_array_equal(np.asarray(run(5)), 3)
    assert calls == [(fingerprint, program, "fast")]
    np.testing.assert_array_equal(np.asarray(run(-1)), 4)
    assert calls[1:] == [(fingerprint, program, "checked")]


def test_errors_reach_the_user(scale: str) -> None:
    x, k = jnp.zeros(4), jnp.float32(1)

    def expect(message: str, fingerprint: str, launch: np.ndarray, *results) -> None:
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            jax.block_until_ready(jax.jit(lambda: call(fingerprint, launch, [*results], x, k))())

    good = scale_launch(4)
    expect("INVALID_ARGUMENT: jwarp: parameter 2 .* rank 2", scale, good, floats(4, 1))
    expect(
        "INVALID_ARGUMENT: jwarp: the launch needs 2 operands and 1 results",
        scale,
        good,
        floats(4),
        floats(4),
    )
    expect("INVALID_ARGUMENT: jwarp: the launch is damaged", scale, good[:-1], floats(4))
    expect(
        "INVALID_ARGUMENT: jwarp: .*'launch' is not an array of int64",
        scale,
        good.astype(np.int32),
        floats(4),
    )
    expect("NOT_FOUND: jwarp: kernel .* is not compiled", new_fingerprint(), good, floats(4))

    def fail(*_: object) -> None:
        raise SyntaxError("bad program")

    _native.set_compiler(fail)
    expect("INTERNAL: jwarp: SyntaxError: bad program", new_fingerprint(), good, floats(4))
    with pytest.raises(jax.errors.JaxRuntimeError, match="lacks the attribute 'launch'"):
        jax.jit(lambda: jax.ffi.ffi_call(TARGET, floats(4))(x, k, fingerprint=scale, program=b""))()
    (y,) = jax.jit(lambda x: call(scale, good, [floats(4)], x, k))(x + 1)
    np.testing.assert_array_equal(np.asarray(y), 1)


def test_compiling_from_several_threads() -> None:
    """Callbacks on XLA's threads, while other threads hold the GIL, do not deadlock."""

    def compile_kernel(name: str, program: bytes, version: str) -> None:
        sum(range(50_000))
        _native.register_kernel(name, SCALE_PLAN, scale_entry(), 0)

    _native.set_compiler(compile_kernel)
    fingerprints = [new_fingerprint() for _ in range(4)]
    sums: list[float] = []

    def run(fingerprint: str) -> None:
        x = jnp.ones(8)
        (y,) = jax.jit(lambda x: call(fingerprint, scale_launch(8), [floats(8)], x, jnp.float32(3)))(x)
        sums.append(float(y.sum()))

    threads = [threading.Thread(target=run, args=(fingerprint,)) for fingerprint in fingerprints * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sums == [24.0] * 8


def test_scan_and_released_executables(scale: str) -> None:
    def step(x, _):
        (y,) = call(scale, scale_launch(16), [floats(16)], x, jnp.float32(1.5))
        return y, None

    run = jax.jit(lambda x: jax.lax.scan(step, x, length=10)[0])
    np.testing.assert_allclose(np.asarray(run(jnp.ones(16))), 1.5**10, rtol=1e-6)
    del run
    jax.clear_caches()
    gc.collect()


@pytest.mark.parametrize("backend_first", [True, False])
def test_registration_before_and_after_the_backend_starts(backend_first: bool) -> None:
    start = "jax.devices()"
    register_target = "jax.ffi.register_ffi_target('jwarp_launch_v1', _native.handlers(), platform='cpu')"
    steps = [start, register_target] if backend_first else [register_target, start]
    program = "\n".join([
        "import jax, numpy as np",
        "from jwarp import _native",
        "from native_kernels import *",
        *steps,
        "_native.register_kernel('a', SCALE_PLAN, scale_entry(), 0)",
        "f = jax.ffi.ffi_call('jwarp_launch_v1', jax.ShapeDtypeStruct((8,), np.float32))",
        "g = jax.jit(lambda x: f(x, np.float32(2), fingerprint='a', program=b'', launch=scale_launch(8)))",
        "assert (g(np.ones(8, np.float32)) == 2).all()",
    ])  # fmt: skip
    environment = child_environment(JAX_PLATFORMS="cpu")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_headers_are_no_newer_than_the_oldest_runtime() -> None:
    assert _native.ffi_api_version() == (0, 3)
