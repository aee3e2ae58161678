"""Sizes that are only known when a launch runs: formulas over dimension variables, as the native module takes them."""

from __future__ import annotations

import abc
import ast
from collections.abc import Iterable, Sequence
from typing import Any

from jwarp.errors import LaunchError
from jwarp.wire import Step


class Symbolic(abc.ABC):  # noqa: B024 - a name for a type that is registered by who knows it
    """A size that is an expression over dimension variables, as those of `jax.export.symbolic_shape`.

    Its text is the expression: sums, products, powers, and the functions `floordiv`, `mod`, `max` and `min`.
    """


def is_known(*sizes: Any) -> bool:
    """True if all of the sizes are numbers."""
    return all(type(size) is int or not isinstance(size, Symbolic) for size in sizes)


def are_known(shapes: Iterable[Sequence[Any] | None]) -> bool:
    """True if all extents of all shapes are numbers; None stands for what has no shape."""
    return all(is_known(*(shape or ())) for shape in shapes)


def refuse_symbolic(kernel_name: str, shapes: Iterable[Sequence[Any]], why: str) -> None:
    """Raise LaunchError if a size of a launch is symbolic; `why` ends its sentence."""
    found = [str(size) for shape in shapes for size in shape if not is_known(size)]
    if found:
        raise LaunchError(
            f"kernel '{kernel_name}': the size {found[0]} is symbolic, {why}",
            hint="symbolic sizes are for launches whose outputs are returned, inside of jax.export.export",
        )


_FUNCTIONS = {"floordiv": Step.FLOORDIV, "mod": Step.MOD, "max": Step.MAX, "min": Step.MIN}
_MAX_POWER = 32


class Formulas:
    """The formulas of one launch, each made once, over the variables that occur in its sizes."""

    def __init__(self, kernel_name: str, sizes: Sequence[Any]):
        self._where = f"kernel '{kernel_name}'"
        trees = {str(size): self._parsed(str(size)) for size in sizes if isinstance(size, Symbolic)}
        names = (n.id for tree in trees.values() for n in ast.walk(tree) if isinstance(n, ast.Name))
        self.variables = tuple(sorted(set(names) - set(_FUNCTIONS)))
        self._numbers = {text: -1 - k for k, text in enumerate(trees)}
        self.steps = [self._compiled(text, tree) for text, tree in trees.items()]

    def number(self, size: Any) -> int:
        """A size in a launch: itself, or a negative number that names its formula."""
        return self._numbers[str(size)] if isinstance(size, Symbolic) else size

    def _parsed(self, text: str) -> ast.expr:
        try:
            return ast.parse(text.replace("^", "**"), mode="eval").body
        except SyntaxError:
            raise LaunchError(
                f"{self._where}: the symbolic size {text} cannot be read",
                hint="give its variables names that are not Python's keywords",
            ) from None

    def _compiled(self, text: str, tree: ast.expr) -> list[tuple[int, ...]]:
        """The formula for a stack of integers."""

        def steps(node: ast.AST) -> list[tuple[int, ...]]:
            match node:
                case ast.Constant(value=int(number)) if abs(number) < 2**63:
                    return [(Step.CONSTANT, number)]
                case ast.Name(id=name) if name in self.variables:
                    return [(Step.VARIABLE, self.variables.index(name))]
                case ast.UnaryOp(op=ast.USub(), operand=x):
                    return [*steps(x), (Step.CONSTANT, -1), (Step.MULTIPLY,)]
                case ast.BinOp(left=x, op=ast.Add(), right=y):
                    return [*steps(x), *steps(y), (Step.ADD,)]
                case ast.BinOp(left=x, op=ast.Sub(), right=y):
                    return [*steps(x), *steps(y), (Step.CONSTANT, -1), (Step.MULTIPLY,), (Step.ADD,)]
                case ast.BinOp(left=x, op=ast.Mult(), right=y):
                    return [*steps(x), *steps(y), (Step.MULTIPLY,)]
                case ast.BinOp(left=x, op=ast.Pow(), right=ast.Constant(value=int(n))) if 1 <= n <= _MAX_POWER:
                    return [*(steps(x) * n), *([(Step.MULTIPLY,)] * (n - 1))]
                case ast.Call(func=ast.Name(id=name), args=[x, y], keywords=[]) if name in _FUNCTIONS:
                    return [*steps(x), *steps(y), (_FUNCTIONS[name],)]
            raise self._refusal(text)

        return steps(tree)

    def _refusal(self, text: str) -> LaunchError:
        return LaunchError(
            f"{self._where}: the symbolic size {text} is not made of sums, products, floordiv, mod, max and min",
            hint="export once for each shape",
        )
