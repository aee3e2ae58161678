"""One launch as a value that compares by content, and its encoding for the native module."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.ir.nodes import Kernel, Param
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.launching.sizes import Formulas, is_known
from jwarp.types.arrays import Extents
from jwarp.wire import Binding, Role, encode_launch


class Code(Protocol):
    """The code of a launch, as far as the launch knows it: a `compiler.program_base.Program`, equal by content."""

    @property
    def kernel(self) -> Kernel:
        """The parameters, the launch dimensions and the variant."""

    @property
    def name(self) -> str:
        """The name that the author of the kernel gave it."""


P = TypeVar("P", bound=Code, covariant=True)
Q = TypeVar("Q", bound=Code)


@dataclass(frozen=True)
class Descriptor(Generic[P]):
    """One launch without its data: program, geometry, and the role of each parameter.

    With `is_cut`, XLA may cut it into pieces for several devices.
    """

    program: P
    geometry: Geometry
    roles: tuple[Role, ...]
    block_dim: BlockDim | None = None
    is_cut: bool = False
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.program, self.geometry, self.roles, self.block_dim)))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        """Short, as it is shown with each launch of a jaxpr."""
        variant, geometry = self.program.kernel.variant, self.geometry
        name = self.program.name if variant == "forward" else f"{self.program.name}.{variant}"
        dims = ", ".join(map(str, geometry.dims[: max(1, self.program.kernel.tid_dims)]))
        return f"{name}[{dims}]" + (f" x {geometry.repeat}" if geometry.may_repeat else "")

    @functools.cached_property
    def operands(self) -> tuple[int, ...]:
        """The parameters that the launch takes from its caller, in order."""
        return tuple(i for i, role in enumerate(self.roles) if role is not Role.ZEROS)

    @functools.cached_property
    def results(self) -> tuple[int, ...]:
        """The parameters that the launch returns, in order."""
        return tuple(i for i, role in enumerate(self.roles) if role is not Role.READ)

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """The encoding of the launch without batch axes."""
        return encode(self, (), ((),) * len(self.operands), ((),) * len(self.results))

    @property
    def aliases(self) -> dict[int, int]:
        """Operand number to result number, for the parameters that are both."""
        operands, results = self.operands, self.results
        return {operands.index(i): results.index(i) for i in results if self.roles[i] is Role.IN_OUT}

    def extents(self, operands: Sequence[tuple[int, ...]], zeros: Sequence[tuple[int, ...]]) -> Extents:
        """The extents of every parameter, None for scalars, without batch axes.

        `operands` and `zeros` are the shapes of the operands and of the outputs that start as zeros.
        """
        given, fresh = iter(operands), iter(zeros)
        shapes = [next(fresh if role is Role.ZEROS else given) for role in self.roles]
        return extents_of(self.program.kernel.params, shapes)


def extents_of(params: Iterable[Param], shapes: Iterable[tuple[int, ...]]) -> Extents:
    """The shape of each parameter that is an array, None for the others."""
    return tuple(shape if param.is_array else None for param, shape in zip(params, shapes, strict=True))


LaunchKey = tuple[Geometry, tuple[Role, ...], BlockDim | None]

_LAUNCHES: PerOwner[Code, LaunchKey, Descriptor] = PerOwner("launches of a program", MAX_SHAPES)


def descriptor_of(
    program: Q, geometry: Geometry, roles: tuple[Role, ...], block_dim: BlockDim | None = None
) -> Descriptor[Q]:
    """The descriptor of these parts; the same object for a launch that is repeated."""
    if not is_known(*geometry.dims, geometry.repeat):
        # Its dimension variables are those of one export, which is over some day.
        return Descriptor(program, geometry, roles, block_dim)
    key, known = (geometry, roles, block_dim), _LAUNCHES.of(program)
    found = known.get(key)
    return known.keep(key, Descriptor(program, geometry, roles, block_dim)) if found is None else found


def encode(
    launch: Descriptor,
    batch: Sequence[int],
    masks: Sequence[Sequence[bool]],
    result_masks: Sequence[Sequence[bool]],
) -> np.ndarray:
    """The int64 array that the native module decodes.

    `batch` are the extents of the batch axes, outermost first; `masks` and `result_masks` tell for each
    operand and result which of them it has. A result that lacks one is summed over it. Where some sizes are
    symbolic, the call has one more operand, of extents 0 and then the `variables_of` the launch.
    """
    operands, results = launch.operands, launch.results
    formulas = _formulas(launch, batch)
    bindings = []
    for index, role in enumerate(launch.roles):
        operand = operands.index(index) if index in operands else -1
        result = results.index(index) if index in results else -1
        axes = masks[operand] if role is Role.READ else result_masks[result]
        mask = sum(1 << axis for axis, present in enumerate(axes) if present)
        bindings.append(Binding(operand, result, role, mask))
    dims, extents = map(formulas.number, launch.geometry.dims), map(formulas.number, batch)
    repeat = formulas.number(launch.geometry.repeat)
    return encode_launch((*dims,), bindings, (*extents,), repeat, len(formulas.variables), formulas.steps)


def variables_of(launch: Descriptor, batch: Sequence[int]) -> tuple[str, ...]:
    """The dimension variables that the sizes of a launch depend on, in the order of the native module."""
    return _formulas(launch, batch).variables


def _formulas(launch: Descriptor, batch: Sequence[int]) -> Formulas:
    return Formulas(launch.program.name, (*launch.geometry.dims, launch.geometry.repeat, *batch))
