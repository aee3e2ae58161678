"""The table of strategies: when each applies to an access, what it costs, and its writer. The cheapest one is taken."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

from jwarp.backend.cpu.access import atomics, costs, plain
from jwarp.backend.cpu.access.components import MAX_COMPONENTS, WideElements, add_by, load_by, store_by
from jwarp.backend.cpu.access.descriptor import Access, Mask, Space
from jwarp.backend.cpu.access.patterns import Pattern
from jwarp.backend.cpu.access.shared_functions import (
    BITS,
    is_in_row,
    is_in_short_row,
    is_whole,
    load_by_function,
    store_by_function,
)
from jwarp.backend.cpu.access.strided import (
    BLOCK,
    ConsecutiveElements,
    StridedElements,
    StridedNumbers,
    load_run,
    loads_transposed,
    stores_transposed,
)
from jwarp.backend.cpu.body import Body


class Fit(enum.Enum):
    """For which vectors a strategy is right; for others, its code has a slow path."""

    ALWAYS = "for all, or it is masked itself"
    TESTED = "for those that pass a test"
    NEVER = "for none, at this place"


@dataclass(frozen=True)
class Strategy:
    """One way to emit an access.

    `cost` is that of each number, as in `costs`. `instructions` are what `wp.explain` says, the name if there are none,
    and `slow` those of the slow path, where `fit` says that there is one.
    """

    name: str
    applies: Callable[[Access], bool]
    cost: Callable[[Access], float]
    write: Callable[[Body, Access], list[str]]
    instructions: Callable[[Access], tuple[str, ...]] | None = None
    fit: Callable[[Access], Fit] = lambda access: Fit.ALWAYS
    slow: Callable[[Access], tuple[str, ...]] = lambda access: ()

    def explained(self, access: Access) -> tuple[str, ...]:
        """The instructions that the code of an access has, most used first."""
        fit, fast = self.fit(access), self.instructions(access) if self.instructions else (self.name,)
        return (*(() if fit is Fit.NEVER else fast), *(() if fit is Fit.ALWAYS else self.slow(access)))


def choose(access: Access) -> Strategy | None:
    """The cheapest strategy that applies to an access; None where no one makes several operations at once."""
    chosen, least = None, math.inf
    for strategy in STRATEGIES[access.kind]:
        cost = strategy.cost(access)
        if cost < least and strategy.applies(access):
            chosen, least = strategy, cost
    return chosen


# -- when strategies apply


def _is_single(access: Access) -> bool:
    return access.one and access.space is not Space.THREAD


def _is_own(access: Access) -> bool:
    return access.one and access.space is Space.THREAD


def _is_group(access: Access) -> bool:
    return access.components is not None and not access.run and access.space is not Space.THREAD


def _is_wide(access: Access) -> bool:
    """True for components of consecutive elements, which are all inside of their array."""
    if not (_is_group(access) and len(access.nodes) > 1 and access.size <= MAX_COMPONENTS and access.covers_element):
        return False
    return access.elements is Pattern.CONTIGUOUS and access.proved


def _is_strided(access: Access) -> bool:
    """True for elements at equal distances; in long kernels they are accessed as any, which compiles twice as fast."""
    if access.long_kernel and access.kind != "atomic":
        return False
    return _is_group(access) and access.elements is Pattern.STRIDED and access.shuffles


def _is_strided_whole(access: Access) -> bool:
    return _is_strided(access) and 1 < access.size <= MAX_COMPONENTS and access.covers_element


def _adds(access: Access) -> bool:
    return access.exclusive and not access.wanted


# -- costs that depend on the access


def _cost(number: float) -> Callable[[Access], float]:
    return lambda access: number


def _wide_load_cost(access: Access) -> float:
    """The shuffles of long elements cost more than transposing blocks of them."""
    return costs.TRANSPOSED + 1 if loads_transposed(access) else costs.SHUFFLED


def _wide_store_cost(access: Access) -> float:
    return _wide_load_cost(access) if stores_transposed(access.size, access.target.width) else costs.SHUFFLED


# -- fits


def _if_in_range(access: Access) -> Fit:
    return Fit.ALWAYS if access.proved else Fit.TESTED


def _if_leading(access: Access) -> Fit:
    if access.mask is not Mask.PARTIAL:
        return Fit.ALWAYS
    return Fit.NEVER if access.never_full else Fit.TESTED


def _if_all_in_range(access: Access) -> Fit:
    return Fit.ALWAYS if access.proved and access.mask is Mask.FULL else Fit.TESTED


def _if_all_active(access: Access) -> Fit:
    return Fit.NEVER if access.never_full else _if_all_in_range(access)


def _words(*names: str) -> Callable[[Access], tuple[str, ...]]:
    return lambda access: names


def _slow_row(access: Access) -> tuple[str, ...]:
    return ("loads from anywhere + transpose",) if is_whole(access) else ("gather",)


_GATHER, _SCATTER, _ADDITIONS = _words("gather"), _words("scatter"), _words("plain additions")


# -- a load that is of one element where a remainder is zero, as for parameters that all worlds share


def _otherwise(access: Access) -> tuple[Access, Strategy | None]:
    without = dataclasses.replace(access, uniform_if=())
    return without, choose(without)


def _load_one_if(body: Body, access: Access) -> list[str]:
    without, strategy = _otherwise(access)
    slow = strategy.write if strategy and strategy.write is not plain.gather_load else plain.gather_each
    return plain.load_one_if(body, access, lambda: slow(body, without))


def _otherwise_explained(access: Access) -> tuple[str, ...]:
    without, strategy = _otherwise(access)
    return strategy.explained(without) if strategy else ("gather",)


LOADS = (
    Strategy(
        "local vector load",
        lambda a: _is_own(a) and a.numbers is Pattern.UNIFORM, _cost(costs.ONE), plain.private_load,
    ),
    Strategy(
        "gather from local arrays",
        _is_own, _cost(costs.ANY), plain.private_load, _GATHER,
    ),
    Strategy(
        "scalar load",
        lambda a: _is_single(a) and a.numbers is Pattern.UNIFORM, _cost(costs.ONE), plain.scalar_load,
    ),
    Strategy(
        "scalar load where a remainder is zero",
        lambda a: bool(a.uniform_if) and not a.run and a.space is not Space.THREAD, _cost(costs.ONE), _load_one_if,
        _words("scalar load"), lambda a: Fit.TESTED, _otherwise_explained,
    ),
    Strategy(
        "vector load",
        lambda a: _is_single(a) and a.numbers is Pattern.CONTIGUOUS, _cost(costs.CONTIGUOUS), plain.vector_load,
        None, _if_in_range, _GATHER,
    ),
    Strategy(
        "wide load + shuffle",
        _is_wide, _wide_load_cost, load_by(WideElements), None, _if_leading, _GATHER,
    ),
    Strategy(
        "wide load + transpose",
        lambda a: _is_wide(a) and a.shuffles and a.size >= BLOCK, _cost(costs.TRANSPOSED), load_by(ConsecutiveElements),
        _words("loads + transpose"), _if_leading, _GATHER,
    ),
    Strategy(
        "loads + transpose",
        _is_strided_whole, _cost(costs.TRANSPOSED), load_by(StridedElements), None, _if_all_in_range, _GATHER,
    ),
    Strategy(
        "run of loads + transpose",
        lambda a: a.run and a.space is Space.LAUNCH and a.numbers is Pattern.STRIDED and a.shuffles,
        _cost(costs.TRANSPOSED), load_run, _words("loads + transpose"), _if_all_in_range, _GATHER,
    ),
    Strategy(
        "row in registers",
        lambda a: _is_group(a) and is_in_row(a.elements, a.type, a.target), _cost(costs.ROW), load_by_function,
        None, lambda a: Fit.ALWAYS if is_in_short_row(a) else Fit.TESTED, _slow_row,
    ),
    Strategy(
        "loads from anywhere + transpose",
        lambda a: _is_group(a) and a.elements is not Pattern.UNIFORM and is_whole(a), _cost(costs.COLLECTED),
        load_by_function,
    ),
    Strategy(
        "loads",
        _is_strided, _cost(costs.STRIDED), load_by(StridedNumbers), None, _if_all_in_range, _GATHER,
    ),
    Strategy(
        "gather",
        _is_single, _cost(costs.ANY), plain.gather_load,
    ),
)  # fmt: skip

STORES = (
    Strategy(
        "local vector store",
        lambda a: _is_own(a) and a.numbers is Pattern.UNIFORM, _cost(costs.ONE), plain.private_store,
    ),
    Strategy(
        "scatter to local arrays",
        _is_own, _cost(costs.ANY), plain.private_store, _SCATTER,
    ),
    Strategy(
        "scalar store",
        lambda a: _is_single(a) and a.numbers is Pattern.UNIFORM and a.uniform_value, _cost(costs.ONE),
        plain.scalar_store,
    ),
    Strategy(
        "non-temporal store",
        lambda a: _is_single(a) and a.numbers is Pattern.CONTIGUOUS and a.stored_once and a.mask is Mask.FULL,
        _cost(costs.ONE), plain.nontemporal_store, _words("vector store"), _if_in_range, _SCATTER,
    ),
    Strategy(
        "vector store",
        lambda a: _is_single(a) and a.numbers is Pattern.CONTIGUOUS, _cost(costs.CONTIGUOUS), plain.vector_store,
        None, _if_in_range, _SCATTER,
    ),
    Strategy(
        "shuffle + wide store",
        _is_wide, _wide_store_cost, store_by(WideElements), None, _if_leading, _SCATTER,
    ),
    Strategy(
        "transpose + wide store",
        lambda a: _is_wide(a) and a.shuffles and a.size >= BLOCK, _cost(costs.TRANSPOSED),
        store_by(ConsecutiveElements), _words("transpose + stores"), _if_leading, _SCATTER,
    ),
    Strategy(
        "transpose + stores",
        _is_strided_whole, _cost(costs.TRANSPOSED), store_by(StridedElements), None, _if_all_active, _SCATTER,
    ),
    Strategy(
        "stores",
        _is_strided, _cost(costs.STRIDED), store_by(StridedNumbers), None, _if_all_active, _SCATTER,
    ),
    Strategy(
        "scatter by a function",
        lambda a: _is_group(a) and a.long_kernel and a.space is Space.LAUNCH and a.type.bits in BITS
        and a.elements is not Pattern.UNIFORM and a.numbers is not Pattern.CONTIGUOUS,
        _cost(costs.ANY / 2), store_by_function, _SCATTER,
    ),
    Strategy(
        "scatter",
        _is_single, _cost(costs.ANY), plain.scatter_store,
    ),
)  # fmt: skip

ATOMICS = (
    Strategy(
        "one addition per vector",
        lambda a: a.one and a.exclusive and a.numbers is Pattern.UNIFORM, _cost(costs.ONE), atomics.add_one,
    ),
    Strategy(
        "vector addition",
        lambda a: a.one and a.exclusive and a.numbers is Pattern.CONTIGUOUS, _cost(costs.CONTIGUOUS),
        atomics.add_vector, None, _if_in_range, _ADDITIONS,
    ),
    Strategy(
        "wide addition + shuffles",
        lambda a: _adds(a) and _is_wide(a), _wide_load_cost, add_by(WideElements),
        _words("wide load + shuffle", "shuffle + wide store"), _if_leading, _ADDITIONS,
    ),
    Strategy(
        "wide addition + transposes",
        lambda a: _adds(a) and _is_wide(a) and a.shuffles and a.size >= BLOCK, _cost(costs.TRANSPOSED),
        add_by(ConsecutiveElements),
        lambda a: ("loads + transpose", "transpose + stores" if stores_transposed(a.size, a.target.width)
                   else "shuffle + wide store"),
        _if_leading, _ADDITIONS,
    ),
    Strategy(
        "additions + transposes",
        lambda a: _adds(a) and _is_strided_whole(a), _cost(costs.TRANSPOSED), add_by(StridedElements),
        _words("loads + transpose", "transpose + stores"), _if_all_active, _ADDITIONS,
    ),
    Strategy(
        "plain additions",
        lambda a: a.one and a.exclusive, _cost(costs.ANY), atomics.add_any,
    ),
    Strategy(
        "one atomic per vector",
        lambda a: a.one and a.numbers is Pattern.UNIFORM and not a.wanted and bool(a.nodes[0].row.combines),
        _cost(costs.ATOMIC_ONE), atomics.combined_atomic,
    ),
    Strategy(
        "one atomic per vector, counted",
        lambda a: a.one and a.numbers is Pattern.UNIFORM and a.nodes[0].row.is_addition and a.type.is_int,
        _cost(costs.ATOMIC_ONE + 1), atomics.combined_count, _words("one atomic per vector"),
    ),
    Strategy(
        "atomic",
        lambda a: a.one, _cost(costs.ATOMIC), atomics.serialised,
    ),
)  # fmt: skip

STRATEGIES = {"load": LOADS, "store": STORES, "atomic": ATOMICS}
