"""Values whose derivative is known in forward mode alone: reverse mode ends there, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jwarp.bind import compat
from jwarp.errors import NotDifferentiableError, Span

forward_only_p = compat.Primitive("jwarp_forward_only")


def forward_only(value: Any, message: str, span: Span, hint: str) -> Any:
    """The value. In reverse mode, where a gradient gets here, it is an error that says `message` and `hint`."""
    return forward_only_p.bind(value, message=message, span=span, hint=hint)


def _refused(*_: Any, message: str, span: Span, hint: str) -> Any:
    raise NotDifferentiableError(message, span, hint)


def _batched(args: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    return forward_only_p.bind(*args, **params), axes[0]


forward_only_p.def_impl(lambda value, **_: value)
forward_only_p.def_abstract_eval(lambda aval, **_: aval)
compat.ad.deflinear2(forward_only_p, _refused)
compat.batching.primitive_batchers[forward_only_p] = _batched
compat.mlir.register_lowering(forward_only_p, lambda context, value, **_: [value])
