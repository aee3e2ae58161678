"""Loading of modules in programs, and the rules of launches and meshes that `warp._src` has as functions."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.devices import get_device
from jwarp.programs.context_functions import MEMBERS
from jwarp.programs.mesh_edges import MeshAdjacency


@wp.kernel
def filled(x: wp.array2d[float]):
    i, j = wp.tid()
    x[i, j] = 1.0


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)
    yield
    wp.config.enable_cpu_blocks = False


def test_modules_note_what_was_asked_for(program):
    module = wp.get_module("a module to load")
    module.load("cpu", block_dim=4)
    assert list(module.execs) == [(None, 1)]
    wp.config.enable_cpu_blocks = True
    wp.force_load("cpu", modules=[module], block_dim=4)
    assert list(module.execs) == [(None, 1), (None, 4)]
    module.unload()
    assert not module.execs
    wp.force_load("cpu", modules=[module], block_dim=8)
    wp.force_load("cpu", modules=[module])  # what is known stays
    assert list(module.execs) == [(None, 8)]


def test_modules_without_kernels_are_refused():
    for module in (json, "json", "no_such_module_anywhere"):
        with pytest.raises(RuntimeError, match="does not contain any Warp kernels, functions, or structs"):
            wp.load_module(module)
    wp.load_module(__name__)
    wp.load_module()


BROKEN = """
import jwarp as wp

@wp.kernel
def good(x: wp.array[float]):
    x[wp.tid()] = 1.0

@wp.kernel
def bad(x: wp.array[float]):
    x[wp.tid()] = unknown_name

@wp.kernel
def near(grid: wp.uint64, x: wp.array[wp.vec3], y: wp.array[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], 0.5):
        y[i] += 1
"""


def imported(tmp_path, monkeypatch, name, text):
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_broken_kernels_are_found_when_a_module_is_loaded(program, tmp_path, monkeypatch):
    broken = imported(tmp_path, monkeypatch, "broken_to_load", BROKEN)
    whole = imported(tmp_path, monkeypatch, "whole_to_load", BROKEN.replace("unknown_name", "2.0"))
    modules = [wp.get_module(module.__name__) for module in (broken, whole)]
    for load in (
        lambda: wp.load_module(broken),
        lambda: wp.load_module("broken_to_load", device="cpu"),
        lambda: wp.load_module("broken_to_load", device=["cpu"], recursive=True),
        lambda: modules[0].load("cpu"),
        lambda: eval("load()", {"load": wp.load_module, "__name__": "broken_to_load"}),
        lambda: wp.force_load("cpu", modules=modules),
    ):
        with pytest.raises(wp.CompileError, match="unknown_name"):
            load()
    assert list(modules[1].execs) == [(None, 1)] and not modules[0].execs  # the other one has been loaded
    x = wp.zeros(2)
    wp.launch(broken.good, 2, [x])
    np.testing.assert_array_equal(x.numpy(), 1.0)
    monkeypatch.setattr(surface, "is_warps", False)
    wp.load_module(broken)


def test_inline_is_a_bool():
    with pytest.raises(TypeError, match="inline must be a bool"):
        wp.func(inline="yes")


def test_rules_of_launches(program):
    canonical, block = MEMBERS["_canonicalize_dim"], MEMBERS["_resolve_launch_block_dim"]
    dims = (1, 2, 3)
    assert canonical(dims) is dims and canonical([np.int32(2), 3]) == (2, 3) and canonical(np.int64(5)) == (5,)
    with pytest.raises(TypeError):
        canonical([1, 2.5])
    cpu = get_device("cpu")
    assert [block(cpu, n) for n in (None, -7, 0, 1, 64)] == [1] * 5
    wp.config.enable_cpu_blocks = True
    assert [block(cpu, n) for n in (None, 0, 64)] == [1, 1, 64]
    bounds = MEMBERS["_build_kernel_launch_bounds"]((2, 3, 5), filled)
    assert (bounds.shape, bounds.size, bounds.coord_mult) == ((2, 3), 30, 5)
    with pytest.raises(ValueError, match="extent 4294967296 in dimension 1"):
        MEMBERS["_build_kernel_launch_bounds"]((1, 2**32), filled)
    MEMBERS["_validate_cuda_device_arch"](52, (12, 9))
    with pytest.raises(RuntimeError, match="CUDA 13 makes code for sm_75 and later, not for sm_61 of cuda:0"):
        MEMBERS["_validate_cuda_device_arch"](61, (13, 0), "cuda:0")


def test_edges_of_a_mesh(capsys):
    edges = MeshAdjacency([(0, 3, 1), (0, 2, 3)], 2).edges
    shared = edges[0, 3]
    assert (shared.v0, shared.v1, shared.o0, shared.o1, shared.f0, shared.f1) == (0, 3, 1, 2, 0, 1)
    assert len(edges) == 5 and sum(edge.f1 == -1 for edge in edges.values()) == 4
    MeshAdjacency([(0, 3, 1), (0, 2, 3), (3, 0, 1)], 3)
    assert capsys.readouterr().out == "Detected non-manifold edge\n" * 1
