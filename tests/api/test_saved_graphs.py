"""Graphs in files, which do what the saved ones did, on arrays of their own."""

import subprocess
import sys

import numpy as np
import pytest

import jwarp as wp


@wp.struct
class Pair:
    left: wp.array[float]
    factor: float


@wp.kernel
def scale(a: wp.array[float], b: wp.array[float], s: float):
    i = wp.tid()
    b[i] = a[i] * s


@wp.kernel
def weigh(pair: Pair, out: wp.array[wp.vec2d]):
    i = wp.tid()
    out[i] = out[i] * wp.float64(pair.left[i] * pair.factor)


@wp.kernel
def count_down(left: wp.array[int], x: wp.array[wp.float64]):
    left[0] = left[0] - 1
    x[0] = x[0] * wp.float64(1.5)


@wp.kernel
def nearest(mesh: wp.uint64, points: wp.array[wp.vec3], distance: wp.array[float]):
    i = wp.tid()
    query = wp.mesh_query_point_no_sign(mesh, points[i], 100.0)
    distance[i] = wp.length(wp.mesh_eval_position(mesh, query.face, query.u, query.v) - points[i])


def _numbers(n, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 2.0, n).astype(np.float32)


def _saved(path, body, **params):
    """A graph of `body` that went through a file."""
    with wp.ScopedCapture(apic=True) as capture:
        body()
    wp.capture_save(capture.graph, path, outputs=params)
    return wp.capture_load(path)


def _content(graph, name, like):
    found = wp.zeros_like(like)
    graph.get_param(name, found)
    return found.numpy()


def test_a_loaded_graph_does_what_was_captured_on_arrays_of_its_own(tmp_path):
    a, b = wp.array(_numbers(16)), wp.zeros(16)
    pair = Pair()
    pair.left, pair.factor = a, 0.25
    wide = wp.array(np.random.default_rng(1).random((16, 2)), dtype=wp.vec2d)
    start = wide.numpy().copy()

    def body():
        made = wp.zeros(16)
        wp.launch(scale, 16, inputs=[a, made, 2.0])
        wp.launch(scale, 16, inputs=[made, b, 3.0])
        wp.copy(b[:4], a[4:8])
        b[12:].fill_(7.0)
        wp.launch(weigh, 16, inputs=[pair, wide])

    graph = _saved(tmp_path / "graph", body, a=a, b=b, part=b[2:14:3], wide=wide)
    assert graph.is_loaded and graph.params == ["a", "b", "part", "wide"]
    for seed in (0, 5):  # what it holds, and what it is given
        given = _numbers(16, seed)
        graph.set_param("a", wp.array(given))
        graph.set_param("wide", wp.array(start, dtype=wp.vec2d))
        wp.capture_launch(graph)
        expected = given * 6
        expected[:4], expected[12:] = given[4:8], 7
        np.testing.assert_allclose(_content(graph, "b", b), expected, rtol=1e-6)
        np.testing.assert_allclose(_content(graph, "part", b[2:14:3]), expected[2:14:3], rtol=1e-6)
        np.testing.assert_allclose(_content(graph, "wide", wide), start * given[:, None] * 0.25, rtol=1e-6)
    assert not b.numpy().any()
    np.testing.assert_array_equal(wide.numpy(), start)


def test_loops_branches_and_graphs_inside_are_saved(tmp_path):
    left, x, flag = wp.array([5], dtype=int), wp.array([1.0], dtype=wp.float64), wp.array([0], dtype=int)
    a, b = wp.array(_numbers(8)), wp.zeros(8)
    with wp.ScopedCapture() as inner:
        wp.launch(scale, 8, inputs=[a, b, 2.0])

    def body():
        wp.capture_while(left, lambda: wp.launch(count_down, 1, inputs=[left, x]))
        wp.capture_if(flag, inner.graph, lambda: wp.launch(scale, 8, inputs=[a, b, -1.0]))

    graph = _saved(tmp_path / "graph.wrp", body, left=left, x=x, flag=flag, b=b)
    wp.capture_launch(graph)
    assert _content(graph, "x", x)[0] == 1.5**5 and _content(graph, "left", left)[0] == 0
    np.testing.assert_array_equal(_content(graph, "b", b), -a.numpy())
    graph.set_param("flag", wp.array([1], dtype=int))
    graph.set_param("left", wp.array([2], dtype=int))
    wp.capture_launch(graph)
    assert _content(graph, "x", x)[0] == 1.5**7
    np.testing.assert_array_equal(_content(graph, "b", b), 2 * a.numpy())


