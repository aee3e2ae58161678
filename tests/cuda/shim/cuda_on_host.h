// CUDA's threads on a processor, for tests: one block at a time, each of its threads a fiber.
//
// What waits for other threads (barriers, warp operations) switches to the next thread that can go on. The order of
// threads and blocks is given, so that code which depends on it can be found out. Threads that can never go on, a
// barrier that only some threads come to, and lanes that a warp operation waits for in vain are errors.
#pragma once
#define JW_HOST_SHIM 1

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "fibers.h"
#include "vector_types.h"

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
// One block runs at a time, on one thread of the processor, whose variables can be found all together.
#define __shared__ static thread_local

namespace cuda_host {

constexpr unsigned kWarp = 32;
// What a GPU of today has at most, and some bytes behind that no thread may touch.
constexpr size_t kSharedMemory = 227 << 10, kGuard = 256;

enum class State { kReady, kBarrier, kWarpOperation, kDone };

// A copy that a thread has begun, and the group of its copies that it is in.
struct Copy {
  char* to;
  const char* from;
  size_t bytes;
  int group;
};

struct Thread {
  Place place;
  uint3 index;
  State state;
  unsigned number;
  std::vector<Copy> copies;
  int groups = 0;
};

// What lanes wait for, each until all lanes of its mask have come.
struct Warp {
  unsigned waiting = 0;
  unsigned ended = 0;
  unsigned masks[kWarp] = {};
  const char* operations[kWarp] = {};
  uint64_t posted[kWarp] = {};
  uint64_t taken[kWarp][kWarp] = {};  // by each lane, from each lane
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Place scheduler;
  Thread* current = nullptr;
  unsigned waiting = 0;
  int barrier = 0;  // the line of the barrier that threads wait at
  const char* barrier_kind = nullptr;
  int votes = 0;  // how many threads have said yes at it
  int result = 0;  // how many said yes at the last one
  void (*body)(void*) = nullptr;
  void* context = nullptr;
  std::string error;
};

inline Block* block = nullptr;  // none where threads are plain calls
inline bool surprised = false;  // plain calls wanted to wait
inline Stacks stacks;
inline std::mutex one_launch;
inline uint3 thread_index, block_index;
inline dim3 block_extent, grid_extent;
alignas(1024) inline char dynamic_shared[kSharedMemory + kGuard];
inline thread_local char shared_anchor;

// Not a number, whatever type of float it is read as; a large number, whatever integer.
inline void poison(char* begin, size_t bytes) {
  for (size_t k = 0; k < bytes; ++k) begin[k] = k % 2 == 0 ? char(0xf7) : char(0x7f);
}
inline uint64_t poisoned_word() { return 0x7ff77ff77ff77ff7ull; }

inline std::string text_of(uint3 place) {
  const std::string x = std::to_string(place.x);
  if (place.y == 0 && place.z == 0) return x;
  return "(" + x + ", " + std::to_string(place.y) + ", " + std::to_string(place.z) + ")";
}

// Lets other threads run until this one can go on.
inline void yield_as(State state) {
  Thread* self = block->current;
  self->state = state;
  self->place.leave_for(block->scheduler);
}

inline void note(const std::string& text) {
  if (!block->error.empty()) return;
  block->error = text + ", block " + text_of(block_index) + ", thread " + text_of(block->current->index);
}

// Notes what is wrong, and ends the launch.
inline void fail(const std::string& text) {
  note(text);
  yield_as(State::kDone);
}

inline void wake(State state, unsigned begin, unsigned end) {
  for (unsigned t = begin; t < end && t < block->threads.size(); ++t) {
    if (block->threads[t].state == state) block->threads[t].state = State::kReady;
  }
}

// All threads of the block come to one barrier; how many said yes.
inline int barrier(const char* kind, int line, bool yes = false) {
  if (block == nullptr) {
    surprised = true;
    return 0;
  }
  if (block->waiting == 0) {
    block->barrier = line;
    block->barrier_kind = kind;
  }
  if (block->barrier != line || std::strcmp(block->barrier_kind, kind) != 0) {
    fail("threads wait at different barriers, of lines " + std::to_string(block->barrier) + " and " +
         std::to_string(line));
  }
  block->votes += yes;
  if (++block->waiting == block->threads.size()) {
    block->waiting = 0;
    block->result = block->votes;
    block->votes = 0;
    wake(State::kBarrier, 0, block->threads.size());
  } else {
    yield_as(State::kBarrier);
  }
  return block->result;
}

inline unsigned lane() { return block == nullptr ? 0 : block->current->number % kWarp; }

// The lanes of a warp that the block has.
inline unsigned present(unsigned warp) {
  const size_t count = block->threads.size() - warp * kWarp;
  return count >= kWarp ? ~0u : (1u << count) - 1;
}

// An operation of lanes with one mask must be the same one in all of them.
inline void check_lanes(const Warp& warp, unsigned mask, const char* operation) {
  const unsigned bit = 1u << lane();
  if ((mask & bit) == 0) fail("a thread is not in the mask of its warp operation");
  if ((warp.ended & mask) != 0) fail(std::string(operation) + " waits for a thread that has ended");
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((warp.waiting >> l & 1) == 0 || ((mask >> l & 1) == 0 && (warp.masks[l] & bit) == 0)) continue;
    if (warp.masks[l] != mask) fail("lanes of a warp operation have different masks");
    if (std::strcmp(warp.operations[l], operation) != 0) {
      fail(std::string("lanes of a warp are at ") + warp.operations[l] + " and at " + operation);
    }
  }
}

