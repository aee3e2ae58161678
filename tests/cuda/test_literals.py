"""Literals of C++ have the value and, where nothing is around them, the type of the constants that they stand for."""

import re

import numpy as np
import pytest

from jwarp.backend.cuda.rules import C_TYPES, literal
from jwarp.ir.nodes import Const
from jwarp.types import INTS, float32, float64

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("kind", INTS, ids=str)
def test_integers(kind):
    info = np.iinfo(kind.dtype)
    for value in sorted({int(info.min), int(info.min) + 1, -1, 0, 1, int(info.max)}):
        if value < info.min:
            continue
        text = literal(Const(kind, value))
        plain = text.replace(f"({C_TYPES[kind]})", "")
        numbers = re.findall(r"\d+", plain)
        most = max(int(info.max), 2**31 - 1)  # smaller types are made of int
        assert all(int(n) <= most for n in numbers), f"{text}: a literal has no sign, and has to fit"
        assert eval(re.sub(r"(\d+)[ul]+", r"\1", plain)) == value, text


@pytest.mark.parametrize("kind", [float32, float64], ids=str)
def test_floats(kind):
    for value in (0.0, -0.0, 1.0, -2.5, 1e-30, 3e20, float(np.finfo(kind.dtype).max), float(np.finfo(kind.dtype).tiny)):
        value = float(kind.dtype.type(value))
        text = literal(Const(kind, value))
        assert text.strip("()").endswith("f") == (kind is float32)
        read = kind.dtype.type(text.strip("()").removesuffix("f"))
        assert read == value and np.signbit(read) == np.signbit(value)
        assert set(text) & set(".e"), f"{text} would be an integer"
