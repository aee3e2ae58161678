"""Kernels written in Python become JAX functions: `import jwarp as wp`.

The names below are public. Modules and subpackages are not: they change without notice.
"""

from importlib.metadata import version as _version
from typing import Never as _Never

from jwarp import types as types
from jwarp.api import device as device
from jwarp.api.check_grads import check_grads as check_grads
from jwarp.api.cuda_kernel import cuda_kernel as cuda_kernel
from jwarp.api.explain import explain as explain
from jwarp.api.geometry.bvh import Bvh as Bvh
from jwarp.api.geometry.hash_grid import HashGrid as HashGrid
from jwarp.api.geometry.mesh import Mesh as Mesh
from jwarp.api.inspect import inspect as inspect
from jwarp.api.jax_kernel import jax_kernel as jax_kernel
from jwarp.api.launch import launch as launch
from jwarp.api.launch import launch_tiled as launch_tiled
from jwarp.api.map import map as map
from jwarp.api.overload import overload as overload
from jwarp.api.record import Launch as Launch
from jwarp.autodiff import inline as _inline  # noqa: F401 makes gradients of functions
from jwarp.backend.events import CompileEvent as CompileEvent
from jwarp.backend.events import record_compiles as record_compiles
from jwarp.bind import derivatives as _derivatives  # noqa: F401 registers the rules
from jwarp.bind import structs as _structs  # noqa: F401 lets JAX know of structs
from jwarp.bind import transposed as _transposed  # noqa: F401 registers its rule
from jwarp.bind.register import EXPORT_CHECKS as EXPORT_CHECKS
from jwarp.config import DeterministicMode as DeterministicMode
from jwarp.config import config as config
from jwarp.constants import CONSTANTS as _CONSTANTS
from jwarp.errors import CompileError as CompileError
from jwarp.errors import KernelTypeError as KernelTypeError
from jwarp.errors import KernelWarning as KernelWarning
from jwarp.errors import LaunchError as LaunchError
from jwarp.errors import NotDifferentiableError as NotDifferentiableError
from jwarp.frontend.builtins.control import constant as constant
from jwarp.frontend.builtins.control import static as static
from jwarp.frontend.builtins.planned import refuse as _refuse
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
from jwarp.lib import tile_random as _tile_random  # noqa: F401 its rows
from jwarp.lib import transforms as _transforms  # noqa: F401 its rows
from jwarp.lib.geometry import hash_grid as _hash_grid  # noqa: F401 its rows
from jwarp.lib.geometry import mesh_signs as _mesh_signs  # noqa: F401 its rows
from jwarp.lib.geometry import triangle_pairs as _triangle_pairs  # noqa: F401 its rows
from jwarp.lib.geometry.bvh import BvhQuery as BvhQuery
from jwarp.lib.geometry.bvh import MeshQuery as MeshQuery
from jwarp.lib.geometry.bvh import MeshQueryAABB as MeshQueryAABB
from jwarp.lib.geometry.hash_grid import HashGridQuery as HashGridQuery
from jwarp.lib.geometry.mesh import MeshQueryPoint as MeshQueryPoint
from jwarp.lib.geometry.mesh_rays import MeshQueryRay as MeshQueryRay
from jwarp.types import SCALARS as _SCALARS
from jwarp.types import Float as Float
from jwarp.types import Int as Int
from jwarp.types import Scalar as Scalar
from jwarp.types import array as array
from jwarp.types import array1d as array1d
from jwarp.types import array2d as array2d
from jwarp.types import array3d as array3d
from jwarp.types import array4d as array4d
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

globals().update(_CONSTANTS)
globals().update(_SCALARS)  # float32, …, and bool, a type here as in Warp
globals().update(types.NAMED)  # vec3, mat33d, …
globals().update(_BUILTINS)
globals().update({name: row.function for name, row in _LIBRARY.items()})

tile, tile_stack = _tile, _tile_stack  # outside kernels the types of parameters
Function = Func  # as Warp calls it where it annotates a parameter

__version__ = _version("jwarp")


def __getattr__(name: str) -> _Never:
    raise _refuse(name)
