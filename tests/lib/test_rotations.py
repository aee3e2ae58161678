"""Functions of quaternions, transforms and spatial vectors: values as Warp's, derivatives as differences have them.

Warp computes each function from Python, without compiling a kernel; what it has for one type of floats only, or gets
wrong, is compared with rotation matrices in float64.
"""

# Without postponed annotations: those of these kernels name variables.

import functools
import importlib.util
import itertools
import os
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.interpreter.machine import run

SUFFIXES = {"float32": "", "float64": "d", "float16": "h"}
ROUNDING = {"float32": 3e-6, "float64": 1e-13, "float16": 2e-2}
# What functions take and give: v vectors, q quaternions, n of length 1, m rotation matrices, t transforms with n,
# s spatial vectors, a numbers, k the axes 2, 0, 1; b matrices of 4 by 4, w as v of length 1.
FUNCTIONS = {
    "quat_from_axis_angle": ("wa", "q"),
    "quat_to_axis_angle": ("q", "va"),
    "quat_slerp": ("nna", "q"),
    "quat_to_matrix": ("q", "m"),
    "quat_from_matrix": ("m", "q"),
    "quat_rpy": ("aaa", "q"),
    "quat_to_rpy": ("n", "v"),
    "quat_from_euler": ("vk", "q"),
    "quat_to_euler": ("nk", "v"),
    "quat_inverse": ("q", "q"),
    "quat_rotate": ("qv", "v"),
    "quat_rotate_inv": ("qv", "v"),
    "quat_twist": ("wn", "q"),
    "quat_twist_angle": ("wn", "a"),
    "quat_twist_angle_signed": ("wn", "a"),
    "quat_between_vectors": ("vv", "q"),
    "normalize": ("q", "q"),
    "length": ("q", "a"),
    "length_sq": ("q", "a"),
    "dot": ("qq", "a"),
    "lerp": ("qqa", "q"),
    "transform_multiply": ("tt", "t"),
    "transform_inverse": ("t", "t"),
    "transform_point": ("tv", "v"),
    "transform_vector": ("tv", "v"),
    "transform_get_translation": ("t", "v"),
    "transform_get_rotation": ("t", "q"),
    "transform_to_matrix": ("t", "b"),
    "transform_from_matrix": ("b", "t"),
    "transform_compose": ("vnv", "b"),
    "transform_decompose": ("b", "vqv"),
    "spatial_top": ("s", "v"),
    "spatial_bottom": ("s", "v"),
    "spatial_dot": ("ss", "a"),
    "spatial_cross": ("ss", "s"),
    "spatial_cross_dual": ("ss", "s"),
    "spatial_adjoint": ("mm", "6"),
    "velocity_at_point": ("sv", "v"),
    "transform_twist": ("ts", "s"),
    "transform_wrench": ("ts", "s"),
}
TYPES = {"v": "vec3", "w": "vec3", "q": "quat", "n": "quat", "m": "mat33", "t": "transform", "s": "spatial_vector",
         "b": "mat44", "6": "spatial_matrix"}  # fmt: skip
AXES = (2, 0, 1)
SOME = ("quat_slerp", "quat_from_matrix", "quat_to_euler")
# Of Warp for float32 only.
NARROW = ("quat_to_rpy", "euler", "twist", "between", "velocity", "wrench")


def type_of(letter, dtype):
    return getattr(wp, TYPES[letter] + SUFFIXES[dtype]) if letter in TYPES else getattr(wp, dtype)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def matrices(q):
    """Rotation matrices of quaternions of length 1."""
    u, w = q[..., :3], q[..., 3, None]

    def column(k):
        e = np.eye(3)[k] * np.ones_like(u)
        return e + 2 * np.cross(u, np.cross(u, e) + w * e)

    return np.stack([column(k) for k in range(3)], -1)


def random_of(letter, n, rng):
    x = rng.normal(size=(n, {"v": 3, "w": 3, "s": 6, "t": 7}.get(letter, 4)))
    if letter == "m":
        return matrices(unit(x))
    if letter == "b":
        return np.concatenate(
            [np.concatenate([matrices(unit(x)), x[:, 1:, None]], -1), np.tile(np.eye(4)[3:], (n, 1, 1))], 1
        )
    if letter == "t":
        return np.concatenate([x[:, :3], unit(x[:, 3:])], -1)
    if letter == "a":
        return x[:, 0]
    return unit(x) if letter in "nw" else x


