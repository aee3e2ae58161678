"""Structs as values in kernels: Python itself runs the same kernels on plain objects."""

import copy
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(29)
N = 33


@wp.struct
class Pair:
    a: float
    b: wp.vec2


@wp.struct
class Owner:
    total: float
    count: int
    xs: wp.array[float]
    pair: Pair


def in_python(kernel, threads, owner, out):
    """Run a kernel as the Python function it is. Each thread has a struct of its own; the arrays are shared."""
    names = types.SimpleNamespace(**vars(wp))
    for thread in range(threads):
        names.tid = lambda thread=thread: thread
        function = types.FunctionType(kernel.python.__code__, {**kernel.python.__globals__, "wp": names})
        function(Owner(owner.total, owner.count, owner.xs, copy.deepcopy(owner.pair)), out)


@wp.kernel
def in_counted_loop(w: Owner, out: wp.array2d[float]):
    i = wp.tid()
    w.total = float(0.0)
    for j in range(i):
        w.total += w.xs[j]
        w.pair.b[1] += w.total
        w.count = w.count + 2
    out[i, 0] = w.total
    out[i, 1] = w.pair.b[1]
    out[i, 2] = float(w.count)


@wp.kernel
def in_while_with_break(w: Owner, out: wp.array2d[float]):
    i = wp.tid()
    j = int(0)
    while j < 40:
        if w.total > float(i):
            w.pair.a = w.total
            break
        if j % 3 == 0:
            j += 1
            continue
        w.total += wp.abs(w.xs[j % i + 0]) if i > 0 else 1.0
        j += 1
    out[i, 0] = w.total
    out[i, 1] = w.pair.a
    out[i, 2] = float(j)


@wp.kernel
def in_nested_loops_and_branches(w: Owner, out: wp.array2d[float]):
    i = wp.tid()
    for j in range(i):
        for k in range(w.count):
            if w.xs[j] > float(k) * 0.25:
                w.pair.a += w.xs[j]
            elif w.xs[k] < 0.0:
                w.pair.b[0] -= w.xs[k]
            else:
                w.total += 1.0
        if w.total > 20.0:
            w.total = 0.5
    out[i, 0] = w.total
    out[i, 1] = w.pair.a
    out[i, 2] = w.pair.b[0]


@pytest.mark.parametrize("kernel", [in_counted_loop, in_while_with_break, in_nested_loops_and_branches])
def test_loops_change_fields_of_structs_that_hold_arrays(kernel):
    xs = RNG.normal(size=N).astype(np.float32)
    w = Owner(0.25, 3, xs, Pair(-1.0, np.array([0.5, 2.0], np.float32)))
    expected = np.zeros((N, 3))
    in_python(kernel, N, w, expected)
    (found,) = wp.launch(kernel, N, [w], [(N, 3)])
    np.testing.assert_allclose(found, expected, rtol=3e-5, atol=1e-5)


@wp.kernel
def totals(w: Owner, n: int, out: wp.array[float]):
    i = wp.tid()
    for j in range(n):
        w.total = wp.sin(w.total + w.xs[j] * w.pair.a)
    out[i] = w.total


def test_loops_over_fields_differentiate():
    w = Owner(0.25, 3, jnp.asarray(RNG.normal(size=7), jnp.float32), Pair(0.7, jnp.zeros(2)))

    def recurrence(w):
        total = w.total
        for j in range(7):
            total = jnp.sin(total + w.xs[j] * w.pair.a)
        return total

    found = jax.grad(lambda w: wp.launch(totals, 1, [w, 7], [1])[0][0], allow_int=True)(w)
    expected = jax.grad(recurrence, allow_int=True)(w)
    assert found.count.dtype == jax.dtypes.float0
    for x, y in [(found.total, expected.total), (found.xs, expected.xs), (found.pair.a, expected.pair.a)]:
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    wp.check_grads(totals, 1, [w, 7], [1])


@wp.func
def parted(p: Pair, s: float) -> tuple[Pair, float]:
    q = p
    q.a = s
    return q, p.a


@wp.func
def clipped(p: Pair, limit: float) -> Pair:
    if p.a > limit:
        return Pair(limit, p.b)
    p.b[0] = p.a
    return p


@wp.kernel
def through_functions(ps: wp.array[Pair], out: wp.array[Pair], rest: wp.array[float]):
    i = wp.tid()
    p = ps[i]
    q, s = parted(p, 3.0)
    c = clipped(p, 0.1)
    rest[i] = s + q.b[0] + c.b[0] + p.b[0]
    out[i] = Pair(a=q.a * c.a, b=c.b + q.b)


