"""Vectors, matrices and numbers outside kernels in whole programs: Warp's operators, components and comparisons."""

from __future__ import annotations

import pytest
from fresh_python import run_forked, run_program

# Each line is evaluated and shown with the type of what comes out, or the kind of error.
LINES = """
wp.vec3(1.0, 2.5, 3.0)
str(wp.vec3(1.0, 2.5, 3.0))
str(wp.mat22(1.0, 2.0, 3.0, 4.0))
wp.vec3i(1, 2, 3)
wp.vec3d(1.0, 2.0, 3.0)
wp.vec3d(1.0, 2.0, 3.0)[0]
wp.vec3(1.0, 2.0, 3.0)[-1]
wp.vec3i(1, 2, 3)[0]
wp.vec3(1.0, 2.0, 3.0).y
wp.types.vector(3, wp.int8)(1, 2, 3)[0]
wp.transform()
wp.transform()[0:2]
wp.vec3(1.0, 2.0, 3.0)[0:2]
wp.vec3(1.0, 2.0, 3.0) * 2.0
2.0 * wp.vec3(1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) + 1.0
1.0 - wp.vec3(1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) + wp.vec3(1.0, 2.0, 3.0)
-wp.vec3(1.0, 2.0, 3.0)
12.0 / wp.vec3(1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) * np.float32(2)
np.float32(2) * wp.vec3(1.0, 2.0, 3.0)
wp.float32(2.0) * wp.vec3(1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) * wp.float32(2.0)
wp.float32(12.0) / wp.vec3(1.0, 2.0, 3.0)
wp.vec3d(1.0, 2.0, 3.0) / wp.float64(2.0)
wp.int32(7) / wp.vec3i(1, 2, 3)
wp.mat22(1.0, 2.0, 3.0, 4.0).get_col(1)
wp.mat22(1.0, 2.0, 3.0, 4.0).get_row(-1)
wp.mat22(1.0, 2.0, 3.0, 4.0)[0, 1, 0]
wp.mat22(1.0, 2.0, 3.0, 4.0)["a"]
wp.vec3()[0, 1]
np.dtype(wp.float32)
wp.int16._type_(70000).value
wp.vec3(1.0, 2.0, 3.0) + wp.vec3d(1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) * wp.vec3(1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) * wp.float64(2.0)
wp.vec3i(7, 2, 3) / 2
wp.vec3i(-7, 2, 3) % wp.vec3i(2, 2, 2)
wp.mat22(1.0, 2.0, 3.0, 4.0) * wp.vec2(1.0, 2.0)
wp.mat22(1.0, 2.0, 3.0, 4.0) @ wp.vec2(1.0, 2.0)
str(wp.mat22(1.0, 2.0, 3.0, 4.0) * wp.mat22(1.0, 2.0, 3.0, 4.0))
wp.mat22(1.0, 2.0, 3.0, 4.0)[0]
wp.mat22(1.0, 2.0, 3.0, 4.0)[0, 1]
wp.mat22(1.0, 2.0, 3.0, 4.0)[1][0]
wp.mat22(1.0, 2.0, 3.0, 4.0)[:, 0]
len(wp.mat22(1.0, 2.0, 3.0, 4.0))
wp.vec3(1.0, 2.0, 3.0) == (1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) == np.array([1.0, 2.0, 3.0])
wp.vec3(1.0, 2.0, 3.0) == wp.vec3i(1, 2, 3)
wp.vec3(1.0, 2.0, 3.0) == wp.vec3(1.0, 2.0, 4.0)
wp.vec3(1.0, 2.0, 3.0) == wp.vec2(1.0, 2.0)
wp.vec3(1.0, 2.0, 3.0) != wp.vec3(1.0, 2.0, 3.0)
wp.vec3(1.0, 2.0, 3.0) == None
wp.mat22(1.0, 2.0, 3.0, 4.0) == wp.mat22(1.0, 2.0, 3.0, 4.0)
wp.vec3(math.nan) == wp.vec3(math.nan)
hash(wp.vec3())
bool(wp.vec3())
wp.vec3() < wp.vec3()
wp.vec2(1.0, 2.0).z
hasattr(wp.vec2(), "z")
wp.vec3()[5]
wp.vec3()["a"]
np.sin(wp.vec3(1.0, 2.0, 3.0)) * 2
wp.quat_identity() * wp.quat_identity()
wp.transform_identity() * wp.transform_identity()
wp.dot(wp.vec3(1.0, 2.0, 3.0), wp.vec3(1.0, 2.0, 3.0))
wp.dot(wp.vec3d(1.0, 2.0, 3.0), wp.vec3d(1.0, 2.0, 3.0))
wp.sin(1.0) == float(np.sin(np.float32(1.0)))
wp.min(1, 2)
wp.int8(128)
str(wp.int8(128))
wp.uint8(-1)
wp.float32(2.0)
wp.float32(2.0) * wp.float32(3.0)
wp.float16(2.0) * wp.float16(3.0)
wp.float16(2.0) * wp.float32(3.0)
wp.int32(7) / wp.int32(2)
wp.int32(-7) % wp.int32(2)
wp.int32(7) ** wp.int32(2)
-wp.int8(5)
wp.int32(5).value
[1, 2, 3][wp.int32(1)]
range(wp.int32(3))
list(wp.vec3(1.0, 2.0, 3.0))
isinstance(wp.vec3(), wp.vec3)
isinstance(wp.vec3(), wp.vec3d)
isinstance(wp.float32(1.0), wp.float32)
type(wp.vec3()) is wp.vec3
type(wp.vec3() + wp.vec3()) is wp.vec3
wp.rand_init(42)
type(wp.float32(2.0) * wp.zeros(3)).__name__
""".strip().splitlines()

