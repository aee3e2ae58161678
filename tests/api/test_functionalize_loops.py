"""Loops, branches and gradients of one's own in `wp.functionalize`, compared with jax.numpy."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions_of_launches import add_to, assert_same, squares
from numpy.testing import assert_array_equal

import jwarp as wp

# Loops and branches that arrays decide on


@wp.kernel
def newton(a: wp.array[float], x: wp.array[float], left: wp.array[int], going: wp.array[int]):
    """One step towards the root of a, and whether there is one more."""
    x[0] = 0.5 * (x[0] + a[0] / x[0])
    left[0] -= 1
    going[0] = 0
    if left[0] > 0:
        going[0] = 1


def root(a, x, trips):
    left, going = wp.full(1, trips, dtype=int), wp.ones(1, dtype=int)
    steps = wp.zeros(1, dtype=float)

    def body(by):
        wp.launch(newton, 1, inputs=[a, x, left, going])
        temporary = wp.full(1, by, dtype=float)
        wp.launch(add_to, 1, inputs=[temporary], outputs=[steps])

    wp.capture_while(going, body, by=2.0)
    return steps


@pytest.mark.parametrize("max_trips", [None, 8])
def test_loops(max_trips):
    f = wp.functionalize(root, max_trips=max_trips)

    def mine(a, x, trips=4):
        steps, changed = f(wp.from_jax(a), wp.from_jax(x), trips)
        return wp.to_jax(changed["x"])[0], wp.to_jax(steps)

    def wanted(a, x):
        for _ in range(4):
            x = 0.5 * (x + a / x)
        return x[0]

    a, x = jnp.array([2.0]), jnp.array([1.5])
    assert_same(mine(a, x), (wanted(a, x), jnp.array([8.0])))
    steps = root(wp.from_jax(a), wp.from_jax(x), 4)  # as it runs by itself
    assert steps.numpy() == 8
    assert_same(jax.vmap(mine)(jnp.array([[2.0], [3.0]]), jnp.array([[1.5], [1.0]]))[0],
                jax.vmap(wanted)(jnp.array([[2.0], [3.0]]), jnp.array([[1.5], [1.0]])))  # fmt: skip
    assert_same(jax.jvp(lambda *args: mine(*args)[0], (a, x), (a, x)), jax.jvp(wanted, (a, x), (a, x)))
    if max_trips:
        found = jax.grad(lambda *args: mine(*args)[0], argnums=(0, 1))(a, x)
        assert_same(found, jax.jit(jax.grad(wanted, argnums=(0, 1)))(a, x), 1e-4)
        assert_same(
            *(jax.jit(jax.jacfwd(jax.grad(lambda a, f=f: f(a, x))))(a) for f in (lambda *z: mine(*z)[0], wanted)), 1e-4
        )
        cut_off = jax.value_and_grad(lambda a: mine(a, x, trips=9)[0])
        for found in (*cut_off(a), *jax.jvp(lambda a: mine(a, x, trips=9)[0], (a,), (a,))):
            assert np.isnan(found).all()
    else:
        with pytest.raises(
            wp.NotDifferentiableError, match=r"(?s)capture_while.*\.py:\d+.*max_trips of wp.functionalize"
        ):
            jax.jit(jax.vmap(jax.grad(lambda a: mine(a, x)[0])))(a[None])


@pytest.mark.parametrize("max_trips", [None, 8])
def test_loops_in_shard_map(max_trips):
    """A loop-carried value may be replicated before the loop, and vary after it."""
    f = wp.functionalize(root, max_trips=max_trips)

    def mine(a):
        return wp.to_jax(f(wp.from_jax(a), wp.ones(1, dtype=float), 4)[1]["x"])

    mesh, p = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,)), jax.P("i")
    sharded = jax.jit(jax.shard_map(mine, mesh=mesh, in_specs=p, out_specs=p))
    assert_same(sharded(jnp.array([2.0])), mine(jnp.array([2.0])))


def test_bounds_of_trips_by_body():
    def body(a, going):
        wp.launch(newton, 1, inputs=[a, a, going, going])

    def f(a):
        going = wp.full(1, 2, dtype=int)
        wp.capture_while(going, body, a=a, going=going)

    bounded = wp.functionalize(f, returns="a", max_trips={body: 3})
    text = str(jax.make_jaxpr(lambda x: wp.to_jax(bounded(wp.from_jax(x))))(jnp.ones(1)))
    assert text.count("scan[") == text.count("length=2") == 1 and "while" not in text


def test_branches():
    def f(flag, x):
        y = wp.zeros_like(x)

        def double():
            wp.launch(add_to, 3, inputs=[x], outputs=[y])
            wp.launch(add_to, 3, inputs=[x], outputs=[y])

        wp.capture_if(flag, on_true=double, on_false=lambda: wp.launch(squares, 3, inputs=[x], outputs=[y]))
        wp.capture_if(flag, on_true=lambda: y[:1].fill_(7.0))
        return y

    x = wp.array([1.0, 2.0, 3.0], dtype=float)
    for value, wanted in ((1, [7, 4, 6]), (0, [1, 4, 9])):
        flag = wp.full(1, value, dtype=int)
        result, changed = wp.functionalize(f)(flag, x)
        assert not changed
        assert_array_equal(result.numpy(), wanted)
        assert_array_equal(f(flag, x).numpy(), wanted)


def test_loops_refuse():
    going = wp.ones(1, dtype=int)
    with pytest.raises(
        wp.LaunchError,
        match=r"the body '<lambda>' \(.*loops.py:\d+\) of wp.capture_while does not write to its condition, 'a'",
    ):
        wp.functionalize(lambda a: wp.capture_while(a, lambda: None))(going)

    def escapes(a, b):
        def body():
            body.kept = wp.zeros(1, dtype=float)
            a.zero_()

        wp.capture_while(a, body)
        wp.launch(add_to, 1, inputs=[body.kept], outputs=[b])

    with pytest.raises(wp.LaunchError, match=r"made at .*test_functionalize_loops.py:\d+ was made in the body 'body'"):
        wp.functionalize(escapes)(going, wp.zeros(1, dtype=float))


class Pair:
    def __init__(self):
        self.n, self.x, self.y = (wp.full(1, 3, dtype=int), *(wp.full(1, float(k), dtype=float) for k in (1, 2)))


@wp.kernel
def count_down(n: wp.array[int]):
    n[0] -= 1


@pytest.mark.parametrize("given", ["closure", "argument"])
def test_bodies_do_not_bind_attributes_anew(given):
    def exchange(pair):
        wp.launch(count_down, 1, inputs=[pair.n])
        pair.x, pair.y = pair.y, pair.x

    def f(pair):
        if given == "closure":
            wp.capture_while(pair.n, lambda: exchange(pair))
        else:
            wp.capture_while(pair.n, exchange, pair=pair)

    with pytest.raises(
        wp.LaunchError, match=r"the body '.*' \(.*loops.py:\d+\) of wp.capture_while binds 'pair.x' anew"
    ):
        wp.functionalize(f, returns="pair")(Pair())


class AnswersAnything:
    def __getattr__(self, name):
        raise KeyError(name)


def nested(depth):
    found = None
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("around", [AnswersAnything(), nested(5000), nested(330), nested(120)], ids=["any", *"abc"])
def test_bodies_may_have_anything_around_them(around):
    def f(n, x):
        def body():
            assert around is not None
            wp.launch(count_down, 1, inputs=[n])
            wp.launch(add_to, 1, inputs=[x], outputs=[x])

        wp.capture_while(n, body)

    x, _ = wp.functionalize(f, returns=["x", "n"])(wp.array([3], dtype=int), wp.ones(1, dtype=float))
    assert x.numpy() == 8


def test_bodies_do_not_bind_variables_around_them_anew():
    n, x = wp.full(1, 3, dtype=int), wp.ones(1, dtype=float)

    def by_count(n, x):
        count = 0

        def body():
            nonlocal count
            wp.launch(count_down, 1, inputs=[n])
            count += 1
            x.fill_(float(count))

        return body, "count"

    def by_exchange(n, x):
        a, b = x, wp.zeros(1, dtype=float)

        def body():
            nonlocal a, b
            wp.launch(count_down, 1, inputs=[n])
            wp.launch(squares, 1, inputs=[a], outputs=[b])
            a, b = b, a

        return body, "a"

    def by_list(n, x):
        log = []

        def note():
            log.append(x)

        def body():
            wp.launch(count_down, 1, inputs=[n])
            note()

        return body, "log"

    for make in (by_count, by_exchange, by_list):
        for capture in (wp.capture_while, wp.capture_if):
            body, name = make(n, x)
            line = body.__code__.co_firstlineno
            said = rf"'body' \(.*loops.py:{line}\).* of wp.capture_while binds '{name}' anew"
            if capture is wp.capture_if:
                said = rf"a branch of wp.capture_if, 'body' \(.*loops.py:{line}\).* binds '{name}' anew"
            with pytest.raises(wp.LaunchError, match=said):
                wp.functionalize(lambda n, x, c=capture, make=make: c(n, make(n, x)[0]))(n, x)

    class Counter:
        def __init__(self, n):
            self.n, self.count = n, 0

        def body(self):
            wp.launch(count_down, 1, inputs=[self.n])
            self.count += 1

    with pytest.raises(wp.LaunchError, match=r"the body 'body' \(.*\) of wp.capture_while binds 'self.count' anew"):
        wp.functionalize(lambda n: wp.capture_while(n, Counter(n).body))(n)


# Gradients of one's own


def solve(a, x):
    """x becomes the root of a, by many steps."""
    going, left = wp.ones(1, dtype=int), wp.full(1, 12, dtype=int)
    wp.capture_while(going, lambda: wp.launch(newton, 1, inputs=[a, x, left, going]))


def solve_and_square(a, x):
    solve(a, x)
    wp.launch(squares, 1, inputs=[x], outputs=[x])
    wp.launch(add_to, 1, inputs=[a], outputs=[x])


def value_of(f):
    return lambda a, x: wp.to_jax(f(wp.from_jax(a), wp.from_jax(x)))[0]


def test_rule_for_a_function_of_launches():
    seen = []

    def rule(inputs, outputs, cotangents):
        """x * x = a, so that dx = da / 2x; where it started from does not matter."""
        (a, x), (_, root), (da, dx) = inputs, outputs, cotangents
        seen.append((a.shape, x.shape))
        da.assign(wp.to_jax(da) + wp.to_jax(dx) / (2 * wp.to_jax(root)))
        dx.zero_()

    f = value_of(wp.functionalize(solve_and_square, returns="x", custom_vjp={solve: rule}))
    a, x = jnp.array([2.0]), jnp.array([1.0])
    assert_same(f(a, x), 4.0)
    assert_same(jax.jit(jax.grad(f, argnums=(0, 1)))(a, x), (jnp.array([2.0]), jnp.array([0.0])))
    assert_same(jax.vmap(jax.grad(f))(jnp.array([[2.0], [3.0]]), jnp.ones((2, 1))), jnp.array([[2.0], [2.0]]))
    assert seen
    alone = value_of(wp.functionalize(solve, returns="x", custom_vjp={solve: rule}))
    assert_same(jax.grad(alone)(a, x), jnp.array([0.5 / 2**0.5]), 1e-4)
    assert wp.functionalize(solve_and_square, returns="x")(wp.from_jax(a), wp.from_jax(x)).numpy()[0] == f(a, x)


def test_gradients_are_stopped_in_kernels_and_functions():
    a, x = jnp.array([2.0]), jnp.array([1.0])
    f = value_of(wp.functionalize(solve_and_square, returns="x", stop_gradient_in=[solve]))
    assert_same(jax.grad(f, argnums=(0, 1))(a, x), (jnp.array([1.0]), jnp.array([0.0])))
    g = value_of(wp.functionalize(solve_and_square, returns="x", stop_gradient_in=[squares], max_trips=12))
    assert_same(jax.grad(g, argnums=(0, 1))(a, x), (jnp.array([1.0]), jnp.array([0.0])))


@wp.kernel
def share(x: wp.array[float], total: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * wp.atomic_add(total, 0, x[i])  # what it was before: that of threads in some order


def share_and_square(a, x):
    wp.launch(share, a.shape, inputs=[a, wp.zeros(1, dtype=float)], outputs=[x])
    wp.launch(squares, x.shape, inputs=[x], outputs=[x])
    wp.launch(add_to, a.shape, inputs=[a], outputs=[x])


def test_kernels_without_a_derivative_are_refused_by_name_and_line_or_passed_by():
    a, x = jnp.array([2.0]), jnp.array([0.0])
    f = value_of(wp.functionalize(share_and_square, returns="x"))
    assert_same(f(a, x), 2.0)
    line = inspect.getsourcelines(inspect.unwrap(share))[1] + 3
    with pytest.raises(wp.NotDifferentiableError, match="`share`: the derivative of atomic_add") as refused:
        jax.grad(f)(a, x)
    assert f"loops.py:{line}\n" in str(refused.value)
    for way in (share, share_and_square):
        g = value_of(wp.functionalize(share_and_square, returns="x", stop_gradient_in=[way]))
        assert_same(jax.value_and_grad(g)(a, x), (2.0, jnp.array([1.0 if way is share else 0.0])))


def test_rules_are_for_functions_of_modules():
    def inner(a):
        a.zero_()

    def f(a):
        inner(a)

    for options in ({"stop_gradient_in": [inner]}, {"custom_vjp": {inner: print}}):
        with pytest.raises(wp.KernelTypeError, match="no module has the function 'inner' by a name"):
            wp.functionalize(f, **options)(wp.ones(1, dtype=float))


def gives_back(a):
    return wp.clone(a)


def test_rule_for_a_function_that_returns_something():
    def f(a):
        gives_back(a)

    with pytest.raises(wp.LaunchError, match="gives_back has a rule of custom_vjp, and returns something"):
        wp.functionalize(f, custom_vjp={gives_back: print})(wp.ones(1, dtype=float))
