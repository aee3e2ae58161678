"""Mathematical constants under Warp's names; in kernels they are float32."""

from __future__ import annotations

import math

pi = PI = math.pi
half_pi = HALF_PI = math.pi / 2.0
tau = TAU = math.tau
e = E = math.e
ln2 = LN2 = math.log(2.0)
ln10 = LN10 = math.log(10.0)
log2e = LOG2E = math.log2(math.e)
log10e = LOG10E = math.log10(math.e)
phi = PHI = (1.0 + math.sqrt(5.0)) / 2.0
inf = INF = math.inf
nan = NAN = math.nan

CONSTANTS = {name: value for name, value in globals().items() if isinstance(value, float)}
