"""Which instance of a generic kernel the arguments of a launch ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jwarp.arrays.array import array
from jwarp.bind import compat
from jwarp.bind.values import describe
from jwarp.caches import PerOwner
from jwarp.dispatch.call import dlpack
from jwarp.dispatch.call.held import reader
from jwarp.dispatch.call.ids import kinds_of_nothing, names_nothing, table_of, table_of_nothing
from jwarp.dispatch.call.tracebacks import shorten
from jwarp.dispatch.executables.arrays import holds_arrays
from jwarp.dispatch.gpu import cuda_arrays
from jwarp.errors import JwarpError
from jwarp.frontend.generics import GenericKernel, Seen, seen_array, seen_number, seen_value
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import arguments
from jwarp.types import CompositeValue, Struct, array_of, arrays_of, from_dtype, indexedarray
from jwarp.types.handles import are_named
from jwarp.wire import Role

MAX_CHOICES = 256


class Chosen(NamedTuple):
    """The kernel that a launch runs, its inputs, and which launch that was as it was written.

    `written` is its kernel and inputs, by which the same launch is known again. Arrays of ids may name others then:
    there is none for such, and `ids` are their names and themselves by parameter.
    """

    kernel: Kernel
    inputs: Any
    written: tuple[Kernel, Any] | None = None
    ids: Mapping[int, tuple[str, Any]] | None = None


def choose(kernel: Kernel, inputs: Any, outputs: Any, why_no_ids: str) -> Chosen:
    """The kernel that a launch runs where its inputs decide: a generic one, one that takes meshes or their ids.

    Raises:
        KernelTypeError, LaunchError: an argument does not fit or tell its type, or an array of ids is given to a
            launch that reads none, as `why_no_ids` says.
    """
    given, written = (kernel, inputs), None
    if kernel.handles:
        kernel, inputs = with_handles(kernel, inputs, outputs)
        written = None if kernel is given[0] else given
    if kernel.is_generic:
        written = written or (kernel, inputs)
        kernel = instance_for_launch(kernel, inputs, outputs)
    if kernel.id_lists:
        kernel, inputs, ids = with_tables(kernel, inputs, outputs, why_no_ids)
        if ids:
            return Chosen(kernel, inputs, ids=ids)
    return Chosen(kernel, inputs, written)


def with_handles(kernel: Kernel, inputs: Any, outputs: Any = ()) -> tuple[Kernel, Any]:
    """The kernel for the grids, trees and meshes among the inputs of a launch, and the inputs with their arrays."""
    if isinstance(inputs, Mapping):
        names = dict(zip(inputs, inputs, strict=True))
    elif isinstance(inputs, (list, tuple)):
        free = [p.name for p in kernel.signature if not isinstance(outputs, Mapping) or p.name not in outputs]
        names = dict(zip(range(len(inputs)), free, strict=False))
    else:
        return kernel, inputs
    places = {kernel.signature[u].name: u for u in kernel.handles}
    is_changing = holds_arrays(inputs) or (isinstance(outputs, _COLLECTIONS) and holds_arrays(outputs))
    read = reader(is_changing)
    found = {key: arrays_of(inputs[key], read) for key, name in names.items() if name in places}
    found = {key: value for key, value in found.items() if value is not None}
    if not found:
        return kernel, inputs
    if isinstance(inputs, Mapping):
        inputs = {**inputs, **found}
    else:
        inputs = [found.get(u, value) for u, value in enumerate(inputs)]
    if kernel.is_generic:
        return kernel, inputs  # whose instance is one for them
    kinds: list[tuple[int, Any]] = sorted((places[names[key]], type(value)) for key, value in found.items())
    return kernel.with_handles(tuple(kinds)), inputs


def with_tables(
    kernel: Kernel, inputs: Any, outputs: Any, why_not: str
) -> tuple[Kernel, Any, Mapping[int, tuple[str, Any]]]:
    """As `with_handles`, for arrays of ids, whose names and selves come along by parameter.

    `why_not` says why the launch reads none now, if it does not.

    Raises:
        LaunchError: there are some, and it reads none, or the ids are of several kinds.
    """
    if not kernel.id_lists or not isinstance(inputs, _COLLECTIONS) or not _asks_what_ids_name(kernel):
        return kernel, inputs, {}
    free = [p.name for p in kernel.signature if not isinstance(outputs, Mapping) or p.name not in outputs]
    given = inputs if isinstance(inputs, Mapping) else dict(zip(free, inputs, strict=False))
    asked = {kernel.signature[u].name: u for u in kernel.id_lists if kernel.signature[u].name in given}
    plain = getattr(kernel, "plain", kernel)
    tables: dict[str, Any] = {}
    if are_named():
        found = {name: table_of(name, given[name], why_not) for name in asked}
        tables = {name: table for name, table in found.items() if table is not None}
    handed = () if plain is kernel else kernel.kinds  # type: ignore[attr-defined]
    kinds = {**dict(handed), **{asked[name]: type(table) for name, table in tables.items()}}
    empty = tuple(u for name, u in asked.items() if name not in tables and names_nothing(given[name]))
    if empty:
        made = _NOTHING.of(plain).made(
            (empty, tuple(sorted(kinds.items(), key=lambda pair: pair[0]))),
            lambda: kinds_of_nothing(plain, empty, kinds),
        )
        for u, kind in made.items():
            kinds[u], name = kind, kernel.signature[u].name
            tables[name] = table_of_nothing(name, given[name], kind, why_not)
    if not tables:
        return kernel, inputs, {}
    values: Any = {**given, **tables}
    if not isinstance(inputs, Mapping):
        values = [*values.values(), *list(inputs)[len(given) :]]
    taken = plain.with_handles(tuple(sorted(kinds.items(), key=lambda pair: pair[0])))
    return taken, values, {asked[name]: (name, given[name]) for name in tables}


def _asks_what_ids_name(kernel: Kernel) -> bool:
    """Whether a kernel is nothing as long as the elements of its arrays of ids are numbers alone."""

    def asks() -> bool:
        try:
            kernel.ir()
        except JwarpError:
            return True
        return False

    found: bool = kernel.plans.made("asks what ids name", asks)
    return found


_NOTHING: PerOwner[Kernel, Any, dict[int, Any]] = PerOwner("kinds of ids of nothing", MAX_CHOICES)
_COLLECTIONS = (Mapping, list, tuple)


def instance_for_launch(kernel: Kernel, inputs: Any, outputs: Any) -> Kernel:
    """The kernel that a launch runs: of a generic one, the instance for these inputs and outputs.

    Raises:
        KernelTypeError, LaunchError: counts or names do not fit, or an argument does not fit or tell its type.
    """
    assert isinstance(kernel, GenericKernel)
    key = None
    if type(inputs) in _LISTS and (outputs is None or type(outputs) in _LISTS):
        key = choice_key(kernel, inputs, () if outputs is None else outputs)
        found = None if key is None else _CHOICES.of(kernel).get(key)
        if found is not None:
            return found
    try:
        matched = arguments.match(kernel.name, kernel.signature, (), inputs, outputs)
        made = _chosen(kernel, matched.values, [role is Role.ZEROS for role in matched.roles])
    except JwarpError as error:
        shorten(error)
        raise
    return made if key is None else _CHOICES.of(kernel).keep(key, made)


def instance_for_call(kernel: Kernel, args: Sequence[Any], shapes: Sequence[Any]) -> Kernel:
    """The kernel that a call with these inputs, the first parameters, runs; `shapes` are those of the outputs.

    Raises:
        KernelTypeError: an argument does not fit or tell its type.
    """
    assert isinstance(kernel, GenericKernel)

    key = choice_key(kernel, args, shapes)
    found = None if key is None else _CHOICES.of(kernel).get(key)
    if found is None:
        found = _chosen(kernel, [*args, *shapes], [u >= len(args) for u in range(len(args) + len(shapes))])
    return found if key is None else _CHOICES.of(kernel).keep(key, found)


def _chosen(kernel: GenericKernel, values: Sequence[Any], is_output: Sequence[bool]) -> Kernel:
    return kernel.chosen(list(map(_seen, values, is_output)))


_LISTS = (list, tuple)
_CHOICES: PerOwner[GenericKernel, Any, Kernel] = PerOwner("choices of an instance", MAX_CHOICES)


def choice_key(kernel: Any, inputs: Sequence[Any], outputs: Sequence[Any] = ()) -> Any:
    """What must be alike for the instance to be the same; None where a closer look is needed."""
    # Those that `wp.overload` made are preferred, so a choice made while there were fewer may be another one.
    parts: list[Any] = [kernel.overload_count, len(outputs)]
    for value in inputs:
        kind = type(value)
        if kind is compat.Array:
            parts.append((value.shape, value.dtype, value.weak_type))
        elif kind is float or kind is bool or kind is int:
            parts.append(kind)
        elif kind is np.ndarray:
            parts.append((value.shape, value.dtype))
        elif kind is array:
            parts.append((value.ndim, value.dtype))
        else:
            return None
    for value in outputs:
        kind = type(value)
        if kind is compat.Array or kind is np.ndarray:
            parts.append((value.shape, value.dtype))
        elif kind is array:
            parts.append((value.ndim, value.dtype))
        elif kind is int or (kind is tuple and all(type(n) is int for n in value)):
            parts.append(value)
        else:
            return None
    return tuple(parts)


def _seen(value: Any, is_output: bool) -> Seen:
    """What is known of the type of an argument."""
    if isinstance(value, array):
        return Seen(f"{value!r}", kind=array_of(value.dtype, value.ndim))
    if isinstance(value, Struct):
        return Seen(f"the struct {type(value)!r}", kind=type(value))
    if isinstance(value, CompositeValue) and value.kind is not None and value.ndim == value.kind.rank:
        dtype = from_dtype(value.dtype)
        kind = None if dtype is None else value.type_in_kernels(dtype)
        shown = f"{kind!r} {list(value.shape)}"
        return Seen(shown, kind=kind, shape=value.shape, dtype=dtype)
    given = describe(value)
    if given.value is not value and isinstance(given.value, CompositeValue):
        return _seen(given.value, is_output)  # of another library
    if given.origin == "number" and given.dtype is None and not is_output:
        return seen_number(type(value), str(value))
    if given.shape == () and getattr(value, "weak_type", False):  # what a Python number is where JAX traces
        return seen_number(type(np.zeros((), given.dtype).item()), str(given))
    if given.shape is not None and given.dtype is not None and isinstance(given.dtype, np.dtype):
        return seen_array(str(given), given.shape, given.dtype)
    if isinstance(value, indexedarray):
        return replace(_seen(value.data, False), is_indexed=True)
    lent = _outline(value)
    if lent is not None:
        return seen_array(f"{lent.dtype}{list(lent.shape)}", lent.shape, lent.dtype)
    if is_output:
        return _seen_shape(value)
    if isinstance(value, (tuple, list)):
        numbers = _numbers(value)
        if numbers is not None:
            return seen_value(f"the {type(value).__name__} {value!r}", numbers.shape, numbers.dtype)
    return Seen("None" if value is None else f"{type(value).__name__} {str(value)[:60]}")


def _outline(value: Any) -> Any:
    """The shape and dtype of an array that another library lends, None if it is none."""
    if dlpack.is_exporter(value):
        return dlpack.view(value)
    if cuda_arrays.is_cuda_array(value):
        borrowed = cuda_arrays.borrow(value, 0)
        return None if borrowed is None else borrowed.outline
    return None


def _seen_shape(value: Any) -> Seen:
    """What is known of an output that is given by its shape."""
    entries = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return Seen(f"the shape {value}", shape=entries)


def _numbers(value: Any) -> Any:
    """The array that a tuple of numbers is as a vector or matrix, None if it is none."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    kinds = {"i": np.int32, "f": np.float32, "b": np.bool_}
    return (
        array.astype(kinds[array.dtype.kind]) if array.dtype.kind in kinds and array.size and array.ndim <= 2 else None
    )
