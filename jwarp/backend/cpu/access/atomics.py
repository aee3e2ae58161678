"""Atomic operations: one for each lane or for the vector, and plain additions where there are no write conflicts."""

from __future__ import annotations

from jwarp.backend.cpu.access.addresses import Element
from jwarp.backend.cpu.access.descriptor import Access
from jwarp.backend.cpu.access.instructions import load_vector, store_vector
from jwarp.backend.cpu.access.plain import split_by_range
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, Code, Instructions, Options, literal, memory_type, scalar_type, suffix
from jwarp.backend.cpu.rules import convert, extremum
from jwarp.ir.evaluate import neutral
from jwarp.ir.nodes import Op
from jwarp.ir.ops import EXTREMA
from jwarp.types import ScalarType, float32


def serialised(body: Body, access: Access) -> list[str]:
    """Change the elements atomically, lane by lane; the old values, if they are wanted."""
    [node], values = access.nodes, _values(body, access)
    memory, code, vector = body.memory, body.code, body.code.vector(memory_type(access.type))
    element = body.element(node, node.indices, lane_by_lane=True)
    mask, pointers = memory.scatter_operands(element, memory.address(element), body.mask)
    function = _changing_function(code, _verb(node), access.type, len(values), access.wanted)
    given = [f"{code.vector('ptr')} {pointers}", *(f"{vector} {v}" for v in values), f"i64 {_active(code, mask)}"]
    call = f"call {vector if access.wanted else 'void'} {function}({', '.join(given)})"
    if access.wanted:
        return _found(body, access, code.define(call))
    code.line(call)
    return []


def _verb(node: Op) -> str:
    return node.name.removeprefix("atomic_")


def _values(body: Body, access: Access) -> list[str]:
    [node] = access.nodes
    return [body.vector(body.lanes(x)) for x in node.args[len(node.indices) :]]


def _found(body: Body, access: Access, before: str) -> list[str]:
    """The values that the lanes found; one in a kernel of blocks, where one lane stands for all."""
    [node] = access.nodes
    if node.result is None or not body.shapes[node.result].is_uniform:
        return [before]
    return [body.code.define(f"extractelement {body.code.vector(scalar_type(access.type))} {before}, i64 0")]


def _active(code: Code, mask: str) -> str:
    """A mask as a number, as LLVM 22 cannot pass vectors of i1 on all processors."""
    bits = f"i{code.width}"
    active = code.define(f"bitcast {code.vector('i1')} {mask} to {bits}")
    return active if bits == "i64" else code.define(f"zext {bits} {active} to i64")


def _changing_function(code: Code, name: str, type: ScalarType, count: int, wanted: bool) -> str:
    """The name of a function that changes any elements atomically, in the order of the lanes.

    It takes places, `count` vectors of values and the lanes that are active, and gives what was there, if `wanted`.
    """
    function = f"@atomic.{name}.{type.name}{'.old' if wanted else ''}"
    if function not in code.functions:
        code.functions[function] = ""
        code.functions[function] = _changing_text(function, name, type, count, wanted, code)
    return function


def _changing_text(function: str, name: str, type: ScalarType, count: int, wanted: bool, outer: Code) -> str:
    code, kind = Code(outer.options), memory_type(type)
    places, vector, given = code.vector("ptr"), code.vector(kind), [f"%values{k}" for k in range(count)]
    code.label("entry")
    # Through memory the lanes are taken apart, and put together, faster than in registers.
    kept = [
        (code.define(f"alloca {t}, align 64"), t, v) for t, v in [(places, "%places"), *((vector, v) for v in given)]
    ]
    before = code.define(f"alloca {vector}, align 64") if wanted else ""
    for place, t, value in [*kept, *([(before, vector, "zeroinitializer")] if wanted else [])]:
        code.line(f"store {t} {value}, ptr {place}, align 64")
    code.line("br label %loop")
    code.label("loop")
    left, rest = code.name(), code.name()
    code.line(f"{left} = phi i64 [%active, %entry], [{rest}, %next]")
    code.line(f"br i1 {code.define(f'icmp eq i64 {left}, 0')}, label %done, label %step")
    code.label("step")
    code.declare("i64", "llvm.cttz.i64", ["i64", "i1"])
    lane = code.define(f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)")
    place, *numbers = (
        code.define(f"load {t}, ptr {code.define(f'getelementptr {t}, ptr {base}, i64 {lane}')}")
        for t, base in zip(["ptr", *[kind] * count], [base for base, _, _ in kept], strict=True)
    )
    old = _indivisible(code, name, type, place, numbers)
    if wanted:
        code.line(f"store {kind} {old}, ptr {code.define(f'getelementptr {kind}, ptr {before}, i64 {lane}')}")
    code.line("br label %next")
    code.label("next")
    code.line(f"{rest} = and i64 {left}, {code.define(f'sub i64 {left}, 1')}")
    code.line("br label %loop")
    code.label("done")
    code.line(f"ret {vector} {code.define(f'load {vector}, ptr {before}, align 64')}" if wanted else "ret void")
    outer.declarations |= code.declarations
    params = ", ".join([f"{places} %places", *(f"{vector} {v}" for v in given), "i64 %active"])
    head = f"define internal {vector if wanted else 'void'} {function}({params}) noinline nounwind {{"
    return "\n".join([head, *code.sections[BODY], "}"])


