"""The tables and functions of `warp._src`: those of an installed Warp, in jwarp's types."""

from __future__ import annotations

import warnings
from types import new_class
from typing import Any, Literal

import numpy as np
import pytest
from fresh_python import run_forked

import jwarp as wp
from jwarp.programs import internals

TYPES = internals.MODULES["types"]()


def test_tables_of_scalar_types():
    assert TYPES["int_types"] == (*(wp.int8, wp.uint8, wp.int16, wp.uint16, wp.int32, wp.uint32, wp.int64, wp.uint64),)
    assert TYPES["scalar_types"] == TYPES["int_types"] + TYPES["float_types"]
    for dtype, kind in TYPES["np_dtype_to_warp_type"].items():
        assert np.dtype(TYPES["warp_type_to_np_dtype"][kind]) == np.dtype(dtype)
    assert TYPES["vector"](4, wp.float16) is wp.vec4h and TYPES["matrix"]((3, 3), float) is wp.mat33


def named(thing):
    return getattr(thing, "__name__", str(thing)).rstrip("_")


def test_tables_have_the_entries_of_warp():
    theirs = pytest.importorskip("warp")._src.types
    for table in ("int_types", "float_types", "scalar_types", "non_atomic_types"):
        assert [named(kind) for kind in TYPES[table]] == [named(kind) for kind in getattr(theirs, table)]
    for table in ("np_dtype_to_warp_type", "warp_type_to_np_dtype"):
        ours = {named(key): named(value) for key, value in TYPES[table].items()}
        their = {named(key): named(value) for key, value in getattr(theirs, table).items() if named(key) != "handle"}
        assert ours == their
    assert len(TYPES["vector_types"]) == len(theirs.vector_types)


def test_functions_of_types_against_warp():
    theirs = pytest.importorskip("warp")._src.types
    warp = pytest.importorskip("warp")
    rng = np.random.default_rng(1)
    for shape in ((5,), (3, 4), (2, 3, 5), (1, 7, 2, 3)):
        for name in ("float32", "float64", "uint8", "vec3", "mat22d"):
            expected = theirs.strides_from_shape(shape, getattr(warp, name))
            assert TYPES["strides_from_shape"](shape, getattr(wp, name)) == expected
    for name in ("int8", "uint16", "float16", "float64", "bool", "vec3d", "quat"):
        assert TYPES["type_typestr"](getattr(wp, name)) == theirs.type_typestr(getattr(warp, name))
    for nested in ([1, 2, 3], [[1, 2], [3, 4]], [[[0.5]], [[1.5]]]):
        assert TYPES["flatten"](nested) == theirs.flatten(nested)
    with pytest.raises(ValueError, match="several shapes"):
        TYPES["flatten"]([[1, 2], [3]])
    numbers = rng.normal(size=50).astype(np.float32)
    bits = TYPES["_np_float32_to_bfloat16_bits"](numbers)
    np.testing.assert_array_equal(bits, theirs._np_float32_to_bfloat16_bits(numbers))
    np.testing.assert_array_equal(
        TYPES["_np_bfloat16_bits_to_float32"](bits), theirs._np_bfloat16_bits_to_float32(bits)
    )


def test_bits_of_numbers():
    for x in (0.0, -1.5, 3.140625, 65504.0):
        bits = TYPES["float_to_half_bits"](x)
        assert bits == int(np.float16(x).view(np.uint16)) and TYPES["half_bits_to_float"](bits) == x
    assert TYPES["float_to_bfloat16_bits"](1.0) == 0x3F80 and TYPES["bfloat16_bits_to_float"](0xC000) == -2.0


def test_shapes_that_arrays_do_not_have():
    TYPES["check_array_shape"]((3, 0, 2**31 - 1))
    for shape, text in (((3, -1), "non-negative"), ((2**31, 1), "32-bit")):
        with pytest.raises(ValueError, match=text):
            TYPES["check_array_shape"](shape)


def test_classes_of_all_numbers():
    assert isinstance(wp.int8(3), TYPES["int_base"]) and isinstance(wp.bfloat16(3), TYPES["float_base"])
    assert not isinstance(wp.float32(3), TYPES["int_base"]) and not isinstance(3.0, TYPES["scalar_base"])
    assert issubclass(wp.uint64, TYPES["scalar_base"]) and issubclass(TYPES["float_base"], TYPES["scalar_base"])


def test_private_objects_may_be_imported_and_not_used():
    context = internals.MODULES["context"]()
    for use in (lambda x: x(), lambda x: x.build, lambda x: [*x], lambda x: new_class("Own", (x,))):
        with pytest.raises(AttributeError, match=r"warp\._src\.context\.ModuleBuilder: an internal part of Warp"):
            use(context["ModuleBuilder"])


def test_modules_of_programs_are_listed():
    module = wp.get_module("tests.internals.listed")
    assert internals.MODULES["context"]()["user_modules"]["tests.internals.listed"] is module


