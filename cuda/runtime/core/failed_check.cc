// Naming the thread and the batch element of a failed check.
#include "core/failed_check.h"

#include <vector>

#include "core/fault.h"

namespace jwarp {
namespace {

// The coordinates of element `number` of a box, row-major.
std::vector<int64_t> unravel(int64_t number, const int64_t* extents, size_t rank) {
  std::vector<int64_t> result(rank);
  for (size_t k = rank; k-- > 0;) {
    result[k] = number % extents[k];
    number /= extents[k];
  }
  return result;
}

std::string text(const std::vector<int64_t>& numbers) {
  std::string out = "(";
  for (size_t k = 0; k < numbers.size(); ++k) out += (k ? ", " : "") + std::to_string(numbers[k]);
  return out + ")";
}

}  // namespace

void raise_failed_check(const std::string& what, const Layout& layout, int64_t tid_dims, int64_t thread,
                        int64_t item) {
  std::string message = what + ", thread " + text(unravel(thread, layout.symbols.data(), tid_dims));
  if (!layout.batch.empty()) {
    message += ", batch " + text(unravel(item, layout.batch.data(), layout.batch.size()));
  }
  throw Fault(XLA_FFI_Error_Code_FAILED_PRECONDITION, message);
}

}  // namespace jwarp
