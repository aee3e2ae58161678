// Asking the system for large pages, and touching them.
#include "cpu/pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace jwarp::cpu {

#if defined(__linux__) && defined(MADV_HUGEPAGE)

namespace {

constexpr int64_t kPage = int64_t{2} << 20;
constexpr int64_t kWorthACall = 4 * kPage;

void touch_pages(const void* pages, int64_t begin, int64_t end) {
  volatile char* const bytes = static_cast<char*>(const_cast<void*>(pages));
  for (int64_t page = begin; page < end; ++page) bytes[page * kPage] = 0;
}

}  // namespace

void prepare_pages(void* data, int64_t bytes, Pool& pool) {
  if (bytes < kWorthACall) return;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const int64_t skipped = -static_cast<int64_t>(address) & (kPage - 1);
  const int64_t pages = (bytes - skipped) / kPage;
  void* const first = static_cast<char*>(data) + skipped;
  if (madvise(first, pages * kPage, MADV_HUGEPAGE) != 0) return;
  share(pool, thread_count(pool) - 1, 0, pages, Claims{}, touch_pages, first);
}

#else

void prepare_pages(void*, int64_t, Pool&) {}

#endif

}  // namespace jwarp::cpu
