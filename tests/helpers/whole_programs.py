"""Random programs on mutable arrays: lists of steps, and what they do, computed by NumPy in float64.

A step is a tuple: its name and what it works on. Places are a name and views of it, one after the other, so that a view
of a `wp.array` and one of a NumPy array are made alike. Gradients of a tape are compared with differences in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

N, ROWS, COLUMNS, POINTS = 12, 4, 5, 9
RADIUS = 0.9
FLOATS = tuple(f"f{k}" for k in range(4))
Place = tuple[Any, ...]  # a name, then views: slices, and "row", "column" or "flat"


def seen(array: Any, views: tuple[Any, ...]) -> Any:
    """A view of an array of either kind."""
    for view in views:
        if isinstance(view, slice):
            array = array[view]
        elif view == "flat":
            array = array.reshape(array.size) if isinstance(array, np.ndarray) else array.flatten()
        else:
            array = array[view[1]] if view[0] == "row" else array[:, view[1]]
    return array


# -- the same in NumPy


def _gather(x: Any, idx: Any, c: float, y: Any) -> None:
    n = min(len(idx), len(y))
    y[:n] = c * x[idx[:n] % len(x)]


def _scatter(x: Any, idx: Any, c: float, y: Any) -> None:
    n = min(len(idx), len(x))
    np.add.at(y, idx[:n] % len(y), c * np.sin(x[:n]))


def _own(x: Any, c: float, y: Any) -> None:
    n = min(len(x), len(y))
    y[:n] = np.sin(0.7 * y[:n] + c * x[:n] * x[:n])


def _twice(x: Any, c: float, y: Any) -> None:
    n = min(len(x), len(y))
    y[:n] += c * x[:n]
    y[:n] = np.sin(y[:n]) * x[:n]  # which may be y


def _stencil(x: Any, c: float, y: Any) -> None:
    n = min(len(x), len(y))
    wide = np.concatenate([[0.0], x, [0.0]])
    y[:n] = np.sin(2.0 * x - wide[:-2] - c * wide[2:])[:n]


def _product(x: Any, z: Any, w: Any, y: Any) -> None:
    n = min(len(x), len(z), len(y))
    y[:n] = w[0] * x[:n] * z[:n] + w[1] * np.cos(z[:n])


def _total(x: Any, c: float, y: Any) -> None:
    y[0] += (c * np.sin(x)).sum()


def _greatest(x: Any, y: Any) -> None:
    y[0] = max(y[0], x.max())


def _prefix(x: Any, c: float, y: Any) -> None:
    for i in range(min(len(x), len(y))):
        s = 0.0
        for j in range(i + 1):
            s = np.sin(c * s + x[j])
        y[i] = s


def _of_struct(scale: float, shift: Any, x: Any, y: Any) -> None:
    n = min(len(x), len(y))
    y[:n] = scale * np.sin(x[:n]) + shift[0] * y[:n] + shift[1]


def _near(p: Any, y: Any) -> None:
    apart = ((p[:, None] - p) ** 2).sum(-1)
    y[: len(p)] = np.sin((np.maximum(RADIUS**2 - apart, 0.0) ** 2).sum(1))


TRIANGLES = np.array([[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8], [8, 0, 4]], np.int32)


def _closest(q: Any, a: Any, b: Any, c: Any) -> Any:
    """The place of a triangle that is closest to another place (Ericson 2004, 5.1.5)."""
    ab, ac, ap, bp, cp = b - a, c - a, q - a, q - b, q - c
    d1, d2, d3, d4, d5, d6 = ab @ ap, ac @ ap, ab @ bp, ac @ bp, ab @ cp, ac @ cp
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    if d1 <= 0 and d2 <= 0:
        return a
    if d3 >= 0 and d4 <= d3:
        return b
    if d6 >= 0 and d5 <= d6:
        return c
    if vc <= 0 and d1 >= 0 and d3 <= 0:
        return a + ab * (d1 / (d1 - d3))
    if vb <= 0 and d2 >= 0 and d6 <= 0:
        return a + ac * (d2 / (d2 - d6))
    if va <= 0 and d4 >= d3 and d5 >= d6:
        return b + (c - b) * ((d4 - d3) / ((d4 - d3) + (d5 - d6)))
    return a + ab * (vb / (va + vb + vc)) + ac * (vc / (va + vb + vc))


def _has_area(a: Any, b: Any, c: Any) -> bool:
    """True for a triangle that queries find."""
    sides = ((b - a) ** 2).sum() + ((c - a) ** 2).sum() + ((c - b) ** 2).sum()
    return bool((np.cross(b - a, c - a) ** 2).sum() >= 1e-12 * sides * sides and sides > 0.0)


def _nearest(p: Any, x: Any, y: Any) -> None:
    found = [p[t] for t in TRIANGLES if _has_area(*p[t])]
    for i in range(min(len(x), len(y)) if found else 0):
        q = np.array([x[i], 0.3 * i, 0.5])
        y[i] = np.sin(min(((_closest(q, *corners) - q) ** 2).sum() for corners in found))


# -- making programs


class Maker:
    """Chooses the steps of a program."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.temporaries = 0

    def number(self) -> float:
        return float(np.float32(self.rng.uniform(-1.2, 1.2)))

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def floats(self, known: list[str], least: int = 1) -> Place:
        """A place of floats, of one dimension."""
        for _ in range(20):
            kind = self.rng.random()
            if kind < 0.15:
                views: tuple[Any, ...] = (self.one_of(("row", int(self.rng.integers(ROWS))), "flat"),)
                size, name = (ROWS * COLUMNS if views[0] == "flat" else COLUMNS), "m"
            elif kind < 0.25:
                views, size, name = (("column", int(self.rng.integers(COLUMNS))),), ROWS, "m"
            else:
                views, size, name = (), N, self.one_of(*known)
            if self.rng.random() < 0.4:
                begin = int(self.rng.integers(0, size // 2))
                end = int(self.rng.integers(begin + size // 3, size + 1))
                step = int(self.rng.integers(1, 3))
                views, size = (*views, slice(begin, end, step)), len(range(begin, end, step))
            if size >= least:
                return name, *views
        return known[0], *()

    def apart(self, target: Place, known: list[str], identical: bool = False) -> Place:
        """A place that shares no element with another one; or is the same, where that is `identical`."""
        state = plain_state() | {name: np.zeros(N) for name in known if name.startswith("t")}
        of_target = place_in(state, target)
        for _ in range(50):
            found = self.floats(known)
            if not np.shares_memory(place_in(state, found), of_target) or (identical and found == target):
                return found
        return next((name,) for name in known if name != target[0])

    def launch(self, known: list[str]) -> tuple[Any, ...]:
        """A launch of a kernel."""
        y = self.floats(known)
        c = self.number()
        kind = self.one_of(*_LAUNCHES)
        if kind in ("gather", "scatter"):
            return kind, self.apart(y, known), (self.one_of("i0", "i1"),), c, y
        if kind in ("own", "twice"):
            return kind, self.apart(y, known, identical=True), c, y
        if kind in ("stencil", "prefix", "total"):
            return kind, self.apart(y, known), c, y
        if kind == "product":
            return kind, self.apart(y, known), self.apart(y, known), (c, self.number()), y
        if kind == "of_struct":
            return kind, c, (self.number(), self.number()), self.apart(y, known), y
        if kind == "matrix_rows":
            return kind, *((name,) for name in self.rng.permutation(known).tolist()[:2])
        if kind == "outer":
            return kind, self._whole(known), self._whole(known)
        if kind == "from_indexed":
            name = self.one_of(*known)
            y = next((each,) for each in self.rng.permutation(known).tolist() if each != name)
            return kind, name, tuple(self.rng.integers(0, N, 7).tolist()), c, y
        if kind == "near":
            return kind, self._whole(known)
        if kind == "nearest":
            return kind, self.apart(y, known), y
        return kind, self._whole(known), c

    def _whole(self, known: list[str]) -> Place:
        return (self.one_of(*known),)

    def change(self, known: list[str], may_create: bool = True) -> tuple[Any, ...]:
        """A launch, a copy, a fill or a new array."""
        kind = self.rng.random() * (1.0 if may_create else 0.9)
        if kind < 0.72:
            return self.launch(known)
        if kind < 0.84:
            y = self.floats(known)
            return "copy", self.apart(y, known), y
        if kind < 0.9:
            return "fill", self.floats(known), self.number()
        self.temporaries += 1
        name = f"t{self.temporaries}"
        how = self.one_of("clone", "zeros", "full")
        step = how, name, self.one_of(*known), self.number()
        known.append(name)
        return step

    def steps(self, count: int, known: list[str], depth: int = 0) -> Iterator[tuple[Any, ...]]:
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.5:
                yield self.change(known, not depth)
            elif kind < 0.58:
                yield "mix", self.one_of("i0", "i1"), int(self.rng.integers(9)), self.one_of("i0", "i1")
            elif kind < 0.63:
                source = self.floats(known)
                yield "sum", source
            elif kind < 0.67:
                a, b = self.rng.permutation(known).tolist()[:2]
                yield "scan", a, b, bool(self.rng.integers(2))
            elif kind < 0.7:
                yield "sort", self.one_of("i0", "i1")
            elif kind < 0.73:
                yield "greatest", self.floats(known)
            elif kind < 0.76:
                yield "inner", self.one_of(*known), self.one_of(*known)
            elif depth or kind < 0.82:
                yield self.change(known, not depth)
            elif kind < 0.87:
                yield "while", int(self.rng.integers(1, 5)), list(self.steps(2, list(FLOATS), 1))
            elif kind < 0.91:
                yield "if", *(list(self.steps(2, list(FLOATS), 1)) for _ in range(2))
            else:
                yield self.tape(known)

    def tape(self, known: list[str]) -> tuple[Any, ...]:
        """Steps on a tape, and what its gradients come from."""
        own, inner = list(known), []
        for _ in range(int(self.rng.integers(2, 6))):
            inner.append(self.change(own))
        written = [name for name in (names_written(step) for step in inner) if name in (*FLOATS, "m", "p")]
        if not written:
            inner.append(("own", ("f0",), 0.5, ("f1",)))
            written = ["f1"]
        between = [self.change(list(FLOATS), False) for _ in range(int(self.rng.integers(0, 3)))]
        return "tape", inner, self.one_of(*written), int(self.rng.integers(4)), between


_NEW = ("clone", "zeros", "full")
_LAUNCHES = ("gather", "scatter", "own", "twice", "stencil", "product", "total", "prefix", "of_struct", "matrix_rows")
_LAUNCHES += ("outer", "from_indexed", "from_points", "to_points", "near", "nearest")


def names_written(step: tuple[Any, ...]) -> str:
    """The array that a step of a tape writes to."""
    if step[0] in _NEW or step[0] == "fill":
        return step[1] if step[0] in _NEW else step[1][0]
    return {"outer": "m", "to_points": "p"}.get(step[0]) or _target(step)


def _target(step: tuple[Any, ...]) -> str:
    return {"from_points": step[1], "near": step[1], "matrix_rows": step[-1]}.get(step[0], step[-1])[0]


def names_read(step: tuple[Any, ...]) -> set[str]:
    """All arrays that a step of a tape has."""
    found = {part[0] for part in step[1:] if isinstance(part, tuple) and part and isinstance(part[0], str)}
    found |= {part for part in step[1:] if isinstance(part, str)}
    return found | {
        "outer": {"m"},
        "matrix_rows": {"m"},
        "to_points": {"p"},
        "from_points": {"p"},
        "near": {"p"},
        "nearest": {"p"},
    }.get(step[0], set())


def program(seed: int, count: int = 10) -> list[tuple[Any, ...]]:
    """The steps of a program."""
    return list(Maker(seed).steps(count, list(FLOATS)))


# -- running them


def plain_state(seed: int = 0) -> dict[str, np.ndarray]:
    """The arrays of a program, in float64, of what float32 holds."""
    rng = np.random.default_rng(seed)
    state = {name: rng.uniform(-1.0, 1.0, N) for name in FLOATS}
    state |= {"m": rng.uniform(-1.0, 1.0, (ROWS, COLUMNS)), "p": rng.uniform(-1.0, 1.0, (POINTS, 3))}
    state |= {"sum": np.zeros(1), **{f"d{name}": np.zeros_like(x) for name, x in state.items()}}
    state = {name: x.astype(np.float32).astype(np.float64) for name, x in state.items()}
    return state | {name: rng.integers(0, N, N).astype(np.int32) for name in ("i0", "i1")}


def inputs(seed: int) -> dict[str, np.ndarray]:
    """Other contents for some of the arrays."""
    made = plain_state(seed + 1000)
    return {name: made[name] for name in ("f0", "f1", "m", "p", "i0", "i1")}


def place_in(state: dict[str, Any], place: Place) -> Any:
    return seen(state[place[0]], place[1:])


def compute(state: dict[str, np.ndarray], step: tuple[Any, ...]) -> None:
    """Do a step in NumPy."""
    kind, at = step[0], lambda place: place_in(state, place)
    if kind in _NUMPY:
        _NUMPY[kind](state, *(at(part) if is_place(part) else part for part in step[1:]))
    elif kind == "while":
        for _ in range(state["i0"][0] % step[1]):
            for each in step[2]:
                compute(state, each)
    elif kind == "if":
        for each in step[1] if state["i1"][0] % 2 else step[2]:
            compute(state, each)
    else:
        _compute_tape(state, *step[1:])


def is_place(part: Any) -> bool:
    return isinstance(part, tuple) and bool(part) and isinstance(part[0], str)


def _sort(state: dict[str, np.ndarray], name: str) -> None:
    state[name][:] = np.sort(state[name])


def _copy(state: Any, source: np.ndarray, target: np.ndarray) -> None:
    n = min(len(source), len(target))
    target[:n] = source[:n]


def _scan(state: Any, a: str, b: str, inclusive: bool) -> None:
    sums = np.cumsum(state[a])
    state[b][:] = np.sin(0.3 * (sums if inclusive else sums - state[a]))


def _add(state: Any, value: float) -> None:
    state["sum"][0] = np.sin(value)


_NUMPY: dict[str, Callable[..., None]] = {
    "gather": lambda s, *a: _gather(*a),
    "scatter": lambda s, *a: _scatter(*a),
    "own": lambda s, *a: _own(*a),
    "twice": lambda s, *a: _twice(*a),
    "stencil": lambda s, *a: _stencil(*a),
    "product": lambda s, *a: _product(*a),
    "total": lambda s, *a: _total(*a),
    "prefix": lambda s, *a: _prefix(*a),
    "of_struct": lambda s, *a: _of_struct(*a),
    "matrix_rows": lambda s, x, y: y.__setitem__(slice(ROWS), y[:ROWS] + 0.3 * s["m"] @ x[:COLUMNS].copy()),
    "outer": lambda s, x, y: s["m"].__setitem__(slice(None), np.sin(s["m"] + np.outer(x[:ROWS], y[:COLUMNS]))),
    "from_indexed": lambda s, name, idx, c, y: y.__setitem__(
        slice(len(idx)), np.sin(c * s[name][list(idx)] + y[: len(idx)])
    ),
    "from_points": lambda s, y, c: y.__setitem__(slice(POINTS), np.sin(c * (s["p"] ** 2).sum(1) + s["p"][:, 1])),
    "to_points": lambda s, x, c: s["p"].__setitem__(
        slice(None),
        np.stack([np.sin(x[:POINTS]), 0.5 * s["p"][:, 0], s["p"][:, 2] * np.cos(x[:POINTS])], 1),
    ),
    "near": lambda s, y: _near(s["p"], y),
    "nearest": lambda s, x, y: _nearest(s["p"], x, y),
    "copy": _copy,
    "fill": lambda s, y, c: y.fill(c),
    "clone": lambda s, name, source, c: s.__setitem__(name, s[source].copy()),
    "zeros": lambda s, name, source, c: s.__setitem__(name, np.zeros(N)),
    "full": lambda s, name, source, c: s.__setitem__(name, np.full(N, c)),
    "mix": lambda s, a, k, b: s[b].__setitem__(slice(None), (s[a] * 3 + np.arange(N) + k) % N),
    "sum": lambda s, x: _add(s, x.sum()),
    "inner": lambda s, a, b: _add(s, s[a] @ s[b]),
    "scan": _scan,
    "sort": _sort,
    "greatest": lambda s, x: s["sum"].__setitem__(0, max(s["sum"][0], x.max())),
}


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """The cotangent that the gradients of a tape come from."""
    return np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def leaves(inner: list[tuple[Any, ...]]) -> list[str]:
    """The arrays that steps read and do not write."""
    written = {names_written(step) for step in inner}
    read = set().union(*(names_read(step) for step in inner))
    return sorted((read & {*FLOATS, "m", "p"}) - written)


def _compute_tape(
    state: dict[str, np.ndarray], inner: list[tuple[Any, ...]], of: str, _: int, between: list[tuple[Any, ...]]
) -> None:
    def loss(name: str, k: int, more: float) -> float:
        tried = copy.deepcopy(before)
        tried[name].reshape(-1)[k] += more
        for step in inner:
            compute(tried, step)
        return float((tried[of] * weights(tried[of].shape)).sum())

    before = copy.deepcopy(state)
    for name in leaves(inner):
        size = before[name].size
        slopes = [(loss(name, k, 1e-6) - loss(name, k, -1e-6)) / 2e-6 for k in range(size)]
        state[f"d{name}"] += np.reshape(slopes, before[name].shape)
    for step in (*inner, *between):
        compute(state, step)
