"""Every public name of Warp's works, or says what jwarp has not, and what to use."""

from __future__ import annotations

import ast
import textwrap
import types
from pathlib import Path

import pytest
from fresh_python import run_forked, run_program

from jwarp.programs.modules import _names as names_of
from jwarp.programs.own_python import is_run_as_it_is
from jwarp.programs.surface import _WHY, MODULES, missing

warp = pytest.importorskip("warp")
FOLDER = Path(warp.__file__).parent
if warp.config.version != "1.19.0":
    pytest.skip("the names are those of Warp 1.19", allow_module_level=True)


def written(module: str) -> set[str]:
    """The names that a module of Warp's imports or defines, of its text: running warp.fem takes seconds."""
    path = FOLDER.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_")}


def public(module: str) -> set[str]:
    if module != "warp":
        return written(module)
    return {
        name for name in dir(warp) if not name.startswith("_") and not isinstance(getattr(warp, name), types.ModuleType)
    }


def modules() -> list[str]:
    paths = [path.relative_to(FOLDER) for path in FOLDER.rglob("*.py")]
    parts = [[part for part in path.with_suffix("").parts if part != "__init__"] for path in paths]
    shown = [each for each in parts if each[:1] not in (["_src"], ["tests"], ["native"], ["config"])]
    names = sorted(".".join(["warp", *each]) for each in shown)
    return [name for name in names if not is_run_as_it_is(name)]


@pytest.mark.parametrize("module", modules())
def test_every_public_name_works_or_says_why_not(module):
    there = {name for name, _ in names_of(module)}
    inside = {name for name in public(module) if f"{module}.{name}" in MODULES}
    silent = {name for name in public(module) - there - inside if missing(module, name) is None}
    assert not silent


def test_nothing_that_is_there_is_said_to_be_missing():
    stale = [(module, name) for module, name in _WHY if name in {each for each, _ in names_of(module)}]
    assert not stale


def test_every_module_of_warp_is_known():
    assert {*modules()} - {"warp"} <= MODULES


def test_settings_have_the_names_of_warp():
    names = set(run_forked("import jwarp.as_warp, warp; print(*dir(warp.config))").split())
    assert public("warp.config") - {"warp"} <= names


def test_what_is_missing_is_absent_and_says_so():
    said = run_forked(
        """
        import jwarp.as_warp, importlib, sys
        import warp as wp, warp.sparse, warp.optim
        from warp.config import DeterministicMode
        import jwarp

        assert wp.tid is jwarp.tid and wp.types.vector is jwarp.types.vector and wp.vec3 is jwarp.vec3
        assert wp.DeterministicMode is DeterministicMode and wp.__version__ == wp.config.version == "1.19.0"
        assert warp.sparse.bsr_mv is jwarp.sparse.bsr_mv and not hasattr(wp, "to_paddle")
        assert importlib.util.find_spec("warp.tests") is None and importlib.util.find_spec("warp.sim") is None
        assert not hasattr(wp, "ir") and not hasattr(wp, "sinn") and "tid" in dir(wp)
        wp.config.mode = "debug"
        assert jwarp.config.debug and wp.config.mode == "debug"
        wp.config.verify_cuda = True
        for statement in ("wp.sinn",
                          "import warp.tests.unittest_utils", "from warp import to_paddle", "from warp import nothing",
                          "wp._src.context.runtime.core.no_such", "wp.config.no_such", "wp.config.no_such = 1",
                          "wp.build_experimental.add_builtin"):
            try:
                exec(statement)
            except Exception as error:
                print(type(error).__name__, error)
            else:
                raise AssertionError(statement)
        """
    ).splitlines()
    for line, start in zip(
        said,
        (
            "AttributeError module 'warp' has no attribute 'sinn'",
            "ModuleNotFoundError No module named 'warp.tests'",
            "ImportError warp.to_paddle: jwarp has no tensors of Paddle",
            "ImportError cannot import name 'nothing' from 'warp'",
            "AttributeError warp._src.context.runtime.core.no_such: an internal part of Warp",
            "AttributeError wp.config.no_such: no such setting",
            "AttributeError wp.config.no_such: no such setting",
            "AttributeError warp.build_experimental.add_builtin: jwarp has no",
        ),
        strict=True,
    ):
        assert line.startswith(start)


def test_modules_of_python_alone_run_from_an_installed_warp():
    run_forked(
        """
        import jwarp.as_warp, os
        import warp as wp, warp.autograd, warp.examples, warp.geometry, warp.render
        import numpy as np

        assert os.path.isdir(warp.examples.get_asset_directory()) and warp.render.UsdRenderer.__module__
        assert warp.geometry.__file__.endswith("geometry.py") and not hasattr(warp.geometry, "nothing")
        grid = np.linalg.norm(np.stack(np.meshgrid(*[np.linspace(-1.0, 1.0, 24)] * 3, indexing="ij")), axis=0)
        mc = wp.geometry.IsoSurfaceMarchingCubes
        points, triangles = mc.extract_surface_marching_cubes(
            wp.array(grid, dtype=float), threshold=0.5, domain_bounds_lower_corner=wp.vec3(-1.0, -1.0, -1.0),
            domain_bounds_upper_corner=wp.vec3(1.0, 1.0, 1.0))
        assert len(triangles) > 500
        np.testing.assert_allclose(np.linalg.norm(points.numpy(), axis=1), 0.5, atol=0.01)
        from warp._src.optim.linear import TiledDot
        a, b = np.random.default_rng(2).normal(size=(2, 300)).astype(np.float32)
        dot = TiledDot(300, wp.float32)
        dot.compute(wp.array(a), wp.array(b))
        np.testing.assert_allclose(dot.col(0).numpy()[0], a @ b, rtol=1e-4)
        try:
            import warp.examples.nothing
        except ModuleNotFoundError as error:
            assert "warp.examples.nothing" in str(error)
        else:
            raise AssertionError
        """
    )


