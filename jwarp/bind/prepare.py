"""The checked form of a launch on JAX values: its descriptor and its operands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from jwarp.bind import compat, values
from jwarp.compiler.program_base import Program
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
    words = frozenset() if x64 else _words_of_tables(program)
    for index, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        given = values.describe(value, param)
        if roles[index] is Role.ZEROS:
            start = arguments.read_output(param, value, given, x64)
        else:
            is_word = index in words and isinstance(value, np.ndarray)
            start = arguments.check_input(param, given, x64 or is_word) or given
            if is_word and isinstance(start, Argument):
                with compat.with_x64(True):  # a constant of the program, of which JAX computes nothing
                    start = replace(start, value=jax.numpy.asarray(value))
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


def _words_of_tables(program: Program) -> frozenset[int]:
    """The parameters that are ids of 64 bits in tables of what these name, which are known when JAX traces."""
    names = {param.name: index for index, param in enumerate(program.params) if param.dtype.bits == 64}
    every = {param.name for param in program.params} if names else set()
    tables = {name.removesuffix(".known") for name in names if name.endswith(".known")}
    return frozenset(
        names[f"{table}.{field}"]
        for table in tables
        for field in ("ids", "known")
        if f"{table}.{field}" in names and {f"{table}.numbers", f"{table}.starts"} <= every
    )
