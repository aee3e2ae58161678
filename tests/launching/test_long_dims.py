"""Launches with extents past 2**31 - 1, where no thread reads a coordinate along them."""

import math

import pytest

import jwarp as wp
from jwarp.compiler.program import program_of
from jwarp.config import config

LONG = 2**31 + 1


@wp.kernel
def alone(out: wp.array[wp.int64]):
    wp.atomic_add(out, 0, wp.int64(1))


@wp.kernel
def of_one(out: wp.array[int]):
    i = wp.tid()
    wp.atomic_max(out, i, i + 1)


@wp.kernel
def of_two(out: wp.array2d[int]):
    i, j = wp.tid()
    out[i, j] = i + j + 1


@pytest.mark.parametrize("dim", [2**31, LONG, (2, 2**30 + 3), (3, 2**30)])
def test_threads_without_coordinates_are_all_counted(dim):
    # Running them would take half a minute each.
    dims = (dim,) if isinstance(dim, int) else dim
    _, geometry = program_of(alone, config.settings).arranged(dims, None)
    assert math.prod(geometry.dims) * geometry.repeat == math.prod(dims)
    assert max(geometry.dims) < 2**31


def test_records_without_coordinates_may_be_long():
    out = wp.zeros(1, dtype=wp.int64)
    record = wp.launch(alone, LONG, inputs=[out], record_cmd=True)
    record.set_dim((2**31, 2**31))
    assert record.dim == (2**31, 2**31)
    assert (record.bounds.shape, record.bounds.size, record.bounds.coord_mult) == ((2**31,), 2**62, 2**31)
    record.set_dim(7)
    record.launch()
    assert out.numpy()[0] == 7


@pytest.mark.parametrize("dim", [(0, LONG), (LONG, 0), (0, 2**62)])
def test_empty_launches_may_be_long(dim):
    out = wp.zeros((2, 2), dtype=int)
    wp.launch(of_two, dim, inputs=[out])
    assert not out.numpy().any()


@pytest.mark.filterwarnings("ignore:.*reads 1 coordinate:jwarp.KernelWarning")
@pytest.mark.parametrize(
    ("kernel", "shape", "dim", "reason"),
    [
        (of_one, 1, LONG, "extent 2147483649 in dimension 0"),
        (of_one, 1, 2**31, "extent 2147483648 in dimension 0"),
        (of_one, 1, (LONG, 2), "extent 2147483649 in dimension 0"),
        (of_two, (1, 1), (1, LONG), "extent 2147483649 in dimension 1"),
        (alone, 1, (2**62, 4), r"more than 2\*\*63 - 1 threads"),
        (alone, 1, 2**63, r"at most 2\*\*63 - 1"),
    ],
)
def test_coordinates_of_more_than_31_bits_are_refused(kernel, shape, dim, reason):
    out = wp.zeros(shape, dtype=kernel.signature[0].type.dtype)
    with pytest.raises(wp.LaunchError, match=reason):
        wp.launch(kernel, dim, inputs=[out])
    record = wp.launch(kernel, 1, inputs=[out], record_cmd=True)
    with pytest.raises(wp.LaunchError, match=reason):
        record.set_dim(dim)
    assert record.dim == (1,)
