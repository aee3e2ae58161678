"""Finds what a kernel computes of decompositions that does not depend on how vectors of equal values are chosen.

U diag(s) V^T is also decomposed with vectors of equal values turned in their plane, and with values that change places
together with their vectors. What is the same for all of these is a smooth function of the matrix where its parts are
not: U @ transpose(V), or U f(s) V^T, or a sum over the values. No rule of calculus tells that from the operations, so
they are run on random decompositions, and on the same ones turned.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jwarp.ir.attributes import Part
from jwarp.ir.evaluate import EVAL_RULES, evaluate_quietly
from jwarp.ir.nodes import Const, Kernel, Op, Operand, Value, walk
from jwarp.types import ScalarType

SAMPLES = 8
# Of samples that are numbers, so many decide; and so far may they be apart, by rounding in float64.
LEAST, TOLERANCE = 4, 1e-8
# Of each pair of values: two equal ones, the same with vectors turned; any two, the same with places changed.
CASES = 4
# Of all eigenvalues together: a step to either side of such factors times any positive ones.
NEAR_ZERO, STEP, SAME_SLOPE = (1e-3, -1e-4), 1e-5, 0.02


@dataclass(frozen=True)
class Symmetry:
    """`made` is computed of parts of decompositions, `symmetric` as well and the same for all of them.

    What is `of_vectors` has parts among what it is made of that are no values, what is `of_values` some that are.
    Functions of eigenvalues have a scale where all that is symmetric changes at zero as it does near it, as exp does,
    and unlike the square, the root and the magnitude.
    """

    made: frozenset[Value]
    symmetric: frozenset[Value]
    of_vectors: frozenset[Value]
    of_values: frozenset[Value]
    has_scale: bool


def symmetry(kernel: Kernel) -> Symmetry:
    """The values that are computed from parts of decompositions, and the symmetric ones among them."""
    nodes = [n for n in walk(kernel.body) if isinstance(n, Op)]
    parts: dict[Operand, list[Op]] = {}
    for node in nodes:
        if node.row.is_decomposed:
            parts.setdefault(node.args[2], []).append(node)
    run = _Run(parts)
    for node in nodes:
        run.op(node)
    symmetric = frozenset(x for x, samples in run.known.items() if x.type.is_float and run.is_symmetric(samples))
    slopes = [run.slopes(run.known[x]) for x in symmetric & run.of_values]
    has_scale = any(slope is not None for slope in slopes) and all(slope is not False for slope in slopes)
    return Symmetry(frozenset(run.known), symmetric, frozenset(run.of_vectors), frozenset(run.of_values), has_scale)


def depends_on_decompositions(kernel: Kernel) -> bool:
    """True if the kernel uses decompositions."""
    return any(isinstance(n, Op) and n.row.is_decomposed for n in walk(kernel.body))


class _Run:
    """Runs what is made of parts on samples, one row for each case of each decomposition."""

    def __init__(self, parts: dict[Operand, list[Op]]):
        self.random = np.random.default_rng(0)
        self.known: dict[Value, np.ndarray] = {}
        self.others: dict[Value, np.ndarray] = {}
        self.of_vectors: set[Value] = set()
        self.of_values: set[Value] = set()
        cases = sum(CASES * len(_pairs(each[0].attr_as(Part).width)) for each in parts.values())
        self.cases, self.count = cases, cases + 2 * len(NEAR_ZERO)
        first = 0
        for each in parts.values():
            first = self.sample(each, first)

    def sample(self, parts: Iterable[Op], first: int) -> int:
        """Random values of the parts of one decomposition; its cases begin with number `first`."""
        width = next(iter(parts)).attr_as(Part).width
        shape = (self.count, SAMPLES)
        s = np.broadcast_to(self.random.uniform(0.5, 1.5, (width, 1, SAMPLES)), (width, *shape)).copy()
        turns = [np.linalg.qr(self.random.normal(size=(SAMPLES, width, width)))[0] for _ in range(2)]
        factors = [np.broadcast_to(t.transpose(1, 2, 0)[:, :, None], (width, width, *shape)).copy() for t in turns]
        angles = self.random.uniform(0.3, 1.2, SAMPLES)
        for i, j in _pairs(width):
            s[j, first : first + 2] = s[i, first : first + 2]
            s[[i, j], first + 3] = s[[j, i], first + 3]
            for case, angle in ((first + 1, angles), (first + 3, np.pi / 2)):
                c, d = np.cos(angle), np.sin(angle)
                for f in factors:
                    p, q = f[:, i, case].copy(), f[:, j, case].copy()
                    f[:, i, case], f[:, j, case] = c * p + d * q, c * q - d * p
            first += CASES
        if all(node.attr_as(Part).factor < 2 for node in parts):
            base, step = self.random.uniform(0.5, 1.5, (2, width, SAMPLES))
            for k, at in enumerate(NEAR_ZERO):
                s[:, self.cases + 2 * k] = at * base + STEP * step
                s[:, self.cases + 2 * k + 1] = at * base - STEP * step
        for node in parts:
            part, result = node.attr_as(Part), node.result
            assert result is not None
            if part.factor == 1:
                self.known[result] = s[part.number]
                self.of_values.add(result)
            else:
                self.known[result] = factors[part.factor // 2][divmod(part.number, width)]
                self.of_vectors.add(result)
        return first

    def op(self, node: Op) -> None:
        if node.row.is_decomposed or node.result is None or not any(x in self.known for x in node.args):
            return
        row, type = node.row, node.result.type
        simple = all(isinstance(x.type, ScalarType) for x in (node.result, *node.args))
        # Anything else takes part as a number that is given: what it is made of counts where it was made.
        if not row.is_pure or node.name not in EVAL_RULES or not simple or (row.transfer.moves_bits and type.is_int):
            return
        args = [self.samples(x) for x in node.args]
        if row.has_target and type.is_float and node.args[0].type.is_float:
            made = args[0]  # not rounded
        else:
            with np.errstate(all="ignore"):
                made = evaluate_quietly(node.name, args, type)
        self.known[node.result] = made
        for found in (self.of_vectors, self.of_values):
            if any(x in found for x in node.args):
                found.add(node.result)

    def samples(self, x: Operand) -> np.ndarray:
        if isinstance(x, Const):
            return np.full((1, SAMPLES), x.value, x.type.dtype if not x.type.is_float else float)
        if x in self.known:
            return self.known[x]
        if x not in self.others:
            drawn: np.ndarray = self.random.uniform(0.5, 1.5, (1, SAMPLES))
            if x.type.kind == "bool":
                drawn = drawn > 1.0
            elif x.type.is_int:
                drawn = np.round(drawn * 2).astype(x.type.dtype)
            self.others[x] = drawn
        return self.others[x]

    def is_symmetric(self, samples: np.ndarray) -> bool:
        """True if the two halves of every pair of cases agree."""
        if samples.shape[0] == 1:
            return True
        pairs = samples[: self.cases].reshape(self.cases // 2, 2, -1)
        before, after = pairs[:, 0], pairs[:, 1]
        fits = np.isfinite(before) & np.isfinite(after)
        differ = np.abs(np.where(fits, before - after, 0.0)) > TOLERANCE * (1.0 + np.abs(np.where(fits, before, 0.0)))
        return bool(np.all(fits.sum(1) >= LEAST) and not np.any(differ))

    def slopes(self, samples: np.ndarray) -> bool | None:
        """True if eigenvalues near zero change a value as those at zero do; None if they do not change it."""
        if samples.shape[0] == 1:
            return None
        near = samples[self.cases :].reshape(len(NEAR_ZERO), 2, -1)
        first, second = near[:, 0] - near[:, 1]
        if not np.any(first) and not np.any(second):
            return None
        return bool(np.all(np.abs(first - second) <= SAME_SLOPE * np.abs(first).max()))


def _pairs(width: int) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(width), 2))
