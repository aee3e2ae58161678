"""Prints of kernels: a line for each active thread, formatted as in C, on every backend."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fresh_python import run as run_process

import jwarp as wp
from jwarp import _native
from jwarp.backend.interpreter.machine import formatted, run
from jwarp.ir.formats import conversions, parse

N = 300
X = np.random.default_rng(4).uniform(0, 1, N).astype(np.float32)
LONG = "a" * 3000


@wp.kernel
def show(x: wp.array[float]):
    v = wp.vec3(1.0, 2.5, x[0])
    print(v)
    print(wp.mat22(1.0, 2.0, 3.0, 4.0))
    print(x[0])
    print(wp.tid())
    print(x[0] > 1.0)
    print(wp.float64(1.5))
    print(wp.uint64(18446744073709551615))
    print(wp.int8(-3))
    print(wp.float16(1.5))
    print("100 % é")
    print(wp.vec2i(1, 2))
    print(1.0e10)
    print(wp.vec2d(wp.float64(1.0) / wp.float64(3.0), wp.float64(1e-10)))
    print(x.shape[0], "and", v, -x[0])
    print()


@wp.kernel
def some(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    for k in range(2):
        if x[i] > 0.5:
            wp.printf("%d %d %.3f\n", i, k, x[i])
    y[i] = x[i]


@wp.kernel
def wide(x: wp.array[float]):
    i = wp.tid()
    wp.printf("%90d %90d %90d %90d|%d\n", i, i, i, i, i)


@wp.kernel
def long(x: wp.array[float]):
    wp.printf(LONG)
    wp.printf("%d\n", wp.tid())


@wp.kernel
def kinds(x: wp.array[float], k: wp.array[wp.int16]):
    i = wp.tid()
    letter = wp.abs(k[i]) % wp.int16(90) + wp.int16(33)
    wp.printf("%d %u %x %c %5.1f %e %d\n", k[i], k[i], k[i], letter, x[i], x[i], x[i] > 1.0)


def printed(capfd, work):
    capfd.readouterr()
    jax.block_until_ready(work())
    jax.effects_barrier()
    return capfd.readouterr().out


def test_print_shows_what_warp_shows(capfd):
    text = printed(capfd, lambda: wp.launch(show, 1, [jnp.asarray([1.25], jnp.float32)]))
    assert text == (
        "1 2.5 1.25 \n1 2 \n3 4 \n1.25\n0\nTrue\n1.5\n18446744073709551615\n-3\n1.5\n100 % é\n1 2 \n1e+10\n"
        "0.333333 1e-10 \n1 and 1 2.5 1.25  -1.25\n\n"
    )


def launch_some(x):
    return wp.launch(some, N, [x], [N])[0]


def unused(x):
    launch_some(x)
    return x + 1


def looped(x):
    return jax.lax.scan(lambda c, _: (launch_some(c), None), x, None, length=4)


def conditional(x):
    return jax.lax.cond(x[0] < 2, unused, lambda x: x, x)


ELSEWHERE = {
    "eagerly": (launch_some, 1),
    "unused": (unused, 1),
    "jit, unused": (jax.jit(unused), 1),
    "vmap": (lambda x: jax.vmap(launch_some)(jnp.stack([x, x])), 2),
    "jit of vmap": (jax.jit(lambda x: jax.vmap(unused)(jnp.stack([x, x, x]))), 3),
    "scan": (looped, 4),
    "jit of scan": (jax.jit(looped), 4),
    "cond": (jax.jit(conditional), 1),
    "jax_kernel": (wp.jax_kernel(some), 1),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_each_active_thread_prints_a_line(capfd, where):
    function, copies = ELSEWHERE[where]
    lines = copies * [f"{i} {k} {X[i]:.3f}" for i in range(N) for k in range(2) if X[i] > 0.5]
    for _ in range(3):  # what is compiled prints again
        assert sorted(printed(capfd, lambda: function(jnp.asarray(X))).splitlines()) == sorted(lines)


def test_lines_of_threads_do_not_mix(capfd):
    _native.set_thread_limit(2, eager=True)
    try:
        text = printed(capfd, lambda: wp.launch(wide, 3000, [X]))
    finally:
        _native.set_thread_limit(0)
    wanted = [f"{i:90} {i:90} {i:90} {i:90}|{i}" for i in range(3000)]
    assert sorted(text.splitlines()) == sorted(wanted)


def test_a_long_text_is_whole_and_lines_of_a_thread_are_in_order(capfd):
    assert printed(capfd, lambda: wp.launch(long, 1, [X])) == f"{LONG}0\n"


def test_a_process_whose_output_is_a_pipe_prints_before_it_ends(tmp_path):
    path = tmp_path / "printing.py"
    path.write_text(
        "import jwarp as wp, numpy as np\n"
        "@wp.kernel\ndef k(x: wp.array[float]):\n    wp.printf('%d\\n', wp.tid())\n"
        "wp.launch(k, 5, [np.ones(3, np.float32)])\n"
    )
    assert run_process(f"import runpy; runpy.run_path({str(path)!r})") == "0\n1\n2\n3\n4\n"


FORMATS = ["%d", "%5d|", "%-6d|", "%+d", "%06d", "%u", "%x", "%#X", "%o", "%i %% %lld"]
FLOATS = ["%f", "%8.2f|", "%-9.3e|", "%G", "%g", "%+.0f", "%#g", "%E"]


@pytest.mark.parametrize("format", FORMATS + FLOATS)
def test_the_interpreter_formats_as_c_does(format):
    rng = np.random.default_rng(8)
    c = ctypes.CDLL(None)
    for _ in range(20):
        given = []
        for conversion in conversions(format):
            is_float = conversion.letter in "eEfFgG"
            given.append(
                np.float64(rng.normal() * 10.0 ** rng.integers(-8, 8)) if is_float else rng.integers(-(2**31), 2**31)
            )
        buffer = ctypes.create_string_buffer(500)
        wide = "".join(
            p.replace("%", "%%")
            if isinstance(p, str)
            else f"%{p.options}{'' if p.letter in 'eEfFgG' else 'll'}{p.letter}"
            for p in parse(format)
        )
        passed = [ctypes.c_double(g) if isinstance(g, np.float64) else ctypes.c_longlong(g) for g in given]
        c.snprintf(buffer, 500, wide.encode(), *passed)
        assert formatted(format, given) == buffer.value


def test_interpreter_and_code_print_the_same(capfd):
    rng = np.random.default_rng(3)
    x, k = rng.normal(size=40).astype(np.float32), rng.integers(-30000, 30000, 40).astype(np.int16)
    text = printed(capfd, lambda: wp.launch(kinds, 40, [x, k]))
    assert text == printed(capfd, lambda: run(kinds.ir(), (40,), [x, k])) and len(text.splitlines()) == 40


def test_a_print_outside_kernels_is_refused():
    with pytest.raises(TypeError, match="inside a kernel"):
        wp.printf("%d", 1)


def test_launches_that_print_are_exported(capfd):
    pytest.importorskip("flatbuffers")
    f = jax.jit(lambda x: wp.launch(some, 4, [x], [4])[0])
    x = jnp.array([0.0, 1.0, 0.25, 0.75])
    exported = jax.export.export(f, disabled_checks=wp.EXPORT_CHECKS)(x)
    loaded = jax.export.deserialize(exported.serialize())
    assert printed(capfd, lambda: loaded.call(x)) == printed(capfd, lambda: f(x)) != ""
