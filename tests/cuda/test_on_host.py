"""Generated CUDA code, run on the processor with a stand-in for CUDA, against the interpreter.

Threads and blocks run forward, backward and shuffled, so that results which depend on their order show.
`JWARP_FUZZ=long` tries many more random kernels; JWARP_FUZZ_SECONDS says for how long.
"""

import dataclasses
import random
import re
import time
import warnings

import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD, HostCompiled, compile_host, pack, run_host
from fuzz_profiles import ALL, LONG, SECONDS, first_seed, in_turn, some
from gradient_kernels import KINDS
from kernel_sources import Writer, load
from op_kernels import agree, arguments, casts_of, close, inputs_of, operand_sets, ops_of
from versions import read_version

import jwarp as wp
from jwarp.backend.cuda.emit import MAX_SITE
from jwarp.backend.cuda.entry import generate
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.program import program_of
from jwarp.config import Settings, config
from jwarp.errors import KernelWarning
from jwarp.ir.nodes import failure_texts
from jwarp.ir.ops import ELEMENTARY
from jwarp.types import SCALARS, ArrayType

PLAIN = Settings(cache_dir="")
GROUP = 12


@pytest.mark.parametrize(
    "type_",
    [
        pytest.param(type_, id=name, marks=[pytest.mark.quick] if name in ("int32", "float32") else [])
        for number, (name, type_) in enumerate(SCALARS.items())
        if in_turn(number, of=2) or name in ("int32", "float32")
    ],
)
def test_operations(type_):
    """All operations and conversions at corner values, to the bit but for elementary functions."""
    both = [(ops_of(type_), inputs_of(type_, 1)), (casts_of(type_), operand_sets(type_, 1, 5)[:1])]
    kernels = [ops.kernel("kernel") for ops, _ in both]
    hosts = compile_host([CudaKernel(kernel, PLAIN).unit(read_version("fast"), 64).text for kernel in kernels])
    for (ops, inputs), kernel, host in zip(both, kernels, hosts, strict=True):
        count = len(inputs[0])
        args = arguments(ops, list(inputs), count)
        expected, found = run(kernel, (count,), args), run_host(host, kernel, (count,), args)
        arrays = sum(isinstance(p.type, ArrayType) for p in ops.inputs)
        for (label, _), x, y in zip(ops.labels, found[arrays:], expected[arrays:], strict=True):
            fits = close(x, y) if label.split()[0] in ELEMENTARY else agree(x, y)
            k = int(np.argmin(fits))
            assert fits.all(), f"{label} of {[v[k] for v in inputs]}: {x[k]!r}, expected {y[k]!r}"


def check_random(seeds, folder):
    """Random kernels, compiled together."""
    made = []
    for seed in seeds:
        rng = random.Random(seed)
        generated = Writer(rng).kernel()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelWarning)
            kernel = CudaKernel(load(generated.source, folder).ir(Settings(max_unroll=rng.choice([0, 4, 16]))), PLAIN)
        dims = (*generated.dims[: kernel.kernel.tid_dims], *[1] * 4)[:4]
        extents = tuple(np.shape(a) or None for a in generated.arguments)
        # Threads are repeated where there are more launch dimensions.
        repeat = 1 if len(generated.dims) <= kernel.kernel.tid_dims and rng.random() < 0.6 else 2
        own = kernel.version(dims, extents, repeat=repeat) if 0 not in dims else read_version("checked")
        version = dataclasses.replace(own, access=rng.choice([own.access, "checked", "either"]))
        made.append((seed, rng, generated, kernel, version))
    hosts = compile_host([kernel.unit(version, 64).text for *_, kernel, version in made], folder)
    for host, (seed, rng, generated, kernel, version) in zip(hosts, made, strict=True):
        expected = run(kernel.proofs.kernel, generated.dims, generated.arguments)
        order = rng.choice([FORWARD, BACKWARD, 1 + seed])
        blocks = None if version.is_narrow else rng.choice([None, 1, 3])  # whose grid has all threads
        found = run_host(
            host, kernel.kernel, generated.dims, generated.arguments, order, blocks=blocks, condition=kernel.condition
        )
        for k, (x, y) in enumerate(zip(found, expected, strict=True)):
            fits = np.all(agree(x, y))
            if generated.is_elementary and not fits:  # functions are rounded otherwise
                fits = np.allclose(x.astype(float), y.astype(float), rtol=1e-2, atol=1e-2, equal_nan=True)
            assert fits, f"seed {seed}, {version}, order {order}, array {k}:\n{x}\nexpected\n{y}\n{generated.source}"


