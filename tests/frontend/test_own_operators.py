"""Operators of the user's own: `add` and the like for types, in expressions and in `+=` on every kind of target."""

import numpy as np
import pytest
from run_three_ways import run_kernel

import jwarp as wp

pytestmark = pytest.mark.quick


@wp.struct
class Pair:
    a: float
    b: float


@wp.struct
class Holder:
    pair: Pair
    v: wp.vec3
    m: wp.mat22
    k: float


@wp.func
def add(x: Pair, y: Pair):
    r = Pair()
    r.a = x.a + y.b
    r.b = x.b * y.a
    return r


@wp.func
def sub(x: float, y: float) -> float:
    return x * y


@wp.func
def bit_and(x: int, y: int) -> int:
    return x * 10 + y


@wp.kernel
def components(vs: wp.array[wp.vec3], ms: wp.array[wp.mat22], ns: wp.array[wp.vec3i], x: wp.array[float]):
    vs[0].x -= x[0]
    vs[0][1] -= x[0]
    ms[0][1, 0] -= x[0]
    ns[0].y &= 3
    x[1] -= 4.0  # a whole element: the atomic operation


def test_components_of_elements_take_own_operators():
    vs, ms = np.float32([[2, 3, 4]]), np.float32([[[1, 2], [3, 4]]])
    ns, x = np.int32([[5, 6, 7]]), np.float32([5, 6])
    run_kernel(components, 1, vs, ms, ns, x)
    arrays = [wp.array(vs, dtype=wp.vec3), wp.array(ms, dtype=wp.mat22), wp.array(ns, dtype=wp.vec3i), wp.array(x)]
    wp.launch(components, 1, arrays)
    assert arrays[0].numpy().tolist() == [[10, 15, 4]]
    assert arrays[1].numpy().tolist() == [[[1, 2], [15, 4]]]
    assert arrays[2].numpy().tolist() == [[5, 63, 7]]
    assert arrays[3].numpy().tolist() == [5, 2]


def test_their_derivative_is_that_of_the_operator():
    vs = wp.array([[2.0, 3.0, 4.0]], dtype=wp.vec3, requires_grad=True)
    ms, ns = wp.zeros(1, dtype=wp.mat22, requires_grad=True), wp.zeros(1, dtype=wp.vec3i)
    x = wp.array([5.0, 6.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(components, 1, [vs, ms, ns, x])
    tape.backward(grads={vs: wp.array([[1.0, 10.0, 100.0]], dtype=wp.vec3)})
    assert vs.grad.numpy().tolist() == [[5, 50, 100]]  # of vs[0].x * x[0]
    assert x.grad.numpy().tolist() == [32, 0]


@wp.kernel
def structs(holders: wp.array[Holder], pairs: wp.array[Pair], out: wp.array[float]):
    pair = Pair()
    pair.a = 2.0
    pair.b = 3.0
    own = holders[0]
    own.pair += pair
    holders[1].pair += pair
    holders[1].k -= 3.0
    holders[1].v[2] -= 4.0
    holders[1].k += 1.0  # no operator of the user's takes numbers here
    pairs[0] += pair
    out[0] = own.pair.a
    out[1] = own.pair.b


def test_structs_in_arrays_take_own_operators():
    holder = Holder(pair=Pair(a=5.0, b=7.0), v=wp.vec3(1.0, 2.0, 3.0), k=2.0)
    holders = wp.array([holder, holder], dtype=Holder)
    pairs, out = wp.array([Pair(a=5.0, b=7.0)], dtype=Pair), wp.zeros(2, dtype=float)
    wp.launch(structs, 1, [holders, pairs, out])
    assert out.numpy().tolist() == [8, 14]
    assert pairs.numpy()[0].tolist() == (8, 14)
    found = holders.numpy()[1]
    assert (found["pair"].tolist(), float(found["k"]), found["v"].tolist()) == ((8, 14), 7.0, [1, 2, 12])
