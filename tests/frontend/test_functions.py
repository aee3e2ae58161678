"""`@wp.func`, captured names, `wp.static`, `wp.constant` and unrolling."""

import enum
import inspect
import math
import pydoc
import types

import numpy as np
import pytest
from run_three_ways import values_of

import jwarp as wp
from jwarp.frontend.builtins.table import BUILTINS
from jwarp.ir.nodes import For, walk

pytestmark = pytest.mark.quick

FACTOR = 3
LIMIT = wp.constant(np.float32(2.5))
WEIGHTS = (0.25, 0.5, 0.25)


class Mode(enum.IntEnum):
    OFF = 0
    ON = 4


@wp.func
def quotient_and_rest(x: int, y: int):
    return x // y, x - y * (x // y)


@wp.func
def clip(x: float, high: float = 1.0, low: float = -1.0) -> float:
    if x > high:
        return high
    if x < low:
        return low
    return x


@wp.func
def find(values: wp.array[float], limit: float) -> int:
    for k in range(values.shape[0]):
        if values[k] > limit:
            return k
    return -1


@wp.func
def collatz(n: int) -> int:
    steps = 0
    while True:
        if n == 1:
            return steps
        n = n / 2 if n % 2 == 0 else 3 * n + 1
        steps += 1


@wp.func
def put(values: wp.array[float], k: int, x: float):
    if k < 0:
        return
    values[k] = x


@wp.func
def any_type(x):
    y = x + x
    return y


@wp.func
def apply(f, x: float):
    return f(f(x))


@wp.func
def several(x: float) -> tuple[float, int]:
    return x * 2.0, int(x)


def test_functions_have_several_results_defaults_and_early_returns(recwarn):
    @wp.kernel
    def kernel(values: wp.array[float], n: int, out: wp.array[float]):
        q, r = quotient_and_rest(n, 4)
        out[0] = float(q * 10 + r)
        out[1] = clip(3.0) + clip(-9.0, 2.0) + clip(9.0, low=0.0, high=5.0) + clip(0.25)
        out[2] = float(find(values, 2.5) * 10 + find(values, 99.0))
        out[3] = float(collatz(n))
        put(out, 4, 7.0)
        put(out, -1, 9.0)
        x, k = several(2.5)
        out[5] = x + float(k)
        pair = quotient_and_rest(9, 2)
        out[6] = float(pair[0] * 10 + pair[1])

    values = np.array([1.0, 2.0, 3.0], np.float32)
    steps, n = 0, 27
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    got = values_of(kernel, values, 27, count=8)
    assert got == [63, 1 - 1 + 5 + 0.25, 20 - 1, steps, 7, 7, 41, 0]
    assert not recwarn.list


def test_functions_take_any_type_that_their_body_takes():
    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = any_type(1.5)
        out[1] = float(any_type(3))
        out[2] = float(any_type(wp.uint8(200)))
        out[3] = apply(any_type, 2.0)
        out[4] = apply(wp.sqrt, 16.0)

    assert values_of(kernel, count=5) == [3, 6, 144, 8, 2]


def test_the_arguments_of_a_function_are_its_own():
    @wp.func
    def change(x: int):
        x = x + 1
        return x

    @wp.kernel
    def kernel(out: wp.array[int]):
        x = 5
        y = change(x)
        out[0] = x * 10 + y

    assert values_of(kernel) == [56]


def test_a_function_may_end_without_a_result_with_a_warning():
    @wp.func
    def maybe(x: float) -> float:
        if x > 0.0:
            return 2.0 * x

    @wp.kernel
    def kernel(x: float, out: wp.array[float]):
        out[0] = maybe(x)

    with pytest.warns(wp.KernelWarning, match="the result of maybe"):
        kernel.ir()
    assert values_of(kernel, 3.0) == [6] and values_of(kernel, -3.0) == [0]


def test_outside_kernels_a_function_is_python():
    assert clip(3.0) == 1.0 and quotient_and_rest(7, 2) == (3, 1)


def test_outer_numbers_are_captured():
    inner = 5
    settings = types.SimpleNamespace(scale=np.float64(2.5), nested=types.SimpleNamespace(count=7))
    flag = True

    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = float(FACTOR * inner)
        out[1] = LIMIT + math.pi
        out[2] = float(settings.scale) + float(settings.nested.count)
        out[3] = WEIGHTS[0] + WEIGHTS[-2]
        if flag:
            out[4] = float(Mode.ON)

    got = values_of(kernel, count=5)
    assert got == [15, float(np.float32(2.5) + np.float32(math.pi)), 9.5, 0.75, 4]


