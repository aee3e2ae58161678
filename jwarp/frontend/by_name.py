"""The base of kernels, functions and builtins: like Python's functions, they are pickled by name and not copied."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any, Self


class ByName:
    """Base of what stands in a module: pickled as a reference to it, copied as itself."""

    __module__: str
    __qualname__: str
    # Finds it by its module and name, where another object is found under that name.
    found_by: Callable[[str, str], Any] | None = None

    def __reduce__(self) -> Any:
        """The name, for pickle, which looks for it in the module and refuses what is not found there."""
        if "<locals>" in self.__qualname__:
            scope, _, name = self.__qualname__.rpartition(".<locals>.")
            raise pickle.PicklingError(
                f"'{name}' is defined in the function '{scope}', and kernels and functions are pickled by name: "
                f"define it at the top of the module '{self.__module__}'"
            )
        return (self.found_by, (self.__module__, self.__qualname__)) if self.found_by else self.__qualname__

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self


def full_name(qualified: str) -> str:
    """The name of a kernel or function with those of what it is defined in, as Warp writes it: `f__locals__g`."""
    return re.sub(r"\W", "", qualified.replace(".", "__"))
