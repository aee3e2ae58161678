// CUDA's threads on a processor, for tests: one block at a time, each of its threads a context of its own.
//
// What waits for other threads (barriers, warp operations) switches to the next thread that can go on. The order of
// threads and blocks is given, so that code which depends on it can be found out. Threads that can never go on, a
// barrier that only some threads come to, and lanes that a warp operation waits for in vain are errors.
#pragma once
#define JW_HOST_SHIM 1

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
// One block runs at a time, so its shared memory may be the program's.
#define __shared__ static

namespace cuda_host {

constexpr size_t kStack = 128 << 10;
constexpr unsigned kWarp = 32;

enum class State { kReady, kBarrier, kWarpOperation, kDone };

struct Thread {
  ucontext_t context;
  uint3 index;
  State state;
  unsigned number;
};

// One exchange of values between lanes: it ends when all lanes of its mask have come.
struct Warp {
  unsigned mask = 0;
  unsigned arrived = 0;
  unsigned generation = 0;
  uint64_t posted[kWarp] = {};
  uint64_t taken[2][kWarp] = {};  // of the exchange that ended last, and of the one before
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned> order;
  std::unique_ptr<char[]> stacks;
  ucontext_t scheduler;
  Thread* current = nullptr;
  unsigned waiting = 0;
  int barrier = 0;  // the line of the barrier that threads wait at
  int votes[3] = {};  // how many threads said yes at it, and the result of the last one
  void (*body)(void*) = nullptr;
  void* context = nullptr;
  std::string error;
};

inline Block* block = nullptr;
inline uint3 thread_index, block_index;
inline dim3 block_extent, grid_extent;
inline char* dynamic_shared = nullptr;

inline void fail(const std::string& text) {
  if (block->error.empty()) {
    block->error = text + ", block " + std::to_string(block_index.x) + ", thread " +
                   std::to_string(block->current->index.x);
  }
}

// Lets other threads run until this one can go on.
inline void yield_as(State state) {
  Thread* self = block->current;
  self->state = state;
  swapcontext(&self->context, &block->scheduler);
}

inline void wake(State state, unsigned begin, unsigned end) {
  for (unsigned t = begin; t < end && t < block->threads.size(); ++t) {
    if (block->threads[t].state == state) block->threads[t].state = State::kReady;
  }
}

// All threads of the block come to one barrier; how many said yes.
inline int barrier(int line, bool yes = false) {
  if (block == nullptr) return 0;
  if (block->waiting == 0) block->barrier = line;
  if (block->barrier != line) fail("threads wait at different barriers");
  block->votes[0] += yes;
  if (++block->waiting == block->threads.size()) {
    block->waiting = 0;
    block->votes[1] = block->votes[0];
    block->votes[0] = 0;
    wake(State::kBarrier, 0, block->threads.size());
  } else {
    yield_as(State::kBarrier);
  }
  return block->votes[1];
}

inline unsigned lane() { return block->current->number % kWarp; }

// Posts a value and waits for the lanes of `mask`; what they posted, by lane.
inline const uint64_t* exchange(unsigned mask, uint64_t value) {
  Warp& warp = block->warps[block->current->number / kWarp];
  const unsigned bit = 1u << lane();
  if ((mask & bit) == 0) fail("a thread is not in the mask of its warp operation");
  if (warp.arrived == 0) warp.mask = mask;
  if (warp.mask != mask) fail("lanes of a warp operation have different masks");
  warp.posted[lane()] = value;
  warp.arrived |= bit;
  const unsigned generation = warp.generation;
  if (warp.arrived == mask) {
    std::copy(warp.posted, warp.posted + kWarp, warp.taken[generation % 2]);
    warp.arrived = 0;
    ++warp.generation;
    const unsigned first = block->current->number / kWarp * kWarp;
    wake(State::kWarpOperation, first, first + kWarp);
  } else {
    yield_as(State::kWarpOperation);
  }
  return warp.taken[generation % 2];
}

template <class T> uint64_t to_word(T value) {
  static_assert(sizeof(T) <= 8, "warp operations move at most 64 bits");
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T> T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

template <class T> T shuffle(unsigned mask, T value, unsigned source) {
  const uint64_t* all = exchange(mask, to_word(value));
  return from_word<T>(all[source % kWarp]);
}

// The lane that a shuffle within groups of `width` reads; its own where that is outside.
inline unsigned up(unsigned distance, unsigned width) {
  return lane() % width >= distance ? lane() - distance : lane();
}
inline unsigned down(unsigned distance, unsigned width) {
  return lane() % width + distance < width ? lane() + distance : lane();
}
inline unsigned across(unsigned bits, unsigned width) {
  const unsigned source = lane() ^ bits;
  return source / width <= lane() / width ? source : lane();
}
inline unsigned within(unsigned source, unsigned width) { return lane() / width * width + source % width; }

inline unsigned ballot(unsigned mask, bool yes) {
  const uint64_t* all = exchange(mask, yes);
  unsigned found = 0;
  for (unsigned l = 0; l < kWarp; ++l) found |= (mask >> l & 1 & unsigned(all[l])) << l;
  return found;
}

template <class T, class F> T reduce(unsigned mask, T value, F combine) {
  const uint64_t* all = exchange(mask, to_word(value));
  T total{};
  bool any = false;
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1) == 0) continue;
    total = any ? combine(total, from_word<T>(all[l])) : from_word<T>(all[l]);
    any = true;
  }
  return total;
}

