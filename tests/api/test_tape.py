"""`wp.Tape`: gradients are those of what was computed, and `grad` is left as Warp leaves it."""

import gc
import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tape_programs as programs
from numpy.testing import assert_allclose, assert_array_equal
from tape_programs import doubled_in_place, loss_of, numbers, scale, square, total, weighted, without

import jwarp as wp
from jwarp.dispatch.steps import backward

pytestmark = pytest.mark.quick


@wp.kernel
def fill_with(x: wp.array[float], k: float):
    x[wp.tid()] = k


@wp.kernel
def running(x: wp.array[float], n: int):
    """Each element becomes the product of itself and the one before: read and written by one thread."""
    for k in range(1, n):
        x[k] = x[k] * x[k - 1]


@wp.kernel
def two_steps(x: wp.array[float], b: wp.array[float], loss: wp.array[float]):
    loss[0] = x[1] * b[0]
    b[0] += 100.0


@wp.kernel
def components(x: wp.array[float], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i].x = x[i] * 2.0
    y[i].y = x[i] * 3.0
    y[i].z = x[i] * 4.0


@wp.kernel
def nested(n: wp.array[int], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    a = x[i]
    for _j in range(n[0]):
        b = a
        for _k in range(n[1]):
            b = b * a
        a = b + wp.sin(a)
    y[i] = a


@wp.kernel
def compact(x: wp.array[float], count: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 1.0:
        slot = wp.atomic_add(count, 0, 1)
        y[slot] = x[i] * x[i]


@wp.kernel
def running_sum(x: wp.array[float], y: wp.array[float], s: wp.array[float]):
    i = wp.tid()
    y[i] = wp.atomic_add(s, 0, x[i])


WANTED = json.loads(programs.GRADIENTS.read_text())


@pytest.mark.parametrize("program", programs.LIKE_WARP, ids=lambda f: f.__name__)
def test_gradients_are_left_as_warp_leaves_them(program):
    found = program()
    assert found.keys() == WANTED[program.__name__].keys()
    for name, a in found.items():
        assert_allclose(a.numpy(), WANTED[program.__name__][name], rtol=1e-5, atol=1e-6, err_msg=name)


# What Warp gets wrong: its issues by number


def test_array_read_and_written_by_one_kernel_1294():
    src, a, loss = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True), loss_of()
    with wp.Tape() as tape:
        wp.copy(a, src)
        wp.launch(doubled_in_place, dim=3, inputs=[a])
        wp.launch(doubled_in_place, dim=3, inputs=[a])
        wp.launch(total, dim=3, inputs=[a, loss])
    tape.backward(loss)
    assert_allclose(src.grad.numpy(), 4.0)
    assert_array_equal(a.grad.numpy(), 0.0)


def test_array_written_again_between_launches_1294():
    x, y, z, loss = (
        numbers(0, 3, requires_grad=True),
        *(wp.zeros(3, dtype=float, requires_grad=True) for _ in "yz"),
        loss_of(),
    )
    first = x.numpy().copy()
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(scale, dim=3, inputs=[y, 0.5], outputs=[x])
        wp.launch(square, dim=3, inputs=[x], outputs=[z])
        wp.launch(total, dim=3, inputs=[z, loss])
    tape.backward(loss)
    assert_allclose(x.grad.numpy(), first**3, rtol=1e-6)  # of x**4 / 4


def test_array_changed_after_the_tape_1350():
    x, y, loss = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True), loss_of()
    first = x.numpy().copy()
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y, loss])
    wp.launch(fill_with, dim=3, inputs=[x, 99.0])
    x.fill_(98.0)
    x.assign(np.full(3, 97.0, np.float32))
    tape.backward(loss)
    assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)


def test_array_changed_by_numpy_after_the_tape():
    x, y, loss = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True), loss_of()
    seen, first = x.numpy(), x.numpy().copy()
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y, loss])
    seen[:] = 5.0
    tape.backward(loss)
    assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)


