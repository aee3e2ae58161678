"""Makes a kernel with tiles one of scalars: loops over memory that a block has for its tiles.

Tiles that only pass from one operation to the next never are in memory: `forms` finds those that are constants,
counts and views of others, `schedule` puts operations element by element into common loop nests, and `memory` lets
the others share memory. `lower`, `nests` and `whole` then write the code.
"""

from __future__ import annotations

from collections.abc import Container

from jwarp.errors import KernelTypeError
from jwarp.ir.nodes import Kernel
from jwarp.ir.verify import MAX_SHARED_BYTES
from jwarp.tiling.canonical import simpler
from jwarp.tiling.lower import Lowering
from jwarp.tiling.tables import with_tables


def lower_tiles(
    kernel: Kernel,
    *,
    routines: Container[str] = (),
    flat: bool = False,
    alone: bool = False,
    tables: bool = False,
) -> Kernel:
    """`kernel` with loops over local arrays in place of tiles.

    `routines` are those that the backend has, of `tile_scan`, `tile_cholesky` and `tile_solve`; without one there
    are loops. Products are always `tile_matmul`. With `flat`, one loop goes over all elements, which are spread over
    the block's lanes; without, the innermost loop is for vectors of elements. Blocks that run `alone`, each in a lane
    of its own, have other loops for operations on whole tiles. With `tables`, arrays of constants hold what operations
    on whole tiles are given in every block alike; without, each block computes it.

    Raises:
        KernelTypeError: the tiles need too much memory.
    """
    kernel, constants = with_tables(kernel) if tables else (kernel, {})
    lowered = Lowering(simpler(kernel), routines, flat, alone, constants).lowered()
    size = shared_bytes(lowered)
    if size > MAX_SHARED_BYTES:
        raise KernelTypeError(
            f"kernel `{kernel.name}`: its tiles need {size} bytes at once, of {MAX_SHARED_BYTES}",
            kernel.span,
            "make the tiles smaller",
        )
    return lowered


def shared_bytes(kernel: Kernel) -> int:
    """How much memory a block of a lowered kernel has for tiles."""
    return sum(local.size * local.dtype.bits // 8 for local in kernel.locals if local.shared)
