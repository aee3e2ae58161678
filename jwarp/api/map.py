"""`wp.map`: a function of the kernel language applied to the elements of arrays."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.api.launch import launch
from jwarp.api.modules import Module, get_module
from jwarp.arrays.array import array
from jwarp.arrays.create import copy, empty
from jwarp.arrays.subclasses import plain, plain_values
from jwarp.arrays.view import scalar_of
from jwarp.bind import compat
from jwarp.bind.values import describe
from jwarp.caches import Cache
from jwarp.config import surface
from jwarp.errors import JwarpError, KernelTypeError, LaunchError
from jwarp.frontend.builtins.table import BUILTINS, Builtin
from jwarp.frontend.func import Func
from jwarp.frontend.generics import NUMBERS
from jwarp.frontend.kernel import PythonKernel
from jwarp.frontend.mapping import Argument, as_function, map_kernel, parameter_names, results_of
from jwarp.frontend.syntax.source import capture
from jwarp.launching.keywords import refuse_keywords
from jwarp.types import (
    KINDS,
    MAX_DIMS,
    CompositeType,
    CompositeValue,
    ScalarType,
    Struct,
    StructType,
    composite,
    fits,
    from_dtype,
    indexedarray,
)
from jwarp.types.array_operators import operate
from jwarp.types.queries import type_repr

MAX_MAPPED = 256


def map(
    func: Callable[..., Any],
    /,
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    **unknown: Any,
) -> Any:
    """Apply a function to the elements of arrays, which are broadcast against each other as in NumPy.

    Works in and under all transformations of JAX, including gradients.

    Args:
        func: A `@wp.func`, a builtin such as `wp.sin`, a Python function in the kernel language, or a lambda.
        inputs: The arguments: JAX or NumPy arrays, `wp.array`s, `wp.indexedarray`s of these, and values that are the
            same for all elements: numbers, vectors, matrices, structs, arrays of shape (). At least one must be an
            array. The annotations of `func` decide whether elements are numbers, or vectors along the last axis. If
            they allow both, elements are numbers.
        out: NumPy arrays or `wp.array`s that receive the results, one or a tuple. JAX arrays cannot be written to.
        return_kernel: Return the kernel, and run nothing.
        block_dim: As for `wp.launch`.
        unknown: Any other keyword is an error.

    Returns:
        An array, or a tuple if `func` has several results: `wp.array`s if some input is one, NumPy arrays if all arrays
        are NumPy's, otherwise JAX arrays. The components of vectors and matrices are the last axes.

    Raises:
        KernelTypeError: `func` is not a function, or does not accept these arguments.
        LaunchError: Shapes cannot be broadcast, there is no array, or `out` does not match.

    Example:
        >>> y = wp.map(lambda x, k: k * wp.sin(x), jnp.arange(4.0), 2.0)
    """
    refuse_keywords("wp.map", unknown, ("out", "return_kernel", "block_dim"))
    plain_out = plain_values(out) if isinstance(out, (tuple, list)) else plain(out)
    if plain_out is not out:
        found = map(func, *inputs, out=plain_out, return_kernel=return_kernel, block_dim=block_dim)
        if return_kernel:
            return found
        return type(found)(out) if isinstance(found, (tuple, list)) else out
    inputs = tuple(plain_values(inputs))
    function = _function(func)
    if any(isinstance(place, indexedarray) for place in (out if isinstance(out, (tuple, list)) else (out,))):
        return _onto_indexed(func, inputs, out, block_dim)
    inputs = tuple([_elements_of(x) if isinstance(x, indexedarray) and not _is_mutable(x) else x for x in inputs])
    parameter_names(function, len(inputs))
    mapped = _mapped(function, inputs)
    if return_kernel:
        return mapped.kernel
    dims = _broadcast(_leading(inputs, mapped.arguments))
    kinds = {type(x) is np.ndarray for x, a in zip(inputs, mapped.arguments, strict=True) if a.axes}
    shapes = [(*(dims or (1,)), *getattr(kind, "shape", ())) for kind in mapped.results]
    places: list[Any] = [tuple(shape) for shape in shapes]
    if any(_is_mutable(x) for x in inputs) or type(out) is array:
        return _onto_arrays(mapped, dims, inputs, out, block_dim)
    if out is not None:
        places = _places(out, mapped, shapes)
    elif kinds == {True} and compat.is_not_tracing() and not any(isinstance(x, jax.Array) for x in inputs):
        scalars = [getattr(kind, "dtype", None) for kind in mapped.results]
        if all(isinstance(getattr(s, "dtype", s), np.dtype) for s in scalars):
            dtypes = [s if isinstance(s, np.dtype) else s.dtype for s in scalars]  # type: ignore[union-attr]
            places = [np.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    found = launch(mapped.kernel, dims or (1,), inputs, places, block_dim=block_dim)
    if not dims and out is None:  # a value for each element of a batch, say
        found = tuple(jax.tree.map(lambda x: x[0], y) for y in found)
    return found[0] if len(found) == 1 else tuple(found)


def _onto_arrays(mapped: Mapped, dims: tuple[int, ...], inputs: Sequence[Any], out: Any, block_dim: Any) -> Any:
    """The results as mutable arrays, new ones unless some are given."""
    if out is not None:
        places = _places(out, mapped, [dims] * len(mapped.results))
    else:
        read: list[array] = [x.data if isinstance(x, indexedarray) else x for x in inputs if _is_mutable(x)]
        flows = any(x.requires_grad for x in read)
        where = read[0].device if read else None
        places = [empty(dims, kind, where, flows and scalar_of(kind).is_float) for kind in mapped.results]
    launch(mapped.kernel, dims, [*inputs, *places], block_dim=block_dim)
    if len(places) == 1:
        return places[0]
    return list(places) if surface.is_warps else tuple(places)


def _onto_indexed(func: Any, inputs: Sequence[Any], out: Any, block_dim: Any) -> Any:
    """Write the results to arrays of which some are indexed: they are made elsewhere, and copied."""
    places = list(out) if isinstance(out, (tuple, list)) else [out]
    found = map(func, *inputs, block_dim=block_dim)
    results = found if isinstance(found, (tuple, list)) else (found,)
    if len(places) != len(results):
        raise _wrong_count(len(places), len(results), "")
    for place, result in zip(places, results, strict=True):
        copy(place, result)
    return out


def _operated(name: str, *operands: Any, out: Any = None) -> Any:
    return map(BUILTINS[name], *operands, out=out)


operate.append(_operated)


@dataclass(frozen=True)
class Mapped:
    """A function for inputs of certain types: its kernel, and what it takes and gives."""

    kernel: PythonKernel
    arguments: tuple[Argument, ...]
    results: tuple[Any, ...]


KERNELS: Cache[Any, PythonKernel] = Cache("kernels of wp.map", MAX_MAPPED)
_mappings: Cache[Any, Mapped] = Cache("calls of wp.map", MAX_MAPPED)
_functions: Cache[Any, tuple[Any, Func | Builtin]] = Cache("functions of wp.map", MAX_MAPPED)


def _function(thing: Any, where: str = "wp.map") -> Func | Builtin:
    """The function of the kernel language, one for all lambdas of one place that refer to the same things."""
    code = getattr(thing, "__code__", None)
    if code is None or isinstance(thing, Func):
        return as_function(thing, where)
    named = capture(thing)
    key = (code, tuple((name, id(value)) for name, value in sorted(named.items())))
    # The objects that it refers to are kept with it, so that no other object gets one of these numbers.
    return _functions.made(key, lambda: (named, as_function(thing, where)))[1]


def create_warp_function(func: Callable[..., Any]) -> tuple[Any, Module]:
    """Make a function that kernels call of a Python function or a lambda, whose parameters may be of any types.

    Args:
        func: A function of the kernel language.

    Returns:
        The function, as `@wp.func` makes it, and the module that it belongs to.

    Raises:
        KernelTypeError, CompileError: it is no such function.

    Example:
        >>> inside, _ = wp.utils.create_warp_function(lambda x: x > 0.0)
    """
    return _function(func, "wp.utils.create_warp_function"), get_module(getattr(func, "__module__", "") or "")


def _mapped(function: Func | Builtin, inputs: Sequence[Any]) -> Mapped:
    key = (function, tuple([_key(x) for x in inputs]))
    found = _mappings.get(key)
    return found if found is not None else _mappings.keep(key, _first_taken(function, inputs))


def _elements_of(x: indexedarray) -> Any:
    """The elements that an indexed array names, as an array."""
    data = x.data
    for axis, indices in enumerate(x.indices):
        if indices is None:
            continue
        if isinstance(data, np.ndarray) and isinstance(indices, np.ndarray):
            data = _taken(data, indices, axis)
        else:
            data = jax.numpy.take(data, indices, axis, mode="fill", fill_value=0)
    return data


def _taken(data: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """The elements at the indices, zeros where these are outside, as in kernels."""
    extent = data.shape[axis]
    inside = (indices >= -extent) & (indices < extent)
    found = np.take(data, np.where(inside, indices, 0), axis)
    shown = np.expand_dims(inside, tuple(n for n in range(data.ndim) if n != axis))
    return np.where(shown, found, np.zeros((), data.dtype))


def _is_mutable(x: Any) -> bool:
    """True for an array that changes, or an indexed array of such elements."""
    return isinstance(x.data if isinstance(x, indexedarray) else x, array)


def _key(x: Any) -> Any:
    """The specialisation key of an input."""
    if isinstance(x, (Struct, bool, int, float)):
        return type(x)
    if _is_mutable(x):
        return (type(x), x.shape, x.dtype)
    kind = x.kind if isinstance(x, CompositeValue) else None
    return (kind, _shape(x), getattr(x, "dtype", None), isinstance(x, np.generic), getattr(x, "weak_type", False))


def _shape(x: Any) -> tuple[Any, ...]:
    return tuple(getattr(x, "shape", ()))


def _first_taken(function: Func | Builtin, inputs: Sequence[Any]) -> Mapped:
    """The kernel for the first reading of the inputs that the function takes; the error is that for the first one."""
    wanted = _annotated(function, len(inputs))
    dtypes = [kind for x in inputs if _shape(x) and (kind := _scalar(x)) is not None]
    choices = [list(_readings(k, x, wanted[k], dtypes)) for k, x in enumerate(inputs)]
    for k, choice in enumerate(choices):
        if not choice:
            name = parameter_names(function, len(inputs))[k]
            given = ", ".join(str(_scalar(x)) for x in inputs)
            raise KernelTypeError(
                f"wp.map: `{name}` of `{function.name}` must be {wanted[k]}, not an element of {describe(inputs[k])}: "
                f"Function {function.key} does not support the provided argument types {given}"
            )
    first: JwarpError | None = None
    for arguments in sorted(itertools.product(*choices), key=_components):
        if all(a.axes is None for a in arguments) and not any(isinstance(x, jax.Array) for x in inputs):
            raise LaunchError(
                "wp.map: map requires at least one warp.array input",
                hint=f"call {function.name} in a kernel, or by itself",
            )
        try:
            results = results_of(function, [a.kind for a in arguments])
        except JwarpError as error:
            first = first or error
            continue
        kernel = KERNELS.made((function, arguments), functools.partial(map_kernel, function, arguments, results))
        return Mapped(kernel, arguments, results)
    assert first is not None
    raise first


def _scalar(x: Any) -> ScalarType | None:
    """The type of the numbers in an array."""
    if _is_mutable(x):
        return None if isinstance(x.dtype, StructType) else scalar_of(x.dtype)
    return from_dtype(describe(x).dtype)


def _leading(inputs: Sequence[Any], arguments: Sequence[Argument]) -> list[tuple[Any, ...]]:
    """The shapes of the arrays without the axes of components."""
    pairs = zip(inputs, arguments, strict=True)
    return [_shape(x)[: len(argument.axes)] for x, argument in pairs if argument.axes is not None]


def _components(arguments: Sequence[Argument]) -> int:
    """How much of the inputs' axes is taken for components."""
    return sum(len(getattr(a.kind, "shape", ())) for a in arguments if a.axes is not None)


