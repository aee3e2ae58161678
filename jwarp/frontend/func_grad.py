"""`@wp.func_grad`: a function that says the gradient of another one, and `wp.adjoint` in its body."""

from __future__ import annotations

import ast
import collections
import weakref
from collections.abc import Callable
from typing import Any, TypeGuard

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.func import Func
from jwarp.frontend.syntax.nodes import forget_nodes
from jwarp.frontend.syntax.source import Source, check_function


class Adjoint:
    """`wp.adjoint[x]` in a function under `@wp.func_grad`: the gradient of `x`, to be added to, set or read."""

    def __getitem__(self, name: Any) -> Any:
        raise KernelTypeError("wp.adjoint[…] can only be used in a function under @wp.func_grad")

    def __setitem__(self, name: Any, value: Any) -> None:
        self[name]

    def __repr__(self) -> str:
        return "wp.adjoint"


adjoint = Adjoint()


def func_grad(function: Any) -> Callable[[Callable], Func]:
    """Define the gradient of `function`, a `@wp.func`, for reverse mode.

    The decorated function takes the arguments of `function`, then one cotangent for each of its results, and adds to
    the gradients of the arguments: `wp.adjoint[x] += …` for a scalar, vector or matrix `x`, `wp.adjoint[a][i] += …` for
    an element of an array, `wp.adjoint[s.x] += …` for a field of a struct. For an array `y` that `function` writes to,
    `wp.adjoint[y][i]` is the cotangent of the value that it left there. Arguments that are not mentioned have gradient
    zero. The gradient is used wherever `function` is called from now on. If there are several overloads, it belongs to
    the one with the same annotations.

    The gradient of a number, vector or matrix may also be read and set. It contains only the contributions of this
    call; the caller adds up those of all uses. Writes to other arrays, for example to count or to log, stay in these
    arrays if they are mutable: on a tape, in launches in place, and for NumPy arrays in adjoint launches in place. JAX
    arrays, and NumPy arrays whose launch returns JAX arrays, do not change; only gradient functions in the same launch
    see such writes.

    Forward mode and second derivatives through such a call raise NotDifferentiableError.

    Raises:
        KernelTypeError: `function` is not a `@wp.func`, or none of its overloads has these parameters.
    """
    if not isinstance(function, Func):
        raise KernelTypeError(
            f"@wp.func_grad needs a function under @wp.func, not {getattr(function, '__name__', function)!r}",
            hint="write @wp.func_grad(f) above the gradient of f",
        )

    def decorate(gradient: Callable) -> Func:
        check_function(gradient, "@wp.func_grad")
        made = Func(gradient)
        fitting = [f for f in function.overloads if _belongs(made, f)]
        if not fitting:
            raise KernelTypeError(
                f"`{made.name}` is no gradient of `{function.name}`: its first parameters must be those of "
                f"{'; '.join(f.heading for f in function.overloads)}",
                hint="after them comes one cotangent for each result",
            )
        fitting[-1].gradient = made
        return made

    return decorate


def func_replay(function: Any) -> Callable[[Callable], Func]:
    """Define the version of `function`, a `@wp.func`, that derivatives call when they run a kernel again.

    The decorated function takes the arguments of `function` and returns the same results by other means: for example,
    it reads from an array the slot that `function` took from a counter. Its writes have no effect. Results that are
    floats keep the derivative of `function`. If there are several overloads, the replay belongs to the one with the
    same annotations. Unlike in Warp, a function without results, or one that only writes to thread-private arrays,
    needs no replay: derivatives never store to the kernel's arrays.

    Raises:
        KernelTypeError: `function` is not a `@wp.func`, or none of its overloads has these parameters.

    Example:
        >>> @wp.func_replay(next_slot)
        ... def next_slot_again(counter: wp.array[int], slots: wp.array[int], i: int):
        ...     return slots[i]
    """
    if not isinstance(function, Func):
        raise KernelTypeError(
            f"@wp.func_replay needs a function under @wp.func, not {getattr(function, '__name__', function)!r}",
            hint="write @wp.func_replay(f) above the replay of f",
        )

    def decorate(replay: Callable) -> Func:
        check_function(replay, "@wp.func_replay")
        made = Func(replay)
        fitting = [f for f in function.overloads if len(made.wanted) == len(f.wanted) and _belongs(made, f)]
        if not fitting:
            raise KernelTypeError(
                f"`{made.name}` is no replay of `{function.name}`: its parameters must be those of "
                f"{'; '.join(f.heading for f in function.overloads)}"
            )
        fitting[-1].replay = made
        return made

    return decorate


