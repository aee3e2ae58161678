"""Meshes, trees and grids that launches of Warp's name by numbers: copies of them, and jwarp's of the same arrays."""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp
from warp._src import types as warp_types
from warp._src.codegen import StructInstance

import jwarp
from jwarp.dispatch.call.ids import kinds_of_nothing, table_of, table_of_nothing
from jwarp.types import StructType, may_hold_handles, uint64
from jwarp.types.structs import table_type, with_fields

ARRAYS = ("points", "indices", "velocities", "lowers", "uppers", "groups")


@dataclass
class Seen:
    """A mesh, tree or grid of Warp's, and what it was made of; of a grid, what it was built of last."""

    made: weakref.ref[Any]
    given: dict[str, Any]
    built: dict[str, Any] | None = None
    ours: tuple[Any, Any] | None = None  # jwarp's, after the bytes of the arrays that it was made of

    def content(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The content from which an equal object can be made."""
        owner = self.made()
        now = {name: getattr(owner, name) for name in ARRAYS if name in self.given and hasattr(owner, name)}
        return {**self.given, **now}, self.built


_seen: dict[int, Seen] = {}
_copies: dict[int, Any] = {}  # by their numbers: they live as long as the process, and nobody changes them


def watch() -> None:
    """From now on, remember each mesh, tree and grid that Warp makes, and what grids are built of."""
    for kind in (warp.Mesh, warp.Bvh, warp.HashGrid):
        if not hasattr(kind.__init__, "__wrapped__"):
            kind.__init__ = _remembering(kind.__init__)
    if not hasattr(warp.HashGrid.build, "__wrapped__"):
        warp.HashGrid.build = _building(warp.HashGrid.build)


def _remembering(init: Any) -> Any:
    signature = inspect.signature(init)

    @functools.wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        _, *given = signature.bind(self, *args, **kwargs).arguments.items()
        _seen[int(self.id)] = Seen(weakref.ref(self), dict(given))

    return made


def _building(build: Any) -> Any:
    @functools.wraps(build)
    def built(self: Any, points: Any, radius: float, groups: Any = None) -> None:
        build(self, points, radius, groups)
        known = _seen.get(int(self.id))
        if known is not None:
            known.built = {"points": _copied(points), "radius": radius, "groups": _copied(groups)}

    return built


def _copied(value: Any) -> Any:
    return warp.clone(value) if isinstance(value, warp_types.array) else value


def number_of(value: Any) -> int:
    """The number by which a value names a mesh, tree or grid of Warp's that is alive; 0 if it does not."""
    value = getattr(value, "value", value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return 0
    known = _seen.get(int(value))
    return int(value) if known is not None and known.made() is not None else 0


def numbers_in(value: Any) -> list[int]:
    """The numbers in an array of ids that name meshes, trees or grids of Warp's that are alive."""
    if type(value) is not warp_types.array or value.dtype is not warp_types.uint64 or value.ndim != 1 or not _seen:
        return []
    return [found for number in value.numpy().tolist() if (found := number_of(number))]


def table_in(kind: StructType, value: Any) -> Iterator[Any]:
    """The values of the parameters that an array of ids is taken apart into."""
    numbers = [] if value is None else value.numpy().tolist()
    ids = np.array([ours_of(n).id if number_of(n) else 0 for n in numbers], np.uint64)
    table = table_of("ids", ids, "") if ids.any() else table_of_nothing("ids", ids, kind, "")
    for name in kind.fields:
        yield np.asarray(getattr(table, name))


def copy_of(number: int) -> int:
    """The number of a copy that stays as the mesh, tree or grid is now."""
    if number in _copies:
        return number
    known = _seen[number]
    owner = known.made()
    given, built = known.content()
    copy = type(owner)(**{name: _copied(value) for name, value in given.items()})
    if built is not None:
        copy.build(**built)
    _copies[int(copy.id)] = copy
    return int(copy.id)


def ours_of(number: int) -> Any:
    """jwarp's mesh, tree or grid of the same arrays."""
    known = _seen[number]
    given, built = known.content()
    parts = {**given, **(built or {})}
    state = {name: value.numpy().tobytes() if hasattr(value, "numpy") else value for name, value in parts.items()}
    if known.ours is None or known.ours[0] != state:
        known.ours = (state, _MAKERS[_family(known.made())](given, built))
    return known.ours[1]


def _family(owner: Any) -> str:
    return next(name for name in _MAKERS if isinstance(owner, getattr(warp, name)))


def _numbers(value: Any) -> Any:
    return None if value is None else value.numpy().reshape(-1, *value.numpy().shape[value.ndim :])


def _mesh(given: dict[str, Any], built: Any) -> Any:
    arrays = {name: _numbers(given.get(name)) for name in ("points", "indices", "velocities", "groups")}
    arrays["indices"] = arrays["indices"].reshape(-1)
    return jwarp.Mesh(**arrays, support_winding_number=given.get("support_winding_number", False))


def _bvh(given: dict[str, Any], built: Any) -> Any:
    arrays = {name: _numbers(given.get(name)) for name in ("lowers", "uppers", "groups")}
    return jwarp.Bvh(**arrays, leaf_size=given.get("leaf_size", 1))


def _grid(given: dict[str, Any], built: dict[str, Any] | None) -> Any:
    kind = given.get("dtype") or warp.float32
    made = jwarp.HashGrid(given["dim_x"], given["dim_y"], given["dim_z"], dtype=getattr(jwarp, kind.__name__))
    if built is not None:
        made.build(_numbers(built["points"]), built["radius"], _numbers(built["groups"]))
    return made


_MAKERS = {"Mesh": _mesh, "Bvh": _bvh, "HashGrid": _grid}


# -- kernels that take them


def kinds_of(args: list[Any]) -> tuple:
    """The kind of each argument that is the id of a mesh, tree or grid, or a struct with such; else None."""
    return tuple(map(_kind, args))


def _kind(value: Any) -> Any:
    if numbers := numbers_in(value):
        return table_type(type(ours_of(numbers[0]).arrays))
    if isinstance(value, StructInstance):
        found = {name: _kind(getattr(value, name)) for name in value._cls.vars}
        found = {name: kind for name, kind in found.items() if kind is not None}
        return tuple(found.items()) or None
    number = number_of(value)
    return type(ours_of(number).arrays) if number else None


def with_kinds(kernel: Any, kinds: tuple) -> Any:
    """jwarp's kernel for those arguments; arrays of ids for which there is no kind name nothing."""
    lists = getattr(kernel, "id_lists", ())
    found: dict[int, Any] = {}
    for place in (*getattr(kernel, "handles", ()), *lists):
        kind = kinds[place] if place < len(kinds) else None
        if kind is not None:
            found[place] = kind if place in lists else _typed(kernel.signature[place].type, kind)
    if left := [place for place in lists if place not in found]:
        found |= kinds_of_nothing(kernel, left, found)
    return kernel.with_handles(found) if found else kernel


def _typed(kind: Any, found: Any) -> Any:
    if kind is uint64:
        return found
    inside = dict(found)
    return with_fields(kind, {n: _typed(kind.fields[n], inside[n]) for n in may_hold_handles(kind) if n in inside})


def arrays_in(kind: StructType, value: Any) -> Iterator[Any]:
    """The values of the parameters that a mesh, tree or grid is taken apart into; `value` is its number, or a part."""
    if number_of(value):
        value = ours_of(number_of(value)).arrays
    for name, inner in kind.fields.items():
        part = getattr(value, name)
        if isinstance(inner, StructType):
            yield from arrays_in(inner, part)
        else:
            yield part if isinstance(part, (bool, int, float)) else np.asarray(part)


# -- arguments made up


def candidates(kernel: Any) -> Iterator[list[Any]]:
    """Arguments of a kernel that takes numbers, with one that names something made up for each; None elsewhere."""
    places = [u for u, kind in enumerate(kernel.adj.arg_types.values()) if kind is warp_types.uint64]
    if not 0 < len(places) < 4:
        return
    for choice in itertools.product(_made_up(), repeat=len(places)):
        args: list[Any] = [None] * len(kernel.adj.arg_types)
        for place, owner in zip(places, choice, strict=True):
            args[place] = int(owner.id)
        yield args


@functools.cache
def _made_up() -> tuple[Any, ...]:
    """A mesh that is closed, a tree and grids for each type of numbers, with groups."""
    rng = np.random.default_rng(5)

    def array(numbers: Any, kind: Any) -> Any:
        return warp.array(numbers, dtype=kind, device="cpu")

    corners = 3 * np.array(list(itertools.product((-1, 1), repeat=3))) + rng.uniform(-0.2, 0.2, (8, 3))
    squares = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [corner for a, b, c, d in squares for corner in (a, b, c, a, c, d)]
    mesh = warp.Mesh(
        array(corners, warp.vec3),
        array(faces, int),
        array(rng.normal(size=(8, 3)), warp.vec3),
        support_winding_number=True,  # of a mesh with groups, too, Warp's signs differ from one such mesh to the next
    )
    lowers = rng.uniform(-2, 2, (40, 3))
    uppers = lowers + rng.uniform(0, 1, (40, 3))
    tree = warp.Bvh(array(lowers, warp.vec3), array(uppers, warp.vec3), groups=array(rng.integers(0, 3, 40), int))
    grids = []
    for kind, point in ((warp.float32, warp.vec3), (warp.float64, warp.vec3d), (warp.float16, warp.vec3h)):
        grid = warp.HashGrid(4, 4, 4, device="cpu", dtype=kind)
        grid.build(array(rng.uniform(-2, 2, (7, 3)), point), 0.7, array(rng.integers(0, 3, 7), int))
        grids.append(grid)
    return mesh, tree, *grids
