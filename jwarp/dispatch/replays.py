"""What a launch record runs: a launch or its adjoint, on JAX values or on arrays in place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.bind import adjoint, compat, values
from jwarp.bind.calls import bind, eager
from jwarp.bind.prepare import Prepared, prepare, stream_refusal
from jwarp.dispatch import in_place, on_device
from jwarp.dispatch.host_adjoint import InPlaceAdjoint
from jwarp.errors import LaunchError
from jwarp.frontend.kernel import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching import arguments, grouping
from jwarp.launching.adjoints import Request
from jwarp.launching.arguments import Fault, Matched
from jwarp.launching.derive import refuse_race, switched_off
from jwarp.launching.descriptor import Program


@dataclass(frozen=True)
class Call:
    """A launch with all that was given for it; `request` makes it an adjoint.

    `matched` is of the kernel's parameters, `request` of those as they are written.
    """

    kernel: Kernel
    program: Program
    dims: tuple[int, ...]
    matched: Matched
    request: Request | None
    block_dim: int | None
    is_named: bool

    @property
    def parts(self) -> Request:
        """The request by parameter of the kernel."""
        assert self.request is not None
        wanted = grouping.parts_of(self.kernel, self.request.wanted)
        cotangents = grouping.parts_of(self.kernel, self.request.cotangents or {})
        wanted = {p: x for p, x in wanted.items() if x is not None}
        return Request(wanted, cotangents, self.request.is_named)

    def gradients(self, by_index: Mapping[int, Any]) -> Any:
        """The gradients as they are returned."""
        assert self.request is not None
        users = list(self.request.wanted)
        found = grouping.assemble(self.kernel, users, by_index.get)
        if not self.request.is_named:
            return tuple(found)
        return {self.kernel.signature[u].name: x for u, x in zip(users, found, strict=True)}

    @property
    def is_in_place(self) -> bool:
        """Whether what the launch writes are the caller's own arrays.

        Raises:
            LaunchError: for some of it, and not for the rest.
        """
        if self.request is None:
            return in_place.is_wanted(self.matched)
        given = [x for x in self.parts.wanted.values() if x is not True]
        mutable = [in_place.is_mutable(x) for x in given]
        if any(mutable) and any(isinstance(x, jax.Array) for x in given):
            raise LaunchError(
                f"kernel '{self.program.name}': some adj_inputs are NumPy arrays, which are added to in place, and "
                "some are JAX arrays, which are not",
                hint="pass adj_inputs of one kind",
            )
        recorded = any(in_place.is_mutable(self.matched.values[p]) for p in self.matched.outputs)
        return any(mutable) or (recorded and not any(isinstance(x, jax.Array) for x in given))


class Replay:
    """Runs a launch each time that it is called, and gives its results."""

    name: str  # of the kernel

    def __call__(self) -> Any:
        raise NotImplementedError

    def on_stream(self, stream: Any) -> Any:
        """Run it on a CUDA stream, where it may be chosen."""
        raise stream_refusal(self.name, stream)

    def change(self, index: int, value: Any) -> bool:
        """Take another value of the same kind and shape for a parameter; False where all is to be made anew."""
        return False

    def resize(self, dims: tuple[int, ...]) -> bool:
        """Run other threads; False where all is to be made anew."""
        return False


def replay(call: Call) -> Replay:
    """What runs the launch."""
    if call.request is not None and call.request.cotangents is None:
        raise LaunchError(
            f"kernel '{call.program.name}': an adjoint launch needs adj_outputs",
            hint="one cotangent for each output, None for zeros",
        )
    made = _made(call)
    made.name = call.program.name
    return made


def _made(call: Call) -> Replay:
    if on_device.is_wanted(call.matched):
        return _OnDevice(call)
    if call.is_in_place:
        return _InPlaceForward(call) if call.request is None else _InPlaceAdjoint(call)
    return _Functional(call)


# On arrays of other libraries on a GPU


class _OnDevice(Replay):
    """Its arguments are looked at anew in each launch: they are lent by libraries that may still change them."""

    def __init__(self, call: Call):
        self.call = call
        if call.request is not None:
            raise LaunchError(
                f"kernel '{call.program.name}': an adjoint does not run in place on arrays on a GPU",
                hint="pass JAX arrays, for example jax.dlpack.from_dlpack(array)",
            )

    def __call__(self) -> Any:
        return self.on_stream(None)

    def on_stream(self, stream: Any) -> Any:
        call = self.call
        by_index = on_device.run(call.program, call.dims, call.matched, call.block_dim, stream)
        return grouping.results(call.kernel, call.matched, by_index, is_named=call.is_named)


# On JAX values


class _Functional(Replay):
    def __init__(self, call: Call):
        made = prepare(call.program, call.dims, call.matched, call.block_dim)
        self.made, self.operands = made, made.operands
        self.call = call
        self.order = made.launch.results
        differentiable = call.kernel.enable_backward
        options = {"differentiable": differentiable, "side_effect": call.program.lasts}
        if call.request is not None:
            found = adjoint.adjoint_call(
                made.launch, made.operands, made.zeros, call.parts, differentiable=differentiable
            )
            self.operands, self.order = found.operands, found.wanted
            self.run, self.compiled = found.run, _jitted(found.run, call.program.name)
        elif self.order or call.program.lasts:
            self.run = functools.partial(_bound, made, options)
            self.compiled = eager(made.launch, made.zeros, **options)
        else:
            self.run = self.compiled = lambda *_: []
        self.is_traced = any(isinstance(x, compat.Tracer) for x in self.operands)

    def __call__(self) -> Any:
        found = self.run(*self.operands) if self.is_traced else self.compiled(*self.operands)
        by_index = dict(zip(self.order, found, strict=True))
        if self.call.request is not None:
            return self.call.gradients(by_index)
        return grouping.results(self.call.kernel, self.call.matched, by_index, is_named=self.call.is_named)

    def change(self, index: int, value: Any) -> bool:
        param, launch = self.made.launch.program.params[index], self.made.launch
        given = values.describe(value, param)
        if index not in launch.operands or isinstance(value, compat.Tracer):
            return False
        if index in self.call.matched.outputs and given.origin != "jax":
            return False  # a shape, or an array to write to: another kind of output
        place = launch.operands.index(index)
        if param.is_array and (given.shape, given.dtype) != (self.operands[place].shape, self.operands[place].dtype):
            return False
        self.operands[place] = values.to_operand(param, given)
        return True


def _jitted(run: Callable[..., list[Any]], name: str) -> Callable[..., list[Any]]:
    run.__name__ = name
    return jax.jit(run)


def _bound(made: Prepared, options: Mapping[str, bool], *operands: Any) -> list[Any]:
    return bind(operands, made.launch, made.zeros, **options)


# In place


class _InPlaceForward(Replay):
    def __init__(self, call: Call):
        self.call = call
        self.run = in_place.record(in_place.host_program(call.program), call.dims, call.matched, call.block_dim)
        self.values = list(call.matched.values)
        self.results = self._results()

    def _results(self) -> Any:
        by_index = dict(enumerate(self.values))
        return grouping.results(self.call.kernel, self.call.matched, by_index, is_named=self.call.is_named)

    def __call__(self) -> Any:
        self.run()
        return self.results

    def change(self, index: int, value: Any) -> bool:
        param = self.call.program.params[index]
        if not param.is_array:
            return _refill(self.run.places[index].array, param, value)
        place = in_place.read_place(param, value, is_output=index in self.call.matched.outputs)
        if isinstance(place, Fault):
            return False
        self.run.set_places({index: place})
        self.values[index] = value
        self.results = self._results()
        return True

    def resize(self, dims: tuple[int, ...]) -> bool:
        program = in_place.host_program(self.call.program)
        arranged, threads = program.arranged(dims, self.call.block_dim)
        if arranged is not self.run.program:
            return False
        self.run.set_geometry(threads)
        return True


class _InPlaceAdjoint(Replay):
    def __init__(self, call: Call):
        program, request = call.program, call.parts
        if program.handwritten is not None:
            raise LaunchError(
                f"kernel '{program.name}': the adjoint of a kernel written in CUDA C++ is not added to NumPy arrays",
                hint="pass JAX arrays, or True, as adj_inputs and JAX arrays as inputs and outputs",
            )
        self.call, self.program, self.request = call, program, request
        self.contents, extents = in_place.read_contents(program, call.matched)
        program, threads = program.arranged(call.dims, call.block_dim)
        if request.wanted and not call.kernel.enable_backward:
            raise switched_off(program, next(iter(request.wanted)))
        refuse_race(program, threads, extents)
        faults: list[Fault] = []
        cotangents: dict[int, np.ndarray] = {}
        self.wanted: dict[int, np.ndarray] = {}
        self.starts: dict[int, Any] = {}  # of gradients that have no array of the caller's
        for p, given in (request.cotangents or {}).items():
            if given is not None:
                found = in_place.read_gradient(program.params[p], extents[p] or (), given, changes=False)
                faults.append(found) if isinstance(found, Fault) else cotangents.setdefault(p, found)
        for p, given in request.wanted.items():
            if given is True or type(given) in (int, float):
                self.starts[p] = 0.0 if given is True else given
                given = np.zeros(extents[p] or () if given is True else (), program.dtypes[p])
            found = in_place.read_gradient(program.params[p], extents[p] or (), given, changes=True)
            faults.append(found) if isinstance(found, Fault) else self.wanted.setdefault(p, found)
        arguments.raise_faults(program.name, faults)
        self.run = InPlaceAdjoint(
            program, threads, self.contents, extents, call.matched.outputs, self.wanted, cotangents, call.block_dim
        )

    def __call__(self) -> Any:
        for p, start in self.starts.items():
            self.wanted[p][...] = start
        self.run()
        return self.call.gradients(
            {p: self.wanted[p].copy() if p in self.starts else x for p, x in self.request.wanted.items()}
        )

    def change(self, index: int, value: Any) -> bool:
        param, array = self.program.params[index], self.contents[index]
        # What integers are decides how gradients are gathered.
        if param.is_array or not param.dtype.is_float or array is None:
            return False
        return _refill(array, param, value)


def _refill(array: np.ndarray, param: Param, value: Any) -> bool:
    """Write another number into the array of shape () that a launch reads a scalar from."""
    if isinstance(value, compat.Tracer):
        return False
    array[...] = arguments.to_scalar(param.dtype, values.describe(value, param))
    return True
