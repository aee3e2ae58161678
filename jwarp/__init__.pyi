"""Kernels written in Python become JAX functions: `import jwarp as wp`.

Made by `python -m jwarp.frontend.builtins.stub`: change the tables that it is made of.
"""

import builtins
from collections.abc import Callable
from typing import Any
from typing import overload as _overload

from jwarp import optim as optim
from jwarp import sparse as sparse
from jwarp import types as types
from jwarp import utils as utils
from jwarp.api import device as device
from jwarp.api.capture import Graph as Graph
from jwarp.api.capture import ScopedCapture as ScopedCapture
from jwarp.api.capture import capture_begin as capture_begin
from jwarp.api.capture import capture_end as capture_end
from jwarp.api.capture import capture_if as capture_if
from jwarp.api.capture import capture_launch as capture_launch
from jwarp.api.capture import capture_while as capture_while
from jwarp.api.check_grads import check_grads as check_grads
from jwarp.api.cuda_kernel import cuda_kernel as cuda_kernel
from jwarp.api.dlpack import from_dlpack as from_dlpack
from jwarp.api.dlpack import to_dlpack as to_dlpack
from jwarp.api.dtypes import device_from_jax as device_from_jax
from jwarp.api.dtypes import device_to_jax as device_to_jax
from jwarp.api.dtypes import dtype_from_jax as dtype_from_jax
from jwarp.api.dtypes import dtype_from_numpy as dtype_from_numpy
from jwarp.api.dtypes import dtype_to_jax as dtype_to_jax
from jwarp.api.dtypes import dtype_to_numpy as dtype_to_numpy
from jwarp.api.explain import explain as explain
from jwarp.api.functionalize import functionalize as functionalize
from jwarp.api.geometry.bvh import Bvh as Bvh
from jwarp.api.geometry.hash_grid import HashGrid as HashGrid
from jwarp.api.geometry.marching_cubes import MarchingCubes as MarchingCubes
from jwarp.api.geometry.mesh import Mesh as Mesh
from jwarp.api.geometry.volume import Volume as Volume
from jwarp.api.inspect import inspect as inspect
from jwarp.api.jax_arrays import from_jax as from_jax
from jwarp.api.jax_arrays import to_jax as to_jax
from jwarp.api.jax_callable import jax_callable as jax_callable
from jwarp.api.jax_kernel import jax_kernel as jax_kernel
from jwarp.api.launch import launch as launch
from jwarp.api.launch import launch_tiled as launch_tiled
from jwarp.api.map import map as map
from jwarp.api.memory_report import ScopedMemoryTracker as ScopedMemoryTracker
from jwarp.api.memory_report import print_memory_report as print_memory_report
from jwarp.api.modes import CaptureMode as CaptureMode
from jwarp.api.modes import JaxCallableGraphMode as JaxCallableGraphMode
from jwarp.api.modes import JaxModulePreloadMode as JaxModulePreloadMode
from jwarp.api.modes import MemoryKind as MemoryKind
from jwarp.api.modes import WarpCodegenAttributeError as WarpCodegenAttributeError
from jwarp.api.modes import WarpCodegenError as WarpCodegenError
from jwarp.api.modes import WarpCodegenIndexError as WarpCodegenIndexError
from jwarp.api.modes import WarpCodegenKeyError as WarpCodegenKeyError
from jwarp.api.modes import WarpCodegenTypeError as WarpCodegenTypeError
from jwarp.api.modes import WarpCodegenValueError as WarpCodegenValueError
from jwarp.api.modes import WarpDeterminismError as WarpDeterminismError
from jwarp.api.modes import clear_jax_callable_graph_cache as clear_jax_callable_graph_cache
from jwarp.api.modules import Module as Module
from jwarp.api.modules import clear_kernel_cache as clear_kernel_cache
from jwarp.api.modules import clear_lto_cache as clear_lto_cache
from jwarp.api.modules import force_load as force_load
from jwarp.api.modules import get_module as get_module
from jwarp.api.modules import get_suggested_block_size as get_suggested_block_size
from jwarp.api.modules import init as init
from jwarp.api.modules import load_module as load_module
from jwarp.api.modules import print_diagnostics as print_diagnostics
from jwarp.api.overload import overload as overload
from jwarp.api.record import Launch as Launch
from jwarp.api.saved_graphs import capture_load as capture_load
from jwarp.api.saved_graphs import capture_load_from_bytes as capture_load_from_bytes
from jwarp.api.saved_graphs import capture_save as capture_save
from jwarp.api.streams import Event as Event
from jwarp.api.streams import ScopedCudaProfiler as ScopedCudaProfiler
from jwarp.api.streams import ScopedMempool as ScopedMempool
from jwarp.api.streams import ScopedMempoolAccess as ScopedMempoolAccess
from jwarp.api.streams import ScopedPeerAccess as ScopedPeerAccess
from jwarp.api.streams import ScopedStream as ScopedStream
from jwarp.api.streams import Stream as Stream
from jwarp.api.streams import cuda_profiler_start as cuda_profiler_start
from jwarp.api.streams import cuda_profiler_stop as cuda_profiler_stop
from jwarp.api.streams import event_from_ipc_handle as event_from_ipc_handle
from jwarp.api.streams import get_cuda_driver_version as get_cuda_driver_version
from jwarp.api.streams import get_event_elapsed_time as get_event_elapsed_time
from jwarp.api.streams import get_mempool_release_threshold as get_mempool_release_threshold
from jwarp.api.streams import get_mempool_used_mem_current as get_mempool_used_mem_current
from jwarp.api.streams import get_mempool_used_mem_high as get_mempool_used_mem_high
from jwarp.api.streams import get_stream as get_stream
from jwarp.api.streams import is_conditional_graph_supported as is_conditional_graph_supported
from jwarp.api.streams import is_cubql_available as is_cubql_available
from jwarp.api.streams import is_mempool_access_enabled as is_mempool_access_enabled
from jwarp.api.streams import is_mempool_access_supported as is_mempool_access_supported
from jwarp.api.streams import is_mempool_enabled as is_mempool_enabled
from jwarp.api.streams import is_mempool_supported as is_mempool_supported
from jwarp.api.streams import is_peer_access_enabled as is_peer_access_enabled
from jwarp.api.streams import is_peer_access_supported as is_peer_access_supported
from jwarp.api.streams import record_event as record_event
from jwarp.api.streams import set_mempool_access_enabled as set_mempool_access_enabled
from jwarp.api.streams import set_mempool_enabled as set_mempool_enabled
from jwarp.api.streams import set_mempool_release_threshold as set_mempool_release_threshold
from jwarp.api.streams import set_peer_access_enabled as set_peer_access_enabled
from jwarp.api.streams import set_stream as set_stream
from jwarp.api.streams import synchronize as synchronize
from jwarp.api.streams import synchronize_device as synchronize_device
from jwarp.api.streams import synchronize_event as synchronize_event
from jwarp.api.streams import synchronize_stream as synchronize_stream
from jwarp.api.streams import wait_event as wait_event
from jwarp.api.streams import wait_stream as wait_stream
from jwarp.api.tape import Tape as Tape
from jwarp.api.timers import LOG_DEBUG as LOG_DEBUG
from jwarp.api.timers import LOG_ERROR as LOG_ERROR
from jwarp.api.timers import LOG_INFO as LOG_INFO
from jwarp.api.timers import LOG_WARNING as LOG_WARNING
from jwarp.api.timers import TIMING_ALL as TIMING_ALL
from jwarp.api.timers import TIMING_GRAPH as TIMING_GRAPH
from jwarp.api.timers import TIMING_KERNEL as TIMING_KERNEL
from jwarp.api.timers import TIMING_KERNEL_BUILTIN as TIMING_KERNEL_BUILTIN
from jwarp.api.timers import TIMING_MEMCPY as TIMING_MEMCPY
from jwarp.api.timers import TIMING_MEMSET as TIMING_MEMSET
from jwarp.api.timers import Logger as Logger
from jwarp.api.timers import ScopedLogger as ScopedLogger
from jwarp.api.timers import ScopedLogLevel as ScopedLogLevel
from jwarp.api.timers import ScopedTimer as ScopedTimer
from jwarp.api.timers import TimingResult as TimingResult
from jwarp.api.timers import get_logger as get_logger
from jwarp.api.timers import set_logger as set_logger
from jwarp.api.timers import timing_begin as timing_begin
from jwarp.api.timers import timing_end as timing_end
from jwarp.api.timers import timing_print as timing_print
from jwarp.api.torch_tensors import device_from_torch as device_from_torch
from jwarp.api.torch_tensors import device_to_torch as device_to_torch
from jwarp.api.torch_tensors import dtype_from_torch as dtype_from_torch
from jwarp.api.torch_tensors import dtype_to_torch as dtype_to_torch
from jwarp.api.torch_tensors import from_torch as from_torch
from jwarp.api.torch_tensors import stream_from_torch as stream_from_torch
from jwarp.api.torch_tensors import to_torch as to_torch
from jwarp.arrays.create import clone as clone
from jwarp.arrays.create import copy as copy
from jwarp.arrays.create import empty_like as empty_like
from jwarp.arrays.create import from_numpy as from_numpy
from jwarp.arrays.create import full as full
from jwarp.arrays.create import full_like as full_like
from jwarp.arrays.create import ones as ones
from jwarp.arrays.create import ones_like as ones_like
from jwarp.arrays.create import zeros_like as zeros_like
from jwarp.arrays.fabric import fabricarray as fabricarray
from jwarp.arrays.fabric import fabricarrayarray as fabricarrayarray
from jwarp.arrays.fabric import fixedarray as fixedarray
from jwarp.arrays.fabric import indexedfabricarray as indexedfabricarray
from jwarp.arrays.fabric import indexedfabricarrayarray as indexedfabricarrayarray
from jwarp.arrays.textures import Texture as Texture
from jwarp.arrays.textures import Texture1D as Texture1D
from jwarp.arrays.textures import Texture2D as Texture2D
from jwarp.arrays.textures import Texture3D as Texture3D
from jwarp.arrays.textures import TextureAddressMode as TextureAddressMode
from jwarp.arrays.textures import TextureFilterMode as TextureFilterMode
from jwarp.arrays.textures import TextureResourceFlags as TextureResourceFlags
from jwarp.backend.events import CompileEvent as CompileEvent
from jwarp.backend.events import record_compiles as record_compiles
from jwarp.bind.jax_functions.function import jax_func as jax_func
from jwarp.bind.pytrees import register_pytree as register_pytree
from jwarp.bind.pytrees import replace as replace
from jwarp.bind.register import EXPORT_CHECKS as EXPORT_CHECKS
from jwarp.config import DeterministicMode as DeterministicMode
from jwarp.config import config as config
from jwarp.devices import Device as Device
from jwarp.devices import DeviceLike as DeviceLike
from jwarp.devices import ScopedDevice as ScopedDevice
from jwarp.devices import can_access as can_access
from jwarp.devices import get_cuda_device as get_cuda_device
from jwarp.devices import get_cuda_device_count as get_cuda_device_count
from jwarp.devices import get_cuda_devices as get_cuda_devices
from jwarp.devices import get_device as get_device
from jwarp.devices import get_devices as get_devices
from jwarp.devices import get_preferred_device as get_preferred_device
from jwarp.devices import is_cpu_available as is_cpu_available
from jwarp.devices import is_cuda_available as is_cuda_available
from jwarp.devices import is_device_available as is_device_available
from jwarp.devices import set_device as set_device
from jwarp.errors import CompileError as CompileError
from jwarp.errors import KernelTypeError as KernelTypeError
from jwarp.errors import KernelWarning as KernelWarning
from jwarp.errors import LaunchError as LaunchError
from jwarp.errors import NotDifferentiableError as NotDifferentiableError
from jwarp.frontend.builtins.annotations import (
    AnyLinear,
    AnyMatrix,
    AnyQuaternion,
    AnyTransform,
    AnyVector,
    Composite,
    HostValue,
    Index,
    Linear,
    Matrix,
    Number,
    Offset,
    Quaternion,
    Range,
    Result,
    Shape,
    T,
    ThreadIndex,
    Transform,
    Vector,
)
from jwarp.frontend.builtins.annotations import BvhQuery as BvhQuery
from jwarp.frontend.builtins.annotations import BvhQueryTiled as BvhQueryTiled
from jwarp.frontend.builtins.annotations import Float as Float
from jwarp.frontend.builtins.annotations import HashGridQuery as HashGridQuery
from jwarp.frontend.builtins.annotations import Int as Int
from jwarp.frontend.builtins.annotations import MeshQuery as MeshQuery
from jwarp.frontend.builtins.annotations import MeshQueryAABB as MeshQueryAABB
from jwarp.frontend.builtins.annotations import MeshQueryAABBTiled as MeshQueryAABBTiled
from jwarp.frontend.builtins.annotations import Scalar as Scalar
from jwarp.frontend.builtins.annotations import array as array
from jwarp.frontend.builtins.annotations import array1d as array1d
from jwarp.frontend.builtins.annotations import array2d as array2d
from jwarp.frontend.builtins.annotations import array3d as array3d
from jwarp.frontend.builtins.annotations import array4d as array4d
from jwarp.frontend.builtins.annotations import bfloat16 as bfloat16
from jwarp.frontend.builtins.annotations import float16 as float16
from jwarp.frontend.builtins.annotations import float32 as float32
from jwarp.frontend.builtins.annotations import float64 as float64
from jwarp.frontend.builtins.annotations import int8 as int8
from jwarp.frontend.builtins.annotations import int16 as int16
from jwarp.frontend.builtins.annotations import int32 as int32
from jwarp.frontend.builtins.annotations import int64 as int64
from jwarp.frontend.builtins.annotations import tile as tile
from jwarp.frontend.builtins.annotations import tile_stack as tile_stack
from jwarp.frontend.builtins.annotations import uint8 as uint8
from jwarp.frontend.builtins.annotations import uint16 as uint16
from jwarp.frontend.builtins.annotations import uint32 as uint32
from jwarp.frontend.builtins.annotations import uint64 as uint64
from jwarp.frontend.builtins.control import constant as constant
from jwarp.frontend.builtins.control import static as static
from jwarp.frontend.func import Func as Func
from jwarp.frontend.func import func as func
from jwarp.frontend.func_grad import adjoint as adjoint
from jwarp.frontend.func_grad import func_grad as func_grad
from jwarp.frontend.func_grad import func_replay as func_replay
from jwarp.frontend.kernel import kernel as kernel
from jwarp.frontend.kernel_base import Kernel as Kernel
from jwarp.frontend.lowering.derivatives import grad as grad
from jwarp.frontend.native import func_native as func_native
from jwarp.frontend.options import get_module_options as get_module_options
from jwarp.frontend.options import set_module_options as set_module_options
from jwarp.launching.record import LaunchDescriptor as LaunchDescriptor
from jwarp.lib.geometry.mesh import MeshQueryPoint as MeshQueryPoint
from jwarp.lib.geometry.mesh_rays import MeshQueryRay as MeshQueryRay
from jwarp.types import indexedarray as indexedarray
from jwarp.types import indexedarray1d as indexedarray1d
from jwarp.types import indexedarray2d as indexedarray2d
from jwarp.types import indexedarray3d as indexedarray3d
from jwarp.types import indexedarray4d as indexedarray4d
from jwarp.types import ref as ref
from jwarp.types import struct as struct
from jwarp.types.composites import transform_expand as transform_expand

