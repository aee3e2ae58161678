"""A kernel analysed for code: which accesses are proved, under what condition, and what launches must know."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from jwarp.analysis.affine import ALWAYS, Affine, Condition, Symbol, Symbols, evaluate, symbols_of
from jwarp.analysis.ranges import Proofs, prove
from jwarp.analysis.summary import (
    CertainAccess,
    Summary,
    certain_access,
    outside,
    reach,
    summarize,
    summary_from_bytes,
)
from jwarp.backend.generator import identity
from jwarp.collector import no_collection
from jwarp.compiler.passes import Context, Passes, run
from jwarp.config import CODE_SETTINGS, Settings
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Kernel, failure_texts
from jwarp.ir.serialize import fingerprint, to_bytes
from jwarp.store import Store, key_of
from jwarp.types import ArrayType
from jwarp.types.arrays import Extents
from jwarp.wire import DTYPES, Alternative, Cover, Parameter, encode_plan, escape

# By format of a program's header, the settings that it has. Settings that came later have their defaults there.
PROGRAM_FORMATS = {1: ("bounds", "debug", "fast_math")}
PROGRAM_FORMAT = max(PROGRAM_FORMATS)
# Vector code works on so many threads of a row at most, which stay together; a block is enough by itself.
COLUMN_GROUP = 64

VERSIONS = ("fast", "checked")


def fingerprint_of(header: bytes, kernel: str) -> str:
    """The fingerprint of a program with this header, and a kernel with this fingerprint."""
    return hashlib.sha256(header + kernel.encode()).hexdigest()[:32]


class AnalysedKernel:
    """A kernel ready to be compiled: analysed, and described to the native runtime.

    Two versions may exist: `fast` trusts what is proved under a condition on the launch, `checked`
    tests every access that is not proved without one. Each is compiled when a launch needs it.
    A kernel that came with a custom call has the fingerprint that the call `claimed`, which an earlier version may have
    made; its accesses are tested whatever the settings say.
    """

    generator = ""  # what code is made by, as it differs for each kind of processor
    passes: ClassVar[Passes] = ()

    def __init__(self, kernel: Kernel, settings: Settings, *, claimed: str = ""):
        self.kernel = kernel
        self.settings = settings
        options = {name: getattr(settings, name) for name in CODE_SETTINGS}
        header = json.dumps({"format": PROGRAM_FORMAT, **options}).encode()
        self.program = header + b"\n" + to_bytes(kernel)
        self.fingerprint = claimed or fingerprint_of(header, fingerprint(kernel))
        self.bounds = settings.bounds != "unchecked" or settings.debug or bool(claimed)
        self._store = Store(settings.cache_dir if identity() else "")

    @property
    def entry(self) -> str:
        """The symbol of the kernel's entry in code; ASCII for every name of a kernel."""
        return "jwarp_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in self.kernel.name)

    @property
    def context(self) -> Context:
        """The facts that passes depend on."""
        return Context(self.settings, is_tested=self.bounds)

    def optimized(self) -> Kernel:
        """The kernel after all passes but the last: with every operation where it was written."""
        return run(self.passes[:-1], self.kernel, self.context)

    @functools.cached_property
    @no_collection()
    def proofs(self) -> Proofs:
        """The kernel after all passes, and the analysis that code is generated from; slow for long kernels."""
        kernel = self.optimized()
        return prove(run(self.passes[-1:], kernel, self.context), kernel)

    @functools.cached_property
    def summary(self) -> Summary:
        """The part of the analysis that launches need, from disk if it is there."""
        key = key_of("summary", self.generator, identity() or "", self.fingerprint)
        known = self._store.load(key)
        if known is not None:
            return summary_from_bytes(known, self.kernel)
        made = summarize(self.proofs, self.kernel)
        self._store.save(key, made.to_bytes())
        return made

    @functools.cached_property
    def failures(self) -> list[str]:
        """The messages of failing checks, for the native runtime."""
        return [escape(f"kernel '{self.kernel.name}': {text}") for text in failure_texts(self.kernel)]

    @functools.cached_property
    def _symbols(self) -> Symbols:
        return symbols_of(self.kernel)

    @functools.cached_property
    def plan(self) -> np.ndarray:
        """The plan of the kernel for the native runtime, as int64 numbers."""
        clauses = [sorted(map(_alternative, clause), key=_order) for clause in self.condition]
        facts = self.summary
        return plan_numbers(self.kernel, facts.weight, facts.covers, facts.sums, clauses, ordered=self.ordered)

    @functools.cached_property
    def ordered(self) -> bool:
        """True if the threads of a batch element run one after the other."""
        return bool(self.kernel.order)

    @property
    def condition(self) -> Condition:
        """The launch condition of the fast version."""
        return self.summary.condition if self.bounds else ALWAYS

    def symbol_values(self, dims: tuple[int, ...], extents: Extents) -> dict[int, int | None]:
        """The values of the launch symbols, None for sizes that are symbolic.

        Scalar arguments are known only when the kernel runs.
        """
        known: dict[int, int | None] = {k: n if isinstance(n, int) else None for k, n in enumerate(dims)}
        for (p, axis), symbol in self._symbols.extents.items():
            shape = extents[p]
            assert shape is not None
            known[symbol.index] = shape[axis] if isinstance(shape[axis], int) else None
        return known

    def check(self, dims: tuple[int, ...], extents: Extents) -> None:
        """Refuse a launch that is certain to leave an array.

        Raises:
            LaunchError: naming the array, the extent, and the index that some thread would use.
        """
        if not self.bounds or 0 in dims:
            return
        known = self.symbol_values(dims, extents)
        if None in known.values():
            return  # the versions of the kernel are chosen when it runs, and one of them tests its accesses
        for access in self.summary.always:
            for axis, form in enumerate(access.indices):
                local = self.kernel.local(access.array)
                extent = local.shape[axis] if local else known[self._symbols.extents[access.array, axis].index]
                assert extent is not None
                index = outside(reach(form, dims, known), extent) if form is not None else None
                if index is not None:
                    raise self._outside(access, axis, index, extent, dims)

    def _outside(self, access: CertainAccess, axis: int, index: int, extent: int, dims: tuple[int, ...]) -> LaunchError:
        name = self.kernel.array(access.array).name
        # A summary has no source positions; for an error the analysis may be repeated.
        found = (a.span for a in self.proofs.always if certain_access(a, self.proofs) == access)
        return LaunchError(
            f"kernel `{self.kernel.name}`: index {index} is outside axis {axis} of `{name}`, "
            f"whose extent is {extent}, in a launch over {dims[: self.kernel.tid_dims]}",
            next(found, self.kernel.span),
            "launch fewer threads, or guard the access with an `if`, or write `a if c else b`, which reads the one of "
            "the two that it chooses: `wp.where(c, a, b)` reads both",
        )

    def needed(self, symbols: Mapping[int, int | None]) -> tuple[str, ...]:
        """The versions that a launch may run, given what is known of its symbols."""
        holds = evaluate(self.condition, symbols)
        return {True: VERSIONS[:1], False: VERSIONS[1:], None: VERSIONS}[holds]