def test_warnings_that_are_said_once():
    logger = internals.MODULES["logger"]()
    logger["_warnings_seen"].clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            logger["log_warning"]("old", category=DeprecationWarning)
            logger["log_warning"]("often")
    assert [str(each.message) for each in said] == ["old", "often", "often", "often"]
    assert all(each.filename == __file__ for each in said)
    with wp.ScopedLogLevel(wp.LOG_ERROR):
        logger["log_warning"]("quiet")


def test_messages_by_level(capsys):
    logger = internals.MODULES["logger"]()
    for level, shown in ((wp.LOG_DEBUG, "ab"), (wp.LOG_INFO, "b"), (wp.LOG_WARNING, "")):
        with wp.ScopedLogLevel(level):
            logger["log_debug"]("a")
            logger["log_info"]("b")
        assert capsys.readouterr().out.replace("\n", "") == shown
    logger["log_error"]("c")
    assert capsys.readouterr().err == "c\n"


def test_settings_may_be_patched():
    run_forked(
        """
        import jwarp.as_warp
        from unittest import mock
        import warp as wp, warp.config, jwarp

        wp.config.max_unroll = 7
        with mock.patch.object(wp.config, "max_unroll", 3), mock.patch.object(wp.config, "cache_kernels", False):
            assert wp.config.max_unroll == jwarp.config.max_unroll == 3 and not wp.config.cache_kernels
        assert wp.config.max_unroll == jwarp.config.max_unroll == 7 and wp.config.cache_kernels
        del wp.config.verify_fp
        assert not hasattr(wp.config, "verify_fp")
        wp.config.verify_fp = False
        assert wp.config.verify_fp is False
        """
    )


CODES = [
    (float, "f4"),
    (wp.bool, "b"),
    (wp.bfloat16, "bf2"),
    (wp.uint64, "u8"),
    (wp.vec3h, "v3f2"),
    (wp.types.matrix((2, 5), wp.int16), "m25i2"),
    (wp.quatd, "qf8"),
    (wp.transform, "tf4"),
    (tuple[float, wp.vec3], "tpl2f4v3f4"),
    (tuple[wp.vec3, ...], "tpl2v3f4?"),
    (wp.array[int], "a1i4"),
    (wp.array(dtype=wp.vec3, ndim=3), "a3v3f4"),
    (wp.array2d[Any], "a2?"),
    (wp.indexedarray2d[wp.float64], "ia2f8"),
    (wp.indexedarray[Any], "ia1?"),
    (wp.tile[float], "tlf4?"),
    (wp.tile[float, 8, 4], "tlf48x4"),
]


@pytest.mark.parametrize("kind, code", CODES)
def test_codes_of_types(kind, code):
    assert TYPES["get_type_code"](kind) == code
    if code[0] in "ai":
        assert TYPES["array_type_id"](kind) == TYPES["ARRAY_TYPE_INDEXED" if code[0] == "i" else "ARRAY_TYPE_REGULAR"]


def test_codes_of_what_kernels_do_not_know():
    for kind in (str, object(), int | None):
        with pytest.raises(TypeError):
            TYPES["get_type_code"](kind)
        with pytest.raises(ValueError, match="array"):
            TYPES["array_type_id"](kind)


def test_generic_names_of_types():
    assert TYPES["Vector"][float, Literal[3]] is wp.vec3 and TYPES["Matrix"][wp.float64, 2, 2] is wp.mat22d
    assert TYPES["Vector"][float, Any] is Any and TYPES["Array"][float] is Any
    assert TYPES["Quaternion"][wp.float64] is wp.quatd and TYPES["Transformation"][float] is wp.transform
    assert [t._wp_generic_type_str_ for t in (wp.vec2l, wp.mat33, wp.quat)] == ["vec_t", "mat_t", "quat_t"]


def test_the_cache_of_maps_grows_with_types():
    cache = internals.MODULES["utils"]()["map_cache"]
    cache.clear()
    for dtype, size in ((float, 1), (float, 1), (wp.float64, 2)):
        wp.map(lambda x, y: x + y, wp.ones(3, dtype=dtype), wp.ones(3, dtype=dtype))
        assert len(cache) == size


def test_modules_of_kernels_by_name(tmp_path):
    (tmp_path / "kernels_of_its_own.py").write_text(
        "import warp as wp\n@wp.kernel\ndef k(x: wp.array[float]):\n    x[0] = 1.0\n"
    )
    text = """
import jwarp.as_warp, sys
import warp as wp
from warp._src.context import user_modules
name = "kernels_of_its_own"
try:
    user_modules[name]
except KeyError as error:
    print("before", error)
import kernels_of_its_own
first = user_modules[name]
print(first is kernels_of_its_own.k.module, name in user_modules, name in [*user_modules])
del user_modules[name]
print(user_modules[name] is not first)
for shape in (2**31, (3, 2**31)):
    try:
        wp.zeros(shape, dtype=wp.int8)
    except ValueError as error:
        print(str(error)[:43])
"""
    shown = run_forked(text, tmp_path).splitlines()
    assert shown == [
        "before 'kernels_of_its_own'",
        "True True True",
        "True",
        *["Array shapes must not exceed the maximum re"] * 2,
    ]
