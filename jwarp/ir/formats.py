"""The format texts of prints: C's conversions, as far as their meaning does not depend on the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jwarp.types import ScalarType

_CONVERSION = re.compile(r"%(?P<flags>[-+ #0]*)(?P<size>\d*(?:\.\d*)?)(?:hh|h|ll|l|j|z|t)?(?P<letter>.)?", re.DOTALL)


class BlockText(str):
    """The format of a print that a block of threads makes once, where it is code of one thread."""


# The kinds that a conversion takes. `%s` is for bools, which print as True and False.
LETTERS = {
    **dict.fromkeys("di", frozenset({"int", "uint", "bool"})),
    **dict.fromkeys("uoxX", frozenset({"int", "uint", "bool"})),
    "c": frozenset({"int", "uint"}),
    **dict.fromkeys("eEfFgG", frozenset({"float"})),
    "s": frozenset({"bool"}),
}
# Longer fields would not fit a line, and precision has no meaning beyond the digits of a number.
MAX_SIZE = 99


@dataclass(frozen=True)
class Conversion:
    """`%5.2f` is Conversion("5.2", "f"): flags, width and precision, then the letter."""

    options: str
    letter: str

    def takes(self, type: ScalarType) -> bool:
        return type.kind in LETTERS[self.letter]


def parse(format: str) -> list[str | Conversion]:
    """The plain texts and conversions of a format text; `%%` is plain text.

    Raises:
        ValueError: the text has a conversion that there is not.
    """
    parts: list[str | Conversion] = []
    end = 0
    for found in _CONVERSION.finditer(format):
        parts.append(format[end : found.start()])
        end = found.end()
        if found[0] == "%%":
            parts.append("%")
            continue
        if found["letter"] is None or found["letter"] not in LETTERS:
            raise ValueError(f"there is no conversion {found[0]!r}")
        if any(int(n) > MAX_SIZE for n in re.findall(r"\d+", found["size"])):
            raise ValueError(f"{found[0]!r}: width and precision are at most {MAX_SIZE}")
        parts.append(Conversion(found["flags"] + found["size"], found["letter"]))
    parts.append(format[end:])
    return [p for p in parts if p != ""]


def conversions(format: str) -> list[Conversion]:
    """The conversions of a format text, one for each argument."""
    return [p for p in parse(format) if isinstance(p, Conversion)]
