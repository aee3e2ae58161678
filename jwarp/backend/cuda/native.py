"""Writes the functions of native code that a kernel calls, and the calls of them."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence

from jwarp.backend.cuda.nvrtc import SNIPPET
from jwarp.backend.cuda.rules import C_TYPES
from jwarp.ir.attributes import NativeCall, NativeParam
from jwarp.ir.native import element_of
from jwarp.ir.nodes import Kernel, Op, walk

NATIVE_HEADER = "native.cuh"
# The type of each kind of composites, of its extents and its scalar.
_COMPOSITES: dict[str, Callable[[tuple[int, ...], str], str]] = {
    "": lambda shape, scalar: scalar,
    "vector": lambda shape, scalar: f"wp::vec_t<{shape[0]}, {scalar}>",
    "matrix": lambda shape, scalar: f"wp::mat_t<{shape[0]}, {shape[1]}, {scalar}>",
    "quaternion": lambda shape, scalar: f"wp::quat_t<{scalar}>",
    "transformation": lambda shape, scalar: f"wp::transform_t<{scalar}>",
}

# The key of a function: the arrays that a call names belong to the call.
Function = tuple[str, str, str, tuple[NativeParam, ...]]


def function_of(call: NativeCall) -> Function:
    """The function that a call is of."""
    return call.function, call.text, call.result, call.params


def native_functions(kernel: Kernel) -> dict[Function, str]:
    """The name in generated code of each function of native code that the kernel calls."""
    calls = (n.attr_as(NativeCall) for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_native)
    return {function: f"jw_native{k}" for k, function in enumerate(dict.fromkeys(map(function_of, calls)))}


def c_type(element: str) -> str:
    """The C++ type that a spelt type is in native code."""
    kind, shape, scalar = element_of(element)
    return _COMPOSITES[kind](shape, C_TYPES[scalar])


def definitions(kernel: Kernel, own: str) -> list[str]:
    """The functions, each text at lines of its own file; the line `own` says that what follows is generated."""
    lines = []
    for function, name in native_functions(kernel).items():
        title, text, result, params = function
        file = f"{SNIPPET}{title} ({name.removeprefix('jw_')})"
        # Where errors of the compiler find the line that they speak of.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        given = ", ".join(f"{_param_type(p)} {p.name}" for p in params)
        lines += [
            f"static __device__ __forceinline__ {c_type(result) if result else 'void'} {name}({given}) {{",
            f'#line 1 "{file}"',
            *text.splitlines(),
            own,
            "}",
        ]
    return lines


def _param_type(param: NativeParam) -> str:
    kind = c_type(param.element)
    return {
        "value": kind,
        "reference": f"{kind}&",
        "read": f"wp::array_t<const {kind}>",
        "changed": f"wp::array_t<{kind}>",
    }[param.kind]


def array_argument(param: NativeParam, name: str, extents: Sequence[str]) -> str:
    """An array as native code takes it: its elements, and its extents."""
    kind = c_type(param.element)
    const = "const " if param.kind == "read" else ""
    absent = ["-1"] * (4 - len(extents))  # the axes that it lacks
    return f"{{({const}{kind}*){name}, {{{', '.join([*extents, *absent])}}}}}"


def made(element: str, scalars: Sequence[str]) -> str:
    """A value of a spelt type made of its scalars."""
    if element_of(element).kind == "":
        return scalars[0]
    return f"jw_made<{c_type(element)}>({', '.join(scalars)})"


def parts(element: str, name: str) -> list[str]:
    """The scalars of the variable `name`, which has a spelt type."""
    kind = element_of(element)
    if kind.kind == "":
        return [name]
    scalar = C_TYPES[kind.scalar]
    return [f"jw_scalar_of<{scalar}>({name}, {k})" for k in range(kind.size)]