inline void run_thread() {
  block->body(block->context);
  block->current->state = State::kDone;
  if (block->waiting > 0) fail("a thread ends while others wait at a barrier");
  swapcontext(&block->current->context, &block->scheduler);
}

inline void run_block(Block& made) {
  block = &made;
  made.waiting = 0;
  for (Warp& warp : made.warps) warp = Warp();
  for (Thread& thread : made.threads) {
    thread.state = State::kReady;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = made.stacks.get() + kStack * thread.number;
    thread.context.uc_stack.ss_size = kStack;
    makecontext(&thread.context, run_thread, 0);
  }
  for (bool moves = true; moves && made.error.empty();) {
    moves = false;
    for (unsigned number : made.order) {
      Thread& thread = made.threads[number];
      if (thread.state != State::kReady) continue;
      moves = true;
      made.current = &thread;
      thread_index = thread.index;
      swapcontext(&made.scheduler, &thread.context);
    }
  }
  for (const Thread& thread : made.threads) {
    if (!made.error.empty() || thread.state == State::kDone) continue;
    made.current = const_cast<Thread*>(&thread);
    fail(thread.state == State::kBarrier ? "a thread waits at a barrier for ever" : "a thread waits for its warp for ever");
  }
  block = nullptr;
}

// An order of `count` things: 0 forward, -1 backward, else shuffled by this seed.
inline std::vector<unsigned> order_of(size_t count, int seed) {
  std::vector<unsigned> order(count);
  for (size_t k = 0; k < count; ++k) order[k] = unsigned(k);
  if (seed < 0) std::reverse(order.begin(), order.end());
  if (seed > 0) std::shuffle(order.begin(), order.end(), std::mt19937(unsigned(seed)));
  return order;
}

