"""Reads a kernel of NVIDIA Warp's with jwarp: what its names mean in Warp, they mean in jwarp."""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
import inspect
import threading
import types
from typing import Any, TypeVar, get_args, get_origin

import numpy as np
import warp
from warp._src import codegen
from warp._src import types as warp_types
from warp._src.context import Function, builtin_functions

import jwarp
from jwarp.errors import Span
from jwarp.frontend.builtins.table import Builtin
from jwarp.frontend.func import Func
from jwarp.frontend.kernel import PythonKernel
from jwarp.frontend.kernel_base import Kernel, Parameter
from jwarp.frontend.syntax.outputs import Outputs
from jwarp.frontend.syntax.source import Source, annotations_of, capture, file_lines, file_of, read_source
from jwarp.frontend.values import kinds
from jwarp.frontend.values.bindings import ArrayRef, Composite, Number
from jwarp.ir import nodes
from jwarp.ir.nodes import Const
from jwarp.types import SCALARS, ArrayType, as_type, int32

FAILURES = "failed expectations"  # no name that a kernel can have


class Refused(Exception):
    """The kernel needs something that has no counterpart in jwarp; the text is the reason."""


# -- what Warp's objects are in jwarp


def translate(thing: Any) -> Any:
    """jwarp's counterpart of an object that Warp code refers to; other objects are what they are."""
    if thing is Any or isinstance(thing, TypeVar):
        return Any
    if isinstance(thing, types.ModuleType):
        return NAMES if thing is warp else _Namespace(thing)
    if isinstance(thing, Function):
        return _function(thing)
    if isinstance(thing, type):
        return _type(thing)
    if isinstance(thing, codegen.Struct):
        return _struct(thing)
    if isinstance(thing, (warp_types.array, warp_types._ArrayAnnotation)):
        return _array(thing)
    if isinstance(thing, warp_types.scalar_types):
        return translate(type(thing))(thing.value)
    if _is_composite(type(thing)):
        kind = translate(type(thing))
        return kind(np.array(thing, kind.dtype.dtype))
    if isinstance(thing, tuple):
        return tuple(translate(item) for item in thing)
    if type(thing) is dict:
        return _Dict(thing)
    return _Namespace(thing) if isinstance(thing, types.SimpleNamespace) else thing


def _is_composite(kind: type) -> bool:
    return hasattr(kind, "_wp_generic_type_hint_")


@functools.cache
def _struct(struct: codegen.Struct) -> Any:
    """A struct of the same fields, whose methods are those of Warp's class."""
    fields = {name: _field(var.type) for name, var in struct.vars.items()}
    methods = {name: translate(value) for name, value in vars(struct.cls).items() if isinstance(value, Function)}
    return jwarp.struct(type(struct.cls.__name__, (), {"__annotations__": fields, **methods}))


def _field(kind: Any) -> Any:
    found = translate(kind)
    if found is Any:
        raise Refused("structs of generic fields")
    return found


def _type(kind: type) -> Any:
    if issubclass(kind, codegen.StructInstance):
        return translate(kind._cls)
    if kind in warp_types.scalar_types or kind is warp_types.bool:
        return SCALARS[kind.__name__]
    if _is_composite(kind):
        hint = kind._wp_generic_type_hint_
        if hint not in (warp_types.Vector, warp_types.Matrix):
            raise Refused("quaternions and transforms")
        dtype = translate(kind._wp_scalar_type_)
        if dtype is Any or Any in kind._shape_:
            return Any
        vector = hint is warp_types.Vector
        return jwarp.types.vector(kind._shape_[0], dtype) if vector else jwarp.types.matrix(kind._shape_, dtype)
    if kind.__module__ == "builtins" or issubclass(kind, (enum.Enum, np.generic)):
        return kind
    if kind.__module__.startswith("warp._src"):
        raise Refused(f"the type {kind.__name__}")
    return _Namespace(kind)


def _array(annotation: Any) -> Any:
    if type(annotation) not in (warp_types.array, warp_types._ArrayAnnotation):
        raise Refused(f"parameters of type {type(annotation).__name__}")
    dtype = translate(annotation.dtype)
    return Any if dtype is Any else jwarp.array(dtype=dtype, ndim=annotation.ndim)


@functools.cache
def _function(function: Function) -> Any:
    if function.is_builtin():
        return getattr(NAMES, function.key)
    if function.native_snippet is not None:
        raise Refused("functions in C++")
    defined = [*function.user_overloads.values(), *function.user_templates.values()]
    overloads = tuple(WarpFunc(one.func) for one in defined) or (WarpFunc(function.func),)
    for one in overloads:
        one._defined = overloads
    return overloads[-1]


