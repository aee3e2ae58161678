"""A launch as a front door understood it: the one form that every way to run it starts from."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.arrays import cuda_arrays, dlpack
from jwarp.compiler.program_base import Program
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import grouping
from jwarp.launching.adjoints import Request
from jwarp.launching.arguments import Matched, without_absent
from jwarp.launching.geometry import BlockDim


class Kind(enum.Enum):
    """Where a launch leaves what it computes.

    JAX      in new JAX arrays
    HOST     in the caller's arrays in host memory
    DEVICE   in the caller's arrays on a GPU
    """

    JAX = enum.auto()
    HOST = enum.auto()
    DEVICE = enum.auto()


@dataclass(frozen=True)
class LaunchRequest:
    """A launch as it is written: the arguments of `wp.launch`, with a kernel that has been read."""

    kernel: Kernel
    dim: Any
    inputs: Any
    outputs: Any = None
    adj_inputs: Any = None
    adj_outputs: Any = None
    device: Any = None
    stream: Any = None
    adjoint: Any = False
    record_tape: Any = True
    record_cmd: Any = False
    max_blocks: Any = 0
    block_dim: Any = None


def is_mutable(value: Any) -> bool:
    """True if `value` is an array in host memory that a launch writes in place when it is an output."""
    if isinstance(value, np.ndarray):
        return True
    immutable = (jax.Array, jax.ShapeDtypeStruct, tuple, list, int, np.generic)
    return not isinstance(value, immutable) and dlpack.is_exporter(value)


def is_on_device(value: Any) -> bool:
    """True if `value` is an array on a GPU that is no JAX array."""
    return not isinstance(value, (jax.Array, np.ndarray, tuple, int)) and cuda_arrays.is_cuda_array(value)


def kind_of(outputs: Iterable[Any]) -> Kind:
    """How a launch with these outputs runs. Whether the others fit the one that decides is found out there."""
    found = Kind.JAX
    for value in outputs:
        if is_on_device(value):
            return Kind.DEVICE
        if is_mutable(value):
            found = Kind.HOST
    return found


@dataclass(frozen=True)
class Call:
    """A launch with all that was given for it; `request` makes it an adjoint.

    `given` has a role and a value for each parameter as it is written, and `request` is of those. `is_named`: the
    results come back by name. `is_functional`: new arrays come back whatever was given. `is_shared`: one array may be
    given for several parameters that are written. `copied`: parameters whose arrays overlap what is written, and
    are read as they were before. `sharding_rule`: how XLA may cut it for several devices.
    """

    kernel: Kernel
    program: Program
    dims: tuple[int, ...]
    given: Matched
    request: Request | None = None
    block_dim: BlockDim | None = None
    is_named: bool = False
    differentiable: bool = True
    side_effect: bool = False
    is_functional: bool = False
    is_shared: bool = False
    copied: frozenset[int] = frozenset()
    sharding_rule: Any = None

    @functools.cached_property
    def parts(self) -> Matched:
        """The given values by parameter of the IR, where structs are taken apart.

        Raises:
            KernelTypeError, LaunchError: a struct does not fit, or the kernel writes to an input.
        """
        return grouping.expand(self.kernel, self.given, self.program.written)

    @functools.cached_property
    def absent(self) -> frozenset[int]:
        """The arrays of the IR that None is given for."""
        params = enumerate(self.kernel.params)
        return frozenset(p for p, param in params if not param.is_value and self.parts.values[p] is None)

    @functools.cached_property
    def matched(self) -> Matched:
        """The values that the launch takes: `parts`, where an array without elements stands for None."""
        if not self.absent:
            return self.parts
        in_place = self.kind is not Kind.JAX
        return without_absent(self.parts, self.kernel.params, self.absent, self.program.written, in_place=in_place)

    @functools.cached_property
    def gradients(self) -> Request:
        """The request by parameter of the IR."""
        assert self.request is not None
        wanted = grouping.parts_of(self.kernel, self.request.wanted)
        cotangents = grouping.parts_of(self.kernel, self.request.cotangents or {})
        wanted = {p: x for p, x in wanted.items() if x is not None and p not in self.absent}
        cotangents = {p: x for p, x in cotangents.items() if p not in self.absent}
        return Request(wanted, cotangents, self.request.is_named)

    @functools.cached_property
    def kind(self) -> Kind:
        """Where the results go: of a launch by its outputs, of an adjoint by the gradients that are added to.

        Raises:
            LaunchError: some gradients are added to in place, and some are not.
        """
        if self.is_functional:
            return Kind.JAX
        if self.is_shared and self.request is None and all(self.parts.values[p] is None for p in self.parts.outputs):
            # Arrays that change, none of which the kernel writes to.
            return Kind.DEVICE if any(map(is_on_device, self.parts.values)) else Kind.HOST
        found = kind_of(self.parts.values[p] for p in self.parts.outputs)
        if self.request is None or found is Kind.DEVICE:
            return found
        starts = [x for x in self.gradients.wanted.values() if x is not True]
        if any(map(is_on_device, starts)):
            return Kind.DEVICE
        mutable, immutable = any(map(is_mutable, starts)), any(isinstance(x, jax.Array) for x in starts)
        if mutable and immutable:
            raise LaunchError(
                f"kernel '{self.kernel.name}': some adj_inputs are NumPy arrays, which are added to in place, and "
                "some are JAX arrays, which are not",
                hint="pass adj_inputs of one kind",
            )
        return Kind.HOST if mutable or (found is Kind.HOST and not immutable) else Kind.JAX

    @functools.cached_property
    def names(self) -> tuple[str, ...] | None:
        """The names under which the results come back, in order; None for a tuple."""
        if self.request is None:
            return self._names_of(self.given.outputs) if self.is_named else None
        return self._names_of(self.request.wanted) if self.request.is_named else None

    def results(self, by_index: Mapping[int, Any]) -> Any:
        """The result of the call, from the outputs or, for an adjoint, the gradients by parameter of the IR."""
        users = self.given.outputs if self.request is None else tuple(self.request.wanted)
        if self.request is None and self.kernel.has_structs:
            # An output of structs may have numbers among its fields, which the kernel only reads.
            by_index = {**dict(enumerate(self.matched.values)), **by_index}
        if self.absent:
            by_index = {p: value for p, value in by_index.items() if p not in self.absent}
        results = grouping.assemble(self.kernel, users, by_index.get)
        names = self.names
        return tuple(results) if names is None else dict(zip(names, results, strict=True))

    def _names_of(self, users: Any) -> tuple[str, ...]:
        return tuple(self.kernel.signature[u].name for u in users)


def read_kernel(kernel: Any, caller: str) -> Kernel:
    """The kernel that `kernel` is: itself, or jwarp's for one of Warp's.

    Raises:
        KernelTypeError: it is none.
    """
    if isinstance(kernel, Kernel):
        return kernel
    found = as_kernel(kernel)
    if not isinstance(found, Kernel):
        name = getattr(kernel, "__name__", None)
        raise KernelTypeError(
            f"{caller}: expected a kernel, got {type(kernel).__name__}{f' {name!r}' if name else ''}",
            hint="decorate the function with @wp.kernel",
        )
    return found