// Runs a kernel; an empty text, or what is wrong with it. Without `waits` its threads are plain calls.
inline std::string launch(dim3 grid, dim3 extent, size_t shared, int seed, bool waits, void (*body)(void*), void* context) {
  grid_extent = grid;
  block_extent = extent;
  const size_t count = size_t(extent.x) * extent.y * extent.z;
  std::unique_ptr<char[]> memory(new char[shared + 16]);
  dynamic_shared = memory.get() + 15 - (reinterpret_cast<uintptr_t>(memory.get()) + 15) % 16;
  Block made;
  made.body = body;
  made.context = context;
  made.threads.resize(count);
  made.warps.resize((count + kWarp - 1) / kWarp);
  made.order = order_of(count, seed);
  if (waits) made.stacks.reset(new char[kStack * count]);
  for (unsigned t = 0; t < count; ++t) {
    made.threads[t].number = t;
    made.threads[t].index = {t % extent.x, t / extent.x % extent.y, t / extent.x / extent.y};
  }
  for (unsigned number : order_of(size_t(grid.x) * grid.y * grid.z, seed)) {
    block_index = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    std::memset(dynamic_shared, 0xAB, shared);
    if (waits) {
      run_block(made);
      if (!made.error.empty()) return made.error;
      continue;
    }
    for (unsigned t : made.order) {
      thread_index = made.threads[t].index;
      body(context);
    }
  }
  return "";
}

template <class A>
int run(void (*kernel)(A), const int64_t* words, const unsigned* sizes, size_t shared, int seed, bool waits,
        char* message, size_t room) {
  struct Call {
    void (*kernel)(A);
    A args;
  };
  auto call = std::make_unique<Call>();
  call->kernel = kernel;
  std::memcpy(&call->args, words, sizeof(A));
  const dim3 grid(sizes[0], sizes[1], sizes[2]), extent(sizes[3], sizes[4], sizes[5]);
  auto body = [](void* context) {
    const Call& made = *static_cast<Call*>(context);
    made.kernel(made.args);
  };
  const std::string error = launch(grid, extent, shared, seed, waits, body, call.get());
  std::snprintf(message, room, "%s", error.c_str());
  std::fflush(stdout);
  return error.empty() ? 0 : 1;
}

}  // namespace cuda_host

#define threadIdx cuda_host::thread_index
#define blockIdx cuda_host::block_index
#define blockDim cuda_host::block_extent
#define gridDim cuda_host::grid_extent
#define warpSize 32

#define __syncthreads() cuda_host::barrier(__LINE__)
#define __syncthreads_count(yes) cuda_host::barrier(__LINE__, yes)
#define __syncthreads_or(yes) (cuda_host::barrier(__LINE__, yes) > 0)
#define __syncthreads_and(yes) (cuda_host::barrier(__LINE__, yes) == int(cuda_host::block->threads.size()))

// ---- warps

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return cuda_host::shuffle(mask, value, cuda_host::within(source, width));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return cuda_host::shuffle(mask, value, cuda_host::up(distance, width));
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return cuda_host::shuffle(mask, value, cuda_host::down(distance, width));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  return cuda_host::shuffle(mask, value, cuda_host::across(bits, width));
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_host::exchange(mask, 0); }
inline unsigned __ballot_sync(unsigned mask, int yes) { return cuda_host::ballot(mask, yes != 0); }
inline int __any_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) != 0; }
inline int __all_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) == mask; }
template <class T> unsigned __match_any_sync(unsigned mask, T value) {
  const uint64_t mine = cuda_host::to_word(value);
  const uint64_t* all = cuda_host::exchange(mask, mine);
  unsigned found = 0;
  for (unsigned l = 0; l < 32; ++l) found |= unsigned((mask >> l & 1) != 0 && all[l] == mine) << l;
  return found;
}
// Each thread runs alone until it waits, so no other is active with it.
inline unsigned __activemask() { return 1u << cuda_host::lane(); }
template <class T> T __reduce_add_sync(unsigned mask, T value) {
  return cuda_host::reduce(mask, value, [](T x, T y) { return x + y; });
}
template <class T> T __reduce_min_sync(unsigned mask, T value) {
  return cuda_host::reduce(mask, value, [](T x, T y) { return std::min(x, y); });
}
template <class T> T __reduce_max_sync(unsigned mask, T value) {
  return cuda_host::reduce(mask, value, [](T x, T y) { return std::max(x, y); });
}

// ---- atomics: only one thread runs at a time

