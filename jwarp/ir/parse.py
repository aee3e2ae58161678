"""Reads a kernel from the text that `ir.printing` makes of it.

`parse_kernel(format_kernel(k))` is `k` but for source spans and names of values, which the text does not have. Like the
printer, it follows the annotations of attributes and knows no operation by name. It checks the grammar; whether what it
read is well formed says `verify`.
"""

from __future__ import annotations

from typing import Any

from jwarp.ir.attributes import fields_of, item_of, role_of, without_none
from jwarp.ir.nodes import (
    Block,
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
    Param,
    Value,
    While,
)
from jwarp.ir.ops import OPS
from jwarp.ir.printing import ORDERS, is_memory
from jwarp.ir.tokens import IRSyntaxError as IRSyntaxError
from jwarp.ir.tokens import Token, Tokens, tokens_of
from jwarp.types import ArrayType


def parse_kernel(text: str) -> Kernel:
    """The kernel that a text describes.

    Raises:
        IRSyntaxError: it is not the text of a kernel; the message has line and column.
    """
    reader = _Reader(list(tokens_of(text)))
    kernel = reader.kernel()
    reader.expect("end")
    return kernel


class _Reader(Tokens):
    """A kernel read token by token."""

    def __init__(self, tokens: list[Token], position: int = 0):
        super().__init__(tokens, position)
        self.values: dict[str, Value] = {}
        self.names: list[str] = []  # of parameters and local arrays
        self.function_names: list[str] = []

    # Values

    def defined(self) -> Value:
        """A value where it is defined: `%3: float32`."""
        token = self.expect("value", "a value, as %0")
        self.expect(":")
        if token.text in self.values:
            self.fail(f"{token.text} is defined twice", token)
        made = self.values[token.text] = Value(self.value_type())
        return made

    def operand(self) -> Operand:
        if self.is_constant():
            return self.constant()
        token = self.expect("value", "a value or a constant")
        if token.text not in self.values:
            self.fail(f"{token.text} is not defined", token)
        return self.values[token.text]

    def operands(self) -> tuple[Operand, ...]:
        """Operands as far as they go."""
        found: list[Operand] = []
        while self.is_constant() or self.next.kind == "value":
            found.append(self.operand())
            if not (self.next.kind == "," and self.tokens[self.position + 1].kind != "string"):
                break
            self.take()
        return tuple(found)

    def array(self) -> int:
        """The number of a parameter or local array, by its name, or by both where several have that name."""
        token = self.next
        name = self.name("the name of an array")
        numbers = [k for k, known in enumerate(self.names) if known == name]
        if self.has("@"):
            number = self.integer()
            numbers = [number] if number in numbers else []
        if len(numbers) != 1:
            count = "several arrays are" if numbers else "no parameter or local array is"
            self.fail(f"{count} called `{name}`", token)
        return numbers[0]

    # The kernel

    def kernel(self) -> Kernel:
        self.word("kernel")
        name = self.name()
        self.expect("(")
        params = self.listed(self.param, ")")
        self.names = [p.name for p in params]
        self.expect(",")
        self.word("tid")
        tid_dims, block_dim, order, exact, variant = self.integer(), 0, Order.ANY, False, "forward"
        while self.has(","):
            if self.has_word("block_dim"):
                block_dim = self.integer()
            elif self.has_word("exact"):
                exact = True
            elif self.has_word("variant"):
                variant = self.string()
            else:
                order = self.order()
        self.line_ends()
        locals_, gradients, functions = [], [], []
        while self.next.text in ("local", "shared", "table") and self.next.kind == "name":
            locals_.append(self.local())
        while self.has_word("gradient"):
            gradients.append(self.gradient())
        while self.has_word("function"):
            functions.append(self.function())
        body = self.block()
        facts: dict[str, Any] = {"variant": variant, "exact": exact, "block_dim": block_dim, "order": order}
        parts: dict[str, Any] = {"locals": tuple(locals_), "gradients": tuple(gradients), "functions": tuple(functions)}
        return Kernel(name, params, tid_dims, body, **facts, **parts)

    def line_ends(self) -> None:
        self.expect("newline", "the end of the line")

    def order(self) -> Order:
        for order, text in ORDERS.items():
            if text and self.has_word(*text.split()):
                return order
        self.fail(f"there is no `{self.next.text}` in the head of a kernel")

    def param(self) -> Param:
        name = self.name("the name of a parameter")
        self.expect(":")
        return Param(name, self.param_type())

    def local(self) -> Local:
        word = self.take().text
        param = self.param()
        if not isinstance(param.type, ArrayType):
            self.fail(f"`{param.name}` is no array")
        kind = param.type.dtype
        self.word("of")
        self.expect("[")
        shape = self.listed(self.integer, "]")
        values = None
        if word == "table":
            self.expect("=")
            self.expect("[")
            values = self.listed(lambda: self.number(kind), "]")
        self.line_ends()
        self.names.append(param.name)
        return Local(param.name, param.type, shape, shared=word != "local", values=values)

    def gradient(self) -> Gradient:
        """A kernel that an author wrote for a derivative, and what its parameters are given."""
        self.integer()
        self.expect("[")
        feeds = self.listed(lambda: (self.name(), self.integer(), self.integer()), "]", ";")
        self.open()
        inner = _Reader(self.tokens, self.position)
        kernel = inner.kernel()
        self.position = inner.position
        self.expect("}")
        self.line_ends()
        return Gradient(kernel, feeds)

    def function(self) -> Function:
        token = self.next
        if self.integer() != len(self.function_names):
            self.fail(f"function {len(self.function_names)} comes here", token)
        name = self.name("the name of a function")
        self.expect("(")
        params = self.listed(self.defined, ")")
        self.open()
        body = self.block()
        self.expect("}")
        self.line_ends()
        self.function_names.append(name)
        return Function(name, params, body)

    def open(self) -> None:
        self.expect("{")
        self.line_ends()

    # Nodes

    def block(self) -> Block:
        """Nodes, up to the mark that ends their block."""
        nodes: list[Node] = []
        while self.next.kind not in ("}", "end"):
            if self.has_word("yield"):
                yields = self.operands()
                self.line_ends()
                return Block(tuple(nodes), yields)
            nodes.append(self.node())
        return Block(tuple(nodes))

    def node(self) -> Node:
        if self.has_word("if"):
            return self.branch()
        if self.has_word("for"):
            return self.counted(None)
        if self.has_word("lanes"):
            combiners: list[str] = []
            while self.next.kind == "name":
                combiners.append(self.take().text)
            return self.counted(tuple(combiners))
        return self.conditional() if self.has_word("while") else self.operation()

    def branch(self) -> If:
        cond = self.operand()
        self.open()
        then, orelse = self.block(), Block()
        self.expect("}")
        if self.has_word("else"):
            self.open()
            orelse = self.block()
            self.expect("}")
        return If(cond, then, orelse, self.results())

    def counted(self, lanes: tuple[str, ...] | None) -> For:
        index = self.defined()
        self.expect("=")
        lo = self.operand()
        self.expect("..")
        hi = self.operand()
        self.word("step")
        step = self.integer()
        params, init = self.carried()
        self.open()
        body = self.block()
        self.expect("}")
        return For(index, lo, hi, step, params, init, body, self.results(), lanes=lanes)

    def conditional(self) -> While:
        params, init = self.carried()
        self.open()
        cond = self.block()
        self.expect("}")
        self.word("do")
        self.open()
        body = self.block()
        self.expect("}")
        return While(params, init, cond, body, self.results())

    def carried(self) -> tuple[tuple[Value, ...], tuple[Operand, ...]]:
        """The values that a loop carries, and what they are at first: `carry (%3: float32 = 0.0)`."""
        if not self.has_word("carry"):
            return (), ()
        self.expect("(")
        pairs = self.listed(self.carry, ")")
        return tuple(param for param, _ in pairs), tuple(init for _, init in pairs)

    def carry(self) -> tuple[Value, Operand]:
        param = self.defined()
        self.expect("=")
        return param, self.operand()

    def results(self) -> tuple[Value, ...]:
        found = self.listed(self.defined, "newline") if self.has("->") else ()
        if not found:
            self.line_ends()
        return found

    def operation(self) -> Op:
        defined = self.next if self.next.kind == "value" else None
        kind = None
        if defined is not None:
            self.take()
            self.expect(":")
            kind = self.value_type()
            self.expect("=")
        token = self.expect("name", "an operation")
        row = OPS.get(token.text)
        if row is None:
            self.fail(f"there is no operation `{token.text}`", token)
        args, attr = self.parts(row.attribute, row.indices is not None)
        if self.next.kind != "newline":
            self.fail(f"unexpected `{self.next.text}` after `{token.text}`")
        self.take()
        result = None
        if defined is not None and kind is not None:  # a value does not see its own number
            if defined.text in self.values:
                self.fail(f"{defined.text} is defined twice", defined)
            result = self.values[defined.text] = Value(kind)
        return Op(token.text, args, attr, result)

    # Attributes

    def parts(self, attribute: Any, is_access: bool) -> tuple[tuple[Operand, ...], Any]:
        """The operands and the attribute of an operation whose row has an attribute of this kind."""
        kind = without_none(attribute)
        role = role_of(kind)
        if kind is None:
            return self.operands(), None
        if role is None:
            return self.fields(kind, kind is not attribute)
        if role.what == "array" and is_access:
            array = self.array()
            self.expect("[")
            indices = self.listed(self.operand, "]")
            return (*indices, *(self.operands() if self.has(",") else ())), array
        if role.what == "text":
            args = self.operands()
            return args, self.string() if self.has(",") or kind is attribute else None
        attr = self.attr_value("", kind, 0)
        if role.what in ("format", "tape") and not self.has(","):
            return (), attr
        return self.operands(), attr

    def fields(self, kind: Any, is_optional: bool) -> tuple[tuple[Operand, ...], Any]:
        """Operands and an attribute of several fields: arrays and tapes stand before the operands, the rest after."""
        known = fields_of(kind) or (("", kind),)
        found: dict[str, Any] = {}
        for name, part in known:
            if is_memory(part):
                if found:
                    self.expect(",")
                found[name] = self.attr_value(name, part, 0)
        args = self.operands() if not found or self.has(",") else ()
        if is_optional and self.next.kind == "newline":
            return args, None
        for name, part in known:
            if name not in found:
                found[name] = self.attr_value(name, part, len(args))
        return args, kind(**found) if fields_of(kind) else found[""]

    def attr_value(self, name: str, kind: Any, count: int) -> Any:
        """A part of an attribute; `count` is how many operands the operation has."""
        role, parts, item = role_of(kind), fields_of(kind), item_of(kind)
        plain = getattr(kind, "__origin__", kind)
        if role is not None and role.what in ("array", "parameter"):
            return self.array()
        if role is not None and role.what == "operation":
            return self.name("the name of an operation")
        if role is not None and role.what == "function":
            number = self.integer()
            self.name("the name of a function")
            return number
        if role is not None and role.what == "tape":
            self.word("tape")
            return self.integer()
        if plain is str:
            return self.string()
        if plain is bool:
            return self.has_word(name)
        if parts:
            return kind(*(self.attr_value(inner, part, count) for inner, part in parts))
        if item is bool:
            if not self.has_word(name):
                return (False,) * count
            self.expect("[")
            flags = self.listed(self.integer, "]")
            return tuple(k in flags for k in range(count))
        if name:
            self.word(name)
        if item is None:
            return self.integer()
        self.expect("[")
        if role_of(item) or fields_of(item):
            return self.listed(lambda: self.attr_value("", item, count), "]", ";")
        return self.listed(self.string if item is str else self.integer, "]")
