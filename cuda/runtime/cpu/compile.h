// Compiling what a launch needs and the table of kernels lacks.
#pragma once

#include <string>
#include <string_view>

#include "cpu/run.h"

namespace jwarp::cpu {

// Compiles a version of a kernel and registers it with the table, on any thread. Throws Fault.
using Compile = void (*)(const std::string& fingerprint, std::string_view program, Version version);

// Done once, before the first launch.
void set_compile(Compile chosen);

// The kernel of that fingerprint, compiled now if the table lacks it. Throws Fault.
Kernel& require_kernel(const std::string& fingerprint, std::string_view program);

// Compiles a version that a launch of the kernel needs. Throws Fault.
void require_version(Kernel& kernel, std::string_view program, Version version);

// Runs the call, compiling what it lacks. `program` is a function, because it is rarely needed.
template <typename Program>
void run_compiling(FixedCall& call, Kernel& kernel, Pool& pool, Program program) {
  while (const auto missing = call.run(pool)) require_version(kernel, program(), *missing);
}

template <typename Program>
void run_compiling(CallSite& site, const Buffers& buffers, Pool& pool, Program program) {
  while (const auto missing = site.run(buffers, pool)) require_version(site.kernel(), program(), *missing);
}

}  // namespace jwarp::cpu
