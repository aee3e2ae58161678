"""The gradients that an adjoint launch is asked for, and the cotangents that are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel


@dataclass(frozen=True)
class Request:
    """`wanted` maps parameters to True, or to what their gradient is added to; `cotangents` outputs to theirs.

    `cotangents` is None where nothing was said of them. `is_named`: the gradients come back by name.
    """

    wanted: Mapping[int, Any]
    cotangents: Mapping[int, Any] | None
    is_named: bool


def has_gradient(kernel: Kernel, index: int) -> bool:
    """True if parameter `index`, as it is written, has a gradient: it is of floats, or has a field that is."""
    return any(kernel.params[p].dtype.is_float for p in kernel.groups[index])


def read_request(
    kernel: Kernel,
    inputs: Sequence[int],
    outputs: Sequence[int],
    in_outs: Sequence[int],
    adj_inputs: Any,
    adj_outputs: Any,
    *,
    only_inputs: bool,
) -> Request:
    """Match `adj_inputs` and `adj_outputs` to parameters.

    `inputs` and `outputs` are the parameters that were passed as such, `in_outs` the outputs with a content;
    with `only_inputs` all were passed as inputs, and entries are for all of them.
    """
    where, params = f"kernel '{kernel.name}'", kernel.signature
    is_named = isinstance(adj_inputs, dict) or (only_inputs and not isinstance(adj_inputs, (list, tuple)))
    if adj_inputs is None:
        wanted = {i: True for i in inputs if has_gradient(kernel, i) and i not in outputs}
    elif isinstance(adj_inputs, dict):
        wanted = _by_name(where, "adj_inputs", adj_inputs, params, [*inputs, *in_outs])
    else:
        places = [*inputs, *in_outs] if len(inputs) < len(_listed(where, "adj_inputs", adj_inputs)) else list(inputs)
        wanted = _by_place(where, "adj_inputs", adj_inputs, params, places, len(inputs))
    wanted = {i: value for i, value in wanted.items() if value is not None and value is not False}
    cotangents: dict[int, Any] | None = None
    if isinstance(adj_outputs, dict):
        cotangents = _by_name(where, "adj_outputs", adj_outputs, params, outputs)
    elif adj_outputs is not None:
        _listed(where, "adj_outputs", adj_outputs)
        cotangents = _by_place(where, "adj_outputs", adj_outputs, params, list(outputs), len(outputs))
    for what, given in (("adj_inputs", wanted), ("adj_outputs", cotangents or {})):
        for index, value in given.items():
            if value is not None and not has_gradient(kernel, index):
                raise KernelTypeError(
                    f"{where}, parameter '{params[index].name}' is {params[index].type!r}, which has no gradient",
                    hint=f"its entry in {what} is None",
                )
    return Request(wanted, cotangents, is_named)


def _listed(where: str, what: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, (list, tuple)):
        raise LaunchError(
            f"{where}: {what} must be a list, a tuple or a dict by parameter name, got {type(given).__name__}",
            hint=f"one value is written {what}=[value]",
        )
    return given


def _by_name(
    where: str, what: str, given: Mapping[str, Any], params: Sequence[Any], known: Sequence[int]
) -> dict[int, Any]:
    names = {params[i].name: i for i in known}
    for name in given:
        if name not in names:
            raise LaunchError(f"{where}: {what} name '{name}' is none of {', '.join(names) or 'none at all'}")
    return {names[name]: value for name, value in given.items()}


def _by_place(
    where: str, what: str, given: Sequence[Any], params: Sequence[Any], places: Sequence[int], least: int
) -> dict[int, Any]:
    if len(given) != len(places):
        names = ", ".join(params[i].name for i in places)
        expected = f"{least} or {len(places)}" if least != len(places) else str(least)
        raise LaunchError(
            f"{where}: {what} has {len(given)} entries, expected {expected} ({names})",
            hint="None stands for one that is not wanted" if what == "adj_inputs" else "None stands for zeros",
        )
    return dict(zip(places, given, strict=True))