def test_kernels_made_in_a_loop_keep_their_own_values():
    kernels = []
    for factor in (2, 3):
        for name in ("first", "second"):

            @wp.kernel
            def kernel(out: wp.array[int]):
                out[0] = factor * wp.static(len(name))

            kernels.append(kernel)
    factor, name = 100, "changed"
    assert [values_of(k)[0] for k in kernels] == [10, 12, 15, 18]


def test_a_kernel_may_use_what_is_defined_after_it():
    @wp.kernel
    def kernel(out: wp.array[int]):
        out[0] = later(4)

    @wp.func
    def later(n: int):
        return n + 1

    assert values_of(kernel) == [5]


def make(function):
    @wp.kernel
    def kernel(x: float, out: wp.array[float]):
        out[0] = function(x)

    return kernel


def test_functions_are_captured_too():
    assert values_of(make(clip), 5.0) == [1] and values_of(make(wp.sqrt), 9.0) == [3]
    assert values_of(make(wp.float32), 9.0) == [9]


def test_static_expressions_are_evaluated_by_python():
    table = {"a": 3, "b": [1, 2, 3]}

    @wp.kernel
    def kernel(out: wp.array[int]):
        out[0] = wp.static(table["a"] + sum(table["b"]))
        for k in range(3):
            out[1 + k] = wp.static(table["b"][k] * 10)
            for m in range(2):
                out[4 + m] += wp.static(k * m)
        values = wp.static(tuple(range(5)))
        out[6] = values[4]
        chosen = wp.static(min if table["a"] > 2 else max)
        out[7] = chosen(3, 4)

    assert values_of(kernel, count=8) == [9, 10, 20, 30, 0, 3, 4, 3]


@pytest.mark.parametrize(("trips", "limit", "loops"), [(16, 16, 0), (17, 16, 1), (3, 0, 1), (3, 3, 0), (0, 0, 0)])
def test_short_loops_are_unrolled(trips, limit, loops):
    @wp.kernel
    def kernel(out: wp.array[int]):
        for k in range(trips):
            out[0] += k + 1

    with wp.config(max_unroll=limit):
        ir = kernel.ir()
        assert sum(isinstance(n, For) for n in walk(ir.body)) == loops or trips == 0
        assert values_of(kernel) == [trips * (trips + 1) // 2]


def test_two_kernels_of_one_name_are_two_kernels():
    def make(k):
        if k == 0:

            @wp.kernel
            def same(out: wp.array[int]):
                out[0] = 1

        else:

            @wp.kernel(enable_backward=False)
            def same(out: wp.array[int]):
                out[0] = 2

        return same

    assert values_of(make(0)) == [1] and values_of(make(1)) == [2]


def test_names_for_functions_types_and_arrays():
    @wp.kernel
    def kernel(a: wp.array[float], out: wp.array[float]):
        root, kind, target = wp.sqrt, wp.float64, out
        target[0] = float(kind(root(a[0])))
        for k in range(2):
            f = wp.floor
            out[1 + k] = f(a[1 + k])

    a = np.array([4.0, 2.5, -1.5], np.float32)
    assert values_of(kernel, a, count=3) == [2, 2, -2]


def test_static_expressions_of_other_names_may_stand_in_any_loop():
    step = 2

    @wp.kernel
    def k(n: int, out: wp.array[int]):
        for j in range(n):
            if j == 3:
                break
            out[0] += wp.static(step * 10)
        for j in range(n):
            out[1] += j
            for j in range(2):
                out[2 + j] += wp.static(j + step)

    assert values_of(k, 5, count=4) == [60, 10, 10, 15]


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_help_describes_each_builtin(name):
    row = BUILTINS[name]
    assert row.doc.strip().endswith(".")
    assert all(str(line).strip() in row.__doc__ for line in row.doc.splitlines())
    shown = pydoc.plain(pydoc.render_doc(row))
    assert all(form.text in shown for form in row.each_form)
    assert row.doc.splitlines()[0] in shown
    assert (row.__name__, row.__module__) == (name, "jwarp")


def test_signatures_say_parameters_types_and_defaults():
    assert str(inspect.signature(wp.sin)) == "(x: Float) -> Float"
    assert str(inspect.signature(wp.clamp)) == "(x: Number, low: Number, high: Number) -> Number"
    assert inspect.signature(wp.tile_load).parameters["storage"].default == "register"
