"""Kernels that convert the elements of an array into those of another, of one to four dimensions."""

from typing import Any

from jwarp.arrays.array import array1d, array2d, array3d, array4d
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.kernel import kernel


@kernel
def cast_1d(dest: array1d[Any], src: array1d[Any]):
    i = tid()
    dest[i] = dest.dtype(src[i])


@kernel
def cast_2d(dest: array2d[Any], src: array2d[Any]):
    i, j = tid()
    dest[i, j] = dest.dtype(src[i, j])


@kernel
def cast_3d(dest: array3d[Any], src: array3d[Any]):
    i, j, k = tid()
    dest[i, j, k] = dest.dtype(src[i, j, k])


@kernel
def cast_4d(dest: array4d[Any], src: array4d[Any]):
    i, j, k, m = tid()
    dest[i, j, k, m] = dest.dtype(src[i, j, k, m])


CASTS = {1: cast_1d, 2: cast_2d, 3: cast_3d, 4: cast_4d}
