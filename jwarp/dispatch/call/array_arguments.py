"""Mutable arrays as the arguments of a launch: which values they are, whether they fit, their device, aliasing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from jwarp.analysis.read_first import reads_first as in_order
from jwarp.arrays import allocation
from jwarp.arrays.array import array
from jwarp.arrays.cuda_arrays import Own
from jwarp.arrays.cuda_memory import CudaMemory, outline
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.overlap import overlap
from jwarp.arrays.struct_array import StructArray
from jwarp.arrays.view import View
from jwarp.bind.compat import is_not_tracing
from jwarp.caches import Cache
from jwarp.compiler.program_base import Program
from jwarp.config import config, surface
from jwarp.devices import CPU, Device, get_device
from jwarp.dispatch.call import checks
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel import PythonKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.functions import without_reading_functions
from jwarp.ir.nodes import Param
from jwarp.launching import arguments, grouping
from jwarp.types import ArrayType, CompositeValue, Struct, array_of, indexedarray
from jwarp.types.all_memory import holds_descriptors
from jwarp.types.handles import Id
from jwarp.wire import Role

P = TypeVar("P", bound=Program)


class Given:
    """Facts about the values of a launch, lists or dicts, which one pass over them finds.

    Attributes:
        has_arrays: Some are mutable arrays, or have one inside.
        on_host: All mutable arrays are in host memory.
        has_struct_arrays: Some are arrays of structs.
    """

    __slots__ = ("_values", "has_arrays", "has_struct_arrays", "on_host")

    def __init__(self, inputs: Any, outputs: Any = None):
        self.has_arrays, self.on_host, self.has_struct_arrays = False, True, False
        self._values = inputs, outputs
        for values in self._values:
            if isinstance(values, Mapping | list | tuple):
                self._read(values)

    @property
    def on_arrays(self) -> bool:
        """True if the launch follows Warp's rules: it has mutable arrays, or in a program of Warp's nothing of JAX."""
        return self.has_arrays or (
            surface.is_warps and all(_holds_no_jax(() if values is None else values) for values in self._values)
        )

    def _read(self, values: Any) -> None:
        for value in values.values() if isinstance(values, Mapping) else values:
            kind = type(value)
            if kind is array:
                self.has_arrays = True
                self.on_host = self.on_host and (value.device is None or isinstance(value.memory, HostMemory))
            elif kind in _PLAIN:
                continue
            elif kind is StructArray:
                self.has_arrays = self.has_struct_arrays = True
            elif isinstance(value, Struct):
                self._read([getattr(value, name) for name in type(value).fields])
            elif isinstance(value, indexedarray):
                self._read((value.data,))
            elif isinstance(value, dict):
                self._read(value)

    @property
    def may_look_up(self) -> bool:
        """True if a kernel may look numbers up in this launch: it runs now, in host memory."""
        return self.on_host and is_not_tracing()

    def looks_up(self, kernel: Kernel) -> bool:
        """True if a kernel is known to look numbers up, or is given arrays of structs with arrays in them."""
        if kernel.looks_up:
            return False
        known = kernel.executables.get(_LOOKS_UP)
        if known is None:
            known = kernel.executables.keep(_LOOKS_UP, kernel.has_looked_up)
        if known:
            return True
        return self.has_struct_arrays and any(holds_descriptors(parameter.type) for parameter in kernel.signature)


_LOOKS_UP = "looks numbers up"


def note_look_ups(kernel: Kernel) -> None:
    """Note that a kernel looks numbers up."""
    kernel.executables.replace(_LOOKS_UP, True)
    kernel.keep_look_ups()


def _holds_no_jax(values: Any) -> bool:
    """True if none of the values of a call is an array of JAX, a traced number or a spec, or has one inside."""
    if isinstance(values, Mapping):
        values = values.values()
    return isinstance(values, Iterable) and all(
        isinstance(value, CompositeValue | np.ndarray | np.generic | int | float | Id | None)
        or (isinstance(value, Struct) and _holds_no_jax([getattr(value, name) for name in type(value).fields]))
        or (isinstance(value, list | tuple) and _holds_no_jax(value))
        for value in values
    )


_LISTS = {list, tuple}
_SEQUENCES = {*_LISTS, np.ndarray}
_PLAIN = {int, float, bool, type(None), np.ndarray, tuple, list}


def host_of(given: array) -> np.ndarray:
    """An array's elements as NumPy sees them.

    Raises:
        LaunchError: it stands for a value that JAX traces.
    """
    return given.host() if isinstance(given.memory, HostMemory) else given.memory.expose(given.layout)


_TYPES: Cache[tuple[Any, int], Any] = Cache("types of arrays", 1024)


def _type_of(value: array) -> Any:
    """The type of parameters that an array can be given for."""
    return _TYPES.made((value.dtype, value.ndim), lambda: array_of(value.dtype, value.ndim))


def check_array(kernel: str, param: Param, value: array) -> None:
    """Refuse an array of another type than the parameter's."""
    if value.device is not None and (_type_of(value) == param.type or (value.is_untyped and _fits(value, param.type))):
        return
    where = f"kernel '{kernel}', parameter '{param.name}': expected {param.type!r}"
    if value.device is None:
        raise KernelTypeError(f"{where}, got the annotation {value!r}, which holds nothing")
    own = _type_of(value)
    if own != param.type:
        hint = f"make it with dtype=wp.{param.dtype}"
        if own.dtype == param.dtype:
            hint = "a.view(dtype) shows the same bytes as elements of another type, a.reshape(…) in another shape"
        differs = (
            "number of dimensions"
            if own.dtype == param.dtype and value.ndim != getattr(param.type, "dims", 0)
            else "dtype"
        )
        raise KernelTypeError(f"{where}, got {own!r} of another {differs}, {value.memory.made_at}", hint=hint)