@pytest.mark.skipif(LONG, reason="the long profile runs instead")
@pytest.mark.parametrize("group", some(range(4), of=2))
def test_random_kernels(group, tmp_path):
    check_random(range(group * GROUP, (group + 1) * GROUP), tmp_path)


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    first, end, count = first_seed(), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        check_random(range(first + count, first + count + GROUP), tmp_path)
        count += GROUP
    print(f"{count} kernels from seed {first}")


VARIANTS = (
    Variant("tangent", (2,), (0,), fresh=(2,), for_gpu=True),
    Variant("adjoint", (0,), (2,), fresh=(2,), for_gpu=True),
    Variant("adjoint", (0,), (2,), along=(0,), fresh=(2,), for_gpu=True),
)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives(kind):
    """A GPU runs loops again where the processor has a tape, or has it on its heap; both give the same."""
    pairs = []
    for number, kernel in enumerate(KINDS[kind]):
        # Short: the adjoint of each, and one of the others, in turns.
        for variant in VARIANTS if ALL else (VARIANTS[1], VARIANTS[2 * (number % 2)]):
            program = derive(program_of(kernel, config.settings), variant).program
            pairs.append((program.kernel, program.gpu_kernel))
    made = [CudaKernel(ours, PLAIN) for _, ours in pairs]
    rng = np.random.default_rng(3)
    hosts = compile_host(
        [kernel.unit(read_version(rng.choice(["checked", "flat checked"])), 64).text for kernel in made]
    )
    for (taped, ours), host in zip(pairs, hosts, strict=True):
        assert ours.params == taped.params
        # What threads of one launch store must not meet: atomics alone depend on no order.
        for trips in (0, 1, 5, 40, 400) if ALL or taped is pairs[0][0] else (0, 1, 5, 40):
            args = [np.int32(trips) if p.type is wp.int32 else rng.uniform(0.35, 0.8, 5) for p in ours.params]
            expected = run(taped, (5,), args)
            for order in (FORWARD, BACKWARD):
                found = run_host(host, ours, (5,), args, order)
                names = [p.name for p in ours.params if p.is_array]
                for name, x, y in zip(names, found, expected, strict=True):
                    if name.startswith(("adj_", "dot_")):
                        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12, err_msg=f"{ours.name}, {trips} trips")