bool = builtins.bool
pi: float
PI: float
half_pi: float
HALF_PI: float
tau: float
TAU: float
e: float
E: float
ln2: float
LN2: float
ln10: float
LN10: float
log2e: float
LOG2E: float
log10e: float
LOG10E: float
phi: float
PHI: float
inf: float
INF: float
nan: float
NAN: float

class vec2(Vector[float, mat22]):
    """vec2 of float32."""

    x: float
    y: float
    @_overload
    def __init__(self, v0: float, v1: float, /) -> None: ...
    @_overload
    def __init__(self, value: float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2 | HostValue, /) -> None: ...

class vec2b(Vector[int8, Any]):
    """vec2b of int8."""

    x: int8
    y: int8
    @_overload
    def __init__(self, v0: int8 | int, v1: int8 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int8 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2b | HostValue, /) -> None: ...

class vec2ub(Vector[uint8, Any]):
    """vec2ub of uint8."""

    x: uint8
    y: uint8
    @_overload
    def __init__(self, v0: uint8 | int, v1: uint8 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint8 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2ub | HostValue, /) -> None: ...

class vec2s(Vector[int16, Any]):
    """vec2s of int16."""

    x: int16
    y: int16
    @_overload
    def __init__(self, v0: int16 | int, v1: int16 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int16 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2s | HostValue, /) -> None: ...

class vec2us(Vector[uint16, Any]):
    """vec2us of uint16."""

    x: uint16
    y: uint16
    @_overload
    def __init__(self, v0: uint16 | int, v1: uint16 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint16 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2us | HostValue, /) -> None: ...

class vec2i(Vector[int, Any]):
    """vec2i of int32."""

    x: int
    y: int
    @_overload
    def __init__(self, v0: int, v1: int, /) -> None: ...
    @_overload
    def __init__(self, value: int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2i | HostValue, /) -> None: ...

class vec2ui(Vector[uint32, Any]):
    """vec2ui of uint32."""

    x: uint32
    y: uint32
    @_overload
    def __init__(self, v0: uint32 | int, v1: uint32 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint32 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2ui | HostValue, /) -> None: ...

class vec2l(Vector[int64, Any]):
    """vec2l of int64."""

    x: int64
    y: int64
    @_overload
    def __init__(self, v0: int64 | int, v1: int64 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int64 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2l | HostValue, /) -> None: ...

class vec2ul(Vector[uint64, Any]):
    """vec2ul of uint64."""

    x: uint64
    y: uint64
    @_overload
    def __init__(self, v0: uint64 | int, v1: uint64 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint64 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2ul | HostValue, /) -> None: ...

class vec2h(Vector[float16, mat22h]):
    """vec2h of float16."""

    x: float16
    y: float16
    @_overload
    def __init__(self, v0: float16 | float, v1: float16 | float, /) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2h | HostValue, /) -> None: ...

vec2f = vec2

class vec2d(Vector[float64, mat22d]):
    """vec2d of float64."""

    x: float64
    y: float64
    @_overload
    def __init__(self, v0: float64 | float, v1: float64 | float, /) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec2d | HostValue, /) -> None: ...

class vec3(Vector[float, mat33]):
    """vec3 of float32."""

    x: float
    y: float
    z: float
    @_overload
    def __init__(self, v0: float, v1: float, v2: float, /) -> None: ...
    @_overload
    def __init__(self, value: float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3 | HostValue, /) -> None: ...

class vec3b(Vector[int8, Any]):
    """vec3b of int8."""

    x: int8
    y: int8
    z: int8
    @_overload
    def __init__(self, v0: int8 | int, v1: int8 | int, v2: int8 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int8 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3b | HostValue, /) -> None: ...

class vec3ub(Vector[uint8, Any]):
    """vec3ub of uint8."""

    x: uint8
    y: uint8
    z: uint8
    @_overload
    def __init__(self, v0: uint8 | int, v1: uint8 | int, v2: uint8 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint8 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3ub | HostValue, /) -> None: ...

class vec3s(Vector[int16, Any]):
    """vec3s of int16."""

    x: int16
    y: int16
    z: int16
    @_overload
    def __init__(self, v0: int16 | int, v1: int16 | int, v2: int16 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int16 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3s | HostValue, /) -> None: ...

class vec3us(Vector[uint16, Any]):
    """vec3us of uint16."""

    x: uint16
    y: uint16
    z: uint16
    @_overload
    def __init__(self, v0: uint16 | int, v1: uint16 | int, v2: uint16 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint16 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3us | HostValue, /) -> None: ...

class vec3i(Vector[int, Any]):
    """vec3i of int32."""

    x: int
    y: int
    z: int
    @_overload
    def __init__(self, v0: int, v1: int, v2: int, /) -> None: ...
    @_overload
    def __init__(self, value: int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3i | HostValue, /) -> None: ...

class vec3ui(Vector[uint32, Any]):
    """vec3ui of uint32."""

    x: uint32
    y: uint32
    z: uint32
    @_overload
    def __init__(self, v0: uint32 | int, v1: uint32 | int, v2: uint32 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint32 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3ui | HostValue, /) -> None: ...

class vec3l(Vector[int64, Any]):
    """vec3l of int64."""

    x: int64
    y: int64
    z: int64
    @_overload
    def __init__(self, v0: int64 | int, v1: int64 | int, v2: int64 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int64 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3l | HostValue, /) -> None: ...

class vec3ul(Vector[uint64, Any]):
    """vec3ul of uint64."""

    x: uint64
    y: uint64
    z: uint64
    @_overload
    def __init__(self, v0: uint64 | int, v1: uint64 | int, v2: uint64 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint64 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3ul | HostValue, /) -> None: ...

class vec3h(Vector[float16, mat33h]):
    """vec3h of float16."""

    x: float16
    y: float16
    z: float16
    @_overload
    def __init__(self, v0: float16 | float, v1: float16 | float, v2: float16 | float, /) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3h | HostValue, /) -> None: ...

vec3f = vec3

class vec3d(Vector[float64, mat33d]):
    """vec3d of float64."""

    x: float64
    y: float64
    z: float64
    @_overload
    def __init__(self, v0: float64 | float, v1: float64 | float, v2: float64 | float, /) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec3d | HostValue, /) -> None: ...

class vec4(Vector[float, mat44]):
    """vec4 of float32."""

    x: float
    y: float
    z: float
    w: float
    @_overload
    def __init__(self, v0: float, v1: float, v2: float, v3: float, /) -> None: ...
    @_overload
    def __init__(self, value: float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4 | HostValue, /) -> None: ...

class vec4b(Vector[int8, Any]):
    """vec4b of int8."""

    x: int8
    y: int8
    z: int8
    w: int8
    @_overload
    def __init__(self, v0: int8 | int, v1: int8 | int, v2: int8 | int, v3: int8 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int8 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4b | HostValue, /) -> None: ...

class vec4ub(Vector[uint8, Any]):
    """vec4ub of uint8."""

    x: uint8
    y: uint8
    z: uint8
    w: uint8
    @_overload
    def __init__(self, v0: uint8 | int, v1: uint8 | int, v2: uint8 | int, v3: uint8 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint8 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4ub | HostValue, /) -> None: ...

class vec4s(Vector[int16, Any]):
    """vec4s of int16."""

    x: int16
    y: int16
    z: int16
    w: int16
    @_overload
    def __init__(self, v0: int16 | int, v1: int16 | int, v2: int16 | int, v3: int16 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int16 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4s | HostValue, /) -> None: ...

class vec4us(Vector[uint16, Any]):
    """vec4us of uint16."""

    x: uint16
    y: uint16
    z: uint16
    w: uint16
    @_overload
    def __init__(self, v0: uint16 | int, v1: uint16 | int, v2: uint16 | int, v3: uint16 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint16 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4us | HostValue, /) -> None: ...

class vec4i(Vector[int, Any]):
    """vec4i of int32."""

    x: int
    y: int
    z: int
    w: int
    @_overload
    def __init__(self, v0: int, v1: int, v2: int, v3: int, /) -> None: ...
    @_overload
    def __init__(self, value: int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4i | HostValue, /) -> None: ...

class vec4ui(Vector[uint32, Any]):
    """vec4ui of uint32."""

    x: uint32
    y: uint32
    z: uint32
    w: uint32
    @_overload
    def __init__(self, v0: uint32 | int, v1: uint32 | int, v2: uint32 | int, v3: uint32 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint32 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4ui | HostValue, /) -> None: ...

class vec4l(Vector[int64, Any]):
    """vec4l of int64."""

    x: int64
    y: int64
    z: int64
    w: int64
    @_overload
    def __init__(self, v0: int64 | int, v1: int64 | int, v2: int64 | int, v3: int64 | int, /) -> None: ...
    @_overload
    def __init__(self, value: int64 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4l | HostValue, /) -> None: ...

class vec4ul(Vector[uint64, Any]):
    """vec4ul of uint64."""

    x: uint64
    y: uint64
    z: uint64
    w: uint64
    @_overload
    def __init__(self, v0: uint64 | int, v1: uint64 | int, v2: uint64 | int, v3: uint64 | int, /) -> None: ...
    @_overload
    def __init__(self, value: uint64 | int | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4ul | HostValue, /) -> None: ...

class vec4h(Vector[float16, mat44h]):
    """vec4h of float16."""

    x: float16
    y: float16
    z: float16
    w: float16
    @_overload
    def __init__(
        self, v0: float16 | float, v1: float16 | float, v2: float16 | float, v3: float16 | float, /
    ) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4h | HostValue, /) -> None: ...

vec4f = vec4

class vec4d(Vector[float64, mat44d]):
    """vec4d of float64."""

    x: float64
    y: float64
    z: float64
    w: float64
    @_overload
    def __init__(
        self, v0: float64 | float, v1: float64 | float, v2: float64 | float, v3: float64 | float, /
    ) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Vector[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: vec4d | HostValue, /) -> None: ...

class spatial_vector(Vector[float, spatial_matrix]):
    """spatial_vector of float32."""

    x: float
    y: float
    z: float
    w: float
    @_overload
    def __init__(self, v0: float, v1: float, v2: float, v3: float, v4: float, v5: float, /) -> None: ...
    @_overload
    def __init__(self, value: float | Vector[Any, Any] = ..., /) -> None: ...
    @_overload
    def __init__(self, w: Any, v: Any) -> None: ...
    @_overload
    def __init__(self, wx: Any, wy: Any, wz: Any, vx: Any, vy: Any, vz: Any) -> None: ...
    def __set__(self, instance: Any, value: spatial_vector | HostValue, /) -> None: ...

class spatial_vectorh(Vector[float16, spatial_matrixh]):
    """spatial_vectorh of float16."""

    x: float16
    y: float16
    z: float16
    w: float16
    @_overload
    def __init__(
        self,
        v0: float16 | float,
        v1: float16 | float,
        v2: float16 | float,
        v3: float16 | float,
        v4: float16 | float,
        v5: float16 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Vector[Any, Any] = ..., /) -> None: ...
    @_overload
    def __init__(self, w: Any, v: Any) -> None: ...
    @_overload
    def __init__(self, wx: Any, wy: Any, wz: Any, vx: Any, vy: Any, vz: Any) -> None: ...
    def __set__(self, instance: Any, value: spatial_vectorh | HostValue, /) -> None: ...

spatial_vectorf = spatial_vector

class spatial_vectord(Vector[float64, spatial_matrixd]):
    """spatial_vectord of float64."""

    x: float64
    y: float64
    z: float64
    w: float64
    @_overload
    def __init__(
        self,
        v0: float64 | float,
        v1: float64 | float,
        v2: float64 | float,
        v3: float64 | float,
        v4: float64 | float,
        v5: float64 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Vector[Any, Any] = ..., /) -> None: ...
    @_overload
    def __init__(self, w: Any, v: Any) -> None: ...
    @_overload
    def __init__(self, wx: Any, wy: Any, wz: Any, vx: Any, vy: Any, vz: Any) -> None: ...
    def __set__(self, instance: Any, value: spatial_vectord | HostValue, /) -> None: ...

class mat22(Matrix[float, vec2]):
    """mat22 of float32."""
    @_overload
    def __init__(self, m00: float, m01: float, m10: float, m11: float, /) -> None: ...
    @_overload
    def __init__(self, value: float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat22 | HostValue, /) -> None: ...

class mat22h(Matrix[float16, vec2h]):
    """mat22h of float16."""
    @_overload
    def __init__(
        self, m00: float16 | float, m01: float16 | float, m10: float16 | float, m11: float16 | float, /
    ) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat22h | HostValue, /) -> None: ...

mat22f = mat22

class mat22d(Matrix[float64, vec2d]):
    """mat22d of float64."""
    @_overload
    def __init__(
        self, m00: float64 | float, m01: float64 | float, m10: float64 | float, m11: float64 | float, /
    ) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat22d | HostValue, /) -> None: ...

class mat33(Matrix[float, vec3]):
    """mat33 of float32."""
    @_overload
    def __init__(
        self,
        m00: float,
        m01: float,
        m02: float,
        m10: float,
        m11: float,
        m12: float,
        m20: float,
        m21: float,
        m22: float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat33 | HostValue, /) -> None: ...

class mat33h(Matrix[float16, vec3h]):
    """mat33h of float16."""
    @_overload
    def __init__(
        self,
        m00: float16 | float,
        m01: float16 | float,
        m02: float16 | float,
        m10: float16 | float,
        m11: float16 | float,
        m12: float16 | float,
        m20: float16 | float,
        m21: float16 | float,
        m22: float16 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat33h | HostValue, /) -> None: ...

mat33f = mat33

class mat33d(Matrix[float64, vec3d]):
    """mat33d of float64."""
    @_overload
    def __init__(
        self,
        m00: float64 | float,
        m01: float64 | float,
        m02: float64 | float,
        m10: float64 | float,
        m11: float64 | float,
        m12: float64 | float,
        m20: float64 | float,
        m21: float64 | float,
        m22: float64 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat33d | HostValue, /) -> None: ...

class mat44(Matrix[float, vec4]):
    """mat44 of float32."""
    @_overload
    def __init__(
        self,
        m00: float,
        m01: float,
        m02: float,
        m03: float,
        m10: float,
        m11: float,
        m12: float,
        m13: float,
        m20: float,
        m21: float,
        m22: float,
        m23: float,
        m30: float,
        m31: float,
        m32: float,
        m33: float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat44 | HostValue, /) -> None: ...

class mat44h(Matrix[float16, vec4h]):
    """mat44h of float16."""
    @_overload
    def __init__(
        self,
        m00: float16 | float,
        m01: float16 | float,
        m02: float16 | float,
        m03: float16 | float,
        m10: float16 | float,
        m11: float16 | float,
        m12: float16 | float,
        m13: float16 | float,
        m20: float16 | float,
        m21: float16 | float,
        m22: float16 | float,
        m23: float16 | float,
        m30: float16 | float,
        m31: float16 | float,
        m32: float16 | float,
        m33: float16 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat44h | HostValue, /) -> None: ...

mat44f = mat44

