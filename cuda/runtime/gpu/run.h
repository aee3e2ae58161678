// Running a launch on a GPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/driver.h"
#include "gpu/images.h"
#include "gpu/layout.h"

namespace jwarp::gpu {

// The code of a launch, as its custom call describes it.
struct Code {
  std::string kernel;      // the user's name for it
  std::string_view entry;  // its symbol in the image
  std::string_view image;  // a cubin or a fatbin
  int64_t block;           // threads of a block
  int64_t shared;          // bytes of dynamic shared memory
  int64_t per_sm;          // blocks for each multiprocessor at most; 0 for as many as the threads need
  // Empty; or how many threads of the launch a block runs, if not one with each of its own; or x and y of a
  // handwritten kernel, whose z are batch elements.
  std::vector<int64_t> grid;
  std::string_view failures;  // what its checks at site 1, 2, … say, each but the last ended by "\0"
  int64_t heap = 0;           // bytes that its threads may want of the device's heap; calls of before have none
};

struct DeviceContext;

// One launch of one kernel, run any number of times, on any devices, also by several threads at once.
class CallSite {
 public:
  // With `checks`, every run waits for its end and throws if a check failed.
  CallSite(const Code& code, Plan plan, Launch launch, bool checks);
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  const Launch& launch() const { return launch_; }
  bool has_checks() const { return checks_; }

  // Loads the kernel. Throws Fault, as all of these.
  void load();

  // Makes the kernel ready on the stream's device.
  void set_up(Stream stream);

  // Puts the launch on the stream.
  void run(const Buffers& buffers, Stream stream);

 private:
  // A device where the kernel is ready. Listed, so that a run finds it without a lock.
  struct Ready {
    DeviceContext* where;
    Ready* next;
  };

  // Does what `call` does, with the kernel and its place in errors of the device.
  template <typename Call>
  void placed(const Call& call) const;
  void put(const Buffers& buffers, Stream stream);
  DeviceContext& ready_on(Context context);
  const GpuLayout& fit(const Buffers& buffers, std::unique_ptr<GpuLayout>& own);
  void set_initial_contents(const GpuLayout& layout, const Buffers& buffers, Stream stream) const;
  void launch_all(const GpuLayout& layout, const Buffers& buffers, DeviceContext& where, Stream stream) const;
  void check_failure(const GpuLayout& layout, int64_t number, Address noted, Stream stream) const;

  const std::string who_;  // "kernel 'name'", which errors are about
  LoadedKernel& kernel_;
  const int64_t block_, shared_, per_sm_, heap_;
  const std::vector<int64_t> grid_;
  const std::vector<std::string> failures_;
  const bool checks_;
  const Plan plan_;
  const Launch launch_;
  std::atomic<Ready*> ready_{nullptr};
  // Under XLA the shapes of a call site never change, so they are checked and laid out once.
  std::atomic<GpuLayout*> cached_{nullptr};
};

}  // namespace jwarp::gpu
