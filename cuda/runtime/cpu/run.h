// Running a launch on the CPU.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "core/launch.h"
#include "cpu/layout.h"
#include "cpu/share.h"
#include "cpu/table.h"

namespace jwarp::cpu {

// One launch of one kernel, run any number of times, also by several threads at once.
class CallSite {
 public:
  CallSite(Kernel& kernel, Launch launch) : kernel_(kernel), launch_(std::move(launch)) {}
  ~CallSite() { delete cached_.load(); }
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  Kernel& kernel() const { return kernel_; }
  const Launch& launch() const { return launch_; }

  // Runs the launch. When a version that it needs is not compiled, nothing is done and that version is
  // returned: compile it and call again. Throws Fault when the buffers do not suit the launch.
  std::optional<Version> run(const Buffers& buffers, Pool& pool);

 private:
  friend class FixedCall;

  const CpuLayout& fit(const Buffers& buffers, std::unique_ptr<CpuLayout>& own);

  // `prepare` gives results their initial contents, once nothing is missing.
  template <typename Prepare>
  std::optional<Version> run_on(const CpuLayout& layout, void* const* base, Pool& pool, Prepare prepare);

  Kernel& kernel_;
  const Launch launch_;
  // Under XLA the shapes of a call site never change, so they are checked and laid out once.
  std::atomic<CpuLayout*> cached_{nullptr};
  std::atomic<double> granule_time_{0};  // nanoseconds, in the last launch that was shared
};

// A launch whose buffers stay where they are and have their shapes: it is laid out once.
class FixedCall {
 public:
  // Throws Fault when the buffers do not suit the launch. The site is alive as long as this.
  FixedCall(CallSite& site, const Buffers& buffers, Pool& pool);

  // As CallSite::run.
  std::optional<Version> run(Pool& pool);

 private:
  // What a result starts as: the bytes of `source`, or zeros where that is null.
  struct Start {
    void* target;
    const void* source;
    int64_t bytes;
  };

  CallSite& site_;
  std::unique_ptr<CpuLayout> own_;
  const CpuLayout& layout_;
  std::vector<void*> base_;
  std::vector<Start> starts_;
};

}  // namespace jwarp::cpu
