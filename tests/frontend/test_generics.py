"""Generic kernels, functions and structs: which instance runs, what it computes, and what is refused."""

# ruff: noqa: F811

import pickle
import re
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick

T = TypeVar("T")
Real = TypeVar("Real", wp.float32, wp.float64)
Direction = TypeVar("Direction", wp.vec2, wp.vec3)
VECTOR = wp.types.vector(length=Any, dtype=wp.Float)
MATRIX = wp.types.matrix(shape=(Any, Any), dtype=Any)


@wp.kernel
def scaled(x: wp.array[T], k: T, y: wp.array[T]):
    i = wp.tid()
    y[i] = k * x[i] + T(1)


@wp.kernel
def fill(a: wp.array[Any], value: Any):
    a[wp.tid()] = value


@wp.kernel
def summed(a: Any, b: Any, c: Any):
    i = wp.tid()
    c[i] = a[i] + b[i]


@wp.struct
class Point:
    x: float
    y: float


@wp.kernel
def along(v: wp.vec3, x: wp.array[Any], p: Point, y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = float(x[i]) * v * p.x


@wp.kernel
def turned(m: wp.array[MATRIX], v: wp.array[VECTOR], r: wp.array[VECTOR]):
    i = wp.tid()
    r[i] = m[i] * v[i]


@wp.struct
class Pair:
    x: wp.vec2
    y: wp.vec2


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.float16, jnp.int32, jnp.uint8], ids=str)
def test_each_launch_runs_the_instance_for_its_arguments(x64, dtype):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(1, 9, 5)).astype(dtype)
    expected = (np.asarray(x) * 3 + 1).astype(x.dtype)
    scaled_fn = wp.jax_kernel(scaled)
    for (y,) in (
        wp.launch(scaled, 5, [x, 3], [5]),
        wp.launch(scaled, 5, {"x": x, "k": x.dtype.type(3)}, {"y": 5})["y"][None],
        scaled_fn(x, 3),
        scaled_fn(k=3, x=x),
        jax.jit(scaled_fn)(x, 3),
        wp.launch(scaled, 5, [np.asarray(x), 3], [np.zeros_like(x)]),
        wp.launch(scaled, 5, [x, 3], [5], record_cmd=True).launch(),
    ):
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, expected)
    xs = jnp.stack([x, x + x])
    (ys,) = jax.vmap(scaled_fn, (0, None))(xs, 3)
    np.testing.assert_array_equal(ys, (np.asarray(xs) * 3 + 1).astype(x.dtype))


def test_derivatives_are_those_of_the_instance(x64):
    rng = np.random.default_rng(1)
    scaled_fn = wp.jax_kernel(scaled)
    for dtype in (jnp.float32, jnp.float64):
        x, k = jnp.asarray(rng.normal(size=6), dtype), jnp.asarray(1.5, dtype)
        dx, dk = jax.grad(lambda x, k: (scaled_fn(x, k)[0] ** 2).sum(), (0, 1))(x, k)
        y = k * x + 1
        assert dx.dtype == dk.dtype == dtype
        np.testing.assert_allclose(dx, 2 * y * k, rtol=1e-5)
        np.testing.assert_allclose(dk, (2 * y * x).sum(), rtol=1e-5)
    wp.check_grads(scaled, 6, [x, 1.5], [6])
    wp.check_grads(scaled_fn, (x, 1.5), order=2)
    assert "load x" in str(wp.explain(scaled_fn)(x, 1.5))


def kinds_of(kernel, *values, outputs=None):
    """The types of the parameters of the instance that a launch runs."""
    record = wp.launch(kernel, 1, list(values), outputs, record_cmd=True)
    return [str(parameter.type) for parameter in record.kernel.signature]