@dataclass(frozen=True)
class Calls:
    """A kernel that calls some functions for each thread; an array for each argument and result: name and letter."""

    names: tuple[str, ...]
    kernel: object
    inputs: dict
    outputs: dict


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Kernels for each type of floats, which call the functions one by one."""

    @functools.cache
    def made(dtype, *halves):
        halves = halves or [tuple(FUNCTIONS)[k::2] for k in range(2)]
        parts = [written(names, dtype, number) for number, names in enumerate(halves)]
        path = tmp_path_factory.mktemp(dtype) / f"functions_{dtype}.py"
        path.write_text("import jwarp as wp\n\n" + "\n\n".join(text for text, _, _ in parts))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return [Calls(names, getattr(module, f"k{number}"), *parts[number][1:]) for number, names in enumerate(halves)]

    return made


def written(names, dtype, number):
    """The text of a kernel, its inputs and its outputs."""
    lines, inputs, outputs = [], {}, {}
    for name in names:
        takes, gives = FUNCTIONS[name]
        inputs |= {f"{name}_{k}": x for k, x in enumerate(takes) if x != "k"}
        results = {f"{name}_{len(takes) + k}": x for k, x in enumerate(gives)}
        outputs |= results
        given = (f"{name}_{k}[i]" if x != "k" else str(AXES)[1:-1] for k, x in enumerate(takes))
        lines.append(f"    {', '.join(f'{r}[i]' for r in results)} = wp.{name}({', '.join(given)})\n")
    params = ", ".join(f"{n}: wp.array[wp.{type_of(x, dtype)!r}]" for n, x in (inputs | outputs).items())
    return f"@wp.kernel\ndef k{number}({params}):\n    i = wp.tid()\n{''.join(lines)}", inputs, outputs


def value_of_warp(warp, letter, value, dtype):
    name = TYPES[letter] + SUFFIXES[dtype] if letter in TYPES else dtype
    return getattr(warp, name)(*np.asarray(value, dtype).ravel())


def numbers(result, like):
    """Warp's result as an array; halves come as their bits."""
    found = np.asarray(result if hasattr(result, "__len__") else getattr(result, "value", result))
    return (found.view(np.float16) if found.dtype == np.uint16 else found.astype(float)).reshape(like.shape)


def moved(first, last):
    """A reference for what Warp does in kernels only: both halves turned, and one moved by the other."""

    def reference(t, x):
        turned = [matrices(t[3:]) @ half for half in (x[:3], x[3:])]
        turned[last] = turned[last] + np.cross(t[:3], turned[first])
        return np.concatenate(turned)

    return reference


REFERENCES = {
    "transform_twist": moved(0, 1),
    "transform_wrench": moved(1, 0),
    "spatial_adjoint": lambda r, s: np.block([[r, np.zeros((3, 3))], [s, r]]),
}


@pytest.mark.parametrize("dtype", SUFFIXES)
def test_values_are_those_of_warp(calls, dtype):
    warp = pytest.importorskip("warp")
    warp.config.quiet = True
    warp.init()
    rng, n = np.random.default_rng(1), 6
    for part in calls(dtype):
        inputs = {name: random_of(x, n, rng).astype(dtype) for name, x in part.inputs.items()}
        blank = [np.zeros((n, *getattr(type_of(x, dtype), "shape", ())), dtype) for x in part.outputs.values()]
        made = run(part.kernel.ir(), (n,), [*inputs.values(), *blank])[len(inputs) :]
        results = dict(zip(part.outputs, made, strict=True))
        for name, i in itertools.product(part.names, range(n)):
            takes, gives = FUNCTIONS[name]
            known = "float32" if any(text in name for text in NARROW) else dtype
            tolerance = max(ROUNDING[known], ROUNDING[dtype])
            given = [(x, inputs[f"{name}_{k}"][i]) for k, x in enumerate(takes) if x != "k"]
            if name in REFERENCES:
                found = REFERENCES[name](*(np.asarray(value, float) for _, value in given))
            else:
                axes = AXES if "k" in takes else ()
                found = getattr(warp, name)(*(value_of_warp(warp, *pair, known) for pair in given), *axes)
            for k, wanted in enumerate(found if len(gives) > 1 else (found,)):
                got = results[f"{name}_{len(takes) + k}"][i]
                wanted = numbers(wanted, got)
                np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance, err_msg=name)


