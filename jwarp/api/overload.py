"""`wp.overload`: an instance of a generic kernel, for types that are said and not those of a launch's arguments."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from typing import overload as overloaded

from jwarp.dispatch.call.call import read_kernel
from jwarp.errors import CompileError, KernelTypeError
from jwarp.frontend.by_name import full_name
from jwarp.frontend.generics import GenericKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.frontend.modules import get_module
from jwarp.frontend.syntax.source import annotations_of, capture, file_lines, parameter_span, read_source


@overloaded
def overload(kernel: Kernel, arg_types: Sequence[Any] | Mapping[str, Any]) -> Kernel: ...
@overloaded
def overload(kernel: Callable[..., Any]) -> Kernel: ...
def overload(kernel: Any, arg_types: Sequence[Any] | Mapping[str, Any] | None = None) -> Kernel:
    """Make an instance of a generic kernel, which launches of the kernel prefer.

    `wp.overload(kernel, [wp.array[float], float])` returns the instance, which is an ordinary kernel. As a decorator,
    it takes a function without a body that has the kernel's name and the types as annotations, and returns the kernel.

    Args:
        kernel: A generic kernel.
        arg_types: The type of each parameter, or a dict of the types of the generic parameters and type variables by
            name.

    Raises:
        KernelTypeError: `kernel` is not generic, a type does not match its parameter, or a type is missing.
        CompileError: The decorated function has a body, or parameters without types.

    Example:
        >>> scale64 = wp.overload(scale, {"x": wp.array[wp.float64]})
    """
    if isinstance(kernel, types.FunctionType):
        return _declared(kernel, sys._getframe(1))
    kernel = read_kernel(kernel, "wp.overload")
    if not isinstance(kernel, GenericKernel):
        raise KernelTypeError(
            f"wp.overload: kernel '{kernel.name}' is not generic",
            hint="annotate parameters with Any or a type variable",
        )
    if isinstance(arg_types, (str, bytes)) or not isinstance(arg_types, (Sequence, Mapping)):
        raise KernelTypeError(
            f"wp.overload: the types of kernel '{kernel.name}' are a list, or a dict by name, not {arg_types!r}"
        )
    return kernel.overload(arg_types)


def _of_function(function: Callable) -> Kernel | None:
    """The one generic kernel that was made of a function of this name, under a name of its own."""
    known = get_module(function.__module__).live_kernels
    found = [k for k in known if isinstance(k, GenericKernel) and k.python.__qualname__ == function.__qualname__]
    if len(found) > 1:
        names = ", ".join(sorted(k.key for k in found))
        raise KernelTypeError(
            f"@wp.overload: Ambiguous kernel lookup: {names} are kernels of a function {function.__name__}",
            hint="say which one: wp.overload(kernel, {'x': float})",
        )
    return found[0] if found else None


def _declared(function: Callable, frame: types.FrameType) -> Kernel:
    """The kernel that has the name of `function`, with an instance for the types of its parameters."""
    name = function.__name__
    if function.__annotations__.get("return") not in (None, "None", types.NoneType):
        raise CompileError(
            f"Return annotations are not allowed on @wp.overload stubs, as `{name}` has one",
            parameter_span(function, "return"),
            also=TypeError,
        )
    found = frame.f_locals.get(name, frame.f_globals.get(name))
    if not isinstance(found, GenericKernel):  # the name may mean the function itself by now
        found = get_module(function.__module__).kernels.get(full_name(function.__qualname__))
    if not isinstance(found, GenericKernel):
        found = _of_function(function)
    if not isinstance(found, GenericKernel):
        raise KernelTypeError(
            f"@wp.overload: there is no generic kernel '{name}' here",
            hint="it has the name of a kernel that is defined above in the same scope",
        )
    captured = capture(function)
    source = read_source(function, captured, file_lines(function))
    for statement in source.tree.body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_text and not isinstance(statement, ast.Pass):
            raise CompileError(
                f"@wp.overload `{name}` has a body; that of the kernel counts", source.span(statement), "write `...`"
            )
    annotations = annotations_of(function, captured)
    for parameter in inspect.signature(function).parameters:
        if parameter not in annotations:
            raise CompileError(
                f"@wp.overload `{name}`: parameter `{parameter}` has no type", parameter_span(function, parameter)
            )
    annotations.pop("return", None)
    found.overload(list(annotations.values()))
    return found
