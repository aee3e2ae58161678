"""Arrays of other libraries as arrays that change, and back, without copies."""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.dispatch import dlpack
from jwarp.errors import KernelTypeError


def from_dlpack(source: Any, dtype: Any = None) -> array:
    """An array in the memory of another library's, which has `__dlpack__`: each sees what the other writes.

    Args:
        source: An array of NumPy, PyTorch, JAX or another library in this computer's memory. One that is read-only, as
            JAX's are, is not to be written.
        dtype: The type of the elements; components of vectors and matrices are the last axes. Without it, scalars.

    Raises:
        KernelTypeError: `source` is no such array, or has no such elements.

    Example:
        >>> a = wp.from_dlpack(torch.zeros(4, 3), dtype=wp.vec3)
    """
    if not dlpack.is_exporter(source):
        raise KernelTypeError(
            f"wp.from_dlpack: expected an array in this computer's memory that has __dlpack__, got "
            f"{type(source).__name__}"
        )
    return array(dlpack.view(source), dtype=Any if dtype is None else dtype, copy=False)


def to_dlpack(wp_array: array) -> Any:
    """The capsule of DLPack's that stands for the memory of an array; most libraries take the array itself."""
    return wp_array.__dlpack__()
