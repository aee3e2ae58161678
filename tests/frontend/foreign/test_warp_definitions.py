"""How kernels come to be defined with NVIDIA Warp: closures, classes, generics, instances; and what is refused."""

from __future__ import annotations

import ast
import copy
import gc
import importlib
import importlib.util
import pickle
import sys
import types
import weakref
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp
from jwarp.frontend.foreign.kernels import as_kernel

wp = pytest.importorskip("warp")
wp.config.quiet = True

X = np.arange(1.0, 5.0, dtype=np.float32)
N = len(X)

vec5 = wp.types.vector(length=5, dtype=wp.float32)
names = types.SimpleNamespace(factor=2.0, kinds={"a": 3.0}, text="a")


def run(kernel, *inputs, shape=N):
    return jwarp.launch(kernel, N, list(inputs), [shape])[0]


def test_annotations_that_are_text_and_attributes_of_objects():
    @wp.kernel(module="unique", enable_backward=False, grid_stride=False, launch_bounds=64)
    def k(x: wp.array[float], n: int, y: wp.array(dtype=float)):
        i = wp.tid()
        v = vec5(x[i])
        y[i] = names.factor * v[4] + wp.static(names.kinds[names.text]) * float(n)

    np.testing.assert_allclose(run(k, X, 2), 2 * X + 6)


