"""`warp.fem` of an installed Warp runs as it is: matrices, vectors, solutions and gradients of bilinear elements."""

from __future__ import annotations

import textwrap

import pytest
from fresh_python import run_program

warp = pytest.importorskip("warp")
if warp.config.version != "1.19.0":
    pytest.skip("jwarp runs the Python of Warp 1.19", allow_module_level=True)

ELEMENTS = '''
import numpy as np
import warp as wp
import warp.fem as fem

N = 4
rng = np.random.default_rng(7)


def reference(coefficient):
    """Stiffness and mass matrix of the unit square, cut into N by N, by four points of Gauss in each."""
    h, count = 1.0 / N, (N + 1) ** 2
    stiffness, mass = np.zeros((count, count)), np.zeros((count, count))
    points = 0.5 + np.array([-1.0, 1.0]) / (2.0 * np.sqrt(3.0))
    for i, j in np.ndindex(N, N):
        nodes = [(i + a) * (N + 1) + (j + b) for a in (0, 1) for b in (0, 1)]
        for x in points:
            for y in points:
                value = np.array([(x if a else 1 - x) * (y if b else 1 - y) for a in (0, 1) for b in (0, 1)])
                grad = np.array([
                    ((1 if a else -1) * (y if b else 1 - y) / h, (x if a else 1 - x) * (1 if b else -1) / h)
                    for a in (0, 1) for b in (0, 1)
                ])
                k = coefficient((i + x) * h, (j + y) * h)
                stiffness[np.ix_(nodes, nodes)] += 0.25 * h * h * k * grad @ grad.T
                mass[np.ix_(nodes, nodes)] += 0.25 * h * h * np.outer(value, value)
    return stiffness, mass


def dense(matrix):
    found = np.zeros((matrix.nrow, matrix.ncol))
    offsets, columns, values = matrix.offsets.numpy(), matrix.columns.numpy(), matrix.values.numpy()
    for row in range(matrix.nrow):
        for k in range(offsets[row], offsets[row + 1]):
            found[row, columns[k]] += values[k]
    return found


@wp.func
def conductivity(x: wp.vec2d, base: wp.float64):
    return base + x[0] * x[1]


@fem.integrand
def diffusion(s: fem.Sample, domain: fem.Domain, u: fem.Field, v: fem.Field, base: wp.float64):
    return conductivity(domain(s), base) * wp.dot(fem.grad(u, s), fem.grad(v, s))


@fem.integrand
def load(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    return v(s) * domain(s)[0]


@fem.integrand
def on_the_left(s: fem.Sample, domain: fem.Domain, u: fem.Field, v: fem.Field):
    return u(s) * v(s) * wp.max(wp.float64(0.0), -fem.normal(domain, s)[0])


@fem.integrand
def square(s: fem.Sample, u: fem.Field):
    return u(s) * u(s)


geometry = fem.Grid2D(res=wp.vec2i(N, N), scalar_type=wp.float64)
space = fem.make_polynomial_space(geometry, degree=1)
domain = fem.Cells(geometry)
quadrature = fem.RegularQuadrature(domain, order=3)
test, trial = fem.make_test(space, domain=domain), fem.make_trial(space, domain=domain)
'''

SOLUTION = """
stiffness, mass = reference(lambda x, y: 0.5 + x * y)
matrix = fem.integrate(diffusion, quadrature=quadrature, fields={"u": trial, "v": test},
                       values={"base": wp.float64(0.5)}, output_dtype=wp.float64)
rhs = fem.integrate(load, quadrature=quadrature, fields={"v": test}, output_dtype=wp.float64)
np.testing.assert_allclose(dense(matrix), stiffness, rtol=1e-12, atol=1e-13)
x = np.repeat(np.linspace(0.0, 1.0, N + 1), N + 1)
np.testing.assert_allclose(rhs.numpy(), mass @ x, rtol=1e-12, atol=1e-14)

sides = fem.BoundarySides(geometry)
projector = fem.integrate(
    on_the_left, assembly="nodal", output_dtype=wp.float64,
    fields={"u": fem.make_trial(space, domain=sides), "v": fem.make_test(space, domain=sides)},
)
fem.project_linear_system(matrix, rhs, projector)
free = np.arange(N + 1, (N + 1) ** 2)
expected = np.zeros((N + 1) ** 2)
expected[free] = np.linalg.solve(stiffness[np.ix_(free, free)], (mass @ x)[free])
solution = wp.zeros_like(rhs)
wp.optim.linear.cg(matrix, rhs, solution, tol=1e-12)
np.testing.assert_allclose(solution.numpy(), expected, rtol=1e-9, atol=1e-11)
"""

GRADIENT = """
_, mass = reference(lambda x, y: 1.0)
field = space.make_field()
numbers = rng.normal(size=space.node_count())
field.dof_values = wp.array(numbers, dtype=wp.float64, requires_grad=True)
result = wp.zeros(1, dtype=wp.float64, requires_grad=True)
with wp.Tape() as tape:
    fem.integrate(square, quadrature=quadrature, fields={"u": field}, output=result,
                  kernel_options={"enable_backward": True})
tape.backward(result)
np.testing.assert_allclose(result.numpy()[0], numbers @ mass @ numbers, rtol=1e-12)
np.testing.assert_allclose(field.dof_values.grad.numpy(), 2.0 * mass @ numbers, rtol=1e-11, atol=1e-14)

"""

