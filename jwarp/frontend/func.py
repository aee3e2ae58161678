"""`@wp.func`: functions that kernels call. They are read anew at each call, so they are generic."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from jwarp.errors import CompileError
from jwarp.frontend.outputs import Outputs
from jwarp.frontend.source import (
    Source,
    annotations_of,
    capture,
    check_function,
    file_lines,
    parameter_span,
    read_source,
)
from jwarp.types import ArrayType, FloatMatrix, as_type


class Func:
    """A function of the kernel language. Outside kernels it is the Python function itself.

    A call that stands alone may name `outputs` as further arguments: variables that get the results.
    """

    def __init__(self, function: Callable, outputs: tuple[str, ...] = ()):
        functools.update_wrapper(self, function)
        self.python = function
        self.name = function.__name__
        self.outputs = Outputs(outputs, function.__code__.co_argcount)
        self._captured = capture(function)
        self._lines = file_lines(function)

    @functools.cached_property
    def source(self) -> Source:
        return read_source(self.python, self._captured, self._lines)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        signature = inspect.signature(self.python)
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise CompileError(
                    f"`{self.name}` takes any number of arguments as `{name}`",
                    parameter_span(self.python, name),
                    "a wp.func has a fixed list of parameters, without `*`",
                )
        return signature

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        return annotations_of(self.python, self._captured)

    def declared(self, name: str) -> Any:
        """What the annotation of parameter `name`, or of `return`, asks for.

        A type, a tuple of such for several results, () for no result, None where anything is right.
        """
        if name not in self.annotations:
            return None
        annotation = self.annotations[name]
        if name == "return" and annotation is None:
            return ()
        return self._wanted(annotation, name)

    def _wanted(self, annotation: Any, name: str) -> Any:
        if any(annotation is known or get_origin(annotation) is known for known in (Any, Func, Callable)):
            return None
        if get_origin(annotation) is Annotated and isinstance(annotation.__metadata__[0], FloatMatrix):
            return annotation.__metadata__[0]
        if name == "return" and get_origin(annotation) is tuple:
            return tuple(self._wanted(item, "") for item in get_args(annotation))
        wanted = as_type(annotation)
        if wanted is None:
            raise CompileError(
                f"`{self.name}`: the annotation {annotation!r} is no type of the kernel language",
                parameter_span(self.python, name or "return"),
                "use int, float, bool, a wp scalar, vector or matrix type, an array of one, or typing.Any",
            )
        return wanted.element_type if isinstance(wanted, ArrayType) and wanted.dims == 0 else wanted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.python(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<wp.func {self.name}>"


def func(function: Callable) -> Func:
    """Make a Python function callable from kernels.

    Its arguments are scalars, vectors, matrices and arrays; it may return one value or several
    (`return a, b`). Numbers, vectors and matrices that it refers to by name are captured now.

    Raises:
        KernelTypeError: `function` is not a Python function.
        CompileError: it is a lambda, or another decorator wraps it. What its body or its annotations
            do wrong is reported when a kernel that calls it is first used.
    """
    check_function(function, "@wp.func")
    return Func(function)
