// Large pages for large outputs.
#pragma once

#include <cstdint>

namespace jwarp {

// Asks the system to back a fresh buffer with huge pages, where it is large enough to matter. XLA takes
// large outputs straight from the system, and with small pages the first writes to them cost more than
// most kernels: 27 ms against 10 ms for 64 MB. Only advice: nothing depends on it.
void prefer_huge_pages(void* data, int64_t bytes);

}  // namespace jwarp
