"""`wp.Kernel(func, key, module, options, …)`: kernels that programs make without the decorator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jwarp.errors import KernelTypeError
from jwarp.frontend import kernel_base
from jwarp.frontend.kernel import kernel_of
from jwarp.frontend.modules import Module, get_module
from jwarp.frontend.options import OF_KERNELS, checked
from jwarp.frontend.syntax.source import check_function
from jwarp.frontend.syntax.transformed import definition_of


class _MadeOfFunctions(type):
    """Calls make kernels; all kernels are instances."""

    def __call__(cls, func: Any, *args: Any, **kwargs: Any) -> kernel_base.Kernel:
        return make_kernel(func, *args, **kwargs)

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, kernel_base.Kernel)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, kernel_base.Kernel)


class Kernel(metaclass=_MadeOfFunctions):
    """A kernel: `Kernel(func, key, module, …)` makes one of a function, as `@wp.kernel` does."""


def make_kernel(
    func: Callable,
    key: str | None = None,
    module: Module | None = None,
    options: Mapping[str, Any] | None = None,
    code_transformers: Sequence[ast.NodeTransformer] | None = None,
    source: str | None = None,
) -> kernel_base.Kernel:
    """Make a kernel of a function, with a key of its own, in any module.

    Args:
        func: The Python function, with a type for each parameter.
        key: What the kernel is called. Default: the function's name, with those of what it is defined in.
        module: The module that it belongs to. Default: that of the function.
        options: Options of this kernel alone.
        code_transformers: They change the function's syntax tree, one after the other, before it is read.
        source: The text of the function, if that is in no file.

    Raises:
        CompileError: as for `@wp.kernel`.
        KernelTypeError: `func` is no function, `module` is no module, or there is no such option.
    """
    check_function(func, "wp.Kernel")
    if not isinstance(module, Module | None):
        raise KernelTypeError(f"wp.Kernel: module must be one of wp.get_module's, not {module!r}")
    given = {name: value for name, value in (options or {}).items() if name not in OF_KERNELS}
    of_kernel = {name: value for name, value in (options or {}).items() if name in OF_KERNELS}
    made = kernel_of(func, definition=definition_of(func, code_transformers or (), source))
    made.options = {**checked(given, "wp.Kernel"), **of_kernel}
    if key is not None:
        made.key = made.name = key
    made.belongs_to(module or get_module(func.__module__))
    return made
