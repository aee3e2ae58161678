"""The text of a kernel, the same on every run and machine, with source lines as comments; `ir.parse` reads it back."""

from __future__ import annotations

import itertools
import json
import linecache
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jwarp.errors import Span
from jwarp.ir.attributes import fields_of, item_of, role_of, without_none
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    Function,
    Gradient,
    If,
    Kernel,
    Local,
    Node,
    Op,
    Operand,
    Order,
    Value,
    While,
)
from jwarp.types import bool_, float32, int32

COMMENT_COLUMN = 44
# Constants of these types are written bare, others as 1.0:float64.
BARE_CONSTANTS = (bool_, int32, float32)


def format_kernel(kernel: Kernel) -> str:
    """The kernel as text, ending with a newline."""
    return "\n".join(_Printer(kernel).lines()) + "\n"


def format_constant(constant: Const) -> str:
    """The shortest decimal that is this value in its type."""
    kind, value = constant.type, constant.value
    text = str(kind.dtype.type(value)) if kind.is_float else str(value)
    if text.removeprefix("-").isdigit() and kind.is_float:
        text += ".0"
    return text if kind in BARE_CONSTANTS else f"{text}:{kind}"


def short_file(span: Span) -> str:
    """The name of the span's file without its folders."""
    return os.path.basename(span.file.replace("\\", "/"))