// Posts a value and waits for the lanes of `mask`; what they posted, by lane. Lanes that a block lacks are waited for
// by nobody. Disjoint masks do not meet.
inline const uint64_t* exchange(const char* operation, unsigned mask, uint64_t value) {
  static const uint64_t nothing[kWarp] = {};
  if (block == nullptr) {
    surprised = true;
    return nothing;
  }
  const unsigned number = block->current->number / kWarp, own = lane();
  Warp& warp = block->warps[number];
  mask &= present(number);
  check_lanes(warp, mask, operation);
  warp.posted[own] = value;
  warp.masks[own] = mask;
  warp.operations[own] = operation;
  warp.waiting |= 1u << own;
  if ((warp.waiting & mask) != mask) {
    yield_as(State::kWarpOperation);
    return warp.taken[own];
  }
  warp.waiting &= ~mask;
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1) == 0) continue;
    for (unsigned from = 0; from < kWarp; ++from) {
      warp.taken[l][from] = (mask >> from & 1) != 0 ? warp.posted[from] : poisoned_word();
    }
    if (l != own) block->threads[number * kWarp + l].state = State::kReady;
  }
  return warp.taken[own];
}

inline void run_thread() {
  block->body(block->context);
  if (block->waiting > 0) fail("a thread ends while others wait at a barrier");
  const unsigned number = block->current->number / kWarp, bit = 1u << lane();
  Warp& warp = block->warps[number];
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((warp.waiting >> l & 1) != 0 && (warp.masks[l] & bit) != 0) {
      fail(std::string("a thread ends while others of its warp wait for it at ") + warp.operations[l]);
    }
  }
  warp.ended |= bit;
  yield_as(State::kDone);
}

// Orders of things: as numbered, the other way round, or shuffled anew each time it is asked for.
class Order {
 public:
  // `seed`: 0 forward, -1 backward, else shuffled by this seed.
  Order(size_t count, int seed) : numbers_(count), seed_(seed), random_(unsigned(seed)) {
    for (size_t k = 0; k < count; ++k) numbers_[k] = unsigned(k);
    if (seed < 0) std::reverse(numbers_.begin(), numbers_.end());
  }
  const std::vector<unsigned>& next() {
    if (seed_ > 0) std::shuffle(numbers_.begin(), numbers_.end(), random_);
    return numbers_;
  }

 private:
  std::vector<unsigned> numbers_;
  int seed_;
  std::mt19937 random_;
};

inline void run_block(Block& made, Order& order) {
  block = &made;
  made.waiting = 0;
  made.votes = 0;
  for (Warp& warp : made.warps) warp.waiting = warp.ended = 0;
  for (Thread& thread : made.threads) {
    thread.state = State::kReady;
    thread.copies.clear();
    thread.groups = 0;
    thread.place.begin(run_thread, stacks.top(thread.number));
  }
  for (bool moves = true; moves && made.error.empty();) {
    moves = false;
    for (unsigned number : order.next()) {
      Thread& thread = made.threads[number];
      if (thread.state != State::kReady) continue;
      moves = true;
      made.current = &thread;
      thread_index = thread.index;
      made.scheduler.leave_for(thread.place);
      if (!made.error.empty()) break;
    }
  }
  for (Thread& thread : made.threads) {
    if (thread.state == State::kDone) continue;
    made.current = &thread;
    note(thread.state == State::kBarrier ? "a thread waits at a barrier for ever"
                                         : "a thread waits for its warp for ever");
  }
  block = nullptr;
}

