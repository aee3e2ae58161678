"""Random functions in C++ of numbers, with what makes them a module of native functions and a file for a compiler."""

from __future__ import annotations

import random

TYPES = {"float": "float", "double": "wp.float64", "int": "int", "uint32_t": "wp.uint32", "int64_t": "wp.int64"}
_FLOATS = ("float", "double")
_INTS = ("int", "uint32_t", "int64_t")


class Writer:
    """Writes one function: of numbers `a` to `e`, one of each type."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.variables = dict(zip("abcde", TYPES, strict=True))
        self.count = 0

    def of(self, *kinds: str) -> str:
        return self.random.choice([name for name, kind in self.variables.items() if kind in kinds])

    def integer(self, depth: int) -> str:
        """An expression of integers of any width."""
        if depth == 0:
            return self.random.choice([self.of(*_INTS), self.of(*_INTS), "7", "0x1Fu", "3LL", "true"])
        x, y = self.integer(depth - 1), self.integer(depth - 1)
        return self.random.choice(
            [
                f"({x} {self.random.choice('+-*&|^')} {y})",
                f"({x} {self.random.choice(['<<', '>>'])} ({y} & 15))",
                f"({x} {self.random.choice('/%')} (({y} & 63) | 1))",
                f"({x} {self.random.choice(['<', '<=', '==', '!=', '>', '>='])} {y})",
                f"({x} {self.random.choice(['&&', '||'])} {y})",
                f"({x} ? {y} : {x} + 1)",
                f"{self.random.choice(['-', '~', '!', '+', '(short)', '(unsigned char)'])}({x})",
                f"({self.random.choice(_INTS)})({x})",
                f"static_cast<{self.random.choice(_INTS)}>({x})",
                f"__builtin_popcountll({x})",
                f"__builtin_ctz(({x}) | 1024)",
                f"__builtin_clz(({x}) | 1)",
                f"__builtin_ffsll({x})",
            ]
        )

    def number(self, depth: int) -> str:
        """An expression of floats, of a modest size where its variables are."""
        if depth == 0:
            return self.random.choice(
                [self.of(*_FLOATS), self.of(*_FLOATS), "0.5f", "1.25", "3e-1f", f"({self.of('int')} & 7)"]
            )
        x, y = self.number(depth - 1), self.number(depth - 1)
        return self.random.choice(
            [
                f"({x} {self.random.choice('+-*')} {y})",
                f"({x} / (2.0f + fabs({y})))",
                f"{self.random.choice(['sinf', 'cos', 'floor', 'tanh', 'sqrtf(1.0f + fabs'])}({x})",
                f"fmin({x}, {y})",
                f"({self.random.choice(_FLOATS)})({x})",
                f"({self.integer(1)} ? {x} : {y})",
                f"-({x})",
            ]
        ).replace("sqrtf(1.0f + fabs(" + x + ")", "sqrtf(1.0f + fabs(" + x + "))")

    def statement(self, depth: int) -> str:
        """A statement that changes variables, or declares one."""
        self.count += 1
        kind = self.random.randrange(6 if depth else 3)
        if kind == 0:
            name, type_ = f"v{self.count}", self.random.choice([*TYPES])
            value = self.number(2) if type_ in _FLOATS else self.integer(2)
            self.variables[name] = type_
            return f"{type_} {name} = {value};"
        if kind == 1:
            return f"{self.of(*_INTS)} {self.random.choice(['=', '+=', '^=', '-=', '&='])} {self.integer(2)};"
        if kind == 2:
            return f"{self.of(*_FLOATS)} = {self.number(2)};"
        if kind == 3:
            return f"if ({self.integer(2)}) {{ {self.inside(depth, 2)} }} else {{ {self.inside(1, 1)} }}"
        if kind == 4:
            trips = self.random.randrange(1, 6)
            return (
                f"for (int i = 0, n = {trips}; i < n; ++i) "
                f"{{ if (i == 2 && b > 0.0) continue; {self.inside(depth, 2)} if (i > 3) break; }}"
            )
        left = f"w{self.count}"
        body = self.inside(depth, 2, a="int")  # hides the parameter of that name
        return f"{{ int {left} = 5; while ({left} > 0) {{ int a = {left} * 2; {left} -= 2; {body} c += a; }} }}"

    def inside(self, depth: int, count: int, **declared: str) -> str:
        """Statements in a scope of their own."""
        known = dict(self.variables)
        self.variables |= declared
        made = " ".join(self.statement(depth - 1) for _ in range(count))
        self.variables = known
        return made

    def body(self) -> tuple[str, str]:
        """The type of the result, and the text."""
        lines = [self.statement(2), self.statement(2)]
        kind = self.random.choice([*TYPES])
        lines += [f"if ({self.integer(1)} == 3) return {self.of(*_INTS)};", self.statement(2), self.statement(2)]
        lines.append(f"return {self.number(2) if kind in _FLOATS else self.integer(2)};")
        return kind, "\n".join(lines)


def sources(count: int) -> tuple[str, str]:
    """A module with `count` native functions `f0`… and a kernel that calls each, and the same functions in C++."""
    given = ", ".join(f"{name}: {kind}" for name, kind in zip("abcde", TYPES.values(), strict=True))
    module, file, calls = ["import jwarp as wp\n"], ["#include <cmath>\n#include <cstdint>\nusing namespace std;\n"], []
    named = ", ".join(f"{kind} {name}" for name, kind in zip("abcde", TYPES, strict=True))
    for k in range(count):
        kind, text = Writer(k).body()
        module.append(f'@wp.func_native("""\n{text}\n""")\ndef f{k}({given}) -> {TYPES[kind]}: ...\n')
        inner = f"[&]() -> {kind} {{\n{text}\n}}"
        file.append(f'extern "C" void f{k}({named}, double* r)\n{{ *r = (double){inner}(); }}\n')
        calls.append(f"    r[i, {k}] = wp.float64(f{k}(a[i], b[i], c[i], d[i], e[i]))")
    arrays = ", ".join(f"{name}: wp.array[{kind}]" for name, kind in zip("abcde", TYPES.values(), strict=True))
    module.append(f"@wp.kernel\ndef every({arrays}, r: wp.array2d[wp.float64]):\n    i = wp.tid()\n" + "\n".join(calls))
    return "\n".join(module), "\n".join(file)
