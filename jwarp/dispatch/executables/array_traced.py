"""Launches on arrays while JAX traces: contents go in, and what comes out is what the arrays hold next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.bind import compat
from jwarp.bind.calls import bind
from jwarp.bind.custom_vjp import is_stopped
from jwarp.bind.prepare import prepare
from jwarp.bind.traced_memory import TracedMemory, value_of
from jwarp.compiler.program import Program
from jwarp.dispatch.call.aliases import identical, refuse_unordered
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.arguments import Matched, without_absent
from jwarp.launching.geometry import BlockDim
from jwarp.wire import Role


def run_traced(
    kernel: Kernel, program: Program, dims: tuple[int, ...], block_dim: BlockDim | None, given: Sequence[Any]
) -> None:
    """Run a launch on JAX values, which arrays stand for; `given` has one value for each parameter of the IR.

    What enable_backward says is of no account: JAX takes the gradient.

    Raises:
        KernelTypeError, LaunchError: an argument does not fit, or arrays that JAX does not trace would be written.
    """
    program, threads = program.arranged(dims, block_dim)
    of = {p: a for p, a in enumerate(given) if isinstance(a, array)}
    for p in program.written:
        if p in of and not of[p].memory.is_traced and not compat.is_not_tracing():
            raise LaunchError(
                f"kernel '{kernel.name}' writes to its parameter '{program.params[p].name}' while JAX traces, and"
                f" {of[p].memory.made_at} is no part of what is traced",
                hint="make the array inside of the traced function, or pass it as an argument of wp.functionalize",
            )
        if isinstance(given[p], np.ndarray):
            raise LaunchError(
                f"kernel '{kernel.name}' writes to its parameter '{program.params[p].name}', a NumPy array, and to"
                " JAX values or while JAX traces, where nothing is written in place",
                hint="pass wp.from_jax(x) of it, and read what it holds then by wp.to_jax",
            )
    same = identical(of, program.written)
    refuse_unordered(kernel, program, of, same)
    program = program.merged(tuple(same.items()))
    values: list[Any] = [value_of(v.memory, v.layout) if p in of else v for p, v in enumerate(given)]
    roles = tuple(Role.IN_OUT if p in program.written else Role.READ for p in range(len(values)))
    matched = Matched(roles, tuple(values), program.written)
    absent = [p for p, value in enumerate(values) if value is None and not program.params[p].is_value]
    if absent:
        matched = without_absent(matched, program.params, absent, program.written, in_place=False)
    made = prepare(program, threads, matched, block_dim)
    if not made.launch.results and not program.lasts:
        return
    operands = [jax.lax.stop_gradient(x) for x in made.operands] if is_stopped(kernel) else made.operands
    try:
        found = bind(operands, made.launch, made.zeros, differentiable=True, side_effect=program.lasts)
    except jax.errors.UnexpectedTracerError as error:
        raise _of_another_function(kernel, program, of) from error
    for p, value in zip(made.launch.results, found, strict=True):
        if p in of:
            of[p].memory.write(of[p].layout, value)


def _of_another_function(kernel: Kernel, program: Program, of: dict[int, array]) -> LaunchError:
    """The error where a value belongs to a function whose trace has ended, with the arrays that it may be."""
    now = compat.trace_state()
    others = {p: a.memory for p, a in of.items() if isinstance(a.memory, TracedMemory) and a.memory.trace != now}
    named = ", ".join(f"'{program.params[p].name}' is {memory.made_at}" for p, memory in others.items())
    return LaunchError(
        f"kernel '{kernel.name}': an array stands for a value of another function, whose trace has ended: {named}",
        hint="return wp.to_jax(a) from that function, and pass what comes back",
    )
