// Launches on memory of a GPU that the caller names, without XLA.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/driver.h"
#include "gpu/run.h"

namespace jwarp::gpu {

// A launch without its arrays, for calls that each bring their own.
class DeviceLaunch {
 public:
  DeviceLaunch(const std::string& kernel, const std::string& entry, const pybind11::bytes& image,
               const pybind11::buffer& plan, const pybind11::buffer& launch, int64_t block, int64_t shared,
               int64_t per_sm, std::vector<int64_t> grid, const std::string& failures, int64_t heap);

  // True if checks make each run wait for its end.
  bool has_checks() const { return site_.has_checks(); }

  // Puts the launch on a stream; see the text in gpu_bindings.cc. Throws Fault.
  void run(const pybind11::sequence& arguments, uintptr_t stream, Device device, const pybind11::object& keep);

 private:
  const std::string who_;
  CallSite site_;
};

// Memory of a device for launches on one stream. When it goes, what was put on the stream before may still use it.
class DeviceMemory {
 public:
  // Messages speak of `who` needs it. Throws Fault.
  DeviceMemory(int64_t bytes, uintptr_t stream, Device device, std::string who);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  uintptr_t address() const { return address_; }

  // Copies bytes within the device's memory, in the order of the stream. Without a source they are set to zero.
  void fill(uintptr_t target, uintptr_t source, int64_t bytes) const;
  // Sets `count` elements of 1, 2 or 4 bytes to a pattern, in the order of the stream.
  void set(uintptr_t target, uint32_t pattern, int64_t width, int64_t count) const;
  // Copies bytes from and to memory of this computer, after what is on the stream; both have ended on return.
  void upload(uintptr_t target, const pybind11::buffer& source) const;
  void download(const pybind11::buffer& target, uintptr_t source) const;
  // Waits for all that is on the stream.
  void wait() const;

 private:
  const std::string who_;
  const Stream stream_;
  const Device device_;
  Address address_ = 0;
};

}  // namespace jwarp::gpu
