"""In programs, launches without arrays follow Warp's rules: devices, 64-bit numbers, records that get arrays later."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.programs.launch_class import Launch


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


@wp.kernel
def hello(k: int):
    wp.printf("%d of %d\n", wp.tid(), k)


@wp.kernel
def wide(a: wp.int64, b: wp.float64, v: wp.vec3d):
    wp.printf("%lld %.12f %.12f\n", a, b, v[1])


@wp.struct
class Pair:
    a: wp.int64
    b: wp.vec2


@wp.kernel
def of_struct(s: Pair):
    wp.printf("%lld %g\n", s.a, s.b[1])


@wp.kernel
def scaled(s: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if y:
        y[i] = s
        if x:
            y[i] = s * x[i]


@pytest.mark.parametrize("more", [{}, {"device": "cpu"}, {"device": wp.get_device("cpu"), "record_tape": False}])
def test_launches_without_arrays_return_nothing(capfd, more):
    assert wp.launch(hello, 3, inputs=[5], **more) is None
    assert sorted(capfd.readouterr().out.split("\n")[:-1]) == ["0 of 5", "1 of 5", "2 of 5"]


def test_numbers_of_64_bits(capfd):
    n, x = 2**40 + 3, 1 / 3
    wp.launch(wide, 1, inputs=[n, x, wp.vec3d(1.0, x, 2.0)])
    wp.launch(wide, 1, inputs=[wp.int64(n), wp.float64(x), wp.vec3d(1.0, x, 2.0)], device="cpu")
    assert capfd.readouterr().out == f"{n} {x:.12f} {x:.12f}\n" * 2


def test_structs_of_numbers(capfd):
    pair = Pair()
    pair.a, pair.b = 2**50 + 1, wp.vec2(1.0, 0.5)
    wp.launch(of_struct, 1, inputs=[pair], device="cpu")
    assert capfd.readouterr().out == f"{2**50 + 1} 0.5\n"


def test_no_threads_and_no_arrays(capfd):
    assert wp.launch(hello, 0, inputs=[5], device="cpu") is None
    assert capfd.readouterr().out == ""


def test_missing_arrays_and_nothing_else():
    assert wp.launch(scaled, 1, inputs=[1.0, None], outputs=[None]) is None


@wp.kernel
def shifted(k: int, y: wp.array[int]):
    i = wp.tid()
    y[i] = i + k


def test_a_record_gets_all_that_it_writes_to_later():
    command = wp.launch(shifted, 4, inputs=[2, None], record_cmd=True)  # one of no elements would be too short
    y = wp.zeros(4, dtype=int)
    command.set_param_by_name("y", y)
    command.launch()
    assert y.numpy().tolist() == [2, 3, 4, 5]
    with pytest.raises(wp.LaunchError, match="index 3 is outside axis 0 of `y`"):
        wp.launch(shifted, 4, inputs=[2, None], record_cmd=True).launch()


def test_a_record_gets_its_arrays_later():
    command = wp.launch(scaled, 4, inputs=[2.0, None, None], record_cmd=True)
    y = wp.zeros(4, dtype=float)
    command.set_param_by_name("y", y)
    command.launch()
    np.testing.assert_array_equal(y.numpy(), 2)
    x = np.random.default_rng(0).normal(size=4).astype(np.float32)
    command.set_param_by_name("x", wp.array(x))
    command.set_param_at_index(0, 3.0)
    command.launch()
    np.testing.assert_allclose(y.numpy(), 3 * x, rtol=1e-6)


def test_a_record_without_arrays(capfd):
    command = wp.launch(hello, 2, inputs=[7], record_cmd=True)
    assert capfd.readouterr().out == ""
    assert command.launch() is None and command.launch() is None
    assert capfd.readouterr().out.count("of 7") == 4


def test_launches_without_arrays_are_captured(capfd):
    with wp.ScopedCapture(device="cpu") as capture:
        wp.launch(hello, 1, inputs=[4])
    assert capfd.readouterr().out == ""
    wp.capture_launch(capture.graph)
    assert capfd.readouterr().out == "0 of 4\n"


def test_arrays_of_jax_and_of_other_programs_keep_their_rules(monkeypatch):
    (y,) = wp.launch(scaled, 3, inputs=[2.0, jnp.ones(3)], outputs=[3])
    assert y.tolist() == [2.0, 2.0, 2.0]
    monkeypatch.setattr(surface, "is_warps", False)
    with pytest.raises(wp.LaunchError, match="no keyword 'device' here"):
        wp.launch(hello, 2, inputs=[1], device="cpu")


def test_empty_records_take_a_device_and_are_filled_by_the_setters():
    record = Launch(scaled, "cpu")
    x, y = wp.array(np.arange(5.0), dtype=float), wp.zeros(5, dtype=float)
    for name, value in (("s", 3.0), ("x", x), ("y", y)):
        record.set_param_by_name(name, value)
    record.set_dim(4)
    assert record.launch() is None
    assert y.numpy().tolist() == [0.0, 3.0, 6.0, 9.0, 0.0]
    recorded = wp.launch(scaled, 4, inputs=[3.0, x, y], record_cmd=True)
    assert isinstance(record, Launch) and isinstance(recorded, Launch) and not isinstance(scaled, Launch)


def test_empty_records_run_adjoints():
    record = Launch(scaled, wp.get_device("cpu"), adjoint=True)
    x, y = (wp.array(np.arange(1.0, 4.0), dtype=float, requires_grad=True) for _ in range(2))
    y.grad.fill_(2.0)
    for name, value in (("s", 3.0), ("x", x), ("y", y)):
        record.set_param_by_name(name, value)
    record.set_dim(3)
    record.launch()
    assert x.grad.numpy().tolist() == [6.0, 6.0, 6.0]


def test_empty_records_refuse_what_is_not_theirs():
    with pytest.raises(wp.LaunchError, match="hooks"):
        Launch(scaled, "cpu", hooks=object())
    with pytest.raises(wp.LaunchError, match="nowhere"):
        Launch(scaled, "nowhere")
    with pytest.raises(wp.LaunchError, match="not set|set_"):
        Launch(scaled, "cpu").launch()


@wp.kernel
def doubled(x: wp.array(dtype=wp.vec2), s: float):
    i = wp.tid()
    x[i] = s * x[i]


@pytest.mark.parametrize("more", [{}, {"device": "cpu"}, {"record_tape": False}])
def test_arrays_of_numpy_are_written_in_place(more):
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    expected = x * np.float32(4.0)
    for _ in range(2):  # the second one is a repetition
        assert wp.launch(doubled, 5, inputs=[x, 2.0], **more) is None
    np.testing.assert_array_equal(x, expected)


@wp.kernel
def checked(m: wp.mat22, v: wp.vec3):
    wp.expect_eq(m, wp.mat22(1.0, 2.0, 3.0, 4.0))
    wp.expect_eq(v, wp.vec3(1.0, 2.0, 3.0))


def test_arrays_of_numpy_are_composites_by_value(capfd):
    square = np.arange(1.0, 5.0, dtype=np.float32).reshape(2, 2)
    for m in (square, square.ravel(), [[1, 2], [3, 4]], ((1, 2), (3, 4)), (1, 2, 3, 4), [1.0, 2, 3, 4]):
        assert wp.launch(checked, 1, inputs=[m, np.arange(1.0, 4.0, dtype=np.float32)], device="cpu") is None
    wp.launch(checked, 1, inputs=[square * 2, [1, 2, 3]], device="cpu")
    assert capfd.readouterr().out.count("expect_eq") == 1
    for m in ([1, 2, 3], (1, 2, 3, 4, 5), [[1, 2, 3, 4]], np.ones(3, np.float32)):
        with pytest.raises(wp.KernelTypeError, match="mat22"):
            wp.launch(checked, 1, inputs=[m, [1, 2, 3]])


@wp.kernel
def says_hit(mesh: wp.uint64, hit: wp.array(dtype=int)):
    query = wp.mesh_query_ray(mesh, wp.vec3(0.2, 0.2, 1.0), wp.vec3(0.0, 0.0, -1.0), 10.0)
    hit[wp.tid()] = int(query.result) + 1


def test_ids_with_arrays_of_numpy():
    points = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    hit = np.zeros(3, np.int32)
    wp.launch(says_hit, 3, inputs=[mesh.id], outputs=[hit], device="cpu")
    assert hit.tolist() == [2, 2, 2]
