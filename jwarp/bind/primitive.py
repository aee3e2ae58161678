"""The launch as a JAX primitive: its type, batching and lowering rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.bind import ahead, compat
from jwarp.bind.devices import architectures, may_have_gpu
from jwarp.bind.symbolic import lower_variables, refuse_other_scopes
from jwarp.bind.targets import CUDA_DEBUG_TARGET, CUDA_TARGET, TARGET, note_place
from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.collector import no_collection
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.launch_forms import spread_launch, with_lanes, with_private_elements
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.program_base import GpuCode, Program
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.batch import Batch
from jwarp.launching.descriptor import Descriptor, descriptor_of, encode
from jwarp.launching.geometry import MAX_EXTENT
from jwarp.launching.sizes import Symbolic, are_known
from jwarp.types.arrays import Extents
from jwarp.wire import Role

Shapes = tuple[tuple[int, ...], ...]

# Parameters, besides the operands in order of the kernel's parameters:
#   launch          Descriptor
#   zeros           shapes of the outputs that start as zeros, without batch axes
#   batch           Batch
#   differentiable  False where the user switched gradients off
#   side_effect     True where XLA must keep a call whose results are not used
# One result for each parameter of role ZEROS or IN_OUT, in order, with all batch axes.
# Sizes in `launch`, `zeros` and `batch` may be symbolic while a function is exported.
launch_p = compat.Primitive("jwarp_launch")
launch_p.multiple_results = True
# The same of launches that XLA may cut into pieces: `sharding` lowers it.
cut_launch_p = compat.Primitive("jwarp_cut_launch")
cut_launch_p.multiple_results = True
LAUNCHES = (launch_p, cut_launch_p)


def launch_primitive(launch: Descriptor) -> compat.Primitive:
    """The primitive that a launch is bound as."""
    return cut_launch_p if launch.is_cut else launch_p


def bind(
    operands: Sequence[Any],
    launch: Descriptor[GeneratedProgram],
    zeros: Shapes,
    *,
    differentiable: bool = True,
    side_effect: bool = False,
) -> list[Any]:
    """One launch without batch axes; the results in order of the kernel's parameters."""
    params = _unbatched(launch, zeros, differentiable, side_effect)
    return launch_primitive(launch).bind(*compat.placed_alike(operands), **params)


def _unbatched(launch: Descriptor, zeros: Shapes, differentiable: bool, side_effect: bool) -> dict[str, Any]:
    return {
        "launch": launch,
        "zeros": zeros,
        "batch": Batch.none(len(launch.operands), len(launch.results)),
        "differentiable": differentiable,
        "side_effect": side_effect,
    }


def eager(
    launch: Descriptor[GeneratedProgram], zeros: Shapes, *, differentiable: bool = True, side_effect: bool = False
) -> Callable[..., list[Any]]:
    """The function of concrete operands that `bind` runs, for who calls it again and again."""
    return reporting(jitted(launch_primitive(launch), _unbatched(launch, zeros, differentiable, side_effect)))


