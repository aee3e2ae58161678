"""The checked form of a launch on JAX values: its descriptor and its operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jwarp.bind import compat, values
from jwarp.compiler.program import Program
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.launching.descriptor import Descriptor, descriptor_of
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.launching.sizes import refuse_symbolic
from jwarp.wire import Role


@dataclass(frozen=True)
class Prepared:
    """A launch, the operands in order of its parameters, and the shapes of the outputs that start as zeros."""

    launch: Descriptor
    operands: list[Any]
    zeros: tuple[tuple[int, ...], ...]


def prepare(program: Program, threads: Geometry, matched: Matched, block_dim: BlockDim | None = None) -> Prepared:
    """Check the arguments of a launch of a program that is arranged, over `threads`.

    Raises:
        KernelTypeError, LaunchError: an argument does not fit its parameter.
    """
    roles, operands, zeros = _read(program, matched)
    program.refuse_content(roles)
    if compat.is_not_tracing():
        refuse_symbolic(program.name, (threads.dims, *zeros), "and nothing is being exported")
    return Prepared(descriptor_of(program, threads, roles, block_dim), operands, zeros)


def _read(program: Program, matched: Matched) -> tuple[tuple[Role, ...], list[Any], tuple[tuple[int, ...], ...]]:
    """Final roles, operands in order, and shapes of the outputs that start as zeros."""
    x64 = compat.x64_enabled()
    roles, operands, zeros = list(matched.roles), [], []
    faults: list[Fault] = []
    shapes: list[tuple[int, ...]] = []
    for index, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        given = values.describe(value, param)
        if roles[index] is Role.ZEROS:
            start = arguments.read_output(param, value, given, x64)
        else:
            start = arguments.check_input(param, given, x64) or given
        match start:
            case Fault():
                faults.append(start)
            case Argument() if not faults:
                operands.append(values.to_operand(param, start))
                roles[index] = Role.IN_OUT if roles[index] is Role.ZEROS else roles[index]
            case tuple():
                zeros.append(start)
        shapes.append(start if isinstance(start, tuple) else given.shape or ())
    arguments.raise_faults(program.name, faults)
    roles += [Role.ZEROS] * len(program.shadowed)
    zeros += [shapes[index] for index in program.shadowed]
    return tuple(roles), operands, tuple(zeros)
