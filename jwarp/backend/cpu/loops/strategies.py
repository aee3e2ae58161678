"""The table of loop strategies: when each applies to a loop, what it costs, and its writer. The cheapest one is taken.

Strategies that change the loop itself are passes, which `compiler/pipeline.py` lists: `lockstep` for ranges that
overlap, `unrolled` for loads along rows, and `prefetch`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.loops.lane_serialised import lane_serialised
from jwarp.backend.cpu.loops.masked import conditional, counted
from jwarp.backend.cpu.loops.vectorised import vectors
from jwarp.ir.nodes import For, While


@dataclass(frozen=True)
class LoopStrategy:
    """One way to emit a loop. `cost` is relative to that of one lane that makes the iterations by itself."""

    name: str
    applies: Callable[[Body, For | While], bool]
    cost: float
    write: Callable[[Body, For | While], None]


STRATEGIES = (
    LoopStrategy("lane-serialised", lambda body, loop: loop in body.serialised, 0.5, lane_serialised),
    LoopStrategy("vectorised", lambda body, loop: isinstance(loop, For) and loop.lanes is not None, 0.5, vectors),
    LoopStrategy("counted, lanes masked", lambda body, loop: isinstance(loop, For), 1.0, counted),
    LoopStrategy("conditional, lanes masked", lambda body, loop: isinstance(loop, While), 1.0, conditional),
)


def choose_loop(body: Body, loop: For | While) -> LoopStrategy:
    """The cheapest strategy that applies to a loop."""
    return min((s for s in STRATEGIES if s.applies(body, loop)), key=lambda s: s.cost)
