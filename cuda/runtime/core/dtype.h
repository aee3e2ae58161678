// The element types that kernels know, by XLA's codes.
#pragma once

#include <cstdint>
#include <cstring>

#include "xla/ffi/api/c_api.h"

namespace jwarp {

// Bytes per element; 0 for a type that kernels do not know.
inline int64_t item_size(int64_t dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_PRED:
    case XLA_FFI_DataType_S8:
    case XLA_FFI_DataType_U8:
      return 1;
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_F16:
    case XLA_FFI_DataType_BF16:
      return 2;
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
    case XLA_FFI_DataType_F32:
      return 4;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
    case XLA_FFI_DataType_F64:
      return 8;
    default:
      return 0;
  }
}

// Integers whose every value fits in 64 signed bits, so that clauses can compute with them.
inline bool is_symbol_type(int64_t dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_S8:
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U8:
    case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_U32:
      return true;
    default:
      return false;
  }
}

template <typename T>
int64_t read_as(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return static_cast<int64_t>(value);
}

// The value at `data`, of a type for which is_symbol_type holds.
inline int64_t read_symbol(int64_t dtype, const void* data) {
  switch (dtype) {
    case XLA_FFI_DataType_S8:
      return read_as<int8_t>(data);
    case XLA_FFI_DataType_S16:
      return read_as<int16_t>(data);
    case XLA_FFI_DataType_S32:
      return read_as<int32_t>(data);
    case XLA_FFI_DataType_U8:
      return read_as<uint8_t>(data);
    case XLA_FFI_DataType_U16:
      return read_as<uint16_t>(data);
    case XLA_FFI_DataType_U32:
      return read_as<uint32_t>(data);
    default:
      return read_as<int64_t>(data);
  }
}

}  // namespace jwarp
