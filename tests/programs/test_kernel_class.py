"""`wp.Kernel` of programs makes kernels of functions; modules that are marked have them read anew."""

from __future__ import annotations

import ast
import gc
import weakref
from unittest import mock

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.frontend import kernel_base
from jwarp.frontend.func import func
from jwarp.programs.kernel_class import Kernel, make_kernel

FACTOR = 3


@pytest.fixture
def late(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0 + 1.0


def ran(kernel, x):
    y = wp.zeros(len(x), dtype=float)
    wp.launch(kernel, len(x), inputs=[wp.array(x, dtype=float)], outputs=[y])
    return y.numpy()


X = np.random.default_rng(3).normal(size=7).astype(np.float32)


def test_a_function_becomes_a_kernel_with_a_key_and_a_module():
    module = wp.get_module("tests.kernel_class.first")
    kernel = Kernel(func=scaled, key="twice", module=module)
    assert kernel.key == "twice" and kernel.module is module and module.kernels["twice"] is kernel
    assert isinstance(kernel, Kernel) and isinstance(kernel, kernel_base.Kernel)
    np.testing.assert_allclose(ran(kernel, X), X * 2 + 1)


def test_one_function_makes_several_kernels_of_its_own_module():
    kernels = [Kernel(scaled), Kernel(scaled, key="again")]
    assert [kernel.key for kernel in kernels] == ["scaled", "again"]
    assert all(kernel.module is wp.get_module(__name__) for kernel in kernels)
    assert not isinstance(scaled, Kernel)


def test_options_are_those_of_the_kernel():
    kernel = Kernel(scaled, options={"enable_backward": False, "launch_bounds": 128})
    assert not kernel.enable_backward
    with pytest.raises(wp.KernelTypeError, match="no option 'speed'"):
        Kernel(scaled, options={"speed": 3})
    with pytest.raises(wp.KernelTypeError, match="module must be"):
        make_kernel(scaled, module="a name")


def test_a_module_of_its_own():
    module = type(wp.get_module("any"))("tests.kernel_class.second")
    module.set_options({"enable_backward": False})
    kernel = Kernel(scaled, module=module)
    assert kernel.module is module and not kernel.enable_backward


def test_transformers_change_the_tree():
    class Tripled(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.Constant(3.0 * node.value)

    kernel = Kernel(scaled, code_transformers=[Tripled()])
    np.testing.assert_allclose(ran(kernel, X), X * 6 + 3, rtol=1e-6)
    np.testing.assert_allclose(ran(Kernel(scaled), X), X * 2 + 1)


def test_a_source_that_is_given():
    text = "def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    i = wp.tid()\n    y[i] = x[i] - 4.0\n"
    np.testing.assert_allclose(ran(Kernel(scaled, source=text), X), X - 4, rtol=1e-6)


def test_a_marked_module_is_read_anew(late, monkeypatch):
    @wp.func
    def factor():
        return float(FACTOR)

    @wp.kernel
    def multiplied(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[wp.tid()] = factor() * x[wp.tid()] + float(FACTOR)

    np.testing.assert_allclose(ran(multiplied, X), 3 * X + 3, rtol=1e-6)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    np.testing.assert_allclose(ran(multiplied, X), 3 * X + 3, rtol=1e-6)
    for mark in (multiplied.module.mark_modified, multiplied.module.unload):
        mark()
        np.testing.assert_allclose(ran(multiplied, X), FACTOR * X + FACTOR, rtol=1e-6)
        monkeypatch.setitem(globals(), "FACTOR", 8)


def test_a_marked_generic_kernel_is_read_anew(late, monkeypatch):
    @wp.kernel
    def generic(x: wp.array[wp.Float], y: wp.array[wp.Float]):
        y[wp.tid()] = x[wp.tid()] * x.dtype(FACTOR)

    np.testing.assert_allclose(ran(generic, X), 3 * X, rtol=1e-6)
    monkeypatch.setitem(globals(), "FACTOR", 6)
    generic.module.mark_modified()
    np.testing.assert_allclose(ran(generic, X), 6 * X, rtol=1e-6)


def test_a_marked_kernel_has_the_new_gradient(late, monkeypatch):
    @wp.kernel
    def multiplied(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[wp.tid()] = float(FACTOR) * x[wp.tid()]

    def gradient():
        x = wp.array(X, dtype=float, requires_grad=True)
        y = wp.zeros(len(X), dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(multiplied, len(X), inputs=[x], outputs=[y])
        tape.backward(grads={y: wp.ones(len(X), dtype=float)})
        return x.grad.numpy()

    np.testing.assert_array_equal(gradient(), 3)
    monkeypatch.setitem(globals(), "FACTOR", -2)
    multiplied.module.mark_modified()
    np.testing.assert_array_equal(gradient(), -2)


@wp.func
def inner(x: float):
    return x + 1.0


def test_a_function_that_is_defined_anew_counts_from_then_on(late, monkeypatch):
    @wp.kernel
    def outer(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[wp.tid()] = inner(x[wp.tid()])

    np.testing.assert_allclose(ran(outer, X), X + 1, rtol=1e-6)
    namespace = {"wp": wp, "inner": inner, "func": func, "__name__": __name__}
    monkeypatch.setattr("linecache.getlines", _with("<anew>", "@func\ndef inner(x: float):\n    return x * 10.0\n"))
    exec(compile("@func\ndef inner(x: float):\n    return x * 10.0\n", "<anew>", "exec"), namespace)
    monkeypatch.setitem(globals(), "inner", namespace["inner"])
    np.testing.assert_allclose(ran(outer, X), X * 10, rtol=1e-6)


def _with(file, text):
    import linecache

    found = linecache.getlines
    return lambda name, globals_=None: text.splitlines(keepends=True) if name == file else found(name, globals_)


def test_modules_have_hashes_of_their_kernels_and_options(late, monkeypatch):
    def module_of(name, **options):
        module = type(wp.get_module("any"))(name)
        kernels.append(Kernel(scaled, module=module, options=options))
        return module

    kernels: list = []
    first, second = module_of("a"), module_of("a")
    assert first.hash_module() == second.hash_module() and len(first.hash_module()) == 32
    assert module_of("a", max_unroll=3).hash_module() != first.hash_module()

    @wp.kernel(module="unique")
    def counted(y: wp.array(dtype=float)):
        y[0] = float(FACTOR)

    before = counted.module.hash_module()
    monkeypatch.setitem(globals(), "FACTOR", 9)
    counted.module.mark_modified()
    assert counted.module.hash_module() != before


def test_a_module_of_a_program_keeps_the_latest_kernel_of_each_key(late):
    module = type(wp.get_module("any"))("kept")
    Kernel(scaled, key="one", module=module)
    latest = weakref.ref(Kernel(scaled, key="one", module=module))
    gc.collect()
    assert [*module.kernels] == ["one"] and module.kernels["one"] is latest()
    assert [*module.live_kernels] == [latest()]


def test_options_of_a_module_may_be_deleted():
    options = wp.get_module("tests.kernel_class.options").options
    options["max_unroll"], options["fast_math"] = 3, True
    with mock.patch.dict(options, {"max_unroll": 9}):
        assert options["max_unroll"] == 9
    assert options["max_unroll"] == 3 and options["fast_math"]
    del options["max_unroll"]
    assert options["max_unroll"] == wp.config.max_unroll
    with pytest.raises(KeyError):
        del options["nothing"]


def test_the_hash_of_a_module_follows_the_settings():
    module = type(wp.get_module("any"))("settings")
    kernel = Kernel(scaled, module=module)
    before = module.hash_module()
    wp.config.debug = True
    try:
        assert module.hash_module() != before and kernel.module is module
    finally:
        wp.config.debug = False
    assert module.hash_module() == before


spelled_twice = 10


def names_outer_and_loop(out: wp.array(dtype=int)):
    for spelled_twice in range(2):
        out[spelled_twice] = wp.static(spelled_twice + 1)
    out[2] = wp.static(spelled_twice + 1)


def test_static_names_loops_around_it_and_else_outer_names(late):
    out = wp.zeros(3, dtype=int)
    wp.launch(Kernel(names_outer_and_loop), 1, inputs=[out])
    assert out.numpy().tolist() == [1, 2, 11]


class Moves(ast.NodeTransformer):
    """Has one call of `wp.static` at two places."""

    def visit_FunctionDef(self, node):
        node.body[1].value = node.body[0].body[0].value
        return node


def test_a_static_call_that_a_transformer_puts_at_two_places_has_a_value_at_each(late):
    out = wp.zeros(3, dtype=int)
    wp.launch(Kernel(names_outer_and_loop, code_transformers=[Moves()]), 1, inputs=[out])
    assert out.numpy().tolist() == [1, 2, 11]


def test_static_of_jax_users_takes_the_variables_of_the_kernel():
    out = wp.zeros(3, dtype=int)
    wp.launch(wp.kernel(names_outer_and_loop), 1, inputs=[out])
    assert out.numpy().tolist() == [1, 2, 2]


def test_kernels_on_disk_know_the_outer_names_that_variables_are_spelled_like(late, monkeypatch):
    for outer in (20, 30):
        monkeypatch.setitem(globals(), "spelled_twice", outer)
        out = wp.zeros(3, dtype=int)
        wp.launch(Kernel(names_outer_and_loop), 1, inputs=[out])
        assert out.numpy().tolist() == [1, 2, outer + 1]
