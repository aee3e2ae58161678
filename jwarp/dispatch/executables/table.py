"""The layout key of a call, and the tables of executables: a repeated call is a look-up of its key, a check and a run.

A key is a row of 64-bit words. Two calls with equal keys differ only in the content of arrays, the values of numbers
and the addresses of memory, so whatever was checked, chosen, derived and compiled for one holds for the other. Nobody
else decides that one call repeats another.

In order, a key has

- the owner: an object that distinguishes calls that are otherwise equal, such as a function of `wp.jax_kernel`, the
  program of a launch that a tape runs in order, or the device that a caller names. The kernel is not in the key, as
  each kernel has its own table;
- the settings in force in this thread, and how often options of modules have changed;
- the extents, as they are written (`4` and `(4,)` are different), and the block;
- the values, one list after the other, each with its length: inputs, outputs, and for an adjoint the cotangents and
  the wanted gradients. Lists are read anew in each call, so it is of no account that a caller changes one;
- where no `wp.array` is given, whether JAX keeps 64-bit types in this thread.

A value is

| value | in the key | a leaf |
|---|---|---|
| `wp.array` | element, shape and strides, as the number of its view; the GPU; if borrowed: read-only, untyped | yes |
| NumPy array | type, shape, strides, whether it is writable and aligned | yes |
| JAX array | type, shape, weak type | yes |
| Python's or NumPy's number | its type; as an output also its value, as it may be a shape | yes |
| shape of an output | its extents | yes |
| vector, matrix, quaternion | kind, shape, type | yes |
| struct, array of structs, indexed array | its class, and its fields as values | its fields |
| grid, tree, mesh, or the id of one | what the arrays that it holds now have in common | these arrays |
| None | that it is none | yes |
| gradient that is wanted | None, False or True | True alone |

Anything else has no key: tracers, shapes with symbolic extents, foreign arrays, dicts. Such calls are checked each
time. Objects of classes derived from those of arrays come here as the arrays that stand for them.

Arrays whose bytes overlap add the distance between their first elements. With shapes and strides, that decides which
elements they share; arrays that are apart add nothing, wherever they are. Arrays in a memory of jwarp's own can only
overlap those in the same memory; NumPy's arrays and memory of others are compared with all. Two things are not in the
key, and an executable looks at them each time: whether memory is still writable, and whether JAX owns memory that is
written.

Words may be addresses of objects: the owner, settings, classes of structs. `Key.kinds` keeps these alive as long as the
key is in a table, so that no other object has such an address meanwhile.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from jwarp import _native
from jwarp.arrays.array import array
from jwarp.arrays.commands import LISTENING, listeners
from jwarp.arrays.cuda_memory import CudaMemory
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.struct_array import StructArray
from jwarp.bind import compat
from jwarp.caches import Cache
from jwarp.config import config
from jwarp.devices import Device
from jwarp.dispatch.call.cached_geometry import cached_content
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import Convert
from jwarp.errors import LaunchError
from jwarp.frontend import options
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import CompositeValue, Geometry, Struct, indexedarray
from jwarp.types.handles import Id

# The types of NumPy's numbers.
NUMPY_NUMBERS = frozenset(
    {np.float32, np.float64, np.float16, *(np.dtype(f"{sign}{size}").type for sign in "iu" for size in (1, 2, 4, 8))}
)


class Key(bytes):
    """A layout key in a table. `kinds` are the objects whose addresses are in it."""

    kinds: tuple[Any, ...]


class Executable(Protocol):
    """The code of all calls of one layout. Those in host memory are a `HostExecutable`, which is native."""

    def call(self, values: Sequence[Any]) -> Any:
        """Run it on the leaves of a call: what comes back, True for nothing.

        It is None for the slow path, and then nothing has run.
        """


@dataclass(frozen=True, slots=True)
class Plan:
    """The executable of calls that return arrays: `run` takes operands, and some of what it gives comes back.

    `feeds` are the numbers of the operands among the values of the call, and their conversions. The results are those
    numbered `order`, under `names` if there are any. Operands of the pairs `apart` share no memory, and what works
    `in_place` does not run while JAX traces.
    """

    run: Callable[..., Sequence[Any]]
    feeds: tuple[tuple[int, Convert | None], ...]
    order: tuple[int, ...]
    names: tuple[str, ...] | None
    apart: tuple[tuple[int, int], ...] = ()
    in_place: bool = False

    def call(self, values: Sequence[Any]) -> Any:
        """The results; None on the slow path, where the checks have to look at the values."""
        operands = []
        for place, convert in self.feeds:
            value = values[place]
            if convert is not None:
                value = convert(value)
                if value is None:
                    return None
            operands.append(value)
        if self.in_place and not compat.is_not_tracing():
            return None
        for p, q in self.apart:
            if np.may_share_memory(operands[p], operands[q]):
                return None
        found = self.run(*operands)
        results = tuple([found[k] for k in self.order])
        return results if self.names is None else dict(zip(self.names, results, strict=True))


def places_of_gradients(call: Call) -> tuple[dict[int, int], dict[int, int]]:
    """The numbers of cotangents and wanted gradients among an adjoint's values, where the parameters come first."""
    count, request = len(call.matched.values), call.gradients
    asked = list(request.cotangents or {})
    after = count + len(asked)
    return {p: count + k for k, p in enumerate(asked)}, {p: after + k for k, p in enumerate(request.wanted)}


