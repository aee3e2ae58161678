"""Between the arguments of a launch as they are written, and the kernel's parameters, into which structs come apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.arguments import Matched, refuse_written_inputs
from jwarp.launching.sizes import Symbolic
from jwarp.launching.structured import by_fields
from jwarp.types import (
    AnyType,
    ArrayType,
    Struct,
    StructArrayType,
    StructType,
    indexed_of,
    indexed_parts,
    indexedarray,
    leaves,
    unchecked,
)
from jwarp.wire import Role


def changed_parameters(kernel: Kernel, written: Sequence[int]) -> tuple[int, ...]:
    """The parameters as they are written of which the kernel stores to some part, by the parts it stores to."""
    return tuple(u for u, group in enumerate(kernel.groups) if not set(group).isdisjoint(written))


def expand(kernel: Kernel, given: Matched, written: Sequence[int]) -> Matched:
    """Take apart the values given for the parameters as they are written; the kernel stores to the parts `written`.

    Raises:
        KernelTypeError, LaunchError: a struct does not fit, or the kernel stores to an input.
    """
    matched = _taken_apart(kernel, given, written) if kernel.has_structs else given
    given_ones = [p for p in written if matched.values[p] is not None]
    refuse_written_inputs(kernel.name, kernel.params, given_ones, matched.roles)
    return matched


def _taken_apart(kernel: Kernel, given: Matched, written: Sequence[int]) -> Matched:
    roles: list[Role] = []
    values: list[Any] = []
    for u, (argument, group) in enumerate(zip(kernel.signature, kernel.groups, strict=True)):
        role, value = given.roles[u], given.values[u]
        values += flatten(kernel.name, argument.name, argument.type, value, is_output=role is Role.ZEROS)
        roles += (role_of_part(kernel, u, p, role, written) for p in group)
    outputs = [p for u in given.outputs for p in kernel.groups[u] if roles[p] is not Role.READ]
    return Matched(tuple(roles), tuple(values), tuple(outputs))


def role_of_part(kernel: Kernel, user: int, part: int, role: Role, written: Sequence[int]) -> Role:
    """The role of a part of the parameter `user`, which has `role` as a whole.

    Of a struct that is passed as an input and written, only some arrays may be. A struct of arrays that is an
    output may have numbers among its fields, which the kernel reads, and so are the indices of an indexed array.
    """
    indexed = getattr(kernel.signature[user].type, "indexed", None) is not None
    if role is Role.IN_OUT or (role is Role.ZEROS and indexed and part not in written):
        return role if part in written else Role.READ
    is_read = kernel.params[part].is_value and not kernel.signature[user].is_value
    return Role.READ if is_read else role


def flatten(kernel: str, name: str, kind: AnyType, value: Any, *, is_output: bool = False) -> list[Any]:
    """One value for each part of a parameter: the leaves of a struct, or of a dict of its fields.

    An output of structs may be given by one shape for all leaves.
    """
    if isinstance(kind, StructArrayType):
        if value is None:
            return [None for _ in leaves(name, kind)]
        # As one struct, whose leaves have the axes of the array in front.
        value = by_fields(f"kernel '{kernel}', parameter '{name}'", kind, value)
        found = flatten(kernel, name, kind.struct, value, is_output=is_output)
        _check_axes(kernel, name, kind, found)
        return found
    if not isinstance(kind, StructType):
        return [value]
    is_shape = isinstance(value, (int, Symbolic, tuple, list)) and not isinstance(value, bool)
    if is_output and is_shape and kind.indexed is None:
        value = dict.fromkeys(kind.fields, value)
    where = f"kernel '{kernel}', parameter '{name}'"
    value = canonical(value)
    if value is None and kind.indexed is not None:
        return [None for _ in leaves(name, kind)]
    if isinstance(value, indexedarray) and kind.indexed is not None:
        value = indexed_parts(where, kind, value)
    if isinstance(value, Struct) and type(value) is kind:
        value = {field: getattr(value, field) for field in kind.fields}
    if isinstance(value, Struct) and type(value).__name__ == kind.__name__:
        raise KernelTypeError(
            f"{where}: expected {kind!r}, got a struct of another class of that name",
            hint=f"make it of the {kind!r} that the kernel was defined with, or pass a dict of its fields",
        )
    if not isinstance(value, Mapping):
        hint = f"pass {kind!r}(…) or a dict of its fields"
        if kind.indexed is not None:
            hint = "pass wp.indexedarray(x, indices); as an output it is one, too"
        if value is None:
            raise KernelTypeError(f"kernel '{kernel}', argument '{name}' expects {kind!r} but got None", hint=hint)
        raise KernelTypeError(f"{where}: expected {kind!r}, got {type(value).__name__}", hint=hint)
    for field in value:
        if field not in kind.fields:
            raise LaunchError(f"{where}: {kind!r} has no field {field!r}; there are {', '.join(kind.fields)}")
    missing = [field for field in kind.fields if field not in value]
    if missing:
        raise LaunchError(f"{where}: there is no value for field '{missing[0]}' of {kind!r}")
    parts = (
        flatten(kernel, f"{name}.{field}", inner, value[field], is_output=is_output)
        for field, inner in kind.fields.items()
    )
    return [leaf for part in parts for leaf in part]


def plain_parts(kernel: Kernel, inputs: Sequence[Any]) -> list[Any] | None:
    """The parts of inputs that are structs of just the right classes; None where the slow path is needed.

    The parameters after them, which are outputs then, are no structs.
    """
    if any(isinstance(a.type, (StructType, StructArrayType)) for a in kernel.signature[len(inputs) :]):
        return None
    found: list[Any] = []
    for argument, value in zip(kernel.signature, inputs, strict=False):
        kind = argument.type
        if isinstance(kind, StructArrayType):
            return None  # of which the axes in front must agree
        if not isinstance(kind, StructType):
            found.append(value)
        elif not _add_parts(kind, value, found):
            return None
    return found


def _add_parts(kind: StructType, value: Any, found: list[Any]) -> bool:
    if type(value) is not kind:
        return False
    for field, inner in kind.fields.items():
        part = getattr(value, field)
        if isinstance(inner, StructType):
            if not _add_parts(inner, part, found):
                return False
        elif isinstance(inner, StructArrayType):
            return False
        else:
            found.append(part)
    return True


def _check_axes(kernel: str, name: str, kind: StructArrayType, parts: Sequence[Any]) -> None:
    """Refuse fields of an array of structs with other axes in front; a wrong rank is refused later, by field."""
    found: dict[tuple[int, ...], str] = {}
    for (path, type), part in zip(leaves(name, kind), parts, strict=True):
        assert isinstance(type, ArrayType)
        shape = _shape_of(part)
        ranks = (type.ndim,) if hasattr(part, "shape") else (type.ndim, type.dims)
        if shape is not None and len(shape) in ranks:
            found.setdefault(shape[: kind.dims], path)
    if len(found) > 1:
        (first, one), (second, other) = list(found.items())[:2]
        raise LaunchError(
            f"kernel '{kernel}', parameter '{name}': '{one}' is for an array of shape {first}, '{other}' for one of"
            f" shape {second}",
            hint=f"all fields of {kind!r} have the axes of the array in front",
        )


def _shape_of(part: Any) -> tuple[Any, ...] | None:
    """The shape of an array, or that a shape is; None for what is neither."""
    shape = getattr(part, "shape", part)
    if isinstance(shape, (int, Symbolic)) and not isinstance(shape, bool):
        return (shape,)
    is_shape = isinstance(shape, (tuple, list)) and all(isinstance(n, (int, Symbolic)) for n in shape)
    return tuple(shape) if is_shape else None


def assemble(kernel: Kernel, users: Sequence[int], found: Callable[[int], Any]) -> list[Any]:
    """The values of the parameters `users` as they are written, from those that `found` has for each part."""
    if not kernel.has_structs:
        return [found(u) for u in users]
    return [_assembled(kernel.signature[u].type, map(found, kernel.groups[u])) for u in users]


def _assembled(kind: AnyType, parts: Iterator[Any]) -> Any:
    if isinstance(kind, StructArrayType):
        kind = kind.struct
    if not isinstance(kind, StructType):
        return next(parts)
    found = [_assembled(inner, parts) for inner in kind.fields.values()]
    return unchecked(kind, found) if kind.indexed is None else indexed_of(found)


def parts_of(kernel: Kernel, given: Mapping[int, Any], flags: tuple[type, ...] = (bool, type(None))) -> dict[int, Any]:
    """Take apart a value for each parameter as it is written; a value of one of the types `flags` is for all parts.

    Of a struct, only parts of floats have gradients.
    """
    if not kernel.has_structs:
        return dict(given)
    found: dict[int, Any] = {}
    for u, value in given.items():
        argument, group = kernel.signature[u], kernel.groups[u]
        if len(group) == 1 and not isinstance(argument.type, (StructType, StructArrayType)):
            found[group[0]] = value
            continue
        if isinstance(value, flags):
            parts = [value if kernel.params[p].dtype.is_float else None for p in group]
        else:
            parts = flatten(kernel.name, argument.name, argument.type, value)
        found.update((p, part) for p, part in zip(group, parts, strict=True))
    return found


__all__ = ["assemble", "changed_parameters", "expand", "flatten", "parts_of", "role_of_part"]