def combined_atomic(body: Body, access: Access) -> list[str]:
    """Change the one element of all lanes atomically, once; no lane wants the old value."""
    [node], [value, *_] = access.nodes, _values(body, access)
    element = body.element(node, node.indices, lane_by_lane=True)
    combined = _combined(body.code, _verb(node), access.type, value, body.mask)
    with body.memory.inside(element) as place:
        _indivisible(body.code, _verb(node), access.type, place, [combined])
    return []


def combined_count(body: Body, access: Access) -> list[str]:
    """Add integers to the one element of all lanes, once; what each lane would find if they came in turn."""
    [node], [value] = access.nodes, _values(body, access)
    code, type, mask = body.code, access.type, body.mask
    element = body.element(node, node.indices, lane_by_lane=True)
    out, kind, vector = code.instructions(BODY, True), memory_type(type), code.vector(memory_type(type))
    own = value if mask is None else out.select(mask, type, value, "zeroinitializer")
    upto, shift = own, 1
    while shift < code.width:
        lanes = ", ".join(f"i32 {lane - shift if lane >= shift else code.width}" for lane in code.lane_numbers)
        moved = code.define(f"shufflevector {vector} {upto}, {vector} zeroinitializer, {code.vector('i32')} <{lanes}>")
        upto, shift = out.binary("add", type, upto, moved), 2 * shift
    total = code.define(f"extractelement {vector} {upto}, i64 {code.width - 1}")
    before, outside = out.binary("sub", type, upto, own), code.block
    with body.memory.inside(element) as place:
        old, inside = _indivisible(code, "add", type, place, [total]), code.block
    if element.inside is None:
        return _found(body, access, out.binary("add", type, code.splat(old, kind), before))
    found = code.define(f"phi {kind} [{old}, %{inside}], [0, %{outside}]")
    before = code.define(f"select i1 {element.inside}, {vector} {before}, {vector} zeroinitializer")
    return _found(body, access, out.binary("add", type, code.splat(found, kind), before))


# -- additions without write conflicts


def add_one(body: Body, access: Access) -> list[str]:
    """Add to the one element of all lanes what they have together."""
    [node], [value] = access.nodes, _values(body, access)
    element = body.element(node, node.indices)
    combined = _combined(body.code, "add", access.type, value, body.mask)
    with body.memory.inside(element) as place:
        _add_at(body.code, access.type, place, combined)
    return []


def add_vector(body: Body, access: Access) -> list[str]:
    """Add a vector to consecutive elements."""
    [value], memory, mask = _values(body, access), body.memory, body.mask

    def fast(element: Element) -> list[str]:
        old = load_vector(memory, element, mask)
        store_vector(memory, element, plus(body.code.instructions(BODY, True), access.type, old, value), mask)
        return []

    def slow(element: Element) -> list[str]:
        add_lanes(body, element, value)
        return []

    return split_by_range(body, access, fast, slow)


def add_any(body: Body, access: Access) -> list[str]:
    """Add a vector to any elements."""
    [node], [value] = access.nodes, _values(body, access)
    add_lanes(body, body.element(node, node.indices), value)
    return []


