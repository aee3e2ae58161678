"""Costs of accesses: what each number that a vector of threads accesses takes, in operations on vectors.

A rough model, of which only the order matters: it says which strategy is taken, and along which launch dimension
the lanes of a vector go.
"""

from __future__ import annotations

# One number for all lanes, and consecutive ones.
ONE, CONTIGUOUS = 1.0, 1.5
# Components of elements: consecutive elements that are shuffled as a whole, those at equal distances whose blocks of
# four lanes are transposed, and any elements.
SHUFFLED, TRANSPOSED, COLLECTED = 2.5, 3.0, 6.0
# Numbers of one row, which may be short; at equal distances, each by itself; and any, by a gather or scatter.
ROW, STRIDED, ANY = 6.0, 8.0, 16.0
# Atomic operations: one for the vector, and one for each lane.
ATOMIC_ONE, ATOMIC = 10.0, 40.0