POOL = """
store = fem.TemporaryStore()
fem.set_default_temporary_store(store)
first = fem.borrow_temporary(store, shape=(5,), dtype=wp.vec3)
first.fill_(wp.vec3(1.0, 2.0, 3.0))
address = first.ptr
first.release()
again = fem.borrow_temporary(store, shape=(4,), dtype=wp.vec3)
assert again.ptr == address and again.shape == (4,)
again.zero_()
del again
kept = fem.borrow_temporary(store, shape=(2, 2), dtype=wp.vec3)
kept.detach()
kept.fill_(wp.vec3(4.0))
other = fem.borrow_temporary(store, shape=(4,), dtype=wp.vec3, requires_grad=True)
assert other.ptr != kept.ptr and other.grad.ptr not in (kept.ptr, other.ptr)
other.zero_()
assert (kept.numpy() == 4.0).all() and (other.grad.numpy() == 0.0).all()
for _ in range(2):  # with temporaries from the pool
    found = fem.integrate(square, domain=domain, fields={"u": fem.UniformField(domain, wp.float64(3.0))},
                          output_dtype=wp.float64)
    np.testing.assert_allclose(found, 9.0, rtol=1e-12)
"""


DERIVATIVES = """
import jax
import jax.numpy as jnp
import jwarp

jax.config.update("jax_enable_x64", True)


@fem.integrand
def stiffness(s: fem.Sample, u: fem.Field, v: fem.Field, k: fem.Field):
    return k(s) * wp.dot(fem.grad(u, s), fem.grad(v, s))


@fem.integrand
def source(s: fem.Sample, v: fem.Field, f: wp.float64):
    return f * v(s)


@fem.integrand
def edge(s: fem.Sample, u: fem.Field, v: fem.Field):
    return u(s) * v(s)


corners = fem.make_polynomial_space(geometry, degree=1, dtype=wp.vec2d).make_field()
start = corners.space.node_positions().numpy()
count = len(start)
options = {"output_dtype": wp.float64, "kernel_options": {"enable_backward": True}}


def solution(k: wp.array(dtype=wp.float64), at_edge: wp.array(dtype=wp.float64), places: wp.array(dtype=wp.vec2d)):
    # The solution of -div(k grad u) = 2 on a mesh with nodes at `places`, which is `at_edge` on its boundary.
    corners.dof_values = places
    shape = corners.make_deformed_geometry(relative=False)
    space = fem.make_polynomial_space(shape, degree=1, dtype=wp.float64)
    coefficient = space.make_field()
    coefficient.dof_values = k
    cells, sides = fem.Cells(shape), fem.BoundarySides(shape)
    test, trial = fem.make_test(space, domain=cells), fem.make_trial(space, domain=cells)
    A = fem.integrate(stiffness, fields={"u": trial, "v": test, "k": coefficient}, **options)
    b = fem.integrate(source, fields={"v": test}, values={"f": wp.float64(2.0)}, **options)
    on_sides = {"u": fem.make_trial(space, domain=sides), "v": fem.make_test(space, domain=sides)}
    projector = fem.integrate(edge, fields=on_sides, assembly="nodal", output_dtype=wp.float64)
    fem.project_linear_system(A, b, projector, at_edge)
    x = wp.zeros_like(b)
    wp.optim.linear.cg(A, b, x, tol=1e-14)
    return x


solve = jwarp.functionalize(solution)
weights = jnp.asarray(rng.normal(size=count))
value = jax.jit(lambda *args: weights @ jwarp.to_jax(solve(*args)[0]))
at = [jnp.asarray(rng.uniform(1.0, 2.0, count)), jnp.asarray(rng.normal(size=count)),
      jnp.asarray(start + 0.02 * rng.normal(size=start.shape))]
eager = solution(*(wp.array(np.asarray(a), dtype=t) for a, t in zip(at, (wp.float64, wp.float64, wp.vec2d))))
np.testing.assert_allclose(value(*at), np.asarray(weights) @ eager.numpy(), rtol=1e-9)
gradients = jax.jit(jax.grad(value, argnums=(0, 1, 2)))(*at)
for number, gradient in enumerate(gradients):
    along = jnp.asarray(rng.normal(size=gradient.shape))
    near = [value(*(a + h * along if k == number else a for k, a in enumerate(at))) for h in (1e-5, -1e-5)]
    difference = (near[0] - near[1]) / 2e-5
    np.testing.assert_allclose(jnp.vdot(gradient, along), difference, rtol=1e-6)
both = jax.vmap(lambda s: value(s * at[0], *at[1:]))(jnp.array([1.0, 2.0]))
np.testing.assert_allclose(both, [value(at[0], *at[1:]), value(2.0 * at[0], *at[1:])], rtol=1e-9)
"""


def run(text, folder):
    program = folder / "program.py"
    program.write_text(ELEMENTS + textwrap.dedent(text))
    assert "Warning" not in run_program(program)


@pytest.mark.parametrize(
    "text", [SOLUTION, GRADIENT, POOL, DERIVATIVES], ids=["solution", "gradient", "pool", "derivatives"]
)
def test_elements_give_what_numpy_gives(text, tmp_path):
    run(text, tmp_path)
