"""Native code in kernels for GPUs: it compiles, and run on the processor gives what Warp's own compiler makes of it."""

import jax.numpy as jnp
import numpy as np
import pytest
import snippet_kernels
from cuda_compiling import PLAIN, compiles
from cuda_on_host import BACKWARD, HostCompiled, compile_host, run_host
from loaded_as_warp import module_of_warp
from versions import read_version

import jwarp as wp
from jwarp.backend.cuda.nvrtc import Rejected, as_compile_error, compile_unit
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.program import program_of
from jwarp.config import config

COUNT = 70
rng = np.random.default_rng(5)


@wp.func_native(
    "out[tid] = a * x[tid] + y.data[tid];",
    """
    adj_a += x[tid] * adj_out[tid];
    adj_x[tid] += a * adj_out[tid];
    adj_y[tid] += adj_out[tid];
    """,
)
def saxpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float], tid: int): ...


@wp.kernel
def scaled_sums(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    saxpy(a, x, y, out, i)


@wp.func_native("float square = x * x; return square;", "adj_x += 2 * x * adj_ret;")
def square(x: float) -> float: ...


@wp.kernel
def fourth_powers(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for k in range(3):
        if x[i] < 0.5 * float(k):
            total += square(square(x[i])) * float(k + 1)
    out[i] = total


@wp.func_native("x = y * 2.0f;", adj_snippet="adj_y += 2.0f * adj_x; adj_x = 0.0f;")
def doubled(x: wp.ref[float], y: float): ...


@wp.kernel
def left_in_places(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    doubled(out[i], x[i] * x[i])


@wp.func_native("const int next = wp::atomic_add(counter, 0, 1); thread_values[tid] = next;", replay_snippet="")
def next_slot(counter: wp.array[int], thread_values: wp.array[int], tid: int): ...


@wp.kernel
def in_slots(x: wp.array[float], counter: wp.array[int], thread_values: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    next_slot(counter, thread_values, i)
    slot = thread_values[i]
    out[slot] = x[i] * x[i] * x[i]


@wp.func_native(
    "y[tid] = x[tid] * x[tid];",
    adj_snippet="adj_x[tid] += 2.0f * x[tid] * adj_y[tid];",
    replay_snippet="y[tid] = x[tid] * x[tid];",
)
def squares(x: wp.array[float], y: wp.array[float], tid: int): ...


@wp.kernel
def logarithms(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    squares(x, y, i)
    z[i] = wp.log(y[i])


def floats(*shape):
    return rng.normal(size=shape).astype(np.float32)


@wp.func
def shifted_sine(x: float) -> float:
    return wp.sin(x) + 1.0


@wp.func_native("return sinf(x) + 3.0f;", cpu=shifted_sine)  # another value, to tell the two apart
def sine(x: float) -> float: ...


@wp.kernel
def squared_sines(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    y = sine(x[i])
    out[i] = y * y


def adjoint_of(kernel, wanted, given):
    """The adjoint of a kernel whose outputs start as zeros, and how a launch of it is given its arguments."""
    fresh = tuple(range(min(given), len(kernel.ir().params)))
    return derive(program_of(kernel, config.settings), Variant("adjoint", wanted, given, fresh=fresh, for_gpu=True))


def gradients(*cases):
    """The gradients of all float inputs, as adjoints give them on the stand-in; they are compiled together.

    A case is a kernel, its arguments, the cotangents of its outputs, and what these are after the launch, by number.
    """
    wanted = [
        tuple(p for p in range(min(given)) if kernel.ir().params[p].dtype.is_float) for kernel, _, given, *_ in cases
    ]
    made = [adjoint_of(kernel, w, tuple(given)) for (kernel, _, given, *_), w in zip(cases, wanted, strict=True)]
    hosts = compile_host([CudaKernel(m.program.gpu_kernel, PLAIN).unit(read_version("either"), 64).text for m in made])
    for m, host, (_, arguments, given, *finals) in zip(made, hosts, cases, strict=True):
        sources = {"primal": dict(enumerate(arguments)), "given": given, "final": finals[0] if finals else {}}
        kernel, values = m.program.gpu_kernel, []
        for feed, param in zip(m.feeds, kernel.params, strict=True):
            kind, p = feed.source
            shape = np.shape(arguments[p]) or ((1,) if param.is_array else ())
            values.append(np.zeros(shape, param.dtype.dtype) if kind == "zeros" else sources[kind][p])
        found = run_host(host, kernel, (COUNT,), values, BACKWARD)
        arrays = [feed for feed, param in zip(m.feeds, kernel.params, strict=True) if param.is_array]
        yield {feed.result: x for feed, x in zip(arrays, found, strict=True) if feed.result is not None}


def test_every_type_of_argument_agrees_with_warp(tmp_path):
    pytest.importorskip("warp")
    import warp

    theirs = module_of_warp(snippet_kernels, tmp_path)
    inputs = [floats(COUNT, 3), floats(COUNT, 3, 3), floats(COUNT, 4), floats(COUNT, 7)]
    inputs += [np.round(9 * rng.normal(size=(COUNT, 5))), rng.random(COUNT) < 0.5, floats(COUNT, 2)]
    outputs = [floats(COUNT, 3), floats(COUNT, 2), rng.integers(-9, 9, COUNT), floats(COUNT, 2), np.zeros(COUNT, bool)]
    types = theirs.of_every_type.adj.args
    arrays = [
        warp.array(x, dtype=arg.type.dtype, device="cpu") for x, arg in zip([*inputs, *outputs], types, strict=True)
    ]
    warp.launch(theirs.of_every_type, COUNT, arrays[: len(inputs)], arrays[len(inputs) :], device="cpu")
    found = HostCompiled(snippet_kernels.of_every_type.ir()).run((COUNT,), [*inputs, *outputs], order=BACKWARD)
    for x, y in zip(found, arrays, strict=True):
        np.testing.assert_allclose(x, y.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("architecture", ("sm_80", "sm_120"))
def test_it_compiles(architecture):
    compiles(snippet_kernels.of_every_type.ir(), architecture)
    compiles(adjoint_of(fourth_powers, (0,), (1,)).program.gpu_kernel, architecture)


def test_adjoints_that_authors_wrote_and_those_of_what_is_beside():
    a, x, y, g = np.float32(1.5), floats(COUNT), floats(COUNT), floats(COUNT)
    zeros, counts = np.zeros(COUNT, np.float32), np.zeros(COUNT, np.int32)
    slots = rng.permutation(COUNT).astype(np.int32)
    left = np.zeros(COUNT, np.float32)
    left[slots] = x * x * x
    sums, powers, places, in_order, logs, sines = gradients(
        (scaled_sums, [a, x, y, zeros], {3: g}),
        (fourth_powers, [x, zeros], {1: g}),
        (left_in_places, [x, zeros], {1: g}),
        (in_slots, [x, counts[:1], counts, zeros], {3: g}, {2: slots, 3: left}),
        (logarithms, [x, zeros, zeros], {1: zeros, 2: g}),
        (squared_sines, [x, zeros], {1: g}),
    )
    np.testing.assert_allclose(sums[0], [(x * g).sum()], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sums[1], a * g, rtol=1e-6)
    np.testing.assert_allclose(sums[2], g, rtol=1e-6)
    factor = sum(np.where(x < 0.5 * k, k + 1, 0) for k in range(3))
    np.testing.assert_allclose(powers[0], factor * 4 * x**3 * g, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(places[0], 4 * x * g, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(in_order[0], 3 * x**2 * g[slots], rtol=1e-5)
    np.testing.assert_allclose(logs[0], 2 / x * g, rtol=1e-5)
    np.testing.assert_allclose(sines[0], 2 * (np.sin(x) + 3) * np.cos(x) * g, rtol=1e-4, atol=1e-5)


@wp.func_native("return wp::svd9(x);")
def unknown(x: float) -> float: ...


@wp.func_native("\n    scaled(x[0]);\n    return 1.0f;")
def calling(x: wp.array[float]) -> float: ...


@wp.func_native("\n    auto change = [](float& place) { place = 1.0f; };\n    change(x[0]);\n    return 1.0f;")
def hidden(x: wp.array[float]) -> float: ...


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "function, line, said",
    [(unknown, 1, 'has no member "svd9"'), (calling, 2, '"scaled" is undefined'), (hidden, 3, "cannot be called with")],
    ids=lambda x: getattr(x, "name", ""),
)
def test_what_a_text_does_wrong_is_an_error_at_its_place(function, line, said):
    takes_array = function is not unknown

    @wp.kernel
    def wrong(x: wp.array[float], y: wp.array[float]):
        if wp.static(takes_array):
            y[0] = function(x)
        else:
            y[0] = function(x[0])

    with pytest.raises(Rejected) as caught:
        compile_unit(CudaKernel(wrong.ir(), PLAIN).unit(read_version("fast"), 64), "sm_90")
    error = as_compile_error(caught.value, "kernel `wrong`")
    assert said in str(error), str(error)
    assert error.diagnostic.span.file.startswith(f"snippet of {function.name} ") and error.diagnostic.span.line == line
    assert function.snippet.splitlines()[line - 1].strip() in str(error)


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    float r = value;
    #pragma unroll
    for (int offset = width / 2; offset > 0; offset >>= 1)
        r += __shfl_xor_sync(0xffffffffu, r, offset, width);
    return r;
#else
    return value;
#endif
    """
)
def summed_over_lanes(value: float, width: int = 32) -> float: ...


@wp.func_native("""
if (value > 0.0f) {
#if defined(__CUDA_ARCH__)
    atomicMax(reinterpret_cast<int*>(wp::address(values, index)), __float_as_int(value));
#else
    float* address = wp::address(values, index);
    if (value > *address)
        *address = value;
#endif
}
""")
def raised(values: wp.array[float], index: int, value: float): ...


@wp.func_native("__shared__ int s[64]; s[tid % 64] = d[tid]; __syncthreads(); d[tid] = s[63 - tid % 64];")
def reversed_in_block(d: wp.array[int], tid: int): ...


@wp.kernel
def on_warps(x: wp.array[float], top: wp.array[float], d: wp.array[int]):
    i = wp.tid()
    total = summed_over_lanes(x[i])
    raised(top, i % 4, total)
    reversed_in_block(d, i)


@pytest.mark.usefixtures("compiler")
def test_code_of_warps_and_blocks():
    compiles(on_warps.ir(), "sm_90")
    x, d = floats(128), rng.integers(0, 99, 128, dtype=np.int32)
    _, top, turned = HostCompiled(on_warps.ir(), block=64).run((128,), [x, np.zeros(4, np.float32), d])
    np.testing.assert_array_equal(turned, np.concatenate([d[63::-1], d[:63:-1]]))
    np.testing.assert_array_equal(top, np.maximum(x.reshape(-1, 4).max(0), 0))


def test_texts_tell_programs_apart():
    @wp.func_native("return x + 1.0f;")
    def one(x: float) -> float: ...

    @wp.func_native("return x + 2.0f;")
    def two(x: float) -> float: ...

    def kernel(f):
        @wp.kernel
        def calls(x: wp.array[float]):
            x[wp.tid()] = f(x[wp.tid()])

        return CudaKernel(calls.ir(), PLAIN)

    assert kernel(one).fingerprint != kernel(two).fingerprint
    assert "x + 2.0f" in kernel(two).unit(read_version("fast"), 64).text


@wp.func
def scaled_in_python(a: float, x: wp.array[float], y: wp.array[float], i: int):
    y[i] = a * x[i] * x[i]


@wp.func_native(
    "y[i] = a * x[i] * x[i];",
    "adj_a += adj_y[i] * x[i] * x[i]; adj_x[i] += 2.0f * a * x[i] * adj_y[i];",
    cpu=scaled_in_python,
)
def scaled(a: float, x: wp.array[float], y: wp.array[float], i: int): ...


@wp.kernel
def scaling(a: float, x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    scaled(a, x, y, i)
    z[i] = wp.sin(y[i])


def test_an_adjoint_stands_beside_what_runs_on_processors():
    a, x, g = np.float32(1.5), floats(COUNT), floats(COUNT)
    zeros = np.zeros(COUNT, np.float32)
    made = adjoint_of(scaling, (0, 1), (2, 3)).program.gpu_kernel
    assert "adj_x[i] += 2.0f * a * x[i] * adj_y[i];" in CudaKernel(made, PLAIN).unit(read_version("fast"), 64).text
    (found,) = gradients((scaling, [a, x, zeros, zeros], {2: zeros, 3: g}))
    slope = np.cos(a * x * x) * g
    np.testing.assert_allclose(found[0], [(slope * x * x).sum()], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], 2 * a * x * slope, rtol=1e-4, atol=1e-5)
    wp.check_grads(lambda x: wp.launch(scaling, COUNT, [a, x], [COUNT, COUNT])[1], (jnp.asarray(x),), order=1)
