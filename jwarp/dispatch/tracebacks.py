"""Errors of the front doors show the user's frames, and not those of jwarp below them."""

from __future__ import annotations

import jax

from jwarp.errors import JwarpError


def shortened(error: JwarpError) -> JwarpError:
    """The error without the frames that it came through; with them where JAX is to show its own, too.

    Its text names the kernel and the line of its source, or the argument, which those frames do not.
    """
    keeps = jax.config.jax_traceback_filtering == "off"  # type: ignore[attr-defined]
    return error if keeps else error.with_traceback(None)
