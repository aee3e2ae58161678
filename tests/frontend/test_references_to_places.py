"""References to elements of arrays, fields and components: changed by a call, differentiated, refused."""

import jax.numpy as jnp
import numpy as np
import pytest
from warp_parity_references import meeting_references

import jwarp as wp


@wp.struct
class Body:
    v: wp.vec3
    n: int
    w: float


@wp.func
def scale(u: wp.ref[float], by: float):
    u = u * u * by


@wp.func
def derived(u: wp.ref[float], a: wp.array[float]):
    u += a[0]


@wp.func_grad(derived)
def adj_derived(u: float, a: wp.array[float]):
    pass


@wp.func
def both(u: wp.ref[float], v: wp.ref[float]):
    u, v = v, u


@wp.func
def at(k: wp.ref[int], u: wp.ref[float]):
    k += 1
    u += 1.0


@wp.func
def first(a: wp.array[int]):
    return a[0]


@wp.kernel
def changed(x: wp.array2d[float], bodies: wp.array[Body], r: wp.array[float]):
    i = wp.tid()
    scale(x[i, 1], x[i, 0])
    s = Body()
    s.w = x[i, 2]
    for k in range(3):
        scale(s.w, 0.5)
        s.v[k] = s.w
        scale(s.v[k], x[i, 0])
    both(x[i, 2], s.v.y)
    scale(bodies[i].w, 2.0)
    r[i] = s.v.x + s.v.y * s.v.z + s.w


def fn(x, bodies):
    return changed_fn(x, bodies)


changed_fn = wp.jax_kernel(changed, num_outputs=3, in_out_argnames=["x", "bodies"], output_dims={"r": 4}, launch_dims=4)


def test_a_call_changes_the_places_that_it_names():
    rng = np.random.default_rng(0)
    x, w = rng.uniform(0.5, 1.5, (4, 3)), rng.normal(size=4)
    bodies = Body(v=jnp.zeros((4, 3)), n=jnp.zeros(4, jnp.int32), w=jnp.asarray(w, jnp.float32))
    got_x, got_bodies, r = fn(jnp.asarray(x, jnp.float32), bodies)
    want, s, v = x.copy(), x[:, 2], []
    want[:, 1] = x[:, 1] ** 2 * x[:, 0]
    for _ in range(3):
        s = s * s * 0.5
        v.append(s * s * x[:, 0])
    want[:, 2] = v[1]
    np.testing.assert_allclose(got_x, want, rtol=1e-5)
    np.testing.assert_allclose(got_bodies.w, 2 * w * w, rtol=1e-5)
    np.testing.assert_allclose(r, v[0] + x[:, 2] * v[2] + s, rtol=1e-5)
    wp.check_grads(lambda x, w: fn(x, bodies.replace(w=w))[2], (jnp.asarray(x, jnp.float32), bodies.w))


def kernel_of(text, tmp_path):
    path = tmp_path / "refused.py"
    body = "".join(f"    {line}\n" for line in text.split("\n"))
    head = "def k(x: wp.array[float], n: wp.array[int]):\n"
    path.write_text(
        f"import jwarp as wp\nfrom {__name__} import at, both, derived, first, scale\n@wp.kernel\n{head}"
        f"    v = wp.vec3(1.0)\n{body}"
    )
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["k"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scale(1.0, 2.0)", "needs a variable"),
        ("scale(x[first(n)], 2.0)", "named with a call in it"),
        ("both(v[1], v[1])", "by two references"),
        ("k = n[0]\nat(k, v[k])", "gets `k` by a reference, and a part that is named with it"),
        ("both(v[0], v[n[0]])", "which may have something in common"),
        ("derived(x[0], x)", "`derived` gets `x` besides a reference to an element of it, and it has a derivative"),
    ],
)
def test_what_cannot_be_copied_back_is_refused(text, words, tmp_path):
    with pytest.raises(wp.CompileError, match=words):
        wp.inspect(kernel_of(text, tmp_path), "ir")


def test_derivatives_where_references_meet():
    """The kernel that Warp runs in test_against_warp."""
    rng = np.random.default_rng(2)
    a, b = (jnp.asarray(rng.integers(-100, 100, 64), jnp.int32) for _ in range(2))
    x, y = jnp.asarray(rng.normal(size=(2, 64)), jnp.float32)
    wp.check_grads(lambda x, y: wp.launch(meeting_references, 64, [a, b, x, y], [(1, 64), (14, 64)])[1], (x, y))
