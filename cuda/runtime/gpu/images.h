// The images of compiled kernels that the process has loaded, by content; they stay until it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "gpu/driver.h"

namespace jwarp::gpu {

struct Image;

// A kernel in an image. Unloading one might end the capture of a CUDA graph on another thread, so nothing
// is ever unloaded.
class LoadedKernel {
 public:
  LoadedKernel(Image& image, std::string symbol) : image_(image), symbol_(std::move(symbol)) {}

  // Loads the image, for all devices, unless it is loaded. Neither a stream nor a context is needed.
  // Errors speak of `who` needs it.
  void load(const std::string& who);

  // Makes the kernel ready on the device of the current context, for blocks with so much dynamic shared
  // memory; driver calls are made only where that has not been done before.
  void set_up(Device device, int64_t shared, const std::string& who);

  // Where it is written, as "file:line"; empty where this process has not lowered it.
  std::string place() const;

  // Null before it is loaded.
  DriverKernel handle() const { return handle_.load(std::memory_order_acquire); }

 private:
  void allow_shared(const Driver& driver, Device device, int64_t shared, const std::string& who) const;

  Image& image_;
  const std::string symbol_;
  std::atomic<DriverKernel> handle_{nullptr};
  std::map<Device, int64_t> shared_;  // of the devices where it is ready
};

// Throws what to do about a call whose parts are not those that were written.
[[noreturn]] void damaged(const std::string& who, const std::string& text);

// The kernel of that symbol in an image of that content. Throws Fault for an image that is damaged.
LoadedKernel& find_kernel(std::string_view image, std::string_view symbol, const std::string& who);

}  // namespace jwarp::gpu
