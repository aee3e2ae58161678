"""Calls of Warp's builtins with arguments of all types that it takes, run by Warp and by jwarp: `python` this file.

Warp's registry says what there is: its overloads with concrete types, and generic ones, for which some types are tried.
Each call is a kernel with an array for each argument. Arguments: names of groups or builtins, all groups if none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import itertools
import random
import sys
import tempfile
import typing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import warp
from warp._src import types as wt
from warp._src.context import builtin_functions

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.errors import JwarpError

# Types of their own, or a feature of their own: geometry, NanoVDB, textures and tiles; what needs no arguments.
OTHER_GROUPS = {"Geometry", "Volumes", "Textures", "Tile Primitives", "Code Generation"}
_SKIPPED = (
    "tid block_dim printf print breakpoint array zeros vector matrix identity quaternion transformation "
    "matrix_from_cols matrix_from_rows spatial_vector cast len quat_identity transform_identity"
)
SKIPPED = frozenset(_SKIPPED.split())
# Of those that advance a state or write to arrays, numbers are compared elsewhere.
UNCOMPARED = {"Random"}
THREADS = 24
SCALARS = {t.__name__: t for t in wt.scalar_types} | {
    "bool": wt.warp_builtins_bool if hasattr(wt, "warp_builtins_bool") else bool
}
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = tuple(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))
GENERIC_SCALARS = {
    "Scalar": FLOATS + INTS,
    "Float": FLOATS,
    "Int": INTS,
    "Any": ("float32", "int32", "float64", "uint8"),
}


@dataclass(frozen=True)
class Kind:
    """The type of an argument: of a scalar or composite, or a one-dimensional array of such."""

    dtype: str
    shape: tuple[int, ...] = ()
    family: str = ""  # vector, matrix, quaternion, transformation
    dims: int = 0  # of an array

    @property
    def element(self) -> str:
        scalar = f"wp.{self.dtype}"
        if self.family in ("vector", "matrix"):
            size = self.shape[0] if self.family == "vector" else self.shape
            return f"wp.types.{self.family}({size}, {scalar})"
        return f"wp.types.{self.family}({scalar})" if self.family else scalar

    def annotation(self, extra: int) -> str:
        """Of an array with an element, or an array, for each thread."""
        return f"wp.array(dtype={self.element}, ndim={self.dims + extra})"

    def __str__(self) -> str:
        name = {"vector": "vec", "matrix": "mat", "quaternion": "quat", "transformation": "transform"}.get(self.family)
        shown = self.dtype if name is None else f"{name}{'x'.join(map(str, self.shape))}[{self.dtype}]"
        return f"array{self.dims}[{shown}]" if self.dims else shown


@dataclass(frozen=True)
class Call:
    name: str
    group: str
    kinds: tuple[Kind, ...]
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.kinds))})"

    def text(self, function: str, result: Kind | None, assigned: bool = True) -> str:
        """A kernel that makes the call; `r` is its result, stored where `result` says what it is, or nothing is."""
        arrays = [f"a{k}: {kind.annotation(0 if kind.dims else 1)}" for k, kind in enumerate(self.kinds)]
        values = ", ".join(f"a{k}" if kind.dims else f"a{k}[i]" for k, kind in enumerate(self.kinds))
        out = [f"out: {result.annotation(1)}"] if result else []
        target = "out[i] = " if result else "r = " if assigned else ""
        lines = [f"@wp.kernel\ndef {function}({', '.join(arrays + out)}):", "    i = wp.tid()"]
        lines += [f"    {target}wp.{self.name}({values})"]
        return "\n".join(lines) + "\n\n\n"


# -- what Warp has


def visible() -> dict[str, list]:
    """Warp's visible builtins by name: their overloads."""
    found = {name: list(getattr(f, "overloads", None) or [f]) for name, f in builtin_functions.items()}
    return {name: overloads for name, overloads in found.items() if not all(o.hidden for o in overloads)}


def kind_of(kind, chosen: dict[str, str], shape: tuple[int, ...]) -> Kind | None:
    """The kind that one of Warp's types is, with `chosen` types for variables and `shape` where it is open."""
    if kind is typing.Any or isinstance(kind, typing.TypeVar):
        found = chosen["Any" if kind is typing.Any else kind.__name__]
        return found if isinstance(found, Kind) else Kind(found)
    if isinstance(kind, wt.array):
        inner = kind_of(kind.dtype, chosen, shape)
        return None if inner is None else Kind(inner.dtype, inner.shape, inner.family, kind.ndim)
    scalar = {int: "int32", float: "float32", bool: "bool"}.get(kind) or getattr(kind, "__name__", "")
    if scalar in (*FLOATS, *INTS, "bool"):
        return Kind(scalar)
    family = {wt.vector: "vector"}.get(kind) or _family(kind)
    if not family:
        return None
    inner = kind_of(kind._wp_scalar_type_, chosen, ())
    known = tuple(kind._shape_)
    if 0 in known:
        known = shape if len(shape) == len(known) else ()
        if not known:
            return None
    return inner and Kind(inner.dtype, known, family)


