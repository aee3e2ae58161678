// A job: every worker draws from a part of its own, in claims that get smaller, and then from those of others.
#include "cpu/share.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace jwarp::cpu {
namespace {

constexpr int64_t kClaimsLeft = 4;  // of a part, were its rest claimed in equal pieces

std::atomic<int64_t> thread_limit{0};
std::atomic<bool> eager_sharing{false};

// On a cache line of its own, as one worker mostly draws from it.
struct alignas(64) Part {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Job {
  std::vector<Part> parts;  // one for each worker: neighbours are done by the same thread, in this launch and the next
  std::atomic<size_t> workers{0};  // that have begun
  std::atomic<int64_t> pending;
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // what was thrown first; whole once nothing is pending
  Claims claims;
  Body body;
  const void* context;  // on the caller's stack: only valid for who has claimed a chunk
};

// Claims [begin, end): the less is left, the less is taken, so that all workers end together.
bool claim(Part& part, const Claims& claims, int64_t& begin, int64_t& end) {
  begin = part.next.load(std::memory_order_relaxed);
  do {
    if (begin >= part.end) return false;
    const int64_t rest = part.end - begin;
    end = begin + std::min(rest, std::clamp(rest / kClaimsLeft, claims.least, claims.most));
  } while (!part.next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return true;
}

// Claims of the own part, and then of the one of which most is left.
bool claim(Job& job, size_t own, int64_t& begin, int64_t& end) {
  if (claim(job.parts[own], job.claims, begin, end)) return true;
  for (;;) {
    Part* most = nullptr;
    int64_t rest = 0;
    for (Part& part : job.parts) {
      const int64_t left = part.end - part.next.load(std::memory_order_relaxed);
      if (left > rest) most = &part, rest = left;
    }
    if (most == nullptr) return false;
    if (claim(*most, job.claims, begin, end)) return true;
  }
}

void work(Job& job) {
  const size_t own = job.workers.fetch_add(1, std::memory_order_relaxed);
  for (int64_t begin, end; claim(job, own, begin, end);) {
    try {
      job.body(job.context, begin, end);
    } catch (...) {
      if (!job.failed.exchange(true, std::memory_order_relaxed)) job.error = std::current_exception();
    }
    job.pending.fetch_sub(end - begin, std::memory_order_acq_rel);
  }
}

// A helper that comes late finds no chunk left; it shares ownership of the job, so that it may.
void help(void* data) {
  const std::unique_ptr<std::shared_ptr<Job>> job(static_cast<std::shared_ptr<Job>*>(data));
  work(**job);
}

// Only chunks that a helper has already claimed are waited for, so this ends even when every thread
// of the pool is itself waiting here.
void wait(const Job& job) {
  constexpr int kSpins = 2000;
  constexpr int kYields = 200;
  for (int turn = 0; job.pending.load(std::memory_order_acquire) > 0; ++turn) {
    if (turn < kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (turn < kSpins + kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace

void share(Pool& pool, int64_t helpers, int64_t begin, int64_t end, Claims claims, Body body, const void* context) {
  claims.least = std::max<int64_t>(1, claims.least);
  claims.most = std::max(claims.least, claims.most);
  const auto job = std::make_shared<Job>();
  job->pending.store(end - begin);
  job->claims = claims;
  job->body = body;
  job->context = context;

  helpers = std::max<int64_t>(0, std::min(helpers, (end - begin - 1) / claims.least));
  job->parts = std::vector<Part>(helpers + 1);
  for (int64_t w = 0; w <= helpers; ++w) {
    job->parts[w].next.store(begin + (end - begin) / (helpers + 1) * w);
    job->parts[w].end = w == helpers ? end : begin + (end - begin) / (helpers + 1) * (w + 1);
  }
  for (int64_t h = 0; h < helpers; ++h) {
    // Helpers that have begun use the context, so that nothing may be thrown before all is done.
    std::unique_ptr<std::shared_ptr<Job>> reference(new (std::nothrow) std::shared_ptr<Job>(job));
    if (reference == nullptr || !pool.schedule(help, reference.get())) break;
    reference.release();
  }
  work(*job);
  wait(*job);
  if (job->error) std::rethrow_exception(job->error);
}

void set_thread_limit(int64_t limit, bool eager) {
  thread_limit.store(limit);
  eager_sharing.store(eager);
}

int64_t thread_count(Pool& pool) {
  const int64_t limit = thread_limit.load(std::memory_order_relaxed);
  return limit > 0 ? limit : pool.threads();
}

bool shares_eagerly() { return eager_sharing.load(std::memory_order_relaxed); }

}  // namespace jwarp::cpu
