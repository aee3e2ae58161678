// Launches, copies and fills on a GPU as one CUDA graph.
#pragma once

#include <cstdint>

#include "gpu/driver.h"

namespace jwarp::gpu {

// Work on a stream between `begin` and `end` does not run; `launch` runs all of it, any number of times. The
// memory that it works on, and the launches themselves, are the caller's to keep.
class DeviceGraph {
 public:
  explicit DeviceGraph(Device device) : device_(device) {}
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  // The stream that takes what is put on it. Throws Fault, as all of these.
  uintptr_t begin();
  void end();
  // Runs it after what is on a stream of the device.
  void launch(uintptr_t stream) const;

 private:
  // Gives back the stream, and what it has taken.
  void forget(const Driver& cuda);

  const Device device_;
  Stream stream_ = nullptr;
  GraphExec ready_ = nullptr;
};

}  // namespace jwarp::gpu
