"""The program of a kernel whose code is generated, and the programs that are made of it."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.analysis.addressed import addressed
from jwarp.analysis.thread_order import counters
from jwarp.backend.cuda.version import Version
from jwarp.caches import PerOwner
from jwarp.collector import no_collection
from jwarp.compiler import cpu, cuda, pipeline
from jwarp.compiler.derivation_cache import NO_CACHE, DerivationCache
from jwarp.compiler.passes import Context, applies, note, run
from jwarp.compiler.program_base import GpuCode, Pairs, Program
from jwarp.compiler.thread_counts import coordinates, warn_of_other_counts
from jwarp.config import Settings
from jwarp.errors import JwarpError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir import nodes
from jwarp.ir.attributes import numbers_in
from jwarp.ir.contents import contents_of
from jwarp.ir.serialize import fingerprint
from jwarp.ir.verify import MAX_BLOCK_DIM
from jwarp.launching.geometry import BlockDim, Geometry, blocks, fold, is_long, not_whole
from jwarp.passes.instrument import shadowed
from jwarp.types.arrays import Extents
from jwarp.wire import Role

# Settings that one kernel is launched under in a program; for others it is read once more.
MAX_SETTINGS = 64
# Programs that are made of one: for sizes of its blocks, for arrays that are one, and so on.
MAX_FORMS = 64
# Threads of a block where neither the kernel nor the launch says.
DEFAULT_BLOCK = 256


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedProgram(Program):
    """A kernel whose code jwarp generates, or a derivative of one.

    Of a kernel of a user, `unchecked` is what was read: `kernel` may have checks. Its last parameters are
    then outputs of the checks, one for each of `shadows`, which has the shape; launches drop them. A GPU runs
    `on_gpu`, if that is another kernel, with the same parameters. What follows from a program is in its derivation
    `cache`. Where something was left out that is for derivatives, `whole` reads all.
    """

    unchecked: nodes.Kernel | None = None
    whole: Callable[[], nodes.Kernel] | None = None
    shadows: tuple[int, ...] = ()
    on_gpu: nodes.Kernel | None = None
    cache: DerivationCache = NO_CACHE

    @functools.cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.kernel)

    @property
    def _others(self) -> tuple[Hashable, ...]:
        """The gradients that functions bring with them."""
        return tuple(fingerprint(gradient.kernel) for gradient in self.as_read.gradients)

    @functools.cached_property
    def differentiated(self) -> nodes.Kernel:
        """The kernel that derivatives are of."""
        note("as read for derivatives", self.users_kernel)
        kernel, order = run(pipeline.INLINED, self.users_kernel, self.context), self.kernel.order
        return kernel if kernel.order is order else dataclasses.replace(kernel, order=order)

    @property
    def context(self) -> Context:
        """The facts that passes depend on."""
        return _context(self.settings)

    @functools.cached_property
    def simplified(self) -> nodes.Kernel:
        """The same, as small as it gets."""
        return run(pipeline.ANALYSED, self.differentiated, self.context)

    @property
    def as_read(self) -> nodes.Kernel:
        """The kernel as it was read, without checks."""
        return self.unchecked or self.kernel

    @functools.cached_property
    def users_kernel(self) -> nodes.Kernel:
        """The kernel as its user wrote it, with all that derivatives need."""
        return self.whole() if self.whole is not None else self.as_read

    @functools.cached_property
    def counters(self) -> frozenset[int]:
        """The parameters of integers in which what a thread finds depends on the threads before it."""
        made = self.cache.value("counters", lambda: counters(self.kernel), sorted, frozenset)
        return frozenset(p for p in made if not self.kernel.params[p].dtype.is_float)

    @functools.cached_property
    def addressed(self) -> tuple[int, ...]:
        """The parameters whose addresses the kernel takes, as it looks addresses up."""
        return self.cache.value("addressed", lambda: addressed(self.simplified), list, tuple)

    @functools.cached_property
    def looked_at(self) -> frozenset[int] | None:
        """The parameters that the kernel looks at, which is all that a tangent of it reads besides other tangents.

        None where a tangent may also ask what the launch left in an array.
        """

        def made() -> list[int] | None:
            ops, kernel = contents_of(self.simplified.body).ops, self.simplified
            if kernel.gradients or any(n.row.is_atomic and not n.row.is_addition for n in ops):
                return None
            numbers = {
                k for n in ops for role, k in numbers_in(n.attr, n.row.attribute) if role.what in ("array", "parameter")
            }
            return sorted(k for k in numbers if k < len(kernel.params))

        found = self.cache.value("looked at", made, lambda x: x, lambda x: x)
        return None if found is None else frozenset(found)

    def running(self, how: Callable[[nodes.Kernel], dict[str, Any]]) -> GeneratedProgram:
        """The program whose threads run as a rule of `compiler.order` says."""

        def made() -> GeneratedProgram | None:
            changes = how(self.kernel)
            if not changes:
                return None
            cache = self.cache.derived("running", repr(changes))

            def changed(kernel: nodes.Kernel, name: str) -> nodes.Kernel:
                return cache.kernel(name, lambda: dataclasses.replace(kernel, **changes))

            return self.changed(changed, cache)

        return _RUNNING.of(self).made(how, made) or self

    def changed(self, change: Callable[[nodes.Kernel, str], nodes.Kernel], cache: DerivationCache) -> GeneratedProgram:
        """The program of other kernels, which `change` makes of its own and of what their names are."""
        kernel, unchecked, whole = change(self.kernel, "kernel"), self.unchecked, self.whole
        if unchecked is not None:
            unchecked = kernel if unchecked is self.kernel else change(unchecked, "unchecked")
        later = None if whole is None else (lambda: change(whole(), "whole"))
        return dataclasses.replace(self, kernel=kernel, unchecked=unchecked, whole=later, cache=cache)

    def of_derived(
        self, kernel: nodes.Kernel, *, on_gpu: nodes.Kernel | None = None, cache: DerivationCache = NO_CACHE
    ) -> GeneratedProgram:
        """The program of a kernel that was derived from this one's: under the same settings, of the same owner."""
        return GeneratedProgram(kernel, self.settings, self.owner, on_gpu=on_gpu, cache=cache)

    @functools.cached_property
    def written(self) -> tuple[int, ...]:
        return nodes.written_params(self.as_read)

    @property
    def params(self) -> tuple[nodes.Param, ...]:
        return self.kernel.params[: len(self.kernel.params) - len(self.shadows)]

    @property
    def shadowed(self) -> tuple[int, ...]:
        return self.shadows

    @functools.cached_property
    def lasts(self) -> bool:
        unseen = not self.written and bool(nodes.failure_texts(self.kernel))
        return unseen or nodes.prints(self.kernel)

    def arranged(self, dims: tuple[int, ...], block_dim: BlockDim | None) -> tuple[GeneratedProgram, Geometry]:
        if isinstance(block_dim, tuple):
            raise LaunchError(
                f"kernel '{self.name}': block_dim must be a positive int, got {block_dim}",
                hint="blocks with several axes are for kernels of wp.cuda_kernel",
            )
        if self.kernel.block_dim:
            return self._in_blocks(dims, DEFAULT_BLOCK if block_dim is None else block_dim)
        warn_of_other_counts(self.kernel, dims, block_dim)
        # Threads that no code tells apart are repeats of one: their number has 64 bits.
        are_alike = is_long(dims) and not coordinates(self.kernel)
        return self, fold(dims, 0 if are_alike else self.kernel.tid_dims, self.name)

    def _in_blocks(self, dims: tuple[int, ...], block_dim: int) -> tuple[GeneratedProgram, Geometry]:
        """A kernel with tiles is read anew for each size of blocks."""
        if block_dim > MAX_BLOCK_DIM:
            raise LaunchError(f"kernel '{self.name}': block_dim must be at most {MAX_BLOCK_DIM}, got {block_dim}")
        geometry, lane_axis, count, rows = blocks(dims, block_dim, self.kernel.tid_dims, self.name)

        def made() -> GeneratedProgram:
            kernel = self.owner() if self.owner is not None else None
            assert kernel is not None, "who launches a kernel holds it"
            try:
                ir = kernel.block_ir(self.settings, block_dim, lane_axis, count, rows)
            except JwarpError as error:
                if not rows:
                    raise
                raise not_whole(self.name, dims, block_dim, str(error)) from error
            return _generated(kernel, ir, self.settings)

        return _IN_BLOCKS.of(self).made((block_dim, lane_axis, count, rows), made), geometry

    def merged(self, pairs: Pairs) -> GeneratedProgram:
        return _MERGED.of(self).made(pairs, lambda: self._merged(pairs)) if pairs else self

    def _merged(self, pairs: Pairs) -> GeneratedProgram:
        # A kernel of a derivative has no checks of its own: those are in the launch that it belongs to.
        checked = self.unchecked is not None
        context = self.context if checked else Context(self.settings)
        merged = run(pipeline.MERGED, self.differentiated, dataclasses.replace(context, merged=pairs))
        made = run(pipeline.LAUNCHED, merged, context)
        return dataclasses.replace(
            self,
            kernel=made,
            shadows=shadowed(made) if context.checks_values else (),
            unchecked=merged if checked else None,
            whole=None,
            cache=NO_CACHE,
        )

    def refuse_content(self, roles: Sequence[Role]) -> None:
        """It may read all that it writes."""

    def check(self, geometry: Geometry, extents: Extents) -> None:
        if geometry.repeat:
            cpu.lower_kernel(self.kernel, self.settings).check(geometry.dims, extents)

    @functools.cached_property
    def gpu_kernel(self) -> nodes.Kernel:
        """The kernel that a GPU runs. In a deterministic one, sums of floats have an order there, too."""
        return run(pipeline.ON_GPU, self.on_gpu or self.kernel, self.context)

    def gpu_version(
        self, geometry: Geometry, extents: Extents, batch: tuple[int, ...] = (), *, tf32: bool = False
    ) -> Version:
        kernel = cuda.lower_kernel(self.gpu_kernel, self.settings)
        if geometry.repeat:
            kernel.check(geometry.dims, extents)
        return kernel.version(geometry.dims, extents, batch=batch, repeat=geometry.repeat, tf32=tf32)

    def gpu_code(
        self, version: Version, geometry: Geometry, block_dim: BlockDim | None, architectures: Sequence[str]
    ) -> GpuCode:
        kernel = cuda.lower_kernel(self.gpu_kernel, self.settings)
        assert not isinstance(block_dim, tuple), "`arranged` has refused it"
        image = kernel.image(version, architectures, block_dim)
        return GpuCode(image, kernel.plan, image.shared, image.grid, kernel.failure_texts)


