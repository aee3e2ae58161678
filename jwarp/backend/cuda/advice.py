"""Advice on NVRTC's messages about handwritten source."""

from __future__ import annotations

import re

_ADVICE = (
    (r"__cluster_dims__|__block_size__", "leave the attribute out: kernels are launched without clusters"),
    (r"device-side kernel launch", "launch each kernel from Python, by a wp.launch of its own"),
    (r"exception handling", "end the thread by `return`, or the kernel by `__trap()`"),
    (
        r"^texture is not a template|identifier \"(?:tex[123]D\w*|texture|surface)\" is undefined",
        "CUDA has no texture references any more: read an array, whose loads are cached",
    ),
    (
        r'namespace "std" has no member "(?:vector|string|map|unordered_map|list|deque|set|function|cout|cerr|endl)"',
        "containers and streams are the host's: an array parameter, shared memory and printf are there instead",
    ),
    (
        r'identifier "(?P<name>\w+)" is undefined',
        "declare `{name}` in the source; its header comes by `headers`, a macro by options=['-D{name}=…']",
    ),
    (r"excessive recursion at instantiation", "let the template end: a case that does not instantiate itself"),
)


def advice_on(message: str) -> str:
    """The advice on a message; empty where its words say it."""
    for pattern, advice in _ADVICE:
        found = re.search(pattern, message)
        if found is not None:
            return advice.format(**found.groupdict())
    return ""