def _listed(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def quoted(name: str) -> str:
    """A name, as a JSON string if it is no identifier."""
    return name if re.fullmatch(r"[^\W\d][\w.]*", name) else json.dumps(name, ensure_ascii=False)


def is_memory(kind: Any) -> bool:
    """True if a field of an attribute is an array or tape."""
    role = role_of(kind)
    return role is not None and role.what in ("array", "tape")


# The words for a kernel's order.
ORDERS = {Order.ANY: "", Order.NUMBERS: "in order", Order.STEPS: "in one order", Order.APART: "one by one"}


class _Printer:
    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.numbers: dict[Value, int] = {}
        self.counter = itertools.count()
        self.names = [p.name for p in kernel.params] + [local.name for local in kernel.locals]
        self.shown = (kernel.span.file, 0)

    def lines(self) -> Iterator[str]:
        kernel = self.kernel
        params = ", ".join(f"{quoted(p.name)}: {p.type}" for p in kernel.params)
        facts = (
            f"block_dim {kernel.block_dim}" if kernel.block_dim else "",
            ORDERS[kernel.order],
            "exact" if kernel.exact else "",
            f"variant {json.dumps(kernel.variant)}" if kernel.variant != "forward" else "",
        )
        yield _listed(f"kernel {quoted(kernel.name)}({params})", f"tid {kernel.tid_dims}", *facts)
        for local in kernel.locals:
            yield self.local(local)
        for number, gradient in enumerate(kernel.gradients):
            yield from self.gradient(number, gradient)
        for number, function in enumerate(kernel.functions):
            yield from self.function(number, function)
        yield from self.block(kernel.body, "  ")

    def local(self, local: Local) -> str:
        word = "table" if local.values is not None else "shared" if local.shared else "local"
        values = [str(x) if isinstance(x, int) else repr(float(x)) for x in local.values or ()]
        content = f" = [{', '.join(values)}]" if local.values is not None else ""
        return f"  {word} {quoted(local.name)}: {local.type} of {list(local.shape)}{content}"

    def gradient(self, number: int, gradient: Gradient) -> Iterator[str]:
        feeds = "; ".join(f"{kind} {of} {position}" for kind, of, position in gradient.feeds)
        yield f"  gradient {number} [{feeds}] {{"
        yield from (f"    {line}" for line in _Printer(gradient.kernel).lines())
        yield "  }"

    def function(self, number: int, function: Function) -> Iterator[str]:
        params = ", ".join(map(self.define, function.params))
        yield f"  function {number} {quoted(function.name)}({params}) {{"
        yield from self.block(function.body, "    ")
        yield "  }"

    def block(self, block: Block, indent: str) -> Iterator[str]:
        for node in block.nodes:
            yield from self.node(node, indent)
        if block.yields:
            yield f"{indent}yield {self.operands(block.yields)}"

    def node(self, node: Node, indent: str) -> Iterator[str]:
        inner = indent + "  "
        match node:
            case Op():
                yield self.commented(indent + self.operation(node), node.span)
            case If():
                yield self.commented(f"{indent}if {self.operand(node.cond)} {{", node.span)
                yield from self.block(node.then, inner)
                if node.orelse.nodes or node.orelse.yields:
                    yield f"{indent}}} else {{"
                    yield from self.block(node.orelse, inner)
                yield f"{indent}}}{self.results(node.results)}"
            case For():
                bounds = f"{self.operand(node.lo)} .. {self.operand(node.hi)} step {node.step}"
                word = "for" if node.lanes is None else f"lanes {' '.join(node.lanes)}".rstrip()
                head = f"{indent}{word} {self.define(node.index)} = {bounds}"
                yield self.commented(f"{head}{self.carried(node)} {{", node.span)
                yield from self.block(node.body, inner)
                yield f"{indent}}}{self.results(node.results)}"
            case While():
                yield self.commented(f"{indent}while{self.carried(node)} {{", node.span)
                yield from self.block(node.cond, inner)
                yield f"{indent}}} do {{"
                yield from self.block(node.body, inner)
                yield f"{indent}}}{self.results(node.results)}"

    def operation(self, node: Op) -> str:
        text = " ".join(part for part in (node.name, *self.parts(node)) if part)
        # The arguments are written first: a value must not see its own number.
        return text if node.result is None else f"{self.define(node.result)} = {text}"

    def parts(self, node: Op) -> Iterable[str]:
        """The text after the name of an operation: its array or tape, operands, and the rest of its attribute."""
        row, operands = node.row, self.operands(node.args)
        if node.attr is None or not row.fits(node.attr):
            return (operands, "" if node.attr is None else str(node.attr))
        attribute = without_none(row.attribute)
        role = role_of(attribute)
        if role is None:
            fields = fields_of(attribute) or (("", attribute),)
            texts = [(kind, self.attr_text(name, getattr(node.attr, name, node.attr), kind)) for name, kind in fields]
            about = [text for kind, text in texts if is_memory(kind)]
            return (_listed(*about, operands), *(text for kind, text in texts if not is_memory(kind)))
        about = [self.attr_text("", node.attr, attribute)]
        if row.indices is not None:
            values = [self.operand(x) for x in node.values]
            return (", ".join([f"{about[0]}[{self.operands(node.indices)}]", *values]),)
        if role.what == "text":  # the condition comes first
            return (f"{operands}, {about[0]}",)
        return (_listed(*about, operands),) if role.what in ("format", "tape") else (*about, operands)

    def attr_text(self, name: str, attr: Any, kind: Any) -> str:
        """An attribute, or the field of this name of one."""
        role, parts = role_of(kind), fields_of(kind)
        if role is not None and role.what in ("array", "parameter"):
            return self.param(attr)
        if role is not None and role.what == "operation":
            return str(attr)
        if role is not None and role.what == "function":
            return f"{attr} {self.function_name(attr)}"
        if role is not None and role.what == "tape":
            return f"tape {attr}"
        if isinstance(attr, str):
            return json.dumps(attr, ensure_ascii=False)
        if isinstance(attr, bool):
            return name if attr else ""
        if parts:
            return " ".join(filter(None, (self.attr_text(n, getattr(attr, n), part) for n, part in parts)))
        item = item_of(kind)
        if isinstance(attr, tuple) and item is not None and (role_of(item) or fields_of(item)):
            return f"{name} [{'; '.join(self.attr_text('', part, item) for part in attr)}]"
        if isinstance(attr, tuple) and item is bool:
            attr = tuple(k for k, flag in enumerate(attr) if flag)  # which of the operands
            return f"{name} {list(attr)}" if attr else ""
        if isinstance(attr, tuple) and item is str:
            return f"{name} {json.dumps(attr, ensure_ascii=False)}"
        return f"{name} {list(attr) if isinstance(attr, tuple) else attr}".lstrip()

    def carried(self, node: For | While) -> str:
        if not node.params:
            return ""
        pairs = [
            f"{self.define(param)} = {self.operand(init)}" for param, init in zip(node.params, node.init, strict=False)
        ]
        return f" carry ({', '.join(pairs)})"

    def results(self, values: tuple[Value, ...]) -> str:
        return f" -> {', '.join(map(self.define, values))}" if values else ""

    def define(self, value: Value) -> str:
        number = self.numbers.setdefault(value, next(self.counter))
        return f"%{number}: {value.type}"

    def operand(self, operand: Operand) -> str:
        if isinstance(operand, Const):
            return format_constant(operand)
        # Broken IR must print too, so that it can be read.
        return f"%{self.numbers[operand]}" if operand in self.numbers else f"%undefined:{operand.type}"

    def operands(self, operands: tuple[Operand, ...]) -> str:
        return ", ".join(map(self.operand, operands))

    def param(self, index: int) -> str:
        """The name of a parameter or local array, with its number where others have that name."""
        if not 0 <= index < len(self.names):
            return f"parameter {index}"
        name = self.names[index]
        return f"{quoted(name)}@{index}" if self.names.count(name) > 1 else quoted(name)

    def function_name(self, number: int) -> str:
        functions = self.kernel.functions
        return quoted(functions[number].name) if 0 <= number < len(functions) else "(unknown)"

    def commented(self, text: str, span: Span) -> str:
        """`text`, with the source line as a comment if it is not that of the last such comment."""
        place = (span.file, span.line)
        if not span.line or place == self.shown:
            return text
        self.shown = place
        where = "" if span.file == self.kernel.span.file else f"{short_file(span)} "
        source = linecache.getline(span.file, span.line).strip()
        comment = f"# {where}line {span.line}" + (f": {source}" if source else "")
        return f"{text:<{COMMENT_COLUMN}} {comment}"
