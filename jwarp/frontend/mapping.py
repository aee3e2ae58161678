"""`wp.map`: kernels that apply a function to the elements of arrays, and what types these and the results have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.table import PYTHON_BUILTINS, Builtin
from jwarp.frontend.builtins.tiles.calls import TileBuiltin
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.context import Context, Frame, UsesTiles
from jwarp.frontend.func import Func, Lambda
from jwarp.frontend.kernel import PythonKernel
from jwarp.frontend.lowering import calls
from jwarp.frontend.syntax.source import Definition, check_function, read_source
from jwarp.frontend.values.bindings import Binding, Composite, PythonRef, StructValue, describe, layout
from jwarp.ir.nodes import Value
from jwarp.types import CompositeType, ScalarType, StructType, array_of, indexed_type, user_type

FILE = "<wp.map>"


@dataclass(frozen=True)
class Argument:
    """An argument of a mapped function: a value, one element of an array, or a value for all elements.

    An array has an entry in `axes` for each of its axes: whether it has more than one element along it. `is_indexed` is
    for one whose elements arrays of indices name.
    """

    kind: Any
    axes: tuple[bool, ...] | None = None
    is_indexed: bool = False


def as_function(thing: Any, where: str = "wp.map") -> Func | Builtin:
    """The function of the kernel language that `thing` is: one already, or a Python function or lambda.

    Raises:
        KernelTypeError, CompileError: it is no function, or none that kernels could call.
    """
    thing = canonical(thing)
    if isinstance(thing, (Func, Builtin)) and not isinstance(thing, TileBuiltin):
        return thing
    known = PYTHON_BUILTINS.get(thing) if callable(thing) else None
    if known is not None:
        return known
    if not inspect.isfunction(thing):
        raise KernelTypeError(f"{where} needs a function, not {thing!r}", hint="a @wp.func, a builtin, or a lambda")
    if thing.__name__ == "<lambda>":
        return Lambda(thing)
    check_function(thing, where)
    return Func(thing)


def results_of(function: Func | Builtin, kinds: Sequence[Any]) -> tuple[Any, ...]:
    """The types of the results of a function for arguments of these types.

    Raises:
        JwarpError: it does not take them, or gives nothing that an array could hold.
    """
    parameters = ", ".join(f"x{k}" for k in range(len(kinds)))
    source, _ = _read(f"def probe({parameters}):\n    return _function({parameters})\n", "probe", function)
    ctx = Context(Frame(source), calls.apply, 0)
    span = Span(FILE, 2)
    values = [_binding(kind) for kind in kinds]
    try:
        result = ctx.apply(PythonRef(function), values, [span] * len(values), span)
    except UsesTiles:
        raise KernelTypeError(f"wp.map: `{function.name}` works on tiles", hint="launch a kernel with tiles") from None
    parts = result if isinstance(result, tuple) else (result,)
    found = tuple(part.type if isinstance(part, StructValue) else layout(part, span) for part in parts)
    if not found:
        raise KernelTypeError(f"wp.map: `{function.name}` gives nothing. The provided function must return a value")
    if not all(isinstance(kind, (ScalarType, CompositeType, StructType)) for kind in found):
        raise KernelTypeError(
            f"wp.map: `{function.name}` gives {describe(result)}, and not numbers, vectors, matrices or structs",
            hint="return what the elements of the result are to be",
        )
    return found


def _binding(kind: Any) -> Binding:
    if isinstance(kind, CompositeType):
        return Composite(kind, tuple(Value(kind.dtype) for _ in range(kind.size)))
    if isinstance(kind, StructType):
        return StructValue(kind, tuple(_binding(user_type(inner)) for inner in kind.fields.values()))
    if not isinstance(kind, ScalarType):
        raise KernelTypeError(f"wp.map: structs of arrays are not mapped over, which {kind!r} is in")
    return Value(kind)


def parameter_names(function: Func | Builtin, count: int) -> list[str]:
    """The names of a function's inputs in its kernel."""
    if isinstance(function, Func):
        names = list(function.signature.parameters)
        required = [name for name, p in function.signature.parameters.items() if p.default is p.empty]
        if not len(required) <= count <= len(names):
            raise KernelTypeError(
                f"wp.map: `{function.name}`: Number of input arguments ({count}) does not match expected number of "
                f"function arguments ({len(names)})"
            )
        return names[:count]
    return [f"x{k}" for k in range(count)]


def map_kernel(function: Func | Builtin, arguments: Sequence[Argument], results: Sequence[Any]) -> PythonKernel:
    """The kernel whose last parameters are the results of `function`, for each element of the arrays broadcast."""
    dims = max((len(a.axes) for a in arguments if a.axes is not None), default=1)
    names = parameter_names(function, len(arguments))
    shown = function.name if function.name.isidentifier() else "lambda"
    indices = [f"_{axis}" for axis in range(dims)]
    outputs = [f"out{k}" if len(results) > 1 else "out" for k in range(len(results))]
    outputs = [f"{name}_" if name in names else name for name in outputs]
    given, annotations = [], {}
    for name, argument in zip(names, arguments, strict=True):
        axes = argument.axes
        whole = argument.kind if axes is None else array_of(argument.kind, len(axes))
        annotations[name] = indexed_type(whole) if argument.is_indexed else whole
        if axes is None:
            given.append(name)
        else:
            used = [index if moves else "0" for index, moves in zip(indices[dims - len(axes) :], axes, strict=True)]
            given.append(f"{name}[{', '.join(used)}]")
    annotations |= {name: array_of(kind, dims) for name, kind in zip(outputs, results, strict=True)}
    targets = ", ".join(f"{name}[{', '.join(indices)}]" for name in outputs)
    text = (
        f"def map_{shown}({', '.join([*names, *outputs])}):\n"
        f"    {', '.join(indices)} = _tid()\n"
        f"    {targets} = _function({', '.join(given)})\n"
    )
    _, made = _read(text, f"map_{shown}", function)
    definition = Definition(_outer(function), text.splitlines(keepends=True), Span(FILE, 1))
    return PythonKernel(made, annotations=annotations, definition=definition)


def _outer(function: Any) -> dict[str, Any]:
    """The outer names in the source of a kernel, with their values."""
    return {"_function": function, "_tid": tid}


def _read(text: str, name: str, function: Any) -> tuple[Any, Callable]:
    """The source of a function that is made of text, and the function."""
    namespace = _outer(function)
    exec(compile(text, FILE, "exec"), namespace)
    made = namespace[name]
    made.__module__, made.__qualname__ = "jwarp", f"map.<locals>.{name}"
    return read_source(made, _outer(function), text.splitlines(keepends=True)), made
