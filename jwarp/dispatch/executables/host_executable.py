"""The executable of launches in this computer's memory: any arrays of one layout, any numbers of the same types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jwarp import _native
from jwarp.dispatch.executables.host_arrays import InPlace, Use


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
