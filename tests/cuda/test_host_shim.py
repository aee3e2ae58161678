"""The stand-in for CUDA on the processor: its barriers, warps, shared memory and functions, and the errors it finds."""

import threading

import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD, compile_host
from launch_format import BATCH_AXES, WORDS

ORDERS = (FORWARD, BACKWARD, 3, 17)

# Kernels of arrays a, b, c ... by name; all are compiled together.
SOURCES: dict[str, str] = {}


def source(name: str, types: str, body: str, before: str = "") -> None:
    """Adds a kernel whose parameters are pointers to `types`, called a, b, c and so on."""
    names = types.split(", ") if types else []
    pointers = [f"  {type_}* {chr(97 + k)} = ({type_}*)args.arrays[{k}];" for k, type_ in enumerate(names)]
    head = 'extern "C" __global__ void __launch_bounds__(1024)\nk(const __grid_constant__ jw_args<4, %d> args) {'
    head %= len(names)
    SOURCES[name] = "\n".join([before, head, *pointers, body, "}"])


@pytest.fixture(scope="module", params=["switch", "ucontext"])
def hosts(request):
    """With the way to switch between threads that this processor has, and with that of all others."""
    flags = () if request.param == "switch" else ("-DCUDA_HOST_UCONTEXT",)
    return dict(zip(SOURCES, compile_host(list(SOURCES.values()), flags=flags), strict=True))


def launch(host, *arrays, grid=(1,), block=(32,), shared=0, order=FORWARD):
    assert all(array.flags.c_contiguous for array in arrays)
    words = [*[0] * 12, *(array.ctypes.data for array in arrays), *[0] * (4 * len(arrays))]
    host.run(np.array(words, np.int64), grid, block, shared=shared, order=order)


# Barriers and shared memory

source(
    "block sum",
    "float, float",
    """
  __shared__ float partial[3];
  float value = a[blockIdx.x * blockDim.x + threadIdx.x];
  for (int d = 16; d > 0; d /= 2) value += __shfl_down_sync(0xffffffffu, value, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) b[blockIdx.x] = partial[0] + partial[1] + partial[2];
""",
)


@pytest.mark.parametrize("order", ORDERS)
def test_warps_and_barriers(hosts, order):
    """A block's sum by shuffles and shared memory, in any order of its threads."""
    x = np.random.default_rng(0).normal(size=(4, 96)).astype(np.float32)
    sums = np.zeros(4, np.float32)
    launch(hosts["block sum"], x, sums, grid=(4,), block=(96,), order=order)
    np.testing.assert_allclose(sums, x.sum(axis=1), rtol=1e-5)


source(
    "votes",
    "int, int",
    """
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  for (int k = 0; k < 5; ++k) {
    int* out = b + 3 * (k * 60 + t);
    int yes = a[k * 60 + t];
    out[0] = __syncthreads_count(yes);
    out[1] = __syncthreads_and(yes);
    out[2] = __syncthreads_or(yes);
  }
""",
)


@pytest.mark.parametrize("order", ORDERS)
def test_votes_at_barriers(hosts, order):
    x = np.random.default_rng(1).choice([0, 2, -1], (5, 60)).astype(np.int32)
    x[1], x[2] = 0, 256
    found = np.full((5, 60, 3), -1, np.int32)
    launch(hosts["votes"], x, found, block=(5, 4, 3), order=order)
    expected = np.stack([(x != 0).sum(1), (x != 0).all(1), (x != 0).any(1)], axis=1)
    np.testing.assert_array_equal(found, np.repeat(expected[:, None], 60, axis=1))


source(
    "forgotten barrier",
    "float, float",
    """
  __shared__ float held[64];
  held[threadIdx.x] = a[threadIdx.x];
  b[threadIdx.x] = held[(threadIdx.x + 1) % 64];
""",
)
source("last", "int", "a[0] = blockIdx.x * blockDim.x + threadIdx.x;")


