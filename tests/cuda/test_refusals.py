"""Errors of NVRTC and the assembler arrive with the kernel, the author's line and a way out."""

import jax
import jax.numpy as jnp
import pytest

import jwarp as wp
from jwarp.backend.cuda.assembler import plain_name, refusal_of
from jwarp.backend.cuda.nvrtc import missing
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import program_of
from jwarp.config import Settings, config
from jwarp.launching.handwritten import configuration

pytestmark = pytest.mark.quick

needs_compiler = pytest.mark.skipif(missing() is not None, reason="needs NVRTC")
HEAD = """\
__global__ void wrong(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
"""
PARAMS = {"x": wp.array[float], "y": wp.array[float], "n": int}

# What stands before the function, what in it, the line that is told, and what the message has.
TEXTS = {
    "static shared memory": (
        "", "  __shared__ float s[20000];\n  s[i % 20000] = x[i];\n  __syncthreads();\n  y[i] = s[n];", 3,
        r"80,000 bytes, and a block can have 49,152.*extern __shared__.*shared_bytes",
    ),
    "instructions": ("", '  float r;\n  asm("foo.bar %0, %1;" : "=f"(r) : "f"(x[i]));\n  y[i] = r;', 4,
                     r"the assembler says: Unknown modifier '.bar' \(Not a name of any known instruction: 'foo'\)"),
    "of an inlined function": (
        '__device__ float twice(float x) {\n  asm("add.f32 %0, %1;" : "+f"(x) : "f"(x));\n  return x;\n}\n',
        "  y[i] = twice(x[i]);", 2, "Arguments mismatch for instruction 'add'",
    ),
    "undefined functions": ("namespace far { extern __device__ float other(float); }\n", "  y[i] = far::other(x[i]);",
                            4, "`other` is declared and nowhere defined.*put its definition"),
    "newer hardware": ("", '  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");\n  y[i] = x[i];', 3,
                       "`setmaxnreg.inc` cannot be compiled for sm_80.*wp.config.cuda_arch"),
    "constants": ("__constant__ float table[40000];\n", "  y[i] = table[i];", 1, "160,000 bytes, and a file .*65,536"),
    "constants that the host fills": (
        "namespace far { __constant__ float table[5]; }\n", "  y[i] = far::table[i];", 1,
        "reads the constant `table`.*make it a parameter",
    ),
    "clusters": (
        "__device__ void __cluster_dims__(2, 1, 1) f() {}\n", "  y[i] = x[i];", 1, "launched without clusters",
    ),
    "launches": ("", "  wrong<<<1, 1>>>(x, y, n);", 3, "kernel launch.*a wp.launch of its own"),
    "exceptions": ("", "  if (i > n) throw 1;", 3, "exception handling.*__trap"),
    "textures": ("texture<float, 2> t;\n", "  y[i] = x[i];", 1, "no texture references any more"),
    "containers": ("", "  std::vector<float> v;", 3, r"has no member \"vector\".*containers and streams"),
    "names": ("", "  y[i] = x[i] * SCALE;", 3, r"\"SCALE\" is undefined.*options=\['-DSCALE=…'\]"),
    "templates": ("template <int N> struct F { static const int v = F<N - 1>::v + 1; };\n", "  y[i] = F<9999>::v;", 1,
                  "excessive recursion.*let the template end"),
    "a missing end": ("", "  if (i < n) {\n    y[i] = x[i];\n", 4, "the source ends inside a function.*with a }"),
}  # fmt: skip


def image_of(text):
    kernel = wp.cuda_kernel(text, "wrong", PARAMS, outputs=["y"])
    program = program_of(kernel, config.settings)
    blocks = configuration(kernel.definition, (100,), 64).blocks
    Handwritten(kernel.definition, program.kernel, Settings(cache_dir="")).image(["sm_80"], blocks)


@needs_compiler
@pytest.mark.parametrize("name", TEXTS)
def test_handwritten_kernels(name):
    before, body, line, words = TEXTS[name]
    with pytest.raises(wp.CompileError, match=f"(?s)kernel 'wrong': .*{words}") as caught:
        image_of(before + HEAD + body + ("" if name == "a missing end" else "\n}\n"))
    assert caught.value.diagnostic.span.line == line


@needs_compiler
def test_templates():
    with pytest.raises(wp.KernelTypeError, match=r"an instance of a template, such as wrong<float>"):
        image_of("template <class T> __global__ void wrong(const T* x, T* y, int n) { y[0] = x[n]; }\n")


@wp.kernel
def doubled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def handwritten():
    text = HEAD + "  if (i < n) y[i] = x[i];\n}\n"
    kernel = wp.cuda_kernel(text, "wrong", PARAMS, outputs=["y"])
    return jax.jit(lambda x: wp.launch(kernel, 8, {"x": x, "n": 8}, {"y": 8}))


@needs_compiler
@pytest.mark.parametrize("function", [jax.jit(lambda x: wp.launch(doubled, 8, [x], [8])[0]), handwritten()])
@pytest.mark.parametrize(("result", "words"), [
    ("OUT_OF_MEMORY", "no memory left to compile with"),
    ("INVALID_OPTION", r"wp.config.cuda_arch\) or an option"),
    ("BUILTIN_OPERATION_FAILURE", "pip install --force-reinstall nvidia-cuda-nvrtc"),
    ("INTERNAL_ERROR", "please report it"),
])  # fmt: skip
def test_where_the_compiler_fails_by_itself(function, result, words, monkeypatch):
    """The error has the kernel, its place, what the compiler says, and what to do."""
    from cuda.bindings import nvrtc

    found = getattr(nvrtc.nvrtcResult, f"NVRTC_ERROR_{result}")
    monkeypatch.setattr(nvrtc, "nvrtcCompileProgram", lambda *_: (found,))
    said = f"NVRTC failed with NVRTC_ERROR_{result} for sm_80"
    told = rf"(?s)kernel '(doubled|wrong)': {said}\n +--> .*:\d+\n.*help: .*{words}"
    with wp.config(cuda_arch="sm_80", cache_dir=""), pytest.raises(wp.LaunchError, match=told) as caught:
        function.trace(jnp.ones(8)).lower(lowering_platforms=("cuda",))
    assert caught.value.diagnostic.span.file == __file__


@needs_compiler
def test_architectures_that_the_compiler_does_not_know():
    told = "'doubled': NVRTC failed with NVRTC_ERROR_INVALID_OPTION for sm_37: .*gpu-architecture"
    with wp.config(cuda_arch="sm_37"), pytest.raises(wp.LaunchError, match=told):
        jax.jit(lambda x: wp.launch(doubled, 8, [x], [8])[0]).trace(jnp.ones(8)).lower(lowering_platforms=("cuda",))


def test_what_names_no_line():
    log = (
        'k.cu(3): warning: variable "n" was declared but never referenced\n'
        "k.cu(4): Error: Formal parameter space overflowed (57696 bytes required, max 32764 bytes allowed) "
        "in function k\n"
    )
    assert "57,696 bytes, and CUDA has 32,764" in refusal_of(log).message
    assert refusal_of("k.cu(3): warning: this is odd\n") is None
    for symbol, name in (("_Z5otherf", "other"), ("_ZN3far5otherEf", "other"), ("other", "other")):
        assert plain_name(symbol) == name
