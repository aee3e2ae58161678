"""Programs of generated and handwritten kernels: one protocol, which nobody asks for the class behind it."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jwarp as wp
from jwarp.compiler.handwritten_program import HandwrittenProgram
from jwarp.compiler.program import GeneratedProgram, on_host, program_of
from jwarp.config import Settings
from jwarp.launching.geometry import Geometry
from jwarp.wire import Role

TEXT = "__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }"
TYPES = {"x": wp.array[float], "y": wp.array[float]}


@wp.kernel
def twice(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def handwritten(**more):
    return wp.cuda_kernel(TEXT, "twice", TYPES, outputs="y", **more)


def test_programs_are_made_once_and_compare_by_content():
    generated, by_hand = program_of(twice, Settings()), program_of(handwritten(), Settings())
    assert isinstance(generated, GeneratedProgram) and isinstance(by_hand, HandwrittenProgram)
    assert program_of(twice, Settings()) is generated
    assert program_of(twice, Settings(fast_math=True)) != generated
    same = GeneratedProgram(generated.kernel, Settings(), unchecked=generated.unchecked)
    assert same == generated and hash(same) == hash(generated) and same is not generated
    # What an author says beside the text is part of it.
    assert program_of(handwritten(), Settings()) != by_hand
    for program in (generated, by_hand):
        assert [p.name for p in program.params] == ["x", "y"] and program.written == (1,) and not program.lasts


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_a_handwritten_program_is_told_of_its_launch_dimensions():
    program = program_of(handwritten(), Settings())
    rows, geometry = program.arranged((2, 3), None)
    assert rows.kernel.tid_dims == 2 and geometry == Geometry((2, 3, 1, 1))
    assert rows.fingerprint != program.fingerprint and rows.definition is program.definition
    assert program.arranged((5, 3), None)[0] is rows
    assert program.arranged((6,), None)[0] is program
    generated, repeated = program_of(twice, Settings()).arranged((2, 3), None)
    assert generated is program_of(twice, Settings()) and repeated == Geometry((2, 1, 1, 1), 3)


def test_what_only_one_kind_can():
    generated, by_hand = program_of(twice, Settings()), program_of(handwritten(cpu=twice), Settings())
    assert on_host(generated) is generated and on_host(by_hand) is generated
    assert generated.merged(()) is generated and by_hand.merged(()) is by_hand
    assert generated.merged(((0, 1),)) is generated.merged(((0, 1),)) != generated
    with pytest.raises(wp.LaunchError, match="takes them for different ones"):
        by_hand.merged(((0, 1),))
    with pytest.raises(wp.LaunchError, match="there is no kernel for the CPU"):
        on_host(program_of(handwritten(), Settings()))
    with pytest.raises(wp.LaunchError, match="is not added to NumPy arrays"):
        on_host(by_hand, adjoint=True)
    generated.refuse_content((Role.READ, Role.IN_OUT))
    with pytest.raises(wp.LaunchError, match="not said to read it"):
        by_hand.refuse_content((Role.READ, Role.IN_OUT))
    long = Geometry((9, 1, 1, 1))
    by_hand.check(long, ((4,), (4,)))
    with pytest.raises(wp.LaunchError, match="index 8 is outside axis 0 of `x`"):
        generated.check(long, ((4,), (4,)))


def test_nobody_asks_which_kind_it_is():
    package = Path(wp.__file__).parent
    asking = re.compile(r"handwritten is (not )?None|isinstance\([^()]*(HandwrittenKernel|HandwrittenProgram)\b")
    found = {p.relative_to(package).as_posix() for p in package.rglob("*.py") if asking.search(p.read_text())}
    assert found <= {"api/cuda_kernel.py"}  # which checks what its user passes


def test_a_launch_is_short_in_a_jaxpr():
    x = jnp.ones(4)

    def function(x):
        return wp.launch(twice, 4, [x], [4])[0]

    text = str(jax.make_jaxpr(function)(x))
    assert "launch=twice[4]" in text and "batch=none" in text and len(text) < 200
    batched = str(jax.make_jaxpr(jax.vmap(function))(jnp.ones((3, 4))))
    assert "batch=3 (1 -> 1)" in batched
    gradient = str(jax.make_jaxpr(jax.grad(lambda x: function(x).sum()))(x))
    assert "variant=adjoint(1 -> 0)" in gradient and "sources=(given 1,)" in gradient
