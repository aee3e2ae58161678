// Which exception a fault is.
#include "python/errors.h"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace jwarp {

void set_error(const Fault& fault) noexcept {
  const bool is_argument = fault.code() == XLA_FFI_Error_Code_INVALID_ARGUMENT;
  const auto* const of_device = dynamic_cast<const DeviceFault*>(&fault);
  if (of_device == nullptr) {
    PyErr_SetString(is_argument ? PyExc_ValueError : PyExc_RuntimeError, fault.what());
    return;
  }
  try {
    const DeviceFault::Parts& parts = of_device->parts();
    const py::object made = py::module_::import("jwarp.devices")
                                .attr("as_error")(parts.who, parts.text, parts.hint, parts.is_of_code);
    PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
  } catch (py::error_already_set& error) {
    error.restore();
  }
}

}  // namespace jwarp
