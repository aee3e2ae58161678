"""The public names that the first use of one of them imports, of their modules and of the tables of builtins."""

from importlib.metadata import version as _version
from typing import Any

from jwarp import optim as optim
from jwarp import sparse as sparse
from jwarp import types as _types
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
from jwarp.arrays.array import array as array
from jwarp.arrays.array import array1d as array1d
from jwarp.arrays.array import array2d as array2d
from jwarp.arrays.array import array3d as array3d
from jwarp.arrays.array import array4d as array4d
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
from jwarp.autodiff import inline as _inline  # noqa: F401 makes gradients of functions
from jwarp.backend.events import CompileEvent as CompileEvent
from jwarp.backend.events import record_compiles as record_compiles
from jwarp.bind import derivatives as _derivatives  # noqa: F401 registers the rules
from jwarp.bind import structs as _structs  # noqa: F401 lets JAX know of structs
from jwarp.bind import transposed as _transposed  # noqa: F401 registers its rule
from jwarp.bind.jax_functions.function import jax_func as jax_func
from jwarp.bind.pytrees import register_pytree as register_pytree
from jwarp.bind.pytrees import replace as replace
from jwarp.bind.register import EXPORT_CHECKS as EXPORT_CHECKS
from jwarp.constants import CONSTANTS as _CONSTANTS
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
from jwarp.frontend.builtins.control import constant as constant
from jwarp.frontend.builtins.control import static as static
from jwarp.frontend.builtins.table import BUILTINS as _BUILTINS
from jwarp.frontend.builtins.table import LIBRARY as _LIBRARY
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
from jwarp.lib import decompositions as _decompositions  # noqa: F401 its rows
from jwarp.lib import noise as _noise  # noqa: F401 its rows
from jwarp.lib import norms as _norms  # noqa: F401 its rows
from jwarp.lib import random as _random  # noqa: F401 its rows
from jwarp.lib import rotations as _rotations  # noqa: F401 its rows
from jwarp.lib import search as _search  # noqa: F401 its rows
from jwarp.lib import segments as _segments  # noqa: F401 its rows
from jwarp.lib import spatial as _spatial  # noqa: F401 its rows
from jwarp.lib import textures as _textures  # noqa: F401 its rows
from jwarp.lib import tile_random as _tile_random  # noqa: F401 its rows
from jwarp.lib import transforms as _transforms  # noqa: F401 its rows
from jwarp.lib.geometry import hash_grid as _hash_grid  # noqa: F401 its rows
from jwarp.lib.geometry import mesh_signs as _mesh_signs  # noqa: F401 its rows
from jwarp.lib.geometry import triangle_pairs as _triangle_pairs  # noqa: F401 its rows
from jwarp.lib.geometry import volume_functions as _volume_functions  # noqa: F401 its rows
from jwarp.lib.geometry.bvh import BvhQuery as BvhQuery
from jwarp.lib.geometry.bvh import MeshQuery as MeshQuery
from jwarp.lib.geometry.bvh import MeshQueryAABB as MeshQueryAABB
from jwarp.lib.geometry.hash_grid import HashGridQuery as HashGridQuery
from jwarp.lib.geometry.mesh import MeshQueryPoint as MeshQueryPoint
from jwarp.lib.geometry.mesh_rays import MeshQueryRay as MeshQueryRay
from jwarp.lib.geometry.tile_queries import BvhQueryTiled as BvhQueryTiled
from jwarp.lib.geometry.tile_queries import MeshQueryAABBTiled as MeshQueryAABBTiled
from jwarp.types import SCALARS as _SCALARS
from jwarp.types import Float as Float
from jwarp.types import Int as Int
from jwarp.types import Scalar as Scalar
from jwarp.types import indexedarray as indexedarray
from jwarp.types import indexedarray1d as indexedarray1d
from jwarp.types import indexedarray2d as indexedarray2d
from jwarp.types import indexedarray3d as indexedarray3d
from jwarp.types import indexedarray4d as indexedarray4d
from jwarp.types import ref as ref
from jwarp.types import struct as struct
from jwarp.types import tile as _tile
from jwarp.types import tile_stack as _tile_stack
from jwarp.types.composites import transform_expand as transform_expand

NAMES: dict[str, Any] = {
    **{name: value for name, value in vars().items() if not name.startswith("_") and name != "Any"},
    **_CONSTANTS,
    **_SCALARS,  # float32, …, and bool, a type here as in Warp
    **_types.NAMED,  # vec3, mat33d, …
    **_BUILTINS,
    **{name: row.function for name, row in _LIBRARY.items()},
    "tile": _tile,  # outside kernels the types of parameters
    "tile_stack": _tile_stack,
    "Function": Func,  # as Warp calls it where it annotates a parameter
    "handle": _types.uint64,  # as Warp annotates parameters that are ids of grids, trees and meshes
    "__version__": _version("jwarp"),
}
NAMES["__all__"] = sorted({"config", "types", *NAMES} - {"__version__"})  # for `from jwarp import *`
