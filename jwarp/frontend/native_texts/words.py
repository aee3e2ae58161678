"""The words of a text in C++: which of its lines are for GPUs and which for processors, and numbers among the words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jwarp.types import ScalarType, float32, float64, int32, int64, uint32, uint64

_NO_END = re.compile(r"\\[ \t]*\n")  # of a line, which goes on in the next one
_REMARK = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(
    r"0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*|[A-Za-z_]\w*"
    r"|<<=|>>=|\+\+|--|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|::|\S"
)
# Lines that begin or change what is for one platform only: whether they let the code after them be for GPUs.
_FOR_GPUS = {
    "#ifdefined(__CUDA_ARCH__)": True,
    "#ifdefined__CUDA_ARCH__": True,
    "#ifdef__CUDA_ARCH__": True,
    "#if!defined(__CUDA_ARCH__)": False,
    "#ifndef__CUDA_ARCH__": False,
}
# Words that only matter with other threads in the block: the part of the text for processors is then that of
# a block of one thread, as Warp has there.
_OF_BLOCKS = re.compile(
    r"__(?:shfl|sync|any|all|ballot|activemask|match|reduce|threadfence|shared__|nanosleep)\w*"
    r"|(?:thread|block)Idx|(?:block|grid)Dim|warpSize|atomic\w*|WP_TILE_\w+|volatile"
)
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uU]?)([lL]*)([uU]?)")


class NotPlain(Exception):
    """A construct of the text that the kernel language has no counterpart for."""


def words_for_processors(text: str) -> list[str]:
    """The words of what a processor is given to compile.

    Raises:
        NotPlain: lines depend on something else than the platform, or what GPUs are given tells threads of each other.
    """
    for_gpus: list[bool] = []
    parts: dict[bool, list[str]] = {True: [], False: []}
    for line in _REMARK.sub(" ", _NO_END.sub("", text)).split("\n"):
        said = "".join(line.split())
        if said in _FOR_GPUS:
            for_gpus.append(_FOR_GPUS[said])
        elif said == "#else" and for_gpus:
            for_gpus[-1] = not for_gpus[-1]
        elif said == "#endif" and for_gpus:
            for_gpus.pop()
        elif said.startswith("#pragma"):
            continue
        elif said.startswith("#"):
            raise NotPlain(f"`{line.strip()}`")
        else:
            for on_gpu in (True, False):
                # True if a platform sees the line: all conditions around it hold there.
                if all(wanted is on_gpu for wanted in for_gpus):
                    parts[on_gpu].append(line)
    for line in parts[True]:
        for word in _WORD.findall(line):
            if _OF_BLOCKS.fullmatch(word):
                raise NotPlain(f"`{word}`")
    return _WORD.findall("\n".join(parts[False]))


def number(word: str) -> tuple[ScalarType, Any] | None:
    """The type and the value of a literal; None of another word."""
    if not (word[0].isdigit() or (word[0] == "." and len(word) > 1)):
        return None
    whole = _NUMBER.fullmatch(word)
    if whole is None:
        if word[-1] in "fF" and not word.startswith(("0x", "0X")):
            return float32, np.float32(float(word[:-1]))
        try:
            return float64, np.float64(float(word))
        except ValueError:
            raise NotPlain(f"`{word}`") from None
    digits, unsigned, long = whole[1], bool(whole[2] or whole[4]), bool(whole[3])
    is_hexadecimal = digits[:2] in ("0x", "0X")
    if digits[0] == "0" and digits.strip("0") and not is_hexadecimal:
        raise NotPlain(f"`{word}`, which is octal")
    value = int(digits, 0 if is_hexadecimal else 10)
    # The first type that has the value, in the order of the language.
    types = [t for t in (int32, uint32, int64, uint64) if not (long and t in (int32, uint32))]
    types = [t for t in types if t in (uint32, uint64) or not unsigned]
    types = [t for t in types if is_hexadecimal or unsigned or t not in (uint32, uint64)]
    kind = next((t for t in types if value <= t.max), None)
    if kind is None:
        raise NotPlain(f"`{word}`, which is too large")
    return kind, kind.dtype.type(value)