@wp.kernel
def scaled(x: wp.array2d[float], k: float, n: int, y: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    y[i, j] = k * x[i, (j + n) % x.shape[1]]
    wp.atomic_add(total, 0, x[i, j])
    wp.atomic_add(total, 1, 1.0)


@pytest.mark.parametrize("version", ["checked", "either"])
def test_batches(version):
    """Batch axes by strides: unbatched operands, and a sum that the whole batch shares."""
    kernel = scaled.ir()
    made = HostCompiled(kernel, version, block=32)
    rng = np.random.default_rng(0)
    a, b = 3, 2
    x = rng.normal(size=(a, b, 4, 5)).astype(np.float32)
    k = rng.normal(size=b).astype(np.float32)
    n = np.array([1, 4, 2], np.int32)
    y = np.zeros((a, b, 4, 5), np.float32)
    batched = [(True, True), (False, True), (True, False), (True, True)]
    for total, axes in ((np.zeros(2, np.float32), (False, False)), (np.zeros((a, 2), np.float32), (True, False))):
        for order, blocks in ((FORWARD, 5), (BACKWARD, 1), (7, 2)):
            arrays = [x, k, n, np.zeros_like(y), total.copy()]
            words = pack(kernel.params, arrays, (4, 5), tid_dims=2, batch=(a, b), batched=[*batched, axes])
            made.host.run(words, (blocks,), (32,), order=order)
            for i in range(a):
                for j in range(b):
                    np.testing.assert_array_equal(arrays[3][i, j], k[j] * np.roll(x[i, j], -int(n[i]), axis=1))
            sums = x.astype(float).sum(axis=(1, 2, 3)) if axes[0] else x.astype(float).sum()
            np.testing.assert_allclose(arrays[4][..., 0], sums, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(arrays[4][..., 1], 40.0 if axes[0] else 120.0)


def test_repeated_threads():
    @wp.kernel
    def count(hits: wp.array[int], last: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(hits, i, 1)
        last[i] = 2.0

    made = HostCompiled(count.ir(), "checked")
    hits, last = made.run((5, 3, 2), [np.zeros(5, np.int32), np.zeros(5, np.float32)])
    assert hits.tolist() == [6] * 5 and last.tolist() == [2.0] * 5


@wp.kernel
def guarded(hits: wp.array[int], total: wp.array[float]):
    wp.atomic_add(hits, 0, 2147483647)
    if total.shape[0] > 3:
        wp.atomic_add(total, 3, 1.0)


@pytest.mark.parametrize("bounds", ["safe", "unchecked"])
def test_a_sum_that_no_thread_added_to_is_left_alone(bounds):
    """Also without tests of accesses: none was made. Integers wrap, which C++ leaves open for its own sums."""
    made = HostCompiled(guarded.ir(), "checked", Settings(cache_dir="", bounds=bounds))
    flushes = [line for line in made.text.splitlines() if "jw_flush" in line and "total_sum + 3" in line]
    assert flushes and all("3 < total_n0 ?" in line for line in flushes)
    assert "sum0 = jw_add(sum0, 2147483647)" in made.text
    hits, total = made.run((7,), [np.zeros(1, np.int32), np.zeros(2, np.float32)])
    assert hits.tolist() == [np.int64(7 * 2147483647).astype(np.int32)] and total.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("folder", ['say "a\\b"', "new\nline", "100%d", "\udce9"])
def test_files_of_any_name(folder, tmp_path):
    (tmp_path / folder).mkdir()
    source = "import jwarp as wp\n\n@wp.kernel\ndef kernel(x: wp.array[float]):\n    x[wp.tid()] += 1.0\n"
    (found,) = HostCompiled(load(source, tmp_path / folder).ir()).run((3,), [np.zeros(3)])
    assert found.tolist() == [1.0] * 3


def test_more_checks_than_the_runtime_numbers():
    """Their failure is one without a text, and not that of another thread."""
    program = program_of(positive, config.with_values(debug=True))
    text = next(t for t in failure_texts(program.kernel) if "assert" in t)
    failures = [*map(str, range(MAX_SITE)), *failure_texts(program.kernel)]
    made = generate(
        CudaKernel(program.kernel, PLAIN).proofs, "k", read_version("checked"), bounds=True, block=32, failures=failures
    )
    assert text in failures and re.findall(r"jw_fail\(args.failure, n, (\d+)\)", made)
    assert set(re.findall(r"jw_fail\(args.failure, n, (\d+)\)", made)) == {"0"}


@wp.kernel
def positive(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    assert x[i] > 0.0
    y[i] = wp.sqrt(x[i])


def test_the_first_failed_check_is_noted():
    program = program_of(positive, config.with_values(debug=True))
    made = HostCompiled(program.kernel, "checked")
    x = np.ones(200, np.float32)
    x[[170, 33, 90]] = -1.0
    for order in (FORWARD, BACKWARD, 5):
        with pytest.raises(RuntimeError, match=r"thread 33: .*assert"):
            made.run((200,), [x, np.zeros(200, np.float32), *[np.zeros(200, np.int32)] * len(program.shadowed)], order)
