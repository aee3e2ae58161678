"""Emit checks and prints, which look at single threads of a vector."""

from __future__ import annotations

from jwarp.analysis.uniformity import UNIFORM, Shape
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, ENTRY, scalar_type
from jwarp.backend.cpu.rules import convert
from jwarp.ir.builder import TRUE
from jwarp.ir.formats import Conversion, parse
from jwarp.ir.nodes import Op, Operand
from jwarp.types import bool_, float64, int64

# Bytes of a line that is made on the stack and written at once.
LINE = 1024


def inside(emitter: Body, node: Op) -> None:
    """Emit the test that indices are in range; it is known where the version at hand trusts the access."""
    assert node.result is not None
    shape = emitter.shapes[node.result]
    if node in emitter.trusted:
        emitter.bind(node.result, "splat (i1 true)" if shape.is_varying else "true", level=ENTRY)
        return
    indices = [emitter.lanes(i) for i in node.args]
    level = BODY if shape.is_varying else max(i.level for i in indices)
    text = emitter.memory.fits(node.array, indices, emitter.code.instructions(level, shape.is_varying))
    emitter.bind(node.result, text, level=level)


def thread(emitter: Body, node: Op) -> None:
    """The number of the first lane's thread; the others count up."""
    assert node.result is not None
    code = emitter.code
    columns = emitter.memory.symbol(emitter.proofs.kernel.tid_dims - 1)
    before = code.define(f"add i64 %first.thread, {code.define(f'mul i64 %row, {columns}')}")
    shape = UNIFORM if emitter.proofs.kernel.block_dim else Shape(1)
    emitter.bind(node.result, code.define(f"add i64 {before}, {emitter.first_column}"), shape)


def check(emitter: Body, node: Op) -> None:
    """Leave the code, with the place of the first thread that fails, unless the condition holds for all."""
    code = emitter.code
    holds = emitter.vector(emitter.lanes(node.args[0]))
    if node.args[0] == TRUE or holds == "splat (i1 true)":
        return
    out = code.instructions(BODY, True)
    failing = out.binary("xor", bool_, holds, "splat (i1 true)")
    if emitter.mask is not None:
        failing = out.binary("and", bool_, failing, emitter.mask)
    bits = f"i{code.width}"
    failed, goes_on = code.new_label("failed"), code.new_label("passed")
    emitter.jump_if(emitter.any_lane(failing), failed, goes_on)
    code.label(failed)
    packed = code.define(f"bitcast {code.vector('i1')} {failing} to {bits}")
    code.declare(bits, f"llvm.cttz.{bits}", [bits, "i1"])
    lane = code.define(f"call {bits} @llvm.cttz.{bits}({bits} {packed}, i1 true)")
    wide = lane if code.width == 64 else code.define(f"zext {bits} {lane} to i64")
    if emitter.proofs.kernel.block_dim:
        wide = "0"  # what fails in a lane fails in its block
    column = code.define(f"add i64 {emitter.first_column}, {wide}")
    for k, value in enumerate((str(emitter.sites[node.text]), "%row", column)):
        place = code.define(f"getelementptr inbounds i64, ptr %failure, i64 {k}")
        code.line(f"store i64 {value}, ptr {place}, align 8")
    emitter.jump("exit")
    code.label(goes_on)


def print_line(emitter: Body, node: Op) -> None:
    """Write a line for each active lane, in order."""
    code = emitter.code
    parts = parse(node.text)
    conversions = [p for p in parts if isinstance(p, Conversion)]
    vectors = [emitter.vector(emitter.lanes(x)) for x in node.args]
    bits = f"i{code.width}"
    pending = code.define(f"bitcast {code.vector('i1')} {emitter.mask or 'splat (i1 true)'} to {bits}")
    start, loop, step, following, done = (
        code.new_label(f"print.{name}") for name in ("start", "loop", "step", "next", "done")
    )
    emitter.jump(start)
    code.label(start)
    emitter.jump(loop)
    code.label(loop)
    left, rest = code.name(), code.name()
    code.line(f"{left} = phi {bits} [{pending}, %{start}], [{rest}, %{following}]")
    emitter.jump_if(code.define(f"icmp eq {bits} {left}, 0"), done, step)
    code.label(step)
    code.declare(bits, f"llvm.cttz.{bits}", [bits, "i1"])
    lane = code.define(f"call {bits} @llvm.cttz.{bits}({bits} {left}, i1 true)")
    given = [
        _promoted(emitter, conversion, x, code.define(f"extractelement {_vector_type(emitter, x)} {v}, {bits} {lane}"))
        for conversion, x, v in zip(conversions, node.args, vectors, strict=True)
    ]
    _write(emitter, "".join(p.replace("%", "%%") if isinstance(p, str) else _spelled(p) for p in parts), given)
    emitter.jump(following)
    code.label(following)
    code.line(f"{rest} = and {bits} {left}, {code.define(f'sub {bits} {left}, 1')}")
    emitter.jump(loop)
    code.label(done)


def _vector_type(emitter: Body, x: Operand) -> str:
    return emitter.code.vector(scalar_type(x.type))


def _spelled(conversion: Conversion) -> str:
    """The conversion as C has it for what `_promoted` gives."""
    return f"%{conversion.options}{'ll' if conversion.letter in 'diuoxX' else ''}{conversion.letter}"


def _promoted(emitter: Body, conversion: Conversion, x: Operand, text: str) -> str:
    """An argument as C passes it to a function of any arguments."""
    out = emitter.code.instructions(BODY, False)
    if conversion.letter == "s":
        yes, no = emitter.code.text(b"True"), emitter.code.text(b"False")
        return f"ptr {out.emit(f'select i1 {text}, ptr {yes}, ptr {no}')}"
    if x.type.is_float:
        return f"double {convert(out, x.type, float64, text)}"
    if x.type.bits == 64:
        wide = text
    else:
        signed = x.type.kind == "int" and conversion.letter in "di"
        wide = out.emit(f"{'sext' if signed else 'zext'} {scalar_type(x.type)} {text} to {scalar_type(int64)}")
    if conversion.letter != "c":
        return f"i64 {wide}"
    return f"i32 {out.emit(f'trunc i64 {wide} to i32')}"


def _write(emitter: Body, format: str, given: list[str]) -> None:
    """One line in one write, past the buffers of C and Python, so that lines of threads do not mix."""
    code = emitter.code
    if not emitter.line_buffer:
        emitter.line_buffer = code.define(f"alloca [{LINE} x i8], align 1", ENTRY)
    text, buffer = code.text(format.encode()), emitter.line_buffer
    code.declare("i32", "snprintf", ["ptr", "i64", "ptr", "..."])
    code.declare("i32", "dprintf", ["i32", "ptr", "..."])
    code.declare("i64", "write", ["i32", "ptr", "i64"])
    args = ", ".join(["", *given])
    size = code.define(f"call i32 (ptr, i64, ptr, ...) @snprintf(ptr {buffer}, i64 {LINE}, ptr {text}{args})")
    short, long, done = (code.new_label(name) for name in ("short", "long", "written"))
    emitter.jump_if(code.define(f"icmp ult i32 {size}, {LINE}"), short, long)
    code.label(short)
    code.define(f"call i64 @write(i32 1, ptr {buffer}, i64 {code.define(f'zext i32 {size} to i64')})")
    emitter.jump(done)
    code.label(long)
    code.define(f"call i32 (i32, ptr, ...) @dprintf(i32 1, ptr {text}{args})")
    emitter.jump(done)
    code.label(done)
