"""Two hundred functions of jax.numpy, jax.nn, jax.lax and jax.scipy.special in kernels: values and gradients of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, nn
from jax.scipy import special as sp
from jax.scipy import stats

import jwarp as wp

RNG = np.random.default_rng(3)


def stacked(x, y):
    return jnp.stack([x, y, 0.5 * x + y, x * y])


def matrix(x, y):
    return jnp.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]], x.dtype) + 0.3 * jnp.outer(
        stacked(x, y)[:3], stacked(x, y)[1:]
    )


def spd(x, y):
    m = matrix(x, y)
    return m @ m.T + jnp.eye(3, dtype=x.dtype)


def signal(x, y, n=12):
    return jnp.sin(x * jnp.arange(n, dtype=x.dtype)) + y * jnp.cos(3.1 * jnp.arange(n, dtype=x.dtype))


v, w = stacked, lambda x, y: stacked(y, x)
GROUPS = {
    "arithmetic": [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: -x, jnp.subtract,
        jnp.multiply, jnp.true_divide, lambda x, y: jnp.reciprocal(x), lambda x, y: jnp.square(x),
        lambda x, y: x ** 3, lambda x, y: x ** (-2), jnp.power, jnp.float_power, lambda x, y: jnp.sqrt(x),
        lambda x, y: lax.rsqrt(x), lambda x, y: jnp.cbrt(x), jnp.hypot, jnp.fmod, jnp.remainder,
        lambda x, y: jnp.floor_divide(x, y), lambda x, y: jnp.abs(x - y), lambda x, y: jnp.sign(x - y), jnp.copysign,
        lambda x, y: jnp.ldexp(x, 3), jnp.maximum, jnp.minimum, jnp.fmax, jnp.fmin, lambda x, y: jnp.clip(x, 0.5, y),
        jnp.heaviside, lambda x, y: jnp.positive(x), lambda x, y: jnp.fabs(x - 1.0),
    ],
    "elementary": [
        lambda x, y: jnp.exp(x), lambda x, y: jnp.exp2(x), lambda x, y: jnp.expm1(x),
        lambda x, y: jnp.expm1(0.001 * x), lambda x, y: jnp.log(x), lambda x, y: jnp.log2(x),
        lambda x, y: jnp.log10(x), lambda x, y: jnp.log1p(x), lambda x, y: jnp.log1p(0.001 * x), jnp.logaddexp,
        jnp.logaddexp2, lambda x, y: jnp.sin(x), lambda x, y: jnp.cos(x), lambda x, y: jnp.tan(x),
        lambda x, y: jnp.arcsin(0.5 * x), lambda x, y: jnp.arccos(0.5 * x), lambda x, y: jnp.arctan(x), jnp.arctan2,
        lambda x, y: jnp.sinh(x), lambda x, y: jnp.cosh(x), lambda x, y: jnp.tanh(x), lambda x, y: jnp.arcsinh(x - y),
        lambda x, y: jnp.arccosh(1.0 + x), lambda x, y: jnp.arctanh(0.4 * x), lambda x, y: jnp.sinc(x),
        lambda x, y: jnp.deg2rad(x), lambda x, y: jnp.rad2deg(x), lambda x, y: jnp.unwrap(v(x, y))[2],
        lambda x, y: jnp.i0(x), lambda x, y: jnp.arccosh(1.0 + 1000000000.0 * y),
    ],
    "rounding, choices and bits": [
        lambda x, y: jnp.floor(x) * y, lambda x, y: jnp.ceil(x) * y, lambda x, y: jnp.trunc(x) * y,
        lambda x, y: jnp.rint(4.0 * x) * y, lambda x, y: jnp.round(x, 1) * y, lambda x, y: jnp.where(x > y, x, y * y),
        lambda x, y: jnp.select([x < 0.7, x < 1.2], [x, y], x * y), lambda x, y: jnp.isfinite(x) * y,
        lambda x, y: jnp.isnan(x) + y, lambda x, y: jnp.isclose(x, y) * x, lambda x, y: lax.clamp(0.5, x, 1.5),
        lambda x, y: jnp.signbit(x - y) * x, lambda x, y: jnp.modf(x)[0] * y,
        lambda x, y: (jnp.int32(8.0 * x) & 5) * y, lambda x, y: (jnp.int32(8.0 * x) | 5) * y,
        lambda x, y: (jnp.int32(8.0 * x) ^ 5) * y, lambda x, y: ~jnp.int32(8.0 * x) * y,
        lambda x, y: (jnp.int32(8.0 * x) << 2) * y, lambda x, y: (jnp.int32(-80.0 * x) >> 2) * y,
        lambda x, y: lax.shift_right_logical(jnp.int32(-80.0 * x), jnp.int32(28)) * y,
        lambda x, y: lax.population_count(jnp.int32(80.0 * x)) * y, lambda x, y: lax.clz(jnp.int32(80.0 * x)) * y,
        lambda x, y: jnp.gcd(jnp.int32(30.0 * x), 12) * y, lambda x, y: jnp.int32(-30.0 * x) // 7 * y,
        lambda x, y: jnp.int32(-30.0 * x) % 7 * y, lambda x, y: jnp.logical_and(x > 1.0, y > 1.0) * x,
        lambda x, y: jnp.logical_xor(x > 1.0, y > 1.0) * x, lambda x, y: jnp.frexp(x)[0] * y,
        lambda x, y: lax.stop_gradient(x) * y,
    ],
    "jax.nn": [
        lambda x, y: nn.relu(x - y), lambda x, y: nn.relu6(4.0 * x), lambda x, y: nn.sigmoid(x),
        lambda x, y: nn.softplus(x), lambda x, y: nn.sparse_plus(x - y), lambda x, y: nn.soft_sign(x),
        lambda x, y: nn.silu(x), lambda x, y: nn.log_sigmoid(x), lambda x, y: nn.leaky_relu(x - y),
        lambda x, y: nn.hard_sigmoid(x), lambda x, y: nn.hard_silu(x - y), lambda x, y: nn.hard_tanh(x - y),
        lambda x, y: nn.elu(x - y), lambda x, y: nn.celu(x - y), lambda x, y: nn.selu(x - y), lambda x, y: nn.gelu(x),
        lambda x, y: nn.gelu(x, approximate=False), lambda x, y: nn.glu(v(x, y))[0], lambda x, y: nn.squareplus(x),
        lambda x, y: nn.mish(x), lambda x, y: nn.identity(x), lambda x, y: nn.logsumexp(v(x, y)),
        lambda x, y: nn.softmax(v(x, y))[1], lambda x, y: nn.log_softmax(v(x, y))[1],
        lambda x, y: nn.standardize(v(x, y))[1], lambda x, y: nn.one_hot(jnp.int32(x), 3)[1] * y,
        lambda x, y: nn.logmeanexp(v(x, y)), lambda x, y: nn.log1mexp(x), lambda x, y: nn.sparse_sigmoid(x - y),
    ],
    "sums and products": [
        lambda x, y: jnp.sum(v(x, y)), lambda x, y: jnp.prod(v(x, y)), lambda x, y: jnp.mean(v(x, y)),
        lambda x, y: jnp.var(v(x, y)), lambda x, y: jnp.std(v(x, y)), lambda x, y: jnp.max(v(x, y)),
        lambda x, y: jnp.min(v(x, y)), lambda x, y: jnp.ptp(v(x, y)), lambda x, y: jnp.median(v(x, y)),
        lambda x, y: jnp.quantile(v(x, y), 0.3), lambda x, y: jnp.cumsum(v(x, y))[2],
        lambda x, y: jnp.cumprod(v(x, y))[3], lambda x, y: lax.cummax(v(x, y))[3],
        lambda x, y: lax.cumlogsumexp(v(x, y))[3], lambda x, y: jnp.argmax(v(x, y)) * x,
        lambda x, y: jnp.argmin(v(x, y)) * x, lambda x, y: jnp.sort(v(x, y))[1],
        lambda x, y: jnp.argsort(v(x, y))[1] * x, lambda x, y: lax.top_k(v(x, y), 2)[0][1],
        lambda x, y: jnp.dot(v(x, y), w(x, y)), lambda x, y: jnp.vdot(v(x, y), w(x, y)),
        lambda x, y: jnp.inner(v(x, y), w(x, y)), lambda x, y: jnp.outer(v(x, y), w(x, y))[1, 2],
        lambda x, y: jnp.kron(v(x, y), w(x, y))[5], lambda x, y: jnp.cross(v(x, y)[:3], w(x, y)[1:])[1],
        lambda x, y: jnp.einsum("i,j,i->j", v(x, y), w(x, y), w(x, y))[1],
        lambda x, y: jnp.tensordot(matrix(x, y), v(x, y)[:3], 1)[0], lambda x, y: jnp.trace(matrix(x, y)),
        lambda x, y: jnp.diff(v(x, y))[1], lambda x, y: jnp.average(v(x, y), weights=w(x, y)),
        lambda x, y: jnp.linalg.norm(v(x, y)), lambda x, y: jnp.linalg.norm(v(x, y), 1),
        lambda x, y: jnp.count_nonzero(v(x, y) > 1.0) * x, lambda x, y: jnp.any(v(x, y) > 1.0) * x,
        lambda x, y: jnp.all(v(x, y) > 0.6) * x, lambda x, y: jnp.trapezoid(v(x, y)),
    ],
    "moving and indexing": [
        lambda x, y: jnp.roll(v(x, y), 1)[0], lambda x, y: jnp.flip(v(x, y))[0],
        lambda x, y: jnp.pad(v(x, y), 2, mode="edge")[1], lambda x, y: jnp.concatenate([v(x, y), w(x, y)])[5],
        lambda x, y: jnp.tile(v(x, y), 2)[6], lambda x, y: jnp.repeat(v(x, y), 2)[3],
        lambda x, y: jnp.take(v(x, y), jnp.int32(x)), lambda x, y: v(x, y)[jnp.int32(y) % 4],
        lambda x, y: v(x, y).at[jnp.int32(x)].set(7.0)[1], lambda x, y: v(x, y).at[1].add(y)[1],
        lambda x, y: lax.dynamic_slice(v(x, y), (jnp.int32(x),), (2,))[1],
        lambda x, y: lax.dynamic_update_slice(v(x, y), w(x, y)[:2], (jnp.int32(x),))[1],
        lambda x, y: jnp.transpose(matrix(x, y))[0, 2], lambda x, y: jnp.reshape(matrix(x, y), 9)[5],
        lambda x, y: jnp.diag(matrix(x, y))[1], lambda x, y: jnp.triu(matrix(x, y))[0, 1],
        lambda x, y: jnp.interp(x, jnp.linspace(0.0, 2.0, 9), jnp.arange(9.0) ** 2),
        lambda x, y: jnp.searchsorted(jnp.linspace(0.0, 2.0, 9), x) * y, lambda x, y: jnp.polyval(v(x, y), x),
        lambda x, y: jnp.meshgrid(v(x, y), w(x, y))[1][1, 2],
        lambda x, y: jnp.where(v(x, y) > 1.0, v(x, y), w(x, y))[2], lambda x, y: jnp.hstack([v(x, y), w(x, y)])[6],
        lambda x, y: jnp.linalg.solve(matrix(x, y), v(x, y)[:3])[1],
        lambda x, y: jnp.linalg.cholesky(spd(x, y))[2, 1],
        lambda x, y: jnp.piecewise(x, [x < 1.0, x >= 1.0], [jnp.sin, jnp.cos]),
        lambda x, y: jnp.digitize(x, jnp.linspace(0.0, 2.0, 9)) * y,
        lambda x, y: lax.cond(x > 1.0, jnp.sin, jnp.cos, y),
        lambda x, y: lax.fori_loop(0, 5, lambda i, c: c * x + i, y),
        lambda x, y: lax.scan(lambda c, z: (c * z, c + z), x, v(x, y))[1][2],
        lambda x, y: jax.grad(lambda x: jnp.tanh(x * y) * x)(x), lambda x, y: jax.jvp(jnp.sinh, (x,), (y,))[1],
        lambda x, y: jax.vmap(jnp.hypot)(v(x, y), w(x, y))[1],
    ],
    "complex numbers and transforms": [
        lambda x, y: jnp.abs(jnp.fft.fft(signal(x, y)))[3], lambda x, y: jnp.angle(jnp.fft.rfft(signal(x, y)))[2],
        lambda x, y: jnp.sum(jnp.abs(jnp.fft.rfft(signal(x, y, 9))) ** 2),
        lambda x, y: jnp.fft.ifft(signal(x, y, 8)).imag[3],
        lambda x, y: jnp.fft.irfft(jnp.fft.rfft(signal(x, y)) * jnp.exp(-1j * x))[5],
        lambda x, y: jnp.fft.irfft(jnp.fft.rfft(signal(x, y, 7)) * (2 - 1j), n=7)[2],
        lambda x, y: jnp.fft.irfft2(jnp.fft.rfft2(signal(x, y).reshape(4, 3)) * y, s=(4, 3))[1, 2],
        lambda x, y: jnp.fft.fft2(signal(x, y).reshape(3, 4), axes=(1, 0)).real[2, 1],
        lambda x, y: jnp.fft.hfft(jnp.fft.rfft(signal(x, y, 6)))[1],
        lambda x, y: jnp.fft.fftshift(jnp.fft.fft(v(x, y)))[0].real,
        lambda x, y: ((x + 1j * y) / (y - 2j * x) + 3.0).real, lambda x, y: ((x + 1j * y) ** 3).imag,
        lambda x, y: jnp.log(x - 1j * y).imag, lambda x, y: jnp.vdot(v(x, y) + 1j, w(x, y) * 1j).real,
        lambda x, y: jnp.real(jnp.conj(x + 1j * y) * jnp.where(x > y, x * 1j, y)),
        lambda x, y: jnp.abs(lax.fori_loop(0, 3, lambda i, z: z * z + (x + 1j * y), 0.2j * x)),
        lambda x, y: (matrix(x, y) @ jnp.fft.fft(v(x, y)[:3]))[1].imag,
        lambda x, y: jnp.fft.fft(v(x, y))[jnp.int32(x)].imag,
    ],
    "jax.scipy.special": [
        lambda x, y: sp.erf(x), lambda x, y: sp.erfc(x), lambda x, y: sp.erfinv(0.4 * x), lambda x, y: sp.expit(x),
        lambda x, y: sp.logit(0.4 * x), sp.xlogy, sp.xlog1py, lambda x, y: sp.entr(x), sp.rel_entr, sp.kl_div,
        lambda x, y: sp.ndtr(x), lambda x, y: sp.ndtri(0.4 * x), lambda x, y: sp.log_ndtr(-x),
        lambda x, y: sp.logsumexp(v(x, y)), lambda x, y: sp.gammaln(x), lambda x, y: sp.gamma(x),
        lambda x, y: sp.digamma(x), lambda x, y: sp.i0e(x), lambda x, y: sp.i1e(x),
        lambda x, y: stats.norm.logpdf(x, y, 1.5), lambda x, y: stats.norm.cdf(x), lambda x, y: stats.cauchy.pdf(x),
        lambda x, y: stats.laplace.logpdf(x, y), lambda x, y: stats.t.pdf(x, 3.0),
        lambda x, y: stats.logistic.logpdf(x), lambda x, y: sp.log_softmax(v(x, y))[0],
    ],
}  # fmt: skip
assert sum(map(len, GROUPS.values())) >= 200
UNOPTIMIZED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def every_of(group):
    return lambda x, y: jnp.stack([jnp.asarray(f(x, y)).astype(x.dtype) for f in GROUPS[group]])


@pytest.fixture(scope="module", params=GROUPS)
def reference(request):
    """A group of functions, numbers, and what JAX has for them in float64: values, and gradients by both arguments."""
    every = every_of(request.param)
    x, y = RNG.uniform(0.3, 1.9, (2, 16)).astype(np.float32)

    def with_gradients(x, y):
        return every(x, y), *jax.jacfwd(every, (0, 1))(x, y)

    with jax.enable_x64(True):
        args = jnp.asarray(x, np.float64), jnp.asarray(y, np.float64)
        return request.param, (x, y), jax.jit(jax.vmap(with_gradients), compiler_options=UNOPTIMIZED)(*args)


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64], ids=lambda kind: kind.name)
def test_functions_have_the_values_and_gradients_of_jax(reference, dtype):
    group, numbers, expected = reference
    functions, traced = GROUPS[group], wp.jax_func(every_of(group))
    count = len(functions)
    results = wp.types.vector(count, dtype)

    @wp.kernel
    def k(x: wp.array[dtype], y: wp.array[dtype], z: wp.array[results]):
        i = wp.tid()
        z[i] = traced(x[i], y[i])

    with jax.enable_x64(dtype is wp.float64):
        x, y = (jnp.asarray(x, dtype.dtype) for x in numbers)
        # The rules of derivatives are the same for every type.
        if dtype is wp.float32:
            own = wp.jax_kernel(k)(x, y)
        else:
            found, back = jax.vjp(lambda x, y: wp.jax_kernel(k)(x, y)[0], x, y)
            one_by_one = jnp.zeros((count, 16, count), x.dtype) + jnp.eye(count, dtype=x.dtype)[:, None]
            own = found, *(gradient.T for gradient in jax.vmap(back)(one_by_one))
    tolerance = 500 * float(jnp.finfo(dtype.dtype).eps)
    for what, a, b in zip(("value", "gradient by x", "gradient by y"), own, expected, strict=False):
        for n in range(count):
            scale = max(1.0, float(np.abs(b[:, n]).max()))
            np.testing.assert_allclose(
                a[:, n], b[:, n], rtol=tolerance, atol=tolerance * scale, err_msg=f"{group}[{n}]: {what}"
            )