def _fits(value: array, kind: Any) -> bool:
    """True if the elements of an array are those of a type, or its last axes the components of such."""
    try:
        seen = value.layout.seen_as(kind.element)
    except (KernelTypeError, LaunchError, AttributeError):  # or the parameter is no array
        return False
    like = len(seen.shape), seen.full_shape, seen.dtype
    return like == (kind.dims, value.layout.full_shape, value.layout.dtype)


def check_value(kernel: Kernel, index: int, value: Any) -> None:
    """Refuse a value with arrays of other types than those of a parameter as it is written, by its number."""
    parameter = kernel.signature[index]
    leaves = grouping.flatten(kernel.name, parameter.name, parameter.type, value)
    for p, leaf in zip(kernel.groups[index], leaves, strict=True):
        if type(leaf) is array:
            check_array(kernel.name, kernel.params[p], leaf)
        elif (fault := checks.check_part(kernel.params[p], leaf, Role.READ, in_place=True)) is not None:
            arguments.raise_faults(kernel.name, [fault])


def matched_values(kernel: Kernel, inputs: Any, outputs: Any) -> tuple[Any, ...]:
    """The values that are given for each parameter as it is written.

    Raises:
        LaunchError: counts or names do not fit.
    """
    if outputs is None:
        outputs = ()
    if type(inputs) in _LISTS and type(outputs) in _LISTS and len(inputs) + len(outputs) == len(kernel.signature):
        given = *inputs, *outputs
    else:
        given = arguments.match(kernel.name, kernel.signature, (), inputs, outputs).values
    if not any(type(value) in _SEQUENCES for value in given):
        return given
    return tuple(_by_rows(p.type, value) for p, value in zip(kernel.signature, given, strict=True))


def _by_rows(kind: Any, value: Any) -> Any:
    """The components of a matrix by value in its shape, where they are given in a row as Warp takes them, too."""
    if type(value) not in _SEQUENCES or not isinstance(kind, ArrayType) or kind.dims or len(kind.components) < 2:
        return value
    if len(value) != math.prod(kind.components) or np.ndim(value[0]):
        return value
    if type(value) is np.ndarray:
        return value.reshape(kind.components)
    width = kind.components[1]
    return [value[k : k + width] for k in range(0, len(value), width)]