def derivatives(part, inputs, step=1e-5):
    """Assert that those of a kernel are what differences in a random direction have, by function and thread."""
    rng, n = np.random.default_rng(3), len(next(iter(inputs.values())))
    directions = {name: rng.normal(size=x.shape) for name, x in inputs.items()}
    results = wp.launch(part.kernel, n, [inputs[name] for name in part.inputs], [n] * len(part.outputs))
    weights = dict(zip(part.outputs, (rng.normal(size=r.shape) for r in results), strict=True))

    def moved(h):
        return {name: x + h * directions[name] for name, x in inputs.items()}

    def by_function(arrays, factors):
        """The sum of the products of the components of all arrays of a function, for each thread."""
        sums = dict.fromkeys(part.names, 0.0)
        for name, x in arrays.items():
            sums[name.rpartition("_")[0]] += (x * factors[name]).reshape(n, -1).sum(1)
        return sums

    def values(inputs):
        results = wp.launch(part.kernel, n, [inputs[name] for name in part.inputs], [n] * len(part.outputs))
        return by_function(dict(zip(part.outputs, results, strict=True)), weights)

    def difference(f):
        return jax.tree.map(lambda high, low: (high - low) / (2 * step), f(moved(step)), f(moved(-step)))

    gradient = jax.jit(jax.grad(lambda inputs: sum(jnp.sum(v) for v in values(inputs).values())))
    first, g = difference(values), gradient(inputs)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(g))
    for found in (by_function(g, directions), jax.jvp(values, (inputs,), (directions,))[1]):
        for name in part.names:
            np.testing.assert_allclose(found[name], first[name], rtol=1e-6, atol=1e-6, err_msg=name)
    second, found = difference(gradient), jax.jvp(gradient, (inputs,), (directions,))[1]
    for name in inputs:
        np.testing.assert_allclose(found[name], second[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_first_and_second_derivatives(calls):
    """Of some; of all in a long run."""
    rng, long = np.random.default_rng(2), "JWARP_FUZZ" in os.environ
    with jax.enable_x64(True):
        for part in calls("float64", *(() if long else (SOME,))):
            inputs = {name: random_of(x, 4, rng) for name, x in part.inputs.items()}
            if "quat_slerp_0" in inputs:  # between the same, opposite, and nearly the same quaternions
                a, b = inputs["quat_slerp_0"], inputs["quat_slerp_1"]
                b[:3] = a[0], -a[1], unit(a[2] + 1e-3 * b[2])
            if "quat_from_matrix_0" in inputs:  # in each of the four ways
                inputs["quat_from_matrix_0"] = matrices(unit(np.eye(4) + 0.1 * random_of("q", 4, rng)))
            derivatives(part, inputs)


@wp.kernel
def singular(
    q: wp.array[wp.quat], r: wp.array[wp.quat], v: wp.array[wp.vec3], m: wp.array[wp.mat44], o: wp.array2d[wp.quat],
    x: wp.array2d[wp.vec3],
):  # fmt: skip
    i = wp.tid()
    axis, angle = wp.quat_to_axis_angle(q[i])
    p, n, s = wp.transform_decompose(m[i])
    o[i, 0] = wp.quat_slerp(q[i], r[i], 0.3)
    o[i, 1] = wp.quat_between_vectors(v[i], -v[i])
    o[i, 2] = wp.normalize(q[i]) + n
    o[i, 3] = wp.quat_twist(v[i], q[i])
    o[i, 4] = wp.quat_from_axis_angle(axis, angle)
    x[i, 0] = wp.quat_to_rpy(q[i])
    x[i, 1] = wp.quat_to_euler(q[i], 0, 1, 2)
    x[i, 2] = wp.vec3(wp.quat_twist_angle(v[i], q[i]), wp.quat_twist_angle_signed(v[i], q[i]), angle)
    x[i, 3] = p + s


def test_where_angles_and_axes_are_not_unique():
    """No turn, half turns, gimbal lock, zeros: values and derivatives are finite."""
    h = np.sqrt(0.5)
    q = np.array([[0, 0, 0, 1], [0, 0, 0, -1], [1, 0, 0, 0], [0, h, 0, h], [0, -h, 0, h], [0, 0, 0, 0]], np.float32)
    r = q[[0, 0, 3, 4, 3, 5]]
    v = np.array([[0, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0], [0.6, 0.8, 0], [0, 0, 2]], np.float32)
    m = np.zeros((6, 4, 4), np.float32)

    def results(*inputs):
        return wp.launch(singular, 6, inputs, [(6, 5), (6, 4)])

    o, _ = results(q, r, v, m)
    gradient = jax.grad(lambda inputs: sum((y**2).sum() for y in results(*inputs)))((q, r, v, m))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((results(q, r, v, m), gradient)))
    # Opposite directions: half a turn about an axis perpendicular to them.
    np.testing.assert_allclose(matrices(np.asarray(o[2:5, 1])) @ v[2:5, :, None], -v[2:5, :, None], atol=1e-6)
    np.testing.assert_allclose(o[5, 2], [0, 0, 0, 2])  # of zeros: nothing turned


def test_euler_angles_of_any_length():
    """Angles and their derivatives at every scale are those of a quaternion of length 1, over the scale."""

    @wp.kernel
    def angles(q: wp.array[wp.quat], e: wp.array[wp.vec3]):
        i = wp.tid()
        e[i] = wp.quat_to_euler(q[i], 0, 1, 2)

    f = lambda q: wp.jax_kernel(angles)(q)[0]  # noqa: E731
    q = jnp.asarray(unit(np.random.default_rng(0).normal(size=(8, 4))), jnp.float32)
    g = jnp.asarray(np.random.default_rng(1).normal(size=(8, 3)), jnp.float32)
    known, slope = f(q), jax.vjp(f, q)[1](g)[0]
    for scale in (1e-30, 1e-20, 1e20, 1e30):
        x = q * np.float32(scale)
        np.testing.assert_allclose(f(x), known, rtol=1e-4, atol=1e-5)
        found = jax.vjp(f, x)[1](g)[0] * np.float32(scale)
        np.testing.assert_allclose(found, slope, rtol=1e-3, atol=1e-3 * float(abs(slope).max()))
        forward = jax.jvp(f, (x,), (x,))[1]
        np.testing.assert_allclose(forward, np.zeros_like(known), atol=1e-4)