def test_nested_loops_1293():
    x, y, n = (
        numbers(0, 4, requires_grad=True),
        wp.zeros(4, dtype=float, requires_grad=True),
        wp.array([2, 3], dtype=int),
    )
    with wp.Tape() as tape:
        wp.launch(nested, dim=4, inputs=[n, x], outputs=[y])
    tape.backward(grads={y: wp.ones(4, dtype=float)})

    def f(a):
        for _ in range(2):
            a = a**4 + jnp.sin(a)
        return a.sum()

    assert_allclose(x.grad.numpy(), jax.grad(f)(jnp.asarray(x.numpy())), rtol=2e-5)


def test_write_after_read_in_one_kernel_947():
    x, b, loss = numbers(0, 4, requires_grad=True), wp.array([10.0], dtype=float, requires_grad=True), loss_of()
    with wp.Tape() as tape:
        wp.launch(two_steps, dim=1, inputs=[x, b, loss])
    tape.backward(loss)
    assert_allclose(x.grad.numpy(), [0, 10, 0, 0])
    assert_allclose(b.grad.numpy(), x.numpy()[1], rtol=1e-6)


def test_components_248():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(components, dim=3, inputs=[x, y])
    y.grad = wp.array(np.tile([1.0, 10.0, 100.0], (3, 1)).astype(np.float32), dtype=wp.vec3)
    tape.backward()
    assert_allclose(x.grad.numpy(), 432.0)


def test_running_product():
    x, loss = numbers(0, 5, requires_grad=True), loss_of()
    first = x.numpy().copy()
    with wp.Tape() as tape:
        wp.launch(running, dim=1, inputs=[x, 5])
        wp.launch(running, dim=1, inputs=[x, 4])
        wp.launch(total, dim=5, inputs=[x, loss])
    tape.backward(loss)

    def f(x):
        for n in (5, 4):
            for k in range(1, n):
                x = x.at[k].multiply(x[k - 1])
        return x.sum()

    assert_allclose(x.grad.numpy(), jax.grad(f)(jnp.asarray(first)), rtol=1e-5)


def test_slots_of_a_counter():
    x, count = numbers(3, 400, requires_grad=True), wp.zeros(1, dtype=int)
    y, w, loss = wp.zeros(400, dtype=float, requires_grad=True), numbers(4, 400), loss_of()
    with wp.Tape() as tape:
        wp.launch(compact, dim=400, inputs=[x, count], outputs=[y])
        wp.launch(weighted, dim=400, inputs=[y, w, loss])
    tape.backward(loss)
    at = {value: k for k, value in enumerate(y.numpy()) if value}
    wanted = [2 * v * w.numpy()[at[v * v]] if v > 1 else 0 for v in x.numpy()]
    assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)


def test_fill_ends_a_gradient():
    x, y, loss = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True), loss_of()
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        y[1:].zero_()
        wp.launch(total, dim=3, inputs=[y, loss])
    tape.backward(loss)
    assert_allclose(x.grad.numpy(), 2 * x.numpy() * [1, 0, 0], rtol=1e-6)


def test_copy_inside_of_one_array():
    x, loss = numbers(0, 6, requires_grad=True), loss_of()
    w = numbers(1, 6)
    with wp.Tape() as tape:
        wp.copy(x, x, dest_offset=1, src_offset=0, count=4)  # they overlap
        wp.launch(weighted, dim=6, inputs=[x, w, loss])
    tape.backward(loss)
    w = w.numpy()
    assert_allclose(x.grad.numpy(), [w[0] + w[1], w[2], w[3], w[4], 0, w[5]], rtol=1e-6)


def test_one_array_for_two_parameters():
    x, loss = numbers(0, 4, requires_grad=True), loss_of()
    first = x.numpy().copy()
    with wp.Tape() as tape:
        wp.launch(square, dim=4, inputs=[x], outputs=[x])
        wp.launch(weighted, dim=4, inputs=[x, x, loss])
    tape.backward(loss)
    assert_allclose(x.grad.numpy(), 4 * first**3, rtol=1e-5)


# Several tapes, several passes


