// Functions of the module that are called so often that pybind11's way to them counts.
#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>

#include <exception>
#include <new>

#include "core/fault.h"
#include "python/errors.h"

namespace jwarp {

// The result of a C function for Python: the result of `call`, or no object and the error that it threw.
template <typename Call>
PyObject* raw_call(const Call& call) noexcept {
  try {
    return call();
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const Fault& fault) {
    set_error(fault);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace jwarp
