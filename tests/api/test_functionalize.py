"""`wp.functionalize`: functions of launches are functions of JAX, compared with jax.numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions_of_launches import add_to, assert_same, squares
from numpy.testing import assert_array_equal
from spring_steps import Model, N, Order, State, move, numpy_step, pull, step, values

import jwarp as wp

step_fn = wp.functionalize(step, returns="s")


@wp.kernel
def set_both(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    x[i] = 2.0 * y[i]
    y[i] = x[i] + 1.0


@pytest.fixture
def m():
    return Model(N)


@pytest.fixture
def s():
    return State(N)


def test_new_objects_come_back_and_arguments_stay(m, s):
    before = [np.array(a) for a in values(s)]
    t = step_fn(m, s, 0.1)
    assert type(t) is State and t is not s and t.steps == 0
    assert_same(values(t), numpy_step(wp.to_jax(m.spring.k), *before[:2], 0.1))
    assert_same(values(s), before)
    step(m, s, 0.1)  # as it runs by itself
    assert_same(values(t), values(s))
    t.x.fill_(2.0)  # and goes on
    wp.launch(move, N, inputs=[t.x, t.v, 0.0])
    assert_array_equal(t.x.numpy(), 2.0)


def test_static_attributes_are_part_of_the_program(m, s):
    first = step_fn(m, s, 0.1)
    m.spring.order = Order.SECOND
    second = step_fn(m, s, 0.1)
    wanted = numpy_step(wp.to_jax(m.spring.k), *values(s)[:2], 0.1, Order.SECOND)
    assert_same(values(second), wanted)
    assert not np.allclose(first.x.numpy(), second.x.numpy())
    assert len(step_fn._function._traced) >= 2


def test_calls_of_one_shape_are_traced_once(m, s):
    runs = []

    def counted(m, s, dt):
        runs.append(1)
        step(m, s, dt)

    f = wp.functionalize(counted, returns="s")
    for dt in (0.1, 0.2, 0.3):
        t = f(m, State(N, seed=int(dt * 10)), dt)
    f(Model(N), t, 0.5)
    assert len(runs) == 1
    f(Model(N + 1), State(N + 1), 0.5)
    assert len(runs) == 2


def test_under_jit_scan_and_checkpoint(m, s):
    k, (x, v, e) = wp.to_jax(m.spring.k), values(s)

    def mine(s, dt):
        body = jax.checkpoint(lambda s, _: (step_fn(m, s, dt), s.e))
        return jax.lax.scan(body, s, length=3)

    def wanted(x, v, e, dt):
        found = []
        for _ in range(3):
            found.append(e)
            x, v, e = numpy_step(k, x, v, dt)
        return (x, v, e), jnp.stack(found)

    last, seen = jax.jit(mine)(s, 0.1)
    (last_wanted, seen_wanted) = wanted(x, v, e, 0.1)
    assert_same(values(last), last_wanted)
    assert_same(wp.to_jax(seen), seen_wanted)

    def loss(s, dt):
        return wp.to_jax(mine(s, dt)[0].e).sum()

    found = jax.grad(loss, argnums=(0, 1), allow_int=True)(s, 0.1)
    by = jax.grad(lambda x, v, dt: wanted(x, v, e, dt)[0][2].sum(), argnums=(0, 1, 2))(x, v, 0.1)
    assert_same((wp.to_jax(found[0].x), wp.to_jax(found[0].v), found[1]), by, rtol=1e-4)


def test_batches_are_launches_of_batches(m):
    states = [State(N, seed) for seed in range(3)]
    batch = jax.tree.map(lambda *a: jnp.stack(a), *states)
    f = jax.vmap(lambda s, dt: step_fn(m, s, dt), in_axes=(0, 0))
    dts = jnp.array([0.1, 0.2, 0.3])
    found = f(batch, dts)
    for b in range(3):
        one = step_fn(m, states[b], dts[b])
        assert_same([a[b] for a in values(found)], values(one))
    text = str(jax.make_jaxpr(lambda s: f(s, dts))(batch))
    assert text.count("jwarp_launch") == 3 and "scan" not in text


def test_gradients_and_tangents(m, s):
    k, (x, v, _) = wp.to_jax(m.spring.k), values(s)

    def mine(k, x, v, dt):
        model = wp.replace(m, spring=wp.replace(m.spring, k=k))
        t = step_fn(model, wp.replace(s, x=x, v=v), dt)
        return wp.to_jax(t.e).sum() + wp.to_jax(t.x)[0, 0]

    def wanted(k, x, v, dt):
        x, _, e = numpy_step(k, x, v, dt)
        return e.sum() + x[0, 0]

    args = (k, x, v, 0.1)
    assert_same(
        jax.grad(mine, argnums=(0, 1, 2, 3))(*args), jax.jit(jax.grad(wanted, argnums=(0, 1, 2, 3)))(*args), 1e-4
    )
    one = tuple(jnp.ones_like(jnp.asarray(a)) for a in args)
    assert_same(jax.jvp(mine, args, one), jax.jvp(wanted, args, one), 1e-4)
    assert_same(jax.jit(jax.hessian(mine, argnums=3))(*args), jax.jit(jax.hessian(wanted, argnums=3))(*args), 1e-3)


def test_result_and_what_changed_come_back():
    def f(a, b, c):
        wp.launch(add_to, 3, inputs=[a, b])
        return {"a twice": wp.clone(a), "n": c}

    a, b = (wp.array([1.0, 2.0, 3.0], dtype=float) for _ in "ab")
    result, changed = wp.functionalize(f)(a, b, 7)
    assert list(changed) == ["b"] and result["n"] == 7
    assert_array_equal(changed["b"].numpy(), [2, 4, 6])
    assert_array_equal(result["a twice"].numpy(), [1, 2, 3])
    assert_array_equal(b.numpy(), [1, 2, 3])


def test_what_is_given_twice_comes_back_by_both_names(s):
    """An object, and one inside another; once as `returns` says, where its other name is none that changed besides."""

    def f(a, b, c):
        b.x.fill_(1.0)
        a.v.fill_(2.0)

    x, v = np.ones(s.x.numpy().shape), np.full(s.v.numpy().shape, 2.0)
    changed = wp.functionalize(f)(s, s, {"inside": s})[1]
    assert list(changed) == ["a", "b", "c"] and changed["a"] is changed["b"] is changed["c"]["inside"]
    assert_array_equal(changed["b"].x.numpy(), x)
    assert_array_equal(changed["b"].v.numpy(), v)
    assert_array_equal(wp.functionalize(f, returns="a")(s, s, {"inside": s}).x.numpy(), x)


def test_arrays_that_are_one_stay_one():
    def f(d):
        wp.launch(squares, 2, inputs=[d["part"]], outputs=[d["whole"][2:]])
        d["again"].flatten()[:1].fill_(9.0)

    whole = wp.array([2.0, 3.0, 4.0, 5.0], dtype=float)
    found = wp.functionalize(f, returns="d")({"whole": whole, "part": whole[:2], "again": whole.reshape((2, 2))})
    assert_array_equal(found["whole"].numpy(), [9, 3, 4, 9])
    assert_array_equal(found["part"].numpy(), [9, 3])
    assert_array_equal(found["again"].numpy(), [[9, 3], [4, 9]])


def test_views_of_all_kinds():
    @wp.kernel
    def count_up(x: wp.array2d[float]):
        i, j = wp.tid()
        x[i, j] = x[i, j] + float(10 * i + j)

    cuts = [
        (slice(1, 3), slice(0, 4, 2)),
        (slice(None), slice(1, 2)),
        (slice(0, 4, 3), slice(None)),
        (2,),
        (slice(2), 3),
    ]
    make = np.random.default_rng(0).uniform(size=(4, 5)).astype(np.float32)
    for cut in cuts:
        a = wp.array(make, dtype=float)

        def f(a, cut=cut):
            view = a[cut]
            view = view if view.ndim == 2 else wp.array(ptr=view.ptr, dtype=float, shape=(view.shape[0], 1),
                                                         strides=(view.strides[0], 4))  # fmt: skip
            wp.launch(count_up, view.shape, inputs=[view])

        found = wp.functionalize(f, returns="a")(a)
        f(a)
        assert_array_equal(found.numpy(), a.numpy(), err_msg=str(cut))


def test_views_by_pointer_and_type():
    def f(a):
        flat = wp.array(ptr=a.ptr, dtype=float, shape=(6,), copy=False)
        wp.launch(squares, 6, inputs=[flat], outputs=[flat])
        bits = a.view(dtype=wp.vec3).view(dtype=float).flatten().view(dtype=wp.uint32)
        assert bits.shape == (6,)
        bits[:1].fill_(0)

    a = wp.array(np.arange(6.0).reshape(2, 3) + 1, dtype=wp.vec3)
    assert_array_equal(wp.functionalize(f, returns="a")(a).numpy(), [[0, 4, 9], [16, 25, 36]])


def test_temporaries_and_lists():
    def f(items):
        total = wp.zeros_like(items[0])
        for x in items:
            wp.launch(add_to, 3, inputs=[x], outputs=[total])
        items.append(total)

    found = wp.functionalize(f, returns="items")([wp.ones(3, dtype=float), wp.full(3, 2.0, dtype=float)])
    assert [a.numpy()[0] for a in found] == [1, 2, 3]


def test_attributes_that_are_bound_anew(s):
    def f(s):
        s.x, s.v = s.v, s.x
        s.steps += 1
        s.extra = wp.zeros(2, dtype=int)

    t = wp.functionalize(f, returns="s")(s)
    assert t.steps == 1 and s.steps == 0
    assert_array_equal(t.extra.numpy(), 0)


# Errors


def test_change_that_does_not_come_back_is_named():
    def f(a, b):
        a.spring.k.fill_(2.0)
        b.x.zero_()

    with pytest.raises(
        wp.LaunchError, match=r"f changes 'a.spring.k' at .*functionalize.py:\d+, and only 'b' come back"
    ):
        wp.functionalize(f, returns="b")(Model(N), State(N))


def test_writing_to_arrays_outside_is_refused(s):
    outside = wp.zeros(N, dtype=float)

    def f(s):
        wp.launch(squares, N, inputs=[s.e], outputs=[outside])

    with pytest.raises(
        wp.LaunchError, match=r"writes to its parameter 'y' while JAX traces, and the array made at .*test_"
    ):
        wp.functionalize(f, returns="s")(s)


def test_arrays_of_another_trace_are_refused():
    kept = []

    def f(a):
        kept.append(a)
        a.zero_()

    wp.functionalize(f, returns="a")(wp.ones(3, dtype=float))

    def g(b):
        kept[0].zero_()
        b.zero_()

    with pytest.raises(wp.LaunchError, match=r"'a' is written at .*functionalize.py:\d+ while JAX traces another"):
        wp.functionalize(g, returns="b")(wp.ones(3, dtype=float))


def test_addresses_are_not_calculated_with():
    def f(a):
        wp.array(ptr=a.ptr + 4, dtype=float, shape=(2,))

    with pytest.raises(wp.LaunchError, match="the address of 'a' is calculated with"):
        wp.functionalize(f)(wp.ones(3, dtype=float))


def test_names_are_checked():
    with pytest.raises(wp.KernelTypeError, match="step has no argument 'd'"):
        wp.functionalize(step, returns="d")
    with pytest.raises(wp.LaunchError, match="missing a required argument: 's'"):
        step_fn(Model(N))


def test_arrays_of_structs():
    @wp.struct
    class Ball:
        x: wp.vec3
        mass: float

    @wp.kernel
    def grow(balls: wp.array[Ball], by: float):
        i = wp.tid()
        ball = balls[i]
        ball.x = ball.x * ball.mass * by
        balls[i] = ball

    balls = jax.tree.map(lambda x: x + 2.0, wp.zeros(3, dtype=Ball))
    f = wp.functionalize(lambda balls, by: wp.launch(grow, 3, inputs=[balls, by]), returns="balls")
    assert_array_equal(f(balls, 3.0).numpy()["x"], 12.0)
    assert_same(jax.grad(lambda by: jax.tree.leaves(f(balls, by))[0].sum())(3.0), 36.0)


def test_tape_inside_of_a_trace():
    def f(x):
        x.requires_grad = True
        y = wp.zeros(3, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(squares, 3, inputs=[x], outputs=[y])
        tape.backward(grads={y: wp.ones(3, dtype=float)})

    with pytest.raises(wp.LaunchError, match="wp.Tape goes back through arrays whose content is known"):
        wp.functionalize(f, returns="x")(wp.ones(3, dtype=float))


# JAX arrays as arguments


def kick(x: wp.array[wp.vec3], k: wp.array, v: wp.array[wp.vec3], dt: float):
    wp.launch(pull, x.shape, inputs=[x, k, v, dt])


def test_jax_arrays_are_what_the_annotation_says_and_come_back():
    make = np.random.default_rng(3)
    k, v, x = (jnp.asarray(make.uniform(-1, 1, shape), jnp.float32) for shape in ((N,), (N, 3), (2, N, 3)))
    kicked = wp.functionalize(kick, returns="v")

    def wanted(x, v):
        return numpy_step(k, x, v, 0.1)[1]

    def last(f):
        return jax.lax.scan(lambda v, x: (f(x, v), None), v, x)[0]

    got = last(lambda x, v: kicked(x, k, v, 0.1))
    assert isinstance(got, jax.Array)
    assert_same(got, last(wanted))
    slopes = jax.grad(lambda x, f: jnp.sum(f(x, v) ** 2))
    assert_same(slopes(x[0], lambda x, v: kicked(x, k, v, 0.1)), slopes(x[0], wanted))
    batched = jax.vmap(kicked, (0, None, None, None))(x, k, v, 0.1)
    assert_same(batched, jax.vmap(wanted, (0, None))(x, v))
    result, changed = wp.functionalize(kick)(np.asarray(x[0]), k, v, 0.1)
    assert result is None and set(changed) == {"v"} and isinstance(changed["v"], jax.Array)
    assert_same(changed["v"], wanted(x[0], v))


def test_arrays_that_may_be_none_and_names_that_mean_nothing():
    def step(x: wp.array[float] | None, y: "wp.array[float]", z: "Unknown" = None):  # noqa: F821
        wp.launch(squares, N, inputs=[y if x is None else x], outputs=[y])

    y = jnp.asarray(np.random.default_rng(4).normal(size=N), jnp.float32)
    stepped = wp.functionalize(step, returns=("x", "y"))
    x, got = stepped(2 * y, y)
    assert isinstance(x, jax.Array)
    assert_same(got, 4 * y * y)
    x, got = stepped(None, y)
    assert x is None
    assert_same(got, y * y)