// The `__shared__` variables of this library: all its variables that each thread of the processor has for itself.
struct Variables {
  char* begin = nullptr;
  size_t bytes = 0;
};
inline Variables shared_variables() {
  Variables found;
  shared_anchor = 0;  // they exist from the first use of one on
  const auto visit = [](dl_phdr_info* info, size_t, void* result) {
    const char* const anchor = &shared_anchor;
    for (int k = 0; k < info->dlpi_phnum; ++k) {
      char* const begin = static_cast<char*>(info->dlpi_tls_data);
      const size_t bytes = info->dlpi_phdr[k].p_memsz;
      if (info->dlpi_phdr[k].p_type != PT_TLS || begin == nullptr) continue;
      if (anchor >= begin && anchor < begin + bytes) *static_cast<Variables*>(result) = {begin, bytes};
    }
    return 0;
  };
  dl_iterate_phdr(visit, &found);
  if (found.begin == nullptr) std::abort();
  return found;
}

inline std::string refused(dim3 grid, dim3 extent, size_t shared) {
  const uint64_t threads = uint64_t(extent.x) * extent.y * extent.z;
  if (threads == 0 || threads > 1024 || extent.z > 64) return "no GPU runs blocks of this shape";
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return "no GPU runs grids of no blocks";
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return "no GPU runs grids of this shape";
  if (shared > kSharedMemory) return "no GPU has as much shared memory";
  return "";
}

// Runs a kernel; an empty text, or what is wrong with it. Without `waits` its threads are plain calls.
inline std::string launch(dim3 grid, dim3 extent, size_t shared, int seed, bool waits, void (*body)(void*),
                          void* context) {
  const std::lock_guard<std::mutex> lock(one_launch);
  const std::string refusal = refused(grid, extent, shared);
  if (!refusal.empty()) return refusal;
  grid_extent = grid;
  block_extent = extent;
  const size_t count = size_t(extent.x) * extent.y * extent.z;
  const Variables variables = shared_variables();
  Block made;
  made.body = body;
  made.context = context;
  made.threads.resize(count);
  made.warps.resize((count + kWarp - 1) / kWarp);
  Order threads(count, seed), blocks(size_t(grid.x) * grid.y * grid.z, seed);
  const struct Release {
    ~Release() { stacks.release(); }
  } at_the_end;
  if (waits) stacks.reserve(count);
  surprised = false;
  for (unsigned t = 0; t < count; ++t) {
    made.threads[t].number = t;
    made.threads[t].index = {t % extent.x, t / extent.x % extent.y, t / extent.x / extent.y};
  }
  char guard[kGuard];
  poison(guard, kGuard);
  for (unsigned number : blocks.next()) {
    block_index = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    if (waits) {
      poison(dynamic_shared, shared);
      std::memcpy(dynamic_shared + shared, guard, kGuard);
      poison(variables.begin, variables.bytes);
      run_block(made, threads);
      if (!made.error.empty()) return made.error;
      if (std::memcmp(dynamic_shared + shared, guard, kGuard) != 0) {
        return "a thread writes behind the dynamic shared memory, block " + text_of(block_index);
      }
      continue;
    }
    for (unsigned t : threads.next()) {
      thread_index = made.threads[t].index;
      body(context);
    }
  }
  return surprised ? "threads wait for others, and were run as if they did not" : "";
}

// How many words a kernel takes as its argument.
template <class A> constexpr int words_of(void (*)(A)) { return int((sizeof(A) + 7) / 8); }

// Runs a kernel whose argument is given as words, of which there must be enough.
template <class A>
int run(void (*kernel)(A), const int64_t* words, size_t count, const unsigned* sizes, size_t shared, int seed,
        bool waits, char* message, size_t room) {
  struct Call {
    void (*kernel)(A);
    A args;
  };
  if (count < size_t(words_of(kernel))) {
    std::snprintf(message, room, "the kernel takes %d words, not %zu", words_of(kernel), count);
    return 1;
  }
  Call call;
  call.kernel = kernel;
  std::memcpy(static_cast<void*>(&call.args), words, sizeof(A));
  const dim3 grid(sizes[0], sizes[1], sizes[2]), extent(sizes[3], sizes[4], sizes[5]);
  auto body = [](void* context) {
    const Call& made = *static_cast<Call*>(context);
    made.kernel(made.args);
  };
  const std::string error = launch(grid, extent, shared, seed, waits, body, &call);
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

#define __syncthreads() ((void)cuda_host::barrier("__syncthreads", __LINE__))
#define __syncthreads_count(yes) cuda_host::barrier("__syncthreads_count", __LINE__, (yes) != 0)
#define __syncthreads_or(yes) int(cuda_host::barrier("__syncthreads_or", __LINE__, (yes) != 0) > 0)
#define __syncthreads_and(yes) int(cuda_host::barrier("__syncthreads_and", __LINE__, (yes) == 0) == 0)

#include "functions.h"
#include "mma.h"
#include "warps.h"
