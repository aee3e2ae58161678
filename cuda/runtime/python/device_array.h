// Arrays of other libraries in the memory of a GPU, borrowed through DLPack.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jwarp::gpu {

// The reason why the description in a capsule of DLPack contradicts itself; empty if there can be such an array, or if the
// capsule is of a version that is not known.
std::string dlpack_contradiction(const pybind11::object& capsule);

// Keeps the memory from being freed as long as it lives.
class DeviceArray {
 public:
  // Takes the capsule over. Throws a Python exception for one that is no array on a CUDA device.
  explicit DeviceArray(const pybind11::object& capsule);
  ~DeviceArray() { release_(managed_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  uintptr_t address() const { return address_; }
  int32_t device() const { return device_; }
  int64_t dtype() const { return dtype_; }
  bool read_only() const { return read_only_; }
  pybind11::tuple shape() const { return pybind11::tuple(pybind11::cast(shape_)); }
  pybind11::tuple strides() const { return pybind11::tuple(pybind11::cast(strides_)); }

 private:
  void* managed_;
  void (*release_)(void* managed);
  uintptr_t address_;
  int32_t device_;
  int64_t dtype_;
  bool read_only_;
  std::vector<int64_t> shape_, strides_;
};

// Memory of a CUDA device that is lent to another library, which keeps `owner` until it is done. `kind` and `bits` are
// DLPack's; strides count elements.
struct Lent {
  uintptr_t address;
  int32_t device;
  uint8_t kind, bits;
  std::vector<int64_t> shape, strides;
  pybind11::object owner;
};

// The capsule of DLPack's for it, of version 1 or, if not `versioned`, 0.
pybind11::object lend(const Lent& lent, bool versioned);

}  // namespace jwarp::gpu