class mat44d(Matrix[float64, vec4d]):
    """mat44d of float64."""
    @_overload
    def __init__(
        self,
        m00: float64 | float,
        m01: float64 | float,
        m02: float64 | float,
        m03: float64 | float,
        m10: float64 | float,
        m11: float64 | float,
        m12: float64 | float,
        m13: float64 | float,
        m20: float64 | float,
        m21: float64 | float,
        m22: float64 | float,
        m23: float64 | float,
        m30: float64 | float,
        m31: float64 | float,
        m32: float64 | float,
        m33: float64 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: mat44d | HostValue, /) -> None: ...

class spatial_matrix(Matrix[float, spatial_vector]):
    """spatial_matrix of float32."""
    @_overload
    def __init__(
        self,
        m00: float,
        m01: float,
        m02: float,
        m03: float,
        m04: float,
        m05: float,
        m10: float,
        m11: float,
        m12: float,
        m13: float,
        m14: float,
        m15: float,
        m20: float,
        m21: float,
        m22: float,
        m23: float,
        m24: float,
        m25: float,
        m30: float,
        m31: float,
        m32: float,
        m33: float,
        m34: float,
        m35: float,
        m40: float,
        m41: float,
        m42: float,
        m43: float,
        m44: float,
        m45: float,
        m50: float,
        m51: float,
        m52: float,
        m53: float,
        m54: float,
        m55: float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: spatial_matrix | HostValue, /) -> None: ...

class spatial_matrixh(Matrix[float16, spatial_vectorh]):
    """spatial_matrixh of float16."""
    @_overload
    def __init__(
        self,
        m00: float16 | float,
        m01: float16 | float,
        m02: float16 | float,
        m03: float16 | float,
        m04: float16 | float,
        m05: float16 | float,
        m10: float16 | float,
        m11: float16 | float,
        m12: float16 | float,
        m13: float16 | float,
        m14: float16 | float,
        m15: float16 | float,
        m20: float16 | float,
        m21: float16 | float,
        m22: float16 | float,
        m23: float16 | float,
        m24: float16 | float,
        m25: float16 | float,
        m30: float16 | float,
        m31: float16 | float,
        m32: float16 | float,
        m33: float16 | float,
        m34: float16 | float,
        m35: float16 | float,
        m40: float16 | float,
        m41: float16 | float,
        m42: float16 | float,
        m43: float16 | float,
        m44: float16 | float,
        m45: float16 | float,
        m50: float16 | float,
        m51: float16 | float,
        m52: float16 | float,
        m53: float16 | float,
        m54: float16 | float,
        m55: float16 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float16 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: spatial_matrixh | HostValue, /) -> None: ...

spatial_matrixf = spatial_matrix

class spatial_matrixd(Matrix[float64, spatial_vectord]):
    """spatial_matrixd of float64."""
    @_overload
    def __init__(
        self,
        m00: float64 | float,
        m01: float64 | float,
        m02: float64 | float,
        m03: float64 | float,
        m04: float64 | float,
        m05: float64 | float,
        m10: float64 | float,
        m11: float64 | float,
        m12: float64 | float,
        m13: float64 | float,
        m14: float64 | float,
        m15: float64 | float,
        m20: float64 | float,
        m21: float64 | float,
        m22: float64 | float,
        m23: float64 | float,
        m24: float64 | float,
        m25: float64 | float,
        m30: float64 | float,
        m31: float64 | float,
        m32: float64 | float,
        m33: float64 | float,
        m34: float64 | float,
        m35: float64 | float,
        m40: float64 | float,
        m41: float64 | float,
        m42: float64 | float,
        m43: float64 | float,
        m44: float64 | float,
        m45: float64 | float,
        m50: float64 | float,
        m51: float64 | float,
        m52: float64 | float,
        m53: float64 | float,
        m54: float64 | float,
        m55: float64 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, value: float64 | float | Matrix[Any, Any] = ..., /) -> None: ...
    def __set__(self, instance: Any, value: spatial_matrixd | HostValue, /) -> None: ...

class quat(Quaternion[float]):
    """quat of float32."""

    x: float
    y: float
    z: float
    w: float
    @_overload
    def __init__(self, v0: float, v1: float, v2: float, v3: float, /) -> None: ...
    @_overload
    def __init__(self, *parts: Any) -> None: ...
    @_overload
    def __init__(self, x: Any, y: Any, z: Any, w: Any) -> None: ...
    @_overload
    def __init__(self, ijk: Any, real: Any) -> None: ...
    @_overload
    def __init__(self, quat: Any) -> None: ...
    def __add__(self, other: quat, /) -> quat: ...
    def __sub__(self, other: quat, /) -> quat: ...
    def __mul__(self, other: float | quat, /) -> quat: ...
    def __rmul__(self, other: float, /) -> quat: ...
    def __truediv__(self, other: float, /) -> quat: ...
    def __rtruediv__(self, other: float, /) -> quat: ...
    def __set__(self, instance: Any, value: quat | HostValue, /) -> None: ...

class quath(Quaternion[float16]):
    """quath of float16."""

    x: float16
    y: float16
    z: float16
    w: float16
    @_overload
    def __init__(
        self, v0: float16 | float, v1: float16 | float, v2: float16 | float, v3: float16 | float, /
    ) -> None: ...
    @_overload
    def __init__(self, *parts: Any) -> None: ...
    @_overload
    def __init__(self, x: Any, y: Any, z: Any, w: Any) -> None: ...
    @_overload
    def __init__(self, ijk: Any, real: Any) -> None: ...
    @_overload
    def __init__(self, quat: Any) -> None: ...
    def __add__(self, other: quath, /) -> quath: ...
    def __sub__(self, other: quath, /) -> quath: ...
    def __mul__(self, other: float16 | quath, /) -> quath: ...
    def __rmul__(self, other: float16, /) -> quath: ...
    def __truediv__(self, other: float16, /) -> quath: ...
    def __rtruediv__(self, other: float16, /) -> quath: ...
    def __set__(self, instance: Any, value: quath | HostValue, /) -> None: ...

quatf = quat

class quatd(Quaternion[float64]):
    """quatd of float64."""

    x: float64
    y: float64
    z: float64
    w: float64
    @_overload
    def __init__(
        self, v0: float64 | float, v1: float64 | float, v2: float64 | float, v3: float64 | float, /
    ) -> None: ...
    @_overload
    def __init__(self, *parts: Any) -> None: ...
    @_overload
    def __init__(self, x: Any, y: Any, z: Any, w: Any) -> None: ...
    @_overload
    def __init__(self, ijk: Any, real: Any) -> None: ...
    @_overload
    def __init__(self, quat: Any) -> None: ...
    def __add__(self, other: quatd, /) -> quatd: ...
    def __sub__(self, other: quatd, /) -> quatd: ...
    def __mul__(self, other: float64 | quatd, /) -> quatd: ...
    def __rmul__(self, other: float64, /) -> quatd: ...
    def __truediv__(self, other: float64, /) -> quatd: ...
    def __rtruediv__(self, other: float64, /) -> quatd: ...
    def __set__(self, instance: Any, value: quatd | HostValue, /) -> None: ...

class transform(Transform[float]):
    """transform of float32."""

    p: vec3
    q: quat
    @_overload
    def __init__(self, v0: float, v1: float, v2: float, v3: float, v4: float, v5: float, v6: float, /) -> None: ...
    @_overload
    def __init__(self, *parts: Any) -> None: ...
    @_overload
    def __init__(self, p: Any, q: Any) -> None: ...
    def __add__(self, other: transform, /) -> transform: ...
    def __sub__(self, other: transform, /) -> transform: ...
    def __mul__(self, other: float | transform, /) -> transform: ...
    def __rmul__(self, other: float, /) -> transform: ...
    def __truediv__(self, other: float, /) -> transform: ...
    def __set__(self, instance: Any, value: transform | HostValue, /) -> None: ...

class transformh(Transform[float16]):
    """transformh of float16."""

    p: vec3h
    q: quath
    @_overload
    def __init__(
        self,
        v0: float16 | float,
        v1: float16 | float,
        v2: float16 | float,
        v3: float16 | float,
        v4: float16 | float,
        v5: float16 | float,
        v6: float16 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, *parts: Any) -> None: ...
    @_overload
    def __init__(self, p: Any, q: Any) -> None: ...
    def __add__(self, other: transformh, /) -> transformh: ...
    def __sub__(self, other: transformh, /) -> transformh: ...
    def __mul__(self, other: float16 | transformh, /) -> transformh: ...
    def __rmul__(self, other: float16, /) -> transformh: ...
    def __truediv__(self, other: float16, /) -> transformh: ...
    def __set__(self, instance: Any, value: transformh | HostValue, /) -> None: ...

transformf = transform

class transformd(Transform[float64]):
    """transformd of float64."""

    p: vec3d
    q: quatd
    @_overload
    def __init__(
        self,
        v0: float64 | float,
        v1: float64 | float,
        v2: float64 | float,
        v3: float64 | float,
        v4: float64 | float,
        v5: float64 | float,
        v6: float64 | float,
        /,
    ) -> None: ...
    @_overload
    def __init__(self, *parts: Any) -> None: ...
    @_overload
    def __init__(self, p: Any, q: Any) -> None: ...
    def __add__(self, other: transformd, /) -> transformd: ...
    def __sub__(self, other: transformd, /) -> transformd: ...
    def __mul__(self, other: float64 | transformd, /) -> transformd: ...
    def __rmul__(self, other: float64, /) -> transformd: ...
    def __truediv__(self, other: float64, /) -> transformd: ...
    def __set__(self, instance: Any, value: transformd | HostValue, /) -> None: ...

@_overload
def abs(x: Number) -> Number:
    """|x|, component by component for vectors and matrices."""

@_overload
def abs(x: Composite) -> Composite: ...
def acos(x: Float) -> Float:
    """The angle whose cosine is x, 0 to pi; x is clamped to [-1, 1]."""

@_overload
def add(a: Number, b: Number) -> Number:
    """a + b. Integers wrap around."""

@_overload
def add(a: Linear, b: Linear) -> Linear: ...
@_overload
def add(a: tile[T], b: tile[T]) -> tile[T]: ...
def argmax(a: Vector[Any, Any]) -> uint32:
    """The index of the first largest component. NaNs are ignored."""

def argmin(a: Vector[Any, Any]) -> uint32:
    """The index of the first smallest component. NaNs are ignored."""

def asin(x: Float) -> Float:
    """The angle whose sine is x, -pi/2 to pi/2; x is clamped to [-1, 1]."""

def atan(x: Float) -> Float:
    """The angle whose tangent is x, -pi/2 to pi/2."""

def atan2(y: Float, x: Float) -> Float:
    """The angle of the point (x, y) in radians, -pi to pi."""

