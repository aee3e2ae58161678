"""Keywords that a call does not have: misspelt ones, and those of Warp that mean nothing here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from jwarp.errors import LaunchError

# Warp's keyword: its default there, which is accepted, and what to do instead of giving another value.
_WARP: dict[str, tuple[Any, str]] = {
    "device": (None, "leave it out: a launch runs where its arrays are, and jax.device_put moves them"),
    "record_tape": (True, "leave it out: what is differentiated is chosen by jax.grad and jax.lax.stop_gradient"),
    "max_blocks": (0, "leave it out: it changes no result"),
}


def refuse_keywords(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise LaunchError if there is a keyword in `given`, apart from those of Warp at their default.

    `known` are the keywords of the call.
    """
    for keyword, value in given.items():
        default, instead = _WARP.get(keyword, (None, ""))
        if instead and type(value) is type(default) and value == default:
            continue
        if not instead:
            close = difflib.get_close_matches(keyword, known, n=1)
            instead = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise LaunchError(f"{where}: there is no keyword '{keyword}' here", hint=instead)
