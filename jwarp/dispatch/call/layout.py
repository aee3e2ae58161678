"""The layout key: all that calls must share for one to be repeated, computed once, by the native module.

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

Anything else has no key: tracers, shapes with symbolic extents, foreign arrays, subclasses, dicts. Such calls are
checked each time.

Arrays whose bytes overlap add the distance between their first elements. With shapes and strides, that decides which
elements they share; arrays that are apart add nothing, wherever they are. Arrays in a memory of jwarp's own can only
overlap those in the same memory; NumPy's arrays and memory of others are compared with all. Two things are not in the
key, and an executable looks at them each time: whether memory is still writable, and whether JAX owns memory that is
written.

Words may be addresses of objects: the owner, settings, classes of structs. `Key.kinds` keeps these alive as long as the
key is in a table, so that no other object has such an address meanwhile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jwarp import _native
from jwarp.arrays.array import array
from jwarp.arrays.cuda_memory import CudaMemory
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.struct_array import StructArray
from jwarp.bind import compat
from jwarp.config import config
from jwarp.dispatch.call.held import held
from jwarp.frontend import options
from jwarp.types import CompositeValue, Geometry, Struct, indexedarray
from jwarp.types.handles import Id

# The types of NumPy's numbers.
NUMPY_NUMBERS = frozenset(
    {np.float32, np.float64, np.float16, *(np.dtype(f"{sign}{size}").type for sign in "iu" for size in (1, 2, 4, 8))}
)


class Key(bytes):
    """A layout key in a table. `kinds` are the objects whose addresses are in it."""

    kinds: tuple[Any, ...]


class Layout(NamedTuple):
    """The key of a call, and its values, structs taken apart."""

    key: Key
    leaves: list[Any]


def read(
    owner: Any, dim: Any, block_dim: Any, inputs: Any, outputs: Any = None, gradients: tuple[Any, Any] | None = None
) -> Layout | None:
    """Read a call, an adjoint where `gradients` are its adj_inputs and adj_outputs; None where it has no key."""
    found = _native.read_call(owner, dim, block_dim, inputs, outputs, gradients)
    if found is None:
        return None
    key = Key(found[0])
    key.kinds = found[2]
    return Layout(key, found[1])


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
        "held": held,
        "as_numpy": np.asarray,
        "config": config,
        "options": options,
        "jax_config": compat.wide_types,
        "numbers": tuple(NUMPY_NUMBERS),
        **dict(zip(("trace", "axes", "no_trace", "no_axes"), compat.outermost, strict=True)),
    }
)
