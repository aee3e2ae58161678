// Memory that a thread of the pool keeps for what kernels push and log: stacks that grow.
#pragma once

#include <cstdint>

namespace jwarp::cpu {

// The code generator lays out the same structs, see jwarp/wire.py.
struct Tape {
  char* data;
  int64_t top;  // bytes in use
  int64_t capacity;
};

constexpr int64_t kTapes = 65;  // one for records, the others for the logs of arrays

struct Tapes {
  // Gives tape `index` a capacity of at least `needed` bytes; false, and `failed` is set, if there is no memory.
  bool (*grow)(Tapes* self, int64_t index, int64_t needed);
  int64_t failed;
  Tape tapes[kTapes];
};

// Those of the calling thread. They stay for its next kernel, unless they have grown large.
class WorkerTapes {
 public:
  WorkerTapes();
  ~WorkerTapes();  // throws nothing; gives large tapes back
  WorkerTapes(const WorkerTapes&) = delete;
  WorkerTapes& operator=(const WorkerTapes&) = delete;

  Tapes* get() const { return tapes_; }

 private:
  Tapes* tapes_;
};

}  // namespace jwarp::cpu
