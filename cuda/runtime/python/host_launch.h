// Launches on arrays of NumPy that are written in place, on the same arrays again or on others each time.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/launch.h"
#include "cpu/run.h"
#include "xla/ffi/api/c_api.h"

namespace jwarp {

// Which of the arrays of a launch are its operands and results, by number. One that is both is written where it is.
struct Wiring {
  std::vector<int64_t> operands;
  std::vector<int64_t> results;
};

struct BoundArrays;
class SeenArrays;

// A launch without its arrays, for calls that each bring their own.
class HostLaunch {
 public:
  HostLaunch(const std::string& fingerprint, std::string program, const pybind11::buffer& launch,
             std::vector<int64_t> operands, std::vector<int64_t> results);

  // Runs the launch, at the same time as other calls of it. Throws Fault.
  void run(const pybind11::list& arrays);

  // The same on the buffers of its arrays, which are contiguous and aligned and no part of one another but as in the
  // launch that was checked.
  void run_on(XLA_FFI_Buffer* buffers);

 private:
  const std::string program_;
  const Wiring wiring_;
  cpu::CallSite site_;
};

// A launch and its arrays, which it keeps.
class BoundHostLaunch {
 public:
  BoundHostLaunch(std::string fingerprint, std::string program, const pybind11::buffer& launch,
                  const pybind11::sequence& arrays, Wiring wiring);

  // Runs the launch; calls from several threads come one after the other. Throws Fault.
  void run();

  // The two halves of `run`. With the GIL: a look at the arrays, which are noted; they are as long the same as `bound` is
  // and they are as they were seen. And without it: the launch itself, on these.
  void look(SeenArrays& seen);
  const std::shared_ptr<BoundArrays>& bound() const { return bound_; }
  void run_on(BoundArrays& bound);

  // Replaces some arrays, by number, and the launch unless it is None: all of it, or nothing if it throws.
  void replace(const std::vector<std::pair<int64_t, pybind11::array>>& arrays, const pybind11::object& launch);

 private:
  std::shared_ptr<BoundArrays> make(const std::vector<pybind11::array>& arrays, const Launch& launch,
                                    const BoundArrays* before) const;

  const std::string fingerprint_;
  const std::string program_;
  const Wiring wiring_;
  // Only touched with the GIL, so that a running launch keeps what it began with.
  std::shared_ptr<BoundArrays> bound_;
  std::shared_ptr<std::mutex> turn_ = std::make_shared<std::mutex>();
  uint64_t generation_;
};

}  // namespace jwarp
