"""The arguments of a launch matched to the parameters of its kernel, and checked."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.config import surface
from jwarp.errors import JwarpError, KernelTypeError, LaunchError
from jwarp.frontend.kernel import Parameter
from jwarp.ir.nodes import Param
from jwarp.launching.sizes import Symbolic
from jwarp.types import ArrayType, ScalarType, Type, bool_, float64, from_dtype, int64, uint64
from jwarp.types.queries import type_repr
from jwarp.wire import Role


@dataclass(frozen=True, slots=True)
class Argument:
    """A value given for a parameter, described without naming the library it comes from.

    `origin` is `jax`, `numpy`, `number` (Python and NumPy scalars), `spec` (shape and dtype without
    content), `cuda` (an array of another library on a GPU) or `other`; all but numbers and others have shape and
    dtype. `concrete` says
    that a JAX scalar can be read now.
    """

    value: Any
    origin: str
    shape: tuple[int, ...] | None = None
    dtype: Any = None
    concrete: bool = False

    @property
    def lends_no_memory(self) -> bool:
        """True if it is a tensor, of PyTorch's, that has to be detached from its gradient first."""
        return bool(getattr(self.value, "requires_grad", False)) and hasattr(self.value, "detach")

    def __str__(self) -> str:
        kinds = {"jax": "JAX array", "numpy": "NumPy array", "cuda": "array on a GPU", "spec": "shape specification"}
        if self.origin in kinds:
            return f"{self.dtype}{list(self.shape or ())} ({kinds[self.origin]})"
        kind = type(self.value).__name__
        if self.lends_no_memory:
            return f"a {kind} that requires a gradient"
        return f"{kind} {' '.join(str(self.value).split())[:60]}"