class _Namespace:
    """A module or a class, whose attributes are translated."""

    def __init__(self, owner: Any):
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return translate(getattr(self._owner, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._owner(*args, **kwargs)


class _Dict(dict):
    """A dict, whose values are translated when they are asked for."""

    def __getitem__(self, key: Any) -> Any:
        return translate(super().__getitem__(key))


class _Names:
    """The module `warp`: jwarp's names, and the checks that only Warp's own tests use."""

    def __getattr__(self, name: str) -> Any:
        if name in EXPECTATIONS:
            return EXPECTATIONS[name]
        if not hasattr(jwarp, name) and isinstance(getattr(warp, name, None), types.ModuleType):
            return _Namespace(getattr(warp, name))
        found = getattr(jwarp, name)
        if isinstance(found, types.ModuleType) and name != "types":  # a package of jwarp's own
            raise AttributeError(f"module 'jwarp' has no attribute {name!r}")
        return found


NAMES = _Names()


# -- kernels and functions


class WarpSource(Source):
    """The source of a function of Warp's."""

    def lookup(self, name: str) -> Any:
        try:
            return translate(super().lookup(name))
        except KeyError:
            if name not in builtin_functions and not hasattr(warp, name):  # found without its module's name, too
                raise
            return getattr(NAMES, name)

    @property
    def namespace(self) -> dict[str, Any]:
        names = super().namespace
        for name in capture(self.function):
            with contextlib.suppress(Refused):  # not every name of the function stands in the expression
                names[name] = translate(names[name])
        return names


def _source(function: types.FunctionType) -> WarpSource:
    return WarpSource(**vars(read_source(function, capture(function), file_lines(function))))


class WarpFunc(Func):
    """A `@warp.func`."""

    def __init__(self, function: types.FunctionType):
        functools.update_wrapper(self, function)
        self.python = function
        self.name = function.__name__
        self.outputs = Outputs((), function.__code__.co_argcount)
        self._defined = (self,)

    @functools.cached_property
    def source(self) -> Source:
        return _source(self.python)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        signature = inspect.signature(self.python)
        return signature.replace(
            parameters=[
                p if p.default is p.empty else p.replace(default=translate(p.default))
                for p in signature.parameters.values()
            ]
        )

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        written = annotations_of(self.python, capture(self.python))
        return {name: _annotation(annotation) for name, annotation in written.items()}


def _annotation(annotation: Any) -> Any:
    if get_origin(annotation) is tuple:
        return tuple[tuple(_annotation(item) for item in get_args(annotation))]
    return Any if annotation is Function else translate(annotation)


class WarpKernel(PythonKernel):
    """A `@warp.kernel`, not generic. After its own parameters it has one that counts failed expectations."""

    def __init__(self, kernel: warp.Kernel):
        function = kernel.func
        functools.update_wrapper(self, function)
        self.python, self._lock = function, threading.Lock()
        params = []
        for label, annotation in kernel.adj.arg_types.items():
            kind = as_type(translate(annotation))
            if kind is None:
                raise Refused(f"parameters of type {annotation!r}")
            params.append(Parameter(label, kind))
        span = Span(file_of(function), function.__code__.co_firstlineno)
        signature = (*params, Parameter(FAILURES, ArrayType(int32, 1)))
        Kernel.__init__(self, function.__name__, signature, span, enable_backward=False)

    @functools.cached_property
    def source(self) -> Source:
        return _source(self.python)

    def ir(self, settings: Any = None) -> nodes.Kernel:
        token = _failures.set(ArrayRef(len(self.params) - 1, FAILURES, ArrayType(int32, 1)))
        try:
            return super().ir(settings)
        finally:
            _failures.reset(token)


# -- expectations: each that fails adds one to the last parameter

_failures: contextvars.ContextVar[ArrayRef] = contextvars.ContextVar("failures")


def _expect(caller: Any, args: list, span: Span, wanted: bool) -> tuple:
    x, y = args
    if isinstance(x, Composite):
        same = kinds.equal(caller, "==", x, y, span)
    else:
        same = caller.emit("eq", caller.scalar(x, span), caller.scalar(y, span), span=span)
    return _count(caller, same if wanted else caller.emit("not", same, span=span), span)


def _expect_near(caller: Any, args: list, spans: list[Span], span: Span) -> tuple:
    x, y, tolerance = args
    pairs = zip(x.items, y.items, strict=True) if isinstance(x, Composite) else [(x, y)]
    for pair in pairs:
        a, b = (caller.scalar(value, span) for value in pair)
        limit = caller.convert(tolerance or Number(1e-6), a.type, span)
        distance = caller.emit("abs", caller.emit("sub", a, b, span=span), span=span)
        _count(caller, caller.emit("le", distance, limit, span=span), span)
    return ()


def _count(caller: Any, holds: Any, span: Span) -> tuple:
    failed = caller.emit("select", holds, Const(int32, 0), Const(int32, 1), span=span)
    caller.atomic("add", _failures.get(), [Number(0)], [failed], [span, span], span)
    return ()


EXPECTATIONS = {
    "expect_eq": Builtin(
        "expect_eq(a: T, b: T) -> None", "", lambda caller, args, spans, span: _expect(caller, args, span, True)
    ),
    "expect_neq": Builtin(
        "expect_neq(a: T, b: T) -> None", "", lambda caller, args, spans, span: _expect(caller, args, span, False)
    ),
    "expect_near": Builtin("expect_near(a: T, b: T, tolerance: Any = None) -> None", "", _expect_near, binds=True),
}
