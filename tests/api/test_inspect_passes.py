"""`wp.inspect(kernel, "passes")`: the kernel after each pass of the compiler, by name, once for each change."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler import pipeline
from jwarp.compiler.cpu import CpuKernel
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.derive import derive, in_known_order
from jwarp.compiler.derived import Variant
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.ir.parse import parse_kernel
from jwarp.ir.printing import format_kernel


@wp.kernel
def smoothed(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    total = x[i]
    for j in range(3):
        if j > 0 and i >= j:
            total += k * x[i - j] + k * x[i - j]
    y[i] = total * total


@wp.kernel
def counted(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        y[wp.atomic_add(n, 0, 1)] = x[i] * x[i]


def sections(text: str) -> list[tuple[str, str]]:
    """The names of passes in order, each with the text of the kernel after it; none where it changed nothing."""
    found = []
    for part in re.split(r"^# ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        if title.startswith("unchanged by: "):
            found += [(name, "") for name in title.removeprefix("unchanged by: ").split(", ")]
        else:
            found.append((title, body.strip()))
    return found


def last(text: str) -> str:
    return [body for _, body in sections(text) if body][-1]


@pytest.mark.parametrize("stage", ["passes", "cuda_passes"])
def test_every_pass_is_named_in_order_and_the_last_kernel_is_that_of_the_code(stage):
    program = program_of(smoothed, config.settings)
    text = wp.inspect(smoothed, stage)
    if stage == "passes":
        passes, made = pipeline.CPU, CpuKernel(program.kernel, program.settings)
    else:
        passes, made = (*pipeline.ON_GPU, *pipeline.CUDA), CudaKernel(program.gpu_kernel, program.settings)
    assert [name for name, _ in sections(text)] == ["as read", *(p.name for p in (*pipeline.PROGRAM, *passes))]
    assert last(text) == format_kernel(made.proofs.kernel).strip()
    assert sum(bool(body) for _, body in sections(text)) >= 2
    assert text == wp.inspect(smoothed, stage)  # also when caches have the results


def test_each_kernel_shown_reads_back_and_does_the_same():
    x, rng = np.zeros(9, np.float32), np.random.default_rng(3)
    x[:] = rng.normal(size=9)
    found = [run(parse_kernel(body), (9,), [x, 0.3, np.zeros(9, np.float32)])[-1]
             for _, body in sections(wp.inspect(smoothed, "passes")) if body]  # fmt: skip
    before = np.array([sum(2 * 0.3 * x[i - j] for j in (1, 2) if i >= j) + x[i] for i in range(9)]) ** 2
    np.testing.assert_allclose(found[0], before, rtol=1e-5)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("kernel", [smoothed, counted])
def test_an_adjoint_is_shown_from_the_kernel_that_it_is_of(kernel):
    text = wp.inspect(kernel, "passes", adjoint=["x"])
    names = [name for name, _ in sections(text)]
    at = names.index("adjoint(x)")
    before = [*pipeline.INLINED, *pipeline.ANALYSED, *pipeline.DIFFERENTIATED]
    assert [n for n in names[:at] if n != "as read for derivatives"] == [p.name for p in before]
    assert names[at + 1 :] == [p.name for p in (*pipeline.DERIVED, *pipeline.DERIVED_ON_GPU, *pipeline.CPU)]
    program, last_param = program_of(kernel, config.settings), len(kernel.params) - 1
    variant = Variant("adjoint", (0,), (last_param,), fresh=(last_param,))
    made = derive(in_known_order(program, [variant]), variant).program
    assert last(text) == format_kernel(CpuKernel(made.kernel, made.settings).proofs.kernel).strip()


def test_checks_of_debug_mode_are_a_pass():
    with wp.config(debug=True):
        found = dict(sections(wp.inspect(smoothed, "passes")))
    assert "check " in found["add checks"] and not dict(sections(wp.inspect(smoothed, "passes")))["add checks"]


@wp.kernel
def averaged(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i > 0 and i + 1 < x.shape[0]:
        y[i] = x[i - 1] * x[i] + x[i + 1]


@pytest.mark.parametrize("kind", ["numpy", "jax", "arrays that change"])
def test_the_adjoint_of_a_record_is_shown_as_it_runs(kind):
    """Gathered for these sizes, without atomic additions, which the kernel by itself has."""
    given = {"numpy": np.asarray, "jax": jnp.asarray}.get(kind, lambda x: wp.array(x, requires_grad=True))
    x, y = given(np.ones(16, np.float32)), given(np.zeros(16, np.float32))
    asked = {"adj_inputs": [None], "adj_outputs": [None]}
    if kind in ("numpy", "jax"):
        asked = {"adj_inputs": [True], "adj_outputs": [y]}
    record = wp.launch(averaged, 16, [x], [y], adjoint=True, record_cmd=True, **asked)
    assert "atomic_add" not in wp.inspect(record, "ir")
    # The adjoint of a launch that is recorded is shown for its sizes, too.
    forward = wp.launch(averaged, 16, [x], [y], record_cmd=True)
    assert "atomic_add" not in wp.inspect(forward, "ir", adjoint=True)
    assert wp.inspect(forward, "ir", adjoint=False) == wp.inspect(averaged, "ir")
    assert "atomic_add" in wp.inspect(averaged, "ir", adjoint=True)
    assert "atomic_add" in wp.inspect(wp.Launch(averaged, adjoint=True), "ir")
