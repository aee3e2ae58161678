// Large pages for large outputs.
#include "pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace jwarp {

void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr int64_t kWorthACall = int64_t{8} << 20;
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  if (bytes < kWorthACall) return;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) & ~(kPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) & ~(kPage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace jwarp
