"""Facts about code objects of Python: the names that code reaches, the modules it imports, and digests of it."""

from __future__ import annotations

import dis
import hashlib
import importlib.util
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from jwarp.caches import Cache

_IMPORT, _MATCH = dis.opmap["IMPORT_NAME"], dis.opmap["MATCH_CLASS"]
# Steps that change an outer name.
_IMPURE_STEPS = frozenset(dis.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL"))


class Unknown(Exception):
    """Something whose content is unknown."""


def names_of(code: types.CodeType) -> frozenset[str]:
    """The outer names, and those of attributes, that code has, also in functions inside it."""
    names = {*code.co_names, *code.co_freevars}
    matches = _MATCH in code.co_code[::2]
    for constant in code.co_consts:
        if matches and isinstance(constant, tuple):  # the keywords of a pattern: attributes
            names.update(name for name in constant if isinstance(name, str))
        if isinstance(constant, types.CodeType):
            names |= names_of(constant)
    return frozenset(names)


def is_plain(code: types.CodeType) -> bool:
    """True if code reaches nothing but the values of its names, as far as these tell, and assigns no outer name."""
    names = (*code.co_names, *code.co_freevars)
    if any((name.startswith("__") and name.endswith("__")) or name in ("format", "format_map") for name in names):
        return False  # `"{0.x}".format(a)` reads an attribute
    if any(op == _MATCH and count for op, count in zip(code.co_code[::2], code.co_code[1::2], strict=True)):
        return False  # the class says which attributes a pattern without keywords looks at
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return _IMPURE_STEPS.isdisjoint(code.co_code[::2]) and all(is_plain(part) for part in inner)


def imported(code: types.CodeType, names: Mapping[str, Any]) -> Iterator[types.ModuleType]:
    """The modules that code imports when it runs, where all of them have been imported before.

    `names` are the global ones of its module.
    """
    before: tuple[Any, Any] = (0, None)  # what was loaded last: how many packages up, and the names in the module
    for step in dis.get_instructions(code) if _IMPORT in code.co_code[::2] else ():
        if step.opname == "IMPORT_NAME":
            up = before[0] if isinstance(before[0], int) else 0
            try:
                full = importlib.util.resolve_name("." * up + step.argval, names.get("__package__") or None)
            except ImportError:
                raise Unknown from None
            for name in (full.partition(".")[0], full):
                if not isinstance(found := sys.modules.get(name), types.ModuleType):
                    raise Unknown
                yield found
            if not all(hasattr(found, name) for name in before[1] or ()):
                raise Unknown
        before = (before[1], step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from imported(constant, names)


def digest_of_code(code: types.CodeType) -> str:
    """A hash of the bytecode: a file may have been edited since its functions were defined."""
    inner = [digest_of_code(c) if isinstance(c, types.CodeType) else _shown(c) for c in code.co_consts]
    return hashlib.sha256(code.co_code + repr((code.co_names, code.co_varnames, *inner)).encode()).hexdigest()[:32]


def _shown(constant: Any) -> str:
    """A constant of bytecode as text, the same in each process: sets have an order of their own there."""
    if isinstance(constant, frozenset):
        return f"set {sorted(map(_shown, constant))}"
    return f"({','.join(map(_shown, constant))})" if isinstance(constant, tuple) else repr(constant)


_texts: Cache[int, tuple[list[str], str]] = Cache("files whose functions are kernels", 1024)


def digest_of_text(lines: list[str]) -> str:
    """A digest of the lines of a file."""
    found = _texts.get(id(lines))
    if found is None or found[0] is not lines:
        digest = hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        found = lines, digest
        _texts.replace(id(lines), found)
    return found[1]
