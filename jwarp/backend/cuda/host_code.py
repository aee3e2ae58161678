"""Leaves out of CUDA C++ texts what belongs to the host: functions and variables that no function of the GPU names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<directive>^[ \t]*\#(?:\\\r?\n|/\*.*?\*/|//[^\n]*|[^\n])*)
      | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
      | (?P<text>R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<number>\.?\d(?:[\w.]|'\d|[eEpP][+-])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign>[^\s])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)(.*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")

OF_DEVICE = frozenset({"__device__", "__global__", "__constant__", "__shared__", "__managed__"})
# Declarations that begin with one of these define types and names or constants, and do not run anywhere.
_DECLARES = frozenset({"struct", "class", "union", "enum", "using", "typedef", "static_assert", "concept", "friend"})
_CONSTANT = frozenset({"constexpr", "consteval", "concept"})
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class _Item:
    """A definition or declaration in the scope of a namespace."""

    tokens: tuple[_Token, ...]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(t.text for t in self.tokens if t.kind == "word")

    @property
    def names(self) -> frozenset[str]:
        """The names that it may define: words outside of all brackets that a definition goes on after in these ways."""
        found, depth = set(), 0
        for token, after in zip(self.tokens, (*self.tokens[1:], None), strict=True):
            depth += (token.text in _OPEN) - (token.text in _CLOSE) if token.kind == "sign" else 0
            if depth == 0 and token.kind == "word" and (after is None or after.text in ("(", "=", "[", ";", ",", "{")):
                found.add(token.text)
        return frozenset(found)

    @property
    def head(self) -> frozenset[str]:
        """The words before its body."""
        before = itertools.takewhile(lambda t: t.text != "{", self.tokens)
        return frozenset(t.text for t in before if t.kind == "word")

    @property
    def launches(self) -> bool:
        """True if it is a function that launches a kernel."""
        ends = [t.end for t in self.tokens if t.text == "<"]
        return any(a + 1 == b and b + 1 == c for a, b, c in zip(ends, ends[1:], ends[2:], strict=False))

    @property
    def instantiates(self) -> bool:
        """True if it only says for which arguments there is to be code of a template."""
        return self.tokens[0].text == "template" and len(self.tokens) > 1 and self.tokens[1].text != "<"

    @property
    def first(self) -> str:
        """The first word after the parameters of a template."""
        tokens = _without_template(self.tokens)
        return next((t.text for t in tokens if t.kind == "word"), "")


def device_part(texts: Mapping[str, str], wanted: str) -> dict[str, str]:
    """The texts without what is the host's, with the same lines; `wanted` is the name of the kernel.

    A function or variable without a word like `__device__` stays where something of the GPU names it. A text that is
    not understood stays as it is.
    """
    read = {name: _read(text) for name, text in texts.items()}
    macros = {m: body for found in read.values() if found for m, body in found.macros.items()}
    items = [item for found in read.values() if found for item in found.items]
    named = set(_WORD.findall(wanted))
    named.update(word for name, found in read.items() if found is None for word in _WORD.findall(texts[name]))
    kept = _reached(items, macros, named)
    return {
        name: text
        if (found := read[name]) is None
        else _of_lambdas(_blanked(text, [i for i in found.items if i not in kept]))
        for name, text in texts.items()
    }


# Which NVRTC does not take, as all that is left is the GPU's.
_LAMBDA = re.compile(r"\](\s*(?:__(?:host|device|forceinline)__\s*)+)(?=[({])")


def _of_lambdas(text: str) -> str:
    """The text whose lambdas have no words like `__device__`."""
    return _LAMBDA.sub(lambda m: "]" + re.sub(r"\S", " ", m[1]), text)


def kernel_part(text: str, wanted: str) -> str:
    """The text without what that kernel does not name, directly or not; the whole if it is not understood."""
    read = _read(text)
    if read is None:
        return text
    kept = _reached(read.items, read.macros, set(_WORD.findall(wanted)), only_named=True)
    return _blanked(text, [item for item in read.items if item not in kept])


@dataclass(frozen=True)
class _Read:
    items: list[_Item]
    macros: dict[str, frozenset[str]]  # the words of their bodies


def _read(text: str) -> _Read | None:
    """The items of a text and its macros; None where its brackets do not match."""
    macros, whole, tokens = dict[str, frozenset[str]](), set[str](), list[_Token]()
    for match in _TOKEN.finditer(text):
        kind, content = str(match.lastgroup if match.lastgroup != "mark" else "text"), match[0]
        if kind == "directive":
            defined = _DEFINE.match(content)
            if defined:
                macros[defined[1]] = macros.get(defined[1], frozenset()) | set(_WORD.findall(defined[2]))
                if defined[2].startswith("(") and defined[2].rstrip().endswith(("}", ";")):
                    whole.add(defined[1])
        elif kind != "comment":
            tokens.append(_Token(kind, content, match.start(), match.end()))
    items = list(_items(tokens, whole))
    return None if None in items else _Read([i for i in items if i is not None], macros)


def _items(tokens: list[_Token], whole: set[str]) -> Iterator[_Item | None]:
    """The items of all namespaces; None where brackets do not match. The macros `whole` are items of their own."""
    scopes, item, k = 0, list[_Token](), 0
    while k < len(tokens):
        token = tokens[k]
        if token.text == "}" and token.kind == "sign":
            if item:
                yield _Item(tuple(item))
            item, scopes = [], scopes - 1
            if scopes < 0:
                yield None
                return
        elif token.text == "{" and _opens_scope(item):
            item, scopes = [], scopes + 1
        elif token.kind == "sign" and token.text in _OPEN:
            end = _matching(tokens, k)
            if end is None:
                yield None
                return
            item += tokens[k : end + 1]
            is_body = token.text == "{" and _is_function(item[: k - end - 1])
            k = end
            is_macro = token.text == "(" and item[0].text in whole and item[1].text == "("
            if is_macro or (is_body and (k + 1 == len(tokens) or tokens[k + 1].text not in ("{", ","))):
                yield _Item(tuple(item))
                item = []
        else:
            item.append(token)
            if token.text == ";":
                yield _Item(tuple(item))
                item = []
        k += 1
    if item or scopes:
        yield None


def _matching(tokens: list[_Token], start: int) -> int | None:
    depth = 0
    for k in range(start, len(tokens)):
        if tokens[k].kind == "sign":
            depth += (tokens[k].text in _OPEN) - (tokens[k].text in _CLOSE)
            if depth == 0:
                return k
    return None


def _opens_scope(item: list[_Token]) -> bool:
    words = [t.text for t in item]
    return "namespace" in words or (len(words) == 2 and words[0] == "extern" and item[1].kind == "text")


def _is_function(item: list[_Token]) -> bool:
    """True if what is before a brace is that of a function: it has a list of parameters, and is no initial value."""
    tokens = _without_template(item)
    depth, listed = 0, False
    for before, token in zip((None, *tokens), tokens, strict=False):
        if token.kind == "sign":
            if depth == 0 and token.text == "=" and (before is None or before.text != "operator"):
                return False
            listed |= depth == 0 and token.text == "("
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
    return listed and next((t.text for t in tokens if t.kind == "word"), "") not in _DECLARES


def _without_template(tokens: Iterable[_Token]) -> list[_Token]:
    """The tokens after `template <…>`, as often as that comes."""
    left = list(tokens)
    while len(left) > 1 and left[0].text == "template" and left[1].text == "<":
        depth, angles = 0, 0
        for k, token in enumerate(left):
            if token.kind == "sign":
                depth += (token.text in _OPEN) - (token.text in _CLOSE)
                angles += ((token.text == "<") - (token.text == ">")) if depth == 0 else 0
                if token.text == ">" and depth == 0 and angles == 0:
                    left = left[k + 1 :]
                    break
        else:
            return left
    return left


def _reached(
    items: list[_Item], macros: Mapping[str, frozenset[str]], named: set[str], only_named: bool = False
) -> set[_Item]:
    """The items that stay: those of the GPU, and what is `named` by these, also through macros."""
    marks = _marks(macros)
    kept, waiting = set[_Item](), list[_Item]()

    def keep(item: _Item) -> None:
        kept.add(item)
        named.update(item.words)

    waiting += items if only_named else ()
    for item in () if only_named else items:
        if _is_host(item, marks):
            continue
        if item.words & marks or item.words & _CONSTANT or item.first in _DECLARES or not item.names:
            keep(item)
        else:
            waiting.append(item)
    while True:
        seen = 0
        while seen != len(named):
            seen = len(named)
            named.update(*(macros[word] for word in named & macros.keys()))
        found = [item for item in waiting if item.names & named]
        if not found:
            return kept
        for item in found:
            keep(item)
        waiting = [item for item in waiting if item not in kept]


def _is_host(item: _Item, marks: set[str]) -> bool:
    """True if something is certain to be the host's, even where code of the GPU has its name."""
    if item.launches:
        return not item.head & marks
    if item.words & marks:
        return False
    # An entry instantiates the templates that it needs.
    return item.instantiates or ("__host__" in item.words and not item.words & _CONSTANT)


def _marks(macros: Mapping[str, frozenset[str]]) -> set[str]:
    """The marks of the GPU's code: the words of CUDA, and macros that have them."""
    marks = set(OF_DEVICE)
    while True:
        more = {name for name, body in macros.items() if body & marks} - marks
        if not more:
            return marks
        marks |= more


def _blanked(text: str, items: list[_Item]) -> str:
    """The text without these items. Directives among them stay."""
    for item in items:
        start, end = item.tokens[0].start, item.tokens[-1].end
        pieces, last = [], start
        for match in _TOKEN.finditer(text, start, end):
            if match.lastgroup == "directive":
                pieces += [re.sub(r"[^\n]", " ", text[last : match.start()]), match[0]]
                last = match.end()
        pieces.append(re.sub(r"[^\n]", " ", text[last:end]))
        text = text[:start] + "".join(pieces) + text[end:]
    return text
