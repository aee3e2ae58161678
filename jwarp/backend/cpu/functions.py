"""Functions out of line: one for each way in which a kernel calls them, with some arguments the same in all lanes.

A function with control flow takes the mask of the active lanes. It rounds as it would in the kernel, but that no sum
outside takes in a product of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jwarp.analysis.uniformity import UNIFORM, VARYING, Shape
from jwarp.backend.cpu.access.addresses import Memory
from jwarp.backend.cpu.body import Body, Made
from jwarp.backend.cpu.code import BODY, ENTRY, Code
from jwarp.ir.nodes import Function, Kernel, Op, Operand
from jwarp.types import ScalarType, bool_


def call(emitter: Body, node: Op) -> None:
    """Write a call."""
    assert node.result is not None
    kernel, functions = emitter.proofs.kernel, emitter.functions
    uniform = tuple(emitter.shape_of(x).is_uniform for x in node.args)
    made = functions.made.get((node.number, uniform))
    if made is None:
        made = _made(emitter, kernel.functions[node.number], node.number, uniform)
        functions.made[node.number, uniform] = made
    shapes = [UNIFORM if same else VARYING for same in uniform]
    given = [passed(emitter, x, shape) for x, shape in zip(node.args, shapes, strict=True)]
    functions.results[node.result] = called(emitter, made, given), made


def called(emitter: Body, made: Made, given: list[str]) -> str:
    """The results together of a function that is given texts with their types, and the mask if it takes that."""
    code = emitter.code
    if made.takes_mask:
        lanes = code.define(f"zext {code.vector('i1')} {emitter.mask or 'splat (i1 true)'} to {code.vector('i8')}")
        given = [*given, f"{code.vector('i8')} {lanes}"]
    given = [*given, *(f"ptr {pointer}" for pointer in made.pointers)]
    return code.define(f"call fastcc {made.type} {made.name}({', '.join(given)})")


def call_part(emitter: Body, node: Op) -> None:
    """Take one result of a call."""
    assert node.result is not None
    text, made = emitter.functions.results[node.args[0]]
    part = emitter.code.define(f"extractvalue {made.type} {text}, {node.number}")
    emitter.bind(node.result, taken(emitter, part, node.result.type, emitter.shapes[node.result]))


# Vectors of bools travel as bytes: of one lane, LLVM cannot return them.


def type_of(emitter: Body, type: ScalarType, shape: Shape) -> str:
    """LLVM's type of a value as functions take and give it."""
    return emitter.code.vector("i8") if type is bool_ and shape.is_varying else emitter.llvm_type(type, shape)


def passed(emitter: Body, x: Operand, shape: Shape) -> str:
    """A value as a function takes it, with its type."""
    text, type = emitter.shaped(x, shape), type_of(emitter, x.type, shape)
    if x.type is bool_ and shape.is_varying:
        text = emitter.code.define(f"zext {emitter.code.vector('i1')} {text} to {type}")
    return f"{type} {text}"


def taken(emitter: Body, text: str, type: ScalarType, shape: Shape) -> str:
    """A value that came from a call, or to the function, as code has it."""
    if type is not bool_ or not shape.is_varying:
        return text
    return emitter.code.define(f"trunc {emitter.code.vector('i8')} {text} to {emitter.code.vector('i1')}")


def _made(caller: Body, function: Function, number: int, uniform: tuple[bool, ...]) -> Made:
    """Write a function for arguments of which some are `uniform`."""
    kernel = dataclasses.replace(caller.proofs.kernel, locals=(), body=function.body)
    takes_mask = any(not isinstance(n, Op) or n.row.is_outlined or n.row.only_reads for n in function.body.nodes)
    arrays = sorted(caller.functions.arrays[number])
    pointers = (*(f"%p{array}" for array in arrays), "%symbols") if arrays else ()
    emitter = caller.functions.begin(caller, kernel)
    emitter.shapes, _ = caller.functions.shapes.of(number, uniform)
    code, params = emitter.code, []
    for k, (param, same) in enumerate(zip(function.params, uniform, strict=True)):
        shape = UNIFORM if same else VARYING
        params.append(f"{type_of(emitter, param.type, shape)} %a{k}")
    code.label("body")
    for k, (param, same) in enumerate(zip(function.params, uniform, strict=True)):
        shape = UNIFORM if same else VARYING
        emitter.bind(param, taken(emitter, f"%a{k}", param.type, shape), shape, ENTRY if same else BODY)
    if takes_mask:
        emitter.mask = taken(emitter, "%lanes", bool_, VARYING)
        params.append(f"{code.vector('i8')} %lanes")
    params += (f"ptr noalias readonly {pointer}" for pointer in pointers)
    emitter.block(function.body)
    name = f"{function.name}.{number}.{sum(same << k for k, same in enumerate(uniform))}"
    type = written(emitter, name, params, function.body.yields)
    return Made(f"@{symbol(name)}", type, takes_mask, pointers)


def symbol(name: str) -> str:
    """A name as LLVM takes it."""
    return "".join(c if c.isascii() and (c.isalnum() or c == ".") else "_" for c in name)


def written(emitter: Body, name: str, params: Sequence[str], yields: Sequence[Operand]) -> str:
    """Write down a function whose body has been emitted; the type of the results that it gives together."""
    code, shapes = emitter.code, [emitter.shape_of(y) for y in yields]
    types = [type_of(emitter, y.type, s) for y, s in zip(yields, shapes, strict=True)]
    type, result = f"{{ {', '.join(types)} }}", "poison"
    for k, (y, shape) in enumerate(zip(yields, shapes, strict=True)):
        result = code.define(f"insertvalue {type} {result}, {passed(emitter, y, shape)}, {k}")
    name = f"@{symbol(name)}"
    entry, row, body = code.sections
    head = f"define internal fastcc {type} {name}({', '.join(params)}) noinline nounwind{code.source.of_function()} {{"
    lines = [head, "entry:", *entry, *row, "  br label %body", *body, f"  ret {type} {result}", "}", ""]
    code.functions[name] = "\n".join(lines)
    return type


def nested(outer: Code, kernel: Kernel, first_extent: dict[int, int]) -> tuple[Code, Memory]:
    """The code of another function of the module, and its memory."""
    code = Code(outer.options, shares=True)
    code.declarations, code.texts, code.functions = outer.declarations, outer.texts, outer.functions
    code.library, code.inlined = outer.library, outer.inlined
    code.source = outer.source.of_another()
    return code, Memory(code, kernel, first_extent)
