"""The programs of kernels that are written by hand in CUDA C++."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from jwarp.backend.cuda.version import Version
from jwarp.caches import PerOwner
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import PROGRAMS, GeneratedProgram, on_host, program_of
from jwarp.compiler.program_base import GpuCode, Pairs, Program
from jwarp.config import Settings
from jwarp.errors import LaunchError
from jwarp.frontend.cuda_kernel import Definition, HandwrittenKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir import nodes
from jwarp.launching.geometry import BlockDim, Geometry, fold
from jwarp.launching.handwritten import configuration
from jwarp.types.arrays import Extents
from jwarp.wire import Role


@dataclass(frozen=True, eq=False, repr=False)
class HandwrittenProgram(Program):
    """A kernel that is written by hand: `definition` stands for the body of `kernel`, which is empty."""

    definition: Definition = field(kw_only=True)

    @functools.cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.definition.name}\0{self.definition.text}".encode()).hexdigest()
        # The handwritten code gets the launch dimensions.
        return digest if self.kernel.tid_dims == 1 else f"{digest}-{self.kernel.tid_dims}"

    @property
    def _others(self) -> tuple[Hashable, ...]:
        """The definition: all that its author says besides the text."""
        return (self.definition,)

    @property
    def written(self) -> tuple[int, ...]:
        return self.definition.outputs

    @property
    def lasts(self) -> bool:
        return False

    def arranged(self, dims: tuple[int, ...], block_dim: BlockDim | None) -> tuple[HandwrittenProgram, Geometry]:
        rank = max(1, len(dims))
        program = self if rank == self.kernel.tid_dims else _OF_RANK.of(self).made(rank, lambda: self._of_rank(rank))
        return program, fold(dims, rank, self.name)

    def _of_rank(self, rank: int) -> HandwrittenProgram:
        return dataclasses.replace(self, kernel=dataclasses.replace(self.kernel, tid_dims=rank))

    def merged(self, pairs: Pairs) -> HandwrittenProgram:
        for p, q in pairs:
            raise LaunchError(
                f"kernel '{self.name}', output '{self.params[q].name}' and '{self.params[p].name}' are the same array, "
                "and a kernel written in CUDA C++ takes them for different ones",
                hint="pass a copy of one of them, or make them one in-out parameter",
            )
        return self

    def refuse_content(self, roles: Sequence[Role]) -> None:
        for p in self.definition.outputs:
            if roles[p] is Role.IN_OUT and p not in self.definition.in_outs:
                name = self.params[p].name
                raise LaunchError(
                    f"kernel '{self.name}', output '{name}': an array was given for it to start from, and the kernel "
                    "is not said to read it",
                    hint=f"pass a shape, or make the kernel with in_out_argnames=('{name}',)",
                )

    def check(self, geometry: Geometry, extents: Extents) -> None:
        """Check nothing: the author answers for accesses."""

    def gpu_version(
        self, geometry: Geometry, extents: Extents, batch: tuple[int, ...] = (), *, tf32: bool = False
    ) -> Version:
        """The one that there is."""
        return Version("fast")

    def gpu_code(
        self, version: Version, geometry: Geometry, block_dim: BlockDim | None, architectures: Sequence[str]
    ) -> GpuCode:
        asked = configuration(self.definition, geometry.dims[: self.kernel.tid_dims], block_dim)
        kernel = Handwritten(self.definition, self.kernel, self.settings)
        return GpuCode(kernel.image(architectures, asked.blocks), kernel.plan, asked.shared, asked.grid)


_OF_RANK: PerOwner[HandwrittenProgram, int, HandwrittenProgram] = PerOwner(
    "programs of a handwritten kernel, by rank of launches", "ranks of launches, 1 to 4"
)


@program_of.register
def _(kernel: HandwrittenKernel, settings: Settings) -> Program:
    """The program for launches with one dimension."""
    definition = kernel.definition

    def made() -> Program:
        shell = nodes.Kernel(definition.name, definition.params, 1, nodes.Block(), definition.span)
        return HandwrittenProgram(shell, settings, weakref.ref(kernel), definition=definition)

    return PROGRAMS.of(kernel).made(settings, made)


@on_host.register
def _(program: HandwrittenProgram, *, adjoint: bool = False) -> GeneratedProgram:
    """The program of its kernel for the CPU."""
    definition = program.definition
    if adjoint:
        raise LaunchError(
            f"kernel '{program.name}': the adjoint of a kernel written in CUDA C++ is not added to NumPy arrays",
            hint="pass JAX arrays, or True, as adj_inputs and JAX arrays as inputs and outputs",
        )
    if not isinstance(definition.cpu, Kernel):
        raise LaunchError(
            f"kernel '{program.name}' is written in CUDA C++, and there is no kernel for the CPU that could write to "
            "NumPy arrays",
            hint="pass shapes or JAX arrays as outputs, or give a @wp.kernel as cpu= of wp.cuda_kernel",
        )
    found = on_host(program_of(definition.cpu, program.settings))
    written = [i for i in found.written if i not in definition.outputs]
    if written:
        raise LaunchError(
            f"kernel '{program.name}': its kernel for the CPU, '{found.name}', writes to "
            f"'{definition.params[written[0]].name}', which is no output"
        )
    return found
