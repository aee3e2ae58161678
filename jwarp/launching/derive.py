"""Tangents and adjoints of a launch: which kernel computes them, and what each of its parameters is given.

Four kinds are enough for second order. With x the arguments, J the derivative of the outputs by them and H
the second one: `tangent` is J v, `adjoint` is J^T w, `tangent2` is H[v, u] and `adjoint2` is the derivative of
J^T w in direction u. H is symmetric in v and u, so each kind is a transpose of another one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jwarp.analysis.affine import Extents, evaluate
from jwarp.analysis.collisions import Collisions, collisions, why_untold
from jwarp.analysis.ownership import Reach, owned_arrays, reaches, stencils
from jwarp.analysis.races import Race, find_race
from jwarp.analysis.ranges import Proofs, prove
from jwarp.analysis.tape_sizes import fits_thread
from jwarp.analysis.thread_order import awaited
from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.custom_gradients import authored_refusal, plain, refuse_without_results
from jwarp.autodiff.derived_parameters import Derived, aligned
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.collector import no_collection
from jwarp.errors import NotDifferentiableError
from jwarp.ir import nodes
from jwarp.ir.attributes import Origin
from jwarp.launching.geometry import Geometry
from jwarp.launching.program import GeneratedProgram, Program
from jwarp.launching.running import as_written, by_settings, in_one_order
from jwarp.launching.sizes import are_known, is_known
from jwarp.passes.instrument import instrument, without_checks
from jwarp.passes.own_atomics import plain_atomics
from jwarp.passes.simplify import simplify
from jwarp.passes.widen import widened
from jwarp.wire import Role

# Derivatives of one kernel: by which parameters, of which outputs, with what shared by a batch.
MAX_VARIANTS = 256


@dataclass(frozen=True)
class Variant:
    """A derivative of a kernel. All numbers are parameters of the kernel itself.

    `given` are what v or w is for, `along` what u is for, and `wanted` the results. Parameters `shared` are
    the same for a whole batch, so that their gradients are summed over it, `fresh` start as zeros, the
    gradients of `gathered`, some of those that are `gatherable`, are stored by element, and `repeated` says
    that several threads have the same coordinates, `alone` that a launch has one thread. With `for_gpu` a GPU
    may run it: what needs a tape then has another form beside it that needs none.
    """

    kind: str
    wanted: tuple[int, ...]
    given: tuple[int, ...]
    along: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()
    gathered: tuple[int, ...] = ()
    gatherable: tuple[int, ...] = ()
    repeated: bool = False
    alone: bool = False
    for_gpu: bool = False

    def __repr__(self) -> str:
        """Short, as it is shown with each derivative of a jaxpr."""
        inputs = " ".join(map(str, self.given)) + (f" along {' '.join(map(str, self.along))}" if self.along else "")
        return f"{self.kind}({inputs} -> {' '.join(map(str, self.wanted))})"

    @property
    def is_adjoint(self) -> bool:
        return self.kind.startswith("adjoint")

    def describe(self, kernel: nodes.Kernel) -> str:
        """The name of the variant in compile events."""

        def names(numbers: tuple[int, ...]) -> str:
            return ", ".join(kernel.params[p].name for p in numbers)

        first = f"adjoint({names(self.wanted)})" if self.is_adjoint else f"tangent({names(self.given)})"
        return f"tangent({names(self.along)}) of {first}" if self.along else first


class Source(NamedTuple):
    """What a parameter is given: a `primal` argument, a `final` content, `given`, `along`, `zeros`, or `dim`.

    The last is an extent of the original launch, where the derived one has more threads.
    """

    kind: str
    param: int

    def __repr__(self) -> str:
        return f"{self.kind} {self.param}"


@dataclass(frozen=True)
class Feed:
    """One parameter of a derived kernel: its source, its role, and what its final content is the result for.

    The kernel only adds to one that is a `sum`, so a whole batch may share it.
    """

    source: Source
    role: Role
    result: int | None
    is_sum: bool


@dataclass(frozen=True)
class DerivedLaunch:
    """A program and its feeds. Of `wanted`, those in `same` are what was given for them, others zero.

    `gathered` has arrays and the launch axis of each of their indices: the launch covers their elements.
    """

    program: GeneratedProgram
    feeds: tuple[Feed, ...]
    same: frozenset[int]
    gathered: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """What the launch takes, without zeros."""
        return tuple(dict.fromkeys(feed.source for feed in self.feeds if feed.source.kind not in ("zeros", "dim")))

    @property
    def has_results(self) -> bool:
        """Whether its kernel computes anything."""
        return any(feed.result is not None for feed in self.feeds)

    def covering(self, geometry: Geometry, extents: Extents) -> Geometry:
        """The geometry with as many threads as the arrays that are gathered have elements."""
        dims = list(geometry.dims)
        for p, axes in self.gathered:
            for axis, extent in zip(axes, extents[p] or (), strict=False):
                dims[axis] = max(dims[axis], extent)
        return dataclasses.replace(geometry, dims=tuple(dims))


_DERIVED: PerOwner[GeneratedProgram, Variant, DerivedLaunch] = PerOwner("derivatives of a program", MAX_VARIANTS)


# What derivatives of each order are made of.
_WIDENED: PerOwner[GeneratedProgram, int, nodes.Kernel] = PerOwner("kernels that are differentiated", "orders, 1 and 2")


def derive(program: GeneratedProgram, variant: Variant) -> DerivedLaunch:
    """The launch that computes a derivative of `program`; made once.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation of the kernel.
    """
    return _DERIVED.of(program).made(variant, lambda: _derive(program, variant))


@no_collection()
def _derive(program: GeneratedProgram, variant: Variant) -> DerivedLaunch:
    order = 2 if variant.along else 1
    kernel = _WIDENED.of(program).made(order, lambda: widened(plain_atomics(program.differentiated), order))
    if kernel.gradients:
        refuse_without_results(kernel)
    if variant.along and kernel.gradients:
        rule = next(n for n in nodes.walk(kernel.body) if isinstance(n, nodes.Op) and n.name == "rule")
        raise authored_refusal(kernel, rule, "a second derivative")
    found, refusal = _firsts(kernel, variant)
    origins = [_wiring(origin, variant) for origin in found[0].origins]
    if variant.along:
        found, origins = _seconds(found, origins, variant)
    named, *others = (_named(d.kernel, program, variant) for d in found)
    written = nodes.written_params(named)
    # A GPU runs the one that needs no tape, if it writes to the same arrays: that is what launches know.
    on_gpu = next((other for other in others if nodes.written_params(other) == written), refusal)
    if not isinstance(on_gpu, NotDifferentiableError) and not _checks(program):
        on_gpu = without_checks(on_gpu or named)
    feeds = []
    for k, origin in enumerate(origins):
        source = origin.source
        role = Role.READ if k not in written else Role.ZEROS if source.kind == "zeros" else Role.IN_OUT
        feeds.append(Feed(source, role, origin.result if k in written else None, origin.is_sum))
    results = {feed.result for feed in feeds}
    same = frozenset(variant.wanted) & frozenset(() if variant.along else variant.given) - results
    own = GeneratedProgram(named, program.settings, program.owner, on_gpu=on_gpu)
    gathers = any(feed.source.kind == "dim" for feed in feeds)
    places = stencils(simplify(kernel)) if gathers else {}
    return DerivedLaunch(own, tuple(feeds), same, tuple((p, places[p]) for p in variant.gathered if p in places))


def refuse_order(program: GeneratedProgram) -> None:
    """Refuse the transpose of a second derivative where it would be taken for the one in the other order.

    Raises:
        NotDifferentiableError: the author of a function says what its derivative is, which need not be one.
    """
    for node in nodes.walk(program.differentiated.body):
        if isinstance(node, nodes.Op) and node.name == "slope" and node.attr is not None:
            raise NotDifferentiableError(
                f"kernel `{program.name}`: the gradient of a gradient was asked for through `{node.text}`, whose "
                "author says what its derivative is: derivatives of that may depend on their order",
                node.span,
                "take the outer derivative in forward mode: jax.hessian, jax.jacfwd or jax.jvp of the gradient",
            )


def _firsts(kernel: nodes.Kernel, variant: Variant) -> tuple[list[Derived], NotDifferentiableError | None]:
    """The first derivative, and where that needs a tape that a GPU has no place for, one that does without.

    That one may be refused. Both have the same parameters, as a launch is traced before it is known where it runs.
    """
    if (read := awaited(kernel)) is not None:
        raise NotDifferentiableError(
            f"kernel `{kernel.name}`: a derivative was asked for where threads wait for each other",
            read.span,
            "add up with wp.atomic_add, which needs no lock, or wrap the arguments in jax.lax.stop_gradient",
        )
    if not variant.is_adjoint:
        return [jvp(kernel, variant.given, variant.wanted, repeated=variant.repeated, alone=variant.alone)], None

    def adjoint(storage: Storage) -> Derived:
        return vjp(
            kernel,
            variant.wanted,
            variant.given,
            shared=variant.shared,
            repeated=variant.repeated,
            alone=variant.alone,
            gathered=variant.gathered,
            storage=storage,
        )

    taped = adjoint(Storage.TAPE)
    if kernel.block_dim and not fits_thread(taped.kernel):
        return [taped], NotDifferentiableError(
            f"kernel `{kernel.name}`: its derivative remembers more tiles of loops than a GPU has a place for",
            kernel.span,
            "take it on the CPU, or store what loops carry to an array",
        )
    # Where no GPU runs it, no launch should hold on to more than the one adjoint reads.
    if fits_thread(taped.kernel) or not variant.for_gpu:
        return [taped], None
    try:
        return aligned([taped, adjoint(Storage.CHECKPOINTS)]), None
    except NotDifferentiableError as error:
        return [taped], error


def _named(kernel: nodes.Kernel, program: GeneratedProgram, variant: Variant) -> nodes.Kernel:
    described = variant.describe(program.differentiated)
    # Which of equal values takes a gradient depends on the order, too.
    named = dataclasses.replace(by_settings(plain(kernel), program.settings), variant=described)
    if _checks(program):
        # JAX drops the launch itself where only its gradient is used, and its checks with it. NaNs are not looked
        # for: the rules compute some that they then pass over.
        named = instrument(named, bounds=True, values=False).kernel
    return named


def _checks(program: GeneratedProgram) -> bool:
    """Whether its accesses are checked."""
    return program.settings.debug or program.settings.bounds == "error"


def gatherable(
    program: GeneratedProgram, geometry: Geometry, extents: Extents, scalars: Mapping[int, int]
) -> tuple[int, ...]:
    """The parameters whose gradients can be gathered in a launch, with known values of `scalars`.

    They are read at constant distances from each thread's place, and never outside: an index that counts
    from the end would be somewhere else. Which launch covers their elements must be known, too.
    """
    dims = geometry.dims
    if geometry.may_repeat or not are_known((dims, *extents)):
        return ()
    found = _stencils_of(program)
    if found is None:
        return ()
    proofs, places = found
    known: dict[int, int | None] = dict(enumerate(dims))
    known |= {symbol.index: scalars.get(p) for p, symbol in proofs.symbols.scalars.items()}
    for (p, axis), symbol in proofs.symbols.extents.items():
        shape = extents[p]
        known[symbol.index] = shape[axis] if shape is not None else None
    loads = [n for n in nodes.walk(proofs.kernel.body) if isinstance(n, nodes.Op) and n.name == "load"]
    return tuple(
        p for p in sorted(places)
        if all(evaluate(proofs.proven[id(n)], known) for n in loads if n.attr == p and id(n) in proofs.proven)
        and all(id(n) in proofs.proven for n in loads if n.attr == p)
    )  # fmt: skip


def in_known_order(program: GeneratedProgram, variants: Iterable[Variant]) -> GeneratedProgram:
    """The program to launch where these derivatives follow.

    Where one of them reads what atomic operations find, its threads run in one order, and so do those of the launch.
    """
    if program.kernel.order or not program.counters:
        return program
    in_order = program.running(in_one_order)
    for variant in variants:
        try:
            if derive(in_order, variant).program.kernel.order:
                return in_order
        except NotDifferentiableError:
            continue  # it counts where that derivative is launched
    return program


def depends_on_integers(program: GeneratedProgram) -> bool:
    """Whether `gatherable` may depend on the values of scalars."""
    found = _stencils_of(program)
    return found is not None and bool(found[0].symbols.scalars)


_Stencils = tuple[Proofs, frozenset[int]] | None

_STENCILS: PerOwner[GeneratedProgram, str, _Stencils] = PerOwner("what is proved of stencils", "one for a program")


def _stencils_of(program: GeneratedProgram) -> _Stencils:
    """What is proved of the accesses of a kernel that reads arrays at constant distances, and those arrays."""

    def made() -> _Stencils:
        kernel = simplify(program.differentiated)
        places = frozenset(stencils(kernel)) - owned_arrays(kernel)
        return (prove(kernel), places) if places else None

    return _STENCILS.of(program).made("forward", made)


_MEETINGS: PerOwner[GeneratedProgram, bool, Collisions] = PerOwner(
    "stores of a program that may meet", "two for a program"
)


def meetings(program: GeneratedProgram, *, repeated: bool) -> Collisions:
    """The arrays that threads of a program may store to at one element."""
    return _MEETINGS.of(program).made(repeated, lambda: collisions(simplify(program.differentiated), repeated=repeated))


_REACHES: PerOwner[GeneratedProgram, str, frozenset[Reach]] = PerOwner(
    "what the indices of a program may be", "one for a program"
)


def may_coincide(program: GeneratedProgram, geometry: Geometry) -> bool:
    """Whether threads may have the indices of others, although their coordinates tell them apart.

    They have where the launch repeats threads, and where it is so large that an index wraps: `i * 2**30` of int32 is
    zero for thread 4, too.
    """
    if geometry.may_repeat:
        return True
    found = _REACHES.of(program).made("forward", lambda: reaches(simplify(program.differentiated)))
    return bool(found) and (not is_known(*geometry.dims) or any(reach.wraps(geometry.dims) for reach in found))


def is_alone(program: GeneratedProgram, geometry: Geometry) -> bool:
    """Whether a launch has one thread only, where that makes its derivative another one."""
    sizes = (*geometry.dims, geometry.repeat)
    return is_known(*sizes) and math.prod(sizes) == 1 and bool(meetings(program, repeated=False))


def rounding_as(program: GeneratedProgram, sources: Iterable[Source]) -> GeneratedProgram:
    """The program of a launch that has a derivative with these sources.

    A derivative that looks at what the launch left has to find the bits there that it computes itself.
    """
    looks = any(source.kind == "final" for source in sources)
    return program.running(as_written) if looks else program


_RACES: PerOwner[GeneratedProgram, tuple[Geometry, Extents], Race | None] = PerOwner("races of a program", MAX_SHAPES)


def refuse_race(program: GeneratedProgram, geometry: Geometry, extents: Extents) -> None:
    """Two threads that store to one element leave one value there, and nobody knows whose.

    Where the content of the array tells whose it is, that thread gets the gradient. With symbolic sizes, no such
    threads are certain.
    """
    if not are_known((geometry.dims, (geometry.repeat,), *extents)):
        return
    kernel = program.differentiated
    untold = meetings(program, repeated=may_coincide(program, geometry)).untold
    race = _RACES.of(program).made(
        (geometry, extents), lambda: find_race(kernel, geometry.dims, extents, untold, geometry.may_repeat)
    )
    if race is None:
        return
    first, second = race.threads
    where = f"{kernel.params[race.param].name}[{', '.join(map(str, race.element))}]"
    raise NotDifferentiableError(
        f"kernel '{program.name}': threads {first} and {second} both store to {where}, "
        f"{why_untold(kernel, race.param)}, so that nothing tells whose value the gradient goes to",
        race.span,
        "store to another array than one that is read, use wp.atomic_add to add up, or guard the store so that one "
        "thread makes it",
    )


def switched_off(program: Program, index: int) -> NotDifferentiableError:
    """The refusal of a gradient where the user said that there are none."""
    return NotDifferentiableError(
        f"kernel '{program.name}', parameter '{program.kernel.params[index].name}': a gradient was asked for, and "
        "enable_backward is False",
        program.span,
        "set it to True in @wp.kernel or wp.jax_kernel, or wrap the argument in jax.lax.stop_gradient",
    )


class Wiring(NamedTuple):
    """Where a parameter of a derived kernel comes from, and what it results in."""

    source: Source
    result: int | None = None
    is_sum: bool = False


def _wiring(slot: Origin, variant: Variant) -> Wiring:
    """The origin of a parameter of a first derivative."""
    p = slot.param
    if slot.kind in ("primal", "work"):
        return Wiring(Source("zeros" if p in variant.fresh else "primal", p))
    if slot.kind == "dim":
        return Wiring(Source("dim", p))
    if slot.kind == "final":
        return Wiring(Source("final", p))
    if slot.kind == "claim":
        return Wiring(Source("zeros", p))
    is_sum = slot.kind == "gradient"
    given = not is_sum and p in variant.given
    return Wiring(Source("given" if given else "zeros", p), p if p in variant.wanted else None, is_sum)


def _seconds(firsts: list[Derived], origins: list[Wiring], variant: Variant) -> tuple[list[Derived], list[Wiring]]:
    """The derivatives of first derivatives by the arguments of the kernel."""
    slots = firsts[0].origins
    moving = {k for k, slot in enumerate(slots) if slot.kind in ("primal", "work") and slot.param in variant.along}
    # A thread that holds an extremum takes the cotangent of it, and does so again.
    taken = [k for k, slot in enumerate(slots) if slot.kind in ("cotangent", "claim")]
    made = aligned([jvp(d.kernel, moving, repeated=variant.repeated, taken=taken, of_derivative=True) for d in firsts])
    found: list[Wiring] = []
    for slot in made[0].origins:
        origin = origins[slot.param]
        if slot.kind != "tangent":
            found.append(origin._replace(result=None))
        elif slot.param in moving:
            found.append(Wiring(Source("along", slots[slot.param].param)))
        else:
            found.append(origin._replace(source=Source("zeros", origin.source.param)))
    return made, found
