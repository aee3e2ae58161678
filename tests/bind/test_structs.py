"""Structs: arguments and values of kernels, pytrees of JAX, gradients by field, records, and what is refused."""

import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(17)


@wp.struct
class Inner:
    k: float
    w: wp.vec2


@wp.struct
class P:
    k: float
    v: wp.vec3
    inner: Inner
    n: int

    @wp.func
    def energy(self, x: float):
        return self.k * x * x + wp.length(self.v) * self.inner.k


@wp.struct
class State:
    x: wp.array[wp.vec3]
    m: wp.array[float]


@wp.func
def scaled(p: P, s: float):
    q = p
    q.k = p.k * s
    q.v[1] += 1.0
    q.inner.w = q.inner.w * 2.0
    return q


@wp.kernel
def mix(p: P, st: State, out: wp.array[float]):
    i = wp.tid()
    q = scaled(p, 2.0)
    for _ in range(p.n):
        q.k += st.m[i] * 0.5
        if st.m[i] > 0.0:
            q.inner.k = q.inner.k + 1.0
    out[i] = q.energy(st.x[i][0]) + q.v[1] + q.inner.w[1] + p.v[1]


def reference(k, v, ik, w, n, x, m):
    k = k * 2 + n * m * 0.5
    ik = ik + jnp.where(m > 0, n, 0)
    v1 = v.at[1].add(1.0)
    return k * x[:, 0] ** 2 + jnp.linalg.norm(v1) * ik + v1[1] + 2 * w[1] + v[1]


@wp.kernel
def step(ps: wp.array[P], st: State, o: State, qs: wp.array[P]):
    i = wp.tid()
    o.x[i] = st.x[i] * ps[i].k
    o.m[i] += ps[i].inner.k
    q = ps[i]
    q.k = 9.0
    q.inner.w[0] = 5.0
    qs[i] = q
    qs[i].v[2] = 7.0
    qs[i].n += 1


def floats(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def one():
    return P(k=1.5, v=floats(3), inner=Inner(0.7, floats(2)), n=3)


def state(n=5):
    return State(floats(n, 3), floats(n))


def many(n=5):
    return P(floats(n), floats(n, 3), Inner(floats(n), floats(n, 2)), jnp.arange(n, dtype=jnp.int32))


def parts(p, st):
    return p.k, p.v, p.inner.k, p.inner.w, p.n, st.x, st.m


# Values


def test_values_in_kernels():
    p, st = one(), state()
    expected = reference(*parts(p, st))
    np.testing.assert_allclose(wp.launch(mix, 5, [p, st], [5])[0], expected, rtol=1e-5)
    np.testing.assert_allclose(wp.jax_kernel(mix)(p, st)[0], expected, rtol=1e-5)
    as_dicts = {"k": p.k, "v": p.v, "inner": {"k": 0.7, "w": p.inner.w}, "n": 3}
    np.testing.assert_allclose(wp.launch(mix, 5, [as_dicts, {"x": st.x, "m": st.m}], [5])[0], expected, rtol=1e-5)
    again = wp.launch(mix, 5, {"st": st, "p": p}, {"out": 5})
    np.testing.assert_allclose(again["out"], expected, rtol=1e-5)


def test_arrays_of_structs_and_structs_of_arrays():
    ps, st = many(), state()
    for run in (
        lambda: wp.launch(step, 5, [ps, st], [5, 5]),
        lambda: jax.jit(wp.jax_kernel(step, num_outputs=2))(ps, st),
        lambda: wp.launch(step, 5, [ps, st], [State((5,), 5), {"k": 5, "v": (5, 3), "inner": 5, "n": (5,)}]),
    ):
        o, qs = run()
        assert type(o) is State and type(qs) is P and type(qs.inner) is Inner
        np.testing.assert_allclose(o.x, st.x * ps.k[:, None], rtol=1e-6)
        np.testing.assert_allclose(o.m, ps.inner.k)
        np.testing.assert_array_equal(qs.k, 9.0)
        np.testing.assert_array_equal(qs.v, ps.v.at[:, 2].set(7.0))
        np.testing.assert_array_equal(qs.inner.w, ps.inner.w.at[:, 0].set(5.0))
        np.testing.assert_array_equal(qs.n, ps.n + 1)


def test_initial_contents_by_field():
    ps, st, start = many(), state(), state()
    o, _ = wp.launch(step, 5, [ps, st], [start, 5])
    np.testing.assert_allclose(o.m, start.m + ps.inner.k, rtol=1e-6)
    found = wp.launch(step, 5, [ps, st, start, many()])
    assert list(found) == ["o", "qs"] and type(found["o"]) is State
    np.testing.assert_allclose(found["o"].m, start.m + ps.inner.k, rtol=1e-6)


def test_a_struct_without_outputs_keeps_what_is_not_written():
    @wp.kernel
    def age(st: State):
        i = wp.tid()
        st.m[i] = 2.0 * st.m[i]

    st = state()
    found = wp.launch(age, 5, [st])["st"]
    np.testing.assert_array_equal(found.m, 2 * st.m)
    assert found.x is st.x


def test_outside_kernels():
    p = P()
    assert p.k == 0.0 and p.n == 0 and p.inner.k == 0.0 and np.all(p.v == 0) and State().x is None
    p.k = 3.0
    assert "P(k=3.0" in repr(p)
    leaves, tree = jax.tree.flatten(one())
    assert len(leaves) == 5 and leaves[0] == 1.5 and type(jax.tree.unflatten(tree, leaves)) is P
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(one())]
    assert paths == [".k", ".v", ".inner.k", ".inner.w", ".n"]


