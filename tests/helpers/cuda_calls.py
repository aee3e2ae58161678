"""Custom calls for CUDA as jwarp writes them, and kernels in Python that the stand-in for the driver runs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from launch_format import ARRAY, F32, INPUT, SCALAR, STORED, UNKNOWN, ZEROS, make_launch, make_plan
from mock_driver import Words, driver, float_at

SCALE_PLAN = make_plan(1, [(ARRAY, 1, F32, UNKNOWN), (SCALAR, 0, F32, UNKNOWN), (ARRAY, 1, F32, STORED)])
STREAMS = (0x101, 0x201)  # of devices 0 and 1
# Launches of kernels that never ran before on a device.
FIRST = ["cuLibraryLoadData", "cuLibraryGetKernel"]


def cubin(content: str = "") -> bytes:
    """The smallest file that passes for a cubin: a header of ELF without sections, and some content."""
    return b"\x7fELF\x02\x01".ljust(64, b"\0") + content.encode()


def scale_launch(n: int, batch: Sequence[int] = (), x_mask: int = 0, k_mask: int = 0, repeat: int = 1) -> np.ndarray:
    """y[i] = k * x[i], where y has all batch axes."""
    masks = (x_mask, k_mask, (1 << len(batch)) - 1)
    bindings = [(0, -1, INPUT, masks[0]), (1, -1, INPUT, masks[1]), (-1, 0, ZEROS, masks[2])]
    return make_launch([n], bindings, batch, repeat)


def attributes(launch: np.ndarray, **changes: Any) -> dict[str, Any]:
    """The attributes of a call of `scale`, but for changes."""
    made = {
        "kernel": "scale", "entry": "jwarp_scale", "image": cubin(), "plan": SCALE_PLAN, "launch": launch,
        "block": 128, "shared": 0, "per_sm": 0, "grid": np.zeros(0, np.int64), "failures": "",
    }  # fmt: skip
    assert set(changes) <= {*made, "heap"}
    return {**made, **changes}


def run_scale(words: Any, shape: Any) -> None:
    """The effect of the image of `scale`."""
    for thread in Words.read(words, symbols=4 + 1 + 1, parameters=3).all_threads():
        x, k, y = thread.addresses
        float_at(y + 4 * thread.at).value = float_at(x + 4 * thread.at).value * float_at(k).value


def register_scale() -> None:
    driver().register("jwarp_scale", run_scale)


def damaged(image: bytes, at: int, value: int) -> bytes:
    return image[:at] + struct.pack("B", value) + image[at + 1 :]