def test_functions_of_arrays_are_saved(tmp_path):
    rng = np.random.default_rng(2)
    numbers = rng.integers(-50, 50, 12).astype(np.int32)
    keys, values = (wp.array(np.concatenate([x, 0 * x]), dtype=int) for x in (numbers, np.arange(12, dtype=np.int32)))
    own, order = wp.clone(keys), wp.clone(values)
    starts = wp.array([0, 3, 3, 9], dtype=int)
    sums, weights, total = wp.zeros(24, dtype=int), wp.array(_numbers(12)), wp.zeros(1)
    runs, lengths, count = wp.zeros(12, dtype=int), wp.zeros(12, dtype=int), wp.zeros(1, dtype=int)
    repeated = wp.array(np.sort(rng.integers(0, 4, 12)).astype(np.int32))

    def body():
        wp.utils.radix_sort_pairs(keys, values, 12)
        wp.utils.segmented_sort_pairs(own, order, 12, starts)
        wp.utils.array_scan(keys, sums, inclusive=True)
        wp.utils.array_sum(weights, out=total)
        wp.utils.runlength_encode(repeated, runs, lengths, count)

    graph = _saved(tmp_path / "graph", body, keys=keys, own=own, sums=sums, total=total, lengths=lengths, count=count)
    wp.capture_launch(graph)
    sorted_ = np.sort(numbers)
    np.testing.assert_array_equal(_content(graph, "keys", keys)[:12], sorted_)
    segments = np.concatenate([np.sort(numbers[:3]), np.sort(numbers[3:9]), numbers[9:]])
    np.testing.assert_array_equal(_content(graph, "own", own)[:12], segments)
    np.testing.assert_array_equal(_content(graph, "sums", sums)[:12], np.cumsum(sorted_))
    np.testing.assert_allclose(_content(graph, "total", total)[0], weights.numpy().sum(), rtol=1e-6)
    found, counts = np.unique(repeated.numpy(), return_counts=True)
    assert _content(graph, "count", count)[0] == len(found)
    np.testing.assert_array_equal(_content(graph, "lengths", lengths)[: len(found)], counts)


