"""The way back through a launch on arrays that change: what it is for its aliases, numbers and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.caches import PerOwner
from jwarp.dispatch.aliases import identical, refuse_overlaps
from jwarp.dispatch.arrays import ArrayLaunch
from jwarp.dispatch.reversal import Reversal, reversal
from jwarp.errors import NotDifferentiableError
from jwarp.ir import nodes
from jwarp.launching.program import GeneratedProgram


class WayBack:
    """The adjoint of a launch, for any of its arrays.

    Attributes:
        of: The array of each parameter that is one.
        same: Parameters that are given the array of another one, and that one.
        floats: The parameters that may have gradients.

    Raises:
        LaunchError: arrays overlap, or the kernel has no adjoint on the CPU.
    """

    def __init__(self, launch: ArrayLaunch):
        self.kernel, self.block_dim, self.values = launch.kernel, launch.block_dim, launch.values
        self.of = {p: a for p, a in enumerate(self.values) if isinstance(a, array)}
        program, self.geometry = launch.program.on_host(adjoint=True).arranged(launch.dims, launch.block_dim)
        self.same: dict[int, int] = {}
        if len({id(a.memory) for a in self.of.values()}) < len(self.of):
            self.same = identical(self.of, program.written)
            refuse_overlaps(program, self.of, self.same)
        self.program = program.merged(tuple(self.same.items()))
        self.written = self.program.written
        self.floats = tuple(p for p in self.of if program.params[p].dtype.is_float and p not in self.same)

    def reversal(self, moving: tuple[int, ...]) -> Reversal | None:
        """The adjoint for the gradients of these parameters; None where nothing of them is written.

        Raises:
            NotDifferentiableError: there is no exact rule, and the gradients that are followed ask for one.
        """
        if not any(p in moving for p in self.written):
            return None
        params = self.program.params
        shapes = tuple(
            None if not param.is_array else self.of[p].layout.full_shape if p in self.of else _nothing(param).shape
            for p, param in enumerate(params)
        )
        numbers = [None if p in self.of else self.number(p) for p in range(len(params))]
        found = reversal(self.program, self.geometry, self.block_dim, shapes, moving, numbers)
        if found.program.kernel.order and not self.program.kernel.order and self.program.kernel.block_dim:
            raise NotDifferentiableError(
                f"kernel `{self.kernel.name}`: threads count in a kernel with tiles, and nobody knows in which order"
                " they did in this launch",
                self.kernel.span,
                "wp.jax_kernel has the gradient",
            )
        return found

    def number(self, p: int) -> np.ndarray:
        """What was given for a parameter that has no array."""
        param, value = self.program.params[p], self.values[p]
        if value is None:
            return _nothing(param)
        return np.asarray(value).astype(param.dtype.dtype)


def _nothing(param: nodes.Param) -> np.ndarray:
    """The array without elements that None stands for."""
    return np.zeros((0,) * getattr(param.type, "ndim", 0), param.dtype.dtype)


_READ_AND_STORED: PerOwner[GeneratedProgram, str, frozenset[Any]] = PerOwner("arrays read and stored to", "one each")


def read_params(program: GeneratedProgram) -> frozenset[Any]:
    """The parameters that a program reads; adding to one does not."""
    ops = (n for n in nodes.walk(program.differentiated.body) if isinstance(n, nodes.Op))
    return frozenset(p for n in ops if not n.row.changes_elements for p in nodes.arrays_read(n))


def read_and_stored(program: GeneratedProgram) -> frozenset[Any]:
    """The parameters that a program both reads and stores to; adding to one is neither."""

    def made() -> frozenset[Any]:
        ops = [n for n in nodes.walk(program.differentiated.body) if isinstance(n, nodes.Op)]
        stored = {p for n in ops if not n.row.reads_elements for p in nodes.arrays_changed(n)}
        return read_params(program) & stored

    return _READ_AND_STORED.of(program).made("forward", made)
