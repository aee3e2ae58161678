"""Functions of native code: barriers by their text, what runs instead of others on processors, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.frontend.syntax.snippets import changed_arrays
from jwarp.ir.serialize import from_bytes, to_bytes

BLOCK = 32


@wp.func_native(snippet="WP_TILE_SYNC();")
def sync():
    pass


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__syncthreads();
#endif
""")
def sync_as_in_newton(): ...


@wp.func
def softplus_in_python(x: float, k: float) -> float:
    return wp.log(1.0 + wp.exp(k * x)) / k


@wp.func_native("return logf(1.0f + expf(k * x)) / k;", adj_snippet="adj_x += 1.0f;", cpu=softplus_in_python)
def softplus(x: float, k: float) -> float: ...


@wp.func_native("return __shfl_xor_sync(0xffffffffu, x, 1);")
def on_gpus_only(x: float) -> float: ...


@wp.kernel
def turned(x: wp.array2d[float], work: wp.array2d[float], r: wp.array2d[float]):
    row, lane = wp.tid()
    work[row, lane] = x[row, lane]
    sync()
    r[row, lane] = work[row, wp.block_dim() - 1 - lane]
    sync_as_in_newton()
    work[row, lane] = 0.0


@wp.kernel
def smooth(x: wp.array[float], r: wp.array[float]):
    i = wp.tid()
    r[i] = softplus(x[i], k=2.0)


@wp.kernel
def refused(x: wp.array[float]):
    x[0] = on_gpus_only(x[0])


def test_a_text_that_only_waits_is_the_barrier_of_a_block():
    x = np.random.default_rng(0).normal(size=(3, BLOCK)).astype(np.float32)
    got = wp.launch(turned, (3, BLOCK), [jnp.asarray(x), jnp.zeros_like(x), jnp.zeros_like(x)], block_dim=BLOCK)
    np.testing.assert_array_equal(got["r"], x[:, ::-1])
    assert not got["work"].any()


def test_what_stands_for_native_code_runs_and_has_the_derivative():
    x = jnp.asarray(np.random.default_rng(1).normal(size=20), jnp.float32)
    fn = wp.jax_kernel(smooth)
    np.testing.assert_allclose(fn(x)[0], np.log1p(np.exp(2 * x)) / 2, rtol=1e-5)
    wp.check_grads(fn, (x,))
    assert softplus(1.0, 2.0) == pytest.approx(np.log1p(np.exp(2.0)) / 2)


def test_native_code_alone_is_refused_on_processors_where_it_is_called():
    assert 'native %0 "on_gpus_only" "return __shfl_xor_sync(0xffffffffu, x, 1);"' in wp.inspect(refused, "ir")
    assert "return __shfl_xor_sync(0xffffffffu, x, 1);" in wp.inspect(refused, "cuda")
    for use in (lambda: wp.inspect(refused, "llvm"), lambda: wp.launch(refused, 1, [], [jnp.ones(1)])):
        with pytest.raises(wp.CompileError, match="`on_gpus_only` is native code, which runs on GPUs alone") as caught:
            use()
        assert "its text has `__shfl_xor_sync`" in str(caught.value)
        assert "cpu=f" in caught.value.diagnostic.hint and "x[0] = on_gpus_only(x[0])" in str(caught.value)
    with pytest.raises(wp.KernelTypeError, match="only be called inside a kernel"):
        on_gpus_only(1.0)


@wp.func
def scaled_in_python(a: float, x: wp.array[float], y: wp.array[float], i: int):
    y[i] = a * x[i] * x[i]


@wp.func_native("y[i] = a * x[i] * x[i];", adj_snippet="adj_a += adj_y[i] * x[i] * x[i];", cpu=scaled_in_python)
def scaled(a: float, x: wp.array[float], y: wp.array[float], i: int): ...


@wp.kernel
def scaling(a: float, x: wp.array[float], y: wp.array[float]):
    scaled(a, x, y, wp.tid())


