"""The parameters of an adjoint kernel of a handwritten kernel, by their names."""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.config import config
from jwarp.errors import KernelTypeError
from jwarp.frontend.cuda_kernel import Definition
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.types import ArrayType, Type

PREFIX = "adj_"


@dataclass(frozen=True, slots=True)
class AdjointParameter:
    """The role of a parameter of the adjoint for parameter `param` of the kernel.

    `kind` is `input` (its value before the launch), `result` (after it), `cotangent`, `gradient`, or `changed`: a
    cotangent that becomes the gradient of what the parameter started from.
    """

    kind: str
    param: int


def parameters_of(definition: Definition, adjoint: Kernel) -> tuple[AdjointParameter, ...]:
    """The roles of the adjoint's parameters.

    Raises:
        KernelTypeError: a parameter has no name or type of an adjoint, or a cotangent is not asked for.
    """
    found = tuple(_parameter(definition, adjoint, p, param) for p, param in enumerate(adjoint.params))
    taken = {known.param for known in found if known.kind in ("cotangent", "changed")}
    for p in definition.outputs:
        if definition.params[p].dtype.is_float and p not in taken:
            name = definition.params[p].name
            raise KernelTypeError(
                f"kernel '{definition.name}': its adjoint '{adjoint.name}' has no parameter '{PREFIX}{name}', so what "
                f"depends on output '{name}' would have no gradient",
                definition.span,
                "add it; an adjoint takes inputs by their names, then cotangents of outputs, then gradients of inputs",
            )
    return found


def _parameter(definition: Definition, adjoint: Kernel, index: int, param: Param) -> AdjointParameter:
    names = [p.name for p in definition.params]
    if param.name in names:
        p = names.index(param.name)
        if index in adjoint.outputs(config.settings):
            raise _unknown(definition, adjoint, param, "is an output, and only gradients are")
        found = AdjointParameter("input" if p in definition.inputs else "result", p)
        expected: Type = definition.params[p].type
    elif param.name.startswith(PREFIX) and param.name.removeprefix(PREFIX) in names:
        p = names.index(param.name.removeprefix(PREFIX))
        if not definition.params[p].dtype.is_float:
            raise _unknown(definition, adjoint, param, f"belongs to '{names[p]}', which has no gradient")
        found, expected = (
            AdjointParameter(_kind(definition, adjoint, index, p), p),
            _as_array(definition.params[p].type),
        )
    else:
        raise _unknown(definition, adjoint, param, "is no name of an adjoint's parameter")
    if param.type != expected:
        raise _unknown(definition, adjoint, param, f"is {param.type!r}, expected {expected!r}")
    return found


def _kind(definition: Definition, adjoint: Kernel, index: int, p: int) -> str:
    is_output = index in adjoint.outputs(config.settings)
    if p in definition.outputs and p not in definition.in_outs:
        if is_output:
            raise _unknown(definition, adjoint, adjoint.params[index], "is a cotangent, and so no output")
        return "cotangent"
    if p in definition.in_outs:
        if not is_output:
            return "cotangent"
        return "changed" if adjoint.may_read(index) else "gradient"
    if not is_output:
        raise _unknown(definition, adjoint, adjoint.params[index], "is a gradient, and so must be an output")
    return "gradient"


def _as_array(type: Type) -> ArrayType:
    """The array that the gradient of a parameter is: of one element for what is passed by value."""
    if not isinstance(type, ArrayType):
        return ArrayType(type, 1)
    return type if type.dims else ArrayType(type.element, 1)


def _unknown(definition: Definition, adjoint: Kernel, param: Param, what: str) -> KernelTypeError:
    return KernelTypeError(
        f"kernel '{definition.name}': parameter '{param.name}' of its adjoint '{adjoint.name}' {what}",
        definition.span,
        f"an adjoint takes inputs and results by their names, {PREFIX}<output> for cotangents, and writes "
        f"{PREFIX}<input> for gradients (arrays of one element for what is passed by value)",
    )
