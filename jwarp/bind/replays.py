"""What a launch record runs: a launch or its adjoint, on JAX values or on arrays in place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.bind import adjoint, compat, in_place
from jwarp.bind.prepare import Prepared, prepare
from jwarp.bind.primitive import bind, eager
from jwarp.errors import LaunchError
from jwarp.launch import arguments, geometry
from jwarp.launch.adjoints import Request
from jwarp.launch.arguments import Fault, Matched
from jwarp.launch.derive import refuse_race, switched_off
from jwarp.launch.descriptor import Program
from jwarp.launch.inplace_adjoint import InPlaceAdjoint


@dataclass(frozen=True)
class Call:
    """A launch with all that was given for it; `request` makes it an adjoint."""

    program: Program
    dims: tuple[int, ...]
    matched: Matched
    request: Request | None
    block_dim: int | None
    is_named: bool
    differentiable: bool

    @property
    def is_in_place(self) -> bool:
        """Whether what the launch writes are the caller's own arrays.

        Raises:
            LaunchError: for some of it, and not for the rest.
        """
        if self.request is None:
            return in_place.is_wanted(self.matched)
        given = [x for x in self.request.wanted.values() if x is not True]
        mutable = [in_place.is_mutable(x) for x in given]
        if any(mutable) and any(isinstance(x, jax.Array) for x in given):
            raise LaunchError(
                f"kernel '{self.program.name}': some adj_inputs are NumPy arrays, which are added to in place, and "
                "some are JAX arrays, which are not",
                hint="pass adj_inputs of one kind",
            )
        recorded = any(in_place.is_mutable(self.matched.values[p]) for p in self.matched.outputs)
        return any(mutable) or (recorded and not any(isinstance(x, jax.Array) for x in given))


def replay(call: Call) -> Callable[[], Any]:
    """What runs the launch each time that it is called, and gives its results."""
    if call.request is not None and call.request.cotangents is None:
        raise LaunchError(
            f"kernel '{call.program.name}': an adjoint launch needs adj_outputs",
            hint="one cotangent for each output, None for zeros",
        )
    if call.is_in_place:
        return _in_place_forward(call) if call.request is None else _in_place_adjoint(call, call.request)
    return _functional(call)


# On JAX values


def _functional(call: Call) -> Callable[[], Any]:
    made, differentiable = prepare(call.program, call.dims, call.matched, call.block_dim), call.differentiable
    run: Callable[..., list[Any]]
    if call.request is not None:
        found = adjoint.adjoint_call(
            made.launch, made.operands, made.zeros, call.request, differentiable=differentiable
        )
        run, operands, order, returned = found.run, found.operands, found.wanted, found.wanted
        is_named = call.request.is_named
        run.__name__ = call.program.name
        compiled: Callable[..., list[Any]] = jax.jit(run)
    else:
        if not made.launch.results and not call.program.lasts:
            return lambda: {} if call.is_named else ()
        options = {"differentiable": differentiable, "side_effect": call.program.lasts}
        run = functools.partial(_bound, made, options)
        compiled = eager(made.launch, made.zeros, **options)
        operands, order, returned = made.operands, made.launch.results, call.matched.outputs
        is_named = call.is_named
    names = [call.program.params[p].name for p in returned]
    places = [order.index(p) for p in returned]
    traced = any(isinstance(x, compat.Tracer) for x in operands)

    def again() -> Any:
        found = run(*operands) if traced else compiled(*operands)
        results = tuple([found[k] for k in places])
        return dict(zip(names, results, strict=True)) if is_named else results

    return again


def _bound(made: Prepared, options: Mapping[str, bool], *operands: Any) -> list[Any]:
    return bind(operands, made.launch, made.zeros, **options)


# In place


def _in_place_forward(call: Call) -> Callable[[], Any]:
    run = in_place.record(call.program, call.dims, call.matched, call.block_dim)
    results: Any = tuple(call.matched.values[p] for p in call.matched.outputs)
    if call.is_named:
        names = [call.program.params[p].name for p in call.matched.outputs]
        results = dict(zip(names, results, strict=True))

    def again() -> Any:
        run()
        return results

    return again


def _in_place_adjoint(call: Call, request: Request) -> Callable[[], Any]:
    program = call.program
    contents, extents = in_place.read_contents(program, call.matched)
    threads = geometry.fold(call.dims, program.kernel.tid_dims, program.name)
    if request.wanted and not call.differentiable:
        raise switched_off(program, next(iter(request.wanted)))
    refuse_race(program, threads, extents)
    faults: list[Fault] = []
    cotangents: dict[int, np.ndarray] = {}
    wanted: dict[int, np.ndarray] = {}
    starts: dict[int, Any] = {}  # of gradients that have no array of the caller's
    for p, given in (request.cotangents or {}).items():
        if given is not None:
            found = in_place.read_gradient(program.params[p], extents[p] or (), given, changes=False)
            faults.append(found) if isinstance(found, Fault) else cotangents.setdefault(p, found)
    for p, given in request.wanted.items():
        if given is True or type(given) in (int, float):
            starts[p] = 0.0 if given is True else given
            given = np.zeros(extents[p] or () if given is True else (), program.dtypes[p])
        found = in_place.read_gradient(program.params[p], extents[p] or (), given, changes=True)
        faults.append(found) if isinstance(found, Fault) else wanted.setdefault(p, found)
    arguments.raise_faults(program.name, faults)
    run = InPlaceAdjoint(program, threads, contents, extents, call.matched.outputs, wanted, cotangents, call.block_dim)
    names = [program.params[p].name for p in request.wanted]

    def again() -> Any:
        for p, start in starts.items():
            wanted[p][...] = start
        run()
        results = tuple([wanted[p].copy() if p in starts else x for p, x in request.wanted.items()])
        return dict(zip(names, results, strict=True)) if request.is_named else results

    return again