def device_of_arrays(kernel: Kernel, values: Sequence[Any], asked: Device | None) -> Device:
    """The device that all arrays of a launch are on; `values` are by parameter of the IR.

    Arrays that stand for JAX values are on none. A launch without arrays runs on the device in use.

    Raises:
        LaunchError: some are elsewhere, or they are not on the device that was asked for.
    """
    found, first = asked, ""
    has_arrays = not surface.is_warps
    for param, value in zip(kernel.params, values, strict=True):
        if type(value) is not array:
            continue
        has_arrays = True
        if value.memory.is_traced:
            continue
        where = value.memory.device
        if found is None:
            found, first = where, f", and that of '{param.name}' is there"
        elif where is not found:
            raise LaunchError(
                f"kernel '{kernel.name}', parameter '{param.name}': the array is on {where}, and the launch is on"
                f" {found}{first}: {value.memory.made_at}",
                hint=f'a.to("{found}") is a copy there',
            )
    return found or (CPU if has_arrays else get_device())


def shown_on_device(given: array) -> Any:
    """The argument of a launch on a GPU for an array: where it lies; the JAX array that it stands for."""
    memory = given.memory
    if isinstance(memory, CudaMemory):
        # The array may go before a launch that is repeated on it: what keeps the bytes is not what knows of that.
        return Own(memory.owner, memory.device.ordinal, outline(memory, given.layout))
    return memory.read(given.layout)


def copy_on_device(given: array) -> Any:
    """The same for a copy of an array on a GPU."""
    layout = View.whole(given.layout.element, given.shape)
    memory = allocation.allocate(layout, zeroed=False, device=given.memory.device)
    memory.copy_from(layout, given.memory, given.layout)
    return shown_on_device(array.of(memory, layout))


# Arrays of one launch that show the same elements


def _identical(of: dict[int, array], written: tuple[int, ...]) -> dict[int, int]:
    """Of parameters that are given one view of one memory, all but one, and that one, which is written if any is."""
    first: dict[Any, int] = {}
    for p in sorted(of, key=lambda p: (p not in written, p)):
        first.setdefault((id(of[p].memory), of[p].layout), p)
    found = {p: first[id(a.memory), a.layout] for p, a in of.items()}
    return {p: q for p, q in found.items() if p != q}


def merged(
    program: P,
    of: dict[int, array],
    why: Mapping[bool, tuple[str, str]],
    changed: Iterable[int] = (),
    may_copy: Callable[[int, int], bool] = lambda written, other: False,
) -> tuple[P, dict[int, int]]:
    """The program in which parameters that are given one view are one, and for each of the others the one that it is.

    Raises:
        LaunchError: of two arrays that overlap, one is written, or one of the parameters `changed`, and the other one
            is not to be copied; `why` says the reason and the way out, also where both are written.
    """
    same: dict[int, int] = {}
    if len({id(a.memory) for a in of.values()}) < len(of):
        same = _identical(of, program.written)
        for p, q in itertools.product((*program.written, *changed), of):
            if p not in of or same.get(p, p) == same.get(q, q) or not overlap(of[p], of[q]):
                continue
            if not may_copy(p, q):
                raise overlap_error(program, of, p, q, *why[q in program.written])
    made: Any = program.merged(tuple(same.items()))
    return made, same


def reads_first(kernel: Kernel, read: int, changed: int) -> bool:
    """True if a launch may read a copy of one array, made before, while it changes another that overlaps it.

    So it may if no thread would see by one name what it wrote by the other one: Warp promises nothing about other
    threads.
    """
    if kernel.uses_tiles or not isinstance(kernel, PythonKernel):
        return False
    return in_order(without_reading_functions(kernel.values_ir(kernel.settled(config.settings))[0]), read, changed)


def overlap_error(program: Program, of: dict[int, array], p: int, q: int, why: str, hint: str) -> LaunchError:
    """The error for a parameter that is written, and another one whose array overlaps its array."""
    names, made = [program.params[k].name for k in (p, q)], [of[k].memory.made_at for k in (p, q)]
    places = " and ".join(dict.fromkeys(made))
    return LaunchError(
        f"kernel '{program.name}': '{names[0]}', which it writes, overlaps '{names[1]}' in memory, {why}: {places}",
        hint=hint,
    )


# Why arrays that overlap are refused: those of which one is only read, and those that are both written.
UNORDERED = {
    False: (
        "and a thread may read by one name what it wrote by the other",
        "read all of it first, or pass one array for both, or a copy of what is read",
    ),
    True: ("and both are written", "pass one array for both"),
}
_NOT_FOLLOWED = "which an adjoint does not follow", "pass one array for both, or a copy of one"
IN_ADJOINTS = {False: _NOT_FOLLOWED, True: _NOT_FOLLOWED}
