"""Launches on arrays in host memory, which are written in place, and what repeats them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jwarp import _native
from jwarp.bind import compat, values
from jwarp.compiler.launch_forms import with_lanes
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import read_place, read_places
from jwarp.dispatch.executables.host_arrays import InPlace, Place, Use
from jwarp.dispatch.executables.table import Ready
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Fault
from jwarp.launching.descriptor import extents_of
from jwarp.launching.sizes import refuse_symbolic


class HostExecutable(_native.HostExecutable):
    """A launch for all calls of one layout, which the native module runs once it has learnt it."""

    __slots__ = ()

    def call(self, values: Sequence[Any]) -> Any:
        """Run it on the leaves of a call: what comes back, True for nothing; None where nothing has run."""
        found = self.run(values)
        return None if found is NotImplemented else True if found is None else found

    def learn_from(
        self,
        run: InPlace,
        leaves: Sequence[Any],
        results: Sequence[int] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> bool:
        """Do from now on what a launch does that ran on these leaves, if that may be repeated: True if it may.

        It gives back the leaves `results`, under `names` if there are any.
        """
        places = run.places
        if len(places) != len(leaves) or run.program.shadowed:
            return False
        if any(place.use not in (Use.READ, Use.IN_OUT) for place in places):
            return False
        written = [p for p, place in enumerate(places) if p in run.program.written and leaves[p] is not None]
        arrays = [place.array for place in places]
        return self.learn(run.one_call(), list(leaves), arrays, written, results, names)


class Forward(Ready):
    """A launch on arrays in place."""

    def __init__(self, call: Call):
        super().__init__(call)
        refuse_symbolic(call.program.name, [call.dims], "and arrays that are written in place have known sizes")
        self._own = call.program.on_host()
        program, threads = self._own.arranged(call.dims, call.block_dim)
        places = read_places(program, call.matched)
        places = tuple(Place(x.array, Use.COPY) if p in call.copied else x for p, x in enumerate(places))
        run_as, over = with_lanes(program, threads)
        if run_as is not program:
            # Errors tell the dimensions as they were given.
            program.check(threads, extents_of(program.params, (place.array.shape for place in places)))
        self.run = InPlace(run_as, over, places, call.block_dim, shared=call.is_shared)
        self._values = dict(enumerate(call.matched.values))
        self._results = call.results(self._values)

    def __call__(self) -> Any:
        self.run()
        return self._results

    def change(self, given: Mapping[int, Any]) -> bool:
        numbers: dict[int, np.ndarray] = {}
        places: dict[int, Place] = {}
        for p, value in given.items():
            param = self._own.params[p]
            if param.is_array:
                found = read_place(param, value, is_output=p in self.call.matched.outputs)
                if isinstance(found, Fault):
                    return False
                places[p] = found
            elif isinstance(value, compat.Tracer):
                return False
            else:
                numbers[p] = _number(param, value)
        if places:
            self.run.set_places(places)
        for p, number in numbers.items():
            self.run.places[p].array[...] = number
        self._values.update(given)
        self._results = self.call.results(self._values)
        return True

    def resize(self, dims: tuple[int, ...]) -> bool:
        arranged, threads = with_lanes(*self._own.arranged(dims, self.call.block_dim))
        if arranged is not self.run.program:
            return False
        self.run.set_geometry(threads)
        return True

    def executable(self, values: Sequence[Any]) -> HostExecutable | None:
        if len(values) != len(self.call.matched.values):
            return None
        made = HostExecutable()
        return made if made.learn_from(self.run, values, self.call.matched.outputs, self.call.names) else None


def _number(param: Param, value: Any) -> np.ndarray:
    """The content of the array of shape () that a launch reads a scalar from."""
    return arguments.to_scalar(param.dtype, values.describe(value, param))
