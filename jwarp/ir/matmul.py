"""A request for one product of two matrices, which backends answer with code made for it alone."""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.types import ScalarType, float32, float64


@dataclass(frozen=True)
class Request:
    """One matrix product that a kernel asks for: C (m x n) += op(A) (m x k) * op(B) (k x n).

    All three are row-major and contiguous, and hold either floats or integers.
    """

    a: ScalarType  # the types of the elements in memory
    b: ScalarType
    c: ScalarType
    m: int
    n: int
    k: int
    transpose_a: bool = False  # A is stored k x m
    transpose_b: bool = False  # B is stored n x k
    accumulate: bool = True  # else C = product, whatever C held

    def __post_init__(self) -> None:
        types = (self.a, self.b, self.c)
        if not (all(t.is_float for t in types) or all(t.is_int for t in types)):
            raise ValueError(f"no matrix product of {self.a} and {self.b} with sums of {self.c}")
        if min(self.m, self.n, self.k) < 1:
            raise ValueError(f"no matrix product of size {self.m}x{self.n}x{self.k}")

    @property
    def accumulator(self) -> ScalarType:
        """The type that sums are kept in over the whole of k; integers wrap in the type of C."""
        if self.c.is_int:
            return self.c
        return float64 if float64 in (self.a, self.b, self.c) else float32

    @property
    def key(self) -> str:
        """The request as a short text."""
        names = [t.name for t in (self.a, self.b, self.c)]
        types = names[0] if len(set(names)) == 1 else "*".join(names[:2]) + "->" + names[2]
        layout = "nt"[self.transpose_a] + "nt"[self.transpose_b]
        return f"{types} {self.m}x{self.n}x{self.k} {layout} {'add' if self.accumulate else 'set'}"

    @property
    def symbol(self) -> str:
        """The request as an identifier."""
        safe = self.key.replace("->", "_").replace("*", "_").replace(" ", "_")
        return f"jwarp_matmul_{safe}"
