"""Compiles are logged, kernels have their names in HLO and in profiles, and `python -m jwarp` tells what there is."""

import getpass
import gzip
import importlib.metadata
import json
import logging
import os
import platform
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
from launch_kernels import scale

import jwarp as wp
from jwarp.backend.cuda import nvrtc


def scaled(x):
    (y,) = wp.launch(scale, x.shape[0], [jnp.sin(x), 3.0], [x.shape])
    return y.sum()


def test_a_compile_is_logged_and_running_is_not(caplog):
    @wp.kernel
    def logged(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * 1234.5

    x = jnp.arange(4.0)
    with caplog.at_level(logging.INFO, "jwarp"):
        run = jax.jit(lambda x: wp.launch(logged, 4, [x], [4])[0])
        run(x)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("jwarp", logging.INFO)
    assert "logged" in record.getMessage() and "forward" in record.getMessage()
    assert "compiled" in record.getMessage() and " s, " in record.getMessage()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "jwarp"):
        run(x)
        assert not caplog.records
        jax.jit(jax.grad(lambda x: wp.launch(logged, 4, [x], [4])[0].sum()))(x)
    assert any("adjoint(x)" in record.getMessage() for record in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "jwarp"):
        jax.jit(lambda x: wp.launch(logged, 4, [x], [4])[0] + 1.0)(x)
    assert [(r.levelno, "in memory" in r.getMessage()) for r in caplog.records] == [(logging.DEBUG, True)]


def names_of_launches(function, x):
    text = jax.jit(function).lower(x).compile().as_text()
    calls = [line for line in text.splitlines() if "custom-call(" in line]
    return [re.search(r'op_name="([^"]*)"', line)[1] for line in calls]


def test_hlo_names_each_kernel_and_its_variant():
    x = jnp.arange(8.0)
    named = jax.named_scope("physics")(scaled)
    assert '"jwarp.scale"' in jax.jit(named).lower(x).as_text(debug_info=True)
    (name,) = names_of_launches(named, x)
    assert name.startswith("jit(scaled)/physics/") and name.endswith("/jwarp.scale")
    (name,) = names_of_launches(jax.grad(named), x)
    assert "physics" in name and name.endswith("/jwarp.scale.adjoint(x)")
    # A second launch of the kernel is named as the first, and one in a loop.
    for name in names_of_launches(lambda x: scaled(x) + scaled(x + 1.0), x):
        assert name.endswith("/jwarp.scale")
    (name,) = names_of_launches(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c + scaled(c), x), x)
    assert "while/body" in name and name.endswith("/jwarp.scale")


def test_a_profile_has_the_names_of_kernels(tmp_path):
    run = jax.jit(scaled)
    x = jnp.arange(100_000.0)
    run(x).block_until_ready()
    with jax.profiler.trace(str(tmp_path)):
        run(x).block_until_ready()
    (path,) = tmp_path.rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    launches = [e for e in events if e.get("name", "").startswith("jwarp_scale") and e.get("dur", 0) > 0]
    assert launches, "no event of the launch"


def report(**environment):
    result = subprocess.run(
        [sys.executable, "-m", "jwarp"], capture_output=True, text=True, timeout=120, env=os.environ | environment
    )
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return result.stdout


def test_the_report_tells_what_there_is(tmp_path):
    (tmp_path / "one.jwarp").write_bytes(b"x" * 2**20)
    text = report(JWARP_CACHE_DIR=str(tmp_path), JWARP_FAST_MATH="1", XLA_FLAGS="")
    assert platform.platform() in text and "fast_math   True" in text and "bounds" not in text
    assert f"JWARP_CACHE_DIR={tmp_path}" in text and "64 bits     off" in text
    for package in ("jwarp", "jax", "jaxlib", "numpy", "llvmlite"):
        assert importlib.metadata.version(package) in text
    assert f"LLVM {llvm.llvm_version_info[0]}" in text
    assert nvrtc.toolchain() in text if nvrtc.missing() is None else "pip install 'jwarp[cuda" in text
    assert "cpu:0" in text and f"{len(os.sched_getaffinity(0))} available" in text
    assert str(tmp_path) in text and "entries     1, 1.0 MiB" in text and "writable    yes" in text
    assert f"owner       {getpass.getuser()}" in text and "at most 256 " not in text


def test_the_report_of_caches_tells_their_bounds():
    run = [sys.executable, "-m", "jwarp", "caches"]
    found = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    assert "at most 256   repeated launches of a kernel" in found.stdout


def test_the_report_says_what_is_wrong_with_the_cache(tmp_path):
    file = tmp_path / "file"
    file.write_text("no folder")
    text = report(JWARP_CACHE_DIR=str(file))
    assert "writable    no" in text and "JWARP_CACHE_DIR" in text