def plan_numbers(
    kernel: Kernel,
    weight: int,
    covers: Sequence[int] = (),
    sums: Mapping[int, int] | None = None,
    clauses: Sequence[Sequence[Alternative]] = (),
    *,
    ordered: bool = False,
) -> np.ndarray:
    """The plan of a kernel with these facts; without `covers`, threads may touch any element."""
    known = sums or {}
    parameters = (
        Parameter(
            param.is_array,
            param.type.ndim if isinstance(param.type, ArrayType) else 0,
            DTYPES[param.dtype.name],
            covers[p] if covers else Cover.UNKNOWN,
            p in known,
            known.get(p, 0),
        )
        for p, param in enumerate(kernel.params)
    )
    in_order = sorted(clauses, key=lambda clause: [_order(alternative) for alternative in clause])
    group = 1 if kernel.block_dim else COLUMN_GROUP
    return encode_plan(kernel.tid_dims, parameters, in_order, weight, group, ordered)


def _order(alternative: Alternative) -> tuple[int, Sequence[tuple[int, int]], int]:
    return len(alternative.terms), alternative.terms, alternative.constant


def _alternative(form: Affine) -> Alternative:
    """One alternative of a clause for the native runtime."""
    terms = []
    for symbol, c in form.terms:
        assert isinstance(symbol, Symbol)
        terms.append((symbol.index, c))
    terms.sort()
    return Alternative(terms, form.constant)