def test_a_mesh_is_saved_with_its_points(tmp_path):
    points = wp.array(np.eye(3, dtype=np.float32), dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    asked = wp.array(np.random.default_rng(3).uniform(1, 2, (4, 3)).astype(np.float32), dtype=wp.vec3)
    distance, expected = wp.zeros(4), wp.zeros(4)
    graph = _saved(
        tmp_path / "graph", lambda: wp.launch(nearest, 4, inputs=[mesh.id, asked, distance]), d=distance, asked=asked
    )
    wp.launch(nearest, 4, inputs=[mesh.id, asked, expected])
    wp.capture_launch(graph)
    np.testing.assert_allclose(_content(graph, "d", distance), expected.numpy(), rtol=1e-6)
    assert (expected.numpy() > 0).all()


def test_a_graph_runs_in_another_process_without_the_kernels(tmp_path):
    a, b = wp.array(_numbers(4)), wp.zeros(4)
    _saved(tmp_path / "graph", lambda: wp.launch(scale, 4, inputs=[a, b, 3.0]), a=a, b=b)
    program = (
        "import jwarp as wp\n"
        f"graph = wp.capture_load({str(tmp_path / 'graph')!r})\n"
        "wp.capture_launch(graph)\n"
        "b = wp.zeros(4)\n"
        "graph.get_param('b', b)\n"
        "print(*b.numpy())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(np.array(done.stdout.split(), float), a.numpy() * 3, rtol=1e-6)


def test_bytes_are_read_as_files_are_and_damaged_ones_are_refused(tmp_path):
    a, b = wp.array(_numbers(4)), wp.zeros(4)
    _saved(tmp_path / "graph", lambda: wp.launch(scale, 4, inputs=[a, b, 3.0]), b=b)
    content = (tmp_path / "graph.wrp").read_bytes()
    graph = wp.capture_load_from_bytes(bytearray(content))
    wp.capture_launch(graph)
    np.testing.assert_allclose(_content(graph, "b", b), a.numpy() * 3, rtol=1e-6)
    rng = np.random.default_rng(4)
    cut = [content[:n] for n in (*rng.integers(0, len(content), 20), len(content) - 1)]
    changed = [content[:n] + bytes([content[n] ^ 1]) + content[n + 1 :] for n in rng.integers(0, len(content), 20)]
    for damaged in [*cut, *changed, b"", b"PK" + content, content + b"\0"]:
        with pytest.raises(wp.LaunchError, match="holds no graph of this version"):
            wp.capture_load_from_bytes(damaged)
    with pytest.raises(wp.KernelTypeError, match="expected bytes, got int"):
        wp.capture_load_from_bytes(3)
    with pytest.raises(wp.LaunchError, match="missing.wrp cannot be read"):
        wp.capture_load(tmp_path / "missing")


def test_a_graph_that_cannot_be_saved_leaves_the_file_as_it_was(tmp_path):
    a, b = wp.array(_numbers(4), requires_grad=True), wp.zeros(4, requires_grad=True)
    file = tmp_path / "graph.wrp"
    file.write_bytes(b"before")
    mesh = wp.Mesh(wp.array(np.eye(3, dtype=np.float32), dtype=wp.vec3), wp.array([0, 1, 2], dtype=int))
    with wp.ScopedCapture() as capture:
        mesh.refit()
    with pytest.raises(wp.LaunchError, match="has no form in a file"):
        wp.capture_save(capture.graph, file)
    with wp.ScopedCapture() as plain:
        wp.launch(scale, 4, inputs=[a, b, 1.0])
    with pytest.raises(wp.KernelTypeError, match="'a' is no array, but float"):
        wp.capture_save(plain.graph, file, inputs={"a": 1.0})
    with pytest.raises(wp.LaunchError, match="'a' is the name of two arrays"):
        wp.capture_save(plain.graph, file, inputs={"a": a}, outputs={"a": b})
    assert file.read_bytes() == b"before" and [x.name for x in tmp_path.iterdir()] == ["graph.wrp"]
    with pytest.raises(wp.LaunchError, match="a loaded graph has"):
        plain.graph.get_param_ptr("a")


def test_parameters_are_checked(tmp_path):
    a, b = wp.array(_numbers(4)), wp.zeros(4)
    graph = _saved(tmp_path / "graph", lambda: wp.launch(scale, 4, inputs=[a, b, 3.0]), a=a, b=b)
    assert graph.get_param_ptr("a") and graph.get_param_ptr("c") is None
    with pytest.raises(wp.LaunchError, match="no parameter 'c'; there are a, b"):
        graph.set_param("c", a)
    with pytest.raises(wp.LaunchError, match=r"has the shape \(4,\), the array \(5,\)"):
        graph.set_param("a", wp.zeros(5))
    with pytest.raises(wp.KernelTypeError, match="elements of float32, the array of float64"):
        graph.get_param("a", wp.zeros(4, dtype=wp.float64))
    with pytest.raises(wp.KernelTypeError, match="expected an array, got ndarray"):
        graph.set_param("a", np.zeros(4))
    with pytest.raises(wp.LaunchError, match="was loaded from a file"):
        wp.capture_save(graph, tmp_path / "again")


class Elsewhere:
    """Stands for a GPU as the device of an array."""

    is_cuda = True

    def __repr__(self):
        return "cuda:0"


@pytest.mark.parametrize("command", ["a copy", "a fill", "'named'"])
def test_arrays_of_a_gpu_are_refused(command, tmp_path):
    """By name, before anything of theirs is read."""
    a, b = wp.zeros(4, dtype=float), wp.zeros(4, dtype=float)
    with wp.ScopedCapture() as capture:
        if command == "a copy":
            wp.copy(a, b)
        else:
            a.fill_(2.0)
    (b if command == "a copy" else a).device = Elsewhere()
    graph = wp.ScopedCapture() if command == "'named'" else capture
    if command == "'named'":
        with graph:
            b.fill_(1.0)
    with pytest.raises(wp.LaunchError, match=f"{command} has an array on cuda:0"):
        wp.capture_save(graph.graph, tmp_path / "saved", {"named": a} if command == "'named'" else {})
    assert not list(tmp_path.iterdir())