def test_how_types_are_told_from_arguments(x64):
    f32, f64 = jnp.ones((4, 3), jnp.float32), jnp.ones((4, 3, 3))
    assert kinds_of(fill, f32[:, 0], 2.0) == ["array[float32]", "float32"]
    assert kinds_of(fill, f32[:, 0].astype(jnp.int32), 2) == ["array[int32]", "int32"]
    assert kinds_of(fill, f64[:, 0, 0], np.float64(2)) == ["array[float64]", "float64"]
    assert kinds_of(fill, f32[:, 0] > 0, True) == ["array[bool]", "bool"]
    assert kinds_of(fill, f32[:, 0].astype(jnp.bfloat16), jnp.bfloat16(1)) == ["array[bfloat16]", "bfloat16"]
    # The components are the last axes, and values by themselves say what they are.
    assert kinds_of(fill, f32, wp.vec3(1.0)) == ["array[vec3]", "vec3"]
    assert kinds_of(fill, f32, (1.0, 2.0, 3.0)) == ["array[vec3]", "vec3"]
    assert kinds_of(fill, f64, wp.mat33d()) == ["array[mat33d]", "mat33d"]
    # Of a parameter that may be anything, an array is one of scalars.
    assert kinds_of(summed, f32[:, 0], f32[:, 1], outputs=[4]) == ["array[float32]"] * 3
    # Outputs by their shape have the elements of the first array that may have them.
    assert kinds_of(turned, f64, f64[0], outputs=[(4, 3)]) == ["array[mat33d]", "array[vec3d]", "array[vec3d]"]
    assert kinds_of(turned, f64, f64[0], outputs=[4])[2] == "array[vec3d]"
    spec = jax.ShapeDtypeStruct((4, 2), jnp.float16)
    assert kinds_of(turned, f64[:, :2].astype(jnp.float16), f64[0].astype(jnp.float16), outputs=[spec]) == [
        "array[matrix((2, 3), float16)]", "array[vec3h]", "array[vec2h]",
    ]  # fmt: skip
    # A Python number follows the variable that an array has bound.
    assert kinds_of(scaled, f64[0, 0], 2, outputs=[3]) == ["array[float64]", "float64", "array[float64]"]


def test_indexed_arrays_and_arrays_of_other_libraries():
    @wp.kernel
    def gathered(a: wp.indexedarray[Any], y: wp.array[Any]):
        i = wp.tid()
        y[i] = a[i]

    x, where = jnp.arange(5.0), jnp.array([3, 1], jnp.int32)
    assert wp.launch(gathered, 2, [wp.indexedarray(x, [where])], [2])[0].tolist() == [3, 1]
    vectors = wp.indexedarray(jnp.arange(6.0).reshape(2, 3), [where])
    assert wp.launch(gathered, 2, [vectors], [2])[0].tolist() == [[0, 0, 0], [3, 4, 5]]
    with pytest.raises(wp.KernelTypeError, match=r"'a': expected indexedarray\[Any\], got float32\[5\]"):
        wp.launch(gathered, 2, [x], [2])

    class Lender:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    y = np.zeros(3, np.float32)
    wp.launch(scaled, 3, [Lender(np.ones(3, np.float32)), 2.0], [Lender(y)])
    assert y.tolist() == [3, 3, 3]


def test_values_under_jit_follow_what_is_annotated_or_overloaded():
    @wp.kernel
    def filled(a: wp.array[wp.types.vector(Any, Any)], value: wp.types.vector(Any, Any)):
        a[wp.tid()] = value

    @wp.kernel
    def other(a: wp.array[Any], value: Any):
        a[wp.tid()] = value

    a, v = jnp.zeros((2, 3)), jnp.array([1.0, 2.0, 3.0])
    (found,) = jax.jit(lambda a, v: wp.launch(filled, 2, [a, v]))(a, v).values()
    np.testing.assert_array_equal(found, [v, v])
    with pytest.raises(wp.KernelTypeError, match="`a` holds vec3, the value is array"):
        wp.launch(other, 2, [a, v])
    wp.overload(other, [wp.array[wp.vec3], wp.vec3])
    (found,) = jax.jit(lambda a, v: wp.launch(other, 2, [a, v]))(a, v).values()
    np.testing.assert_array_equal(found, [v, v])


