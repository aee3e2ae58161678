"""The version of a kernel's code for GPUs that a launch runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Access = Literal["fast", "checked", "either"]


@dataclass(frozen=True)
class Version:
    """The conditions that the code of a version relies on, and the instructions that it may use.

    `access` says how it treats accesses that are proved under a condition on the launch: `fast` trusts it, `checked`
    tests these accesses, and `either` decides by the condition, which depends on arguments that only the GPU knows.
    """

    access: Access
    is_flat: bool = False  # the launch has no batch and repeats no thread: arrays and coordinates are found at once
    is_narrow: bool = False  # 32 bits number its threads and elements, and no thread is repeated
    per_thread: tuple[int, ...] = ()  # of a narrow one, arrays whose elements have the numbers of the threads
    tf32: bool = False  # factors of products of float32 may be rounded to 11 bits
    wgmma: bool = False  # warpgroups make the products that they can, on sm_90a
