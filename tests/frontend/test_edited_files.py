"""A kernel is what its file said when it was defined, whatever has become of the file since."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jwarp as wp

BEFORE = """
import jwarp as wp

@wp.func
def value() -> float:
    return 1.0

@wp.kernel
def store(y: wp.array[float]):
    y[wp.tid()] = value()
"""


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text(BEFORE)
    spec = importlib.util.spec_from_file_location("edited", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.path = file
    return made


@pytest.mark.parametrize(
    "after",
    [
        BEFORE.replace("1.0", "6.0"),
        BEFORE.replace(
            "import jwarp as wp\n", "import jwarp as wp\n\n@wp.func\ndef value() -> float:\n    return 99.0\n"
        ),
        "",
    ],
    ids=["another body", "lines inserted", "emptied"],
)
def test_an_edit_between_definition_and_first_use(module, after):
    module.path.write_text(after)
    (y,) = wp.launch(module.store, 3, [], [3])
    np.testing.assert_array_equal(y, 1.0)


def test_a_module_that_is_loaded_again_has_the_new_text(module):
    module.path.write_text(BEFORE.replace("1.0", "6.0").replace("def value", "def  value"))
    module.__spec__.loader.exec_module(module)
    (y,) = wp.launch(module.store, 3, [], [3])
    np.testing.assert_array_equal(y, 6.0)
