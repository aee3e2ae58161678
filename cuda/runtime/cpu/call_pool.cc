// Starting and joining the threads of one call.
#include "cpu/call_pool.h"

#include <sched.h>

#include <algorithm>
#include <exception>

namespace jwarp::cpu {

CallPool::~CallPool() {
  for (std::thread& thread : started_) thread.join();
}

bool CallPool::schedule(Task task, void* data) {
  try {
    started_.emplace_back(task, data);
    return true;
  } catch (const std::exception&) {
    return false;  // no more threads to be had: the caller does the work
  }
}

int64_t available_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace jwarp::cpu
