"""Handwritten kernels lowered for CUDA without a GPU: the call, what it is compiled from, and what is refused."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from handwritten_kernels import A2, GROW, POWERS, A, grow_kernel, powers, powers_kernel
from launch_format import ARRAY, F32, INPUT, S32, SCALAR, UNKNOWN, ZEROS, make_launch, make_plan

import jwarp as wp
from jwarp.backend.cuda import nvrtc
from jwarp.bind.compat import DisabledSafetyCheck
from jwarp.bind.targets import CUDA_TARGET
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import program_of

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
ARCHITECTURES = nvrtc.DEFAULT_ARCHITECTURES


@pytest.fixture(autouse=True)
def one_architecture():
    with wp.config(cuda_arch="sm_90"):
        yield


def lowered(function, *args):
    return jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def attribute(text, name):
    """The attribute of the first call, without MLIR's types."""
    found = re.search(rf'\b{name} = (?:"([^"]*)"|dense<([^>]*)>|([-\d]+))', text)
    return next(x for x in found.groups() if x is not None)


def numbers_of(text, name):
    return [int(n) for n in attribute(text, name).strip("[]").split(", ")]


def calls(text):
    return re.findall(r'entry = "(\w+)"', text)


def compiled(text, name, params, outputs, architecture="sm_90", **keywords):
    """Compile the kernel with the call that is generated for it."""
    kernel = wp.cuda_kernel(text, name, params, outputs=outputs, **keywords)
    program = program_of(kernel, wp.config.settings)
    unit = Handwritten(kernel.definition, program.kernel, program.settings)
    return unit.image([architecture], kernel.definition.blocks)


X = jnp.ones((3, 5)), 2.0, jnp.ones(5)


def test_the_call():
    text = lowered(lambda *a: powers(powers_kernel(), *a), *X)
    assert text.count("@jwarp_cuda_v1") == 1
    assert attribute(text, "kernel") == "powers"
    assert attribute(text, "entry") == "jwarp_powers"
    assert attribute(text, "block") == "256"
    assert attribute(text, "shared") == attribute(text, "per_sm") == "0"
    assert attribute(text, "grid") == "1"
    assert attribute(text, "failures") == ""
    assert "ELF" in attribute(text, "image") and "jwarp_powers" in attribute(text, "image")
    # One dimension; y is zeroed, the others are operands.
    bindings = [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (2, -1, INPUT, 0), (-1, 0, ZEROS, 0), (3, -1, INPUT, 0),
                (4, -1, INPUT, 0)]  # fmt: skip
    assert numbers_of(text, "launch") == make_launch([15], bindings).tolist()
    arrays, scalars = {2: (ARRAY, 2, F32), 1: (ARRAY, 1, F32)}, {"float": (SCALAR, 0, F32), "int": (SCALAR, 0, S32)}
    kinds = [arrays[2], scalars["float"], arrays[1], arrays[2], scalars["int"], scalars["int"]]
    assert numbers_of(text, "plan") == make_plan(1, [(*kind, UNKNOWN) for kind in kinds]).tolist()


