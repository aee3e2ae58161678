// The Python function that compiles a kernel which a launch needs and the table lacks.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "run.h"

namespace jwarp {

// Called as callback(fingerprint, program, "fast" or "checked"), with the GIL; None removes it.
void set_compiler(pybind11::object callback);

// The kernel of that fingerprint, compiled now if the table lacks it. Throws Fault.
Kernel& require_kernel(const std::string& fingerprint, std::string_view program);

// Compiles a version that a launch of the kernel needs. Throws Fault.
void require_version(Kernel& kernel, std::string_view program, Version version);

// Runs the call, compiling what it lacks. `program` is a function, because it is rarely needed.
template <typename Program>
void run_compiling(CallSite& site, const Buffers& buffers, Pool& pool, Program program) {
  while (const auto missing = site.run(buffers, pool)) require_version(site.kernel(), program(), *missing);
}

}  // namespace jwarp
