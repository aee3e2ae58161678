"""Reads the arguments of `wp.launch` into the one form that every way to run a launch starts from."""

from __future__ import annotations

from typing import Any

from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.dispatch.call.call import Call, LaunchRequest
from jwarp.dispatch.call.checks import has_content
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.adjoints import Request, read_request
from jwarp.launching.arguments import Matched
from jwarp.wire import Role


def read_call(launch: LaunchRequest) -> Call:
    """The call that the arguments of `wp.launch` describe.

    Raises:
        KernelTypeError, LaunchError: counts, names or sizes do not fit.
    """
    kernel, outputs = launch.kernel, launch.outputs
    check_adjoint(kernel, launch.adjoint)
    dims = geometry.read_dim(launch.dim, kernel.name)
    program = program_of(kernel, config.settings)
    changed = grouping.changed_parameters(kernel, program.written)
    given = arguments.match(kernel.name, kernel.signature, changed, launch.inputs, outputs)
    request = None
    if launch.adjoint:
        request = _read_request(kernel, given, launch.adj_inputs, launch.adj_outputs, only_inputs=outputs is None)
    elif launch.adj_inputs is not None or launch.adj_outputs is not None:
        raise LaunchError(
            f"kernel '{kernel.name}': adj_inputs and adj_outputs are for adjoint launches", hint="pass adjoint=True"
        )
    return Call(
        kernel,
        program,
        dims,
        given,
        request,
        geometry.read_block_dim(launch.block_dim, kernel.name),
        is_named=outputs is None or isinstance(outputs, dict),
        differentiable=kernel.enable_backward,
    )


def check_adjoint(kernel: Kernel, adjoint: Any) -> None:
    """Raise LaunchError unless `adjoint` is True or False."""
    if not isinstance(adjoint, bool):
        raise LaunchError(f"kernel '{kernel.name}': adjoint must be True or False, got {adjoint!r}")


def _read_request(kernel: Kernel, given: Matched, adj_inputs: Any, adj_outputs: Any, *, only_inputs: bool) -> Request:
    passed = [u for u in range(len(kernel.signature)) if only_inputs or u not in given.outputs]
    in_outs = [u for u in given.outputs if any(map(has_content, parts_of(kernel, given, u)))]
    return read_request(kernel, passed, given.outputs, in_outs, adj_inputs, adj_outputs, only_inputs=only_inputs)


def parts_of(kernel: Kernel, given: Matched, index: int) -> list[Any]:
    """The parts of the value of a parameter: several for a struct."""
    argument, is_output = kernel.signature[index], given.roles[index] is Role.ZEROS
    return grouping.flatten(kernel.name, argument.name, argument.type, given.values[index], is_output=is_output)


def asked_gradients(launch: LaunchRequest) -> list[Any]:
    """The gradient that an adjoint on mutable arrays is given for each parameter, None for the array's own.

    Raises:
        LaunchError: they are no lists, or too long.
    """
    kernel, adj_inputs, adj_outputs = launch.kernel, launch.adj_inputs, launch.adj_outputs
    count = len(launch.inputs) if not isinstance(launch.inputs, dict) else 0
    asked: list[Any] = [None] * len(kernel.signature)
    if isinstance(adj_inputs, dict) or isinstance(adj_outputs, dict):
        raise LaunchError(
            f"kernel '{kernel.name}': adj_inputs and adj_outputs of a launch on arrays are lists",
            hint="None stands for the array's own grad",
        )
    for first, given, what in ((0, adj_inputs, "adj_inputs"), (count, adj_outputs, "adj_outputs")):
        for k, own in enumerate(given or ()):
            if first + k >= len(asked):
                raise LaunchError(
                    f"kernel '{kernel.name}': {what} has {len(given)} entries, one too many",
                    hint="there is one for each parameter, None for the array's own grad",
                )
            asked[first + k] = own
    return asked
