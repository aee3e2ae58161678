"""Errors of kernel source have a class, a place, a reason and a way out, and are never raw Python errors.

In the sources below `«` and `»` stand around the text that the caret must point at.
"""

import warnings

import pytest
from error_checks import C, T, check, load

import jwarp as wp
from jwarp.errors import Span

pytestmark = pytest.mark.quick

HEADER = "import enum, functools, math\nimport jax\nimport numpy as np\nimport jwarp as wp\nOUTER = np.ones(3)\n"
KERNEL = "@wp.kernel\ndef k(a: wp.array[float], b: wp.array[int], c: wp.array2d[float], n: int, x: float, p: bool):\n"
HELPERS = """
def plain(u):
    return u

@wp.func
def double(u: float) -> float:
    return 2.0 * u

@wp.func
def nothing(u: float):
    v = u

@wp.kernel
def other(a: wp.array[float]):
    a[0] = 1.0

"""


def body(text):
    return HEADER + HELPERS + KERNEL + "".join(f"    {line}\n" for line in text.split("\n"))


# A kernel body, the error, words of its reason, words of the way out.
BODIES = {
    "unknown name": ("a[0] = «foo»", C, "`foo` is not defined", ""),
    "unknown function": ("a[0] = «sqrtt»(x)", C, "not defined", "did you mean wp.sqrt?"),
    "unknown name of wp": ("a[0] = «wp.sine»(x)", T, "`sine` is not an attribute of `wp`", "did you mean wp.sin?"),
    "unset variable": ("a[0] = «y»\ny = 1.0", C, "`y` has no value yet", "assign"),
    "global shadowed later": ("a[0] = «double»(x)\ndouble = 1.0", C, "`double` has no value yet", ""),
    "list": ("y = «[1.0, 2.0]»", C, "a list", "array"),
    "dict": ("y = «{1: 2}»", C, "a dict", "array"),
    "set": ("y = «{1, 2}»", C, "a set", "array"),
    "list comprehension": ("y = «[q for q in range(3)]»", C, "a list comprehension", "for"),
    "generator": ("y = wp.min(«(q for q in range(3))», 1)", C, "a generator expression", "for"),
    "lambda": ("f = «lambda q: q»", C, "a lambda", "@wp.func"),
    "f-string": ("y = «f'{x}'»", C, "an f-string", "wp.printf"),
    "walrus": ("if («y := n») > 1:\n    pass", C, "`:=`", "statement of its own"),
    "yield": ("«yield x»", C, "`yield`", "array"),
    "star of an open slice": ("y = wp.vec3(«*a[0:]»)", T, "which requires explicit upper bound", "*a[0:3]"),
    "star of a negative bound": ("y = wp.vec3(«*a[:-3]»)", T, "cannot be negative for arrays", "*a[0:3]"),
    "star of a negative step": ("y = wp.vec3(«*a[5:2:-1]»)", T, "step cannot be negative", "*a[0:3]"),
    "star of a variable bound": ("y = wp.vec3(«*a[:n]»)", T, "compile-time constant, `stop` is not", "*a[0:3]"),
    "star argument": ("y = wp.vec3(«*x»)", T, "Starred expressions are only supported for vectors", "one by one"),
    "star of an array": ("y = wp.vec3(«*a[:n]»)", T, "not array[float32]", "constant bounds"),
    "double star argument": ("y = double(«**OUTER»)", C, "`*` unpacking", ""),
    "keyword to a builtin": ("y = wp.min(x, «c=2.0»)", T, "wp.min does not take the arguments (…, c=…)", "(a, b)"),
    "with": ("«w»ith x:\n    pass", C, "`with`", ""),
    "try": ("«t»ry:\n    pass\nexcept ValueError:\n    pass", C, "`try`", "if"),
    "raise": ("«raise ValueError»", C, "`raise`", "array"),
    "del": ("y = 1\n«del y»", C, "`del`", "leave it out"),
    "global": ("«global y»", C, "`global`", ""),
    "nested function": ("«d»ef g():\n    return 1", C, "a function inside", "@wp.func"),
    "class": ("«c»lass A:\n    pass", C, "a class inside", ""),
    "import": ("«import os»", C, "`import`", "top of the file"),
    "match": ("«m»atch n:\n    case 1:\n        pass", C, "`match`", "elif"),
    "is": ("if «n is p»:\n    pass", C, "`is`", "=="),
    "in": ("if «n in (1, 2)»:\n    pass", C, "`in`", "or"),
    "while without a way out": ("while «True»:\n    a[0] = a[0] + 1.0", C, "never ends: no `break`", "break"),
    "break of another loop": (
        "while «True»:\n    for i in range(n):\n        if a[i] > x:\n            break", C, "never ends", "break"
    ),
    "waiting in vain": ("while «b[0] < n»:\n    y = x", C, "never ends once it has begun", "atomic"),
    "condition that stays": ("y = 0\nwhile «n < 5 and x > 0.0»:\n    a[0] = x", C, "nothing in it", "change"),
    "endless in a branch": ("if a[0] > x:\n    while «True»:\n        pass\na[0] = 1.0", C, "never ends", ""),
    "for else": ("«f»or i in range(n):\n    pass\nelse:\n    pass", C, "`else` after a loop", "break"),
    "while else": ("«w»hile p:\n    pass\nelse:\n    pass", C, "`else` after a loop", "break"),
    "annotated with another type": ("y: int = «x»", T, "the value is float32, not int", "convert"),
    "annotated with no type": ("y: «OUTER» = x", C, "no type of the kernel language", "use int"),
    "annotated with nothing": ("y: «foo» = x", C, "cannot be evaluated", ""),
    "slice in brackets of a slice": ("y = «c[1:3][0]»[0]", C, "in Warp they are `c[1:3, 0]`", "c[1:3, :][0]"),
    "slice with a step of zero": ("y = a[«::0»]", C, "Slice step cannot be zero", ""),
    "float in a slice": ("y = a[«x»:]", T, "must be an integer", "int(x)"),
    "slice as a value": ("y = 1.0 + «a[1:2]»", T, "must be a scalar", "read an element"),
    "stored to a slice": ("«a[1:2]» = x", C, "a slice or a whole row", ""),
    "too many reversed": ("for i in reversed(«a»):\n    pass", C, "needs range(stop)", "a.shape[0]"),
    "text": ("y = «'abc'»", C, "'abc' has no meaning", "numbers"),
    "float of text": ("y = float(«'inf'»)", C, "no meaning", "math.inf"),
    "None": ("y = «None»", C, "None has no meaning", ""),
    "complex number": ("y = «1j»", C, "no meaning", ""),
    "statement without effect": ("«x + 1.0»", C, "does nothing", "assign"),
    "float and literal": ("a[0] = «x + 1»", T, "the same, got ['float32', 'int32']", "write 1.0 instead of 1"),
    "literal and float": ("a[0] = «3 * x»", T, "the same, got ['int32', 'float32']", "write 3.0 instead of 3"),
    "int and float": ("a[0] = «n - x»", T, "the same, got ['int32', 'float32']", "convert the int32: float(…)"),
    "component of another type": ("v = «wp.vec3(n, x, x)»", T, "expected to be of the type `float32`", "it: float(…)"),
    "float32 and float64": ("y = «x * wp.float64(2.0)»", T, "'float32', 'float64'", "convert"),
    "bool arithmetic": ("y = «p + p»", T, "`+` does not take (bool, bool)", "int(x)"),
    "comparison of signs": ("y = «n < wp.uint32(3)»", T, "must be the same, got ['int32', 'uint32']", ""),
    "power of ints": ("y = «n ** 2»", T, "`**` does not take (int32, int32)", "i * i"),
    "inverted bool": ("y = «~p»", T, "`~`", "not x"),
    "inverted float": ("y = «~x»", T, "`~`", ""),
    "matrix product": ("y = «x @ x»", T, "`@`", "`*`"),
    "sine of an int": ("y = «wp.sin(n)»", T, "wp.sin", "float(x)"),
    "clamp of a mix": ("y = «wp.clamp(x, 0, 1)»", T, "wp.clamp needs values of one type", "convert"),
    "where of a mix": ("y = «wp.where(p, 1, 2.0)»", T, "wp.where needs values of one type", "convert"),
    "branches of a mix": ("y = «1 if p else 2.0»", T, "int32 and float32", "convert"),
    "new type": ("y = 1\n«y» = 2.0", T, "`y` is int32 and cannot become float32", "another name"),
    "new type of a parameter": ("«n» = 2.0", T, "`n` is int32", "another name"),
    "new type in a branch": ("y = 1\nif p:\n    «y» = 2.0", T, "`y` is int32", ""),
    "types by branch": ("if «p»:\n    y = 1\nelse:\n    y = 2.0", T, "int32 in one branch and float32 in", "two names"),
    "equal numbers by branch": ("if «p»:\n    y = 1\nelse:\n    y = 1.0", T, "int32 in one branch and float32", ""),
    "new type in a loop": ("y = 0\nfor i in range(n):\n    «y» = float(i)", T, "`y` is int32", ""),
    "tuple that grows": ("y = (1, 2)\nfor i in range(n):\n    «y» = (y, 1)", T, "cannot become the tuple", ""),
    "wrong element": ("a[0] = «n»", T, "`a` holds float32, the value is int32", "wp.float32(…)"),
    "array for an element": ("a[0] = «b»", T, "`a` holds float32, the value is array[int32]", "read an element: b[i]"),
    "wrong element added": ("a[0] += «1»", T, "`a` holds float32", "wp.float32(…)"),
    "float index": ("a[«x»] = x", T, "index of `a` must be an integer, not float32", "int(x)"),
    "bool index": ("a[«p»] = x", T, "must be an integer, not bool", "int(x)"),
    "too many indices": ("«a[0, 1]» = x", T, "1 dimension(s), 2 index(es)", "each dimension"),
    "a row as a value": ("y = «c[0]» + 1.0", T, "must be a scalar, not array[float32]", "c[i]"),
    "a row assigned": ("«c[0]» = x", C, "a whole row of `c`", "a[i, j]"),
    "a row added to": ("«c[0]» += x", C, "a whole row of `c`", "a[i, j]"),
    "too many indices of a row": ("y = «c[0][1, 2]»", T, "1 dimension(s), 2 index(es)", "each dimension"),
    "varying shape": ("t = «wp.zeros(shape=n, dtype=float)»", C, "must be a positive constant integer", "parameter"),
    "negative shape": ("t = «wp.zeros(-1)»", C, "must be a positive constant integer", "wp.static"),
    "float shape": ("t = «wp.zeros((2, 3.0))»", C, "must be a positive constant integer", "wp.static"),
    "empty shape": ("t = «wp.zeros(())»", C, "1 to 4 dimensions, not 0", ""),
    "array of a pointer": ("t = «wp.array(ptr=n, shape=4, dtype=float)»", C, "no arrays of pointers", "wp.zeros"),
    "address of a variable": ("t = «wp.address_of»(n)", C, "addresses of variables", ""),
    "local array of no type": ("t = «wp.zeros(3, x)»", T, "dtype of a local array must be", "dtype=float"),
    "local arrays too large": ("t = wp.zeros(500)\nu = «wp.zeros((23, 23))»", C, "may have 4096 bytes", "smaller"),
    "an array of one branch": (
        "if p:\n    t = wp.zeros(3)\nelse:\n    t = wp.zeros((2, 2))\na[0] = «t»[0]", C, "not of one type", "two names",
    ),
    "another array in a loop": (
        "t = wp.zeros(3)\n«for k in range(n):\n    t = wp.zeros(4)»", C, "not stand for the same array", "two names",
    ),
    "local arrays of an unrolled loop": (
        "for k in range(12):\n    t = «wp.zeros(100)»", C, "may have 4096 bytes", "wp.config.max_unroll",
    ),
    "an array of a loop": ("for k in range(n):\n    t = wp.zeros(3)\na[0] = «t»[0]", C, "no meaning after", ""),
    "one of two arrays": ("t = wp.zeros(3)\nu = «t if p else c»", T, "the two values", "if statement"),
    "local array stored": ("t = wp.zeros(3)\na[0] = «t»", T, "the value is array[float32]", ""),
    "element of a scalar written": ("«x»[0] = 1.0", C, "cannot be assigned", "array"),
    "element of a scalar": ("y = «x[0]»", T, "float32 cannot be indexed", ""),
    "varying index of a tuple": ("y = (1.0, 2.0)\na[0] = y[«n»]", C, "constant integer", "array"),
    "extent out of range": ("y = c.shape[«4»]", C, "outside 0 to 1", ""),
    "attribute of an array": ("y = «a.size»", T, "`size` is not an attribute of arrays", "shape"),
    "a function's name for a number": (
        "f = wp.sin\n«f» = x", T, "Cannot reassign local 'f', which is the function `sin`", "another name"),
    "a function's name in a tuple": ("f = wp.sin\n«f», y = (x, x)", T, "rebinding function-valued local", ""),
    "a function's name that grows": ("f = wp.sin\n«f» += x", T, "to a non-function value", ""),
    "attribute of a scalar": ("y = «x.real»", T, "`real` is not an attribute of float32", ""),
    "attribute assigned": ("«a.y» = 1.0", C, "cannot be assigned", "a[i]"),
    "arithmetic of arrays": ("y = «a» + 1.0", T, "must be a scalar, not array[float32]", "a[i]"),
    "outer array": ("y = «OUTER[0]»", T, "a Python ndarray cannot be indexed", "parameters"),
    "outer array as a value": ("y = 1.0 + «OUTER»", T, "must be a scalar", "parameters"),
    "function as a value": ("y = «wp.sin» + 1.0", T, "not a function", ""),
    "type as a value": ("y = «int» + 1", T, "not the type `int`", ""),
    "integers only": ("y = «x & 1»", T, "must be the same, got ['float32', 'int32']", "convert with int(x)"),
    "another name than in numpy": ("y = «np.linalg.norm(x)»", C, "`norm`", "write wp.length"),
    "function of jax": ("y = «jax.nn.softplus(x)»", C, "`softplus`", "under @wp.jax_func"),
    "method of numpy": ("v = wp.vec3(x)\ny = «v.dot»(v)", T, "`dot` is not an attribute of vec3", "write wp.dot(v, …)"),
    "plain function": ("y = «plain(x)»", C, "`plain` is not a function of the kernel", "@wp.func above `def plain`"),
    "function of math": ("y = «math.sin(x)»", C, "`sin` is not a function of the kernel", "write wp.sin"),
    "function of numpy": ("y = «np.sin(x)»", C, "`np.sin`", "write wp.sin"),
    "print of an array": ("print('x', «a»)", T, "must be a scalar, not array[float32]", "a[i]"),
    "print to a file": ("print(x, «file=1»)", C, "takes no keyword arguments", ""),
    "no format": ("«wp.printf()»", C, "needs a format text", "%d"),
    "format that varies": ("wp.printf(«x», x)", C, "must be a constant text", "%d"),
    "formatted text": ("wp.printf(«f'{x}'»)", C, "must be a constant text", "%d"),
    "unknown conversion": ("wp.printf(«'%q'», x)", C, "there is no conversion '%q'", "%d"),
    "unfinished conversion": ("wp.printf(«'100 %'»)", C, "there is no conversion '%'", "%%"),
    "text conversion": ("wp.printf(«'%s'», x)", C, "`%s` is for text", "into the format"),
    "width as an argument": ("wp.printf(«'%*d'», 3, 4)", C, "there is no conversion '%*'", ""),
    "huge width": ("wp.printf(«'%1000d'», 4)", C, "at most 99", ""),
    "too few values": ("«wp.printf('%f %f', x)»", C, "asks for 2 value(s), 1 given", "%%"),
    "too many values": ("«wp.printf('%f', x, x)»", C, "asks for 1 value(s), 2 given", ""),
    "float as an integer": ("wp.printf('%d', «x»)", T, "`%d` prints an integer, the value is float32", "int("),
    "integer as a float": ("wp.printf('%5.1f', «1»)", T, "`%5.1f` prints a float, the value is int32", "%d"),
    "vector in a format": ("wp.printf('%f', «wp.vec2(x, x)»)", T, "prints scalars, this is vec2", "print("),
    "zero character": ("wp.printf(«'a\\0b'»)", C, "zero character", ""),
    "call of a kernel": ("«other(a)»", C, "`other` is a kernel", "@wp.func"),
    "call of a number": ("y = «x(1.0)»", C, "float32 cannot be called", "`*`"),
    "count of arguments": ("y = «double(x, x)»", T, "too many positional", ""),
    "missing argument": ("y = «double()»", T, "missing a required argument", ""),
    "unknown keyword": ("y = «double(x, v=x)»", T, "unexpected keyword argument", ""),
    "type of an argument": ("y = double(«n»)", T, "`u` of `double` must be float32, not int32", "wp.float32(…)"),
    "array for a scalar": ("y = double(«a»)", T, "must be float32, not array[float32]", ""),
    "no result": ("«y» = nothing(x)", C, "no value to assign", "return"),
    "no result in an expression": ("y = 1.0 + «nothing(x)»", T, "must be a scalar, not nothing", ""),
    "count for a builtin": ("y = «wp.sin(x, x)»", T, "wp.sin takes 1 argument(s), 2 given", ""),
    "conversion of two": ("y = «float(1, 2)»", T, "float() converts one value", ""),
    "result of a kernel": ("«return x»", C, "a kernel returns nothing", "array parameter"),
    "tid of five": ("d, e, f, g, h = «wp.tid()»", C, "1 to 4 coordinates", ""),
    "tid with an argument": ("i = «wp.tid(1)»", T, "takes 0 argument(s)", ""),
    "range of a float": ("for i in «range(x)»:\n    pass", T, "needs integers", "int(x)"),
    "range of a constant float": ("for i in «range(3.0)»:\n    pass", T, "needs integers", "int(x)"),
    "range of a converted float": ("for i in «range(float(3))»:\n    pass", T, "needs integers", "int(x)"),
    "range of a mix": ("for i in «range(n, wp.int64(3))»:\n    pass", T, "one type, got int32, int64", "convert"),
    "range beyond int32": ("for i in «range(99999999999)»:\n    pass", T, "does not fit int32", "wp.int64"),
    "step beyond int32": ("for i in «range(0, n, 9999999999)»:\n    pass", T, "does not fit int32", "wp.int64"),
    "step of zero": ("for i in «range(0, n, 0)»:\n    pass", C, "must not be zero", ""),
    "range without bounds": ("for i in «range()»:\n    pass", C, "needs range(stop)", ""),
    "range as a value": ("y = «range(3)»", C, "can only stand in a for statement", ""),
    "for over an array": ("for v in «a»:\n    pass", C, "needs range(stop)", "a.shape[0]"),
    "for over enumerate": ("for «i, v» in enumerate(a):\n    pass", C, "must be one name", "range"),
    "unpacking a scalar": ("«y, z» = x", T, "float32 cannot be unpacked into 2", ""),
    "unpacking three": ("«y, z» = (1, 2, 3)", C, "3 values cannot be unpacked into 2", ""),
    "starred target": ("y, «*z» = (1, 2)", C, "`*` unpacking", "one by one"),
    "array by condition": ("if p:\n    y = b\nelse:\n    y = a\n«y»[0] = x", C, "not of one type", ""),
    "function by condition": ("f = wp.sin\nif p:\n    f = wp.cos\na[0] = «f»(x)", C, "not constant", ""),
    "function set in a loop": ("for i in range(n):\n    f = wp.cos\na[0] = «f»(x)", C, "set in a loop", ""),
    "static of a local": ("y = n\nz = wp.static(«y + 1»)", C, "`y` is a variable of the kernel", "outer names"),
    "static of a local and a global": ("np = n\nz = wp.static(«np + 1»)", C, "`np` is a variable of the kernel", ""),
    "static of a changed variable": ("for i in range(3):\n    i = n\n    n = wp.static(«i»)", C, "`i` is a", ""),
    "static of a carried variable": (
        "for i in range(3):\n    while n > 0:\n        n = wp.static(«i»)\n        i = n",
        C,
        "`i` is a variable",
        "",
    ),
    "static that fails": ("z = wp.static(«1 // 0»)", C, "ZeroDivisionError", ""),
    "static of a list": ("z = «wp.static([1, 2])[0]»", T, "a Python list cannot be indexed", ""),
    "static loop too long": (
        "«f»or i in range(1000000000):\n    b[0] = wp.static(i)", C, "too long to unroll", ""),
    "static after a break that depends on an argument": (
        "for i in range(4):\n    b[0] = wp.static(i)\n    if i == n:\n        break\nb[1] = wp.static(«i»)",
        C, "`i` is a variable of the kernel", "loops over constants"),
    "static after a loop that may not run": (
        "if p:\n    for i in range(3):\n        b[i] = 1\nb[0] = wp.static(«i»)",
        C, "`i` is a variable of the kernel", "loops over constants"),
    "static in a loop of unknown trips": (
        "for i in range(n):\n    b[i] = 1 + «wp.static(i)»",
        C, "`i`, whose loop cannot be unrolled: its bounds are not constants", "loop over constants"),
    "static of a name that the loop shadows": (
        "for OUTER in range(n):\n    b[0] = «wp.static(len(OUTER))»", C, "its bounds are not constants", ""),
    "large integer": ("b[0] = «9999999999»", T, "does not fit int32", "wp.int64"),
    "huge integer": ("y = «wp.int64(99999999999999999999)»", T, "does not fit 64 bits", ""),
    "cast of another width": ("y = wp.cast(«x», wp.int64)", T, "float32 has 4 bytes, int64 has 8", "call the type"),
    "cast of an array": ("y = wp.cast(«a», wp.int64)", T, "first argument of wp.cast must be a scalar", ""),
    "cast to no type": ("y = wp.cast(x, «2»)", T, "must be a type", "wp.cast(x, wp.int32)"),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_mistake_in_a_body(name, tmp_path):
    text, error, words, hint = BODIES[name]
    check(body(text), error, words, hint, tmp_path)


# Whole sources that define `k`.
SOURCES = {
    "no annotation": ("@wp.kernel\ndef k(«a», n: int):\n    pass\n", C, "`a` of kernel `k` has no type", "annotate"),
    "annotation of another type": ("@wp.kernel\ndef k(«a: str»):\n    pass\n", C, "type `str`", "wp.array"),
    "annotation with an array": ("@wp.kernel\ndef k(«a: np.ndarray»):\n    pass\n", C, "`ndarray`", "wp.array"),
    "array of no type": ("@wp.kernel\ndef k(«a: wp.array»):\n    pass\n", C, "`array`", "wp.array[…]"),
    "array of text": ("@wp.kernel\ndef k(a: wp.array[str]):\n    pass\n", T, "element type", "wp.array[float]"),
    "five dimensions": ("@wp.kernel\ndef k(a: wp.array(dtype=int, ndim=5)):\n    pass\n", T, "1 to 4", ""),
    "annotation as wrong text": ("@wp.kernel\ndef k(«a: 'wp.array[flot]'»):\n    pass\n", C, "'flot'", ""),
    "any number of parameters": ("@wp.kernel\ndef k(*«a: int»):\n    pass\n", C, "must be positional", "fixed"),
    "keyword parameter": ("@wp.kernel\ndef k(*, «a: int»):\n    pass\n", C, "must be positional", "fixed"),
    "declared result": ("@wp.kernel\ndef k(a: int) -> «float»:\n    pass\n", C, "cannot return", "array"),
    "method": ("class A:\n    @wp.kernel\n    def k(«self», n: int):\n        pass\n", C, "`self`", "not a method"),
    "coroutine": ("@wp.kernel\nasync def k(n: int):\n    pass\n", C, "plain function", ""),
    "lambda": ("k = wp.kernel(lambda: None)\n", C, "a lambda", "`def`"),
    "class": ("@wp.kernel\nclass k:\n    pass\n", T, "not an object of type type", "right above the `def`"),
    "number": ("k = wp.kernel(3)\n", T, "not an object of type int", ""),
    "kernel twice": ("@wp.kernel\n@wp.kernel\ndef k():\n    pass\n", T, "not a kernel", ""),
    "kernel of a func": ("@wp.kernel\n@wp.func\ndef k():\n    pass\n", T, "not a func", ""),
    "func of a kernel": ("@wp.func\n@wp.kernel\ndef k():\n    pass\n", T, "not a kernel", ""),
    "another decorator": (
        "def wrap(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n    return g\n"
        "@wp.kernel\n@wrap\ndef k(n: int):\n    pass\n", C, "wrapped by another decorator", "right above"),
    "from exec": ("exec('@wp.kernel\\ndef k(n: int): pass')\n", C, "cannot be read", "in a file"),
    "recursion": (
        "@wp.func\ndef f(u: float):\n    return «f(u)»\n\n@wp.kernel\ndef k(n: int):\n    f(1.0)\n",
        C, "`f` calls itself", "write a loop"),
    "mutual recursion": (
        "@wp.func\ndef f(u: float):\n    return g(u)\n\n@wp.func\ndef g(u: float):\n    return «f(u)»\n\n"
        "@wp.kernel\ndef k(n: int):\n    f(1.0)\n", C, "`f` calls itself", "`g` was called at"),
    "tid in a func": (
        "@wp.func\ndef f():\n    return «wp.tid()»\n\n@wp.kernel\ndef k(n: int):\n    i = f()\n",
        C, "only be called in kernels", "as arguments"),
    "results of two types": (
        "@wp.func\ndef f(u: float):\n    if «u > 0.0»:\n        return 1\n    return u\n\n"
        "@wp.kernel\ndef k(x: float):\n    y = f(x)\n", T, "the returned value is int32 in one branch", "convert"),
    "a result and none": (
        "@wp.func\ndef f(u: float):\n    if u > 0.0:\n        «return»\n    return u\n\n"
        "@wp.kernel\ndef k(x: float):\n    y = f(x)\n", C, "returns nothing here and a value elsewhere", "here too"),
    "another result than declared": (
        "@wp.func\ndef f(u: float) -> «int»:\n    return u\n\n@wp.kernel\ndef k(x: float):\n    y = f(x)\n",
        T, "annotated as `int` but the code returns a value of type `float32`", "called at"),
    "other results than declared": (
        "@wp.func\ndef f(u: float) -> «tuple[int, float]»:\n    return u, u\n\n"
        "@wp.kernel\ndef k(x: float):\n    y, z = f(x)\n", T, "`tuple[int, float]`", "called at"),
    "unknown type in a func": (
        "@wp.func\ndef f(«u: str»):\n    return 1\n\n@wp.kernel\ndef k(x: float):\n    y = f(x)\n",
        C, "no type of the kernel language", "Any"),
    "wrong default": (
        "@wp.func\ndef f(u: float = 1):\n    return u\n\n@wp.kernel\ndef k(x: float):\n    y = «f()»\n",
        T, "must be float32, not int32, its default", ""),
    "func with any number of arguments": (
        "@wp.func\ndef f(*«u»):\n    return u[0]\n\n@wp.kernel\ndef k(x: float):\n    y = f(x)\n",
        C, "any number of arguments", "fixed"),
    "property that fails": (
        "class A:\n    @property\n    def b(self):\n        raise RuntimeError('boom')\na = A()\n\n"
        "@wp.kernel\ndef k(x: float):\n    y = «a.b»\n", C, "RuntimeError: boom", ""),
    "bool array added to": (
        "@wp.kernel\ndef k(a: wp.array[bool]):\n    «a[0] += True»\n", T, "bool, which has no arithmetic", "|="),
    # The place of the caret.
    "second line of a statement": ("@wp.kernel\ndef k(x: float):\n    y = (x +\n         «foo»)\n", C, "foo", ""),
    "statement of several lines": ("@wp.kernel\ndef k(x: float):\n    y = («x +\n         1»)\n", T, "`+`", ""),
    "continued line": ("@wp.kernel\ndef k(x: float):\n    y = x + \\\n  «foo»\n", C, "foo", ""),
    "one line": ("@wp.kernel\ndef k(x: float): y = x; z = «foo»\n", C, "foo", ""),
    "tabs": ("@wp.kernel\ndef k(p: bool):\n\tif p:\n\t\ty =\t«foo»\n", C, "foo", ""),
    "lines ending as on Windows": ("@wp.kernel\r\ndef k(x: float):\r\n    y = «foo»\r\n", C, "foo", ""),
    "other alphabets": ("@wp.kernel\ndef k(α: float):\n    γ = α; δ = «ε» + γ\n", C, "`ε` is not defined", ""),
    "text of other alphabets": ("@wp.kernel\ndef k(x: float):\n    '日本'; y = «foo»\n", C, "foo", ""),
    "indented, with text at the margin": (
        "if True:\n    @wp.kernel\n    def k(x: float):\n        '''Text\nat the margin\n'''\n        y = «foo»\n",
        C, "foo", ""),
    "indented, with a line at the margin": (
        "if True:\n    @wp.kernel\n    def k(x: float):\n        y = (x\n+ «foo»)\n", C, "foo", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_a_mistake_in_a_definition(name, tmp_path):
    text, error, words, hint = SOURCES[name]
    check(HEADER + text, error, words, hint, tmp_path)


def test_a_name_is_not_taken_for_another_by_chance(tmp_path):
    with pytest.raises(wp.KernelTypeError) as caught:
        load(body("x = wp.sum(a)"), tmp_path).k.ir()
    assert caught.value.diagnostic.hint == ""  # wp.sub is near by its letters only
    assert "Could not find function wp.sum: `sum` is not an attribute of `wp`" in str(caught.value)


@pytest.mark.parametrize("text", ["x = wp.sine", "x = wp.foo.bar(1)", "x = wp.vec3(x).dot(1.0)", "v = x.real"])
def test_a_missing_attribute_is_an_attribute_error_too(text, tmp_path):
    with pytest.raises(AttributeError, match="is not an attribute of") as caught:
        load(body(text), tmp_path).k.ir()
    assert isinstance(caught.value, wp.KernelTypeError)


def test_break_outside_a_loop_is_for_python_to_refuse(tmp_path):
    with pytest.raises(SyntaxError, match="outside loop"):
        load(body("break"), tmp_path)


def test_calling_a_kernel_says_how_to_launch_it(tmp_path):
    module = load(body("pass"), tmp_path)
    with pytest.raises(TypeError, match="wp.launch"):
        module.k()


def test_annotations_may_be_text(tmp_path):
    future = "from __future__ import annotations\nimport jwarp as wp\n"
    text = future + "@wp.kernel\ndef k(a: wp.array2d[float], n: int, p: wp.bool) -> None:\n    a[n, n] = 1.0\n"
    assert repr(load(text, tmp_path).k) == "<wp.kernel k(a: array2d[float32], n: int32, p: bool)>"


LINES = {
    "elif chain": lambda n: (
        ["if n == 0:", "    a[0] = 0.0"]
        + [line for j in range(1, n) for line in (f"elif n == {j}:", f"    a[0] = float({j})")]
    ),
    "early returns": lambda n: [line for j in range(n) for line in (f"if n == {j}:", "    return")] + ["a[0] = x"],
    "conditional expressions": lambda n: ["a[0] = " + " ".join(f"{j}.0 if n == {j} else" for j in range(n)) + " x"],
    "long sum": lambda n: ["a[0] = " + " + ".join(["x"] * n)],
    "conditions": lambda n: ["if " + " and ".join(["a[n] > x"] * n) + ":", "    a[0] = x"],
    "statements": lambda n: ["y = x", *["y = y * 1.5 + x"] * n, "a[0] = y"],
}


@pytest.mark.parametrize("kind", LINES)
def test_long_and_deep_kernels_work_or_are_refused(kind, tmp_path):
    load(body("\n".join(LINES[kind](100))), tmp_path).k.ir()
    text = body("\n".join(LINES[kind](1500)))
    if kind != "conditional expressions":  # long, but not deep
        assert load(text, tmp_path).k.ir()
        return
    try:
        module = load(text, tmp_path)
    except (RecursionError, MemoryError, SyntaxError):
        return  # Python itself does not take it
    with pytest.raises(wp.CompileError, match="nested"):
        module.k.ir()


def test_warnings_point_to_the_users_line():
    @wp.kernel
    def unset(n: int, out: wp.array[float]):
        if n > 3:
            late = 1.0
        out[0] = late

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unset.ir()
    (warning,) = caught
    assert warning.filename == __file__
    assert "late" in str(warning.message) and str(warning.message).startswith(f"{__file__}:{warning.lineno}")


def test_fault_of_a_whole_function_is_shown_where_its_line_begins(tmp_path):
    """Not in the indentation before it."""
    path = tmp_path / "indented.py"
    path.write_text("if True:\n\tdef f():\n\t\tpass\n")
    shown = str(wp.CompileError("wrong", Span(str(path), 2))).splitlines()
    assert shown[2:] == ["2 | \tdef f():", "  | \t^"]