def test_other_parameters_are_what_they_are():
    for dtype in (np.float32, np.int8):
        given = [(1.0, 2.0, 3.0), np.arange(2, dtype=dtype), Point(2.0, 0.0)]
        (y,) = wp.launch(along, 2, given, [np.zeros((2, 3), np.float32)])
        assert y.tolist() == [[0, 0, 0], [2, 4, 6]]
    assert along[wp.int8] is wp.overload(along, [wp.vec3, wp.array[wp.int8], Point, wp.array[wp.vec3]])
    assert along[wp.int8] is wp.overload(along, {"x": wp.array[wp.int8]})


def test_instances_are_made_once():
    x = jnp.ones(3, jnp.float32)
    first = wp.launch(scaled, 3, [x, 2.0], [3], record_cmd=True).kernel
    assert wp.launch(scaled, 3, [np.ones(7, np.float32), 1.0], [7], record_cmd=True).kernel is first
    assert wp.overload(scaled, [wp.array[float], jnp.float32, wp.array[np.dtype("float32")]]) is first
    assert scaled[float] is scaled[wp.float32] is scaled.instance([wp.array[float], float, wp.array[float]])
    assert pickle.loads(pickle.dumps(first)) is first
    assert repr(first) == "<wp.kernel scaled(x: array[float32], k: float32, y: array[float32])>"
    assert repr(scaled) == "<wp.kernel scaled(x: array[T], k: T, y: array[T])>"
    function = pickle.loads(pickle.dumps(wp.jax_kernel(scaled)))
    np.testing.assert_array_equal(function(x, 2.0)[0], 3 * np.ones(3))


def test_overload():
    @wp.kernel
    def raised(a: wp.array[wp.float64], value: Any, b: wp.array[wp.float64]):
        b[0] = a[0] + wp.float64(value)

    made = [wp.overload(raised, {"value": kind}) for kind in (int, float, wp.float64, wp.bool)]
    assert list(raised.overloads) == made
    a = np.array([1.0])
    for value, instance in ((2, made[0]), (2.0, made[1]), (np.float64(2), made[2]), (True, made[3])):
        assert wp.launch(raised, 1, [a, value], [np.zeros(1)], record_cmd=True).kernel is instance
        assert wp.launch(instance, 1, [a, value], [np.zeros(1)])[0] == 1.0 + float(value)

    @wp.kernel
    def halved(x: wp.array2d[Any], y: wp.array[Any]):
        y[0] = x[0, 0] / x.dtype(2.0)

    @wp.overload
    def halved(x: wp.array2d[wp.float64], y: wp.array[wp.float64]):
        """Of doubles."""
        ...

    assert [str(p.type) for p in halved.overloads[0].signature] == ["array2d[float64]", "array[float64]"]
    assert "float64" in wp.inspect(halved)  # there is just one
    assert wp.Launch(halved).kernel is halved.overloads[0]
    assert wp.launch(halved, 1, [np.ones((1, 1))], [np.zeros(1)])[0] == 0.5


@wp.struct
class Told:
    a: float
    b: wp.array[wp.vec3]


