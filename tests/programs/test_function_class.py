"""`wp.Function` of programs makes functions of the kernel language; structs and options that libraries make by hand."""

import ast
from typing import Any

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.frontend.content import content_of
from jwarp.frontend.func import Func
from jwarp.programs.function_class import Function, make_function
from jwarp.programs.kernel_class import Kernel
from jwarp.programs.struct_class import Struct
from jwarp.types import StructType

X = np.random.default_rng(5).normal(size=9).astype(np.float32)


@pytest.fixture
def late(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


def halved(x: float, by: float = 2.0):
    return x / by


def ran(function, x=X, dtype=float):
    @wp.kernel(module="unique")
    def applied(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = function(x[i])

    y = wp.zeros(len(x), dtype=dtype)
    wp.launch(applied, len(x), inputs=[wp.array(x, dtype=dtype)], outputs=[y])
    return y.numpy()


def test_a_python_function_becomes_one_of_the_kernel_language():
    module = wp.get_module("tests.function_class.first")
    made = Function(func=halved, key="half", namespace="", module=module, doc="Halves.")
    assert isinstance(made, Func) and isinstance(made, Function) and not isinstance(halved, Function)
    assert made.key == "half" and made.module is module and module.functions["half"] is made
    assert made.func is halved and made.__doc__ == "Halves." and made(3.0) == 1.5
    assert made.defaults == {"by": 2.0} and made.input_types == {"x": float, "by": float}
    np.testing.assert_allclose(ran(made), X / 2)


def test_its_module_and_name_are_those_of_the_function_if_none_are_given():
    made = make_function(halved, "halved")
    assert made.module is wp.get_module(__name__) and made.key == "halved"
    assert made.native_func != make_function(halved, "halved").native_func


def test_types_that_are_given_count():
    made = make_function(halved, "half64", overloaded_annotations={"x": wp.float64, "by": float})
    numbers = X.astype(np.float64)
    np.testing.assert_allclose(
        ran(make_function(wrapped, "w", overloaded_annotations={"x": wp.float64}), numbers, wp.float64), numbers * 3
    )
    assert made.input_types == {"x": wp.float64, "by": float}
    with pytest.raises(wp.KernelTypeError, match="no type is given for the parameter 'by'"):
        make_function(halved, "half64", overloaded_annotations={"x": wp.float64})


def wrapped(x: float):
    return x * x.dtype(3.0)


def of_int(x: int):
    return x + 100


def of_any(x: Any):
    return x * x


def test_overloads_are_added():
    made = make_function(halved, "several")
    made.add_overload(make_function(of_int, "several"))
    made.add_overload(make_function(of_any, "several"))
    assert len(made.overloads) == 3
    np.testing.assert_allclose(ran(made), X / 2)
    assert ran(made, np.arange(3), int).tolist() == [100, 101, 102]
    np.testing.assert_allclose(ran(made, X.astype(np.float64), wp.float64), X.astype(np.float64) ** 2)
    assert made.get_overload([wp.float32]) is made.overloads[0] and made.get_overload((int,), {}).func is of_int
    assert made.get_overload([wp.vec3]).func is of_any and made.get_overload([wp.float32] * 3) is None
    assert made.get_overload([], {"x": wp.float32, "by": float}) is made.overloads[0]


def test_the_later_one_of_two_with_the_same_types_counts():
    made = make_function(of_int, "twice")
    made.add_overload(make_function(of_any, "twice", overloaded_annotations={"x": int}))
    assert ran(made, np.arange(3), int).tolist() == [0, 1, 4]


class Tripled(ast.NodeTransformer):
    """Makes each number three times as large, and counts how often it was asked."""

    seen = 0

    def visit_Return(self, node):
        self.seen += 1
        return self.generic_visit(node)

    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant(3.0 * node.value), node)


def plus_one(x: float):
    return x + 1.0


def test_transformers_change_the_tree_once_when_the_function_is_made():
    transformer = Tripled()
    made = make_function(plus_one, "plus_three", code_transformers=[transformer])
    assert transformer.seen == 1
    np.testing.assert_allclose(ran(made), X + 3, rtol=1e-6)
    assert transformer.seen == 1
    np.testing.assert_allclose(ran(make_function(plus_one, "plus_one")), X + 1, rtol=1e-6)


class Named(ast.NodeTransformer):
    """Lets a function call another one, by an attribute that its code does not name."""

    def visit_Constant(self, node):
        callee = ast.Attribute(ast.Attribute(ast.Name("Holder", ast.Load()), "inner", ast.Load()), "f", ast.Load())
        return ast.copy_location(ast.Call(callee, [node], []), node)


class Holder:
    class inner:
        pass


def test_what_transformers_name_counts_in_the_digest_of_a_kernel(monkeypatch):
    def kernel():
        return Kernel(from_holder, code_transformers=[Named()])

    digests = set()
    for factor in (2.0, 5.0):
        monkeypatch.setattr(Holder.inner, "f", make_function(*scales[factor]), raising=False)
        made = kernel()
        content = content_of(made.python, made.first_read, made.signature)
        assert content is not None
        digests.add(content.digest)
        y = wp.zeros(len(X), dtype=float)
        wp.launch(made, len(X), inputs=[wp.array(X, dtype=float)], outputs=[y])
        np.testing.assert_allclose(y.numpy(), X + factor, rtol=1e-6)
    assert len(digests) == 2
    other = content_of(from_holder, Kernel(from_holder).first_read)
    assert other is not None and other.digest not in digests


def from_holder(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = x[wp.tid()] + 1.0


def scaled_by_two(x: float):
    return x * 2.0


def scaled_by_five(x: float):
    return x * 5.0


scales = {2.0: (scaled_by_two, "two"), 5.0: (scaled_by_five, "five")}


def with_static(x: float):
    return x * wp.static(2.0 + 1.0)


class Added(ast.NodeTransformer):
    """Has another call of `wp.static` with each one."""

    def visit_Return(self, node):
        call = ast.parse("wp.static(40.0)", mode="eval").body
        node.value = ast.BinOp(node.value, ast.Add(), call)
        return node


def test_static_values_are_those_of_the_changed_tree(late):
    made = make_function(with_static, "static", code_transformers=[Added()])
    np.testing.assert_allclose(ran(made), 3 * X + 40, rtol=1e-6)


def test_a_source_that_is_given():
    text = "def plus_one(x: float):\n    return x - 7.0\n"
    np.testing.assert_allclose(ran(make_function(plus_one, "minus", source=text)), X - 7, rtol=1e-6)


def test_an_annotation_of_a_parameter_that_is_a_function():
    def twice(f: Function, x: float):
        return f(f(x))

    apply = make_function(twice, "twice", overloaded_annotations={"f": Function, "x": float})
    inner = make_function(plus_one, "plus_one")

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[wp.tid()] = apply(inner, x[wp.tid()])

    y = wp.zeros(len(X), dtype=float)
    wp.launch(k, len(X), inputs=[wp.array(X, dtype=float)], outputs=[y])
    np.testing.assert_allclose(y.numpy(), X + 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"func": None, "key": "sin"}, "a builtin is no Python function"),
        ({"func": 3, "key": "three"}, "needs a function written with `def`"),
        ({"func": halved, "key": "h", "module": "name"}, "module must be one of wp.get_module's"),
    ],
)
def test_what_is_no_function(arguments, says):
    with pytest.raises(wp.KernelTypeError, match=says):
        Function(**arguments)


