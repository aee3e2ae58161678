// Copies of the arrays that a launch adds to, so that threads need not share them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cpu/layout.h"
#include "cpu/share.h"

namespace jwarp::cpu {

// Chunk 0 adds into the results themselves, every other chunk into copies that start as the neutral element.
class Copies {
 public:
  // Throws std::bad_alloc when there is not enough memory.
  Copies(const CpuLayout& layout, void* const* base, Pool& pool);

  // Makes the copies of a chunk ready, before its first thread runs.
  void clear(int64_t chunk) const;
  // Points the entries of `base` at the copies of a chunk.
  void point(int64_t chunk, void** base) const;
  // Adds the copies to the results, element by element in the order of the chunks.
  void merge(Pool& pool) const;

 private:
  struct Array {
    int64_t parameter;
    int64_t dtype;
    int64_t bytes;
    int64_t offset;
    char* result;
  };
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  char* copy(int64_t chunk, const Array& array) const {
    return memory_.get() + (chunk - 1) * chunk_bytes_ + array.offset;
  }

  int64_t chunks_;
  int64_t chunk_bytes_ = 0;
  std::vector<Array> arrays_;
  std::unique_ptr<char, Free> memory_;
};

// into[i] += from[i], for arrays of so many bytes that do not overlap.
void add_elements(int64_t dtype, void* into, const void* from, int64_t bytes, Pool& pool);

// The same for so few bytes that one thread does it at once; null for more of them. It wants DefaultFloatState.
using AddFew = void (*)(void* into, const void* from, int64_t bytes);
AddFew adder_of_few(int64_t dtype, int64_t bytes);

}  // namespace jwarp::cpu
