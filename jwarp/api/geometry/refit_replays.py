"""Replays of a mesh's refit while its arrays stay the same: one native call for all launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jwarp.api.launch_arguments import read_call
from jwarp.arrays.array import array
from jwarp.config import Settings, config
from jwarp.dispatch.call.call import LaunchRequest
from jwarp.dispatch.executables import route
from jwarp.dispatch.tape.native_steps import one_call
from jwarp.frontend import options

Launches = Sequence[tuple[Any, Any, Sequence[Any], Sequence[Any]]]


class Repeat(NamedTuple):
    """A refit to be repeated. It looks at what it was `given` and writes to `views`, which stay writable."""

    given: tuple[Any, ...]
    graph: Callable[[], None]
    views: tuple[np.ndarray, ...]
    sides: np.ndarray
    settings: Settings
    changes: int

    def fits(self, given: Sequence[Any]) -> bool:
        """True if a mesh has the arrays of the recorded refit, under the settings that its code was made for."""
        if self.settings is not config.settings or self.changes != options.changes:
            return False
        return all(_same(x, y) for x, y in zip(self.given, map(_known, given), strict=True))

    def views_of(self, owned: np.ndarray) -> int:
        """How many views of an array it has."""
        return sum(view.base is owned for view in self.views)


def _known(value: Any) -> Any:
    """The identity of an array: memory and layout of a `wp.array`, any other array itself."""
    return (value.memory, value.layout) if type(value) is array else value


def _same(x: Any, y: Any) -> bool:
    return x is y or (type(x) is type(y) is tuple and x[0] is y[0] and x[1] == y[1])


def repeat_of(
    given: Sequence[Any], launches: Launches, views: Sequence[np.ndarray], sides: np.ndarray
) -> Repeat | None:
    """The replay of launches on NumPy arrays, each a kernel, its threads, inputs and outputs; None if impossible."""
    graph = one_call([route.ready(read_call(LaunchRequest(*launch))) for launch in launches])
    if graph is None:
        return None
    return Repeat(tuple(map(_known, given)), graph, tuple(views), sides, config.settings, options.changes)
