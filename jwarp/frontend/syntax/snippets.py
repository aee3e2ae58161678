"""Texts in C++: which of the arrays that they name they may change, by their looks.

What is taken to be read is constant in the text when it is compiled, so that a write which is not seen here is an
error of the compiler there, and never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_HIDDEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d[\w.]*|<<=|>>=|->|\+\+|--|[-+*/%&|^=!<>]=|&&|\|\||::|\S")
_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"])
_EXTENTS = frozenset({"shape", "strides", "ndim", "size"})
# Functions that only read what they are given the place of.
_READERS = frozenset(["__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv", "load", "sizeof", "decltype"])


def named_in(*texts: str) -> frozenset[str]:
    """The names in texts, without those in comments and in texts there."""
    return frozenset(token for text in texts for token in _tokens(text))


def changed_arrays(text: str, arrays: Collection[str]) -> frozenset[str]:
    """Those of `arrays` that the text may change."""
    tokens = _tokens(text)
    own = [at for at, name in enumerate(tokens) if name in arrays and _is_own(tokens, at)]
    unsure = "const_cast" in tokens  # which makes nothing constant
    return frozenset(tokens[at] for at in own if unsure or _may_change(tokens, at))


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_HIDDEN.sub(" ", text))


def _is_own(tokens: Sequence[str], at: int) -> bool:
    """True if the name is not a member of another object."""
    return at == 0 or tokens[at - 1] not in (".", "->", "::")


def _may_change(tokens: Sequence[str], at: int) -> bool:
    """True if the code around this name may change the array."""
    end, is_element = at + 1, False
    while end < len(tokens):
        if tokens[end] == "[" or (tokens[end] == "(" and is_element):
            end, is_element = _closing(tokens, end) + 1, True
        elif tokens[end] == "." and end + 1 < len(tokens):
            if tokens[end + 1] in _EXTENTS:
                return False
            end += 2
        else:
            break
    after = tokens[end] if end < len(tokens) else ";"
    before = tokens[at - 1] if at else ";"
    if is_element and (after in _ASSIGNMENTS or before in ("++", "--")):
        return True
    if is_element and before != "&" and not _binds(tokens, at) and not _is_cast(tokens, at):
        return False
    return not (_is_read(tokens, at) or _is_constant(tokens, at))


def _binds(tokens: Sequence[str], at: int) -> bool:
    """True if the element initialises a reference: `float& y = x[i]`."""
    return at >= 3 and tokens[at - 1] in ("=", "{", "(") and tokens[at - 3] in ("&", "&&")


def _is_cast(tokens: Sequence[str], at: int) -> bool:
    """True if a cast in parentheses makes the element a reference or pointer, which may remove `const`."""
    end = at - 1
    while end > 0 and tokens[end] == "(":
        end -= 1
    return end > 0 and tokens[end] == ")" and tokens[end - 1] in ("&", "*")


def _is_read(tokens: Sequence[str], at: int) -> bool:
    """True if the place is passed to a function that reads it."""
    opening = at - 2 if at and tokens[at - 1] == "&" else at - 1
    return opening > 0 and tokens[opening] == "(" and tokens[opening - 1] in _READERS


def _is_constant(tokens: Sequence[str], at: int) -> bool:
    """True if the place alone initialises a pointer or reference to something constant."""
    start = at
    while start > 0 and tokens[start - 1] not in (";", "{", "}", ")", "else"):
        start -= 1
    statement = tokens[start:at]
    if "=" not in statement:
        return False
    declared, value = statement[: statement.index("=")], statement[statement.index("=") + 1 :]
    is_constant = "const" in declared and ("*" in declared or "&" in declared)
    return is_constant and "(" not in declared and value in ([], ["&"])


def _closing(tokens: Sequence[str], at: int) -> int:
    """The place of the bracket that closes the one at `at`; the last place where there is none."""
    level = 0
    for k in range(at, len(tokens)):
        level += (tokens[k] in "[(") - (tokens[k] in "])")
        if level == 0:
            return k
    return len(tokens) - 1