def add_lanes(body: Body, element: Element, value: str) -> None:
    """Call the function that adds a vector to any elements."""
    code, type = body.code, element.type
    base, numbers = body.memory.base_of(element)
    mask, numbers = body.memory.scatter_operands(element, numbers, body.mask)
    # The lanes of threads are mostly all active.
    function = _lanes_function(code, type, body.mask is body.thread_mask and code.width > 1)
    vector, active = code.vector(scalar_type(type)), _active(code, mask)
    given = [f"ptr {base}", f"{code.vector('i64')} {numbers}", f"{vector} {value}", f"i64 {active}"]
    code.line(f"call void {function}({', '.join(given)})")


def plus(out: Instructions, type: ScalarType, x: str, y: str) -> str:
    """A sum, of 16-bit floats in 32 bits."""
    if type.is_float and type.bits == 16:
        return convert(
            out, float32, type, out.binary("fadd", float32, *(convert(out, type, float32, v) for v in (x, y)))
        )
    return out.binary("fadd" if type.is_float else "add", type, x, y)


def _add_at(code: Code, type: ScalarType, place: str, value: str) -> None:
    kind, align = memory_type(type), type.bits // 8
    old = code.define(f"load {kind}, ptr {place}, align {align}")
    total = plus(code.instructions(BODY, False), type, old, value)
    code.line(f"store {kind} {total}, ptr {place}, align {align}")


def _lanes_function(code: Code, type: ScalarType, mostly_all: bool) -> str:
    """The name of a function that adds a vector of values to any elements, in the order of the lanes.

    It is a function of its own as it is long, and kernels add to many arrays.
    """
    name = f"@add.{'all' if mostly_all else 'lanes'}.{type.name}"
    if name not in code.functions:
        code.functions[name] = ""
        code.functions[name] = _lanes_text(name, code.options, type, mostly_all, code)
    return name


def _lanes_text(name: str, options: Options, type: ScalarType, mostly_all: bool, outer: Code) -> str:
    code = Code(options)
    places, values, mask = code.vector("ptr"), code.vector(scalar_type(type)), code.vector("i1")
    bits, kind, numbers = f"i{code.width}", memory_type(type), code.vector("i64")
    code.label("entry")
    spare = code.define(f"alloca [{code.width} x {kind}], align 64")
    all_places, all_values = (code.define(f"alloca {vector}, align 64") for vector in (places, values))
    if mostly_all:
        _add_all(code, type)
    code.line(f"%places = getelementptr {kind}, ptr %base, {numbers} %numbers")
    first = code.splat(code.define(f"extractelement {places} %places, i64 0"), "ptr")
    equal = code.define(f"icmp eq {places} %places, {first}")
    active = code.define(f"trunc i64 %active to {bits}") if bits != "i64" else "%active"
    code.line(f"%mask = bitcast {bits} {active} to {mask}")
    active_equal = code.define(f"and {bits} {active}, {code.define(f'bitcast {mask} {equal} to {bits}')}")
    # With no active lane even the first place may lie anywhere.
    some = code.define(f"icmp ne {bits} {active}, 0")
    one_place = code.define(f"and i1 {some}, {code.define(f'icmp eq {bits} {active}, {active_equal}')}")
    code.line(f"br i1 {one_place}, label %one, label %any")
    code.label("one")
    place = code.define(f"extractelement {places} %places, i64 0")
    _add_at(code, type, place, _combined(code, "add", type, "%values", "%mask"))
    code.line("ret void")
    code.label("any")
    # The additions of inactive lanes go to places that nobody reads.
    nowhere = code.define(f"getelementptr {kind}, ptr {spare}, {code.vector('i64')} {code.iota('i64')}")
    chosen = code.define(f"select {mask} %mask, {places} %places, {places} {nowhere}")
    code.line(f"store {places} {chosen}, ptr {all_places}, align 64")
    code.line(f"store {values} %values, ptr {all_values}, align 64")
    (_add_in_turn if mostly_all else _add_unrolled)(code, type, all_places, all_values)
    code.line("ret void")
    outer.declarations |= code.declarations
    params = f"ptr %base, {numbers} %numbers, {values} %values, i64 %active"
    head = f"define internal void {name}({params}) noinline nounwind {{"
    return "\n".join([head, *code.sections[BODY], "}"])


def _add_unrolled(code: Code, type: ScalarType, places: str, values: str) -> None:
    """Add lane after lane, in code for each. LLVM takes them out of registers, which is faster than out of memory."""
    for lane in code.lane_numbers:
        _add_lane(code, type, places, values, str(lane))


