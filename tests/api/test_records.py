"""Launch records: made, changed, replayed, compared; and adjoint launches."""

import copy
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(8)


@wp.kernel
def axpy(x: wp.array[float], y: wp.array[float], a: float, n: int, out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] * y[i] + float(n)


@wp.kernel
def damped(x: wp.array[float], k: float, state: wp.array[float]):
    i = wp.tid()
    state[i] = state[i] * state[i] * k + x[i]


@wp.kernel
def writes_first(out: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    out[i] = 2.0 * x[i]


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# Forward records


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_changed_alone(copied, kind):
    x, cotangent = floats(4), np.ones(4, np.float32)
    outputs = [np.zeros(4, np.float32)] if kind == "numpy" else [4]
    record = wp.launch(axpy, 4, [x, x, 2.0, 1], outputs, record_cmd=True)
    adjoint = wp.launch(
        axpy, 4, [x, x, 2.0, 1], outputs, adjoint=True, adj_inputs=[True] + [None] * 3, adj_outputs=[cotangent],
        record_cmd=True,
    )  # fmt: skip
    other, other_adjoint = copied(record), copied(adjoint)
    other.set_param_by_name("a", 3.0)
    other_adjoint.set_param_by_name("a", 3.0)
    other_adjoint.set_param_by_name("y", True, adjoint=True)
    assert record.params[2] == adjoint.params[2] == 2.0
    for made, k in ((record, 2), (other, 3), (record, 2)):
        np.testing.assert_allclose(made.launch()[0], k * x * x + 1, rtol=1e-6)
    for made, k in ((adjoint, 2), (other_adjoint, 3)):
        np.testing.assert_allclose(made.launch()[0], k * x, rtol=1e-6)
    assert (other.params[0] is x) == (copied is copy.copy)
    assert copied(wp.Launch(axpy)).params[0] is wp.Launch(axpy).params[0]


def test_a_record_runs_nothing_and_replays():
    x, y = floats(5), floats(5)
    record = wp.launch(axpy, 5, [x, y, 2.0, 3], [5], record_cmd=True)
    assert isinstance(record, wp.Launch)
    for _ in range(2):
        (out,) = record.launch()
        np.testing.assert_allclose(out, 2 * x * y + 3, rtol=1e-6)
    assert record.kernel is axpy and record.dim == (5,) and not record.adjoint and record.block_dim is None
    assert record.params[2:4] == (2.0, 3)


def test_it_sees_what_is_set_later():
    x, y = floats(5), floats(5)
    record = wp.launch(axpy, 5, [x, y, 2.0, 3], [5], record_cmd=True)
    record.launch()
    record.set_param_at_index(2, -1.0)
    record.set_param_by_name("x", jnp.ones(5))
    np.testing.assert_allclose(record.launch()[0], -y + 3, rtol=1e-6)
    record.set_dim(3)
    np.testing.assert_allclose(record.launch()[0], [*(-y + 3)[:3], 0, 0], rtol=1e-6)
    record.set_params([y, y, 1.0, 0, 7])
    record.set_dim((5,))
    np.testing.assert_allclose(record.launch()[0], [*(y * y), 0, 0], rtol=1e-6)


def test_changes_of_numpy_inputs_are_seen():
    x, y = floats(5), floats(5)
    record = wp.launch(axpy, 5, [x, y, 1.0, 0], [5], record_cmd=True)
    first = np.asarray(record.launch()[0])
    x[:] = 10.0
    np.testing.assert_allclose(record.launch()[0], 10 * y, rtol=1e-6)
    assert not np.allclose(first, 10 * y)


def test_a_functional_record_starts_from_what_was_recorded():
    x, start = floats(4), jnp.asarray(floats(4))
    record = wp.launch(damped, 4, [x, 0.5], [start], record_cmd=True)
    expected = np.asarray(start) ** 2 * 0.5 + x
    for _ in range(2):
        np.testing.assert_allclose(record.launch()[0], expected, rtol=1e-6)


def test_new_values_compile_nothing():
    x, y = floats(5), floats(5)
    record = wp.launch(axpy, 5, [x, y, 2.0, 3], [5], record_cmd=True)
    record.launch()
    with wp.record_compiles() as events:
        record.set_param_by_name("a", 4.0)
        record.set_param_by_name("x", floats(9))
        record.set_param_by_name("y", floats(9))
        record.set_param_at_index(4, 9)
        record.set_dim(9)
        record.launch()
    assert [e for e in events if e.source != "memory"] == []


def test_built_empty_and_filled():
    x = floats(3)
    record = wp.Launch(writes_first)
    with pytest.raises(wp.LaunchError, match="dim is not set"):
        record.launch()
    record.set_dim(3)
    with pytest.raises(wp.LaunchError, match="nothing is set for 'out', 'x'"):
        record.launch()
    record.set_params([3, x])
    np.testing.assert_allclose(record.launch()[0], 2 * x)


def test_named_forms_return_dicts():
    x = floats(3)
    record = wp.launch(writes_first, 3, {"x": x}, {"out": 3}, record_cmd=True)
    np.testing.assert_allclose(record.launch()["out"], 2 * x)
    record = wp.launch(writes_first, 3, [jnp.zeros(3), x], record_cmd=True)
    np.testing.assert_allclose(record.launch()["out"], 2 * x)


def test_inside_jit_with_traced_values():
    x, y = floats(5), floats(5)

    @jax.jit
    def run(x, a):
        record = wp.launch(axpy, 5, [x, y, a, 3], [5], record_cmd=True)
        record.set_param_by_name("a", a * 2.0)
        return record.launch()[0]

    np.testing.assert_allclose(run(x, 1.5), 3 * x * y + 3, rtol=1e-6)
    g = jax.grad(lambda a: run(x, a).sum())(1.5)
    np.testing.assert_allclose(g, 2 * (x * y).sum(), rtol=1e-5)


def test_a_zero_size_launch_is_a_record():
    start = jnp.asarray(floats(4))
    record = wp.launch(damped, 0, [floats(4), 0.5], [start], record_cmd=True)
    np.testing.assert_array_equal(record.launch()[0], start)


def test_faults_of_setters_are_named():
    x, y = floats(5), floats(5)
    record = wp.launch(axpy, 5, [x, y, 2.0, 3], [5], record_cmd=True)
    for bad in (-1, 5, 1.0, True, "x"):
        with pytest.raises(wp.LaunchError, match="parameters 0 to 4"):
            record.set_param_at_index(bad, 1.0)
    with pytest.raises(wp.LaunchError, match="no parameter 'z'"):
        record.set_param_by_name("z", 1.0)
    with pytest.raises(wp.KernelTypeError, match="'x'"):
        record.set_param_by_name("x", y.astype(np.float64))
    with pytest.raises(wp.KernelTypeError, match="'x'"):
        record.set_param_by_name("x", y[None])
    with pytest.raises(wp.LaunchError, match="takes a list of 5 values"):
        record.set_params([x, y])
    with pytest.raises(wp.LaunchError, match="no adjoint of 'x'"):
        record.set_param_by_name("x", y, adjoint=True)
    with pytest.raises(wp.LaunchError, match="be non-negative"):
        record.set_dim(-1)
    with pytest.raises(wp.LaunchError, match="for adjoint launches"):
        wp.launch(axpy, 5, [x, y, 2.0, 3], [5], record_cmd=True, adj_outputs=[x])
    np.testing.assert_allclose(record.launch()[0], 2 * x * y + 3, rtol=1e-6)  # and nothing has changed


def test_a_provable_fault_is_found_when_it_is_set():
    x, y = floats(5), floats(5)
    record = wp.launch(axpy, 5, [x, y, 2.0, 3], [5], record_cmd=True)
    with pytest.raises(wp.LaunchError):
        record.set_dim(6)
    assert record.dim == (5,)
    with pytest.raises(wp.LaunchError):
        wp.launch(axpy, 6, [x, y, 2.0, 3], [5], record_cmd=True)


def test_repr():
    record = wp.launch(axpy, 5, [floats(5), floats(5), 2.0, 3], [5], record_cmd=True)
    assert repr(record) == "<wp.Launch of axpy, dim=(5,), x=float32[5], y=float32[5], a=2.0, n=3, out=5>"
    assert "x=unset" in repr(wp.Launch(axpy, adjoint=True)) and "adjoint of axpy" in repr(wp.Launch(axpy, adjoint=True))


@wp.struct
class Pair:
    scale: float
    first: wp.array[float]
    second: wp.array[float]


@wp.kernel
def paired(p: Pair, out: wp.array[float]):
    i = wp.tid()
    out[i] = p.scale * p.first[i] + 10.0 * p.second[i]


@wp.kernel
def into_pair(x: wp.array[float], p: Pair):
    i = wp.tid()
    p.first[i] = p.scale * x[i]
    p.second[i] = x[i]


@pytest.mark.parametrize("in_place", [True, False])
def test_numbers_of_an_output_come_back_as_they_were_set(in_place):
    x = floats(4)
    given = [np.zeros(4, np.float32), np.zeros(4, np.float32)] if in_place else [4, 4]
    record = wp.launch(into_pair, 4, [x], [Pair(2.0, *given)], record_cmd=True)
    for scale in (2.0, 3.0):
        record.set_param_by_name("p", Pair(scale, *given))
        (p,) = record.launch()
        assert p.scale == scale
        np.testing.assert_allclose(p.first, scale * x, rtol=1e-6)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_setter_that_fails_changes_nothing(in_place):
    """A struct whose last field did not fit left the record with its first fields and the old last one."""
    first, second, memory = floats(5), floats(5), np.zeros(9, np.float32)
    pair = Pair(2.0, first, second)
    record = wp.launch(paired, 5, [pair], [memory[:5] if in_place else 5], record_cmd=True)
    expected = 2 * first + 10 * second

    def check():
        np.testing.assert_allclose(record.launch()[0], expected, rtol=1e-5)
        assert record.params[0] is pair and record.dim == (5,)

    check()
    faulty = [floats(4)[:, None], floats(5).astype(np.float64)]
    if in_place:
        faulty += [memory[4:], floats(3)]  # what is written overlaps it; it is too short for the threads
    for wrong in faulty:
        with pytest.raises((wp.LaunchError, wp.KernelTypeError)):
            record.set_param_at_index(0, Pair(3.0, floats(5), wrong))
        check()
    with pytest.raises(wp.LaunchError):
        record.set_dim(6)
    check()


# Adjoint launches


def expected_gradients(x, y, a, w):
    return w * a * y, w * a * x, (w * x * y).sum()


def test_gradients_of_all_inputs_or_of_some():
    x, y, w = floats(3, 6)
    by_x, by_y, by_a = expected_gradients(x, y, 2.0, w)
    given = (axpy, 6, [x, y, 2.0, 3], [6])
    for got, want in zip(wp.launch(*given, adjoint=True, adj_outputs=[w]), (by_x, by_y, by_a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    (got,) = wp.launch(*given, adjoint=True, adj_inputs=[None, True, None, None], adj_outputs=[w])
    np.testing.assert_allclose(got, by_y, rtol=1e-6)
    start = floats(6)
    got = wp.launch(*given, adjoint=True, adj_inputs=[jnp.asarray(start), None, 10.0, None], adj_outputs=[w])
    np.testing.assert_allclose(got[0], start + by_x, rtol=1e-5)
    np.testing.assert_allclose(got[1], 10 + by_a, rtol=1e-5)
    got = wp.launch(*given, adjoint=True, adj_inputs={"a": True}, adj_outputs={"out": w})
    assert list(got) == ["a"]
    np.testing.assert_allclose(got["a"], by_a, rtol=1e-5)
    zeros = wp.launch(*given, adjoint=True, adj_outputs=[None])
    assert all(not np.any(g) for g in zeros)


def test_initial_contents_have_gradients_when_asked():
    x, start, w = floats(3, 4)
    given = (damped, 4, [x, 0.5], [jnp.asarray(start)])
    got = wp.launch(*given, adjoint=True, adj_outputs=[w])
    assert len(got) == 2
    np.testing.assert_allclose(got[0], w)
    np.testing.assert_allclose(got[1], (w * start**2).sum(), rtol=1e-5)
    got = wp.launch(*given, adjoint=True, adj_inputs=[None, None, True], adj_outputs=[w])
    np.testing.assert_allclose(got[0], w * start, rtol=1e-5)
    got = wp.launch(damped, 4, [x, 0.5, jnp.asarray(start)], adjoint=True, adj_inputs={"state": True},
                    adj_outputs={"state": w})  # fmt: skip
    np.testing.assert_allclose(got["state"], w * start, rtol=1e-5)


def test_it_is_what_jax_gives_for_kernels_with_sums_stencils_and_extrema():
    @wp.kernel
    def mixed(x: wp.array[float], n: int, total: wp.array[float], high: wp.array[float], near: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(total, 0, x[i] * x[i])
        wp.atomic_max(high, 0, wp.sin(x[i]))
        if i > 0 and i < n - 1:
            near[i] = x[i - 1] * x[i + 1] - x[i]

    x = jnp.asarray(floats(9))
    weights = [jnp.asarray(floats(*s)) for s in ((1,), (1,), (9,))]
    _, pull = jax.vjp(lambda x: wp.launch(mixed, 9, [x, 9], [1, 1, 9]), x)
    (got,) = wp.launch(mixed, 9, [x, 9], [1, 1, 9], adjoint=True, adj_outputs=weights)
    np.testing.assert_allclose(got, pull(tuple(weights))[0], rtol=1e-6)


def test_adjoint_records():
    x, y, w = floats(3, 6)
    record = wp.launch(axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, record_cmd=True)
    assert record.adjoint
    with pytest.raises(wp.LaunchError, match="needs adj_outputs"):
        record.launch()
    record.set_param_by_name("out", w, adjoint=True)
    np.testing.assert_allclose(record.launch()[0], expected_gradients(x, y, 2.0, w)[0], rtol=1e-5)
    record.set_param_by_name("a", 3.0)
    record.set_param_at_index(0, None, adjoint=True)
    record.set_param_at_index(1, True, adjoint=True)
    got = record.launch()
    assert len(got) == 1
    record = wp.Launch(axpy, adjoint=True)
    record.set_params([x, y, 2.0, 3, 6])
    record.set_dim(6)
    record.set_param_at_index(0, jnp.ones(6), adjoint=True)
    record.set_param_at_index(4, w, adjoint=True)
    (got,) = record.launch()
    np.testing.assert_allclose(got, 1 + expected_gradients(x, y, 2.0, w)[0], rtol=1e-5)


def test_the_adjoint_in_jit():
    x, y, w = floats(3, 6)

    @jax.jit
    def run(x, a, w):
        return wp.launch(axpy, 6, [x, y, a, 3], [6], adjoint=True, adj_outputs=[w])

    for got, want in zip(run(x, 2.0, w), expected_gradients(x, y, 2.0, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_only_what_is_wanted_is_compiled():
    @wp.kernel
    def product(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = x[i] * y[i]

    x, y, w = floats(3, 6)
    with wp.record_compiles() as events:
        wp.launch(product, 6, [x, y], [6], adjoint=True, adj_inputs=[True, None], adj_outputs=[w])
    assert [e.variant for e in events] == ["adjoint(x)"]


def test_faults_of_adjoints_are_named():
    x, y, w = floats(3, 6)
    given = (axpy, 6, [x, y, 2.0, 3], [6])
    with pytest.raises(wp.LaunchError, match="needs adj_outputs"):
        wp.launch(*given, adjoint=True)
    with pytest.raises(wp.LaunchError, match=r"adj_inputs has 3 entries, expected 4 \(x, y, a, n\)"):
        wp.launch(*given, adjoint=True, adj_inputs=[True, True, True], adj_outputs=[w])
    with pytest.raises(wp.LaunchError, match=r"adj_outputs has 2 entries, expected 1 \(out\)"):
        wp.launch(*given, adjoint=True, adj_outputs=[w, w])
    with pytest.raises(wp.KernelTypeError, match="'n' is int32, which has no gradient"):
        wp.launch(*given, adjoint=True, adj_inputs=[None, None, None, True], adj_outputs=[w])
    with pytest.raises(wp.LaunchError, match=r"adjoint of 'out': expected float32\[6\], got float32\[5\]"):
        wp.launch(*given, adjoint=True, adj_outputs=[w[:5]])
    with pytest.raises(wp.KernelTypeError, match="adjoint of 'out'"):
        wp.launch(*given, adjoint=True, adj_outputs=[w.astype(np.float64)])
    with pytest.raises(wp.LaunchError, match="adj_inputs name 'z'"):
        wp.launch(*given, adjoint=True, adj_inputs={"z": True}, adj_outputs=[w])
    with pytest.raises(wp.LaunchError, match="must be a list, a tuple or a dict"):
        wp.launch(*given, adjoint=True, adj_outputs=w)


# Descriptors


def test_descriptors_compare_by_what_the_launch_does():
    x, y = floats(2, 6)
    record = wp.launch(axpy, 6, [x, y, 2.0, 3], [6], record_cmd=True)
    same = wp.launch(axpy, 6, [y, x, 5.0, 4], [6], record_cmd=True)
    assert record.descriptor == same.descriptor and hash(record.descriptor) == hash(same.descriptor)
    same.set_dim(5)
    assert record.descriptor != same.descriptor
    adjoint = wp.launch(
        axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, adj_inputs=[True, None, True, None], record_cmd=True
    )
    assert adjoint.descriptor.variant == "adjoint(x, a)" and record.descriptor.variant == "forward"
    with wp.config(debug=True):
        assert wp.launch(axpy, 6, [x, y, 2.0, 3], [6], record_cmd=True).descriptor != record.descriptor


def test_descriptors_travel_between_processes(tmp_path):
    source = tmp_path / "kernels.py"
    source.write_text(
        textwrap.dedent("""
        import numpy as np
        import jwarp as wp

        @wp.kernel
        def scale(x: wp.array[float], k: float, y: wp.array[float]):
            i = wp.tid()
            y[i] = k * x[i]

        def descriptor():
            x = np.ones(4, np.float32)
            return wp.launch(scale, 4, [x, 2.0], [4], record_cmd=True).descriptor

        if __name__ == "__main__":
            import sys
            sys.stdout.buffer.write(descriptor().to_bytes())
        """)
    )
    data = subprocess.run([sys.executable, source], check=True, capture_output=True).stdout
    sys.path.insert(0, str(tmp_path))
    try:
        import kernels
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("kernels", None)
    assert wp.LaunchDescriptor.from_bytes(data) == kernels.descriptor()


def test_damaged_descriptors_are_refused():
    x, y = floats(2, 6)
    data = wp.launch(axpy, 6, [x, y, 2.0, 3], [6], record_cmd=True).descriptor.to_bytes()
    for k in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[k] ^= 1 << int(RNG.integers(8))
        with pytest.raises(wp.LaunchError, match="no launch descriptor"):
            wp.LaunchDescriptor.from_bytes(bytes(damaged))
        with pytest.raises(wp.LaunchError):
            wp.LaunchDescriptor.from_bytes(data[:k])
    for other in (b"", b"nonsense", 5, None):
        with pytest.raises(wp.LaunchError):
            wp.LaunchDescriptor.from_bytes(other)


# Tools


def test_inspect_shows_the_variant():
    x, y, w = floats(3, 6)
    forward = wp.inspect(axpy)
    assert wp.inspect(wp.launch(axpy, 6, [x, y, 2.0, 3], [6], record_cmd=True)) == forward
    adjoint = wp.launch(axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, adj_inputs=[True, None, None, None],
                        adj_outputs=[w], record_cmd=True)  # fmt: skip
    text = wp.inspect(adjoint)
    assert "adj_x" in text and "adj_y" not in text and text == wp.inspect(axpy, adjoint=["x"])
    assert all(name in wp.inspect(axpy, adjoint=True) for name in ("adj_x", "adj_y", "adj_a"))
    assert "define" in wp.inspect(axpy, "llvm", adjoint="a")
    with pytest.raises(wp.LaunchError, match="no parameter 'n' with a gradient"):
        wp.inspect(axpy, adjoint=["n"])


def test_explain_takes_records():
    x, y = floats(2, 6)
    record = wp.launch(axpy, 6, [x, y, 2.0, 3], [6], record_cmd=True)
    assert "axpy" in str(wp.explain(record)())


def test_one_gradient_of_a_complete_record_is_changed():
    x, y, w = floats(3, 6)
    record = wp.launch(axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, adj_outputs=[w], record_cmd=True)
    dx, dy, da = expected_gradients(x, y, 2.0, w)
    record.set_param_by_name("x", None, adjoint=True)
    got = record.launch()
    assert len(got) == 2
    np.testing.assert_allclose(got[0], dy, rtol=1e-5)
    record.set_param_by_name("x", jnp.ones(6), adjoint=True)
    got = record.launch()
    assert len(got) == 3
    np.testing.assert_allclose(got[0], 1 + dx, rtol=1e-5)
    np.testing.assert_allclose(got[2], da, rtol=1e-5)


def test_the_cotangent_of_a_record_of_inputs_only_is_set():
    x, start, w = floats(3, 6)
    record = wp.launch(damped, 6, [x, 0.5, start], adjoint=True, record_cmd=True)
    record.set_param_by_name("state", w, adjoint=True)
    expected = wp.launch(damped, 6, [x, 0.5, start], adjoint=True, adj_outputs={"state": w})
    got = record.launch()
    assert list(got) == list(expected) == ["x", "k"]
    for name in got:
        np.testing.assert_array_equal(got[name], expected[name])