def test_tapes_inside_of_each_other():
    x, y, loss = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True), loss_of()
    with wp.Tape() as outer:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        with wp.Tape() as inner:
            wp.launch(total, dim=3, inputs=[y, loss])
    inner.backward(loss)
    assert_array_equal(y.grad.numpy(), 1.0)
    inner.zero()
    outer.backward(loss)
    assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)
    assert list(inner.gradients) == [y, loss]


def test_backward_of_a_tape_in_another_one():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    loss, other = loss_of(), loss_of()
    x.grad.requires_grad = True
    with wp.Tape() as outer:
        with wp.Tape() as inner:
            wp.launch(square, dim=3, inputs=[x], outputs=[y])
            wp.launch(total, dim=3, inputs=[y, loss])
        inner.backward(loss)
        wp.launch(total, dim=3, inputs=[y, other])
    inner.zero()
    outer.backward(other)  # asks for no second derivative
    assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)
    with wp.Tape() as last:
        inner.backward(loss)
        wp.launch(total, dim=3, inputs=[x.grad, other])
    with pytest.raises(wp.NotDifferentiableError, match="backward of another tape.* no second derivative"):
        last.backward(other)


def test_a_graph_leaves_out_what_is_not_to_be_recorded():
    x, loss = numbers(0, 3, requires_grad=True), loss_of()
    with wp.ScopedCapture() as capture, wp.Tape() as tape:
        wp.launch(total, dim=3, inputs=[x, loss])
        wp.launch(total, dim=3, inputs=[x, loss], record_tape=False)
    wp.capture_launch(capture.graph)
    tape.backward(loss)
    assert_array_equal(x.grad.numpy(), 1.0)


def test_reset():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    tape = wp.Tape()
    for k in range(3):
        with tape:
            wp.launch(scale, dim=3, inputs=[x, float(k)], outputs=[y])
        tape.backward(grads={y: wp.ones(3, dtype=float)})
        assert_allclose(x.grad.numpy(), k)
        tape.reset()
        assert not tape.launches and not x.grad.numpy().any()


def test_recording_is_turned_on_and_off():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape, pytest.raises(wp.LaunchError, match="recording already"), tape:
        pass
    with pytest.raises(ZeroDivisionError), tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        raise ZeroDivisionError
    wp.launch(square, dim=3, inputs=[y], outputs=[x])
    assert len(tape.launches) == 1


def test_retained_gradient_of_an_array_that_is_written_twice():
    x, loss = numbers(0, 3, requires_grad=True), loss_of()
    y = wp.zeros(3, dtype=float, requires_grad=True, retain_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y, loss])
        wp.launch(scale, dim=3, inputs=[x, 5.0], outputs=[y])
        wp.launch(total, dim=3, inputs=[y, loss])
    tape.backward(loss)
    assert_allclose(x.grad.numpy(), 2 * x.numpy() + 5, rtol=1e-6)  # where Warp counts twice
    assert_allclose(y.grad.numpy(), 2.0)


# What is kept


def kept(tape):
    return [k.array().shape for entry in tape.launches for k in getattr(entry, "kept", {}).values() if k.is_saved]


def test_only_what_is_overwritten_is_copied():
    x, y, z = (numbers(k, 64, requires_grad=True) for k in range(3))
    with wp.Tape() as tape:
        wp.launch(scale, dim=64, inputs=[x, 2.0], outputs=[y])  # reads nothing
        wp.launch(square, dim=64, inputs=[y], outputs=[z])
        wp.launch(square, dim=64, inputs=[x], outputs=[z])
    assert kept(tape) == []
    x.zero_()
    assert kept(tape) == [(64,)]
    z.zero_()
    assert kept(tape) == [(64,)]
    y.zero_()
    assert kept(tape) == [(64,), (64,)]


def test_kept_memory_is_given_back():
    x, y = (numbers(k, 64, requires_grad=True) for k in range(2))
    with wp.Tape() as tape:
        wp.launch(square, dim=64, inputs=[x], outputs=[y])
    del tape
    gc.collect()
    assert all(handle() is None for handle in x.memory.keepers)


