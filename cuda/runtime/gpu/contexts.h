// The process's knowledge of each CUDA context that it launches in.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/driver.h"

namespace jwarp::gpu {

// A context and its device. Never freed: call sites point at it.
struct DeviceContext {
  DeviceContext(Context of_context, Device of_device, int64_t count)
      : context(of_context), device(of_device), multiprocessors(count) {}

  const Context context;
  const Device device;
  const int64_t multiprocessors;

  // Words of device memory in which kernels note failed checks. Each run has its own while it lasts.
  Address take_word(const Driver& driver, const std::string& who);
  void give_word(Address word);

  // Has the driver keep so many bytes for what threads allocate, or as many as it can. It refuses once a kernel that
  // allocates has run: then what it keeps stays.
  void enlarge_heap(const Driver& driver, int64_t bytes);

 private:
  std::mutex mutex_;
  std::vector<Address> words_;
  int64_t heap_ = 0;
};

// That of the context, which is current. Throws Fault.
DeviceContext& device_context(Context context, const std::string& who);

}  // namespace jwarp::gpu
