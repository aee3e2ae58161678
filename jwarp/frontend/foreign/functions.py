"""Functions of the kernel language that were defined with NVIDIA Warp, with their overloads and gradients."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.foreign.captured import definition_of
from jwarp.frontend.func import Func
from jwarp.frontend.native import NativeFunc


class ForeignFunc(Func):
    """A `@wp.func` of Warp's: one overload, or the one defined last, which knows all."""

    def __init__(self, function: Any, overloads: tuple[Any, ...] = ()):
        """`overloads` are all of Warp's functions of this name, in order, `function` being the last one."""
        super().__init__(function.func, definition=definition_of(function.func, function.adj))
        self._types = {**function.adj.arg_types, **function.input_types}
        self._of_warp = weakref.ref(function)
        if len(overloads) > 1:
            self.defined = tuple(map(ForeignFunc, overloads))
        if function.custom_grad_func is not None:
            self.gradient = ForeignFunc(function.custom_grad_func)
        if function.custom_replay_func is not None:
            self.replay = ForeignFunc(function.custom_replay_func)

    @property
    def attributes(self) -> dict[str, Any]:
        function = self._of_warp()
        own = type(function).__init__.__code__.co_names if function is not None else ()
        return {name: value for name, value in vars(function).items() if name not in own} if function else {}

    def __getattr__(self, name: str) -> Any:
        """An attribute that a program has set on the function."""
        if "_of_warp" not in self.__dict__ or name not in (found := self.attributes):
            raise AttributeError(name)
        return found[name]

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        return {name: canonical(kind) for name, kind in self._types.items()}


class ForeignNative(NativeFunc):
    """A `@wp.func_native` of Warp's."""

    def __init__(self, function: Any):
        texts = function.native_snippet, function.adj_native_snippet, function.replay_snippet
        super().__init__(function.func, *texts, definition=definition_of(function.func, function.adj))
        self._types = {**function.adj.arg_types, **function.input_types}

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        return {name: canonical(kind) for name, kind in self._types.items()}


def function_of(function: Any) -> Func:
    """The counterpart of a `warp.Function` that is not built in; the same one as long as it is not changed."""
    every = (*function.user_overloads.values(), *function.user_templates.values())
    written = tuple(one for one in every if one.generic_parent is None) or (function,)
    state = tuple((one, one.custom_grad_func, one.custom_replay_func) for one in written)
    found = _made.get(function)
    if found is None or found[0] != state:
        # Of the same arguments' types, the one defined last counts.
        is_native = function.native_snippet is not None
        found = _made[function] = state, ForeignNative(function) if is_native else ForeignFunc(written[-1], written)
    return found[1]


# Of each function of Warp's that is alive: its overloads with their gradients, and what was made of them.
_made: weakref.WeakKeyDictionary[Any, tuple[tuple, Func]] = weakref.WeakKeyDictionary()
