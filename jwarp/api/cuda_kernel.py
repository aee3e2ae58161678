"""`wp.cuda_kernel`: a kernel that is written by hand in CUDA C++."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jwarp.compiler.handwritten import refused_option
from jwarp.errors import KernelTypeError, LaunchError, Span
from jwarp.frontend.cuda_kernel import Definition, Grid, HandwrittenKernel
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching.handwritten import read_blocks, read_grid, read_shared
from jwarp.launching.handwritten_adjoint import parameters_of
from jwarp.types import StructArrayType, StructType, Type, as_type

Headers = Mapping[str, str] | str | os.PathLike | Sequence[Mapping[str, str] | str | os.PathLike] | None


def cuda_kernel(
    source: str | os.PathLike,
    name: str,
    params: Mapping[str, Any],
    *,
    outputs: Sequence[str] | str,
    in_out_argnames: Sequence[str] | str = (),
    full_outputs: Sequence[str] | str = (),
    adjoint: Kernel | Callable | None = None,
    cpu: Kernel | Callable | None = None,
    options: Sequence[str] = (),
    headers: Headers = None,
    block_dim: int | tuple[int, ...] = 256,
    grid: Grid = None,
    shared_bytes: int | Callable[[tuple[int, ...]], int] = 0,
) -> HandwrittenKernel:
    """Make a kernel from a `__global__` function in CUDA C++, to be launched like a kernel in Python.

    The kernel is compiled when a launch is lowered for a GPU. The function is called with a pointer for each array (or
    with a `jw::array<float, 2>`, which has extents, if that is its parameter's type) and with scalars, vectors and
    matrices by value. It has all axes of blocks and of the grid to itself; a batch of `jax.vmap` is one launch.

    Args:
        source: CUDA C++ source, or the path of a file: a Path, or a string that ends in .cu, .cuh or .h.
        name: The function, or the instance of a template: `"scale<float, 128>"`.
        params: The type of each parameter by name, in the function's order, as for kernels in Python.
        outputs: The names of the parameters that the function writes. All others should be `const`.
        in_out_argnames: Outputs that start from an array that is passed, as in `wp.jax_kernel`. Other outputs start as
            zeros.
        full_outputs: Outputs whose elements are all written by every launch. They start with arbitrary content, which
            saves setting them to zero. If a launch has no threads, they are zeros.
        adjoint: A kernel over the same launch dimensions. It takes inputs and outputs by their names, cotangents as
            `adj_<output>`, and writes gradients to `adj_<input>`: arrays of one element for parameters by value, an
            in-out parameter for an in-out parameter. Or a JAX function of the inputs and the cotangents of all
            floating-point outputs, which returns a gradient for each input (or for each floating-point input); it may
            have `*, dim, outputs` for the launch dimensions and results.
        cpu: The version for CPUs: a `@wp.kernel` with parameters of the same types, or a JAX function of the inputs
            that returns the outputs; it may have `*, dim, output_shapes`.
        options: Further options for NVRTC.
        headers: Header sources by the name in `#include`; or folders to search; or a list of both.
        block_dim: Threads in a block, unless the launch specifies it; or the numbers along (x, y) or (x, y, z), for
            functions that read `threadIdx.y`.
        grid: Blocks along x, or along (x, y) or (x, y, z), or a function of the launch dimensions that returns these.
            Default: one thread for each index of the launch. In blocks with several axes, the last launch dimension
            lies along x.
        shared_bytes: Dynamic shared memory of a block in bytes, or a function of the launch dimensions.

    Raises:
        KernelTypeError: A type cannot be a parameter's, or the adjoint or `cpu` has other parameters.
        LaunchError: Names, options or the configuration do not match the function.
        FileNotFoundError: The source file does not exist.

    Example:
        >>> text = '''__global__ void scale(const float* x, float k, float* y, int n) {
        ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...   if (i < n) y[i] = k * x[i];
        ... }'''
        >>> types = {"x": wp.array[float], "k": float, "y": wp.array[float], "n": int}
        >>> scale = wp.cuda_kernel(text, "scale", types, outputs=["y"], cpu=lambda x, k, n: k * x)
        >>> wp.launch(scale, 4, {"x": jnp.arange(4.0), "k": 2.0, "n": 4}, {"y": 4})
    """
    if not isinstance(name, str) or not name.strip():
        raise LaunchError(f"wp.cuda_kernel: name must be the function's name, got {name!r}")
    name = name.strip()
    text, file, folders = _read_source(source, name)
    signature = _read_params(name, params)
    names = [parameter for parameter, _ in signature]
    in_outs = _read_names(name, "in_out_argnames", in_out_argnames, names)
    written = tuple(sorted({*_read_names(name, "outputs", outputs, names), *in_outs}))
    full = _read_names(name, "full_outputs", full_outputs, names)
    for p in full:
        if p not in written or p in in_outs:
            raise LaunchError(
                f"kernel '{name}', full_outputs: '{names[p]}' is no output that would start as zeros",
                hint="name outputs that are not in in_out_argnames",
            )
    irs = tuple(Param(*parameter) for parameter in signature)
    for p in written:
        if irs[p].is_value:
            raise KernelTypeError(
                f"kernel '{name}', output '{names[p]}' is a {irs[p].type!r}, which is passed by value; an output "
                "must be an array"
            )
    if not written:
        raise LaunchError(f"kernel '{name}' has no outputs, so nothing that it does could be seen")
    texts, more = _read_headers(name, headers)
    definition = Definition(
        name, text, file, irs, written, in_outs,
        options=_read_options(name, options), headers=texts, folders=(*folders, *more),
        blocks=read_blocks(name, block_dim), grid=_read_grid(grid),
        full=full, shared_bytes=shared_bytes, adjoint=as_kernel(adjoint), cpu=as_kernel(cpu), span=_caller(),
    )  # fmt: skip
    if grid is not None and not callable(grid):
        read_grid(definition, grid)
    if not callable(shared_bytes):
        read_shared(name, shared_bytes)
    _check_adjoint(definition)
    _check_cpu(definition)
    return HandwrittenKernel(definition, signature)


def _read_source(source: Any, name: str) -> tuple[str, str, tuple[str, ...]]:
    """The text, the file that messages name, and the folder that it may include from."""
    if isinstance(source, str) and not ("\n" not in source and source.strip().endswith((".cu", ".cuh", ".h", ".hpp"))):
        if not source.strip():
            raise LaunchError(f"kernel '{name}': the source is empty")
        return source, f"<{name}>", ()
    if not isinstance(source, (str, os.PathLike)):
        raise LaunchError(f"kernel '{name}': the source must be text or a path, got {type(source).__name__}")
    path = Path(source).expanduser().absolute()
    return path.read_text(), str(path), (str(path.parent),)


def _read_params(name: str, params: Any) -> tuple[tuple[str, Type], ...]:
    if not isinstance(params, Mapping) or not params:
        raise LaunchError(
            f"kernel '{name}': params must be a dict of types by parameter name, got {type(params).__name__}",
            hint='for example {"x": wp.array[float], "k": float}',
        )
    signature = []
    for parameter, annotation in params.items():
        if not isinstance(parameter, str) or not parameter.isidentifier():
            raise LaunchError(f"kernel '{name}': {parameter!r} is no parameter name")
        found = as_type(annotation)
        if found is None:
            raise KernelTypeError(
                f"kernel '{name}', parameter '{parameter}': {annotation!r} is no type of a parameter",
                hint="use int, float, bool, a wp scalar, vector or matrix type, or wp.array[…] of one",
            )
        if isinstance(found, (StructType, StructArrayType)):
            raise KernelTypeError(
                f"kernel '{name}', parameter '{parameter}': handwritten kernels take no structs",
                hint="pass its fields",
            )
        signature.append((parameter, found))
    return tuple(signature)


def _read_names(name: str, what: str, given: Any, known: Sequence[str]) -> tuple[int, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence):
        raise LaunchError(f"kernel '{name}': {what} must be a sequence of parameter names, got {given!r}")
    for entry in names:
        if entry not in known:
            raise LaunchError(
                f"kernel '{name}': {what} has {entry!r}, which is no parameter; there are {', '.join(known)}"
            )
    return tuple(sorted({known.index(entry) for entry in names}))


def _read_options(name: str, options: Any) -> tuple[str, ...]:
    if isinstance(options, str) or not isinstance(options, Sequence) or not all(isinstance(o, str) for o in options):
        raise LaunchError(f"kernel '{name}': options must be a sequence of strings, got {options!r}")
    for option in options:
        reason = refused_option(option)
        if reason:
            raise LaunchError(f"kernel '{name}': option {option!r} cannot be given: {reason}")
    return tuple(options)


def _read_headers(name: str, headers: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Texts by name, and folders."""
    if headers is None:
        return {}, ()
    texts, found = dict[str, str](), []
    for entry in (headers,) if isinstance(headers, (str, os.PathLike, Mapping)) else headers:
        if isinstance(entry, Mapping):
            if not all(isinstance(k, str) and isinstance(v, str) for k, v in entry.items()):
                raise LaunchError(f"kernel '{name}': headers must be a dict of texts by the name of the header")
            texts |= entry
            continue
        found.append(str(Path(entry).expanduser().absolute()))
        if not os.path.isdir(found[-1]):
            raise LaunchError(f"kernel '{name}': headers has {found[-1]!r}, which is no folder")
    return texts, tuple(found)


def _read_grid(grid: Any) -> Grid:
    return tuple(grid) if isinstance(grid, list) else grid


def _caller() -> Span:
    """The line of the user that makes the kernel."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("jwarp."):
        frame = frame.f_back
    return Span("<unknown>", 0) if frame is None else Span(frame.f_code.co_filename, frame.f_lineno)


def _check_adjoint(definition: Definition) -> None:
    if isinstance(definition.adjoint, Kernel):
        parameters_of(definition, definition.adjoint)
    elif definition.adjoint is not None and not callable(definition.adjoint):
        raise KernelTypeError(
            f"kernel '{definition.name}': adjoint must be a kernel or a JAX function, got "
            f"{type(definition.adjoint).__name__}"
        )


def _check_cpu(definition: Definition) -> None:
    cpu = definition.cpu
    if isinstance(cpu, HandwrittenKernel) or (cpu is not None and not callable(cpu) and not isinstance(cpu, Kernel)):
        raise KernelTypeError(
            f"kernel '{definition.name}': cpu must be a @wp.kernel or a JAX function, got {type(cpu).__name__}"
        )
    if isinstance(cpu, Kernel):
        own, others = ([p.type for p in params] for params in (definition.params, cpu.params))
        if own != others:
            raise KernelTypeError(
                f"kernel '{definition.name}': the kernel for the CPU, '{cpu.name}', must have the same parameters",
                hint=f"expected {', '.join(map(repr, own))}; got {', '.join(map(repr, others))}",
            )