class Solver:
    """Kernels in a class, whose methods make others."""

    ORDER = 3
    AXES = (wp.vec3(1.0, 0.0, 0.0), wp.vec3(0.0, 2.0, 0.0))

    @wp.func
    def damped(x: float, k: float = 0.5) -> float:
        return k * x

    @wp.kernel
    def step(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = Solver.damped(x[i]) + float(Solver.ORDER)

    def made(self, count: int, op: Any):
        @wp.kernel(module="unique")
        def total(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            s = float(0.0)
            for j in range(wp.static(count)):
                s += op(x[i], float(j)) * wp.static(self.AXES[1][1])
            y[i] = s

        return total


@wp.func
def sum_of(a: float, b: float):
    return a + b


def test_kernels_of_classes_and_closures():
    np.testing.assert_allclose(run(Solver.step, X), 0.5 * X + 3)
    first, second = Solver().made(3, sum_of), Solver().made(2, wp.mul)
    np.testing.assert_allclose(run(first, X), 2 * (3 * X + 3))
    np.testing.assert_allclose(run(second, X), 2 * X)


def test_a_kernel_made_by_hand_of_a_function():
    def plain(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = 3.0 * x[i]

    kernel = wp.Kernel(func=plain, key="made_by_hand")
    np.testing.assert_allclose(run(kernel, X), 3 * X)


@wp.kernel
def scaled(x: wp.array(dtype=Any), k: Any, y: wp.array(dtype=Any)):
    i = wp.tid()
    y[i] = k * x[i]


@wp.func
def doubled(x: wp.Float) -> wp.Float:
    return x + x


@wp.func
def longest(v: wp.types.vector(length=Any, dtype=wp.Float)):
    return wp.max(v)


@wp.kernel
def generic_functions(x: wp.array[wp.vec3], y: wp.array[float], z: wp.array[wp.float16]):
    i = wp.tid()
    y[i] = doubled(longest(x[i]))
    z[i] = doubled(wp.float16(x[i][0]))


def test_generic_kernels_and_functions():
    np.testing.assert_allclose(run(scaled, X, 2.0), 2 * X)
    found = jwarp.launch(scaled, N, [X.astype(np.float16), np.float16(2.0)], [N])
    assert found[0].dtype == np.float16
    instance = wp.overload(scaled, [wp.array[wp.vec3], float, wp.array[wp.vec3]])
    v = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
    np.testing.assert_allclose(run(instance, v, 2.0), 2 * v)
    assert as_kernel(instance) is as_kernel(instance)
    assert as_kernel(instance).generic is as_kernel(scaled)
    y, z = jwarp.launch(generic_functions, N, [v], [N, N])
    np.testing.assert_allclose(y, 2 * v.max(1))
    np.testing.assert_allclose(z, (2 * v[:, 0].astype(np.float16)).astype(np.float32), rtol=1e-3)


@wp.func
def of_two(x: wp.vec3, y: wp.vec3):
    return wp.dot(x, y)


@wp.func
def of_two(x: wp.mat33, y: wp.vec3):  # noqa: F811 an overload
    return x * y


@wp.func(name="under_another_name")
def written(x: float) -> float:
    return x * x


@wp.kernel
def overloads(x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = of_two(wp.identity(n=3, dtype=float), x[i]) * of_two(x[i], x[i]) * written(2.0)


@pytest.mark.parametrize("library", [wp, jwarp])
def test_the_instance_is_the_one_that_takes_the_arguments(library):
    if library is wp:

        @wp.kernel(module="unique")
        def k(x: wp.array(dtype=Any), y: wp.array(dtype=Any), r: wp.array(dtype=Any)):
            i = wp.tid()
            r[i] = x[i] * y[i]
    else:

        @jwarp.kernel
        def k(x: jwarp.array(dtype=Any), y: jwarp.array(dtype=Any), r: jwarp.array(dtype=Any)):
            i = jwarp.tid()
            r[i] = x[i] * y[i]

    def instance(*kinds):
        library.overload(k, [library.array(dtype=kind) for kind in kinds])

    for kind in (float, library.quat, library.mat33, library.float64):
        instance(kind, kind, kind)
    q = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    m = np.random.default_rng(1).normal(size=(N, 3, 3)).astype(np.float32)
    expected = np.array([jwarp.quat(*p) * jwarp.quat(*p) for p in q])
    for xp in (np, jnp):
        found = [
            jwarp.launch(k, N, [x, x], [np.zeros_like(x) if xp is np else x.shape])[0]
            for x in map(xp.asarray, (X, q, m))
        ]
        for got, want in zip(found, (X * X, expected, m @ m), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jwarp.jax_kernel(k)(jnp.asarray(q), jnp.asarray(q))[0], expected, rtol=1e-4, atol=1e-5)
    instance(library.vec4, library.vec4, library.float32)
    np.testing.assert_allclose(jwarp.launch(k, N, [X, X], [N])[0], X * X)
    with pytest.raises(jwarp.KernelTypeError, match="parameter 'x': .* may be array.quat. or array.vec4."):
        jwarp.launch(k, N, [jnp.asarray(q), jnp.asarray(q)], [N])


def test_overloads_and_functions_of_other_names():
    v = np.random.default_rng(1).normal(size=(N, 3)).astype(np.float32)
    np.testing.assert_allclose(run(overloads, v), 4 * v * (v * v).sum(1, keepdims=True), rtol=1e-5)


WP_BARRIER = "WP_TILE_SYNC();"


@wp.func_native(WP_BARRIER)
def barrier(): ...


@wp.func_native("return x + 1.0f;")
def native(x: float) -> float: ...


@wp.func_native("return __shfl_xor_sync(0xffffffffu, x, 1);")
def shuffled(x: float) -> float: ...


@wp.kernel
def with_barrier(x: wp.array[float], y: wp.array[float]):
    _, lane = wp.tid()
    t = wp.tile_load(x, shape=4)
    barrier()
    y[lane] = t[lane] * 2.0


@wp.func
def plus_two(x: float):
    return x + 2.0


@wp.func
def plus_one(x: float):
    return x + 1.0


plus_one.fallback = plus_two


@wp.kernel
def by_attributes(x: wp.array[float]):
    x[0] = plus_one.fallback(x[0]) * plus_one(x[0])


@wp.kernel
def by_attributes_of_warp(x: wp.array[float]):
    x[0] = plus_one.mangled_name(x[0])


def test_attributes_that_authors_give_to_functions():
    assert jwarp.launch(by_attributes, 1, [np.full(1, 3.0, np.float32)])["x"][0] == 20.0
    with pytest.raises(jwarp.KernelTypeError, match="`mangled_name` is not an attribute of `plus_one`"):
        jwarp.inspect(by_attributes_of_warp, "ir")


def test_tiles_in_blocks():
    for launch in (
        lambda: jwarp.launch_tiled(with_barrier, 1, [X], [N], block_dim=4),
        lambda: jwarp.launch(with_barrier, (1, 4), [X], [N], block_dim=4),
        lambda: jwarp.jax_kernel(with_barrier, launch_dims=(1, 4), output_dims=N, block_dim=4)(X),
    ):
        np.testing.assert_allclose(launch()[0], 2 * X)


# -- identity


def test_it_is_pickled_by_name_and_copied_as_itself():
    found = as_kernel(scaled)
    assert pickle.loads(pickle.dumps(found)) is found
    assert copy.deepcopy(found) is found
    function = pickle.loads(pickle.dumps(jwarp.jax_kernel(Solver.step)))
    np.testing.assert_allclose(function(X)[0], 0.5 * X + 3)


def test_it_ends_with_the_kernel_of_warp():
    def defined(factor):
        @wp.kernel
        def times(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = wp.static(factor) * x[i]

        return times

    first = defined(2.0)
    ended = weakref.ref(as_kernel(first))
    np.testing.assert_allclose(run(first, X), 2 * X)
    first = defined(3.0)  # which Warp's module keeps instead
    gc.collect()
    assert ended() is None


# -- wp.static


def test_one_text_of_static_has_a_value_at_each_place():
    counted = iter((2.0, 3.0))

    def following():
        return next(counted)

    @wp.kernel(module="unique")
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        a = wp.static(following())
        b = wp.static(following())
        s = float(0.0)
        for j in range(2):
            s += wp.static(float(j) + wp.static(len(names.text) + 4.0))
        y[i] = a * x[i] + 10.0 * b + 100.0 * s

    np.testing.assert_allclose(run(k, X), 2 * X + 30 + 1100)


def test_static_of_a_name_that_is_outer_and_a_variable_too():
    @wp.kernel(module="unique")
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        N = 2.0
        y[i] = N * x[i] + float(wp.static(N))

    expected = wp.zeros(N, dtype=float, device="cpu")
    wp.launch(k, N, [wp.array(X, device="cpu")], [expected], device="cpu")
    np.testing.assert_allclose(run(k, X), expected.numpy())  # Warp took the outer one


def test_static_of_a_function_that_is_another_one_later():
    kernels = []
    for op in (wp.min, wp.max):

        @wp.kernel(module="unique")
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = wp.static(op)(x[i], 2.5)

        kernels.append(k)
    np.testing.assert_allclose(run(kernels[0], X), np.minimum(X, 2.5))
    np.testing.assert_allclose(run(kernels[1], X), np.maximum(X, 2.5))


@wp.func
def total(v: Any):
    s = float(0.0)
    for j in range(wp.static(len(v))):
        s += v[j]
    return s


def test_static_of_the_length_of_an_argument_is_that_of_each_call():
    @wp.kernel(module="unique")
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = total(wp.vec2(x[i], 1.0)) + total(wp.vec4(x[i]))

    np.testing.assert_allclose(run(k, X), 5 * X + 1)


# -- what is refused


@wp.func
def twice(x: float):
    return x + x


@wp.func
def scaled_by_attribute(x: float):
    return x


class ZeroForOne(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.copy_location(ast.Constant(0.0), node) if node.value == 1.0 else node


def test_code_transformers():
    """The tree that they make is the function; places in the file stay right."""

    def raw(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] + 1.0 + wp.static(names.factor) * scaled_by_attribute.by(x[i])

    def wrong(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] + 3

    scaled_by_attribute.by = twice
    module = wp.get_module(f"{__name__}_transformed")
    made = [wp.Kernel(function, module=module, code_transformers=[ZeroForOne()]) for function in (raw, wrong)]
    np.testing.assert_allclose(run(made[0], X), 5 * X)
    with pytest.raises(jwarp.KernelTypeError) as error:
        run(made[1], X)
    assert "y[i] = x[i] + 3\n" in str(error.value) and "|                ^^^" in str(error.value)


def test_a_file_that_changed_before_the_kernel_was_met(tmp_path):
    file = tmp_path / "edited.py"
    text = "import warp as wp\n@wp.kernel(module='unique')\ndef k(x: wp.array[float], y: wp.array[float]):\n"
    text += "    i = wp.tid()\n    y[i] = {} * x[i]\n"
    file.write_text(text.format("2.0"))
    spec = importlib.util.spec_from_file_location("edited", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.write_text(text.format("30.0"))
    with pytest.raises(jwarp.CompileError, match="`k` is not what its file says: its file has changed"):
        run(module.k, X)


@pytest.mark.parametrize("library", ["warp", "jwarp"])
def test_a_module_that_is_reloaded(library, tmp_path, monkeypatch):
    """A kernel that names a function of it is read anew; a name that was imported of it stays what it was."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    other, own = f"other_of_{library}", f"own_of_{library}"
    text = f"import {library} as wp\nscale = {{}}\n@wp.func\ndef f(x: float):\n    return x * {{}} + scale\n"
    (tmp_path / f"{other}.py").write_text(text.format(1.0, 1.0))
    (tmp_path / f"{own}.py").write_text(
        f"import {library} as wp\nimport {other}\nfrom {other} import f\n@wp.kernel\n"
        "def k(x: wp.array[float], r: wp.array[float]):\n"
        f"    i = wp.tid()\n    r[i] = {other}.f(x[i]) + {other}.scale * 100.0 + f(x[i]) * 1000.0\n"
    )
    module = importlib.import_module(own)
    for scale, by in ((1.0, 1.0), (3.0, 2.0), (4.0, 5.0)):
        (tmp_path / f"{other}.py").write_text(text.format(scale, by) + "#" * int(by))
        importlib.reload(sys.modules[other])
        for kind in (np.asarray, jnp.asarray):
            found = jwarp.launch(module.k, N, [kind(X)], [np.zeros_like(X) if kind is np.asarray else N])[0]
            np.testing.assert_allclose(found, X * by + 101 * scale + 1000 * (X + 1.0))


def test_errors_show_the_line_of_the_kernel():
    @wp.kernel
    def wrong(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = shuffled(x[i])

    with pytest.raises(jwarp.CompileError, match=r"`shuffled` is native code") as caught:
        run(wrong, X)
    assert "test_warp_definitions.py" in str(caught.value)
    assert "y[i] = shuffled(x[i])\n" in str(caught.value) and "^^^^^^^^" in str(caught.value)

    @wp.kernel
    def looking(texture: wp.Texture2D, y: wp.array[float]):
        y[0] = 1.0

    with pytest.raises(jwarp.KernelTypeError, match="kernel 'looking', argument 'texture' expects Texture2D"):
        run(looking, None)


@wp.struct
class Seen:
    texture: wp.Texture2D


def test_a_struct_that_cannot_be_made_says_which_field_is_missing():
    @wp.kernel
    def seeing(s: Seen, y: wp.array[float]):
        y[0] = 1.0

    with pytest.raises(
        jwarp.LaunchError, match="kernel 'seeing', parameter 's': there is no value for field 'texture'"
    ):
        run(seeing, {})


def test_what_is_no_kernel():
    for thing in (sum_of, Seen, 5, [], None):
        with pytest.raises(jwarp.KernelTypeError, match="expected a kernel"):
            jwarp.launch(thing, 1, [], [])
    with pytest.raises(jwarp.KernelTypeError, match="expected a function of JAX, got the kernel 'step'"):
        jwarp.explain(Solver.step)


class Yield(wp.types.vector(length=3, dtype=wp.float32)):
    """A vector with functions that make one."""

    @wp.func
    def of(a: float, b: float):
        return Yield(a, b, a * b)


def test_classes_of_vectors_have_functions():
    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        limits = Yield.of(x[i], 2.0)
        y[i] = limits[1] + limits[2]

    np.testing.assert_allclose(run(k, X), 2 * X + 2)

    @wp.kernel
    def lacking(x: wp.array[float], y: wp.array[float]):
        y[0] = Yield.no_such(x[0], 2.0)[0]

    with pytest.raises(jwarp.KernelTypeError, match="`no_such` is not an attribute of `Yield`"):
        run(lacking, X)


@wp.struct
class Shape:
    mesh: wp.handle
    scale: float


@wp.kernel
def weighted(mesh: wp.handle, shape: Shape, meshes: wp.array[wp.handle], at: wp.array[wp.vec3]):
    i = wp.tid()
    u = wp.mesh_eval_position(mesh, 0, 0.25, 0.5)
    v = wp.mesh_eval_position(shape.mesh, 0, 0.5, 0.25)
    at[i] = u + shape.scale * v + wp.mesh_eval_position(meshes[i], 0, 0.0, 1.0)


def test_handles_are_ids():
    """`warp.handle` is `warp.uint64` by another name, and so it is here."""
    rng = np.random.default_rng(2)
    corners = rng.normal(size=(2, 3, 3)).astype(np.float32)
    meshes = [jwarp.Mesh(jwarp.array(c, dtype=jwarp.vec3), jwarp.array([0, 1, 2], dtype=int)) for c in corners]
    fields = {"__annotations__": {"mesh": jwarp.handle, "scale": float}}
    shape = jwarp.struct(type("Shape", (), fields))()
    shape.mesh, shape.scale = meshes[1].id, 2.0
    ids = jwarp.array([m.id for m in meshes], dtype=jwarp.handle)
    at = jwarp.zeros(2, dtype=jwarp.vec3)
    jwarp.launch(weighted, 2, inputs=[meshes[0].id, shape, ids], outputs=[at])
    weights = np.array([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])
    expected = weights[0] @ corners[0] + 2.0 * weights[1] @ corners[1] + corners[:, 1]
    np.testing.assert_allclose(at.numpy(), expected, rtol=1e-5, atol=1e-6)
