"""Generated CUDA code compiles for every generation of GPUs, without one."""

import ast
import random
import warnings

import pytest
from cuda_compiling import PLAIN, bodies, compiles, saxpy, stencil
from fuzz_profiles import ALL, each_value, some
from gradient_kernels import KINDS
from kernel_sources import Writer, load
from op_kernels import casts_of, ops_of
from versions import read_version

from jwarp.backend.cuda.nvrtc import DEFAULT_ARCHITECTURES, Rejected, Unit, as_compile_error, compile_unit
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.program import program_of
from jwarp.config import Settings, config
from jwarp.errors import KernelWarning
from jwarp.types import SCALARS

pytestmark = pytest.mark.usefixtures("compiler")

VERSIONS = tuple(flat + access for access in ("fast", "checked", "either") for flat in ("", "flat "))


@pytest.mark.parametrize("number", range(len(SCALARS)), ids=SCALARS)
def test_every_operation(number):
    """For the oldest and the newest architecture in turns: the text is one."""
    type_, architecture = list(SCALARS.values())[number], DEFAULT_ARCHITECTURES[-(number % 2)]
    compiles(ops_of(type_).kernel("operations"), architecture, "fast")
    compiles(casts_of(type_).kernel("conversions"), architecture, "fast")


@pytest.mark.parametrize("seed", some(range(24), of=2))
def test_random_kernels(seed, tmp_path):
    rng = random.Random(seed)
    generated = Writer(rng).kernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        ir = load(generated.source, tmp_path).ir(Settings(max_unroll=rng.choice([0, 4, 16])))
    settings = Settings(cache_dir="", fast_math=seed % 2 == 0, bounds=rng.choice(["safe", "unchecked"]))
    compiles(ir, DEFAULT_ARCHITECTURES[seed % len(DEFAULT_ARCHITECTURES)], VERSIONS[seed % len(VERSIONS)], settings)


VARIANTS = (
    Variant("tangent", (2,), (0,), fresh=(2,), for_gpu=True),
    Variant("adjoint", (0,), (2,), fresh=(2,), for_gpu=True),
    Variant("adjoint", (0,), (2,), along=(0,), fresh=(2,), for_gpu=True),
)
DERIVED = [k for kinds in KINDS.values() for k in kinds]


@pytest.mark.parametrize("number", some(range(len(DERIVED)), of=2), ids=lambda k: DERIVED[k].name)
def test_derivatives(number):
    """One of each kernel, in turns, as are the architectures; the long profile compiles all, and the kernels."""
    program = program_of(DERIVED[number], config.settings)
    if ALL:
        compiles(program.gpu_kernel, "sm_90")
    for k, variant in enumerate(VARIANTS):
        if ALL or number % len(VARIANTS) == k:
            architecture = DEFAULT_ARCHITECTURES[(number + k) % len(DEFAULT_ARCHITECTURES)]
            compiles(derive(program, variant).program.gpu_kernel, architecture)


@pytest.mark.parametrize(
    "architecture, kernel",
    each_value(DEFAULT_ARCHITECTURES, [saxpy, bodies, stencil]),
    ids=lambda value: getattr(value, "name", value),
)
def test_benchmark_kernels_keep_all_in_registers(kernel, architecture):
    program = program_of(kernel, config.settings)
    floats = tuple(k for k, p in enumerate(program.params) if p.dtype.is_float and k not in program.written)
    adjoint = derive(program, Variant("adjoint", floats, program.written, fresh=program.written, for_gpu=True)).program
    for made in (program, adjoint):
        unit = CudaKernel(made.gpu_kernel, PLAIN).unit(read_version("flat fast"), 256)
        code = compile_unit(Unit(unit.text, unit.name, (*unit.options, "-Xptxas=-v"), unit.headers), architecture)
        assert code.spills == 0 and code.registers is not None and code.registers <= 128


def test_a_name_that_means_something_in_c(tmp_path):
    """Parameters may be called anything."""
    words = ("int32", "sinf", "NULL", "i0", "done", "args", "sum0", "x_n0", "class_", "new", "double", "printf", "θ")
    source = "import jwarp as wp\n\n@wp.kernel\ndef kernel("
    source += ", ".join(f"{w}: wp.array[float]" for w in words if w.isidentifier())
    source += ", n: int):\n    i = wp.tid()\n    new[i] = float(n)"
    source += "".join(f" + {w}[i]" for w in words if w != "new") + "\n"
    ast.parse(source)
    compiles(load(source, tmp_path).ir(), "sm_90")


def test_an_error_of_the_compiler_shows_the_line(tmp_path):
    path = tmp_path / "sim.py"
    path.write_text("first\n    x[i] = v + 1.0\n")
    text = f'__device__ void f(float* x) {{\n#line 2 "{path}"\n  x[i] = v + 1.0;\n}}\n'
    with pytest.raises(Rejected) as caught:
        compile_unit(Unit(text, "sim.cu"), "sm_90")
    shown = str(as_compile_error(caught.value, "kernel 'sim'"))
    assert "kernel 'sim': identifier" in shown and f"{path}:2" in shown and "x[i] = v + 1.0\n" in shown + "\n"


def test_nothing_else_in_the_process_is_written_to():
    # Of a text without kernels the log has one byte, and of a bytes object with one byte there is one for everybody.
    space = "a b"[1].encode()
    compile_unit(Unit("// nothing", "nothing.cu"), "sm_90")
    assert space[0] == 32 and (space * 3).decode() == "a   b"[1:4]
