"""`BsrTripletMap`: from entries to the blocks that they made, for new values of the same entries."""

from __future__ import annotations

from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array3d
from jwarp.arrays.create import empty
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import min
from jwarp.frontend.kernel import kernel
from jwarp.sparse.jax_values import takes_jax_arrays
from jwarp.sparse.matrix import BsrMatrix
from jwarp.sparse.storage import blocks_of, check_devices
from jwarp.sparse.structure import gather_entries
from jwarp.types import int32


class BsrTripletMap:
    """A map from entries to the blocks that they are summed into, from `bsr_set_from_triplets(…, build_mapping=…)`.

    Args:
        capacity: The number of entries that it has room for. It grows if there are more.
        device: The device of its arrays.

    Attributes:
        triplet_count: The number of entries that it was built for.
    """

    def __init__(self, capacity: int = 0, device: Any = None):
        self.triplet_count = 0
        self._storage = tuple(empty(capacity, dtype=int32, device=device) for _ in range(3))
        self._of: tuple[Any, ...] | None = None

    @property
    def device(self) -> Any:
        """The device of its arrays."""
        return self._storage[0].device

    @property
    def capacity(self) -> int:
        """The number of entries that it has room for."""
        return self._storage[0].size

    @property
    def _block_ends(self) -> array:
        return self._storage[0][: self.triplet_count]

    @property
    def _triplet_indices(self) -> array:
        return self._storage[1][: self.triplet_count]

    @property
    def _triplet_blocks(self) -> array:
        return self._storage[2][: self.triplet_count]

    def _room_for(self, count: int) -> tuple[array, array]:
        if count > self.capacity:
            self._storage = tuple(empty(count, dtype=int32, device=self.device) for _ in range(3))
        self.triplet_count = count
        return self._block_ends, self._triplet_indices

    def _bind(self, dest: BsrMatrix, count: int) -> None:
        self.triplet_count = count
        self._of = _topology_of(dest)
        self._triplet_blocks.fill_(-1)
        given = [dest.nrow, dest.offsets, self._block_ends, self._triplet_indices, self._triplet_blocks]
        launch(_name_blocks, count, given, device=self.device, record_tape=False)

    def validate(self, dest: BsrMatrix) -> None:
        """Raise a LaunchError unless it was built for this matrix, whose arrays are the same ones as then."""
        if self._of is None:
            raise LaunchError("BsrTripletMap: the map has not been built; give it to bsr_set_from_triplets first")
        if any(a is not b and a != b for a, b in zip(self._of, _topology_of(dest), strict=True)):
            raise LaunchError("BsrTripletMap: it was built for a matrix of other offsets, columns or sizes")


def _topology_of(dest: BsrMatrix) -> tuple[Any, ...]:
    counts = None if dest.row_counts is None else dest.row_counts.ptr
    return dest.nrow, dest.ncol, dest.offsets.ptr, dest.columns.ptr, counts


@takes_jax_arrays
def bsr_set_from_mapped_values(
    dest: BsrMatrix, mapping: BsrTripletMap, values: array, reduction: str = "gather"
) -> None:
    """Set the values of a matrix from other values of the entries that it was assembled from.

    Args:
        dest: The matrix that `mapping` was built for.
        mapping: The map from entries to blocks.
        values: The blocks of the entries, as for `bsr_set_from_triplets`.
        reduction: "gather" sums the entries of each block, always in the same order; "atomic" adds each entry to its
            block.

    Raises:
        KernelTypeError, LaunchError: The arrays do not match, or the map belongs to another matrix.
    """
    where = "bsr_set_from_mapped_values"
    if not isinstance(mapping, BsrTripletMap):
        raise KernelTypeError(f"{where}: a BsrTripletMap is needed, not {mapping!r}")
    mapping.validate(dest)
    given = blocks_of(where, values, dest)
    check_devices(where, dest.offsets, values)
    if values.shape[0] != mapping.triplet_count:
        raise LaunchError(f"{where}: {values.shape[0]} values, the map has {mapping.triplet_count} entries")
    if reduction not in ("gather", "atomic"):
        raise LaunchError(f"{where}: there is no reduction {reduction!r}", hint='"gather" or "atomic"')
    if reduction == "gather":
        count = mapping.triplet_count if mapping.triplet_count < dest.nnz else dest.nnz
        ends, order, out = mapping._block_ends, mapping._triplet_indices, dest.scalar_values[:count]
        gather_entries(dest.offsets, dest.nrow, ends, order, given, 1.0, out, is_new=False)
    else:
        dest.values[: dest.nnz].zero_()
        arguments = [mapping._triplet_blocks, given, dest.scalar_values]
        launch(_add_to_blocks, (values.shape[0], *dest.block_shape), arguments, device=dest.device)


@kernel(enable_backward=False)
def _name_blocks(nrow: int, offsets: array[int], ends: array[int], order: array[int], blocks: array[int]) -> None:
    block = tid()
    if block < min(offsets[nrow], ends.shape[0]):
        first = 0
        if block > 0:
            first = ends[block - 1]
        for k in range(first, ends[block]):
            blocks[order[k]] = block


@kernel
def _add_to_blocks(blocks: array[int], values: array3d[Any], out: array3d[Any]) -> None:
    entry, i, j = tid()
    if blocks[entry] >= 0:
        atomic_add(out, blocks[entry], i, j, values[entry, i, j])
