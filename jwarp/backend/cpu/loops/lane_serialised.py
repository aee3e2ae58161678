"""Emit lane-serialised loops: the lanes run one after the other, and iterations of a loop inside are vectorised."""

from __future__ import annotations

from collections import ChainMap

from jwarp.analysis.lane_serialised import live_ins
from jwarp.analysis.uniformity import UNIFORM
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, ENTRY, Lanes, memory_type, scalar_type
from jwarp.ir.nodes import For, While
from jwarp.types import ScalarType, bool_


def lane_serialised(emitter: Body, node: For | While) -> None:
    """Write a loop for one thread, and run that for each lane that is active.

    What differs between the lanes goes through memory: there it is taken apart, and put together, faster.
    """
    e, code = emitter, emitter.code
    given = [(x, e.lanes(x)) for x in live_ins(node)]
    places = {x: _place(e, x.type) for x, lanes in given if lanes.shape.is_varying}
    for x, lanes in given:
        if lanes.shape.is_varying:
            code.line(
                f"store {_memory_vector(e, x.type)} {_to_memory(e, x.type, lanes.text)}, ptr {places[x]}, align 64"
            )
    made = [(r, _place(e, r.type)) for r in node.results]
    for r, place in made:
        code.line(f"store {_memory_vector(e, r.type)} zeroinitializer, ptr {place}, align 64")
    bits = _bits(e)
    before, head, body, latch, done = (
        code.new_label(f"serial.{x}") for x in ("start", "head", "body", "latch", "done")
    )
    e.jump(before)
    code.label(before)
    e.jump(head)
    code.label(head)
    left, following = code.name("left"), code.name("left")
    code.line(f"{left} = phi i64 [{bits}, %{before}], [{following}, %{latch}]")
    e.jump_if(code.define(f"icmp ne i64 {left}, 0"), body, done)
    code.label(body)
    code.declare("i64", "llvm.cttz.i64", ["i64", "i1"])
    lane = code.define(f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)")
    outer = e.values, e.shapes, e.mask, e.thread_mask, e.is_partial, e.memory.active_lanes
    own = {
        x: Lanes(_taken(e, lanes, lane, places.get(x)), x.type, UNIFORM, BODY)
        for x, lanes in given
        if not lanes.shape.is_uniform
    }
    e.values = {**e.values, **own}
    e.shapes = ChainMap(dict.fromkeys(own, UNIFORM), e.shapes)  # type: ignore[arg-type]
    # As in kernels of blocks: what is not vectorised is done once, as if in the first lane.
    e.mask = e.thread_mask = "<" + ", ".join(f"i1 {'false' if k else 'true'}" for k in code.lane_numbers) + ">"
    e.is_partial, e.memory.active_lanes = code.width > 1, "1"
    outer_loops, e.serialised, e.is_alone = e.serialised, frozenset(), True
    e.loop(node)
    e.serialised, e.is_alone = outer_loops, False
    for r, place in made:
        text, kind = e.lanes(r).text, memory_type(r.type)
        if r.type is bool_:
            text = code.define(f"zext i1 {text} to i8")
        at = code.define(f"getelementptr {kind}, ptr {place}, i64 {lane}")
        code.line(f"store {kind} {text}, ptr {at}")
    e.values, e.shapes, e.mask, e.thread_mask, e.is_partial, e.memory.active_lanes = outer
    e.jump(latch)
    code.label(latch)
    less = code.define(f"sub i64 {left}, 1")
    code.line(f"{following} = and i64 {left}, {less}")
    e.jump(head)
    code.label(done)
    for r, place in made:
        loaded = code.define(f"load {_memory_vector(e, r.type)}, ptr {place}, align 64")
        if r.type is bool_:
            loaded = code.define(f"icmp ne {_memory_vector(e, r.type)} {loaded}, zeroinitializer")
        e.bind(r, loaded)


def _memory_vector(e: Body, type: ScalarType) -> str:
    return e.code.vector(memory_type(type))


def _to_memory(e: Body, type: ScalarType, text: str) -> str:
    return e.code.define(f"zext {e.code.vector('i1')} {text} to {e.code.vector('i8')}") if type is bool_ else text


def _place(e: Body, type: ScalarType) -> str:
    place = e.code.name("place")
    e.code.line(f"{place} = alloca {_memory_vector(e, type)}, align 64", ENTRY)
    return place


def _bits(e: Body) -> str:
    """A bit for each active lane."""
    width, mask = e.code.width, e.mask
    if mask is None:
        return str((1 << width) - 1) if width < 64 else "-1"
    text = e.code.define(f"bitcast {e.code.vector('i1')} {mask} to i{width}")
    return text if width == 64 else e.code.define(f"zext i{width} {text} to i64")


def _taken(e: Body, lanes: Lanes, lane: str, place: str | None) -> str:
    """The value of one lane."""
    code, kind = e.code, scalar_type(lanes.type)
    if place is None:  # it counts up
        bits = lanes.type.bits
        number = lane if bits == 64 else code.define(f"trunc i64 {lane} to {kind}")
        step = code.define(f"mul {kind} {number}, {lanes.shape.stride}")
        return code.define(f"add {kind} {lanes.text}, {step}")
    stored = memory_type(lanes.type)
    at = code.define(f"getelementptr {stored}, ptr {place}, i64 {lane}")
    text = code.define(f"load {stored}, ptr {at}")
    return code.define(f"icmp ne i8 {text}, 0") if lanes.type is bool_ else text
