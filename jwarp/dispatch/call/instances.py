"""Which instance of a generic kernel the arguments of a launch ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jwarp.arrays import cuda_arrays, dlpack
from jwarp.arrays.array import array
from jwarp.bind.compat import Tracer
from jwarp.bind.control import objects_here
from jwarp.bind.values import describe
from jwarp.caches import PerOwner
from jwarp.dispatch.call.array_arguments import Given
from jwarp.dispatch.call.cached_geometry import reader
from jwarp.dispatch.call.ids import kinds_of_nothing, names_nothing, table_of, table_of_nothing
from jwarp.errors import JwarpError
from jwarp.frontend.generics import INSTANCE, GenericKernel, Seen, seen_array, seen_number, seen_value
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import arguments
from jwarp.types import CompositeValue, Struct, array_of, arrays_of, from_dtype, indexedarray, may_hold_handles
from jwarp.types.handles import Geometry, Id, are_named, named
from jwarp.wire import Role

MAX_CHOICES = 256


class Chosen(NamedTuple):
    """The kernel that a launch runs, and its inputs. Launches with other ids are others where some were read."""

    kernel: Kernel
    inputs: Any
    reads_ids: bool  # arrays of ids
    is_numbered: bool  # numbers were ids


def choose(kernel: Kernel, inputs: Any, outputs: Any, why_no_ids: str, *, reads_ids: bool = True) -> Chosen:
    """The kernel that a launch runs where its inputs decide: a generic one, one that takes meshes or their ids.

    It `reads_ids` in arrays of such now, unless the kernel does when it runs.

    Raises:
        KernelTypeError, LaunchError: an argument does not fit or tell its type, or an array of ids is given to a
            launch that reads none, as `why_no_ids` says.
    """
    before = inputs
    if kernel.handles and reads_ids:
        inputs = _with_numbers(kernel, inputs, outputs)
    is_numbered, has_tables = inputs is not before, False
    if kernel.handles:
        kernel, inputs = with_handles(kernel, inputs, outputs)
    if kernel.is_generic:
        assert isinstance(kernel, GenericKernel)
        matched = arguments.match(kernel.name, kernel.signature, (), inputs, outputs)
        kernel = _chosen(kernel, matched.values, [role is Role.ZEROS for role in matched.roles])
    if kernel.id_lists and reads_ids:
        before = inputs
        kernel, inputs = _with_tables(kernel, inputs, outputs, why_no_ids)
        has_tables = inputs is not before
    return Chosen(kernel, inputs, has_tables, is_numbered)


_COMPUTES = "computes with ids"


def computes_with_ids(kernel: Kernel) -> bool:
    """True if a kernel is known to compute with an id that it is given, which is a number then."""
    return bool(kernel.executables.get(_COMPUTES))


def note_ids_as_numbers(kernel: Kernel, *, are_numbers: bool = True) -> None:
    """Note that a kernel computes with ids, or does not."""
    kernel.executables.replace(_COMPUTES, are_numbers)


def as_numbers(values: Any) -> Any:
    """The values of a call with numbers in place of ids, also in structs; the same object where there are none."""
    if isinstance(values, Mapping):
        named_values = {name: _as_number(x) for name, x in values.items()}
        return values if all(x is values[name] for name, x in named_values.items()) else named_values
    if not isinstance(values, (list, tuple)):
        return values
    found = [_as_number(x) for x in values]
    return values if all(x is y for x, y in zip(found, values, strict=True)) else found


def _as_number(value: Any) -> Any:
    if isinstance(value, (Id, Geometry)):
        return int(getattr(value, "id", value))
    if isinstance(value, Struct):
        parts = {name: _as_number(getattr(value, name)) for name in may_hold_handles(type(value))}
        changed = {name: part for name, part in parts.items() if part is not getattr(value, name)}
        return value.replace(**changed) if changed else value
    return value


def _given(kernel: Kernel, inputs: Any, outputs: Any) -> Mapping[str, Any]:
    """The inputs of a launch by name; what has no name is left out."""
    if isinstance(inputs, Mapping):
        return inputs
    free = [p.name for p in kernel.signature if not isinstance(outputs, Mapping) or p.name not in outputs]
    return dict(zip(free, inputs, strict=False)) if isinstance(inputs, (list, tuple)) else {}


def _replaced(inputs: Any, given: Mapping[str, Any], found: Mapping[str, Any]) -> Any:
    """The inputs of a launch, which are `given` by name, with those that were found in the place of others."""
    changed = {**given, **found}
    return changed if isinstance(inputs, Mapping) else [*changed.values(), *list(inputs)[len(given) :]]


def _with_numbers(kernel: Kernel, inputs: Any, outputs: Any) -> Any:
    """The inputs of a launch, with the grids, trees and meshes that numbers among them are the ids of in their place.

    They are the same where there are none, or the kernel is content with numbers.
    """
    if not are_named():
        return inputs
    given = _given(kernel, inputs, outputs)
    names = [kernel.signature[u].name for u in kernel.handles]
    found = {name: owner for name in names if name in given and (owner := _owners_in(given[name])) is not None}
    return _replaced(inputs, given, found) if found and _asks_what_ids_name(kernel) else inputs


def _owners_in(value: Any) -> Any:
    """The object that a number is the id of; a struct with such in it, with the objects; None for anything else."""
    if isinstance(value, Struct):
        parts = {name: _owners_in(getattr(value, name)) for name in may_hold_handles(type(value))}
        parts = {name: part for name, part in parts.items() if part is not None}
        return value.replace(**parts) if parts else None
    if isinstance(value, jax.Array) and not isinstance(value, Tracer) and value.shape == ():
        value = value.item()
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not value:
        return None
    found = named([int(value)])
    return objects_here(found)[int(value)] if found else None


def with_handles(kernel: Kernel, inputs: Any, outputs: Any = ()) -> tuple[Kernel, Any]:
    """The kernel for the grids, trees and meshes among the inputs of a launch, and the inputs with their arrays."""
    given = _given(kernel, inputs, outputs)
    read = reader(Given(inputs, outputs).has_arrays)
    places = {u: name for u in kernel.handles if (name := kernel.signature[u].name) in given}
    found = {u: made for u, name in places.items() if (made := arrays_of(given[name], read)) is not None}
    if not found:
        return kernel, inputs
    inputs = _replaced(inputs, given, {places[u]: made for u, made in found.items()})
    if kernel.is_generic:
        return kernel, inputs  # whose instance is one for them
    kinds: dict[int, Any] = {u: type(made) for u, made in found.items()}
    return kernel.with_handles(kinds), inputs


def _with_tables(kernel: Kernel, inputs: Any, outputs: Any, why_not: str) -> tuple[Kernel, Any]:
    """As `with_handles`, for arrays of ids.

    `why_not` says why the launch reads none now, if it does not.

    Raises:
        LaunchError: there are some, and it reads none, or the ids are of several kinds.
    """
    given = _given(kernel, inputs, outputs)
    asked = {u: name for u in kernel.id_lists if (name := kernel.signature[u].name) in given}
    if not asked or not _asks_what_ids_name(kernel):
        return kernel, inputs
    plain = getattr(kernel, "plain", kernel)
    tables: dict[int, Any] = {}
    if are_named():
        found = {u: table_of(name, given[name], why_not) for u, name in asked.items()}
        tables = {u: table for u, table in found.items() if table is not None}
    specialised = () if plain is kernel else kernel.kinds  # type: ignore[attr-defined]
    kinds = {**dict(specialised), **{u: type(table) for u, table in tables.items()}}
    empty = tuple(u for u, name in asked.items() if u not in tables and names_nothing(given[name]))
    if empty:
        of_nothing = _NOTHING.of(plain).made(
            (empty, frozenset(kinds.items())), lambda: kinds_of_nothing(plain, empty, kinds)
        )
        kinds |= of_nothing
        tables |= {u: table_of_nothing(asked[u], given[asked[u]], kind, why_not) for u, kind in of_nothing.items()}
    if not tables:
        return kernel, inputs
    return plain.with_handles(kinds), _replaced(inputs, given, {asked[u]: table for u, table in tables.items()})


def _asks_what_ids_name(kernel: Kernel) -> bool:
    """True if a kernel is nothing as long as the elements of its arrays of ids are numbers alone."""

    def asks() -> bool:
        try:
            kernel.ir()
        except JwarpError:
            return True
        return False

    found: bool = kernel.executables.made("asks what ids name", asks)
    return found


_NOTHING: PerOwner[Kernel, Any, dict[int, Any]] = PerOwner("kinds of ids of nothing", MAX_CHOICES)


def instance_for_call(kernel: Kernel, args: Sequence[Any], shapes: Sequence[Any]) -> Kernel:
    """The kernel that a call with these inputs, the first parameters, runs; `shapes` are those of the outputs.

    Raises:
        KernelTypeError: an argument does not fit or tell its type.
    """
    assert isinstance(kernel, GenericKernel)
    return _chosen(kernel, [*args, *shapes], [u >= len(args) for u in range(len(args) + len(shapes))])


INSTANCE.append(instance_for_call)


def _chosen(kernel: GenericKernel, values: Sequence[Any], is_output: Sequence[bool]) -> Kernel:
    return kernel.chosen(list(map(_seen, values, is_output)))


def _seen(value: Any, is_output: bool) -> Seen:
    """The known part of the type of an argument."""
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
    borrowed = _outline(value)
    if borrowed is not None:
        return seen_array(f"{borrowed.dtype}{list(borrowed.shape)}", borrowed.shape, borrowed.dtype)
    if is_output:
        return _seen_shape(value)
    if isinstance(value, (tuple, list)):
        numbers = _numbers(value)
        if numbers is not None:
            return seen_value(f"the {type(value).__name__} {value!r}", numbers.shape, numbers.dtype)
    return Seen("None" if value is None else f"{type(value).__name__} {str(value)[:60]}")


def _outline(value: Any) -> Any:
    """The shape and dtype of another library's array, None if it is none."""
    if dlpack.is_exporter(value):
        return dlpack.view(value)
    if cuda_arrays.is_cuda_array(value):
        borrowed = cuda_arrays.borrow(value, 0)
        return None if borrowed is None else borrowed.outline
    return None


def _seen_shape(value: Any) -> Seen:
    """The known part of the type of an output that is given by its shape."""
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
