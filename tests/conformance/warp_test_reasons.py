"""Reasons for which unit tests of Warp do not pass: a row for each, with a pattern of names and messages."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason, why it is one, and a pattern that is looked for in `name of the test: state: message`."""

    name: str
    why: str
    pattern: str


OF_WARP = "not in Warp itself"  # without a GPU: skipped there, or failing
OTHER = "others"
ENDED = ("crash", "timeout")  # never a reason

REASONS = (Reason("finite elements", "jwarp has no `warp.fem`", r"^fem\.|warp\.fem|warp\._src\.fem"),)


def reason_of(test: str, state: str, message: str) -> str:
    """The name of the first reason whose pattern is in the outcome of a test."""
    text = f"{test}: {state}: {message}"
    return next((reason.name for reason in REASONS if re.search(reason.pattern, text)), OTHER)
