// A launch laid out for CUDA: the words that its kernel is given, but for the pointers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.h"

namespace jwarp::gpu {

// The one parameter of every kernel: jw_args of cuda/device/jwarp.cuh, as words of 8 bytes.
enum Word : size_t { kTotal = 0, kItems = 1, kThreads = 2, kFailure = 3, kBatch = 4, kSymbols = 8 };
constexpr size_t kBatchAxes = 4;
// A kernel notes a failed check as the number of its thread, then so many bits for the site, counted from 1.
constexpr int kSiteBits = 12;
constexpr size_t kOwnAxes = 2;  // of a grid that the user chose

// How many words a kernel of that plan is given.
size_t count_words(const Plan& plan);

class GpuLayout : public Layout {
 public:
  // `block` threads a block in the grid that all threads need. `grid` is empty; or how many threads of the launch each
  // block runs, if it runs them together; or the two axes of a grid of the user's own.
  GpuLayout(const Plan& plan, const Launch& launch, const Buffers& buffers, int64_t block,
            const std::vector<int64_t>& grid);

  std::vector<int64_t> words;  // with null pointers
  size_t first_pointer;        // its word; one for each parameter
  unsigned grid[3];

  // Batch axes that the words have no place for: the kernel is launched for each of their elements.
  struct Axis {
    int64_t extent;
    std::vector<int64_t> strides;  // bytes, by parameter
  };
  std::vector<Axis> outer;  // outermost first
  int64_t launches = 1;
  // Moves the pointers from launch `number` to the next one.
  void advance(int64_t number, int64_t* pointers) const;

 private:
  std::vector<Axis> merged_axes() const;
  void write_words(const Plan& plan, const Launch& launch, const std::vector<Axis>& axes);
  void choose_grid(int64_t block, const std::vector<int64_t>& own);
};

}  // namespace jwarp::gpu