def test_kernels_tell_their_parameters_as_those_of_warp_do():
    @wp.kernel
    def scaled(
        x: wp.array2d(dtype=Any), v: wp.array[wp.vec3], p: Told, ps: wp.array[Told], k: Any, by: wp.vec3, n: int
    ):
        i, j = wp.tid()
        x[i, j] = x[i, j] * k

    arguments = scaled.adj.args
    assert [a.label for a in arguments] == ["x", "v", "p", "ps", "k", "by", "n"]
    of_arrays = [wp.types.is_array(a.type) for a in arguments]
    assert of_arrays == [True, True, False, True, False, False, False]
    x, v, p, ps, k, by, n = (a.type for a in arguments)
    assert (x.dtype, x.ndim) == (Any, 2) and (v.dtype, v.ndim) == (wp.vec3, 1) and (ps.dtype, ps.ndim) == (Told, 1)
    assert (p, k, by, n) == (Told, Any, wp.vec3, wp.int32)
    types = {
        a.label: wp.array(dtype=wp.float64, ndim=a.type.ndim) for a in arguments if getattr(a.type, "dtype", 0) is Any
    }
    made = wp.overload(scaled, {**types, "k": wp.float64})
    assert [a.type.dtype for a in made.adj.args[:2]] == [wp.float64, wp.vec3]


def test_instances_by_index():
    assert [str(p.type) for p in fill[wp.vec3].signature] == ["array[vec3]", "vec3"]
    assert [str(p.type) for p in fill[wp.vec3, float].signature] == ["array[vec3]", "float32"]
    assert [str(p.type) for p in scaled[wp.float16].signature] == ["array[float16]", "float16", "array[float16]"]


def test_structs():
    @wp.kernel
    def total(p: Any, out: wp.array[Any]):
        q = type(p)(p.x, p.y)
        out[0] = q.x + p.y

    @wp.kernel
    def totals(p: wp.array[Any], out: wp.array[Any]):
        i = wp.tid()
        out[i] = p[i].x + p[i].y

    assert wp.launch(total, 1, [Point(1.0, 2.0)], [jnp.zeros(1)])[0].tolist() == [3.0]
    pair = Pair(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))
    assert wp.launch(total, 1, [pair], [jnp.zeros((1, 2))])[0].tolist() == [[4.0, 6.0]]
    points = Point(jnp.arange(3.0), jnp.ones(3))
    assert wp.launch(totals, 3, [points], [jnp.zeros(3)])[0].tolist() == [1.0, 2.0, 3.0]


@wp.func
def both(a: T, b: T) -> T:
    twice = b + b
    return a + T(twice)


@wp.func
def first(v: wp.types.vector(length=Any, dtype=wp.Int)) -> wp.Int:
    return v[0]


@wp.func
def first(v: wp.types.vector(3, wp.Float)) -> wp.Float:
    return v[0] / v.dtype(4.0)


@wp.func
def first(m: wp.types.matrix((Any, 2), Any)):
    return m[1, 1]


@wp.func
def first(a: wp.array[Any]):
    return a[0]


@wp.func
def first(a: wp.array2d[Direction]):
    return a[0, 0] * a.dtype.dtype(10)


@wp.func
def total(values: tuple[T, ...]) -> T:
    s = T(0)
    for k in range(len(values)):
        s += values[k]
    return s


def test_tuples_of_any_length():
    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = total((1.0, 2.0, 3.0))
        out[1] = float(total((4, 5)))

    assert wp.launch(kernel, 1, [], [np.zeros(2, np.float32)])[0].tolist() == [6, 9]

    @wp.kernel
    def mixed(out: wp.array[float]):
        out[0] = total((1.0, 2))

    with pytest.raises(wp.KernelTypeError, match=r"must be tuple\[float32, ...\], not the tuple \(float32, int32\)"):
        mixed.ir()


def test_generic_functions():
    @wp.kernel
    def kernel(a: wp.array[wp.int16], b: wp.array2d[wp.vec2], out: wp.array[float]):
        out[0] = both(1.0, 2.0)
        out[1] = float(both(1, 3))
        out[2] = both(wp.vec2(1.0), wp.vec2(3.0))[1]
        out[3] = float(first(wp.vec2s(wp.int16(5))))
        out[4] = first(wp.vec3(8.0))
        out[5] = float(first(wp.mat22d(wp.float64(9.0))))
        out[6] = float(first(a))
        out[7] = first(b)[0]

    given = [np.array([11], np.int16), np.full((1, 1, 2), 1.5, np.float32)]
    found = wp.launch(kernel, 1, given, [np.zeros(8, np.float32)])[0]
    assert found.tolist() == [5, 7, 7, 5, 2, 9, 11, 15]


