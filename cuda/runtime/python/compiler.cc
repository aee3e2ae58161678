// Calling back into Python to compile, from any thread.
#include "python/compiler.h"

#include <utility>

#include "core/fault.h"

namespace jwarp {
namespace {

namespace py = pybind11;

// Read and written with the GIL only, and never freed: the interpreter may be gone by then.
py::object* compiler = nullptr;

bool interpreter_is_gone() {
#if PY_VERSION_HEX >= 0x030d0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

std::string describe(py::error_already_set& error) {
  return py::str(error.type().attr("__name__")).cast<std::string>() + ": " +
         py::str(error.value()).cast<std::string>();
}

}  // namespace

void call_compiler(const std::string& fingerprint, std::string_view program, cpu::Version version) {
  if (interpreter_is_gone()) {
    throw Fault(XLA_FFI_Error_Code_UNAVAILABLE, "kernel " + fingerprint +
                                                    " is not compiled and Python is shutting down");
  }
  const py::gil_scoped_acquire gil;
  if (compiler == nullptr || compiler->is_none()) {
    throw Fault(XLA_FFI_Error_Code_NOT_FOUND, "kernel " + fingerprint +
                                                  " is not compiled in this process, and nothing is set to "
                                                  "compile it; import jwarp first");
  }
  try {
    const py::object callback = *compiler;
    callback(py::str(fingerprint), py::bytes(program.data(), program.size()),
             py::str(version == cpu::Version::kFast ? "fast" : "checked"));
  } catch (py::error_already_set& error) {
    std::string text = "kernel " + fingerprint + " could not be compiled";
    try {
      text = describe(error);
    } catch (const std::exception&) {
      // An exception that cannot be printed: keep the plain text.
    }
    throw Fault(XLA_FFI_Error_Code_INTERNAL, text);
  }
}

void set_compiler(py::object callback) {
  if (compiler == nullptr) compiler = new py::object();
  *compiler = std::move(callback);
}

}  // namespace jwarp
