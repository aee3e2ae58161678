"""Quaternions, transforms and spatial vectors in kernels: made, changed, passed, printed; and outside of kernels."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from error_checks import C, T, check

import jwarp as wp


@wp.struct
class Body:
    x: wp.transform
    v: wp.spatial_vector


@wp.kernel
def places(
    a: wp.array[wp.transform], b: wp.array[Body], q: wp.quat, t: wp.transform, i: int, o: wp.array[wp.quat]
):  # fmt: skip
    a[0].p += wp.vec3(1.0, 2.0, 3.0)
    a[0].p[1] = 5.0
    a[0].q = q
    a[1].q.w = 7.0
    a[1].p[i] = 8.0
    a[1].q[i - 1] += 1.0
    a[1].p[i + 2] = 99.0  # outside of p: nothing
    a[1] += t
    wp.transform_set_rotation(a[2], q)
    b[0].x.p = t.p
    b[0].x.q[2] = 4.0
    s = b[0]
    s.x.p.y = 9.0
    s.x.q = q * q
    s.v[3:6] = t.p
    b[1] = s
    u = t
    wp.transform_set_translation(u, wp.vec3(1.0, 1.0, 1.0))
    wp.transform_set_rotation(xform=u, q=-q)
    u.p[i] *= 3.0
    o[0] = u.q
    x, y, z, w = q
    o[1] = wp.quat(y, x, w, z)
    o[2] = wp.quat(q[0:3], u.p[1])
    o[3] -= q
    wp.atomic_sub(o, 4, q)
    o[5] *= q
    r = q
    r *= 2.0
    r.z += t.p.x
    o[6] = r


@pytest.mark.quick
def test_parts_and_components_are_read_and_assigned():
    a, o = np.zeros((3, 7), np.float32), np.ones((7, 4), np.float32)
    b = Body(x=np.zeros((2, 7), np.float32), v=np.zeros((2, 6), np.float32))
    wp.launch(places, 1, [a, b, wp.quat(1.0, 2.0, 3.0, 4.0), (1, 2, 3, 4, 5, 6, 7), 1, o])
    np.testing.assert_array_equal(a[0], [1, 5, 3, 1, 2, 3, 4])
    np.testing.assert_array_equal(a[1], [1, 10, 3, 5, 5, 6, 14])
    np.testing.assert_array_equal(a[2], [0, 0, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(b.x, [[1, 2, 3, 0, 0, 4, 0], [1, 9, 3, 8, 16, 24, 2]])
    np.testing.assert_array_equal(b.v, [[0] * 6, [0, 0, 0, 1, 2, 3]])
    expected = [[-1, -2, -3, -4], [2, 1, 4, 3], [1, 2, 3, 3], [0, -1, -2, -3], [0, -1, -2, -3], [6, 4, 8, -2]]
    np.testing.assert_array_equal(o, [*expected, [2, 4, 7, 8]])


@wp.kernel
def made(o: wp.array[wp.transform], s: wp.array[wp.spatial_vectord], w: wp.vec3d, p: wp.vec3, q: wp.quat):
    o[0] = wp.transform()
    o[1] = wp.transform(2.0)
    o[2] = wp.transform(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    o[3] = wp.transform(p)
    o[4] = wp.transform(p, q)
    o[5] = wp.transform(p=p, q=wp.quat(w=1.0, x=2.0, y=3.0, z=4.0))
    o[6] = wp.transform(*p, *q)
    o[7] = wp.transformation(p, q, dtype=float)
    o[8] = wp.transformation(p, wp.quaternion(p, 5.0))
    o[9] = wp.transform(wp.transformd(o[8]))
    o[10] = wp.transform_identity()
    o[11] = wp.transformf(p, wp.quat(wp.quatd(q)))
    o[12] = wp.transform(p, wp.quat(ijk=p, real=q.w))
    s[0] = wp.spatial_vector(w, w)
    s[1] = wp.spatial_vectord(w=w, v=-w)
    s[2] = wp.spatial_vector(dtype=wp.float64) + wp.spatial_vectord(wp.float64(3.0))


@pytest.mark.quick
def test_every_form_of_a_constructor():
    w, p, q = (0.1, 0.2, 0.3), (1.0, 2.0, 3.0), (4.0, 5.0, 6.0, 7.0)
    o, s = np.zeros((13, 7), np.float32), np.zeros((3, 6))
    wp.launch(made, 1, outputs={"o": o, "s": s}, inputs={"w": w, "p": p, "q": q})
    pq = (*p, *q)
    expected = [[0] * 7, [2] * 7, range(1, 8), (*p, 0, 0, 0, 1), pq, (*p, 2, 3, 4, 1), pq, pq, (*p, *p, 5), (*p, *p, 5)]
    np.testing.assert_array_equal(o, [*map(list, expected), [0] * 6 + [1], list(pq), [*p, *p, 7]])
    np.testing.assert_array_equal(s, [(*w, *w), (*w, -0.1, -0.2, -0.3), [3] * 6])


@wp.kernel
def operators(q: wp.quatd, r: wp.quatd, t: wp.transformd, u: wp.transformd, k: wp.float64, o: wp.array[wp.transformd]):
    same = t == t and q == q and t != u and q != r
    o[0] = t * u
    o[1] = wp.mul(t, k) + k * u - -t
    o[2] = wp.transform_multiply(t, wp.transformation(u.p, (q * r / k + k / q) * k))
    o[3] = wp.lerp(t, u, k)
    if same and wp.isfinite(t) and not wp.isnan(q):
        o[4] = wp.where(k > k, t, +u)


def numpy_product(q, r):
    u, v = q[:3], r[:3]
    return jnp.append(q[3] * v + r[3] * u + jnp.cross(u, v), q[3] * r[3] - u @ v)


def numpy_chain(t, u):
    v, w = t[3:6], t[6]
    x = u[:3]
    turned = (2 * w * w - 1) * x + 2 * (v @ x) * v + 2 * w * jnp.cross(v, x)
    return jnp.concatenate([t[:3] + turned, numpy_product(t[3:], u[3:])])


def expected_operators(q, r, t, u, k):
    mixed = (numpy_product(q, r) / k + k / q) * k
    first, third = numpy_chain(t, u), numpy_chain(t, jnp.append(u[:3], mixed))
    return jnp.stack([first, t * k + k * u + t, third, t * (1 - k) + u * k, u])


def test_operators_by_value_with_derivatives_and_batches():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        operators_fn = wp.jax_kernel(operators, launch_dims=1, output_dims=5)
        given = [rng.normal(size=(3, n)) for n in (4, 4, 7, 7)] + [rng.normal(size=3)]
        weights = rng.normal(size=(5, 7))

        def both(f):
            def weighted(*x):
                return (f(*x) * weights).sum()

            return jax.vmap(jax.value_and_grad(weighted, argnums=(0, 1, 2, 3, 4)))(*given)

        found, wanted = both(lambda *x: operators_fn(*x)[0]), both(expected_operators)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12), found, wanted)


@wp.kernel
def shown(t: wp.transform, s: wp.spatial_vector):
    print(t)
    print("turned by", t.q)
    print(s)


def test_prints_are_those_of_warp(capfd):
    wp.launch(shown, 1, [(1, 2, 3, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6)])
    assert capfd.readouterr().out == "(1 2 3) (4 5 6 7)\nturned by 4 5 6 7\n1 2 3 4 5 6 \n"


class TestOutsideKernels:
    q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5)
    t = wp.transform(wp.vec3(1.0, 2.0, 3.0), q)

    def test_what_values_are(self):
        np.testing.assert_array_equal(wp.transform(), [0, 0, 0, 0, 0, 0, 1])
        np.testing.assert_array_equal(wp.transform((1, 2, 3)), [1, 2, 3, 0, 0, 0, 1])
        np.testing.assert_array_equal(wp.transform(p=(1, 2, 3), q=wp.quat(4, 5, 6, 7)), range(1, 8))
        np.testing.assert_array_equal(wp.quat(wp.vec3(1, 2, 3), 4), [1, 2, 3, 4])
        np.testing.assert_array_equal(wp.spatial_vector((1, 2, 3), (4, 5, 6)), range(1, 7))
        assert wp.spatial_matrix().shape == (6, 6)
        assert repr(wp.quatd(1, 2, 3, 4)) == "quatd([1., 2., 3., 4.])"
        assert wp.spatial_vector is wp.types.vector(6, float) and wp.quat is wp.types.quaternion(float)
        assert wp.transform is wp.transformf is wp.types.transformation(wp.float32)
        for text, given in (("4 elements", lambda: wp.quat(1.0)), ("sequence, got int", lambda: wp.transform(1, 2))):
            with pytest.raises(wp.KernelTypeError, match=text):
                given()

    def test_parts_are_views(self):
        t = self.t.copy()
        t.p[0], t.q, t.p.y = 9.0, wp.quat_identity(), 8.0
        np.testing.assert_array_equal(t, [9, 8, 3, 0, 0, 0, 1])
        assert t.q.w == 1.0 and repr(t.p) == "vec3([9., 8., 3.])" and wp.vec2(1, 2).y == 2
        with pytest.raises(AttributeError):
            t.x  # noqa: B018
        for again in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
            assert repr(again) == repr(t)

    def test_operators_are_those_of_kernels(self):
        q, t = self.q, self.t
        np.testing.assert_allclose(q * q, wp.quat_rpy(0.0, 0.0, 1.0), rtol=1e-6)
        np.testing.assert_allclose(t * wp.transform_inverse(t), wp.transform_identity(), atol=1e-6)
        np.testing.assert_allclose((2.0 * q + q * np.float32(2) - q) / 3.0, q, rtol=1e-6)
        r = q.copy()
        r *= q
        np.testing.assert_array_equal(r, q * q)
        assert isinstance(q * 2, type(q)) and np.shape(q[0:3] * q[0:3]) == (3,)
        for call in (lambda: q * wp.vec3(), lambda: t * t.p, lambda: q / q, lambda: q @ q):
            with pytest.raises(wp.KernelTypeError, match="does not take"):
                call()

    def test_functions_take_numbers(self):
        axis, angle = wp.quat_to_axis_angle(self.q)
        np.testing.assert_allclose([*axis, angle], [0, 0, 1, 0.5], rtol=1e-6)
        np.testing.assert_allclose(wp.transform_point(self.t, (1.0, 0.0, 0.0)), [1.87758, 2.47943, 3.0], rtol=1e-5)
        np.testing.assert_allclose(wp.quat_slerp(self.q, wp.quat_identity(), t=1.0), [0, 0, 0, 1], atol=1e-7)
        assert wp.quat_identity(dtype=wp.float64).dtype == np.float64
        assert wp.length(wp.vec3(3, 4, 0)) == 5.0 and wp.cross((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))[2] == 1.0
        for call in (wp.tid, lambda: wp.printf("x")):
            with pytest.raises(wp.KernelTypeError, match="can only be called in"):
                call()
        with pytest.raises(wp.KernelTypeError, match=r"no overload of `transform_point` takes \(transform, vec3d\)"):
            wp.transform_point(self.t, wp.vec3d())

    def test_parts_are_set_by_the_functions_that_kernels_have(self):
        t = wp.transform()
        wp.transform_set_translation(t, wp.vec3(1.0, 2.0, 3.0))
        wp.transform_set_rotation(q=self.q, xform=t)
        np.testing.assert_array_equal(t, [1.0, 2.0, 3.0, *self.q])
        assert bytes(t) == np.asarray(t).tobytes()
        with pytest.raises(wp.KernelTypeError, match="changes a transform, not an object of type vec3f"):
            wp.transform_set_translation(wp.vec3(), wp.vec3())
        with pytest.raises(ValueError):
            wp.transform_set_translation(t, wp.vec2(1.0, 2.0))
        np.testing.assert_array_equal(t.p, [1.0, 2.0, 3.0])

    def test_kernels_capture_them(self):
        q, t = self.q, self.t

        @wp.kernel
        def k(o: wp.array[wp.transform]):
            o[0] = t * wp.transform(t.p, q)

        np.testing.assert_allclose(wp.launch(k, 1, outputs=[1])[0][0], t * t, rtol=1e-6)


KERNEL = """import jwarp as wp