def test_types_in_expressions():
    @wp.kernel
    def kernel(a: wp.array[Any], s: Any, out: wp.array[Any]):
        x = a[0]
        zero = type(x)()
        copy = type(a).dtype(x) * a.dtype.dtype(2.0) + zero
        v = wp.types.vector(length=2, dtype=type(s))
        m = wp.identity(n=v.length, dtype=v.dtype) * s
        w = wp.vector(s, s, dtype=s.dtype)
        u = wp.matrix(s, s, s, s, shape=(2, 2), dtype=s.dtype)
        local = wp.zeros(2, dtype=type(x))
        local[1] = copy
        out[0] = local[1] * (wp.trace(m) + w[0] + u[1, 1] + s.dtype(1))

    for dtype in (np.float32, np.float64):
        a = np.array([[1.0, 2.0, 3.0]], dtype)
        (found,) = wp.launch(kernel, 1, [a, dtype(0.5)], [np.zeros_like(a)])
        np.testing.assert_array_equal(found, a * 2 * 3)


def test_annotations():
    shown = [
        wp.array[Any], wp.array2d[wp.Float], wp.array(dtype=Any, ndim=3), wp.array(dtype=T), wp.array4d[T], VECTOR,
        MATRIX, wp.array[VECTOR], wp.array[float, Literal[2]], wp.array[Any, 2], wp.types.matrix((2, Any), wp.Scalar),
    ]  # fmt: skip
    assert list(map(str, shown)) == [
        "wp.array[Any]", "wp.array2d[Float]", "array3d[Any]", "array[T]", "wp.array4d[T]", "vector(Any, Float)",
        "matrix((Any, Any), Any)", "wp.array[vector(Any, Float)]", "wp.array2d[wp.float32]", "wp.array2d[Any]",
        "matrix((2, Any), Scalar)",
    ]  # fmt: skip


@wp.kernel
def real(x: wp.array[Real], v: wp.types.vector(Any, wp.Float), n: wp.Int):
    x[0] = Real(v[0]) + Real(n)


K, L, C = wp.KernelTypeError, wp.LaunchError, wp.CompileError
X = jnp.ones(3, jnp.float32)
HALF = X.astype(jnp.float16)


