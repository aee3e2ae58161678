"""What one launch is, as a value that compares by content, and its encoding for the native module."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jwarp.analysis.affine import Extents
from jwarp.analysis.tape_sizes import fits_thread
from jwarp.autodiff.custom_gradients import plain
from jwarp.caches import MAX_SHAPES, Cache, PerOwner
from jwarp.config import Settings
from jwarp.errors import LaunchError, NotDifferentiableError, Span
from jwarp.frontend.cuda_kernel import Definition, HandwrittenKernel
from jwarp.frontend.kernel import Kernel
from jwarp.ir import nodes
from jwarp.ir.serialize import fingerprint
from jwarp.ir.verify import MAX_BLOCK_DIM
from jwarp.launching.geometry import Geometry, blocks, fold
from jwarp.launching.sizes import Formulas, is_known
from jwarp.passes.instrument import instrument
from jwarp.wire import Binding, Role, encode_launch

# Settings that one kernel is launched under in a program; for others it is read once more.
MAX_SETTINGS = 64
# Threads of a block where neither the kernel nor the launch says.
DEFAULT_BLOCK = 256


def _descriptors() -> Cache[Any, Descriptor]:
    return Cache("launches of a program", MAX_SHAPES)


@dataclass(frozen=True)
class Program:
    """The code of a launch: a kernel's IR under given settings, equal where content and place are.

    The place counts because errors show it. The last parameters of the kernel are outputs of its checks,
    one for each parameter of `shadowed`, which has the shape; launches drop them.
    """

    name: str
    fingerprint: str
    span: Span
    settings: Settings
    kernel: nodes.Kernel = field(compare=False, repr=False)
    written: tuple[int, ...] = field(compare=False, repr=False)
    owner: weakref.ref[Kernel] | None = field(default=None, compare=False, repr=False)
    shadowed: tuple[int, ...] = field(default=(), compare=False, repr=False)
    unchecked: nodes.Kernel | None = field(default=None, compare=False, repr=False)  # what derivatives are of
    # The kernel that a GPU runs, if it is another one with the same parameters, or why there is none.
    on_gpu: nodes.Kernel | NotDifferentiableError | None = field(default=None, compare=False, repr=False)
    authored: tuple[str, ...] = ()  # the fingerprints of gradients that functions bring with them
    handwritten: Definition | None = None  # what stands for the body, which is empty then
    descriptors: Cache[Any, Descriptor] = field(default_factory=_descriptors, compare=False, repr=False)
    derived: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        key = (self.name, self.fingerprint, self.span, self.settings, self.authored)
        object.__setattr__(self, "_hash", hash(key))

    # Every eager launch looks its compiled form up by descriptor and program.
    def __hash__(self) -> int:
        return self._hash

    @property
    def params(self) -> tuple[nodes.Param, ...]:
        """The parameters that a launch gives values for."""
        return self.kernel.params[: len(self.kernel.params) - len(self.shadowed)]

    def arranged(self, dims: tuple[int, ...], block_dim: int | None) -> tuple[Program, Geometry]:
        """The program of launches over `dims` in blocks of `block_dim` threads, and what it is launched over.

        Raises:
            LaunchError: there are too many threads, or they do not make whole blocks for a kernel with tiles.
        """
        if self.is_tiled:
            return self._in_blocks(dims, DEFAULT_BLOCK if block_dim is None else block_dim)
        program = self._over(max(1, len(dims)))
        return program, fold(dims, program.kernel.tid_dims, self.name)

    @property
    def is_tiled(self) -> bool:
        """Whether the kernel is read anew for each size of blocks."""
        return self.kernel.block_dim > 0

    def _in_blocks(self, dims: tuple[int, ...], block_dim: int) -> tuple[Program, Geometry]:
        if block_dim > MAX_BLOCK_DIM:
            raise LaunchError(f"kernel '{self.name}': block_dim must be at most {MAX_BLOCK_DIM}, got {block_dim}")
        geometry, lane_axis = blocks(dims, block_dim, self.kernel.tid_dims, self.name)
        key = ("blocks", block_dim, lane_axis)
        if key not in self.derived:
            kernel = self.owner() if self.owner is not None else None
            assert kernel is not None, "who launches a kernel holds it"
            ir = kernel.block_ir(self.settings, block_dim, lane_axis)
            self.derived.setdefault(key, _program(kernel, ir, self.settings))
        return self.derived[key], geometry

    def _over(self, rank: int) -> Program:
        """The program of launches with `rank` dimensions, which differ for a handwritten kernel: it is told of them."""
        if self.handwritten is None or rank == self.kernel.tid_dims:
            return self
        key = ("over", rank)
        if key not in self.derived:
            kernel = dataclasses.replace(self.kernel, tid_dims=rank)
            made = dataclasses.replace(
                self, kernel=kernel, fingerprint=f"{self.fingerprint}-{rank}", descriptors=_descriptors(), derived={}
            )
            self.derived.setdefault(key, made)
        return self.derived[key]

    @property
    def gpu_kernel(self) -> nodes.Kernel:
        """The kernel that a GPU runs.

        Raises:
            NotDifferentiableError: it is an adjoint that remembers more than a GPU has a place for.
        """
        if isinstance(self.on_gpu, NotDifferentiableError):
            raise self.on_gpu
        kernel = self.on_gpu or self.kernel
        if not fits_thread(kernel):
            raise NotDifferentiableError(
                f"kernel `{self.name}`: its derivative remembers more for each thread than a GPU has a place for",
                self.span,
                "take it on the CPU, or store what loops carry to an array",
            )
        return kernel

    @functools.cached_property
    def lasts(self) -> bool:
        """Whether the kernel must run although nothing needs its results."""
        unseen = not self.written and bool(nodes.failure_texts(self.kernel))
        return unseen or nodes.prints(self.kernel)

    @functools.cached_property
    def dtypes(self) -> tuple[np.dtype, ...]:
        """The NumPy dtype of each parameter, of its elements for an array."""
        return tuple(param.dtype.dtype for param in self.kernel.params)


@dataclass(frozen=True)
class Descriptor:
    """One launch without its data: program, geometry, and the role of each parameter."""

    program: Program
    geometry: Geometry
    roles: tuple[Role, ...]
    block_dim: int | None = None
    ready: set[Extents] = field(default_factory=set, compare=False, repr=False)  # what in-place launches have checked
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.program, self.geometry, self.roles, self.block_dim)))

    def __hash__(self) -> int:
        return self._hash

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
        params = self.program.kernel.params
        return tuple(shape if p.is_array else None for p, shape in zip(params, shapes, strict=True))


def descriptor_of(
    program: Program, geometry: Geometry, roles: tuple[Role, ...], block_dim: int | None = None
) -> Descriptor:
    """The descriptor of these parts; the same object for a launch that is repeated."""
    if not is_known(*geometry.dims, geometry.repeat):
        # Its dimension variables are those of one export, which is over some day.
        return Descriptor(program, geometry, roles, block_dim)
    key = (geometry, roles, block_dim)
    return program.descriptors.made(key, lambda: Descriptor(program, geometry, roles, block_dim))


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


_PROGRAMS: PerOwner[Kernel, Settings, Program] = PerOwner("programs of a kernel", MAX_SETTINGS)


def program_of(kernel: Kernel, settings: Settings) -> Program:
    """The program of `kernel` under `settings`; made once as long as the kernel's IR stays the same."""
    if isinstance(kernel, HandwrittenKernel):
        return _handwritten_program(kernel, settings)
    ir = kernel.ir(settings)
    programs = _PROGRAMS.of(kernel)
    known = programs.get(settings)
    if known is not None and known.unchecked is ir:
        return known
    program = _program(kernel, ir, settings)
    programs.replace(settings, program)
    return program


def _program(kernel: Kernel, ir: nodes.Kernel, settings: Settings) -> Program:
    bounds = settings.debug or settings.bounds == "error"
    made = instrument(plain(ir), bounds=bounds, values=settings.debug)
    identity, written = (ir.name, fingerprint(made.kernel), ir.span, settings), nodes.written_params(ir)
    authored = tuple(fingerprint(g.kernel) for g in ir.gradients)
    return Program(*identity, made.kernel, written, weakref.ref(kernel), made.shadowed, ir, authored=authored)


def _handwritten_program(kernel: HandwrittenKernel, settings: Settings) -> Program:
    """The program of a handwritten kernel, for launches with one dimension."""
    programs = _PROGRAMS.of(kernel)
    known = programs.get(settings)
    if known is not None:
        return known
    definition = kernel.definition
    shell = nodes.Kernel(definition.name, definition.params, 1, nodes.Block(), definition.span)
    content = hashlib.sha256(f"{definition.name}\0{definition.text}".encode()).hexdigest()
    program = Program(
        definition.name, content, definition.span, settings, shell, definition.outputs, weakref.ref(kernel),
        unchecked=shell, handwritten=definition,
    )  # fmt: skip
    return programs.keep(settings, program)
