"""Errors of the front doors show the user's frames, and not those of jwarp below them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

import jax

from jwarp.errors import JwarpError

P = ParamSpec("P")
R = TypeVar("R")

# Where frames are that say nothing about a user's program.
_INSIDE = (str(Path(__file__).parents[1]), str(Path(jax.__file__).parent), functools.__file__)


def shorten(error: JwarpError) -> None:
    """Take jwarp's and JAX's frames off an error; not where JAX is to show its own.

    A bare `raise` after it adds no frame either, so that the user's are left. The text of the error names the kernel
    and the line of its source, or the argument, which those frames do not.
    """
    if jax.config.jax_traceback_filtering == "off":  # type: ignore[attr-defined]
        return
    kept, step = [], error.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(_INSIDE):
            kept.append(step)
        step = step.tb_next
    following = None
    for step in reversed(kept):
        following = TracebackType(following, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.__traceback__ = following


def shortening(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose errors come without the frames inside of it."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except JwarpError as error:
            shorten(error)
            raise

    return called