def test_arrays_that_a_text_only_reads_are_inputs():
    x = jnp.asarray(np.random.default_rng(2).normal(size=20), jnp.float32)
    np.testing.assert_allclose(wp.launch(scaling, 20, [2.0, x], [20])[0], 2 * x * x, rtol=1e-6)
    wp.check_grads(lambda a, x: wp.launch(scaling, 20, [a, x], [20])[0], (jnp.float32(2.0), x), order=1, modes="rev")
    with pytest.raises(wp.LaunchError, match="`?y`?"):
        wp.launch(scaling, 20, [2.0, x, x], [])


def test_native_code_survives_serialisation():
    for kernel in (refused, scaling, smooth):
        ir = kernel.ir()
        assert to_bytes(from_bytes(to_bytes(ir))) == to_bytes(ir)


@wp.func_native("return x + 1.0f;", adj_snippet="adj_x += adj_ret;")
def with_adjoint(x: float) -> float: ...


@wp.kernel
def adding(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = with_adjoint(x[i])


@wp.kernel
def without_adjoint(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = on_gpus_only(x[i])


@wp.func_native("y[i] = x[i]; atomicAdd(&n[0], 1);", adj_snippet="adj_x[i] += adj_y[i];")
def counted(x: wp.array[float], y: wp.array[float], n: wp.array[int], i: int): ...


@wp.func_native("y[i] = x[i];", adj_snippet="adj_x[i] += adj_y[i];")
def copied(x: wp.array[float], y: wp.array[float], i: int): ...


@wp.kernel
def counting(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    counted(x, y, n, i)
    if n[0] > 3:
        y[i] = x[i] * x[i]


@wp.kernel
def in_a_loop(x: wp.array[float], y: wp.array[float], n: wp.array[int]):
    i = wp.tid()
    for k in range(y.shape[0]):
        copied(x, y, i)
        y[i] *= 2.0


@pytest.mark.parametrize(
    "kernel, reason",
    [
        (without_adjoint, "has no adjoint"),
        (counting, "depends on the order of the threads"),
        (in_a_loop, "to which other code writes as well"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_derivatives_that_nobody_knows_are_refused(kernel, reason):
    n = jnp.zeros(1, jnp.int32)

    def loss(x):
        if kernel is without_adjoint:
            return wp.launch(kernel, 4, [x], [4])[0].sum()
        if kernel is counting:
            return wp.launch(kernel, 4, [x], [n, 4])[1].sum()
        return wp.launch(kernel, 4, [x], [4, n])[0].sum()

    with pytest.raises(wp.NotDifferentiableError, match=reason) as caught:
        jax.make_jaxpr(jax.grad(loss))(jnp.ones(4))
        jax.jit(jax.grad(loss)).lower(jnp.ones(4))
    assert "native code" in str(caught.value) and caught.value.diagnostic.hint


def test_forward_mode_is_refused():
    with pytest.raises(wp.NotDifferentiableError, match="for reverse mode alone"):
        derive(program_of(adding, config.settings), Variant("tangent", (1,), (0,), fresh=(1,)))
    derive(program_of(adding, config.settings), Variant("adjoint", (0,), (1,), fresh=(1,)))


@wp.func_native("y[0] = x[0];")
def of_arrays(x: wp.array[float], y: wp.array[float]): ...


@wp.func_native("x = 1.0f;", cpu=softplus_in_python)
def of_references(x: wp.ref[float], k: float): ...


@wp.func_native("return 1;", cpu=softplus_in_python)
def of_integers(x: float, k: float) -> int: ...


@wp.func_native("return 1;")
def of_pairs(x: float) -> tuple[int, int]: ...


@wp.struct
class Pair:
    x: float
    y: float


@wp.func_native("return p.x;")
def of_structs(p: Pair) -> float: ...


@wp.kernel
def a_row(x: wp.array2d[float], y: wp.array[float]):
    of_arrays(x[0], y)


@wp.kernel
def an_own_array(x: wp.array[float]):
    own = wp.zeros(shape=3, dtype=float)
    of_arrays(x, own)


@wp.kernel
def references(x: wp.array[float]):
    y = x[0]
    of_references(y, 1.0)
    x[0] = y


@wp.func_native("x = y[0];")
def beside_an_array(x: wp.ref[float], y: wp.array[float]): ...


@wp.kernel
def an_element_beside_its_array(x: wp.array[float]):
    beside_an_array(x[1], x)


@wp.kernel
def other_results(x: wp.array[float]):
    x[0] = float(of_integers(x[0], 2.0))


@wp.kernel
def pairs(x: wp.array[float]):
    x[0] = float(of_pairs(x[0])[0])


@wp.kernel
def structs(x: wp.array[float]):
    x[0] = of_structs(Pair(x[0], x[1]))


@wp.kernel
def in_blocks(x: wp.array[float]):
    x[wp.tid()] = on_gpus_only(x[0])
    sync()


@wp.kernel
def wrong_type(x: wp.array[int]):
    x[0] = int(on_gpus_only(x[0]))


@pytest.mark.parametrize(
    "kernel, message",
    [
        (a_row, "`x` of `of_arrays` is a part of an array"),
        (an_own_array, "`y` of `of_arrays` is an array of the thread's own"),
        (an_element_beside_its_array, "besides a reference to an element of it, and it is native code"),
        (references, "both references and `cpu="),
        (other_results, "`of_integers` gives int32, and its `cpu`, `softplus_in_python`, float32"),
        (pairs, "gives a number, a vector or its like, not"),
        (structs, "`p` of `of_structs` is .*, which native code does not take"),
        (in_blocks, "kernels with tiles or barriers cannot call"),
        (wrong_type, "`x` of `on_gpus_only` must be float32"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_what_native_code_does_not_take_is_refused(kernel, message):
    with pytest.raises((wp.CompileError, wp.KernelTypeError), match=message) as caught:
        wp.inspect(kernel, "ir")
    assert caught.value.diagnostic.span.line


@pytest.mark.parametrize(
    "text, changed",
    [
        ("out[tid] = a * x[tid] + y[tid];", "out"),
        ("const int k = atomicAdd(x, 1); y[tid] = k;", "x y"),
        ("const float* p = &x.data[3 * i]; y.data[0] += p[0];", "y"),
        ("float* p = &x.data[3 * i]; const float* q = x.data;", "x"),
        ("float& r = x[i]; const float& s = y[i]; r = s;", "x"),
        ("x[i].c[0] = 1; int n = y.shape[0];", "x"),
        ("const float v = atomicAdd((float*)&x.data[i], 1);", "x"),
        ("atomicMax(reinterpret_cast<int*>(wp::address(x, i)), y[i]);", "x"),
        ("float v = __ldg(&x.data[3]) + wp::load(y);", ""),
        ("for (int i = 0; i < y[0]; ++i) s += x[i];", ""),
        ("if (a) ++x[i]; --y[2 * (i + 1)];", "x y"),
        ('const int i = x[y[2]]; // z = x;\nprintf("out = y");', ""),
        ("s.x = 1; t->y = 2; a::out = 3;", ""),
        ('asm("red.add.s32 [%0], 1;" :: "l"(&x[i]));', "x"),
        ("y[i] <<= 2; if (x[i] <= 3 && x[i] == y[i]) return;", "y"),
        ("((float&)x[i])++; (int&)(y[i]) = 2; float v = (float)(z[i] * (out[i] & 3));", "x y"),
        ("const_cast<float&>(x[i]) = 1.0f; y[i] = 2.0f;", "x y"),
        ("call(out); std::swap(x[0], z[1]);", "out"),  # the compiler refuses the others
    ],
)
def test_which_arrays_a_text_may_change(text, changed):
    assert changed_arrays(text, {"x", "y", "z", "out"}) == frozenset(changed.split())


def test_what_no_function_is_made_of_is_refused():
    with pytest.raises(wp.KernelTypeError, match="needs the text"):
        wp.func_native(sync)
    with pytest.raises(wp.KernelTypeError, match="under @wp.func"):
        wp.func_native("", cpu=np.sin)
    with pytest.raises(wp.KernelTypeError, match="`adj_snippet` must be a text"):
        wp.func_native("", adj_snippet=3)
