// The compiler of kernels, and whether it has done what it was called for.
#include "cpu/compile.h"

#include "core/fault.h"

namespace jwarp::cpu {
namespace {

Compile compile = nullptr;

}  // namespace

void set_compile(Compile chosen) { compile = chosen; }

Kernel& require_kernel(const std::string& fingerprint, std::string_view program) {
  if (Kernel* kernel = find_kernel(fingerprint)) return *kernel;
  compile(fingerprint, program, Version::kFast);
  if (Kernel* kernel = find_kernel(fingerprint)) return *kernel;
  throw Fault(XLA_FFI_Error_Code_INTERNAL, "the compiler did not register kernel " + fingerprint);
}

void require_version(Kernel& kernel, std::string_view program, Version version) {
  compile(kernel.fingerprint, program, version);
  if (kernel.entry(version).load() != nullptr) return;
  throw Fault(XLA_FFI_Error_Code_INTERNAL,
              "the compiler did not register the needed version of kernel " + kernel.fingerprint);
}

}  // namespace jwarp::cpu