def _add_in_turn(code: Code, type: ScalarType, places: str, values: str) -> None:
    """The same in a loop: short code, for what is rare."""
    code.line("br label %loop")
    code.label("loop")
    lane, following = code.name("lane"), code.name("lane")
    code.line(f"{lane} = phi i64 [0, %any], [{following}, %loop]")
    _add_lane(code, type, places, values, lane)
    code.line(f"{following} = add i64 {lane}, 1")
    code.line(f"br i1 {code.define(f'icmp eq i64 {following}, {code.width}')}, label %done, label %loop")
    code.label("done")


def _add_lane(code: Code, type: ScalarType, places: str, values: str, lane: str) -> None:
    place, value = (
        code.define(f"load {t}, ptr {code.define(f'getelementptr {t}, ptr {base}, i64 {lane}')}")
        for t, base in (("ptr", places), (memory_type(type), values))
    )
    _add_at(code, type, place, value)


def _all_lanes(code: Code, mask: str) -> str:
    """The condition that a mask has all lanes."""
    bits = f"i{code.width}"
    found = code.define(f"bitcast {code.vector('i1')} {mask} to {bits}")
    return code.define(f"icmp eq {bits} {found}, -1")


def _add_all(code: Code, type: ScalarType) -> None:
    """Add where all lanes are active and have numbers of 32 bits, and go on elsewhere.

    Such numbers leave a vector two at a time.
    """
    kind, values = memory_type(type), code.vector(scalar_type(type))
    numbers, halves = code.vector("i64"), code.vector("i32")
    short = code.define(f"icmp ult {numbers} %numbers, splat (i64 {1 << 32})")
    all_short = _all_lanes(code, short)
    all_active = code.define(f"icmp eq i64 %active, {(1 << code.width) - 1}")
    code.line(f"br i1 {code.define(f'and i1 {all_short}, {all_active}')}, label %all, label %some")
    code.label("all")
    low = code.define(f"trunc {numbers} %numbers to {halves}")
    first = code.define(f"extractelement {halves} {low}, i64 0")
    same = code.define(f"icmp eq {halves} {low}, {code.splat(first, 'i32')}")
    all_same = _all_lanes(code, same)
    code.line(f"br i1 {all_same}, label %all.one, label %all.any")
    code.label("all.one")
    place = code.define(f"getelementptr {kind}, ptr %base, i64 {code.define(f'zext i32 {first} to i64')}")
    _add_at(code, type, place, _combined(code, "add", type, "%values", None))
    code.line("ret void")
    code.label("all.any")
    couples = f"<{code.width // 2} x i64>"
    pairs = code.define(f"bitcast {halves} {low} to {couples}")
    for lane in code.lane_numbers:
        pair = code.define(f"extractelement {couples} {pairs}, i64 {lane // 2}")
        number = code.define(f"lshr i64 {pair}, 32" if lane % 2 else f"and i64 {pair}, {(1 << 32) - 1}")
        place = code.define(f"getelementptr {kind}, ptr %base, i64 {number}")
        _add_at(code, type, place, code.define(f"extractelement {values} %values, i64 {lane}"))
    code.line("ret void")
    code.label("some")


def reduced(code: Code, name: str, type: ScalarType, value: str) -> str:
    """The lanes of a vector combined."""
    return _reduce(code, name, type, value)


def _combined(code: Code, name: str, type: ScalarType, value: str, mask: str | None) -> str:
    """One value that changes an element as those of all active lanes do, one after the other."""
    out = code.instructions(BODY, True)
    if mask is not None:
        value = out.select(mask, type, value, out.constant(type, neutral(name, type).value))
    if type.is_float and type.bits == 16:
        wide = _reduce(code, name, float32, convert(out, type, float32, value))
        return convert(code.instructions(BODY, False), float32, type, wide)
    return _reduce(code, name, type, value)


def _reduce(code: Code, name: str, type: ScalarType, value: str) -> str:
    if type.is_float and name in EXTREMA:
        return _extremum(code, name, type, value)
    kind, vector = scalar_type(type), code.vector(scalar_type(type))
    verb = f"f{name}" if type.is_float else _REDUCTIONS[type.kind][name]
    function = f"llvm.vector.reduce.{verb}.{suffix(kind, code.width)}"
    if type.is_float:
        start = literal(neutral(name, type))
        code.declare(kind, function, [kind, vector])
        # The order within a vector is free, but it is the same in every run.
        return code.define(f"call reassoc {kind} @{function}({kind} {start}, {vector} {value})")
    code.declare(kind, function, [vector])
    return code.define(f"call {kind} @{function}({vector} {value})")


