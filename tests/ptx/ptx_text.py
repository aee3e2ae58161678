"""Reads PTX, the assembly of CUDA's virtual machine, into functions with statements.

After NVIDIA's "Parallel Thread Execution ISA": statements end with a semicolon, names belong to the braces that
they are declared in, and a type follows the opcode after dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
LINE_DIRECTIVE = re.compile(r"\.(?:version|target|address_size|file|loc|section)\b[^\n]*")
HEADER = re.compile(r"(?:\.(?:visible|weak|extern|common)\s+)*\.(?:entry|func)\b")
LABEL = re.compile(r"([$%\w.]+)\s*:(?!:)")
GUARD = re.compile(r"@(!?)([%\w$.]+)\s+")
NAME = re.compile(r"[%$_A-Za-z][\w$.]*")
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?")
VARIABLE = re.compile(
    r"(?P<link>(?:\.(?:visible|weak|extern|common)\s+)*)\.(?P<space>global|const|shared|local|param)\s+"
    r"(?:\.align\s+(?P<align>\d+)\s+)?(?:\.v[24]\s+)?\.(?P<type>\w+)\s+(?P<name>[\w$%.]+)(?P<dims>(?:\[\d*\])*)"
    r"\s*(?:=\s*(?P<init>.*))?$",
    re.DOTALL,
)
WIDTHS = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
          "f32": 4, "f16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "pred": 1}  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """Memory with a name: in which space, how large, at multiples of what, and with which bytes at the start."""

    name: str
    space: str
    size: int  # 0: as much as the launch says
    align: int
    init: bytes = b""
    is_extern: bool = False


@dataclass(frozen=True)
class Registers:
    """Names with or without a number behind, of one type."""

    type: str
    names: frozenset[str]
    prefixes: tuple[tuple[str, int], ...]

    def has(self, name: str) -> bool:
        if name in self.names:
            return True
        return any(
            name.startswith(p) and name[len(p) :].isdigit() and int(name[len(p) :]) < n for p, n in self.prefixes
        )


@dataclass(frozen=True)
class Statement:
    """An instruction: its opcode and what follows it after dots, its operands as texts, and the guard before it."""

    opcode: str
    suffixes: tuple[str, ...]
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False
    line: int = 0
    text: str = ""


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Scope:
    """The start of braces (True) or their end."""

    opens: bool


@dataclass(frozen=True)
class Targets:
    """Where an indexed branch may go."""

    labels: tuple[str, ...]


Item = Statement | Label | Scope | Registers | Variable | Targets


@dataclass
class Function:
    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    results: tuple[Variable, ...]
    items: list[Item] = field(default_factory=list)
    is_declared: bool = False  # and defined elsewhere, or later
    max_threads: int = 0


@dataclass
class Program:
    functions: dict[str, Function]
    variables: tuple[Variable, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.functions.values() if f.is_entry)


def parse(text: str) -> Program:
    """The program of a PTX text; a ValueError where it is none."""
    return _Reader(text).program()


class _Reader:
    def __init__(self, text: str):
        # Comments leave their line ends, for the numbers of lines.
        self.text = COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)
        self.at = 0

    def program(self) -> Program:
        functions: dict[str, Function] = {}
        variables: list[Variable] = []
        while self._skip():
            if found := LINE_DIRECTIVE.match(self.text, self.at):
                self.at = found.end()
            elif HEADER.match(self.text, self.at):
                function = self._function()
                if not function.is_declared or function.name not in functions:
                    functions[function.name] = function
            else:
                statement, _ = self._until(";")
                variables.append(variable_of(statement))
        return Program(functions, tuple(variables))

    def _skip(self) -> bool:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at < len(self.text)

    def _until(self, ends: str) -> tuple[str, str]:
        start = self.at
        while self.text[self.at] not in ends:
            # Texts in quotes belong to pragmas, and have no semicolons.
            self.at += 1
        self.at += 1
        return self.text[start : self.at - 1].strip(), self.text[self.at - 1]

    def _function(self) -> Function:
        header, end = self._until("{;")
        kind = re.search(r"\.(entry|func)\b\s*", header)
        assert kind is not None
        rest = header[kind.end() :]
        results: tuple[Variable, ...] = ()
        if rest.startswith("("):
            inside, rest = rest[1:].split(")", 1)
            results = _parameters(inside)
        found = NAME.match(rest.strip())
        if found is None:
            raise ValueError(f"no name in {header!r}")
        params = re.search(r"\(([^)]*)\)", rest)
        threads = re.search(r"\.maxntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", rest)
        count = 1
        for factor in threads.groups(default="1") if threads else ():
            count *= int(factor)
        function = Function(
            found[0], kind[1] == "entry", _parameters(params[1]) if params else (), results,
            is_declared=end == ";", max_threads=count if threads else 0,
        )  # fmt: skip
        if end == "{":
            function.items = list(self._items())
        return function

    def _items(self) -> Iterator[Item]:
        depth = 1
        while self._skip():
            char = self.text[self.at]
            if char in "{}":
                self.at += 1
                depth += 1 if char == "{" else -1
                if depth == 0:
                    return
                yield Scope(char == "{")
            elif found := LINE_DIRECTIVE.match(self.text, self.at):
                self.at = found.end()
            elif found := LABEL.match(self.text, self.at):
                self.at = found.end()
                yield Label(found[1])
            else:
                line = self.text.count("\n", 0, self.at) + 1
                statement, _ = self._until(";")
                if statement:
                    yield from _item(" ".join(statement.split()), line)
        raise ValueError("a function has no end")


def _item(text: str, line: int) -> Iterator[Item]:
    if text.startswith(".reg"):
        yield _registers(text)
    elif text.startswith(".branchtargets"):
        yield Targets(tuple(t.strip() for t in text.removeprefix(".branchtargets").split(",")))
    elif text.startswith((".pragma", ".callprototype")):
        return
    elif text.startswith("."):
        yield variable_of(text)
    else:
        yield statement_of(text, line)


def statement_of(text: str, line: int) -> Statement:
    guard = GUARD.match(text)
    rest = text[guard.end() :] if guard else text
    opcode, _, operands = rest.partition(" ")
    # Calls have parentheses in which commas do not count.
    first, *suffixes = opcode.split(".")
    name, negated = (guard[2], bool(guard[1])) if guard else ("", False)
    if "::" in opcode:
        suffixes = [s for part in suffixes for s in part.split("::")]
    return Statement(first, tuple(suffixes), tuple(split_operands(operands)), name, negated, line, text)


def split_operands(text: str) -> list[str]:
    """The operands, at commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "({[") - (char in ")}]")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _registers(text: str) -> Registers:
    _, kind, names = text.split(None, 2)
    exact, prefixes = [], []
    for name in (n.strip() for n in names.split(",")):
        counted = re.fullmatch(r"([%\w$]+)<(\d+)>", name)
        if counted:
            prefixes.append((counted[1], int(counted[2])))
        else:
            exact.append(name)
    return Registers(kind.removeprefix("."), frozenset(exact), tuple(prefixes))


