"""Handwritten kernels where there is no GPU: what computes the same runs, and adjoints are their author's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from handwritten_kernels import A2, GROW, POWERS, A, grow_kernel, powers, powers_kernel, powers_of

import jwarp as wp


def given(seed=0, rows=3, columns=5):
    random = np.random.default_rng(seed)
    x, bias = random.normal(size=(rows, columns)), random.normal(size=columns)
    return jnp.asarray(x, jnp.float32), jnp.float32(random.normal()), jnp.asarray(bias, jnp.float32)


def jax_adjoint(x, k, bias, rows, columns, adj_y):
    return 2.0 * x * k * adj_y, (x * x * adj_y).sum(), adj_y.sum(0), None, None


@wp.kernel
def adjoint_in_python(x: A2, k: float, adj_y: A2, adj_x: A2, adj_k: A, adj_bias: A):
    t = wp.tid()
    columns = x.shape[1]
    i, j = t // columns, t % columns
    adj_x[i, j] = 2.0 * x[i, j] * k * adj_y[i, j]
    adj_k[0] += x[i, j] * x[i, j] * adj_y[i, j]
    adj_bias[j] += adj_y[i, j]


KERNELS = {
    "a kernel on the CPU": lambda: powers_kernel(),
    "a function on the CPU": lambda: powers_kernel(cpu=lambda x, k, bias, rows, columns: powers_of(x, k, bias)),
    "a function as adjoint": lambda: powers_kernel(adjoint=jax_adjoint),
    "gradients of floats only": lambda: powers_kernel(adjoint=lambda *a: jax_adjoint(*a)[:3]),
    "a kernel in Python as adjoint": lambda: powers_kernel(adjoint=adjoint_in_python),
}


@pytest.fixture(params=KERNELS, ids=KERNELS)
def kernel(request):
    return KERNELS[request.param]()


def close(found, expected):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6), found, expected)


def loss(compute):
    return lambda *args: jnp.sum(jnp.sin(compute(*args)))


def test_values(kernel):
    args = given()
    expected = powers_of(*args)
    close(powers(kernel, *args), expected)
    close(powers(kernel, *args), expected)  # from the plan of the first call
    close(jax.jit(lambda *a: powers(kernel, *a))(*args), expected)


def test_gradients(kernel):
    args = given(1)
    expected = jax.grad(loss(powers_of), (0, 1, 2))(*args)
    by_kernel = jax.grad(loss(lambda *a: powers(kernel, *a)), (0, 1, 2))
    close(by_kernel(*args), expected)
    close(jax.jit(by_kernel)(*args), expected)
    close(jax.grad(loss(lambda *a: powers(kernel, *a)), 1)(*args), expected[1])


@pytest.mark.parametrize("axes", [(0, None, None), (1, None, 0), (2, 0, 1), (None, 0, None)])
def test_batches(kernel, axes):
    x, k, bias = given(2)
    args = [
        value if axis is None else jnp.stack([value * (1 + n / 8) for n in range(4)], axis)
        for value, axis in zip((x, k, bias), axes, strict=True)
    ]
    by_kernel, expected = lambda *a: powers(kernel, *a), powers_of
    close(jax.vmap(by_kernel, axes)(*args), jax.vmap(expected, axes)(*args))
    close(
        jax.jit(jax.vmap(jax.grad(loss(by_kernel), (0, 1, 2)), axes))(*args),
        jax.vmap(jax.grad(loss(expected), (0, 1, 2)), axes)(*args),
    )
    close(
        jax.grad(lambda *a: jax.vmap(loss(by_kernel), axes)(*a).sum(), (0, 1, 2))(*args),
        jax.grad(lambda *a: jax.vmap(loss(expected), axes)(*a).sum(), (0, 1, 2))(*args),
    )


def test_nested_batches(kernel):
    x, k, bias = given(3)
    xs, ks = jnp.stack([x, -x, 2 * x]), jnp.stack([k, k + 1])

    def batched(compute):
        return jax.vmap(jax.vmap(compute, (0, None, None)), (None, 0, None))

    close(batched(lambda *a: powers(kernel, *a))(xs, ks, bias), batched(powers_of)(xs, ks, bias))


def test_a_batch_is_one_launch():
    kernel = powers_kernel()
    x, k, bias = given(4)

    def batched(xs):
        return jax.vmap(lambda x: powers(kernel, x, k, bias))(xs)

    jaxpr = str(jax.make_jaxpr(batched)(jnp.stack([x, x])))
    assert jaxpr.count("jwarp_handwritten[") == 1
    assert "broadcast" not in jaxpr
    assert jax.jit(batched).lower(jnp.stack([x, x])).as_text().count("jwarp_launch_v1(") == 1


def test_a_scan_and_its_gradient():
    kernel = grow_kernel()
    xs = jnp.asarray(np.random.default_rng(5).normal(size=(6, 4)), jnp.float32)

    def run(step):
        def compute(xs, k, y):
            y, ys = jax.lax.scan(lambda y, x: (step(x, k, y),) * 2, y, xs)
            return jnp.sum(jnp.cos(ys)) + y.sum()

        return compute

    def launched(x, k, y):
        return wp.launch(kernel, 4, {"x": x, "k": k, "n": 4}, {"y": y})["y"]

    args = (xs, 0.7, jnp.ones(4))
    close(run(launched)(*args), run(lambda x, k, y: k * y + x)(*args))
    close(
        jax.jit(jax.grad(run(launched), (0, 1, 2)))(*args),
        jax.grad(run(lambda x, k, y: k * y + x), (0, 1, 2))(*args),
    )


def test_in_outs_start_from_zeros_too():
    kernel = grow_kernel()
    x = jnp.arange(3.0)
    inputs = {"x": x, "k": 2.0, "n": 3}
    close(wp.launch(kernel, 3, inputs, {"y": 3})["y"], x)
    close(jax.grad(lambda x: (wp.launch(kernel, 3, inputs | {"x": x}, {"y": 3})["y"] ** 2).sum())(x), 2 * x)


def test_as_a_jax_function():
    params = {"x": A, "k": float, "y": A, "sums": A}
    kernel = wp.cuda_kernel(
        "__global__ void f(const float* x, float k, float* y, float* sums) {}",
        "f",
        params,
        outputs=["sums"],
        in_out_argnames="y",
        cpu=lambda x, k, y: (y + k * x, x + k),
    )
    x, y = jnp.arange(4.0), jnp.ones(4)
    close(wp.jax_kernel(kernel)(x, 2.0, y), (1 + 2 * x, x + 2))
    close(jax.vmap(wp.jax_kernel(kernel), (None, 0, None))(x, jnp.arange(2.0), y)[1], x + jnp.arange(2.0)[:, None])
    with pytest.raises(wp.LaunchError, match=r"takes 3 arguments \(x, k, y\), got 2"):
        wp.jax_kernel(kernel)(x, 2.0)


def test_records():
    kernel, args = powers_kernel(), given(6)
    x, k, bias = args
    inputs = {"x": x, "k": k, "bias": bias, "rows": 3, "columns": 5}
    record = wp.launch(kernel, 15, inputs, {"y": (3, 5)}, record_cmd=True)
    close(record.launch()["y"], powers_of(*args))
    record.set_param_by_name("k", 3.0)
    close(record.launch()["y"], powers_of(x, 3.0, bias))
    record.set_param_by_name("x", jnp.ones((3, 4)))
    record.set_param_by_name("y", (3, 4))
    record.set_param_by_name("bias", bias[:4])
    record.set_param_by_name("columns", 4)
    record.set_dim(12)
    close(record.launch()["y"], powers_of(jnp.ones((3, 4)), 3.0, bias[:4]))


def test_adjoint_launches():
    kernel, (x, k, bias) = powers_kernel(), given(7)
    cotangent = jnp.asarray(np.random.default_rng(8).normal(size=(3, 5)), jnp.float32)
    expected = jax.vjp(powers_of, x, k, bias)[1](cotangent)
    found = wp.launch(
        kernel,
        15,
        {"x": x, "k": k, "bias": bias, "rows": 3, "columns": 5},
        {"y": (3, 5)},
        adjoint=True,
        adj_outputs=[cotangent],
        adj_inputs={"x": True, "k": 1.0, "bias": True},
    )
    close((found["x"], found["k"] - 1.0, found["bias"]), expected)


def test_numpy_arrays_are_written_in_place():
    kernel, args = powers_kernel(), given(9)
    x, k, bias = (np.array(value) for value in args)
    y = np.zeros((3, 5), np.float32)
    inputs = {"x": x, "k": float(k), "bias": bias, "rows": 3, "columns": 5}
    assert wp.launch(kernel, 15, inputs, {"y": y})["y"] is y
    close(y, powers_of(*args))
    record = wp.launch(kernel, 15, inputs, {"y": y}, record_cmd=True)
    x[...] = 1.0
    record.launch()
    close(y, k + np.broadcast_to(bias, y.shape))
    function = powers_kernel(cpu=lambda x, k, bias, rows, columns: powers_of(x, k, bias))
    with pytest.raises(wp.LaunchError, match="no kernel for the CPU that could write to NumPy arrays"):
        wp.launch(function, 15, inputs, {"y": y})


def test_launch_dimensions_and_shapes_reach_functions():
    seen = []

    def cpu(x, *, dim, output_shapes):
        seen.append((dim, output_shapes))
        return jnp.zeros(output_shapes[0]) + x.sum(), jnp.zeros(output_shapes[1])

    text = "__global__ void f(const float* x, float* y, float* z) {}"
    kernel = wp.cuda_kernel(text, "f", {"x": A, "y": A2, "z": A}, outputs=["y", "z"], cpu=cpu)
    y, z = wp.launch(kernel, (2, 1), [jnp.ones(3)], [(4, 5), 6])
    assert (y.shape, z.shape) == ((4, 5), (6,))
    assert seen == [((2, 1), ((4, 5), (6,)))]


def test_results_and_dimensions_reach_adjoints():
    def adjoint(x, adj_y, *, dim, outputs):
        assert dim == (3,)
        return adj_y * outputs[0]

    text = "__global__ void f(const float* x, float* y) { y[threadIdx.x] = expf(x[threadIdx.x]); }"
    kernel = wp.cuda_kernel(text, "f", {"x": A, "y": A}, outputs="y", cpu=jnp.exp, adjoint=adjoint)
    x = jnp.array([0.1, -0.4, 1.0])
    close(jax.grad(lambda x: (wp.launch(kernel, 3, [x], [3])[0] ** 2).sum())(x), 2 * jnp.exp(2 * x))


def test_an_adjoint_kernel_may_read_results():
    both = (
        "__global__ void f(const float* x, float* y) {}"
        "__global__ void g(const float* y, const float* adj_y, float* adj_x) {}"
    )
    adjoint = wp.cuda_kernel(
        both, "g", {"y": A, "adj_y": A, "adj_x": A}, outputs=["adj_x"], cpu=lambda y, adj_y: y * adj_y
    )
    kernel = wp.cuda_kernel(both, "f", {"x": A, "y": A}, outputs="y", cpu=jnp.exp, adjoint=adjoint)
    x = jnp.array([0.1, -0.4, 1.0])
    step = lambda x: wp.jax_kernel(kernel)(x)[0]  # noqa: E731
    close(jax.grad(lambda x: (step(x) ** 2).sum())(x), 2 * jnp.exp(2 * x))
    close(jax.vmap(jax.grad(lambda x: (step(x) ** 2).sum()))(jnp.stack([x, -x])), 2 * jnp.exp(2 * jnp.stack([x, -x])))
    # What the adjoint does not read is not kept: only y.
    jaxpr = jax.make_jaxpr(lambda x: jax.vjp(step, x)[1])(x)
    assert len(jaxpr.jaxpr.outvars) == 1


def test_only_outputs_with_a_cotangent_matter():
    text = "__global__ void f(const float* x, float* y, int* signs) {}"

    def cpu(x):
        return x * x, (x > 0).astype(jnp.int32)

    kernel = wp.cuda_kernel(
        text, "f", {"x": A, "y": A, "signs": wp.array[int]}, outputs=["y", "signs"],
        cpu=cpu, adjoint=lambda x, adj_y: 2 * x * adj_y,
    )  # fmt: skip
    x = jnp.array([1.0, -2.0])
    gradient, signs = jax.grad(lambda x: (lambda y, s: (y.sum(), s))(*wp.jax_kernel(kernel)(x)), has_aux=True)(x)
    close(gradient, 2 * x)
    assert signs.tolist() == [1, 0]


def test_kinds_of_parameters(x64):
    params = {
        "v": wp.vec3, "m": wp.mat22, "flag": bool, "big": wp.int64, "xs": wp.array[wp.vec3],
        "d": wp.array2d[wp.float64], "y": wp.array[wp.vec3],
    }  # fmt: skip

    def cpu(v, m, flag, big, xs, d):
        assert (v.shape, m.shape, flag.dtype, big.dtype, d.dtype) == ((3,), (2, 2), "bool", "int64", "float64")
        return jnp.where(flag, xs * v + m[0, 1] + big.astype(jnp.float32), 0.0)

    def adjoint(v, m, flag, big, xs, d, adj_y):
        of_m = jnp.zeros((2, 2), jnp.float32).at[0, 1].set(adj_y.sum())
        return (xs * adj_y).sum(0), of_m, None, None, v * adj_y, 0 * d

    kernel = wp.cuda_kernel("__global__ void f() {}", "f", params, outputs=["y"], cpu=cpu, adjoint=adjoint)
    xs = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    args = ((1.0, 2.0, 3.0), jnp.ones((2, 2), jnp.float32), True, 2**40, xs, jnp.ones((2, 2)))
    (y,) = wp.jax_kernel(kernel, launch_dims=2)(*args)
    close(y, xs * jnp.array([1.0, 2.0, 3.0]) + 1 + 2.0**40)
    gradients = jax.grad(
        lambda v, xs: wp.jax_kernel(kernel, launch_dims=2)(v, *args[1:4], xs, args[5])[0].sum(), (0, 1)
    )
    found = gradients(jnp.array([1.0, 2.0, 3.0], jnp.float32), xs)
    close(found, (xs.sum(0), jnp.broadcast_to(jnp.array([1.0, 2.0, 3.0]), (2, 3))))


def test_empty_launches_do_nothing():
    def never(*args):
        raise AssertionError("called")

    kernel = wp.cuda_kernel(
        GROW, "grow", {"x": A, "k": float, "y": A, "n": int}, outputs="y", in_out_argnames="y", cpu=never
    )
    y = jnp.ones(3)
    inputs = {"x": y, "k": 1.0, "n": 3}
    close(wp.launch(kernel, 0, inputs, {"y": y})["y"], y)
    close(wp.launch(kernel, (2, 0), inputs, {"y": 3})["y"], jnp.zeros(3))
    empty = jax.vmap(lambda k: wp.launch(kernel, 3, inputs | {"k": k}, {"y": 3})["y"])(jnp.zeros(0))
    assert empty.shape == (0, 3)


def test_debug_mode_checks_the_kernel_for_the_cpu():
    @wp.kernel
    def outside(x: A, y: A):
        i = wp.tid()
        y[i] = x[i + 1]

    text = "__global__ void f(const float* x, float* y) {}"
    kernel = wp.cuda_kernel(text, "f", {"x": A, "y": A}, outputs="y", cpu=outside)
    with pytest.raises(wp.LaunchError, match="index 4 is outside axis 0 of `x`"):
        jax.jit(lambda x: wp.launch(kernel, 4, [x], [4])[0])(jnp.ones(4))

    @wp.kernel
    def divides(x: A, y: A):
        i = wp.tid()
        y[i] = 0.0 / x[i]

    kernel = wp.cuda_kernel(text, "f", {"x": A, "y": A}, outputs="y", cpu=divides)
    with wp.config(debug=True), pytest.raises(RuntimeError, match="NaN.*thread"):
        jax.block_until_ready(wp.launch(kernel, 4, [jnp.zeros(4)], [4])[0])


def test_derivatives_without_a_rule():
    args = given(10)
    without = powers_kernel(adjoint=None)
    close(powers(without, *args), powers_of(*args))
    with pytest.raises(wp.NotDifferentiableError, match="'powers', parameter 'x'.*without an adjoint"):
        jax.grad(loss(lambda *a: powers(without, *a)))(*args)
    close(
        jax.grad(lambda x: powers(without, *jax.lax.stop_gradient((x, *args[1:]))).sum() + x.sum())(args[0]),
        jnp.ones((3, 5)),
    )
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: powers(powers_kernel(), x, *args[1:]), args[:1], args[:1])
    with pytest.raises(wp.NotDifferentiableError, match="'powers_adjoint', parameter 'x'.*without an adjoint"):
        jax.grad(lambda x: (jax.grad(loss(lambda x: powers(powers_kernel(), x, *args[1:])))(x) ** 2).sum())(args[0])
    partial = powers_kernel(adjoint=lambda x, k, bias, rows, columns, adj_y: (2 * x * k * adj_y, None, None))
    close(jax.grad(lambda x: powers(partial, x, *args[1:]).sum())(args[0]), 2 * args[0] * args[1])
    with pytest.raises(wp.NotDifferentiableError, match="parameter 'k'.*the kernel's adjoint gives none"):
        jax.grad(lambda k: powers(partial, args[0], k, args[2]).sum())(args[1])
    with pytest.raises(wp.NotDifferentiableError, match="enable_backward is False"):
        jax.grad(lambda x: wp.jax_kernel(_copy(), enable_backward=False)(x)[0].sum())(jnp.ones(3))


def _copy():
    text = "__global__ void f(const float* x, float* y) {}"
    return wp.cuda_kernel(text, "f", {"x": A, "y": A}, outputs="y", cpu=lambda x: x, adjoint=lambda x, adj_y: adj_y)


def test_second_derivatives_through_functions():
    """A JAX function as adjoint differentiates like any."""
    kernel = powers_kernel(adjoint=jax_adjoint)
    args = given(11)
    found = jax.grad(lambda x: (jax.grad(loss(lambda x: powers(kernel, x, *args[1:])))(x) ** 2).sum())(args[0])
    close(found, jax.grad(lambda x: (jax.grad(loss(lambda x: powers_of(x, *args[1:])))(x) ** 2).sum())(args[0]))


def test_check_grads():
    kernel, (x, k, bias) = powers_kernel(), given(12)
    inputs = {"x": x, "k": k, "bias": bias, "rows": 3, "columns": 5}
    wp.check_grads(kernel, 15, inputs, {"y": (3, 5)}, order=1, modes="rev")
    wrong = powers_kernel(
        adjoint=lambda x, k, bias, rows, columns, adj_y: (x * adj_y, (x * x * adj_y).sum(), adj_y.sum(0))
    )
    with pytest.raises(AssertionError, match="x"):
        wp.check_grads(wrong, 15, inputs, {"y": (3, 5)}, order=1, modes="rev")


# What is refused


def refused(error, match, **changed):
    arguments = {"source": POWERS, "name": "powers", "params": {"x": A, "y": A}, "outputs": ["y"]}
    with pytest.raises(error, match=match):
        wp.cuda_kernel(**{**arguments, **changed})


def test_definitions_that_do_not_fit():
    refused(wp.LaunchError, "the source is empty", source=" ")
    refused(wp.LaunchError, "must be text or a path, got int", source=3)
    refused(FileNotFoundError, "no_such.cu", source="no_such.cu")
    refused(wp.LaunchError, "name must be the function's name", name="")
    refused(wp.LaunchError, "params must be a dict", params=["x"])
    refused(wp.LaunchError, "'a b' is no parameter name", params={"a b": float})
    refused(wp.KernelTypeError, "parameter 'x': 'float' is no type", params={"x": "float"})
    refused(wp.LaunchError, "outputs has 'z', which is no parameter; there are x, y", outputs=["z"])
    refused(wp.LaunchError, "has no outputs", outputs=[])
    refused(wp.LaunchError, "outputs must be a sequence", outputs=3)
    refused(wp.LaunchError, "full_outputs: 'x' is no output that would start as zeros", full_outputs="x")
    refused(wp.LaunchError, "full_outputs: 'y' is no output that would", full_outputs=["y"], in_out_argnames=["y"])
    refused(wp.KernelTypeError, "output 'x' is a float32, which is passed by value", params={"x": float}, outputs="x")
    refused(wp.LaunchError, "'-arch=sm_90' cannot be given: the architecture", options=["-arch=sm_90"])
    refused(wp.LaunchError, "'-dlto' cannot be given", options=["-dlto"])
    refused(wp.LaunchError, "'--gpu-architecture=sm_90' cannot", options=["--gpu-architecture=sm_90"])
    refused(wp.LaunchError, "options must be a sequence", options="-lineinfo")
    refused(wp.LaunchError, "'/no/such' |which is no folder", headers=["/no/such"])
    refused(wp.LaunchError, "headers must be a dict of texts", headers={"a.h": 3})
    refused(wp.LaunchError, "block_dim must be 1 to 1024", block_dim=2048)
    refused(wp.LaunchError, "grid must be the number of blocks", grid=(1, 2, 3, 4))
    refused(wp.LaunchError, r"a grid of \(1, 70000\) blocks is impossible", grid=(1, 70000))
    refused(wp.LaunchError, r"a grid of .* blocks is impossible", grid=(2**20, 1, 4096))
    refused(wp.LaunchError, "shared_bytes must be 0 to 232448", shared_bytes=-1)
    refused(wp.KernelTypeError, "adjoint must be a kernel or a JAX function, got int", adjoint=3)
    refused(wp.KernelTypeError, "cpu must be a @wp.kernel or a JAX function, got int", cpu=3)

    @wp.struct
    class Pair:
        a: float

    refused(wp.KernelTypeError, "handwritten kernels take no structs", params={"p": Pair, "y": A})

    @wp.kernel
    def other(x: A, y: wp.array[int]):
        y[0] = 1

    refused(wp.KernelTypeError, r"the kernel for the CPU, 'other', must have the same parameters", cpu=other)


def adjoint_of(params, outputs, in_outs=()):
    return wp.cuda_kernel(POWERS, "adjoint", params, outputs=outputs, in_out_argnames=in_outs)


def test_adjoints_that_do_not_fit():
    def fails(match, params, outputs=("adj_x",), of=None, **more):
        adjoint = adjoint_of(params, outputs, **more)
        refused(wp.KernelTypeError, match, adjoint=adjoint, params=of or {"x": A, "y": A, "n": int})

    fails("has no parameter 'adj_y', so what depends on output 'y' would have no gradient", {"x": A, "adj_x": A})
    fails("parameter 'z' of its adjoint 'adjoint' is no name of", {"z": A, "adj_y": A, "adj_x": A})
    fails(r"parameter 'adj_y' .* is array2d\[float32\], expected array\[float32\]", {"adj_y": A2, "adj_x": A})
    fails("parameter 'adj_n' .* belongs to 'n', which has no gradient", {"adj_y": A, "adj_n": A, "adj_x": A})
    fails("parameter 'adj_x' .* is a gradient, and so must be an output", {"adj_y": A, "adj_x": A, "x": A}, ["x"])
    fails("parameter 'adj_y' .* is a cotangent, and so no output", {"adj_y": A, "adj_x": A}, ["adj_x", "adj_y"])
    fails("parameter 'x' .* is an output, and only gradients are", {"x": A, "adj_y": A, "adj_x": A}, ["x", "adj_x"])


def test_launches_that_do_not_fit():
    args = given(13)
    with pytest.raises(
        wp.LaunchError, match="'powers' is written in CUDA C\\+\\+, and nothing computes the same on the CPU"
    ):
        powers(powers_kernel(cpu=None), *args)
    with pytest.raises(wp.LaunchError, match="returned 2 arrays, and there are 1 outputs"):
        powers(powers_kernel(cpu=lambda *a: (a[0], a[0])), *args)
    with pytest.raises(wp.KernelTypeError, match=r"returned float32\[5\] for output 'y', expected float32\[3, 5\]"):
        powers(powers_kernel(cpu=lambda *a: a[2]), *args)
    with pytest.raises(wp.KernelTypeError, match=r"returned int32\[3, 5\] for output 'y'"):
        powers(powers_kernel(cpu=lambda *a: a[0].astype(int)), *args)
    with pytest.raises(wp.LaunchError, match="its adjoint returned 1 gradients, and there are 5 inputs"):
        jax.grad(lambda x: powers(powers_kernel(adjoint=lambda *a: a[0]), x, *args[1:]).sum())(args[0])
    with pytest.raises(
        wp.KernelTypeError, match=r"its adjoint returned float32\[5\] for 'x', expected float32\[3, 5\]"
    ):
        jax.grad(lambda x: powers(powers_kernel(adjoint=lambda *a: (a[2], a[1], a[2])), x, *args[1:]).sum())(args[0])
    with pytest.raises(wp.LaunchError, match="output 'y': an array was given for it to start from"):
        x, k, bias = args
        wp.launch(powers_kernel(), 15, {"x": x, "k": k, "bias": bias, "rows": 3, "columns": 5}, {"y": x})
    with pytest.raises(wp.KernelTypeError, match=r"parameter 'x': expected array2d\[float32\], got float32\[5\]"):
        inputs = {"x": args[2], "k": 1.0, "bias": args[2], "rows": 1, "columns": 5}
        wp.launch(powers_kernel(), 5, inputs, {"y": (1, 5)})
    with pytest.raises(wp.LaunchError, match="a grid of .* for a launch over"):
        powers(powers_kernel(grid=lambda dim: (1, 0)), *args)
    with pytest.raises(wp.LaunchError, match="shared_bytes must be 0 to"):
        powers(powers_kernel(shared_bytes=lambda dim: 10**6), *args)

    @wp.kernel
    def writes_inputs(x: A2, k: float, bias: A, y: A2, rows: int, columns: int):
        bias[wp.tid()] = 1.0

    with pytest.raises(wp.LaunchError, match="parameter 'bias' is passed as an input, but the kernel writes to it"):
        powers(powers_kernel(cpu=writes_inputs), *args)


def test_what_it_is():
    kernel = powers_kernel()
    assert repr(kernel).startswith("<wp.cuda_kernel powers(x: array2d[float32], k: float32")
    with pytest.raises(TypeError, match="is launched, not called"):
        kernel()
    with pytest.raises(wp.LaunchError, match="has no stage 'ir'"):
        wp.inspect(kernel)
    assert "y[i] = x[i] * x[i] * k" in wp.inspect(kernel, "cuda")
    with pytest.raises(wp.KernelTypeError, match="expected a function of JAX"):
        wp.explain(kernel)


def test_kernels_of_one_text_are_told_apart():
    """Two kernels that differ in what runs on the CPU share nothing."""
    text = "__global__ void f(const float* x, float* y) {}"
    make = lambda cpu: wp.cuda_kernel(text, "f", {"x": A, "y": A}, outputs="y", cpu=cpu)  # noqa: E731
    one, two = make(lambda x: x + 1), make(lambda x: x + 2)

    @jax.jit
    def both(x):
        return wp.launch(one, 3, [x], [3])[0], wp.launch(two, 3, [x], [3])[0]

    assert [y.tolist() for y in both(jnp.zeros(3))] == [[1.0] * 3, [2.0] * 3]
    assert wp.launch(one, 3, [jnp.zeros(3)], [3])[0].tolist() == [1.0] * 3
    assert wp.launch(two, 3, [jnp.zeros(3)], [3])[0].tolist() == [2.0] * 3


def test_manual_axes_of_a_mesh():
    """Each device launches its own part, and the gradient of what they share is summed over them."""
    kernel, (x, k, bias) = powers_kernel(), given(14, rows=4)
    mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = (jax.P("rows", None), jax.P(), jax.P())
    sharded = jax.shard_map(lambda *a: powers(kernel, *a), mesh=mesh, in_specs=specs, out_specs=jax.P("rows", None))
    close(sharded(x, k, bias), powers_of(x, k, bias))
    close(jax.jit(jax.grad(loss(sharded), (0, 1, 2)))(x, k, bias), jax.grad(loss(powers_of), (0, 1, 2))(x, k, bias))


def test_rematerialised():
    kernel, args = powers_kernel(), given(15)
    step = jax.checkpoint(lambda *a: jnp.sin(powers(kernel, *a)))
    close(jax.grad(lambda *a: step(*a).sum(), (0, 1, 2))(*args), jax.grad(loss(powers_of), (0, 1, 2))(*args))


def test_kernels_that_print():
    @wp.kernel
    def prints(x: A, y: A):
        i = wp.tid()
        wp.printf("x is %g\n", x[i])
        y[i] = x[i]

    text = "__global__ void f(const float* x, float* y) {}"
    kernel = wp.cuda_kernel(text, "f", {"x": A, "y": A}, outputs="y", cpu=prints)
    close(wp.launch(kernel, 2, [jnp.ones(2)], [2])[0], jnp.ones(2))
