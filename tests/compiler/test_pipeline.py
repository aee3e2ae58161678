"""The lists of passes: what each needs is given by those before it, and kernels have the forms that passes give."""

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import golden_kernels
import pytest
from cuda_tiles import Scattered, in_blocks_of
from kernel_sources import Writer, load

import jwarp as wp
from jwarp.analysis.lane_serialised import has_lanes, in_turn, lane_serialised_loops
from jwarp.compiler import pipeline
from jwarp.compiler.cpu import CpuKernel
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.passes import Context, Form, Pass, run, step, watching
from jwarp.compiler.program import program_of
from jwarp.config import Settings
from jwarp.frontend.builtins.scalar import together
from jwarp.ir.nodes import Kernel, Op, is_plain, walk_all
from jwarp.ir.printing import format_kernel
from jwarp.passes.simplify import simplify
from jwarp.types import shape_of

PLAIN = Settings(cache_dir="")
# A derivative is made from a kernel without calls, and has everything else anew.
DERIVE = Pass("derive", step(lambda k: k), needs={Form.WITHOUT_CALLS}, gives={Form.WITHOUT_CALLS}, loses=set(Form))

FORMS = {
    "as it is": (),
    "batch": (*pipeline.INLINED_READING, *pipeline.BATCH_TO_THREADS),
    "split": pipeline.SPLIT,
    "rotated": pipeline.ROTATED,
    "blocks": (*pipeline.BLOCKS_AS_THREADS, *pipeline.ROTATED),
}
BEFORE = {
    "program": pipeline.PROGRAM,
    "merged": (*pipeline.INLINED, *pipeline.MERGED, *pipeline.LAUNCHED),
    "derivative": (*pipeline.INLINED, *pipeline.ANALYSED, *pipeline.DIFFERENTIATED, DERIVE, *pipeline.DERIVED),
}
CHAINS = {
    **{f"{b} {f} cpu": (*BEFORE[b], *FORMS[f], *pipeline.CPU) for b in BEFORE for f in FORMS},
    "program cuda": (*pipeline.PROGRAM, *pipeline.ON_GPU, *pipeline.CUDA),
    "private cuda": (*pipeline.PROGRAM, *pipeline.ON_GPU, *pipeline.PRIVATE_ELEMENTS, *pipeline.CUDA),
    "derivative cuda": (*BEFORE["derivative"], *pipeline.DERIVED_ON_GPU, *pipeline.ON_GPU, *pipeline.CUDA),
}


def missing(chain: Sequence[Pass], end: set[Form]) -> list[tuple[str, Form]]:
    """The needs of the passes of a chain, and of the code at its end, that no earlier pass gives."""
    found, forms = [], set[Form]()
    for each in (*chain, Pass("code", step(lambda k: k), needs=end)):
        found += [(each.name, form) for form in each.needs - forms]
        forms = (forms - each.loses) | each.gives
    return found


@pytest.mark.parametrize("name", CHAINS)
def test_earlier_passes_give_what_each_needs(name):
    assert missing(CHAINS[name], pipeline.CODE[name.split()[-1]]) == []


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_pass_that_is_left_out_is_missed(target):
    chain = CHAINS["program cuda" if target == "cuda" else "program as it is cpu"]
    lacking = {p.name for p in chain if missing([q for q in chain if q is not p], pipeline.CODE[target])}
    assert {"drop derivative rules", "simplify", "lower tiles", "expand operations", "serialise lanes"} <= lacking
    backwards = missing([*chain[:-1][::-1], chain[-1]], pipeline.CODE[target])
    assert ("expand operations", Form.WITHOUT_TILES) in backwards


def test_names_tell_passes_of_a_list_apart():
    for passes in (pipeline.PROGRAM, pipeline.CPU, pipeline.CUDA, pipeline.DIFFERENTIATED):
        assert len({p.name for p in passes}) == len(passes)


# -- the forms hold


def ops(kernel: Kernel) -> Iterator[Op]:
    return (n for n in walk_all(kernel) if isinstance(n, Op))


def is_native(kernel: Kernel, target: str) -> bool:
    (expand,) = (p for p in pipeline.TARGETS[target] if p.name == "expand operations")
    return format_kernel(expand.run(kernel, Context(PLAIN))) == format_kernel(kernel)


def has_settled_lanes(kernel: Kernel, target: str) -> bool:
    if target == "cuda":
        return bool(kernel.block_dim) or not has_lanes(kernel)
    return in_turn(kernel, lane_serialised_loops(kernel)).body is kernel.body


HOLDS = {
    Form.WITHOUT_RULES: lambda k, target: is_plain(k),
    Form.WITHOUT_CALLS: lambda k, target: not k.functions and all(n.row.effect != "call" for n in ops(k)),
    Form.SIMPLE: lambda k, target: simplify(k).body == k.body,
    Form.FOR_TARGET: lambda k, target: all(n.name != "on_gpu" for n in ops(k)),
    Form.WITHOUT_TILES: lambda k, target: all(n.result is None or not shape_of(n.result.type) for n in ops(k)),
    Form.NATIVE: is_native,
    Form.LANES_SETTLED: has_settled_lanes,
}


