"""The names of parameters and local arrays in generated code: the user's own, where C++ can."""

from __future__ import annotations

import re

from jwarp.backend.cuda.rules import CUDA_RULES
from jwarp.ir.nodes import Kernel, Local, Param

# The words of C++, and what CUDA and its headers define.
_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
printf signal index linux unix asm assert threadIdx blockIdx blockDim gridDim warpSize
"""
# Names that generated code itself uses.
_OWN_WORDS = "args first step place shift at n item turn lap done arena scratch slot jw"
_FUNCTIONS = {name + end for name in (*CUDA_RULES, "fabs", "fmod") for end in ("", "f")}
RESERVED = frozenset((*_WORDS.split(), *_OWN_WORDS.split(), *_FUNCTIONS))
# Names of macros are in capitals; the others are of coordinates, sums, records and extents.
_TAKEN = re.compile(r"[A-Z_\d]+$|jw_|i\d$|sum\d+$|before\d$|(tape|log)\d+_|.*_n\d+$|.*_sum$|\d")


def array_names(kernel: Kernel) -> dict[int, str]:
    """A C++ name for each parameter and local array, by its number."""
    names: dict[int, str] = {}
    arrays: tuple[Param | Local, ...] = (*kernel.params, *kernel.locals)
    for number, array in enumerate(arrays):
        name = re.sub(r"\W", "", array.name, flags=re.ASCII).lstrip("_") or "p"
        if _TAKEN.match(name):
            name = f"p_{name}_"
        while name in RESERVED or name in names.values():
            name += "_"
        names[number] = name
    return names
