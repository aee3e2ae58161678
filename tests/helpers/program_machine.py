"""Runs the steps of random programs in jwarp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import program_kernels as kernels
from whole_programs import COLUMNS, POINTS, RADIUS, ROWS, TRIANGLES, N, Place, is_place, leaves, place_in, weights

import jwarp as wp


class Machine:
    """The arrays of a program, and what runs its steps in jwarp."""

    def __init__(self, state: dict[str, np.ndarray], records: bool = False):
        self.arrays: dict[str, Any] = {}
        # With `records`, those of the launches by the step, which later runs launch with their arguments.
        self.records: dict[int, Any] | None = {} if records else None
        for name, x in state.items():
            if x.dtype == np.int32:
                self.arrays[name] = wp.array(x, dtype=int)
            else:
                kind = wp.vec3 if name in ("p", "dp") else float
                self.arrays[name] = wp.array(x.astype(np.float32), dtype=kind, requires_grad=name[0] != "d")
        self.grid = wp.HashGrid(4, 4, 4)
        self.mesh = wp.Mesh(self.arrays["p"], wp.array(TRIANGLES.ravel(), dtype=int))
        self.keys, self.spare = wp.zeros(2 * N, dtype=int), wp.zeros(2 * N, dtype=int)
        self.scanned, self.count = wp.zeros(N, dtype=float), wp.zeros(1, dtype=int)
        self.shift, self.own_tape = wp.vec2(), wp.Tape()

    def assign(self, given: dict[str, np.ndarray]) -> None:
        for name, x in given.items():
            self.arrays[name].assign(x if x.dtype == np.int32 else x.astype(np.float32))

    def launch(self, step: tuple[Any, ...], kernel: Any, dim: Any, inputs: list[Any]) -> None:
        if self.records is None:
            return wp.launch(kernel, dim, inputs)
        record = self.records.get(id(step))
        if record is None:
            record = self.records[id(step)] = wp.launch(kernel, dim, inputs, record_cmd=True)
        record.set_params(inputs)
        return record.launch()

    def run_all(self, steps: Iterable[tuple[Any, ...]]) -> None:
        for step in steps:
            self.run(step)

    def run(self, step: tuple[Any, ...]) -> None:
        kind, at = step[0], lambda place: place_in(self.arrays, place)
        arrays, launch = self.arrays, functools.partial(self.launch, step)
        given = [at(part) if is_place(part) else part for part in step[1:]]
        if kind == "gather":
            launch(kernels.gather, min(given[1].size, given[3].size), given)
        elif kind == "scatter":
            launch(kernels.scatter, min(given[1].size, given[0].size), given)
        elif kind in ("own", "twice", "prefix"):
            kernel = {"own": kernels.own, "twice": kernels.twice, "prefix": kernels.prefix}[kind]
            launch(kernel, min(given[0].size, given[2].size), given)
        elif kind == "stencil":
            launch(kernels.stencil, min(given[0].size, given[2].size), given)
        elif kind == "product":
            self.shift[0], self.shift[1] = given[2]  # one vector, which changes from launch to launch
            given[2] = self.shift
            launch(kernels.product, min(given[0].size, given[1].size, given[3].size), given)
        elif kind == "total":
            launch(kernels.total, given[0].size, given)
        elif kind == "of_struct":
            p = kernels.Pair()
            p.scale, p.shift, p.source, p.target = given[0], wp.vec2(*given[1]), given[2], given[3]
            launch(kernels.of_struct, min(given[2].size, given[3].size), [p])
        elif kind == "matrix_rows":
            launch(kernels.matrix_rows, (ROWS, COLUMNS), [arrays["m"], *given])
        elif kind == "outer":
            launch(kernels.outer, (ROWS, COLUMNS), [*given, arrays["m"]])
        elif kind == "from_indexed":
            idx = wp.array(list(given[1]), dtype=int)
            launch(kernels.from_indexed, len(given[1]), [wp.indexedarray(arrays[given[0]], [idx]), *given[2:]])
        elif kind == "from_points":
            launch(kernels.from_points, POINTS, [arrays["p"], given[1], given[0]])
        elif kind == "to_points":
            launch(kernels.to_points, POINTS, [given[0], arrays["p"]])
        elif kind == "near":
            self.grid.build(arrays["p"], RADIUS)
            launch(kernels.near, POINTS, [self.grid.id, arrays["p"], RADIUS, given[0]])
        elif kind == "nearest":
            self.mesh.refit()
            launch(kernels.nearest, min(given[0].size, given[1].size), [self.mesh.id, *given])
        elif kind == "copy":
            n = min(given[0].size, given[1].size)
            wp.copy(given[1][:n], given[0][:n])
        elif kind == "fill":
            given[0].fill_(given[1])
        elif kind == "clone":
            arrays[step[1]] = wp.clone(arrays[step[2]])
        elif kind == "zeros":
            arrays[step[1]] = wp.zeros(N, dtype=float, requires_grad=True)
        elif kind == "full":
            arrays[step[1]] = wp.full(N, step[3], dtype=float, requires_grad=True)
        else:
            _OTHERS[kind](self, *step[1:])

    def tape(self, inner: list[tuple[Any, ...]], of: str, way: int, between: list[tuple[Any, ...]]) -> None:
        """Steps on a tape, which is a new one or the machine's; and the steps before it goes back."""
        tape = wp.Tape() if way < 2 else self.own_tape
        tape.reset()
        with tape:
            for step in inner:
                self.run(step)
        for step in between:
            self.run(step)
        self.back(tape, inner, of, way % 2 == 0)

    def back(self, tape: wp.Tape, inner: list[tuple[Any, ...]], of: str, as_loss: bool) -> None:
        """Add the gradients of the arrays that the steps read to arrays of their own."""
        y = self.arrays[of]
        cotangent = wp.array(weights(y.numpy().shape if of == "p" else y.shape), dtype=y.dtype)
        if as_loss:
            y.grad.assign(cotangent)
            tape.backward()
        else:
            tape.backward(grads={y: cotangent})
        for name in leaves(inner):
            into, out = (a.view(float) if name == "p" else a for a in (self.arrays[f"d{name}"], self.arrays[name].grad))
            wp.launch(kernels.accumulate, into.size, [out.flatten(), into.flatten()])
        tape.zero()
        y.grad.zero_()  # of which the tape may know views alone

    def while_(self, most: int, inner: list[tuple[Any, ...]]) -> None:
        wp.launch(kernels.set_from, 1, [self.arrays["i0"], most, self.count])

        def body() -> None:
            for step in inner:
                self.run(step)
            wp.launch(kernels.count_down, 1, [self.count])

        wp.capture_while(self.count, body)

    def if_(self, first: list[tuple[Any, ...]], second: list[tuple[Any, ...]]) -> None:
        wp.launch(kernels.set_from, 1, [self.arrays["i1"], 2, self.count])
        wp.capture_if(self.count, lambda: [self.run(s) for s in first], lambda: [self.run(s) for s in second])

    def sort(self, name: str) -> None:
        wp.copy(self.keys, self.arrays[name], count=N)
        wp.utils.radix_sort_pairs(self.keys, self.spare, N)
        wp.copy(self.arrays[name], self.keys, count=N)

    def sum(self, place: Place) -> None:
        wp.utils.array_sum(place_in(self.arrays, place), out=self.arrays["sum"])
        wp.launch(kernels.sine, 1, [1.0, self.arrays["sum"], self.arrays["sum"]])

    def inner(self, a: str, b: str) -> None:
        wp.utils.array_inner(self.arrays[a], self.arrays[b], out=self.arrays["sum"])
        wp.launch(kernels.sine, 1, [1.0, self.arrays["sum"], self.arrays["sum"]])

    def scan(self, a: str, b: str, inclusive: bool) -> None:
        wp.utils.array_scan(self.arrays[a], self.scanned, inclusive)
        wp.launch(kernels.sine, N, [0.3, self.scanned, self.arrays[b]])


_OTHERS: dict[str, Callable[..., None]] = {
    "tape": Machine.tape,
    "while": Machine.while_,
    "if": Machine.if_,
    "mix": lambda m, a, k, b: wp.launch(kernels.mix, N, [m.arrays[a], k, m.arrays[b]]),
    "sum": Machine.sum,
    "inner": Machine.inner,
    "scan": Machine.scan,
    "sort": Machine.sort,
    "greatest": lambda m, x: wp.launch(
        kernels.greatest, place_in(m.arrays, x).size, [place_in(m.arrays, x), m.arrays["sum"]]
    ),
}
