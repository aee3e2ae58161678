"""Planted mutants: one small fault each, as a text of a file and what stands there instead.

A mutant names the folder that it is in, and not the file, which may move; the text occurs there once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A fault: in the folder `jwarp/<area>`, `old` becomes `new`."""

    name: str
    area: str
    old: str
    new: str


MUTANTS = (
    # What kernels mean
    Mutant(
        "what follows an if that jumps in its else is lost",
        "frontend",
        "return _if(ctx, node, node.body + rest, node.orelse)",
        "return _if(ctx, node, node.body, node.orelse)",
    ),
    Mutant(
        "statements after continue run",
        "frontend",
        '_FLAGS = ("$return", "$break", "$continue")',
        '_FLAGS = ("$return", "$break")',
    ),
    Mutant(
        "lerp weighs the other end",
        "frontend",
        'return do("add", do("mul", a, do("sub", 1, t)), do("mul", b, t))',
        'return do("add", do("mul", b, do("sub", 1, t)), do("mul", a, t))',
    ),
    Mutant("<= is <", "frontend", 'ast.LtE: ("<=", "le")', 'ast.LtE: ("<=", "lt")'),
    Mutant(
        "an unrolled loop goes on after break",
        "frontend",
        'stays = not_jumped(ctx, ("$return", "$break"), ctx.span(loop))',
        'stays = not_jumped(ctx, ("$return",), ctx.span(loop))',
    ),
    Mutant(
        "the product of quaternions has other signs",
        "frontend",
        'result = term if result is None else e.emit("add" if sign > 0 else "sub", result, term, span=span)',
        'result = term if result is None else e.emit("add", result, term, span=span)',
    ),
    # Passes
    Mutant(
        "a loop's own stores do not end the sharing of loads",
        "passes",
        "self.forget_loads(changed)  # in later",
        "# in later",
    ),
    Mutant(
        "what a branch knows holds after it",
        "passes",
        "            if before is None:\n                del self.known[x]\n",
        "            if before is None:\n                pass\n",
    ),
    Mutant(
        "loads of an array that the loop writes leave it",
        "passes",
        "node.row.only_reads and node.attr not in written",
        "node.row.only_reads",
    ),
    Mutant(
        "a carried sum is added where the loop has no iteration",
        "passes",
        "        if _surely_runs(loop):\n",
        "        if True:\n",
    ),
    Mutant(
        "one index of two names an element of a local array that became values",
        "passes",
        'first = emit("and", first, other)',
        'first = emit("or", first, other)',
    ),
    Mutant(
        "stores to scratch that a loop reads later are dropped",
        "passes",
        "return self.last_read.get(array, -1) > position or any((array, l) in self.reading_loops for l in loops)",
        "return self.last_read.get(array, -1) > position",
    ),
    # Derivatives
    Mutant(
        "the derivative of a quotient has the other sign",
        "autodiff",
        'return a.do("neg", a.do("div", a.do("mul", g, a.result), a.args[1]))',
        'return a.do("div", a.do("mul", g, a.result), a.args[1])',
    ),
    Mutant(
        "the gradient of a value that is used twice is that of one use",
        "autodiff",
        'total = self.builder.op("add", before.value, given.value)',
        "total = given.value",
    ),
    Mutant(
        "the sides of a branch are exchanged on the way back",
        "autodiff",
        "self.builder.append(If(other, sides[1], sides[0], made, node.span))",
        "self.builder.append(If(other, sides[0], sides[1], made, node.span))",
    ),
    Mutant(
        "what a loop starts with has no gradient from it",
        "autodiff",
        "            self.accumulate(node.init[k], total)\n",
        "            pass\n",
    ),
    Mutant(
        "of min and max, the one that loses gets the gradient",
        "autodiff",
        "return Chosen(first_wins, True), Chosen(first_wins, False)",
        "return Chosen(first_wins, False), Chosen(first_wins, True)",
    ),
    Mutant(
        "the derivative of tanh is not even",
        "autodiff",
        'return a.do("mul", g, a.do("mul", a.do("sub", 1, a.result), a.do("add", 1, a.result)))',
        'return a.do("mul", g, a.do("mul", a.result, a.do("add", 1, a.result)))',
    ),
    # Tiles
    Mutant(
        "a factor's columns begin one row late",
        "tiling",
        'w.loop(w.do("add", j, Const(int32, 1)), n, below)',
        'w.loop(w.do("add", j, Const(int32, 2)), n, below)',
    ),
    Mutant(
        "a system with an upper triangle is solved from above",
        "tiling",
        "forward = lower != transposed",
        "forward = lower",
    ),
    Mutant(
        "tiles that are alive share memory",
        "tiling",
        "if x is not y and not _overlap(self.stretches[x], self.stretches[y]):",
        "if x is not y:",
    ),
    Mutant(
        "a view begins at the tile's start",
        "tiling",
        "    offset = int(numbers.flat[0])\n",
        "    offset = 0\n",
    ),
    Mutant(
        "a NaN is no extremum",
        "tiling",
        'hit = builder.op("or", hit, builder.op("and", is_nan, builder.op("ne", x, x)))',
        "pass",
    ),
    Mutant(
        "a scan from the last element on goes from the first one on",
        "tiling",
        "ends = (size - 1, -1, -1) if scan.reverse else (0, size, 1)",
        "ends = (0, size, 1)",
    ),
    # Code
    Mutant(
        "a quotient of integers is rounded to zero where it should go down",
        "backend",
        'floored = out.select(out.binary("and", bool_, inexact, opposite), type, lower, quotient)',
        "floored = quotient",
    ),
    Mutant(
        "unsigned integers are shifted with their sign",
        "backend",
        'shifted = out.binary("ashr" if signed else "lshr", type, x[0], amount)',
        'shifted = out.binary("ashr", type, x[0], amount)',
    ),
    Mutant(
        "a loop that counts down stops at once",
        "backend",
        'less = sign + ("lt" if node.step > 0 else "gt")',
        'less = sign + "lt"',
    ),
    Mutant(
        "lanes that are off add too",
        "backend",
        'own = value if mask is None else out.select(mask, type, value, "zeroinitializer")',
        "own = value",
    ),
    Mutant(
        "negative numbers that are shifted too far become zero",
        "backend",
        'gone = out.binary("ashr", type, x[0], out.constant(type, type.bits - 1))',
        "pass",
    ),
    Mutant(
        "the least integer is one more in CUDA",
        "backend",
        'return f"({value + 1}{_SUFFIXES[type]} - 1)"',
        'return f"({value + 1}{_SUFFIXES[type]})"',
    ),
)
