// Memory in the order of a stream: what was put on the stream before may still use it after it is given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/driver.h"

namespace jwarp::gpu {

class StreamMemory {
 public:
  StreamMemory(const Driver& driver, int64_t bytes, Stream stream, const std::string& who)
      : driver_(driver), stream_(stream) {
    if (bytes == 0) return;
    driver.check(driver.memory_alloc_on(&address_, static_cast<size_t>(bytes), stream), "cuMemAllocAsync", who);
  }
  ~StreamMemory() {
    if (address_ != 0) driver_.memory_free_on(address_, stream_);
  }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  Address get() const { return address_; }

 private:
  const Driver& driver_;
  const Stream stream_;
  Address address_ = 0;
};

}  // namespace jwarp::gpu