# -- structs


class Plain:
    number: int
    point: wp.vec3


def test_structs_are_made_of_classes_and_tell_of_their_fields():
    made = Struct(key="Plain_1", cls=Plain, module=wp.get_module(__name__))
    assert isinstance(made, Struct) and isinstance(made, StructType) and not isinstance(Plain, Struct)
    assert made.key == "Plain_1" and [(name, m.label, m.type) for name, m in made.vars.items()] == [
        ("number", "number", wp.int32), ("point", "point", wp.vec3)
    ]  # fmt: skip
    value = made()
    assert isinstance(value, made.cls) and value._cls is made


def test_values_of_structs_are_assigned_and_moved():
    Inner = Struct("Inner", type("Inner", (), {"__annotations__": {"a": wp.array(dtype=float)}}))
    Outer = Struct("Outer", type("Outer", (), {"__annotations__": {"inner": Inner, "k": float}}))
    first, second = Outer(k=2.0), Outer()
    first.inner.a = wp.array(X, dtype=float)
    second.assign(first)
    assert second.k == 2.0 and second.inner.a is first.inner.a
    assert first.to("cpu").inner.a is first.inner.a and first.to("cpu") is not first
    with pytest.raises(wp.KernelTypeError, match="expected a Outer to assign, got Inner"):
        first.assign(first.inner)


def test_structs_of_programs_have_copies_of_the_structs_that_are_put_into_them(late):
    Inner = Struct("Inner", type("Inner", (), {"__annotations__": {"k": float}}))
    Outer = Struct("Outer", type("Outer", (), {"__annotations__": {"inner": Inner}}))
    given, outer = Inner(k=1.0), Outer()
    outer.inner = given
    given.k = 2.0
    assert outer.inner.k == 1.0
    outer.inner.k = 3.0
    assert outer.inner.k == 3.0 and given.k == 2.0


def test_defaults_of_fields_do_nothing_in_programs(late):
    @wp.struct
    class Defaulted:
        index: int = -1

    assert Defaulted().index == 0


# -- options of modules


def test_options_of_a_module_are_replaced():
    module = wp.get_module("tests.function_class.options")
    module.options = wp.get_module(__name__).options | {"max_unroll": 3, "enable_backward": False}
    assert module.options["max_unroll"] == 3 and not Kernel(from_holder, module=module).enable_backward
    module.options = {"enable_backward": True}
    assert module.options["max_unroll"] == wp.config.max_unroll and module.options["enable_backward"]
    module.options = module.options
    assert module.options["enable_backward"]