@wp.func
def turned(a: wp.vec3, b: wp.vec3):
    c = wp.cross(a, b) + a
    for _ in range(8):
        c = wp.cross(c, b) * wp.length(c) + wp.normalize(c)
    return c


@wp.func
def capped(a: float):
    return wp.min(a, 1.0)


@wp.func_grad(capped)
def adj_capped(a: float, adj: float):
    wp.adjoint[a] += adj


@wp.kernel
def called(x: wp.array[wp.vec3], y: wp.array[wp.vec3], z: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = turned(x[i], turned(x[i], y[i]))
    z[i] = turned(y[i], turned(z[i], x[i])) * capped(x[i][0])


@wp.func
def doubled(a: float):
    return a + a


@wp.func_native("return 2.0f * a;", cpu=doubled)
def twice(a: float) -> float: ...


@wp.kernel
def native(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = twice(x[i])


@wp.kernel
def searched(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    best = 0.0
    rounds = 0
    while rounds < 3:
        for k in range(together(8)):
            best = wp.max(best, x[i * 8 + k])
        rounds += 1
    y[i] = best


def kernels(tmp_path) -> Iterator[Kernel]:
    yield from (kernel.ir(PLAIN) for kernel in golden_kernels.KERNELS)
    yield from (kernel.ir(PLAIN) for kernel in (called, native, searched))
    for seed in range(6):
        yield load(Writer(random.Random(seed)).kernel().source, tmp_path).ir(PLAIN)
        rng = random.Random(seed)
        yield in_blocks_of(Scattered(rng).case().kernel, rng)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_kernels_have_the_forms_that_passes_give(target, tmp_path):
    context, seen = Context(PLAIN), set[Form]()
    for kernel in kernels(tmp_path):
        forms = set[Form]()
        for each in (*pipeline.PROGRAM, *pipeline.TARGETS[target]):
            kernel = run((each,), kernel, context)
            forms = (forms - each.loses) | each.gives
            lost = [form for form in forms if not HOLDS[form](kernel, target)]
            assert not lost, f"{kernel.name}: {lost} after `{each.name}`"
            seen |= forms
    assert seen >= pipeline.CODE[target]


def test_kernels_as_they_are_read_lack_these_forms(tmp_path):
    found = list(kernels(tmp_path))
    for target in ("cpu", "cuda"):
        for form in pipeline.CODE[target] - ({Form.LANES_SETTLED} if target == "cpu" else set()):
            assert not all(HOLDS[form](kernel, target) for kernel in found), form


@pytest.mark.parametrize(("kind", "passes"), [(CpuKernel, pipeline.CPU), (CudaKernel, pipeline.CUDA)])
def test_code_is_generated_after_all_passes_of_the_list(kind, passes):
    program = program_of(golden_kernels.stencil, PLAIN)
    with watching() as states:
        proofs = kind(program.kernel, PLAIN).proofs
    assert [name for name, _ in states] == [p.name for p in passes]
    assert states[-1][1] is proofs.kernel


# -- nothing else decides what kernels go through

# Files that run a pass by themselves: on what is no program's kernel, or for one look at it.
EXCEPTED = {
    ("jwarp/api/inspect.py", "simplify"),  # the IR as users see it
    ("jwarp/backend/library.py", "simplify"),  # functions of the library
    ("jwarp/compiler/derive.py", "simplify"),  # an analysis
    ("jwarp/dispatch/call/array_arguments.py", "without_reading_functions"),  # an analysis
    ("jwarp/frontend/lowering/host_programs.py", "inlined"),  # calls outside kernels
    ("jwarp/frontend/lowering/lower.py", "settled_functions"),  # while a kernel is read
}
# Passes of which others are made.
MAKERS = ("jwarp/passes/", "jwarp/autodiff/", "jwarp/tiling/", "jwarp/ir/", "jwarp/lib/")


def imported(path: Path) -> set[tuple[str, str]]:
    """The names that a file imports from modules of the package, each with its module."""
    nodes = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom) and n.module)
    return {(n.module, alias.name) for n in nodes for alias in n.names}


def test_passes_run_from_the_lists_alone():
    root = Path(wp.__file__).parent.parent
    homes = ("jwarp.passes", "jwarp.tiling", "jwarp.ir.functions", "jwarp.backend.cpu.loops", "jwarp.autodiff")
    lists = root / "jwarp/compiler/pipeline.py"
    passes = {name for name in imported(lists) if name[0].startswith(homes)} - {("jwarp.passes.simplify", "is_cheap")}
    files = {p.relative_to(root).as_posix(): imported(p) for p in (root / "jwarp").rglob("*.py") if p != lists}
    others = {(f, name) for f, names in files.items() if not f.startswith(MAKERS) for _, name in names & passes}
    assert others == EXCEPTED and len(passes) > 20