def _family(kind) -> str:
    for family, test in (
        ("quaternion", wt.type_is_quaternion),
        ("transformation", wt.type_is_transformation),
        ("matrix", wt.type_is_matrix),
        ("vector", wt.type_is_vector),
    ):
        with contextlib.suppress(Exception):
            if test(kind):
                return family
    return ""


SHAPES = ((3,), (5,), (2, 2), (3, 3), (2, 3), (3, 2))


def calls(wanted: set[str]) -> list[Call]:
    """Every overload of the wanted groups or builtins, with generic types filled in several ways."""
    found: dict[Call, None] = {}
    for name, overloads in visible().items():
        for o in overloads:
            if o.group in OTHER_GROUPS or name in SKIPPED or (wanted and not wanted & {o.group, name}) or o.variadic:
                continue
            kinds = list(o.input_types.values())
            optional = len(o.defaults or {})
            for count in range(len(kinds) - optional, len(kinds) + 1):
                for filled in _filled(name, kinds[:count]):
                    alike = (
                        (filled[0], filled[-1])
                        if name == "lower_bound"
                        else filled[:2]
                        if name == "expect_near"
                        else ()
                    )
                    if len({(kind.dtype, kind.shape) for kind in alike}) > 1:
                        continue  # which Warp finds out from its C++ compiler
                    found[Call(name, o.group, filled, tuple(o.input_types)[:count])] = None
    return list(found)


def _choices(name: str) -> dict[str, tuple]:
    """The choices for the type variables of a builtin."""
    vectors = tuple(Kind(scalar, (3,), "vector") for scalar in FLOATS)
    if name.startswith(("norm_", "smooth_")):
        return GENERIC_SCALARS | {"Any": vectors}
    return GENERIC_SCALARS | ({"Any": (*GENERIC_SCALARS["Any"], vectors[2])} if name.startswith("atomic_") else {})


def _filled(name: str, kinds: list) -> list[tuple[Kind, ...]]:
    """The kinds with each choice of scalar types, and of shapes."""
    result = []
    choices = _choices(name)
    for k in range(max(map(len, choices.values()))):
        chosen = {name: options[k % len(options)] for name, options in choices.items()}
        options = []
        for kind in kinds:
            tried = [kind_of(kind, chosen, shape) for shape in (SHAPES if k < 1 else ((3,), (3, 3)))]
            options.append([x for x in dict.fromkeys(tried) if x is not None])
        if name.startswith("atomic_") and len(options[0]) == 1:  # one axis for each index
            axes = sum("Int" in str(kind) or kind in wt.int_types for kind in kinds[1:])
            options[0] = [dataclasses.replace(options[0][0], dims=axes)]
        result += itertools.product(*options)
    return list(dict.fromkeys(result))


# -- running