@wp.kernel
def k(q: wp.quat, r: wp.quatd, t: wp.transform, v: wp.vec3, w: wp.vec3d, x: float, a: wp.array[wp.quat]):
"""

# As in test_composite_errors.py.
BODIES = {
    "quaternion by vector": ("u = «q * v»", T, "`*` does not take (quat, vec3)", "wp.quat_rotate(q, v)"),
    "transform by vector": ("u = «t * v»", T, "`*` does not take (transform, vec3)", "wp.transform_point(t, p)"),
    "two types of floats": ("u = «q * r»", T, "`*` needs", ""),
    "rotation of another type": ("u = «wp.quat_rotate(q, w)»", T, "a quat and a vector of 3 of one type of floats", ""),
    "library with two types": ("u = wp.quat_slerp(q, «r», x)", T, "`b` of `quat_slerp` must be quat, not quatd", ""),
    "library with an integer": (
        "u = wp.quat_slerp(q, q, «1»)",
        T,
        "`t` of `quat_slerp` must be float32, not int32",
        "",
    ),
    "quaternion of one number": (
        "u = «wp.quat(x)»",
        T,
        "quat has 4 components: incompatible number of values given (1)",
        "",
    ),
    "quaternion of a vector": ("u = «wp.quat(wp.vec4(x, x, x, x))»", T, "vec4 cannot become quat", ""),
    "transform of the wrong parts": ("u = «wp.transform(v, v)»", T, "made of (vec3, quat), not of (vec3, vec3)", ""),
    "transform of another type": ("u = «wp.transform(w, r)»", T, "made of (vec3, quat), not of (vec3d, quatd)", ""),
    "spatial vector of two types": ("u = «wp.spatial_vector(v, w)»", T, "needs vectors of one type", ""),
    "components of transforms": ("u = «t.x»", T, "`x` is not an attribute of transform", ""),
    "unknown keyword": ("u = «wp.quat(a=x)»", C, "takes no keyword arguments but (x, y, z, w)", ""),
    "integers": ("u = «wp.quaternion(1, 2, 3, 4)»", T, "wp.quaternion needs floats, not int32", ""),
    "position, rotation and scale": ("u = «wp.matrix(v, q, v)»", T, "wp.matrix does not take", "transform_compose"),
    "function of scalars": ("u = «wp.abs(q)»", T, "wp.abs does not take (quat)", ""),
    "smallest of quaternions": ("«wp.atomic_min(a, 0, q)»", T, "wp.atomic_min does not take quat", ""),
    "order": ("u = «q < q»", T, "`<` does not take (quat, quat)", "components"),
    "part that there is not": ("«t.r» = q", T, "`r` is not an attribute of transform", ""),
    "wrong type for a part": ("t.q = «v»", T, "expects value of type quat in `t`, got vec3", ""),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_mistake(name, tmp_path):
    text, error, words, hint = BODIES[name]
    check(f"{KERNEL}    {text}\n", error, words, hint, tmp_path)