def _extremum(code: Code, name: str, type: ScalarType, value: str) -> str:
    """The least or greatest lane: LLVM's reductions have no form in which numbers win over NaN."""
    out, vector, width = code.instructions(BODY, True), code.vector(scalar_type(type)), code.width
    for distance in (width >> k for k in range(1, width.bit_length())):
        lanes = ", ".join(f"i32 {lane ^ distance}" for lane in range(width))
        other = code.define(f"shufflevector {vector} {value}, {vector} poison, {code.vector('i32')} <{lanes}>")
        value = extremum(out, type, name == "max", value, other)
    return code.define(f"extractelement {vector} {value}, i64 0")


def _indivisible(code: Code, name: str, type: ScalarType, place: str, values: list[str]) -> str:
    """One atomic instruction; what was there before."""
    kind = memory_type(type)
    align = f"align {type.bits // 8}"
    if name == "cas":
        out = code.instructions(BODY, False)
        bits = f"i{type.bits}"
        raw = [out.convert("bitcast", kind, v, bits) if type.is_float else v for v in values]
        pair = code.define(f"cmpxchg ptr {place}, {bits} {raw[0]}, {bits} {raw[1]} monotonic monotonic, {align}")
        old = code.define(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        return out.convert("bitcast", bits, old, kind) if type.is_float else old
    if type.is_float and name != "exch" and (type.bits == 16 or name != "add"):
        return _indivisible_loop(code, name, type, place, values[0])
    instruction = (_FLOAT_ATOMICS if type.is_float else _INT_ATOMICS[type.kind])[name]
    return code.define(f"atomicrmw {instruction} ptr {place}, {kind} {values[0]} monotonic, {align}")


def _indivisible_loop(code: Code, name: str, type: ScalarType, place: str, value: str) -> str:
    """Compute and store if nothing came between: extrema, and 16-bit floats in float32."""
    kind, bits, align = memory_type(type), f"i{type.bits}", f"align {type.bits // 8}"
    out = code.instructions(BODY, False)
    arithmetic = float32 if type.bits == 16 else type
    wide = convert(out, type, arithmetic, value)
    first = code.define(f"load atomic {bits}, ptr {place} monotonic, {align}")
    before, retry, done = code.block, code.new_label("atomic.retry"), code.new_label("atomic.done")
    code.line(f"br label %{retry}")
    code.label(retry)
    old, seen = code.name(), code.name()
    code.line(f"{old} = phi {bits} [{first}, %{before}], [{seen}, %{retry}]")
    current = convert(out, type, arithmetic, out.convert("bitcast", bits, old, kind))
    if name == "add":
        changed = out.binary("fadd", arithmetic, current, wide)
    else:
        changed = extremum(out, arithmetic, name == "max", current, wide)
    stored = out.convert("bitcast", kind, convert(out, arithmetic, type, changed), bits)
    pair = code.define(f"cmpxchg ptr {place}, {bits} {old}, {bits} {stored} monotonic monotonic, {align}")
    code.line(f"{seen} = extractvalue {{ {bits}, i1 }} {pair}, 0")
    code.line(f"br i1 {code.define(f'extractvalue {{ {bits}, i1 }} {pair}, 1')}, label %{done}, label %{retry}")
    code.label(done)
    return out.convert("bitcast", bits, old, kind)


_BITWISE = {"and": "and", "or": "or", "xor": "xor", "exch": "xchg", "add": "add"}
_INT_ATOMICS = {
    "int": {**_BITWISE, "min": "min", "max": "max"},
    "uint": {**_BITWISE, "min": "umin", "max": "umax"},
}
_FLOAT_ATOMICS = {"add": "fadd", "exch": "xchg"}
_REDUCTIONS = {
    "int": {"add": "add", "mul": "mul", "min": "smin", "max": "smax", "and": "and", "or": "or", "xor": "xor"},
    "uint": {"add": "add", "mul": "mul", "min": "umin", "max": "umax", "and": "and", "or": "or", "xor": "xor"},
    "bool": {"and": "and", "or": "or", "xor": "xor"},
}
