// Sharing a range of independent work with the threads of a pool.
#pragma once

#include <cstdint>

namespace jwarp::cpu {

// Where helpers come from: XLA's own pool, or threads of a call outside XLA.
class Pool {
 public:
  using Task = void (*)(void*);

  virtual ~Pool() = default;
  virtual int64_t threads() = 0;
  // False when the task was not taken; it will then never run.
  virtual bool schedule(Task task, void* data) = 0;
};

// Does [begin, end) of some work. May run on any thread, several at once on disjoint ranges.
using Body = void (*)(const void* context, int64_t begin, int64_t end);

// How much of the work a thread takes at a time: of what is left a part, but at least and at most so much.
struct Claims {
  int64_t least = 1;
  int64_t most = 1;
};

// Runs body over [begin, end) in claims, on this thread and at most `helpers` others, and returns when
// all of it is done. Throws what the body threw; of several exceptions, the first.
void share(Pool& pool, int64_t helpers, int64_t begin, int64_t end, Claims claims, Body body, const void* context);

// The number of threads that work is shared over; 0 means as many as the pool has. With `eager`, work
// is shared from its start, however short it may be.
void set_thread_limit(int64_t limit, bool eager);
int64_t thread_count(Pool& pool);
bool shares_eagerly();

}  // namespace jwarp::cpu
