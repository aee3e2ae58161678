"""Texts in C++ that are plain arithmetic run on processors: as a compiler for C++ has them, or refused by name."""

import ctypes
import importlib.util
import shutil
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest
import text_sources

import jwarp as wp
from jwarp.frontend.native_texts.cpp_functions import FUNCTIONS
from jwarp.frontend.native_texts.reader import for_processors, why_not
from jwarp.types import float32, float64, int32, int64, uint32, uint64

N = 40
COUNT = 24
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compare with")


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return __frsqrt_rn(value);
#else
return 1.0f / sqrtf(value);
#endif
""")
def root(value: float) -> float: ...


@wp.func_native("""
#ifndef __CUDA_ARCH__
    if (mask == 0) return -1;   // no bit
    int position = 0;
    while ((mask & 1LL) == 0LL) { mask >>= 1; position++; }
    return position;
#else
    return ((int)__ffsll((long long)mask)) - 1;
#endif
""")
def lowest(mask: wp.int64) -> wp.int32: ...


@wp.func_native("return nextafterf(x, y);")
def beside(x: float, y: float) -> float: ...


@wp.func_native(
    "float sum = 0.0f; for (int i = 1; i <= n; ++i) { if (i == 3) continue; sum += x / (float)i; } return sum * sum;"
)
def harmonic(x: float, n: int) -> float: ...


@wp.func_native("""
float r = 0.0f;
for (int k = 0; k < 4; ++k) {
    if (k == n) { short t = 3; t += 1; r += t / 3; }
    else { float t = 3.0f; t += x; r += t; } // the first is gone \\
    r = 100.0f;
    double t = 0.5;
    r += t;
}
return r;
""")
def typed_anew(x: float, n: int) -> float: ...


@wp.kernel
def several(x: wp.array[float], m: wp.array[wp.int64], y: wp.array[float], z: wp.array[float], place: wp.array[int]):
    i = wp.tid()
    y[i] = root(x[i])
    z[i] = harmonic(x[i], 5)
    place[i] = lowest(m[i])


@wp.kernel
def neighbours(x: wp.array[float], y: wp.array[float], r: wp.array[float]):
    i = wp.tid()
    r[i] = beside(x[i], y[i])


@wp.kernel
def in_blocks(x: wp.array2d[float], r: wp.array2d[float]):
    row, lane = wp.tid()
    t = wp.tile_load(x[row], shape=32)
    wp.tile_store(r[row], wp.tile_map(wp.sqrt, t))
    r[row, lane] += root(x[row, lane])


def test_functions_of_newton_run_and_differentiate():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 4.0, N).astype(np.float32)
    m = rng.integers(1, 2**40, N) << rng.integers(0, 20, N)
    m[0] = 0
    got = wp.launch(
        several, N, inputs=[x, m], outputs=[np.zeros(N, np.float32), np.zeros(N, np.float32), np.zeros(N, np.int32)]
    )
    np.testing.assert_array_equal(got[0], np.float32(1.0) / np.sqrt(x))
    np.testing.assert_allclose(got[1], (x * (1 + 1 / 2 + 1 / 4 + 1 / 5)) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(got[2], [(int(v) & -int(v)).bit_length() - 1 for v in m])


def test_derivatives_are_those_of_the_text():
    x = jnp.asarray(np.random.default_rng(1).uniform(0.3, 2.0, N), jnp.float32)
    m = np.ones(N, np.int32)

    @wp.kernel
    def smooth(x: wp.array[float], m: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        y[i] = root(x[i]) + harmonic(x[i], m[i] + 4)

    wp.check_grads(lambda x: wp.launch(smooth, N, [x, m], [N])[0], (x,))


@wp.kernel
def anew(x: wp.array[float], r: wp.array[float]):
    i = wp.tid()
    r[i] = typed_anew(x[i], i % 6)


def test_variables_of_one_name_have_types_of_their_own_and_remarks_go_on_after_a_backslash():
    x, r = np.random.default_rng(3).normal(size=N).astype(np.float32), wp.zeros(N, dtype=float)
    wp.launch(anew, dim=N, inputs=[wp.array(x), r])
    is_met = np.arange(N) % 6 < 4
    np.testing.assert_allclose(r.numpy(), 2.0 + is_met + (4 - is_met) * (3.0 + x.astype(float)), rtol=1e-5)


def test_the_float_beside_another_one():
    x = np.float32([1.0, 1.0, -1.0, 0.0, -0.0, 0.0, np.inf, 3.0, np.nan, 1.0, -1e-45, 3.4028235e38, -2.5])
    y = np.float32([2.0, -2.0, 0.0, 1.0, -1.0, 0.0, 0.0, 3.0, 1.0, np.nan, 1.0, np.inf, -np.inf])
    got = wp.launch(neighbours, len(x), inputs=[x, y], outputs=[np.zeros_like(x)])[0]
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x, y)
    known = ~np.isnan(got)
    np.testing.assert_array_equal(np.asarray(got).view(np.int32)[known], wanted.view(np.int32)[known])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x) | np.isnan(y))


def test_kernels_with_tiles_call_them():
    x = np.random.default_rng(2).uniform(0.1, 2.0, (3, 32)).astype(np.float32)
    got = wp.launch_tiled(in_blocks, 3, inputs=[jnp.asarray(x)], outputs=[x.shape], block_dim=32)[0]
    np.testing.assert_allclose(got, np.sqrt(x) + 1 / np.sqrt(x), rtol=1e-6)


# -- against a compiler


def _compiled(folder, text):
    (folder / "texts.cpp").write_text(text)
    made = folder / "texts.so"
    flags = ["-O1", "-fwrapv", "-ffp-contract=off", "-w", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, "-o", made, folder / "texts.cpp"], check=True)
    return ctypes.CDLL(str(made))


def _module(folder, name, text):
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _arguments():
    """Numbers of each type, half of the integers small."""
    rng = np.random.default_rng(3)
    ranges = ((np.int32, -(2**31), 2**31), (np.uint32, 0, 2**32), (np.int64, -(2**40), 2**40))
    integers = [rng.integers(low, high, N).astype(kind) for kind, low, high in ranges]
    for x in integers:
        x[::2] = rng.integers(0 if x.dtype == np.uint32 else -5, 6, N // 2)
    return [rng.normal(size=N).astype(np.float32), rng.normal(size=N), *integers]


@needs_compiler
def test_random_texts_give_what_a_compiler_makes_of_them(tmp_path):
    module, text = text_sources.sources(COUNT)
    library, kernel = _compiled(tmp_path, text), _module(tmp_path, "random_texts", module).every
    given, kinds = _arguments(), (ctypes.c_float, ctypes.c_double, ctypes.c_int, ctypes.c_uint32, ctypes.c_int64)
    got, wanted = np.zeros((N, COUNT)), np.zeros((N, COUNT))
    wp.launch(kernel, N, inputs=given, outputs=[got])
    for k in range(COUNT):
        function = library[f"f{k}"]
        function.argtypes, function.restype = [*kinds, ctypes.c_void_p], None
        for i in range(N):
            function(*(kind(x[i].item()) for kind, x in zip(kinds, given, strict=True)), wanted[i:, k].ctypes.data)
    assert np.mean([len(set(column)) > 3 for column in wanted.T]) > 0.3
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


# What a compiler for processors calls the functions of CUDA.
_CUDA = """
#include <cmath>
#include <cstdint>
#include <cstring>
using namespace std;
static float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
#define __frsqrt_rn rsqrtf
#define __fsqrt_rn sqrtf
#define __sinf sinf
#define __cosf cosf
#define __expf expf
#define __logf logf
#define __popc __builtin_popcount
#define __popcll __builtin_popcountll
#define __ffs __builtin_ffs
#define __ffsll __builtin_ffsll
static float __fdiv_rn(float x, float y) { return x / y; }
static int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
static int __clzll(uint64_t x) { return x ? __builtin_clzll(x) : 64; }
static int __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
static float __int_as_float(int x) { float f; memcpy(&f, &x, 4); return f; }
"""
_SPELT = {float32: "float", float64: "double", int32: "int", int64: "int64_t", uint32: "uint32_t", uint64: "uint64_t"}
_ROWS = {name: row.parameters or (float64,) * row.arguments for name, row in FUNCTIONS.items()}


@needs_compiler
def test_every_function_of_the_table_gives_what_a_compiler_makes_of_it(tmp_path):
    texts, module, calls = [_CUDA], ["import jwarp as wp\n"], []
    rng = np.random.default_rng(4)
    given = {
        kind: (rng.uniform(0.1, 3.0, N) if kind.is_float else 1 + rng.integers(0, 2**30, N)).astype(kind.dtype)
        for kind in _SPELT
    }
    given[float64][: N // 2] *= -1.0
    for name, kinds in _ROWS.items():
        named = list(zip(kinds, "xyz", strict=False))
        arguments = ", ".join(n for _, n in named)
        in_c = ", ".join(f"{_SPELT[t]} {n}" for t, n in named)
        in_python = ", ".join(f"{n}: wp.{t.name}" for t, n in named)
        texts.append(f'extern "C" void of_{name}({in_c}, double* r) {{ *r = (double){name}({arguments}); }}')
        module.append(f'@wp.func_native("return (double){name}({arguments});")')
        module.append(f"def of_{name}({in_python}) -> wp.float64: ...\n")
        values = ", ".join(f"{t.name}[(i + {7 * k}) % {N}]" for k, t in enumerate(kinds))
        calls.append(f"    r[i, {len(calls)}] = of_{name}({values})")
    arrays = ", ".join(f"{t.name}: wp.array[wp.{t.name}]" for t in _SPELT)
    module.append(f"@wp.kernel\ndef every({arrays}, r: wp.array2d[wp.float64]):\n    i = wp.tid()\n" + "\n".join(calls))
    library, kernel = _compiled(tmp_path, "\n".join(texts)), _module(tmp_path, "table_texts", "\n".join(module)).every
    got, wanted = np.zeros((N, len(_ROWS))), np.zeros((N, len(_ROWS)))
    wp.launch(kernel, N, inputs=[*given.values()], outputs=[got])
    native = {float32: ctypes.c_float, float64: ctypes.c_double, int32: ctypes.c_int, int64: ctypes.c_int64}
    native |= {uint32: ctypes.c_uint32, uint64: ctypes.c_uint64}
    for at, (name, kinds) in enumerate(_ROWS.items()):
        function = library[f"of_{name}"]
        function.argtypes, function.restype = [*map(native.get, kinds), ctypes.c_void_p], None
        for i in range(N):
            values = [native[t](given[t][(i + 7 * k) % N].item()) for k, t in enumerate(kinds)]
            function(*values, wanted[i:, at].ctypes.data)
        np.testing.assert_allclose(got[:, at], wanted[:, at], rtol=1e-6, atol=1e-7, err_msg=name)


# -- refused


def _refused(text, **more):
    @wp.func_native(text, **more)
    def refused(x: float, k: int) -> float: ...

    assert for_processors(refused) is None
    return why_not(refused)


@pytest.mark.parametrize(
    "text, named",
    [
        ("return __shfl_xor_sync(0xffffffffu, x, 1);", "`__shfl_xor_sync`"),
        # What processors are given is for blocks of one thread.
        ("#if defined(__CUDA_ARCH__)\nreturn __shfl_sync(1u, x, 0);\n#else\nreturn x;\n#endif", "`__shfl_sync`"),
        ("#ifdef __CUDA_ARCH__\nasm volatile(\"bar.sync 0;\");\n#endif\nreturn x;", "`volatile`"),
        ("#if __CUDA_ARCH__ >= 800\nreturn x;\n#else\nreturn 2.0f * x;\n#endif", "`#if __CUDA_ARCH__ >= 800`"),
        ("float y[3]; return x;", "`[`"),
        ("return x.y;", "`x.`"),
        ("return wp::dot(x, x);", "`wp::`"),
        ("return missing;", "`missing`"),
        ("return *(&x);", "`*`"),
        ("k = x = 1.0f; return x;", "`=`"),
        ("return x % 2.0f;", "integers on float32"),
        ("do { k++; } while (k < 3); return x;", "`do`"),
        ("return 017;", "octal"),
        ("const wp::vec3 v; return x;", "`wp`"),
        ("const auto v = wp::vec3(x); return x;", "`wp::`"),
        ("x += 1.0f;", "`return`"),
        ("return x", "an end before its time"),
        ("return sqrtf(x, x);", "`sqrtf` of 2 arguments"),
        ("return reinterpret_cast<int64_t&>(x);", "two sizes"),
        ("break; return x;", "outside of loops"),
        ("static int n = 0; return x;", "`static`"),
        ("goto end; end: return x;", "`goto`"),
        ("}", "`}`"),
        ("return 99999999999999999999;", "too large"),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_named(text, named):
    assert named in _refused(text)


@pytest.mark.parametrize(
    "texts, named",
    [
        ({"replay_snippet": "return x;"}, "a replay that is written for GPUs"),
        ({"adj_snippet": "adj_x += wp::dot(adj_ret, x);"}, "`wp::`"),
        ({"adj_snippet": "return;"}, "a derivative with a `return`"),
        ({"adj_snippet": "adj_k += 1;"}, "`adj_k`"),
    ],
)
def test_what_is_not_plain_in_other_texts_is_named(texts, named):
    assert named in _refused("return x;", **texts)


def test_parameters_are_numbers():
    @wp.func_native("return v[0];")
    def of_vectors(v: wp.vec3) -> float: ...

    @wp.func_native("return x * x;")
    def of_halves(x: wp.float16) -> wp.float16: ...

    @wp.func_native("x = 1.0f;")
    def of_vector_places(x: wp.ref[wp.vec3]): ...

    @wp.func_native("x[0] = 1.0f;")
    def of_tables(x: wp.array2d[float]): ...

    for function, name in ((of_vectors, "v"), (of_halves, "x"), (of_vector_places, "x"), (of_tables, "x")):
        assert f"`{name}`, which is neither a number nor an array of numbers in one dimension" in why_not(function)


# -- references and arrays


@wp.func_native(
    "if (n < 0) { x = -1.0f; return y; } count += n; x = x * y; return y * x;",
    # Not the derivative, so that it is seen who makes it.
    adj_snippet="adj_y += 10.0f * adj_ret + adj_x; adj_x = 3.0f * adj_x;",
)
def changing(x: wp.ref[float], y: float, count: wp.ref[int], n: int) -> float: ...


@wp.kernel
def places(x: wp.array[float], y: wp.array[float], n: wp.array[int], out: wp.array2d[float], count: wp.array[int]):
    i = wp.tid()
    own = x[i]
    of_all = int(7)
    row = out[i]
    row[1] = y[i]
    row[0] = changing(own, y[i], of_all, n[i])
    row[2] = changing(row[1], own, count[i], n[i]) + own
    row[3] = float(of_all)


def test_references_are_changed_and_have_the_written_derivative():
    rng = np.random.default_rng(5)
    x, y = (wp.array(rng.normal(size=6).astype(np.float32), requires_grad=True) for _ in range(2))
    n = np.array([3, -1, 4, 0, -2, 9], np.int32)
    out = wp.zeros((6, 4), dtype=float, requires_grad=True)
    count = wp.array(np.arange(6), dtype=int)
    with wp.Tape() as tape:
        wp.launch(places, 6, [x, y, wp.array(n)], [out, count], device="cpu")
    a, b, is_early = x.numpy(), y.numpy(), n < 0
    own = np.where(is_early, -1, a * b)
    second = np.where(is_early, -1, b * own)
    expected = [
        np.where(is_early, b, b * own),
        second,
        np.where(is_early, own, own * second) + own,
        7 + np.where(is_early, 0, n),
    ]
    np.testing.assert_allclose(out.numpy(), np.stack(expected, 1), rtol=1e-6)
    np.testing.assert_array_equal(count.numpy(), np.arange(6) + np.where(is_early, 0, n))
    seed = rng.normal(size=(6, 4)).astype(np.float32)
    tape.backward(grads={out: wp.array(seed)})
    # Back through the second call, then through the first one, by the text.
    own_bar = seed[:, 2] + 10 * seed[:, 2] + seed[:, 1]
    first_x, first_y = 3 * own_bar, 10 * seed[:, 0] + own_bar
    np.testing.assert_allclose(x.grad.numpy(), first_x, rtol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), first_y + 3 * seed[:, 1], rtol=1e-5)


@wp.func_native("""
    float sum = 0.0f;
    for (int k = 0; k < x.shape[0]; ++k) sum += x[k] * x.data[k];
    out[i] += sqrtf(sum) * x[i];
    out[2 * i + 1] = x[i + 1];   // the last ones are outside
