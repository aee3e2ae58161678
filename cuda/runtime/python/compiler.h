// The Python function that compiles a kernel which a launch needs and the table lacks.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "cpu/entry.h"

namespace jwarp {

// Called as callback(fingerprint, program, "fast" or "checked"), with the GIL; None removes it.
void set_compiler(pybind11::object callback);

// Calls it, from any thread. Throws Fault for what it raises.
void call_compiler(const std::string& fingerprint, std::string_view program, cpu::Version version);

}  // namespace jwarp