def test_orders_tell_what_depends_on_them(hosts):
    x = np.random.default_rng(2).normal(size=64).astype(np.float32)
    found = {}
    for order in ORDERS:
        y = np.zeros(64, np.float32)
        launch(hosts["forgotten barrier"], x, y, block=(64,), order=order)
        found[order] = np.isnan(y)
    # Who comes too early reads what nobody has written.
    assert found[FORWARD][:63].all() and not found[FORWARD][63]
    assert found[BACKWARD][63] and not found[BACKWARD][:63].any()
    assert 5 < found[3].sum() < 60 and not np.array_equal(found[3], found[17])
    last = []
    for order in ORDERS:
        y = np.zeros(1, np.int32)
        launch(hosts["last"], y, grid=(3, 2), block=(8,), order=order)
        last.append(int(y[0]))
    assert last[:2] == [23, 0] and len(set(last)) > 2


source(
    "unwritten",
    "float, double, int, float",
    """
  __shared__ float held[8];
  __shared__ double wide;
  int t = blockIdx.x * 8 + threadIdx.x;
  a[t] = held[threadIdx.x];
  b[t] = wide;
  c[t] = rows<int>()[threadIdx.x];
  d[t] = room[threadIdx.x];
  __syncthreads();
  held[threadIdx.x] = room[threadIdx.x] = 1.0f;
  wide = 1.0;
  rows<int>()[threadIdx.x] = 1;
""",
    before="""
extern __shared__ __align__(16) float room[];
template <class T> __device__ T* rows() { __shared__ T found[8]; return found; }
""",
)


@pytest.mark.parametrize("order", ORDERS)
def test_shared_memory_starts_with_nothing_in_it(hosts, order):
    """In every block of every launch."""
    for _ in range(2):
        single, double, number, room = (np.zeros(24, t) for t in (np.float32, np.float64, np.int32, np.float32))
        launch(hosts["unwritten"], single, double, number, room, grid=(3,), block=(8,), shared=32, order=order)
        assert np.isnan(single).all() and np.isnan(double).all() and np.isnan(room).all()
        assert (number == 0x7FF77FF7).all()


source("writer", "int", "extern __shared__ int room[];\n__syncthreads();\nif (threadIdx.x == 0) room[a[0]] = 1;")


def test_writing_behind_the_dynamic_shared_memory(hosts):
    launch(hosts["writer"], np.array([15], np.int32), shared=64)
    with pytest.raises(RuntimeError, match="behind the dynamic shared memory, block 0"):
        launch(hosts["writer"], np.array([16], np.int32), shared=64)


# Warps

SHUFFLES = {
    "__shfl_sync": lambda lane, n, width: lane // width * width + n % width,
    "__shfl_up_sync": lambda lane, n, width: lane - n if lane % width >= n else lane,
    "__shfl_down_sync": lambda lane, n, width: lane + n if lane % width + n < width else lane,
    "__shfl_xor_sync": lambda lane, n, width: lane ^ n if (lane ^ n) // width <= lane // width else lane,
}
VOTES = {
    "__ballot_sync": lambda x, lanes, own: sum(1 << k for k in lanes if x[k] & 1),
    "__any_sync": lambda x, lanes, own: any(x[k] & 1 for k in lanes),
    "__all_sync": lambda x, lanes, own: all(x[k] & 1 for k in lanes),
}
REDUCTIONS = {
    "__match_any_sync": lambda x, lanes, own: sum(1 << k for k in lanes if x[k] == x[own]),
    "__reduce_add_sync": lambda x, lanes, own: sum(x[k] for k in lanes) % 2**32,
    "__reduce_min_sync": lambda x, lanes, own: min(x[k] for k in lanes),
    "__reduce_max_sync": lambda x, lanes, own: max(x[k] for k in lanes),
    "__reduce_and_sync": lambda x, lanes, own: np.bitwise_and.reduce([x[k] for k in lanes]),
    "__reduce_or_sync": lambda x, lanes, own: np.bitwise_or.reduce([x[k] for k in lanes]),
    "__reduce_xor_sync": lambda x, lanes, own: np.bitwise_xor.reduce([x[k] for k in lanes]),
}
for name in SHUFFLES:
    body = "\n".join(
        f"  b[(threadIdx.x * 6 + {k}) * 32 + n] = {name}(~0u, a[threadIdx.x], n, {1 << k});" for k in range(6)
    )
    source(name, "double, double", f"  for (int n = 0; n < 32; ++n) {{\n{body}\n  }}")
