// NumPy arrays as numbers and as the buffers of a launch.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "core/layout.h"
#include "xla/ffi/api/c_api.h"

namespace jwarp {

// The numbers in an int64 array, or in bytes that hold them.
std::vector<int64_t> read_numbers(const pybind11::buffer& source, const char* what);

// The code of a NumPy dtype. Throws a Python exception for one that kernels do not know.
XLA_FFI_DataType dtype_code(const pybind11::dtype& dtype);

// NumPy arrays in the form in which XLA hands over its buffers. Valid as long as the arrays are.
class ArrayBuffers {
 public:
  // The last `result_count` arrays are results. Throws a Python exception for one that cannot be used.
  ArrayBuffers(const pybind11::sequence& arrays, int64_t result_count);

  Buffers view() const {
    return {pointers_.data(), operand_count_, pointers_.data() + operand_count_,
            static_cast<int64_t>(pointers_.size()) - operand_count_};
  }

 private:
  void add(int64_t i, const pybind11::handle& item);

  std::vector<XLA_FFI_Buffer> buffers_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<void*> pointers_;
  int64_t operand_count_;
};

}  // namespace jwarp
