// Starting, feeding and joining worker threads, and starting over in a forked child.
#include "cpu/worker_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

#include "cpu/call_pool.h"

namespace jwarp::cpu {
namespace {

// As long as it takes to wake a thread that sleeps: launches that follow each other find their helpers awake.
constexpr auto kLookOut = std::chrono::microseconds(50);

std::atomic<WorkerPool*> current{nullptr};
std::atomic<uint64_t> generation{0};

}  // namespace

// Never destroyed: other threads may launch while the process exits, and a child must not destroy the
// handles of threads that it does not have.
WorkerPool& WorkerPool::instance() {
  static WorkerPool* const first = create();
  WorkerPool* pool = current.load(std::memory_order_acquire);
  return pool != nullptr ? *pool : *first;
}

WorkerPool* WorkerPool::create() {
  current.store(new WorkerPool);
  // The lock is taken around a fork only so that the parent's state is whole; the child drops it.
  pthread_atfork([] { current.load()->mutex_.lock(); }, [] { current.load()->mutex_.unlock(); },
                 [] {
                   current.store(new WorkerPool);
                   generation.fetch_add(1);
                 });
  return current.load();
}

uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

int64_t WorkerPool::threads() { return available_cpus(); }

// Of several threads that launch at once, each is one of the threads that its launch may use.
bool WorkerPool::has_enough_workers() {
  const int64_t wanted = std::max<int64_t>(1, thread_count(*this) - 1);
  return idle_ >= queue_.size() || static_cast<int64_t>(workers_.size()) >= wanted;
}

bool WorkerPool::schedule(Task task, void* data) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return false;
    try {
      queue_.push_back({task, data});
      queued_.store(queue_.size(), std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
      return false;
    }
    try {
      if (!has_enough_workers()) workers_.emplace_back([this] { serve(); });
    } catch (const std::exception&) {
      if (workers_.empty()) {  // no thread to be had: the caller does the work
        queue_.pop_back();
        queued_.store(queue_.size(), std::memory_order_relaxed);
        return false;
      }
    }
  }
  wake_.notify_one();
  return true;
}

void WorkerPool::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    const Item item = queue_.front();
    queue_.pop_front();
    queued_.store(queue_.size(), std::memory_order_relaxed);
    lock.unlock();
    item.task(item.data);
    look_out();
    lock.lock();
  }
}

// Waits a little while for the next task, without sleeping; other processes that want the core get it at once.
void WorkerPool::look_out() const {
  const auto end = std::chrono::steady_clock::now() + kLookOut;
  while (queued_.load(std::memory_order_relaxed) == 0 && std::chrono::steady_clock::now() < end) {
    for (int turn = 0; turn < 16; ++turn) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    std::this_thread::yield();
  }
}

void WorkerPool::stop() {
  std::vector<std::thread> workers;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    workers.swap(workers_);
  }
  wake_.notify_all();
  for (std::thread& worker : workers) worker.join();
}

}  // namespace jwarp::cpu