def _belongs(gradient: Func, function: Func) -> bool:
    count = len(function.wanted)
    first = gradient.wanted[:count]
    return len(gradient.wanted) >= count and all(
        x is None or y is None or x == y for x, y in zip(first, function.wanted, strict=True)
    )


def spelled(name: str) -> str:
    """How `wp.adjoint[name]` is named as a variable and in messages."""
    return f"wp.adjoint[{name}]"


def rewrite_adjoints(gradient: Func) -> Adjoints:
    """Make each `wp.adjoint[x]` in the body of `gradient` a variable, once."""
    known = _REWRITTEN.get(gradient)
    if known is None:
        known = Adjoints(gradient.source)
        tree = gradient.source.tree
        forget_nodes(tree)
        tree.body = [known.visit(statement) for statement in tree.body]
        _REWRITTEN[gradient] = known
    return known


_REWRITTEN: weakref.WeakKeyDictionary[Func, Adjoints] = weakref.WeakKeyDictionary()


class Adjoints(ast.NodeTransformer):
    """Finds `wp.adjoint[x]`, where it is added to, assigned or read."""

    def __init__(self, source: Source):
        self.source = source
        self.found: dict[str, Span] = {}
        self.assigned: dict[str, Span] = {}  # as a whole
        self.aliases = _aliases(source.tree)
        self.by_alias: dict[str, str] = {}  # what was found under the name of a variable that stands for it
        self.changed = {
            ast.unparse(node)
            for node in ast.walk(source.tree)
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store)
        } - self.aliases.keys()
        self.rebound: dict[str, Span] = {}  # what was found that does not stand for the same array all along

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self.variable(node, node.ctx) if self.is_adjoint(node) else self.generic_visit(node)

    def is_adjoint(self, node: ast.AST) -> TypeGuard[ast.Subscript]:
        """True if `node` is `wp.adjoint[…]`."""
        if not isinstance(node, ast.Subscript):
            return False
        owner, names = node.value, []
        while isinstance(owner, ast.Attribute):
            names.append(owner.attr)
            owner = owner.value
        if not isinstance(owner, ast.Name):
            return False
        try:
            found = self.source.lookup(owner.id)
        except KeyError:
            return False
        for name in reversed(names):
            found = getattr(found, name, None)
        return found is adjoint

    def variable(self, node: ast.Subscript, context: ast.expr_context) -> ast.Name:
        """The variable that `wp.adjoint[x]` becomes."""
        owner = node.slice
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if not isinstance(owner, ast.Name):
            raise CompileError(
                "wp.adjoint[…] takes the name of a parameter, or of a field of one", self.source.span(node),
                "index behind it: wp.adjoint[a][i]",
            )  # fmt: skip
        name, span = ast.unparse(node.slice), self.source.span(node)
        written, root, steps = name, owner.id, [name]
        while root in self.aliases:
            name = self.aliases[root] + name.removeprefix(root)
            root = name.partition(".")[0]
            steps.append(name)
        if any(f"{step}.".startswith(f"{changed}.") for step in steps for changed in self.changed):
            self.rebound.setdefault(name, span)
        if name != written:
            self.by_alias[name] = written
        self.found.setdefault(name, span)
        if isinstance(context, ast.Store):
            self.assigned.setdefault(name, span)
        return ast.copy_location(ast.Name(spelled(name), context), node)


def _aliases(tree: ast.FunctionDef) -> dict[str, str]:
    """The variables that stand for a parameter or a field of one all along: `values = holder.values`, and no other."""
    stores = collections.Counter(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    named = {argument.arg for argument in ast.walk(tree) if isinstance(argument, ast.arg)}
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(target := node.targets[0], ast.Name):
            source = ast.unparse(node.value)
            root = source.partition(".")[0]
            of_given = (root in named and root not in stores) or root in found
            if (
                of_given
                and stores[target.id] == 1
                and target.id not in named
                and source.replace(".", "").isidentifier()
            ):
                found[target.id] = source
    return found