def reporting(compiled: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The function, with the errors of running programs as JAX reports them elsewhere."""

    def run(*operands: Any) -> list[Any]:
        try:
            return compiled(*operands)
        except ValueError as error:
            raise _as_runtime_error(error) from None

    return run


def _as_runtime_error(error: ValueError) -> Exception:
    """JAX's quick path for repeated calls makes a ValueError of what a running program reports."""
    ours = type(error) is ValueError and "jwarp: kernel" in str(error)
    return RuntimeError(str(error)) if ours else error


# Eager calls


# By kernel, so that one that is dropped does not leave its executables behind: JAX keeps what it made of a
# function as long as the function, and that refers to the launch, which must not refer to the function.
_JITTED: PerOwner[Kernel, Any, Callable[..., list[Any]]] = PerOwner("jitted launches of a kernel", MAX_SHAPES)


def jitted(primitive: compat.Primitive, params: dict[str, Any]) -> Callable[..., list[Any]]:
    """The compiled form of an eager launch, made once."""
    key = (primitive, *params.items())
    return made_once(params["launch"], params["zeros"], key, lambda: _jit(primitive, params))


def made_once(
    launch: Descriptor, zeros: Sequence[tuple[int, ...]], key: Hashable, make: Callable[[], Callable[..., list[Any]]]
) -> Callable[..., list[Any]]:
    """The result of `make` for a launch, cached by launch and `key` for as long as the kernel exists."""
    owner = launch.program.owner
    kernel = owner() if owner else None
    if kernel is None or not is_fixed(launch, zeros):
        return make()
    return _JITTED.of(kernel).made((launch, zeros, key), make)


def is_fixed(launch: Descriptor, zeros: Sequence[tuple[int, ...]]) -> bool:
    """True if no size of a launch without a batch is symbolic, so that it may be cached."""
    return are_known((launch.geometry.dims, (launch.geometry.repeat,), *zeros))


def _jit(primitive: compat.Primitive, params: dict[str, Any]) -> Callable[..., list[Any]]:
    def run(*operands: Any) -> list[Any]:
        return primitive.bind(*operands, **params)

    program = params["launch"].program
    # Shown by JAX's profiler and compile log.
    run.__name__ = program.name
    return jax.jit(compat.single_operation(run, f"{_shown_name(program)}, {program.span}"))


def run_eagerly(primitive: compat.Primitive, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Compile and run on concrete values."""
    try:
        if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            with jax.disable_jit(False):
                return jitted(primitive, params)(*operands)
        return jitted(primitive, params)(*operands)
    except ValueError as error:
        raise _as_runtime_error(error) from None


for _primitive in LAUNCHES:
    _primitive.def_impl(lambda *operands, _own=_primitive, **params: run_eagerly(_own, operands, params))


# Types


def core_extents(avals: Sequence[Any], launch: Descriptor, zeros: Shapes, batch: Batch) -> Extents:
    """The extents of each parameter of a launch, None for scalars, without batch axes."""
    return launch.extents([a.shape[sum(mask) :] for a, mask in zip(avals, batch.operands, strict=True)], zeros)


def _abstract_eval(
    *avals: Any, launch: Descriptor[GeneratedProgram], zeros: Shapes, batch: Batch, **_: Any
) -> tuple[list[Any], set[Any]]:
    program = launch.program
    own = (launch.geometry.dims, (launch.geometry.repeat,), batch.extents)
    refuse_other_scopes(program.name, (*own, *zeros, *(aval.shape for aval in avals)))
    extents = core_extents(avals, launch, zeros, batch)
    refuse_long(program, extents)
    if 0 not in batch.extents:
        program.check(launch.geometry, extents)
        note_ahead(launch, batch, extents)
    return result_avals(avals, launch, extents, batch), {compat.print_effect} if program.lasts else set()


for _primitive in LAUNCHES:
    _primitive.def_effectful_abstract_eval(_abstract_eval)


def result_avals(avals: Sequence[Any], launch: Descriptor, extents: Extents, batch: Batch) -> list[Any]:
    """The types of the results of a launch."""
    pairs = zip(launch.results, batch.results, strict=True)
    return [
        compat.output_aval((*batch.shape(mask), *(extents[p] or ())), launch.program.dtypes[p], avals)
        for p, mask in pairs
    ]


def refuse_long(program: Program, extents: Extents) -> None:
    """Kernels see extents as int32, which what is proved of indices relies on."""
    for param, shape in zip(program.kernel.params, extents, strict=True):
        if max((n for n in shape or () if not isinstance(n, Symbolic)), default=0) > MAX_EXTENT:
            raise LaunchError(
                f"kernel '{program.name}', parameter '{param.name}': an extent must be at most 2**31 - 1, got {shape}",
                hint="split the long axis in two",
            )


# Batching


def add_batching(primitive: compat.Primitive) -> None:
    """Give a primitive of launches its rule."""

    def rule(
        operands: Sequence[Any], axes: Sequence[int | None], *, launch: Descriptor, batch: Batch, **params: Any
    ) -> tuple[list[Any], list[int]]:
        """One launch for the whole batch: an operand without the batch axis is neither copied nor broadcast."""
        moved, wider = batched_operands(operands, axes, launch, batch)
        results = primitive.bind(*moved, launch=launch, batch=wider, **params)
        return results, [0] * len(results)

    compat.batching.primitive_batchers[primitive] = rule


def batched_operands(
    operands: Sequence[Any], axes: Sequence[int | None], launch: Descriptor, batch: Batch
) -> tuple[list[Any], Batch]:
    """The operands with a new batch axis in front, and which axes there are then."""
    size = next(op.shape[axis] for op, axis in zip(operands, axes, strict=True) if axis is not None)
    moved, present = [], []
    for index, operand, axis in zip(launch.operands, operands, axes, strict=True):
        is_written = launch.roles[index] is Role.IN_OUT
        if axis is not None:
            operand = jnp.moveaxis(operand, axis, 0)
        elif is_written:
            # Each element of the batch writes to its own copy.
            operand = jnp.broadcast_to(operand, (size, *operand.shape))
        moved.append(operand)
        present.append(axis is not None or is_written)
    return moved, batch.wider(size, present)


for _primitive in LAUNCHES:
    add_batching(_primitive)


# Lowering


@no_collection()
def _lower_cpu(
    ctx: Any,
    *operands: Any,
    launch: Descriptor[GeneratedProgram],
    zeros: Shapes,
    batch: Batch,
    side_effect: bool,
    **_: Any,
) -> Any:
    spread = spread_launch(launch, zeros, batch)
    if spread is not None:
        launch, zeros = spread
        batch = Batch.none(len(batch.operands), len(batch.results))
    launch = descriptor_of(*with_lanes(launch.program, launch.geometry), launch.roles, launch.block_dim)
    kernel = lower_kernel(launch.program.kernel, launch.program.settings)
    kernel.require(launch.geometry.dims, core_extents(ctx.avals_in, launch, zeros, batch))
    ctx, operands = lower_variables(ctx, operands, launch, batch.extents)
    call = jax.ffi.ffi_lowering(TARGET, operand_output_aliases=launch.aliases, has_side_effect=side_effect)
    with compat.named_operation(_shown_name(launch.program)):
        results = call(
            ctx,
            *operands,
            kernel=launch.program.name,
            fingerprint=kernel.fingerprint,
            program=kernel.program,
            launch=encode(launch, batch.extents, batch.operands, batch.results),
        )
    return compat.kept_apart(results)


def _shown_name(program: Program) -> str:
    """The name of a launch in profiles and HLO: `jwarp.spring`, `jwarp.spring.adjoint(x, k)`."""
    variant = program.kernel.variant
    return f"jwarp.{program.name}" + (f".{variant}" if variant != "forward" else "")


def lower_cuda(
    ctx: Any, *operands: Any, launch: Descriptor, zeros: Shapes, batch: Batch, side_effect: bool, **_: Any
) -> Any:
    """The custom call that launches an image; the native module's handler says what each attribute is."""
    program = launch.program
    if is_empty(launch, batch):
        return lower_nothing(ctx, *operands, launch=launch)
    traced = ahead.Traced(launch, batch, core_extents(ctx.avals_in, launch, zeros, batch))
    how = architectures(program.settings.cuda_arch), compat.allows_tf32()
    code = ahead.AHEAD.answer(traced, how, _compiled) if _is_known(traced) else _compiled(traced, how)
    ctx, operands = lower_variables(ctx, operands, launch, batch.extents)
    if program.span.line:
        # No part of the program, which JAX would compile again for a kernel that only moved in its file.
        note_place(code.image.content, code.image.entry, f"{program.span.file}:{program.span.line}")
    # Who may fail is waited for, and so is no part of a CUDA graph.
    target = CUDA_DEBUG_TARGET if code.failures else CUDA_TARGET
    call = jax.ffi.ffi_lowering(target, operand_output_aliases=launch.aliases, has_side_effect=side_effect)
    with compat.named_operation(_shown_name(program)):
        results = call(
            ctx,
            *operands,
            kernel=program.name,
            entry=code.image.entry,
            image=code.image.content,
            plan=code.plan,
            launch=encode(launch, batch.extents, batch.operands, batch.results),
            block=np.int64(code.image.block),
            shared=np.int64(code.shared),
            per_sm=np.int64(code.image.per_sm),
            grid=np.array(code.grid, np.int64),
            failures=code.failure_text,
            **({"heap": np.int64(code.image.heap)} if code.image.heap else {}),
        )
    return compat.kept_apart(results)


def note_ahead(launch: Descriptor, batch: Batch, extents: Extents) -> None:
    """Note a launch that will be lowered, so that a thread may compile it before that."""
    traced = ahead.Traced(launch, batch, extents)
    if may_have_gpu() and _is_known(traced):
        ahead.AHEAD.note(traced)


def _is_known(traced: ahead.Traced) -> bool:
    """True if no size is symbolic."""
    return is_fixed(traced.launch, [shape or () for shape in (traced.batch.extents, *traced.extents)])


def _compiled(traced: ahead.Traced, how: tuple[tuple[str, ...], bool]) -> GpuCode:
    """The code of a launch for architectures, which may use TF32."""
    (launch, batch, extents), (names, tf32) = traced, how
    program = with_private_elements(launch, extents, batch.results)
    version = program.gpu_version(launch.geometry, extents, batch.extents, tf32=tf32)
    return program.gpu_code(version, launch.geometry, launch.block_dim, names)


def is_empty(launch: Descriptor, batch: Batch) -> bool:
    """True if the launch has no threads."""
    return 0 in (*launch.geometry.dims, *batch.extents, launch.geometry.repeat)


def lower_nothing(ctx: Any, *operands: Any, launch: Descriptor) -> Any:
    """A launch without threads, which no GPU takes: its results are what they start as."""

    def starts(*given: Any) -> list[Any]:
        values = dict(zip(launch.operands, given, strict=True))
        avals = zip(launch.results, ctx.avals_out, strict=True)
        return [values[p] if p in values else jnp.zeros(aval.shape, aval.dtype) for p, aval in avals]

    return compat.mlir.lower_fun(starts, multiple_results=True)(ctx, *operands)


# JAX names inlined functions after the primitive.
compat.mlir.register_lowering(launch_p, _lower_cpu, platform="cpu", inline=False)
compat.mlir.register_lowering(launch_p, lower_cuda, platform="cuda", inline=False)
