"""Classes that programs derive from `wp.array` and `wp.indexedarray`, in all places that take arrays."""

import copy
import gc
import pickle
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import jwarp as wp
from jwarp.arrays.stand_ins import original
from jwarp.arrays.subclasses import plain, plain_values


class Tagged(wp.array):
    def __init__(self, *args, tag, **kwargs):
        self.tag = tag
        super().__init__(*args, **kwargs)


class Strict(Tagged):
    """One whose constructor nobody but its program calls."""


class TaggedIndexed(wp.indexedarray):
    def __init__(self, *args, tag, **kwargs):
        self.tag = tag
        super().__init__(*args, **kwargs)


class TaggedFabric(wp.fabricarray):
    def __init__(self, *args, tag, **kwargs):
        self.tag = tag
        super().__init__(*args, **kwargs)


@wp.struct
class Pair:
    x: wp.array[float]
    k: float


@wp.struct
class Row:
    v: wp.vec3
    w: float


@wp.kernel
def scale(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i] * x[i]


@wp.kernel
def scale_indexed(x: wp.indexedarray[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def scale_any(x: Any, y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def scale_pair(p: Pair, y: wp.array[float]):
    i = wp.tid()
    y[i] = p.k * p.x[i]


@wp.kernel
def read_rows(rows: wp.array[Row], y: wp.array[float]):
    i = wp.tid()
    y[i] = rows[i].v[1] + rows[i].w
    rows[i].w = 7.0


CONTENT = np.random.default_rng(1).normal(size=5).astype(np.float32)


def tagged(content=CONTENT, **more):
    return Tagged(content, tag="a", dtype=float, **more)


def test_a_launch_reads_and_writes_them_and_calls_no_constructor(monkeypatch):
    x, y = tagged(), Strict(tag="b", shape=5, dtype=float)
    monkeypatch.setattr(Strict, "__init__", lambda *_, **__: pytest.fail("called"))
    for _ in range(3):  # the second one is repeated
        y.zero_()
        wp.launch(scale, 5, [x, 3.0], [y])
        np.testing.assert_allclose(y.numpy(), 3.0 * CONTENT**2, rtol=1e-6)
    wp.launch(scale_any, 5, [x], [y])
    np.testing.assert_allclose(y.numpy(), 2.0 * CONTENT, rtol=1e-6)
    assert (x.tag, y.tag) == ("a", "b")


def test_launches_are_repeated_by_the_executable_of_plain_arrays():
    @wp.kernel
    def fresh(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = x[wp.tid()] + 1.0

    wp.launch(fresh, 5, [wp.array(CONTENT)], [wp.zeros(5)])
    known = len(fresh.executables.recent)
    assert known
    wp.launch(fresh, 5, [tagged()], [tagged()])
    assert len(fresh.executables.recent) == known


def test_an_array_stands_for_it_with_the_same_state():
    x = tagged(requires_grad=True)
    same = plain(x)
    assert type(same) is wp.array and plain(x) is same and original(same) is x and plain(same) is same
    assert same.grad is x.grad and same.memory is x.memory
    same.grad = None
    assert x.grad is None and not x.requires_grad
    values = [wp.zeros(2), 1.0, [x], np.ones(3)]
    assert plain_values(values) is values
    assert plain_values([x, 1.0]) == [same, 1.0] and plain_values({"x": x}) == {"x": same}
    assert original(3.0) == 3.0 and original(wp) is wp


def test_what_stands_for_it_makes_no_cycle():
    x = tagged()
    known = weakref.ref(x)
    gc.disable()
    try:
        wp.launch(scale, 5, [x, 1.0], [wp.zeros(5)])
        del x
        assert known() is None
    finally:
        gc.enable()


def test_indexed_arrays_and_arrays_in_them():
    indices = Tagged(np.array([4, 0, 2], np.int32), tag="i", dtype=int)
    x = TaggedIndexed(tag="x", data=tagged(), indices=indices)
    assert isinstance(x, wp.indexedarray) and x.tag == "x" and x.shape == (3,)
    for given in (x, wp.indexedarray(tagged(), indices)):
        y = wp.zeros(3)
        wp.launch(scale_indexed, 3, [given], [y])
        np.testing.assert_allclose(y.numpy(), 2.0 * CONTENT[[4, 0, 2]])
    x.fill_(9.0)
    np.testing.assert_allclose(x.data.numpy()[[0, 2, 4]], 9.0)
    with pytest.raises(TypeError, match="there is no data"):
        TaggedIndexed(tag="x")
    assert wp.indexedarray(dtype=float) == wp.indexedarray[float]


def test_arrays_of_fabric():
    x = wp.array(CONTENT)
    interface = {
        "version": 1,
        "device": "cpu",
        "attribs": {"a": {"type": (True, "f4", 1, 0, "none"), "access": 3, "pointers": [x.ptr], "counts": [5]}},
    }
    shown = TaggedFabric(tag="f", data=interface, attrib="a")
    y = wp.zeros(5)
    wp.launch(scale, 5, [shown, 1.0], [y])
    np.testing.assert_allclose(y.numpy(), CONTENT**2, rtol=1e-6)
    assert shown.tag == "f" and shown.ptr == x.ptr


def test_in_structs():
    p = Pair()
    p.x, p.k = x, _ = tagged(), 0
    p.k = 3.0
    assert p.x is x
    y = wp.zeros(5)
    for _ in range(2):
        wp.launch(scale_pair, 5, [p], [y])
    np.testing.assert_allclose(y.numpy(), 3.0 * CONTENT, rtol=1e-6)


def test_arrays_of_structs():
    rows = Tagged(tag="rows", shape=4, dtype=Row)
    assert isinstance(rows, Tagged) and rows.tag == "rows"
    rows.assign(np.array([((1, 2, 3), k) for k in range(4)], rows.numpy().dtype))
    y = wp.zeros(4)
    wp.launch(read_rows, 4, [rows], [y])
    np.testing.assert_array_equal(y.numpy(), 2.0 + np.arange(4))
    np.testing.assert_array_equal(rows.numpy()["w"], 7.0)


def test_tapes():
    x, y = tagged(requires_grad=True), Strict(tag="y", shape=5, dtype=float, requires_grad=True)
    z = tagged(np.zeros(5), requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(scale, 5, [x, 3.0], [y])
        wp.copy(z, y)
        z.fill_(0.0)
        wp.launch(scale, 5, [y, 1.0], [z])
    tape.backward(grads={z: wp.ones(5)})
    np.testing.assert_allclose(x.grad.numpy(), 4.0 * 9.0 * CONTENT**3, rtol=1e-5)
    assert tape.gradients[x] is x.grad
    assert tape.get_adjoint(x) is x.grad
    tape.zero()
    assert not x.grad.numpy().any()


def test_an_adjoint_by_hand():
    x, y = tagged(requires_grad=True), tagged(requires_grad=True)
    x.grad, y.grad = tagged(np.zeros(5)), tagged(np.ones(5))
    given = {"adj_inputs": [x.grad, None], "adj_outputs": [y.grad], "adjoint": True}
    wp.launch(scale, 5, [x, 3.0], [y], **given)
    np.testing.assert_allclose(x.grad.numpy(), 6.0 * CONTENT, rtol=1e-6)


def test_records_and_captures():
    x, y = tagged(), tagged()
    command = wp.launch(scale, 5, [x, 1.0], [y], record_cmd=True)
    command.launch()
    np.testing.assert_allclose(y.numpy(), CONTENT**2, rtol=1e-6)
    other = Strict(CONTENT + 1.0, tag="o", dtype=float)
    command.set_param_by_name("x", other)
    with wp.ScopedCapture() as capture:
        command.launch()
        wp.launch(scale, 5, [y, 1.0], [x])
    wp.capture_launch(capture.graph)
    np.testing.assert_allclose(x.numpy(), (CONTENT + 1.0) ** 4, rtol=1e-5)
    command.set_params([x, 2.0, y])
    command.launch()
    np.testing.assert_allclose(y.numpy(), 2.0 * (CONTENT + 1.0) ** 8, rtol=1e-5)


def test_functions_of_elements():
    x, out = tagged(), tagged()
    assert wp.map(wp.sin, x, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.sin(CONTENT), rtol=1e-5)
    first = x + x
    np.testing.assert_allclose(first.numpy(), 2.0 * CONTENT)
    assert type(first) is wp.array
    x *= 3.0
    np.testing.assert_allclose(x.numpy(), 3.0 * CONTENT, rtol=1e-6)


def test_annotations_name_the_class_of_arrays():
    for family, name in ((Tagged, "wp.array"), (TaggedIndexed, "wp.indexedarray")):
        with pytest.raises(wp.KernelTypeError, match=f"derived from {name}"):
            family[float]


def test_functions_of_whole_programs():
    class Model:
        def __init__(self):
            self.x, self.y = tagged(), tagged()

    def step(model):
        wp.launch(scale, 5, [model.x, 3.0], [model.y])

    wanted = 3.0 * CONTENT**2
    _, changed = wp.functionalize(lambda x, y: wp.launch(scale, 5, [x, 3.0], [y]))(tagged(), tagged())
    np.testing.assert_allclose(changed["y"].numpy(), wanted, rtol=1e-6)
    model = wp.register_pytree(Model)()
    _, changed = wp.functionalize(step)(model)
    np.testing.assert_allclose(changed["model"].y.numpy(), wanted, rtol=1e-6)
    np.testing.assert_array_equal(model.y.numpy(), CONTENT)
    wp.register_pytree(Tagged)
    (leaf,) = jax.tree.leaves(tagged())
    np.testing.assert_array_equal(leaf, CONTENT)


@wp.func
def itself(a: wp.array[float]) -> wp.array[float]:
    return a


@wp.func
def itself(a: wp.array[wp.int32]) -> wp.array[wp.int32]:  # noqa: F811 an overload
    return a


def test_a_call_outside_kernels_chooses_by_their_types():
    for given in (wp.zeros(3), wp.zeros(3, dtype=int), tagged()):
        assert itself(given) is given
    shown = wp.indexedarray(wp.zeros(3), [wp.zeros(1, dtype=int)])
    assert itself(shown) is shown
    with pytest.raises(wp.KernelTypeError, match=r"no overload of `itself` takes \(array\[float64\]\)"):
        itself(wp.zeros(3, dtype=wp.float64))


def test_they_tell_the_types_of_an_overload():
    @wp.kernel
    def first(a: wp.array2d[Any], y: wp.array[Any]):
        y[wp.tid()] = a[wp.tid(), 0]

    made = wp.overload(first, [wp.zeros((2, 2)), tagged()])
    assert made is wp.overload(first, {"a": wp.array2d[float], "y": wp.array[float]})


class Slotted(wp.array):
    __slots__ = ("note",)


def _pickled(x):
    return pickle.loads(pickle.dumps(x))


COPIES = pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])


@COPIES
def test_copies_keep_the_class_and_the_attributes(copied):
    x = tagged(requires_grad=True)
    x.grad.fill_(2.0)
    x.tag, x.itself = ["t"], x
    made = copied(x)
    assert type(made) is type(x) and made.tag == ["t"] and (made.tag is x.tag) is (copied is copy.copy)
    assert made is not x and made.itself is (x if copied is copy.copy else made)
    np.testing.assert_array_equal(made.numpy(), CONTENT)
    np.testing.assert_array_equal(made.grad.numpy(), 2.0)
    made.fill_(9.0)
    shares = copied is copy.copy
    np.testing.assert_array_equal(x.numpy(), 9.0 if shares else CONTENT)
    y = wp.zeros(5)
    wp.launch(scale, 5, [made, 1.0], [y])
    np.testing.assert_array_equal(y.numpy(), 81.0)
    slotted = Slotted([1.0])
    slotted.note = "n"
    assert type(copied(slotted)) is Slotted and copied(slotted).note == "n"


@COPIES
def test_copies_of_indexed_arrays_and_of_arrays_of_structs(copied):
    x = wp.array(CONTENT)
    for shown in (
        wp.indexedarray(x, [wp.array([0, 2], dtype=int)]),
        TaggedIndexed(x, [wp.array([1], dtype=int)], tag=3),
    ):
        made = copied(shown)
        assert type(made) is type(shown) and getattr(made, "tag", None) == getattr(shown, "tag", None)
        np.testing.assert_array_equal(made.numpy(), shown.numpy())
    rows = Tagged(tag="rows", shape=4, dtype=Row, requires_grad=True)
    rows.assign(np.array([((1, 2, 3), k) for k in range(4)], rows.numpy().dtype))
    rows.grad.assign(np.array([((0, 0, 0), 5 + k) for k in range(4)], rows.numpy().dtype))
    made = copied(rows)
    assert type(made) is type(rows) and isinstance(made, Tagged) and made.tag == "rows"
    np.testing.assert_array_equal(made.numpy(), rows.numpy())
    np.testing.assert_array_equal(made.grad.numpy(), rows.grad.numpy())
    made.fill_(Row())
    assert bool(rows.numpy()["w"][3] == 0.0) is (copied is copy.copy)
    plain_rows = wp.zeros(2, dtype=Row)
    assert type(copied(plain_rows)) is type(plain_rows)


def test_a_copy_frees_no_memory_of_another_owner():
    freed, content = [], np.arange(3.0)
    x = Tagged(tag="p", ptr=content.ctypes.data, shape=3, dtype=wp.float64, deleter=lambda *given: freed.append(given))
    shallow = copy.copy(x)
    assert shallow.ptr == x.ptr and shallow.deleter is x.deleter
    other = copy.deepcopy(x)
    assert other.deleter is None and other.tag == "p"
    del other, x
    gc.collect()
    assert not freed
    del shallow
    gc.collect()
    assert len(freed) == 1
