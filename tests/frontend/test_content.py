"""The content digest of a kernel changes with whatever its IR may depend on, or there is none."""

import dataclasses
import importlib.util
import json
import sys

import numpy as np
import pytest
from fresh_python import run_forked, run_program

import jwarp as wp
from jwarp.config import config
from jwarp.frontend.content import content_of
from jwarp.ir.nodes import Kernel, KnownKernel
from jwarp.ir.printing import format_kernel
from jwarp.ir.serialize import fingerprint, from_entry, known, to_bytes, to_entry

HEAD = """
import enum, math, random, types
import numpy as np
import jwarp as wp
from jwarp import static as evaluated_early
"""

KERNEL = """
@wp.kernel
def kernel(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = {}
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Imports a text as a module, always from the same file, so that nothing but the text and the values differ."""
    # What the texts below leave in modules of others is taken away again.
    monkeypatch.setattr(wp, "pair_of_content", None, raising=False)
    monkeypatch.setattr(wp, "type_of_content", None, raising=False)
    monkeypatch.setattr(wp.types.vector(7, wp.float64), "scale_of_content", None, raising=False)
    monkeypatch.setitem(sys.modules, "space_of_content", None)

    def made(text, **values):
        path = tmp_path / "program.py"
        path.write_text(HEAD + text)
        spec = importlib.util.spec_from_file_location("program", path)
        found = importlib.util.module_from_spec(spec)
        vars(found).update(values)
        spec.loader.exec_module(found)
        return found

    return made


def content(kernel):
    found = content_of(kernel.python, kernel._definition, kernel.signature)
    return None if found is None else found.digest


