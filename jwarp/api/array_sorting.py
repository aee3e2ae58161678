"""`wp.utils.radix_sort_pairs`, `segmented_sort_pairs` and `runlength_encode`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jwarp.api import gpu_arrays
from jwarp.api.array_functions import content, give, have_same_device, library, number, replace, taken
from jwarp.arrays.array import array
from jwarp.arrays.commands import submit
from jwarp.arrays.create import empty
from jwarp.arrays.writes import Computation
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import float32, float64, int32, int64, type_repr, type_size_in_bytes, types_equal, uint32, uint64

_MAX = 2**31 - 1


def radix_sort_pairs(keys: array, values: array, count: int, begin_bit: int = 0, end_bit: int | None = None) -> None:
    """Sort the first `count` keys, and the values with them. The sort is stable.

    Args:
        keys: 32- or 64-bit integers or floats, with room for twice `count`, as in Warp.
        values: Elements of 4 or 8 bytes, with room for twice `count`.
        count: The number of keys.
        begin_bit: The lowest bit of the keys to compare.
        end_bit: The bit after the highest one to compare. Default: all bits from `begin_bit` on. Bits are those of
            unsigned numbers with the same order as the keys.

    Raises:
        KernelTypeError: The arrays have other types.
        LaunchError: An array is too small or not contiguous, or there are no such bits.
    """
    where = "wp.utils.radix_sort_pairs"
    count = number(where, "count", count)
    have_same_device(where, keys=keys, values=values)
    is_key = keys.dtype in (int32, uint32, float32, int64, uint64, float64)
    if not is_key or type_size_in_bytes(values.dtype) not in (4, 8):
        why = "values must have 4 or 8 bytes" if is_key else "keys are of int32, uint32, float32 or the same of 64 bits"
        types = f"{type_repr(keys.dtype)}, {type_repr(values.dtype)}"
        raise KernelTypeError(f"{where}: {why}. Unsupported keys and values data types: {types}")
    _check_room(where, "Keys and values a", count, keys, values)
    bits = keys.dtype.bits
    end_bit = bits if end_bit is None else number(where, "end_bit", end_bit)
    begin_bit = number(where, "begin_bit", begin_bit)
    if not 0 <= begin_bit <= end_bit <= bits:
        raise LaunchError(f"{where}: Invalid radix sort bit range [{begin_bit}, {end_bit}) for {bits}-bit keys")
    if count == 0 or begin_bit == end_bit:
        return

    def sort() -> None:
        if gpu_arrays.are_contiguous_there(keys, values):
            return gpu_arrays.sort_pairs(keys, values, count, begin_bit, end_bit)
        sorted_by = content(keys)[:count]
        xp = library(sorted_by)
        order = xp.argsort(_bits(sorted_by, begin_bit, end_bit), stable=True)
        return _reorder(order, keys, values)

    def back(contents: Any) -> None:
        _order_back(np.argsort(_bits(contents[0][:count], begin_bit, end_bit), stable=True), keys, values)

    made_by = radix_sort_pairs, [keys, values, count, begin_bit, end_bit]
    submit(Computation(where, sort, [keys, values], back, [keys], [values], made_by))


def segmented_sort_pairs(
    keys: array,
    values: array,
    count: int,
    segment_start_indices: array,
    segment_end_indices: array | None = None,
) -> None:
    """Sort the keys of each segment, and the values with them. The sort is stable.

    Args:
        keys: Elements of int32 or float32, with room for twice `count`, as in Warp.
        values: Elements of int32, with room for twice `count`.
        count: The number of keys. Keys outside all segments do not change.
        segment_start_indices: The start of each segment, int32.
        segment_end_indices: The end of each segment. Default: the start of the next one; the last start is then the
            last end. Segments that JAX traces must not overlap; this is not checked.

    Raises:
        KernelTypeError: The arrays have other types.
        LaunchError: An array is too small or not contiguous, or a segment exceeds `count`.
    """
    where = "wp.utils.segmented_sort_pairs"
    count = number(where, "count", count)
    starts, ends = segment_start_indices, segment_end_indices
    have_same_device(where, keys=keys, values=values, segment_start_indices=starts)
    if keys.dtype not in (int32, float32) or values.dtype is not int32:
        why = f"not {type_repr(values.dtype)}. Unsupported data type: {type_repr(keys.dtype)}"
        raise KernelTypeError(f"{where}: keys must be int32 or float32, and values int32, {why}")
    for name, each in (("segment_start_indices", starts), ("segment_end_indices", ends)):
        if each is not None and (each.dtype is not int32 or each.ndim != 1):
            raise KernelTypeError(f"{where}: {name} must be one-dimensional and of int32, not {type_repr(each)}")
        if each is not None and not each.is_contiguous:
            raise LaunchError(f"{where}: requires a contiguous {name} array")
    for name, each in (("keys", keys), ("values", values)):
        if not each.is_contiguous:
            raise LaunchError(f"{where}: requires a contiguous {name} array")
    if ends is None and starts.size > 1:
        starts, ends = starts[: starts.size - 1], starts[1:]
    _check_room(where, "A", count, keys, values)
    if ends is None or count == 0 or starts.size == 0:
        return
    if starts.size != ends.size:
        sizes = f"({starts.size} vs {ends.size})"
        raise LaunchError(f"{where}: segment_start_indices and segment_end_indices must have the same size {sizes}")
    first, last = starts, ends

    def sort() -> None:
        begins, stops, sorted_by = content(first), content(last), content(keys)[:count]
        xp = library(sorted_by)
        marks = xp.zeros(count + 1, np.int32)
        some = begins < stops
        if xp is np:
            wrong = (begins < 0) | (stops > count) | (begins > stops)
            if wrong.any():
                at = int(wrong.argmax())
                found = f"[{begins[at]}, {stops[at]}) is not inside of the {count} elements"
                raise LaunchError(f"{where}: Invalid segment range at index {at}: {found}")
            np.add.at(marks, begins[some], 1)
            np.add.at(marks, stops[some], -1)
        else:
            steps = some.astype(np.int32)
            marks = marks.at[begins].add(steps).at[stops].add(-steps)
        depth = xp.cumsum(marks)[:count]
        if xp is np and depth.max(initial=0) > 1:
            for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True):  # they overlap: one after the other
                order = np.argsort(_bits(content(keys)[begin:stop]), stable=True)
                _reorder(order, keys[begin:stop], values[begin:stop])
            return
        # A group for each segment, and one for each element outside; where two segments meet, the marks cancel.
        is_start = xp.zeros(count + 1, bool)
        if xp is np:
            is_start[begins[some]] = True
            is_start[stops[some]] = True
        else:
            is_start = is_start.at[xp.where(some, begins, count)].set(True).at[xp.where(some, stops, count)].set(True)
        group = xp.cumsum(is_start[:count] | (depth == 0))
        _reorder(xp.lexsort((_bits(sorted_by), group)), keys, values)

    made_by = segmented_sort_pairs, [keys, values, count, segment_start_indices, segment_end_indices]
    submit(Computation(where, sort, [keys, values], made_by=made_by))


def runlength_encode(
    values: array,
    run_values: array,
    run_lengths: array,
    run_count: array | None = None,
    value_count: int | None = None,
) -> int | array:
    """Find the runs of equal neighbours: the value and the length of each, and their number.

    Args:
        values: Elements of int32.
        run_values: Receives the values; as large as `values`.
        run_lengths: Receives the lengths, int32; as large as `values`.
        run_count: Receives the number of runs as its first element, int32.
        value_count: The number of `values` to read. Default: all.

    Returns:
        `run_count`, or the number of runs if it is left out.

    Raises:
        KernelTypeError: The arrays have other types.
        LaunchError: An array is too small.
    """
    where = "wp.utils.runlength_encode"
    count = values.size if value_count is None else number(where, "value_count", value_count)
    have_same_device(where, values=values, run_values=run_values, run_lengths=run_lengths)
    if count < 0:
        raise LaunchError(f"{where}: value_count must be non-negative, got {count}")
    if not types_equal(values.dtype, run_values.dtype):
        kinds = " vs ".join(type_repr(each.dtype) for each in (values, run_values))
        raise KernelTypeError(f"{where}: values and run_values data types do not match ({kinds})")
    if values.dtype is not int32:
        raise KernelTypeError(f"{where}: Unsupported data type: {type_repr(values.dtype)}")
    if run_lengths.dtype is not int32:
        raise KernelTypeError(f"{where}: run_lengths array must be of type int32")
    if values.size < count:
        raise LaunchError(f"{where}: values has less than {count} elements")
    if min(run_values.size, run_lengths.size) < count:
        raise LaunchError(f"{where}: Output array storage sizes must be at least equal to value_count ({count})")
    counted = empty(1, dtype=int32, device=values.device) if run_count is None else run_count
    if counted.dtype is not int32:
        raise KernelTypeError(f"{where}: run_count array must be of type int32")

    def encode() -> None:
        given = content(values).reshape(-1)[:count]
        xp = library(given)
        starts = given[1:] != given[:-1]
        if xp is np:
            places = np.flatnonzero(np.concatenate([np.ones(min(count, 1), bool), starts]))
            replace(run_values, given[places])
            replace(run_lengths, np.diff(places, append=count).astype(np.int32))
            replace(counted, np.full(1, len(places), np.int32))
            return
        number_of_run = jnp.concatenate([jnp.zeros(min(count, 1), jnp.int32), jnp.cumsum(starts, dtype=jnp.int32)])
        runs = number_of_run[-1] + 1 if count else jnp.int32(0)
        used = jnp.arange(count) < runs
        for out, made in (
            (run_values, jnp.zeros(count, jnp.int32).at[number_of_run].set(given)),
            (run_lengths, jnp.zeros(count, jnp.int32).at[number_of_run].add(1)),
        ):
            replace(out, jnp.where(used, made, content(out).reshape(-1)[:count]))
        replace(counted, jnp.full(1, runs, jnp.int32))

    made_by = runlength_encode, [values, run_values, run_lengths, counted, count]
    submit(Computation(where, encode, [run_values, run_lengths, counted], made_by=made_by))
    return int(counted.numpy()[0]) if run_count is None else run_count


def _check_room(where: str, named: str, count: int, keys: array, values: array) -> None:
    if not 0 <= count <= _MAX:
        limit = "be non-negative" if count < 0 else f"not exceed {_MAX}"
        raise LaunchError(f"{where}: count must {limit}, got {count}")
    for name, each in (("keys", keys), ("values", values)):
        if not each.is_contiguous:
            types = f"{type_repr(keys.dtype)}, {type_repr(values.dtype)}"
            found = f"got non-contiguous {name} with data types: {types}"
            raise LaunchError(f"{where}() requires a contiguous {name} array, {found}")
    if min(keys.size, values.size) < 2 * count:
        raise LaunchError(f"{where}: {named}rray storage must be large enough to contain 2*count elements")


def _bits(keys: Any, begin: int = 0, end: int | None = None) -> Any:
    """Unsigned numbers of the order of the keys: those of floats, and of bits where not all of them count."""
    xp, dtype = library(keys), np.dtype(keys.dtype)
    width = dtype.itemsize * 8
    unsigned = np.dtype(f"uint{width}")
    raw, top = keys.view(unsigned), unsigned.type(1 << (width - 1))
    if dtype.kind == "f":
        raw = raw ^ xp.where(raw & top, ~unsigned.type(0), top)
    elif dtype.kind == "i":
        raw = raw ^ top
    kept = (width if end is None else end) - begin
    return (raw >> unsigned.type(begin)) & unsigned.type((1 << kept) - 1)


def _order_back(order: np.ndarray, *arrays: array) -> None:
    """Give the gradients of what was put into an order to what was there before."""
    for each in arrays:
        gradient = taken(each, len(order))
        if gradient is not None:
            given = np.empty_like(gradient)
            given[order] = gradient
            give(each, given, len(order))


def _reorder(order: Any, *arrays: array) -> None:
    for each in arrays:
        replace(each, content(each)[order])