def test_jacobians_of_warps_own_autograd(tmp_path):
    program = tmp_path / "jacobians.py"
    program.write_text(
        textwrap.dedent(
            """
            import numpy as np
            import warp as wp
            import warp.autograd

            @wp.kernel
            def squared(x: wp.array(dtype=float), y: wp.array(dtype=float)):
                i = wp.tid()
                y[i] = x[i] * x[i]

            numbers = np.random.default_rng(2).normal(size=3).astype(np.float32)
            x = wp.array(numbers, requires_grad=True)
            y = wp.zeros(3, dtype=float, requires_grad=True)
            found = wp.autograd.jacobian(squared, dim=3, inputs=[x], outputs=[y])
            np.testing.assert_allclose(found[0, 0].numpy(), np.diag(2 * numbers), rtol=1e-6)
            assert wp.autograd.gradcheck(squared, dim=3, inputs=[x], outputs=[y])
            """
        )
    )
    run_program(program)


def test_without_an_installed_warp_they_say_so():
    said = run_forked(
        """
        import jwarp.as_warp
        from jwarp.programs import own_python
        own_python._installed = lambda: None
        for module in ("warp.examples", "warp.fem", "warp.render", "warp._src.geometry.delaunay"):
            try:
                __import__(module)
            except ModuleNotFoundError as error:
                print(error.name, error)
        """
    ).splitlines()
    assert [line.split()[0] for line in said] == ["warp.examples", "warp.fem", "warp.render", "warp._src.geometry"]
    assert all("jwarp runs where warp-lang is installed (pip install 'jwarp[fem]')" in line for line in said)


def test_it_is_too_late_when_warp_is_imported():
    said = run_forked(
        """
        import sys, types
        sys.modules["warp"] = types.ModuleType("warp")
        sys.modules["warp"].__file__ = "/the/real/warp.py"
        try:
            import jwarp.as_warp
        except ImportError as error:
            print(error)
        """
    )
    assert said.startswith("jwarp.as_warp: NVIDIA Warp is imported already (/the/real/warp.py); import jwarp.as_warp")


def test_importing_it_twice_is_one_import():
    run_forked(
        "import jwarp.as_warp, importlib, sys; n = len(sys.meta_path); importlib.reload(jwarp.as_warp);"
        "assert len(sys.meta_path) == n"
    )


def test_what_libraries_use_of_the_internals():
    run_forked(
        """
        import jwarp.as_warp
        import warp as wp
        from warp._src.thirdparty.appdirs import user_cache_dir
        from warp._src.types import Any, Int, Vector
        from warp._src.context import builtin_functions, runtime
        from warp._src import types as warp_types

        assert user_cache_dir("newton", "x").endswith("newton") and "tile_matmul" in builtin_functions
        Vector[Any, Int]
        assert runtime.get_device("cpu") == "cpu" and runtime.tape is None
        assert warp_types.type_scalar_type(wp.vec3d) is wp.float64 and warp_types.type_length(wp.vec3d) == 3
        """
    )


@pytest.mark.parametrize("library", ["mujoco_warp", "newton"])
def test_libraries_import(library):
    pytest.importorskip(library)
    run_forked(f"import jwarp.as_warp, {library}, warp; assert warp.tid.__module__.startswith('jwarp')")


def test_native_builtins_by_name_write_to_their_results():
    run_forked(
        """
        import ctypes
        import jwarp.as_warp
        import numpy as np
        import warp as wp

        core, rng, byref = wp._src.context.runtime.core, np.random.default_rng(0), ctypes.byref
        assert not hasattr(core, "wp_builtin_mul_nothing") and not hasattr(core, "wp_alloc_host")
        assert isinstance(byref, type(print)), "no program is given another one that does not ask for builtins"
        a = wp.transform(wp.vec3(*rng.normal(size=3)), wp.normalize(wp.quat(*rng.normal(size=4))))
        b = wp.transform(wp.vec3(*rng.normal(size=3)), wp.normalize(wp.quat(*rng.normal(size=4))))
        made, point, length = wp.transform(), wp.vec3(), ctypes.c_float()
        core.wp_builtin_mul_transformf_transformf(a, b, ctypes.byref(made))
        np.testing.assert_array_equal(made, a * b)
        core.wp_builtin_transform_inverse_transformf(a, ctypes.byref(made))
        np.testing.assert_array_equal(made, wp.transform_inverse(a))
        core.wp_builtin_transform_point_transformf_vec3f(a, b.p, ctypes.byref(point))
        np.testing.assert_array_equal(point, wp.transform_point(a, b.p))
        core.wp_builtin_dot_vec3f_vec3f(point, point, ctypes.byref(length))
        np.testing.assert_allclose(length.value, np.sum(np.square(point)), rtol=1e-6)
        rows = np.zeros((2, 7), np.float32)
        core.wp_builtin_mul_transformf_transformf(a, b, ctypes.byref(wp.transform.from_buffer(rows[1])))
        np.testing.assert_array_equal(rows, [[0] * 7, a * b])
        four = ctypes.c_int * 4
        moved = ctypes.cast(ctypes.byref(four(1, 2, 3, 4), 8), ctypes.POINTER(ctypes.c_int))
        assert moved[0] == 3, "what is of ctypes is as before"
        """
    )
