// Checking NumPy arrays and finding their types.
#include "python/arrays.h"

#include <cstring>
#include <string>

namespace py = pybind11;

namespace jwarp {

XLA_FFI_DataType dtype_code(const py::dtype& dtype) {
  const char order = dtype.byteorder();
  if (order == '=' || order == '|') {
    const py::ssize_t size = dtype.itemsize();
    switch (dtype.kind()) {
      case 'b':
        return XLA_FFI_DataType_PRED;
      case 'i':
        return size == 1   ? XLA_FFI_DataType_S8
               : size == 2 ? XLA_FFI_DataType_S16
               : size == 4 ? XLA_FFI_DataType_S32
                           : XLA_FFI_DataType_S64;
      case 'u':
        return size == 1   ? XLA_FFI_DataType_U8
               : size == 2 ? XLA_FFI_DataType_U16
               : size == 4 ? XLA_FFI_DataType_U32
                           : XLA_FFI_DataType_U64;
      case 'f':
        if (size == 2) return XLA_FFI_DataType_F16;
        if (size == 4) return XLA_FFI_DataType_F32;
        if (size == 8) return XLA_FFI_DataType_F64;
        break;
      default:
        break;
    }
    if (py::str(dtype.attr("name")).cast<std::string>() == "bfloat16") return XLA_FFI_DataType_BF16;
  }
  throw py::value_error("jwarp: kernels have no dtype " + py::str(dtype).cast<std::string>());
}

std::vector<int64_t> read_numbers(const py::buffer& source, const char* what) {
  const py::buffer_info info = source.request();
  const bool is_bytes = info.itemsize == 1;
  const bool is_int64 = info.itemsize == sizeof(int64_t) && (info.format == "l" || info.format == "q");
  if (info.ndim != 1 || info.strides[0] != info.itemsize || !(is_bytes || is_int64) ||
      (info.size * info.itemsize) % sizeof(int64_t) != 0) {
    throw py::value_error(std::string("jwarp: ") + what +
                          " must be a contiguous one-dimensional int64 array or the bytes of one");
  }
  std::vector<int64_t> numbers(info.size * info.itemsize / sizeof(int64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), info.ptr, numbers.size() * sizeof(int64_t));
  return numbers;
}

ArrayBuffers::ArrayBuffers(const py::sequence& arrays, int64_t result_count)
    : buffers_(arrays.size()), shapes_(arrays.size()) {
  const int64_t count = static_cast<int64_t>(arrays.size());
  operand_count_ = count - result_count;
  if (operand_count_ < 0) throw py::value_error("jwarp: fewer arrays than the launch has results");
  for (int64_t i = 0; i < count; ++i) add(i, py::object(arrays[i]));
}

void ArrayBuffers::add(int64_t i, const py::handle& item) {
  const std::string name = "jwarp: array " + std::to_string(i);
  if (!py::isinstance<py::array>(item)) throw py::type_error(name + " is not a NumPy array");
  const auto array = py::reinterpret_borrow<py::array>(item);
  if (!(array.flags() & py::array::c_style)) throw py::value_error(name + " is not contiguous");
  if (i >= operand_count_ && !array.writeable()) throw py::value_error(name + " is read-only");
  if (array.size() > 0 && reinterpret_cast<uintptr_t>(array.data()) % array.itemsize() != 0) {
    throw py::value_error(name + " is not aligned to its element size");
  }
  shapes_[i].assign(array.shape(), array.shape() + array.ndim());
  buffers_[i] = {XLA_FFI_Buffer_STRUCT_SIZE,
                 nullptr,
                 dtype_code(array.dtype()),
                 const_cast<void*>(array.data()),
                 static_cast<int64_t>(shapes_[i].size()),
                 shapes_[i].data()};
  pointers_.push_back(&buffers_[i]);
}

}  // namespace jwarp
