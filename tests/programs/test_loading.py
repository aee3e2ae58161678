"""Loading of modules in programs, and the rules of launches and meshes that `warp._src` has as functions."""

from __future__ import annotations

import json

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
