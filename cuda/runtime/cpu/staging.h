// Arrays of any strides, in the form that kernels take: contiguous and aligned.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cpu/share.h"

namespace jwarp::cpu {

// An array that lies somewhere, and a contiguous copy of it where it is not contiguous or not aligned.
class StagedArray {
 public:
  // Strides are in bytes, of any sign. Throws std::bad_alloc when there is no memory for a copy.
  StagedArray(void* data, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t item_bytes);

  // The memory that a kernel works on.
  void* memory() const { return copy_ ? copy_.get() : data_; }
  const void* data() const { return data_; }
  bool has_copy() const { return copy_ != nullptr; }
  int64_t bytes() const { return bytes_; }
  const std::vector<int64_t>& shape() const { return shape_; }

  // Bring the content of the array into the copy and back; nothing where there is no copy.
  void fetch(Pool& pool) const;
  void put_back(Pool& pool) const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  bool is_usable() const;
  void move_all(Pool& pool, bool into_copy) const;

  void* data_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  int64_t item_bytes_;
  int64_t bytes_;
  std::unique_ptr<void, Free> copy_;
};

}  // namespace jwarp::cpu