# A text, and two values of the name GIVEN that make two kernels of it.
COUNTED = {
    "number": (KERNEL.format("x[i] * GIVEN"), 2.0, 3.0),
    "type of a number": (KERNEL.format("x[i] * float(GIVEN)"), 1, True),
    "vector": (KERNEL.format("x[i] * GIVEN[1]"), wp.vec2(1.0, 2.0), wp.vec2(1.0, 3.0)),
    "array": ("a = wp.static\n" + KERNEL.format("x[i] * wp.static(float(GIVEN[0]))"), np.ones(2), np.zeros(2)),
    "tuple that a program sets in a module of a library": (
        "wp.pair_of_content = (GIVEN, 1.0)\n" + KERNEL.format("x[i] * wp.pair_of_content[0]"),
        2.0,
        4.0,
    ),
    "type that a program sets in a module of a library": (
        "wp.type_of_content = GIVEN\n" + KERNEL.format("float(wp.type_of_content(x[i]))"),
        wp.int32,
        wp.float32,
    ),
    "attribute of a plain function": (
        "def helper(): ...\nhelper.scale = GIVEN\n" + KERNEL.format("x[i] * helper.scale"),
        2.0,
        4.0,
    ),
    "attribute of an array": (
        "class N(np.ndarray): ...\nn = np.ones(2).view(N)\nn.scale = GIVEN\n" + KERNEL.format("x[i] * n.scale"),
        2.0,
        4.0,
    ),
    "attribute of a class of vectors": (
        "class V(wp.vec3):\n    scale = GIVEN\n" + KERNEL.format("x[i] * V.scale"),
        2.0,
        4.0,
    ),
    "attribute of a class of vectors that a class is made of": (
        "class W(wp.vec3):\n    scale = GIVEN\nclass V(W):\n    own = 1\n" + KERNEL.format("x[i] * V.scale"),
        2.0,
        4.0,
    ),
    "attribute that a program sets on a type": (
        "V = wp.types.vector(7, wp.float64)\nV.scale_of_content = GIVEN\n" + KERNEL.format("x[i] * V.scale_of_content"),
        2.0,
        4.0,
    ),
    "attribute that a pattern looks at": (
        "Module = types.ModuleType\nspace = Module('space')\nspace.size = GIVEN\n"
        "def helper():\n    match space:\n        case Module(size=2.0):\n            return 1.0\n"
        "    return 5.0\n" + KERNEL.format("x[i] * wp.static(helper())"),
        2.0,
        4.0,
    ),
    "attribute of a member": (
        "class E(enum.Enum):\n    A = 1\nE.A.scale = GIVEN\n" + KERNEL.format("x[i] * wp.static(E.A.scale)"),
        2.0,
        4.0,
    ),
    "attribute of a module that a function imports": (
        "import sys\nspace = types.ModuleType('space_of_content')\nspace.size = GIVEN\n"
        "sys.modules['space_of_content'] = space\n"
        "def helper():\n    from space_of_content import size\n    return size\n"
        + KERNEL.format("x[i] * wp.static(helper())"),
        2.0,
        4.0,
    ),
    "attribute": (
        "class Part:\n    size = GIVEN\nspace = types.ModuleType('space')\nspace.Part = Part\n"
        + KERNEL.format("x[i] * space.Part.size"),
        2.0,
        4.0,
    ),
    "enum": (
        "class Kind(enum.IntEnum):\n    ONE = GIVEN\n" + KERNEL.format("x[i] * float(Kind.ONE)"),
        1,
        2,
    ),
    "name in a function": (
        "@wp.func\ndef inner(a: float):\n    return a * GIVEN\n\n@wp.func\ndef outer(a: float):\n    return inner(a)\n"
        + KERNEL.format("outer(x[i])"),
        2.0,
        3.0,
    ),
    "default": (
        "@wp.func\ndef f(a: float, b: float = GIVEN):\n    return a * b\n" + KERNEL.format("f(x[i])"),
        2.0,
        3.0,
    ),
    "annotation": (
        "@wp.func\ndef f(a: GIVEN):\n    return a\n" + KERNEL.format("float(f(GIVEN(x[i])))"),
        wp.float32,
        wp.float64,
    ),
    "annotation of an array": (
        "@wp.func\ndef f(a: GIVEN):\n    return float(a.shape[0])\n" + KERNEL.format("f(x)"),
        wp.array(dtype=float),
        wp.array(dtype=float, ndim=2),
    ),
    "attribute of an annotation that Python evaluates": (
        "@wp.func\ndef f(a: wp.array(dtype=float)):\n    return wp.static(GIVEN.size)\n" + KERNEL.format("f(x)"),
        *(wp.array(dtype=float, ndim=k) for k in (1, 2)),
    ),
    "type": (KERNEL.format("float(GIVEN(x[i]))"), wp.int32, wp.int64),
    "type of NumPy's": (KERNEL.format("x[i] * wp.static(float(GIVEN.itemsize))"), np.dtype("f4"), np.dtype("f8")),
    "field of a struct": (
        "@wp.struct\nclass P:\n    a: GIVEN\n" + KERNEL.format("float(P(a=GIVEN(x[i])).a)"),
        wp.int32,
        wp.int64,
    ),
    "native text": (
        "@wp.func\ndef f(a: float):\n    return a\n\n@wp.func_native(GIVEN, cpu=f)\ndef g(a: float) -> float: ...\n"
        + KERNEL.format("g(x[i])"),
        "return a;",
        "return a + 1.0f;",
    ),
    "gradient of a function": (
        "@wp.func\ndef f(a: float):\n    return a\n\n@wp.func_grad(f)\ndef adj_f(a: float, adj: float):\n"
        "    wp.adjoint[a] += GIVEN * adj\n" + KERNEL.format("f(x[i])"),
        2.0,
        3.0,
    ),
    "replay of a function": (
        "@wp.func\ndef f(a: float):\n    return a\n\n@wp.func_replay(f)\ndef again(a: float):\n    return a * GIVEN\n"
        + KERNEL.format("f(x[i])"),
        2.0,
        3.0,
    ),
    "overload of a function": (
        "@wp.func\ndef f(a: int):\n    return a\n\n@wp.func\ndef f(a: float):\n    return a * GIVEN\n"
        + KERNEL.format("f(x[i])"),
        2.0,
        3.0,
    ),
    "attribute of a function": (
        "@wp.func\ndef f(a: float):\n    return a\n\nf.scale = GIVEN\n" + KERNEL.format("f(x[i]) * f.scale"),
        2.0,
        3.0,
    ),
    "closure": (
        "def make(GIVEN):\n" + KERNEL.replace("\n", "\n    ").format("x[i] * GIVEN") + "\n    return kernel\n"
        "kernel = make(GIVEN)\n",
        2.0,
        3.0,
    ),
    "what Python evaluates": (
        "def helper(k):\n    return k + GIVEN\n" + KERNEL.format("x[i] * wp.static(helper(1.0))"),
        2.0,
        3.0,
    ),
    "what Python evaluates under another name": (
        "def helper(k):\n    return k + GIVEN\n" + KERNEL.format("x[i] * evaluated_early(helper(1.0))"),
        2.0,
        3.0,
    ),
    "function of an operator, which the code has no name of": (
        "@wp.struct\nclass S:\n    x: float\n\n@wp.func\ndef add(a: S, b: S):\n    return S(x=a.x * b.x * GIVEN)\n"
        + KERNEL.format("(S(x=x[i]) + S(x=2.0)).x"),
        2.0,
        3.0,
    ),
    "object that two functions take other attributes from": (
        "class Inner:\n    a = 1.0\n    b = GIVEN\n\nclass Box: ...\n\nbox = Box()\nbox.inner = Inner\n\n@wp.func\n"
        "def f():\n    return box.inner.b\n" + KERNEL.format("box.inner.a * f()"),
        2.0,
        3.0,
    ),
    "object that Python evaluates where the kernel does not": (
        "class Box:\n    def size(self):\n        return GIVEN\n\nbox = Box()\nbox.a = 1.0\n\n@wp.func\n"
        "def f():\n    return wp.static(box.size())\n" + KERNEL.format("box.a * f()"),
        2.0,
        3.0,
    ),
    "attributes of a namespace": (
        "space = types.SimpleNamespace(a=np.arange(4000.0))\nspace.a[2000] = GIVEN\n"
        + KERNEL.format("wp.static(float(space.a[2000]))"),
        2.0,
        3.0,
    ),
    "property that Python evaluates": (
        "class Kind(enum.IntEnum):\n    A = 1\n    @property\n    def k(self):\n        return GIVEN\n"
        + KERNEL.format("x[i] * wp.static(Kind.A.k)"),
        2.0,
        3.0,
    ),
    "attribute of a function that Python calls": (
        "def f():\n    return f.k\n\nf.k = GIVEN\n" + KERNEL.format("x[i] * wp.static(f())"),
        2.0,
        3.0,
    ),
    "table": ("TABLE = {'dt': GIVEN}\n" + KERNEL.format("wp.static(float(np.sum(TABLE['dt'])))"), 2.0, 3.0),
    **{
        f"what Python does for {what}": (
            "class Config:\n    def __init__(self):\n        self.dt = GIVEN\n"
            + "".join(f"    def {name}(self, *a):\n        return GIVEN\n" for name in ("__call__", "__getitem__"))
            + "".join(f"    def {name}(self, *a):\n        return GIVEN\n" for name in ("__len__", "__mul__"))
            + "    def __format__(self, how):\n        return str(GIVEN)\n\nclass Derived(Config): ...\n\n"
            + "made = Config()\nmade.dt = 1\nderived = Derived()\nderived.dt = 1\n"
            + KERNEL.format(f"x[i] * wp.static(float({what}))"),
            2,
            3,
        )
        for what in ("Config().dt", "made()", "made[0]", "len(made)", "made * 1", "f'{made}'", "derived()")
    },
    "object": (
        "def helper(config):\n    return config.deep.size\n" + KERNEL.format("x[i] * wp.static(helper(GIVEN))"),
        *(__import__("types").SimpleNamespace(deep=__import__("types").SimpleNamespace(size=k)) for k in (2.0, 3.0)),
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_value_that_the_kernel_depends_on_counts(module, name):
    text, one, other = COUNTED[name]
    if "SimpleNamespace" in repr(one):  # a type of C's, which may hide something
        kind = type("Config", (), {})
        one, other = (_config(kind, x) for x in (one, other))
    first, again, second = (content(module(text, GIVEN=x).kernel) for x in (one, one, other))
    assert first is not None and first == again
    assert second not in (first, None)


def _config(kind, space):
    made, deep = kind(), kind()
    deep.size = space.deep.size
    made.deep = deep
    return made


UNKNOWN = {
    "a pattern whose class names the attributes": (
        "class P:\n    __match_args__ = ('size',)\n    size = 2.0\np = P()\n"
        "def helper():\n    match p:\n        case P(2.0):\n            return 1.0\n    return 5.0\n"
        + KERNEL.format("x[i] * wp.static(helper())")
    ),
    "random": KERNEL.format("x[i] * wp.static(random.random())"),
    "random of NumPy": KERNEL.format("x[i] * wp.static(float(np.random.rand()))"),
    "file": KERNEL.format("x[i] * wp.static(len(open('/dev/null').read()))"),
    "time, behind a function": "import time\ndef f():\n    return time.time()\n"
    + KERNEL.format("x[i] * wp.static(f())"),
    **{
        f"file, through NumPy's {name}": KERNEL.format(f"x[i] * wp.static(float(np.{name}('/dev/null').sum()))")
        for name in ("load", "loadtxt", "fromfile", "genfromtxt", "memmap")
    },
    "file, through NumPy by another name": "from numpy import loadtxt as f\n"
    + KERNEL.format("x[i] * wp.static(float(f('/dev/null')))"),
    "random of NumPy, by another name": "from numpy import random as r\n" + KERNEL.format("x[i] * wp.static(r.rand())"),
    "module that a function imports": "def f():\n    import time\n    return time.time()\n"
    + KERNEL.format("x[i] * wp.static(f())"),
    "module that has not been imported": "def f():\n    import space_of_nobody\n    return 1.0\n"
    + KERNEL.format("x[i] * wp.static(f())"),
    "name that a module has not got": "def f():\n    from math import nothing\n    return 1.0\n"
    + KERNEL.format("x[i] * wp.static(f())"),
    "settings of jwarp": KERNEL.format("x[i] * float(wp.static(len(wp.config.cache_dir)))"),
    "attribute in a text": "def f():\n    return float('{0.pi}'.format(math))\n"
    + KERNEL.format("x[i] * wp.static(f())"),
    "state of jwarp": KERNEL.format("x[i] * float(wp.static(len(wp.get_devices())))"),
    "fields of a dataclass": "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int = 1\n"
    + KERNEL.format("x[i] * wp.static(float(len(dataclasses.fields(D))))"),
    "property": "class Config:\n    @property\n    def k(self):\n        return 2.0\n\nc = Config()\n"
    + KERNEL.format("x[i] * c.k"),
    "property of a member": "class Kind(enum.Enum):\n    A = 1\n    @property\n    def k(self):\n        return 2.0\n\n"
    + KERNEL.format("x[i] * Kind.A.k"),
    "property of a tuple": "import collections\nclass T(collections.namedtuple('T', 'a')):\n    @property\n"
    "    def k(self):\n        return 2.0\n\nt = T(1.0)\n" + KERNEL.format("x[i] * wp.static(t.k)"),
    "property of a class": "class Meta(type):\n    @property\n    def k(cls):\n        return 2.0\n\n"
    "class M(metaclass=Meta): ...\n" + KERNEL.format("x[i] * M.k"),
    "attribute that a class computes": "class Config:\n    def __getattr__(self, name):\n        return 2.0\n\n"
    "c = Config()\n" + KERNEL.format("x[i] * c.k"),
    "attribute that a module computes": "space = types.ModuleType('space')\nspace.__getattr__ = lambda name: 2.0\n"
    + KERNEL.format("x[i] * space.k"),
    "entry that a mapping computes": "import collections.abc\nclass Table(collections.abc.Mapping):\n"
    "    def __getitem__(self, key):\n        return wp.sin\n    def __len__(self):\n        return 1\n"
    "    def __iter__(self):\n        return iter('a')\n\nt = Table()\n" + KERNEL.format("t['a'](x[i])"),
    "array that changes": "t = wp.array([1.0], dtype=float)\n" + KERNEL.format("x[i] * wp.static(float(t.numpy()[0]))"),
    "view of an array that changes": "t = wp.zeros(3, dtype=float)[1:]\n" + KERNEL.format("wp.static(float(t.size))"),
    "hidden state": "import functools\nf = functools.partial(max, 2)\n" + KERNEL.format("x[i] * wp.static(f(1))"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_python_may_evaluate_to_something_else_has_no_digest(module, name):
    assert content(module(UNKNOWN[name]).kernel) is None


def test_an_edit_of_the_file_counts(module):
    text = KERNEL.format("x[i] * 2.0")
    assert content(module(text).kernel) != content(module(text.replace("2.0", "3.0")).kernel)


def test_what_the_code_of_functions_has_no_names_of_is_not_kept(module, monkeypatch):
    """An annotation of a variable, and an attribute of a module that another function was given."""
    texts = {
        "annotation": KERNEL.format("0.0\n    a: GIVEN = 1\n    y[i] += float(a)"),
        "attribute in an annotation": "import types\nops = types.ModuleType('ops')\nops.REAL = wp.int64\n"
        + KERNEL.format("0.0\n    a: ops.REAL = 1\n    y[i] += float(a)"),
        "object": "class Config:\n    k = 2.0\n\nc = Config()\n\n@wp.func\ndef f(c: wp.Function, a: float):\n"
        "    return c.k * a\n" + KERNEL.format("f(c, x[i])"),
        "module": "@wp.func\ndef f(m: wp.Function, a: float):\n    return m.tau * a\n" + KERNEL.format("f(math, x[i])"),
    }
    for name, text in texts.items():
        kernel = module(text, GIVEN=wp.int64).kernel
        assert kernel._read((16, False))[1] is None, name
    for text in ("x[i] * 2.0", "x[i]\n    a: wp.float64 = 1\n    y[i] += float(a)"):
        assert module(KERNEL.format(text)).kernel._read((16, False))[1] == []


def test_ordinary_kernels_have_digests(module):
    texts = {
        "numbers": "wp.static(2.0 * math.pi + float(np.sqrt(K)) + min(K, 2.0) + np.pi) * wp.static(abs(wp.pi))",
        "member": "x[i] * wp.static(float(Kind.A | Kind.B)) * float(Kind.A)",
        "array": "x[i] * wp.static(float(np.array([1.0, 2.0]).sum() + wp.vec3(K, 1.0, 1.0)[0]))",
        "function": "wp.static(made(2.0))(x[i]) * wp.static(K if Kind.A in (1, 2) else K * 2.0)",
        "attribute": "x[i] * c.size * wp.static(c.size)",
    }
    program = (
        "import collections\nK = 2.0\nclass Kind(enum.IntFlag):\n    A = 1\n    B = 2\n\n"
        "class Config:\n    size = 2.0\n\n"
        "c = Config()\nt = collections.namedtuple('T', 'a')(3.0)\n\ndef made(k):\n    @wp.func\n    def f(a: float):\n"
        "        return a * k\n\n    return f\n"
    )
    for name, text in texts.items():
        assert content(module(program + KERNEL.format(text)).kernel) is not None, name
    assert content(module(program + KERNEL.format("x[i] * c.size * t[0]")).kernel) is not None


@wp.struct
class Pair:
    a: float
    b: wp.vec3


@wp.func
def turned(p: Pair, k: int) -> float:
    total = p.a
    for j in range(3):
        if j != k:
            total += wp.sin(p.b[j])
    return total


@wp.kernel
def various(x: wp.array[Pair], n: int, y: wp.array2d[float]):
    i, j = wp.tid()
    local = wp.zeros(shape=5, dtype=float)
    for k in range(n):
        local[k % 5] = turned(x[i], k)
    wp.atomic_max(y, i, j, local[j])
    if n > 100:
        wp.printf("%d\n", n)


def test_an_entry_gives_the_kernel_back():
    kernel = various.ir()
    plain = dataclasses.replace(kernel)
    assert type(plain) is Kernel
    entry = to_entry(known(plain))
    found = from_entry(entry)
    assert isinstance(found, KnownKernel) and not hasattr(found, "_content")
    assert (to_bytes(found), fingerprint(found)) == (to_bytes(plain), fingerprint(plain))
    assert found.facts == known(plain).facts
    assert (found.params, found.locals, found.span, found.tid_dims) == (
        plain.params,
        plain.locals,
        plain.span,
        plain.tid_dims,
    )
    assert not hasattr(found, "_content")
    assert format_kernel(found) == format_kernel(plain)
    assert [n.span for n in found.body.nodes] == [n.span for n in plain.body.nodes]
    changed = dataclasses.replace(found, name="other")
    assert type(changed) is Kernel and fingerprint(changed) != fingerprint(found)


PROGRAM = """
import json, sys, warnings
said = []
warnings.showwarning = lambda message, category, file, line, *_: said.append([str(message), line])
import numpy as np
import jwarp as wp
from jwarp.frontend import kernel as kernel_module

read = []
original = kernel_module.lower_kernel_source
def counted(source, *args, **named):
    read.append(source.name)
    return original(source, *args, **named)
kernel_module.lower_kernel_source = counted

@wp.kernel
def plain(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]

@wp.kernel
def warns(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 1.0:
        late = x[i]
    y[i] = late

@wp.kernel
def tiled(x: wp.array[float], y: wp.array[float]):
    i, _ = wp.tid()
    t = wp.tile_load(x, shape=4, offset=4 * i)
    wp.tile_store(y, wp.tile_sum(t), offset=i)

x = np.arange(8.0, dtype=np.float32)
results = []
for kernel in (plain, warns):
    y = np.zeros(8, np.float32)
    wp.launch(kernel, 8, [x], [y])
    results.append(y.tolist())
y = np.zeros(2, np.float32)
wp.launch_tiled(tiled, 2, [x], [y], block_dim=32)
results.append(y.tolist())
import jax, jax.numpy as jnp
results.append(jax.grad(lambda x: wp.jax_kernel(plain)(x)[0].sum())(jnp.asarray(x)).tolist())
print(json.dumps([results, read, said]))
"""


def test_another_process_does_not_read_a_kernel_again(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def run():
        code = "import runpy; runpy.run_path('program.py', run_name='__main__')"
        return json.loads(run_forked(code, tmp_path, cache_dir=str(tmp_path / "cache")).splitlines()[-1])

    (first, read, said), (second, again, said_again) = run(), run()
    assert said == said_again and len(said) == 1  # who is warned is warned each time
    assert first == second
    assert first[0] == (2.0 * np.arange(8)).tolist() and first[2] == [6.0, 22.0]
    assert sorted(set(read)) == ["plain", "tiled", "warns"]
    assert not again
    assert config.settings.cache_dir  # as in this one


PROGRAM_OF_WARP = """
import warp as wp
from jwarp.frontend import kernel as kernel_module
import json, types

read = []
original = kernel_module.lower_kernel_source
def counted(source, *args, **named):
    read.append(source.name)
    return original(source, *args, **named)
kernel_module.lower_kernel_source = counted
wp.factor = FACTOR

def scale(k):
    import math
    return math.floor(k + 0.5)

@wp.func
def first(x: float):
    dir = wp.vec3(x, 0.0, 0.0)  # also a function of Python's
    return dir[0]

def create(k):
    @wp.func
    def scaled(x: float):
        return first(x) * wp.static(float(scale(k)))
    return scaled

scaled = create(2.2)

@wp.kernel
def plain(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.static(scaled)(x[i]) * wp.factor

given, out = wp.array([1.0, 2.0], dtype=float), wp.zeros(2)
wp.launch(plain, 2, [given], [out])
print(json.dumps([out.numpy().tolist(), read]))
"""


def test_another_process_does_not_read_a_kernel_of_a_program_again(tmp_path):
    def run(factor):
        (tmp_path / "program.py").write_text(PROGRAM_OF_WARP)
        start = f"import builtins, runpy; builtins.FACTOR = {factor}; runpy.run_path('program.py')"
        (tmp_path / "start.py").write_text(start)
        said = run_program("start.py", folder=tmp_path, cache_dir=str(tmp_path / "cache"))
        return json.loads(said.splitlines()[-1])

    assert run(3.0) == [[6.0, 12.0], ["plain"]]
    assert run(3.0) == [[6.0, 12.0], []]
    assert run(4.0) == [[8.0, 16.0], ["plain"]]  # the text is the same: what a program set in Warp's module counts


SETTINGS = """
import warp as wp
from jwarp.frontend.content import content_of

@wp.kernel
def kernel(y: wp.array[float]):
    y[0] = float(wp.static(int(wp.config.max_unroll)))

@wp.kernel
def other(y: wp.array[float]):
    y[0] = float(wp.static(int(wp.pi)))

for k in (kernel, other):
    print(content_of(k.python, k._definition, k.signature) is None)
"""


def test_what_the_class_of_a_module_computes_has_no_digest(tmp_path):
    (tmp_path / "program.py").write_text(SETTINGS)
    assert run_program("program.py", folder=tmp_path).split() == ["True", "False"]


def test_what_warp_evaluated_when_a_kernel_was_defined_counts():
    warp = pytest.importorskip("warp")
    from jwarp.frontend.foreign.kernels import as_kernel

    def made():
        for n in (2, 3, 3):

            @warp.kernel(module="unique")
            def scaled(x: warp.array(dtype=float), y: warp.array(dtype=float)):
                i = warp.tid()
                y[i] = x[i] * float(warp.static(n))

            yield scaled

    two, three, again = (content(as_kernel(kernel)) for kernel in list(made()))
    assert None not in (two, three) and two != three and three == again
