"""Annotations of arrays as objects: they compare, are shown as they are written, are pickled, and stand in unions."""

from __future__ import annotations

import pickle
import re
import typing
from typing import Any, Literal

import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.types.annotations import refuse_unions

WRITTEN = {
    "wp.array[wp.float32]": lambda: wp.array[float],
    "wp.array3d[wp.vec3f]": lambda: wp.array3d[wp.vec3],
    "wp.array2d[wp.mat44d]": lambda: wp.array[wp.mat44d, Literal[2]],
    "wp.array[Any]": lambda: wp.array[Any],
    "wp.array2d[wp.int32]": lambda: wp.array2d[int],
    "wp.indexedarray[wp.float32]": lambda: wp.indexedarray[float],
    "wp.indexedarray[wp.quatf, Literal[3]]": lambda: wp.indexedarray[wp.quat, 3],
    "wp.fabricarray[wp.uint8, Literal[2]]": lambda: wp.fabricarray[wp.uint8, 2],
    "wp.indexedfabricarray[wp.float64]": lambda: wp.indexedfabricarray[wp.float64],
}


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


@pytest.mark.parametrize("text", WRITTEN)
def test_an_annotation_is_shown_as_it_is_written(text):
    made = WRITTEN[text]()
    assert repr(made) == text
    again = eval(text, {"wp": wp, "Any": Any, "Literal": Literal})
    assert again == made == pickle.loads(pickle.dumps(made)) and hash(again) == hash(made)
    assert not hasattr(made, "__dict__") and not isinstance(made, (wp.array, wp.indexedarray))
    assert [other for other in WRITTEN if WRITTEN[other]() == made] == [text]


def test_an_annotation_equals_the_type_that_the_call_gives():
    assert wp.array[wp.vec3] == wp.array(dtype=wp.vec3) and wp.array2d[int] != wp.array(dtype=int)
    made = wp.array2d[wp.vec3d]
    assert made.dtype is wp.vec3d and made.ndim == 2 and wp.array[Any].dtype is Any


def test_elements_without_a_name_of_their_own():
    @wp.struct
    class Local:
        x: float

    assert repr(wp.array[wp.types.vector(5, float)]) == "wp.array[vector(length=5, dtype=float32)]"
    assert repr(wp.array[Local]).endswith("Local]")


def test_unions():
    kind, indexed = wp.array[float], wp.indexedarray[wp.float64]
    assert typing.get_args(kind | None) == (kind, type(None)) and typing.get_args(None | indexed)[-1] == indexed
    assert typing.get_args(float | kind) == (float, kind) and typing.get_args(kind | indexed) == (kind, indexed)
    assert typing.get_args(kind | float | indexed | float) == (kind, float, indexed)


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (lambda: wp.array[float, 5], ValueError, "ndim must be between 1 and 4, not 5"),
        (lambda: wp.array[float, Literal[1, 2]], TypeError, "Expected a single Literal value"),
        (lambda: wp.array2d[float, 2], TypeError, "wp.array2d.* takes a single type parameter"),
        (lambda: wp.array[str], TypeError, "element type must be a scalar"),
        (lambda: wp.array[float, Any], TypeError, "ndim must be 1 to 4"),
        (lambda: wp.tile[()], TypeError, "requires at least a dtype"),
        (lambda: wp.types.matrix((2,), float), ValueError, r"exactly two dimensions, got 1 dimension in shape \(2,\)"),
    ],
)
def test_what_is_refused(made, error, words):
    with pytest.raises(error, match=words) as caught:
        made()
    assert isinstance(caught.value, wp.KernelTypeError)


def test_programs_may_annotate_what_kernels_do_not_take(program):
    kind, open_rank = wp.array[str], wp.indexedarray[float, Any]
    assert kind.dtype is str and kind == wp.array[str] != wp.array[bytes] and open_rank.ndim is Any
    assert repr(open_rank) == "wp.indexedarray[wp.float32, Any]"
    for wrong in (kind, open_rank):
        with pytest.raises(wp.KernelTypeError, match=r"element type must be|ndim must be"):

            def k(x: wrong): ...

            k.__annotations__["x"] = wrong
            wp.kernel(k)


def test_functions_of_programs_take_no_unions(program):
    def several(x):
        return x

    several.__annotations__["x"] = wp.array[float] | int
    with pytest.raises(wp.KernelTypeError, match="`x` of `several` .* only supported at Python scope"):
        wp.func(several)


ALONE = r"write `wp\.array\[…\]` alone: None may be given for an array"


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        (wp.array[float] | None, ALONE),
        (typing.Optional[wp.array(dtype=float)], ALONE),  # noqa: UP045
        (wp.array | None, ALONE),
        (typing.Optional[float], "write the type alone$"),  # noqa: UP045
        (typing.Union[float, int], "annotate it `Any`"),  # noqa: UP007
    ],
)
def test_parameters_and_fields_of_several_types(annotation, hint):
    def k(x): ...

    k.__annotations__["x"] = annotation
    words = "`x` of kernel `k` has several types: Union type annotations are only supported at Python scope"
    with pytest.raises(wp.CompileError, match=words) as raised:
        wp.kernel(k)
    assert isinstance(raised.value, TypeError) and re.search(hint, raised.value.diagnostic.hint)
    with pytest.raises(wp.KernelTypeError, match="field 'x' has several types") as raised:
        wp.struct(type("S", (), {"__annotations__": {"x": annotation}}))
    assert re.search(hint, raised.value.diagnostic.hint)
    with pytest.raises(wp.KernelTypeError, match="`x` of `k` has several types"):
        refuse_unions(k, "@wp.func")
