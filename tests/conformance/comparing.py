"""Runs one launch in Warp and in jwarp, and compares what the arrays hold afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import warp
from arguments import Refused, kept, parts
from ids import with_kinds
from recording import Launch
from warp._src import types as warp_types
from warp._src.context import Module, ModuleBuilder

import jwarp
from jwarp.errors import JwarpError
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching.grouping import assemble, flatten

# How far results may be apart, relative to the largest number of an array; Warp may contract products and sums.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 5e-5, "float64": 1e-12}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a launch: `agree`, `disagree`, `refused`, `fault` (a raw error of jwarp's) or `warp`."""

    verdict: str
    reason: str = ""


def reason_of(error: Exception) -> str:
    """The first line of an error."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def read(kernel: Any, kinds: tuple = ()) -> Kernel | Outcome:
    """The kernel as jwarp reads it, or why not; `kinds` says what stands for numbers of meshes, trees and grids."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made: Kernel = with_kinds(as_kernel(kernel), kinds)
            made.ir()
    except JwarpError as error:
        return Outcome("refused", reason_of(error))
    except Exception as error:
        return Outcome("fault", reason_of(error))
    return made


def run_in_place(kernel: Kernel, launch: Launch) -> bool:
    """Run the launch on the arrays themselves, without JAX; whether that went well."""
    try:
        values = [given(p, v, np.asarray) for p, v in zip(kernel.params, values_of(kernel, launch.args), strict=False)]
        args = assemble(kernel, range(len(kernel.signature)), values.__getitem__)
        jwarp.launch(kernel, launch.threads, args, block_dim=launch.block_dim)
    except Exception:
        return False
    return True


def run_jwarp(kernel: Kernel, launch: Launch) -> dict[int, np.ndarray] | Outcome:
    """The written arrays after the launch, by the position of the parameter of the IR."""
    try:
        if len(launch.args) != len(kernel.signature):
            return Outcome("warp", "wrong number of arguments")
        args = assemble(kernel, range(len(kernel.signature)), arguments(kernel, launch).__getitem__)
        results = jwarp.launch(kernel, launch.threads, args, block_dim=launch.block_dim)
    except Refused as error:
        return Outcome("refused", str(error))
    except JwarpError as error:
        return Outcome("refused", reason_of(error))
    except Exception as error:
        return Outcome("fault", reason_of(error))
    written = {}
    for argument, group in zip(kernel.signature, kernel.groups, strict=True):
        if argument.name in results:
            values = flatten(kernel.name, argument.name, argument.type, results[argument.name])
            written.update(zip(group, values, strict=True))
    return {i: np.asarray(values) for i, values in written.items() if kernel.params[i].is_array}


def unmet_expectation(kernel: Kernel, launch: Launch) -> str:
    """The message of the launch's first failed expectation; debug mode makes it an error."""
    with jwarp.config(debug=True):
        found = run_jwarp(kernel, launch)
    return found.reason if isinstance(found, Outcome) and "does not hold" in found.reason else ""


def values_of(kernel: Kernel, args: list[Any]) -> list[Any]:
    """Warp's arguments, by parameter of the IR; arrays as NumPy arrays."""
    pairs = zip(kernel.signature, args, strict=False)
    return [part for argument, value in pairs for part in parts(argument.type, value)]


def arguments(kernel: Kernel, launch: Launch) -> list[Any]:
    """The arguments as jwarp takes them, by parameter of the IR."""
    values = values_of(kernel, launch.args)
    return [given(param, value) for param, value in zip(kernel.params, values, strict=False)]


def given(param: Param, value: Any, array: Any = jnp.asarray) -> Any:
    """An argument of Warp's as jwarp takes it."""
    if isinstance(value, np.ndarray) and not param.is_value:
        return array(value)
    if value is None and not param.is_value:  # in Warp an array without elements, too
        return array(np.zeros((0,) * param.type.dims + param.type.components, param.dtype.dtype))
    if value is None:
        raise Refused("a null struct as argument")
    if isinstance(value, (*warp_types.scalar_types, warp_types.bool)):
        return value.value
    components = getattr(param.type, "components", ())
    if not components or isinstance(value, warp_types.array):
        return value
    values = np.array(list(_components(value)), param.dtype.dtype)
    if values.size != np.prod(components):
        raise Refused("a vector or matrix argument of the wrong size")
    return array(values.reshape(components))