@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (lambda: wp.launch(scaled, 3, [X, np.float16(2)], [3]), K, r"'k': expected T, where T is float32, got float16"),
        (lambda: wp.launch(scaled, 3, [X, True], [3]), K, r"'k': expected T, where T is float32, got bool True"),
        (lambda: wp.launch(fill, 3, ["text", 1]), K, r"'a': its type, array\[Any\], does not follow from str text"),
        (lambda: wp.launch(fill, 3, [X, None]), K, r"'value': its type, Any, does not follow from None"),
        (lambda: wp.launch(summed, 3, [1.0, 2.0], [3]), K, r"'c': its type, Any, does not follow from the shape 3"),
        (lambda: wp.launch(scaled, 3, [X]), L, "has 3 parameters"),
        (lambda: wp.jax_kernel(scaled)(X), L, "takes 2 arguments"),
        (lambda: wp.jax_kernel(scaled)(X, y=1), L, "'y' is an output"),
        (lambda: wp.jax_kernel(scaled)(X, np.int8(1)), K, "'k': expected T, where T is float32"),
        (lambda: wp.jax_kernel(scaled, in_out_argnames=["z"]), L, "'z', which did not match"),
        (lambda: wp.launch(real, 1, [HALF, wp.vec2(), 1]), K, r"'x': expected array\[Real\], got float16"),
        (lambda: wp.launch(real, 1, [X, wp.vec2i(), 1]), K, r"'v': expected vector\(Any, Float\), got vec2i"),
        (lambda: wp.launch(real, 1, [X, wp.vec2(), 1.5]), K, "'n': expected Int, got float 1.5"),
        (lambda: wp.launch(turned, 1, [X, X, X]), K, r"'m': expected array\[matrix\(\(Any, Any\), Any\)\], got"),
        (lambda: wp.overload(scaled, [float, float]), K, r"has 3 parameters \(x, k, y\), 2 types given"),
        (lambda: wp.overload(scaled, {"z": float}), K, "has no parameter 'z'; there are x, k, y"),
        (lambda: wp.overload(scaled, {"k": Any}), K, "'x': an instance needs a type, not array"),
        (lambda: wp.overload(fill, {"value": float}), K, "'a': an instance needs a type, not array"),
        (lambda: wp.overload(scaled, {"k": float, "y": wp.array[int]}), K, r"'y': array\[int32\] does not fit"),
        (lambda: wp.overload(scaled, 3), K, "a list, or a dict by name, not 3"),
        (lambda: wp.overload(scaled[float], [float]), K, "is not generic"),
        (lambda: scaled[float, int], K, "has 1 open types, 2 given"),
        (lambda: scaled["float"], K, "needs types, not 'float'"),
        (lambda: scaled[float][float], K, "is not generic"),
        (lambda: wp.inspect(turned), C, r"is generic: the type of `m`, array\[matrix"),
        (lambda: wp.Launch(turned), C, "give an instance"),
        (lambda: turned.ir(), C, "is generic"),
        (lambda: turned.params, C, "is generic"),
        (lambda: wp.array[wp.array[Any]], K, "element type must be a scalar"),
        (lambda: wp.types.vector(Any, "x"), K, "component type must be"),
        (lambda: wp.types.vector(-1, Any), K, "extents must be positive"),
        (lambda: wp.array[TypeVar("Odd", str, bytes)], K, "the type variable Odd is constrained to <class 'str'>"),
    ],
)  # fmt: skip
def test_what_is_refused(run, error, words):
    with pytest.raises(error, match=re.compile(words)):
        run()


def test_what_functions_refuse():
    @wp.kernel
    def two_types(out: wp.array[float]):
        out[0] = both(1.0, 2)

    with pytest.raises(wp.KernelTypeError, match="`b` of `both` must be float32, not int32"):
        two_types.ir()

    @wp.kernel
    def no_overload(out: wp.array[float]):
        out[0] = first(wp.vec4(1.0))

    with pytest.raises(wp.KernelTypeError, match=r"no overload of `first` takes \(vec4\)") as caught:
        no_overload.ir()
    assert "first(vector(Any, Int)); first(vector(3, Float)); first(matrix((Any, 2), Any))" in str(caught.value)


def test_what_declarations_refuse():
    with pytest.raises(wp.KernelTypeError, match="there is no generic kernel 'missing' here"):

        @wp.overload
        def missing(x: float): ...

    with pytest.raises(wp.CompileError, match=r"@wp.overload `fill` has a body"):

        @wp.overload
        def fill(a: wp.array[float], value: float):
            a[0] = value

    with pytest.raises(wp.CompileError, match="parameter `value` has no type"):

        @wp.overload
        def fill(a: wp.array[float], value): ...


def test_stubs_of_overloads_find_kernels_by_their_function():
    def named_twice(x: Any, y: wp.array[float]):
        y[0] = float(x)

    function = named_twice
    first = wp.kernel(function, name="named_once")

    @wp.overload
    def named_twice(x: int, y: wp.array[float]): ...

    assert named_twice is first and len(first.overloads) == 1
    del named_twice
    again = wp.kernel(function, name="named_again")
    with pytest.raises(wp.KernelTypeError, match="Ambiguous kernel lookup: named_again, named_once are kernels of"):

        @wp.overload
        def named_twice(x: float, y: wp.array[float]): ...

    assert again.key == "named_again"
