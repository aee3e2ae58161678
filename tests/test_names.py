"""Names that are to come say so, and stay absent to `hasattr`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import jwarp as wp
from jwarp.frontend.builtins.planned import PLANNED

pytestmark = pytest.mark.quick

PACKAGE = Path(wp.__file__).parent


def test_a_name_to_come():
    assert [name for name in PLANNED if hasattr(wp, name)] == []
    for name in PLANNED:
        with pytest.raises(AttributeError, match=rf"wp\.{name}: .* not available yet"):
            getattr(wp, name)


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("stream_to_torch", "streams of PyTorch .*default_stream"),
        ("address", "addresses of memory"),
    ],
)
def test_a_name_of_warp_says_why_it_is_missing(name, way_out):
    with pytest.raises(AttributeError, match=rf"^wp\.{name}: jwarp has no {way_out}"):
        getattr(wp, name)


def test_a_module_of_warps_own_python_says_where_it_runs():
    with pytest.raises(AttributeError, match=r"^wp\.fem: Warp's own Python code.*python -m jwarp run"):
        _ = wp.fem


def test_every_public_name_of_warp_is_there_or_says_why():
    warp = pytest.importorskip("warp")
    for name in dir(warp):
        if not name.startswith("_") and not hasattr(wp, name):
            with pytest.raises(AttributeError, match=rf"^wp\.{name}: "):
                getattr(wp, name)


def test_a_name_that_never_was():
    with pytest.raises(AttributeError, match="module 'jwarp' has no attribute 'sinn'"):
        _ = wp.sinn


@pytest.mark.parametrize(
    "ask, says",
    [
        (lambda: wp.utils.AllocatorRmm, r"^wp\.utils\.AllocatorRmm: .*memory of one's own"),
        (lambda: wp.sim, r"^wp\.sim: .*Newton"),
        (lambda: wp.utils.sinn, "module 'jwarp.utils' has no attribute 'sinn'"),
    ],
)
def test_names_in_modules(ask, says):
    with pytest.raises(AttributeError, match=says):
        ask()


def test_a_name_to_come_in_a_kernel():
    @wp.kernel
    def k(y: wp.array[float]):
        wp.dense_gemm(1, 1, 1, 0, 0, y, y, y)

    with pytest.raises(wp.CompileError, match=r"wp\.dense_gemm: functions of matrices .* are not available yet"):
        wp.launch(k, 1, [], [1])


def test_in_out_argnames_that_are_no_names():
    @wp.kernel
    def k(y: wp.array[float]):
        y[0] = 1.0

    with pytest.raises(wp.LaunchError, match="in_out_argnames must be a sequence of names, got 3"):
        wp.jax_kernel(k, in_out_argnames=3)


def test_every_module_can_be_imported_under_another_name():
    """`import a.b.c as x` takes attributes: no package or module may be hidden by a function of its name."""
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        # `import jwarp.config as config` gives the public object on purpose, as `import warp.config` has the settings.
        # And jwarp.as_warp has to come before Warp, which other tests import.
        if path.name != "__main__.py" and name not in ("jwarp.config", "jwarp.as_warp"):
            namespace: dict[str, object] = {}
            exec(f"import {name} as found", namespace)
            assert namespace["found"] is sys.modules[name], name


def test_no_package_has_the_name_of_a_public_function():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert all(getattr(wp, name) is sys.modules[f"jwarp.{name}"] for name in folders if hasattr(wp, name))