def test_constructed_and_captured_structs():
    rest = Inner(0.25, wp.vec2(1.0, 2.0))

    @wp.kernel
    def build(x: wp.array[float], m: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        empty = Inner()
        made = Inner(2.0, wp.vec2(x[i], 1.0))
        named = Inner(w=made.w * 3.0)
        pair = State(m=m)
        out[i] = empty.k + empty.w[0] + made.k * named.w[0] + rest.k + rest.w[1] + pair.m[i] + named.k

    x, m = floats(4), floats(4)
    np.testing.assert_allclose(wp.launch(build, 4, [x, m], [4])[0], 6 * x + 2.25 + m, rtol=1e-5)


def test_branches_choose_between_structs():
    @wp.kernel
    def choose(a: P, b: P, x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        chosen = a
        if x[i] > 0.0:
            chosen = b
            chosen.k += 1.0
        j = 0
        while j < 3:
            chosen.inner.w[1] += chosen.k
            j += 1
        out[i] = chosen.k + chosen.inner.w[1] + chosen.v[0]

    a, b, x = one(), one(), floats(7)
    b.k = 4.0
    out = wp.launch(choose, 7, [a, b, x], [7])[0]
    of_a = 1.5 + a.inner.w[1] + 3 * 1.5 + a.v[0]
    of_b = 5.0 + b.inner.w[1] + 3 * 5.0 + b.v[0]
    np.testing.assert_allclose(out, jnp.where(x > 0, of_b, of_a), rtol=1e-5)


def test_two_dimensional_arrays_rows_and_shapes():
    @wp.kernel
    def rows(a: wp.array2d[Inner], out: wp.array[float]):
        i = wp.tid()
        row = a[i]
        total = 0.0
        for j in range(row.shape[0]):
            total += row[j].k * a[i, j].w[1]
        out[i] = total + float(a.shape[0])

    a = Inner(floats(3, 4), floats(3, 4, 2))
    out = wp.launch(rows, 3, [a], [3])[0]
    np.testing.assert_allclose(out, (a.k * a.w[..., 1]).sum(1) + 3, rtol=1e-5)


# Transformations


def test_gradients_by_field():
    p, st = one(), state()

    def loss(p, st):
        return wp.launch(mix, 5, [p, st], [5])[0].sum()

    by_p, by_st = jax.grad(loss, (0, 1), allow_int=True)(p, st)
    want = jax.grad(lambda *given: reference(*given[:4], 3, *given[4:]).sum(), range(6))(
        p.k, p.v, p.inner.k, p.inner.w, st.x, st.m
    )
    got = (by_p.k, by_p.v, by_p.inner.k, by_p.inner.w, by_st.x, by_st.m)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert by_p.n.dtype == jax.dtypes.float0
    wp.check_grads(lambda k, st: wp.launch(mix, 5, [P(k, p.v, p.inner, 3), st], [5])[0], (1.5, st))


def test_batches_of_structs():
    st = state()
    ps = many(4)
    ps.n = jnp.full(4, 2, jnp.int32)
    got = jax.vmap(lambda p: wp.launch(mix, 5, [p, st], [5])[0])(ps)
    for b in range(4):
        p = jax.tree.map(lambda x, b=b: x[b], ps)
        np.testing.assert_allclose(got[b], reference(*parts(p, st)), rtol=1e-5, atol=1e-5)


def test_a_scan_carries_a_struct():
    @wp.kernel
    def fall(st: State, dt: float, to: State):
        i = wp.tid()
        to.x[i] = st.x[i] + wp.vec3(0.0, -dt * st.m[i], 0.0)
        to.m[i] = st.m[i]

    st = state()
    end, _ = jax.lax.scan(lambda s, _: (wp.launch(fall, 5, [s, 0.5], [5])[0], None), st, length=4)
    np.testing.assert_allclose(end.x[:, 1], st.x[:, 1] - 2.0 * st.m, rtol=1e-5, atol=1e-6)


# Records


def test_records_and_adjoints():
    p, st, w = one(), state(), floats(5)
    record = wp.launch(mix, 5, [p, st], [5], record_cmd=True)
    np.testing.assert_allclose(record.launch()[0], reference(*parts(p, st)), rtol=1e-5)
    other = one()
    record.set_param_by_name("p", other)
    np.testing.assert_allclose(record.launch()[0], reference(*parts(other, st)), rtol=1e-5)
    assert [slot.name for slot in record.descriptor.params][:3] == ["p.k", "p.v", "p.inner.k"]
    adjoint = wp.launch(mix, 5, [p, st], [5], adjoint=True, adj_outputs=[w], record_cmd=True)
    by_p, by_st = adjoint.launch()
    want = jax.grad(lambda p, st: (w * wp.launch(mix, 5, [p, st], [5])[0]).sum(), (0, 1), allow_int=True)(p, st)
    np.testing.assert_allclose(by_p.v, want[0].v, rtol=1e-5)
    np.testing.assert_allclose(by_st.x, want[1].x, rtol=1e-5)
    assert by_p.n is None and adjoint.wanted == ("p", "st")
    (only,) = wp.launch(mix, 5, [p, st], [5], adjoint=True, adj_inputs=[None, True], adj_outputs=[w])
    np.testing.assert_allclose(only.m, want[1].m, rtol=1e-5)


def test_in_place():
    ps, st = many(), state()
    o = State(np.zeros((5, 3), np.float32), np.ones(5, np.float32))
    qs = jax.tree.map(np.array, many())
    found = wp.launch(step, 5, [ps, st], [o, qs])
    assert found[0].m is o.m and found[1].inner.w is qs.inner.w
    np.testing.assert_allclose(o.m, 1 + ps.inner.k, rtol=1e-6)
    grads = State(np.zeros((5, 3), np.float32), np.zeros(5, np.float32))
    w = np.ones(5, np.float32)
    wp.launch(mix, 5, [one(), st], [5], adjoint=True, adj_inputs=[None, grads], adj_outputs=[w])
    assert np.any(grads.m)


# Faults


def test_faults_of_arguments_name_the_field():
    p, st = one(), state()
    cases = [
        ([p, State(st.x[:, :2], st.m)], wp.KernelTypeError, r"'st\.x'"),
        ([P(1.5, p.v, Inner("a", p.inner.w), 3), st], wp.KernelTypeError, r"'p\.inner\.k'"),
        ([st, st], wp.KernelTypeError, "parameter 'p': expected P, got State"),
        ([1.0, st], wp.KernelTypeError, "expected P, got float"),
        ([{"k": 1.0}, st], wp.LaunchError, "no value for field 'v'"),
        ([p, {"x": st.x, "m": st.m, "y": 1}], wp.LaunchError, "no field 'y'"),
    ]
    for inputs, error, text in cases:
        with pytest.raises(error, match=text):
            wp.launch(mix, 5, inputs, [5])
    with pytest.raises(wp.KernelTypeError, match=r"output 'p\.k'"):
        wp.launch(mix, 5, {"st": st}, {"p": 5, "out": 5})


def test_faults_of_classes():
    with pytest.raises(wp.KernelTypeError, match="no fields"):
        wp.array[wp.struct(type("Empty", (), {}))]
    with pytest.raises(wp.KernelTypeError, match="needs a class"):
        wp.struct(5)
    with pytest.raises(wp.KernelTypeError, match="field 'x': .* is not a type of kernels"):
        wp.struct(type("Odd", (), {"__annotations__": {"x": str}}))
    with pytest.raises(wp.KernelTypeError, match="has a default"):
        wp.struct(type("Default", (), {"__annotations__": {"x": float}, "x": 1.0}))
    with pytest.raises(wp.KernelTypeError, match="no field 'z'"):
        P().z = 1.0
    with pytest.raises(wp.KernelTypeError, match="4 fields"):
        P(1, 2, 3, 4, 5)


@wp.kernel
def no_field(p: P, out: wp.array[float]):
    out[0] = p.kk


@wp.kernel
def wrong_type(p: P, out: wp.array[float]):
    q = p
    q.k = 3
    q.n = 2.5
    out[0] = q.k


@wp.kernel
def arithmetic(p: P, out: wp.array[float]):
    q = p + p
    out[0] = q.k


@wp.kernel
def other_struct(p: P, ps: wp.array[P], out: wp.array[float]):
    ps[0] = p.inner
    out[0] = 1.0


@wp.kernel
def no_array(p: P, out: wp.array[float]):
    s = State()
    out[0] = s.m[0]


@wp.kernel
def added(p: P, ps: wp.array[P], out: wp.array[float]):
    ps[0] += p
    out[0] = 1.0


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (no_field, "`kk` is not an attribute of 'p'"),
        (wrong_type, "`q.n` is int32, not 2.5"),
        (arithmetic, "P"),
        (other_struct, "holds P, the value is Inner"),
        (no_array, "the field `m` has no array yet"),
        (added, "must be a scalar, not P"),
    ],
)
def test_faults_of_kernels_name_the_line(kernel, text):
    with pytest.raises((wp.CompileError, wp.KernelTypeError), match=text) as caught:
        kernel.ir()
    assert "test_structs.py:" in str(caught.value)