def _components(value: Any) -> Iterator[Any]:
    """The numbers of a vector or the like: NumPy takes those of half precision for the integers of their bits."""
    if hasattr(value, "__len__"):
        for item in value:
            yield from _components(item)
    else:
        yield getattr(value, "value", value)


class WarpSide:
    """Kernels compiled anew by Warp, in one module without derivatives."""

    def __init__(self, kernels: list[Any], name: str):
        self.copies = {}
        module = Module(name, None)
        for number, kernel in enumerate(kernels):
            self.copies[kernel] = _copy(kernel, f"{kernel.func.__name__}_{number}", module)
        self.failure = ""
        if kernels:
            try:
                self.module = module
                if not module.load(warp.get_device("cpu"), block_dim=1):
                    self.failure = "the module does not compile"
            except Exception as error:
                self.failure = reason_of(error)

    def run(self, launch: Launch) -> list[Any] | Outcome:
        """The arguments after the launch."""
        args = [kept(a) for a in launch.args]
        try:
            warp.launch(
                self.copies[launch.kernel], launch.threads_of_warp, inputs=args, device="cpu", record_tape=False
            )
        except Exception as error:
            return Outcome("warp", reason_of(error))
        return args


def run_in_blocks(launch: Launch) -> list[Any] | Outcome:
    """The arguments after the launch in Warp with as many lanes as it asks for, compiled anew for that."""
    args = [kept(a) for a in launch.args]
    copy = _copy(launch.kernel, launch.kernel.func.__name__, Module(f"blocks_{id(launch)}", None))
    before = warp.config.enable_cpu_blocks
    warp.config.enable_cpu_blocks = True
    try:
        warp.launch(copy, launch.threads, inputs=args, device="cpu", block_dim=launch.blocks, record_tape=False)
    except Exception as error:
        return Outcome("warp", reason_of(error))
    finally:
        warp.config.enable_cpu_blocks = before
    return args


def warp_refuses(kernel: Any) -> bool:
    """True if Warp cannot read the kernel either; many of its tests are about its errors."""
    module = Module("refused", None)
    try:
        copy = _copy(kernel, kernel.func.__name__, module)
        ModuleBuilder(module, module.resolve_options(warp.config, 1), target="cpu").codegen("cpu")
    except Exception:
        return True
    del copy
    return False


def _copy(kernel: Any, key: str, module: Module) -> Any:
    options = {**kernel.module.options, **kernel.options, "enable_backward": False}
    parent = warp.Kernel(kernel.func, key=key, module=module, options=options, source=kernel.adj.source)
    copy = parent.add_overload(list(kernel.adj.arg_types.values())) if parent.is_generic else parent
    # What wp.static gave where the kernel was defined; it was evaluated anew for the copy, with the names of now.
    copy.adj.tree = kernel.adj.tree
    copy.adj.resolved_static_expressions = kernel.adj.resolved_static_expressions
    return copy


def compare(kernel: Kernel, launch: Launch, expected: list[Any], got: dict[int, np.ndarray]) -> Outcome:
    """The outcome of comparing the arrays up to rounding."""
    values, after = values_of(kernel, launch.args), values_of(kernel, expected)
    for index, (before, wanted) in enumerate(zip(values, after, strict=True)):
        if not isinstance(before, np.ndarray) or not kernel.params[index].is_array:
            continue
        mine, shown = got.get(index, before), wanted
        if mine.dtype.name in TOLERANCES:
            mine, wanted = mine.astype(np.float64), wanted.astype(np.float64)
            finite = np.abs(wanted[np.isfinite(wanted)])
            tolerance = TOLERANCES[shown.dtype.name]
            limit = tolerance * (float(finite.max()) if finite.size else 0.0)
            same = np.isclose(mine, wanted, rtol=10 * tolerance, atol=limit, equal_nan=True)
        else:
            same = mine == wanted
        if not np.all(same):
            place = tuple(np.argwhere(~np.asarray(same))[0].tolist())
            count = f"{int(np.sum(~np.asarray(same)))} of {np.size(same)}"
            name = kernel.params[index].name
            return Outcome("disagree", f"{name}{list(place)}: warp {shown[place]}, jwarp {mine[place]} ({count})")
    return Outcome("agree")


def wrote_nothing(kernel: Kernel, launch: Launch, expected: list[Any]) -> bool:
    """True if no array changed: then agreement says little."""
    pairs = zip(values_of(kernel, launch.args), values_of(kernel, expected), strict=True)
    return all(np.array_equal(a, b, equal_nan=False) for a, b in pairs if isinstance(a, np.ndarray))
