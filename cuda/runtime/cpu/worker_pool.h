// Threads that are kept for launches outside XLA.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/share.h"

namespace jwarp::cpu {

// Started when work is first shared, as many as there are processors besides the caller's, and kept.
class WorkerPool final : public Pool {
 public:
  // That of this process. A forked child has one of its own, whose threads start anew.
  static WorkerPool& instance();

  int64_t threads() override;
  bool schedule(Task task, void* data) override;

  // Lets the threads finish what they have and joins them; from then on nothing is scheduled.
  void stop();

 private:
  struct Item {
    Task task;
    void* data;
  };

  static WorkerPool* create();
  bool has_enough_workers();
  void serve();
  void look_out() const;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;
  std::atomic<size_t> queued_{0};  // the queue's size, for those that look without the lock
  std::vector<std::thread> workers_;
  size_t idle_ = 0;
  bool stopped_ = false;
};

// Differs between a process and its forked children, and stays the same within each.
uint64_t fork_generation();

}  // namespace jwarp::cpu