def test_gradient_that_is_asked_for_later():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)
    y.requires_grad = False
    x.zero_()
    with pytest.raises(wp.LaunchError, match="'x': the gradient needs what the array held") as error:
        tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert "test_tape.py" in error.value.__notes__[0]


# Errors


def test_loss_that_is_none():
    x = numbers(0, 3, requires_grad=True)
    tape = wp.Tape()
    for loss, what in ((x, "array of float32, shape \\(3,\\)"), (3.0, "float"), (wp.zeros(1, dtype=wp.vec2), "vec2")):
        with pytest.raises(wp.LaunchError, match=f"a loss is an array of one number, got .*{what}"):
            tape.backward(loss)
    with pytest.raises(wp.LaunchError, match="the loss has no gradient"):
        tape.backward(wp.zeros(1, dtype=float))


def test_kernel_without_a_derivative_is_named_at_backward():
    x, y, s = (numbers(k, 3, requires_grad=True) for k in range(3))
    with wp.Tape() as tape:
        wp.launch(running_sum, dim=3, inputs=[x], outputs=[y, s])
    tape.backward()  # nothing flows
    with pytest.raises(wp.NotDifferentiableError, match="running_sum") as error:
        tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert "atomic_add" in str(error.value) and "recorded on a tape at" in error.value.__notes__[0]


def test_enable_backward_is_obeyed_with_a_warning():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(without, dim=3, inputs=[x], outputs=[y])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape.backward()
    with pytest.warns(wp.KernelWarning, match="'without'.*enable_backward=False"):
        tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert_array_equal(x.grad.numpy(), 0.0)


def test_gradients_of_overlapping_arrays_are_refused():
    x = numbers(0, 6, requires_grad=True)
    with pytest.raises(wp.LaunchError, match="overlap"):
        with wp.Tape() as tape:
            wp.launch(square, dim=2, inputs=[x[:3]], outputs=[x[1:4]])
        tape.backward(grads={x: wp.ones(6, dtype=float)})


def test_views_with_gradients_of_their_own_are_refused():
    x = wp.zeros(6, dtype=float)
    a, b, y = x[:4], x[2:], wp.zeros(3, dtype=float, requires_grad=True)
    a.requires_grad = True
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[a], outputs=[y])
        wp.launch(fill_with, dim=3, inputs=[b, 2.0])
    with pytest.raises(wp.LaunchError, match="without a gradient was written"):
        tape.backward()
    b.requires_grad = True
    with pytest.raises(wp.LaunchError, match="gradients of their own"):
        tape.backward()


def test_record_func_wants_gradients():
    with pytest.raises(wp.KernelTypeError, match="no array with a gradient"):
        wp.Tape().record_func(print, [wp.zeros(3, dtype=float)])


def test_scopes():
    tape = wp.Tape()
    tape.record_scope_begin("empty")
    tape.record_scope_end()
    tape.record_scope_begin("a", {"k": 1})
    tape.record_scope_end(remove_scope_if_empty=False)
    assert tape.scopes == [(0, "a", {"k": 1}), (0, None, None)]
    with pytest.raises(wp.LaunchError, match="ended tape scope"):
        tape.record_scope_end()


def test_retained_gradient_of_an_array_that_a_launch_reads_and_writes():
    x = numbers(0, 3, requires_grad=True, retain_grad=True)
    with wp.Tape() as tape:
        wp.launch(doubled_in_place, dim=3, inputs=[x])
    with pytest.raises(wp.LaunchError, match="'x': the array made at .* has retain_grad"):
        tape.backward(grads={x: wp.ones(3, dtype=float)})


# Captures


def test_tape_in_a_graph():
    x, y, loss = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True), loss_of()
    tape = wp.Tape()
    with wp.ScopedCapture() as capture:
        loss.zero_()
        with tape:
            wp.launch(square, dim=3, inputs=[x], outputs=[y])
            wp.launch(total, dim=3, inputs=[y, loss])
        tape.backward(loss)
    assert not x.grad.numpy().any()
    for k in (1.0, 2.0):
        x.fill_(k)
        wp.capture_launch(capture.graph)
        assert_allclose(x.grad.numpy(), 2 * k)
        tape.zero()
    assert len(tape.launches) == 2


