"""Random numbers of JAX: keys are their numbers, and what is made of them is the same, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jwarp.bind import compat
from jwarp.bind.jax_functions.equations import spec_of
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, filled, primitive
from jwarp.bind.jax_functions.parts import Key
from jwarp.ir.nodes import Const
from jwarp.types import uint32

# Of each round of the hash, in the order of a quarter of its rounds.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@primitive("threefry2x32")
def _threefry(low: Lowering, equation: Any, *arrays: Scalars) -> list[Scalars]:
    """Threefry-2x32 with 20 rounds: J. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3" (2011)."""

    def hashed(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
        parity = low.op("xor", low.op("xor", k0, k1), Const(uint32, 0x1BD11BDA))
        keys = (k0, k1, parity)
        x0, x1 = low.op("add", x0, k0), low.op("add", x1, k1)
        for step in range(5):
            for turn in _ROTATIONS[step % 2]:
                x0 = low.op("add", x0, x1)
                left = low.op("shl", x1, Const(uint32, turn))
                x1 = low.op("xor", low.op("or", left, low.op("shr", x1, Const(uint32, 32 - turn))), x0)
            x0 = low.op("add", x0, keys[(step + 1) % 3])
            x1 = low.op("add", low.op("add", x1, keys[(step + 2) % 3]), Const(uint32, step + 1))
        return x0, x1

    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    pairs = [hashed(*numbers) for numbers in zip(*(np.broadcast_to(x, shape).flat for x in arrays), strict=True)]
    return [filled(shape, (pair[k] for pair in pairs)) for k in range(2)]


@primitive("iota_2x32_shape")
def _counts(low: Lowering, equation: Any) -> list[Scalars]:
    """The numbers of the elements of an array, in two halves."""
    shape = equation.params["shape"]
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return [low.constant(np.asarray(half, np.uint32)) for half in (numbers >> 32, numbers & 0xFFFFFFFF)]


@primitive("random_wrap")
def _wrapped(low: Lowering, equation: Any, numbers: Scalars) -> Scalars:
    return filled(numbers.shape[:-1], (Key(tuple(row)) for row in numbers.reshape(-1, numbers.shape[-1])))


@primitive("random_unwrap")
def _unwrapped(low: Lowering, equation: Any, keys: Scalars) -> Scalars:
    return filled((*keys.shape, 2), (x for key in keys.flat for x in key.numbers))


def _over(function: Callable[..., Any], dims: int) -> Callable[..., Any]:
    for _ in range(dims):
        function = jax.vmap(function)
    return function


def _seed(implementation: Any, equation: Any) -> Callable[..., Any]:
    return _over(implementation.seed, len(equation.invars[0].aval.shape))


def _split(implementation: Any, equation: Any) -> Callable[..., Any]:
    shape = equation.params["shape"]
    return _over(lambda key: implementation.split(key, shape), len(equation.invars[0].aval.shape))


def _bits(implementation: Any, equation: Any) -> Callable[..., Any]:
    width, shape = equation.params["bit_width"], equation.params["shape"]
    return _over(lambda key: implementation.random_bits(key, width, shape), len(equation.invars[0].aval.shape))


def _fold_in(implementation: Any, equation: Any) -> Callable[..., Any]:
    keys, messages = (len(x.aval.shape) for x in equation.invars)
    function = implementation.fold_in
    for level in range(max(keys, messages)):
        function = jax.vmap(function, (0 if level < keys else None, 0 if level < messages else None))
    return function


def _made_of_keys(name: str, of: Callable[[Any, Any], Callable[..., Any]]) -> None:
    @primitive(name)
    def rule(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
        dtype = (equation.outvars if name == "random_seed" else equation.invars)[0].aval.dtype
        implementation = compat.key_implementation(dtype)
        if implementation.tag != "fry":
            raise low.error(
                f"keys of random numbers are `{implementation.name}`, and kernels have threefry2x32 alone",
                'make the key with jax.random.key(seed, impl="threefry2x32")',
            )
        numbers = [
            _unwrapped(low, equation, x) if _holds_keys(v) else x for x, v in zip(args, equation.invars, strict=True)
        ]
        jaxpr = jax.make_jaxpr(of(implementation, equation))(*map(spec_of, equation.invars))
        (found,) = low.closed(jaxpr, numbers, foreign=True)
        return [_wrapped(low, equation, found) if _holds_keys(equation.outvars[0]) else found]


def _holds_keys(variable: Any) -> bool:
    return compat.key_implementation(variable.aval.dtype) is not None


for _name, _of in (
    ("random_seed", _seed),
    ("random_split", _split),
    ("random_bits", _bits),
    ("random_fold_in", _fold_in),
):
    _made_of_keys(_name, _of)
