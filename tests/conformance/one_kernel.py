"""A kernel of Warp's."""

import warp


@warp.kernel(enable_backward=False)
def one(x: warp.array[float]):
    x[0] = 1.0
