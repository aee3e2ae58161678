"""Structs as Python objects: replaced, copied and pickled, and taken for dataclasses."""

import copy
import dataclasses
import pickle
import pprint

import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick


@wp.struct
class Material:
    stiffness: float
    axis: wp.vec3


@wp.struct
class Body:
    material: Material
    x: wp.array[wp.vec3]
    count: int


def body():
    return Body(Material(2.0, wp.vec3(1, 2, 3)), np.ones((4, 3), np.float32), 4)


@pytest.mark.parametrize(
    "replaced",
    [Body.replace, dataclasses.replace, lambda b, **c: b.__replace__(**c)],
    ids=["own", "dataclasses", "copy"],
)
def test_replace_gives_another_struct(replaced):
    before = body()
    after = replaced(before, count=7)
    assert type(after) is Body and (before.count, after.count) == (4, 7)
    assert after.material is before.material and after.x is before.x
    assert replaced(before, material=before.material.replace(stiffness=3.0)).material.stiffness == 3.0
    with pytest.raises(wp.KernelTypeError, match="Body has no field 'mass'; there are material, x, count"):
        replaced(before, mass=1.0)


def test_a_copy_has_its_own_fields():
    before = body()
    shallow, deep = copy.copy(before), copy.deepcopy(before)
    assert shallow.x is before.x and shallow.material is before.material
    assert deep.x is not before.x and deep.material is not before.material
    np.testing.assert_array_equal(deep.x, before.x)
    shallow.count = deep.count = 9
    deep.material.axis[0] = 5.0
    assert before.count == 4 and before.material.axis[0] == 1.0


def test_structs_and_their_classes_are_pickled_by_name():
    before = body()
    assert pickle.loads(pickle.dumps(Body)) is Body
    after = pickle.loads(pickle.dumps(before))
    assert type(after) is Body and type(after.material) is Material and after.count == 4
    assert type(after.material.axis) is type(before.material.axis)
    np.testing.assert_array_equal(after.x, before.x)


def test_a_copied_struct_is_known_in_kernels():
    constants = copy.deepcopy(Material(2.0, wp.vec3(1, 2, 3)))

    @wp.kernel
    def uses(out: wp.array[float]):
        out[0] = constants.stiffness * constants.axis[2]

    out = np.zeros(1, np.float32)
    wp.launch(uses, 1, [], [out])
    assert out[0] == 6.0


def test_they_are_dataclasses_to_those_who_ask():
    before = body()
    assert dataclasses.is_dataclass(Body) and dataclasses.is_dataclass(before)
    assert [(f.name, f.type) for f in dataclasses.fields(Material)] == [("stiffness", wp.float32), ("axis", wp.vec3)]
    assert [f.name for f in dataclasses.fields(before)] == ["material", "x", "count"]
    found = dataclasses.asdict(before)
    assert found["material"]["stiffness"] == 2.0 and found["count"] == 4
    assert "stiffness=2.0" in pprint.pformat(before.material)


def test_a_field_cannot_hide_what_structs_have():
    with pytest.raises(wp.KernelTypeError, match="a field cannot be called 'replace'"):

        @wp.struct
        class Wrong:
            replace: float