@wp.struct
class Offset:
    scale: float
    shift: int


@wp.struct
class Shifted:
    offset: Offset
    x: wp.array[float]


@wp.kernel
def nested_fields(p: Shifted, c: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = p.offset.scale * p.x[i] + float(p.offset.shift) + c


def test_repeated_launches_look_at_all_fields():
    """A launch that is repeated takes a shorter way, which must not miss what is different."""
    rng = np.random.default_rng(4)
    for turn in range(6):
        n = 5 + turn // 2
        x = rng.normal(size=n).astype(np.float32)
        k, s, c = float(rng.normal()), int(rng.integers(-9, 9)), float(rng.normal())
        given = Shifted(offset=Offset(scale=k, shift=s), x=jnp.asarray(x) if turn % 2 else x)
        (y,) = wp.launch(nested_fields, n, [given, c], [n])
        np.testing.assert_allclose(y, np.float32(k) * x + s + np.float32(c), rtol=1e-5, atol=1e-5)
    assert nested_fields.executables
    before = len(nested_fields.executables)
    (y,) = wp.launch(nested_fields, n, [given, c], [n])
    assert len(nested_fields.executables) == before
    with pytest.raises(wp.KernelTypeError, match=r"p\.offset\.shift"):
        wp.launch(nested_fields, n, [Shifted(offset=Offset(scale=k, shift=0.5), x=given.x), c], [n])
    with pytest.raises(wp.KernelTypeError, match="'p'"):
        wp.launch(nested_fields, n, [Offset(scale=k, shift=s), c], [n])
    own = np.zeros(n, np.float32)
    for scale in (2.0, 3.0):
        given = Shifted(offset=Offset(scale=scale, shift=1), x=x)
        assert wp.launch(nested_fields, n, [given, 0.0], [own])[0] is own
        np.testing.assert_allclose(own, scale * x + 1, rtol=1e-5)


EXPORTS = """
import sys
import jax, jax.numpy as jnp, numpy as np
import jwarp as wp

@wp.struct
class Spring:
    k: float
    {field}: wp.vec2

@wp.struct
class Springs:
    one: Spring
    x: wp.array[float]

@wp.kernel
def pull(s: Springs, f: wp.array[float]):
    i = wp.tid()
    f[i] = -s.one.k * s.x[i]

made = wp.jax_kernel(pull)
s = Springs(Spring(2.0, wp.vec2(1, 2)), jnp.arange(3.0))
fn = lambda s: {{"f": made(s)[0], "s": s}}
if sys.argv[1] == "write":
    exported = jax.export.export(jax.jit(fn), disabled_checks=wp.EXPORT_CHECKS)(s)
    open(sys.argv[2], "wb").write(exported.serialize(vjp_order=1))
else:
    exported = jax.export.deserialize(open(sys.argv[2], "rb").read())
    found = exported.call(s)
    assert type(found["s"]) is Springs and type(found["s"].one) is Spring
    np.testing.assert_array_equal(found["f"], [0, -2, -4])
    gradient = jax.grad(lambda s: exported.call(s)["f"].sum())(s)
    assert type(gradient) is Springs and gradient.one.k == -3.0
"""


def test_structs_are_arguments_of_exported_functions(tmp_path):
    pytest.importorskip("flatbuffers")
    for program, field in (("good", "rest"), ("other", "length")):
        (tmp_path / f"{program}.py").write_text(EXPORTS.format(field=field))

    def run(program, what):
        arguments = [sys.executable, str(tmp_path / f"{program}.py"), what, str(tmp_path / "exported")]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=120)

    done = run("good", "write")
    assert done.returncode == 0, done.stderr
    done = run("good", "read")
    assert done.returncode == 0, done.stderr
    done = run("other", "read")
    assert "struct Spring was exported with the fields ('k', 'rest'), and has ('k', 'length') now" in done.stderr


def test_structs_of_one_name_can_be_exported():
    """As in a notebook whose cell is run again."""

    def define():
        @wp.struct
        class Again:
            k: float

        return Again

    for made in (define(), define()):
        exported = jax.export.export(jax.jit(lambda s: s.k * 2))(made(k=jnp.float32(1.5)))
        pytest.importorskip("flatbuffers")
        assert jax.export.deserialize(exported.serialize()).call(made(k=jnp.float32(1.5))) == 3.0