def _parameters(text: str) -> tuple[Variable, ...]:
    return tuple(
        Variable(name, "param", WIDTHS[type] * int(count or 1), int(align or WIDTHS[type]))
        for align, type, name, count in PARAMETER.findall(text)
    )


def variable_of(text: str) -> Variable:
    found = VARIABLE.match(text)
    if found is None:
        raise ValueError(f"not understood: {text[:100]!r}")
    width, count = WIDTHS[found["type"]], 1
    for extent in re.findall(r"\[(\d*)\]", found["dims"]):
        count *= int(extent or 0)
    init = b""
    if found["init"]:
        numbers = re.findall(r"0[fd][0-9A-Fa-f]+|-?0x[0-9A-Fa-f]+|-?\d+", found["init"])
        if re.search(r"[A-Za-z_$]", re.sub(r"0[fdx][0-9A-Fa-f]+", "", found["init"])):
            raise ValueError(f"the address of a variable in the content of another: {text[:100]!r}")
        init = b"".join(_bits(n, width).to_bytes(width, "little") for n in numbers)
    is_extern = ".extern" in found["link"]
    return Variable(found["name"], found["space"], width * count, int(found["align"] or width), init, is_extern)


def _bits(number: str, width: int) -> int:
    value = int(number[2:], 16) if number[:2] in ("0f", "0d") else int(number, 0)
    return value & ((1 << 8 * width) - 1)