SHOW = """
import math
import numpy as np
import warp as wp
for line in LINES:
    try:
        found = eval(line)
        print(type(found).__name__.replace("vec_t", "vec"), repr(found))
    except Exception as error:
        print("error", type(error).__name__ if isinstance(error, (KeyError, IndexError, AttributeError)) else "")
"""


def shown(first: str, names: dict[str, str]) -> list[str]:
    lines = run_forked(f"{first}\nLINES = {LINES!r}\n{SHOW}").splitlines()
    kept = [line for line in lines if not line.startswith(("Warp ", "Module ", "   "))]
    return [" ".join(names.get(word, word) for word in line.split(" ")) for line in kept]


def test_values_are_shown_and_computed_as_warp_does():
    pytest.importorskip("warp")
    # Warp's own names of classes that it makes of others.
    theirs = shown("", {"vec": "vec2f", "transform_t": "transformf"})
    ours = shown("import jwarp.as_warp", {})
    assert len(theirs) == len(LINES)
    for line, mine, other in zip(LINES, ours, theirs, strict=True):
        named = line in ("wp.vec3(1.0, 2.0, 3.0) + 1.0", "1.0 - wp.vec3(1.0, 2.0, 3.0)")
        if named or ("/" in line and "vec" in line) or "get_" in line:  # of what class Warp makes them
            mine, other = mine.partition(" ")[2], other.partition(" ")[2]
        assert mine == other, line


def test_changes_of_values_are_warps():
    run_forked(
        """
        import jwarp.as_warp
        import copy, pickle
        import numpy as np
        import warp as wp
        from jwarp.errors import KernelTypeError

        v = wp.vec4(1.0, 2.0, 3.0, 4.0)
        first = v
        v += wp.vec4(1.0)  # another value
        assert first == (1.0, 2.0, 3.0, 4.0) and v == (2.0, 3.0, 4.0, 5.0)
        v[1:3] = (-2, -3)
        v.x, v[3] = 7, wp.float32(9.0)
        assert v == (7.0, -2.0, -3.0, 9.0)
        part = v[0:2]
        part[0] = 0.0  # a copy
        assert v.x == 7.0 and type(v.x) is float
        m = wp.mat22(1.0, 2.0, 3.0, 4.0)
        m[0] = wp.vec2(5.0, 6.0)
        m[1, 1] = 8.0
        assert m == ((5.0, 6.0), (3.0, 8.0)) and m != ((5.0, 6.0), (3.0, 9.0))
        whole = wp.vec3i(1, 2, 3)
        for wrong in (1.5, "a", (1.5, 2)):
            try:
                whole[0:2] = wrong
            except KernelTypeError as error:
                assert isinstance(error, TypeError)
            else:
                raise AssertionError(wrong)
        assert whole == (1, 2, 3)
        for made in (v, m, wp.transform(), wp.quat_identity(), whole):
            for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
                assert type(copied) is type(made) and copied == made and copied is not made
        """
    )


KERNEL = """
import numpy as np
import warp as wp

@wp.kernel
def k(v: wp.vec4, s: wp.float64, n: wp.uint8, out: wp.array[float]):
    out[0] = v[3] + float(s) + float(n)

out = wp.zeros(1, dtype=float)
for _ in range(3):
    wp.launch(k, dim=1, inputs=[wp.vec4(9.0), wp.float64(0.5), wp.uint8(-1), out])
    assert out.numpy()[0] == 9.0 + 0.5 + 255.0
a = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
for product in (lambda: wp.float32(2.0) * a, lambda: a * wp.float32(2.0)):
    with wp.Tape() as tape:
        twice = product()
    assert type(twice) is wp.array and len(tape.launches) == 1 and twice.numpy().tolist() == [2.0, 4.0]
"""