def test_graph_on_a_tape():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    with wp.ScopedCapture() as capture:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(scale, dim=3, inputs=[y, 3.0], outputs=[y])
    wp.capture_launch(capture.graph)
    with wp.Tape() as tape:
        wp.capture_launch(capture.graph)
    x.zero_()
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert_allclose(x.grad.numpy(), 6 * numbers(0, 3).numpy(), rtol=1e-6)


def test_ways_back_are_kept_with_the_commands_of_a_graph(monkeypatch):
    """A graph that is launched again derives no backward pass again; a record with another array does."""
    x, y, loss = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True), loss_of()
    record = wp.launch(square, dim=3, inputs=[x, y], record_cmd=True)
    with wp.ScopedCapture() as capture:
        loss.zero_()
        with wp.Tape() as tape:
            record.launch()
            wp.launch(total, dim=3, inputs=[y, loss])
        tape.backward(loss)
    for kernel in (square, total):  # whose launches of these layouts others may have made
        kernel.executables.clear()
    made = []
    found = backward.ArrayBackward.__init__
    monkeypatch.setattr(backward.ArrayBackward, "__init__", lambda *given: (made.append(given), found(*given))[1])
    for _ in range(3):
        wp.capture_launch(capture.graph)
        assert_allclose(x.grad.numpy(), 2 * x.numpy())
        tape.zero()
    assert len(made) == 2
    shorter, y = numbers(1, 2, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    record.set_dim(2)
    record.set_params([shorter, y])
    with wp.Tape() as tape:
        record.launch()
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert_allclose(shorter.grad.numpy(), 2 * shorter.numpy())


@wp.kernel
def multiplied(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    z[i] = x[i] * y[i]


def test_gradients_that_a_launch_reads_change_on_the_way_back():
    """The saved content differs in each repetition, also where the backward pass changes it."""
    x, w = numbers(0, 3, requires_grad=True), numbers(1, 3, requires_grad=True)
    y, z = (wp.zeros(3, dtype=float, requires_grad=True) for _ in range(2))
    for k in range(6):
        content = np.random.default_rng(k).normal(size=3)
        x.grad.assign(content)
        w.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(multiplied, dim=3, inputs=[x.grad, w], outputs=[z])
            wp.launch(square, dim=3, inputs=[x], outputs=[y])
        tape.backward(grads={y: wp.ones(3, dtype=float), z: wp.ones(3, dtype=float)})
        assert_allclose(w.grad.numpy(), content, rtol=1e-6)


def test_gradients_of_a_way_back_that_failed_are_zeroed():
    x, y, z = (wp.array(np.float32([1.0, 2.0, 3.0]), dtype=float, requires_grad=True) for _ in range(3))

    def fail():
        raise ArithmeticError("the program's own")

    tape = wp.Tape()
    with tape:
        tape.record_func(fail, [])
        wp.launch(scale, 3, [x, 2.0], [y])
        wp.launch(scale, 3, [y, 3.0], [z])
    with pytest.raises(ArithmeticError, match="own"):
        tape.backward(grads={z: wp.ones(3, dtype=float)})
    assert_array_equal(x.grad.numpy(), [6.0, 6.0, 6.0])
    tape.zero()
    for a in (x, y, z):
        assert_array_equal(a.grad.numpy(), [0.0, 0.0, 0.0])
    x.assign([4.0, 5.0, 6.0])  # and nothing that was recorded is lost
    with pytest.raises(ArithmeticError):
        tape.backward(grads={z: wp.ones(3, dtype=float)})
    assert_array_equal(x.grad.numpy(), [6.0, 6.0, 6.0])


def test_handles_that_nobody_has_do_not_pile_up():
    x, y = (wp.ones(4, dtype=float, requires_grad=True) for _ in range(2))
    for _ in range(300):
        with wp.Tape():
            wp.launch(square, 4, [x], [y])
    assert len(x.memory.keepers) < 64