def load(text: str, library: str, folder: str):
    path = Path(folder) / f"calls_{library}_{abs(hash(text))}.py"
    path.write_text(f"import {library} as wp\n\n\n{text}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result_of(call: Call, kernel) -> Kind | str | None:
    """The kind of the result of Warp's call; None for none or several; a text where Warp refuses it."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            kernel.adj.build(None, {"deterministic": warp.DeterministicMode.NOT_GUARANTEED})
    except AttributeError:  # nothing to assign
        return None
    except Exception as error:
        return str(error).splitlines()[-1]
    result = kernel.adj.symbols.get("r")
    kind = getattr(result, "type", None)
    kind = getattr(kind, "value_type", kind)
    return kind_of(kind, {}, ()) if kind is not None else None


def values(kind: Kind, rng, name: str) -> np.ndarray:
    shape = ((THREADS,) * (kind.dims or 1)) + kind.shape
    if kind.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.dtype in FLOATS:
        found = rng.uniform(0.1, 0.9, shape) if name in NARROW else rng.uniform(-2.0, 2.0, shape)
        if name == "lower_bound" and kind.dims:
            found = np.sort(found)
        if name in CANCELLING:  # in another order of rounding
            found = found + 5.0 * np.eye(*kind.shape)
        if kind.family == "quaternion" and name.startswith("quat_"):
            found = found / np.linalg.norm(found, axis=-1, keepdims=True)
        return found.astype(getattr(wp, kind.dtype).dtype)
    low = 0 if kind.dtype[0] == "u" else -6
    found = rng.integers(low, 7, shape)
    if name in ("div", "mod", "floordiv", "cw_div", "div_approx"):
        found = np.where(found == 0, 3, found)
    if name in ("lshift", "rshift"):
        found = np.abs(found)
    return (np.sort(found) if name == "lower_bound" and kind.dims else found).astype(kind.dtype)


NARROW = {"acos", "asin", "erfinv", "erfcinv", "log", "log2", "log10", "sqrt", "pow"}
CANCELLING = {"inverse", "inverse_approx", "determinant"}
LOOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10}


def to_warp(x: np.ndarray, kind: Kind):
    return warp.array(
        x.astype(np.float32) if kind.dtype == "bfloat16" else x,
        dtype=eval(kind.element, {"wp": warp}),
        device="cpu",
        ndim=kind.dims or 1,
    )


def compare(found: list[tuple[Call, Kind]], folder: str, compiled: bool) -> dict[Call, str]:
    """The differences by call: jwarp's refusal, or numbers."""
    text = "".join(call.text(f"k{n}", result) for n, (call, result) in enumerate(found))
    theirs = load(text, "warp", folder)
    warp.set_module_options({"optimization_level": 0}, theirs)
    wrong = {}
    for n, (call, result) in enumerate(found):
        try:
            ours = load(call.text("k", result), "jwarp", folder).k
            ir = ours.ir()
        except JwarpError as error:
            wrong[call] = f"refused: {error.diagnostic.message}"
            continue
        if call.group in UNCOMPARED:
            continue
        rng = np.random.default_rng(n)
        given = [values(kind, rng, call.name) for kind in call.kinds]
        if call.name == "lower_bound" and len(given) == 4:  # a part of the array
            given[1:3] = (rng.integers(*limits, THREADS).astype(np.int32) for limits in ((0, 5), (5, THREADS)))
        if "euler" in call.name:  # three axes, no two alike one after the other
            axes = rng.integers(0, 3) + np.cumsum(rng.integers(1, 3, (3, THREADS)), 0)
            given[1:4] = (axes % 3).astype(np.int32)
        dtype = wp.bool.dtype if result.dtype == "bool" else getattr(wp, result.dtype).dtype
        out = np.zeros((THREADS, *result.shape), dtype)
        theirs_given = [to_warp(x, kind) for x, kind in zip(given, call.kinds, strict=True)]
        theirs_out = to_warp(out, result)
        warp.launch(getattr(theirs, f"k{n}"), THREADS, theirs_given, [theirs_out], device="cpu")
        arguments = [*(x.copy() for x in given), out]
        if compiled:
            wp.launch(ours, THREADS, arguments)
            got = arguments
        else:
            with np.errstate(all="ignore"):
                got = run(ir, (THREADS,), arguments)
        for k, (mine, other) in enumerate(zip(got, [*theirs_given, theirs_out], strict=True)):
            x, y = (np.asarray(v).astype(np.float64) for v in (mine, other.numpy().reshape(mine.shape)))
            tolerance = LOOSE.get(str(getattr(result, "dtype", "")), 0.0)
            if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
                at = np.unravel_index(np.nanargmax(np.abs(x - y)), x.shape)
                what = "result" if k == len(given) else f"argument {k}"
                inputs = [
                    np.asarray(g[at[0]]).tolist() for g, kind in zip(given, call.kinds, strict=True) if not kind.dims
                ]
                wrong[call] = f"{what} {x[at]} for Warp's {y[at]}, of {inputs}"
                break
    return wrong


def refusal(call: Call, folder: str) -> str:
    """Why jwarp does not take a call that has no result, or one that is several values."""
    reasons = []
    for assigned in (False, True):
        try:
            load(call.text("k", None, assigned), "jwarp", folder).k.ir()
            return ""
        except JwarpError as error:
            reasons.append(error.diagnostic.message)
    return f"refused: {reasons[0]}"


@dataclass(frozen=True)
class Audit:
    """The calls that Warp takes, those of them that have no result or several, and what is different."""

    taken: list[Call]
    uncompared: list[Call]
    wrong: dict[Call, str]


def audit(wanted: set[str], sample: int = 0, seed: int = 0, compiled: bool = False) -> Audit:
    """Compare the calls of the wanted groups or builtins, of all if none, or a sample of them."""
    warp.config.quiet = True
    warp.config.enable_backward = False
    warp.init()
    candidates = calls(wanted)
    if sample:
        random.Random(seed).shuffle(candidates)
        candidates = candidates[:sample]
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(call.text(f"k{n}", None) for n, call in enumerate(candidates))
        module = load(text, "warp", folder)
        results = [(call, result_of(call, getattr(module, f"k{n}"))) for n, call in enumerate(candidates)]
        taken = [(call, r) for call, r in results if not isinstance(r, str)]
        wrong: dict[Call, str] = {}
        with_result = [(call, r) for call, r in taken if r is not None]
        for call in (call for call, r in taken if r is None):
            if reason := refusal(call, folder):
                wrong[call] = reason
        for start in range(0, len(with_result), 400):
            wrong |= compare(with_result[start : start + 400], folder, compiled)
    return Audit([call for call, _ in taken], [call for call, r in taken if r is None], wrong)


def main(arguments: list[str]) -> None:
    """Print how many calls of each group agree, and what is different; `--compiled` runs machine code."""
    found = audit({a for a in arguments if a != "--compiled"}, compiled="--compiled" in arguments)
    for group in dict.fromkeys(call.group for call in found.taken):
        mine = [call for call in found.taken if call.group == group]
        wrong = [call for call in mine if call in found.wrong]
        others = {call.name for call in mine if call in found.uncompared}
        print(
            f"{group}: {len({c.name for c in mine})} names, {len(mine)} calls, {len(wrong)} different", *sorted(others)
        )
        for call in wrong:
            print(f"   {call}: {found.wrong[call][:150]}")


if __name__ == "__main__":
    main(sys.argv[1:])
