"""Plans and entries for tests of the native module, without any of jwarp's compilers."""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm
import numpy as np
from launch_format import ARRAY as ARRAY
from launch_format import F32 as F32
from launch_format import F64 as F64
from launch_format import INPUT, SCALAR, STORED, UNKNOWN, ZEROS, make_launch, wire
from launch_format import OWN as OWN
from launch_format import PRED as PRED
from launch_format import S32 as S32
from launch_format import U64 as U64
from launch_format import make_plan as make_plan

from jwarp import _native

_serial = itertools.count()
_kept_alive: list[object] = []


_MEMBERS = {
    "operands": ctypes.POINTER(ctypes.c_void_p),
    "symbols": ctypes.POINTER(ctypes.c_int64),
    "fill": ctypes.c_uint64,
    "tapes": ctypes.c_void_p,
}


class Frame(ctypes.Structure):
    """Mirror of the struct that an entry is called with."""

    _fields_ = tuple((name, _MEMBERS.get(name, ctypes.c_int64)) for name, _ in wire.FRAME)

    @property
    def rows(self) -> slice:
        return slice(self.row_begin, self.row_end)

    @property
    def columns(self) -> slice:
        return slice(self.column_begin, self.column_end)

    def array(self, parameter: int, shape: Sequence[int], dtype: type = np.float32) -> np.ndarray:
        """The data of one parameter for the batch element at hand."""
        count = int(np.prod(shape))
        item = np.dtype(dtype).itemsize
        data = (ctypes.c_char * (count * item)).from_address(self.operands[parameter])
        return np.frombuffer(data, dtype).reshape(shape)


def child_environment(**variables: str) -> dict[str, str]:
    """The environment of a process of its own that imports this module and its neighbours."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, os.path.dirname(here), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **variables}


def new_fingerprint() -> str:
    return f"{next(_serial):032x}"


def python_entry(body: Callable[[Frame], None]) -> int:
    """The address of an entry that runs a Python function."""
    callback = ctypes.CFUNCTYPE(None, ctypes.POINTER(Frame))(lambda frame: body(frame.contents))
    _kept_alive.append(callback)
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def register(
    plan: np.ndarray,
    fast: Callable[[Frame], None] | None = None,
    checked: Callable[[Frame], None] | None = None,
) -> str:
    """Registers a kernel made of Python functions and returns its fingerprint."""
    fingerprint = new_fingerprint()
    addresses = [python_entry(body) if body else 0 for body in (fast, checked)]
    _native.register_kernel(fingerprint, plan, *addresses)
    return fingerprint


# y[i] = k * x[i], for every row and column of the frame.
_SCALE = """
define void @scale(ptr %frame) {
entry:
  %operands = load ptr, ptr %frame
  %x = load ptr, ptr %operands
  %k_at = getelementptr ptr, ptr %operands, i64 1
  %k_ptr = load ptr, ptr %k_at
  %k = load float, ptr %k_ptr
  %y_at = getelementptr ptr, ptr %operands, i64 2
  %y = load ptr, ptr %y_at
  %begin_at = getelementptr i64, ptr %frame, i64 4
  %begin = load i64, ptr %begin_at
  %end_at = getelementptr i64, ptr %frame, i64 5
  %end = load i64, ptr %end_at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %x_i = getelementptr float, ptr %x, i64 %i
  %value = load float, ptr %x_i
  %product = fmul float %value, %k
  %y_i = getelementptr float, ptr %y, i64 %i
  store float %product, ptr %y_i
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""
SCALE_PLAN = make_plan(1, [(ARRAY, 1, F32, UNKNOWN), (SCALAR, 0, F32, UNKNOWN), (ARRAY, 1, F32, STORED)])


def scale_entry() -> int:
    """The address of a compiled entry that computes y = k * x in one dimension."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_SCALE), machine)
    engine.finalize_object()
    _kept_alive.append(engine)
    return engine.get_function_address("scale")


def scale_launch(n: int, x_mask: int = 0, k_mask: int = 0, batch: Sequence[int] = ()) -> np.ndarray:
    """A launch of the scale kernel: operands x and k, result y with all batch axes."""
    all_axes = (1 << len(batch)) - 1
    return make_launch([n], [(0, -1, INPUT, x_mask), (1, -1, INPUT, k_mask), (-1, 0, ZEROS, all_axes)], batch)