@_overload
def atomic_add(arr: array[T], i: Index, value: T) -> T:
    """Add to an element of an array, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_add(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_add(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_add(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def atomic_and(arr: array[T], i: Index, value: T) -> T:
    """Combine an element of an array of integers by bitwise and, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_and(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_and(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_and(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def atomic_cas(arr: array[T], i: Index, compare: T, value: T) -> T:
    """Store a value in an element of an array where it equals `compare` bit by bit, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_cas(arr: array2d[T], i: Index, j: Index, compare: T, value: T) -> T: ...
@_overload
def atomic_cas(arr: array3d[T], i: Index, j: Index, k: Index, compare: T, value: T) -> T: ...
@_overload
def atomic_cas(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, compare: T, value: T) -> T: ...
@_overload
def atomic_exch(arr: array[T], i: Index, value: T) -> T:
    """Store a value in an element of an array, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_exch(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_exch(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_exch(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def atomic_max(arr: array[T], i: Index, value: T) -> T:
    """Replace an element of an array by the larger of it and the value, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_max(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_max(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_max(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def atomic_min(arr: array[T], i: Index, value: T) -> T:
    """Replace an element of an array by the smaller of it and the value, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_min(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_min(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_min(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def atomic_or(arr: array[T], i: Index, value: T) -> T:
    """Combine an element of an array of integers by bitwise or, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_or(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_or(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_or(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def atomic_sub(arr: array[T], i: Index, value: T) -> T:
    """Subtract from an element of an array, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_sub(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_sub(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_sub(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def atomic_xor(arr: array[T], i: Index, value: T) -> T:
    """Combine an element of an array of integers by bitwise exclusive or, atomically.

    Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
    Returns the old value of the element; zero if the index is outside the array.
    """

@_overload
def atomic_xor(arr: array2d[T], i: Index, j: Index, value: T) -> T: ...
@_overload
def atomic_xor(arr: array3d[T], i: Index, j: Index, k: Index, value: T) -> T: ...
@_overload
def atomic_xor(arr: array4d[T], i: Index, j: Index, k: Index, l: Index, value: T) -> T: ...
@_overload
def bit_and(a: Int, b: Int) -> Int:
    """a & b: bitwise and; for bools, logical and."""

@_overload
def bit_and(a: Composite, b: Composite) -> Composite: ...
@_overload
def bit_and(a: tile[T], b: tile[T]) -> tile[T]: ...
def bit_count(x: Int) -> int:
    """The number of bits of x that are set, as int32."""

@_overload
def bit_or(a: Int, b: Int) -> Int:
    """a | b: bitwise or; for bools, logical or."""

@_overload
def bit_or(a: Composite, b: Composite) -> Composite: ...
@_overload
def bit_or(a: tile[T], b: tile[T]) -> tile[T]: ...
@_overload
def bit_xor(a: Int, b: Int) -> Int:
    """a ^ b: bitwise exclusive or; for bools, `!=`."""

@_overload
def bit_xor(a: Composite, b: Composite) -> Composite: ...
@_overload
def bit_xor(a: tile[T], b: tile[T]) -> tile[T]: ...
def block_dim() -> int:
    """The number of threads in a block."""

def breakpoint() -> None:
    """Does nothing. (In Warp's debug builds, it stops in a debugger.)

    Debuggers cannot show the source of kernels. Print values, or set `wp.config.debug`.
    """

def bvh_get_group_root(id: uint64, group: int) -> int:
    """The `root` of queries for the boxes of one group; -1, which is all boxes, where there is no such group."""

def bvh_query_aabb(id: uint64, low: vec3, high: vec3, root: int = -1) -> BvhQuery:
    """The boxes of a tree that intersect the box from `low` to `high`: a loop iterates over their indices.

    `root` from `bvh_get_group_root` restricts the query to the boxes of one group. Boxes and queries with a
    NaN intersect nothing.
    """

def bvh_query_aabb_tiled(id: uint64, low: vec3, high: vec3) -> BvhQueryTiled:
    """`tile_bvh_query_aabb` under its older name."""

def bvh_query_capsule(id: uint64, start: vec3, dir: vec3, radius: float, root: int = -1) -> BvhQuery:
    """The boxes of a tree that a ray intersects when they are grown by `radius` on all sides, as `bvh_query_ray`."""

def bvh_query_next(query: BvhQuery, index: int, max_dist: float = 1e999) -> bool:
    """Set `index` to the next box of a query and return True; return False if there is none.

    Of rays, only boxes that they enter before `max_dist` count.
    """

def bvh_query_next_tiled(query: BvhQueryTiled) -> tile[int]:
    """`tile_bvh_query_next` under its older name."""

def bvh_query_ray(id: uint64, start: vec3, dir: vec3, root: int = -1) -> BvhQuery:
    """The boxes of a tree that a ray from `start` along `dir` intersects: a loop iterates over their indices."""

def bvh_query_ray_tiled(id: uint64, start: vec3, dir: vec3) -> BvhQueryTiled:
    """`tile_bvh_query_ray` under its older name."""

def bvh_query_sphere(id: uint64, center: vec3, radius: float, root: int = -1) -> BvhQuery:
    """The boxes of a tree within `radius` of `center`: a loop iterates over their indices."""

def cast(a: Any, dtype: type[T]) -> T:
    """The bits of a number, vector, matrix or struct, reinterpreted as another type of the same size.

    To convert the value, call the type: wp.float32(x).
    """

def cbrt(x: Float) -> Float:
    """The cube root of x, with the sign of x."""

def ceil(x: Float) -> Float:
    """The smallest integer not below x, as a float."""

def clamp(x: Number, low: Number, high: Number) -> Number:
    """The value between low and high that is nearest to x."""

def closest_point_edge_edge(p1: vec3, q1: vec3, p2: vec3, q2: vec3, epsilon: float) -> vec3:
    """Where two segments come closest: (s, t, distance), of the points p1 + s (q1 - p1) and p2 + t (q2 - p2).

    A segment whose squared length is at most epsilon counts as its first point, with s or t zero. Of parallel segments,
    any closest points may be those.
    """

def copysign(x: Float, y: Float) -> Float:
    """|x| with the sign of y."""

def cos(x: Float) -> Float:
    """The cosine of x radians."""

def cosh(x: Float) -> Float:
    """The hyperbolic cosine of x."""

def cross(a: AnyVector, b: AnyVector) -> AnyVector:
    """The cross product of two vectors of length 3."""

@_overload
def curlnoise(state: uint32, xy: vec2, octaves: uint32 = ..., lacunarity: float = 2.0, gain: float = 0.5) -> vec2:
    """A divergence-free field: the curl of Perlin noise, summed over `octaves`.

    Each octave has `lacunarity` times the frequency and `gain` times the amplitude of the one before.
    """

@_overload
def curlnoise(state: uint32, xyz: vec3, octaves: uint32 = ..., lacunarity: float = 2.0, gain: float = 0.5) -> vec3: ...
@_overload
def curlnoise(state: uint32, xyzt: vec4, octaves: uint32 = ..., lacunarity: float = 2.0, gain: float = 0.5) -> vec3: ...
def cw_div(a: Composite, b: Composite) -> Composite:
    """The quotient of two vectors or matrices of the same type, component by component."""

def cw_mul(a: Composite, b: Composite) -> Composite:
    """The product of two vectors or matrices of the same type, component by component."""

def ddot(a: Matrix[Number, Any], b: Matrix[Number, Any]) -> Number:
    """The sum of the products of the entries of two matrices of the same type."""

def degrees(x: Float) -> Float:
    """x radians in degrees."""

def determinant(a: Matrix[Float, Any]) -> Float:
    """The determinant of a square matrix of floats with at most 4 rows, by expansion along the first."""

def diag(vec: Vector[Any, AnyMatrix]) -> AnyMatrix:
    """The matrix with `vec` on the diagonal."""

@_overload
def div(a: Number, b: Number) -> Number:
    """a / b. Integer quotients are truncated towards zero; an integer divided by 0 is -1, all bits set."""

@_overload
def div(a: Linear, b: Number) -> Linear: ...
@_overload
def div(a: Number, b: Linear) -> Linear: ...
@_overload
def div(a: tile[T], b: Any) -> tile[T]: ...
@_overload
def div(a: Any, b: tile[T]) -> tile[T]: ...
@_overload
def div_approx(a: Number, b: Number) -> Number:
    """The same as `div`: a / b, correctly rounded."""

@_overload
def div_approx(a: Linear, b: Number) -> Linear: ...
@_overload
def div_approx(a: Number, b: Linear) -> Linear: ...
@_overload
def div_approx(a: tile[T], b: Any) -> tile[T]: ...
@_overload
def div_approx(a: Any, b: tile[T]) -> tile[T]: ...
@_overload
def dot(a: Vector[Number, Any], b: Vector[Number, Any]) -> Number:
    """The dot product of two vectors, or quaternions, of the same type."""

@_overload
def dot(a: Quaternion[Float], b: Quaternion[Float]) -> Float: ...
@_overload
def eig3(A: mat33) -> tuple[mat33, vec3]:
    """Q, d with A == Q @ diag(d) @ transpose(Q) for symmetric A, where Q is a rotation.

    The eigenvalues are in no particular order. Of any other matrix it decomposes the symmetric part.
    """

@_overload
def eig3(A: mat33, Q: mat33, d: vec3) -> None: ...
@_overload
def eig3(A: mat33d) -> tuple[mat33d, vec3d]: ...
@_overload
def eig3(A: mat33d, Q: mat33d, d: vec3d) -> None: ...
@_overload
def eig3(A: mat33h) -> tuple[mat33h, vec3h]: ...
@_overload
def eig3(A: mat33h, Q: mat33h, d: vec3h) -> None: ...
@_overload
def empty(shape: int, dtype: type[T]) -> array[T]:
    """An array of zeros: in a kernel, a thread-private array; outside kernels, a mutable array.

    `shape` is a constant integer, or a tuple of up to four; `dtype` a scalar, vector, matrix or struct type.

    Raises:
        CompileError: the shape is not constant.
        KernelTypeError: `dtype` is not such a type.
    """

@_overload
def empty(shape: int, dtype: type[float] = float) -> array[float]: ...
@_overload
def empty(shape: tuple[int], dtype: type[T]) -> array[T]: ...
@_overload
def empty(shape: tuple[int], dtype: type[float] = float) -> array[float]: ...
@_overload
def empty(shape: tuple[int, int], dtype: type[T]) -> array2d[T]: ...
@_overload
def empty(shape: tuple[int, int], dtype: type[float] = float) -> array2d[float]: ...
@_overload
def empty(shape: tuple[int, int, int], dtype: type[T]) -> array3d[T]: ...
@_overload
def empty(shape: tuple[int, int, int], dtype: type[float] = float) -> array3d[float]: ...
@_overload
def empty(shape: tuple[int, int, int, int], dtype: type[T]) -> array4d[T]: ...
@_overload
def empty(shape: tuple[int, int, int, int], dtype: type[float] = float) -> array4d[float]: ...
def erf(x: Float) -> Float:
    """The error function of x."""

def erfc(x: Float) -> Float:
    """1 - erf(x), without cancellation."""

def erfcinv(x: Float) -> Float:
    """The inverse of erfc: infinite at 0 and 2, NaN outside."""

def erfinv(x: Float) -> Float:
    """The inverse of erf: infinite at -1 and 1, NaN outside."""

def exp(x: Float) -> Float:
    """e to the power x."""

def expect_eq(a: T, b: T) -> None:
    """Check that two values of the same type are equal: numbers, vectors, matrices or other composites.

    If the check fails, the thread prints a line with both values, and the kernel continues. In debug mode, the launch
    ends with an error that names the line and the thread.
    """

def expect_near(a: T, b: T, tolerance: Any = 1e-6) -> None:
    """Check that two floats, or all components, differ by at most `tolerance`. NaN is near nothing.

    If the check fails, the thread prints a line with both values, and the kernel continues. In debug mode, the launch
    ends with an error that names the line and the thread.
    """

def expect_neq(a: T, b: T) -> None:
    """Check that two values of one type differ.

    If the check fails, the thread prints a line with both values, and the kernel continues. In debug mode, the launch
    ends with an error that names the line and the thread.
    """

def floor(x: Float) -> Float:
    """The largest integer not above x, as a float."""

def floordiv(a: Number, b: Number) -> Number:
    """a // b: the quotient rounded down; an integer divided by 0 is -1, all bits set."""

def fma(x: Float, y: Float, z: Float) -> Float:
    """x * y + z, rounded once if the target has the instruction."""

def frac(x: Float) -> Float:
    """x - trunc(x), which has the sign of x."""

def get_diag(mat: Matrix[Any, AnyVector]) -> AnyVector:
    """The diagonal of a square matrix."""

def hash_grid_point_id(id: uint64, index: int) -> int:
    """The number of the point at a place in the order of the cells, of which close ones are close in space.

    It is -1 for a grid that has not been built.
    """

@_overload
def hash_grid_query(id: uint64, point: vec3, max_dist: float) -> HashGridQuery[float]:
    """The points of a hash grid in the cells that meet a cube about `point`, those of one group if one is given.

    All points within `max_dist` along each axis are among them, each once, and others of the same cells. A loop goes
    over their numbers, `for i in query:` or `while wp.hash_grid_query_next(query, i):`.
    """

@_overload
def hash_grid_query(id: uint64, point: vec3, max_dist: float, group: int) -> HashGridQuery[float]: ...
@_overload
def hash_grid_query(id: uint64, point: vec3d, max_dist: float64) -> HashGridQuery[float64]: ...
@_overload
def hash_grid_query(id: uint64, point: vec3d, max_dist: float64, group: int) -> HashGridQuery[float64]: ...
@_overload
def hash_grid_query(id: uint64, point: vec3h, max_dist: float16) -> HashGridQuery[float16]: ...
@_overload
def hash_grid_query(id: uint64, point: vec3h, max_dist: float16, group: int) -> HashGridQuery[float16]: ...
def hash_grid_query_next(query: HashGridQuery[Any], index: int) -> bool:
    """Set `index` to the next point of a query and return True; return False if there is none."""

def identity(n: int, dtype: Any) -> Any:
    """The n by n matrix of a scalar type with ones on the diagonal and zeros elsewhere; n is a constant."""

@_overload
def intersect_tri_tri(v0: vec3, v1: vec3, v2: vec3, u0: vec3, u1: vec3, u2: vec3) -> int:
    """1 if two triangles, given by their corners, have a common point, otherwise 0.

    A corner that is closer to the plane of the other triangle than 1e-6 over the length of its normal is in the
    plane.
    """

@_overload
def intersect_tri_tri(v0: vec3d, v1: vec3d, v2: vec3d, u0: vec3d, u1: vec3d, u2: vec3d) -> int: ...
def inverse(a: AnyMatrix) -> AnyMatrix:
    """The inverse of a square matrix of floats with at most 4 rows, by cofactors; zero if it is singular."""

def inverse_approx(a: AnyMatrix) -> AnyMatrix:
    """The same as `inverse`."""

@_overload
def invert(a: Int) -> Int:
    """~a: bitwise complement; for bools, logical not."""

@_overload
def invert(a: Composite) -> Composite: ...
@_overload
def isfinite(a: Float) -> bool:
    """True if a, or every component of it, is neither infinite nor NaN."""

@_overload
def isfinite(a: AnyLinear) -> bool: ...
@_overload
def isinf(a: Float) -> bool:
    """True if a, or any component of it, is infinite."""

@_overload
def isinf(a: AnyLinear) -> bool: ...
@_overload
def isnan(a: Float) -> bool:
    """True if a, or any component of it, is NaN."""

@_overload
def isnan(a: AnyLinear) -> bool: ...
def len(a: Any) -> int:
    """The extent of the first dimension of an array, a tile, a vector or a matrix; of a tuple, its length."""

@_overload
def length(a: Vector[Float, Any]) -> Float:
    """The square root of the sum of the squares of the components of a vector of floats, or of a quaternion."""

@_overload
def length(a: Quaternion[Float]) -> Float: ...
@_overload
def length_sq(a: Vector[Number, Any]) -> Number:
    """The sum of the squares of the components of a vector, or of a quaternion."""

@_overload
def length_sq(a: Quaternion[Float]) -> Float: ...
@_overload
def lerp(a: Float, b: Float, t: Float) -> Float:
    """a * (1 - t) + b * t: a at t = 0, b at t = 1."""

@_overload
def lerp(a: Linear, b: Linear, t: Float) -> Linear: ...
def log(x: Float) -> Float:
    """The natural logarithm of x; NaN if x is negative."""

def log10(x: Float) -> Float:
    """The logarithm of x to base 10; NaN if x is negative."""

def log2(x: Float) -> Float:
    """The logarithm of x to base 2; NaN if x is negative."""

@_overload
def lower_bound(arr: array[Number], value: Number) -> int:
    """The index of the first element of a sorted array that is at least `value`; the last index if there is none.

    It looks at the elements from `arr_begin` up to, and without, `arr_end`, or at all.
    """

@_overload
def lower_bound(arr: array[Number], arr_begin: int, arr_end: int, value: Number) -> int: ...
@_overload
def lshift(a: Int, b: Int) -> Int:
    """a << b; 0 if b is at least the width of the type in bits."""

@_overload
def lshift(a: Composite, b: Composite) -> Composite: ...
def matrix(*values: Any, shape: tuple[int, int] | None = None, dtype: Any = None) -> Any:
    """A matrix of `values`, row by row: none for zeros, one for all, or one for each; or a matrix to be converted.

    `shape`, two constants, is left out where a matrix is given; `dtype`, a scalar type, follows from the values.
    """

def matrix_from_cols(*args: Vector[Any, Any]) -> Any:
    """The matrix with these columns, vectors of the same type."""

def matrix_from_rows(*args: Vector[Any, Any]) -> Any:
    """The matrix with these rows, vectors of the same type."""

@_overload
def max(a: Number, b: Number) -> Number:
    """The larger of a and b, component by component for vectors and matrices; of one vector, its greatest component.

    If one argument is NaN, the result is the other one, as in C's fmax. 0 is larger than -0.
    """

@_overload
def max(a: Composite, b: Composite) -> Composite: ...
@_overload
def max(a: Vector[Number, Any]) -> Number: ...
def mesh_eval_face_normal(id: uint64, face: int) -> vec3:
    """The normal of a face, of length 1; zero for no face, and for one without an area."""

def mesh_eval_position(id: uint64, face: int, bary_u: float, bary_v: float) -> vec3:
    """The point of a face whose first two corners have the weights `bary_u` and `bary_v`; zero for no face."""

def mesh_eval_velocity(id: uint64, face: int, bary_u: float, bary_v: float) -> vec3:
    """The velocity of that point of a face; zero for no face, and where the mesh has no velocities."""

def mesh_get(id: uint64) -> Mesh:
    """The arrays of a mesh: its `points`, `velocities` and `indices`, as fields."""

def mesh_get_bvh(id: uint64) -> uint64:
    """The tree of the boxes of a mesh's faces, for the queries of trees."""

def mesh_get_group_root(id: uint64, group: int) -> int:
    """The `root` of queries for the faces of one group; -1, which is all faces, where there is no such group."""

def mesh_get_index(id: uint64, index: int) -> int:
    """The number of the point of corner `index`; -1 where there is none."""

def mesh_get_point(id: uint64, index: int) -> vec3:
    """The point of corner `index`: that of number `indices[index]`; zero where there is none."""

def mesh_get_velocity(id: uint64, index: int) -> vec3:
    """The velocity of the point of corner `index`; zero where there is none."""

def mesh_query_aabb(id: uint64, low: vec3, high: vec3) -> MeshQueryAABB:
    """The faces of a mesh whose boxes intersect the box from `low` to `high`: a loop iterates over their indices."""

def mesh_query_aabb_next(query: MeshQuery | MeshQueryAABB, index: int) -> bool:
    """Set `index` to the next face of a query and return True; return False if there is none."""

def mesh_query_aabb_next_tiled(query: MeshQueryAABBTiled) -> tile[int]:
    """`tile_mesh_query_aabb_next` under its older name."""

def mesh_query_aabb_tiled(id: uint64, low: vec3, high: vec3) -> MeshQueryAABBTiled:
    """`tile_mesh_query_aabb` under its older name."""

@_overload
def mesh_query_furthest_point_no_sign(id: uint64, point: vec3, min_dist: float) -> MeshQueryPoint:
    """The point of a mesh that is farthest from `point`, if one is farther away than `min_dist`: a corner of a face.

    With output arguments, it returns True if there is one, and otherwise does not change them.
    """

@_overload
def mesh_query_furthest_point_no_sign(
    id: uint64, point: vec3, min_dist: float, face: int, bary_u: float, bary_v: float
) -> bool: ...
def mesh_query_next(query: MeshQuery | MeshQueryAABB, index: int) -> bool:
    """Set `index` to the next face of a query and return True; return False if there is none."""

@_overload
def mesh_query_point(id: uint64, point: vec3, max_dist: float) -> MeshQueryPoint:
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    Three rays along the axes decide the side, which is right for meshes without holes.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them.
    """

@_overload
def mesh_query_point(
    id: uint64, point: vec3, max_dist: float, inside: float, face: int, bary_u: float, bary_v: float
) -> bool: ...
@_overload
def mesh_query_point_no_sign(id: uint64, point: vec3, max_dist: float) -> MeshQueryPoint:
    """The point of a mesh that is closest to `point`, if one is closer than `max_dist`.

    With output arguments, it returns True if there is one, and otherwise does not change them. Faces without
    an area, or with a NaN corner, are not found.
    """

@_overload
def mesh_query_point_no_sign(
    id: uint64, point: vec3, max_dist: float, face: int, bary_u: float, bary_v: float
) -> bool: ...
@_overload
def mesh_query_point_sign_normal(id: uint64, point: vec3, max_dist: float, epsilon: float = 1.0e-3) -> MeshQueryPoint:
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    The normals of the closest faces (within `epsilon` mean edge lengths) decide the side: fast, and right for
    meshes without holes and with normals that point outward.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them.
    """

@_overload
def mesh_query_point_sign_normal(
    id: uint64,
    point: vec3,
    max_dist: float,
    inside: float,
    face: int,
    bary_u: float,
    bary_v: float,
    epsilon: float = 1.0e-3,
) -> bool: ...
@_overload
def mesh_query_point_sign_parity(
    id: uint64, point: vec3, max_dist: float, n_sample: int = 1, perturbation_scale: float = 0.1
) -> MeshQueryPoint:
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    `n_sample` rays along (1, 1, 1), perturbed by up to `perturbation_scale`, decide the side by the number of faces
    that they intersect.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them.
    """

@_overload
def mesh_query_point_sign_parity(
    id: uint64,
    point: vec3,
    max_dist: float,
    inside: float,
    face: int,
    bary_u: float,
    bary_v: float,
    n_sample: int = 1,
    perturbation_scale: float = 0.1,
) -> bool: ...
@_overload
def mesh_query_point_sign_winding_number(
    id: uint64, point: vec3, max_dist: float, accuracy: float = 2.0, threshold: float = 0.5
) -> MeshQueryPoint:
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    It is inside where the winding number is above `threshold`, also of meshes with holes; the mesh needs
    `support_winding_number=True`. Parts farther away than `accuracy` times their size are approximated.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them.
    """

@_overload
def mesh_query_point_sign_winding_number(
    id: uint64,
    point: vec3,
    max_dist: float,
    inside: float,
    face: int,
    bary_u: float,
    bary_v: float,
    accuracy: float = 2.0,
    threshold: float = 0.5,
) -> bool: ...
@_overload
def mesh_query_ray(id: uint64, start: vec3, dir: vec3, max_t: float, root: int = -1) -> MeshQueryRay:
    """The first intersection of a ray from `start` with a mesh, if there is one before `start + max_t * dir`.

    With output arguments, it returns True if there is one, else it does not change them. No ray passes between two
    faces that share an edge. A ray without a direction, and faces without an area or with a NaN corner, intersect
    nothing. `root` from `mesh_get_group_root` restricts the query to the faces of one group.
    """

@_overload
def mesh_query_ray(
    id: uint64,
    start: vec3,
    dir: vec3,
    max_t: float,
    t: float,
    bary_u: float,
    bary_v: float,
    sign: float,
    normal: vec3,
    face: int,
    root: int = -1,
) -> bool: ...
def mesh_query_ray_anyhit(id: uint64, start: vec3, dir: vec3, max_t: float, root: int = -1) -> bool:
    """True if a ray intersects a mesh before `start + max_t * dir`."""

def mesh_query_ray_count_intersections(id: uint64, start: vec3, dir: vec3, root: int = -1) -> int:
    """The number of faces of a mesh that a ray intersects."""

def mesh_query_sphere(id: uint64, center: vec3, radius: float) -> MeshQuery:
    """The faces of a mesh with a point within `radius` of `center`: a loop iterates over their indices."""

@_overload
def min(a: Number, b: Number) -> Number:
    """The smaller of a and b, component by component for vectors and matrices; of one vector, its least component.

    If one argument is NaN, the result is the other one, as in C's fmin. -0 is smaller than 0.
    """

@_overload
def min(a: Composite, b: Composite) -> Composite: ...
@_overload
def min(a: Vector[Number, Any]) -> Number: ...
@_overload
def mod(a: Number, b: Number) -> Number:
    """The remainder of a / b with the sign of a, as in C. For integers and b == 0, it is a."""

@_overload
def mod(a: Composite, b: Composite) -> Composite: ...
@_overload
def mul(a: Number, b: Number) -> Number:
    """a * b: of numbers, of a number and each component, or the product of matrices, quaternions or transforms.

    Integers wrap around. Two vectors have no product: see `dot`, `cross`, `outer` and `cw_mul`.
    """

@_overload
def mul(a: Linear, b: Number) -> Linear: ...
@_overload
def mul(a: Number, b: Linear) -> Linear: ...
@_overload
def mul(a: AnyQuaternion, b: AnyQuaternion) -> AnyQuaternion: ...
@_overload
def mul(a: AnyTransform, b: AnyTransform) -> AnyTransform: ...
@_overload
def mul(a: AnyMatrix, b: AnyMatrix) -> AnyMatrix: ...
@_overload
def mul(a: Matrix[Any, AnyVector], b: AnyVector) -> AnyVector: ...
@_overload
def mul(a: AnyVector, b: Matrix[Any, AnyVector]) -> AnyVector: ...
@_overload
def mul(a: tile[T], b: Any) -> tile[T]: ...
@_overload
def mul(a: Any, b: tile[T]) -> tile[T]: ...
@_overload
def neg(x: Number) -> Number:
    """-x."""

@_overload
def neg(x: Linear) -> Linear: ...
@_overload
def neg(x: tile[T]) -> tile[T]: ...
@_overload
def noise(state: uint32, x: float) -> float:
    """Perlin noise at a position: smooth, and zero at integers. `state` selects the field and does not change."""

@_overload
def noise(state: uint32, xy: vec2) -> float: ...
@_overload
def noise(state: uint32, xyz: vec3) -> float: ...
@_overload
def noise(state: uint32, xyzt: vec4) -> float: ...
def nonzero(x: Number) -> Number:
    """0 if x is 0, otherwise 1."""

def norm_huber(v: Vector[Float, Any], delta: float = 1.0) -> Float:
    """Half the square of |v| up to delta, from there on linear."""

def norm_l1(v: Vector[Float, Any]) -> Float:
    """The sum of the absolute values of the components; for integers, a float."""

def norm_l2(v: Vector[Float, Any]) -> Float:
    """The length of v; for integers, a float."""

def norm_pseudo_huber(v: Vector[Float, Any], delta: float = 1.0) -> Float:
    """delta * sqrt(1 + |v|**2 / delta**2), a smooth form of the Huber norm, which is delta at zero."""

@_overload
def normalize(a: AnyVector) -> AnyVector:
    """a / length(a). If the length is zero: a vector of zeros, or the quaternion 0, 0, 0, 1."""

@_overload
def normalize(a: AnyQuaternion) -> AnyQuaternion: ...
def outer(a: Vector[Any, AnyMatrix], b: Vector[Any, AnyMatrix]) -> AnyMatrix:
    """The matrix of the products a[i] * b[j] of two vectors with the same component type; lengths may differ."""

@_overload
def pnoise(state: uint32, x: float, px: int) -> float:
    """Perlin noise that repeats after `px` units along the first axis and so on, at places that are not negative."""

@_overload
def pnoise(state: uint32, xy: vec2, px: int, py: int) -> float: ...
@_overload
def pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> float: ...
@_overload
def pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> float: ...
def poisson(state: uint32, lam: float) -> uint32:
    """A number with the Poisson distribution of mean `lam`. It uses several random numbers, none if `lam` is 0."""

@_overload
def polar(A: mat22) -> tuple[mat22, mat22]:
    """R, S with A == R @ S, where R is the nearest rotation and S the symmetric stretch.

    Both are smooth, also where stretches are equal. R of a 2x2 matrix with a negative determinant is a reflection; of a
    3x3 matrix S then has a negative eigenvalue, the one of least magnitude. Warp has no such function.
    """

@_overload
def polar(A: mat33) -> tuple[mat33, mat33]: ...
@_overload
def polar(A: mat22d) -> tuple[mat22d, mat22d]: ...
@_overload
def polar(A: mat33d) -> tuple[mat33d, mat33d]: ...
@_overload
def polar(A: mat22h) -> tuple[mat22h, mat22h]: ...
@_overload
def polar(A: mat33h) -> tuple[mat33h, mat33h]: ...
@_overload
def pos(x: Number) -> Number:
    """x itself."""

@_overload
def pos(x: Linear) -> Linear: ...
def pow(x: Float, y: Float) -> Float:
    """x to the power y."""

def print(*values: Any) -> None:
    """Print a line with strings, numbers, vectors and matrices to the standard output for each thread.

    A tile is written once for its block, as `[1 2 3] = tile(shape=(3))`, of at most 256 elements.
    """

def printf(fmt: str, *args: Any) -> None:
    """Print to the standard output for each thread, formatted as in C.

    `fmt` is a constant string with %d %i %u %x %X %o %c %f %e %g and %%; there is one number for each.

    Raises:
        CompileError: the format is not constant, or asks for another number of values.
        KernelTypeError: a value is no number, or of the wrong kind.
    """

@_overload
def qr3(A: mat33) -> tuple[mat33, mat33]:
    """Q, R with A == Q @ R, where Q is a rotation and R upper triangular.

    The first two entries on the diagonal of R are not negative.
    """

@_overload
def qr3(A: mat33, Q: mat33, R: mat33) -> None: ...
@_overload
def qr3(A: mat33d) -> tuple[mat33d, mat33d]: ...
@_overload
def qr3(A: mat33d, Q: mat33d, R: mat33d) -> None: ...
@_overload
def qr3(A: mat33h) -> tuple[mat33h, mat33h]: ...
@_overload
def qr3(A: mat33h, Q: mat33h, R: mat33h) -> None: ...
@_overload
def quat_between_vectors(a: vec3, b: vec3) -> quat:
    """The smallest rotation from the direction of a to that of b; for opposite ones, by pi about a perpendicular axis.

    The derivative grows without bound towards opposite directions; at them it is zero. Where one is zero there is no
    turn.
    """

@_overload
def quat_between_vectors(a: vec3d, b: vec3d) -> quatd: ...
@_overload
def quat_between_vectors(a: vec3h, b: vec3h) -> quath: ...
@_overload
def quat_from_axis_angle(axis: vec3, angle: float) -> quat:
    """The rotation about an axis of length 1 by an angle in radians: axis * sin(angle / 2), cos(angle / 2)."""

@_overload
def quat_from_axis_angle(axis: vec3d, angle: float64) -> quatd: ...
@_overload
def quat_from_axis_angle(axis: vec3h, angle: float16) -> quath: ...
@_overload
def quat_from_euler(e: vec3, i: int, j: int, k: int) -> quat:
    """The rotation by e[i] about axis i, then e[j] about axis j, then e[k] about axis k, with fixed axes; in radians.

    Axes are 0, 1 and 2, and e has the angle about each: with k == i the first and the third are the same.
    """

@_overload
def quat_from_euler(e: vec3d, i: int, j: int, k: int) -> quatd: ...
@_overload
def quat_from_euler(e: vec3h, i: int, j: int, k: int) -> quath: ...
@_overload
def quat_from_matrix(mat: mat33) -> quat:
    """The quaternion, of length 1, of a rotation: a 3 by 3 matrix, or the upper left part of one of 4 by 4.

    Which of q and -q depends on the largest entry of the diagonal, and w >= 0 where the trace is not negative. Of a
    matrix that is no rotation it depends on that, too, what it is and what its derivative is.
    """

@_overload
def quat_from_matrix(mat: mat44) -> quat: ...
@_overload
def quat_from_matrix(mat: mat33d) -> quatd: ...
@_overload
def quat_from_matrix(mat: mat44d) -> quatd: ...
@_overload
def quat_from_matrix(mat: mat33h) -> quath: ...
@_overload
def quat_from_matrix(mat: mat44h) -> quath: ...
def quat_identity(dtype: Any = None) -> Any:
    """The identity rotation, the quaternion 0, 0, 0, 1, of a float type (default float32)."""

@_overload
def quat_inverse(quat: quat) -> quat:
    """The quaternion -x, -y, -z, w: the inverse of one of length 1."""

@_overload
def quat_inverse(quat: quatd) -> quatd: ...
@_overload
def quat_inverse(quat: quath) -> quath: ...
@_overload
def quat_rotate(quat: quat, vec: vec3) -> vec3:
    """The vector rotated by a quaternion of length 1.

    It is (2 w^2 - 1) vec + 2 (u . vec) u + 2 w u x vec, where u is x, y, z.
    """

@_overload
def quat_rotate(quat: quatd, vec: vec3d) -> vec3d: ...
@_overload
def quat_rotate(quat: quath, vec: vec3h) -> vec3h: ...
@_overload
def quat_rotate_inv(quat: quat, vec: vec3) -> vec3:
    """The vector rotated by the inverse of a quaternion of length 1."""

@_overload
def quat_rotate_inv(quat: quatd, vec: vec3d) -> vec3d: ...
@_overload
def quat_rotate_inv(quat: quath, vec: vec3h) -> vec3h: ...
@_overload
def quat_rpy(roll: float, pitch: float, yaw: float) -> quat:
    """The rotation by roll about x, then pitch about y, then yaw about z, with fixed axes; in radians."""

@_overload
def quat_rpy(roll: float64, pitch: float64, yaw: float64) -> quatd: ...
@_overload
def quat_rpy(roll: float16, pitch: float16, yaw: float16) -> quath: ...
@_overload
def quat_slerp(a: quat, b: quat, t: float) -> quat:
    """The rotation between a and b, both of length 1: a at t = 0, b or -b at t = 1, with constant speed.

    It is a * (conjugate(a) * b)^t along the shorter way (Shoemake 1985). For rotations that are pi apart, where
    both ways are equally long, it uses w >= 0 in conjugate(a) * b, and has this derivative.
    """

@_overload
def quat_slerp(a: quatd, b: quatd, t: float64) -> quatd: ...
@_overload
def quat_slerp(a: quath, b: quath, t: float16) -> quath: ...
@_overload
def quat_to_axis_angle(quat: quat) -> tuple[vec3, float]:
    """The axis, of length 1, and the angle, 0 to pi, of the rotation by a quaternion of any length.

    For the identity, the axis and all derivatives are zero, because there is no direction. At
    a rotation by pi, the axis changes its sign with w, and the derivative is that for w >= 0.
    """

@_overload
def quat_to_axis_angle(quat: quat, axis: vec3, angle: float) -> None: ...
@_overload
def quat_to_axis_angle(quat: quatd) -> tuple[vec3d, float64]: ...
@_overload
def quat_to_axis_angle(quat: quatd, axis: vec3d, angle: float64) -> None: ...
@_overload
def quat_to_axis_angle(quat: quath) -> tuple[vec3h, float16]: ...
@_overload
def quat_to_axis_angle(quat: quath, axis: vec3h, angle: float16) -> None: ...
@_overload
def quat_to_euler(q: quat, i: int, j: int, k: int) -> vec3:
    """The angles about the axes i, j and k, in radians, of a quaternion of any length; undoes `quat_from_euler`.

    Axes are 0, 1 and 2. The angle about axis j is -pi/2 to pi/2. Where the other two are not unique (gimbal lock), one
    of them is zero, and derivatives are those of the angles given. With k == i (proper Euler angles) e[i] is the first
    angle, e[j] the second, 0 to pi, and the third stands in the place that is left. (Bernardes and Viollet 2022.)
    """

@_overload
def quat_to_euler(q: quatd, i: int, j: int, k: int) -> vec3d: ...
@_overload
def quat_to_euler(q: quath, i: int, j: int, k: int) -> vec3h: ...
@_overload
def quat_to_matrix(quat: quat) -> mat33:
    """The matrix m with m @ x == quat_rotate(quat, x)."""

@_overload
def quat_to_matrix(quat: quatd) -> mat33d: ...
@_overload
def quat_to_matrix(quat: quath) -> mat33h: ...
@_overload
def quat_to_rpy(q: quat) -> vec3:
    """Roll, pitch and yaw, in radians, of a quaternion of length 1: the inverse of `quat_rpy`.

    Pitch is -pi/2 to pi/2. At these ends (gimbal lock) roll and yaw are not unique and those given may not be of q,
    and pitch has derivative zero; `quat_to_euler(q, 0, 1, 2)` is right there.
    """

@_overload
def quat_to_rpy(q: quatd) -> vec3d: ...
@_overload
def quat_to_rpy(q: quath) -> vec3h: ...
@_overload
def quat_twist(axis: vec3, q: quat) -> quat:
    """The twist of a rotation: its part about an axis of length 1, as a quaternion of length 1.

    If q is a rotation by pi about a perpendicular axis, the twist is 0, 0, 0, 1 with derivative zero.
    """

@_overload
def quat_twist(axis: vec3d, q: quatd) -> quatd: ...
@_overload
def quat_twist(axis: vec3h, q: quath) -> quath: ...
@_overload
def quat_twist_angle(axis: vec3, q: quat) -> float:
    """The unsigned angle, in radians, of the twist of a rotation about an axis of length 1.

    It is 0 to pi for w >= 0, otherwise pi to 2 pi. It has a kink at angle 0, with derivative zero there.
    """

@_overload
def quat_twist_angle(axis: vec3d, q: quatd) -> float64: ...
@_overload
def quat_twist_angle(axis: vec3h, q: quath) -> float16: ...
@_overload
def quat_twist_angle_signed(axis: vec3, q: quat) -> float:
    """The angle, in radians, of the twist of a rotation about an axis of length 1, by the right-hand rule.

    It is -pi to pi for w >= 0, otherwise -2 pi to 2 pi.
    """

@_overload
def quat_twist_angle_signed(axis: vec3d, q: quatd) -> float64: ...
@_overload
def quat_twist_angle_signed(axis: vec3h, q: quath) -> float16: ...
@_overload
def quaternion(*, dtype: Any = None) -> Any:
    """A quaternion of x, y, z, w; of the vector of the first three and w; of another one; or of nothing, zeros.

    `dtype`, a float type, follows from the values where it is left out.
    """

@_overload
def quaternion(quat: Any, *, dtype: Any = None) -> Any: ...
@_overload
def quaternion(ijk: Any, real: Any, *, dtype: Any = None) -> Any: ...
@_overload
def quaternion(x: Any, y: Any, z: Any, w: Any, *, dtype: Any = None) -> Any: ...
def radians(x: Float) -> Float:
    """x degrees in radians."""

@_overload
def rand_init(seed: int) -> uint32:
    """The initial state of a random generator. `offset`, such as the thread index, selects one of many sequences."""

@_overload
def rand_init(seed: int, offset: int) -> uint32: ...
@_overload
def randf(state: uint32) -> float:
    """A float in [0, 1), or in [low, high), with derivatives with respect to `low` and `high`.

    Between 0 and 1 it is a multiple of 2**-24. The variable `state` advances.
    """

@_overload
def randf(state: uint32, low: float, high: float) -> float: ...
@_overload
def randi(state: uint32) -> int:
    """A random int32, or one in [low, high). The variable `state` advances."""

@_overload
def randi(state: uint32, low: int, high: int) -> int: ...
def randn(state: uint32) -> float:
    """A float with the normal distribution of mean 0 and variance 1 (Box and Muller). It takes two random numbers."""

@_overload
def randu(state: uint32) -> uint32:
    """A random uint32, or one in [low, high). The variable `state` advances."""

@_overload
def randu(state: uint32, low: uint32, high: uint32) -> uint32: ...
@_overload
def range(stop: Index, /) -> Range:
    """The integers of a `for` loop. A loop with constant bounds may be unrolled."""

@_overload
def range(start: Index, stop: Index, step: Index = 1, /) -> Range: ...
def rint(x: Float) -> Float:
    """The integer nearest to x as a float; halves go to the even one."""

def round(x: Float) -> Float:
    """The integer nearest to x as a float; halves go away from zero."""

@_overload
def rshift(a: Int, b: Int) -> Int:
    """a >> b, arithmetic for signed integers; all sign bits if b is at least the width of the type in bits."""

@_overload
def rshift(a: Composite, b: Composite) -> Composite: ...
def sample_cdf(state: uint32, cdf: array[float]) -> int:
    """The index of the first element of `cdf`, sorted numbers up to 1, that is not below a random float."""

def sample_triangle(state: uint32) -> vec2:
    """Two barycentric coordinates of a uniformly distributed point in a triangle."""

def sample_unit_cube(state: uint32) -> vec3:
    """A uniformly distributed point in the cube of side 1 around the origin."""

def sample_unit_disk(state: uint32) -> vec2:
    """A uniformly distributed point in the unit disk."""

def sample_unit_hemisphere(state: uint32) -> vec3:
    """A uniformly distributed point in the half of the unit ball with z >= 0."""

def sample_unit_hemisphere_surface(state: uint32) -> vec3:
    """A uniformly distributed point on the half of the unit sphere with z >= 0."""

def sample_unit_ring(state: uint32) -> vec2:
    """A uniformly distributed point on the unit circle."""

def sample_unit_sphere(state: uint32) -> vec3:
    """A uniformly distributed point in the unit ball."""

def sample_unit_sphere_surface(state: uint32) -> vec3:
    """A uniformly distributed point on the unit sphere."""

def sample_unit_square(state: uint32) -> vec2:
    """A uniformly distributed point in the square of side 1 around the origin."""

@_overload
def select(cond: Any, value_if_false: T, value_if_true: T) -> T:
    """Like `where`, with the values in the other order."""

@_overload
def select(arr: array[Any], value_if_false: T, value_if_true: T) -> T: ...
@_overload
def sign(x: Number) -> Number:
    """-1 if x < 0, otherwise 1; component by component for vectors and matrices."""

@_overload
def sign(x: Composite) -> Composite: ...
def sin(x: Float) -> Float:
    """The sine of x radians."""

def sinh(x: Float) -> Float:
    """The hyperbolic sine of x."""

def skew(vec: Vector[Any, AnyMatrix]) -> AnyMatrix:
    """The skew-symmetric matrix m of a vector of length 3, with m @ x == cross(vec, x)."""

def smooth_normalize(v: AnyVector, delta: float = 1.0) -> AnyVector:
    """v divided by its pseudo-Huber norm."""

@_overload
def smoothstep(a: Float, b: Float, x: Float) -> Float:
    """A smooth rise from 0 at x = a to 1 at x = b, and constant outside.

    It is p * p * (3 - 2 * p) where p is (x - a) / (b - a), clamped to [0, 1].
    """

@_overload
def smoothstep(a: Composite, b: Composite, x: Float) -> Composite: ...
@_overload
def spatial_adjoint(r: mat33, s: mat33) -> spatial_matrix:
    """The 6 by 6 matrix of the blocks r, 0 above s, r."""

@_overload
def spatial_adjoint(r: mat33d, s: mat33d) -> spatial_matrixd: ...
@_overload
def spatial_adjoint(r: mat33h, s: mat33h) -> spatial_matrixh: ...
@_overload
def spatial_bottom(svec: spatial_vector) -> vec3:
    """The last three components: the linear velocity, or the force."""

@_overload
def spatial_bottom(svec: spatial_vectord) -> vec3d: ...
@_overload
def spatial_bottom(svec: spatial_vectorh) -> vec3h: ...
@_overload
def spatial_cross(a: spatial_vector, b: spatial_vector) -> spatial_vector:
    """How fast the twist b changes that moves with the twist a: (w x w', v x w' + w x v')."""

@_overload
def spatial_cross(a: spatial_vectord, b: spatial_vectord) -> spatial_vectord: ...
@_overload
def spatial_cross(a: spatial_vectorh, b: spatial_vectorh) -> spatial_vectorh: ...
@_overload
def spatial_cross_dual(a: spatial_vector, b: spatial_vector) -> spatial_vector:
    """How fast the wrench b changes that moves with the twist a: (w x t + v x f, w x f)."""

@_overload
def spatial_cross_dual(a: spatial_vectord, b: spatial_vectord) -> spatial_vectord: ...
@_overload
def spatial_cross_dual(a: spatial_vectorh, b: spatial_vectorh) -> spatial_vectorh: ...
@_overload
def spatial_dot(a: spatial_vector, b: spatial_vector) -> float:
    """The sum of the products of the components: of a wrench and a twist, the power."""

@_overload
def spatial_dot(a: spatial_vectord, b: spatial_vectord) -> float64: ...
@_overload
def spatial_dot(a: spatial_vectorh, b: spatial_vectorh) -> float16: ...
@_overload
def spatial_top(svec: spatial_vector) -> vec3:
    """The first three components: the angular velocity, or the torque."""

@_overload
def spatial_top(svec: spatial_vectord) -> vec3d: ...
@_overload
def spatial_top(svec: spatial_vectorh) -> vec3h: ...
def sqrt(x: Float) -> Float:
    """The square root of x; NaN if x is negative."""

def step(x: Number) -> Number:
    """1 if x < 0, otherwise 0."""

@_overload
def sub(a: Number, b: Number) -> Number:
    """a - b. Integers wrap around."""

@_overload
def sub(a: Linear, b: Linear) -> Linear: ...
@_overload
def sub(a: tile[T], b: tile[T]) -> tile[T]: ...
@_overload
def svd2(A: mat22) -> tuple[mat22, vec2, mat22]:
    """U, sigma, V with A == U @ diag(sigma) @ transpose(V); sigma[0] >= sigma[1] >= 0.

    V is a rotation, U a rotation where the determinant of A is not negative, else a reflection.
    """

@_overload
def svd2(A: mat22, U: mat22, sigma: vec2, V: mat22) -> None: ...
@_overload
def svd2(A: mat22d) -> tuple[mat22d, vec2d, mat22d]: ...
@_overload
def svd2(A: mat22d, U: mat22d, sigma: vec2d, V: mat22d) -> None: ...
@_overload
def svd2(A: mat22h) -> tuple[mat22h, vec2h, mat22h]: ...
@_overload
def svd2(A: mat22h, U: mat22h, sigma: vec2h, V: mat22h) -> None: ...
@_overload
def svd3(A: mat33) -> tuple[mat33, vec3, mat33]:
    """U, sigma, V with A == U @ diag(sigma) @ transpose(V), where U and V are rotations.

    sigma decreases in magnitude; its last component has the sign of the determinant, the others are not negative.
    """

@_overload
def svd3(A: mat33, U: mat33, sigma: vec3, V: mat33) -> None: ...
@_overload
def svd3(A: mat33d) -> tuple[mat33d, vec3d, mat33d]: ...
@_overload
def svd3(A: mat33d, U: mat33d, sigma: vec3d, V: mat33d) -> None: ...
@_overload
def svd3(A: mat33h) -> tuple[mat33h, vec3h, mat33h]: ...
@_overload
def svd3(A: mat33h, U: mat33h, sigma: vec3h, V: mat33h) -> None: ...
def tan(x: Float) -> Float:
    """The tangent of x radians."""

def tanh(x: Float) -> Float:
    """The hyperbolic tangent of x."""

@_overload
def texture_sample(tex: Any, u: float, dtype: type[T], lod: float = -1.0) -> T:
    """The value of a texture at coordinates: `u` along its width, `v` along its height, `w` along its depth.

    `dtype` is `float`, `vec2` or `vec4`: channels that the texture has not are 0. `lod` is the level of detail, if it
    is not negative. Derivatives are by the coordinates, the texels and `lod`; with `CLOSEST`, by the texels.
    """

@_overload
def texture_sample(tex: Any, uv: vec2, dtype: type[T], lod: float = -1.0) -> T: ...
@_overload
def texture_sample(tex: Any, u: float, v: float, dtype: type[T], lod: float = -1.0) -> T: ...
@_overload
def texture_sample(tex: Any, uvw: vec3, dtype: type[T], lod: float = -1.0) -> T: ...
@_overload
def texture_sample(tex: Any, u: float, v: float, w: float, dtype: type[T], lod: float = -1.0) -> T: ...
def tid() -> ThreadIndex:
    """The coordinates of this thread in the launch, each an int32.

    Write `i = wp.tid()` for one launch dimension, `i, j = wp.tid()` for two, and so on for up to four.

    Raises:
        CompileError: It is called in a function, or with different numbers of coordinates in one kernel.
    """

@_overload
def tile_arange(*args: float, dtype: type[T], storage: str = "register") -> tile[T]:
    """A tile of one dimension with the numbers of a range: (stop), (start, stop) or (start, stop, step), constants.

    Raises:
        KernelTypeError: the range is empty, or a number does not fit `dtype`.
        CompileError: a number is not constant.
    """

@_overload
def tile_arange(*args: float, dtype: type[float] = float, storage: str = "register") -> tile[float]: ...
def tile_argmax(a: tile[Any]) -> tile[int]:
    """The index of the first largest element, counted row by row, as a tile of one int32."""

def tile_argmin(a: tile[Any]) -> tile[int]:
    """The index of the first smallest element, counted row by row, as a tile of one int32."""

def tile_assign(dst: tile[Any], src: tile[Any], offset: Offset = None) -> None:
    """Copy a tile into a part of another one, from `offset` on, with the elements converted."""

def tile_astype(t: tile[Any], dtype: type[T]) -> tile[T]:
    """A new tile with the elements of a tile of scalars converted to a scalar type."""

@_overload
def tile_atomic_add(a: array[T], t: tile[T], offset: Offset = None, bounds_check: bool = True) -> tile[T]:
    """Add a tile to the part of an array from `offset` on, each element in one indivisible step.

    Gives the tile of what the elements held before; those outside of the array are dropped, and zero.
    """

@_overload
def tile_atomic_add(a: array2d[T], t: tile[T], offset: Offset = None, bounds_check: bool = True) -> tile[T]: ...
@_overload
def tile_atomic_add(a: array3d[T], t: tile[T], offset: Offset = None, bounds_check: bool = True) -> tile[T]: ...
@_overload
def tile_atomic_add(a: array4d[T], t: tile[T], offset: Offset = None, bounds_check: bool = True) -> tile[T]: ...
@_overload
def tile_atomic_add_indexed(
    a: array[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0
) -> tile[T]:
    """Like `tile_atomic_add`, with the int32 indices in the tile `indices` along `axis`."""

@_overload
def tile_atomic_add_indexed(
    a: array2d[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0
) -> tile[T]: ...
@_overload
def tile_atomic_add_indexed(
    a: array3d[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0
) -> tile[T]: ...
@_overload
def tile_atomic_add_indexed(
    a: array4d[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0
) -> tile[T]: ...
def tile_axpy(alpha: Any, src: tile[T], dest: tile[T]) -> None:
    """dest += alpha * src, for two tiles of one type and shape."""

def tile_broadcast(a: tile[T], shape: Shape) -> tile[T]:
    """A view of another shape that repeats dimensions of extent 1, and has new ones in front."""

def tile_bvh_query_aabb(id: uint64, low: vec3, high: vec3) -> BvhQueryTiled:
    """A block's query for the boxes of a tree that meet the box from `low` to `high`, for `tile_bvh_query_next`.

    The arguments are those of the block's first thread.
    """

def tile_bvh_query_next(query: BvhQueryTiled) -> tile[int]:
    """The numbers of the next boxes of a block's query, a tile with one for each thread, and -1 where there is none.

    Tiles are full but for the last ones: `wp.tile_query_valid(query)` says whether there was any.
    """

def tile_bvh_query_ray(id: uint64, start: vec3, dir: vec3) -> BvhQueryTiled:
    """A block's query for the boxes of a tree that a ray intersects, in no order, for `tile_bvh_query_next`."""

def tile_cholesky(A: tile[T], fill_mode: str = "lower") -> tile[T]:
    """The triangular factor of a symmetric positive definite tile `A` of float32 or float64.

    It is L of L @ L.T == A for the fill mode "lower", U of U.T @ U == A for "upper".
    """

def tile_cholesky_inplace(A: tile[T], fill_mode: str = "lower") -> None:
    """The triangular factor of a symmetric positive definite tile `A` of float32 or float64.

    It is L of L @ L.T == A for the fill mode "lower", U of U.T @ U == A for "upper".

    The result replaces `A`.
    """

def tile_cholesky_solve(L: tile[T], y: tile[T], fill_mode: str = "lower") -> tile[T]:
    """The x of A @ x == y, where `L` is the result of `tile_cholesky` for A with the same fill mode.

    `y` has one dimension, or two for several right-hand sides in columns.
    """

def tile_cholesky_solve_inplace(L: tile[T], y: tile[T], fill_mode: str = "lower") -> None:
    """The x of A @ x == y, where `L` is the result of `tile_cholesky` for A with the same fill mode.

    `y` has one dimension, or two for several right-hand sides in columns.

    The result replaces `y`.
    """

def tile_diag_add(a: tile[T], d: tile[T]) -> tile[T]:
    """A new tile: the square tile `a` with the tile `d` of one dimension added to the diagonal."""

def tile_dot(a: tile[Any], b: tile[Any]) -> tile[Any]:
    """The sum of the products of elements and their components, of two tiles of one type and shape: one element."""

@_overload
def tile_empty(shape: Shape, dtype: type[T], storage: str = "register") -> tile[T]:
    """A tile to be written; elements that are not written are zeros.

    `shape` is a constant integer, or a tuple of up to four; `dtype` a scalar, vector or matrix type.
    `storage` is "register" or "shared"; tiles that are read more than once are in shared memory in any case.
    """

@_overload
def tile_empty(shape: Shape, dtype: type[float] = float, storage: str = "register") -> tile[float]: ...
@_overload
def tile_extract(a: tile[Any], i: Index) -> Any:
    """An element of a tile, with one index for each dimension; with more, a component of it: a[i, j]."""

@_overload
def tile_extract(a: tile[Any], i: Index, j: Index) -> Any: ...
@_overload
def tile_extract(a: tile[Any], i: Index, j: Index, k: Index) -> Any: ...
@_overload
def tile_extract(a: tile[Any], i: Index, j: Index, k: Index, l: Index) -> Any: ...
@_overload
def tile_extract(a: tile[Any], i: Index, j: Index, k: Index, l: Index, m: Index) -> Any: ...
@_overload
def tile_extract(a: tile[Any], i: Index, j: Index, k: Index, l: Index, m: Index, n: Index) -> Any: ...
def tile_fft(inout: tile[Any]) -> None:
    """The Fourier transform: the sum of x[n] * exp(-2 pi i k n / N).

    It takes place along the last dimension. The elements, vec2f or vec2d, are complex numbers: real part, imaginary
    part. The length is made of factors 2, 3 and 5; 7, 11 and 13 may be among them.

    Raises:
        KernelTypeError: the elements are others, or the length has another prime factor.
    """

def tile_from_thread(shape: Shape, value: T, thread_idx: Index, storage: str = "register") -> tile[T]:
    """A tile of the value, a number, vector or matrix, that one thread of the block has."""

@_overload
def tile_full(shape: Shape, value: Any, dtype: type[T], storage: str = "register") -> tile[T]:
    """A tile of one value, a number, vector or matrix.

    `shape` is a constant integer, or a tuple of up to four. With a scalar type `dtype` a number is converted.
    """

@_overload
def tile_full(shape: Shape, value: T, dtype: None = None, storage: str = "register") -> tile[T]: ...
def tile_ifft(inout: tile[Any]) -> None:
    """The inverse Fourier transform times N: the sum of x[k] * exp(2 pi i k n / N).

    It takes place along the last dimension. The elements, vec2f or vec2d, are complex numbers: real part, imaginary
    part. The length is made of factors 2, 3 and 5; 7, 11 and 13 may be among them.

    Raises:
        KernelTypeError: the elements are others, or the length has another prime factor.
    """

@_overload
def tile_load(
    a: array[T],
    shape: Shape,
    offset: Offset = None,
    storage: str = "register",
    bounds_check: bool = True,
    aligned: bool = False,
) -> tile[T]:
    """The part of an array of `shape` from `offset` on; elements outside of the array are zero.

    The array has as many dimensions as the tile; a[i] is the row of one. What `bounds_check`, `aligned` and `storage`
    promise changes no result.
    """

@_overload
def tile_load(
    a: array2d[T],
    shape: Shape,
    offset: Offset = None,
    storage: str = "register",
    bounds_check: bool = True,
    aligned: bool = False,
) -> tile[T]: ...
@_overload
def tile_load(
    a: array3d[T],
    shape: Shape,
    offset: Offset = None,
    storage: str = "register",
    bounds_check: bool = True,
    aligned: bool = False,
) -> tile[T]: ...
@_overload
def tile_load(
    a: array4d[T],
    shape: Shape,
    offset: Offset = None,
    storage: str = "register",
    bounds_check: bool = True,
    aligned: bool = False,
) -> tile[T]: ...
@_overload
def tile_load_indexed(
    a: array[T], indices: tile[int], shape: Shape, offset: Offset = None, axis: int = 0, storage: str = "register"
) -> tile[T]:
    """Like `tile_load`, with the int32 indices in the tile `indices` along `axis`.

    An index that is negative or too large stands for zeros.
    """

@_overload
def tile_load_indexed(
    a: array2d[T], indices: tile[int], shape: Shape, offset: Offset = None, axis: int = 0, storage: str = "register"
) -> tile[T]: ...
@_overload
def tile_load_indexed(
    a: array3d[T], indices: tile[int], shape: Shape, offset: Offset = None, axis: int = 0, storage: str = "register"
) -> tile[T]: ...
@_overload
def tile_load_indexed(
    a: array4d[T], indices: tile[int], shape: Shape, offset: Offset = None, axis: int = 0, storage: str = "register"
) -> tile[T]: ...
def tile_lower_solve(L: tile[T], y: tile[T]) -> tile[T]:
    """The x of L @ x == y for a lower triangular tile `L`; `y` has one or two dimensions."""

def tile_lower_solve_inplace(L: tile[T], y: tile[T]) -> None:
    """The x of L @ x == y for a lower triangular tile `L`; `y` has one or two dimensions.

    The result replaces `y`.
    """

@_overload
def tile_map(op: Callable[[T], Result], a: tile[T]) -> tile[Result]:
    """A new tile: a function, a `@wp.func` or a builtin, applied to each element of `a`.

    Its further arguments are elements of tiles of the same shape, or values that are the same for all.

    Raises:
        KernelTypeError: the shapes differ, or the function gives no number, vector or matrix.
    """

@_overload
def tile_map(op: Callable[..., Any], a: tile[Any], *args: Any) -> tile[Any]: ...
@_overload
def tile_matmul(a: tile[T], b: tile[T], alpha: float = 1.0, precision: str = "default") -> tile[T]:
    """The product of tiles of floats with two dimensions.

    A new tile alpha * a @ b; with a tile `out`, that becomes alpha * a @ b + beta * out.

    Elements of 16 bits are added up in float32 where `out` has that type. With `precision="tf32"` GPUs round
    the elements of float32 to 11 bits before they multiply, as they do where JAX's default precision allows it.

    Raises:
        KernelTypeError: the shapes do not fit, or the elements are no floats.
    """

@_overload
def tile_matmul(
    a: tile[Any], b: tile[Any], out: tile[Any], alpha: float = 1.0, beta: float = 1.0, precision: str = "default"
) -> None: ...
def tile_max(a: tile[T]) -> tile[T]:
    """The largest element of a tile of numbers, as a tile of one element."""

def tile_mesh_query_aabb(id: uint64, low: vec3, high: vec3) -> MeshQueryAABBTiled:
    """A block's query for the faces of a mesh whose boxes meet a box, for `tile_mesh_query_aabb_next`."""

def tile_mesh_query_aabb_next(query: MeshQueryAABBTiled) -> tile[int]:
    """The numbers of the next faces of a block's query, a tile with one for each thread, and -1 where there is none."""

def tile_min(a: tile[T]) -> tile[T]:
    """The smallest element of a tile of numbers, as a tile of one element."""

@_overload
def tile_ones(shape: Shape, dtype: type[T], storage: str = "register") -> tile[T]:
    """A tile of ones.

    `shape` is a constant integer, or a tuple of up to four; `dtype` a scalar, vector or matrix type.
    `storage` is "register" or "shared"; tiles that are read more than once are in shared memory in any case.
    """

@_overload
def tile_ones(shape: Shape, dtype: type[float] = float, storage: str = "register") -> tile[float]: ...
def tile_query_valid(query: BvhQueryTiled | MeshQueryAABBTiled) -> bool:
    """True if a block's query goes on: at first, and then as long as the last tile had a number in it."""

@_overload
def tile_randf(shape: Shape, rng: uint32, storage: str = "register") -> tile[float]:
    """A tile of random floats from 0 to 1, or from `min` to `max`.

    `rng` does not change: a tile of other numbers needs another state. The numbers depend on
    the number of threads in a block.
    """

@_overload
def tile_randf(shape: Shape, rng: uint32, min: float, max: float, storage: str = "register") -> tile[float]: ...
@_overload
def tile_randi(shape: Shape, rng: uint32, storage: str = "register") -> tile[int]:
    """A tile of random int32, or of those from `min` up to, and without, `max`.

    `rng` does not change: a tile of other numbers needs another state. The numbers depend on
    the number of threads in a block.
    """

@_overload
def tile_randi(shape: Shape, rng: uint32, min: int, max: int, storage: str = "register") -> tile[int]: ...
def tile_reduce(op: Callable[[T, T], T], a: tile[T], axis: int | None = None) -> tile[T]:
    """The elements combined by a function of two along an axis, which is left out of the shape; or all.

    Sums, extrema and the like by a builtin are taken in any order, other functions from the first element on.
    """

def tile_reshape(t: tile[T], shape: Shape) -> tile[T]:
    """A view of another shape with as many elements, row by row; one extent may be -1."""

def tile_scan_exclusive(a: tile[T]) -> tile[T]:
    """A new tile with the exclusive cumulative sums, row by row; the first is 0."""

def tile_scan_inclusive(a: tile[T]) -> tile[T]:
    """A new tile with the inclusive cumulative sums, row by row."""

def tile_scan_max_inclusive(a: tile[T]) -> tile[T]:
    """A new tile with the inclusive cumulative maxima, row by row."""

def tile_scan_min_inclusive(a: tile[T]) -> tile[T]:
    """A new tile with the inclusive cumulative minima, row by row."""

@_overload
def tile_scatter_add(a: tile[T], i: Index, value: T, has_value: bool, atomic: bool = True) -> None:
    """Each thread that has a value adds it to an element of a tile: one index for each dimension."""

@_overload
def tile_scatter_add(a: tile[T], i: Index, j: Index, value: T, has_value: bool, atomic: bool = True) -> None: ...
@_overload
def tile_scatter_add(
    a: tile[T], i: Index, j: Index, k: Index, value: T, has_value: bool, atomic: bool = True
) -> None: ...
@_overload
def tile_scatter_add(
    a: tile[T], i: Index, j: Index, k: Index, l: Index, value: T, has_value: bool, atomic: bool = True
) -> None: ...
@_overload
def tile_scatter_masked(a: tile[T], i: Index, value: T, has_value: bool) -> None:
    """Each thread that has a value writes it to an element of a tile: one index for each dimension."""

@_overload
def tile_scatter_masked(a: tile[T], i: Index, j: Index, value: T, has_value: bool) -> None: ...
@_overload
def tile_scatter_masked(a: tile[T], i: Index, j: Index, k: Index, value: T, has_value: bool) -> None: ...
@_overload
def tile_scatter_masked(a: tile[T], i: Index, j: Index, k: Index, l: Index, value: T, has_value: bool) -> None: ...
def tile_slice_indexed(t: tile[T], indices: Any) -> tile[T]:
    """t[indices]: the rows that a tile of int32 among the indices names, as a new tile."""

def tile_sort(keys: tile[Any], values: tile[Any]) -> None:
    """Sort two tiles of one shape in place, in ascending order of the numbers in `keys`.

    `values`, of any type, are reordered with their keys. Tiles of several dimensions are sorted row by row as one.
    The order is stable: equal keys keep their order. NaN come last.

    Raises:
        KernelTypeError: the shapes differ, or the keys are no numbers.
    """

def tile_squeeze(t: tile[T], axis: Shape | None = None) -> tile[T]:
    """A view without the dimensions of extent 1, all or those given; one dimension stays."""

def tile_stack_clear(s: tile_stack[Any]) -> None:
    """Remove all elements of a stack."""

def tile_stack_count(s: tile_stack[Any]) -> int:
    """The number of elements of a stack."""

def tile_stack_pop(s: tile_stack[T]) -> tuple[T, int]:
    """Pop one element for each thread, in the order of the threads.

    Returns the element and its slot; zeros and -1 if no element was left for this thread.
    """

def tile_stack_push(s: tile_stack[T], value: T, has_value: bool) -> int:
    """Push the value of each thread that has one, in the order of the threads.

    Returns the slot of this thread's value; -1 if it has none, or if the stack was full and the value was dropped.
    """

@_overload
def tile_store(
    a: array[T], t: tile[T], offset: Offset = None, bounds_check: bool = True, aligned: bool = False
) -> None:
    """Write a tile to the part of an array from `offset` on; elements outside of the array are dropped."""

@_overload
def tile_store(
    a: array2d[T], t: tile[T], offset: Offset = None, bounds_check: bool = True, aligned: bool = False
) -> None: ...
@_overload
def tile_store(
    a: array3d[T], t: tile[T], offset: Offset = None, bounds_check: bool = True, aligned: bool = False
) -> None: ...
@_overload
def tile_store(
    a: array4d[T], t: tile[T], offset: Offset = None, bounds_check: bool = True, aligned: bool = False
) -> None: ...
@_overload
def tile_store_indexed(a: array[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0) -> None:
    """Like `tile_store`, with the int32 indices in the tile `indices` along `axis`.

    What has an index that is negative or too large is dropped.
    """

@_overload
def tile_store_indexed(a: array2d[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0) -> None: ...
@_overload
def tile_store_indexed(a: array3d[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0) -> None: ...
@_overload
def tile_store_indexed(a: array4d[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0) -> None: ...
def tile_sum(a: tile[T], axis: int | None = None) -> tile[T]:
    """The sum of the elements along an axis, which is left out of the shape; or of all, a tile of one element."""

def tile_transpose(a: tile[T]) -> tile[T]:
    """A view of a tile of two dimensions with rows and columns exchanged."""

def tile_upper_solve(U: tile[T], z: tile[T]) -> tile[T]:
    """The x of U @ x == z for an upper triangular tile `U`; `z` has one or two dimensions."""

def tile_upper_solve_inplace(U: tile[T], z: tile[T]) -> None:
    """The x of U @ x == z for an upper triangular tile `U`; `z` has one or two dimensions.

    The result replaces `z`.
    """

def tile_view(t: tile[T], offset: Any, shape: Shape | None = None) -> tile[T]:
    """A view of a part of a tile.

    With `shape`, as many elements from `offset` on; without, t[offset]: integers leave their axes out, slices keep
    them.
    """

@_overload
def tile_zeros(shape: Shape, dtype: type[T], storage: str = "register") -> tile[T]:
    """A tile of zeros.

    `shape` is a constant integer, or a tuple of up to four; `dtype` a scalar, vector or matrix type.
    `storage` is "register" or "shared"; tiles that are read more than once are in shared memory in any case.
    """

@_overload
def tile_zeros(shape: Shape, dtype: type[float] = float, storage: str = "register") -> tile[float]: ...
def trace(a: Matrix[Number, Any]) -> Number:
    """The sum of the diagonal of a square matrix."""

@_overload
def transform_compose(position: vec3, rotation: quat, scale: vec3) -> mat44:
    """The 4 by 4 matrix that scales along the axes, then rotates, then translates."""

@_overload
def transform_compose(position: vec3d, rotation: quatd, scale: vec3d) -> mat44d: ...
@_overload
def transform_compose(position: vec3h, rotation: quath, scale: vec3h) -> mat44h: ...
@_overload
def transform_decompose(m: mat44) -> tuple[vec3, quat, vec3]:
    """Position, rotation and scale of a 4 by 4 matrix: the inverse of `transform_compose` for positive scales.

    The scales are the lengths of the first three columns; a column of zeros has none, and derivative zero.
    """

@_overload
def transform_decompose(m: mat44d) -> tuple[vec3d, quatd, vec3d]: ...
@_overload
def transform_decompose(m: mat44h) -> tuple[vec3h, quath, vec3h]: ...
@_overload
def transform_from_matrix(mat: mat44) -> transform:
    """The transform of a 4 by 4 matrix with a rotation and a position; see `quat_from_matrix`."""

@_overload
def transform_from_matrix(mat: mat44d) -> transformd: ...
@_overload
def transform_from_matrix(mat: mat44h) -> transformh: ...
@_overload
def transform_get_rotation(xform: transform) -> quat:
    """The rotation of a transform, `xform.q`."""

@_overload
def transform_get_rotation(xform: transformd) -> quatd: ...
@_overload
def transform_get_rotation(xform: transformh) -> quath: ...
@_overload
def transform_get_translation(xform: transform) -> vec3:
    """The position of a transform, `xform.p`."""

@_overload
def transform_get_translation(xform: transformd) -> vec3d: ...
@_overload
def transform_get_translation(xform: transformh) -> vec3h: ...
def transform_identity(dtype: Any = None) -> Any:
    """The identity transform of a float type (default float32)."""

@_overload
def transform_inverse(xform: transform) -> transform:
    """The inverse of a transform whose quaternion has length 1."""

@_overload
def transform_inverse(xform: transformd) -> transformd: ...
@_overload
def transform_inverse(xform: transformh) -> transformh: ...
@_overload
def transform_multiply(a: transform, b: transform) -> transform:
    """a * b: the transform that applies b first, then a."""

@_overload
def transform_multiply(a: transformd, b: transformd) -> transformd: ...
@_overload
def transform_multiply(a: transformh, b: transformh) -> transformh: ...
@_overload
def transform_point(xform: transform, point: vec3) -> vec3:
    """A rotated and translated point: quat_rotate(xform.q, point) + xform.p; or mat @ (point, 1)."""

@_overload
def transform_point(mat: mat44, point: vec3) -> vec3: ...
@_overload
def transform_point(xform: transformd, point: vec3d) -> vec3d: ...
@_overload
def transform_point(mat: mat44d, point: vec3d) -> vec3d: ...
@_overload
def transform_point(xform: transformh, point: vec3h) -> vec3h: ...
@_overload
def transform_point(mat: mat44h, point: vec3h) -> vec3h: ...
@_overload
def transform_set_rotation(xform: transform, q: quat) -> None:
    """Set the rotation of a transform: `xform.q = q`."""

@_overload
def transform_set_rotation(xform: transformd, q: quatd) -> None: ...
@_overload
def transform_set_rotation(xform: transformh, q: quath) -> None: ...
@_overload
def transform_set_translation(xform: transform, p: vec3) -> None:
    """Set the position of a transform: `xform.p = p`."""

@_overload
def transform_set_translation(xform: transformd, p: vec3d) -> None: ...
@_overload
def transform_set_translation(xform: transformh, p: vec3h) -> None: ...
@_overload
def transform_to_matrix(xform: transform) -> mat44:
    """The 4 by 4 matrix of a transform: the rotation at its upper left, the position at its right."""

@_overload
def transform_to_matrix(xform: transformd) -> mat44d: ...
@_overload
def transform_to_matrix(xform: transformh) -> mat44h: ...
@_overload
def transform_twist(t: transform, x: spatial_vector) -> spatial_vector:
    """A twist in the frame that a transform leads to: w' = R w, v' = R v + p x w'."""

@_overload
def transform_twist(t: transformd, x: spatial_vectord) -> spatial_vectord: ...
@_overload
def transform_twist(t: transformh, x: spatial_vectorh) -> spatial_vectorh: ...
@_overload
def transform_vector(xform: transform, vec: vec3) -> vec3:
    """A rotated vector, without translation; or mat @ (vec, 0)."""

@_overload
def transform_vector(mat: mat44, vec: vec3) -> vec3: ...
@_overload
def transform_vector(xform: transformd, vec: vec3d) -> vec3d: ...
@_overload
def transform_vector(mat: mat44d, vec: vec3d) -> vec3d: ...
@_overload
def transform_vector(xform: transformh, vec: vec3h) -> vec3h: ...
@_overload
def transform_vector(mat: mat44h, vec: vec3h) -> vec3h: ...
@_overload
def transform_wrench(t: transform, x: spatial_vector) -> spatial_vector:
    """A wrench in the frame that a transform leads to: f' = R f, t' = R t + p x f'."""

@_overload
def transform_wrench(t: transformd, x: spatial_vectord) -> spatial_vectord: ...
@_overload
def transform_wrench(t: transformh, x: spatial_vectorh) -> spatial_vectorh: ...
@_overload
def transformation(p: Any, q: Any, *, dtype: Any = None) -> Any:
    """A transform of a position and a quaternion, without rotation where that is left out; or of seven numbers.

    Also of one number for all seven, of another transform, or of nothing, zeros: `transform_identity` has a rotation.
    `dtype`, a float type, follows from the values where it is left out.
    """

@_overload
def transformation(p: Any, *, dtype: Any = None) -> Any: ...
@_overload
def transformation(*args: Any, dtype: Any = None) -> Any: ...
def transpose(a: AnyMatrix) -> AnyMatrix:
    """The matrix with rows and columns exchanged."""

def trunc(x: Float) -> Float:
    """x without its fraction."""

@_overload
def unot(a: Number) -> bool:
    """True if a is zero, False, or an array without elements: `not a`."""

@_overload
def unot(a: array[Any]) -> bool: ...
def untile(a: tile[T]) -> T:
    """The element of this thread in a tile whose last axis has one element for each thread of the block."""

def vector(*values: Any, length: int | None = None, dtype: Any = None) -> Any:
    """A vector of `values`: none for zeros, one for all components, or one for each; or a vector to be converted.

    `length`, a constant, and `dtype`, a scalar type, follow from the values where they are left out.
    """

@_overload
def velocity_at_point(qd: spatial_vector, r: vec3) -> vec3:
    """The velocity of a point at r that moves with a twist: v + w x r."""

@_overload
def velocity_at_point(qd: spatial_vectord, r: vec3d) -> vec3d: ...
@_overload
def velocity_at_point(qd: spatial_vectorh, r: vec3h) -> vec3h: ...
@_overload
def volume_index_to_world(id: uint64, uvw: vec3) -> vec3:
    """A position, from index space to world space."""

@_overload
def volume_index_to_world(id: uint64, uvw: vec3d) -> vec3d: ...
def volume_index_to_world_dir(id: uint64, uvw: vec3) -> vec3:
    """A direction, from index space to world space."""

def volume_lookup(id: uint64, i: int, j: int, k: int, dtype: type[T]) -> T:
    """The value of a voxel, of a volume with values of type `dtype`.

    It is the value of the voxel, of its tile, or of the background; zero for a volume of another type.
    """

def volume_lookup_f(id: uint64, i: int, j: int, k: int) -> float:
    """`volume_lookup` of a volume of float32."""

def volume_lookup_i(id: uint64, i: int, j: int, k: int) -> int:
    """`volume_lookup` of a volume of int32."""

def volume_lookup_index(id: uint64, i: int, j: int, k: int) -> int:
    """The index of a voxel among those that have one, in the order of `Volume.get_voxels`; -1 for others."""

def volume_lookup_v(id: uint64, i: int, j: int, k: int) -> vec3:
    """`volume_lookup` of a volume of vec3."""

def volume_sample(id: uint64, uvw: vec3, sampling_mode: int, dtype: type[T]) -> T:
    """The value at a position in index space, of a volume with values of type `dtype`.

    The mode is `wp.Volume.CLOSEST` or `wp.Volume.LINEAR`, between the eight voxels around. Derivatives are by the place
    and by the values.
    """

def volume_sample_f(id: uint64, uvw: vec3, sampling_mode: int) -> float:
    """`volume_sample` of a volume of float32."""

def volume_sample_grad(id: uint64, uvw: vec3, sampling_mode: int, grad: Any, dtype: type[T]) -> T:
    """As `volume_sample`, with the gradient by the place: a vector, or for values of n components a matrix (n, 3)."""

def volume_sample_grad_f(id: uint64, uvw: vec3, sampling_mode: int, grad: vec3) -> float:
    """`volume_sample_grad` of a volume of float32."""

def volume_sample_grad_index(
    id: uint64, uvw: vec3, sampling_mode: int, voxel_data: array[Any], background: Any, grad: Any
) -> Any:
    """As `volume_sample_index`, with the gradient by the place: a vector, or a matrix (n, 3)."""

def volume_sample_i(id: uint64, uvw: vec3) -> int:
    """The value of the closest voxel of a volume of int32."""

def volume_sample_index(id: uint64, uvw: vec3, sampling_mode: int, voxel_data: array[Any], background: Any) -> Any:
    """As `volume_sample`, of the elements of `voxel_data` in the place of values.

    Voxels without an index have the value `background`. Derivatives are by the place and both of these.
    """

def volume_sample_v(id: uint64, uvw: vec3, sampling_mode: int) -> vec3:
    """`volume_sample` of a volume of vec3."""

def volume_store(id: uint64, i: int, j: int, k: int, value: Any) -> None:
    """Set the value of a voxel that has its own value.

    Other voxels, and volumes with values of another type, do not change. Threads that set the same voxel race.
    """

def volume_store_f(id: uint64, i: int, j: int, k: int, value: float) -> None:
    """`volume_store` in a volume of float32."""

def volume_store_i(id: uint64, i: int, j: int, k: int, value: int) -> None:
    """`volume_store` in a volume of int32."""

def volume_store_v(id: uint64, i: int, j: int, k: int, value: vec3) -> None:
    """`volume_store` in a volume of vec3."""

def volume_voxel_count(id: uint64) -> int:
    """The number of voxels of a volume that have an index."""

@_overload
def volume_world_to_index(id: uint64, xyz: vec3) -> vec3:
    """A position, from world space to index space."""

@_overload
def volume_world_to_index(id: uint64, xyz: vec3d) -> vec3d: ...
def volume_world_to_index_dir(id: uint64, xyz: vec3) -> vec3:
    """A direction, from world space to index space."""

@_overload
def where(cond: Any, value_if_true: T, value_if_false: T) -> T:
    """`value_if_true` if the condition holds, otherwise `value_if_false`. Both have one type, and both are computed.

    The condition is a bool, a number, or an array, which is true if it has elements.
    """

@_overload
def where(arr: array[Any], value_if_true: T, value_if_false: T) -> T: ...
@_overload
def zeros(shape: int, dtype: type[T]) -> array[T]:
    """An array of zeros: in a kernel, a thread-private array; outside kernels, a mutable array.

    `shape` is a constant integer, or a tuple of up to four; `dtype` a scalar, vector, matrix or struct type.

    Raises:
        CompileError: the shape is not constant.
        KernelTypeError: `dtype` is not such a type.
    """

@_overload
def zeros(shape: int, dtype: type[float] = float) -> array[float]: ...
@_overload
def zeros(shape: tuple[int], dtype: type[T]) -> array[T]: ...
@_overload
def zeros(shape: tuple[int], dtype: type[float] = float) -> array[float]: ...
@_overload
def zeros(shape: tuple[int, int], dtype: type[T]) -> array2d[T]: ...
@_overload
def zeros(shape: tuple[int, int], dtype: type[float] = float) -> array2d[float]: ...
@_overload
def zeros(shape: tuple[int, int, int], dtype: type[T]) -> array3d[T]: ...
@_overload
def zeros(shape: tuple[int, int, int], dtype: type[float] = float) -> array3d[float]: ...
@_overload
def zeros(shape: tuple[int, int, int, int], dtype: type[T]) -> array4d[T]: ...
@_overload
def zeros(shape: tuple[int, int, int, int], dtype: type[float] = float) -> array4d[float]: ...

Function = Callable[..., Any]
handle = uint64
__version__: str