@dataclass(frozen=True, slots=True)
class Matched:
    """One role and one value for each parameter, and which parameters are the outputs, in order."""

    roles: tuple[Role, ...]
    values: tuple[Any, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One argument that does not fit: the error class, the text, the way out."""

    error: type[JwarpError]
    text: str
    hint: str = ""


def raise_faults(kernel_name: str, faults: Sequence[Fault]) -> None:
    """Raise one error for all `faults`, of the class of the first; nothing if there are none."""
    if not faults:
        return
    first = faults[0]
    if len(faults) == 1:
        raise first.error(f"kernel '{kernel_name}', {first.text}", hint=first.hint)
    lines = "\n".join(f"  {fault.text}" for fault in faults)
    hints = dict.fromkeys(fault.hint for fault in faults if fault.hint)
    raise first.error(f"kernel '{kernel_name}': {len(faults)} arguments do not fit\n{lines}", hint="; ".join(hints))


# Which argument belongs to which parameter


def match(
    kernel_name: str, params: Sequence[Param | Parameter], written: Sequence[int], inputs: Any, outputs: Any
) -> Matched:
    """Assign inputs and outputs to `params`; `written` are the parameters that the kernel stores to.

    An output's role is ZEROS here; `read_output` tells a shape from an initial content.

    Raises:
        LaunchError: counts or names do not fit.
    """
    names = [param.name for param in params]
    where = f"kernel '{kernel_name}'"
    given_inputs = _read_collection(where, "inputs", inputs, names)
    given_outputs = _read_collection(where, "outputs", () if outputs is None else outputs, names)
    values: dict[int, Any] = {}
    for given in (given_inputs, given_outputs):
        if isinstance(given, dict):
            twice = [names[index] for index in given if index in values]
            if twice:
                raise LaunchError(f"{where}, parameter '{twice[0]}' is given in both inputs and outputs")
            values.update(given)
    free = [index for index in range(len(names)) if index not in values]
    listed = [value for given in (given_inputs, given_outputs) if isinstance(given, list) for value in given]
    if len(listed) != len(free):
        raise _count_error(where, names, free, given_inputs, given_outputs, outputs is None)
    values.update(zip(free, listed, strict=True))
    # In the free parameters, listed inputs come first and listed outputs after them.
    if isinstance(given_outputs, dict):
        output_indices = list(given_outputs)
    else:
        output_indices = free[len(free) - len(given_outputs) :]
    if outputs is None:
        roles = [Role.IN_OUT if i in written else Role.READ for i in range(len(names))]
        output_indices = list(written)
    else:
        roles = [Role.ZEROS if i in output_indices else Role.READ for i in range(len(names))]
    return Matched(tuple(roles), tuple(values[i] for i in range(len(names))), tuple(output_indices))


def shape_of_nothing(kind: ArrayType) -> tuple[int, ...]:
    """The shape of the array without elements that None stands for."""
    return (0,) * kind.dims + kind.components


def without_absent(
    given: Matched, params: Sequence[Param], absent: Collection[int], written: Collection[int], *, in_place: bool
) -> Matched:
    """The given values, with an array without elements for each parameter in `absent`, for which None is given.

    One that the kernel stores to is an output, whose results nobody sees. `in_place`: outputs are written in place.
    """
    roles, values, outputs = list(given.roles), list(given.values), list(given.outputs)
    for p in absent:
        kind = params[p].type
        assert isinstance(kind, ArrayType)
        shape = shape_of_nothing(kind)
        if roles[p] is not Role.READ or p in written:
            roles[p] = Role.IN_OUT if in_place else Role.ZEROS
        is_shape = roles[p] is Role.ZEROS
        values[p] = shape if is_shape else np.zeros(shape, kind.dtype.dtype)
        if roles[p] is not Role.READ and p not in outputs:
            outputs.append(p)
    return Matched(tuple(roles), tuple(values), tuple(outputs))


def refuse_written_inputs(
    kernel_name: str, params: Sequence[Param | Parameter], written: Sequence[int], roles: Sequence[Role]
) -> None:
    """Raise LaunchError if the kernel stores to a parameter that was passed as an input only."""
    for index in written:
        if roles[index] is Role.READ:
            raise LaunchError(
                f"kernel '{kernel_name}', parameter '{params[index].name}' is passed as an input, but the"
                " kernel writes to it",
                hint="an input array never changes: pass it as an output (its content is where it starts),"
                " or in in_out_argnames of wp.jax_kernel",
            )


def _read_collection(where: str, what: str, given: Any, names: list[str]) -> dict[int, Any] | list[Any]:
    """A list of values, or values by parameter index."""
    if isinstance(given, dict):
        for name in given:
            if name not in names:
                raise LaunchError(f"{where}: {what} name '{name}', which is no parameter; there are {', '.join(names)}")
        return {names.index(name): value for name, value in given.items()}
    if isinstance(given, (list, tuple)):
        return list(given)
    raise LaunchError(
        f"{where}: {what} must be a list, a tuple or a dict by parameter name, got {type(given).__name__}",
        hint=f"one value is written {what}=[value]",
    )


def _counted(given: Any, what: str) -> str:
    return f"{len(given)} {what}{'' if len(given) == 1 else 's'}"


def _count_error(
    where: str, names: list[str], free: list[int], inputs: Any, outputs: Any, only_inputs: bool
) -> LaunchError:
    missing = [names[index] for index in free]
    if isinstance(inputs, dict) and (isinstance(outputs, dict) or only_inputs):
        return LaunchError(f"{where}: nothing is given for {', '.join(map(repr, missing))}")
    parts = _counted(inputs, "input") + ("" if only_inputs else f" and {_counted(outputs, 'output')}")
    forgotten = names[len(inputs) :] if only_inputs else []
    way = f"; outputs=[8] makes an array of 8 elements for `{forgotten[0]}`" if len(forgotten) == 1 else ""
    return LaunchError(
        f"{where} has {len(names)} parameters ({', '.join(names)}), got {parts}",
        hint=f"inputs and outputs together fill the parameters in order{way}",
    )


# Checks of a value against its parameter


def check_input(param: Param, given: Argument, x64: bool) -> Fault | None:
    """The fault of `given` as an input for `param`, or None."""
    where = f"parameter '{param.name}'"
    if param.dtype.bits == 64 and not x64:
        return _x64_fault(where, param)
    if given.origin == "spec":
        return _mismatch(where, param.type, given, "an input needs content: pass an array")
    if isinstance(param.type, ArrayType):
        return _check_value(where, param.type, given) if param.is_value else _check_array(where, param.type, given)
    return _check_scalar(where, param.type, given)


def read_output(param: Param, value: Any, given: Argument, x64: bool) -> tuple[int, ...] | Argument | Fault:
    """The shape that `value` asks for, the array that it starts from, or what is wrong with it."""
    where = f"output '{param.name}'"
    if param.is_value or not isinstance(param.type, ArrayType):
        return _no_output(where, param)
    if param.type.dtype.bits == 64 and not x64:
        return _x64_fault(where, param)
    if given.origin == "numpy":
        return mixed_fault(param)
    if given.origin in ("jax", "spec") or given.lends_no_memory:
        fault = _check_array(where, param.type, given)
        if fault and given.shape == ():
            fault = dataclasses.replace(fault, hint="a shape is given as ints that are known at trace time")
        return fault or (given if given.origin == "jax" else tuple(given.shape or ()))
    return _read_shape(where, param.type, value)


def check_gradient(where: str, param: Param, shape: tuple[int, ...], given: Argument) -> Fault | None:
    """The fault of `given` as a gradient of the parameter, which has `shape`, or None."""
    dtype = param.dtype.dtype
    expected = f"{where}: expected {dtype}{list(shape)}"
    if given.origin == "number" and not shape and param.dtype.is_float:
        return None
    if given.origin not in ("jax", "numpy", "cuda"):
        return Fault(KernelTypeError, f"{expected}, got {given}", "pass an array, None or (for an input) True")
    if given.dtype != dtype:
        return Fault(KernelTypeError, f"{expected}, got {given}", f"convert it with astype(wp.{param.dtype}.dtype)")
    if given.shape != shape:
        return Fault(LaunchError, f"{expected}, got {given}", "a gradient has the shape of what it is the gradient of")
    return None


def check_in_place(param: Param, given: Argument) -> Fault | None:
    """The fault of `given` as an array for `param` to be written in place, or None."""
    where = f"output '{param.name}'"
    if param.is_value or not isinstance(param.type, ArrayType):
        return _no_output(where, param)
    return _check_array(where, param.type, given)


def mixed_fault(param: Param, *, is_mutable: bool = True) -> Fault:
    """An array that would be written in place, among outputs that are returned; or one of these among such arrays."""
    found = "is a NumPy array, which is written in place, and other outputs are returned as JAX arrays"
    if not is_mutable:
        found = "would be returned as a JAX array, and others are NumPy arrays, which are written in place"
    return Fault(
        LaunchError,
        f"output '{param.name}' {found}; all outputs of one launch must be of one kind",
        "pass jax.numpy.asarray(array) for its content to start from, or NumPy arrays for all outputs",
    )


def _no_output(where: str, param: Param) -> Fault:
    return Fault(KernelTypeError, f"{where}: the parameter is a {param.type!r}, an output must be an array")


def _x64_fault(where: str, param: Param) -> Fault:
    return Fault(
        KernelTypeError,
        f"{where}: expected {param.type!r}, but 64-bit types are off in JAX (jax_enable_x64 is False)",
        'turn them on with jax.config.update("jax_enable_x64", True)',
    )


def _mismatch(where: str, type: Type, given: Argument, hint: str) -> Fault:
    text = f"{where}: expected {type!r}, got {given}"
    if surface.is_warps and isinstance(type, ArrayType) and given.origin == "other":
        got = given.value.__class__.__name__
        text += f": it expects an array of type {type_repr(type)}, but passed value has type {got}"
    return Fault(KernelTypeError, text, hint)


def _check_array(where: str, type: ArrayType, given: Argument) -> Fault | None:
    if given.shape is None:
        way = "wp.from_torch(x) has its memory and its gradient, x.detach() its memory alone"
        return _mismatch(where, type, given, way if given.lends_no_memory else "pass a JAX or NumPy array")
    if given.dtype != type.dtype.dtype:
        return _mismatch(where, type, given, _conversion(type, given))
    if len(given.shape) != type.ndim:
        last = f", the last of extents {type.components}," if type.components else ""
        return _mismatch(where, type, given, f"an array of {type.ndim} dimensions{last} is needed")
    if given.shape[type.dims :] != type.components:
        return _mismatch(where, type, given, f"the last axes must hold the components: {type.components}")
    return None


def _conversion(type: ArrayType, given: Argument) -> str:
    """The advice on converting an array of another dtype to that of the parameter."""
    if getattr(given.dtype, "kind", "") == "c":
        return "pass its real and imaginary parts, x.real and x.imag"
    if str(given.dtype).startswith("key<"):
        return "jax.random.key_data(key) has the numbers of a key"
    return f"convert it with astype(wp.{type.dtype}.dtype)"


def _check_value(where: str, type: ArrayType, given: Argument) -> Fault | None:
    """A vector or matrix by value: the shape of its components, and numbers that convert."""
    if given.origin == "number":
        name = getattr(type.element, "full_name", type)
        return Fault(
            KernelTypeError,
            f"{where.replace('parameter', 'argument')} expects {name} but got a single value, {given}",
            f"pass an array of shape {type.components}, or a tuple",
        )
    if given.shape != type.components:
        return _mismatch(where, type, given, f"pass an array of shape {type.components}, or a tuple")
    source = given_type(given)
    if source is None or (source is not type.dtype and not (type.dtype.is_float and source.kind != "bool")):
        return _mismatch(where, type, given, f"convert it with astype(wp.{type.dtype}.dtype)")
    return None


def _read_shape(where: str, type: ArrayType, value: Any) -> tuple[int, ...] | Fault:
    entries = value if isinstance(value, (tuple, list)) else (value,)
    try:
        if any(isinstance(entry, bool) for entry in entries):
            raise TypeError
        shape: tuple[Any, ...] = tuple(
            entry if isinstance(entry, Symbolic) else operator.index(entry) for entry in entries
        )
    # Traced extents refuse with errors of their own, which do not name the kernel.
    except Exception:
        return Fault(
            LaunchError,
            f"{where}: expected a shape (an int or a tuple of ints), a jax.ShapeDtypeStruct or a JAX array,"
            f" got {_name(value)}",
            "a shape must be known when the launch is traced",
        )
    if any(extent < 0 for extent in shape if not isinstance(extent, Symbolic)):
        return Fault(LaunchError, f"{where}: a shape must not be negative, got {shape}")
    if type.components and len(shape) == type.dims:
        return (*shape, *type.components)
    if len(shape) != type.ndim or shape[type.dims :] != type.components:
        whole = f", or {type.ndim} with the components {type.components}" if type.components else ""
        return Fault(LaunchError, f"{where}: expected a shape of {type.dims} extents for {type!r}{whole}, got {shape}")
    return shape


def _name(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:60]}"


# Scalars


def _check_scalar(where: str, type: ScalarType, given: Argument) -> Fault | None:
    source = given_type(given)
    if source is None or given.shape:
        return _mismatch(where, type, given, "pass a number, or an array of shape ()")
    if type.is_int and source.is_float:
        return _mismatch(where, type, given, "convert it with int(...) or astype, which choose the rounding")
    if type.kind == "bool" and source.kind != "bool" and not _is_zero_or_one(given):
        return _mismatch(where, type, given, "pass a bool, for example value != 0")
    if type.is_int and not _fits(type, source, given):
        text = f"{where}: expected {type}, got {given}, which is outside {type.min} … {type.max}"
        return Fault(LaunchError, text)
    if type.is_float and _overflows_double(given):
        return Fault(LaunchError, f"{where}: expected {type}, got an int too large for any float")
    return None


# The placeholder of a Python number until its parameter gives it a type.
_PYTHON_NUMBERS = {bool: bool_, int: int64, float: float64}


def given_type(given: Argument) -> ScalarType | None:
    """The scalar type of a number or of an array's elements; None if the language has none."""
    if given.origin == "number" and given.dtype is None:
        return next(t for python, t in _PYTHON_NUMBERS.items() if isinstance(given.value, python))
    try:
        return None if given.dtype is None else from_dtype(given.dtype)
    # Extended dtypes, such as those of PRNG keys, are unknown to NumPy.
    except TypeError:
        return None


def _readable(given: Argument) -> bool:
    return given.origin != "jax" or given.concrete


def _is_zero_or_one(given: Argument) -> bool:
    source = given_type(given)
    return source is not None and source.is_int and _readable(given) and int(given.value) in (0, 1)


def _fits(type: ScalarType, source: ScalarType, given: Argument) -> bool:
    """Traced integers wrap; one whose value is known must fit. Of ids, -1 and others below 0 are bits, as in C."""
    if source is type or source.kind == "bool" or not _readable(given):
        return True
    least = int64.min if type is uint64 else type.min
    return least <= int(given.value) <= type.max


def _overflows_double(given: Argument) -> bool:
    if given.dtype is None:
        try:
            float(given.value)
        except OverflowError:
            return True
    return False


def to_scalar(type: ScalarType, given: Argument) -> np.ndarray:
    """A checked number as an array of shape () with the parameter's dtype."""
    # A number beyond a float type's range becomes infinite, as in C.
    with np.errstate(over="ignore"):
        return np.asarray(given.value).astype(type.dtype)
