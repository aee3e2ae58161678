// Faults as exceptions of Python's.
#pragma once

#include "core/fault.h"

namespace jwarp {

// Sets the exception for a fault: ValueError for an argument, one of jwarp's own for a device, else RuntimeError.
void set_error(const Fault& fault) noexcept;

}  // namespace jwarp