def test_the_configuration():
    kernel = powers_kernel(
        block_dim=64, grid=lambda dim: (-(-dim[0] // 2), len(dim)), shared_bytes=lambda dim: 8 * dim[0]
    )
    text = lowered(lambda *a: powers(kernel, *a), *X)
    assert attribute(text, "block") == "64"
    assert attribute(text, "grid") == "[8, 1]"
    assert attribute(text, "shared") == "120"
    two = lowered(
        lambda x, k, bias: wp.launch(
            kernel, (3, 5), {"x": x, "k": k, "bias": bias, "rows": 3, "columns": 5}, {"y": (3, 5)}, block_dim=32
        )["y"],
        *X,
    )
    assert attribute(two, "grid") == "2" and attribute(two, "block") == "32"
    assert attribute(lowered(lambda *a: powers(powers_kernel(grid=(7, 3)), *a), *X), "grid") == "[7, 3]"
    assert attribute(lowered(lambda *a: powers(powers_kernel(block_dim=4), *a), *X), "grid") == "[4, 1]"


def test_a_batch_is_one_call():
    kernel = powers_kernel()
    text = lowered(jax.vmap(jax.vmap(lambda *a: powers(kernel, *a), (0, None, None)), (None, 0, None)),
                   jnp.ones((4, 3, 5)), jnp.ones(2), jnp.ones(5))  # fmt: skip
    assert text.count("@jwarp_cuda_v1") == 1
    assert re.search(r"-> tensor<2x4x3x5xf32>", text)
    # k has the outer axis, x the inner one, y both.
    bindings = [(0, -1, INPUT, 2), (1, -1, INPUT, 1), (2, -1, INPUT, 0), (-1, 0, ZEROS, 3), (3, -1, INPUT, 0),
                (4, -1, INPUT, 0)]  # fmt: skip
    assert numbers_of(text, "launch") == make_launch([15], bindings, batch=[2, 4]).tolist()


def test_only_what_is_asked_for_is_compiled():
    kernel = powers_kernel()
    with wp.record_compiles() as events:
        forward = lowered(lambda *a: powers(kernel, *a), *X)
    assert calls(forward) == ["jwarp_powers"]
    assert [(e.kernel, e.platform) for e in events] == [("powers", "cuda")]
    with wp.record_compiles() as events:
        lowered(lambda *a: powers(kernel, *a), *X)
    assert [e.source for e in events] == ["memory"]
    both = lowered(jax.grad(lambda *a: (powers(kernel, *a) ** 2).sum()), *X)
    assert sorted(calls(both)) == ["jwarp_powers", "jwarp_powers_adjoint"]
    # The value of the launch is not needed for the gradient of a sum, so the adjoint is all that runs.
    adjoint = lowered(jax.grad(lambda *a: powers(kernel, *a).sum()), *X)
    assert "jwarp_powers_adjoint" in calls(adjoint)


def test_in_outs_are_donated():
    text = lowered(
        lambda x, y: wp.launch(grow_kernel(), 3, {"x": x, "k": 1.0, "n": 3}, {"y": y})["y"], jnp.ones(3), jnp.ones(3)
    )
    assert "output_operand_alias<output_tuple_indices = [], operand_index = 2" in text


def test_empty_launches_vanish():
    kernel = grow_kernel()

    def none(x, y):
        return wp.launch(kernel, 0, {"x": x, "k": 1.0, "n": 3}, {"y": y})["y"]

    assert "custom_call" not in lowered(none, jnp.ones(3), jnp.ones(3))
    assert "custom_call" not in lowered(jax.vmap(none), jnp.ones((0, 3)), jnp.ones((0, 3)))


def test_no_twin_is_needed_for_a_gpu():
    assert "@jwarp_cuda_v1" in lowered(lambda *a: powers(powers_kernel(cpu=None), *a), *X)


def test_both_platforms_at_once():
    text = jax.jit(lambda *a: powers(powers_kernel(), *a)).trace(*X).lower(lowering_platforms=("cpu", "cuda")).as_text()
    assert "@jwarp_cuda_v1" in text and "@jwarp_launch_v1" in text


def test_architectures():
    with wp.config(cuda_arch="sm_80, sm_120"):
        text = lowered(lambda *a: powers(powers_kernel(), *a), *X)
    assert attribute(text, "image").startswith("P\\EDU\\BA")  # a fatbin


# What the function is called with


KINDS = {
    "pointers": (
        "const float* x, float k, int n, bool flag, unsigned char b, float* y",
        {"x": A, "k": float, "n": int, "flag": bool, "b": wp.uint8, "y": A},
    ),
    "arrays": (
        "jw::array<const float, 2> x, jw::array<float, 1> y",
        {"x": A2, "y": A},
    ),
    "arrays that forget const": ("const jw::array<const int, 3>& x, float* y", {"x": wp.array3d[int], "y": A}),
    "vectors of CUDA": (
        "const float3* x, float3 v, const int2* i, double2 d, float4* y",
        {"x": wp.array[wp.vec3], "v": wp.vec3, "i": wp.array2d[wp.vec2i], "d": wp.vec2d, "y": wp.array[wp.vec4]},
    ),
    "components": ("const float* x, float* y", {"x": wp.array[wp.vec3], "y": wp.array2d[wp.mat33]}),
    "structs of the author's": (
        "const Point* x, Point p, jw::array<Point, 1> y",
        {"x": wp.array[wp.vec3], "p": wp.vec3, "y": wp.array[wp.vec3]},
    ),
    "matrices": (
        "jw::matrix<float, 2, 3> m, const jw::matrix<double, 2, 2>* x, float* y",
        {"m": wp.types.matrix((2, 3), float), "x": wp.array[wp.mat22d], "y": A},
    ),
    "integers of one width": (
        "const unsigned* x, const long* l, const char* c, size_t n, long long m, unsigned u, float* y",
        {"x": wp.array[int], "l": wp.array[wp.int64], "c": wp.array[wp.uint8], "n": int, "m": wp.int16, "u": wp.uint32,
         "y": A},
    ),
    "wider floats": ("double k, const double* x, float* y", {"k": float, "x": wp.array[wp.float64], "y": A}),
    "bools": ("const bool* x, const unsigned char* z, bool* y", {"x": wp.array[bool], "z": wp.array[bool],
                                                               "y": wp.array[bool]}),
    "bits of halves": (
        "const unsigned short* x, float k, unsigned short b, jw_bfloat* y",
        {"x": wp.array[wp.float16], "k": wp.float16, "b": wp.bfloat16, "y": wp.array[wp.bfloat16]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_parameters(kind):
    declared, params = KINDS[kind]
    text = f"struct Point {{ float x, y, z; }};\n__global__ void f({declared}) {{ }}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wp.KernelWarning)  # of parameters that nothing reads
        assert compiled(text, "f", params, ["y"]).content


WRONG = {
    "another element type": ("const double* x, float* y", {"x": A, "y": A}),
    "another rank": ("jw::array<const float, 2> x, float* y", {"x": A, "y": A}),
    "too few": ("const float* x", {"x": A, "y": A}),
    "a float for an int": ("const float* x, int k, float* y", {"x": A, "k": float, "y": A}),
    "an int for a float": ("const float* x, float k, float* y", {"x": A, "k": int, "y": A}),
    "a wide int for a narrow one": ("const float* x, int k, float* y", {"x": A, "k": wp.int64, "y": A}),
    "a vector of ints": ("const int3* x, float* y", {"x": wp.array[wp.vec3], "y": A}),
    "a longer vector": ("const float4* x, float* y", {"x": wp.array[wp.vec3], "y": A}),
    "ints for floats": ("const int* x, float* y", {"x": A, "y": A}),
    "bits of a half for an int": ("const float* x, int k, float* y", {"x": A, "k": wp.float16, "y": A}),
    "a scalar for a pointer": ("const float* x, const float* k, float* y", {"x": A, "k": float, "y": A}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_parameters_that_do_not_fit(kind):
    declared, params = WRONG[kind]
    with pytest.raises(wp.KernelTypeError, match="does not take the parameters that were declared") as error:
        compiled(f"__global__ void f({declared}) {{}}", "f", params, ["y"])
    assert "__global__ void f(const " in str(error.value)


def test_inputs_that_are_not_const():
    """Much that exists is written so; whether it writes there, nobody can say."""
    text = "__global__ void f(float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }"
    with pytest.warns(wp.KernelWarning, match=r"'f' takes inputs \(x\) as pointers that are not const"):
        assert compiled(text, "f", {"x": A, "y": A}, ["y"]).content


def test_halves_of_cuda():
    from jwarp.backend.cuda.headers import cuda_headers

    if not cuda_headers():
        pytest.skip("CUDA's own headers are not installed")
    text = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void f(const __half* x, __half k, const __nv_bfloat16* b, __half* y) {
  y[threadIdx.x] = x[threadIdx.x] * k + __half(__bfloat162float(b[0]));
}
__global__ void g(const __half* x, float* y) {}
"""
    H, B = wp.array[wp.float16], wp.array[wp.bfloat16]
    assert compiled(text, "f", {"x": H, "k": wp.float16, "b": B, "y": H}, ["y"]).content
    with pytest.raises(wp.KernelTypeError):
        compiled(text, "g", {"x": B, "y": A}, ["y"])


def test_instances_of_templates():
    text = """\
namespace ns {
template <class T, int N>
__global__ void __launch_bounds__(1024) scale(const T* __restrict__ x, T k, T* __restrict__ y) {
  __shared__ T part[N];
  part[threadIdx.x % N] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = part[(threadIdx.x + 1) % N] * k;
}
}
"""
    params = {"x": wp.array[wp.float64], "k": wp.float64, "y": wp.array[wp.float64]}
    assert compiled(text, "ns::scale<double, 128>", params, ["y"]).entry == "jwarp_ns_scale_double_128"
    with pytest.raises(wp.KernelTypeError, match="does not take"):
        compiled(text, "ns::scale<float, 128>", params, ["y"])


def test_extern_c_and_dynamic_shared_memory():
    text = """\
extern __shared__ float shared[];
extern "C" __global__ void __launch_bounds__(128, 2) f(const float* x, float* y) {
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = shared[127 - threadIdx.x];
}
"""
    assert compiled(text, "f", {"x": A, "y": A}, ["y"], block_dim=128, shared_bytes=512).block == 128


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_generations_of_gpus(architecture):
    params = {"x": A2, "k": float, "bias": A, "y": A2, "rows": int, "columns": int}
    assert compiled(POWERS, "powers", params, ["y"], architecture).content[:4] == b"\x7fELF"
    assert compiled(GROW, "grow", {"x": A, "k": float, "y": A, "n": int}, ["y"], architecture).content


def test_registers_and_spills():
    kernel = powers_kernel()
    program = program_of(kernel, wp.config.settings)
    made = Handwritten(kernel.definition, program.kernel, program.settings)
    code = made.codes(["sm_90"], kernel.definition.blocks, ["-Xptxas=-v"])["sm_90"]
    assert 8 <= code.registers <= 40 and code.spills == 0


# Where the text comes from


def test_files_and_what_they_include(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "constants.h").write_text("#define FACTOR 2.0f\n")
    (tmp_path / "tools.cuh").write_text(
        '#include "inner/constants.h"\n__device__ float twice(float x) { return FACTOR * x; }'
    )
    source = tmp_path / "kernel.cu"
    source.write_text('#include "tools.cuh"\n__global__ void f(const float* x, float* y) { y[0] = twice(x[0]); }\n')
    first = compiled(source, "f", {"x": A, "y": A}, ["y"]).content
    assert compiled(str(source), "f", {"x": A, "y": A}, ["y"]).content == first
    # A header that has changed is another kernel.
    (tmp_path / "inner" / "constants.h").write_text("#define FACTOR 3.0f\n")
    assert compiled(source, "f", {"x": A, "y": A}, ["y"]).content != first
    text = source.read_text()
    assert compiled(text, "f", {"x": A, "y": A}, ["y"], headers=tmp_path).content
    assert compiled(text, "f", {"x": A, "y": A}, ["y"], headers=[str(tmp_path)]).content
    in_memory = {"tools.cuh": "__device__ float twice(float x) { return 2.0f * x; }"}
    assert compiled(text, "f", {"x": A, "y": A}, ["y"], headers=in_memory).content


def test_options():
    text = """\
#ifndef FACTOR
#error no factor
#endif
__global__ void f(const float* x, float* y) { y[0] = FACTOR * x[0]; }
"""
    assert compiled(text, "f", {"x": A, "y": A}, ["y"], options=["-DFACTOR=3", "--use_fast_math"]).content
    with pytest.raises(wp.LaunchError, match="unrecognized option --bogus"):
        compiled(text, "f", {"x": A, "y": A}, ["y"], options=["--bogus"])
    twenty = "__global__ void f(const float* x, float* y) { auto g = []<class T>(T t) { return t; }; y[0] = g(x[0]); }"
    assert compiled(twenty, "f", {"x": A, "y": A}, ["y"], options=["--std=c++20"]).content


# What is said of faults


def fault(text, name="f", **keywords):
    with pytest.raises(wp.CompileError) as error:
        compiled(text, name, {"x": A, "y": A}, ["y"], **keywords)
    return str(error.value)


def test_faults_show_the_author_s_line():
    said = fault("\n\n__global__ void f(const float* x, float* y) {\n  y[0] = z;\n}")
    assert "kernel 'f': identifier \"z\" is undefined" in said
    assert "--> <f>:4" in said and "4 |   y[0] = z;" in said and "^^^" in said


def test_faults_in_files_and_headers(tmp_path):
    source = tmp_path / 'a "b".cu'
    source.write_text('#include "h.h"\n__global__ void f(const float* x, float* y) {\n  y[0] = nothing;\n}')
    (tmp_path / "h.h").write_text("// fine\n")
    assert f"{source}:3" in fault(source)
    assert "y[0] = nothing;" in fault(source)
    headers = {"h.h": "__device__ int broken() {\n  return nothing;\n}\n"}
    said = fault('#include "h.h"\n__global__ void f(const float* x, float* y) {}', headers=headers)
    assert "h.h:2" in said and "return nothing;" in said


def test_other_faults():
    assert "the source has no function of this name" in fault("__global__ void g() {}")
    assert "the source has no function of this name" in fault(
        "template <class T> __global__ void g(T* x) {}", "h<float>"
    )
    assert "help: give its text, or its folder, as `headers`" in fault('#include "absent.h"\n')
    several = fault("__global__ void f(const float* x, float* y) { a = 1;\n b = 2; }")
    assert "and 1 more" in several


def test_remarks_of_the_compiler_are_warnings():
    text = "__global__ void f(const float* x, float* y) {\n  int unused = 3;\n  y[0] = x[0];\n}"
    with pytest.warns(wp.KernelWarning, match='variable "unused" was declared but never referenced') as caught:
        compiled(text, "f", {"x": A, "y": A}, ["y"])
    assert "<f>:2" in str(caught[0].message)


def test_inspection():
    kernel = powers_kernel()
    assert "jwarp_powers(const __grid_constant__ jw_args<" in wp.inspect(kernel, "cuda")
    assert ".visible .entry jwarp_powers(" in wp.inspect(kernel, "ptx")
    with pytest.raises(wp.LaunchError, match="its adjoint is inspected by itself"):
        wp.inspect(kernel, "ptx", adjoint=True)


def test_exports():
    kernel, args = powers_kernel(), [np.ones((3, 5), np.float32), np.float32(2), np.ones(5, np.float32)]
    checks = [*wp.EXPORT_CHECKS, DisabledSafetyCheck.custom_call(CUDA_TARGET)]
    exported = jax.export.export(
        jax.jit(lambda *a: powers(kernel, *a)), platforms=["cuda", "cpu"], disabled_checks=checks
    )(*args)
    assert "jwarp_cuda_v1" in exported.mlir_module()
    np.testing.assert_allclose(exported.call(*args), 3.0)
