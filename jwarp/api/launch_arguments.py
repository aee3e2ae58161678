"""Reads the arguments of `wp.launch` into the one form that every way to run a launch starts from."""

from __future__ import annotations

from typing import Any

from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import has_content
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.adjoints import Request, read_request
from jwarp.launching.arguments import Matched
from jwarp.wire import Role


def read_call(
    kernel: Kernel,
    dim: Any,
    inputs: Any,
    outputs: Any,
    block_dim: Any,
    adjoint: bool,
    adj_inputs: Any,
    adj_outputs: Any,
) -> Call:
    """The call that the arguments of `wp.launch` describe.

    Raises:
        KernelTypeError, LaunchError: counts, names or sizes do not fit.
    """
    check_adjoint(kernel, adjoint)
    dims = geometry.read_dim(dim, kernel.name)
    program = program_of(kernel, config.settings)
    changed = grouping.changed_parameters(kernel, program.written)
    given = arguments.match(kernel.name, kernel.signature, changed, inputs, outputs)
    request = None
    if adjoint:
        request = _read_request(kernel, given, adj_inputs, adj_outputs, only_inputs=outputs is None)
    elif adj_inputs is not None or adj_outputs is not None:
        raise LaunchError(
            f"kernel '{kernel.name}': adj_inputs and adj_outputs are for adjoint launches", hint="pass adjoint=True"
        )
    return Call(
        kernel,
        program,
        dims,
        given,
        request,
        geometry.read_block_dim(block_dim, kernel.name),
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