def test_kernels_take_the_values(tmp_path):
    (tmp_path / "program.py").write_text(KERNEL)
    run_program(tmp_path / "program.py")


NUMBERS = """
import numpy as np
import warp as wp

@wp.kernel
def convert(a: wp.array(dtype=wp.float16), b: wp.array(dtype=float), c: wp.array(dtype=int)):
    i = wp.tid()
    b[i] = wp.float(a[i]) * 2.0
    c[i] = wp.int(a[i])

given = np.random.default_rng(0).uniform(-90, 90, 50).astype(np.float16)
b, c = wp.zeros(50, dtype=float), wp.zeros(50, dtype=int)
wp.launch(convert, dim=50, inputs=[wp.array(given)], outputs=[b, c])
assert (b.numpy() == given.astype(np.float32) * 2).all()
assert (c.numpy() == given.astype(np.int32)).all()
"""


def test_int_and_float_by_warps_names_in_kernels(tmp_path):
    (tmp_path / "numbers.py").write_text(NUMBERS)
    run_program(tmp_path / "numbers.py")


OVERLOAD = """
import types
from typing import Any
import numpy as np
import warp as wp

@wp.kernel
def double(x: wp.array[Any]):
    i = wp.tid()
    x[i] = x[i] + x[i]

def double(x: wp.array[wp.float64]) -> types.NoneType: ...

kernel = wp.overload(double)
assert len(kernel.overloads) == 1
assert wp.vec3.__name__ == "vec3f" and wp.mat22h.__name__ == "mat22h" and wp.quat.__name__ == "quatf"
assert wp.ref[wp.vec3].dtype is wp.vec3 and wp.ref[float].value_type is float
sums = wp.array([1.0, 2.0], dtype=float)
try:
    wp.map(lambda x: 2.0 * x, sums, out=wp.zeros(2, dtype=int))
except TypeError as error:
    assert str(error).endswith("Output array dtype int32 does not match expected dtype float32"), error
else:
    raise AssertionError
class Source:
    def __dlpack_device__(self):
        return 1, 0
    def __dlpack__(self, **_):
        return object()
try:
    wp.from_dlpack(Source())
except TypeError as error:
    assert "Expected a valid DLPack capsule, got object" in str(error)
else:
    raise AssertionError
"""


def test_small_parts_of_the_surface(tmp_path):
    (tmp_path / "overload.py").write_text(OVERLOAD)
    run_program(tmp_path / "overload.py")


def test_components_set_to_values_of_another_shape_are_refused():
    shown = run_forked("""
    import jwarp.as_warp
    import warp as wp

    for value, key, given in [
        (wp.vec3(1.0, 2.0, 3.0), slice(0, 2), (7.0, 8.0, 9.0)),
        (wp.mat22(1.0, 2.0, 3.0, 4.0), 1, (7.0, 8.0, 9.0)),
        (wp.vec3(1.0, 2.0, 3.0), 0, (7.0, 8.0)),
    ]:
        before = str(value)
        try:
            value[key] = given
        except wp.LaunchError as error:
            print(str(value) == before, error)
    """)
    assert [line.split(" of a ")[0] for line in shown.splitlines()] == [
        "True components of shape (2,)", "True components of shape (2,)", "True components of shape ()",
    ]  # fmt: skip


LEGACY = """
import warp as wp
wp.config.legacy_scalar_return_types = True
half = wp.types.vector(3, wp.float16)(1.0, 2.0, 3.0)[0]
print(type(half), type(wp.sin(wp.float64(1.23))), type(wp.types.vector(3, wp.int16)(1, 2, 3)[0]))
wp.config.legacy_scalar_return_types = False
print(isinstance(wp.types.vector(3, wp.float16)(1.0, 2.0, 3.0)[0], wp.float16))


class Derived(wp.float32):
    pass


print(np.dtype(Derived), Derived.bits, Derived.is_float)
"""


def test_numbers_of_python_by_a_setting():
    assert run_forked("import jwarp.as_warp\nimport numpy as np\n" + LEGACY).splitlines() == [
        "<class 'float'> <class 'float'> <class 'int'>", "True", "float32 32 True"
    ]  # fmt: skip


def test_operators_that_there_are_not():
    lines = run_forked("""
import jwarp.as_warp
import warp as wp
try:
    wp.mat22() * wp.mat22d()
except RuntimeError as error:
    print(error, error.__notes__)
""").splitlines()
    assert lines[0].startswith(
        "Couldn't find a function 'mul' compatible with the arguments 'mat22f, mat22d' ['  help:"
    )
