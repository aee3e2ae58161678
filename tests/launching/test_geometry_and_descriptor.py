"""Launch geometry and the encoding of a launch, without JAX values."""

import numpy as np
import pytest
from launch_format import IN_OUT, INPUT, ZEROS, make_launch

from jwarp.compiler.program import GeneratedProgram
from jwarp.config import Settings
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Block, Kernel, Param
from jwarp.launching.descriptor import Descriptor, encode
from jwarp.launching.geometry import Geometry, fold, read_dim
from jwarp.types import ArrayType, float32
from jwarp.wire import Role

pytestmark = pytest.mark.quick

PARAMS = (
    Param("x", ArrayType(float32, 2)),
    Param("k", float32),
    Param("y", ArrayType(float32, 1)),
    Param("total", ArrayType(float32, 1)),
)


def descriptor(**changes):
    kernel = Kernel("mix", PARAMS, 2, Block())
    program = GeneratedProgram(kernel, Settings())
    fields = {
        "program": program,
        "geometry": Geometry((2, 3, 1, 1), 5),
        "roles": (Role.READ, Role.READ, Role.ZEROS, Role.IN_OUT),
    }
    return Descriptor(**(fields | changes))


def test_dims_are_padded_and_folded():
    assert fold(read_dim(3, "k"), 2, "k") == Geometry((3, 1, 1, 1), 1)
    assert fold(read_dim([2, 3, 4], "k"), 1, "k") == Geometry((2, 1, 1, 1), 12)
    assert fold(read_dim((2, 3, 4, 0), "k"), 3, "k") == Geometry((2, 3, 4, 1), 0)
    assert fold((), 1, "k") == Geometry((1, 1, 1, 1), 1)
    assert read_dim(2**31 - 1, "k") == (2**31 - 1,)
    assert read_dim(np.array([4, 5]), "k") == (4, 5)
    for wrong in (np.array([4.0]), np.array([[4]]), np.array([True]), True):
        with pytest.raises(LaunchError, match="must be an int"):
            read_dim(wrong, "k")
    for bad in (2**63, -1, 1.0, False, "a", (1,) * 5, np.ones((2, 1), int)):
        with pytest.raises(LaunchError, match="kernel 'k': dim"):
            read_dim(bad, "k")
    with pytest.raises(LaunchError, match="kernel 'k'"):
        fold((2**31 - 1,) * 3, 1, "k")
    with pytest.raises(LaunchError, match="kernel 'k': dim.*in dimension 1"):
        fold((1, 2**31), 2, "k")
    assert fold((1, 2**31), 1, "k") == Geometry((1, 1, 1, 1), 2**31)


def test_descriptors_compare_by_content():
    assert descriptor() == descriptor() and hash(descriptor()) == hash(descriptor())
    assert descriptor(geometry=Geometry((2, 3, 1, 1))) != descriptor()
    assert descriptor(roles=(Role.READ,) * 4) != descriptor()
    assert descriptor(block_dim=64) != descriptor()


def test_operands_results_and_extents():
    launch = descriptor()
    assert launch.operands == (0, 1, 3) and launch.results == (2, 3)
    assert launch.aliases == {2: 1}
    assert launch.extents([(4, 5), (), (6,)], [(7,)]) == ((4, 5), None, (7,), (6,))


def test_encoding():
    encoded = encode(
        descriptor(), (8, 9), [(True, False), (False, True), (True, True)], [(True, True)] * len(descriptor().results)
    )
    assert encoded.dtype == np.int64
    bindings = [(0, -1, INPUT, 0b01), (1, -1, INPUT, 0b10), (-1, 0, ZEROS, 0b11), (2, 1, IN_OUT, 0b11)]
    assert encoded.tolist() == make_launch((2, 3, 1, 1), bindings, (8, 9), 5).tolist()