class Slot(NamedTuple):
    """The place of a call in a table, by its key; `leaves` are its values, structs taken apart.

    A call without a key is checked each time.
    """

    table: Any = None  # a cache of executables by key
    key: Key | None = None
    leaves: Sequence[Any] = ()

    @property
    def known(self) -> Any:
        """The executable that is there, or None."""
        return None if self.key is None else self.table.get(self.key)

    def keep(self, executable: Any) -> None:
        """Repeat calls of this layout by an executable from now on, if there is one."""
        if executable is not None and self.key is not None:
            self.table.replace(self.key, executable)


NO_SLOT = Slot()


def _slot(table: Cache[Any, Any], words: bytes, leaves: list[Any], kinds: tuple[Any, ...]) -> Slot:
    key = Key(words)
    key.kinds = kinds
    return Slot(table, key, leaves)


def slot_of(
    kernel: Kernel,
    dim: Any,
    block_dim: Any,
    inputs: Any,
    outputs: Any = None,
    gradients: tuple[Any, Any] | None = None,
    owner: Any = None,
) -> Slot:
    """The place of a call in the kernel's table.

    It is the call of an adjoint where `gradients` are its adj_inputs and adj_outputs.
    """
    found: Slot = _native.read_call(kernel.executables, owner, dim, block_dim, inputs, outputs, gradients)
    return found


def repeat(
    kernel: Kernel,
    dim: Any,
    block_dim: Any,
    inputs: Any,
    outputs: Any = None,
    gradients: tuple[Any, Any] | None = None,
    owner: Any = None,
    record_tape: bool = True,
) -> Any:
    """Run a call whose layout is known: what it returns. Of other calls it is the `Slot`, and nothing has run.

    Recorders hear of launches on mutable arrays if `record_tape`. A capture takes launches itself.
    """
    tell = None
    try:
        table = kernel.executables
    except AttributeError:  # no kernel, or one of Warp's
        kernel = as_kernel(kernel)
        if not isinstance(kernel, Kernel):
            return NO_SLOT
        table = kernel.executables
    if LISTENING:
        here = listeners.here
        if here.capture is not None:
            return slot_of(kernel, dim, block_dim, inputs, outputs, gradients, owner)
        tell = _TELL if record_tape and here.recorders else None
    found = _native.repeat(table.recent, table, owner, dim, block_dim, inputs, outputs, gradients, tell)
    if type(found) is Slot and table.rest and found.known is not None:  # and now among those used last
        found = _native.repeat(table.recent, table, owner, dim, block_dim, inputs, outputs, gradients, tell)
    return found


def _tell_after(command: Any) -> None:
    for recorder in tuple(listeners.here.recorders):
        recorder.after(command)


# Hooks that the native module calls before and after a launch that is recorded.
_TELL = (lambda executable, leaves, inputs, outputs: executable.tell(leaves, inputs, outputs)), _tell_after

_OWNERS: Cache[tuple[Any, ...], object] = Cache("ways to name a device and a tape", 64)


_ON_HOST = object()


def owner_of(device: Any, record_tape: Any, max_blocks: Any, has_gradients: bool) -> object:
    """The owner of launches that name a device or say more than others, which only those on arrays may do."""
    if device == "cpu" and record_tape is True and not max_blocks and not has_gradients:
        return _ON_HOST
    is_fixed = device is None or isinstance(device, Device) or (isinstance(device, str) and device != "cuda")
    if not is_fixed:  # "cuda" is the GPU in use
        return object()
    return _OWNERS.made((device, bool(record_tape), bool(max_blocks), has_gradients), object)


class Ready(abc.ABC):
    """Runs a launch each time that it is called, and gives its results."""

    def __init__(self, call: Call):
        self.call = call

    @abc.abstractmethod
    def __call__(self, stream: Any = None) -> Any:
        """Run it, on a CUDA stream where there is one to choose; the results as the call returns them."""

    def change(self, given: Mapping[int, Any]) -> bool:
        """Take other values of the same kind and shape for parameters of the IR; False where all is to be made anew.

        What raises changes nothing, and neither does what returns False.
        """
        return False

    def resize(self, dims: tuple[int, ...]) -> bool:
        """Run other threads; False where all is to be made anew. What raises changes nothing."""
        return False

    def executable(self, values: Sequence[Any]) -> Executable | None:
        """The executable that repeats it: `values` are those by parameter, then each cotangent and wanted gradient."""
        return None


def outdated(name: str, error: ValueError) -> LaunchError:
    """The error where arrays are not what they were, unless it is already one of a device's."""
    if isinstance(error, LaunchError):
        return error
    return LaunchError(f"kernel '{name}': {error}", hint="make the record anew")


_native.set_call_classes(
    {
        "array": array,
        "struct_array": StructArray,
        "indexed": indexedarray,
        "memory": HostMemory,
        "device_memory": CudaMemory,
        "numpy": np.ndarray,
        "jax": compat.Array,
        "composite": CompositeValue,
        "struct": Struct,
        "id": Id,
        "geometry": Geometry,
        "cached_content": cached_content,
        "slot": _slot,
        "no_slot": NO_SLOT,
        "as_numpy": np.asarray,
        "config": config,
        "options": options,
        "jax_config": compat.wide_types,
        "numbers": tuple(NUMPY_NUMBERS),
        **dict(zip(("trace", "axes", "no_trace", "no_axes"), compat.outermost, strict=True)),
    }
)
