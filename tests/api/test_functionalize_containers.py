"""JAX arrays in the arguments of functions of launches: in lists, dicts and objects, by what annotations say."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp

N = 4


@wp.kernel
def add_square(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] += x[i] * x[i]


@dataclass
class Part:
    speed: wp.array[float]


class Linked:
    x: wp.array[float]
    y: wp.array[float]

    def __init__(self, x, y):
        self.x, self.y = x, y
        self.owner = Owner()
        self.owner.linked = self


class Owner:
    linked: Linked


class Named(dict):
    def __getattr__(self, name):
        return self[name]


@dataclass
class State:
    x: wp.array[float]
    part: Part
    many: list[wp.array[float]]
    other: jax.Array
    limits: np.ndarray = field(default_factory=lambda: np.ones(2))


class Pair(NamedTuple):
    x: wp.array[float]
    y: wp.array[float]


def variadic(*xs: wp.array[float], **named: wp.array[float]):
    for x in xs[1:]:
        wp.launch(add_square, N, [xs[0]], [x])
    for x in named.values():
        wp.launch(add_square, N, [xs[0]], [x])


def listed(xs: list[wp.array[float]]):
    wp.launch(add_square, N, [xs[0]], [xs[1]])


def mapped(xs: dict[str, wp.array[float]]):
    wp.launch(add_square, N, [xs["x"]], [xs["y"]])


def tupled(xs: tuple[wp.array[float], int, wp.array[float]]):
    wp.launch(add_square, N, [xs[0]], [xs[2]])


def paired(xs: Pair):
    wp.launch(add_square, N, [xs.x], [xs.y])


def stepped(state: State):
    wp.launch(add_square, N, [state.x], [state.part.speed])
    wp.launch(add_square, N, [state.part.speed], [state.many[1]])


@pytest.fixture
def values():
    return jnp.asarray(np.random.default_rng(0).normal(size=(4, N)), jnp.float32)


def test_variadic_arguments(values):
    x, y, z, w = values
    result, changed = wp.functionalize(variadic)(x, y, np.asarray(z), w=w)
    assert result is None and set(changed) == {"xs", "named"}
    assert all(isinstance(a, jax.Array) for a in changed["xs"])
    assert_allclose(changed["xs"], [x, y + x * x, z + x * x], rtol=1e-6)
    assert_allclose(changed["named"]["w"], w + x * x, rtol=1e-6)
    with pytest.raises(wp.KernelTypeError, match=r"variadic, parameter 'xs\[1\]': expected .*float32.*int32\[3\]"):
        wp.functionalize(variadic)(x, jnp.zeros(3, jnp.int32))


@pytest.mark.parametrize(
    ("function", "pack", "unpack"),
    [
        (listed, lambda x, y: [x, y], lambda xs: xs),
        (mapped, lambda x, y: {"x": x, "y": y}, lambda xs: [xs["x"], xs["y"]]),
        (tupled, lambda x, y: (x, 3, y), lambda xs: [xs[0], xs[2]]),
        (paired, Pair, lambda xs: [xs.x, xs.y]),
    ],
)
def test_containers(values, function, pack, unpack):
    x, y, dx, _ = values
    given = pack(x, y)

    def loss(x):
        new = wp.functionalize(function, returns="xs")(pack(x, y))
        assert type(new) is type(given)
        return jnp.sum(unpack(new)[1] ** 2)

    one, two = unpack(wp.functionalize(function, returns="xs")(given))
    assert isinstance(one, jax.Array) and isinstance(two, jax.Array)
    assert_allclose([one, two], [x, y + x * x], rtol=1e-6)
    assert_allclose(jax.jit(jax.grad(loss))(x), 4 * x * (y + x * x), rtol=1e-5)
    assert unpack(given)[0] is x and unpack(given)[1] is y
    assert_allclose(jax.jvp(loss, (x,), (dx,))[1], jnp.sum(4 * x * (y + x * x) * dx), rtol=1e-5)


def test_objects_with_jax_arrays(values):
    x, v, a, b = values
    state = State(x, Part(v), [a, b], jnp.arange(3))
    new = wp.functionalize(stepped, returns="state")(state)
    assert type(new) is State and new is not state and state.part.speed is v
    assert all(isinstance(y, jax.Array) for y in (new.x, new.part.speed, *new.many, new.other))
    faster = v + x * x
    assert_allclose([new.x, new.part.speed, *new.many], [x, faster, a, b + faster * faster], rtol=1e-5)
    mixed = State(wp.from_jax(x), Part(v), [wp.from_jax(a), b], jnp.arange(3))
    new = wp.functionalize(stepped, returns="state")(mixed)
    assert isinstance(new.x, wp.array) and isinstance(new.part.speed, jax.Array)
    assert_allclose(new.part.speed, faster, rtol=1e-6)


def test_what_no_annotation_says_is_refused(values):
    def untold(xs):
        wp.launch(add_square, N, [xs[0]], [xs[1]])

    with pytest.raises(wp.LaunchError, match=r"untold cannot change 'xs\[0\]', which is a JAX array"):
        wp.functionalize(untold)([values[0], values[1]])

    def of_state(state: State, n: int = 2):
        wp.launch(add_square, n, [state.other], [state.other])

    with pytest.raises(wp.LaunchError, match=r"cannot change 'state\.other', which is a JAX array"):
        wp.functionalize(of_state)(State(*(wp.zeros(2, dtype=float), Part(None), []), jnp.ones(2)))


def test_one_object_met_twice_stays_one(values):
    def both(one: Part, two: Part):
        assert one is two
        wp.launch(add_square, N, [one.speed], [two.speed])

    part = Part(values[0])
    (one, two), x = wp.functionalize(both, returns=("one", "two"))(part, part), values[0]
    assert_allclose([one.speed, two.speed], [x + x * x] * 2, rtol=1e-6)


@pytest.mark.parametrize("as_given", [wp.from_jax, lambda x: x], ids=["arrays", "jax"])
def test_objects_that_refer_to_one_another(values, as_given):
    x, y, _, _ = values

    def step(linked: Linked):
        assert linked.owner.linked is linked
        wp.launch(add_square, N, [linked.owner.linked.x], [linked.y])

    given = Linked(as_given(x), as_given(y))
    new = wp.functionalize(step, returns="linked")(given)
    assert new is not given and new.owner.linked is new and type(new.y) is type(given.y)
    assert_allclose(np.asarray(new.y), y + x * x, rtol=1e-6)

    def of_both(one: Part, two: State):
        wp.launch(add_square, N, [one.speed], [two.x])

    part = Part(as_given(x))
    one, two = wp.functionalize(of_both, returns=("one", "two"))(part, State(as_given(y), part, [], x))
    assert two.part is one
    assert_allclose(np.asarray(two.x), y + x * x, rtol=1e-6)


@pytest.mark.parametrize("kind", [Named, OrderedDict])
def test_classes_of_dicts(values, kind):
    x, y, _, _ = values

    def step(xs: dict[str, wp.array[float]]):
        assert type(xs) is kind and list(xs) == ["y", "x"]
        wp.launch(add_square, N, [xs["x"]], [xs["y"]])

    new = wp.functionalize(step, returns="xs")(kind(y=y, x=x))
    assert type(new) is kind and list(new) == ["y", "x"]
    assert_allclose(new["y"], y + x * x, rtol=1e-6)


def test_one_list_for_parameters_of_different_annotations(values):
    x = values[0]

    def step(untold, told: list[wp.array[float]]):
        wp.launch(add_square, N, [untold[0]], [told[0]])

    given = [x]
    assert_allclose(wp.functionalize(step, returns="told")(given, given)[0], x + x * x, rtol=1e-6)


def test_arrays_of_numpy_in_containers(values):
    x, y = map(np.asarray, values[:2])
    new = wp.functionalize(listed, returns="xs")([x, y])
    assert all(isinstance(a, jax.Array) for a in new)
    assert_allclose(new[1], y + x * x, rtol=1e-6)

    def untold(x: wp.array[float], constants):
        wp.launch(add_square, N, [x], [constants[0]])

    with pytest.raises(wp.LaunchError, match="kernel 'add_square' writes to its parameter 'y', a NumPy array"):
        wp.functionalize(untold)(x, [y.copy()])


def twofold(x: wp.array[float]) -> wp.array[float]:
    y = wp.zeros_like(x)
    wp.launch(twice, x.shape, inputs=[x], outputs=[y])
    return y


def several(x: wp.array[float]) -> tuple[wp.array[float], dict[str, wp.array[float]], int]:
    return twofold(x), {"again": twofold(x)}, 3


def unannotated(x: wp.array[float]):
    return twofold(x)


def element(x: wp.array[float]) -> float:
    return twofold(x)[0]


@wp.kernel
def twice(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def test_an_annotated_result_is_a_jax_array():
    x = jnp.asarray(np.random.default_rng(0).normal(size=5), jnp.float32)
    for call in (wp.functionalize(twofold), jax.jit(wp.functionalize(twofold))):
        result, changed = call(x)
        assert isinstance(result, jax.Array) and changed == {}
        np.testing.assert_array_equal(result, 2 * x)
    np.testing.assert_array_equal(jax.grad(lambda x: wp.functionalize(twofold)(x)[0].sum())(x), np.full(5, 2.0))
    (first, others, number), _ = wp.functionalize(several)(x)
    assert isinstance(first, jax.Array) and isinstance(others["again"], jax.Array) and number == 3
    assert isinstance(wp.functionalize(unannotated)(x)[0], wp.array)


def test_an_element_is_read_of_the_jax_array():
    with pytest.raises(wp.LaunchError, match=r"wp.to_jax\(a\)\[i\] reads one while JAX traces"):
        wp.functionalize(element)(jnp.ones(3))
    with pytest.raises(wp.LaunchError, match=r"a.numpy\(\)\[i\] reads one"):
        wp.zeros(3, dtype=float)[0]