template <class T> T cuda_host_change(T* place, T value) {
  const T old = *place;
  *place = value;
  return old;
}
template <class T> T cuda_host_add(T x, T y) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(x) + uint64_t(y));
  return x + y;
}
template <class T, class U> T atomicAdd(T* place, U value) { return cuda_host_change(place, cuda_host_add(*place, T(value))); }
template <class T, class U> T atomicSub(T* place, U value) { return cuda_host_change(place, cuda_host_add(*place, T(-T(value)))); }
template <class T, class U> T atomicMin(T* place, U value) { return cuda_host_change(place, std::min(*place, T(value))); }
template <class T, class U> T atomicMax(T* place, U value) { return cuda_host_change(place, std::max(*place, T(value))); }
template <class T, class U> T atomicAnd(T* place, U value) { return cuda_host_change(place, T(*place & T(value))); }
template <class T, class U> T atomicOr(T* place, U value) { return cuda_host_change(place, T(*place | T(value))); }
template <class T, class U> T atomicXor(T* place, U value) { return cuda_host_change(place, T(*place ^ T(value))); }
template <class T, class U> T atomicExch(T* place, U value) { return cuda_host_change(place, T(value)); }
template <class T, class U> T atomicCAS(T* place, T expected, U value) {
  return cuda_host_change(place, *place == expected ? T(value) : *place);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// ---- single threads

template <class T> T __ldg(const T* place) { return *place; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __float_as_int(float x) { return int(cuda_host::to_word(x)); }
inline unsigned __float_as_uint(float x) { return unsigned(cuda_host::to_word(x)); }
inline float __int_as_float(int x) { return cuda_host::from_word<float>(unsigned(x)); }
inline float __uint_as_float(unsigned x) { return cuda_host::from_word<float>(x); }
inline long long __double_as_longlong(double x) { return (long long)cuda_host::to_word(x); }
inline double __longlong_as_double(long long x) { return cuda_host::from_word<double>(uint64_t(x)); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }

// Newton's method on the error function, in more digits than the result has: in the middle, and in the tails.
inline double cuda_host_erfinv(double y) {
  if (y == 0.0) return y;
  long double x = y * 0.88622692545275801365L;
  for (int k = 0; k < 8; ++k) x -= (erfl(x) - y) / (1.12837916709551257390L * expl(-x * x));
  return double(x);
}
inline double cuda_host_erfcinv(long double z) {
  const long double t = sqrtl(-2.0L * logl(z / 2.0L));
  long double x = (t - (2.515517L + t * (0.802853L + t * 0.010328L)) /
                           (1.0L + t * (1.432788L + t * (0.189269L + t * 0.001308L)))) * 0.70710678118654752440L;
  for (int k = 0; k < 8; ++k) x += (erfcl(x) - z) / (1.12837916709551257390L * expl(-x * x));
  return double(x);
}
inline double erfcinv(double y) {
  if (!(y >= 0.0 && y <= 2.0)) return NAN;
  if (y == 0.0 || y == 2.0) return y == 0.0 ? INFINITY : -INFINITY;
  if (y > 0.5 && y < 1.5) return cuda_host_erfinv(1.0 - y) + 0.0;
  return y < 1.0 ? cuda_host_erfcinv(y) : -cuda_host_erfcinv(2.0L - y);
}
inline double erfinv(double y) {
  if (!(y >= -1.0 && y <= 1.0)) return NAN;
  if (fabs(y) == 1.0) return y > 0.0 ? INFINITY : -INFINITY;
  if (fabs(y) < 0.5) return cuda_host_erfinv(y);
  return y > 0.0 ? cuda_host_erfcinv(1.0L - y) : -cuda_host_erfcinv(1.0L + y);
}
inline float erfinvf(float y) { return float(erfinv(double(y))); }
inline float erfcinvf(float y) { return float(erfcinv(double(y))); }
using std::max;
using std::min;
