// Threads that one call outside XLA starts and joins.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "cpu/share.h"

namespace jwarp::cpu {

// Threads of one call, started when they are first needed and joined when it ends.
class CallPool final : public Pool {
 public:
  explicit CallPool(int64_t threads) : threads_(threads) {}
  ~CallPool() override;

  int64_t threads() override { return threads_; }
  bool schedule(Task task, void* data) override;

 private:
  int64_t threads_;
  std::vector<std::thread> started_;
};

// The processors that this process may run on.
int64_t available_cpus();

}  // namespace jwarp::cpu