PROGRAMS: PerOwner[Kernel, Settings, Program] = PerOwner("programs of a kernel", MAX_SETTINGS)
_IN_BLOCKS: PerOwner[GeneratedProgram, tuple[int, int | None, int | None, tuple[int, ...]], GeneratedProgram] = (
    PerOwner("programs of a kernel with tiles, by size of blocks", MAX_FORMS)
)
_MERGED: PerOwner[GeneratedProgram, Pairs, GeneratedProgram] = PerOwner("programs for arrays that are one", MAX_FORMS)
_RUNNING: PerOwner[GeneratedProgram, Callable, GeneratedProgram | None] = PerOwner(
    "programs that run otherwise", "one for each rule"
)


@functools.singledispatch
def program_of(kernel: Kernel, settings: Settings) -> Program:
    """The program of `kernel` under `settings`; made once as long as the kernel's IR stays the same."""
    settings = kernel.settled(settings)
    programs, (ir, whole) = PROGRAMS.of(kernel), kernel.values_ir(settings)
    known = programs.get(settings)
    if isinstance(known, GeneratedProgram) and known.unchecked is ir:
        return known
    program = _generated(kernel, ir, settings, whole)
    programs.replace(settings, program)
    return program


@functools.singledispatch
def on_host(program: Program, *, adjoint: bool = False) -> GeneratedProgram:
    """The program that does the same on arrays in host memory, or whose adjoint does.

    Raises:
        LaunchError: there is none.
    """
    assert isinstance(program, GeneratedProgram), "programs of another kind have a rule of their own"
    return program


@no_collection()
def _generated(
    kernel: Kernel, ir: nodes.Kernel, settings: Settings, whole: Callable[[], nodes.Kernel] | None = None
) -> GeneratedProgram:
    context, cache = _context(settings), DerivationCache.of(ir, settings)
    if whole is not None:
        cache = cache.derived("values")
    if context.checks_bounds:
        ran = run(pipeline.PROGRAM, ir, context)
    elif applies(pipeline.PROGRAM, ir, context):
        ran = cache.kernel("ran", lambda: run(pipeline.PROGRAM, ir, context))
    else:
        ran = ir
    shadows = shadowed(ran) if context.checks_values else ()
    return GeneratedProgram(ran, settings, weakref.ref(kernel), ir, whole, shadows, cache=cache)


def _context(settings: Settings) -> Context:
    """The facts that the passes of a program depend on."""
    return Context(settings, checks_bounds=settings.debug or settings.bounds == "error", checks_values=settings.debug)