def _annotated(function: Func | Builtin, count: int) -> list[Any]:
    """The declared types of a function's parameters; None for a parameter of any type."""
    if isinstance(function, Builtin) or len(function.overloads) > 1:
        return [None] * count
    return list(function.wanted[:count])


def _readings(place: int, x: Any, wanted: Any, dtypes: Sequence[ScalarType]) -> Iterator[Argument]:
    """The types that an input may have, the likely ones first.

    Raises:
        KernelTypeError: it has none.
    """
    if isinstance(x, Struct):
        yield Argument(type(x))
        return
    if _is_mutable(x):
        if wanted is None or fits(x.dtype, wanted, {}):
            yield Argument(x.dtype, tuple([n != 1 for n in x.shape]), isinstance(x, indexedarray))
        return
    given = describe(x)
    if (given.origin == "number" and given.dtype is None) or (given.shape == () and getattr(x, "weak_type", False)):
        python = type(x) if given.dtype is None else type(np.zeros((), given.dtype).item())
        own = next(t for kind, t in NUMBERS.items() if issubclass(python, kind))
        if isinstance(wanted, ScalarType) and wanted is not own and (wanted.is_float or own.is_int):
            yield Argument(wanted)
        yield Argument(own)
        yield from (Argument(t) for t in dict.fromkeys(dtypes) if t is not own and (t.is_float or own.is_int))
        return
    scalar = None if given.dtype is None or given.shape is None else from_dtype(given.dtype)
    if scalar is None:
        raise KernelTypeError(
            f"wp.map: input {place} is {given}, and no array or value of the kernel language",
            hint="pass JAX or NumPy arrays, numbers, or wp values",
        )
    shape = given.shape or ()
    if isinstance(x, CompositeValue) and x.kind is not None and x.ndim == x.kind.rank:
        yield Argument(x.type_in_kernels(scalar))
        return
    if not shape:
        yield Argument(scalar)
        return
    for kind in _elements(shape, scalar):
        rank = len(shape) - len(kind.shape if isinstance(kind, CompositeType) else ())
        if wanted is None or fits(kind, wanted, {}):
            if 1 <= rank <= MAX_DIMS:
                yield Argument(kind, tuple([n != 1 for n in shape[:rank]]))
            elif rank == 0:
                yield Argument(kind)


