"""The operations that the compiler replaces by functions of this library: each module has the rows of its own."""

from __future__ import annotations

from jwarp.frontend.func import Func
from jwarp.lib import angles, error_function, maths, maths64, trig, trig64
from jwarp.types import ScalarType

EXPANSIONS: dict[tuple[str, ScalarType], Func] = {
    key: function
    for module in (angles, error_function, maths, maths64, trig, trig64)
    for key, function in module.EXPANSIONS.items()
}

# Of a sine and a cosine of one value: forms that share what they compute.
PAIRED: dict[tuple[str, ScalarType], Func] = trig.PAIRED
