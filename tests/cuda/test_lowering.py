"""Launches lowered for CUDA on a machine that need not have a GPU: what is compiled, and what the call says."""

import importlib.util
import inspect
import re
import struct
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_lowering import attribute, calls, lowered
from versions import read_version

import jwarp as wp
from jwarp import _native
from jwarp.backend.cuda import nvrtc
from jwarp.compiler.cuda import CudaKernel
from jwarp.config import config

pytestmark = pytest.mark.quick

FATBIN = b"\x50\xed\x55\xba"
ELF = b"\x7fELF"


@wp.kernel
def spring(x: wp.array[float], k: float, f: wp.array[float]):
    i = wp.tid()
    f[i] = -k * x[i]


@wp.kernel
def recurrence(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = wp.sin(s) + x[k % 8]
    y[i] = s


@wp.kernel
def overwritten(x: wp.array[float], n: int):
    i = wp.tid()
    for _ in range(n):
        x[i] = wp.sin(x[i])


@wp.kernel
def checked(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    assert x[i] > 0.0
    y[i] = wp.log(x[i])


springs = wp.jax_kernel(spring)
steps = wp.jax_kernel(recurrence)
X = jnp.linspace(0.1, 1.0, 8)


@wp.kernel
def explained(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    assert x[i] > 0.0, "not\0positive"
    y[i] = wp.log(x[i])


@pytest.fixture(autouse=True)
def one_architecture(compiler):
    with wp.config(cuda_arch="sm_90"):
        yield


def test_a_launch_is_one_call_with_the_machine_code_in_it():
    text, events = lowered(lambda x, k: springs(x, k)[0], X, 2.0)
    assert calls(text) == ["jwarp_cuda_v1"]
    assert [(e.kernel, e.variant, e.platform) for e in events] == [("spring", "forward", "cuda")]
    assert attribute(text, "kernel") == b"spring" and attribute(text, "entry") == b"jwarp_spring"
    assert attribute(text, "image").startswith(ELF)
    assert "block = 256 : i64" in text and "per_sm = 0 : i64" in text


@pytest.fixture
def places(monkeypatch):
    """The places of kernels by their code, for errors of the driver."""
    noted = {}
    monkeypatch.setattr(_native, "note_place", lambda image, entry, place: noted.update({(image, entry): place}))
    return noted


def test_errors_of_the_driver_find_where_a_kernel_is_written(places):
    lines = Path(__file__).read_text().splitlines()
    line = f"{__file__}:{next(n for n, text in enumerate(lines, 1) if text.startswith('def spring'))}"
    for function in (lambda x: springs(x, 2.0)[0], jax.grad(lambda x: springs(x, 2.0)[0].sum())):
        text, _ = lowered(function, X)
        assert places[attribute(text, "image"), attribute(text, "entry").decode()] == line
    half = wp.cuda_kernel(
        "__global__ void half(const float* x, float* y, int n)"
        " { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 0.5f * x[i]; }",
        "half", {"x": wp.array[float], "y": wp.array[float], "n": wp.int32}, outputs=["y"],
    )  # fmt: skip
    text, _ = lowered(lambda x: wp.launch(half, 8, {"x": x, "n": 8}, {"y": 8}), X)
    assert re.fullmatch(rf"{__file__}:\d+", places[attribute(text, "image"), attribute(text, "entry").decode()])


def test_kernels_that_move_in_their_file_are_the_same_program(places, tmp_path):
    """So JAX finds what it compiled for them before."""
    texts = []
    for name, lines_before in (("first", 0), ("second", 5)):
        file = tmp_path / name / "springs.py"
        file.parent.mkdir()
        file.write_text("import jwarp as wp\n" + "\n" * lines_before + inspect.getsource(spring.func))
        spec = importlib.util.spec_from_file_location("springs", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        function = wp.jax_kernel(module.spring)
        texts += [lowered(f, X)[0] for f in (lambda x, f=function: f(x, 2.0)[0],
                                             jax.grad(lambda x, f=function: f(x, 2.0)[0].sum()))]  # fmt: skip
    assert texts[:2] == texts[2:] and texts[0] != texts[1]
    assert [Path(place).parent.name for place in places.values()] == ["second", "second"]


def test_the_code_is_forward_code_unless_a_gradient_is_taken():
    f = lambda x, k: springs(x, k)[0].sum()  # noqa: E731
    assert [e.variant for e in lowered(f, X, 2.0)[1]] == ["forward"]
    assert [e.variant for e in lowered(jax.grad(f), X, 2.0)[1]] == ["adjoint(x)"]
    assert [e.variant for e in lowered(jax.grad(f, argnums=1), X, 2.0)[1]] == ["adjoint(k)"]
    assert [e.variant for e in lowered(jax.value_and_grad(f, argnums=(0, 1)), X, 2.0)[1]] == [
        "forward",
        "adjoint(x, k)",
    ]
    assert [e.variant for e in lowered(lambda x: jax.jvp(lambda x: f(x, 2.0), (x,), (x,)), X)[1]] == [
        "forward",
        "tangent(x)",
    ]


def test_a_sum_over_all_threads_wants_few_of_them():
    text, _ = lowered(jax.grad(lambda k: springs(X, k)[0].sum()), 2.0)
    assert "per_sm = 8 : i64" in text


def test_symbolic_sizes_are_an_operand_without_content():
    """The code decides for itself which accesses need a test, and the call's numbers name formulas."""
    n, m = jax.export.symbolic_shape("n, m")
    x, y = (jax.ShapeDtypeStruct((size,), jnp.float32) for size in (n, m))
    function = jax.jit(lambda x, y: wp.launch(spring, n * m, [x, 2.0], [x.shape])[0])
    with wp.record_compiles() as events:
        made = jax.export.export(function, platforms=["cuda"], disabled_checks=wp.EXPORT_CHECKS)(x, y)
    text = made.mlir_module()
    assert calls(text) == ["jwarp_cuda_v1"] and "tensor<0x?x?xi1>" in text
    # The format, two variables, one formula of three steps (m, n, *), and it as the first of the dims.
    assert "launch = dense<[2, 2, 1, 3, 1, 0, 1, 1, 3, -1, 1, 1, 1, 1, 0, 3," in text
    assert [e.kernel for e in events] == ["spring"]


def test_a_batch_is_one_launch_of_the_same_code():
    one, _ = lowered(jax.vmap(lambda x: springs(x, 2.0)[0]), jnp.ones((5, 8)))
    assert calls(one) == ["jwarp_cuda_v1"]
    nested, events = lowered(jax.vmap(jax.vmap(springs, (0, None)), (None, 0)), jnp.ones((7, 8)), jnp.ones(3))
    assert calls(nested) == ["jwarp_cuda_v1"] and [e.source for e in events] == ["memory"]
    assert attribute(one, "image") == attribute(nested, "image")


def test_a_launch_of_nothing_is_no_call():
    text, events = lowered(lambda x: wp.launch(spring, 0, [x, 2.0], [8]), X)
    assert calls(text) == [] and not events
    text, _ = lowered(jax.vmap(lambda x: springs(x, 2.0)[0]), jnp.ones((0, 8)))
    assert calls(text) == []
    text, _ = lowered(lambda x: wp.launch(spring, 0, [x, 2.0], [x])[0], X)
    assert calls(text) == [] and "dense<0.0" not in text  # its results are what was given


def test_a_program_for_two_platforms_has_both():
    with wp.record_compiles() as events:
        program = jax.jit(lambda x: springs(x, 2.0)[0]).trace(X).lower(lowering_platforms=("cpu", "cuda"))
    assert set(calls(program.as_text())) == {"jwarp_launch_v1", "jwarp_cuda_v1"}
    assert {e.platform for e in events} == {"cpu", "cuda"}


MACHINE_CODE, PTX = 2, 1


def parts_of(image):
    """The kinds and architectures of what is in a fatbin."""
    assert image.startswith(FATBIN)
    # After 16 bytes come images, each behind a header: of PTX (1) or machine code (2), sizes, the architecture.
    found, at = [], 16
    while at < len(image):
        kind, _, header, size = struct.unpack_from("<HHIQ", image, at)
        found.append((kind, struct.unpack_from("<I", image, at + 28)[0]))
        at += header + size
    assert at == len(image)
    return found


def taken_by(capability, parts):
    """The code that a driver selects for a GPU, by the CUDA programming guide: the newest machine code of the same
    generation that is not newer; else the newest PTX that is not newer, which it compiles."""
    alike = [a for kind, a in parts if kind == MACHINE_CODE and a // 10 == capability // 10 and a <= capability]
    older = [a for kind, a in parts if kind == PTX and a <= capability]
    return (MACHINE_CODE, max(alike)) if alike else (PTX, max(older)) if older else None


def test_code_for_several_architectures_is_one_file():
    with wp.config(cuda_arch="sm_80, sm_120"):
        text, _ = lowered(lambda x: springs(x, 2.0)[0] + 1.0, X)
    code, ptx = [(MACHINE_CODE, 80), (MACHINE_CODE, 120)], [(PTX, 80), (PTX, 120)]
    assert sorted(parts_of(attribute(text, "image"))) == sorted(code + ptx)


def test_every_gpu_from_the_oldest_on_finds_code():
    """Without a setting and a GPU: those of generations between, and later ones, have the PTX compiled."""
    with wp.config(cuda_arch=""):
        text, _ = lowered(lambda x: springs(x, 2.0)[0] + 2.0, X)
    parts = parts_of(attribute(text, "image"))
    assert sorted(parts) == [(PTX, 80), (PTX, 120), *((MACHINE_CODE, int(a[3:])) for a in nvrtc.DEFAULT_ARCHITECTURES)]
    expected = {
        75: None, 80: (MACHINE_CODE, 80), 86: (MACHINE_CODE, 80), 89: (MACHINE_CODE, 80), 90: (MACHINE_CODE, 90),
        100: (MACHINE_CODE, 100), 103: (MACHINE_CODE, 100), 110: (PTX, 80), 120: (MACHINE_CODE, 120),
        121: (MACHINE_CODE, 120), 130: (PTX, 120),
    }  # fmt: skip
    assert {capability: taken_by(capability, parts) for capability in expected} == expected


@pytest.mark.parametrize("architecture", ["sm_80", "sm_120"])
def test_the_ptx_in_a_fatbin_is_for_all_later_gpus(architecture):
    """One of an architecture's own, as sm_120a, would be for that one alone."""
    kernel = CudaKernel(spring.ir(config.settings), config.settings)
    assert f".target {architecture}\n" in kernel.ptx(read_version("flat fast"), architecture)


def test_debug_mode_is_another_target():
    with wp.config(debug=True):
        text, _ = lowered(wp.jax_kernel(checked), X)
        assert calls(text) == ["jwarp_cuda_debug_v1"]
        assert b"assert" in attribute(text, "failures")
    with wp.config(bounds="error"):
        text, _ = lowered(lambda x: springs(x, 2.0)[0], X)
        assert calls(text) == ["jwarp_cuda_debug_v1"]
        assert b"outside" in attribute(text, "failures")
    assert calls(lowered(lambda x: springs(x, 2.0)[0], X)[0]) == ["jwarp_cuda_v1"]


def test_a_text_of_a_check_is_one_text():
    with wp.config(debug=True):
        text, _ = lowered(wp.jax_kernel(explained), X)
    failures = attribute(text, "failures").split(b"\0")
    assert any(b"not" in f and b"positive" in f for f in failures)


def test_the_adjoint_of_a_loop_runs_again_instead_of_keeping_a_tape():
    text, events = lowered(jax.grad(lambda x: steps(x, 1000)[0].sum()), X)
    assert calls(text) == ["jwarp_cuda_v1"] and [e.variant for e in events] == ["adjoint(x)"]
    assert "double checkpoint_" not in wp.inspect(recurrence, "cuda", adjoint=True)
    assert "checkpoint_0[32]" in wp.inspect(recurrence, "cuda", adjoint=True)


def test_what_loops_overwrite_is_remembered_on_the_heap():
    def f(x):
        return wp.launch(overwritten, 8, {"n": 5}, {"x": x})["x"].sum()

    text, _ = lowered(jax.grad(f), X)
    assert calls(text) == ["jwarp_cuda_debug_v1"] and f"heap = {1 << 30} : i64" in text
    assert b"heap has a place for" in attribute(text, "failures")
    text, _ = lowered(f, X)
    assert calls(text) == ["jwarp_cuda_v1"] and "heap =" not in text


def test_an_architecture_of_another_form_is_refused():
    with wp.config(cuda_arch="hopper"), pytest.raises(wp.LaunchError, match="'hopper' is no architecture"):
        lowered(lambda x: springs(x, 3.0)[0], X)
    with wp.config(cuda_arch="sm_12"), pytest.raises(wp.LaunchError, match="NVRTC_ERROR_INVALID_OPTION"):
        lowered(lambda x: springs(x, 3.0)[0], X)


def test_without_nvrtc_the_refusal_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(nvrtc, "is_installed", lambda: False)
    with pytest.raises(wp.LaunchError, match=r"(?s)kernel 'spring' cannot be compiled for CUDA.*pip install"):
        lowered(lambda x: springs(x, 4.0)[0], X)


def test_an_exported_program_has_the_code_of_each_generation(tmp_path):
    with wp.config(cuda_arch=""):
        exported = jax.export.export(
            jax.jit(lambda x, k: springs(x, k)[0]), platforms=("cuda",), disabled_checks=wp.EXPORT_CHECKS
        )(X, 2.0)
    again = jax.export.deserialize(exported.serialize())
    assert again.platforms == ("cuda",)
    assert attribute(again.mlir_module(), "image").startswith(FATBIN)


def test_images_are_kept_on_disk(tmp_path):
    with wp.config(cache_dir=str(tmp_path)):
        made = [lowered(lambda x, c=c: springs(x, 2.0)[0] + c, X)[1][0] for c in (1.0, 2.0)]
    assert [e.source for e in made][-1] == "memory"
    assert np.all([e.bytes > 0 for e in made])