def test_functions_take_and_return_structs_by_value():
    a, b = RNG.normal(size=N).astype(np.float32), RNG.normal(size=(N, 2)).astype(np.float32)
    out, rest = wp.launch(through_functions, N, [Pair(a, b)], [N, N])
    c = b.copy()
    c[a <= 0.1, 0] = a[a <= 0.1]
    np.testing.assert_allclose(rest, a + b[:, 0] + c[:, 0] + b[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out.a, 3.0 * np.minimum(a, np.float32(0.1)), rtol=1e-6)
    np.testing.assert_allclose(out.b, b + c, rtol=1e-6)


@wp.kernel
def extents(ps: wp.array2d[Pair], out: wp.array[int]):
    out[0] = len(ps)
    out[1] = ps.shape[1]


def test_extents_of_arrays_of_structs():
    (found,) = wp.launch(extents, 1, [Pair(jnp.zeros((3, 4)), jnp.zeros((3, 4, 2)))], [2])
    assert found.tolist() == [3, 4]


@wp.kernel
def scatter(which: wp.array[int], ps: wp.array[Pair], out: wp.array[Pair]):
    i = wp.tid()
    j = which[i]
    out[j].a += ps[i].a
    out[j].b[1] -= ps[i].b[0]
    wp.atomic_max(out.b, j, ps[i].b)


def test_atomic_operations_on_fields():
    which = RNG.integers(0, 4, N).astype(np.int32)
    a, b = RNG.integers(-9, 9, N).astype(np.float32), np.zeros((N, 2), np.float32)
    b[:, 0] = RNG.integers(0, 9, N)
    b[:, 1] = -1e6
    start = Pair(jnp.ones(4), jnp.zeros((4, 2)))
    (out,) = wp.launch(scatter, N, [which, Pair(a, b)], [start])
    expected, largest, less = np.ones(4), np.zeros(4), np.zeros(4)
    np.add.at(expected, which, a)
    np.maximum.at(largest, which, b[:, 0])
    np.subtract.at(less, which, b[:, 0])
    np.testing.assert_array_equal(out.a, expected)
    np.testing.assert_array_equal(out.b, np.stack([largest, less], 1))


@wp.kernel
def first_fields(ps: wp.array[Pair], out: wp.array[float]):
    i = wp.tid()
    out[i] = ps[i].a


@pytest.mark.parametrize(
    "given",
    [Pair(jnp.zeros(4), jnp.zeros((3, 2))), {"a": np.zeros(4, np.float32), "b": np.zeros((5, 2), np.float32)}],
)
def test_fields_of_an_array_of_structs_share_its_axes(given):
    with pytest.raises(wp.LaunchError, match=r"'ps': 'ps.a' is for an array of shape \(4,\), 'ps.b' for one of"):
        wp.launch(first_fields, 3, [given], [3])


def test_shapes_of_an_output_share_its_axes():
    with pytest.raises(wp.LaunchError, match="'out.a' is for an array of shape"):
        wp.launch(through_functions, 2, [Pair(jnp.zeros(2), jnp.zeros((2, 2)))], [Pair(2, 3), 2])
    out, _ = wp.launch(through_functions, 2, [Pair(jnp.zeros(2), jnp.zeros((2, 2)))], [Pair(2, (2, 2)), 2])
    assert out.a.shape == (2,) and out.b.shape == (2, 2)


def test_a_wrong_rank_is_told_by_field():
    with pytest.raises(wp.KernelTypeError, match=r"parameter 'ps.b'"):
        wp.launch(first_fields, 3, [Pair(jnp.zeros(4), jnp.zeros(3))], [3])


def test_a_struct_of_another_class_of_the_same_name():
    class Pair:
        a: float
        b: wp.vec2

    with pytest.raises(wp.KernelTypeError, match="another class of that name"):
        wp.launch(first_fields, 3, [wp.struct(Pair)(jnp.zeros(4), jnp.zeros((4, 2)))], [3])


def test_structs_do_not_inherit():
    class More(Pair):
        c: float

    with pytest.raises(wp.KernelTypeError, match="has a base class, Pair"):
        wp.struct(More)


def test_names_that_structs_have_for_themselves():
    class Bad:
        fields: float

    with pytest.raises(wp.KernelTypeError, match="a field cannot be called 'fields'"):
        wp.struct(Bad)


@wp.kernel
def add_whole(ps: wp.array[Pair], out: wp.array[Pair]):
    wp.atomic_add(out, 0, ps[wp.tid()])


@wp.kernel
def plus(p: Pair, out: wp.array[float]):
    out[0] = p + 1.0


@pytest.mark.parametrize(("kernel", "hint"), [(add_whole, "name a field: out.a"), (plus, "name a field: a, b")])
def test_a_struct_where_a_number_belongs(kernel, hint):
    with pytest.raises(wp.KernelTypeError, match=hint):
        kernel.ir()


@wp.func
def square(x: float) -> float:
    return x * x


@wp.func_grad(square)
def wrong_gradient(x: float, cotangent: float):
    wp.adjoint[x] += 3.0 * x * cotangent


@wp.kernel
def wrong(p: Pair, ps: wp.array[Pair], out: wp.array[Pair]):
    i = wp.tid()
    out[i].a = square(ps[i].a) * p.a


@pytest.mark.parametrize("by_name", [False, True])
def test_check_grads_names_the_field(by_name):
    inputs = [Pair(0.5, jnp.zeros(2)), Pair(jnp.ones(3), jnp.ones((3, 2)))]
    given = dict(zip(["p", "ps"], inputs, strict=True)) if by_name else inputs
    with pytest.raises(AssertionError, match=r"parameter 'ps\.a'.*\n?.*output 'out\.a'"):
        wp.check_grads(wrong, 3, given, [3], modes="rev", order=1)


@wp.struct
class Result:
    x: wp.array[float]
    untouched: wp.array[float]
    factor: float


@wp.kernel
def into_result(a: wp.array[float], out: Result):
    i = wp.tid()
    out.x[i] = a[i] * out.factor


def test_an_output_may_have_numbers_among_its_fields():
    a = jnp.arange(3.0)
    for start, untouched in [(Result(3, 4, 2.0), np.zeros(4)), (Result(jnp.zeros(3), jnp.ones(2), 2.0), np.ones(2))]:
        (out,) = wp.launch(into_result, 3, [a], [start])
        np.testing.assert_array_equal(out.x, 2.0 * a)
        np.testing.assert_array_equal(out.untouched, untouched)
        assert out.factor == 2.0


def test_gradients_by_a_number_among_the_fields_of_an_output():
    a = jnp.asarray(RNG.normal(size=3), jnp.float32)
    found = jax.grad(lambda factor: wp.launch(into_result, 3, [a], [Result(3, 4, factor)])[0].x.sum())(2.0)
    np.testing.assert_allclose(found, a.sum(), rtol=1e-6)


def test_a_number_among_the_fields_of_an_output_has_no_shape():
    with pytest.raises(wp.KernelTypeError, match="'out.factor': expected float32, got tuple"):
        wp.launch(into_result, 3, [jnp.arange(3.0)], [(3,)])


@wp.struct
class Whole:
    k: float
    v: wp.vec3


@wp.struct
class Outer:
    p: Whole
    s: float


@wp.func
def change(p: Whole, s: float):
    p.k = s
    p.v[0] = s
    return p.k


@wp.func
def change_outer(o: Outer):
    o.p.k = 50.0
    return o.s


@wp.kernel
def copies(p: Whole, ps: wp.array[Whole], o: Outer, out: wp.array[float]):
    q = p
    q.k = 10.0
    out[0] = p.k
    out[1] = q.k
    r = ps[0]
    r.k = 20.0
    out[2] = ps[0].k
    out[3] = r.k
    s = Whole()
    s.k = 1.0
    t = s
    t.k = 2.0
    out[4] = s.k
    u = change(s, 30.0)
    out[5] = s.k
    out[6] = s.v[0]
    out[7] = u
    i = o.p
    i.k = 40.0
    out[8] = o.p.k
    out[17] = change_outer(o)
    out[9] = o.p.k
    o.p.v[1] = 6.0
    out[10] = o.p.v[1]
    ps[1] = ps[0]
    ps[0].k = 99.0
    out[11] = ps[1].k
    out[12] = r.k
    n = Outer()
    n.p = s
    s.k = 77.0
    out[13] = n.p.k
    out[18] = change(ps[1], 60.0)
    out[14] = ps[1].k
    for j in range(20):
        n.p.k += 1.0
        s = n.p
    out[15] = s.k
    c = Whole(3.0, wp.vec3(1.0, 2.0, 3.0))
    out[16] = c.v[2]


def test_names_and_parameters_have_copies_as_in_warp():
    p = Whole(k=3.0, v=wp.vec3(1.0, 2.0, 3.0))
    ps = Whole(k=jnp.full(2, 3.0), v=jnp.ones((2, 3)))
    found = wp.launch(copies, 1, [p, ps, Outer(p, 4.0), jnp.zeros(19)])["out"]
    # What warp-lang 1.19 gives.
    expected = [3, 10, 3, 20, 1, 1, 0, 30, 3, 3, 6, 3, 20, 1, 3, 21, 3, 4, 60]
    np.testing.assert_array_equal(found, expected)
    assert (p.k, float(ps.k[0])) == (3.0, 3.0)
