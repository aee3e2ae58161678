"""Overloads of `@wp.func`, functions as arguments, and what is refused of both."""

# ruff: noqa: F811

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from run_three_ways import values_of

import jwarp as wp


@wp.func
def size_of(x: float):
    return 10.0


@wp.func
def size_of(x: wp.float64):
    return 20.0


@wp.func
def size_of(x: wp.vec3):
    return size_of(x[0]) + 0.5


@wp.func
def size_of(x: wp.array[float], scale: float = 3.0):
    return float(x.shape[0]) * scale


@wp.func
def size_of(x: Any):
    return -1.0


@wp.func
def mixed(x: int, y: Any):
    return 1


@wp.func
def mixed(x: Any, y: int):
    return 2


@wp.func
def mixed(x: float, y: float):
    return 3


@wp.func
def twice(f: Callable, x: float):
    return f(f(x))


@wp.func
def composed(f, g, x: float):
    return g(twice(f, x))


@wp.func
def halved(x: float):
    return x / 2.0


@wp.func
def set_both(f: Callable, a: wp.array[float], b: wp.array2d[float]):
    for k in range(2):
        a[k] = f(a[k])
        b[1, k] = a[k]
        b[0][k] += f(b[1][k])


def test_the_types_of_the_arguments_choose():
    @wp.kernel
    def kernel(a: wp.array[float], out: wp.array[float]):
        out[0] = size_of(a[0])
        out[1] = size_of(wp.float64(1.0))
        out[2] = size_of(wp.vec3(1.0, 2.0, 3.0))
        out[3] = size_of(a)
        out[4] = size_of(a, scale=0.5)
        out[5] = size_of(7)
        out[6] = float(mixed(1, 2.0) * 10 + mixed(2.0, 1))
        out[7] = float(mixed(1.0, 2.0))

        out[8] = float(mixed(1, 1))  # of those with Any the first that takes the arguments, as in Warp

    a = np.ones(4, np.float32)
    assert values_of(kernel, a, count=9) == [10, 20, 10.5, 12, 2, -1, 12, 3, 1]


def test_an_overload_may_call_a_later_one():
    @wp.func
    def halves(n: int):
        return halves(float(n))

    @wp.func
    def halves(x: float):
        return x / 2.0

    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = halves(5)

    assert values_of(kernel) == [2.5]


def test_the_same_types_again_replace():
    kernels = []
    for factor in (2, 3):

        @wp.func
        def scaled(x: int):
            return x * factor

        @wp.func
        def scaled(x: float):
            return x * float(factor) + 0.5

        @wp.kernel
        def kernel(out: wp.array[float]):
            out[0] = scaled(2.0) + float(scaled(100))

        kernels.append(kernel)

    assert [values_of(k) for k in kernels] == [[204.5], [306.5]]


def test_functions_of_one_name_in_other_scopes_are_strangers():
    def make(count):
        if count:

            @wp.func
            def one(x: float):
                return x

        else:

            @wp.func
            def one(x: int):
                return x

        return one

    assert len(make(0).overloads) == len(make(1).overloads) == 1


def test_functions_are_arguments():
    @wp.kernel
    def kernel(out: wp.array[float]):
        i = wp.tid()
        out[i] = twice(halved, 8.0)
        out[i + 1] = composed(halved, wp.sqrt, 64.0)
        out[i + 2] = twice(wp.static(halved if True else wp.sin), 2.0)
        f = halved
        out[i + 3] = composed(g=wp.neg, f=f, x=4.0)

    assert values_of(kernel, count=4) == [2, 4, 0.5, -1]


def test_an_overloaded_function_is_an_argument():
    @wp.func
    def both(f: Callable, x: float, v: wp.vec3):
        return f(x) + f(v)

    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = both(size_of, 1.0, wp.vec3(0.0))

    assert values_of(kernel) == [20.5]


def test_functions_write_to_arrays_and_rows():
    @wp.kernel
    def kernel(a: wp.array[float], b: wp.array2d[float], out: wp.array[float]):
        set_both(halved, a, b)
        t = wp.zeros((2, 2), dtype=float)
        set_both(b=t, a=b[1], f=wp.neg)
        out[0] = a[0] + a[1]
        out[1] = b[0, 0] + b[1, 1]
        out[2] = t[0, 0] + t[1, 1] * 10.0

    b = np.array([[1, 2], [0, 0]], np.float32)
    assert values_of(kernel, np.array([4, 8], np.float32), b, count=3) == [6, -2, -38]


class Side(enum.Enum):
    LEFT = 2
    RIGHT = 5


class Flags(enum.IntFlag):
    A = 1
    B = 4


class Level(enum.IntEnum):
    LOW = -3


def test_enum_members_are_constants():
    @wp.kernel
    def kernel(out: wp.array[int]):
        side = Side.LEFT
        if side == Side.LEFT:
            out[0] = Side.RIGHT.value * 10 + Level.LOW
        out[1] = Flags.A | Flags.B
        out[2] = int(Flags(5) == (Flags.A | Flags.B)) if False else 7 & Flags.B
        for k in range(Side.LEFT):
            out[3] += k + Level.LOW.value

    assert values_of(kernel, count=4) == [47, 5, 4, -5]


@wp.func
def odd(n: int) -> bool:
    return even(n - 1)


@wp.func
def even(n: int) -> bool:
    return odd(n - 1)


def test_what_is_refused():
    @wp.kernel
    def no_overload(out: wp.array[int]):
        out[0] = mixed(True, True)

    with pytest.raises(wp.KernelTypeError, match=r"no overload of `mixed` takes \(bool, bool\)") as caught:
        no_overload.ir()
    assert "mixed(int32, Any); mixed(Any, int32); mixed(float32, float32)" in str(caught.value)

    @wp.kernel
    def recursive(out: wp.array[int]):
        if odd(3):
            out[0] = 1

    with pytest.raises(wp.CompileError, match="`odd` calls itself; recursion is not supported"):
        recursive.ir()

    @wp.kernel
    def chosen_at_run_time(out: wp.array[float]):
        f = wp.sin
        if wp.tid() > 1:
            f = wp.cos
        out[0] = f(1.0)

    with pytest.raises(wp.CompileError, match="`f` stands for different things"):
        chosen_at_run_time.ir()


def test_decorated_with_arguments():
    @wp.func(inline=True, module="unique")
    def f(x: int):
        return x + 1

    @wp.func(name="g")
    def f(x: float):
        return x + 2.0

    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = float(f(1)) + f(10.0)

    assert values_of(kernel) == [14]


@wp.func
def raised(x: int):
    return x + 1


@wp.func
def raised(x: float):
    return x + 0.5


@wp.func
def raised(x: wp.vec2, y: float):
    return x * y


def test_the_types_of_the_arguments_choose_outside_kernels():
    assert (raised(1), raised(1.0), raised(x=2.0)) == (2, 1.5, 2.5)
    assert list(raised(wp.vec2(1.0, 2.0), 3.0)) == [3.0, 6.0]
    with pytest.raises(wp.KernelTypeError, match="no overload of `raised` takes"):
        raised(wp.vec3(1.0, 2.0, 3.0))
