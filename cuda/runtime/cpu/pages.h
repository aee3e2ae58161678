// Large pages for large outputs.
#pragma once

#include <cstdint>

#include "cpu/share.h"

namespace jwarp::cpu {

// Asks the system to back a fresh buffer with huge pages, where it is large enough to matter, and takes
// them. XLA gets large outputs straight from the system, and with small pages the first writes to them
// cost more than most kernels: 27 ms against 10 ms for 64 MB. Each page is touched by one thread: where
// two meet in a new page, both fill it with zeros, one of them in vain. The buffer's content is lost.
void prepare_pages(void* data, int64_t bytes, Pool& pool);

}  // namespace jwarp::cpu
