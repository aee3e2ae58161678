// The calling convention between this module and compiled kernels.
#pragma once

#include <cstdint>

#include "cpu/tape.h"

namespace jwarp::cpu {

// One rectangle of threads of one batch element. The code generator lays out the same struct, see jwarp/wire.py.
struct Frame {
  void* const* operands;   // one data pointer per kernel parameter
  const int64_t* symbols;  // launch dimensions, extents and integer scalars, in the order of Plan
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t column_begin = 0;
  int64_t column_end = 0;
  uint64_t fill;  // bit p: the kernel itself zeroes the elements of parameter p that it visits
  int64_t first_thread;  // number of thread (0, 0) of this batch element, in this repeat of the launch
  Tapes* tapes;
  // Where a check failed first, after which the entry returns. Site 0: none did.
  int64_t failed_site = 0;
  int64_t failed_row = 0;
  int64_t failed_column = 0;
};

using Entry = void (*)(Frame*);

// `fast` relies on all clauses of the plan, `checked` on none.
enum class Version { kFast, kChecked };

}  // namespace jwarp::cpu
