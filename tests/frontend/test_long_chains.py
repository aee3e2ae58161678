"""Functions that call each other in long chains, and long chains of `elif` and of early returns."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_compiling import PLAIN, compiles
from run_three_ways import run_in_python, run_kernel
from versions import read_version

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cuda import CudaKernel
from jwarp.frontend import context
from jwarp.frontend.lowering import control_flow

LONG = 1_000


def load(lines, tmp_path):
    file = tmp_path / "chains.py"
    file.write_text("\n".join(["import jwarp as wp", *lines, ""]))
    spec = importlib.util.spec_from_file_location("chains", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions(count, deepest="    return x * x"):
    yield from ("@wp.func", "def f0(x: float) -> float:", deepest)
    for k in range(1, count):
        yield from ("@wp.func", f"def f{k}(x: float) -> float:", f"    return f{k - 1}(x) * 0.999 + {k % 7}.0 * 0.001")
    yield from ("@wp.kernel", "def k(x: wp.array[float], y: wp.array[float]):", "    i = wp.tid()")
    yield f"    y[i] = f{count - 1}(x[i])"


def test_a_thousand_functions_in_a_row(tmp_path):
    kernel = load(functions(LONG), tmp_path).k
    x = np.random.default_rng(0).uniform(-2.0, 2.0, 37).astype(np.float32)
    wanted = x.astype(float) ** 2
    for k in range(1, LONG):
        wanted = wanted * 0.999 + (k % 7) * 0.001
    _, found = run(kernel.ir(), (len(x),), (x, np.zeros_like(x)))
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    launch = wp.jax_kernel(kernel)
    np.testing.assert_allclose(launch(x)[0], wanted, rtol=2e-5)
    slope = 2.0 * x.astype(float) * 0.999 ** (LONG - 1)
    gradient = jax.grad(lambda x: launch(x)[0].sum())(x)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4)
    tangent = jax.jvp(lambda x: launch(x)[0], (x,), (jnp.ones_like(x),))[1]
    np.testing.assert_allclose(tangent, slope, rtol=1e-4)
    compiles(kernel.ir(), "sm_80")


def test_what_is_wrong_at_the_end_of_a_chain_is_named(tmp_path):
    with pytest.raises(wp.CompileError, match=r"`nothing`.*\n.*chains.py:4"):
        load(functions(300, "    return nothing(x)"), tmp_path).k.ir()


def test_a_chain_that_ends_where_it_began_is_refused(tmp_path):
    with pytest.raises(wp.CompileError, match="`f99` calls itself"):
        load(functions(100, "    return f99(x)"), tmp_path).k.ir()


def test_a_chain_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("jwarp.frontend.lowering.lower.MAX_CALLS", 200)
    with pytest.raises(wp.CompileError, match="nested more than 200 deep"):
        load(functions(300), tmp_path).k.ir()


def branches(count):
    """An `elif` of so many branches in a loop, which assign, jump, and have chains of their own."""
    yield from (
        "@wp.func",
        "def chosen(j: int, x: float) -> float:",
        "    late = x",
    )
    for k in range(count):
        yield from (f"    if j == {2 * k}:", f"        return x * {k % 9}.0 + late", f"    late = late + 0.{k % 10}")
    yield "    return late"
    yield from (
        "@wp.kernel",
        "def k(js: wp.array2d[int], xs: wp.array[float], out: wp.array2d[float]):",
        "    i = wp.tid()",
        "    total = float(0.0)",
        "    x = xs[i]",
        "    for n in range(js.shape[1]):",
        "        j = js[i, n]",
    )
    for k in range(count):
        yield f"        {'elif' if k else 'if'} j == {k}:"
        match k % 8:
            case 1:
                yield from (f"            v = x * {k % 5}.0", "            total += v")
            case 2:
                yield from ("            v = chosen(j, x)", "            continue" if k % 3 else "            break")
            case 3:
                yield from ("            v = x", "            if x > 0.0:", "                return")
            case 4:
                yield from ("            if x > 0.5:", "                v = x", "            elif x > 0.25:")
                yield from ("                v = total", "            else:", f"                v = {k % 4}.5")
            case _:
                yield from (f"            v = x * x + {k % 6}.0", f"            x = x * 0.{k % 10}")
    yield from (
        "        else:",
        "            v = chosen(j, x)",
        "        total = total * 0.5 + v",
        "        out[i, n] = total",
        "    out[i, 0] += total",
    )


def arguments(count, threads=41, length=5):
    rng = np.random.default_rng(count)
    js = rng.integers(0, 2 * count + 20, (threads, length)).astype(np.int32)
    return js, rng.uniform(-1.0, 1.0, threads).astype(np.float32), np.zeros((threads, length), np.float32)


@pytest.mark.parametrize("portion", [1, 2, 5, 200])
@pytest.mark.parametrize("calls", [1, 16])
def test_branches_in_portions_of_any_size(portion, calls, tmp_path, monkeypatch):
    monkeypatch.setattr(control_flow, "MOST_NESTED", portion)
    monkeypatch.setattr(context, "MOST_NESTED_CALLS", calls)
    kernel, args = load(branches(33), tmp_path).k, arguments(33)
    found = run_kernel(kernel, len(args[0]), *args)
    np.testing.assert_allclose(found[-1], run_in_python(kernel, len(args[0]), *args)[-1], rtol=1e-5)


def test_a_thousand_branches_and_returns(tmp_path):
    kernel, args = load(branches(LONG), tmp_path).k, arguments(LONG)
    found = run_kernel(kernel, len(args[0]), *args)[-1]
    np.testing.assert_allclose(found, run_in_python(kernel, len(args[0]), *args)[-1], rtol=1e-5)


def chain(count):
    yield "@wp.kernel"
    yield from (
        "def k(js: wp.array[int], x: wp.array[float], y: wp.array[float]):",
        "    i = wp.tid()",
        "    j = js[i]",
    )
    for k in range(count):
        yield from (f"    {'elif' if k else 'if'} j == {k}:", f"        v = x[i] * x[i] * {k}.0 + x[i]")
    yield from ("    else:", "        v = -x[i]", "    y[i] = v")


def test_derivatives_of_hundreds_of_branches(tmp_path):
    kernel, rng = load(chain(250), tmp_path).k, np.random.default_rng(1)
    js, x = rng.integers(0, 270, 200).astype(np.int32), rng.uniform(0.5, 2.0, 200).astype(np.float32)
    launch = wp.jax_kernel(kernel)
    slope = np.where(js < 250, 2.0 * js * x + 1.0, -1.0)
    np.testing.assert_allclose(jax.grad(lambda x: launch(js, x)[0].sum())(x), slope, rtol=1e-5)
    tangent = jax.jvp(lambda x: launch(js, x)[0], (x,), (jnp.ones_like(x),))[1]
    np.testing.assert_allclose(tangent, slope, rtol=1e-5)


def test_chains_of_branches_compile_for_gpus(tmp_path):
    assert CudaKernel(load(chain(LONG), tmp_path).k.ir(), PLAIN).unit(read_version("checked"), 256).text
    compiles(load(chain(150), tmp_path).k.ir(), "sm_80")  # which takes NVRTC a minute for a thousand


def test_conditions_that_change_variables(tmp_path, monkeypatch):
    monkeypatch.setattr(control_flow, "MOST_NESTED", 2)
    lines = ["@wp.func", "def more(n: wp.ref[int]) -> int:", "    n += 2", "    return n"]
    lines += [
        "@wp.kernel",
        "def k(x: wp.array[int], y: wp.array[int]):",
        "    i = wp.tid()",
        "    n = x[i]",
        "    m = 0",
    ]
    for k in range(7):
        lines += [f"    {'elif' if k else 'if'} more(n) > {20 - 2 * k}:", f"        m = n * {k + 1}"]
    kernel = load([*lines, "    y[i] = m * 100 + n"], tmp_path).k
    x = np.arange(-4, 24, dtype=np.int32)

    def wanted(n):
        for k in range(7):
            n += 2
            if n > 20 - 2 * k:
                return n * (k + 1) * 100 + n
        return n

    assert run_kernel(kernel, len(x), x, np.zeros_like(x))[-1].tolist() == [wanted(int(n)) for n in x]
