"""Runs compiled kernels on arrays next to pages that fault when they are touched."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any

import forks
import numpy as np
from compiled_variants import Compiled, whole_launch

from jwarp import _native
from jwarp.ir.nodes import written_params

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Fenced:
    """A copy of `array` whose last byte, or whose first, is next to a page without access."""

    def __init__(self, array: np.ndarray, at_end: bool):
        inner = -(-max(array.nbytes, 1) // _PAGE) * _PAGE
        self.memory = mmap.mmap(-1, inner + 2 * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for fence in (start, start + _PAGE + inner):
            if _libc.mprotect(fence, _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        offset = _PAGE + (inner - array.nbytes if at_end else 0)
        flat = np.frombuffer(self.memory, array.dtype, array.size, offset)
        self.array = flat.reshape(array.shape)
        self.array[...] = array


def run(compiled: Compiled, dims: tuple[int, ...], args: Sequence[Any], at_end: bool) -> list[np.ndarray]:
    """The array parameters after a launch, as `interpreter.run` gives them."""
    kernel = compiled.kernel
    written = written_params(kernel)
    fenced = [Fenced(np.asarray(a, p.dtype.dtype), at_end) for p, a in zip(kernel.params, args, strict=True)]
    results = [Fenced(fenced[p].array, at_end) for p in written]
    arrays = [f.array for f in (*fenced, *results)]
    _native.run_launch(compiled.fingerprint, whole_launch(kernel, dims[: kernel.tid_dims]), arrays, 1)
    final = {p: results[k] for k, p in enumerate(written)}
    return [np.array(final.get(p, fenced[p]).array) for p, param in enumerate(kernel.params) if param.is_array]


def check_script(path: str, *arguments: str) -> None:
    """Run a script in a process of its own, which touching a fence ends; it prints what it does before it does it."""
    code = f"import runpy, sys\nsys.argv = {[path, *arguments]!r}\nrunpy.run_path({path!r}, run_name='__main__')"
    status, text = forks.server(*forks.WITH_JWARP).run(code, {}, 300)
    assert status == 0, f"ended with {status}\n{text[-3000:]}"
