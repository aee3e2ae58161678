"""Kernels whose threads run in order, as text for GPUs that is run on the processor, in any order of its threads."""

import numpy as np
import pytest
from counter_kernels import KERNELS, N, in_turn, point
from cuda_on_host import BACKWARD, FORWARD, compile_host, run_host
from versions import read_version

import jwarp as wp
from jwarp.backend.cuda.records import grows
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.program import program_of
from jwarp.config import Settings

PLAIN = Settings(cache_dir="")
ORDERED = Settings(cache_dir="", deterministic=wp.DeterministicMode.RUN_TO_RUN)
VARIANTS = (
    Variant("tangent", (4,), (0,), for_gpu=True),
    Variant("adjoint", (0,), (4,), for_gpu=True),
    Variant("adjoint", (0,), (4,), along=(0,), for_gpu=True),
)


def arguments(rng, kernel):
    """Arguments of a kernel or a derivative of one, by the names of its parameters."""
    x, cell, trips, n, y = point(5)
    given = {"x": x, "cell": cell, "trips": trips, "n": n, "y": y}

    def argument(param):
        like = given[param.name.split("_")[-1]]
        if param.dtype.is_int:  # marks of elements start as zeros
            return given.get(param.name, np.zeros(len(like), param.dtype.dtype))
        return given.get(param.name, rng.normal(size=len(like)))

    return [argument(p) for p in kernel.params]


def test_threads_and_their_derivatives_run_in_order():
    """Loops of unknown length that take places, or overwrite at one, remember it all on the heap."""
    programs, growing = [], set()
    for kernel in KERNELS:
        program = program_of(kernel, ORDERED)
        programs.append(program.gpu_kernel)
        for variant in VARIANTS:
            programs.append(derive(program, variant).program.gpu_kernel)
            growing |= {kernel.name} if grows(programs[-1]) else set()
    assert growing == {"several_places", "bits_of_cells", "taken_in_turns", "worked_on_in_place"}
    assert sum(kernel.order for kernel in programs) > 2 * len(KERNELS)
    rng = np.random.default_rng(0)
    texts = [
        CudaKernel(k, PLAIN).unit(read_version(rng.choice(["checked", "flat checked"])), 64).text for k in programs
    ]
    for kernel, host in zip(programs, compile_host(texts), strict=True):
        given = arguments(rng, kernel)
        expected = run(kernel, (N,), given)
        for order, blocks in ((FORWARD, None), (BACKWARD, 3), (4, 1)):
            for found, wanted in zip(run_host(host, kernel, (N,), given, order, blocks=blocks), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12, err_msg=kernel.name)


@pytest.mark.quick
def test_threads_that_wait_for_others_run_in_order():
    """Nothing else would show a thread what the one before it wrote."""
    kernel = program_of(in_turn, PLAIN).gpu_kernel
    (host,) = compile_host([CudaKernel(kernel, PLAIN).unit(read_version("checked"), 64).text])
    cell = np.random.default_rng(1).integers(0, 3, N).astype(np.int32)
    given = [cell, np.zeros(2, np.int32), np.zeros(3, np.int32)]
    total = [0, 0, 0]
    for i, c in enumerate(cell.tolist()):
        total[c] = total[c] * 3 % 1009 + i
    for order, blocks in ((FORWARD, None), (BACKWARD, 3)):
        _, lock, found = run_host(host, kernel, (N,), given, order, blocks=blocks)
        assert lock.tolist() == [N, N] and found.tolist() == total


@wp.kernel
def giving_back(cell: wp.array[int], lock: wp.array[int], total: wp.array[int]):
    """A lock that the iteration which takes it gives back."""
    i = wp.tid()
    done = False
    while not done:
        if wp.atomic_cas(lock, 0, 0, 1) == 0:
            total[cell[i]] = total[cell[i]] * 3 % 1009 + i
            wp.atomic_exch(lock, 0, 0)
            done = True


@wp.kernel
def trying_again(x: wp.array[int], largest: wp.array[int]):
    """One write alone: there is nothing that another thread has to find, but for the element itself."""
    i = wp.tid()
    old = largest[0]
    done = False
    while not done:
        found = wp.atomic_cas(largest, 0, old, wp.max(old, x[i]))
        done = found == old
        old = found


@pytest.mark.quick
def test_threads_that_hold_a_lock_run_in_order():
    """Nothing else would show what one wrote to the next, which may look from another multiprocessor."""
    kernel = program_of(giving_back, PLAIN).gpu_kernel
    assert kernel.order and not program_of(giving_back, PLAIN).kernel.order
    assert not program_of(trying_again, PLAIN).gpu_kernel.order
    (host,) = compile_host([CudaKernel(kernel, PLAIN).unit(read_version("checked"), 64).text])
    cell = np.random.default_rng(4).integers(0, 3, N).astype(np.int32)
    total = [0, 0, 0]
    for i, c in enumerate(cell.tolist()):
        total[c] = total[c] * 3 % 1009 + i
    for order, blocks in ((FORWARD, None), (BACKWARD, 3)):
        _, lock, found = run_host(
            host, kernel, (N,), [cell, np.zeros(1, np.int32), np.zeros(3, np.int32)], order, blocks=blocks
        )
        assert lock.tolist() == [0] and found.tolist() == total
