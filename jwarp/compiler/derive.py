"""Tangents and adjoints of a launch: which kernel computes them, and what each of its parameters is given.

Four kinds are enough for second order. With x the arguments, J the derivative of the outputs by them and H
the second one: `tangent` is J v, `adjoint` is J^T w, `tangent2` is H[v, u] and `adjoint2` is the derivative of
J^T w in direction u. H is symmetric in v and u, so each kind is a transpose of another one.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterable
from typing import NamedTuple

from jwarp.analysis.stencils import stencils
from jwarp.analysis.tape_sizes import fits_thread
from jwarp.analysis.thread_order import awaited
from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.custom_gradients import authored_refusal
from jwarp.autodiff.derived_parameters import Derived, aligned
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.found_memory import at_moved_places
from jwarp.autodiff.reverse import vjp
from jwarp.caches import PerOwner
from jwarp.collector import no_collection
from jwarp.compiler import pipeline
from jwarp.compiler.derivation_cache import DerivationCache
from jwarp.compiler.derived import DerivedLaunch, Feed, Source, Variant, read_entry, write_entry
from jwarp.compiler.order import as_written, in_one_order
from jwarp.compiler.passes import note, run
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.program_base import Program
from jwarp.errors import NotDifferentiableError
from jwarp.ir import nodes
from jwarp.ir.attributes import Origin
from jwarp.ir.serialize import known
from jwarp.passes.simplify import simplify
from jwarp.wire import Role

# Derivatives of one kernel: by which parameters, of which outputs, with what shared by a batch.
MAX_VARIANTS = 256

_DERIVED: PerOwner[GeneratedProgram, Variant, DerivedLaunch | NotDifferentiableError] = PerOwner(
    "derivatives of a program", MAX_VARIANTS
)
# The kernels from which derivatives of each order are made.
_WIDENED: PerOwner[GeneratedProgram, int, nodes.Kernel] = PerOwner("kernels that are differentiated", "orders, 1 and 2")


def derive(program: GeneratedProgram, variant: Variant) -> DerivedLaunch:
    """The launch that computes a derivative of `program`; made once.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation of the kernel.
    """
    made = _DERIVED.of(program).made(variant, lambda: _kept(program, variant))
    if isinstance(made, NotDifferentiableError):
        raise copy.copy(made)  # one for each who asks
    return made


def _kept(program: GeneratedProgram, variant: Variant) -> DerivedLaunch | NotDifferentiableError:
    """The derivative, or why there is none; from disk if it is there."""
    name = json.dumps(dataclasses.astuple(variant))
    cache = program.cache.derived(name)

    def made() -> DerivedLaunch | NotDifferentiableError:
        try:
            return _derive(program, variant, cache)
        except NotDifferentiableError as error:
            return error.with_traceback(None)

    return cache.made("derivative", made, write_entry, lambda entry: read_entry(entry, program, cache))


@no_collection()
def _derive(program: GeneratedProgram, variant: Variant, cache: DerivationCache) -> DerivedLaunch:
    kernel = _differentiated(program, 2 if variant.along else 1)
    if variant.along and kernel.gradients:
        rule = next(n for n in nodes.walk(kernel.body) if isinstance(n, nodes.Op) and n.row.is_rule)
        raise authored_refusal(kernel, rule, "a second derivative")
    found = _firsts(kernel, variant)
    origins = [_wiring(slot, variant, kernel) for slot in found[0].origins]
    if variant.along:
        found, origins = _seconds(found, origins, variant)
    named, *others = (_named(d.kernel, program, variant) for d in found)
    written = nodes.written_params(named)
    # A GPU runs the one that needs no tape, if it writes to the same arrays: that is what launches know.
    on_gpu = next((other for other in others if nodes.written_params(other) == written), None)
    on_gpu = run(pipeline.DERIVED_ON_GPU, on_gpu or named, program.context)
    feeds = []
    for k, wiring in enumerate(origins):
        source = wiring.source
        role = Role.READ if k not in written else Role.ZEROS if source.kind == "zeros" else Role.IN_OUT
        feeds.append(Feed(source, role, wiring.result if k in written else None, wiring.is_sum))
    changed = {feed.result for feed in feeds if feed.source.kind == "given"}
    same = frozenset(variant.wanted) & frozenset(() if variant.along else variant.given) - changed
    on_gpu = None if on_gpu is named else on_gpu
    ran = known(named) if cache.origin else named
    own = program.of_derived(ran, on_gpu=on_gpu, cache=cache)
    gathers = any(feed.source.kind == "dim" for feed in feeds)
    places = stencils(simplify(kernel)) if gathers else {}
    return DerivedLaunch(own, tuple(feeds), same, tuple((p, places[p]) for p in variant.gathered if p in places))


def _differentiated(program: GeneratedProgram, order: int) -> nodes.Kernel:
    """The kernel that derivatives of an order are made of; made once."""
    context = dataclasses.replace(program.context, order=order)
    return _WIDENED.of(program).made(order, lambda: run(pipeline.DIFFERENTIATED, program.simplified, context))


def refuse_order(program: GeneratedProgram) -> None:
    """Refuse the transpose of a second derivative where it would be taken for the one in the other order.

    Raises:
        NotDifferentiableError: the author of a function says what its derivative is, which need not be one.
    """
    for node in nodes.walk(program.differentiated.body):
        if isinstance(node, nodes.Op) and node.row.is_slope and node.attr is not None:
            raise NotDifferentiableError(
                f"kernel `{program.name}`: the gradient of a gradient was asked for through `{node.text}`, whose "
                "author says what its derivative is: derivatives of that may depend on their order",
                node.span,
                "take the outer derivative in forward mode: jax.hessian, jax.jacfwd or jax.jvp of the gradient",
            )


def _firsts(kernel: nodes.Kernel, variant: Variant) -> list[Derived]:
    """The first derivative, and where that needs a tape that a thread has no place for, one that does without.

    Both have the same parameters, as a launch is traced before it is known where it runs.
    """
    if (read := awaited(kernel)) is not None:
        raise NotDifferentiableError(
            f"kernel `{kernel.name}`: a derivative was asked for where threads wait for each other",
            read.span,
            "add up with wp.atomic_add, which needs no lock, or wrap the arguments in jax.lax.stop_gradient",
        )
    if not variant.is_adjoint:
        return [
            jvp(
                kernel,
                variant.given,
                variant.wanted,
                repeated=variant.repeated,
                alone=variant.alone,
                single=variant.single,
            )
        ]

    def adjoint(storage: Storage) -> Derived:
        made = vjp(
            kernel,
            variant.wanted,
            variant.given,
            shared=variant.shared,
            repeated=variant.repeated,
            alone=variant.alone,
            single=variant.single,
            gathered=variant.gathered,
            exceeded=variant.exceeded,
            storage=storage,
        )
        return at_moved_places(made, kernel)

    taped = adjoint(Storage.TAPE)
    # Where no GPU runs it, no launch should hold on to more than the one adjoint reads; checkpoints are of numbers.
    if fits_thread(taped.kernel) or not variant.for_gpu or kernel.block_dim:
        return [taped]
    try:
        return aligned([taped, adjoint(Storage.CHECKPOINTS)])
    except NotDifferentiableError:
        return [taped]  # it has its tape on the device's heap


def _named(kernel: nodes.Kernel, program: GeneratedProgram, variant: Variant) -> nodes.Kernel:
    """The kernel of a derivative as launches run it.

    It has checks of its own, as JAX drops the launch itself where only its gradient is used. NaNs are not looked for:
    the rules compute some that they then pass over.
    """
    named = dataclasses.replace(kernel, variant=variant.describe(program.differentiated))
    note(named.variant, named)
    return run(pipeline.DERIVED, named, dataclasses.replace(program.context, checks_values=False))


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


def rounding_as(program: GeneratedProgram, sources: Iterable[Source]) -> GeneratedProgram:
    """The program of a launch that has a derivative with these sources.

    A derivative that looks at what the launch left has to find the bits there that it computes itself.
    """
    looks = any(source.kind == "final" for source in sources)
    return program.running(as_written) if looks else program


def switched_off(program: Program, index: int) -> NotDifferentiableError:
    """The refusal of a gradient where the user said that there are none."""
    return NotDifferentiableError(
        f"kernel '{program.name}', parameter '{program.kernel.params[index].name}': a gradient was asked for, and "
        "enable_backward is False",
        program.span,
        "set it to True in @wp.kernel or wp.jax_kernel, or wrap the argument in jax.lax.stop_gradient",
    )


class Wiring(NamedTuple):
    """The source of a parameter of a derived kernel, and the parameter that it is a result for."""

    source: Source
    result: int | None = None
    is_sum: bool = False


def _wiring(slot: Origin, variant: Variant, kernel: nodes.Kernel) -> Wiring:
    """The origin of a parameter of a first derivative."""
    p = slot.param
    if slot.kind == "gradient" and nodes.is_found(kernel, p):
        return Wiring(Source("given", p), p)  # there are no zeros of all memory to add to
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
