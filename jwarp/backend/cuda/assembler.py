"""Refusals of ptxas, in words, and at the line of the source that they come from.

ptxas knows lines of PTX and symbols only. PTX that is made once more, with `-lineinfo`, says of its lines which line of
which text they come from.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

LINES = "-lineinfo"

_REMARK = re.compile(
    r"^(?:ptxas (?:application ptx input, line (?P<line>\d+); )?(?:error|fatal)\s*:|.+?\(\d+\): Error:)"
    r"\s*(?P<text>.*)$",
    re.MULTILINE,
)
_FOLLOWS = "Ptx assembly aborted due to errors"
_FILE = re.compile(r'^\s*\.file\s+(\d+) "(.*)"', re.MULTILINE)
_PLACE = re.compile(r"^\s*\.loc\s+(\d+) (\d+) \d+(?:, function_name \S+, inlined_at (\d+) (\d+))?")


@dataclass(frozen=True)
class Remark:
    """An error of ptxas: `line` is one of PTX, or 0."""

    text: str
    line: int = 0


@dataclass(frozen=True)
class Refusal:
    """The error in words. It arises where `words` are in the source, or `symbol` is called, if that is known."""

    message: str
    hint: str = ""
    words: str = ""
    symbol: str = ""
    remark: Remark = Remark("")


def remarks_of(log: str) -> list[Remark]:
    """The errors of ptxas in a log."""
    found = (Remark(m["text"], int(m["line"] or 0)) for m in _REMARK.finditer(log))
    return [remark for remark in found if remark.text != _FOLLOWS]


def refusal_of(log: str) -> Refusal | None:
    """The first error of ptxas in a log, in words; None if there is none."""
    remarks = remarks_of(log)
    if not remarks:
        return None
    first, *others = remarks
    for pattern, explain in _KNOWN:
        found = pattern.search(first.text)
        if found is not None:
            return dataclasses.replace(explain(found), remark=first)
    more = f" ({'; '.join(r.text for r in others)})" if others else ""
    return Refusal(f"the assembler says: {first.text}{more}", remark=first)


def place_of(ptx: str, line: int, files: Collection[str]) -> tuple[str, int] | None:
    """The line of one of these files that a line of PTX comes from, as `-lineinfo` says; of inlined code, that of."""
    names = {}
    for number, path in _FILE.findall(ptx):
        names[number] = next((f for f in files if path == f or path.endswith(f"/{f}")), None)
    found = next(filter(None, map(_PLACE.match, reversed(ptx.splitlines()[:line]))), None)
    pairs = [] if found is None else [(found[1], found[2]), (found[3], found[4])]
    return next(((name, int(at)) for file, at in pairs if (name := names.get(file)) and at != "0"), None)


def line_of_symbol(ptx: str, symbol: str) -> int:
    """The line of PTX where a function is called; 0 if none is."""
    lines = ptx.splitlines()
    return next((k for k, text in enumerate(lines, 1) if re.match(rf"\s*{re.escape(symbol)},?\s*$", text)), 0)


def plain_name(symbol: str) -> str:
    """The name of a function without what C++ adds to it: `other` for `_Z5otherf`."""
    found = re.match(r"_ZN?K?((?:\d+\w+?)+)", symbol)
    rest, name = symbol[found.start(1) :] if found else "", symbol
    while (counted := re.match(r"(\d+)", rest)) is not None:
        end = counted.end() + int(counted[1])
        name, rest = rest[counted.end() : end], rest[end:]
    return name


def _shared(m: re.Match[str]) -> Refusal:
    return Refusal(
        f"its __shared__ variables have {int(m[1], 16):,} bytes, and a block can have {int(m[2], 16):,} of such",
        "declare one as `extern __shared__` and give its bytes as `shared_bytes`: GPUs since 2020 have 99 to 227 KB",
        "__shared__",
    )


def _constants(m: re.Match[str]) -> Refusal:
    return Refusal(
        f"its __constant__ variables have {int(m[1], 16):,} bytes, and a file can have {int(m[2], 16):,}",
        "make the table a parameter: an array that kernels only read",
        "__constant__",
    )


def _undefined(m: re.Match[str]) -> Refusal:
    return Refusal(
        f"`{plain_name(m[1])}` is declared and nowhere defined",
        "put its definition into the source or a header: the source is compiled by itself, and linked with nothing",
        symbol=m[1],
    )


def _parameters(m: re.Match[str]) -> Refusal:
    return Refusal(
        f"its parameters take {int(m[1]):,} bytes, and CUDA has {int(m[2]):,} for those of a kernel",
        "an array takes 40 bytes and 8 for each axis: put arrays in one, or make several kernels",
    )


def _lacking(m: re.Match[str]) -> Refusal:
    return Refusal(
        f"`{m[1]}` cannot be compiled for this GPU, it needs {m[2]} or newer",
        f"set wp.config.cuda_arch = '{m[2]}' if that is what it is for, or leave it out by `#if __CUDA_ARCH__ >= "
        f"{re.sub(r'[^0-9]', '', m[2])}0`",
    )


def _unsupported(m: re.Match[str]) -> Refusal:
    return Refusal(
        f"`{m[1]}` cannot be compiled for {m[2]}",
        "set wp.config.cuda_arch to a GPU that has it (some need a name like sm_90a), or leave it out by "
        "`#if __CUDA_ARCH__ >= 900`",
    )


_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Refusal]], ...] = (
    (re.compile(r"uses too much shared data \((0x\w+) bytes, (0x\w+) max\)"), _shared),
    (re.compile(r"uses too much (?:global )?constant data \((0x\w+) bytes, (0x\w+) max\)"), _constants),
    (re.compile(r"Unresolved extern function '(\S+)'"), _undefined),
    (re.compile(r"[Pp]arameter space overflowed \((\d+) bytes required, max (\d+)"), _parameters),
    (re.compile(r"(?:Feature|Instruction) '([^']+)' requires \.target (sm_\w+) or higher"), _lacking),
    (re.compile(r"(?:Feature|Instruction) '([^']+)' not supported on \.target '(sm_\w+)'"), _unsupported),
)
