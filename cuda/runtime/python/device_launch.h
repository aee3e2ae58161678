// Launches on memory of a GPU that the caller names, without XLA.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/run.h"

namespace jwarp::gpu {

// A launch without its arrays, for calls that each bring their own.
class DeviceLaunch {
 public:
  DeviceLaunch(const std::string& kernel, const std::string& entry, const pybind11::bytes& image,
               const pybind11::buffer& plan, const pybind11::buffer& launch, int64_t block, int64_t shared,
               int64_t per_sm, std::vector<int64_t> grid, const std::string& failures);

  // Puts the launch on a stream; see the text in gpu_bindings.cc. Throws Fault.
  void run(const pybind11::sequence& arguments, uintptr_t stream, Device device, const pybind11::object& keep);

 private:
  const std::string name_;
  CallSite site_;
};

}  // namespace jwarp::gpu
