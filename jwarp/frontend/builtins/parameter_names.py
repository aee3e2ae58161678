"""The names of the builtins' parameters, by which calls may give them: those of Warp."""

from __future__ import annotations

from collections.abc import Sequence

from jwarp.errors import KernelTypeError, Span

# By the parameters in order, the functions that have them.
_FUNCTIONS = {
    "a": (
        "min max invert unot isnan isinf isfinite length length_sq normalize transpose trace determinant inverse "
        "inverse_approx argmin argmax len"
    ),
    "x": (
        "neg abs sqrt sin cos tan asin acos atan exp log log2 log10 sinh cosh tanh erf erfc erfinv erfcinv cbrt "
        "bit_count floor ceil trunc round rint sign pos step nonzero degrees radians frac"
    ),
    "vec": "diag skew",
    "mat": "get_diag",
    "a b": (
        "add sub mul div floordiv mod div_approx min max bit_and bit_or bit_xor lshift rshift dot ddot cross outer "
        "cw_mul cw_div"
    ),
    "x y": "pow copysign",
    "y x": "atan2",
    "x low high": "clamp",
    "a b t": "lerp",
    "a b x": "smoothstep",
    "a dtype": "cast",
    "cond value_if_true value_if_false": "where",
    "cond value_if_false value_if_true": "select",
} | {
    f"arr {indices} {values}": functions
    for indices in ("i", "i j", "i j k", "i j k l")
    for values, functions in (
        ("value", "atomic_add atomic_sub atomic_min atomic_max atomic_and atomic_or atomic_xor atomic_exch"),
        ("compare value", "atomic_cas"),
    )
}

PARAMETERS: dict[str, tuple[tuple[str, ...], ...]] = {}
for _names, _functions in _FUNCTIONS.items():
    for _function in _functions.split():
        PARAMETERS[_function] = (*PARAMETERS.get(_function, ()), tuple(_names.split()))


def in_order(function: str, positional: int, named: Sequence[str], span: Span) -> list[str]:
    """The names `named` in the order of the parameters, after so many arguments without a name.

    Raises:
        KernelTypeError: no form of the function has parameters of these names, and them alone, there.
    """
    forms = PARAMETERS.get(function, ())
    for form in forms:
        if len(set(named)) == len(named) and set(form[positional:]) == set(named) and len(form) >= positional:
            return list(form[positional:])
    given = ", ".join((*("…" for _ in range(positional)), *(f"{name}=…" for name in named)))
    shown = " or ".join(f"({', '.join(form)})" for form in forms)
    raise KernelTypeError(
        f"wp.{function} does not take the arguments ({given})",
        span,
        f"its parameters are {shown}" if shown else "give the arguments in order",
    )
