"""Functions of the kernel language that were defined with NVIDIA Warp, with their overloads and gradients."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from jwarp.frontend.foreign.captured import definition_of
from jwarp.frontend.func import Func
from jwarp.frontend.meaning import meaning
from jwarp.frontend.native import NativeFunc


class ForeignFunc(Func):
    """A `@wp.func` of Warp's: one overload, or the one defined last, which knows all."""

    def __init__(self, function: Any, overloads: tuple[Any, ...] = ()):
        """`overloads` are all of Warp's functions of this name, in order, `function` being the last one."""
        super().__init__(function.func, definition=definition_of(function.func, function.adj))
        self._types = {**function.adj.arg_types, **function.input_types}
        self._of_warp = weakref.ref(function)
        if len(overloads) > 1:
            self._defined = tuple(map(ForeignFunc, overloads))
        if function.custom_grad_func is not None:
            self.gradient = ForeignFunc(function.custom_grad_func)
        if function.custom_replay_func is not None:
            self.replay = ForeignFunc(function.custom_replay_func)

    def __getattr__(self, name: str) -> Any:
        """What somebody has set as an attribute of the function."""
        own = self.__dict__.get("_of_warp")
        function = None if own is None else own()
        if function is None or name not in vars(function):
            raise AttributeError(name)
        return vars(function)[name]

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        return {name: meaning(kind) for name, kind in self._types.items()}


def function_of(function: Any) -> Func | NativeFunc:
    """The counterpart of a `warp.Function` that is not built in; the same one as long as it is not changed."""
    if function.native_snippet is not None:
        return NativeFunc(function.func, function.native_snippet, function.adj_native_snippet, function.replay_snippet)
    every = (*function.user_overloads.values(), *function.user_templates.values())
    written = tuple(one for one in every if one.generic_parent is None) or (function,)
    state = tuple((one, one.custom_grad_func, one.custom_replay_func) for one in written)
    found = _made.get(function)
    if found is None or found[0] != state:
        # Of the same arguments' types, the one defined last counts.
        found = _made[function] = state, ForeignFunc(written[-1], written)
    return found[1]


# Of each function of Warp's that is alive: its overloads with their gradients, and what was made of them.
_made: weakref.WeakKeyDictionary[Any, tuple[tuple, Func]] = weakref.WeakKeyDictionary()
