"""`wp.Function(func, key, …)`: functions of the kernel language that programs make without the decorator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jwarp.errors import KernelTypeError
from jwarp.frontend.canonicalise import reads
from jwarp.frontend.func import Func
from jwarp.frontend.modules import Module, get_module
from jwarp.frontend.syntax.source import check_function
from jwarp.frontend.syntax.transformed import definition_of


class _MadeOfFunctions(type):
    """Calls make functions; all functions of the kernel language are instances."""

    def __call__(cls, func: Any, key: str, *args: Any, **kwargs: Any) -> Func:
        return make_function(func, key, *args, **kwargs)

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, Func)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, Func)


class Function(metaclass=_MadeOfFunctions):
    """A function of the kernel language: `Function(func, key, …)` makes one of a Python function."""


@reads
def _as_annotation(thing: Any) -> Any:
    """The class that annotates a parameter which is a function, for this one."""
    return Func if thing is Function else thing


def make_function(
    func: Callable | None,
    key: str,
    namespace: str = "",
    *,
    module: Module | None = None,
    source: str | None = None,
    overloaded_annotations: Mapping[str, Any] | None = None,
    code_transformers: Sequence[ast.NodeTransformer] | None = None,
    doc: str = "",
) -> Func:
    """Make a function of the kernel language of a Python function, with a key of its own, in any module.

    Args:
        func: The Python function.
        key: Its name in the module.
        namespace: Has no effect here: Warp puts C++ functions there.
        module: The module that it belongs to. Default: that of the function.
        source: The text of the function, if that is in no file.
        overloaded_annotations: The types of the parameters, if not those that are written.
        code_transformers: They change the function's syntax tree, one after the other, before it is read.
        doc: Its docstring.

    Raises:
        CompileError: as for `@wp.func`.
        KernelTypeError: `func` is no function, `module` is no module, or there is no type for a parameter.
    """
    if func is None:
        raise KernelTypeError("wp.Function: a builtin is no Python function; jwarp has those of its own tables only")
    check_function(func, "wp.Function")
    if not isinstance(module, Module | None):
        raise KernelTypeError(f"wp.Function: module must be one of wp.get_module's, not {module!r}")
    made = Func(
        func, definition=definition_of(func, code_transformers or (), source), annotations=overloaded_annotations
    )
    for name in made.signature.parameters if overloaded_annotations is not None else ():
        if name not in made.annotations:
            raise KernelTypeError(f"wp.Function: no type is given for the parameter '{name}' of {made.name}")
    made.__doc__ = doc or made.__doc__
    made.belongs_to(module or get_module(func.__module__), key)
    return made