for name in (*VOTES, *REDUCTIONS):
    value = "a[threadIdx.x] & 1" if name in VOTES else "a[threadIdx.x]"
    # Lanes on both sides of a branch, each with its own mask, as many times as they like.
    source(
        name,
        "unsigned, unsigned, unsigned",
        f"""
  unsigned mask = b[threadIdx.x / 32], own = 1u << threadIdx.x % 32;
  if (mask & own) {{
    c[threadIdx.x] = {name}(mask, {value});
  }} else {{
    for (int k = 0; k < 3; ++k) c[threadIdx.x] = {name}(~mask, {value});
  }}
""",
    )


@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles(hosts, name):
    x = np.random.default_rng(3).normal(size=64)
    for order in ORDERS:
        found = np.zeros((64, 6, 32))
        launch(hosts[name], x, found, block=(64,), order=order)
        for t in range(64):
            for k in range(6):
                lanes = [t // 32 * 32 + SHUFFLES[name](t % 32, n, 1 << k) for n in range(32)]
                np.testing.assert_array_equal(found[t, k], x[lanes], err_msg=f"thread {t}, width {1 << k}")


@pytest.mark.parametrize("name", [*VOTES, *REDUCTIONS])
def test_warp_operations_of_some_lanes(hosts, name):
    """Disjoint masks do not meet; the last warp has 8 lanes, and nobody waits for the others."""
    random = np.random.default_rng(4)
    for order in (*ORDERS, *range(20, 30)):
        x = random.choice(random.integers(0, 2**32, 4, np.uint32), 72)
        masks = random.integers(1, 2**32 - 1, 3, np.uint32)
        found = np.zeros(72, np.uint32)
        launch(hosts[name], x, masks, found, block=(72,), order=order)
        for t in range(72):
            first = t // 32 * 32
            own = bool(masks[t // 32] >> (t % 32) & 1)
            lanes = [k for k in range(min(32, 72 - first)) if bool(masks[t // 32] >> k & 1) == own]
            values = [int(v) for v in x[first:]]
            expected = {**VOTES, **REDUCTIONS}[name](values, lanes, t - first)
            assert found[t] == expected, f"thread {t}, order {order}"


source(
    "outside",
    "float",
    "if (threadIdx.x < 4) a[threadIdx.x] = __shfl_down_sync(0xfu, float(threadIdx.x), 1);\n__syncwarp();",
)


def test_lanes_outside_of_the_mask_give_nothing(hosts):
    found = np.zeros(4, np.float32)
    launch(hosts["outside"], found)
    np.testing.assert_array_equal(found, [1, 2, 3, np.nan])


# Errors

ERRORS = {
    "different barriers, of lines": "if (threadIdx.x < 8) {\n __syncthreads();\n } else {\n __syncthreads();\n }",
    "different barriers": "if (threadIdx.x < 8) __syncthreads_or(1); else __syncthreads();",
    "at a barrier for ever": "if (threadIdx.x > 8) __syncthreads();",
    "ends while others wait at a barrier": "if (threadIdx.x < 8) __syncthreads();",
    "thread that has ended": "if (threadIdx.x > 8) __shfl_sync(~0u, 1, 0);",
    "wait for it at __syncwarp": "if (threadIdx.x < 8) __syncwarp();",
    "for its warp for ever": "if (threadIdx.x < 8) __syncwarp(); else __syncthreads();",
    "different masks": "__ballot_sync(threadIdx.x < 8 ? 0xffffu : ~0u, 1);",
    "not in the mask": "__syncwarp(0xfffeu);",
    "at __any_sync and at __all_sync": "if (threadIdx.x < 8) __any_sync(~0u, 1); else __all_sync(~0u, 1);",
    "__trap": "__syncthreads(); if (threadIdx.x == 8) __trap();",
    "takes 12 words, not 3": "",
    "blocks of this shape": "",
    "grids of no blocks": "",
    "grids of this shape": "",
    "as much shared memory": "",
    "as if they did not": "__syncthreads();",
}
for reason, body in ERRORS.items():
    source(reason, "", body)


@pytest.mark.parametrize("reason", ERRORS)
def test_what_is_wrong_is_said(hosts, reason):
    host, words = hosts[reason], np.zeros(3 if "words" in reason else 64, np.int64)
    block = (1025,) if reason == "blocks of this shape" else (32,)
    grid = {"grids of no blocks": (0,), "grids of this shape": (1, 65536)}.get(reason, (1,))
    host.waits = host.waits and reason != "as if they did not"
    shared = (228 << 10) if "shared" in reason else 0
    with pytest.raises(RuntimeError, match=reason):
        host.run(words, grid, block, shared)
    for order in ORDERS[1:]:  # where threads come in another order, another error may be the first
        with pytest.raises(RuntimeError):
            host.run(words, grid, block, shared, order=order)
    launch(hosts["last"], np.zeros(1, np.int32))


def test_launches_of_several_threads_come_one_after_the_other(hosts):
    x = np.random.default_rng(5).normal(size=(4, 96)).astype(np.float32)
    found = np.zeros((8, 4), np.float32)

    def run(k):
        for _ in range(20):
            launch(hosts["block sum"], x, found[k], grid=(4,), block=(96,), order=k)

    workers = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    np.testing.assert_allclose(found, np.tile(x.sum(axis=1), (8, 1)), rtol=1e-5)


# Functions of single threads

ATOMICS = {
    "Add": np.add, "Sub": np.subtract, "Min": np.minimum, "Max": np.maximum,
    "And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor,
}  # fmt: skip
ATOMIC_TYPES = {
    "int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64,
    "float": np.float32, "double": np.float64,
}  # fmt: skip
for type_ in ATOMIC_TYPES:
    ops = [op for op in ATOMICS if type_ not in ("float", "double") or op in ("Add", "Sub", "Min", "Max")]
    lines = [f"  atomic{op}(b + {k}, a[blockIdx.x * blockDim.x + threadIdx.x]);" for k, op in enumerate(ops)]
    source(f"atomics of {type_}", f"{type_}, {type_}", "\n".join(lines))


@pytest.mark.parametrize("type_", ATOMIC_TYPES)
def test_atomics(hosts, type_):
    random, dtype = np.random.default_rng(6), np.dtype(ATOMIC_TYPES[type_])
    if dtype.kind == "f":
        x = random.integers(-1000, 1000, 96).astype(dtype)  # sums are exact
        ops = [ATOMICS[op] for op in ("Add", "Sub", "Min", "Max")]
    else:
        x = np.frombuffer(random.bytes(96 * dtype.itemsize), dtype)
        ops = list(ATOMICS.values())
    found = np.full(len(ops), 7, dtype)
    launch(hosts[f"atomics of {type_}"], x, found, grid=(3,), order=5)
    for k, op in enumerate(ops):
        expected = dtype.type(7)
        with np.errstate(over="ignore"):
            for value in x:
                expected = op(expected, value)
        assert found[k] == expected, op


source(
    "exchanges",
    "unsigned short, float, unsigned",
    """
  a[1] = atomicCAS(a, (unsigned short)5, (unsigned short)9); a[2] = atomicCAS(a, (unsigned short)5, (unsigned short)1);
  b[1] = atomicExch(b, 2.5f); b[2] = atomicCAS(b, 2.5f, 4.0f);
  for (int k = 0; k < 6; ++k) atomicInc(c, 3);
  for (int k = 0; k < 6; ++k) atomicDec(c + 1, 3);
""",
)
FUNCTIONS = {
    "__popc(x)": lambda x, y: x.bit_count(),
    "__clz(x)": lambda x, y: 32 - x.bit_length(),
    "__ffs(x)": lambda x, y: (x & -x).bit_length(),
    "__brev(x)": lambda x, y: int(f"{x:032b}"[::-1], 2),
    "__umulhi(x, y)": lambda x, y: x * y >> 32,
    "__mulhi(x, y)": lambda x, y: (signed(x) * signed(y) >> 32) % 2**32,
    "__funnelshift_l(x, y, y)": lambda x, y: (y << 32 | x) << (y & 31) >> 32,
    "__funnelshift_r(x, y, y)": lambda x, y: (y << 32 | x) >> (y & 31),
    "__popcll((unsigned long long)x << 32 | y)": lambda x, y: x.bit_count() + y.bit_count(),
    "__clzll((unsigned long long)x << 32 | y)": lambda x, y: 64 - (x << 32 | y).bit_length(),
    "__ffsll((unsigned long long)x << 32 | y)": lambda x, y: ((x << 32 | y) & -(x << 32 | y)).bit_length(),
    "__umul64hi((unsigned long long)x << 32 | y, (unsigned long long)y << 32 | x)": (
        lambda x, y: (x << 32 | y) * (y << 32 | x) >> 64
    ),
    "__float_as_uint(__uint_as_float(x))": lambda x, y: x,
    "__float_as_int(__int_as_float(x))": lambda x, y: x,
    "__double2hiint(__longlong_as_double((unsigned long long)x << 32 | y))": lambda x, y: x,
    "__double2loint(__hiloint2double(x, y))": lambda x, y: y,
    "max((int)x, (int)y)": lambda x, y: max(signed(x), signed(y)),
    "min((int)x, y)": lambda x, y: min(x, y),
}
lines = [f"  b[{k}] = {call};" for k, call in enumerate(FUNCTIONS)]
source("functions", "unsigned, unsigned", "\n".join(["  unsigned x = a[0], y = a[1];", *lines]))
source(
    "numbers",
    "float, float",
    """
  b[0] = max(a[0], 2.0f); b[1] = min(2.0f, a[0]); b[2] = max(a[1], 2.0f); b[3] = __saturatef(a[1]);
  b[4] = __float2int_rz(a[1]); b[5] = __float2int_rn(a[1]); b[6] = __float2uint_rz(a[1]); b[7] = __float2int_rz(a[0]);
  b[8] = rsqrtf(16.0f); b[9] = __fmaf_rn(a[1], 2.0f, 1.0f);
  float4 v = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
  b[10] = v.x + v.y + v.z + v.w + sizeof(float3) + alignof(float4) + sizeof(char4) + alignof(int2);
""",
)


def signed(x):
    return x - (x >> 31 << 32)


def test_exchanges(hosts):
    short, single, counts = np.array([5, 0, 0], np.uint16), np.ones(3, np.float32), np.array([1, 1], np.uint32)
    launch(hosts["exchanges"], short, single, counts, block=(1,))
    assert short.tolist() == [9, 5, 9] and single.tolist() == [4.0, 1.0, 2.5] and counts.tolist() == [3, 3]


def test_functions_of_bits(hosts):
    random = np.random.default_rng(7)
    cases = [(0, 0), (0, 1), (2**32 - 1, 2**31), *(tuple(map(int, random.integers(0, 2**32, 2))) for _ in range(50))]
    for x, y in cases:
        found = np.zeros(len(FUNCTIONS), np.uint32)
        launch(hosts["functions"], np.array([x, y], np.uint32), found, block=(1,))
        for (call, function), value in zip(FUNCTIONS.items(), found, strict=True):
            assert value == function(x, y) % 2**32, f"{call} of {x:#x}, {y:#x}"


def test_functions_of_numbers(hosts):
    found = np.zeros(11, np.float32)
    launch(hosts["numbers"], np.array([np.nan, -3.5], np.float32), found, block=(1,))
    assert found.tolist() == [2, 2, 2, 0, -3, -4, 0, 0, 0.25, -6, 10 + 12 + 16 + 4 + 8]


# Arguments


def test_words_are_those_of_the_device_header() -> None:
    """The words that a CUDA kernel reads, by the compiler that the tests have."""
    members = ("total", "items", "threads", "failure", "batch", "symbols", "arrays", "strides")
    lines = [f"  ((long long*)args.arrays[0])[{k}] = (char*)&args.{m} - (char*)&args;" for k, m in enumerate(members)]
    head = 'extern "C" __global__ void __launch_bounds__(32)\nk(const __grid_constant__ jw_args<3, 2> args) {'
    (host,) = compile_host(["\n".join([head, *lines, "}"])])
    found = np.zeros(len(members), np.int64)
    pointer = WORDS["symbols"] + 3
    words = np.zeros(pointer + 2 * (1 + BATCH_AXES) + 1, np.int64)
    words[pointer] = found.ctypes.data
    host.run(words, (1,), (1,))
    assert [8 * at for at in (*WORDS.values(), pointer, pointer + 2)] == found.tolist()