def _elements(shape: tuple[int, ...], scalar: ScalarType) -> Iterator[Any]:
    """The scalar type, and the composites that the last axes may hold, vectors and matrices first."""
    yield scalar
    for rank in (1, 2):
        last = shape[-rank:]
        for kind in KINDS.values():
            if len(last) == rank == kind.rank and kind.shape in (None, last) and all(n > 0 for n in last):
                yield composite(kind, last, scalar)


def _broadcast(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape that arrays have when broadcast against each other; () where there are none.

    Raises:
        LaunchError: they cannot be.
    """
    found: list[Any] = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for axis, n in enumerate(reversed(shape), 1):
            if found[-axis] == 1:
                found[-axis] = n
            elif n not in (1, found[-axis]):
                raise LaunchError(
                    f"wp.map: Shapes {' and '.join(str(s) for s in shapes)} are not broadcastable",
                    hint="elements are vectors or matrices where the annotations of a @wp.func say so",
                )
    return tuple(found)


def _places(out: Any, mapped: Mapped, shapes: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The arrays that the results are written to.

    Raises:
        LaunchError: there are more or fewer than results, or one cannot be written or has another shape.
    """
    given = list(out) if isinstance(out, (tuple, list)) else [out]
    name = mapped.kernel.name
    if len(given) != len(shapes):
        shape = ", ".join(dict.fromkeys(str(tuple(shape)) for shape in shapes))
        dtypes = ", ".join(type_repr(kind) for kind in mapped.results)
        wanted = f"{len(shapes)} Warp arrays with shape {shape} and dtypes ({dtypes})"
        is_list = isinstance(out, (tuple, list))
        raise _wrong_count(len(given), len(shapes), "" if is_list else f": Invalid output provided, expected {wanted}")
    for number, (place, wanted_shape) in enumerate(zip(given, shapes, strict=True)):
        if isinstance(place, jax.Array):
            raise LaunchError(
                "wp.map: out is a JAX array, which nothing can write to",
                hint="leave it out and use what comes back, a new array: y = wp.map(…)",
            )
        which = f"Output array {number}" if len(given) > 1 else "Output array"
        if type(place) is array and place.dtype is not (kind := mapped.results[number]):
            found = f"{which} dtype {type_repr(place.dtype)} does not match expected dtype {type_repr(kind)}"
            raise KernelTypeError(f"wp.map: {name}: {found}")
        if _shape(place) != tuple(wanted_shape):
            raise LaunchError(
                f"wp.map: {name}: {which} shape {_shape(place)} does not match expected shape {tuple(wanted_shape)}",
                also=TypeError,
            )
    return given


def _wrong_count(given: int, wanted: int, what: str) -> LaunchError:
    return LaunchError(
        f"wp.map: Number of provided output arrays ({given}) does not match expected number of function outputs"
        f" ({wanted}){what}",
        also=TypeError,
    )
