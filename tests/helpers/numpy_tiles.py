"""Runs kernels with tiles as Python does, with NumPy's arrays and views for tiles."""

import types

import numpy as np
from tile_running import run_tiled

import jwarp as wp


class NumpyTiles(types.SimpleNamespace):
    """The functions of the kernels below, on NumPy arrays."""

    def __init__(self):
        names = {**vars(wp), "tid": lambda: 0, "tile_load": self.load, "tile_store": self.store}
        super().__init__(**names)
        self.tile_view = self.view
        self.tile_transpose = lambda a: a.T
        self.tile_reshape = self.reshape
        self.tile_squeeze = lambda a, axis=None: np.squeeze(a, axis)
        self.tile_broadcast = np.broadcast_to
        self.tile_assign = self.assign
        self.tile_extract = lambda a, *indices: a[indices]
        self.tile_astype = lambda a, dtype: a.astype(np.int32)
        self.tile_slice_indexed = lambda a, indices: a[indices].copy()
        self.tile_zeros = lambda shape, dtype=float: np.zeros(shape, np.float32)
        self.tile_ones = lambda shape, dtype=float: np.ones(shape, np.float32)
        self.tile_sum = lambda a: a.sum(dtype=np.float32, keepdims=True).reshape(1)
        self.tile_max = lambda a: a.max().reshape(1)
        self.tile_matmul = self.matmul

    @staticmethod
    def load(a, shape, offset=0):
        shape, offset = np.atleast_1d(shape), np.atleast_1d(offset)
        offset = np.resize(offset, len(shape))
        return a[tuple(slice(o, o + n) for o, n in zip(offset, shape, strict=True))].copy()

    @staticmethod
    def store(a, t):
        a[tuple(slice(0, n) for n in t.shape)] = t

    @staticmethod
    def view(t, offset, shape=None):
        offset = offset if isinstance(offset, tuple) else (offset,)
        if shape is None:
            return t[offset]
        return t[tuple(slice(o, o + n) for o, n in zip(offset, shape, strict=True))]

    @staticmethod
    def reshape(t, shape):
        made = t.reshape(shape)
        assert np.shares_memory(made, t), "a copy is no view"
        return made

    @staticmethod
    def assign(dst, src, offset=None):
        offset = (0,) * dst.ndim if offset is None else np.atleast_1d(offset)
        dst[tuple(slice(o, o + n) for o, n in zip(offset, src.shape, strict=True))] = src.copy()

    @staticmethod
    def matmul(a, b, out):
        out += a @ b


def in_numpy(kernel, *args):
    """The array arguments after Python has run the kernel on NumPy arrays."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    function = kernel.python
    outer = {**function.__globals__, "wp": NumpyTiles()}

    def plain(f):
        return types.FunctionType(f.__code__, outer, argdefs=f.__defaults__, closure=f.__closure__)

    outer |= {name: plain(f.python) for name, f in outer.items() if isinstance(f, wp.Func)}
    types.FunctionType(function.__code__, outer, closure=function.__closure__)(*copies)
    return [c for c in copies if isinstance(c, np.ndarray)]


def check(kernel, *args):
    for got, wanted in zip(run_tiled(kernel, 1, *args), in_numpy(kernel, *args), strict=True):
        np.testing.assert_array_equal(got, wanted)
