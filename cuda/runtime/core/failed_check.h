// The error that a failed check of a kernel becomes.
#pragma once

#include <cstdint>
#include <string>

#include "core/layout.h"

namespace jwarp {

// Throws the Fault that `what` went wrong in a thread, counted through the launch dimensions, of a batch element.
[[noreturn]] void raise_failed_check(const std::string& what, const Layout& layout, int64_t tid_dims, int64_t thread,
                                     int64_t item);

}  // namespace jwarp
