// Grows and gives back the stacks that kernels push to.
#include "cpu/tape.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace jwarp::cpu {
namespace {

constexpr int64_t kKept = int64_t{4} << 20;  // a tape of more bytes is given back after the kernel

const int64_t kPhysicalMemory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);

void note_growth();

bool grow(Tapes* self, int64_t index, int64_t needed) {
  if (index < 0 || index >= kTapes) return false;
  Tape& tape = self->tapes[index];
  if (needed <= tape.capacity) return true;
  // An allocation may succeed for more than there is; using it would end the process.
  const int64_t capacity = std::min(std::max(needed, 2 * tape.capacity), kPhysicalMemory);
  void* data = capacity < needed ? nullptr : std::realloc(tape.data, capacity);
  if (data == nullptr) {
    self->failed = 1;
    return false;
  }
  tape.data = static_cast<char*>(data);
  tape.capacity = capacity;
  note_growth();
  return true;
}

struct Owner {
  Tapes tapes{grow, 0, {}};
  bool has_grown = false;  // since it was last looked at

  ~Owner() {
    for (Tape& tape : tapes.tapes) std::free(tape.data);
  }
};

thread_local Owner owner;

// Kernels run on the thread whose tapes they have.
void note_growth() { owner.has_grown = true; }

}  // namespace

// A worker runs one kernel at a time, so its tapes are free here.
WorkerTapes::WorkerTapes() : tapes_(&owner.tapes) { tapes_->failed = 0; }

WorkerTapes::~WorkerTapes() {
  if (!owner.has_grown) return;
  owner.has_grown = false;
  for (Tape& tape : tapes_->tapes) {
    if (tape.capacity <= kKept) continue;
    std::free(tape.data);
    tape = {};
  }
}

}  // namespace jwarp::cpu