""")
def of_arrays(x: wp.array[float], out: wp.array[float], i: int): ...


@wp.kernel
def arrays(x: wp.array[float], out: wp.array[float]):
    of_arrays(x, out, wp.tid())


@wp.kernel
def arrays_at(x: wp.array[float], at: wp.array[int], out: wp.array[float]):
    of_arrays(x, out, at[0])


def test_arrays_are_read_and_written_inside_of_their_extents():
    x = np.random.default_rng(6).normal(size=4).astype(np.float32)
    (out,) = wp.launch(arrays, 1, [x], [np.zeros(4, np.float32)])
    np.testing.assert_allclose(out, [np.sqrt((x * x).sum()) * x[0], x[1], 0, 0], rtol=1e-6)
    (last,) = wp.launch(arrays_at, 1, [x[::-1], np.array([3], np.int32)], [np.ones(9, np.float32)])
    expected = [1, 1, 1, 1 + np.sqrt((x * x).sum()) * x[0], 1, 1, 1, 0, 1]
    np.testing.assert_allclose(last, expected, rtol=1e-6)
    # A negative index counts from the end, as in kernels.
    (first,) = wp.launch(arrays_at, 1, [x, np.array([-2], np.int32)], [np.ones(9, np.float32)])
    root = np.sqrt((x * x).sum())
    np.testing.assert_allclose(first, [1, 1, 1, 1, 1, 1, x[3], 1 + root * x[2], 1], rtol=1e-6)


def test_stores_of_texts_to_arrays_have_derivatives():
    @wp.func_native("int last = x.shape[0] - 1; out[i] = x[i] * x[last - i] + cosf(x[i]);")
    def products(x: wp.array[float], out: wp.array[float], i: int): ...

    @wp.kernel
    def k(x: wp.array[float], out: wp.array[float]):
        products(x, out, wp.tid())

    x = jnp.asarray(np.random.default_rng(7).normal(size=5), jnp.float32)
    np.testing.assert_allclose(wp.launch(k, 5, [x], [5])[0], x * x[::-1] + jnp.cos(x), rtol=1e-6)
    wp.check_grads(lambda x: wp.launch(k, 5, [x], [5])[0], (x,))


def test_arrays_as_wholes_and_their_derivatives_are_refused():
    def of(text, adj_snippet=None):
        @wp.func_native(text, adj_snippet=adj_snippet)
        def f(a: wp.array[float], i: int): ...

        assert for_processors(f) is None
        return why_not(f)

    assert "`a`, an array as a whole" in of("a = a;")
    assert "`a`, an array as a whole" in of("float* p = a;") or "`*`" in of("float* p = a;")
    assert "an index of `a` of float32" in of("a[1.0f] = 1.0f;")
    assert "a change of `a`" in of("a.shape[0] = 1;")
    assert "with the array `a`" in of("a[i] = 1.0f;", "adj_a[i] = 0.0f;")

    @wp.kernel
    def k(a: wp.array2d[float]):
        of_tables(a)

    @wp.func_native("a[0] = 1.0f;")
    def of_tables(a: wp.array2d[float]): ...

    with pytest.raises(wp.CompileError, match="an array of several dimensions"):
        wp.launch(k, 1, outputs=[(2, 2)])
